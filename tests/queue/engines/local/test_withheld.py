"""A drained GPU is out of service for the whole machine: the daemon holds its lease, which every user's `ongpu run` and queue respects."""

import os
import sys
import time
from collections.abc import Callable

import looker
import pytest
from queues import Queue, until

from ongpu.hosts import leases
from ongpu.queue import words
from ongpu.queue.engines.local import alive, orders
from ongpu.queue.job import Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
FIRST = looker.uuid(0)
WAITS = "while [ ! -e go ]; do sleep 0.02; done"


def order(queue: Queue, word: str) -> None:
    """It is heeded when this returns."""
    os.environ.update(queue.environ)
    orders.give(queue.place, [orders.Order(FIRST, word, "ann", time.time())])
    alive.rouse(queue.place)
    until(lambda: not orders.waiting(queue.place), queue.log)


def holder() -> leases.Holder | None:
    return leases.held(leases.folder(), [FIRST]).get(FIRST)


def drained() -> str | None:
    found = holder()
    return found.drained if found else None


def test_drained_for_all_until_it_is_returned_or_the_daemon_ends(make: Callable[..., Queue]) -> None:
    queue, other = make(2, "[daemon]\nidle_exit = 1\n"), make(2)
    order(queue, "drain")
    until(lambda: drained() == "drained-by-hand", queue.log)
    os.environ.update(other.environ)
    both, one = other.submit(other.shell("true", gpus=2), other.shell("echo $CUDA_VISIBLE_DEVICES"))
    other.done(one)
    assert other.output(one).strip() == looker.uuid(1)
    until(lambda: other.job(both).said, other.log)
    assert other.job(both).state == "waiting"
    card = next(card for card in other.engine.jobs(Want()).cards if card.id == FIRST)
    assert (card.state, card.slug, card.holder, words.condition(card)) == ("ok", "drained-by-hand", "", "drained")
    assert card.drained_by
    time.sleep(2.0)
    assert alive.lives(queue.place), "it has something to do: it keeps others off"
    own = next(card for card in queue.engine.jobs(Want()).cards if card.id == FIRST)
    assert (own.state, own.holder, own.drained_by) == ("drained", "", ""), "to its own queue it is drained, and nobody's"
    queue.kill()
    until(lambda: holder() is None, limit=5)
    order(queue, "return")
    assert holder() is None
    other.done(both)


def test_what_is_leased_is_taken_when_that_has_ended_and_nobodys_is_taken_away(make: Callable[..., Queue]) -> None:
    queue = make(1)
    theirs = leases.take(leases.folder(), [FIRST], leases.words(["python", "train.py"]))
    assert isinstance(theirs, leases.Lease)
    order(queue, "drain")
    time.sleep(1.5)
    told = holder()
    assert told is not None
    assert (told.command, told.drained) == ("python train.py", None)
    theirs.close()
    until(lambda: drained() == "drained-by-hand", queue.log)
    order(queue, "return")
    assert holder() is None, "it is given back before the order counts as heeded"
    queue.done(*queue.submit(queue.shell("true")))


def test_a_job_of_its_own_goes_on_and_then_the_gpu_is_withheld(one: Queue) -> None:
    (job,) = one.submit(one.shell(WAITS))
    one.runs(job)
    order(one, "drain")
    time.sleep(1.2)
    assert drained() is None, "the job has it"
    (one.work / "go").touch()
    assert one.done(job)[0].code == 0
    until(lambda: drained() == "drained-by-hand", one.log)


def test_a_test_goes_on_with_the_lease_and_a_passed_one_gives_it_back(one: Queue) -> None:
    order(one, "drain")
    until(drained, one.log)
    order(one, "test")
    until(lambda: orders.kept(one.place, FIRST), one.log)
    result = (orders.kept(one.place, FIRST) or {})["result"]
    if result == "passed":
        until(lambda: holder() is None, one.log)
    else:  # nothing here can compute: it stays out of service, for all
        until(drained, one.log)
