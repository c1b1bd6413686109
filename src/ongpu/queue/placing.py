"""One decision of the queue, step by step: who comes first, which GPUs it gets, who gives way for it."""

import math
from collections.abc import Iterable, Sequence

from ongpu.lazy import replace
from ongpu.queue.placement import BASE, Decision, Gpu, Hold, Job, Policy, Preempt, Start, order, patience
from ongpu.queue.reasons import Reason


def overdue(running: Iterable[Job], waiting: Iterable[Job], policy: Policy, healthy: Sequence[Gpu], now: float) -> tuple[set[str], str]:
    """The jobs that have waited beyond their patience and are let into the lane, the oldest first, while their share lasts; the next."""
    if math.isinf(policy.patience):
        return set(), ""
    inside, used, total = set(), 0, len(healthy)
    for job in running:
        started = now if job.started is None else job.started
        if started - job.since > patience(job, policy, total) and (not job.checkpoint or now - started < policy.turn):
            inside.add(job.id)
            used += job.gpus
    late = [job for job in waiting if now - job.since > patience(job, policy, total)]
    for job in sorted(late, key=lambda job: (job.since, job.id)):
        if not possible(job, healthy):
            continue
        if used and used + job.gpus > policy.lane * total:
            return inside, job.id
        inside.add(job.id)
        used += job.gpus
    return inside, ""


def possible(job: Job, healthy: Sequence[Gpu]) -> bool:
    """Whether it would fit if nothing else ran."""
    return job.gpus <= len(healthy) and (not job.memory or sum(gpu.memory >= job.memory for gpu in healthy) >= job.gpus)


def headroom(running: Iterable[Job], policy: Policy, total: int, now: float) -> tuple[int, int, float]:
    """GPUs that uninterruptible jobs hold, those that young ones of them hold, and what young ones may hold."""
    firm = old = 0
    for job in running:
        if not (job.checkpoint and policy.preempts):
            firm += job.gpus
            if job.used(now) >= BASE:
                old += job.gpus
    return firm, firm - old, policy.headroom * (total - old)


def short(job: Job) -> bool:
    """Whether it declared to end within a GPU hour: then it takes no room from anybody for long."""
    return job.limit is not None and job.limit * job.gpus <= BASE


def choose(gpus: Sequence[Gpu], count: int) -> tuple[Gpu, ...]:
    """The GPUs that leave the least fragments: the fullest node that holds all, else the emptiest nodes; the smallest memory. Those that
    come last only as far as the others are too few."""
    if any(gpu.last for gpu in gpus):
        first = [gpu for gpu in gpus if not gpu.last]
        if len(first) < count:
            return (*first, *choose([replace(gpu, last=False) for gpu in gpus if gpu.last], count - len(first)))
        gpus = first
    nodes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    whole = [node for node in nodes.values() if len(node) >= count]
    if whole:
        best = min(whole, key=lambda node: (len(node), node[0].node))
        return tuple(sorted(best, key=lambda gpu: (gpu.memory, gpu.id))[:count])
    spread = sorted(nodes.values(), key=lambda node: (-len(node), node[0].node))
    return tuple([gpu for node in spread for gpu in sorted(node, key=lambda gpu: (gpu.memory, gpu.id))][:count])


