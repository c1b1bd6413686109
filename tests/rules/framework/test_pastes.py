"""Short pastes in many wordings, languages and layouts: each must give its cause first, and harmless ones none."""

from pathlib import Path

import pytest

from ongpu.engine import diagnose
from ongpu.hosts import pasted
from ongpu.model import Severity

BENIGN = {"healthy", "not-gpu-related"}
PASTES = (Path(__file__).parent / "pastes" / "short.txt").read_text("utf-8").split("\n=== ")


def ask(paste: str) -> tuple[list[str], list[str]]:
    """The slugs that are right, and those that were found."""
    head, _, text = paste.removeprefix("=== ").partition("\n")
    report = diagnose(pasted.read_text(text, "paste.txt"), "paste")
    return head.strip().split("|"), [f.slug for f in report.findings if f.weight > Severity.NOTE]


@pytest.mark.parametrize("paste", [p for p in PASTES if p.removeprefix("=== ").split("\n")[0] in BENIGN])
def test_harmless(paste: str) -> None:
    assert ask(paste)[1] == []


def test_causes() -> None:
    wrong = []
    for paste in PASTES:
        right, found = ask(paste)
        if right[0] not in BENIGN and (not found or found[0] not in right):
            wrong.append((right, found[:2], paste[:200]))
    assert len(wrong) <= 0.02 * len(PASTES), wrong
