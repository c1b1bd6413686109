"""The options and the script of sbatch: what they say, and what the script does when it runs, with pretended programs of Slurm."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm import record, script
from ongpu.queue.engines.slurm.script import Where, clock, dependency, groups, options, pattern, ranges
from ongpu.queue.job import Spec

HERE = Where(folder=Path("/home/ann/.local/state/ongpu/queue/slurm"))


def told(spec: Spec, where: Where = HERE, now: float = 1000.0) -> list[str]:
    return options([spec], where, now, "ongpu:abc")


class TestOptions:
    def test_a_plain_job(self) -> None:
        assert told(Spec(command=("/usr/bin/python3", "train.py"), folder="/data"), Where(gres="gpu:1", folder=Path("/s"))) == [
            "--parsable", "--nodes=1", "--ntasks=1", "--open-mode=append", "--export=ALL", "--comment=ongpu:abc", "--job-name=python3",
            "--chdir=/data",
            "--output=/s/%j.out", "--gres=gpu:1", "--requeue",
        ]  # fmt: skip

    @pytest.mark.parametrize(("more", "want"), [
        ({"host_memory": 2048}, "--mem=2048M"), ({"cpus": 6}, "--cpus-per-task=6"), ({"limit": 5400.0}, "--time=0-01:30:00"),
        ({"index": 3, "at_once": 2}, "--array=3%2"), ({"index": 0}, "--array=0"), ({"after": (("ok", "1"), ("any", "3"), ("ok", "2_4"))},
        "--dependency=afterok:1:2_4,afterany:3"),
        ({"after": (("ok", "1"),)}, "--kill-on-invalid-dep=yes"), ({"begin": 1090.5}, "--begin=now+91seconds"), ({"on_reboot": "fail"},
        "--no-requeue"),
        ({"on_reboot": "fail", "retries": 1}, "--requeue"), ({"checkpoint": "SIGUSR1", "grace": 45.5}, "--signal=B:USR1@46"),
        ({"priority": -3}, "--nice=300"),
        ({"reservation": "maint"}, "--reservation=maint"), ({"output": "/data/100%.log"}, "--output=/data/100%%.log"),
        ({"name": "a b,c"}, "--job-name=a b,c"),
    ])  # fmt: skip
    def test_each_field(self, more: dict[str, object], want: str) -> None:
        assert want in told(Spec(command=("x",), **more))  # type: ignore[arg-type]

    def test_nothing_of_what_was_not_asked(self) -> None:
        line = " ".join(told(Spec(command=("x",), begin=900.0)))
        assert not any(
            word in line
            for word in (
                "--gres",
                "--mem",
                "--time",
                "--array",
                "--dependency",
                "--begin",
                "--signal",
                "--nice",
                "--hold",
                "--wckey",
                "--partition",
            )
        )

    def test_what_the_configuration_adds(self) -> None:
        where = Where(
            folder=Path("/s"), partition="gpu", account="lab", qos="high", wckey=True, extra=("--constraint=a100",), memory=900, held=True
        )
        line = told(Spec(command=("x",), project="vision"), where)
        assert line[-6:] == ["--partition=gpu", "--account=lab", "--qos=high", "--constraint=a100", "--hold"][-6:] or set(line) >= {
            "--partition=gpu", "--account=lab", "--qos=high", "--constraint=a100", "--hold", "--wckey=vision", "--mem=900M",
        }  # fmt: skip
        assert set(line) >= {"--wckey=vision", "--mem=900M", "--hold", "--qos=high"}
        assert "--mem=7M" in told(Spec(command=("x",), host_memory=7), where)

    @pytest.mark.parametrize(
        ("seconds", "want"), [(1.0, "0-00:01:00"), (60.0, "0-00:01:00"), (61.0, "0-00:02:00"), (86400 * 3.0 + 3600, "3-01:00:00")]
    )
    def test_whole_minutes(self, seconds: float, want: str) -> None:
        assert clock(seconds) == want

    @given(st.sets(st.integers(0, 400), min_size=1, max_size=60))
    def test_ranges(self, numbers: set[int]) -> None:
        found: set[int] = set()
        for part in ranges(numbers).split(","):
            first, _, rest = part.partition("-")
            last, _, step = rest.partition(":")
            found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
        assert found == numbers

    @pytest.mark.parametrize(("numbers", "want"), [
        (range(0, 100_000, 3), "0-99999:3"), ((1, 5), "1,5"), ((0, 1, 2, 10, 20, 30, 31), "0-2,10-30:10,31"), ((0, 5, 6, 7), "0,5,6-7"),
    ])  # fmt: skip
    def test_steps_are_kept(self, numbers: Sequence[int], want: str) -> None:
        """Else an array of every third number is longer than an argument may be."""
        assert ranges(numbers) in (want, want.replace("6-7", "6,7"))

    def test_an_output_that_no_pattern_can_name(self) -> None:
        """slurmd takes backslashes out of it, and then expands nothing."""
        assert "--output=/home/ann/.local/state/ongpu/queue/slurm/%j.out" in told(Spec(command=("x",), output="/data/a\\b.log"))

    def test_dependencies_of_one_kind_only(self) -> None:
        assert dependency((("any", "5"),)) == "afterany:5"

    def test_what_stands_together_is_an_array(self) -> None:
        array = [Spec(command=("x", str(i)), index=i, output=f"/o/{i}") for i in range(3)]
        other = [Spec(command=("x",), index=0, gpus=2), Spec(command=("x",), index=1, gpus=2)]
        assert [
            len(group) for group in groups([Spec(command=("y",)), *array, *other, *array, Spec(command=("z",)), Spec(command=("z",))])
        ] == [1, 3, 2, 3, 1, 1]
        assert pattern(array, Path("/s")) == "/s/%A_%a.out"

    def test_only_root_may_raise(self) -> None:
        script.refuse_bad(Spec(command=("x",), priority=2), root=True)
        script.refuse_bad(Spec(command=("x",), priority=-2), root=False)
        with pytest.raises(EngineError, match="only its operators"):
            script.refuse_bad(Spec(command=("x",), priority=2), root=False)


class Runs:
    """The script, run as slurmstepd would: fake programs of Slurm on PATH, its output in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "5.out"
        (folder / "bin").mkdir()
        self.program("scontrol", 'echo "$@" >>"$FOLDER/asked"; kill -9 $PPID')

    def program(self, name: str, body: str) -> Path:
        place = self.folder / "bin" / name
        place.write_text(f"#!/bin/sh\n{body}\n")
        place.chmod(0o755)
        return place

    def start(self, specs: list[Spec], ongpu: tuple[str, ...] = ("ongpu",), **more: str) -> "subprocess.Popen[bytes]":
        text = script.script(specs, Where(folder=self.folder, ongpu=ongpu))
        place = self.folder / "script"
        place.write_bytes(text.encode("utf-8", "surrogateescape"))
        place.chmod(0o755)
        environ = {
            **os.environ, "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "SLURM_JOB_ID": "5", "SLURMD_NODENAME": "gpu07",
            "SLURM_JOB_GPUS": "0,2",
            "FOLDER": str(self.folder), **more,
        }  # fmt: skip
        with self.out.open("ab") as out:
            return subprocess.Popen([str(place)], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environ, start_new_session=True)

    def run(self, *specs: Spec, ongpu: tuple[str, ...] = ("ongpu",), **more: str) -> int:
        return self.start(list(specs), ongpu, **more).wait(20)

    def up(self, process: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + 10
        while b"up" not in self.out.read_bytes():
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.01)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def sh(line: str, **more: object) -> Spec:
    return Spec(command=("sh", "-c", line), **more)  # type: ignore[arg-type]


