"""The promise of the queue under kill -9 of its daemon, keepers, looker and commands that submit, at random moments.

No job is lost, none is run twice (but those that gave way, once for each time), no GPU has two jobs, and every exit code is the true one.
`ONGPU_CRASHES=300 pytest -m slow` makes 300 kills; ONGPU_CRASH_SEED repeats what was drawn.
"""

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from queues import Queue, until

from ongpu.lazy import replace
from ongpu.queue.config import load
from ongpu.queue.engines.local import alive, recovery
from ongpu.queue.engines.local.book import Book
from ongpu.queue.engines.local.engine import Local
from ongpu.queue.job import LIVE, Spec, Told, Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
Make = Callable[..., Queue]
BEGIN = 'echo "b $ONGPU_JOB $ONGPU_ATTEMPT $CUDA_VISIBLE_DEVICES" >>log; '
END = 'echo "e $ONGPU_JOB $ONGPU_ATTEMPT" >>log; exit {code}'
WORK = BEGIN + "sleep {sleep}; " + END
SAVES = (  # gives way where it is asked to
    "trap 'asked=1' USR1; "
    + BEGIN
    + "for step in 1 2 3 4 5 6 7 8; do sleep 0.03; "
    + '[ -z "$asked" ] || {{ touch saved.$ONGPU_JOB.$ONGPU_ATTEMPT; echo "e $ONGPU_JOB $ONGPU_ATTEMPT" >>log; exit 9; }}; done; '
    + END
)
MOST_LIVE = 24


