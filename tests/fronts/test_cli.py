"""The command line as a user runs it: whole processes."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fronts_run import ongpu

from ongpu.fronts.answer import terminal
from ongpu.fronts.cli import COMMANDS
from ongpu.fronts.doctor import _reason
from ongpu.hosts import recorded

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


def test_a_snapshot_goes_to_standard_output_and_replaces_no_file_unasked(tmp_path: Path) -> None:
    path = tmp_path / "here.tar.gz"
    with path.open("wb") as file:
        command = [sys.executable, "-m", "ongpu", "snapshot", "-o", "-"]
        assert subprocess.run(command, stdout=file, cwd=tmp_path, timeout=60, check=False).returncode == 0
    assert not (tmp_path / "-").exists()
    assert recorded.read(path)
    path.write_text("mine")
    done = ongpu("snapshot", "-o", str(path))
    assert (done.returncode, path.read_text()) == (2, "mine")
    assert "--force" in done.stderr
    assert ongpu("snapshot", "-o", str(path), "--force").returncode == 0
    assert recorded.read(path)


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


@pytest.mark.parametrize("arguments", [("--lang", "zh", "--help"), ("--help", "--lang", "zh"), ("-h", "--lang=zh"), ("--lang=zh", "-h")])
def test_the_general_help_in_the_language_asked_for(arguments: tuple[str, ...]) -> None:
    done = ongpu(*arguments)
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)
    assert "\n命令：\n" in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.endswith(":")]


def test_the_help_of_a_command_after_the_language() -> None:
    assert ongpu("--lang", "zh", "lint", "--help").stdout.startswith("用法：ongpu lint")
    assert ongpu("--lang", "en", "--version").stdout == ongpu("--version").stdout


@pytest.mark.parametrize("arguments", [("lnt",), ("--lang", "en", "lnt"), ("lnt", "train.py")])
def test_a_misspelt_command(arguments: tuple[str, ...]) -> None:
    done = ongpu(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ongpu: lnt: no such command or file; did you mean: lint?\n"
    assert "没有这个命令或文件；是不是想用：lint？" in ongpu(*arguments, "--lang", "zh").stderr or "en" in arguments


def test_a_word_that_is_no_command_at_all() -> None:
    assert ongpu("qqq").stderr == "ongpu: qqq: no such command or file; see ongpu --help\n"


@pytest.mark.parametrize(
    ("name", "content", "english", "chinese"),
    [
        ("gone.tgz", None, "no such file", "没有这个文件"),
        ("train.py", "import torch\n", "not a snapshot of ongpu", "不是 ongpu 的快照"),
    ],
)
def test_what_is_no_snapshot(name: str, content: str | None, english: str, chinese: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    for lang, words in (("en", english), ("zh", chinese)):
        done = ongpu("doctor", str(path), "--lang", lang)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Errno" not in done.stderr
        assert ("archive" in done.stderr) is False


@pytest.mark.parametrize(
    ("words", "chinese"),
    [
        ("snapshot of schema 9; this ongpu reads 1: update ongpu", "快照格式版本为 9，本 ongpu 只能读 1：请升级 ongpu"),
        ("damaged snapshot: KeyError: 'kind'", "快照已损坏：KeyError: 'kind'"),
        ("more than 5000 files: not a snapshot", "文件超过 5000 个：不是快照"),
        ("more than 256 MiB unpacked: not read", "解压后超过 256 MiB：未读取"),
    ],
)
def test_why_a_snapshot_is_not_read_in_chinese(words: str, chinese: str) -> None:
    assert _reason(ValueError(words)) == (words, chinese)


def test_rules_near_a_short_word_and_near_nothing() -> None:
    assert "oom-other-process" in ongpu("rules", "oom").stderr
    assert ongpu("rules", "nosuch").stderr == "ongpu: no rule 'nosuch'; all of them: ongpu rules\n"


def test_the_help_of_completion_is_80_columns_wide() -> None:
    assert max(map(len, ongpu("completion", "--help", COLUMNS="80").stdout.splitlines())) <= 80


def completed(line: str) -> list[str]:
    """What a shell is offered after these words, by argcomplete's protocol."""
    environ = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_IFS": "\n", "COMP_TYPE": "9"}
    program = f"exec {shlex.quote(sys.executable)} -m ongpu 8>&1 9>/dev/null"
    environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), **os.environ}
    done = subprocess.run(["bash", "-c", program], env=environ, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split()


def test_a_shell_completes_rules_and_frameworks() -> None:
    assert "driver-module-not-loaded" in completed("ongpu rules driver-mod")
    assert completed("ongpu fix ecc-unc") == ["ecc-uncorrectable"]
    assert completed("ongpu pick onn") == ["onnxruntime"]
    assert "explain" in completed("ongpu exp")


def test_completion_needs_no_extra() -> None:
    core = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert any(one.startswith("argcomplete") for one in core)


@pytest.mark.parametrize("command", ["doctor", "fix", "snapshot", "pick torch"])
def test_what_is_no_interpreter_is_refused(command: str, tmp_path: Path) -> None:
    for asked in ("/bin/ls", str(tmp_path), str(tmp_path / "none")):
        done = ongpu(*command.split(), "--python", asked)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stdout + done.stderr
        assert asked in done.stderr
