"""When waiting jobs start: the local queue's own decisions (`Desk.decide`, `Admission`), replayed forward in time; pure.

So the replay knows what the queue knows: models, parts of GPUs, quotas, CPUs, host memory, reservations, arrays, dependencies. How long
jobs run says queue/forecast.py. Not replayed: faults to come, runs that fail, how the fair share forgets, and jobs that nobody has
submitted yet.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ongpu.lazy import dataclass, replace
from ongpu.queue.admission import WEEK, Admission, Room, owners
from ongpu.queue.engines.local.desk import Busy, Desk, Device, Want, fits, job_of
from ongpu.queue.engines.local.possible import RESERVE
from ongpu.queue.engines.local.rows import Row
from ongpu.queue.engines.local.schema import SPAN
from ongpu.queue.forecast import Forecast, Lengths, Terms, length, runs
from ongpu.queue.job import HELD, LIVE, WAITING, Card, Told
from ongpu.queue.placement import DAY, crossing, patience
from ongpu.queue.reasons import Reason
from ongpu.queue.simulate import RESTART, TICK

MOST_STEPS = 3000  # beyond, the answer would be far away and worth nothing
FARTHEST = 90 * DAY  # and beyond this
END, CROSS, LOOK, SPANS = range(4)
# Why a job waits, as far as the replay knows of it; of the others (a looker that does not answer, ...) nobody knows the end
REPLAYED = (
    "behind", "headroom", "reserved", "in-turn", "dependency", "begin", "at-once", "gives-way", "gives-way-overdue", "makes-room",
    "overdue", "quota-gpus", "quota-hours", "cpus", "host-memory", "reservation", "reservation-runs", "reservation-later",
    "reservation-full", "leaves-reservation",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A job that runs: with which (GPU, slot), since when."""

    row: Row
    leases: tuple[tuple[str, int], ...]
    since: float

    @property
    def gpus(self) -> tuple[str, ...]:
        """Its GPUs."""
        return tuple(gpu for gpu, _ in self.leases)


