import json
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ongpu.queue.asked import checked
from ongpu.queue.engines import EngineError
from ongpu.queue.imports import LEFT, NOTES, Wish, read
from ongpu.queue.imports.slurm import _limit, _memory, _of_line

# Printed by Debian's task-spooler 1.0.1
SPOOLER = """ID   State      Output               E-Level  Times(r/u/s)   Command [run=1/1]
6    running    stdout                                       sleep 1
7    queued     (file)                                       sleep 5
8    queued     (file)                                       [x y]python train.py --lr 3
9    queued     (file)                                       [8]&& echo a  b
10   queued     (file)                                       [8]&& [lab]ls -l
0    finished   /tmp/front/ts-out.dMrZr9 0        0.00/0.00/0.00 true
2    finished   /tmp/front/ts-out.yqlpUK 3        0.00/0.00/0.00 sh -c exit 3
"""
# As list.c of the GPU fork formats it
FORK = "ID   State      Output               E-Level  Time   GPUs  Command [run=0/2]\n" + "".join(
    "%-4i %-10s %-20s %-8s %6s %-5d %s%s\n" % row  # noqa: UP031
    for row in [
        (3, "queued", "(file)", "", "", 2, "", "python train.py"),
        (4, "queued", "(file)", "", "", 1, "[3]&& ", "python a very long co..."),
    ]
)
SCONTROL = """JobId=705 JobName=train llama
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=lab QOS=normal
   JobState=PENDING Reason=Resources Dependency=afterok:700(unfulfilled),afterany:699(unfulfilled)
   RunTime=00:00:00 TimeLimit=1-02:00:00 TimeMin=N/A
   NumNodes=1-1 NumCPUs=8 NumTasks=1 CPUs/Task=8 ReqB:S:C:T=0:0:*:*
   TRES=cpu=8,mem=80G,node=1,billing=8,gres/gpu=4
   MinCPUsNode=8 MinMemoryNode=80G MinTmpDiskNode=0
   Command=/home/ann/train.slurm --lr=3 A=b
   WorkDir=/home/ann
   TresPerNode=gres/gpu:a100:4

JobId=700 ArrayJobId=700 ArrayTaskId=0-9%2 JobName=prep
   UserId=ann(1000) JobState=PENDING Dependency=(null)
   TimeLimit=UNLIMITED NumNodes=1 NumCPUs=1
   Command=/bin/true
   WorkDir=/tmp

JobId=698 JobName=wrap
   UserId=ann(1000) JobState=PENDING NumNodes=1
   Command=(null)
   WorkDir=/tmp

JobId=697 JobName=wide
   UserId=ann(1000) JobState=PENDING NumNodes=4 Command=/bin/true

JobId=696 JobName=theirs
   UserId=bob(1001) JobState=PENDING Command=/bin/true
"""
SACCT = """JobID|JobName|State|User|Timelimit|ReqTRES|WorkDir|SubmitLine
12|wrap|PENDING|ann|01:30:00|billing=1,cpu=1,gres/gpu=2,mem=100M,node=1|/tmp|sbatch -p gpu --gres gpu:2 --wrap "echo 'a b'"
13|job.sh|PENDING|ann|UNLIMITED|cpu=1|/tmp|sbatch -c 4 -H --time=3 job.sh 1 2
14|x|COMPLETED|ann|1|cpu=1|/tmp|sbatch x
15|r|RUNNING|ann|1|cpu=1|/tmp|sbatch x
16|y|PENDING|ann|10|cpu=1,node=1|/tmp|
"""


def task(number: int, status: object, **more: object) -> dict[str, object]:
    return {"id": number, "original_command": f"echo {number}", "path": "/tmp", "envs": {}, "group": "default", "dependencies": [],
            "priority": 0, "label": None, "status": status, **more}  # fmt: skip


def pueue(*tasks: dict[str, object]) -> str:
    return json.dumps({"tasks": {str(one["id"]): one for one in tasks}, "groups": {}})


