"""The waiting jobs in lines of equals, so that a decision looks at the heads of a few lines and not at a hundred thousand jobs."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import Any

from ongpu.queue.placement import BASE, Gpu, Job, Policy, bucket, patience, surcharge
from ongpu.queue.placing import headroom, overdue, possible, short

Entry = tuple[Any, ...]


class Lines:
    """Jobs that differ in nothing but how long they have waited stand in one line: where its first cannot start, none behind it can.

    Add and remove cost a search in one line. `heads` gives what `place` has to see for the same answer as of the whole queue.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.lines: dict[Entry, list[Entry]] = {}
        self.count = 0

    def _where(self, job: Job) -> tuple[Entry, Entry]:
        kind = self.policy.order
        if kind == "arrival":
            return (), (-job.priority, job.submitted, job.id, job)
        want = (job.gpus, job.memory, job.checkpoint)
        if kind in ("limit", "remaining"):
            limit = float("inf") if job.limit is None else job.limit
            if kind == "remaining":
                limit -= job.attained / max(1, job.gpus)
            return (0, *want), (limit, job.since, job.id, job)
        if kind == "attained":
            return (int(job.attained >= BASE), *want, job.attained > 0), (job.submitted, job.id, job)
        return (bucket(job.attained, self.policy.factor), *want, job.priority, job.user, job.project, job.limit), (job.since, job.id, job)

    def add(self, job: Job) -> None:
        """It waits."""
        line, entry = self._where(job)
        insort(self.lines.setdefault(line, []), entry)
        self.count += 1

    def remove(self, job: Job) -> None:
        """It waits no more. Error: KeyError where it did not."""
        line, entry = self._where(job)
        entries = self.lines[line]
        place = bisect_left(entries, entry)
        if place == len(entries) or entries[place][-1] != job:
            raise KeyError(job.id)
        del entries[place]
        self.count -= 1
        if not entries:
            del self.lines[line]

    def heads(self, running: Sequence[Job], gpus: Sequence[Gpu], now: float) -> list[Job]:
        """The waiting jobs of which any could start now."""
        policy = self.policy
        if not self.count:
            return []
        if policy.passing == "none":
            healthy = [gpu for gpu in gpus if not gpu.fault and not gpu.taken]
            fitting = (entry[-1] for entries in self.lines.values() for entry in entries if possible(entry[-1], healthy))
            return list(islice(fitting, len(healthy) + 1))
        if policy.passing == "backfill":
            return [entry[-1] for entries in self.lines.values() for entry in entries]
        held = {gpu for job in running for gpu in job.held}
        faults = {gpu.id for gpu in gpus if gpu.fault}
        healthy = [gpu for gpu in gpus if not gpu.fault and not gpu.taken]
        room = sum(gpu.id not in held for gpu in healthy)
        late, lane = self._late(running, healthy, now)
        movable = [job for job in running if job.checkpoint] if policy.preempts else []
        if movable:
            room += sum(job.gpus for job in movable) if lane else self._loose(movable, running, faults, len(healthy), now)
        found = self._first(room)
        seen = {job.id for job in found}
        return found + [job for job in late if job.id not in seen]  # GPUs are kept for these

    def _first(self, room: int) -> list[Job]:
        """Of those that want the same, as many as there is room for, in their order; all that want no GPU."""
        extra = surcharge(self.policy)
        feedback = self.policy.order == "feedback"
        equals: dict[Entry, dict[int, list[list[Entry]]]] = {}
        for line, entries in self.lines.items():
            if line[1] <= room:
                rank = line[0] + extra(entries[0][-1]) - line[4] if feedback else line[0]
                want = (*line[1:4], line[7]) if feedback else line[1:]
                equals.setdefault(want, {}).setdefault(rank, []).append(entries)
        found: list[Job] = []
        for want, ranks in equals.items():
            many = room // want[0] if want[0] else self.count
            for rank in sorted(ranks):
                lines = ranks[rank]
                first = lines[0][:many] if len(lines) == 1 else list(islice(merge(*lines), many))
                found += [entry[-1] for entry in first]
                many -= len(first)
                if many <= 0:
                    break
        return found

    def _late(self, running: Sequence[Job], healthy: Sequence[Gpu], now: float) -> tuple[list[Job], bool]:
        """The overdue jobs that a decision has to see, and whether one of them is let in."""
        policy, total = self.policy, len(healthy)
        if policy.order != "feedback":
            return [], False
        lines = [entries for entries in self.lines.values() if now - entries[0][0] > policy.patience]
        if not lines:
            return [], False
        oldest = [entry[-1] for entries in lines for entry in entries[: total + 1] if now - entry[0] > patience(entry[-1], policy, total)]
        inside, following = overdue(running, oldest, policy, healthy, now)
        seen = [job for job in oldest if job.id in inside or job.id == following]
        return seen, any(job.id in inside for job in seen)

    def _loose(self, movable: Sequence[Job], running: Sequence[Job], faults: set[str], total: int, now: float) -> int:
        """GPUs of running jobs that could have to give way: those worse placed than the best waiting job that may take them."""
        policy = self.policy
        if policy.order != "feedback":
            return sum(job.gpus for job in movable)
        extra = surcharge(policy)

        def level(job: Job) -> int:
            return bucket(job.used(now), policy.factor) + extra(job) - job.priority

        _, young, allowed = headroom(running, policy, total, now)
        can = [
            entries[0][-1]
            for line, entries in self.lines.items()
            if line[3] or policy.headroom >= 1 or young + line[1] <= allowed or short(entries[0][-1])
        ]
        best = min((level(job) for job in can), default=1 << 30)
        return sum(job.gpus for job in movable if level(job) > best or not faults.isdisjoint(job.held))
