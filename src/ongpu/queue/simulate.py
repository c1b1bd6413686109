"""A trace replayed on pretended GPUs: the same decisions as the queue makes, event by event, and what came of them."""

import heapq
import math
import random
from collections.abc import Sequence

from ongpu.lazy import dataclass, field, replace
from ongpu.queue.lines import Lines
from ongpu.queue.placement import HOUR, Gpu, Hold, Job, Policy, Preempt, Start, crossing, place

RESTART = 60.0  # seconds that saving, ending, starting and loading cost: the figure of Sia's and of our research's simulator
SAVED_EACH = HOUR  # a job that can checkpoint loses at most this when its GPU fails
MOST_FAILED = 100  # times that a job's GPU may fail under it: what cannot save its state and runs too long for that would never end
REPAIR = 24 * HOUR  # seconds until a failed GPU has passed its test
TICK = 6 * HOUR  # while jobs wait, at least this often it is asked who is overdue
ARRIVE, END, CROSS, FAIL, REPAIRED, ASK = range(6)


@dataclass(frozen=True, slots=True)
class Task:
    """One job of a trace. submitted, duration: seconds; the duration is known to the simulation and to oracles only."""

    id: str
    submitted: float
    duration: float
    gpus: int
    memory: int = 0
    user: str = ""
    project: str = ""
    checkpoint: bool = False
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one policy. times: seconds from submission to the end, by task; waits: of which without a GPU.

    idle: decisions after which a GPU was free that a waiting job could have had. kept: of those with GPUs kept for an overdue job.
    scattered: starts on more nodes than needed, of all starts on several GPUs. lost: tasks that never ended.
    """

    policy: str
    times: dict[str, float]
    waits: dict[str, float]
    users: dict[str, str]
    preemptions: int = 0
    failures: int = 0
    idle: int = 0
    kept: int = 0
    scattered: float = 0.0
    busy: float = 0.0
    on_fault: int = 0
    decisions: int = 0
    lost: list[str] = field(default_factory=list)


def machine(count: int, each: int = 8) -> list[Gpu]:
    """GPUs on nodes of eight."""
    return [Gpu(f"gpu-{n:05d}", f"node-{n // each:04d}") for n in range(count)]


def draw(tasks: Sequence[Task], share: float, seed: int) -> list[Task]:
    """The tasks, a share of them (drawn by the seed) able to checkpoint."""
    dice = random.Random(seed)  # noqa: S311
    return [replace(task, checkpoint=dice.random() < share) for task in tasks]


def told(tasks: Sequence[Task], policy: Policy) -> list[Task]:
    """The tasks as the others see them: oracles get the true duration as limit; LAS and SRTF preempt each job, as their papers have it."""
    if policy.name not in ("easy", "sjf", "las", "srtf"):
        return list(tasks)
    every, knows = policy.name in ("las", "srtf"), policy.name != "las"
    return [replace(task, limit=task.duration if knows else task.limit, checkpoint=task.checkpoint or every) for task in tasks]


class Simulation:
    """The clock, the GPUs and the jobs of one replay."""

    def __init__(self, tasks: Sequence[Task], gpus: Sequence[Gpu], policy: Policy, faults: float = 0.0, seed: int = 1) -> None:
        fit = {memory: sum(gpu.memory >= memory for gpu in gpus) for memory in {task.memory for task in tasks}}
        self.tasks = sorted((task for task in tasks if task.gpus <= fit[task.memory]), key=lambda task: (task.submitted, task.id))
        self.by_id = {task.id: task for task in self.tasks}
        self.gpus = {gpu.id: gpu for gpu in gpus}
        self.cards = list(gpus)
        self.policy, self.faults, self.dice = policy, faults, random.Random(seed)  # noqa: S311
        self.lines = Lines(policy)
        self.running: dict[str, Job] = {}
        self.done: dict[str, float] = {}  # seconds of work behind a job that was stopped
        self.cost: dict[str, float] = {}  # of the run that goes on
        self.ran: dict[str, float] = {}
        self.free = len(self.cards)
        self.events: list[tuple[float, int, int, str, float]] = []
        self.number = 0
        self.now = 0.0
        self.busy = 0.0
        self.preemptions = self.failures = self.idle = self.kept = self.wide = self.scattered = self.on_fault = self.decisions = 0
        self.times: dict[str, float] = {}
        self.failed: dict[str, int] = {}  # how often its GPU failed under it
        self.lost: set[str] = set()
        self.asked = math.inf
        self.owners = any(task.user or task.project for task in self.tasks)
        self.spent: dict[str, float] = {}
        self.spent_at = 0.0

    def _at(self, time: float, kind: int, subject: str, mark: float = 0.0) -> None:
        self.number += 1
        heapq.heappush(self.events, (time, self.number, kind, subject, mark))

    def run(self) -> Result:
        """Until every job has ended."""
        tasks, position, count = self.tasks, 0, len(self.tasks)
        if self.faults and count:
            for gpu in self.gpus:
                self._next_fault(gpu, tasks[0].submitted)
        while len(self.times) + len(self.lost) < count:
            arrives = tasks[position].submitted if position < count else math.inf
            now = self.now = min(arrives, self.events[0][0] if self.events else math.inf)
            if math.isinf(now):
                break  # what waits can never start
            changed = False
            while position < count and tasks[position].submitted <= now:
                task = tasks[position]
                position += 1
                who = (task.memory, task.user, task.project, 0, 0.0)
                self.lines.add(Job(task.id, task.gpus, task.submitted, now, *who, task.checkpoint, task.limit))
                if self.owners:
                    self.spent.setdefault(f"user:{task.user}", 0.0)
                    self.spent.setdefault(f"project:{task.project}", 0.0)
                changed = True
            while self.events and self.events[0][0] <= now:
                _, _, kind, subject, mark = heapq.heappop(self.events)
                changed |= self._happen(kind, subject, mark)
            if changed and self.lines.count:
                self._decide()
        span = (self.now - tasks[0].submitted) * len(self.cards) if tasks else 0.0
        waits = {name: time - self.ran[name] for name, time in self.times.items()}
        return Result(
            self.policy.name, self.times, waits, {task.id: task.user for task in tasks},
            self.preemptions, self.failures, self.idle, self.kept, self.scattered / max(1, self.wide),
            self.busy / span if span else 0.0, self.on_fault, self.decisions, [task.id for task in tasks if task.id not in self.times],
        )  # fmt: skip

    def _happen(self, kind: int, subject: str, mark: float) -> bool:
        """One event; whether there is something to decide."""
        now = self.now
        if kind == ASK:
            self.asked = math.inf
            return True
        if kind == FAIL:
            self._fail(subject)
            return True
        if kind == REPAIRED:
            self._card(replace(self.gpus[subject], fault=""))
            self._next_fault(subject, now)
            return True
        job = self.running.get(subject)
        if job is None or job.started != mark:
            return False  # of a run that is over
        if kind == CROSS:
            self._crossing(job)
            return True
        self._leave(job)
        self.times[subject] = now - job.submitted
        return True

    def _leave(self, job: Job) -> None:
        ran = self.now - (job.started or 0.0)
        del self.running[job.id]
        self.free += len(job.held)
        self.ran[job.id] = self.ran.get(job.id, 0.0) + ran
        self.busy += ran * job.gpus
        if self.owners:
            for name in (f"user:{job.user}", f"project:{job.project}"):
                self.spent[name] = self.spent.get(name, 0.0) + ran * job.gpus

    def _crossing(self, job: Job) -> None:
        """When it is to be asked again who comes first, because this one has used more."""
        time = crossing(job, self.policy, self.now)
        if time is not None and time < self.now + self.by_id[job.id].duration + RESTART:
            self._at(time, CROSS, job.id, job.started or 0.0)

    def _decide(self) -> None:
        now = self.now
        policy = self._fair() if self.owners else self.policy
        again = True
        while again:  # what gave way waits now, and may fit elsewhere
            again = False
            running = list(self.running.values())
            heads = self.lines.heads(running, self.cards, now)
            self.decisions += 1
            if not heads:
                break
            for decision in place(running + heads, self.cards, policy, now, tell=False):
                if isinstance(decision, Preempt):
                    again = True
                    self.preemptions += 1
                    self._stop(decision.job, self._worked(decision.job))
                elif isinstance(decision, Start):
                    self._start(decision)
        if self.lines.count:
            if self.free and self.policy.passing == "all":
                self._check_idle(policy)
            if math.isinf(self.asked) and not math.isinf(policy.patience):
                self.asked = now + TICK
                self._at(self.asked, ASK, "")

    def _fair(self) -> Policy:
        """The policy with what each user had of late, halved each week; looked at anew each six hours."""
        if self.now - self.spent_at >= TICK:
            kept = 0.5 ** ((self.now - self.spent_at) / (7 * 24 * HOUR))
            self.spent = {name: amount * kept for name, amount in self.spent.items()}
            self.spent_at = self.now
            self.policy = self.lines.policy = replace(self.policy, spent=dict(self.spent))
        return self.policy

    def _worked(self, job: Job) -> float:
        return max(0.0, self.now - (job.started or 0.0) - self.cost[job.id])

    def _stop(self, job: Job, worked: float) -> None:
        self._leave(job)
        self.done[job.id] = self.done.get(job.id, 0.0) + worked
        self.lines.add(job.stopped(self.now))

    def _start(self, start: Start) -> None:
        job, now = start.job, self.now
        self.lines.remove(job)
        if len(start.gpus) > 1:
            self.wide += 1
            nodes = {self.gpus[gpu].node for gpu in start.gpus}
            self.scattered += len(nodes) > math.ceil(len(start.gpus) / 8)
        self.on_fault += any(self.gpus[gpu].fault for gpu in start.gpus)
        self.free -= len(start.gpus)
        self.running[job.id] = begun = job.begun(now, start.gpus)
        self.cost[job.id] = cost = RESTART if job.id in self.ran else 0.0
        self._at(now + self.by_id[job.id].duration - self.done.get(job.id, 0.0) + cost, END, job.id, now)
        self._crossing(begun)

    def _check_idle(self, policy: Policy) -> None:
        """No GPU stays idle while a job waits that fits it: else it is counted, and why."""
        held = {gpu for job in self.running.values() for gpu in job.held}
        idle = [gpu for gpu in self.cards if gpu.id not in held and not gpu.fault]
        if not any(line[1] <= len(idle) and sum(gpu.memory >= line[2] for gpu in idle) >= line[1] for line in self.lines.lines):
            return
        running = list(self.running.values())
        told = place(running + self.lines.heads(running, self.cards, self.now), self.cards, policy, self.now)
        kept = any(isinstance(one, Hold) and one.why.name == "reserved" for one in told)
        self.kept += kept
        self.idle += not kept

    def _next_fault(self, gpu: str, now: float) -> None:
        self._at(now + self.dice.expovariate(self.faults / (30 * 24 * HOUR)), FAIL, gpu)

    def _card(self, gpu: Gpu) -> None:
        if bool(self.gpus[gpu.id].fault) != bool(gpu.fault):
            self.free += -1 if gpu.fault else 1
        self.gpus[gpu.id] = gpu
        self.cards = list(self.gpus.values())

    def _fail(self, gpu: str) -> None:
        """A GPU falls: what ran on it begins anew, or from what it last saved."""
        self.failures += 1
        for job in list(self.running.values()):
            if gpu in job.held:
                worked = self._worked(job)
                self.failed[job.id] = self.failed.get(job.id, 0) + 1
                if self.failed[job.id] > MOST_FAILED:
                    self._leave(job)
                    self.lost.add(job.id)
                    continue
                before = self.done.get(job.id, 0.0)
                kept = (before + worked) // SAVED_EACH * SAVED_EACH - before if job.checkpoint else -before
                self._stop(job, kept)
        self._card(replace(self.gpus[gpu], fault="xid-79"))
        self._at(self.now + REPAIR, REPAIRED, gpu)


def simulate(tasks: Sequence[Task], gpus: Sequence[Gpu], policy: Policy, faults: float = 0.0, seed: int = 1) -> Result:
    """Replay the tasks. faults: per GPU and 30 days. Tasks that want more GPUs than there are, or larger ones, do not take part."""
    return Simulation(told(tasks, policy), gpus, policy, faults, seed).run()