def test_pueue_of_version_4() -> None:
    text = pueue(
        task(0, {"Done": {"result": "Success"}}),
        task(1, {"Running": {}}),
        task(
            5,
            {"Queued": {}},
            original_command="python 'a b.py' && x",
            envs={"A": "1"},
            group="gpu",
            dependencies=[6, 0],
            priority=99,
            label="my",
        ),
        task(6, {"Stashed": {"enqueue_at": "2026-07-18T14:56:35.928788860+02:00"}}),
    )
    told = read(text, Wish(gpus=2))
    assert [job.id for job in told.jobs] == ["6", "5"]  # what others wait for comes first
    first, second = told.jobs
    assert second.spec.command == ("sh", "-c", "python 'a b.py' && x")
    assert (second.spec.name, second.spec.project, second.spec.priority, second.spec.gpus) == ("my", "gpu", 10, 2)
    assert dict(second.spec.environ) == {"A": "1"}
    assert second.needs == (("ok", "6"),)
    assert first.spec.begin == pytest.approx(1784379395.928788)
    assert told.left == (("0", "ended"), ("1", "runs"))
    assert set(told.notes) == {"dependency", "environment"}


def test_pueue_of_version_3() -> None:
    told = read(pueue(task(0, "Queued"), task(1, {"Done": "Killed"}), task(2, "Paused")), Wish())
    assert [job.id for job in told.jobs] == ["0"]
    assert [job.id for job in read(pueue(task(2, "Paused")), Wish(running=True)).jobs] == ["2"]


def test_what_waits_for_a_job_that_is_left_is_left_too() -> None:
    tasks = [task(1, {"Running": {}}), task(2, "Queued", dependencies=[1]), task(3, "Queued", dependencies=[2]), task(4, "Queued")]
    told = read(pueue(*tasks), Wish())
    assert [job.id for job in told.jobs] == ["4"]
    assert dict(told.left) == {"1": "runs", "2": "needs", "3": "needs"}
    running = read(pueue(*tasks), Wish(running=True))
    assert [(job.id, job.needs) for job in running.jobs] == [("1", ()), ("2", (("ok", "1"),)), ("3", (("ok", "2"),)), ("4", ())]
    assert read(SPOOLER.replace("[8]&& echo", "[6]&& echo"), Wish()).left[-1] == ("9", "needs")  # 6 runs


@pytest.mark.parametrize("status", [{"Stashed": {"enqueue_at": None}}, {"Stashed": {}}, "Locked", {"Locked": {"previous_status": {}}}])
def test_what_pueue_holds_back_is_not_started(status: object) -> None:
    told = read(pueue(task(1, status), task(2, "Queued")), Wish())
    assert ([job.id for job in told.jobs], told.left) == (["2"], (("1", "held"),))


def test_a_circle_of_dependencies_is_opened() -> None:
    told = read(
        pueue(task(1, "Queued", dependencies=[2]), task(2, "Queued", dependencies=[1]), task(3, "Queued", dependencies=[3])), Wish()
    )
    seen: set[str] = set()
    for job in told.jobs:
        assert {name for _, name in job.needs} <= seen
        seen.add(job.id)
    assert seen == {"1", "2", "3"}


def test_task_spooler() -> None:
    told = read(SPOOLER, Wish())
    assert [(job.id, job.spec.command, job.spec.name, job.needs) for job in told.jobs] == [
        ("7", ("sleep", "5"), "sleep", ()),
        ("8", ("python", "train.py", "--lr", "3"), "x y", ()),
        ("9", ("echo", "a", "b"), "echo", (("ok", "8"),)),
        ("10", ("ls", "-l"), "lab", (("ok", "8"),)),
    ]
    assert dict(told.left) == {"6": "runs", "0": "ended", "2": "ended"}
    assert "quotes" in told.notes


