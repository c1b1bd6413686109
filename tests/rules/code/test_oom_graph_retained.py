# ruff: noqa: E501  (programs stand on one line each)
from typing import Any

import pytest
from asking import explain_files, found, lint, linted, slugs
from parts import profiles
from parts.dryruns import CALL, GIB, MIB, full, judged, memory
from parts.dryruns import slugs as run_slugs

from ongpu.model import Severity


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1 done, allocated 2.1 GiB\n"
        "epoch 2 done, allocated 4.3 GiB\n"
        "epoch 3 done, allocated 6.5 GiB\n"
        "epoch 4 done, allocated 8.8 GiB\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
        "    total_loss += loss\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-graph-retained"


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1 done, allocated 8.1 GiB\n"
        "epoch 2 done, allocated 8.1 GiB\n"
        "epoch 3 done, allocated 8.1 GiB\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-graph-retained" not in slugs(text)


HEAD = """
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(model.parameters())
data = [torch.rand(2, 4).cuda() for _ in range(9)]
"""


@pytest.mark.parametrize(
    "text",
    [
        "total = 0\nfor x in data:\n    total += model(x).mean()",
        "total = 0\nfor x in data:\n    total = total + model(x).mean()",
        "kept = []\nfor x in data:\n    kept.append(model(x))",
        "def test(net):\n    net.eval()\n    total = 0\n    for x in data:\n        total += net(x).mean()\n    return total.item()\ntest(model)",
        "total = 0\nfor i, x in enumerate(data):\n    total += model(x).mean()\n    if (i + 1) % 4 == 0:\n        total.backward()\n        opt.step()\n        total = 0",
    ],
)
def test_found_in_source(text: str) -> None:
    report = lint(HEAD + text)
    (finding,) = [f for f in (*report.findings, *report.hidden) if f.slug == "oom-graph-retained"]
    assert finding.weight is Severity.WARNING


