"""The jobs that wait, in lines of equals, and one decision: which of them start on which GPUs now, and who gives way. Pure.

`place` knows GPUs that differ in nothing but memory. What a job asks for besides (a model, a capability, a part of a GPU's memory, GPUs
that did not fail under it) is answered here: jobs that may use the same GPUs are placed together, and of several such groups the one
whose first job comes first, up to where the next group's first job comes.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ongpu.lazy import dataclass, field
from ongpu.queue.admission import Admission, Kind, kind
from ongpu.queue.engines.local.possible import RESERVE
from ongpu.queue.engines.local.rows import Row
from ongpu.queue.job import WAITING
from ongpu.queue.lines import Lines
from ongpu.queue.placement import Gpu, Hold, Job, Policy, Preempt, Start, order, place
from ongpu.queue.reasons import Reason

SLOTS = range(1, 64)
MOST_TOLD = 200  # jobs that are told in one decision why they wait: those that come first
MOST_CPU_STARTS = 256  # jobs without a GPU that are started in one decision


class Want(NamedTuple):
    """Which GPUs a job may use."""

    model: str
    capability: str
    avoid: tuple[str, ...]
    share: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU or MIG slice as it is now. memory: MiB that a job may have; total: that it has, where others hold some. parts: of ours on it,
    (slot, MiB). last: given out only where others do not do."""

    id: str
    index: int = 0
    node: str = ""
    name: str = ""
    memory: int | None = None
    capability: str = ""
    fault: str = ""
    taken: bool = False
    total: int | None = None
    parts: tuple[tuple[int, int], ...] = ()
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A job that runs. since: seconds that it has run. movable: it may be asked to save its state and give way."""

    row: Row
    gpus: tuple[str, ...]
    since: float
    movable: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Start the job with these (UUID, slot); slot 0: the whole GPU."""

    row: Row
    leases: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Chosen:
    """A decision. leave: who is to give way, and why; reasons: why others wait, where that was asked."""

    starts: list[Choice] = field(default_factory=list)
    leave: dict[int, Reason] = field(default_factory=dict)
    reasons: dict[int, Reason] = field(default_factory=dict)


def fits(device: Device, want: Want) -> bool:
    """Whether it is of the kind that is asked for."""
    if want.model and want.model.lower() not in device.name.lower():
        return False
    if want.capability and _version(device.capability) < _version(want.capability):
        return False
    return device.id not in want.avoid


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal()) if text else ()