class Placing:
    """The state of one decision; `decide` answers."""

    def __init__(self, jobs: Iterable[Job], gpus: Sequence[Gpu], policy: Policy, now: float, tell: bool) -> None:
        self.policy, self.now, self.tell = policy, now, tell
        self.preempted: list[Preempt] = []
        self.started: list[Start] = []
        self.holds: list[Hold] = []
        running: list[Job] = []
        self.waiting: list[Job] = []
        for job in jobs:
            (self.waiting if job.started is None else running).append(job)
        faults = {gpu.id: gpu.fault for gpu in gpus if gpu.fault}
        if faults and policy.preempts:
            running = [job for job in running if not self._leaves(job, faults)]
        held = {gpu for job in running for gpu in job.held}
        self.healthy = [gpu for gpu in gpus if not gpu.fault and not gpu.taken]
        self.preempted.sort(key=lambda one: one.job.id)
        self.total = len(self.healthy)
        self.free = {gpu.id: gpu for gpu in self.healthy if gpu.id not in held}
        self.cards = {gpu.id: gpu for gpu in self.healthy}
        self.running = running
        self.lane, _ = overdue(running, self.waiting, policy, self.healthy, now)
        self.firm, self.young, self.allowed = headroom(running, policy, self.total, now)
        key = order(policy, now)
        movable = [job for job in running if job.checkpoint] if policy.preempts else []
        if self.lane:
            late = self.lane
            self.seats = sorted(movable + self.waiting, key=lambda job: (job.id not in late, job.since if job.id in late else 0, *key(job)))
        else:
            self.seats = sorted(movable + self.waiting, key=key)
        self.victims = [job for job in self.seats if job.started is not None]  # undecided, the last gives way first
        self.loose = sum(job.gpus for job in self.victims)
        self.reserved, self.reserved_for, self.shadow, self.extra = 0, "", math.inf, 0

    def _leaves(self, job: Job, faults: dict[str, str]) -> bool:
        bad = [gpu for gpu in job.held if gpu in faults]
        if bad and job.checkpoint:
            self.preempted.append(Preempt(job, Reason("on-fault", {"fault": faults[bad[0]]})))
        return bool(bad) and job.checkpoint

    def decide(self) -> list[Decision]:
        """All decisions: preemptions, starts, holds."""
        if self.policy.passing == "all":
            self._let_pass()
        else:
            self._in_turn()
        return [*self.preempted, *self.started, *self.holds]

    def _let_pass(self) -> None:
        """In order; who does not fit lets others by, but for what is reserved for an overdue one."""
        later, gone = [], 0
        for job in self.seats:
            if job.started is not None:
                if gone < len(self.victims) and self.victims[gone] is job:  # else it has given way already
                    gone += 1
                    self.loose -= job.gpus
                continue
            if not job.gpus:
                self.started.append(Start(job, (), Reason("no-gpu")))
            elif job.gpus > len(self.free) + self.loose:
                self._behind(job)
            elif not self._admitted(job):
                later.append(job)
            elif self._kept_back(job):
                self._hold(job, "reserved", job=self.reserved_for)
            elif not self._start(job, gone):
                self._behind(job)
        for job in later:  # a GPU that nobody else wants is not left idle for the sake of headroom
            if self._kept_back(job):
                self._hold(job, "reserved", job=self.reserved_for)
            elif job.gpus > len(self.free) or not self._start(job, len(self.victims)):
                limit = f"{BASE / 60 / job.gpus:.0f} min"
                self._hold(job, "headroom", held=self.young, allowed=int(self.allowed), short=limit)

    def _admitted(self, job: Job) -> bool:
        """Whether an uninterruptible job finds headroom: those of unknown length must leave room for what comes later."""
        if (job.checkpoint and self.policy.preempts) or self.policy.headroom >= 1:
            return True
        return job.id in self.lane or short(job) or self.young + job.gpus <= self.allowed

    def _kept_back(self, job: Job) -> bool:
        """Whether it would delay an overdue job for which GPUs are kept: interruptible ones never do."""
        if not self.reserved or (job.checkpoint and self.policy.preempts) or self.firm + job.gpus + self.reserved <= self.total:
            return False
        return not self._ends_before(job)

    def _ends_before(self, job: Job) -> bool:
        """Whether it declared to end before the GPUs that are kept can all be free: where nobody knows when that is, no job does."""
        return job.limit is not None and self.now + job.limit <= self.shadow < math.inf

    def _behind(self, job: Job) -> None:
        if job.id in self.lane:
            self.reserved += job.gpus
            self.reserved_for = self.reserved_for or job.id
            self.shadow = min(self.shadow, self._when(job.gpus)[0])
        if self.tell:
            fitting = sum(gpu.memory >= job.memory for gpu in self.healthy)
            if fitting < job.gpus:
                self._hold(job, "impossible", gpus=job.gpus, memory=job.memory, fitting=fitting)
            else:
                idle = sum(gpu.memory >= job.memory for gpu in self.free.values())
                self._hold(job, "behind", gpus=job.gpus, fitting=idle)

    def _hold(self, waits: Job, name: str, **values: object) -> None:
        if self.tell:
            self.holds.append(Hold(waits, Reason(name, values)))

    def _start(self, job: Job, decided: int) -> bool:
        """Give it GPUs: free ones, else those of the jobs that come last; False where too few are large enough."""
        fit = [gpu for gpu in self.free.values() if gpu.memory >= job.memory] if job.memory else list(self.free.values())
        hit: list[Job] = []
        if len(fit) < job.gpus:
            for victim in reversed(self.victims[decided:]):
                own = [self.cards[gpu] for gpu in victim.held if gpu in self.cards and self.cards[gpu].memory >= job.memory]
                if own:
                    hit.append(victim)
                    fit += own
                if len(fit) >= job.gpus:
                    break
            else:
                return False
        chosen = choose(fit, job.gpus)
        taken = {gpu.id for gpu in chosen}
        hit = [victim for victim in hit if not taken.isdisjoint(victim.held)]
        for victim in hit:
            why = "gives-way-overdue" if job.id in self.lane else "gives-way"
            self.preempted.append(Preempt(victim, Reason(why, {"job": job.id})))
            self.victims.remove(victim)
            self.loose -= victim.gpus
            self.free.update((gpu, self.cards[gpu]) for gpu in victim.held if gpu in self.cards)
        for gpu in taken:
            del self.free[gpu]
        if not (job.checkpoint and self.policy.preempts):
            self.firm += job.gpus
            self.young += job.gpus
        self.started.append(Start(job, tuple(gpu.id for gpu in chosen), self._because(job, hit)))
        return True

    def _because(self, job: Job, hit: Sequence[Job]) -> Reason:
        if not self.tell:
            return _PLAIN
        if job.id in self.lane:
            return Reason("overdue", {"waited": f"{(self.now - job.since) / 86_400:.1f} d"})
        if hit:
            return Reason("takes-place", {"victims": ", ".join(victim.id for victim in hit)})
        return Reason("free", {"gpus": job.gpus})

    def _in_turn(self) -> None:
        """FIFO, and EASY backfill: the first that does not fit holds up the others, but for those that delay it by nothing."""
        head = ""
        for job in self.seats:
            if not job.gpus:
                self.started.append(Start(job, (), Reason("no-gpu")))
            elif not head:
                if not possible(job, self.healthy):
                    self._behind(job)  # it will never fit; nobody waits for it
                elif job.gpus > len(self.free) or not self._start(job, 0):
                    head = job.id
                    self.shadow, self.extra = self._when(job.gpus)
                    self._hold(job, "behind", gpus=job.gpus, fitting=len(self.free))
            elif self._passes(job):
                if not self._ends_before(job):
                    self.extra -= job.gpus
            else:
                self._hold(job, "in-turn", job=head)

    def _passes(self, job: Job) -> bool:
        if self.policy.passing == "none" or job.gpus > len(self.free):
            return False
        return (self._ends_before(job) or job.gpus <= self.extra) and self._start(job, 0)

    def _when(self, count: int) -> tuple[float, int]:
        """When that many GPUs are free by the declared limits, and how many are left over then; never (inf): all limits are unknown."""
        there = len(self.free) + self.loose
        every = [*((job.started, job) for job in self.running), *((self.now, start.job) for start in self.started)]
        live = [(begun or 0.0, job) for begun, job in every if not (job.checkpoint and self.policy.preempts)]
        for end, number in sorted((begun + job.limit, job.gpus) for begun, job in live if job.limit is not None):
            there += number
            if there >= count:
                return end, there - count
        return math.inf, 0


_PLAIN = Reason("free", {"gpus": "?"})
