"""Which waiting jobs may be placed at all, and why the others may not yet: quotas, CPUs, host memory, arrays, times, reservations. Pure."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ongpu.lazy import dataclass
from ongpu.queue.reasons import Reason

if TYPE_CHECKING:
    from ongpu.queue.config import Quotas
    from ongpu.queue.engines.local.rows import Row

HOUR = 3600.0
WEEK = 7 * 24 * HOUR  # in which a quota's GPU-hours are counted
MANY = 1 << 30


def owners(user: str, project: str) -> tuple[str, ...]:
    """To whose account a job goes, named as in Policy.spent and Book.used."""
    return (f"user:{user}", f"project:{project}") if project else (f"user:{user}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """GPUs that are kept from begin to end (seconds since the epoch) for jobs that name it, or whose user or project is among these."""

    name: str
    begin: float
    end: float
    gpus: int
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def lets(self, user: str, project: str) -> bool:
        """Whether such a job may name it."""
        return not (self.users or self.projects) or user in self.users or project in self.projects


def reserved(reservations: Sequence[Reservation], begin: float, end: float) -> tuple[int, list[str]]:
    """The most GPUs that are reserved at any moment between the two, and by which."""
    most, names = 0, list[str]()
    for moment in {begin, *(one.begin for one in reservations if begin < one.begin < end)}:
        then = [one for one in reservations if one.begin <= moment < one.end]
        if (many := sum(one.gpus for one in then)) > most:
            most, names = many, sorted(one.name for one in then)
    return most, names


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the machine has to give: GPUs that are healthy and not held by others, CPUs, MiB of host memory."""

    gpus: int
    cpus: int = MANY
    host_memory: int = MANY


class Kind(NamedTuple):
    """What the answer hangs on: of two jobs of one kind both may be placed, or neither, but for how many."""

    state: str
    blocked: int
    begin: float | None  # None also where it is past
    gpus: int
    cpus: int
    host_memory: int
    user: str
    project: str
    array: int | None  # None where it has no bound of its own
    at_once: int | None
    limit: float | None
    checkpoint: bool
    reservation: str


def kind(row: "Row", now: float) -> Kind:
    """The kind of a waiting job."""
    begin = row.begin if row.begin is not None and row.begin > now else None
    array = row.array if row.at_once is not None else None
    return Kind(
        row.state, row.blocked, begin, row.gpus, row.cpus, row.host_memory, row.user, row.project, array, row.at_once, row.limit,
        bool(row.checkpoint), row.reservation,
    )  # fmt: skip