def test_the_gpu_fork_of_task_spooler_and_its_cut_commands() -> None:
    told = read(FORK, Wish())
    assert [(job.id, job.spec.gpus, job.spec.command) for job in told.jobs] == [("3", 2, ("python", "train.py"))]
    assert told.left == (("4", "cut"),)


def test_scontrol() -> None:
    told = read(SCONTROL, Wish(user="ann"))
    assert [job.id for job in told.jobs] == ["700", "705"]
    prep, train = told.jobs
    assert (prep.array, prep.spec.at_once, prep.spec.gpus, prep.spec.limit) == (tuple(range(10)), 2, 0, None)
    spec = train.spec
    assert (spec.command, spec.name, spec.folder) == (("/home/ann/train.slurm", "--lr=3", "A=b"), "train llama", "/home/ann")
    assert (spec.gpus, spec.model, spec.cpus, spec.host_memory, spec.limit, spec.project) == (4, "a100", 8, 81920, 93600.0, "lab")
    assert train.needs == (("ok", "700"),)
    assert dict(told.left) == {"698": "wrapped", "697": "nodes", "696": "other-user"}


def waiting(number: int, *more: str) -> str:
    """A record of scontrol."""
    parts = "\n   ".join(("UserId=ann(1000) JobState=PENDING NumNodes=1 NumCPUs=1", *more, "Command=/bin/true", "WorkDir=/tmp"))
    return f"JobId={number} JobName=x\n   {parts}\n\n"


def test_what_slurm_holds_back_is_not_started() -> None:
    reasons = ("JobHeldUser", "JobHeldAdmin", "Priority")
    told = read("".join(waiting(number, f"Reason={why} Dependency=(null)") for number, why in enumerate(reasons, 1)), Wish())
    assert ([job.id for job in told.jobs], told.left) == (["3"], (("1", "held"), ("2", "held")))
    squeue = "JOBID|COMMAND|STATE|REASON|START_TIME\n4|/bin/true|PENDING|(JobHeldUser)|N/A\n5|/bin/true|REQUEUE_HOLD|(x)|N/A\n"
    assert read(squeue, Wish()).left == (("4", "held"), ("5", "held"))


def test_a_begin_of_slurm_is_kept() -> None:
    told = read(waiting(1, "Reason=BeginTime", "SubmitTime=2026-11-30T08:00:00 EligibleTime=2026-12-03T06:00:00"), Wish())
    assert told.jobs[0].spec.begin == datetime(2026, 12, 3, 6).timestamp()  # local, as Slurm prints it
    told = read("JOBID|COMMAND|STATE|REASON|START_TIME\n4|/bin/true|PENDING|BeginTime|2026-12-03T06:00:00\n", Wish())
    assert told.jobs[0].spec.begin == datetime(2026, 12, 3, 6).timestamp()
    told = read(waiting(1, "Reason=Priority", "EligibleTime=2026-11-30T08:00:00 StartTime=2026-12-03T06:00:00"), Wish())
    assert told.jobs[0].spec.begin is None  # an estimate of Slurm's


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("afterok:7_*(unfulfilled)", (("ok", "7"),)),
        ("afterok:7:8(unfulfilled),afterany:9", (("ok", "7"), ("ok", "8"), ("any", "9"))),
        ("(null)", ()),
    ],
)
def test_dependencies_of_slurm(text: str, needs: tuple[tuple[str, str], ...]) -> None:
    told = read("".join(waiting(number) for number in (7, 8, 9)) + waiting(10, f"Dependency={text}"), Wish())
    assert (told.jobs[-1].id, told.jobs[-1].needs) == ("10", needs)


@pytest.mark.parametrize(
    "text", ["singleton(unfulfilled)", "afternotok:7(failed)", "afterok:7?afterok:8", "afterok:7_3(unfulfilled)", "after:7+5"]
)
def test_a_dependency_of_slurm_that_has_no_counterpart_is_not_left_out(text: str) -> None:
    assert read(waiting(7) + waiting(10, f"Dependency={text}"), Wish()).left == (("10", "depends"),)


