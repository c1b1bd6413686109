"""When a waiting job is expected to start: the queue's own decisions replayed forward with the lengths that are known; pure.

A length is the median of what earlier jobs of that name and user took, at most the declared limit; else the limit; else nobody knows it,
and such a job never ends in the replay: what comes behind it is then told as unknown. What was not replayed: quotas, CPUs, host memory,
reservations, faults to come, and jobs that nobody has submitted yet.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

from ongpu.knowledge.median import median
from ongpu.lazy import dataclass, field
from ongpu.queue.job import DONE, HELD, LIVE, WAITING, Card, Told
from ongpu.queue.lines import Lines
from ongpu.queue.placement import Gpu, Job, Policy, Preempt, Start, place
from ongpu.queue.reasons import Reason
from ongpu.queue.words import brief

MOST_EVENTS = 3000  # beyond, the answer would be far away and worth nothing
RESTART = 60.0  # seconds that saving and loading cost (queue/simulate.py)
ARRIVE, END = 0, 1
# Why a job waits, as far as the replay knows of it; of the others (quotas, CPUs, host memory, reservations, ...) nobody knows the end
REPLAYED = ("behind", "headroom", "reserved", "in-turn", "dependency", "begin", "at-once", "gives-way", "gives-way-overdue")
NAMED = {"reservation-runs": "reservation", "reservation-later": "later"}  # of these the reason itself says when
Lengths = Mapping[tuple[str, str], Sequence[float]]

WORDS: Mapping[str, tuple[str, str]] = {
    "at": ("expected to start {when}, {basis}", "预计{when}开始，{basis}"),
    "unknown": ("nobody can tell when it starts: {jobs} may run for any time (no time limit, no earlier run of that name)",
                "无法预计何时开始：{jobs} 能运行多久未知（没有时限，也没有同名的历史运行）"),
    "other": ("when that changes cannot be told", "何时解除无法预计"),
    "reservation": ("it can start when the reservation is over", "预留结束后才能开始"),
    "later": ("it can start when the reservation begins", "预留开始后才能开始"),
    "far": ("too many jobs end and start before it for a forecast", "在它之前还有太多作业，无法预计"),
    "held": ("it does not start until it is released", "解除挂起之前不会开始"),
    "never": ("it cannot start on the GPUs that are in service now", "以现在可用的 GPU，它无法开始"),
    "others": ("programs that did not come through the queue hold GPUs that it needs", "它需要的 GPU 被队列之外的程序占用"),
    "limit": ("{count} before it run to their limit", "前面 {count} 个运行到时限"),
    "limit_1": ("1 before it runs to its limit", "前面 1 个运行到时限"),
    "earlier": ("{count} take as long as earlier ones of that name", "{count} 个与以往同名作业用时相同"),
    "earlier_1": ("1 takes as long as earlier ones of that name", "1 个与以往同名作业用时相同"),
    "if": ("if {parts}", "假定{parts}"),
    "nothing": ("if nothing else comes", "假定没有别的作业插入"),
    "now": ("at any moment", "很快"),
    "in": ("in about {length} ({clock})", "约 {length} 后（{clock}）"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """at: seconds since the epoch, where `kind` is "at". rests: on how many lengths of each kind ("limit", "earlier"). jobs: those whose
    length nobody knows."""

    kind: str
    at: float | None = None
    rests: Mapping[str, int] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()

    def text(self, lang: str, now: float) -> str:
        """The sentence in "en" or "zh"."""
        zh = lang == "zh"
        if self.kind == "unknown":
            shown = ("、" if zh else ", ").join(self.jobs[:3]) + ((" 等" if zh else " and others") if len(self.jobs) > 3 else "")
            return WORDS["unknown"][zh].format(jobs=shown)
        if self.kind != "at" or self.at is None:
            return WORDS[self.kind][zh]
        parts = [WORDS[f"{name}_1" if many == 1 else name][zh].format(count=many) for name, many in self.rests.items() if many]
        length, clock = brief(_up(self.at - now)), _clock(self.at, now)
        when = WORDS["now"][zh] if self.at - now < 5 else WORDS["in"][zh].format(length=length, clock=clock)
        basis = WORDS["if"][zh].format(parts=("、" if zh else " and ").join(parts)) if parts else WORDS["nothing"][zh]
        return WORDS["at"][zh].format(when=when, basis=basis)


def _up(length: float) -> float:
    """To the next full minute, from one minute on."""
    return length if length < 60 else 60.0 * -(-length // 60)


def _clock(at: float, now: float) -> str:
    """ "16:40" where it is within 20 hours, else with its date."""
    from time import localtime, strftime

    return strftime("%H:%M" if at - now < 72_000 else "%m-%d %H:%M", localtime(at))


def lengths(jobs: Iterable[Told]) -> dict[tuple[str, str], list[float]]:
    """What earlier jobs that went well took, in seconds, by user and name."""
    found: dict[tuple[str, str], list[float]] = {}
    for job in jobs:
        if job.state == DONE and job.started and job.ended and job.ended >= job.started and job.spec.name:
            found.setdefault((job.user, job.spec.name), []).append(job.ended - job.started)
    return found


def length(job: Told, past: Lengths, now: float) -> tuple[float | None, str]:
    """Seconds that it will still run once it runs, and on what that rests: "limit", "earlier", or "" where nobody knows."""
    used = max(0.0, now - job.started) if _runs(job) and job.started else 0.0
    kept = job.attained / max(1, job.spec.gpus) if job.spec.checkpoint and not _runs(job) else 0.0  # it goes on from there
    limit = None if job.spec.limit is None else max(0.0, job.spec.limit - used)
    longer = [one for one in past.get((job.user, job.spec.name), ()) if one > used + kept]
    if longer:
        expected = float(median(longer)) - used - kept
        return (expected if limit is None else min(expected, limit)), "earlier"
    return limit, "limit" if limit is not None else ""


def forecast(wanted: str, jobs: Sequence[Told], cards: Sequence[Card], policy: Policy, past: Lengths, now: float) -> Forecast:
    """When that job starts. jobs: all that live, or at least all that come before it."""
    told = {job.id: job for job in jobs if job.state in LIVE}
    mine = told.get(wanted)
    if mine is None or mine.state == HELD:
        return Forecast(kind="held" if mine else "far")
    if (reason := Reason.of(mine.said)) is not None and reason.name not in REPLAYED:
        return Forecast(kind=NAMED.get(reason.name, "other"))
    gpus = [_gpu(card) for card in cards if mine.spec.model.lower() in card.name.lower()]
    sound = [gpu for gpu in gpus if not gpu.fault and gpu.memory >= (mine.spec.memory or 0)]
    if len(sound) < mine.spec.gpus:
        return Forecast(kind="never")
    if sum(not gpu.taken for gpu in sound) < mine.spec.gpus:
        return Forecast(kind="others")
    return _Replay(told, gpus, policy, past, now).until(wanted)


class _Replay:
    """The clock, the GPUs and the jobs that are replayed."""

    def __init__(self, told: Mapping[str, Told], gpus: Sequence[Gpu], policy: Policy, past: Lengths, now: float) -> None:
        self.told, self.gpus, self.policy, self.past, self.now = told, gpus, policy, past, now
        self.lines = Lines(policy)
        self.running: dict[str, Job] = {}
        self.left: dict[str, float] = {}
        self.basis: dict[str, str] = {}
        self.ended: set[str] = set()
        self.counted: list[str] = []  # those whose end was waited for
        self.kept_out = {job.id: job for job in told.values() if job.state == WAITING}  # not in line yet
        self.events: list[tuple[float, int, str, float]] = []
        names = {gpu.id for gpu in gpus}
        for job in told.values():
            if _runs(job):
                held = tuple(gpu for gpu in job.gpus if gpu in names)
                self._begin(_placed(job).begun(job.started or now, held), now)
            elif job.spec.begin and job.spec.begin > now:
                heapq.heappush(self.events, (job.spec.begin, ARRIVE, job.id, 0.0))

    def _begin(self, job: Job, now: float) -> None:
        if job.id not in self.left:
            left, self.basis[job.id] = length(self.told[job.id], self.past, self.now)
            self.left[job.id] = float("inf") if left is None else left
        self.running[job.id] = job
        if self.left[job.id] < float("inf"):
            heapq.heappush(self.events, (now + self.left[job.id], END, job.id, job.started or 0.0))

    def _admit(self, now: float) -> None:
        """Those whose time has come, whose dependencies have ended, and for which their array has room."""
        inside: dict[str, int] = {}
        for name in [*self.running, *(entry[-1].id for line in self.lines.lines.values() for entry in line)]:
            if array := self.told[name].array:
                inside[array] = inside.get(array, 0) + 1
        for job in sorted(self.kept_out.values(), key=lambda job: (job.since or job.submitted, job.spec.index or 0)):
            spec = job.spec
            if (spec.begin and spec.begin > now) or any(name in self.told and name not in self.ended for _, name in spec.after):
                continue
            if job.array and spec.at_once and inside.get(job.array, 0) >= spec.at_once:
                continue
            inside[job.array] = inside.get(job.array, 0) + 1
            del self.kept_out[job.id]
            self.lines.add(_placed(job))

    def until(self, wanted: str) -> Forecast:
        """Event by event, until it starts."""
        now = self.now
        for _ in range(MOST_EVENTS):
            self._admit(now)
            if (started := self._decide(wanted, now)) is not None:
                return started
            if not self.events:
                endless = self._endless()  # none: what it comes after is held, or cannot start
                return Forecast(kind="unknown" if endless else "other", jobs=endless)
            now = max(now, self.events[0][0])
            while self.events and self.events[0][0] <= now:
                _, kind, name, mark = heapq.heappop(self.events)
                job = self.running.get(name)
                if kind == END and job and job.started == mark:
                    del self.running[name]
                    self.ended.add(name)
                    self.counted.append(name)
        return Forecast(kind="far")

    def _endless(self) -> tuple[str, ...]:
        """Those whose end nobody knows: of those that run now, else of those that were started here."""
        names = [name for name in self.running if self.left[name] == float("inf")]
        return tuple([name for name in names if _runs(self.told[name])] or names)

    def _decide(self, wanted: str, now: float) -> Forecast | None:
        for _ in range(len(self.gpus) + 2):  # what gave way may fit elsewhere
            running = list(self.running.values())
            heads = self.lines.heads(running, self.gpus, now)
            moved = False
            for decision in place(running + heads, self.gpus, self.policy, now, tell=False) if heads else ():
                job = decision.job
                if isinstance(decision, Preempt):
                    moved = True
                    del self.running[job.id]
                    self.left[job.id] = max(0.0, self.left[job.id] - (now - max(self.now, job.started or now))) + RESTART
                    self.lines.add(job.stopped(now))
                elif isinstance(decision, Start):
                    if job.id == wanted:
                        mine = self.told[wanted].spec.begin
                        counted = [] if mine and now <= mine else self.counted  # its time alone was waited for
                        rests = {kind: sum(self.basis[name] == kind for name in counted) for kind in ("limit", "earlier")}
                        return Forecast(kind="at", at=now, rests=rests)
                    self.lines.remove(job)
                    self._begin(job.begun(now, decision.gpus), now)
            if not moved:
                return None
        return None


def _gpu(card: Card) -> Gpu:
    fault = "" if card.state == "ok" else card.slug or card.state
    return Gpu(card.id, card.node, card.memory or 1 << 30, fault, bool(card.foreign or card.holder))


def _runs(job: Told) -> bool:
    return job.state in LIVE and job.state not in (WAITING, HELD)


def _placed(job: Told) -> Job:
    """As placement sees it, waiting."""
    spec = job.spec
    return Job(job.id, spec.gpus, job.submitted, job.since or job.submitted, spec.memory or 0, job.user, spec.project, spec.priority,
               job.attained, bool(spec.checkpoint) and not _stays(job), spec.limit)  # fmt: skip


def _stays(job: Told) -> bool:
    """Whether it was asked to save its state and did not: it is not asked again."""
    reason = Reason.of(job.said) if job.said else None
    return reason is not None and reason.name == "no-checkpoint"
