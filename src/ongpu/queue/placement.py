"""Which jobs start on which GPUs, which give way, and why the others wait: a pure function of jobs, GPUs, policy and time."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ongpu.lazy import dataclass, field
from ongpu.queue.reasons import Reason

HOUR, DAY = 3600.0, 86_400.0
BASE = HOUR  # GPU-seconds of the first bucket: most jobs of the Philly trace end within one GPU hour
Key: TypeAlias = tuple[float, int, float, str]


@dataclass(frozen=True, slots=True)
class Job:
    """A job that waits or runs. Times are seconds since the epoch, memory is MiB on each GPU.

    since: when it began to wait, this time. attained: GPU-seconds of its earlier runs. started, held: of the run that goes on.
    checkpoint: it declared a signal at which it saves its state and ends; only such a job is ever preempted.
    limit: seconds that it may run, as declared; None: nobody said.
    """

    id: str
    gpus: int
    submitted: float
    since: float
    memory: int = 0
    user: str = ""
    project: str = ""
    priority: int = 0
    attained: float = 0.0
    checkpoint: bool = False
    limit: float | None = None
    started: float | None = None
    held: tuple[str, ...] = ()

    def begun(self, now: float, held: tuple[str, ...]) -> "Job":
        """The same job, running."""
        return Job(self.id, self.gpus, self.submitted, self.since, self.memory, self.user, self.project, self.priority, self.attained,
                   self.checkpoint, self.limit, now, held)  # fmt: skip

    def stopped(self, now: float) -> "Job":
        """The same job, waiting again."""
        return Job(self.id, self.gpus, self.submitted, now, self.memory, self.user, self.project, self.priority, self.used(now),
                   self.checkpoint, self.limit)  # fmt: skip

    def used(self, now: float) -> float:
        """GPU-seconds so far."""
        return self.attained if self.started is None else self.attained + max(0.0, now - self.started) * self.gpus


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU (or MIG slice). fault: the slug of an open incident. taken: held by somebody who did not come through the queue. last: given
    out only where others do not do: something uses a part of its memory, and nobody knows what."""

    id: str
    node: str = ""
    memory: int = 1 << 30
    fault: str = ""
    taken: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """How the queue is ordered. The knobs of `ours` (what each is for stands in docs/en/placement.md):

    order: "feedback", "arrival", "limit" (shortest declared first), "remaining", "attained" (two queues).
    passing: whether a job that does not fit lets later ones by: "all", "none", "backfill" (those that delay it by no second).
    headroom: share of the GPUs that no old uninterruptible job holds which young uninterruptible ones may take; 1: all.
    patience: seconds of waiting after which a job is overdue; the wider and less interruptible, the longer (`width`).
    lane: share of the GPUs that overdue jobs are sure of; one overdue job is always let in. turn: how long it keeps them.
    spent: GPU-seconds of late by user and by project ("user:ann", "project:vision"), for the fair share.
    """

    name: str = "ours"
    order: str = "feedback"
    passing: str = "all"
    preempts: bool = True
    factor: float = 2.0
    headroom: float = 0.3
    patience: float = 21 * DAY
    width: float = 2.0
    lane: float = 0.1
    turn: float = DAY
    spent: Mapping[str, float] = field(default_factory=dict)


POLICIES: Mapping[str, Policy] = {
    "fifo": Policy("fifo", "arrival", "none", preempts=False, headroom=1, patience=math.inf),
    "easy": Policy("easy", "arrival", "backfill", preempts=False, headroom=1, patience=math.inf),
    "sjf": Policy("sjf", "limit", preempts=False, headroom=1, patience=math.inf),
    "las": Policy("las", "attained", headroom=1, patience=math.inf),
    "srtf": Policy("srtf", "remaining", headroom=1, patience=math.inf),
    "ours": Policy(),
}


@dataclass(frozen=True, slots=True)
class Start:
    """Start the job on these GPUs."""

    job: Job
    gpus: tuple[str, ...]
    why: Reason