class Admission:
    """One decision. started: when each running job began, by id (missing: just now). used: GPU-seconds of the last seven days, as
    Book.used names them. What it costs hangs on the number of running jobs and of kinds, not on how many wait."""

    def __init__(
        self,
        running: Iterable["Row"],
        room: Room,
        now: float,
        quotas: "Quotas | None" = None,
        reservations: Sequence[Reservation] = (),
        used: Mapping[str, float] | None = None,
        started: Mapping[int, float] | None = None,
    ) -> None:
        self.room, self.now, self.quotas, self.used = room, now, quotas, used or {}
        self.reservations = [one for one in reservations if one.end > now]
        self._names = {one.name for one in self.reservations}
        self._started = started or {}
        self._gpus: dict[str, int] = {}  # by "user:ann", "project:vision"
        self._arrays: dict[int, int] = {}
        self._cpus = self._memory = 0
        self._running: list[Row] = []
        for row in running:
            self._count(row)

    def _count(self, row: "Row") -> None:
        self._running.append(row)
        self._cpus += row.cpus
        self._memory += row.host_memory
        for name in owners(row.user, row.project):
            self._gpus[name] = self._gpus.get(name, 0) + row.gpus
        if row.array is not None:
            self._arrays[row.array] = self._arrays.get(row.array, 0) + 1

    def take(self, row: "Row") -> Reason | None:
        """Counts it among the running, where it still may start beside those that were taken before; else the reason why not."""
        many, why = self.how_many(kind(row, self.now))
        if not many:
            return why
        self._count(row)
        return None

    def how_many(self, one: Kind) -> tuple[int, Reason | None]:
        """How many of this kind may start now, and what lets no more do so (None: nothing)."""
        if why := self._not_yet(one):
            return 0, why
        bounds = [*self._counted(one), *self._quota(one), self._reserved(one)]
        most, why = min(bounds, key=lambda bound: max(0, bound[0]))  # of equals the first
        return max(0, most), why

    def _not_yet(self, one: Kind) -> Reason | None:
        """What has nothing to do with what runs."""
        if one.state == "held":
            return Reason("held")
        if one.blocked:
            return Reason("dependency", {"many": one.blocked})
        if one.begin is not None:
            return Reason("begin", {"at": at(one.begin)})
        if one.reservation:
            mine = next((this for this in self.reservations if this.name == one.reservation), None)
            if mine is None:
                return Reason("reservation-over", {"name": one.reservation})
            if mine.begin > self.now:
                return Reason("reservation-later", {"name": mine.name, "begin": at(mine.begin)})
        return None

    def _counted(self, one: Kind) -> Iterator[tuple[int, Reason]]:
        """Its array, CPUs, host memory."""
        if one.at_once is not None and one.array is not None:
            runs = self._arrays.get(one.array, 0)
            yield one.at_once - runs, Reason("at-once", {"many": runs})
        for name, key, want, total, given in (
            ("cpus", "cpus", one.cpus, self.room.cpus, self._cpus),
            ("host-memory", "memory", one.host_memory, self.room.host_memory, self._memory),
        ):
            if want > total:
                yield 0, Reason(f"{name}-never", {key: want, "total": total})
            elif want:
                yield (total - given) // want, Reason(name, {key: want, "free": max(0, total - given), "total": total})

    def _quota(self, one: Kind) -> Iterator[tuple[int, Reason]]:
        """What its user and project may have."""
        if self.quotas is None or not one.gpus:
            return
        for name, quota in self.quotas.of(one.user, one.project):
            who = name.partition(":")[2]
            if quota.gpus is not None:
                held = self._gpus.get(name, 0)
                if one.gpus > quota.gpus:
                    yield 0, Reason("quota-never", {"gpus": one.gpus, "who": who, "allowed": quota.gpus})
                yield (quota.gpus - held) // one.gpus, Reason("quota-gpus", {"who": who, "held": held, "allowed": quota.gpus})
            if quota.gpu_hours is not None and self.used.get(name, 0.0) >= quota.gpu_hours * HOUR:
                used = f"{self.used.get(name, 0.0) / HOUR:.4g}"
                yield 0, Reason("quota-hours", {"who": who, "used": used, "allowed": f"{quota.gpu_hours:g}"})

    # -- reservations

    def _belongs(self, one: "Kind | Row", to: Reservation) -> bool:
        if one.reservation:
            return one.reservation == to.name
        return one.user in to.users or one.project in to.projects

    def _end(self, row: "Row") -> float:
        """When it has ended at the latest."""
        return math.inf if row.limit is None else self._started.get(row.id, self.now) + row.limit

    def _reserved(self, one: Kind) -> tuple[int, Reason | None]:
        """How many of it leave the reserved GPUs alone, at every moment at which it may still run."""
        if not one.gpus or not self.reservations:
            return MANY, None
        end = math.inf if one.limit is None else self.now + one.limit
        if one.checkpoint and not one.reservation:
            end = self.now  # it leaves when they begin
        most, why = MANY, None
        for moment in sorted({self.now, *(this.begin for this in self.reservations if self.now < this.begin < end)}):
            kept, first = 0, None
            for this in self.reservations:
                if this.begin <= moment < this.end and not self._belongs(one, this):
                    mine = sum(row.gpus for row in self._running if self._belongs(row, this) and self._end(row) > moment)
                    kept += max(0, this.gpus - mine)
                    first = first or this
            held = sum(row.gpus for row in self._running if moment == self.now or (self._end(row) > moment and not row.checkpoint))
            many = (self.room.gpus - kept - held) // one.gpus
            if first is not None and many < most:
                most = many
                name = "reservation-runs" if moment == self.now else "reservation"  # what runs already no limit comes before
                why = Reason(name, {"gpus": kept, "name": first.name, "begin": at(first.begin), "end": at(first.end)})
        return self._inside(one, most, why)

    def _inside(self, one: Kind, most: int, why: Reason | None) -> tuple[int, Reason | None]:
        """A job that names its reservation takes no more than that holds."""
        mine = next((this for this in self.reservations if this.name == one.reservation), None)
        if mine is None:
            return most, why
        held = sum(row.gpus for row in self._running if row.reservation == mine.name)
        many = (mine.gpus - held) // one.gpus
        return (many, Reason("reservation-full", {"gpus": mine.gpus, "name": mine.name})) if many < most else (most, why)

    def leaving(self) -> dict[int, Reason]:
        """Running jobs with a checkpoint that have to give way to reservations that have begun, the youngest first."""
        leave: dict[int, Reason] = {}
        active = [this for this in self.reservations if this.begin <= self.now]
        kept = sum(max(0, this.gpus - sum(row.gpus for row in self._running if self._belongs(row, this))) for this in active)
        short = kept + sum(row.gpus for row in self._running) - self.room.gpus
        youngest = sorted(self._running, key=lambda row: (-self._started.get(row.id, self.now), -row.id))
        for row in youngest if active else ():
            if short > 0 and row.gpus and row.checkpoint and not any(self._belongs(row, this) for this in active):
                leave[row.id] = Reason("leaves-reservation", {"name": active[0].name})
                short -= row.gpus
        return leave


def at(moment: float) -> str:
    """A time in words that both languages share: 2026-12-01 08:00, local."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return f"{moment:g}"