@pytest.mark.parametrize(
    "text",
    [
        "total = 0\nfor x in data:\n    total += model(x).mean().item()",
        "total = 0\nfor x in data:\n    total += model(x).mean().detach()",
        "total = 0\nwith torch.no_grad():\n    for x in data:\n        total += model(x).mean()",
        "@torch.no_grad()\ndef test():\n    total = 0\n    for x in data:\n        total += model(x).mean()\ntest()",
        "for epoch in range(3):\n    loss = 0\n    for x in data:\n        loss += model(x).mean()\n    loss.backward()\n    opt.step()",
        "for epoch in range(3):\n    parts = []\n    for x in data:\n        parts.append(model(x).mean())\n    sum(parts).backward()",
        "for epoch in range(3):\n    parts = []\n    for x in data:\n        parts.append(model(x).mean())\n    torch.stack(parts).mean().backward()",
        "def losses(net):\n    total = 0\n    for x in data:\n        total += net(x).mean()\n    return total",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "oom-graph-retained" not in linted(HEAD + text)


def test_after_backward_only_nodes_are_kept() -> None:
    text = HEAD + "total = 0\nfor x in data:\n    loss = model(x).mean()\n    loss.backward()\n    opt.step()\n    total += loss"
    (finding,) = [f for f in lint(text).findings if f.slug == "oom-graph-retained"]
    assert (finding.variant, finding.weight) == ("nodes", Severity.WARNING)
    assert [e.text for e in finding.edits] == [".detach()"]


def test_a_snapshot_whose_lowest_use_rises() -> None:
    finding = found("oom-graph-retained", profiles.pickled(profiles.snapshot(keep=True)))
    assert finding
    assert (finding.variant, finding.values["owner"], finding.weight) == ("snapshot", "project/train.py:52 log", Severity.WARNING)


def test_a_snapshot_that_ran_out_while_it_grew() -> None:
    report = explain_files(profiles.pickled(profiles.snapshot(keep=True, oom=5 << 30)))
    assert [f.slug for f in report.findings if f.weight > Severity.NOTE] == ["oom-graph-retained"]
    assert report.findings[0].weight is Severity.ERROR


def test_a_snapshot_of_even_use_does_not_grow() -> None:
    assert found("oom-graph-retained", profiles.pickled(profiles.snapshot())) is None


class TestDryRun:
    def grown(self, growth: int | None, **changes: Any) -> dict[str, Any]:
        lines = [{"place": CALL, "bytes": growth or 0, "count": 3}]
        return {"memory": memory(growth=growth, growth_by_line=lines, **changes)}

    def test_memory_that_rises_with_every_step_is_a_warning(self) -> None:
        report = judged(**self.grown(200 * MIB))
        assert [(f.slug, f.weight.name) for f in report.findings] == [("oom-graph-retained", "WARNING")]
        assert report.findings[0].refs[0].line == CALL["line"]

    def test_until_the_card_is_full_an_error(self) -> None:
        changes = full("forward", weight=GIB, activation=20 * GIB)
        changes["memory"].update(growth=2 * GIB)
        assert [(f.slug, f.weight.name) for f in judged(**changes).findings] == [("oom-graph-retained", "ERROR")]

    def test_larger_batches_are_no_growth(self) -> None:
        changes = self.grown(200 * MIB)
        changes["memory"]["growth_by_line"][0]["count"] = 0  # as many tensors as before
        assert run_slugs(**changes) == []

    def test_a_few_bytes_are_no_growth(self) -> None:
        assert run_slugs(**self.grown(4096)) == []
        assert run_slugs(**self.grown(None)) == []


FULL = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.64 GiB already allocated; "
    "12.44 MiB free; 9.82 GiB reserved in total by PyTorch)"
)
METER = """\
import torch
from torch import nn


class Meter:
    def __init__(self):
        self.values, self.total, self.number = [], 0, 0

    def update(self, value, n=1):
        KEEP


def train(net, opt, loader, device):
    first, second = Meter(), Meter()
    for epoch in range(9):
        for x, y in loader:
            coarse, fine = net(x.to(device))
            loss_a = nn.functional.mse_loss(coarse, y.to(device))
            loss_b = nn.functional.l1_loss(fine, y.to(device))
            loss = loss_a + loss_b
            opt.zero_grad()
            loss.backward()
            opt.step()
            first.update(GIVEN)
"""


@pytest.mark.parametrize("keep", ["self.values.append(value)", "self.total += value * n", "self.values += [value]\n        self.values.append(value)"])
@pytest.mark.parametrize("given", ["loss_a", "loss_a * 1000", "100 * loss_b.sqrt()"])
def test_a_meter_that_is_given_the_losses_themselves(keep: str, given: str) -> None:
    text = METER.replace("KEEP", keep).replace("GIVEN", given)
    assert slugs(text, FULL) == ["oom-graph-retained"]
    assert linted(text) == []  # little by itself: backward frees what the graph holds


@pytest.mark.parametrize("given", ["loss_a.item()", "loss_a.detach() * 1000", "float(loss_b)", "loss_a.data", "(coarse.argmax(1) == y).float().mean()"])
def test_a_meter_that_is_given_numbers(given: str) -> None:
    assert "oom-graph-retained" not in slugs(METER.replace("KEEP", "self.values.append(value)").replace("GIVEN", given), FULL)


def test_a_repair_that_detaches_the_sum() -> None:
    assert slugs("-    running_loss += loss\n+    running_loss += loss.item()\n")[0] == "oom-graph-retained"
    assert slugs("-    a += x/len(l)\n-    b += y/len(l)\n+    a += x.detach()/len(l)\n+    b += y.detach()/len(l)\n")[0] == "oom-graph-retained"
    assert not slugs("+    running_loss += loss.item()\n")
    assert not slugs("-    total += labels.size(0)\n+    total += len(labels)\n")
    assert "oom-graph-retained" not in slugs("-    running_loss += loss.item()\n+    running_loss += loss.detach()\n")
