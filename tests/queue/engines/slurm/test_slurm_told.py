"""States and endings, the records of our own, and which GPUs a request is sent to."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm import nodes, record
from ongpu.queue.engines.slurm.nodes import Node, cards, closed, gres, share, types
from ongpu.queue.engines.slurm.record import Kept, Run
from ongpu.queue.engines.slurm.rows import Row
from ongpu.queue.engines.slurm.told import STATES, ours, remembered, state, told
from ongpu.queue.job import CANCELLED, DONE, ENDING, FAILED, HELD, LIVE, LOST, OVER, RUNNING, WAITING, Spec


class TestStates:
    @pytest.mark.parametrize(("words", "more", "want"), [
        ("PENDING", {"reason": "Resources"}, (WAITING, "")), ("PENDING", {"reason": "JobHeldUser"}, (HELD, "")), ("PENDING",
        {"priority": 0}, (HELD, "")),
        ("PENDING", {"reason": "launch failed requeued held"}, (HELD, "")), ("PENDING REQUEUED", {}, (WAITING, "")),
        ("REQUEUE_HOLD PENDING", {}, (HELD, "")),
        ("RUNNING", {}, (RUNNING, "")), ("RUNNING COMPLETING", {}, (ENDING, "")), ("COMPLETING", {}, (ENDING, "")), ("COMPLETED", {},
        (DONE, "ok")),
        ("FAILED", {"code": 3}, (FAILED, "program")), ("FAILED", {"code": 137, "reason": "JobLaunchFailure"}, (FAILED, "signal")),
        ("FAILED", {"reason": "JobLaunchFailure"}, (FAILED, "not-started")), ("FAILED", {"reason": "BadConstraints", "nodes": ""},
        (FAILED, "not-started")),
        ("TIMEOUT", {}, (FAILED, "timeout")), ("FAILED", {"reason": "TimeLimit"}, (FAILED, "timeout")), ("OUT_OF_MEMORY", {}, (FAILED,
        "host-memory")),
        ("NODE_FAIL", {}, (LOST, "vanished")), ("CANCELLED", {"code": 143}, (CANCELLED, "stopped")), ("CANCELLED", {}, (CANCELLED, "")),
        ("PREEMPTED", {}, (FAILED, "preempted")), ("SOMETHING_NEW", {}, (LOST, "")), ("", {}, (LOST, "")),
        ("FAILED", {"code": 181, "reason": "JobLaunchFailure"}, (FAILED, "not-started")),
        ("FAILED", {"code": 181, "reason": "RaisedSignal:53(Real-time_signal_19)"}, (FAILED, "not-started")),
        ("DEADLINE", {"started": 5.0, "ended": 9.0}, (FAILED, "timeout")), ("DEADLINE", {"nodes": ""}, (CANCELLED, "not-started")),
    ])  # fmt: skip
    def test_slurms_are_ours(self, words: str, more: dict[str, object], want: tuple[str, str]) -> None:
        assert state(Row(**{"id": "1", "state": words, "nodes": "gpu07", **more})) == want  # type: ignore[arg-type]

    def test_all_are_known_to_the_queue(self) -> None:
        assert {word for word, _ in STATES.values()} <= {*LIVE, *OVER}

    def test_a_job_that_never_ran_has_no_code(self) -> None:
        job = told(Row(id="1", state="CANCELLED", code=0, started=10.0, ended=10.0), None, (), 20.0)
        assert (job.code, job.started, job.attempts, job.attained) == (None, None, 0, 0.0)

    @pytest.mark.parametrize(("row", "noted", "want"), [
        ({"state": "FAILED", "code": 128 + 53, "reason": "JobLaunchFailure"}, None, None),
        ({"state": "OUT_OF_MEMORY", "code": 128 + 125}, 137, 137), ({"state": "OUT_OF_MEMORY", "code": 128 + 125}, None, None),
        ({"state": "CANCELLED", "code": 143}, 3, 143),
    ])  # fmt: skip
    def test_the_codes_that_slurm_makes_up_are_none(self, row: dict[str, object], noted: int | None, want: int | None) -> None:
        """0:53 where it could not open the output, 0:125 where memory ran out: no signals that anything sent."""
        runs = (Run(1, 100.0, "a", (), 0, 160.0, noted),) if noted else ()
        assert told(Row(id="1", nodes="a", started=100.0, ended=160.0, **row), None, runs, 999.0).code == want  # type: ignore[arg-type]

    def test_what_the_script_noted_counts_where_slurm_forgot(self) -> None:
        run = Run(2, 100.0, "gpu07", (1, 3), 0, 160.0, 9)
        row = Row(id="1", state="FAILED", code=0, nodes="gpu07", started=100.0, ended=160.0, submitted=50.0)
        job = told(row, Kept("t", 50.0, {"command": ["x"]}, {}), (Run(1, 60.0, "gpu07", (1,), 0, 80.0, 1, True), run), 999.0)
        assert (job.code, job.gpus, job.attempts, job.attained) == (9, ("gpu07:gpu1", "gpu07:gpu3"), 2, 140.0)

    def test_a_running_job_has_used_its_gpus_until_now(self) -> None:
        job = told(Row(id="1", state="RUNNING", nodes="a", started=100.0, gres=(("a", 0), ("a", 1)), gpus=2), None, (), 130.0)
        assert (job.attained, job.code, job.gpus) == (60.0, None, ("a:gpu0", "a:gpu1"))


class TestRecords:
    def test_an_array_is_kept_and_read(self, tmp_path: Path) -> None:
        specs = {i: Spec(command=("x", str(i)), index=i, environ={"SECRET": "1"}, after=(("ok", "3"),), capability=(8, 0)) for i in (2, 5)}
        record.keep(tmp_path, "7", "tok", specs, 100.0)
        kept = record.read(tmp_path, "7_5")
        assert kept is not None
        assert (kept.token, kept.indices) == ("tok", (2, 5))
        assert kept.spec(5) == Spec(command=("x", "5"), index=5, after=(("ok", "3"),), capability=(8, 0))
        assert "SECRET" not in (tmp_path / "7.json").read_text()
        assert (tmp_path / "7.json").stat().st_mode & 0o077 == 0
        assert list(record.all_ids(tmp_path)) == ["7"]
        assert record.parts("7_5") == ("7", 5)

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"token": "x"}', '{"schema":1,"token":"x","submitted":"y","spec":{"command":["x"]}}',
                                      '{"schema":1,"token":"x","submitted":1,"spec":{"command":[]}}',
                                      '{"schema":1,"token":"x","submitted":1,"spec":{"command":["x"],"gpus":-4}}', "[" * 9999])  # fmt: skip
    def test_what_is_no_record(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "7.json").write_text(text)
        assert record.read(tmp_path, "7") is None

    @given(st.text(alphabet=st.sampled_from("start end again 0123456789,-.\n x"), max_size=200))
    def test_any_notes(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        folder = tmp_path_factory.getbasetemp()
        (folder / "8.runs").write_text(text)
        for run in record.runs(folder, "8"):
            assert isinstance(run.code, int | None)

    def test_a_number_that_slurm_gave_twice(self) -> None:
        kept = Kept("tok", 1000.0, {"command": ["x"]}, {})
        assert ours(Row(id="1", comment="ongpu:tok vision", submitted=9.0), kept) is kept
        assert ours(Row(id="1", comment="ongpu:other", submitted=1000.0), kept) is None
        assert ours(Row(id="1", submitted=1001.0), kept) is kept  # sacct and jobcomp keep no comments
        assert ours(Row(id="1", submitted=9000.0), kept) is None
        assert ours(Row(id="1"), None) is None

    def test_what_only_the_record_remembers(self) -> None:
        kept = Kept("tok", 1000.0, {"command": ["x"]}, {})
        lost = remembered("3", kept, ())
        assert (lost.state, lost.ending, lost.code) == (LOST, "vanished", None)
        died = remembered("3_1", kept, (Run(1, 5.0, "n", (0,), 0, 9.0, 137),), 1)
        assert (died.state, died.ending, died.array, died.gpus, died.attained) == (FAILED, "signal", "3", ("n:gpu0",), 4.0)

    def test_one_that_was_cancelled(self, tmp_path: Path) -> None:
        record.keep(tmp_path, "7", "tok", {i: Spec(command=("x",), index=i) for i in (0, 1)}, 100.0)
        assert not record.cancelled(tmp_path, "7_1")
        record.cancel(tmp_path, "7", 5.0)
        record.cancel(tmp_path, "9", 5.0)  # not ours
        assert record.cancelled(tmp_path, "7_1")
        assert not (tmp_path / "9.runs").exists()
        kept = record.read(tmp_path, "7")
        assert kept is not None
        assert remembered("7_1", kept, (), 1, True).state == CANCELLED
        assert remembered("7_1", kept, (Run(1, 5.0, code=143),), 1, True).state == CANCELLED
        assert remembered("7_1", kept, (Run(1, 5.0, code=0),), 1, True).state == DONE

    def test_the_folder_is_beside_the_local_engines(self) -> None:
        assert record.folder({"ONGPU_QUEUE": "/q"}) == Path("/q/slurm")
        assert record.folder({"HOME": "/h"}) == Path("/h/.local/state/ongpu/queue/slurm")
        assert record.folder({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/ongpu/queue/slurm")


NODES = [
    Node(name="a", state="IDLE", gpus=("a100-sxm4-80gb",) * 4, cpus=32, memory=256_000),
    Node(name="b", state="MIXED", gpus=("rtx_4090",) * 2, cpus=16, memory=64_000),
]
SHOWN = """NodeName=vm Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=1.90
   Gres=gpu:a100:3(S:0-1),gpu:v100:1
   GresDrain=N/A
   GresUsed=gpu:a100:2(IDX:0,2),gpu:v100:0(IDX:N/A)
   NodeAddr=127.0.0.1 NodeHostName=vm Version=22.05.8
   RealMemory=20000 AllocMem=0 FreeMem=17235 Sockets=8 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0
   Partitions=gpu,low
   Reason=ongpu gate: gpu-fell-off-bus: GPU 2 is lost = gone [root@2026-11-30T17:00:00]

NodeName=login
   State=IDLE
"""


class TestNodes:
    def test_as_scontrol_shows_them(self) -> None:
        vm, login = nodes.read(SHOWN)
        assert (vm.gpus, vm.used, vm.memory, vm.cpus, vm.partitions) == (
            ("a100", "a100", "a100", "v100"),
            frozenset({0, 2}),
            20000,
            8,
            ("gpu", "low"),
        )
        assert vm.closed
        assert vm.reason == "ongpu gate: gpu-fell-off-bus: GPU 2 is lost = gone"
        assert (login.gpus, login.closed) == ((), False)
        told_cards = cards([vm], [Row(id="7", gres=(("vm", 2),))])
        assert [(card.id, card.name, card.state, card.slug, card.jobs) for card in told_cards][2:] == [
            ("vm:gpu2", "a100", "drained", "gpu-fell-off-bus", ("7",)), ("vm:gpu3", "v100", "drained", "gpu-fell-off-bus", ()),
        ]  # fmt: skip
        warning = closed([vm, login])
        assert warning is not None
        assert "takes it back" in warning[0]
        assert closed([Node(name="x", gpus=("",), state="DOWN"), Node(name="y", gpus=("",), state="IDLE")]) is None

    @pytest.mark.parametrize(("state", "want"), [
        ("IDLE", False), ("MIXED+PLANNED", False), ("IDLE+CLOUD+POWERED_DOWN", False), ("IDLE+POWERING_DOWN", False),
        ("IDLE+POWERING_UP", False),
        ("ALLOCATED+COMPLETING", False), ("IDLE+RESERVED", False), ("IDLE+POWER_DOWN", False),
        ("DOWN", True), ("DOWN+NOT_RESPONDING", True), ("IDLE*", True), ("ALLOCATED+DRAIN", True), ("IDLE+CLOUD+DRAIN+POWERED_DOWN", True),
        ("IDLE+MAINTENANCE", True), ("IDLE+FAIL", True), ("IDLE+INVALID_REG", True), ("FUTURE", True), ("UNKNOWN", True),
    ])  # fmt: skip
    def test_which_states_are_closed(self, state: str, want: bool) -> None:
        """The words of node_state_string_complete() in Slurm's slurm_protocol_defs.c, 22.05 to 25.05."""
        assert Node(name="a", state=state).closed is want

    @pytest.mark.parametrize(("more", "want"), [
        ({"gpus": 2}, "gpu:2"), ({"gpus": 0}, ""), ({"model": "A100"}, "gpu:a100-sxm4-80gb:1"), ({"model": "RTX 4090", "gpus": 2},
        "gpu:rtx_4090:2"),
        ({"memory": 40_000}, "gpu:a100-sxm4-80gb:1"), ({"memory": 10_000}, "gpu:1"), ({"capability": (8, 9)}, "gpu:rtx_4090:1"),
        ({"capability": (7, 0)}, "gpu:1"),
    ])  # fmt: skip
    def test_by_type_where_that_is_needed(self, more: dict[str, object], want: str) -> None:
        assert gres(Spec(command=("x",), **more), NODES) == want  # type: ignore[arg-type]

    @pytest.mark.parametrize(("more", "words"), [
        ({"gpus": 5}, "the largest here has 4"), ({"model": "H100"}, "types: a100-sxm4-80gb, rtx_4090"), ({"memory": 100_000},
        "no GPU here is such a one"),
        ({"model": "4090", "gpus": 3}, "3 such GPUs on one machine: the most here are 2"),
    ])  # fmt: skip
    def test_what_is_not_there(self, more: dict[str, object], words: str) -> None:
        with pytest.raises(EngineError) as caught:
            gres(Spec(command=("x",), **more), NODES)  # type: ignore[arg-type]
        assert words in caught.value.english

    def test_types_that_say_nothing(self) -> None:
        plain = [Node(name="a", gpus=("",) * 2)]
        assert gres(Spec(command=("x",), gpus=2), plain) == "gpu:2"
        with pytest.raises(EngineError, match="does not tell the memory"):
            gres(Spec(command=("x",), memory=1000), plain)
        with pytest.raises(EngineError):
            gres(Spec(command=("x",), model="A100"), plain)

    def test_the_share_of_the_memory_where_slurm_has_no_default(self) -> None:
        bad = {"SelectTypeParameters": "CR_CORE_MEMORY", "DefMemPerNode": "UNLIMITED"}
        assert share(Spec(command=("x",)), NODES, bad) == 64_000 // 2 * 9 // 10
        assert share(Spec(command=("x",), gpus=4), NODES, bad) == 256_000 * 9 // 10
        assert share(Spec(command=("x",), gpus=0, cpus=2), NODES, bad) == 64_000 * 2 // 16 * 9 // 10
        assert share(Spec(command=("x",), host_memory=5), NODES, bad) is None
        assert share(Spec(command=("x",)), NODES, {**bad, "DefMemPerCPU": "2000"}) is None
        assert share(Spec(command=("x",)), NODES, {"SelectTypeParameters": "CR_CORE"}) is None

    @pytest.mark.parametrize(("text", "want"), [
        ("gpu:2080ti:2(S:0-1)", ("2080ti",) * 2), ("gpu:3090:2,gpu:a100:1", ("3090", "3090", "a100")), ("gpu:2", ("", "")),
        ("gpu:1g.10gb:2,shard:8", ("1g.10gb",) * 2), ("(null)", ()), ("gpu", ("",)), ("gpu:h100", ("h100",)),
    ])  # fmt: skip
    def test_types_may_begin_with_a_number(self, text: str, want: tuple[str, ...]) -> None:
        assert types(text) == want

    def test_a_default_for_each_gpu_gives_nothing_to_jobs_without(self) -> None:
        only = {"SelectTypeParameters": "CR_CORE_MEMORY", "DefMemPerGPU": "4000", "DefMemPerCPU": "UNLIMITED"}
        assert share(Spec(command=("x",)), NODES, only) is None
        assert share(Spec(command=("x",), gpus=0, cpus=2), NODES, only) == 64_000 * 2 // 16 * 9 // 10

    @given(st.text(alphabet=st.sampled_from("gpu:a100(S:-)IDX,0123456789N/A"), max_size=60))
    def test_any_gres(self, text: str) -> None:
        assert len(types(text)) <= 256
        nodes.read(f"NodeName=x\nGres={text}\nGresUsed={text}\nReason={text}")


def test_the_newest_records_first(tmp_path: Path) -> None:
    for number in (9, 10, 100):
        (tmp_path / f"{number}.json").touch()
    (tmp_path / "10.runs").touch()
    assert list(record.all_ids(tmp_path)) == ["100", "10", "9"]
    assert list(record.all_ids(tmp_path, 1)) == ["100"]
    assert not list(record.all_ids(tmp_path / "none"))