class Replay:
    """The clock, the GPUs and the jobs; it goes on as far as it was asked.

    jobs: those that live, or the first of them (cut: there are more). late: whether to look no farther. Times are seconds since the epoch.
    """

    def __init__(self, jobs: Iterable[Told], cards: Sequence[Card], terms: Terms, past: Lengths, now: float, cut: bool = False,
                 late: Callable[[], bool] = lambda: False) -> None:  # fmt: skip
        self.terms, self.past, self.begun, self.now, self.late = terms, past, now, now, late
        self.told = dict(enumerate((job for job in jobs if job.state in LIVE), 1))
        self.number = {job.id: number for number, job in self.told.items()}
        self.known = {card.id for card in cards}
        self.closed = {card.id for card in cards if card.state != "ok" or card.slug or card.drained_by}
        self.devices = [_device(card, card.id in self.closed) for card in cards]
        self.sound = sum(not device.fault and not device.taken for device in self.devices)
        self.desk = Desk(terms.policy, terms.quotas is not None)
        self.running: dict[int, Run] = {}
        self.left: dict[int, float] = {}  # seconds that it will still run
        self.basis: dict[int, str] = {}
        self.counted = {"limit": 0, "earlier": 0}  # the lengths that were waited for, by what they rest on
        self.starts: dict[int, Forecast] = {}
        self.used = list(terms.used) if terms.quotas and terms.quotas.hours else None
        self.events: list[tuple[float, int, int, float]] = []
        self.asked: set[float] = set()  # when it is looked at anew who is overdue
        self.steps = 0
        self.needs = _needs(self.told, cut)
        self.rows = _rows(self.told)
        self._set_up()

    def start(self, wanted: str) -> Forecast:
        """When that job starts."""
        number = self.number.get(wanted, 0)
        job = self.told.get(number)
        if job is None or job.state == HELD:
            return Forecast(kind="held" if job else "far")
        if kind := self._sure(number, job):
            return Forecast(kind=kind)
        while number not in self.starts and self._step():
            pass
        return self.starts.get(number) or self._never(number)

    # --- what needs no replay

    def _sure(self, number: int, job: Told) -> str:
        if job.said and ((reason := Reason.of(job.said)) is None or reason.name not in REPLAYED):
            return "other"
        if None in self.needs[number]:
            return "far"
        row = self.rows[number]
        if row.gpus and any(gpu not in self.known for run in self.running.values() for gpu in run.gpus):
            return "other"  # MIG slices, of which no card tells
        want = Want(row.model, row.capability, row.avoid, row.share)
        least = (row.memory or 0) + (RESERVE if row.share else 0)
        fitting = [one for one in self.devices if fits(one, want) and (one.memory is None or one.memory >= least)]
        sound = [one for one in fitting if one.id not in self.closed]
        if len(sound) < row.gpus:
            return "never"
        return "others" if sum(not one.taken for one in sound) < row.gpus else ""

    def _never(self, number: int) -> Forecast:
        """Why it did not start as far as was looked."""
        chain: set[int] = set()
        while waits_for := self.needs[number]:  # the first of a chain is what all of it waits for
            chain.add(number)
            number = min(filter(None, waits_for), default=0)
            if not number or number in chain or self.told[number].state == HELD:
                return Forecast(kind="other" if number else "far")
        endless = [name for name in self.running if self.left[name] == math.inf]
        mine = [name for name in endless if name == number] or [name for name in endless if runs(self.told[name])] or endless
        if mine:
            return Forecast(kind="unknown", jobs=tuple(self.told[name].id for name in mine))
        return Forecast(kind="far" if self.steps >= MOST_STEPS or self.events else "other")

    # --- the replay

    def _set_up(self) -> None:
        slots: dict[str, int] = {}
        for number, job in self.told.items():
            row = self.rows[number]
            if runs(job):
                for gpu in job.gpus if row.share else ():
                    slots[gpu] = slots.get(gpu, 0) + 1
                self._begin(Run(row, tuple((gpu, slots.get(gpu, 0)) for gpu in job.gpus), job.started or self.now))
                if job.more.get("wish") == "preempt" and row.checkpoint:
                    self._stop(number)
            elif job.state == WAITING and not self.needs[number]:
                self._wait(row)
        for one in self.terms.reservations:
            self._at(one.begin, LOOK)
            self._at(one.end, LOOK)
        if self.used is not None:
            self._at((self.now // SPAN + 1) * SPAN, SPANS)

    def _at(self, time: float, kind: int, number: int = 0, mark: float = 0.0) -> None:
        if self.now < time <= self.begun + FARTHEST or kind == END:
            heapq.heappush(self.events, (time, kind, number, mark))

    def _wait(self, row: Row) -> None:
        self.desk.put(row, self.now)
        late = row.since + patience(job_of(row, bool(row.checkpoint)), self.terms.policy, self.sound)
        if row.gpus and late < self.begun + FARTHEST and (late := (late // TICK + 1) * TICK) not in self.asked:
            self.asked.add(late)
            self._at(late, LOOK)

    def _step(self) -> bool:
        """To the next moment at which something may start; False: nobody looks farther."""
        if self.steps:
            following = min(self.events[0][0] if self.events else math.inf, self.desk.next or math.inf)
            if following > self.begun + FARTHEST or self.steps >= MOST_STEPS or self.late():
                return False
            self.now = max(self.now, following)
            while self.events and self.events[0][0] <= self.now:
                self._happen(*heapq.heappop(self.events)[1:])
        self.steps += 1
        self.desk.set_reserved(any(one.end > self.now for one in self.terms.reservations), self.now)  # without any, it is quicker
        self.desk.wake(self.now)
        self._decide()
        return True

    def _happen(self, kind: int, number: int, mark: float) -> None:
        if kind == SPANS:
            self._at(self.now + SPAN, SPANS)
        run = self.running.get(number)
        if run is None or run.since != mark:
            return  # of a run that is over
        if kind == CROSS:
            self._crossing(run)
        elif kind == END:
            self._leave(number)
            if basis := self.basis[number]:
                self.counted[basis] += 1
            for other, waits_for in self.needs.items():
                if number in waits_for:
                    waits_for.discard(number)
                    if not waits_for and self.told[other].state == WAITING:
                        self._wait(self.rows[other])

    def _decide(self) -> None:
        terms = self.terms
        turns = len(self.devices) + 2
        while turns:
            runs = self.running.values()
            busy = [Busy(row=run.row, gpus=run.gpus, since=self.now - run.since, movable=bool(run.row.checkpoint)) for run in runs]
            admission = Admission(
                [run.row for run in runs], Room(gpus=self.sound, cpus=terms.cpus, host_memory=terms.host_memory), self.now, terms.quotas,
                terms.reservations, self._used(), {run.row.id: run.since for run in runs},
            )  # fmt: skip
            chosen = self.desk.decide(self._devices(), busy, admission, self.now)
            for choice in chosen.starts:
                self._begin(Run(choice.row, choice.leases, self.now))
                begin = choice.row.begin
                alone = begin is not None and self.now <= begin  # its time alone was waited for
                rests = dict.fromkeys(self.counted, 0) if alone else dict(self.counted)
                self.starts.setdefault(choice.row.id, Forecast(kind="at", at=self.now, rests=rests))
            for number in chosen.leave:
                self._stop(number)
            turns -= bool(chosen.leave)  # what gave way may fit elsewhere, and leaves room
            if not chosen.leave and not any(choice.row.share for choice in chosen.starts):  # of parts, one decision fills not all
                return

    def _begin(self, run: Run) -> None:
        number = run.row.id
        if number not in self.left:
            left, self.basis[number] = length(self.told[number], self.past, self.begun)
            self.left[number] = math.inf if left is None else left
        self.running[number] = run
        if self.left[number] < math.inf:
            self._at(self.now + self.left[number], END, number, run.since)
        self._crossing(run)

    def _crossing(self, run: Run) -> None:
        """It is to be asked again who comes first, because this one has used more."""
        if run.row.gpus and not run.row.share:
            job = job_of(run.row, bool(run.row.checkpoint)).begun(run.since, run.gpus)
            if (time := crossing(job, self.terms.policy, self.now)) is not None:
                self._at(time, CROSS, run.row.id, run.since)

    def _leave(self, number: int) -> Run:
        run = self.running.pop(number)
        if self.used is not None:
            amount = (self.now - run.since) * run.row.gpus
            self.used += [(name, int(self.now // SPAN), amount) for name in owners(run.row.user, run.row.project)]
        return run

    def _stop(self, number: int) -> None:
        """It has saved its state, and waits again."""
        run = self._leave(number)
        self.left[number] = max(0.0, self.left[number] - (self.now - max(self.begun, run.since))) + RESTART
        attained = run.row.attained + max(0.0, self.now - run.since) * run.row.gpus
        self._wait(run.row._replace(state=WAITING, since=self.now, attained=attained))

    def _used(self) -> Mapping[str, float]:
        """GPU-seconds of the last seven days, as `Book.used` tells them."""
        used: dict[str, float] = {}
        begin = self.now - WEEK
        for name, span, amount in self.used or ():
            if span >= int(begin // SPAN):
                used[name] = used.get(name, 0.0) + amount
        for run in self.running.values() if self.used is not None else ():
            for name in owners(run.row.user, run.row.project):
                used[name] = used.get(name, 0.0) + (self.now - max(run.since, begin)) * run.row.gpus
        return used

    def _devices(self) -> list[Device]:
        parts: dict[str, list[tuple[int, int]]] = {}
        for run in self.running.values():
            for gpu, slot in run.leases if run.row.share else ():
                parts.setdefault(gpu, []).append((slot, run.row.memory or 0))
        return [replace(one, parts=tuple(parts[one.id])) if one.id in parts else one for one in self.devices]


def _device(card: Card, closed: bool) -> Device:
    """As Sight.devices has it: what is drained is left by jobs that can leave; of what is merely unfit nobody is sent away."""
    drained = card.state == "drained"
    memory = None if card.memory is None else card.memory - (card.unexplained or 0)
    return Device(
        id=card.id, index=card.index, node=card.node, name=card.name, memory=memory, capability=card.capability, total=card.memory,
        fault=(card.slug or card.state) if drained else "", taken=(closed and not drained) or bool(card.foreign or card.holder),
        last=bool(card.unexplained),
    )  # fmt: skip


def _needs(told: Mapping[int, Told], cut: bool) -> dict[int, set[int | None]]:
    """Which of the others each waits for. None: one that is not among them."""
    called: dict[str, list[int]] = {}
    for number, job in told.items():
        for name in (job.id, *((job.array, f"{job.array}_{job.spec.index}", f"{job.array}[{job.spec.index}]") if job.array else ())):
            called.setdefault(name, []).append(number)
    found: dict[int, set[int | None]] = {}
    for number, job in told.items():
        found[number] = needs = set[int | None]()
        alive = 0
        for _, name in job.spec.after if job.state == WAITING else ():
            members = called.get(name, [])
            needs.update(members)
            alive += bool(members)
            if cut and any(told[one].array == name for one in members):
                needs.add(None)  # there may be more of that array
        if alive < int(job.more.get("blocked", 0)):
            needs.add(None)
    return found


def _rows(told: Mapping[int, Told]) -> dict[int, Row]:
    """As the queue's decision sees them."""
    arrays: dict[str, int] = {}
    found = {}
    for number, job in told.items():
        spec = job.spec
        array = arrays.setdefault(job.array, len(arrays)) if job.array else None
        found[number] = Row(
            id=number, seq=0, state=job.state, gpus=spec.gpus, memory=spec.memory, share=spec.share, model=spec.model,
            capability=".".join(map(str, spec.capability or ())), limit=spec.limit, cpus=spec.cpus or int(not spec.gpus),
            host_memory=spec.host_memory or 0, user=job.user, project=spec.project, priority=spec.priority, submitted=job.submitted,
            since=job.since or job.submitted, attained=job.attained, checkpoint="" if _stays(job) else spec.checkpoint, begin=spec.begin,
            blocked=0, array=array, at_once=spec.at_once, avoid=tuple(job.more.get("avoid", ())), attempt=job.attempts, wish="",
            reservation=spec.reservation,
        )  # fmt: skip
    return found


def _stays(job: Told) -> bool:
    """Whether it was asked to save its state and did not: it is not asked again."""
    reason = Reason.of(job.said) if job.said else None
    return reason is not None and reason.name == "no-checkpoint"
