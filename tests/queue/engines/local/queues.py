"""A queue of its own for a test: real daemons, real keepers, GPUs that a file tells of (looker.py). Nothing of it is left afterwards."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import looker

from ongpu.lazy import replace
from ongpu.queue.config import load
from ongpu.queue.engines.local import alive, recovery
from ongpu.queue.engines.local.book import Book
from ongpu.queue.engines.local.engine import Local
from ongpu.queue.job import LIVE, Card, Spec, Told, Want

LIMIT = 60.0  # seconds: the machine of the tests may be loaded


class Queue:
    """One queue."""

    def __init__(self, place: Path, gpus: int, config: str = "", leases: Path | None = None) -> None:
        """leases: those of another queue on the same machine."""
        place.mkdir(exist_ok=True)
        self.place, self.work = place / "queue", place / "work"
        self.work.mkdir()
        self.place.mkdir(mode=0o700, exist_ok=True)
        self.file = place / "gpus.json"
        self.tell([looker.gpu(number) for number in range(gpus)])
        (place / "queue.toml").write_text(config or "[daemon]\nidle_exit = 60\n")
        self.environ = {
            "ONGPU_QUEUE": str(self.place), "ONGPU_LEASES": str(leases or place / "leases"),
            "ONGPU_QUEUE_CONFIG": str(place / "queue.toml"),
            "ONGPU_QUEUE_LOOKER": f"{sys.executable} {Path(__file__).with_name('looker.py')} {self.file}",
        }  # fmt: skip
        os.environ.update(self.environ)
        with Book(self.place, create=True) as book:
            cards = [Card(id=looker.uuid(n), index=n, name="NVIDIA A100-SXM4-80GB", memory=81920) for n in range(gpus)]
            book.set_cards(cards, time.time())
        self.engine = Local(load())

    def tell(self, gpus: list[dict[str, object]]) -> None:
        """What the GPUs are now."""
        self.gpus = gpus
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(gpus))
        os.replace(new, self.file)

    def change(self, number: int, **more: object) -> None:
        """One GPU is otherwise now."""
        self.tell([{**gpu, **more} if gpu["index"] == number else gpu for gpu in self.gpus])

    def spec(self, *command: str, **more: Any) -> Spec:
        """A job in the work folder."""
        return replace(Spec(command=command, folder=str(self.work), environ={"PATH": os.environ["PATH"]}), **more)

    def shell(self, program: str, **more: Any) -> Spec:
        """A job of the shell."""
        return self.spec("sh", "-c", program, **more)

    def submit(self, *specs: Spec) -> list[str]:
        """Their ids; a daemon is there."""
        return self.engine.submit(specs)

    def job(self, job: str) -> Told:
        """What is known of one."""
        (found,) = self.engine.jobs(Want(ids=(job,))).jobs
        return found

    def done(self, *jobs: str, limit: float = LIMIT) -> list[Told]:
        """When they are over."""

        def told() -> list[Told]:
            return [self.job(job) for job in jobs]

        until(lambda: all(job.state not in LIVE for job in told()), lambda: f"{told()}\n{self.log()}", limit)
        return told()

    def runs(self, job: str, limit: float = LIMIT) -> Told:
        """When it runs, and its command has begun."""

        def begun() -> bool:
            told = self.job(job)
            assert told.state in LIVE, f"{told}\n{self.log()}"
            return told.state == "running" and bool(recovery.children(self.keeper(told)))

        until(begun, lambda: f"{self.job(job)}\n{self.log()}", limit)
        return self.job(job)

    def folder(self, job: Told) -> Path:
        """Of its last run."""
        return self.place / "jobs" / job.id / str(job.attempts)

    def keeper(self, job: Told) -> int:
        """The pid of what keeps its last run; 0: nothing yet."""
        known = recovery.begun(self.folder(job))
        return known.pid if known else 0

    def keepers(self) -> list[int]:
        """All that live."""
        return [pid for pid, place in recovery.keepers().items() if place == str(self.place)]

    def output(self, job: str) -> str:
        """What it wrote."""
        return b"".join(self.engine.output(job)).decode()

    def log(self) -> str:
        """Of the daemon."""
        with contextlib.suppress(OSError):
            return (self.place / alive.LOG).read_text()
        return ""

    def daemon(self) -> int:
        """Its pid, when it lives."""
        until(lambda: alive.pid(self.place), self.log)
        return alive.pid(self.place) or 0

    def kill(self) -> None:
        """kill -9 of the daemon."""
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive.lives(self.place), self.log)

    def cut(self) -> None:
        """kill -9 of all runs and of what keeps them, as when the machine goes down: nobody writes down how they ended."""
        for pid in (*self.keepers(), *recovery.processes(self.place / "jobs")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        """A daemon."""
        alive.rouse(self.place)

    def close(self) -> None:
        """Everything that was started ends."""
        for _ in range(50):
            pid = alive.pid(self.place)
            with contextlib.suppress(OSError):
                if pid:
                    os.kill(pid, signal.SIGKILL)
            left = [*recovery.processes(self.place / "jobs"), *self.keepers()]
            for one in left:
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            if not left and not alive.lives(self.place):
                return
            time.sleep(0.1)
        raise AssertionError("something lives on")


def until(true: Callable[[], object], why: Callable[[], object] = str, limit: float = LIMIT) -> None:
    """Waits for it, within a limit."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, f"it never came to be\n{why()}"
        time.sleep(0.01)

