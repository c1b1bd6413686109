"""Any order of submitting, claiming, finishing, cancelling, holding, forgetting and clock jumps: the book says what a plain model says."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ongpu.queue.engines.local import book as book_module
from ongpu.queue.engines.local.book import Book, Finish
from ongpu.queue.engines.local.rows import Row
from ongpu.queue.job import CANCELLED, DONE, ENDING, FAILED, HELD, LOST, OVER, RUNNING, STARTING, WAITING, Spec, Want

GPUS = ("GPU-a", "GPU-b", "GPU-c")
USERS = ("ann", "bob")
pick = st.integers(0, 10_000)  # which of the jobs there are


class Model:
    """One job, and what it ought to be."""

    def __init__(self, job: int, array: int | None, gpus: int, needs: dict[tuple[str, int], bool]) -> None:
        self.job, self.array, self.gpus = job, array, gpus
        self.needs = needs  # (kind, target) -> whether that has ended
        self.state, self.wish, self.attempt, self.used = WAITING, "", 0, 0.0
        self.leases: list[tuple[str, int]] = []


class Queue(RuleBasedStateMachine):
    """One file, used through two connections: the commands' and the daemon's."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ongpu-book-"))
        self.commands, self.daemon = Book(self.folder / "q", create=True), Book(self.folder / "q")
        self.jobs: dict[int, Model] = {}
        self.arrays: dict[int, list[int]] = {}
        self.forgotten: set[int] = set()
        self.used: dict[str, float] = {}
        self.now = 1_800_000_000.0
        self.rows: dict[int, Row] = {}  # as a daemon keeps them, by what changed
        self.seq = 0

    def teardown(self) -> None:
        self.commands.close()
        self.daemon.close()
        shutil.rmtree(self.folder)

    def any(self, number: int, *states: str) -> Model | None:
        found = [one for one in self.jobs.values() if not states or one.state in states]
        return found[number % len(found)] if found else None

    # -- the model

    def target_over(self, target: int) -> bool:
        return all(self.jobs[job].state in OVER for job in self.arrays.get(target, [target]) if job not in self.forgotten)

    def target_bad(self, target: int) -> bool:
        return any(self.jobs[job].state in OVER and self.jobs[job].state != DONE for job in self.arrays.get(target, [target]))

    def settle(self) -> None:
        """What waits for others, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for one in self.jobs.values():
                if one.state not in (WAITING, HELD):
                    continue
                for kind, target in one.needs:
                    if kind == "ok" and self.target_bad(target):
                        one.state, changed = CANCELLED, True
                    elif self.target_over(target):
                        one.needs[kind, target] = True

    def blocked(self, one: Model) -> int:
        return 0 if one.state in OVER else sum(not over for over in one.needs.values())

    # -- what happens

    @rule(seconds=st.sampled_from((0.0, 1.0, 3600.0, -5.0, -86_400.0 * 3, 86_400.0 * 400)))
    def time_goes_on(self, seconds: float) -> None:
        self.now = max(0.0, self.now + seconds)

    @rule(
        size=st.sampled_from((0, 0, 0, 1, 3)), gpus=st.integers(0, 3), user=st.sampled_from(USERS),
        after=st.lists(st.tuples(st.sampled_from(("ok", "any")), pick), max_size=3),
    )  # fmt: skip
    def submit(self, size: int, gpus: int, user: str, after: list[tuple[str, int]]) -> None:
        targets = [*self.jobs, *(array for array, jobs in self.arrays.items() if not self.forgotten & set(jobs))]
        needs = {(kind, targets[number % len(targets)]): False for kind, number in after if targets}
        spec = {"command": ("x",), "gpus": gpus, "after": tuple((kind, str(target)) for kind, target in needs)}
        ids = self.commands.submit([Spec(**spec, index=index) for index in range(size)] or [Spec(**spec)], user, self.now)
        array = ids[0] - 1 if size else None
        assert not set(ids) & (set(self.jobs) | self.forgotten)
        for job in ids:
            self.jobs[job] = Model(job, array, gpus, dict(needs))
        if array is not None:
            self.arrays[array] = ids
        self.settle()

    @rule(number=pick, gpus=st.lists(st.sampled_from(GPUS), min_size=0, max_size=3), slot=st.sampled_from((0, 0, 1, 2)))
    def claim(self, number: int, gpus: list[str], slot: int) -> None:
        one = self.any(number)
        if one is None:
            return
        leases = [(gpu, slot) for gpu in gpus]
        held = {lease for other in self.jobs.values() for lease in other.leases}
        whole, parts = {gpu for gpu, at in held if not at}, {gpu for gpu, at in held if at}
        free = all(lease not in held and lease[0] not in whole and (slot or lease[0] not in parts) for lease in leases)
        may = one.state == WAITING and not self.blocked(one) and free and len(set(gpus)) == len(gpus) == one.gpus
        runs = self.daemon.claim([(one.job, leases)], self.now)
        assert len(runs) == may
        if may:
            one.attempt += 1
            one.state, one.wish, one.leases = STARTING, "", leases
            assert (runs[0].job, runs[0].attempt, runs[0].leases) == (one.job, one.attempt, tuple(leases))

    @rule(number=pick, stale=st.booleans())
    def start(self, number: int, stale: bool) -> None:
        one = self.any(number, STARTING, RUNNING, ENDING)
        if one is not None:
            self.daemon.started([(one.job, one.attempt - stale)], self.now)
            if one.state == STARTING and not stale:
                one.state = RUNNING

    @rule(number=pick, wish=st.sampled_from(("preempt", "idle", "timeout", "fault", "cancel")))
    def wish(self, number: int, wish: str) -> None:
        one = self.any(number)
        if one is not None:
            self.daemon.wish({one.job: wish}, self.now)
            order = ("", "preempt", "idle", "timeout", "fault", "cancel")
            if one.state in (STARTING, RUNNING, ENDING):
                one.state, one.wish = ENDING, max(one.wish, wish, key=order.index)

    @rule(number=pick, then=st.sampled_from((DONE, DONE, FAILED, LOST, WAITING, CANCELLED)), stale=st.booleans(), times=st.integers(1, 2))
    def finish(self, number: int, then: str, stale: bool, times: int) -> None:
        one = self.any(number) if stale else self.any(number, STARTING, RUNNING, ENDING)
        if one is None:
            return
        real = one.state in (STARTING, RUNNING, ENDING) and not stale
        attempt = one.attempt if real else one.attempt - 1 if one.state in (STARTING, RUNNING, ENDING) else one.attempt
        for _ in range(times):
            self.daemon.finish([Finish(job=one.job, attempt=attempt, code=0, ending="x", then=then, used=7.0)], self.now)
        if real:
            one.state = CANCELLED if one.wish == "cancel" and then == WAITING else then
            one.wish, one.leases = "", []
            one.used += 7.0
            self.settle()

    @rule(number=pick, whole=st.booleans())
    def cancel(self, number: int, whole: bool) -> None:
        one = self.any(number)
        if one is None:
            return
        alive = one.array is not None and not self.forgotten & set(self.arrays[one.array])
        jobs = self.arrays[one.array] if whole and alive and one.array is not None else [one.job]
        self.commands.cancel([one.array if whole and alive and one.array is not None else one.job], self.now)
        for job in jobs:
            other = self.jobs[job]
            if other.state in (WAITING, HELD):
                other.state = CANCELLED
            elif other.state not in OVER:
                other.state, other.wish = ENDING, "cancel"
        self.settle()

    @rule(number=pick, release=st.booleans())
    def hold(self, number: int, release: bool) -> None:
        one = self.any(number)
        if one is not None:
            (self.commands.release if release else self.commands.hold)([one.job], self.now)
            before, then = (HELD, WAITING) if release else (WAITING, HELD)
            if one.state == before:
                one.state = then

    @rule(number=pick, text=st.text(max_size=5))
    def say(self, number: int, text: str) -> None:
        one = self.any(number)
        if one is not None:
            self.daemon.say({one.job: text}, self.now)

    @precondition(lambda self: len(self.jobs) > 3)
    @rule()
    def forget(self) -> None:
        self.daemon_looks()  # as the daemon does, which forgets
        before, book_module.LEAST = book_module.LEAST, 2
        try:
            gone = self.daemon.forget(self.now, keep=3600.0, step=3)
        finally:
            book_module.LEAST = before
        for job in gone:
            assert self.jobs[job].state in OVER
            del self.jobs[job]
        self.forgotten |= set(gone)

    @rule()
    def die(self) -> None:
        """Whoever has the file open goes without a word; others open what there is."""
        self.commands.close()
        self.commands, self.daemon = self.daemon, Book(self.folder / "q")

    @rule()
    def daemon_looks(self) -> None:
        known, rows = self.seq > 0, self.daemon.changed(self.seq)
        assert len({row.id for row in rows}) == len(rows)
        for row in rows:
            assert row.seq > self.seq
            self.rows.pop(row.id, None)
            if row.state not in OVER:
                self.rows[row.id] = row
        self.seq = max([self.seq, *(row.seq for row in rows)])
        assert not known or self.daemon.changed(self.seq) == []
        assert self.rows == {row.id: row for row in self.daemon.changed(0)}

    # -- what holds

    @invariant()
    def the_book_says_the_same(self) -> None:
        listing = self.commands.listing(Want(most=None))
        told = {int(one.id): one for one in listing.jobs}
        assert len(told) == len(listing.jobs)
        assert {job: one.state for job, one in told.items()} == {job: one.state for job, one in self.jobs.items()}
        counts: dict[str, int] = {}
        for one in self.jobs.values():
            counts[one.state] = counts.get(one.state, 0) + 1
            assert (told[one.job].attempts, told[one.job].attained) == (one.attempt, one.used)
        assert listing.counts == counts
        rows = {row.id: row for row in self.daemon.changed(0)}
        assert set(rows) == {job for job, one in self.jobs.items() if one.state not in OVER}
        for job, row in rows.items():
            assert (row.blocked, row.wish) == (self.blocked(self.jobs[job]), self.jobs[job].wish)

    @invariant()
    def every_lease_is_of_one_run(self) -> None:
        leases: list[Any] = self.daemon._rows("SELECT gpu, slot, job, attempt FROM lease ORDER BY gpu, slot")
        mine = sorted((*lease, one.job, one.attempt) for one in self.jobs.values() for lease in one.leases)
        assert leases == mine
        for gpu in GPUS:
            slots = [slot for name, slot, _, _ in leases if name == gpu]
            assert len(slots) == len(set(slots))
            assert 0 not in slots or len(slots) == 1
        runs = {run.job: run for run in self.daemon.runs()}
        assert set(runs) == {job for job, one in self.jobs.items() if one.state in (STARTING, RUNNING, ENDING)}


Queue.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueue = Queue.TestCase