class Desk:
    """What waits and may be placed. Rows are added and removed as they change."""

    def __init__(self, policy: Policy, quotas: bool = False) -> None:
        self.policy, self.quotas, self.reserved = policy, quotas, False
        self.rows: dict[int, Row] = {}
        self._lines: dict[tuple[Kind, Want], Lines] = {}
        self._at: dict[int, tuple[tuple[Kind, Want], Job]] = {}
        self._later: list[tuple[float, int]] = []

    @property
    def count(self) -> int:
        """Jobs that may be placed."""
        return len(self._at)

    def set_policy(self, policy: Policy) -> None:
        """The same order with other figures, as of what was spent of late."""
        self.policy = policy
        for lines in self._lines.values():
            lines.policy = policy

    def set_quotas(self, quotas: bool, now: float) -> None:
        """Whether there are quotas: then the lines are more, because users and projects count too."""
        if quotas != self.quotas:
            self.quotas = quotas
            for row in list(self.rows.values()):
                self.put(row, now)

    def set_reserved(self, reserved: bool, now: float) -> None:
        """Whether there are reservations: then the lines are more, because time limits count too."""
        if reserved != self.reserved:
            self.reserved = reserved
            for row in list(self.rows.values()):
                self.put(row, now)

    def _key(self, row: Row, now: float) -> tuple[Kind, Want]:
        """In which lines it stands: what admission asks about, and which GPUs it may use. What nobody asks about parts no lines."""
        one = kind(row, now)
        if not self.reserved:
            one = one._replace(limit=None, checkpoint=False)
            if not self.quotas:
                one = one._replace(user="", project="", gpus=min(one.gpus, 1))
        return one, Want(row.model, row.capability, row.avoid, row.share)

    def put(self, row: Row, now: float) -> None:
        """It waits, as the row says; or it does not, and is put nowhere."""
        self.drop(row.id)
        if row.state != WAITING or row.blocked:
            return
        self.rows[row.id] = row
        if row.begin is not None and row.begin > now:
            heapq.heappush(self._later, (row.begin, row.id))
            return
        key = self._key(row, now)
        lines = self._lines.get(key)
        if lines is None:
            lines = self._lines[key] = Lines(self.policy)
        job = job_of(row, bool(row.checkpoint))
        lines.add(job)
        self._at[row.id] = key, job

    def drop(self, number: int) -> None:
        """It waits no more."""
        self.rows.pop(number, None)
        found = self._at.pop(number, None)
        if found:
            key, job = found
            lines = self._lines[key]
            lines.remove(job)
            if not lines.count:
                del self._lines[key]

    def wake(self, now: float) -> bool:
        """Lets those in whose time has come; whether there were any."""
        before = self.count
        while self._later and self._later[0][0] <= now:
            _, number = heapq.heappop(self._later)
            row = self.rows.get(number)
            if row and number not in self._at:
                self.put(row, now)
        return self.count > before

    @property
    def next(self) -> float | None:
        """When the next one's time comes; None: there is none."""
        while self._later and self._later[0][1] not in self.rows:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def decide(
        self, devices: Sequence[Device], busy: Sequence[Busy], admission: Admission, now: float, tell: bool = False,
        closed: Reason | None = None,
    ) -> Chosen:
        """One decision. admission: of this moment, with all that run; it is told of each start. Whose start is chosen waits no more: where
        it then does not start, `put` it again. closed: why nothing that needs a GPU can be placed at present."""
        return _Turn(self, devices, busy, admission, now, tell, closed).go() if self._at or admission.reservations else Chosen()


def job_of(row: Row, movable: bool) -> Job:
    """As placement sees it, waiting. What needs no GPU stands in line for one CPU slot."""
    memory = (row.memory or 0) if row.gpus else 0
    return Job(str(row.id), row.gpus or 1, row.submitted, row.since, memory, row.user, row.project, row.priority, row.attained, movable,
               row.limit)  # fmt: skip


