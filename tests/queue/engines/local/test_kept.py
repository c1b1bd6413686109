"""Runs outlive the daemon and its version, and what is made of those that outlive their keepers."""

import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from queues import Queue, until

import ongpu
from ongpu.queue.config import load
from ongpu.queue.engines.local import alive, keepers, recovery
from ongpu.queue.engines.local.daemon import listen
from ongpu.queue.engines.local.rounds import Rounds
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


def test_a_keeper_that_was_killed_at_its_work_is_no_fault_of_all(one: Queue) -> None:
    (job,) = one.submit(one.shell("while [ ! -e go ]; do sleep 0.02; done"))
    pid = one.keeper(one.runs(job))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{pid}"), one.log)  # the daemon has heard of it
    (one.work / "go").touch()
    assert one.done(job)[0].state == "lost"
    assert "fault" not in one.log()


def test_a_keeper_that_hangs_before_the_run_begins(one: Queue) -> None:
    one.done(*one.submit(one.spec("true")))
    (keeper,) = one.keepers()
    os.kill(keeper, signal.SIGSTOP)  # as in a folder on a server that is dead
    (job,) = one.submit(one.spec("touch", "ran", grace=0.2))
    until(lambda: one.job(job).state == "starting", one.log)
    one.engine.cancel([job])
    assert one.done(job)[0].state == "cancelled"
    assert not recovery.there(keeper)
    one.done(*one.submit(one.spec("true")))
    assert not (one.work / "ran").exists()


def test_a_job_that_is_cancelled_before_it_begins_never_does(one: Queue) -> None:
    one.done(*one.submit(one.spec("true")))
    (keeper,) = one.keepers()
    os.kill(keeper, signal.SIGSTOP)
    (job,) = one.submit(one.spec("touch", "ran", grace=600.0))
    until(lambda: one.job(job).state == "starting", one.log)
    one.engine.cancel([job])
    until(lambda: (found := recovery.begun(one.folder(one.job(job)))) and found.void, one.log)
    os.kill(keeper, signal.SIGCONT)
    assert one.done(job)[0].state == "cancelled"
    assert not (one.work / "ran").exists()


def test_a_keeper_that_somebody_stopped_goes_on_when_its_job_is_killed(one: Queue) -> None:
    (job,) = one.submit(one.shell("sleep 100", grace=0.2))
    os.kill(one.keeper(one.runs(job)), signal.SIGSTOP)
    one.engine.cancel([job])
    assert one.done(job)[0].state == "cancelled"


def test_a_daemon_that_may_open_no_more_files_goes_on(one: Queue) -> None:
    (job,) = one.submit(one.shell("while [ ! -e go ]; do sleep 0.02; done", gpus=0))
    one.runs(job)
    pid = one.daemon()
    files = max(map(int, os.listdir(f"/proc/{pid}/fd")))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 1, before[1]))
    (second,) = one.submit(one.spec("true", gpus=0))
    until(lambda: "no job can be started" in one.log())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    (one.work / "go").touch()
    assert [told.state for told in one.done(job, second)] == ["done", "done"]
    assert one.log().count("fault") == 1, one.log()


STARTS = "from pathlib import Path; from ongpu.queue.engines.local import alive; alive.start(Path({!r}))"


def test_a_daemon_that_a_job_started_keeps_no_gpu(one: Queue) -> None:
    starts = f"kill -9 $(cat {one.place}/{alive.LOCK}); until {sys.executable} -c '{STARTS.format(str(one.place))}'; do sleep 0.1; done"
    starts = starts.replace("'/", '"/').replace("')", '")')  # a string in a word of the shell
    (job,) = one.submit(one.shell(f"{starts}; sleep 0.5", environ=dict(os.environ)))
    first = one.daemon()
    until(lambda: alive.pid(one.place) not in (None, first), lambda: f"{one.output(job)}\n{one.log()}")
    assert one.done(job)[0].state == "done"
    assert one.done(*one.submit(one.spec("true")))[0].state == "done"


def test_a_daemon_started_by_who_ignores_the_end_of_children(one: Queue) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        jobs = one.submit(one.shell("exit 3"), one.spec("true"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert [told.code for told in one.done(*jobs)] == [3, 0]
    ignored = next(line for line in Path(f"/proc/{one.daemon()}/status").read_text().splitlines() if line.startswith("SigIgn"))
    assert not int(ignored.split()[1], 16) & 1 << signal.SIGCHLD - 1


def test_a_keeper_with_the_number_of_a_looker_that_died_is_heard(one: Queue) -> None:
    mine = alive.lock(one.place)
    assert mine is not None
    with listen(one.place) as wake:
        rounds = Rounds(one.place, load(), wake, mine)
        rounds.sight.mind(recovery.uptime())
        rounds._sources()
        file, process = rounds.sight.fileno(), rounds.sight.process
        assert process
        process.kill()
        until(lambda: rounds.sight.read(recovery.uptime(), time.time()) or rounds.sight.fileno() < 0)
        while (keeper := rounds.keeper()).handle < file:
            pass
        assert keeper.handle == file
        rounds._sources()
        os.kill(keeper.pid, signal.SIGKILL)
        assert file in [ready for ready, _ in rounds.poll.poll(10_000)]
        rounds.close()
    os.close(mine)
