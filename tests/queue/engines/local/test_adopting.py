"""What a daemon makes of runs that began under another one: their times, their limits, and what they used, as if it had been there."""

import os
import sqlite3
import sys
import time
from pathlib import Path

import looker
import pytest
from queues import Queue, until

from ongpu.queue.engines.local import recovery
from ongpu.queue.engines.local.active import USED, Active
from ongpu.queue.engines.local.rows import Run
from ongpu.queue.job import Spec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")


def test_a_job_that_ended_while_no_daemon_lived_ended_then(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("while [ ! -e go ]; do sleep 0.02; done"))
    run = queue.folder(queue.runs(job))
    queue.kill()
    (queue.work / "go").touch()
    until(lambda: recovery.code_of(run) == 0)
    began, ended = ((run / name).stat().st_mtime for name in ("start", "exit"))
    for name, at in (("start", began - 90), ("exit", ended - 60)):  # as if it had been a minute ago: the claim is moved with it
        os.utime(run / name, (at, at))
    _claimed_before(queue, 100)
    queue.start()
    (told,) = queue.done(job)
    assert told.ended == pytest.approx(ended - 60, abs=0.01)
    assert told.attained == pytest.approx(ended - began + 30, abs=0.01)


def _claimed_before(queue: Queue, seconds: float) -> None:

    with sqlite3.connect(queue.place / "queue.db") as db:
        db.execute("UPDATE run SET claimed = claimed - ?", (seconds,))
    db.close()


@pytest.mark.parametrize("boot", ["the same", "another"])
def test_the_time_in_which_nothing_ran_is_no_time_of_a_job(queue: Queue, boot: str) -> None:
    (job,) = queue.submit(queue.shell("echo at work; sleep 100", on_reboot="fail"))
    run = queue.folder(queue.runs(job))
    until(lambda: queue.output(job))
    queue.kill()
    queue.cut()
    if boot == "another":
        other = "00000000-0000-4000-8000-000000000000"
        (queue.place / "boot").write_text(f"{other}\n")
        (run / "start").write_text(f"{(run / 'start').read_text().split()[0]} {other}\n")
    now = time.time()
    for path in run.iterdir():  # it began an hour ago, and wrote last half an hour ago
        at = now - (3600 if path.name == "start" else 1800)
        os.utime(path, (at, at))
    _claimed_before(queue, 3700)
    queue.start()
    (told,) = queue.done(job)
    assert told.ending == ("reboot" if boot == "another" else "vanished")
    assert told.attained == pytest.approx(1800, abs=1)
    assert told.ended == pytest.approx(now - 1800, abs=1)


def test_a_time_limit_holds_over_a_restart(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("while :; do sleep 0.05; done", limit=3.0, grace=0.3))
    queue.runs(job)
    until(lambda: queue.job(job).started)
    queue.kill()
    queue.start()
    (told,) = queue.done(job, limit=20)
    assert told.ending == "timeout"


def test_figures_go_on_over_a_restart(one: Queue) -> None:
    one.change(0, util=50, used=3000, energy_mj=1_000_000)
    (job,) = one.submit(one.shell("while [ ! -e go ]; do sleep 0.02; done"))
    run = one.folder(one.runs(job))
    until(lambda: (run / USED).exists(), one.log)
    one.kill()
    one.change(0, util=50, used=2000, energy_mj=5_000_000)
    one.start()
    seen = time.time() + 2.5
    until(lambda: time.time() > seen)
    (one.work / "go").touch()
    (told,) = one.done(job)
    assert (told.busy, told.peak, told.energy) == (0.5, 3000, 4000.0)


def test_idleness_is_watched_after_a_restart(one: Queue) -> None:
    (job,) = one.submit(one.shell("while [ ! -e go ]; do sleep 0.02; done", idle=60.0))
    one.runs(job)
    until(lambda: one.job(job).started)
    one.kill()
    (one.folder(one.job(job)) / USED).unlink(missing_ok=True)
    one.start()
    until(lambda: (one.folder(one.job(job)) / USED).exists(), one.log)
    (one.work / "go").touch()
    one.done(job)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"used": 1}', '{"used": {"x": {}}, "worked": 0}', "null", '{"used": {"GPU-1": {"name": 3}}}']
)
def test_what_is_remembered_may_be_anything(tmp_path: Path, text: str) -> None:
    folder = tmp_path
    (folder / USED).write_text(text)
    run = Run(
        job=1, attempt=1, leases=(("GPU-1", 0), (looker.uuid(0), 0)), spec=Spec(command=("x",)), state="running", claimed=0.0, folder=folder
    )
    one = Active(run, 0.0)
    one.recall()
    assert one.used == {}