@dataclass(frozen=True, slots=True)
class Preempt:
    """Ask the job to save its state and end; it waits again."""

    job: Job
    why: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """Let the job wait."""

    job: Job
    why: Reason


Decision: TypeAlias = Start | Preempt | Hold


def bucket(spent: float, factor: float = 2.0) -> int:
    """0 below one GPU hour, then one more with each doubling."""
    return 0 if spent < BASE else 1 + int(math.log(spent / BASE, factor) + 1e-9)


def next_bucket(spent: float, factor: float = 2.0) -> float:
    """The GPU-seconds at which the next bucket begins."""
    return BASE if spent < BASE else BASE * factor ** bucket(spent, factor)


def crossing(job: Job, policy: Policy, now: float) -> float | None:
    """When the bucket of a job that runs changes next, as far as that can change a decision; None: it cannot."""
    used = job.used(now)
    if policy.order == "feedback":
        if not job.checkpoint and used >= BASE - 1e-6:
            return None
        following = next_bucket(used + 1e-3, policy.factor)
    elif policy.order == "attained" and job.checkpoint and used < BASE:
        following = BASE
    else:
        return None
    return now + (following - used) / max(1, job.gpus) + 1e-3


def patience(job: Job, policy: Policy, total: int) -> float:
    """Seconds that it may wait before it is overdue. An uninterruptible job that wants all GPUs stops everybody: it waits longest."""
    return policy.patience if job.checkpoint else policy.patience * (1 + policy.width * job.gpus / max(1, total))


def surcharge(policy: Policy) -> Callable[[Job], int]:
    """Buckets that a job is put back because its user or project had more of late than the mean of the others.

    One for each doubling, three at most; where nobody else is known, none.
    """
    if not policy.spent:
        return lambda job: 0
    put: dict[str, int] = {}
    for kind in ("user:", "project:"):
        amounts = {name: amount for name, amount in policy.spent.items() if name.startswith(kind)}
        total = sum(amounts.values())
        for name, amount in amounts.items():
            ratio = amount / max(BASE, (total - amount) / (len(amounts) - 1)) if len(amounts) > 1 else 0.0
            put[name] = min(3, int(math.log2(ratio))) if ratio >= 2 else 0

    return lambda job: max(put.get(f"user:{job.user}", 0), put.get(f"project:{job.project}", 0))


def order(policy: Policy, now: float) -> Callable[[Job], Key]:
    """The key by which jobs come: the smallest first. Within a bucket who runs stays, then who has waited longest."""
    kind, factor, extra = policy.order, policy.factor, surcharge(policy)

    def feedback(job: Job) -> Key:
        return bucket(job.used(now), factor) + extra(job) - job.priority, job.started is None, job.since, job.id

    def attained(job: Job) -> Key:  # Tiresias' discretised 2D-LAS (NSDI 2019, section 3): two queues, in each by start
        used = job.used(now)
        return float(used >= BASE), not used and job.started is None, job.submitted, job.id

    def limit(job: Job) -> Key:
        return (math.inf if job.limit is None else job.limit), job.started is None, job.since, job.id

    def remaining(job: Job) -> Key:
        return (math.inf if job.limit is None else job.limit - job.used(now) / max(1, job.gpus)), job.started is None, job.since, job.id

    def arrival(job: Job) -> Key:
        return -job.priority, 0, job.submitted, job.id

    return {"feedback": feedback, "attained": attained, "limit": limit, "remaining": remaining, "arrival": arrival}[kind]


def place(jobs: Iterable[Job], gpus: Sequence[Gpu], policy: Policy, now: float, tell: bool = True) -> list[Decision]:
    """What to do now. jobs: all that run, and those that wait (or the heads of their lines, `lines.Lines.heads`: the answer is the same).

    tell: whether those that go on waiting are told why. Preemptions stand before the starts that need them.
    """
    from ongpu.queue.placing import Placing

    return Placing(jobs, gpus, policy, now, tell).decide()
