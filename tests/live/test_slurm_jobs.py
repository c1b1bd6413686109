"""The queue's Slurm engine and `ongpu queue setup slurm` against a real Slurm, started here by the configuration that ongpu writes."""

import contextlib
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fronts_run import ongpu
from parts.machines import Box
from parts.prometheus import until
from parts.slurm import RealSlurm, need

from ongpu.queue.config import Config
from ongpu.queue.config import Slurm as Settings
from ongpu.queue.engines import EngineError, refuse
from ongpu.queue.engines.slurm import record
from ongpu.queue.engines.slurm.engine import Slurm
from ongpu.queue.job import CANCELLED, DONE, FAILED, HELD, LIVE, RUNNING, WAITING, Listing, Spec, Told, Want

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """One for most tests: nothing is wrong with its GPUs."""
    need()
    with RealSlurm(tmp_path_factory.mktemp("slurm"), settings={"HealthCheckInterval": "0"}) as real:
        yield real


@pytest.fixture
def slurm(cluster: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The engine on it; what a test leaves behind is cancelled."""
    with on(cluster, tmp_path, monkeypatch) as engine:
        yield engine


@contextlib.contextmanager
def on(real: RealSlurm, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    monkeypatch.setenv("SLURM_CONF", real.environ["SLURM_CONF"])
    monkeypatch.setenv("ONGPU_QUEUE", str(folder / "queue"))
    yield Slurm(Config())
    real.ask("scancel", "--user=root", check=False)
    with contextlib.suppress(AssertionError):  # what still runs writes into the folder of the test
        until(lambda: not real.ask("squeue", "-h", check=False).strip(), 10)


def sh(line: str, **more: object) -> Spec:
    return Spec(command=("sh", "-c", line), **more)  # type: ignore[arg-type]


def one(slurm: Slurm, job: str) -> Told:
    found = [told for told in slurm.jobs(Want(ids=(job,), most=None)).jobs if told.id == job]
    assert found, job
    return found[0]


def processes() -> str:
    """The command lines of the machine."""
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True, timeout=20).stdout


def ended(slurm: Slurm, *jobs: str, seconds: float = 20.0) -> dict[str, Told]:
    """All of them, when all are over."""

    def over() -> dict[str, Told] | None:
        found = {told.id: told for told in slurm.jobs(Want(ids=jobs, most=None)).jobs}
        return found if set(jobs) <= set(found) and all(told.state not in LIVE for told in found.values()) else None

    return until(over, seconds, 0.2)


def running(slurm: Slurm, job: str) -> Told:
    return until(lambda: told if (told := one(slurm, job)).state == RUNNING else None, 15)


def output(slurm: Slurm, job: str) -> str:
    return b"".join(slurm.output(job)).decode()


class TestJobs:
    def test_exit_codes_gpus_environment_and_output(self, slurm: Slurm, tmp_path: Path) -> None:
        show = 'echo "$ONGPU_JOB $ONGPU_ATTEMPT $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"; pwd; printf "%s\n" "$ODD"'
        odd = "a,b=\"c\" '$d'\nnext \u4f60"
        jobs = slurm.submit([
            sh(show, gpus=2, folder=str(tmp_path), environ={**os.environ, "ODD": odd}, name="a name, with commas"),
            sh("exit 7", gpus=0), sh("kill -9 $$"), Spec(command=("no-such-program-at-all",)),
            sh("echo no; exit 1", output=str(tmp_path / "100%j.txt")),
        ])  # fmt: skip
        told = ended(slurm, *jobs)
        first, seven, killed, missing, named = (told[job] for job in jobs)
        assert [(job.state, job.code, job.ending) for job in (first, seven, killed, missing, named)] == [
            (DONE, 0, "ok"), (FAILED, 7, "program"), (FAILED, 137, "signal"), (FAILED, 127, "program"), (FAILED, 1, "program"),
        ]  # fmt: skip
        assert first.spec.name == "a name, with commas"
        assert (len(first.gpus), first.attempts, first.node, len(seven.gpus)) == (2, 1, first.gpus[0].partition(":")[0], 0)
        lines = output(slurm, jobs[0]).splitlines()
        assert re.fullmatch(rf"{jobs[0]} 1 \d,\d PCI_BUS_ID", lines[0])
        assert lines[1:] == [str(tmp_path), *odd.split("\n")]
        assert (tmp_path / "100%j.txt").read_text() == output(slurm, jobs[4]) == "no\n"
        assert first.attained >= 0
        assert "environ" not in Path(slurm.folder, f"{jobs[0]}.json").read_text()  # it may hold secrets

    def test_a_folder_that_is_gone_and_outputs_that_cannot_be(self, slurm: Slurm, tmp_path: Path) -> None:
        gone = tmp_path / "it's gone"
        gone.mkdir()
        (late,) = slurm.submit([sh("echo here; pwd", gpus=0, folder=str(gone), begin=time.time() + 2)])
        gone.rmdir()
        back, nowhere = slurm.submit([sh("echo hi", gpus=0, output=str(tmp_path / "a\\b")), sh("true", gpus=0, output="/nonexistent/x")])
        told = ended(slurm, late, back, nowhere)
        assert (told[late].state, told[late].code, "\nhere\n" in output(slurm, late)) == (FAILED, 127, False)
        assert f"ongpu: {gone}: no such folder on" in output(slurm, late)
        assert output(slurm, back) == (tmp_path / "a\\b").read_text() == "hi\n"
        assert (told[nowhere].state, told[nowhere].code, told[nowhere].ending) == (FAILED, None, "not-started")

    def test_every_task_of_an_array_without_order_is_told(self, slurm: Slurm) -> None:
        places = [i * i for i in range(31)]
        jobs = slurm.submit([sh("true", index=i, begin=2e9) for i in places])
        for slurm.known.json in (True, False):
            listing = slurm.jobs(Want(ids=(jobs[0].partition("_")[0],), most=None))
            assert {told.id: told.state for told in listing.jobs} == dict.fromkeys(jobs, WAITING)

    def test_nothing_is_added_to_the_environment(self, slurm: Slurm) -> None:
        whole = {"PATH": os.environ["PATH"], "HOME": "/", "LANG": "zh_CN.UTF-8"}
        (job,) = slurm.submit([Spec(command=("env",), environ=whole, gpus=0)])
        ended(slurm, job)
        seen = dict(line.partition("=")[::2] for line in output(slurm, job).splitlines())
        assert {name: seen[name] for name in whole} == whole
        ours = {
            "CUDA_DEVICE_ORDER",
            "ONGPU_JOB",
            "ONGPU_ATTEMPT",
            "PWD",
            "SHLVL",
            "_",
            "USER",
            "LOGNAME",
            "TMPDIR",
            "HOSTNAME",
            "ENVIRONMENT",
        }
        assert {name for name in seen if not name.startswith("SLURM")} - set(whole) <= ours
        assert "SLURM_TIME_FORMAT" not in seen

    def test_two_ways_of_asking_tell_the_same(self, slurm: Slurm) -> None:
        jobs = slurm.submit(
            [sh("exit 3", gpus=2), sh("sleep 9", gpus=1, limit=600.0), *(sh("sleep 9", index=i, at_once=1) for i in range(3))]
        )
        until(lambda: one(slurm, jobs[1]).state == RUNNING and one(slurm, jobs[0]).state == FAILED, 15)
        listings: list[Listing] = []
        for slurm.known.json in (True, False):
            listings.append(slurm.jobs(Want(ids=tuple(job.partition("_")[0] for job in jobs), most=None)))
        by_json, by_text = ({told.id: told for told in listing.jobs} for listing in listings)
        assert set(by_json) == set(by_text) >= set(jobs)
        for job in jobs:
            for name in ("spec", "state", "user", "array", "submitted", "gpus", "node", "code", "ending", "said"):
                assert getattr(by_json[job], name) == getattr(by_text[job], name), (job, name)

    def test_jobs_of_others_are_told_as_far_as_slurm_knows(self, slurm: Slurm, cluster: RealSlurm) -> None:
        number = cluster.ask(
            "sbatch", "--parsable", "--gres=gpu:a100-sxm4-80gb:1", "--mem=500M", "-J", "theirs", "-o", "/dev/null", "--wrap", "sleep 5"
        ).strip()
        told = running(slurm, number)
        assert (told.spec.name, told.spec.gpus, told.user) == ("theirs", 1, "root")
        assert len(told.gpus) == 1
        assert told.id in next(card for card in slurm.jobs(Want()).cards if card.id == told.gpus[0]).jobs

    def test_array_at_once_and_each_its_own(self, slurm: Slurm) -> None:
        jobs = slurm.submit(
            [sh(f"echo own {i} $ONGPU_ARRAY_INDEX; sleep 0.7; exit {i}", index=i, at_once=2, project="vision") for i in range(4)]
        )
        assert [job.partition("_")[2] for job in jobs] == ["0", "1", "2", "3"]
        told = ended(slurm, *jobs)
        assert [told[job].code for job in jobs] == [0, 1, 2, 3]
        assert [output(slurm, job) for job in jobs] == [f"own {i} {i}\n" for i in range(4)]
        assert {told[job].array for job in jobs} == {jobs[0].partition("_")[0]}
        assert {told[job].spec.project for job in jobs} == {"vision"}
        spans = [(run.start, run.end or 0) for job in jobs for run in record.runs(slurm.folder, job)]
        assert max(sum(a <= start < b for a, b in spans) for start, _ in spans) <= 3  # whole seconds: one that just ended may count

    def test_an_array_that_is_cancelled_as_it_waits(self, slurm: Slurm) -> None:
        jobs = slurm.submit([sh("sleep 30", index=i, at_once=1, gpus=4) for i in (0, 1, 4)])
        running(slurm, jobs[0])
        slurm.cancel([jobs[0].partition("_")[0]])
        told = ended(slurm, *jobs)
        assert [(told[job].state, told[job].attempts) for job in jobs] == [(CANCELLED, 1), (CANCELLED, 0), (CANCELLED, 0)]

    def test_dependencies(self, slurm: Slurm) -> None:
        good, bad = slurm.submit([sh("sleep 1"), sh("sleep 1; exit 1")])
        after_good, after_bad, any_way = slurm.submit(
            [sh("echo after", after=(("ok", good),)), sh("true", after=(("ok", bad),)), sh("true", after=(("any", bad), ("ok", good)))]
        )
        until(lambda: (told := one(slurm, after_good)).state == WAITING and told.said == "Dependency", 5)
        found = ended(slurm, after_good, after_bad, any_way)
        assert [found[job].state for job in (after_good, after_bad, any_way)] == [DONE, CANCELLED, DONE]
        english, chinese = slurm.why(found[after_bad])[0]
        assert "never start" in english
        assert "永远不会启动" in chinese

    def test_hold_release_and_begin(self, slurm: Slurm) -> None:
        (job,) = slurm.submit([sh("true", begin=time.time() + 300)])
        assert (one(slurm, job).state, one(slurm, job).said) == (WAITING, "BeginTime")
        slurm.hold([job])
        assert one(slurm, job).state == HELD
        assert any(f"ongpu release {job}" in line for line, _ in slurm.why(one(slurm, job)))
        slurm.release([job])
        assert one(slurm, job).state == WAITING

    def test_cancel(self, slurm: Slurm, tmp_path: Path) -> None:
        trap = f"trap 'echo saved >{tmp_path}/saved; exit 5' TERM; echo up; while :; do sleep 0.1; done"
        runs, deaf, waits = slurm.submit([sh(trap, gpus=2), sh("trap '' TERM; echo up; while :; do sleep 0.1; done"), sh("true", gpus=4)])
        running(slurm, runs)
        running(slurm, deaf)
        until(lambda: output(slurm, runs) and output(slurm, deaf), 10)
        slurm.cancel([runs, waits, deaf])
        told = ended(slurm, runs, waits, deaf)
        assert {told[job].state for job in (runs, waits, deaf)} == {CANCELLED}
        assert (tmp_path / "saved").exists()
        assert (told[waits].attempts, told[waits].code) == (0, None)
        slurm.cancel([runs])  # over already: nothing to do

    def test_output_is_followed_to_the_end(self, slurm: Slurm) -> None:
        (job,) = slurm.submit([sh("for i in 1 2 3; do echo $i; sleep 0.5; done")])
        seen: list[tuple[float, bytes]] = [(time.monotonic(), piece) for piece in slurm.output(job, follow=True) if piece]
        assert b"".join(piece for _, piece in seen) == b"1\n2\n3\n"
        assert seen[-1][0] - seen[0][0] > 0.5

    def test_a_failed_run_is_run_again(self, slurm: Slurm, cluster: RealSlurm) -> None:
        (job,) = slurm.submit([sh("echo run $ONGPU_ATTEMPT; [ $ONGPU_ATTEMPT -eq 2 ]", retries=1, retry_on="any")])
        until(lambda: any(run.again for run in record.runs(slurm.folder, job)) and one(slurm, job).state == WAITING, 15)
        # Slurm waits two minutes before it runs a job again, for what the first run still has to say would be taken for the second's: here
        # until its slurmstepd is gone.
        until(lambda: not re.search(rf"slurmstepd: \[{job}\.", processes()), 15)
        cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
        told = ended(slurm, job)[job]
        assert (told.state, told.attempts, told.code) == (DONE, 2, 0)
        assert b"".join(slurm.output(job, attempt=1)).startswith(b"run 1\n")
        assert b"".join(slurm.output(job, attempt=2)) == b"run 2\n"
        with pytest.raises(EngineError, match="no run 3"):
            list(slurm.output(job, attempt=3))

    def test_the_checkpoint_signal_reaches_the_command(self, slurm: Slurm, cluster: RealSlurm, tmp_path: Path) -> None:
        line = f"trap 'echo saved >{tmp_path}/saved; exit 0' USR1; echo up; while :; do sleep 0.1; done"
        (job,) = slurm.submit([sh(line, checkpoint="SIGUSR1", saved="saved", limit=3600.0, grace=20.0)])
        running(slurm, job)
        until(lambda: output(slurm, job), 10)
        cluster.ask("scancel", "--batch", "--signal=USR1", job)  # as slurmctld does, 20 s before the limit (it looks twice a minute)
        told = ended(slurm, job)[job]
        assert (told.state, told.code) == (DONE, 0)
        assert (tmp_path / "saved").exists()

    def test_a_preemptions_sigterm_is_passed_on_as_the_checkpoint_signal(self, slurm: Slurm, cluster: RealSlurm, tmp_path: Path) -> None:
        line = f"trap 'echo saved >{tmp_path}/saved; exit 3' USR1; trap '' TERM; echo up; while :; do sleep 0.1; done"
        (job,) = slurm.submit([sh(line, checkpoint="SIGUSR1", retries=1, retry_on="any")])
        running(slurm, job)
        until(lambda: output(slurm, job), 10)
        cluster.ask("scancel", "--batch", "--signal=TERM", job)
        told = ended(slurm, job)[job]
        assert (tmp_path / "saved").exists()
        assert (told.code, told.attempts) == (3, 1)  # asked to end: no retry of ours


class TestFences:
    def test_a_job_opens_its_own_gpus_only(self, slurm: Slurm, cluster: RealSlurm) -> None:
        if not cluster.fenced:
            pytest.skip("no cgroups that can be written here: devices are not fenced")
        code = (
            "import errno, os, sys\nfor i in range(4):\n try: os.open(f'{sys.argv[1]}/nvidia{i}', os.O_RDWR)\n"
            " except OSError as error: print(i, errno.errorcode[error.errno])"
        )
        (job,) = slurm.submit([Spec(command=(sys.executable, "-c", code, str(cluster.devices)), gpus=2)])
        told = ended(slurm, job)[job]
        mine = {gpu.rpartition("gpu")[2] for gpu in told.gpus}
        seen = dict(line.split() for line in output(slurm, job).splitlines())
        assert len(mine) == 2
        assert seen == {str(i): "ENXIO" if str(i) in mine else "EPERM" for i in range(4)}

    def test_a_job_that_names_no_memory_leaves_the_others_room(self, slurm: Slurm) -> None:
        jobs = slurm.submit([sh("sleep 20") for _ in range(4)])
        until(lambda: all(one(slurm, job).state == RUNNING for job in jobs), 15)
        assert len({gpu for job in jobs for gpu in one(slurm, job).gpus}) == 4


class TestRefusals:
    @pytest.mark.parametrize(("more", "words"), [
        ({"gpus": 5}, "the largest here has 4"),
        ({"model": "H100"}, "no GPU here is such a one (types: a100-sxm4-80gb)"),
        ({"memory": 200_000}, "no GPU here is such a one"),
        ({"capability": (9, 0)}, "no GPU here is such a one"),
        ({"after": (("ok", "99999"),)}, "99999: no such job to wait for"),
        ({"host_memory": 9_000_000}, "no node can ever run it"),
        ({"cpus": 500}, "no node can ever run it"),
        ({"reservation": "tuesday"}, "no such reservation"),
    ])  # fmt: skip
    def test_what_can_never_run_is_refused_at_once(self, slurm: Slurm, more: dict[str, object], words: str) -> None:
        before = {job.id for job in slurm.jobs(Want(most=None)).jobs}
        with pytest.raises(EngineError) as caught:
            slurm.submit([sh("true"), sh("true", **more)])
        assert words in caught.value.english
        assert re.search("[\u4e00-\u9fff]", caught.value.chinese)
        assert "\n" not in caught.value.english
        left = [job for job in slurm.jobs(Want(most=None)).jobs if job.id not in before]
        assert not any(job.state in LIVE for job in left)  # all or none
        assert not any(job.attempts for job in left)

    def test_what_fits_is_asked_by_type(self, slurm: Slurm) -> None:
        jobs = slurm.submit([sh("true", model="A100", memory=40 * 1024, capability=(8, 0))])
        assert ended(slurm, *jobs)[jobs[0]].state == DONE

    def test_partition_qos_and_account(self, slurm: Slurm) -> None:
        slurm.config = Config(slurm=Settings(partition="night"))
        with pytest.raises(EngineError, match="night: no such partition: sinfo"):
            slurm.submit([sh("true")])
        slurm.config = Config(slurm=Settings(extra=("--no-such-option",)))
        with pytest.raises(EngineError, match=r"Slurm says: .*no-such-option"):
            slurm.submit([sh("true")])

    @pytest.mark.parametrize("field", ["share", "idle", "notify"])
    def test_fields_that_it_cannot_honour(self, slurm: Slurm, field: str) -> None:
        values = {"share": {"share": True, "memory": 1000}, "idle": {"idle": 60.0}, "notify": {"notify": "x://y"}}
        with pytest.raises(EngineError, match=f"cannot honour: {field}"):
            refuse(sh("true", **values[field]), slurm)

    def test_jobs_that_are_not_known(self, slurm: Slurm) -> None:
        for act in (slurm.cancel, slurm.hold, slurm.release):
            with pytest.raises(EngineError, match=r"99999: no such job"):
                act(["99999"])
            with pytest.raises(EngineError, match=r"no job of Slurm's"):
                act(["--me"])
        with pytest.raises(EngineError):
            list(slurm.output("99999"))
        listing = slurm.jobs(Want(ids=("99999",)))
        assert not listing.jobs
        assert listing.warning is not None
        assert "accounting_storage/none" in listing.warning[0]


class TestNobodyAnswers:
    def test_slurmctld_is_down(self, slurm: Slurm, cluster: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = Path(cluster.environ["SLURM_CONF"]).read_text()
        (tmp_path / "slurm.conf").write_text(re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=1", text))
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
        begin = time.monotonic()  # Slurm's own programs try for nine seconds
        with pytest.raises(EngineError, match=r"controller does not answer.*systemctl status slurmctld") as caught:
            slurm.submit([sh("true")])
        assert caught.value.code == 3
        assert time.monotonic() - begin < 7

    def test_munge_is_not_there(self, slurm: Slurm, cluster: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = Path(cluster.environ["SLURM_CONF"]).read_text()
        (tmp_path / "slurm.conf").write_text(re.sub(r"socket=\S+", f"socket={tmp_path}/none", text))
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
        with pytest.raises(EngineError, match="munge is not running"):
            slurm.jobs(Want())

    def test_no_configuration(self, slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none.conf"))
        with pytest.raises(EngineError, match=r"none\.conf: no such file"):
            slurm.jobs(Want())

    def test_a_controller_that_is_restarted_has_all_jobs(self, slurm: Slurm, cluster: RealSlurm) -> None:
        jobs = slurm.submit([sh("sleep 2; exit 6", gpus=4), sh("true", gpus=4)])
        running(slurm, jobs[0])
        cluster.restart_controller()
        told = ended(slurm, *jobs, seconds=30)
        assert [told[job].code for job in jobs] == [6, 0]


class TestShell:
    def test_submit_jobs_logs_cancel(self, slurm: Slurm, cluster: RealSlurm, tmp_path: Path) -> None:
        environ = {
            "SLURM_CONF": cluster.environ["SLURM_CONF"],
            "ONGPU_QUEUE": str(tmp_path / "queue"),
            "ONGPU_QUEUE_CONFIG": str(tmp_path / "none"),
        }
        (tmp_path / "none").write_text('engine = "slurm"\n')
        done = ongpu("submit", "--gpus", "1", "--", "sh", "-c", "echo from the shell; exit 4", **environ)
        assert done.returncode == 0, done.stderr
        job = re.search(r"\d+", done.stdout)
        assert job
        assert ended(slurm, job[0])[job[0]].code == 4
        assert ongpu("logs", job[0], **environ).stdout == "from the shell\n"
        shown = ongpu("jobs", "--all", **environ)
        assert shown.returncode == 0, shown.stderr
        assert job[0] in shown.stdout


class TestForgotten:
    def test_what_slurm_forgot_the_job_itself_noted(
        self, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need()
        settings = {"MinJobAge": "2", "HealthCheckInterval": "0", "JobCompType": "jobcomp/none", "JobCompLoc": ""}
        with RealSlurm(tmp_path_factory.mktemp("slurm"), settings=settings) as real, on(real, tmp_path, monkeypatch) as slurm:
            single, *tasks = slurm.submit([sh("exit 9", gpus=2), *(sh(f"exit {i}", index=i) for i in range(2))])
            ended(slurm, single, *tasks)
            until(lambda: single not in real.ask("squeue", "-h", "-t", "all", "-o", "%i").split(), 30, 0.5)
            until(lambda: not real.ask("squeue", "-h", "-t", "all", "-o", "%i").split(), 30, 0.5)
            told = {job.id: job for job in slurm.jobs(Want(ids=(single, tasks[0].partition("_")[0]))).jobs}
            assert [(told[job].state, told[job].code) for job in (single, *tasks)] == [(FAILED, 9), (DONE, 0), (FAILED, 1)]
            assert len(told[single].gpus) == 2
            assert told[single].spec.command == ("sh", "-c", "exit 9")
            assert {single, *tasks} <= {job.id for job in slurm.jobs(Want()).jobs}
            assert output(slurm, single) == ""


@pytest.fixture
def gated(nvml: Path, tmp_path: Path) -> "tuple[Box, Path]":
    """A recorded machine with four GPUs, and an `ongpu` that asks it."""
    box = Box(cards=4)
    box.write(tmp_path / "machine")
    environ = box.environment(nvml)
    lines = [f"export {name}='{environ[name]}'" for name in ("FAKE_NVML", "LD_LIBRARY_PATH")]
    program = tmp_path / "ongpu"
    program.write_text("\n".join(["#!/bin/sh", *lines, f'exec {sys.executable} -m ongpu "$@" --root {tmp_path / "machine"}', ""]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return box, program


class TestHealth:
    def test_a_fault_drains_the_node_and_it_returns(
        self, gated: "tuple[Box, Path]", tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need()
        box, program = gated
        well = box.scenario.read_text()
        real = RealSlurm(tmp_path_factory.mktemp("slurm"), settings={"HealthCheckInterval": "1"}, ongpu=program)
        with real, on(real, tmp_path, monkeypatch) as slurm:
            (runs,) = slurm.submit([sh("sleep 4; exit 3", gpus=1)])
            running(slurm, runs)
            box.scenario.write_text(f"{well}\ngpu.2.error = 15\n")
            until(lambda: "DRAIN" in real.node()["State"], 20)
            assert real.node()["Reason"].startswith("ongpu gate: ")
            (waits,) = slurm.submit([sh("true")])
            listing = slurm.jobs(Want())
            assert listing.warning is not None
            assert listing.warning[0].startswith("nothing starts: ")
            assert {card.state for card in listing.cards} == {"drained"}
            assert {card.slug for card in listing.cards} <= {"gpu-fell-off-bus", "gpu-answers-with-error", "gpu-lost"}
            assert any("ongpu gate: " in english for english, _ in slurm.why(one(slurm, waits)))
            assert ended(slurm, runs)[runs].code == 3  # what runs goes on
            assert one(slurm, waits).state == WAITING
            box.scenario.write_text(well)
            assert ended(slurm, waits, seconds=30)[waits].state == DONE
            assert "DRAIN" not in real.node()["State"]

    def test_the_prolog_refuses_a_job_on_a_sick_gpu_and_it_waits(
        self, gated: "tuple[Box, Path]", tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need()
        box, program = gated
        well = box.scenario.read_text()
        real = RealSlurm(tmp_path_factory.mktemp("slurm"), settings={"HealthCheckInterval": "0"}, ongpu=program)
        with real, on(real, tmp_path, monkeypatch) as slurm:
            box.scenario.write_text(f"{well}\ngpu.0.error = 15\n")
            (job,) = slurm.submit([sh("echo ran", gpus=4)])
            until(lambda: "DRAIN" in real.node()["State"] and one(slurm, job).state == WAITING, 20)
            assert real.node()["Reason"].startswith("ongpu gate: ")
            assert not record.runs(slurm.folder, job)  # it never began
            box.scenario.write_text(well)
            real.ask("scontrol", "update", f"NodeName={real.name}", "State=RESUME")
            real.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
            assert ended(slurm, job, seconds=30)[job].state == DONE
            assert output(slurm, job) == "ran\n"


class TestSetup:
    def test_as_it_is_written_with_all_of_its_fences(
        self, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need()
        real = RealSlurm(tmp_path_factory.mktemp("slurm"), gpus=2, settings={"HealthCheckInterval": "0"}, whole=True)
        with real, on(real, tmp_path, monkeypatch) as slurm:
            if not real.fenced:
                pytest.skip("no cgroups that can be written here: memory is not limited")
            greedy = [sys.executable, "-c", "print(len(bytearray(3 << 30)))"]
            fits, kills = slurm.submit([sh("true"), Spec(command=tuple(greedy), host_memory=500, gpus=2)])
            told = ended(slurm, fits, kills)
            assert told[fits].state == DONE
            assert (told[kills].state, told[kills].ending) == (FAILED, "host-memory")
            assert "oom" in output(slurm, kills)
            assert any("--host-memory" in english for english, _ in slurm.why(told[kills]))
            checked = ongpu("queue", "setup", "slurm", "--check", "--format", "json", SLURM_CONF=real.environ["SLURM_CONF"])
            found = {trap["slug"] for trap in json.loads(checked.stdout)["traps"]}
            # GPUs are pretended, so NVML shows none; the state lies in a folder of tests
            assert found <= {"gres-count-differs", "state-is-lost", "no-health-check", "script-of-a-user"}

    def test_the_running_slurm_is_checked(self, slurm: Slurm, cluster: RealSlurm) -> None:
        found = ongpu("queue", "setup", "slurm", "--check", "--format", "json", SLURM_CONF=cluster.environ["SLURM_CONF"])
        told = json.loads(found.stdout)
        assert told["running"] is True
        slugs = {trap["slug"] for trap in told["traps"]}
        assert "hardware-not-checked" in slugs  # config_overrides: eight CPUs are pretended
        wrong = slugs & {
            "no-default-memory",
            "prolog-holds-jobs",
            "gres-count-differs",
            "running-differs",
            "no-gres-types",
            "stays-down",
            "node-closed",
        }
        assert not wrong

    def test_a_file_that_was_changed_and_not_read_again(self, slurm: Slurm, cluster: RealSlurm) -> None:
        place = Path(cluster.environ["SLURM_CONF"])
        before = place.read_text()
        try:
            place.write_text(before.replace("ReturnToService=2", "ReturnToService=1"))
            found = ongpu("queue", "setup", "slurm", "--check", SLURM_CONF=str(place))
        finally:
            place.write_text(before)
        assert found.returncode == 1
        assert "running-differs" in found.stdout
        assert "ReturnToService is 1 in the file, and 2 in the Slurm that runs" in " ".join(found.stdout.split())
