"""What people write of machines in their own words (told_machine.txt: slugs that may stand first, then the paste)."""

from pathlib import Path

import pytest

from ongpu.engine import diagnose
from ongpu.hosts import pasted
from ongpu.model import Severity

BLOCKS = ("\n" + (Path(__file__).parent / "told_machine.txt").read_text("utf-8")).split("\n== ")[1:]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0] + ": " + block.split("\n")[1][:40])
def test_told(block: str) -> None:
    wanted, _, body = block.partition("\n")
    parts = body.strip("\n").split("\n--\n")
    evidence = [item for number, part in enumerate(parts) for item in pasted.read_text(part + "\n", f"p{number}")]
    said = [f.slug for f in diagnose(evidence, "paste").findings if f.weight > Severity.NOTE]
    if wanted in ("healthy", "not-gpu-related"):
        assert not said
    else:
        assert said[:1], "nothing was found"
        assert said[0] in wanted.split(",")
