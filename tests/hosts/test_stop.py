"""A process is ended only if it is still the very one that was shown."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ongpu.hosts import stop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(("name", "number"), [("TERM", signal.SIGTERM), ("KILL", signal.SIGKILL)])
def test_the_signal_reaches_the_process(sleeper: "subprocess.Popen[bytes]", name: str, number: int) -> None:
    told = stop.started(sleeper.pid)
    assert told is not None
    assert told[1] == os.geteuid()
    assert stop.send(sleeper.pid, told[0], name) is None
    assert sleeper.wait(5) == -number


def test_another_process_under_the_same_number_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    told = stop.started(sleeper.pid)
    assert told is not None
    assert stop.send(sleeper.pid, told[0] - 1, "KILL") == stop.OTHER
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.1)


def test_one_that_ended_is_gone(sleeper: "subprocess.Popen[bytes]") -> None:
    told = stop.started(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert told is not None
    assert stop.send(sleeper.pid, told[0], "TERM") == stop.GONE
    assert stop.started(sleeper.pid) is None


def test_that_of_another_user_is_denied(sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    told = stop.started(sleeper.pid)
    assert told is not None
    monkeypatch.setattr(os, "geteuid", lambda: told[1] + 1)
    assert stop.send(sleeper.pid, told[0], "TERM") == stop.DENIED
    assert not stop.may(told[1])
    assert stop.may(told[1] + 1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert stop.may(told[1] + 1)


@pytest.mark.parametrize("text", ["", "1 (a", "7 (a b) c) S 1 2", "7 (x) " + "x " * 40])
def test_what_is_no_stat_line_is_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "stat").write_text(text)
    assert stop.started(7, str(tmp_path)) is None


def test_a_name_with_brackets_and_spaces(tmp_path: Path) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "stat").write_text("7 (a) b (c) S " + " ".join(map(str, range(1, 40))))
    assert stop.started(7, str(tmp_path)) == (19, os.geteuid())
