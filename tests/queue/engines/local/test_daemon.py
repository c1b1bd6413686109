"""The daemon with real processes: starts, ends, limits, preemption, GPUs that others take, and what cannot be started."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import looker
import pytest
from queues import Queue, until

from ongpu.hosts import leases
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import alive, orders, recovery
from ongpu.queue.job import Want

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
Make = Callable[..., Queue]


def test_jobs_run_on_gpus_and_leave_their_codes(queue: Queue) -> None:
    good, bad, two = queue.submit(
        queue.shell('echo "$CUDA_VISIBLE_DEVICES"'), queue.shell("echo no >&2; exit 3"), queue.shell('echo "$CUDA_VISIBLE_DEVICES"', gpus=2)
    )
    told = queue.done(good, bad, two)
    assert [(job.state, job.code, job.ending) for job in told] == [("done", 0, "ok"), ("failed", 3, "program"), ("done", 0, "ok")]
    assert queue.output(bad) == "no\n"
    assert queue.output(two).strip().split(",") == list(told[2].gpus)
    assert len(set(told[2].gpus)) == 2
    assert told[1].started is not None, "short ones too"


def test_one_gpu_is_for_one_job(one: Queue) -> None:
    lines = 'echo "b $ONGPU_JOB" >>log; sleep 0.05; echo "e $ONGPU_JOB" >>log'
    ids = one.submit(*[one.shell(lines) for _ in range(8)])
    one.done(*ids)
    told = (one.work / "log").read_text().split("\n")[:-1]
    assert len(told) == 16
    assert all(told[at][2:] == told[at + 1][2:] for at in range(0, 16, 2)), told


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_time_limit(queue: Queue, stubborn: bool) -> None:
    program = "trap '' TERM; " if stubborn else "trap 'exit 0' TERM; "
    (job,) = queue.submit(queue.shell(program + "while :; do sleep 0.05; done", limit=1.0, grace=0.3))
    (told,) = queue.done(job)
    assert (told.state, told.ending, told.code) == ("failed", "timeout", 137 if stubborn else 0)


def test_cancel_ends_all_that_a_job_started(queue: Queue) -> None:
    waiting = queue.submit(*[queue.shell("sleep 100") for _ in range(8)])
    jobs = queue.submit(queue.shell("setsid sleep 321 & trap '' TERM; sleep 322 & wait; sleep 100", grace=0.2, priority=10))
    queue.engine.cancel(waiting)
    told = queue.runs(jobs[0])
    until(lambda: len(recovery.processes(queue.folder(told))) >= 3)
    queue.engine.cancel(jobs)
    (told,) = queue.done(*jobs)
    assert (told.state, told.ending, told.code) == ("cancelled", "stopped", 137)
    until(lambda: not recovery.processes(queue.place / "jobs"))
    assert {job.state for job in queue.done(*waiting)} == {"cancelled"}


def test_a_job_that_can_save_its_state_gives_way_and_goes_on(one: Queue) -> None:
    program = "trap 'echo saved $ONGPU_ATTEMPT >checkpoint; exit 1' USR1; echo ready; until [ -e checkpoint ]; do sleep 0.05; done"
    (long,) = one.submit(one.shell(program, checkpoint="SIGUSR1", saved="checkpoint", grace=20.0))
    one.runs(long)
    until(lambda: one.output(long) == "ready\n")
    (short,) = one.submit(one.shell("exit 0", priority=10, limit=60.0))
    told = one.done(short, long)
    assert [(job.state, job.code) for job in told] == [("done", 0), ("done", 0)]
    assert told[1].attempts == 2
    assert (one.work / "checkpoint").read_text() == "saved 1\n"


def test_a_job_that_does_not_save_what_it_promised_is_left_alone(one: Queue) -> None:
    program = "trap 'echo asked >>asked' USR1; echo ready; while [ ! -e go ]; do sleep 0.05; done"
    (long,) = one.submit(one.shell(program, checkpoint="SIGUSR1", saved="checkpoint-*", grace=0.4))
    one.runs(long)
    until(lambda: one.output(long) == "ready\n")
    (short,) = one.submit(one.shell("exit 0", priority=10, limit=60.0))
    until(lambda: "no-checkpoint" in one.job(long).said, lambda: f"{one.job(long)} {one.job(short)} {one.log()}", 10)
    assert one.job(long).state == "running"
    time.sleep(1.0)
    one.kill()
    one.start()
    time.sleep(1.0)
    assert (one.work / "asked").read_text() == "asked\n", "once, and not again after a restart"
    (one.work / "go").touch()
    told = one.done(long, short)
    assert [(job.state, job.attempts) for job in told] == [("done", 1), ("done", 1)]


@pytest.mark.parametrize(
    ("command", "more", "word", "code"),
    [
        (("true",), {"folder": "/no/such/folder"}, "working directory", 126), (("no-such-command",), {}, "no such command", 127),
        (("./script",), {}, "chmod", 126), (("true",), {"output": "no/such/file"}, "--output", 126),
    ],
)  # fmt: skip
def test_what_cannot_be_started_says_so(queue: Queue, command: tuple[str, ...], more: dict[str, str], word: str, code: int) -> None:
    (queue.work / "script").write_text("#!/bin/sh\n")
    (job,) = queue.submit(queue.spec(*command, **more))
    (told,) = queue.done(job)
    assert (told.state, told.ending, told.code, told.attempts) == ("failed", "not-started", code, 1)
    assert word in queue.engine.why(told)[0][0]


def test_output_that_is_large_and_not_text(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("head -c 30000000 /dev/urandom; printf '\\377\\000'"))
    assert queue.done(job)[0].state == "done"
    total = last = b""
    size = 0
    for piece in queue.engine.output(job):
        size, last = size + len(piece), piece
    assert (size, last[-2:], total) == (30_000_002, b"\xff\x00", b"")


def test_following_an_output_until_the_end(queue: Queue) -> None:
    (job,) = queue.submit(queue.shell("echo a; while [ ! -e go ]; do sleep 0.02; done; echo b"))
    found = b""
    for piece in queue.engine.output(job, follow=True):
        found += piece
        if found == b"a\n":
            (queue.work / "go").touch()
    assert found == b"a\nb\n"


def test_jobs_without_a_gpu_run_without_one_and_as_many_as_there_are_cpus(make: Make) -> None:
    queue = make(0, "[limits]\ncpus = 2\n")
    (queue.work / "now").mkdir()
    ids = queue.submit(*[queue.shell("mkdir now/$$; ls -1 now | wc -l >>many; sleep 0.1; rmdir now/$$", gpus=0) for _ in range(6)])
    assert {(job.state, job.gpus) for job in queue.done(*ids)} == {("done", ())}
    assert max(int(line) for line in (queue.work / "many").read_text().split()) == 2
    with pytest.raises(EngineError, match="gives out 2"):
        queue.submit(queue.shell("true", gpus=0, cpus=3))


def test_a_lease_that_somebody_else_took_is_respected(one: Queue) -> None:
    lease = leases.take(Path(one.environ["ONGPU_LEASES"]), [looker.uuid(0)], leases.words(["python", "theirs.py"]))
    assert isinstance(lease, leases.Lease)
    with lease:
        (job,) = one.submit(one.shell("true"))
        time.sleep(1.0)
        assert (one.job(job).state, one.job(job).attempts) == ("waiting", 0)
        until(lambda: "theirs.py" in one.engine.jobs(Want()).cards[0].holder)
    assert one.done(job)[0].state == "done"


def test_a_program_that_did_not_come_through_the_queue_is_respected(one: Queue) -> None:
    one.change(0, foreign=["pid 4242 (python, 3000 MiB)"], procs=[[4242, 3000, "C", None]])
    (job,) = one.submit(one.shell("true"))
    time.sleep(1.0)
    assert (one.job(job).state, one.job(job).attempts) == ("waiting", 0)
    one.change(0, foreign=["pid 4242 (Xorg, 300 MiB)"], procs=[[4242, 300, "C", None]])
    assert one.done(job)[0].state == "done", "a desktop is not in the way"


def test_a_sick_gpu_gets_no_job_and_the_others_do(queue: Queue) -> None:
    for number in range(3):
        queue.change(number, incident="ecc-uncorrectable")
    ids = queue.submit(*[queue.shell("sleep 0.1") for _ in range(3)])
    told = queue.done(*ids)
    assert {job.gpus for job in told} == {(looker.uuid(3),)}
    until(lambda: [card.state for card in queue.engine.jobs(Want()).cards] == ["drained"] * 3 + ["ok"])


def test_a_gpu_fault_sends_the_job_elsewhere(queue: Queue) -> None:
    program = 'echo "$CUDA_VISIBLE_DEVICES" >>ran; [ -e ran2 ] && exit 0; touch ran2; sleep 0.6; exit 1'
    (job,) = queue.submit(queue.shell(program, retries=1))
    sick = queue.runs(job).gpus[0]
    number = [looker.uuid(n) for n in range(4)].index(sick)
    queue.change(number, xids=[[time.time(), 79]], how="lost", unfit="gpu-fell-off-bus")
    (told,) = queue.done(job)
    ran = (queue.work / "ran").read_text().split()
    assert (told.state, told.attempts, len(ran)) == ("done", 2, 2)
    assert ran[0] == sick != ran[1]
    until(lambda: {card.id: card.state for card in queue.engine.jobs(Want()).cards}[sick] == "drained")


def test_what_an_ended_job_left_behind_on_a_gpu_is_ended(one: Queue) -> None:
    (job,) = one.submit(one.shell("setsid sleep 300 >/dev/null 2>&1 & exit 0"))
    assert one.done(job)[0].state == "done"
    assert recovery.processes(one.place / "jobs"), "it holds the lease"
    (second,) = one.submit(one.shell("true"))
    assert one.done(second)[0].state == "done"
    assert not recovery.processes(one.place / "jobs")


def test_parts_of_a_gpu(one: Queue) -> None:
    share = {"share": True, "memory": 30_000}
    ids = one.submit(*[one.shell("while [ ! -e go ]; do sleep 0.02; done", **share) for _ in range(3)])
    one.runs(ids[0]), one.runs(ids[1])
    time.sleep(0.3)
    assert [one.job(job).state for job in ids] == ["running", "running", "waiting"]
    (whole,) = one.submit(one.shell("true", priority=10))
    time.sleep(0.3)
    assert one.job(whole).state == "waiting"
    (one.work / "go").touch()
    assert {job.state for job in one.done(*ids, whole)} == {"done"}


def test_dependencies_arrays_and_times(queue: Queue) -> None:
    first, failing = queue.submit(queue.shell("sleep 0.3; echo 1 >>order"), queue.shell("sleep 0.2; exit 1"))
    after, never, any_way = queue.submit(
        queue.shell("echo 2 >>order", after=(("ok", first),)),
        queue.shell("touch bad", after=(("ok", failing),)),
        queue.shell("true", after=(("any", failing),)),
    )
    later = queue.submit(queue.shell("date +%s.%N >later", begin=time.time() + 1.2))
    array = queue.submit(*[queue.shell("echo $ONGPU_ARRAY_INDEX >>array; sleep 0.05", index=at, at_once=1) for at in (3, 5, 7)])
    told = queue.done(first, failing, after, never, any_way, *later, *array)
    assert [job.state for job in told] == ["done", "failed", "done", "cancelled", "done", "done", "done", "done", "done"]
    assert (queue.work / "order").read_text() == "1\n2\n"
    assert sorted((queue.work / "array").read_text().split()) == ["3", "5", "7"]
    assert not (queue.work / "bad").exists()
    assert float((queue.work / "later").read_text()) >= (told[5].spec.begin or 0)


def test_impossible_requests_are_refused_at_once(queue: Queue) -> None:
    for more, words in (({"gpus": 5}, "has 4 that fit"), ({"memory": 90_000}, "largest has 80 GiB"), ({"model": "H100"}, "A100-SXM4")):
        with pytest.raises(EngineError, match=words):
            queue.submit(queue.shell("true", **more))


def test_hold_and_release(queue: Queue) -> None:
    blocker = queue.submit(*[queue.shell("while [ ! -e go ]; do sleep 0.02; done") for _ in range(4)])
    (job,) = queue.submit(queue.shell("true"))
    queue.engine.hold([job])
    (queue.work / "go").touch()
    queue.done(*blocker)
    time.sleep(0.3)
    assert queue.job(job).state == "held"
    queue.engine.release([job])
    assert queue.done(job)[0].state == "done"


def test_the_daemon_ends_when_there_is_nothing_to_do_and_a_submit_starts_it_again(make: Make) -> None:
    queue = make(1, "[daemon]\nidle_exit = 1\n")
    for _ in range(3):
        (job,) = queue.submit(queue.shell("true"))
        assert queue.done(job)[0].state == "done"
        until(lambda: not alive.lives(queue.place))


def test_two_daemons_never_live_at_once(queue: Queue) -> None:
    for _ in range(5):
        alive.start(queue.place)
    pid = queue.daemon()
    time.sleep(1.0)
    assert alive.pid(queue.place) == pid
    assert queue.log().count("daemon ") == 1


def test_a_reboot(queue: Queue) -> None:
    again, never = queue.submit(queue.shell("echo x >>again; [ -e go ] || sleep 100"), queue.shell("sleep 100", on_reboot="fail"))
    queue.runs(again), queue.runs(never)
    queue.kill()
    queue.cut()
    (queue.place / "boot").write_text("00000000-0000-4000-8000-000000000000\n")
    for job in (again, never):
        start = queue.folder(queue.job(job)) / "start"
        start.write_text(start.read_text().split()[0] + " 00000000-0000-4000-8000-000000000000\n")
    (queue.work / "go").touch()
    queue.start()
    told = queue.done(again, never)
    assert [(job.state, job.attempts) for job in told] == [("done", 2), ("failed", 1)]
    assert told[1].ending == "reboot"


def test_many_short_jobs(queue: Queue) -> None:
    ids = queue.submit(*[queue.shell("echo $ONGPU_JOB >>ran") for _ in range(200)])
    until(lambda: queue.engine.jobs(Want(most=1)).counts.get("done") == 200, queue.log)
    assert sorted((queue.work / "ran").read_text().split(), key=int) == ids


def test_an_operators_orders_are_heeded(one: Queue) -> None:
    orders.give(one.place, [orders.Order(looker.uuid(0), "drain", "ann", time.time())])
    (job,) = one.submit(one.shell("true"))
    until(lambda: not orders.waiting(one.place) and one.engine.jobs(Want()).cards[0].state == "drained")
    time.sleep(0.5)
    assert one.job(job).state == "waiting"
    until(lambda: one.engine.why(one.job(job)), lambda: one.job(job))
    one.kill()
    one.start()
    time.sleep(0.5)
    assert one.job(job).state == "waiting", "it stays drained"
    orders.give(one.place, [orders.Order(looker.uuid(0), "return", "ann", time.time())])
    alive.wake(one.place)
    assert one.done(job)[0].state == "done"


def test_messages_are_sent(make: Make, tmp_path: Path) -> None:
    queue = make(1, '[notify]\nurls = ["json://127.0.0.1:9/x"]\non = ["all"]\n')
    (job,) = queue.submit(queue.shell("exit 3", notify="json://127.0.0.1:9/y"))
    assert queue.done(job)[0].state == "failed"
    until(lambda: "a message was not delivered" in queue.log(), queue.log)
    assert "fault of ours" not in queue.log()


def test_a_gpu_is_tested_when_no_job_is_on_it_and_gets_none_meanwhile(one: Queue) -> None:
    (job,) = one.submit(one.shell("while [ ! -e go ]; do sleep 0.02; done"))
    one.runs(job)
    orders.give(one.place, [orders.Order(looker.uuid(0), "test", "ann", time.time())])
    alive.wake(one.place)
    until(lambda: one.engine.jobs(Want()).cards[0].state == "testing", one.log)
    (second,) = one.submit(one.shell("true"))
    time.sleep(1.2)
    assert orders.kept(one.place, looker.uuid(0)) is None, "a job is on it"
    (one.work / "go").touch()
    assert one.done(job)[0].state == "done"
    until(lambda: orders.kept(one.place, looker.uuid(0)), one.log)
    assert one.job(second).attempts == 0, "not before the test was passed"
    until(lambda: one.engine.jobs(Want()).cards[0].state != "testing", one.log)
    orders.give(one.place, [orders.Order(looker.uuid(0), "return", "ann", time.time())])
    alive.wake(one.place)
    assert one.done(second)[0].state == "done"


def test_the_queues_of_two_users_share_the_gpus_of_a_machine(make: Make, tmp_path: Path) -> None:
    queues = [make(2), make(2)]
    program = f'for gpu in ${{CUDA_VISIBLE_DEVICES}}; do echo "b $gpu" >>{tmp_path}/log; done; sleep 0.2; echo "e $gpu" >>{tmp_path}/log'
    share = {"share": True, "memory": 20_000}
    jobs = [(queue, queue.submit(*[queue.shell(program) for _ in range(5)])) for queue in queues]
    for queue, ids in jobs:
        assert {job.state for job in queue.done(*ids)} == {"done"}
    on: set[str] = set()
    for line in (tmp_path / "log").read_text().splitlines():
        word, gpu = line.split()
        assert (gpu in on) == (word == "e"), "two on one GPU"
        on ^= {gpu}
    assert on == set()
    (held,) = queues[0].submit(queues[0].shell("while [ ! -e go ]; do sleep 0.02; done", gpus=1, **share))
    (whole,) = queues[0].submit(queues[0].shell("while [ ! -e go ]; do sleep 0.02; done", gpus=1))
    queues[0].runs(held), queues[0].runs(whole)
    (other,) = queues[1].submit(queues[1].shell("true", **share))
    time.sleep(1.5)
    assert queues[1].job(other).state == "waiting", "a part of a GPU that another queue gives out"
    (queues[0].work / "go").touch()
    assert queues[1].done(other)[0].state == "done"