def test_the_parts_of_an_array_are_one() -> None:
    array, last = waiting(12, "ArrayJobId=12 ArrayTaskId=3-5%2"), waiting(14, "Dependency=afterok:12_*(unfulfilled)")
    part = waiting(13, "ArrayJobId=12 ArrayTaskId=1")
    told = read(array + part + last, Wish())
    assert [(job.id, job.array, job.needs) for job in told.jobs] == [("12", (1, 3, 4, 5), ()), ("14", (), (("ok", "12"),))]
    told = read(array + part.replace("PENDING", "RUNNING") + last, Wish())
    assert ([(job.id, job.array) for job in told.jobs], told.left) == ([("12", (3, 4, 5))], (("12_1", "runs"), ("14", "needs")))


def test_an_array_of_sacct() -> None:
    lines = [f"{name}|{state}|sbatch x.sh|/tmp" for name, state in (("12_[3-5%2]", "PENDING"), ("12_1", "PENDING"), ("12_0", "COMPLETED"))]
    told = read("\n".join(["JobID|State|SubmitLine|WorkDir", *lines]), Wish())
    assert ([(job.id, job.array, job.spec.at_once) for job in told.jobs], told.left) == ([("12", (1, 3, 4, 5), 2)], (("12_0", "ended"),))


def test_sacct_with_the_lines_that_submitted_them() -> None:
    told = read(SACCT, Wish(user="ann"))
    assert [(job.id, job.spec.command, job.spec.gpus, job.spec.limit) for job in told.jobs] == [
        ("12", ("sh", "-c", "echo 'a b'"), 2, 5400.0),
        ("13", ("job.sh", "1", "2"), 0, None),
    ]
    assert dict(told.left) == {"14": "ended", "15": "runs", "16": "wrapped"}


def test_squeue_as_it_prints_by_itself_holds_no_commands() -> None:
    told = read("  JOBID PARTITION     NAME     USER ST  TIME  NODES NODELIST(REASON)\n  12 gpu wrap ann PD 0:00 1 (Resources)\n", Wish())
    assert (told.jobs, told.left) == ((), (("12", "no-command"),))


def test_squeue_with_all_its_columns() -> None:
    told = read(
        "ACCOUNT|TRES_PER_NODE|JOBID|NAME|COMMAND|TIME_LIMIT|STATE|USER|WORK_DIR\nlab|gres:gpu:2|7|n|/bin/true|30:00|PENDING|ann|/tmp\n",
        Wish(),
    )
    assert [(job.id, job.spec.gpus, job.spec.limit, job.spec.command) for job in told.jobs] == [("7", 2, 1800.0, ("/bin/true",))]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("90:30", 5430),
        ("1:00:00", 3600),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("2-00:00:10", 172810),
        ("UNLIMITED", None),
        ("0", None),
    ],
)
def test_time_limits_of_slurm(text: str, seconds: float | None) -> None:
    assert _limit(text) == seconds


def test_memory_of_slurm() -> None:
    assert [_memory(text) for text in ("80G", "4000M", "16Gn", "4Gc", "0", "512", "1T")] == [81920, 4000, 16384, None, None, 512, 1 << 20]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("sbatch --gres=gpu:2 job.sh 3", ["job.sh", "3"]), ("sbatch -N 1 -p gpu job.sh", ["job.sh"]), ("sbatch -c4 job.sh", ["job.sh"]),
        ("sbatch --wrap=hostname", ["sh", "-c", "hostname"]), ("sbatch", []), ("sbatch --wrap", []), ("sbatch -p", []), ("", []),
    ],
)  # fmt: skip
def test_the_command_of_an_sbatch_line(line: str, command: list[str]) -> None:
    assert _of_line(line) == command


