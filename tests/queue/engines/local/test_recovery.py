"""What is made of the files of a run."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ongpu.queue.engines.local import recovery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
BOOT = recovery.boot_id()


def left(run: Path, start: str) -> Path:
    """The folder of a run of which only `start` is there."""
    run.mkdir(parents=True, exist_ok=True)
    (run / "start").write_text(start)
    return run


def test_after_a_reboot(tmp_path: Path) -> None:
    run = left(tmp_path / "1", f"{os.getpid()} 00000000-0000-4000-8000-000000000000\n")
    assert recovery.fate(run).what == recovery.REBOOTED
    assert recovery.fate(tmp_path / "2", rebooted=True).what == recovery.REBOOTED, "its start may have been lost with the power"
    (run / "exit").write_text("0\n")
    assert recovery.fate(run, rebooted=True) == recovery.Fate(recovery.ENDED, code=0)


@pytest.mark.parametrize("text", ["", "12", "12 ", f"12 {BOOT}", "x y\n"])
def test_a_start_that_was_never_filled_never_ran(tmp_path: Path, text: str) -> None:
    assert recovery.fate(left(tmp_path, text)).what == recovery.NEVER


@pytest.mark.parametrize(("more", "command"), [("", 0), ("7", 0), ("7\n", 7)])
def test_what_began_is_known_by_the_first_line(tmp_path: Path, more: str, command: int) -> None:
    assert recovery.begun(left(tmp_path, f"12 {BOOT}\n{more}")) == recovery.Begun(12, BOOT, command)


def test_a_pid_that_somebody_else_has_now_is_no_run(tmp_path: Path) -> None:
    assert recovery.fate(left(tmp_path, f"{os.getpid()} {BOOT}\n")).what == recovery.GONE


@pytest.mark.parametrize("text", ["", "7", "x\n", "7\n7\n", "-1\n", "1e3\n", "999\n", "\udcff\n"])
def test_half_an_exit_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "exit").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert recovery.code_of(tmp_path) is None


def test_a_boot_without_an_id_is_the_same_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "boot_id", str)
    run = left(tmp_path, f"{os.getpid()} {recovery.NO_BOOT}\n")
    assert recovery.fate(run).what == recovery.GONE
    where = os.open(run, os.O_RDONLY)
    assert recovery.fate(run).what == recovery.RUNS
    os.close(where)


def test_an_orphan_is_the_command_before_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "processes", lambda *_: {5: "", 9: ""})
    assert recovery.fate(left(tmp_path, f"1 {BOOT}\n9\n")) == recovery.Fate(recovery.ORPHAN, 9)
    assert recovery.fate(left(tmp_path, f"1 {BOOT}\n7\n")) == recovery.Fate(recovery.ORPHAN, 5)


def test_a_server_that_is_dead_is_not_asked_of_a_jobs_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, stat, asked = tmp_path / "7" / "1", os.stat, []
    run.mkdir(parents=True)
    opened = [os.open(path, os.O_RDWR | os.O_CREAT) for path in (tmp_path / "a", tmp_path / "b")]

    def watched(path: Any, **more: Any) -> os.stat_result:
        asked.append(str(path))
        return stat(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", watched)
        before = recovery.keeps(os.getpid(), run)
        opened.append(os.open(run, os.O_RDONLY))
        after = recovery.keeps(os.getpid(), run)
    assert (before, after) == (False, True)
    assert asked == [str(run), str(run), f"/proc/{os.getpid()}/fd/{opened[-1]}"]
    for file in opened:
        os.close(file)
