"""What the daemon looks after while it runs: reservations, the configuration, the queue's file; and how commands see that it hangs."""

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest
from queues import Queue, until

from ongpu.queue.admission import Reservation
from ongpu.queue.engines.local import alive, recovery
from ongpu.queue.engines.local.book import Book
from ongpu.queue.job import Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
Make = Callable[..., Queue]
WAITS = "while [ ! -e go ]; do sleep 0.02; done"


def test_a_reservation_is_heeded_at_once_and_so_is_its_end(queue: Queue) -> None:
    queue.done(*queue.submit(queue.shell("true")))
    with Book(queue.place) as book:
        now = time.time()
        book.reserve(Reservation(name="demo", begin=now, end=now + 3600, gpus=3), now)
        alive.wake(queue.place)
        plain, named = queue.submit(queue.shell(WAITS, gpus=2), queue.shell(WAITS, gpus=3, reservation="demo"))
        queue.runs(named)
        until(lambda: "reservation" in queue.job(plain).said, lambda: queue.job(plain))
        assert queue.job(plain).state == "waiting"
        (queue.work / "go").touch()
        queue.done(named)
        assert queue.job(plain).state == "waiting"
        book.unreserve("demo")
    alive.wake(queue.place)
    queue.done(plain, limit=4)


def test_a_configuration_that_changes_is_taken_over(make: Make) -> None:
    queue = make(4)
    first, second = queue.submit(queue.shell(WAITS, gpus=1), queue.shell(WAITS, gpus=1))
    queue.runs(first), queue.runs(second)
    file = queue.place.parent / "queue.toml"
    file.write_text("[quota]\ngpus = 2\n")
    (third,) = queue.submit(queue.shell("true"))
    until(lambda: "quota" in queue.job(third).said, lambda: f"{queue.job(third)}\n{queue.log()}")
    file.write_text("[quota]\ngpus = no\n")
    until(lambda: "queue.toml" in ((queue.engine.jobs(Want()).warning or ("",))[0]), queue.log)
    assert queue.job(third).state == "waiting", "what is wrong changes nothing"
    file.write_text("[quota]\ngpus = 3\n")
    assert queue.done(third)[0].state == "done"
    (queue.work / "go").touch()
    queue.done(first, second)


def test_a_queue_file_that_was_removed(queue: Queue) -> None:
    (old,) = queue.submit(queue.shell("exit 3"))
    queue.done(old)
    (goes_on,) = queue.submit(queue.shell(f"{WAITS}; echo done >over"))
    told = queue.runs(goes_on)
    (queue.place / "queue.db").unlink()
    (at_once,) = queue.submit(queue.shell("echo new", gpus=0))
    until(lambda: len(queue.engine.jobs(Want()).cards) == 4, queue.log)
    (new,) = queue.submit(queue.shell("echo new"))
    told_new = queue.done(at_once, new)
    for one in told_new:
        assert (one.code, queue.output(one.id)) == (0, "new\n"), "it is no run of the old file's"
        assert int(one.id) > int(goes_on), "and has no number that one of those had"
        assert one.started is not None
        assert one.started >= one.submitted - 1
    assert recovery.there(queue.keeper(told)), "what ran goes on, and keeps its GPU"
    assert told.gpus != told_new[1].gpus
    (queue.work / "go").touch()
    until(lambda: (queue.work / "over").exists())
    queue.kill()
    queue.start()
    assert queue.done(*queue.submit(queue.shell("true")))[0].state == "done"


def test_a_daemon_that_hangs_is_told(queue: Queue) -> None:
    queue.done(*queue.submit(queue.shell("true")))
    pid = queue.daemon()
    assert queue.engine.asleep() is None
    os.kill(pid, signal.SIGSTOP)
    try:
        os.utime(queue.place / alive.LOCK, (time.time() - 100, time.time() - 100))
        queue.submit(queue.shell("true"))
        warning = queue.engine.jobs(Want()).warning
        assert warning is not None
        assert f"pid {pid}" in warning[0]
        assert queue.engine.asleep() == warning
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: queue.engine.jobs(Want()).warning is None)
    assert queue.engine.asleep() is None


def test_a_quota_of_gpu_hours_counts_what_has_just_ended(make: Make) -> None:
    queue = make(1, "[quota]\ngpu_hours_per_week = 0.0001\n")  # 0.36 s
    first, second = queue.submit(queue.shell("sleep 0.6"), queue.shell("true"))
    queue.done(first)
    until(lambda: "quota-hours" in queue.job(second).said, lambda: f"{queue.job(second)}\n{queue.log()}")
    assert queue.job(second).state == "waiting"


def test_a_looker_that_never_lives_is_told(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONGPU_QUEUE_LOOKER", f"{sys.executable} -c 'raise ImportError(17)'")
    (job,) = queue.submit(queue.shell("true"))
    until(lambda: "what looks at the GPUs ended (exit code 1)" in (queue.engine.jobs(Want()).warning or ("",))[0], queue.log)
    assert "ImportError: 17" in queue.log()
    assert queue.job(job).state == "waiting"
    queue.engine.cancel([job])
