# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, linted

from ongpu.model import Edit, Finding

HEAD = """\
import torch
from torch import nn
device = torch.device("cuda")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x.to(device)).sum()
"""
GOOD = (
    HEAD
    + """\
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
)
UNSCALE = "    scaler.unscale_(optimizer)\n"
CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
LATE = GOOD.replace(UNSCALE, "").replace(CLIP, CLIP + UNSCALE)
TRAINER = """\
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.opt = torch.optim.AdamW(self.model.parameters())
        self.scaler = GradScaler()
    def step(self, x):
        self.opt.zero_grad()
        with autocast():
            loss = self.model(x.cuda()).mean()
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        self.scaler.step(self.opt)
        self.scaler.update()
    def fit(self, loader):
        for x in loader:
            self.step(x)
Trainer(nn.Linear(2, 2)).fit(data)
"""


def _of(text: str) -> list[Finding]:
    return [f for f in lint(text).findings if f.slug == "grad-scaler-misuse"]


def _changed(text: str, edits: tuple[Edit, ...]) -> str:
    lines = text.split("\n")
    for edit in edits:
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column] + edit.text + line[edit.end_column :]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "variant", "line"),
    [
        (GOOD.replace(UNSCALE, ""), "clip", 12),
        (LATE, "clip", 12),
        (TRAINER, "clip", 14),
        (GOOD.replace(UNSCALE + CLIP, "").replace("scaler.step(optimizer)\n    scaler.update()", "optimizer.step()"), "instead", 12),
        (GOOD.replace(UNSCALE + CLIP, "").replace("scaler.step(optimizer)", "scaler.step(optimizer)\n    optimizer.step()"), "twice", 13),
        (GOOD.replace("scaler.scale(loss).backward()", "loss.backward()"), "unscaled", 14),
        (GOOD.replace("    scaler.update()\n", ""), "no-update", 14),
        (GOOD.replace("    scaler.update()\n", "").replace("    scaler.step", "    scaler.update()\n    scaler.step"), "early-update", 14),
    ],
)
def test_found(text: str, variant: str, line: int) -> None:
    (finding,) = _of(text)
    assert (finding.variant, finding.refs[0].line) == (variant, line)
    assert "grad-scaler-misuse" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(UNSCALE, ""),
        TRAINER,
        GOOD.replace(UNSCALE + CLIP, "").replace("scaler.step(optimizer)\n    scaler.update()", "optimizer.step()"),
        GOOD.replace("    scaler.update()\n", ""),
    ],
)
def test_the_edit_mends_it(text: str) -> None:
    (finding,) = _of(text)
    assert finding.edits
    assert _of(_changed(text, finding.edits)) == []


def test_the_scaler_beside_bfloat16_is_a_note() -> None:
    text = GOOD.replace("torch.float16", "torch.bfloat16")
    assert [f.variant for f in _of(text)] == ["bfloat16"]
    assert linted(text) == []


EITHER = (
    HEAD.replace('scaler = torch.amp.GradScaler("cuda")', 'scaler = torch.amp.GradScaler("cuda") if amp else None')
    + """\
    if scaler is not None:
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
"""
)
TWICE_ASKED = (
    HEAD
    + """\
    if use_amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if use_amp:
        scaler.step(optimizer)
        scaler.update()
    else:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""
)
ACCUMULATED = (
    HEAD
    + """\
    scaler.scale(loss / 4).backward()
    if (i + 1) % 4 == 0:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
)
GAN = """\
import torch
from torch import nn
G, D = nn.Linear(4, 4).cuda(), nn.Linear(4, 1).cuda()
opt_g = torch.optim.Adam(G.parameters())
opt_d = torch.optim.Adam(D.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in data:
    z = torch.randn(8, 4, device="cuda")
    d_loss = D(x.cuda()).mean()
    opt_d.zero_grad()
    scaler.scale(d_loss).backward()
    scaler.step(opt_d)
    g_loss = D(G(z)).mean()
    opt_g.zero_grad()
    scaler.scale(g_loss).backward()
    scaler.step(opt_g)
    scaler.update()
"""
MANUAL = (
    HEAD
    + """\
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()
"""
)
UNSEEN = HEAD + "    scaler.scale(loss).backward()\n    mine.finish(scaler, optimizer)\n"
NO_AMP = HEAD.replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=False)') + "    scaler.scale(loss).backward()\n" + CLIP + "    scaler.step(optimizer)\n    scaler.update()\n"
FIRST = (  # updates at the head of the next turn
    HEAD
    + """\
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
evaluate(model)
"""
)
CHOSEN = GOOD.replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=dtype == "float16")').replace("torch.float16", "torch.bfloat16")
GRAD_PENALTY = GOOD.replace("    scaler.scale", "    grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)\n    scaler.scale")
ACCELERATE = """\
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp16")
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    accelerator.backward(model(x).mean())
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


@pytest.mark.parametrize("text", [GOOD, EITHER, TWICE_ASKED, ACCUMULATED, GAN, MANUAL, UNSEEN, NO_AMP, FIRST, CHOSEN, GRAD_PENALTY, ACCELERATE])
def test_neighbours(text: str) -> None:
    assert _of(text) == []


def test_unscaled_at_each_micro_batch() -> None:
    text = ACCUMULATED.replace("    if (i + 1) % 4 == 0:\n        scaler.unscale_(optimizer)\n", "    scaler.unscale_(optimizer)\n    if (i + 1) % 4 == 0:\n")
    assert [(f.variant, f.refs[0].line, f.weight.name) for f in _of(text)] == [("unscale-often", 12, "ERROR")]
    assert [f.weight.name for f in _of(text.replace("% 4", "% args.accumulation"))] == ["WARNING"]


def test_a_scaled_loss_that_nobody_uses() -> None:
    text = GOOD.replace("scaler.scale(loss).backward()", "scaler.scale(loss)\n    loss.backward()")
    assert [f.variant for f in _of(text)] == ["unscaled"]
