"""Edits that rules offer: the text after them is Python, says what it should, and the finding is gone."""

import ast

import pytest
from asking import lint
from parts.programs import HEAD, TRAINED

from ongpu.model import Edit

EVALUATION = """
def train():
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()


def evaluate(data):
    model.eval()
    return [model(x.to(device)).argmax(1).cpu() for x, y in data]


def count(data):
    model.eval()
    hits = 0
    for x, y in data:
        hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    return hits


train()
count(DataLoader(val_set, 8))
"""
WINDOW = """
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))  # of one batch
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
NORM = """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.mean = torch.tensor([0.5, 0.4, 0.3])  # of ImageNet

    def forward(self, x):
        pad = torch.zeros(x.size(0), 3)
        return self.fc(torch.cat([x, pad], 1) - self.mean)


model = Norm().to("cuda")
model(torch.randn(4, 3, device="cuda"))
"""


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines) + 1)]
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        begin, end = starts[edit.line - 1] + edit.column, starts[edit.end_line - 1] + edit.end_column
        text = text[:begin] + edit.text + text[end:]
    return text


@pytest.mark.parametrize(
    ("text", "slug", "wanted"),
    [
        (TRAINED + EVALUATION, "oom-eval-with-grad", "@torch.no_grad()\ndef count(data):"),
        (TRAINED + WINDOW, "grad-accum-unscaled", "    (loss / 4).backward()\n"),
        (TRAINED + WINDOW, "grad-accum-tail-dropped", "if (i + 1) % 4 == 0 or i + 1 == len(loader):"),
        (HEAD + NORM, "tensor-created-on-cpu", '"mean", torch.tensor([0.5, 0.4, 0.3]), persistent=False)  # of ImageNet'),
        (HEAD + NORM, "tensor-created-on-cpu", "torch.zeros(x.size(0), 3, device=x.device)"),
    ],
)
def test_an_edit(text: str, slug: str, wanted: str) -> None:
    findings = [f for f in lint(text).findings if f.slug == slug]
    changed = [apply(text, f.edits) for f in findings]
    assert any(wanted in after for after in changed)
    for finding, after in zip(findings, changed, strict=True):
        ast.parse(after)
        same = [f for f in lint(after).findings if f.slug == slug and f.refs[0].quote == finding.refs[0].quote]
        assert not same or slug == "oom-eval-with-grad"