class _Turn:
    """The state of one decision."""

    def __init__(
        self, desk: Desk, devices: Sequence[Device], busy: Sequence[Busy], admission: Admission, now: float, tell: bool,
        closed: Reason | None,
    ) -> None:  # fmt: skip
        self.desk, self.admission, self.now, self.tell, self.closed = desk, admission, now, tell, closed
        self.devices = {device.id: device for device in devices}
        self.answer = Chosen()
        self.parts = {device.id: list(device.parts) for device in devices}
        self.whole = {gpu for one in busy if not one.row.share for gpu in one.gpus}
        self.promised: set[str] = set()  # GPUs of those that give way
        self.running = [job_of(one.row, one.movable).begun(now - one.since, one.gpus) for one in busy if one.row.gpus and not one.row.share]
        self.key = order(desk.policy, now)
        self.coming: set[str] = set()  # jobs that start when others have given way

    def go(self) -> Chosen:
        self._without_gpu()
        if self.closed:
            for key, lines in self.desk._lines.items() if self.tell else ():
                if key[0].gpus:
                    self.answer.reasons.update((int(job.id), self.closed) for job in self._first(lines))
            return self.answer
        for number, why in self.admission.leaving().items():
            self.answer.leave[number] = why
        for _ in range(8):  # again where a quota closed a kind of which starts had been chosen: their GPUs are for others
            if not self._with_gpu():
                break
        return self.answer

    # --- jobs without a GPU

    def _without_gpu(self) -> None:
        heads: list[Job] = []
        for key, lines in self.desk._lines.items():
            if key[0].gpus == 0 and (many := self._open(key, lines)):
                heads += lines.heads([], [Gpu(str(number)) for number in range(min(many, MOST_CPU_STARTS))], self.now)
        for job in sorted(heads, key=self.key):
            row = self.desk.rows[int(job.id)]
            if (why := self.admission.take(row)) is None:
                self._start(row, ())
            elif self.tell:
                self.answer.reasons[row.id] = why
        if self.tell and heads:  # those that come next
            for key, lines in list(self.desk._lines.items()):
                if key[0].gpus == 0:
                    self._open(key, lines)

    def _start(self, row: Row, leases: tuple[tuple[str, int], ...]) -> None:
        self.answer.starts.append(Choice(row, leases))
        self.answer.reasons.pop(row.id, None)
        self.desk.drop(row.id)

    def _open(self, key: tuple[Kind, Want], lines: Lines) -> int:
        """How many of a kind may start; where none, those that come first are told why."""
        many, why = self.admission.how_many(key[0])
        if not many and self.tell and why:
            self.answer.reasons.update((int(job.id), why) for job in self._first(lines))
        return many

    def _first(self, lines: Lines) -> list[Job]:
        """Some of those that come first in these lines."""
        most = max(1, MOST_TOLD // len(self.desk._lines))
        return sorted(lines.heads([], [Gpu(str(number)) for number in range(most)], self.now), key=self.key)[:most]

    # --- jobs with GPUs

    def _with_gpu(self) -> bool:
        """All groups, in the order of their first jobs. True: some that were chosen were not admitted, and others may have their GPUs."""
        groups: dict[tuple[frozenset[str], bool], list[Job]] = {}
        for key, lines in self.desk._lines.items():
            one, want = key
            if not one.gpus or not (many := self._open(key, lines)):
                continue
            ids = frozenset(device.id for device in self.devices.values() if fits(device, want))
            heads = [job for job in lines.heads(self.running, self._gpus(ids, want.share), self.now) if job.id not in self.coming]
            heads = heads if many >= len(heads) else sorted(heads, key=self.key)[:many]
            if self.tell:  # those that come first, though they cannot start: the answer is the same, and says why
                seen = self.coming | {job.id for job in heads}
                heads += [job for job in self._first(lines) if job.id not in seen]
            groups.setdefault((ids, want.share), []).extend(heads)
        groups = {group: sorted(heads, key=self.key) for group, heads in groups.items() if heads}
        refused = False
        while groups:
            group = min(groups, key=lambda group: self.key(groups[group][0]))
            heads = groups.pop(group)
            bound = min((self.key(others[0]) for others in groups.values()), default=None)
            mine = heads if bound is None else [job for job in heads if self.key(job) <= bound]
            if len(mine) < len(heads):
                groups[group] = heads[len(mine) :]
            refused |= (self._share if group[1] else self._place)(group[0], mine)
        return refused

    def _gpus(self, ids: Iterable[str], share: bool) -> list[Gpu]:
        found = []
        for name in sorted(ids):
            device = self.devices[name]
            if share:
                left = (device.memory or 0) - RESERVE - sum(size for _, size in self.parts[name])
                taken = device.taken or name in self.whole or name in self.promised or len(self.parts[name]) >= len(SLOTS)
                found.append(Gpu(name, device.node, max(0, left), device.fault, taken or left <= 0, device.last))
            else:
                memory = 1 << 30 if device.memory is None else device.memory
                found.append(Gpu(name, device.node, memory, device.fault, device.taken, device.last))
        return found

    def _place(self, ids: frozenset[str], heads: Sequence[Job]) -> bool:
        """Whole GPUs. GPUs with parts on them are held by those parts."""
        parts = [
            Job(f"part:{name}", 1, self.now, self.now, started=self.now, held=(name,)) for name in sorted(ids) if self.parts[name]
        ]
        refused = False
        gone: set[str] = set()
        here = [job for job in self.running if not ids.isdisjoint(job.held)]
        for decision in place([*here, *parts, *heads], self._gpus(ids, False), self.desk.policy, self.now, self.tell):
            number = int(decision.job.id)
            if isinstance(decision, Preempt):
                self.answer.leave.setdefault(number, decision.why)
                gone.add(decision.job.id)
                self.promised.update(decision.job.held)
            elif isinstance(decision, Start):
                row = self.desk.rows[number]
                if (why := self.admission.take(row)) is not None:
                    self.answer.reasons[number] = why
                    refused = True
                    continue
                self.running.append(decision.job.begun(self.now, decision.gpus))
                self.whole.update(decision.gpus)
                if self.promised.isdisjoint(decision.gpus):  # else it starts when they have given way
                    self._start(row, tuple((gpu, 0) for gpu in decision.gpus))
                    continue
                self.coming.add(decision.job.id)
                if self.tell:  # they are asked to; whether they will is not known yet
                    why = decision.why
                    self.answer.reasons[number] = Reason("makes-room", why.values) if why.name == "takes-place" else why
            else:
                self.answer.reasons[number] = self._why(decision, len(ids))
        self.running = [job for job in self.running if job.id not in gone]
        return refused

    def _share(self, ids: frozenset[str], heads: Sequence[Job]) -> bool:
        """Parts of GPUs: one on each GPU at a time, the fullest first, as long as some fit."""
        left, refused = list(heads), False
        while left:
            begun: set[str] = set()
            for decision in place(left, self._gpus(ids, True), self.desk.policy, self.now, self.tell):
                number = int(decision.job.id)
                if isinstance(decision, Hold):
                    self.answer.reasons[number] = self._why(decision, len(ids))
                if not isinstance(decision, Start):
                    continue
                row = self.desk.rows[number]
                begun.add(decision.job.id)
                if (why := self.admission.take(row)) is not None:
                    self.answer.reasons[number] = why
                    refused = True
                    continue
                leases = []
                for gpu in decision.gpus:
                    slot = next(slot for slot in SLOTS if slot not in [used for used, _ in self.parts[gpu]])
                    self.parts[gpu].append((slot, row.memory or 0))
                    leases.append((gpu, slot))
                self._start(row, tuple(leases))
            left = [job for job in left if job.id not in begun] if begun else []
        return refused

    def _why(self, hold: Hold, fitting: int) -> Reason:
        """Why it waits; where no waiting for others will help, what it asked for and what there is. fitting: GPUs of the kind."""
        row = self.desk.rows[int(hold.job.id)]
        want = self.desk._at[row.id][0][1]
        if fitting < row.gpus and (want.model or want.capability or want.avoid):
            if want.avoid and sum(fits(device, want._replace(avoid=())) for device in self.devices.values()) >= row.gpus:
                return Reason("avoids", {"many": len(want.avoid)})
            asked = [want.model, f"compute capability {want.capability}" if want.capability else ""]
            wanted, there = ", ".join(filter(None, asked)), ", ".join(sorted({device.name for device in self.devices.values()}))
            return Reason("no-such-gpu", {"gpus": row.gpus, "wanted": wanted or "GPU", "fitting": fitting, "there": there or "-"})
        least = (row.memory or 0) + (RESERVE if row.share else 0)
        sound = [device for device in self.devices.values() if fits(device, want) and not device.fault and not device.taken]
        large = [device for device in sound if device.memory is None or device.memory >= least]
        if len(large) >= row.gpus:  # placement counts what is left of a GPU with parts on it, and when others have ended there is more
            behind = Reason("behind", {"gpus": row.gpus, "fitting": hold.why.values.get("fitting", 0)})
            return behind if hold.why.name == "impossible" else hold.why
        well = [device for device in self.devices.values() if fits(device, want) and not device.fault]
        if row.memory and sum((device.total or device.memory or least) >= least for device in well) >= row.gpus:
            return Reason("memory-used", {"gpus": row.gpus, "memory": row.memory, "fitting": len(large)})
        if row.memory:
            return Reason("impossible", {"gpus": row.gpus, "memory": row.memory, "fitting": len(large)})
        return Reason("too-few", {"gpus": row.gpus, "fitting": len(large)})