def stopped(pid: int) -> bool:
    """Whether it is stopped, or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "tTZX"
    except OSError:
        return True


class Storm:
    """Random work and random kills on one queue."""

    def __init__(self, queue: Queue, seed: int) -> None:
        self.queue, self.chance, self.seed = queue, random.Random(seed), seed
        self.batches = 0
        self.promised = queue.work / "promised"  # ids that a submit returned before it was killed
        self.promised.touch()
        self.orphaned: set[str] = set()  # jobs of which the keeper was killed
        self.counts: dict[str, int] = {}

    def specs(self) -> list[Spec]:
        """A batch: its number and size are in each name."""
        self.batches += 1
        many = self.chance.choice((1, 1, 2, 5))
        found = []
        for at in range(many):
            code = self.chance.choice((0, 0, 0, 3, 77))
            program = WORK.format(sleep=self.chance.choice(("0", "0.02", "0.1", "0.3")), code=code)
            spec = self.queue.shell(program, gpus=self.chance.choice((0, 1, 1, 1, 2)), name=f"{self.batches}-{at}-{many}-{code}")
            if spec.gpus and self.chance.random() < 0.3:
                saves = SAVES.format(code=code)
                spec = replace(spec, command=("sh", "-c", saves), checkpoint="SIGUSR1", saved="saved.*", grace=5.0)
            elif spec.gpus:
                spec = replace(spec, priority=self.chance.choice((0, 0, 3, 9)), limit=self.chance.choice((None, 600.0)))
            if self.chance.random() < 0.2 and spec.gpus and not spec.checkpoint:
                spec = replace(spec, share=True, memory=self.chance.choice((20_000, 40_000)))
            found.append(spec)
        return found

    def submit(self, kill: bool) -> None:
        """In a process of its own, which may be killed while it does so."""
        specs = self.specs()
        pid = os.fork()
        if pid == 0:
            try:
                ids = Local(load()).submit(specs)
                with open(self.promised, "a") as file:
                    file.write(f"{' '.join(ids)}\n")
            finally:
                os._exit(0)
        if kill:
            time.sleep(self.chance.random() * 0.03)
            os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 60
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            assert time.monotonic() < end
            time.sleep(0.001)

    def kill(self) -> None:
        """One kill -9 of something."""
        what = self.chance.choice(("daemon", "daemon", "keeper", "submit", "child"))
        if what == "submit":
            self.submit(kill=True)
        elif what == "daemon":
            pid = alive.pid(self.queue.place)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL) if pid else None
            time.sleep(self.chance.choice((0, 0, 0.02, 0.2)))
            alive.rouse(self.queue.place)
        elif what == "child":  # the looker, or who looks into what a job died of
            children = recovery.children(alive.pid(self.queue.place) or os.getpid())
            keepers = self.queue.keepers()
            others = [pid for pid in children if pid not in keepers]
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(others), signal.SIGKILL) if others and alive.pid(self.queue.place) else None
        else:
            self.kill_keeper()
        self.counts[what] = self.counts.get(what, 0) + 1

    def kill_keeper(self) -> None:
        """One that keeps a run; its command goes on."""
        running = [job for job in self.listing() if job.state in ("starting", "running")]
        if not running:
            return
        job = self.chance.choice(running)
        pid = self.queue.keeper(job)
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # it takes no other run from here on
            until(lambda: stopped(pid))
            try:
                if recovery.goes_on(self.queue.folder(job)):
                    self.orphaned.add(job.id)
                    os.kill(pid, signal.SIGKILL)
            finally:
                os.kill(pid, signal.SIGCONT)

    def listing(self) -> tuple[Told, ...]:
        return self.queue.engine.jobs(Want(most=None)).jobs

    def go(self, kills: int) -> None:
        """So many kills; then all comes to rest, and is judged."""
        for _ in range(kills):
            live = sum(job.state in LIVE for job in self.queue.engine.jobs(Want(most=MOST_LIVE)).jobs)
            if live < MOST_LIVE:
                self.submit(kill=False)
            time.sleep(self.chance.random() * 0.12)
            self.kill()
        alive.rouse(self.queue.place)

        def live() -> list[Told]:
            if not alive.lives(self.queue.place):  # killed so late that its lock was still there when the next one was to be started
                alive.rouse(self.queue.place)
            return [job for job in self.listing() if job.state in LIVE]

        until(lambda: not live(), lambda: f"{live()}\n{self.queue.log()}\ndaemon: {alive.pid(self.queue.place)}")
        self.judge()

    def judge(self) -> None:
        """What was promised, held against what happened."""
        jobs = {job.id: job for job in self.listing()}
        promised = self.promised.read_text().split()
        assert set(promised) <= set(jobs), "every id that was returned is there"
        for job in jobs.values():  # a batch is there whole or not at all
            batch, _, many, _ = job.spec.name.split("-")
            assert sum(other.spec.name.startswith(f"{batch}-") for other in jobs.values()) == int(many), job
        begun: dict[tuple[str, str], int] = {}
        on: dict[str, tuple[str, int]] = {}  # GPU -> who has it
        holds: dict[tuple[str, str], list[str]] = {}
        for line in (self.queue.work / "log").read_text().splitlines():
            word, job, attempt, *gpus = line.split(" ")
            run = job, attempt
            if word == "b":
                begun[run] = begun.get(run, 0) + 1
                holds[run] = [gpu for gpu in (gpus[0].split(",") if gpus else []) if gpu]
                share = jobs[job].spec.share
                for gpu in holds[run]:
                    held = on.get(gpu)
                    assert held is None or (share and held[0] == "share" and held[1] < 4), f"two on {gpu}: {line}\n{self.queue.log()}"
                    on[gpu] = ("share" if share else "whole", (held[1] if held else 0) + 1)
            else:
                for gpu in holds.pop(run):
                    kind, many = on.pop(gpu)
                    if many > 1:
                        on[gpu] = kind, many - 1
        assert not holds, "who began has ended"
        assert set(begun.values()) <= {1}, "an attempt begins once"
        ran = [job for job, _ in begun if not jobs[job].spec.checkpoint]
        assert len(ran) == len(set(ran)), f"no job is run twice: {sorted(ran)}"
        for job in jobs.values():
            code = int(job.spec.name.split("-")[3])
            if job.id in self.orphaned and job.state == "lost":
                assert (job.code, job.ending) == (None, "vanished")
            else:
                assert (job.state, job.code) == ("done" if code == 0 else "failed", code), f"{job}\n{self.queue.log()}"
                assert (job.id, str(job.attempts)) in begun, f"{job} says that it ran"
        self.counts["gave way"] = sum(1 for job, _ in begun if jobs[job].spec.checkpoint) - sum(
            bool(job.spec.checkpoint) for job in jobs.values()
        )
        assert not recovery.processes(self.queue.place / "jobs"), "nothing is left behind"
        until(lambda: not self.queue.keepers())
        with Book(self.queue.place) as book:
            assert book.runs() == []
            assert all(card.jobs == () for card in book.cards())


def test_kills_at_random(make: Make) -> None:
    Storm(make(4), random.randrange(1 << 30)).go(12)


@pytest.mark.slow
def test_many_kills_at_random(make: Make) -> None:
    seed = int(os.environ.get("ONGPU_CRASH_SEED") or random.randrange(1 << 30))
    storm = Storm(make(4), seed)
    try:
        storm.go(int(os.environ.get("ONGPU_CRASHES", "100")))
    except BaseException:
        sys.stderr.write(f"seed {seed}, kills {storm.counts}\n")
        raise
    sys.stderr.write(f"seed {seed}, kills {storm.counts}, jobs {len(storm.listing())}\n")
