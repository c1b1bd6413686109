"""A clock that somebody sets while jobs run: nothing is lost, ended early, or counted wrongly."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from queues import Queue

from ongpu.queue.job import Want

DAY = 86400.0
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
# The wall clock of a process, off by the seconds that stand in a file; the clock of the boot is nobody's to set. (libfaketime 0.9.10 breaks
# the sleep of Python 3.11.)
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *at) {
    long found = syscall(SYS_clock_gettime, clock, at);
    const char *name = getenv("CLOCK_OFF");
    if (found == 0 && clock == CLOCK_REALTIME && name) {
        char text[32] = {0};
        int file = open(name, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) at->tv_sec += atol(text);
            close(file);
        }
    }
    return (int)found;
}
"""


class Clock:
    """The wall clock of the programs that are started from now on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(0)

    def set(self, days: int) -> None:
        """So many days more or less than it is."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{days * DAY:.0f}")
        os.replace(new, self.file)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True, timeout=60)
    found = Clock(tmp_path / "clock")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_OFF", str(found.file))
    return found


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_jumps(clock: Clock, make: Callable[[int], Queue], days: int) -> None:
    one = make(1)
    (running,) = one.submit(one.shell("while [ ! -e go ]; do sleep 0.05; done; exit 3", limit=600.0))
    (waiting,) = one.submit(one.shell("exit 0"))
    one.runs(running)
    clock.set(days)
    (later,) = one.submit(one.shell("exit 0"))  # the daemon wakes
    time.sleep(1.5)
    assert one.job(running).state == "running", one.log()
    (one.work / "go").touch()
    told = one.done(running, waiting, later)
    assert [(job.state, job.code, job.attempts) for job in told] == [("failed", 3, 1), ("done", 0, 1), ("done", 0, 1)]
    assert told[2].started is not None
    assert abs(told[2].started - time.time() - days * DAY) < 1000, "the daemon's clock was not set"
    for job in told:
        assert 0 <= job.attained < 120, "GPU time by the clock that was set"
    assert {job.id for job in one.engine.jobs(Want()).jobs} == {running, waiting, later}, "none is forgotten"