@pytest.mark.parametrize("text", ["", "hello\n", "{", "{}", '{"tasks": []}', "[" * 100_000, '{"tasks":' * 10_000])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(EngineError) as told:
        read(text, Wish())
    assert "pueue status --json" in told.value.english


BODY = st.text(alphabet=st.sampled_from("ab01 =|:/\n()[]&%-.,'\"\\\x00\x1b\u00e9" + "JobId"), max_size=200)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=9)
JSON = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(st.text(max_size=3), PLAIN, max_size=3)
LATER = [{"Stashed": {"enqueue_at": at}} for at in ("x", "9999-12-31T23:59:59Z", None, 3)]
STATUS = st.sampled_from(["Queued", {"Queued": {}}, {"Done": 1}, *LATER])
FIELDS = ("path", "envs", "priority", "dependencies", "label", "group")
TASKS = st.fixed_dictionaries({"status": STATUS | JSON, "original_command": st.text() | JSON, **dict.fromkeys(FIELDS, JSON)})


@given(BODY, st.integers(0, 3))
@example("x=1\n" * 30, 3)
def test_hostile_lists_give_sound_jobs_or_a_reason(body: str, kind: int) -> None:
    head = (
        SPOOLER.splitlines()[0] + "\n",
        FORK.splitlines()[0] + "\n1    queued     (file)  ",
        "JobID|State|SubmitLine|ReqTRES\n1|PENDING|",
        "JobId=1 ",
    )
    _sound(head[kind] + body)


@given(st.dictionaries(st.text(max_size=5), TASKS | JSON, max_size=4))
def test_hostile_json(tasks: dict[str, object]) -> None:
    _sound(json.dumps({"tasks": tasks}))


def _sound(text: str) -> None:
    told = read(text, Wish())
    assert all(checked(job.spec) for job in told.jobs)
    assert {why for _, why in told.left} <= set(LEFT)
    assert set(told.notes) <= set(NOTES)
    assert all(name.isprintable() for name, _ in told.left)


def test_long_hostile_lists_take_little_time() -> None:
    begin = time.process_time()
    for text in (
        "JobId=" * 100_000, "JobId=1 " + "A=" * 200_000,
        SPOOLER.splitlines()[0] + "\n" + "7 queued (file) " + "[" * 200_000, "JobID|ReqTRES\n" + "1|" + "gres/gpu:" * 50_000,
        SPOOLER.splitlines()[0] + "\n" + "7    queued     (file)   [1,2" * 20_000,
        pueue(*(task(number, "Queued", dependencies=[number + 1]) for number in range(10_000))),
        pueue(*(task(number, "Queued", dependencies=list(range(5_000)) if number < 3 else []) for number in range(5_000))),
        "JobID|SubmitLine\n" + "1|sbatch " + "-p " * 100_000,
    ):  # fmt: skip
        read(text, Wish())
    assert time.process_time() - begin < 10


@pytest.mark.real
def test_a_real_task_spooler(tmp_path: Path) -> None:
    import os
    import shutil

    if not (program := shutil.which("tsp") or shutil.which("ts")):
        pytest.skip("no task-spooler here")
    environ = {**os.environ, "TS_SOCKET": str(tmp_path / "socket"), "TMPDIR": str(tmp_path)}

    def tsp(*words: str) -> str:
        return subprocess.run([program, *words], env=environ, capture_output=True, text=True, check=True, timeout=20).stdout

    try:
        tsp("sleep", "30")
        tsp("-L", "lab", "python", "train.py")
        tsp("-d", "ls", "-l")
        told = read(tsp("-l"), Wish())
    finally:
        tsp("-K")
    assert [(job.spec.command, job.spec.name, len(job.needs)) for job in told.jobs] == [
        (("python", "train.py"), "lab", 0),
        (("ls", "-l"), "ls", 1),
    ]
    assert [why for _, why in told.left] == ["runs"]
