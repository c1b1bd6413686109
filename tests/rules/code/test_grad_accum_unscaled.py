import pytest
from asking import linted, slugs
from parts.dryruns import LOSS, STEP
from parts.dryruns import slugs as run_slugs


@pytest.mark.parametrize(
    "text",
    [
        "gradient_accumulation_steps=1 loss 2.11\n"
        "gradient_accumulation_steps=4 loss 8.45\n",
        "bs  accum steps  loss\n"
        "8    1    2.1\n"
        "4    2    4.2\n"
        "2    4    8.4\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-unscaled"


@pytest.mark.parametrize(
    "text",
    [
        "gradient_accumulation_steps=1 loss 2.11\n"
        "gradient_accumulation_steps=4 loss 2.12\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "grad-accum-unscaled" not in slugs(text)


@pytest.mark.parametrize(("scaled", "backwards", "found"), [(False, 4, True), (True, 4, False), (None, 4, False), (False, 1, False)])
def test_a_dry_run_of_windows(scaled: bool | None, backwards: int, found: bool) -> None:
    windows = [{"backwards": backwards, "scaled": scaled, "backward_place": LOSS, "step_place": STEP}]
    told = {"windows": windows, "every": backwards, "scaled": scaled}
    assert run_slugs(accumulation=told) == (["grad-accum-unscaled"] if found else [])


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
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "grad-accum-unscaled" in linted(text)


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
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) * 0.25
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device), reduction="sum")
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss = loss / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            p.grad.div_(4)
        opt.step()
        opt.zero_grad()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader([], 2)):
    model(x.to(device)).mean().backward()
    opt.step()
    if i % 4 == 0:
        print(i)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "grad-accum-unscaled" not in linted(text)
