"""Leases that cannot be had: the daemon waits between its tries, and says why nothing starts."""

import os
import sys
import time

import looker
import pytest
from queues import Queue, until

from ongpu.queue.job import Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")


def test_a_folder_of_leases_that_cannot_be_used_is_told_and_not_tried_without_end(queue: Queue) -> None:
    leases = queue.place.parent / "leases"
    leases.write_text("no folder")
    (job,) = queue.submit(queue.shell("true", gpus=2))
    until(lambda: "no-lease" in queue.job(job).said, lambda: f"{queue.job(job)}\n{queue.log()}")
    before = len(queue.log()), _used(queue.daemon())
    time.sleep(2.0)
    assert len(queue.log()) - before[0] < 1000, queue.log()[-2000:]
    assert _used(queue.daemon()) - before[1] < 0.6, "seconds of CPU in two"
    found = queue.engine.jobs(Want())
    assert "no lease" in (found.warning or ("",))[0]
    until(lambda: any(card.holder for card in queue.engine.jobs(Want()).cards), limit=8)
    leases.unlink()
    assert queue.done(job, limit=20)[0].state == "done"


def _used(pid: int) -> float:
    """Seconds of CPU."""
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def test_one_lease_that_somebody_planted_keeps_one_gpu_only(queue: Queue) -> None:
    leases = queue.place.parent / "leases"
    leases.mkdir(mode=0o700)
    (leases / looker.uuid(0)).symlink_to("/dev/null")
    (job,) = queue.submit(queue.shell("true", gpus=3))
    (told,) = queue.done(job)
    assert looker.uuid(0) not in told.gpus


def test_a_gpu_that_somebody_else_leases_is_shown_so(queue: Queue) -> None:
    from ongpu.hosts import leases

    queue.done(*queue.submit(queue.shell("true")))
    place = queue.place.parent / "leases"
    taken = leases.take(place, [looker.uuid(2)], {"command": "ongpu run", "pid": 1})
    assert isinstance(taken, leases.Lease)
    with taken:
        until(lambda: queue.engine.jobs(Want()).cards[2].holder, limit=4)
    until(lambda: not queue.engine.jobs(Want()).cards[2].holder, limit=4)
