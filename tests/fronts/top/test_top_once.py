"""`ongpu top --once` on the fake NVML: every failure is valid JSON with its reason, and no GPU is hidden."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from parts.machines import build_nvml

from ongpu.fronts import cli
from ongpu.report.layout import width_of

pytestmark = pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="the fake NVML is built with gcc")
LOST, DENIED, UNKNOWN = 15, 4, 999


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def top(library: Path | None, folder: Path, scenario: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "scenario").write_text(scenario)
    path = str(library or folder)
    if library is None:  # an empty file, so that the loader does not go on to a real one
        (folder / "libnvidia-ml.so.1").write_bytes(b"")
    environ = {**os.environ, "FAKE_NVML": str(folder / "scenario"), "LD_LIBRARY_PATH": path, "LANG": "C.UTF-8", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "ongpu", "top", "--once", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def told(library: Path | None, folder: Path, scenario: str) -> tuple[int, dict[str, Any]]:
    done = top(library, folder, scenario, "--format", "json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_two_gpus_with_a_process(library: Path, sleeper: int, tmp_path: Path) -> None:
    code, view = told(library, tmp_path, f"gpus = 2\ngpu.1.util = 90\ngpu.1.proc = {sleeper},4000,C,50\n")
    assert code == 0
    assert view["up"] is True
    assert [gpu["condition"] for gpu in view["gpus"]] == ["ok", "ok"]
    (process,) = view["gpus"][1]["processes"]
    assert (process["pid"], process["mem"], process["command"]) == (sleeper, 4000, "sleep 600")
    assert process["cpu"] is not None  # there were two looks
    assert view["gpus"][1]["temp_limit"] == 89
    assert 0.05 < view["rests_on"]["seconds"] < 5


@pytest.mark.parametrize("init", [9, pytest.param(18, marks=pytest.mark.slow), pytest.param(999, marks=pytest.mark.slow)])
def test_an_nvml_that_does_not_start(library: Path, tmp_path: Path, init: int) -> None:
    code, view = told(library, tmp_path, f"gpus = 2\nerror.Init = {init}\n")
    assert code == 3
    assert (view["up"], view["code"], view["gpus"]) == (False, init, [])
    assert view["reason"]


def test_no_library(tmp_path: Path) -> None:
    code, view = told(None, tmp_path, "gpus = 2\n")
    assert code == 3
    assert (view["up"], view["code"]) == (False, 12)
    text = top(None, tmp_path, "gpus = 2\n")
    assert text.returncode == 3
    assert "NVML library not found" in text.stdout


@pytest.mark.parametrize(
    ("line", "condition", "rc"),
    [
        ("gpu.1.handle_error = 15", "lost", 1),
        ("gpu.1.handle_error = 4", "denied", 3),
        pytest.param("gpu.1.handle_error = 999", "error", 1, marks=pytest.mark.slow),
        pytest.param("gpu.1.error = 15", "lost", 1, marks=pytest.mark.slow),
        pytest.param("gpu.1.error = 999", "error", 1, marks=pytest.mark.slow),
    ],
)
def test_one_gpu_that_does_not_answer_is_a_row_with_its_reason(library: Path, tmp_path: Path, line: str, condition: str, rc: int) -> None:
    code, view = told(library, tmp_path, f"gpus = 3\n{line}\n")
    assert [gpu["condition"] for gpu in view["gpus"]] == ["ok", condition, "ok"]
    assert view["gpus"][1]["reason"]
    assert view["gpus"][1]["processes"] is None
    assert code == rc
    text = top(library, tmp_path, f"gpus = 3\n{line}\n")
    rows = [row for row in text.stdout.split("\n") if row.startswith("  1 ")]
    assert len(rows) == 1
    assert condition in rows[0]


@pytest.mark.parametrize("word", ["UtilizationRates", "ComputeRunningProcesses", pytest.param("PowerUsage", marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", [DENIED])
def test_what_one_query_refuses_is_null_with_its_code(library: Path, tmp_path: Path, word: str, error: int) -> None:
    column = {"UtilizationRates": "util", "ComputeRunningProcesses": "processes", "PowerUsage": "power"}[word]
    _, view = told(library, tmp_path, f"gpus = 2\ngpu.0.error.{word} = {error}\n")
    first = view["gpus"][0]
    assert first["condition"] == "ok"
    assert first["not_told"][column] == {"code": error, "reason": "not permitted"}
    assert (first["processes"] if column == "processes" else first["values"][column]) is None
    text = " ".join(top(library, tmp_path, f"gpus = 2\ngpu.0.error.{word} = {error}\n").stdout.split())
    assert "(GPU 0): not permitted" in text


@pytest.mark.slow
@pytest.mark.parametrize("error", [1, 2, 3, 4, 6, 7, 9, 10, 12, 13, 14, 15, 16, 17, 18, 20, 999])
@pytest.mark.parametrize("word", ["Handle", "MemoryInfo", "Temperature", "ClockInfo", "RunningProcesses", "UUID", "Name"])
def test_every_code_of_every_query(library: Path, tmp_path: Path, word: str, error: int) -> None:
    scenario = f"gpus = 2\nerror.{word} = {error}\n" if word != "Handle" else f"gpus = 2\ngpu.1.handle_error = {error}\n"
    code, view = told(library, tmp_path, scenario)
    assert code in (0, 1, 3)
    assert view["up"] or view["reason"]
    if view["up"]:
        assert [gpu["index"] for gpu in view["gpus"]] == [0, 1]
        assert all(gpu["reason"] for gpu in view["gpus"] if gpu["condition"] != "ok")
    assert all(width_of(line) <= 80 for line in top(library, tmp_path, scenario).stdout.split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("line", ["gpu.1.hang = 1", "hang.Temperature = 1", "hang.Init = 1"])
def test_what_hangs_is_told_and_ends(library: Path, tmp_path: Path, line: str) -> None:
    code, view = told(library, tmp_path, f"gpus = 3\n{line}\n")
    assert code in (1, 3)
    conditions = [gpu["condition"] for gpu in view["gpus"]]
    if line.startswith("gpu"):
        assert conditions[1] in ("hung", "unknown")  # a card may take 15 s to start: until then it is not called hung
        assert (conditions[0], conditions[2]) == ("ok", "ok")
    else:
        assert "ok" not in conditions
        assert not view["up"] or "hung" in conditions or "unknown" in conditions


def test_a_process_that_is_not_visible_is_not_dropped(library: Path, tmp_path: Path) -> None:
    scenario = "gpus = 1\ngpu.0.proc = 4190000,30000,C\n"
    _, view = told(library, tmp_path, scenario)
    (process,) = view["gpus"][0]["processes"]
    assert (process["pid"], process["mem"], process["visible"]) == (4_190_000, 30_000, False)


def test_the_simulated_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["top", "--once", "--demo", "--format", "json", "--lang", "zh"]) == 1
    view = json.loads(capsys.readouterr().out)
    verdicts = {gpu["index"]: [finding["slug"] for finding in gpu["verdicts"]] for gpu in view["gpus"]}
    assert verdicts[2][0] == "input-pipeline-bound"
    assert verdicts[3][0] == "host-bound"
    assert verdicts[4][0] == "gpu-held-idle"
    assert verdicts[5][0] == "gpu-waits-for-disk"
    assert "gpu-fell-off-bus" in verdicts[7]
    assert view["demo"] is True


def test_without_a_terminal_or_textual_the_live_view_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(["top"]) == 2
    assert capsys.readouterr().err == "ongpu: the live view needs a terminal; elsewhere: ongpu top --once\n"
    monkeypatch.setattr("ongpu.fronts.top.find_spec", lambda name: None)
    assert cli.run(["top"]) == 2
    assert "pip install 'ongpu[top]'" in capsys.readouterr().err


def test_where_no_process_can_be_started(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*told: object, **more: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert cli.run(["top", "--once", "--format", "json", "--seconds", "0.1"]) == 3
    view = json.loads(capsys.readouterr().out)
    assert (view["up"], view["reason"]) == (False, "BlockingIOError: [Errno 11] Resource temporarily unavailable")


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--sort", "colour"], ["--seconds", "nan"], ["--interval", "x"]])
def test_bad_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.run(["top", "--once", *arguments])
    assert ended.value.code == 2
