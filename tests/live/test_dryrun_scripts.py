"""Each of tests/parts/scripts through `ongpu dryrun`, with real PyTorch: the cause is named, and what is healthy is called so.

The head of a script says what is expected ("clear", or slugs of which one must stand first; "unknown": healthy, but it may be
more than the dry run can follow), options, and modules it needs.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from parts.interpreters import SRC, bare, old_torch

pytestmark = pytest.mark.real
SCRIPTS = sorted((Path(__file__).parents[1] / "parts" / "scripts").glob("*.py"))


def head(script: Path, name: str) -> str:
    found = re.search(rf"^# {name}: (.*)$", script.read_text("utf-8"), re.MULTILINE)
    return found[1] if found else ""


def test_about_half_of_them_are_healthy() -> None:
    healthy = [script for script in SCRIPTS if head(script, "expect") in ("clear", "unknown")]
    assert len(SCRIPTS) >= 60
    assert 0.4 < len(healthy) / len(SCRIPTS) < 0.6


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    follow(bare("torch", *head(script, "needs").split()), script, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkpointing", "ddp_one_rank", "input_not_moved", "label_range"])
def test_script_under_the_oldest_torch(name: str, tmp_path: Path) -> None:
    follow(old_torch(), SCRIPTS[0].with_name(name + ".py"), tmp_path, "--time-limit", "250")


def follow(python: str, script: Path, tmp_path: Path, *more: str) -> None:
    """The answer is what the script's head says, and nothing is left behind."""
    options = [*shlex.split(head(script, "options")), *more]
    command = [sys.executable, "-m", "ongpu", "dryrun", "--format", "json", "--python", python, *options]
    before = set(tmp_path.iterdir())
    env = {**os.environ, "PYTHONPATH": str(SRC), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, timeout=300, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, check=False
    )
    answer = json.loads(done.stdout)
    found = [finding["slug"] for finding in answer["findings"] if finding["severity"] != "note"]
    wanted = head(script, "expect").split(" | ")
    if wanted == ["clear"]:
        assert (answer["verdict"], found, done.returncode) == ("clear", [], 0), answer["unknown"] or answer["findings"]
    elif wanted == ["unknown"]:
        assert answer["verdict"] in ("clear", "unknown")
        assert found == []
    else:
        assert found, answer["unknown"]
        assert found[0] in wanted
        assert done.returncode == 1
    assert set(tmp_path.iterdir()) == before
