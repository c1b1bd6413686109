"""The engine with pretended programs of Slurm: what a real one rarely does (tests/live/test_slurm_jobs.py has a real one)."""

import json
import time
from pathlib import Path

import pytest

from ongpu.queue.config import Config
from ongpu.queue.engines import EngineError, engine
from ongpu.queue.engines.slurm import ask as asking
from ongpu.queue.engines.slurm import printed, record
from ongpu.queue.engines.slurm.ask import Late, clean
from ongpu.queue.engines.slurm.engine import Slurm
from ongpu.queue.job import CANCELLED, DONE, FAILED, RUNNING, WAITING, Spec, Told, Want

CONFIG = (
    "SelectTypeParameters    = CR_CORE_MEMORY\nDefMemPerCPU            = 100\nTrackWCKey              = No\nJobCompType = jobcomp/none\n"
)
NODE = "NodeName=a CPUTot=8\n   Gres=gpu:a100:2\n   GresUsed=gpu:a100:0(IDX:N/A)\n   RealMemory=8000\n   State=IDLE\n"


class Programs:
    """Shell scripts in a folder on PATH. log: what they were asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.jobs: list[dict[str, object]] = []
        self.put(
            "scontrol",
            f"case \"$*\" in *config*) cat <<'E'\n{CONFIG}E\n;; *node*) cat <<'E'\n{NODE}E\n;; *) echo 'No jobs in the system' ;; esac",
        )
        self.put("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
        self.put("scancel", "")
        self.put("sbatch", "echo 41")
        self.show()

    def put(self, name: str, body: str) -> None:
        place = self.folder / name
        place.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{body}\n')
        place.chmod(0o755)

    def show(self, *jobs: dict[str, object]) -> None:
        (self.folder / "jobs.json").write_text(json.dumps({"jobs": list(jobs)}))
        self.put("squeue", f"cat {self.folder / 'jobs.json'}")

    def asked(self, name: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(f"{name} ")]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setenv("ONGPU_QUEUE", str(tmp_path / "queue"))
    return Programs(folder)


@pytest.fixture
def slurm(programs: Programs) -> Slurm:
    found = engine("slurm", Config())
    assert isinstance(found, Slurm)
    return found


def job(number: int, **more: object) -> dict[str, object]:
    return {"job_id": number, "job_state": "RUNNING", "user_name": "ann", "submit_time": int(time.time()), "nodes": "a", **more}


def test_it_is_not_installed(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(asking, "FOLDERS", str(tmp_path))
    with pytest.raises(EngineError, match="Slurm is not installed here: no scontrol on PATH") as caught:
        slurm.submit([Spec(command=("true",))])
    assert caught.value.code == 3


class TestSubmit:
    def test_what_it_asks_and_keeps(self, slurm: Slurm, programs: Programs) -> None:
        assert slurm.submit([Spec(command=("python", "t.py"), project="vision", gpus=2)]) == ["41"]
        (line,) = programs.asked("sbatch")
        assert "--gres=gpu:2" in line
        assert "--comment=ongpu:" in line
        kept = record.read(slurm.folder, "41")
        assert kept is not None
        assert f"ongpu:{kept.token} vision" in line
        assert kept.spec() == Spec(command=("python", "t.py"), project="vision", gpus=2)
        assert slurm.folder.stat().st_mode & 0o077 == 0

    def test_a_site_that_greets(self, slurm: Slurm, programs: Programs) -> None:
        programs.put("sbatch", "echo 'Welcome to the cluster!'; echo '77;lab'")
        assert slurm.submit([Spec(command=("x",))]) == ["77"]
        programs.put("sbatch", "echo Welcome")
        with pytest.raises(EngineError, match="without a number: Welcome"):
            slurm.submit([Spec(command=("x",))])

    def test_an_array_is_one_call(self, slurm: Slurm, programs: Programs) -> None:
        assert slurm.submit([Spec(command=("x",), index=i) for i in (0, 1, 2, 9)]) == ["41_0", "41_1", "41_2", "41_9"]
        (line,) = programs.asked("sbatch")
        assert "--array=0-2,9" in line

    def test_more_than_an_argument_can_hold(self, slurm: Slurm) -> None:
        with pytest.raises(EngineError, match="sbatch: Argument list too long") as caught:
            slurm.submit([Spec(command=("x",), index=i * i) for i in range(20_000)])
        assert "太长" in caught.value.chinese

    def test_what_has_ended_well_and_slurm_forgot_is_not_waited_for(self, slurm: Slurm, programs: Programs) -> None:
        """Since 23.11 sbatch refuses afterok of a job that slurmctld has forgotten (job_scheduler.c), MinJobAge after its end."""
        cells = dict.fromkeys(printed.SACCT, "") | {"State": "COMPLETED", "ExitCode": "0:0", "NodeList": "a"}
        lines = [printed.DELIMITER.join((cells | {"JobID": name}).values()) for name in ("9", "30_1", "30_2")]
        programs.put("sacct", "cat <<'E'\n{}\nE".format("\n".join(lines)))
        programs.show(job(10))
        after = (("ok", "9"), ("ok", "30"), ("any", "9"), ("ok", "10"))
        slurm.submit([Spec(command=("x",), after=after)])
        assert "--dependency=afterok:10 " in programs.asked("sbatch")[-1]
        kept = record.read(slurm.folder, "41")
        assert kept is not None
        assert kept.spec().after == after
        slurm.submit([Spec(command=("x",), after=(("ok", "9"),))])
        assert "--dependency" not in programs.asked("sbatch")[-1]
        programs.show(job(9, job_state="COMPLETED"))  # not yet forgotten: Slurm's own word counts
        slurm.submit([Spec(command=("x",), after=(("ok", "9"),))])
        assert "--dependency=afterok:9 " in programs.asked("sbatch")[-1]

    def test_an_array_of_which_one_failed_is_not_waited_for(self, slurm: Slurm, programs: Programs) -> None:
        programs.show(
            job(30, array_job_id=30, array_task_id=1, job_state="COMPLETED"),
            job(31, array_job_id=30, array_task_id=2, job_state="FAILED", exit_code=256),
        )
        with pytest.raises(EngineError, match="job 30_2 ended failed"):
            slurm.submit([Spec(command=("x",), after=(("ok", "30"),))])
        slurm.submit([Spec(command=("x",), after=(("any", "30"),))])
        with pytest.raises(EngineError, match="8: no such job to wait for"):
            slurm.submit([Spec(command=("x",), after=(("any", "8"),))])

    @pytest.mark.parametrize("job", ["30[4]", "train-1"])
    def test_a_dependency_that_is_no_number_of_slurms(self, slurm: Slurm, job: str) -> None:
        with pytest.raises(EngineError, match="is no job of Slurm's"):
            slurm.submit([Spec(command=("x",), after=(("ok", job),))])

    def test_of_several_all_or_none(self, slurm: Slurm, programs: Programs) -> None:
        programs.put(
            "sbatch",
            'case "$*" in *--test-only*) ;; *--job-name=y*) echo "sbatch: error: x" >&2; exit 1 ;; *) echo 50 ;; esac',
        )
        with pytest.raises(EngineError, match="Slurm says: x"):
            slurm.submit([Spec(command=("x",)), Spec(command=("y",))])
        assert programs.asked("scancel") == ["scancel 50"]
        assert all("--hold" in line for line in programs.asked("sbatch") if "--test-only" not in line)

    def test_each_kind_is_tried_once_before(self, slurm: Slurm, programs: Programs) -> None:
        slurm.submit([Spec(command=(name,)) for name in "abc"] + [Spec(command=("d",), gpus=2)])
        assert sum("--test-only" in line for line in programs.asked("sbatch")) == 2
        assert programs.asked("scontrol")[-1] == "scontrol release 41,41,41,41"

    def test_an_sbatch_that_hangs_after_the_job_was_taken(self, slurm: Slurm, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asking, "LIMIT", 0.5)
        monkeypatch.setattr("secrets.token_hex", lambda n: "cafe")
        programs.put("sbatch", "exec sleep 30")
        with pytest.raises(Late, match=r"sbatch did not answer within 0.5 s"):
            slurm.submit([Spec(command=("x",))])
        programs.show(job(88, comment="ongpu:cafe"))
        assert slurm.submit([Spec(command=("x",))]) == ["88"]

    def test_the_environment_of_a_job_that_submits_another(self) -> None:
        assert clean({"SLURM_MEM_PER_NODE": "5", "SLURM_CONF": "/c", "SLURMD_NODENAME": "a", "A": "1"}) == {"SLURM_CONF": "/c", "A": "1"}


class TestListing:
    def test_a_squeue_without_json(self, slurm: Slurm, programs: Programs) -> None:
        programs.put("squeue", "echo \"squeue: unrecognized option '--json'\" >&2; exit 1")
        assert slurm.jobs(Want()).jobs == ()
        slurm.jobs(Want())
        assert len(programs.asked("squeue")) == 1  # not asked again
        programs.put("squeue", "echo '{'")
        slurm.known.json = True
        assert slurm.jobs(Want()).jobs == ()

    def test_order_counts_and_bounds(self, slurm: Slurm, programs: Programs) -> None:
        programs.show(
            job(1, job_state="COMPLETED", end_time=50), job(2, job_state="FAILED", exit_code=256, end_time=90), job(3, start_time=10),
            job(4, job_state="PENDING", priority=5, state_reason="Priority", nodes=""), job(5, job_state="PENDING", priority=9, nodes=""),
            job(6, job_state="PENDING", priority=0, nodes="", state_reason="JobHeldUser"),
        )  # fmt: skip
        listing = slurm.jobs(Want())
        assert [told.id for told in listing.jobs] == ["3", "5", "4", "6", "2", "1"]
        assert listing.counts == {"running": 1, "waiting": 2, "held": 1, "done": 1, "failed": 1}
        assert [told.id for told in slurm.jobs(Want(most=1)).jobs] == ["3", "5", "2"]
        assert [told.id for told in slurm.jobs(Want(states=(WAITING, RUNNING))).jobs] == ["3", "5", "4"]
        assert slurm.jobs(Want(user="bob")).jobs == ()

    def test_accounts_are_asked_for_what_is_over(self, slurm: Slurm, programs: Programs) -> None:
        cells = dict.fromkeys(printed.SACCT, "") | {"JobID": "9", "State": "COMPLETED", "ExitCode": "0:0", "NodeList": "a", "User": "ann"}
        programs.put("sacct", f"printf '%s\\n' '{printed.DELIMITER.join(cells.values())}'")
        programs.show(job(10))
        assert {(told.id, told.state) for told in slurm.jobs(Want()).jobs} == {("9", DONE), ("10", RUNNING)}
        assert slurm.jobs(Want(ids=("9",))).jobs[0].state == DONE
        assert "-j 9" in programs.asked("sacct")[-1]
        count = len(programs.asked("sacct"))
        slurm.jobs(Want(states=(RUNNING,)))
        assert len(programs.asked("sacct")) == count

    @pytest.mark.parametrize(
        "body", ["exec sleep 30", "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1"]
    )
    def test_accounts_that_do_not_answer_cost_only_what_is_over(
        self, slurm: Slurm, programs: Programs, monkeypatch: pytest.MonkeyPatch, body: str
    ) -> None:
        monkeypatch.setattr(asking, "LIMIT", 0.5)
        programs.put("sacct", body)
        programs.show(job(10))
        assert [told.id for told in slurm.jobs(Want()).jobs] == ["10"]
        warning = slurm.jobs(Want(ids=("9",))).warning
        assert warning is not None
        assert "9: no such job; " in warning[0]

    def test_old_jobs_are_found_by_their_number(self, slurm: Slurm, programs: Programs) -> None:
        programs.put("sacct", "")
        slurm.jobs(Want(ids=("9",)))
        assert "--starttime" not in programs.asked("sacct")[-1]  # with -j it begins with the epoch (sacct(1))
        slurm.jobs(Want())
        assert "--starttime=now-" in programs.asked("sacct")[-1]

    def test_long_lists_of_tasks_are_asked_for_whole(self, slurm: Slurm, programs: Programs) -> None:
        """Slurm's programs cut them after 64 characters; the tasks behind that would be told as lost."""
        jobs = programs.folder / "jobs.json"
        programs.show(job(30, job_state="PENDING", array_job_id=30, array_task_string="CUT", nodes=""))
        programs.put("squeue", f'if [ "$SLURM_BITSTR_LEN" = 0 ]; then cut=1,5,9; else cut=1,...; fi; sed "s/CUT/$cut/" {jobs}')
        assert [told.id for told in slurm.jobs(Want()).jobs] == ["30_1", "30_5", "30_9"]

    def test_a_job_of_an_array_by_the_local_engines_name(self, slurm: Slurm, programs: Programs) -> None:
        programs.show(job(31, array_job_id=30, array_task_id=4))
        assert slurm.jobs(Want(ids=("30[4]",))).jobs[0].id == "30_4"
        assert slurm.jobs(Want(ids=("30",))).jobs[0].id == "30_4"

    def test_what_was_refused_at_once_is_no_job_of_ours(self, slurm: Slurm, programs: Programs) -> None:
        programs.show(
            job(5, job_state="FAILED", state_reason="BadConstraints", comment="ongpu:beef", nodes=""), job(6, job_state="FAILED", nodes="")
        )
        assert [told.id for told in slurm.jobs(Want()).jobs] == ["6"]


