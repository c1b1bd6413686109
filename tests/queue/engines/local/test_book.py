"""The book: what is asked, claimed, finished and told."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ongpu.lazy import replace
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local.book import Book, Finish, Reservation
from ongpu.queue.job import CANCELLED, DONE, ENDING, FAILED, HELD, RUNNING, STARTING, WAITING, Card, Spec, Told, Want
from ongpu.queue.reasons import Reason

NOW = 1_800_000_000.0
DAY = 86400.0


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with Book(tmp_path / "queue", create=True) as book:
        yield book


def spec(**asked: Any) -> Spec:
    return Spec(**{"command": ("python", "train.py"), **asked})


def told(book: Book, *jobs: int) -> list[Told]:
    return list(book.listing(Want(ids=tuple(map(str, jobs)), most=None)).jobs)


def states(book: Book, *jobs: int) -> list[str]:
    return [one.state for one in told(book, *jobs)]


def run(book: Book, job: int, gpu: str = "GPU-a", slot: int = 0, now: float = NOW) -> int:
    """Starts it; the attempt."""
    (one,) = book.claim([(job, [(gpu, slot)])], now)
    book.started([(job, one.attempt)], now)
    return one.attempt


def end(book: Book, job: int, attempt: int = 1, then: str = DONE, now: float = NOW, **how: Any) -> None:
    code = 0 if then == DONE else 1
    book.finish(
        [Finish(**{"job": job, "attempt": attempt, "code": code, "ending": "ok" if then == DONE else "program", "then": then, **how})], now
    )


class TestSubmitting:
    def test_all_that_was_asked_comes_back(self, book: Book) -> None:
        asked = spec(
            name="a", gpus=2, memory=20480, model="A100", capability=(8, 0), limit=3600.0, cpus=4, host_memory=1000, folder="/srv/x",
            environ={"A": "é\udcff", "B": "two\nlines"}, project="vision", priority=3, begin=NOW + 5, retries=2, retry_on="any",
            checkpoint="SIGUSR1", saved="*.pt", grace=9.0, idle=60.0, idle_stop=True, on_reboot="fail", output="/tmp/o", notify="json://x",
        )  # fmt: skip
        (job,) = book.submit([asked], "ann", NOW)
        (one,) = told(book, job)
        assert one.spec == replace(asked, environ={})  # a listing shows no environment
        assert (one.state, one.user, one.submitted, one.since, one.array) == (WAITING, "ann", NOW, NOW, "")
        (row,) = book.changed(0)
        assert (row.id, row.gpus, row.memory, row.model, row.capability, row.limit) == (job, 2, 20480, "A100", "8.0", 3600.0)
        assert (row.cpus, row.host_memory, row.user, row.project, row.priority) == (4, 1000, "ann", "vision", 3)
        assert (row.checkpoint, row.begin, row.blocked, row.share) == ("SIGUSR1", NOW + 5, 0, False)
        (one_run,) = book.claim([(job, [("GPU-b", 0), ("GPU-a", 0)])], NOW)
        assert one_run.spec == asked
        assert one_run.leases == (("GPU-b", 0), ("GPU-a", 0))  # in the order in which they were chosen
        assert one_run.folder == book.folder / "jobs" / str(job) / "1"

    def test_an_array_is_one_and_its_environment_stands_once(self, book: Book) -> None:
        (alone,) = book.submit([spec(environ={"A": "1"})], "ann", NOW)
        jobs = book.submit([spec(index=index, at_once=2, environ={"A": "1"}) for index in (0, 1, 5)], "ann", NOW)
        assert len({alone, *jobs}) == 4
        several = told(book, *jobs)
        (array,) = {one.array for one in several}
        assert array not in map(str, [alone, *jobs])
        assert [one.spec.index for one in several] == [0, 1, 5]
        assert book._rows("SELECT uses FROM environ") == [(2,)]
        assert book._rows("SELECT uses FROM spec ORDER BY id") == [(1,), (3,)]
        assert book.find([array]) == jobs
        assert book.find([f"{array}[5]", f"{array}_1", str(alone)]) == [jobs[2], jobs[1], alone]
        assert book.find([f"{jobs[0]}-{jobs[1]}"]) == jobs[:2]
        assert book.find([f"{array}[1,5]"]) == book.find([f"{array}_[1-5]"]) == jobs[1:]
        assert book.find([f"{array}[0,0-1]", f"{array}[0]"]) == jobs[:2]
        bad = (f"{array}[7]", f"{array}[0,2-4]", f"{array}[0,]", f"{array}[0-]", f"{array},{alone}", "1_", "-", "1-2-3")
        for word in (*bad, "999", "x", "", "9" * 30, "²"):
            with pytest.raises(EngineError, match="no such job"):
                book.find([word])

    def test_two_arrays_in_one_submission(self, book: Book) -> None:
        jobs = book.submit(
            [*[spec(index=index) for index in range(3)], *[spec(index=index, gpus=2) for index in range(2)], spec()], "ann", NOW
        )
        arrays = [one.array for one in told(book, *jobs)]
        assert arrays == [arrays[0]] * 3 + [arrays[3]] * 2 + [""]
        assert arrays[0] != arrays[3]

    def test_all_or_none(self, book: Book) -> None:
        for wrong in (spec(gpus=-1), spec(after=(("ok", "77"),)), spec(reservation="demo"), spec(command=())):
            with pytest.raises(EngineError):
                book.submit([spec(), wrong], "ann", NOW)
        assert book.listing(Want()).counts == {}
        assert book.submit([], "ann", NOW) == []

    def test_who_came_first_stays_first_when_the_clock_is_set_back(self, book: Book) -> None:
        jobs = [book.submit([spec()], "ann", NOW + back)[0] for back in (0, -3600, 5, -7)]
        assert [int(one.id) for one in book.listing(Want()).jobs] == jobs
        ahead = book.submit([spec()], "ann", NOW + 900 * DAY)  # a clock that was wrong by years
        later = book.submit([spec()], "ann", NOW + 10)
        assert [row.since for row in book.changed(0) if row.id in later] == [NOW + 10]
        assert len(told(book, *ahead)) == 1

    def test_ids_are_never_given_twice(self, book: Book) -> None:
        jobs = book.submit([spec() for _ in range(1200)], "ann", NOW)
        book.cancel(jobs, NOW)
        while book.forget(NOW + 365 * DAY):
            pass
        assert len(book.listing(Want(most=None)).jobs) == 1000
        assert book.submit([spec()], "ann", NOW)[0] == jobs[-1] + 1


class TestClaims:
    def test_no_gpu_is_leased_twice_and_a_gang_gets_all_or_nothing(self, book: Book) -> None:
        one, two, three = book.submit([spec(), spec(gpus=2), spec(gpus=2)], "ann", NOW)
        runs = book.claim([(one, [("GPU-a", 0)]), (two, [("GPU-b", 0), ("GPU-a", 0)]), (three, [("GPU-b", 0), ("GPU-c", 0)])], NOW)
        assert [run.job for run in runs] == [one, three]
        assert states(book, one, two, three) == [STARTING, WAITING, STARTING]
        assert book._rows("SELECT gpu, job FROM lease") == [("GPU-a", one), ("GPU-b", three), ("GPU-c", three)]
        assert [run.job for run in book.runs()] == [one, three]

    @pytest.mark.parametrize(("first", "then", "may"), [(0, 0, False), (0, 3, False), (3, 0, False), (3, 3, False), (3, 4, True)])
    def test_the_whole_gpu_excludes_its_parts(self, book: Book, first: int, then: int, may: bool) -> None:
        one, two = book.submit([spec(share=True, memory=8), spec(share=True, memory=9)], "ann", NOW)
        assert len(book.claim([(one, [("GPU-a", first)])], NOW)) == 1
        assert len(book.claim([(two, [("GPU-a", then)])], NOW)) == may

    def test_the_file_itself_refuses_a_double_lease(self, book: Book) -> None:
        run(book, *book.submit([spec()], "ann", NOW))
        for slot in (0, 1, 63, 64, -1):
            with pytest.raises(sqlite3.IntegrityError):
                book._db.execute("INSERT INTO lease VALUES ('GPU-a', ?, 99, 1)", (slot,))

    def test_what_does_not_wait_is_left_out(self, book: Book) -> None:
        held, done, waits, two = book.submit([spec(), spec(), spec(), spec(gpus=2)], "ann", NOW)
        (after,) = book.submit([spec(after=(("ok", str(waits)),))], "ann", NOW)
        book.hold([held], NOW)
        book.cancel([done], NOW)
        starts = [(job, [(f"GPU-{job}", 0)]) for job in (held, done, after, 99)]
        short = [(two, [("GPU-x", 0)]), (two, [("GPU-x", 0), ("GPU-x", 1)])]  # fewer GPUs than it wants; one of them twice
        assert book.claim([*starts, *short], NOW) == []
        assert book.claim([], NOW) == []
        assert len(book.claim([(waits, [("GPU-a", 0)]), (waits, [("GPU-b", 0)])], NOW)) == 1
        assert book._rows("SELECT gpu FROM lease") == [("GPU-a",)]

    def test_a_job_without_gpus(self, book: Book) -> None:
        (job,) = book.submit([spec(gpus=0)], "ann", NOW)
        (one,) = book.claim([(job, [])], NOW)
        assert one.leases == ()
        book.started([(job, 1)], NOW)
        end(book, job)
        assert states(book, job) == [DONE]

    @pytest.mark.parametrize("state", ["drained", "testing"])
    def test_never_on_a_gpu_that_is_drained(self, book: Book, state: str) -> None:
        (job,) = book.submit([spec()], "ann", NOW)
        book.set_cards([Card(id="GPU-a", state=state, slug="xid-79"), Card(id="GPU-b")], NOW)
        assert book.claim([(job, [("GPU-a", 0)])], NOW) == []
        assert len(book.claim([(job, [("GPU-b", 0)])], NOW)) == 1


class TestEnds:
    def test_a_run_from_begin_to_end(self, book: Book) -> None:
        (job,) = book.submit([spec(project="vision")], "ann", NOW)
        run(book, job, now=NOW + 10)
        assert states(book, job) == [RUNNING]
        assert book.used(NOW, NOW + 20) == {"user:ann": 10.0, "project:vision": 10.0}
        end(book, job, now=NOW + 70, used=60.0, busy=0.9, peak=700, energy=5.0, said="x")
        (one,) = told(book, job)
        assert (one.state, one.started, one.ended, one.code, one.ending) == (DONE, NOW + 10, NOW + 70, 0, "ok")
        assert (one.gpus, one.attained, one.busy, one.peak, one.energy, one.attempts) == (("GPU-a",), 60.0, 0.9, 700, 5.0, 1)
        assert book.runs() == []
        assert book.used(NOW, NOW + 80) == {"user:ann": 60.0, "project:vision": 60.0}
        assert book._rows("SELECT count(*) FROM lease") == [(0,)]

    def test_twice_is_once(self, book: Book) -> None:
        (job,) = book.submit([spec()], "ann", NOW)
        run(book, job)
        for _ in range(2):
            end(book, job, then=WAITING, used=60.0)
        (row,) = book.changed(0)
        assert (row.attained, row.attempt, row.state) == (60.0, 1, WAITING)
        run(book, job)
        end(book, job, attempt=1)  # the old one again, while the new one runs
        assert states(book, job) == [RUNNING]
        end(book, job, attempt=2)
        assert states(book, job) == [DONE]
        assert book.endings(job) == ["program", "ok"]
        end(book, 999)

    def test_one_that_runs_again_avoids_the_gpu_and_keeps_its_place(self, book: Book) -> None:
        first, second = book.submit([spec(), spec()], "ann", NOW)
        run(book, first, now=NOW + 5)
        end(book, first, then=WAITING, ending="gpu-fault", avoid=("GPU-a",), delay=30.0, now=NOW + 50)
        (row,) = (row for row in book.changed(0) if row.id == first)
        assert (row.avoid, row.begin, row.since, row.wish) == (("GPU-a",), NOW + 80, NOW, "")
        run(book, first, gpu="GPU-b", now=NOW + 90)
        end(book, first, attempt=2, then=WAITING, ending="preempted", avoid=("GPU-b",), now=NOW + 100)
        (row,) = (row for row in book.changed(0) if row.id == first)
        assert (row.avoid, row.since) == (("GPU-a", "GPU-b"), NOW + 100)
        assert [int(one.id) for one in book.listing(Want()).jobs] == [second, first]

    def test_one_that_used_more_is_listed_later(self, book: Book) -> None:
        first, second = book.submit([spec(), spec(priority=1)], "ann", NOW)
        assert [int(one.id) for one in book.listing(Want()).jobs] == [second, first]
        run(book, second)
        end(book, second, then=WAITING, used=5 * 3600.0)
        assert [int(one.id) for one in book.listing(Want()).jobs] == [first, second]

    def test_what_is_no_text_and_no_number_does_no_harm(self, book: Book) -> None:
        (job,) = book.submit([spec(command=("\udcff",), folder="/\udcff", environ={"A": "\udcff"})], "ann\udcff", NOW)
        assert len(book.listing(Want(user="ann\udcff")).jobs) == 1
        assert book.listing(Want(name="\udcff")).jobs == ()
        book.say({job: "\udcff\0"}, NOW)
        run(book, job)
        assert book.runs()[0].spec.command == ("\udcff",)
        end(book, job, said="\udcff\0", slug="\ud800", used=float("nan"))
        run(book, *book.submit([spec()], "ann", NOW))
        end(book, job + 1, used=float("inf"), busy=float("nan"))
        assert [one.attained for one in told(book, job, job + 1)] == [0.0, 0.0]
        with pytest.raises(EngineError, match="--name"):
            book.submit([spec(name="\udcff")], "ann", NOW)

    def test_what_is_impossible_is_a_fault_of_ours(self, book: Book) -> None:
        (job,) = book.submit([spec()], "ann", NOW)
        run(book, job)
        with pytest.raises(ValueError, match="running"):
            end(book, job, then=RUNNING)
        assert states(book, job) == [RUNNING]

    def test_old_use_counts_less(self, book: Book) -> None:
        for back, user in ((0.0, "ann"), (7 * DAY, "bob"), (700 * DAY, "old")):
            (job,) = book.submit([spec()], user, NOW)
            run(book, job)
            end(book, job, used=1000.0, now=NOW - back)
        spent = book.spent(NOW, 7 * DAY)
        assert spent["user:ann"] == 1000.0
        assert spent["user:bob"] == pytest.approx(500.0, rel=0.03)
        assert "user:old" not in spent
        assert set(book.used(NOW - 3 * DAY, NOW)) == {"user:ann"}

    def test_the_history_holds_each_run(self, book: Book) -> None:
        (job,) = book.submit([spec(environ={"SECRET": "x"})], "ann", NOW)
        run(book, job, now=NOW + 1)
        end(book, job, then=WAITING, ending="preempted", used=9.0, now=NOW + 10)
        run(book, job, gpu="GPU-b", now=NOW + 20)
        end(book, job, attempt=2, then=FAILED, used=5.0, now=NOW + 25)
        first, second = book.history(0)
        assert (first.started, first.ended, first.gpus, first.attempts, first.attained) == (NOW + 1, NOW + 10, ("GPU-a",), 1, 9.0)
        assert (first.state, second.state, second.ending) == (WAITING, FAILED, "program")
        assert not first.spec.environ
        assert [one.attempts for one in book.history(NOW + 11)] == [2]

    def test_a_long_history_comes_in_pages_and_none_is_missed(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.local.telling.PAGE", 7)
        jobs = book.submit([spec(gpus=0) for _ in range(40)], "ann", NOW)
        book.claim([(job, []) for job in jobs], NOW)
        book.finish([Finish(job=job, attempt=1, code=0, ending="ok", then=DONE) for job in jobs], NOW + 1)  # all at one time
        assert [int(one.id) for one in book.history(0)] == jobs


class TestWishes:
    def test_cancel(self, book: Book) -> None:
        waits, held, runs, starts, over = book.submit([spec() for _ in range(5)], "ann", NOW)
        book.hold([held], NOW)
        run(book, runs)
        book.claim([(starts, [("GPU-b", 0)])], NOW)
        run(book, over, "GPU-c")
        end(book, over)
        book.cancel([waits, held, runs, starts, over], NOW + 5)
        assert states(book, waits, held, runs, starts, over) == [CANCELLED, CANCELLED, ENDING, ENDING, DONE]
        assert [(one.state, one.asked) for one in book.runs()] == [("ending", NOW + 5)] * 2
        book.started([(starts, 1)], NOW + 6)
        assert states(book, starts) == [ENDING]
        end(book, runs, then=WAITING)  # the daemon did not know of the cancel
        assert states(book, runs) == [CANCELLED]
        with pytest.raises(EngineError, match="no such job"):
            book.cancel([waits, 999], NOW)

    def test_cancel_of_an_array_is_of_all_its_jobs(self, book: Book) -> None:
        jobs = book.submit([spec(index=index) for index in range(4)], "ann", NOW)
        run(book, jobs[0])
        book.cancel([int(told(book, jobs[0])[0].array)], NOW)
        assert states(book, *jobs) == [ENDING] + [CANCELLED] * 3

    def test_the_strongest_wish_holds(self, book: Book) -> None:
        (job,) = book.submit([spec()], "ann", NOW)
        book.wish({job: "preempt"}, NOW)
        assert states(book, job) == [WAITING]
        run(book, job)
        for wish, holds in (("preempt", "preempt"), ("timeout", "timeout"), ("idle", "timeout"), ("cancel", "cancel"), ("fault", "cancel")):
            book.wish({job: wish}, NOW)
            assert [row.wish for row in book.changed(0)] == [holds]
        assert [one.asked for one in book.runs()] == [NOW]

    def test_hold_and_release(self, book: Book) -> None:
        first, second = book.submit([spec(), spec()], "ann", NOW)
        book.hold([first], NOW)
        book.hold([first], NOW)
        assert states(book, first, second) == [HELD, WAITING]
        assert book.listing(Want()).counts == {HELD: 1, WAITING: 1}
        book.release([first], NOW + 50)
        assert states(book, first) == [WAITING]
        assert [int(one.id) for one in book.listing(Want()).jobs] == [first, second]
        run(book, first)
        book.hold([first], NOW)
        assert states(book, first) == [RUNNING]

    def test_what_is_said_is_no_change(self, book: Book) -> None:
        (job,) = book.submit([spec()], "ann", NOW)
        seq = book.seq()
        why = Reason("behind", {"fitting": 1, "gpus": 2})
        book.say({job: why.json(), 99: "x"}, NOW)
        assert book.changed(seq) == []
        assert Reason.of(told(book, job)[0].said) == why
        run(book, job)
        assert told(book, job)[0].said == ""


class TestDependencies:
    def follow(self, book: Book, kind: str, *jobs: object) -> int:
        return book.submit([spec(after=tuple((kind, str(job)) for job in jobs))], "ann", NOW)[0]

    def blocked(self, book: Book, job: int) -> int:
        return next(row.blocked for row in book.changed(0) if row.id == job)

    def test_it_waits_until_all_have_ended(self, book: Book) -> None:
        one, two = book.submit([spec(), spec()], "ann", NOW)
        after = self.follow(book, "ok", one, two)
        assert self.blocked(book, after) == 2
        run(book, one)
        end(book, one)
        assert self.blocked(book, after) == 1
        seq = book.seq()
        run(book, two)
        end(book, two)
        assert [(row.id, row.blocked, row.state) for row in book.changed(seq)] == [(two, 0, DONE), (after, 0, WAITING)]

    @pytest.mark.parametrize("how", ["failed", "cancelled"])
    def test_what_follows_a_failure_by_ok_is_cancelled_with_a_reason(self, book: Book, how: str) -> None:
        (one,) = book.submit([spec()], "ann", NOW)
        after, anyway = self.follow(book, "ok", one), self.follow(book, "any", one)
        behind, last = self.follow(book, "ok", after), self.follow(book, "any", after)
        if how == "failed":
            run(book, one)
            end(book, one, then=FAILED)
        else:
            book.cancel([one], NOW)
        assert states(book, after, anyway, behind, last) == [CANCELLED, WAITING, CANCELLED, WAITING]
        assert [self.blocked(book, job) for job in (anyway, last)] == [0, 0]
        first, second = told(book, after, behind)
        assert (first.ending, Reason.of(first.said)) == ("dependency", Reason("needs-ok", {"job": one}))
        assert Reason.of(second.said) == Reason("needs-ok", {"job": after})
        assert book._rows("SELECT count(*) FROM need") == [(0,)]

    def test_one_that_will_run_again_has_not_ended(self, book: Book) -> None:
        (one,) = book.submit([spec()], "ann", NOW)
        after = self.follow(book, "ok", one)
        run(book, one)
        end(book, one, then=WAITING)
        assert self.blocked(book, after) == 1

    def test_of_what_is_over_it_is_judged_at_once(self, book: Book) -> None:
        good, bad = book.submit([spec(), spec()], "ann", NOW)
        run(book, good)
        end(book, good)
        book.cancel([bad], NOW)
        jobs = [self.follow(book, kind, job) for kind in ("ok", "any") for job in (good, bad)]
        assert states(book, *jobs) == [WAITING, CANCELLED, WAITING, WAITING]
        assert Reason.of(told(book, jobs[1])[0].said) == Reason("needs-ok", {"job": bad})

    def test_of_an_array_and_of_one_of_its_jobs(self, book: Book) -> None:
        jobs = book.submit([spec(index=index, gpus=0) for index in range(3)], "ann", NOW)
        array = told(book, jobs[0])[0].array
        whole, one = self.follow(book, "any", array), self.follow(book, "ok", f"{array}[1]")
        strict = self.follow(book, "ok", array)
        book.claim([(job, []) for job in jobs], NOW)
        end(book, jobs[1])
        assert [self.blocked(book, job) for job in (whole, one, strict)] == [1, 0, 1]
        end(book, jobs[0], then=FAILED)
        assert states(book, whole, strict) == [WAITING, CANCELLED]  # it need not wait for the rest
        end(book, jobs[2])
        assert self.blocked(book, whole) == 0
        assert states(book, self.follow(book, "ok", array), self.follow(book, "any", array)) == [CANCELLED, WAITING]

    def test_an_array_that_follows(self, book: Book) -> None:
        (one,) = book.submit([spec()], "ann", NOW)
        jobs = book.submit([spec(index=index, after=(("ok", str(one)),)) for index in range(3)], "ann", NOW)
        last = self.follow(book, "ok", told(book, jobs[0])[0].array)
        book.cancel([one], NOW)
        assert states(book, *jobs, last) == [CANCELLED] * 4

    def test_a_long_chain_falls_at_once(self, book: Book) -> None:
        (job,) = chain = book.submit([spec()], "ann", NOW)
        for _ in range(300):
            chain.append(job := self.follow(book, "ok", job))
        begun = time.perf_counter()
        book.cancel(chain[:1], NOW)
        assert time.perf_counter() - begun < 2
        assert set(states(book, *chain)) == {CANCELLED}


class TestListing:
    def test_running_first_then_waiting_then_the_last_that_ended(self, book: Book) -> None:
        jobs = book.submit([spec(name=f"n{number}", gpus=0) for number in range(9)], "ann", NOW)
        book.claim([(job, []) for job in jobs[:5]], NOW)
        for job in jobs[:3]:
            end(book, job, now=NOW + job)
        listing = book.listing(Want(most=2))
        assert [int(one.id) for one in listing.jobs] == [*jobs[3:5], *jobs[5:7], jobs[2], jobs[1]]
        assert listing.counts == {DONE: 3, STARTING: 2, WAITING: 4}
        assert [int(one.id) for one in book.listing(Want(states=(DONE,))).jobs] == [jobs[2], jobs[1], jobs[0]]
        assert [one.spec.name for one in book.listing(Want(name="n7")).jobs] == ["n7"]
        assert len(book.listing(Want(most=None)).jobs) == 9
        assert book.listing(Want(ids=("999", "x"))).jobs == ()

    def test_of_one_user_or_project(self, book: Book) -> None:
        book.submit([spec(project="vision"), spec()], "ann", NOW)
        book.submit([spec(project="vision")], "bob", NOW)
        assert {one.user for one in book.listing(Want(user="bob")).jobs} == {"bob"}
        assert book.listing(Want(project="vision")).counts == {WAITING: 2}
        assert book.listing(Want(user="ann", project="vision")).counts == {WAITING: 1}

    def test_changes_come_once(self, book: Book) -> None:
        first, second = book.submit([spec(), spec()], "ann", NOW)
        seq = max(row.seq for row in book.changed(0))
        assert book.changed(seq) == []
        book.hold([first], NOW)
        book.cancel([second], NOW)
        rows = book.changed(seq)
        assert [(row.id, row.state) for row in rows] == [(first, HELD), (second, CANCELLED)]
        assert book.changed(max(row.seq for row in rows)) == []
        assert [row.id for row in book.changed(0)] == [first]

    def test_cards(self, book: Book) -> None:
        cards = [
            Card(id="GPU-b", index=1, name="A100", memory=81920, used=5, util=0, state="drained", slug="xid-79", since=NOW),
            Card(id="GPU-a", index=0, foreign=("python of bob",), holder="bob"),
        ]
        book.set_cards(cards, NOW)
        assert book.cards() == cards[::-1]
        run(book, *book.submit([spec()], "ann", NOW))
        assert book.listing(Want()).cards[0].jobs == ("1",)
        book.set_cards([Card(id="GPU-a", state="gone")], NOW)
        assert book.cards() == cards[:1]  # who is not named stays: it is drained when it comes back


class TestReservations:
    def test_they_are_kept_and_taken_back(self, book: Book) -> None:
        demo = Reservation(name="demo", begin=NOW + 60, end=NOW + 3600, gpus=2, users=("ann",))
        book.reserve(demo, NOW)
        book.reserve(replace(demo, gpus=3), NOW)
        assert book.reservations() == [replace(demo, gpus=3)]
        book.unreserve("demo")
        assert book.reservations() == []
        with pytest.raises(EngineError, match="no such reservation"):
            book.unreserve("demo")

    def test_no_gpu_is_reserved_twice(self, book: Book) -> None:
        book.set_cards([Card(id=f"GPU-{n}", index=n, state="drained" if n else "ok") for n in range(8)], NOW)
        hour = 3600.0
        first = Reservation(name="first", begin=NOW + hour, end=NOW + 2 * hour, gpus=6)
        book.reserve(first, NOW)
        book.reserve(replace(first, name="last", begin=NOW + 3 * hour, end=NOW + 4 * hour, gpus=7), NOW)
        for begin, end in ((1, 2), (0.5, 1.5), (0, 9), (1.5, 1.6)):
            with pytest.raises(EngineError, match=r"this machine has 8, and [67] are reserved already then \((first|last)\)"):
                book.reserve(Reservation(name="big", begin=NOW + begin * hour, end=NOW + end * hour, gpus=3), NOW)
        with pytest.raises(EngineError, match=r"this machine has 8$"):
            book.reserve(Reservation(name="big", begin=NOW, end=NOW + hour, gpus=9), NOW)
        book.reserve(Reservation(name="small", begin=NOW, end=NOW + 9 * hour, gpus=1), NOW)
        book.reserve(Reservation(name="before", begin=NOW, end=NOW + hour, gpus=7), NOW)
        book.reserve(Reservation(name="between", begin=NOW + 2 * hour, end=NOW + 3 * hour, gpus=7), NOW)
        book.reserve(replace(first, gpus=7), NOW)  # itself, anew
        book.reserve(Reservation(name="late", begin=NOW + 9 * hour, end=NOW + 10 * hour, gpus=8), NOW + 5 * hour)

    def test_refusals_name_the_option_and_count_as_people_do(self, book: Book) -> None:
        book.set_cards([Card(id="GPU-0")], NOW)
        book.reserve(Reservation(name="one", begin=NOW, end=NOW + 3600, gpus=1), NOW)
        with pytest.raises(EngineError, match=r"this machine has 1, and 1 is reserved already then \(one\)"):
            book.reserve(Reservation(name="more", begin=NOW, end=NOW + 60, gpus=1), NOW)
        for asked, said in (
            ({"gpus": 2, "reservation": "one"}, "it holds 1 GPU$"),
            ({"after": (("ok", "99"),)}, "^--after 99: there"),
            ({"after": (("any", "99"),)}, "^--after-any 99: there"),
        ):
            with pytest.raises(EngineError, match=said):
                book.submit([spec(**asked)], "ann", NOW)

    @pytest.mark.parametrize(
        "wrong", [{"name": ""}, {"name": "a\nb"}, {"end": NOW - 1}, {"begin": NOW + 4000}, {"gpus": 0}, {"end": float("nan")}]
    )
    def test_what_cannot_be_is_refused(self, book: Book, wrong: dict[str, Any]) -> None:
        demo = Reservation(name="demo", begin=NOW + 60, end=NOW + 3600, gpus=2)
        with pytest.raises(EngineError):
            book.reserve(replace(demo, **wrong), NOW)
        assert book.reservations() == []

    def test_a_job_that_names_it_has_to_be_let_in(self, book: Book) -> None:
        book.reserve(Reservation(name="demo", begin=NOW, end=NOW + 3600, gpus=2, users=("ann",), projects=("vision",)), NOW)
        assert len(book.submit([spec(reservation="demo")], "ann", NOW)) == 1
        assert len(book.submit([spec(reservation="demo", project="vision")], "bob", NOW)) == 1
        for wrong, user in (
            (spec(reservation="demo"), "bob"),
            (spec(reservation="other"), "ann"),
            (spec(reservation="demo", gpus=3), "ann"),
        ):
            with pytest.raises(EngineError, match="--reservation"):
                book.submit([wrong], user, NOW)


class TestForgetting:
    def test_only_what_is_over_and_old_goes_in_small_steps(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.local.book.LEAST", 2)
        array = book.submit([spec(index=index, environ={"A": "1"}) for index in range(5)], "ann", NOW)
        old, young, waits = book.submit([spec(), spec(), spec(environ={"B": "1"})], "ann", NOW)
        (after,) = book.submit([spec(after=(("any", str(waits)),))], "ann", NOW)
        run(book, old)
        end(book, old)
        book.cancel(array, NOW)
        book.cancel([young], NOW + 29 * DAY)
        assert book.forget(NOW + 30 * DAY) == []
        gone = []
        while step := book.forget(NOW + 31 * DAY, step=2):
            assert len(step) <= 2
            gone += step
        assert len(gone) == 5
        assert set(gone) < {old, *array}
        assert {int(one.id) for one in book.listing(Want(most=None)).jobs} == {old, young, waits, after, *array} - set(gone)
        book.cancel([waits, after], NOW)
        monkeypatch.setattr("ongpu.queue.engines.local.book.LEAST", 0)
        while book.forget(NOW + 300 * DAY):
            pass
        for table in ("job", "spec", "environ", "array", "run", "need"):
            assert book._rows(f"SELECT count(*) FROM {table}") == [(0,)], table

    def test_the_disk_gets_its_room_back(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.local.book.LEAST", 0)
        jobs = book.submit([spec(command=("x" * 5000, str(number))) for number in range(400)], "ann", NOW)
        (pages,) = book._rows("PRAGMA page_count")[0]
        book.cancel(jobs, NOW)
        while book.forget(NOW + 31 * DAY, step=100):
            pass
        assert book._rows("PRAGMA page_count")[0][0] < pages / 4


def test_a_hundred_thousand_jobs(book: Book) -> None:
    asked = spec(environ={f"VARIABLE_{number}": "x" * 50 for number in range(50)})
    specs = [replace(asked, index=index) for index in range(100_000)]
    begun = time.process_time()
    jobs = book.submit(specs, "ann", NOW)
    assert time.process_time() - begun < 6
    assert book.path.stat().st_size < 60 << 20
    for want in (Want(), Want(user="bob"), Want(states=(HELD,)), Want(name="x"), Want(ids=(str(jobs[70_000]),))):
        begun = time.process_time()
        book.listing(want)
        assert time.process_time() - begun < 0.5
    seq = book.seq()
    begun = time.process_time()
    run(book, jobs[0])
    assert [row.id for row in book.changed(seq)] == [jobs[0]]
    assert time.process_time() - begun < 0.05
