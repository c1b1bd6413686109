"""Runs outlive the daemon and its version, and what is made of those that outlive their keepers."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from queues import Queue, until

import ongpu
from ongpu.queue.engines.local import keepers, recovery
from ongpu.queue.job import Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")


def test_killed_daemon_leaves_jobs_running_and_the_next_adopts_them(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    keeper = queue.keeper(queue.runs(job))
    queue.kill()
    assert recovery.there(keeper)
    assert (queue.engine.jobs(Want()).warning or ("",))[0].startswith("nothing starts")
    queue.start()
    queue.daemon()
    (queue.work / "go").touch()
    (told,) = queue.done(job)
    assert (told.code, told.attempts, told.state) == (5, 1, "failed")


def test_the_code_of_a_job_that_ended_while_no_daemon_lived(queue: Queue) -> None:
    (job, other) = queue.submit(queue.shell("while [ ! -e go ]; do sleep 0.02; done; exit 0"), queue.shell("sleep 100"))
    queue.runs(job), queue.runs(other)
    queue.kill()
    (queue.work / "go").touch()
    until(lambda: recovery.code_of(queue.folder(queue.job(job))) == 0)
    queue.start()
    (told,) = queue.done(job)
    assert (told.code, told.state, told.attempts) == (0, "done", 1)
    assert queue.job(other).state == "running"
    queue.engine.cancel([other])
    assert queue.done(other)[0].state == "cancelled"


def test_a_job_whose_keeper_was_killed_is_lost_and_never_run_twice(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("echo x >>ran; while [ ! -e go ]; do sleep 0.02; done"))
    told = queue.runs(job)
    os.kill(queue.keeper(told), signal.SIGKILL)
    time.sleep(0.3)
    assert queue.job(job).state == "running", "its command goes on, and keeps its GPU"
    (queue.work / "go").touch()
    (told,) = queue.done(job)
    assert (told.state, told.code, told.ending, told.attempts) == ("lost", None, "vanished", 1)
    assert (queue.work / "ran").read_text() == "x\n"


def test_a_keeper_and_its_command_that_were_killed_together(queue: Queue) -> None:
    (job, again) = queue.submit(queue.shell("sleep 100"), queue.shell("[ -e ran ] || { touch ran; sleep 100; }", retries=1, retry_on="any"))
    for each in (job, again):
        pid = queue.keeper(queue.runs(each))
        (command,) = recovery.children(pid)
        os.kill(pid, signal.SIGKILL)
        os.killpg(command, signal.SIGKILL)
    lost, retried = queue.done(job, again)
    assert (lost.state, lost.ending) == ("lost", "vanished")
    assert (retried.state, retried.attempts) == ("done", 2)


def test_a_folder_that_was_removed_is_left_alone(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("sleep 100"))
    keeper = queue.keeper(queue.runs(job))
    pid = queue.daemon()
    os.rename(queue.place, queue.place.with_name("elsewhere"))
    try:
        until(lambda: not recovery.there(pid))
        assert recovery.there(keeper), "what runs goes on"
    finally:
        os.rename(queue.place.with_name("elsewhere"), queue.place)
    queue.engine.cancel([job])
    assert queue.done(job)[0].state == "cancelled"


@pytest.mark.slow
def test_another_version_takes_over_while_jobs_run(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(Path(ongpu.__file__).parent, tmp_path / "site" / "ongpu", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    (job,) = queue.submit(queue.shell("while [ ! -e go ]; do sleep 0.02; done; exit 6"))
    queue.runs(job)
    package = tmp_path / "site" / "ongpu"
    (package / "queue/engines/local/keeper.py").write_text("raise SystemExit(99)\n")  # of a version that is half installed
    (second,) = queue.submit(queue.shell("true"))
    assert queue.done(second)[0].state == "done", "the keeper that the daemon knows"
    shutil.copy(Path(keepers.PROGRAM), package / "queue/engines/local/keeper.py")
    os.utime(package / "__init__.py")
    until(lambda: "another version" in queue.log(), queue.log, 90)
    queue.daemon()
    (queue.work / "go").touch()
    (told,) = queue.done(job)
    assert (told.code, told.attempts) == (6, 1)


def test_who_asks_is_told_that_no_job_can_be_started(queue: Queue) -> None:
    queue.start()
    queue.daemon()
    until(lambda: (queue.place / "keeper.py").exists())
    program = (queue.place / "keeper.py").read_text()
    (queue.place / "keeper.py").write_text("raise SystemExit(99)\n")
    (job,) = queue.submit(queue.spec("true"))
    until(lambda: "no job can be started" in (queue.engine.jobs(Want()).warning or ("",))[0], queue.log)
    assert queue.job(job).state in ("waiting", "starting")
    (queue.place / "keeper.py").write_text(program)
    assert queue.done(job)[0].state == "done"


def test_a_keeper_takes_the_next_run_and_is_not_kept_for_long(one: Queue) -> None:
    jobs = one.submit(*[one.spec("true") for _ in range(8)])
    assert len({one.keeper(told) for told in one.done(*jobs)}) == 1
    until(lambda: not one.keepers())
    assert one.daemon(), "it lives on"
