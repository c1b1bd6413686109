"""Pasted text is data: no regex of ours may be driven into exponential (or steep) time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = Path(__file__).with_name("hostile.py")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["hosts", "sources", "symptoms"])
def test_nothing_is_driven_over_the_budget(what: str) -> None:
    done = subprocess.run([sys.executable, HOSTILE, what], capture_output=True, text=True, timeout=420)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == []
