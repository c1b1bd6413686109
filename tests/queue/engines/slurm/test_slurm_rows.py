"""What Slurm's programs print, of several versions, read into rows; and whatever else could stand there."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines.slurm import printed, rows
from ongpu.queue.engines.slurm.printed import DELIMITER, SACCT, fields, from_jobcomp, from_sacct, from_scontrol
from ongpu.queue.engines.slurm.rows import Row, asked_gpus, from_json, held, hosts, memory_of, numbers, split


def of(number: int) -> dict[str, Any]:
    """As 23.02 and newer write numbers."""
    return {"set": True, "infinite": False, "number": number}


UNSET = {"set": False, "infinite": False, "number": 0}
# The same job as 22.05 tells it (seen) and as 24.05 does (its OpenAPI schema, data_parser v0.0.41)
OLD: dict[str, Any] = {
    "job_id": 16, "array_job_id": 2, "array_task_id": 4, "array_task_string": "", "array_max_tasks": 2, "name": "train", "user_name": "ann",
    "job_state": "RUNNING", "state_reason": "None", "state_description": "", "exit_code": 0, "submit_time": 1796059460,
    "eligible_time": 1796059460,
    "start_time": 1796059481, "end_time": 1796059781, "time_limit": 5, "nodes": "gpu07", "gres_detail": ["gpu:a100:3(IDX:0-1,3)"],
    "tres_per_node": "gres:gpu:a100:3", "tres_req_str": "cpu=4,mem=8G,node=1,billing=4", "cpus": 4, "comment": "ongpu:abc vision",
    "current_working_directory": "/home/ann", "standard_output": "/home/ann/%A_%a.out", "command": "", "restart_cnt": 1,
    "priority": 4294901758,
    "dependency": "", "partition": "gpu", "account": "", "resv_name": "",
}  # fmt: skip
NEW = OLD | {
    "array_job_id": of(2), "array_task_id": of(4), "array_max_tasks": of(2), "job_state": ["RUNNING"], "submit_time": of(1796059460),
    "eligible_time": of(1796059460), "start_time": of(1796059481), "end_time": of(1796059781), "time_limit": of(5), "cpus": of(4),
    "priority": of(4294901758),
    "exit_code": {"status": ["SUCCESS"], "return_code": of(0), "signal": {"id": UNSET, "name": ""}}, "tres_per_node": "gres/gpu:a100:3",
    "nodes": "", "job_resources": {"nodes": "gpu07", "allocated_nodes": []},
}  # fmt: skip


def told(job: dict[str, Any]) -> Row:
    (row,) = from_json(json.dumps({"jobs": [job]}))
    return row


class TestJson:
    def test_old_and_new_versions_tell_the_same(self) -> None:
        assert told(OLD) == told(NEW)
        row = told(NEW)
        assert (row.id, row.array, row.index, row.at_once, row.limit, row.memory) == ("2_4", "2", 4, 2, 300.0, 8192)
        assert row.gres == (("gpu07", 0), ("gpu07", 1), ("gpu07", 3))
        assert (row.gpus, row.type, row.cpus) == (3, "a100", 4)

    @pytest.mark.parametrize(("code", "want"), [
        (768, 3), (9, 137), (0, 0), (15, 143), (of(512), 2), ({"return_code": of(7), "signal": {"id": UNSET}}, 7),
        ({"return_code": of(0), "signal": {"id": of(9), "name": "SIGKILL"}}, 137), ({"return_code": UNSET,
        "signal": {"signal_id": of(15)}}, 143), (None, None),
    ])  # fmt: skip
    def test_exit_codes(self, code: Any, want: int | None) -> None:
        assert told(OLD | {"exit_code": code}).code == want

    def test_waiting_tasks_of_an_array_are_parted(self) -> None:
        row = told(
            OLD
            | {"array_task_id": None, "array_task_string": "1-3,7%2", "job_id": 2, "job_state": "PENDING", "gres_detail": [], "nodes": ""}
        )
        assert (row.id, row.index, row.tasks) == ("2", None, (1, 2, 3, 7))
        assert [one.id for one in split(row)] == ["2_1", "2_2", "2_3", "2_7"]
        assert [one.id for one in split(row, 2)] == ["2_1", "2_2"]
        assert told(OLD | {"array_task_id": None, "array_task_string": "1,3,5,..."}).tasks == (1, 3, 5)

    def test_where_the_output_is(self) -> None:
        """25.05 and newer give the pattern, and beside it the file that it came to."""
        assert told(NEW | {"standard_output": "/h/%j.out", "stdout_expanded": "/h/16.out"}).output == "/h/16.out"
        assert told(NEW | {"standard_output": "/h/16.out", "stdout_expanded": ""}).output == "/h/16.out"

    def test_infinite_and_unset_numbers(self) -> None:
        row = told(NEW | {"time_limit": {"set": True, "infinite": True, "number": 0}, "start_time": UNSET})
        assert (row.limit, row.started) == (None, None)
        assert told(OLD | {"time_limit": 4294967295, "cpus": 4294967294}).limit is None

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"jobs": 3}', '{"jobs": null}', "slurm_load_jobs error", "[" * 100_000])
    def test_what_is_no_answer(self, text: str) -> None:
        with pytest.raises(ValueError, match="not the JSON of squeue"):
            from_json(text)

    @given(st.dictionaries(st.sampled_from(sorted(OLD)), st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda x: st.lists(x,
        max_size=3) | st.dictionaries(st.sampled_from(["set", "infinite", "number", "nodes", "id", "signal", "return_code"]), x,
        max_size=3), max_leaves=5)))  # fmt: skip
    def test_any_values(self, job: dict[str, Any]) -> None:
        for row in from_json(json.dumps({"jobs": [OLD | job, job, 3]})):
            assert isinstance(row.id, str)
            assert row.limit is None or row.limit >= 0
            assert len(split(row, 50)) <= 50


SCONTROL = """\
JobId=16 ArrayJobId=2 ArrayTaskId=4 ArrayTaskThrottle=2 JobName=a job=with spaces
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=4294901758 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:9
   RunTime=00:00:02 TimeLimit=1-02:05:00 TimeMin=N/A
   SubmitTime=1796059460 EligibleTime=1796059460
   StartTime=1796059481 EndTime=Unknown Deadline=N/A
   Partition=gpu AllocNode:Sid=localhost:6260
   NodeList=gpu[07-08]
   NumNodes=2 NumCPUs=4 NumTasks=1 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=4,mem=1.50G,node=1,billing=4
   JOB_GRES=gpu:a100:4
     Nodes=gpu07 CPU_IDs=0-1 Mem=100 GRES=gpu:a100:2(IDX:0-1)
     Nodes=gpu08 CPU_IDs=0-1 Mem=100 GRES=gpu:a100:2(IDX:3,5)
   Command=/home/ann/a b.sh --x=1
   WorkDir=/home/ann
   Comment=ongpu:abc JobId=9 NodeList=evil
   StdOut=/home/ann/out.txt
   TresPerNode=gres:gpu:a100:2