class TestWhy:
    @pytest.mark.parametrize(("told", "words"), [
        (Told(id="7", spec=Spec(command=("x",)), state=WAITING, said="Priority"), "jobs of higher priority come first"),
        (Told(id="7", spec=Spec(command=("x",)), state=WAITING), "Slurm has not looked at it yet"),
        (Told(id="7", spec=Spec(command=("x",)), state="held"), "ongpu release 7"),
        (Told(id="7", spec=Spec(command=("x",)), state=FAILED, code=3, said="NonZeroExitCode"), "it ended with code 3: ongpu logs 7"),
        (Told(id="7", spec=Spec(command=("x",)), state=WAITING, said="SomethingNewHere"), "Slurm says: Something New Here"),
        (Told(id="7", spec=Spec(command=("x",)), state=WAITING, said="Resources", more={"expected": 4e9}),
        "Slurm expects it to start at 2096"),
    ])  # fmt: skip
    def test_lines(self, slurm: Slurm, told: Told, words: str) -> None:
        assert any(words in english for english, _ in slurm.why(told))
        assert all(chinese and english for english, chinese in slurm.why(told))

    def test_the_trap_of_the_memory_is_named(self, slurm: Slurm, programs: Programs) -> None:
        told = Told(id="7", spec=Spec(command=("x",)), state=WAITING, said="Resources")
        assert not any("one job at a time" in english for english, _ in slurm.why(told))
        programs.put("scontrol", f"case \"$*\" in *config*) echo 'SelectTypeParameters = CR_CORE_MEMORY' ;; *) cat <<'E'\n{NODE}E\n;; esac")
        assert any("one job at a time" in english for english, _ in slurm.why(told))

    def test_nothing_to_say(self, slurm: Slurm) -> None:
        assert slurm.why(Told(id="7", spec=Spec(command=("x",)), state=CANCELLED)) == []
