"""The options that all commands share: each answers in every format, and bad combinations are one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fronts_run import ongpu


@pytest.fixture(scope="module")
def cpu_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds, by its files, a CPU build of PyTorch."""
    folder = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("")
    (site / "torch" / "version.py").write_text("__version__ = '2.6.0+cpu'\ncuda = None\n")
    (site / "torch-2.6.0+cpu.dist-info").mkdir()
    (site / "torch-2.6.0+cpu.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0+cpu\n")
    return folder


def test_explain_judges_an_interpreter_together_with_the_text(cpu_only: Path) -> None:
    text = "AssertionError: Torch not compiled with CUDA enabled"
    alone = json.loads(ongpu("explain", "--format", "json", text=text).stdout)
    both = json.loads(ongpu("explain", "--format", "json", "--python", str(cpu_only), text=text).stdout)
    assert both["findings"][0]["slug"] == "cpu-only-build"
    assert "2.6.0+cpu" in both["findings"][0]["title"]
    assert "2.6.0+cpu" not in json.dumps(alone)


def test_explain_says_when_there_is_no_such_interpreter() -> None:
    done = ongpu("explain", "--python", "/nowhere/python", text="error 802")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_plan_as_data_runs_nothing(cpu_only: Path, lang: str) -> None:
    done = ongpu("fix", "--format", "json", "--lang", lang, "--python", str(cpu_only))
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    for finding in answer["findings"]:
        assert all({"run", "risk"} <= command.keys() for command in finding["fix"]["commands"])
    assert ongpu("fix", "--format", "markdown", "--lang", lang).stdout
    mixed = ongpu("fix", "--yes", "--format", "json", "--lang", lang)
    assert (mixed.returncode, mixed.stdout) == (2, "")


def test_a_plan_for_one_fault_holds_that_fault_alone() -> None:
    whole = json.loads(ongpu("fix", "--format", "json", "--all").stdout)["findings"]
    serious = [f["slug"] for f in whole if f["severity"] != "note"]
    if serious:  # whatever is wrong with the machine that runs the tests
        part = json.loads(ongpu("fix", serious[0], "--format", "json").stdout)
        assert {f["slug"] for f in part["findings"]} == {serious[0]}


def test_a_snapshot_is_listed_in_every_format(tmp_path: Path) -> None:
    listed = json.loads(ongpu("snapshot", "--show", "--format", "json").stdout)
    assert listed["written"] is None
    assert all({"kind", "origin", "characters", "problem"} == row.keys() for row in listed["evidence"])
    whole = json.loads(ongpu("snapshot", "--show", "--all", "--format", "json").stdout)
    assert all(len(row["text"]) == row["characters"] for row in whole["evidence"])
    assert ongpu("snapshot", "--show", "--format", "markdown").stdout.startswith("| kind |")
    path = tmp_path / "s.tar.gz"
    assert json.loads(ongpu("snapshot", "-o", str(path), "--format", "json").stdout)["written"] == str(path)
    assert path.is_file()


def test_all_rule_pages_one_after_another() -> None:
    told = ongpu("rules", "--all", "--format", "markdown").stdout
    assert told.count("\n# ") + told.startswith("# ") > 150
