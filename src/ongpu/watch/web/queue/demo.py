"""A made-up queue on the simulated node of `--demo`: an engine in memory, so that the pages can be looked at without a GPU."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ongpu.hosts.sampling.demo import uuid
from ongpu.lazy import replace
from ongpu.queue.engines import Engine, EngineError
from ongpu.queue.forecast import Terms
from ongpu.queue.job import CANCELLED, DONE, FAILED, HELD, LIVE, RUNNING, WAITING, Card, Listing, Spec, Told, Want
from ongpu.queue.reasons import Reason
from ongpu.queue.words import because
from ongpu.watch.web.queue.reading import Queue

HOUR, DAY = 3600.0, 86_400.0
LOST = 0.47 * HOUR  # since when GPU 7 is lost, as in the story that `web/demo.py` tells
OUTAGE = {7: (24.82 * HOUR, 24.1 * HOUR, "gpu-fell-off-bus")}  # a day ago, from when to when; the other GPUs: the driver was gone
DRIVER = (24.3 * HOUR, 24.1 * HOUR, "driver-module-not-loaded")
NAME, MEMORY = "NVIDIA H100 80GB HBM3", 81_559
FIELDS = frozenset({
    "name", "gpus", "memory", "share", "model", "limit", "cpus", "host_memory", "folder", "environ", "project", "priority", "retries",
    "checkpoint", "index", "at_once",
})  # fmt: skip
# user, project, name, GPUs, hours that it takes at least and at most, how likely it fails; the more lines, the more jobs
KINDS = (
    ("alice", "llm", "pretrain-7b", 2, 6.0, 16.0, 0.1), ("alice", "llm", "eval-mmlu", 1, 0.3, 1.0, 0.05),
    ("bob", "vision", "imagenet", 1, 3.0, 9.0, 0.15), ("bob", "vision", "augment-sweep", 1, 0.05, 0.25, 0.1),
    ("carol", "rl", "rollout-cheetah", 1, 1.0, 4.0, 0.1), ("frank", "serving", "bench-vllm", 1, 0.2, 0.8, 0.1),
    ("grace", "bio", "fold-batch", 1, 2.0, 7.0, 0.1), ("erin", "vision", "ablation", 1, 1.0, 5.0, 0.2),
)  # fmt: skip
ENDS = (
    ("out-of-memory", "oom-batch-too-large", 1), ("program", "", 1), ("timeout", "", 143), ("host-memory", "host-oom", 137),
)  # fmt: skip
BIG = Reason("impossible", {"gpus": 8, "memory": 81_920, "fitting": 7}).json()
STEPS = "epoch 3 step 1180  loss 2.31  612 ms\nepoch 3 step 1190  loss 2.30  609 ms\n"
OUTPUTS = {
    "gpu-fault": "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.13 GiB. GPU 0 has a total capacity of 79.11 GiB\n",
    "program": "ValueError: too many values to unpack (expected 2)\n",
}


class Made:
    """Jobs that never run. more: so many more that wait. clock: seconds since the epoch."""

    name = "local"
    honours = FIELDS
    advisory: Mapping[str, tuple[str, str]] = {}

    def __init__(self, seed: int = 7, more: int = 0, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.uuids = [uuid(seed, index) for index in range(8)]
        self.past: list[Told] = []
        self.live: list[Told] = []
        self._number = 4000
        self._week(random.Random(seed), clock())  # noqa: S311  made-up jobs
        self._wait(clock(), more)

    # -- as an engine

    def submit(self, specs: Sequence[Spec]) -> list[str]:
        """They wait for ever."""
        now = self.clock()
        made = [self._told(spec, WAITING, "demo", submitted=now, since=now, said=_behind(spec.gpus)) for spec in specs]
        self.live += made
        return [job.id for job in made]

    def jobs(self, want: Want) -> Listing:
        """Those that were asked for."""
        every = [*self.live, *reversed(self.past)]
        counts: dict[str, int] = {}
        for job in every:
            counts[job.state] = counts.get(job.state, 0) + 1
        if want.ids:
            return Listing(jobs=tuple(job for job in every if job.id in want.ids), counts=counts, cards=self._cards())
        runs = [job for job in self.live if job.state == RUNNING]
        waits = [job for job in self.live if job.state in (WAITING, HELD)]
        return Listing(jobs=(*runs, *waits[: want.most], *reversed(self.past[-(want.most or 0) :])), counts=counts, cards=self._cards())

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        """Some steps, and how it died."""
        told = self._one(job)
        if told.started is not None:
            yield (STEPS + OUTPUTS.get(told.ending, "")).encode()

    def cancel(self, jobs: Sequence[str]) -> None:
        """They are over at once."""
        for job in jobs:
            told = self._one(job)
            if told.state in LIVE:
                self.live.remove(told)
                self.past.append(replace(told, state=CANCELLED, ended=self.clock(), ending="stopped", said=""))

    def hold(self, jobs: Sequence[str]) -> None:
        """They wait."""
        self._turn(jobs, WAITING, HELD, "")

    def release(self, jobs: Sequence[str]) -> None:
        """They wait as before."""
        self._turn(jobs, HELD, WAITING, _behind(1))

    def why(self, job: "Told") -> list[tuple[str, str]]:
        """What it says of itself."""
        told = (because(job, "en"), because(job, "zh"))
        return [told] if any(told) else []

    def history(self, since: float) -> Iterator[Told]:
        """Those that ended."""
        return (job for job in self.past if (job.ended or 0.0) >= since)

    def _one(self, name: str) -> Told:
        for job in (*self.live, *self.past):
            if job.id == name:
                return job
        raise EngineError(f"there is no job {name}", f"没有作业 {name}")

    def _turn(self, jobs: Sequence[str], before: str, then: str, said: str) -> None:
        for name in jobs:
            told = self._one(name)
            if told.state == before:
                self.live[self.live.index(told)] = replace(told, state=then, said=said)

    # -- what is made up

    def _told(self, spec: Spec, state: str, user: str, **more: object) -> Told:
        self._number += 1
        return Told(id=str(self._number), spec=spec, state=state, user=user, **more)  # type: ignore[arg-type]

    def _week(self, chance: random.Random, now: float) -> None:
        """A week that ended: each GPU has a job after the other; GPU 4 is a notebook's for the last day, GPU 7 is lost for half an hour."""
        until = [now - 7.5 * DAY] * 8
        stop = [now - hours * HOUR for hours in (5.2, 5.2, 2.1, 1.4, 25, 0.7, 3.3, 2.1)]
        made: list[tuple[float, Told]] = []
        while True:
            gpu = min((gpu for gpu in range(8) if until[gpu] < stop[gpu] - 0.1 * HOUR), key=lambda gpu: until[gpu], default=None)
            if gpu is None:
                break
            kind = chance.choice(KINDS)
            user, project, name, wide, least, most, risk = kind
            pair = wide == 2 and abs(until[gpu] - until[gpu ^ 1]) < 2 * HOUR and stop[gpu] == stop[gpu ^ 1]
            held = [gpu, gpu ^ 1] if pair else [gpu]
            name = name if pair or wide == 1 else "finetune"
            pause = chance.uniform(0.5, 5.0) * HOUR if chance.random() < 0.12 else chance.uniform(5.0, 400.0)
            begin = max(until[one] for one in held) + pause
            down, up, fault = OUTAGE.get(max(held), DRIVER)
            if now - down <= begin < now - up:
                begin = now - up + chance.uniform(60, 900)
            end = min(begin + chance.uniform(least, most) * HOUR, *(stop[one] for one in held))
            for one in held:
                until[one] = end
            if end <= begin + 30:
                continue
            ending, slug, code = ("ok", "", 0) if chance.random() > risk else chance.choice(ENDS)
            if begin < now - down < end:
                end, ending, slug, code = now - down, "gpu-fault", fault, 1
                until = [min(until[one], now - up) if one in held else until[one] for one in range(8)]
            spec = Spec(command=("python", f"{name}.py"), name=name, gpus=len(held), project=project, memory=40_960, limit=24 * HOUR)
            seconds = (end - begin) * len(held)
            made.append((end, self._told(
                spec, DONE if ending == "ok" else FAILED, user, submitted=begin - chance.uniform(60, 9000), started=begin, ended=end,
                gpus=tuple(self.uuids[one] for one in held), attempts=1, code=code, ending=ending, slug=slug, attained=seconds,
                busy=chance.uniform(0.3, 0.98), peak=chance.randrange(12_000, 79_000), energy=seconds * chance.uniform(250, 650),
            )))  # fmt: skip
        self.past = [job for _, job in sorted(made, key=lambda one: one[0])]
        self._now(now)

    def _now(self, now: float) -> None:
        lost = Spec(command=("python", "finetune.py"), name="finetune", project="llm", memory=61_440, retries=2)
        self.past.append(self._told(
            lost, FAILED, "alice", submitted=now - 5 * HOUR, started=now - 2 * HOUR, ended=now - LOST, gpus=(self.uuids[7],), attempts=1,
            code=1, ending="gpu-fault", slug="gpu-fell-off-bus", attained=2 * HOUR - LOST,
        ))  # fmt: skip
        self.past.sort(key=lambda job: job.ended or 0.0)
        for user, project, name, gpus, hours, limit, busy, peak in (
            ("alice", "llm", "pretrain-7b", (0, 1), 5.1, 24.0, 0.97, 69_900), ("bob", "vision", "imagenet", (2,), 2.0, 12.0, 0.41, 22_050),
            ("carol", "rl", "rollout-cheetah", (3,), 1.3, None, 0.25, 9_800), ("erin", "vision", "ablation", (5,), 0.6, 8.0, 0.09, 31_000),
            ("frank", "serving", "vllm-chat", (6,), 3.2, None, 0.88, 75_700),
        ):  # fmt: skip
            spec = Spec(
                command=("python", f"{name}.py"), name=name, gpus=len(gpus), project=project, memory=40_960,
                limit=None if limit is None else limit * HOUR, folder=f"/home/{user}/{project}",
            )  # fmt: skip
            self.live.append(self._told(
                spec, RUNNING, user, submitted=now - (hours + 0.4) * HOUR, started=now - hours * HOUR, attempts=1,
                gpus=tuple(self.uuids[gpu] for gpu in gpus), attained=hours * HOUR * len(gpus), busy=busy, peak=peak,
            ))  # fmt: skip

    def _wait(self, now: float, more: int) -> None:
        for user, project, name, gpus, memory, hours, state, said in (
            ("grace", "bio", "fold-batch", 1, 61_440, 0.5, WAITING, _behind(1)),
            ("bob", "vision", "augment-sweep", 1, 16_384, 1.1, WAITING, _behind(1)),
            ("alice", "llm", "eval-mmlu", 2, 40_960, 1.4, WAITING, _behind(2)), ("erin", "vision", "ablation", 1, 40_960, 2.2, HELD, ""),
            ("alice", "llm", "pretrain-70b", 8, 81_920, 9.5, WAITING, BIG),
        ):  # fmt: skip
            spec = Spec(command=("python", f"{name}.py"), name=name, gpus=gpus, project=project, memory=memory, limit=6 * HOUR)
            self.live.append(self._told(spec, state, user, submitted=now - hours * HOUR, since=now - hours * HOUR, said=said))
        spec = Spec(command=("python", "sweep.py"), name="sweep", project="vision", memory=16_384)
        for index in range(more):
            one = replace(spec, index=index)
            self.live.append(self._told(one, WAITING, "bob", submitted=now - 600, since=now - 600, array="9000", said=_behind(1)))

    def _cards(self) -> tuple[Card, ...]:
        runs: dict[str, list[str]] = {}
        for job in self.live:
            for gpu in job.gpus if job.state == RUNNING else ():
                runs.setdefault(gpu, []).append(job.id)
        now = self.clock()
        used, util = (69_900, 69_900, 22_050, 9_800, 41_976, 31_000, 75_700, None), (97, 96, 38, 25, 0, 8, 88, None)
        return tuple(
            Card(
                id=one, index=index, name=NAME, memory=MEMORY, used=used[index], util=util[index], jobs=tuple(runs.get(one, ())),
                state="drained" if index == 7 else "ok", slug="gpu-fell-off-bus" if index == 7 else "",
                since=now - LOST if index == 7 else None, foreign=("dave: ipykernel_launcher",) if index == 4 else (),
            ) for index, one in enumerate(self.uuids)
        )  # fmt: skip


def _behind(gpus: int) -> str:
    return Reason("behind", {"gpus": gpus, "fitting": 0}).json()


def opening(make: Callable[[], Made] = Made) -> Callable[[Queue], Engine]:
    """What a Queue is given to open: a made-up engine, with its past."""

    def begin(queue: Queue) -> Engine:
        made = make()
        queue.history, queue.terms = made.history, lambda now: Terms()
        return made

    return begin
