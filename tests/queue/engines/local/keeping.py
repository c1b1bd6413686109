"""Runs that keepers of their own keep, for tests: real processes."""

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ongpu.queue.engines.local import recovery
from ongpu.queue.engines.local.keepers import Keeper
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Run
from ongpu.queue.job import Spec

LIMIT = 20.0
BOOT = recovery.boot_id()
PATH = {"PATH": os.environ["PATH"]}


def run_of(here: Path, *command: str, attempt: int = 1, leases: tuple[tuple[str, int], ...] = (), **spec: Any) -> Run:
    asked = Spec(**{"command": command, "folder": str(here), "environ": {"PATH": os.environ["PATH"]}, **spec})
    where = here / "queue" / "jobs" / "7" / str(attempt)
    where.parent.parent.mkdir(parents=True, exist_ok=True)
    return Run(job=7, attempt=attempt, leases=leases, spec=asked, state="starting", claimed=time.time(), folder=where)


class Kept:
    """A run that a keeper of its own keeps."""

    def __init__(self, run: Run, leases: Sequence[int] = ()) -> None:
        self.keeper = Keeper()
        self.keeper.keep(run, leases, BOOT)

    def told(self) -> Fate:
        """What the keeper says when the run is over; it is gone then."""
        ready = select.select([self.keeper.link], [], [], LIMIT)[0]
        found = self.keeper.told() if ready else None
        self.end(kill=not ready)
        assert found, "it did not end"
        return found

    def end(self, kill: bool = False) -> None:
        """Until it is gone."""
        if kill:
            os.kill(self.keeper.pid, signal.SIGKILL)
        self.keeper.close()
        end = time.monotonic() + LIMIT
        while not os.waitpid(self.keeper.pid, os.WNOHANG)[0]:
            assert time.monotonic() < end, "it did not end"
            time.sleep(0.005)


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


def whole(run: Run) -> Fate:
    """Started, awaited, and looked at: what the keeper says is what its files say."""
    told = Kept(run).told()
    found = recovery.fate(run.folder)
    assert told == found
    return found


def output(run: Run) -> str:
    return (run.folder / "output").read_text()
