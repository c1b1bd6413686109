"""Messages about jobs from the real daemon: one that is cancelled, also without a daemon; and one that arrives nowhere."""

import sys
from collections.abc import Iterator

import pytest
from parts.webhook import Hook, hook
from queues import Queue, until

from ongpu.fronts.jobs import one as page_of_one
from ongpu.fronts.page import Page
from ongpu.queue.config import Config
from ongpu.queue.engines.local import alive
from ongpu.queue.job import Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
WAITS = "while [ ! -e go ]; do sleep 0.02; done"


@pytest.fixture
def server() -> Iterator[Hook]:
    pytest.importorskip("apprise")
    with hook() as found:
        yield found


def titles(server: Hook) -> list[str]:
    return sorted(body["title"].partition(" ")[0] + " " + body["title"].rpartition(": ")[2] for body in server.messages)


def test_a_job_that_is_cancelled_says_so_once_whether_it_ran_or_not(one: Queue, server: Hook) -> None:
    notify = f"json://127.0.0.1:{server.port}/x"
    runs, waits, silent = one.submit(
        one.shell(WAITS, name="runs", notify=notify), one.shell("true", name="waits", notify=notify), one.shell("true", name="silent")
    )
    (follows,) = one.submit(one.shell("true", name="follows", notify=notify, after=(("ok", waits),)))
    one.runs(runs)
    one.engine.cancel([waits, silent])
    one.engine.cancel([runs])
    server.until(lambda: len(server.messages) >= 3, 30)
    assert titles(server) == [f"[cancelled] follows ({follows})", f"[cancelled] runs ({runs})", f"[cancelled] waits ({waits})"]
    body = next(body["message"] for body in server.messages if "follows" in body["title"])
    assert "never started" in body
    one.kill()
    one.start()
    one.done(*one.submit(one.shell("true", name="last", notify=notify)))
    server.until(lambda: len(server.messages) >= 4, 30)
    assert len(titles(server)) == 4, "a daemon that comes after tells of no job again"


def test_a_job_that_is_cancelled_while_no_daemon_lives(one: Queue, server: Hook) -> None:
    (one.place.parent / "queue.toml").write_text("[daemon]\nidle_exit = 1\n")
    (job,) = one.submit(one.shell("true", name="held", notify=f"json://127.0.0.1:{server.port}/x", begin=4e9))
    one.engine.hold([job])
    one.daemon()
    until(lambda: not alive.lives(one.place), one.log)
    assert one.job(job).state == "held"
    one.engine.cancel([job])
    server.until(lambda: len(server.messages) >= 1, 30)
    assert titles(server) == [f"[cancelled] held ({job})"]


def test_a_job_that_is_cancelled_before_the_first_daemon_looks(one: Queue, server: Hook) -> None:
    (job,) = one.submit(one.shell("true", name="early", notify=f"json://127.0.0.1:{server.port}/x", begin=4e9))
    one.engine.cancel([job])
    server.until(lambda: len(server.messages) >= 1, 30)
    assert titles(server) == [f"[cancelled] early ({job})"]


def test_a_message_that_was_not_delivered_is_told_with_its_job(one: Queue) -> None:
    (job,) = one.submit(one.shell("true", notify="json://127.0.0.1:1/secret-part"))
    one.done(job)
    until(lambda: one.engine.undelivered(job), one.log)
    listing = one.engine.jobs(Want(ids=(job,)))
    for lang, words in (("en", "not delivered: "), ("zh", "未能送达：")):
        lines = page_of_one.lines(listing.jobs[0], listing, Config(), one.engine, Page(lang, 200, False))
        (told,) = (line for line in lines if words in line)
        assert one.engine.undelivered(job)[:20] in told
        assert "secret-part" not in told