JobId=17 JobName=x
   JobState=PENDING Reason=Resources
"""


class TestScontrol:
    def test_a_block(self) -> None:
        first, second = from_scontrol(SCONTROL)
        assert (first.id, first.index, first.user, first.code, first.limit) == ("2_4", 4, "ann", 137, 93_900.0)
        assert first.gres == (("gpu07", 0), ("gpu07", 1), ("gpu08", 3), ("gpu08", 5))
        assert (first.nodes, first.memory, first.ended, first.restarts) == ("gpu[07-08]", 1536, None, 1)
        assert first.command == "/home/ann/a b.sh --x=1"
        assert first.comment == "ongpu:abc JobId=9 NodeList=evil"  # what a user writes is no field
        assert (second.id, second.state, second.reason) == ("17", "PENDING", "Resources")

    @given(st.text(alphabet=st.sampled_from("JobId=16 ArrayTaskId[]0-9,%\n\tNodes=GRES:gpu(IDX)\u4f60"), max_size=300))
    def test_any_text(self, text: str) -> None:
        from_scontrol(text)
        from_scontrol("JobId=3 " + text)
        fields(text)


class TestAccounts:
    def test_sacct(self) -> None:
        cells = dict.fromkeys(SACCT, "") | {
            "JobID": "12_3", "JobName": "a|b", "User": "ann", "State": "CANCELLED by 1000", "ExitCode": "0:15", "Submit": "1796059460",
            "Start": "1796059470", "End": "1796059480", "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=8G,node=1",
            "TimelimitRaw": "90",
            "ReqTRES": "mem=8192M", "Comment": "ongpu:abc", "NodeList": "gpu07",
        }  # fmt: skip
        line = DELIMITER.join(cells.values())
        (row,) = from_sacct(f"{line}\nnot a row\n")
        assert (row.id, row.array, row.index, row.state, row.code, row.gpus, row.type) == ("12_3", "12", 3, "CANCELLED", 143, 2, "a100")
        assert (row.limit, row.memory, row.comment, row.nodes) == (5400.0, 8192, "ongpu:abc", "gpu07")

    def test_the_file_of_jobcomp(self) -> None:
        line = (
            "JobId=12 UserId=root(0) GroupId=root(0) Name=f.sh JobState=FAILED Partition=gpu TimeLimit=UNLIMITED "
            "StartTime=2026-11-30T17:24:20 "
            "EndTime=2026-11-30T17:24:30 NodeList=vm NodeCnt=1 ProcCnt=1 WorkDir=/tmp ReservationName= "
            "Tres=cpu=1,mem=100M,node=1,billing=1 "
            "Account= QOS= "
            "WcKey= Cluster=unknown SubmitTime=2026-11-30T17:24:20 EligibleTime=2026-11-30T17:24:20 DerivedExitCode=0:0 ExitCode=3:0 "
        )
        (row,) = from_jobcomp(line + "\n\nhalf a li")
        assert (row.id, row.name, row.state, row.code, row.nodes) == ("12", "f.sh", "FAILED", 3, "vm")
        assert row.ended is not None
        assert row.started is not None
        assert row.ended - row.started == 10

    @given(st.text(max_size=200))
    def test_any_text(self, text: str) -> None:
        list(from_jobcomp("JobId=1 StartTime=" + text))
        from_sacct(DELIMITER.join(["1_[1-3]", *[text] * (len(SACCT) - 1)]))


class TestPieces:
    @pytest.mark.parametrize(("text", "want"), [
        ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]), ("", []), ("a", ["a"]), ("n[9-11]x", ["n9x", "n10x", "n11x"]),
        ("/dev/nvidia[0-1]", ["/dev/nvidia0", "/dev/nvidia1"]), ("(null)", ["(null)"]),
        ("rack[1-2]n[08-09,20]", ["rack1n08", "rack1n09", "rack1n20", "rack2n08", "rack2n09", "rack2n20"]),
    ])  # fmt: skip
    def test_host_lists(self, text: str, want: list[str]) -> None:
        assert hosts(text) == want

    @given(st.text(alphabet=st.sampled_from("ab[]0123456789,- "), max_size=80))
    def test_host_lists_are_bounded(self, text: str) -> None:
        assert len(hosts(text, 100)) <= 100
        assert len(numbers(text)) <= 1024

    @pytest.mark.parametrize(("text", "want"), [
        ("gres:gpu:2", (2, "")), ("gres/gpu:a100:2", (2, "a100")), ("gres:gpu", (1, "")), ("cpu=1,gres/gpu=3,gres/gpu:v100=3", (3, "v100")),
        ("cpu=4,mem=8G", (0, "")), ("gres:tpu:4", (0, "")), ("", (0, "")), ("gres/gpu:2080ti:2", (2, "2080ti")),
        ("gres:gpu:3090:4", (4, "3090")),
        ("gres/gpu=1,gres/gpu:1g.10gb=1", (1, "1g.10gb")), ("gpu:a100", (1, "a100")),
    ])  # fmt: skip
    def test_gpus_asked(self, text: str, want: tuple[int, str]) -> None:
        assert asked_gpus(text) == want

    @pytest.mark.parametrize(
        ("text", "want"), [("mem=100M", 100), ("cpu=1,mem=2G,node=1", 2048), ("mem=1.50G", 1536), ("mem=512K", 0), ("cpu=1", None)]
    )
    def test_memory(self, text: str, want: int | None) -> None:
        assert memory_of(text) == want

    def test_gpus_held(self) -> None:
        assert held("a,b", ["gpu:2(IDX:0-1)", "gpu:v100:1(IDX:3),mps:100"]) == (("a", 0), ("a", 1), ("b", 3))
        assert held("a", ["gpu:fake:0(IDX:N/A)"]) == ()
        assert len(held("a", ["gpu:9999(IDX:0-9999)"])) <= 1024

    def test_no_version_is_needed(self) -> None:
        assert rows.Row(id="1") == printed.Row(id="1")