class TestScript:
    def test_a_run_is_noted(self, runs: Runs) -> None:
        begin = time.time()
        assert runs.run(sh("echo $ONGPU_JOB $ONGPU_ATTEMPT $CUDA_DEVICE_ORDER; exit 7")) == 7
        assert runs.out.read_text() == "5 1 PCI_BUS_ID\n"
        (run,) = record.runs(runs.folder, "5")
        assert (run.attempt, run.node, run.gpus, run.code, run.again, run.offset) == (1, "gpu07", (0, 2), 7, False, 0)
        assert begin - 1 <= run.start <= (run.end or 0) <= time.time() + 1

    def test_runs_after_the_first_begin_where_its_output_ends(self, runs: Runs) -> None:
        runs.run(sh("echo first"))
        runs.run(sh("echo second $ONGPU_ATTEMPT"), SLURM_RESTART_COUNT="1")
        assert [(run.attempt, run.offset) for run in record.runs(runs.folder, "5")] == [(1, 0), (2, 6)]
        assert runs.out.read_text() == "first\nsecond 2\n"

    @settings(max_examples=25, deadline=None)
    @given(words=st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=4))
    def test_any_words_reach_the_command(self, tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
        runs = Runs(tmp_path_factory.mktemp("runs"))
        assert runs.run(Spec(command=("printf", "%s\\0", *words))) == 0
        assert runs.out.read_bytes() == b"".join(word.encode() + b"\0" for word in words or [""])

    def test_tasks_of_an_array_have_their_own_commands_and_outputs(self, runs: Runs) -> None:
        specs = [sh(f"echo task {i} $ONGPU_ARRAY_INDEX", index=i, output=str(runs.folder / f"it's {i}")) for i in (3, 5)]
        array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "5", "SLURM_JOB_ID": "9"}
        assert runs.run(*specs, **array) == 0
        assert (runs.folder / "it's 5").read_text() == "task 5 5\n"
        assert not runs.out.read_text()
        assert record.runs(runs.folder, "5_5")[0].code == 0

    def test_an_output_with_a_backslash(self, runs: Runs) -> None:
        assert runs.run(sh("echo out; echo err >&2", output=str(runs.folder / "a\\b %j.log"))) == 0
        assert (runs.folder / "a\\b %j.log").read_text() == "out\nerr\n"

    def test_a_folder_that_is_gone(self, runs: Runs) -> None:
        """slurmd starts the job in /tmp then: the command is not for there."""
        assert runs.run(sh("touch ran", folder=str(runs.folder / "it's gone"), retries=1, retry_on="any")) == 127
        assert f"ongpu: {runs.folder}/it's gone: no such folder on gpu07" in runs.out.read_text()
        assert not Path("ran").exists()
        assert record.runs(runs.folder, "5")[0].code == 127
        (runs.folder / "it's gone").mkdir()  # there, but it was not when slurmd looked
        assert runs.run(sh("pwd", folder=str(runs.folder / "it's gone"))) == 0
        assert runs.out.read_text().endswith(f"{runs.folder}/it's gone\n")

    def test_a_folder_that_cannot_be_written_costs_no_run(self, runs: Runs) -> None:
        text = script.script([sh("echo ran")], Where(folder=Path("/nonexistent/folder")))
        bare = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "5"}
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=20, env=bare, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")

    @pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGHUP"])
    def test_the_checkpoint_signal_is_passed_on_and_its_end_is_waited_for(self, runs: Runs, name: str) -> None:
        bare = name.removeprefix("SIG")
        process = runs.start([sh(f"trap 'sleep 0.3; echo saved; exit 3' {bare}; echo up; while :; do sleep 0.05; done", checkpoint=name)])
        runs.up(process)
        process.send_signal(getattr(signal, name))
        assert process.wait(10) == 3
        assert runs.out.read_text() == "up\nsaved\n"
        assert record.runs(runs.folder, "5")[0].code == 3

    def test_an_env_that_cannot_reset_signals(self, runs: Runs) -> None:
        """As coreutils' before 8.31 (RHEL 8): the command runs; only where it sets no handler of its own the signal passes it by."""
        runs.program("env", 'case "$1" in --default*) echo "env: unrecognized option" >&2; exit 125 ;; esac; exec /usr/bin/env "$@"')
        save = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(3)); print('up', flush=True); time.sleep(20)"
        process = runs.start([Spec(command=(sys.executable, "-c", save), checkpoint="SIGINT")])
        runs.up(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 3
        assert runs.out.read_text() == "up\n"

    def test_sigterm_comes_as_the_checkpoint_signal_and_ends_the_retries(self, runs: Runs) -> None:
        line = "trap 'echo saved; exit 3' USR1; trap '' TERM; echo up; while :; do sleep 0.05; done"
        process = runs.start([sh(line, checkpoint="SIGUSR1", retries=3, retry_on="any")])
        runs.up(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 3
        assert not (runs.folder / "asked").exists()

    def test_the_shell_outlives_a_sigterm_to_all(self, runs: Runs) -> None:
        process = runs.start([sh("trap 'sleep 0.4; echo saved; exit 9' TERM; echo up; while :; do sleep 0.05; done")])
        runs.up(process)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(10) == 9
        assert "saved" in runs.out.read_text()

    @pytest.mark.parametrize(
        ("gate", "again"), [("echo gpu-fell-off-bus: lost; exit 1", True), ("exit 0", False), ("exit 3", False), ("exit 1", False)]
    )
    def test_a_run_again_where_the_gate_blames_the_gpu(self, runs: Runs, gate: str, again: bool) -> None:
        program = runs.program("ongpu", f'echo "$@" CVD=$CUDA_VISIBLE_DEVICES >>"$FOLDER/gated"; {gate}')
        code = runs.run(sh("exit 5", retries=1), ongpu=(str(program),), CUDA_VISIBLE_DEVICES="0,1")
        assert (runs.folder / "gated").read_text() == "gate --patience 15 --gpus 0,2 CVD=\n"
        assert (runs.folder / "asked").exists() is again
        assert code == (-9 if again else 5)
        assert record.runs(runs.folder, "5")[-1].again is again

    def test_no_more_often_than_asked(self, runs: Runs) -> None:
        spec = sh("exit 5", retries=2, retry_on="any")
        codes = [runs.run(spec, SLURM_RESTART_COUNT=str(count)) for count in (0, 3, 4)]  # preemptions in between count as restarts
        assert codes == [-9, -9, 5]
        assert (runs.folder / "asked").read_text() == "requeue 5\nrequeue 5\n"
        assert runs.run(sh("true", retries=2, retry_on="any"), SLURM_RESTART_COUNT="5") == 0

    def test_our_own_interpreter_or_the_name(self, tmp_path: Path) -> None:
        there = subprocess.run([*script.gate_words("/bin/echo"), "gate", "a b"], capture_output=True, text=True, check=True)
        assert there.stdout == "-m ongpu gate a b\n"
        assert "exec ongpu" in shlex.join(script.gate_words(str(tmp_path / "none")))

    def test_the_environment_is_whole_where_it_names_a_path(self) -> None:
        ours = {"PATH": "/ours", "HOME": "/h", "SLURM_CONF": "/c", "SECRET": "x"}
        assert script.environment(Spec(command=("x",), environ={"PATH": "/p", "A": "1"}), ours) == {
            "PATH": "/p",
            "A": "1",
            "HOME": "/h",
            "SLURM_CONF": "/c",
        }
        assert script.environment(Spec(command=("x",), environ={"A": "1"}), ours) == {**ours, "A": "1"}
