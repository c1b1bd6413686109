import pytest
from asking import found, linted, slugs
from parts import profiles
from parts.dryruns import CALL, STEP
from parts.dryruns import notes as run_notes
from parts.dryruns import slugs as run_slugs


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: called a synchronizing CUDA operation (Triggered internally at "
        "../c10/cuda/CUDAFunctions.cpp:149.)",
        "WARNING:tensorflow:Callback method `on_train_batch_end` is slow compared to the batch time (batch "
        "time: 0.0061s vs `on_train_batch_end` time: 0.1270s). Check your callbacks.",
        "aten::item         12.3%      1.2s   55.10%",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "sync-in-hot-loop"


def test_a_trace_that_runs_dry_after_each_wait() -> None:
    finding = found("sync-in-hot-loop", profiles.text(profiles.kineto(sync=1, kernel=30, stacks=True)))
    assert finding
    assert (finding.values["operator"], finding.values["where"], finding.values["each"]) == ("aten::item", "train.py(45): step", "60")


def test_one_wait_in_a_step_is_fine_in_a_trace() -> None:
    assert found("sync-in-hot-loop", profiles.text(profiles.kineto(sync=60))) is None


class TestDryRun:
    def test_many_waits_a_step_are_a_warning(self) -> None:
        assert run_slugs(syncs=[{"place": CALL, "kind": "item", "count": 90}]) == ["sync-in-hot-loop"]

    def test_reading_the_loss_is_a_note(self) -> None:
        syncs = [{"place": STEP, "kind": "item", "count": 3}]
        assert run_slugs(syncs=syncs) == []
        assert run_notes(syncs=syncs) == ["sync-in-hot-loop"]

    def test_now_and_then_is_nothing(self) -> None:
        assert run_notes(syncs=[{"place": STEP, "kind": "item", "count": 1}]) == []

    def test_the_waits_of_a_librarys_loop_are_not_the_users(self) -> None:
        windows = [{"backwards": 1, "step_place": CALL, "backward_place": CALL}]
        assert run_slugs(syncs=[{"place": CALL, "kind": "cpu", "count": 90}], accumulation={"windows": windows}) == []


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    history.append(loss.item())
    if step % 10 == 0:
        print(history[-1])
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    torch.cuda.empty_cache()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    out = model(torch.ones(8, 4, device=device))
    loss = out.mean()
    loss.backward()
    opt.step()
    print(out.max(), out.min().item(), float(loss), out.std().cpu())
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "sync-in-hot-loop" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(loss.item())
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    total += loss.item()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
import time
for step in range(99):
    start = time.time()
    model(torch.ones(8, 4, device=device)).mean().backward()
    opt.step()
    torch.cuda.synchronize()
    print(time.time() - start)
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    loss = model(torch.ones(8, 4)).mean()
    loss.backward()
    opt.step()
    print(loss.item(), loss.max(), loss.min(), loss.std())
    if step % 10 == 0:
        print("so far")
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "sync-in-hot-loop" not in linted(text)

    def test_waits_for_a_shape_are_a_note(self) -> None:
        assert run_slugs(syncs=[{"place": CALL, "kind": "mask", "count": 90}]) == []
