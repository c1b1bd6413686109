"""The command line as a user runs it: whole processes."""

import json
import shutil
from pathlib import Path

import pytest
from fronts_run import ongpu

from ongpu.fronts.answer import terminal

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def test_version() -> None:
    done = ongpu("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("ongpu ")


def test_explain_json_is_the_stable_schema() -> None:
    done = ongpu("explain", "--format", "json", text=MISMATCH)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert {"schema", "verdict", "subject", "findings", "unknown", "unread", "facts"} <= answer.keys()
    assert answer["schema"] == 1
    finding = answer["findings"][0]
    assert {"slug", "layer", "severity", "certainty", "subject", "title", "why", "fix", "values", "refs", "see"} <= finding.keys()
    assert finding["slug"] == "driver-library-mismatch"
    assert finding["refs"][0] == {"source": "stdin", "line": 1, "quote": MISMATCH}
    assert {"run", "risk"} == finding["fix"]["commands"][0].keys()


@pytest.mark.parametrize("style", ["text", "json", "markdown"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_format_in_both_languages(style: str, lang: str) -> None:
    done = ongpu("explain", "--format", style, "--lang", lang, text=MISMATCH)
    assert done.returncode == 1
    assert "driver-library-mismatch" in done.stdout
    assert ("内核模块" in done.stdout) is (lang == "zh")
    assert done.stderr == ""


def test_language_comes_from_the_locale() -> None:
    assert "内核模块" in ongpu("explain", text=MISMATCH, LC_ALL="zh_CN.UTF-8").stdout


def test_nothing_recognised_is_unknown_not_clear() -> None:
    done = ongpu("explain", text="the quick brown fox\n")
    assert done.returncode == 3


def test_a_missing_file_is_one_line() -> None:
    done = ongpu("explain", "/no/such/file.log")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_unknown_rule_names_the_near_ones() -> None:
    done = ongpu("rules", "driver-library-mixup")
    assert done.returncode == 2
    assert "driver-library-mismatch" in done.stderr


def test_snapshot_then_doctor_and_explain_agree(tmp_path: Path) -> None:
    path = tmp_path / "here.tar.gz"
    assert ongpu("snapshot", "-o", str(path)).returncode == 0
    here = json.loads(ongpu("doctor", "--format", "json").stdout)
    there = json.loads(ongpu("doctor", str(path), "--format", "json").stdout)
    assert [f["slug"] for f in here["findings"]] == [f["slug"] for f in there["findings"]]
    assert here["verdict"] == there["verdict"]


def test_snapshot_into_a_missing_folder_is_one_line() -> None:
    done = ongpu("snapshot", "-o", "/no/such/folder/x.tar.gz")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_doctor_html_is_one_page() -> None:
    done = ongpu("doctor", "--format", "html")
    assert done.stdout.startswith("<!doctype html>")
    assert "http-equiv" not in done.stdout
    assert "<script" not in done.stdout


def test_a_bad_interpreter_is_one_line() -> None:
    done = ongpu("doctor", "--python", "/no/such/python")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_completion() -> None:
    assert "ongpu" in ongpu("completion", "bash").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "--format"],
        ["explain", "--format", "xml"],
        ["doctor", "--nope"],
        ["pick"],
        ["explain", "--all=1"],
        ["explain", "--lang"],
    ],
    ids=" ".join,
)
def test_bad_usage_is_told_in_the_readers_language(arguments: list[str]) -> None:
    done = ongpu(*arguments, LC_ALL="zh_CN.UTF-8")
    assert done.returncode == 2
    told = next(line for line in done.stderr.splitlines() if line.startswith("ongpu"))
    assert any("\u4e00" <= letter <= "\u9fff" for letter in told), done.stderr
    assert "expected" not in done.stderr
    assert "required" not in done.stderr


@pytest.mark.parametrize("told", ["120", "0", "-3", "wide", ""])
def test_the_terminal_is_as_wide_as_the_standard_library_says(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", told)
    assert terminal() == shutil.get_terminal_size((80, 24)).columns
