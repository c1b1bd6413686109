"""`ongpu run` as a user starts it, with real processes on the fake NVML: which GPU, what it used, why it died."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.runs import Machine, gpu, slice_of

from ongpu.facts.sample import COLUMNS
from ongpu.hosts import leases, oom_kills
from ongpu.model import Certainty, Finding, Layer, Report, Rule, Severity, Text, Verdict
from ongpu.queue import run as ends
from ongpu.queue.run import MOST_POINTS, Recorder, Used, ending

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs commands as Linux does")
SHOW = "echo GPU=$CUDA_VISIBLE_DEVICES ORDER=$CUDA_DEVICE_ORDER"


@pytest.fixture
def machine(tmp_path: Path, nvml: Path) -> Machine:
    return Machine(tmp_path, nvml)


def first(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


class TestWhichGpu:
    def test_the_command_gets_one_by_uuid_and_its_exit_code_is_ours(self, machine: Machine) -> None:
        done = machine.run("--", "sh", "-c", f"{SHOW}; cat; exit 3")
        assert (done.returncode, done.stdout) == (3, f"GPU={gpu(0)} ORDER=PCI_BUS_ID\n")

    def test_strangers_and_full_cards_are_left_alone(self, tmp_path: Path, nvml: Path) -> None:
        machine = Machine(tmp_path, nvml, "gpu.0.proc = 777,100,C", "gpu.1.mem_used_mib = 79000", **{"__proc__777__comm": "python\n"})
        assert gpu(2) in machine.run("--memory", "20GiB", "--", "sh", "-c", SHOW).stdout
        done = machine.run("--gpus", "3", "--memory", "20GiB", "--", "true")
        assert done.returncode == 75
        assert "pid 777 (python, 100 MiB)" in done.stderr
        assert "GPU 1: only" in done.stderr

    def test_what_nobody_is_seen_to_use_is_given_last_and_said_so(self, tmp_path: Path, nvml: Path) -> None:
        plain = [f"gpu.{n}.mem_used_mib = {3000 if n == 0 else 100}" for n in range(2)]
        machine = Machine(tmp_path, nvml, *plain, "gpu.1.util = 50", cards=2)
        one = machine.run("--", "sh", "-c", SHOW)
        assert gpu(1) in one.stdout
        assert "no program" not in one.stderr
        both = machine.run("--gpus", "2", "--", "sh", "-c", SHOW)
        assert gpu(0) in both.stdout
        assert "GPU 0: 3.516 GiB of its memory in use by no program that can be seen: given out last" in both.stderr

    def test_those_who_run_at_once_get_different_ones_and_the_next_waits(self, machine: Machine) -> None:
        holders = [machine.start("--gpus", "2", "--", "sh", "-c", f"{SHOW}; exec sleep 30") for _ in range(2)]
        try:
            seen = {uuid for one in holders for uuid in first(one).split()[0].removeprefix("GPU=").split(",")}
            assert seen == {gpu(n) for n in range(4)}
            refused = machine.run("--", "true")
            assert refused.returncode == 75
            assert f"leased by root, pid {holders[0].pid}" in refused.stderr or f"pid {holders[1].pid}" in refused.stderr
            waiting = machine.start("--wait", "--", "sh", "-c", SHOW)
            time.sleep(1.0)
            assert waiting.poll() is None
            holders[0].terminate()
            assert holders[0].wait(20) == 128 + signal.SIGTERM
            assert waiting.wait(30) == 0
            waiting.communicate()
        finally:
            for one in holders:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
                one.communicate()

    def test_a_command_whose_ongpu_was_killed_keeps_its_gpus(self, machine: Machine) -> None:
        one = machine.start("--gpus", "4", "--", "sh", "-c", "echo $$; sleep 30")
        pid = int(first(one))
        try:
            one.kill()
            one.communicate()
            assert machine.run("--", "true").returncode == 75
        finally:
            os.killpg(os.getpgid(pid), signal.SIGKILL)
        assert machine.run("--", "true").returncode == 0

    def test_a_sick_gpu_is_not_given(self, tmp_path: Path, nvml: Path) -> None:
        machine = Machine(tmp_path, nvml, "gpu.0.error = 15", cards=2)
        assert gpu(1) in machine.run("--", "sh", "-c", SHOW).stdout
        done = machine.run("--gpus", "2", "--", "true")
        assert done.returncode == 69
        assert "not fit: gpu-" in done.stderr
        assert machine.run("--", "true", CUDA_VISIBLE_DEVICES="0").returncode == 2

    def test_a_drained_gpu_is_not_given_and_it_is_told_by_whom_and_why(self, machine: Machine) -> None:
        place = machine.folder / "leases"
        about = {"pid": os.getpid(), "user": "ann", "command": "drained: taken out of service by hand", "drained": "drained-by-hand"}
        drained = leases.take(place, [gpu(2)], about)
        assert isinstance(drained, leases.Lease)
        with drained:
            assert gpu(2) not in machine.run("--gpus", "3", "--", "sh", "-c", SHOW).stdout
            done = machine.run("--gpus", "4", "--", "true")
            assert (done.returncode, done.stdout) == (75, "")
            assert "(GPU 2: drained by ann: taken out of service by hand)" in done.stderr
            assert "pid" not in done.stderr
            assert "GPU 2：已由 ann 停用：已由人工停用" in machine.run("--lang", "zh", "--gpus", "4", "--", "true").stderr
            inside = machine.run("--", "sh", "-c", SHOW, CUDA_VISIBLE_DEVICES=gpu(2), ONGPU_LEASED=gpu(2))
            assert gpu(2) in inside.stdout, "a job that was on it before goes on"
        assert machine.run("--gpus", "4", "--", "true").returncode == 0

    def test_packages_that_cannot_use_a_gpu_are_told_and_started(self, machine: Machine) -> None:
        site = machine.folder / "site-packages"
        (site / "torch-2.3.1+cpu.dist-info").mkdir(parents=True)
        (site / "torch").mkdir()
        (site / "torch/version.py").write_text("__version__ = '2.3.1+cpu'\ncuda = None\nhip = None\n")
        done = machine.run("--", sys.executable, "-c", "print(1)", PYTHONPATH=str(site))
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert "ongpu: cpu-only-build: " in done.stderr
        assert "cpu-only-build" not in machine.run("--", "true", PYTHONPATH=str(site)).stderr

    def test_only_what_cuda_may_see(self, machine: Machine) -> None:
        assert gpu(2) in machine.run("--", "sh", "-c", SHOW, CUDA_VISIBLE_DEVICES="2,3").stdout
        assert machine.run("--gpus", "3", "--", "true", CUDA_VISIBLE_DEVICES="2,3").returncode == 2

    def test_without_gpus_on_a_machine_without_any(self, tmp_path: Path, nvml: Path) -> None:
        machine = Machine(tmp_path, nvml, "error.Init = 9")
        done = machine.run("--gpus", "0", "--", "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]")
        assert (done.returncode, done.stdout) == (0, "[]\n")
        refused = machine.run("--", "true")
        assert refused.returncode == 69
        assert len(refused.stderr.splitlines()) == 1


class TestBadInput:
    @pytest.mark.parametrize(("arguments", "code", "words"), [
        ((), 2, "no command"),
        (("--",), 2, "no command"),
        (("--", "no-such-command-x"), 127, "command not found"),
        (("--", "/"), 126, "a folder"),
        (("--", "./train.py"), 126, "write: ongpu run -- python ./train.py"),
        (("--gpus", "two", "--", "true"), 2, "a number from 0"),
        (("--gpus", "9", "--", "true"), 2, "this machine has 4; at most 4 would fit"),
        (("--memory", "lots", "--", "true"), 2, "write 20GiB"),
        (("--memory", "200GiB", "--", "true"), 2, "the largest has 80 GiB; none would fit (GPU 0-3: has 80 GiB in all)"),
        (("--report", "x.pdf", "--", "true"), 2, ".json or .html"),
        (("--report", "nowhere/x.json", "--", "true"), 2, "there is no folder nowhere"),
    ])  # fmt: skip
    def test_one_line_in_both_languages(self, machine: Machine, arguments: tuple[str, ...], code: int, words: str) -> None:
        (machine.folder / "train.py").write_text("")
        for locale in ("C.UTF-8", "zh_CN.UTF-8"):
            done = subprocess.run(
                machine.line(*arguments), cwd=machine.folder, env={**machine.environ, "LC_ALL": locale}, capture_output=True, text=True,
                timeout=30, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", 1), done.stderr
            assert words in done.stderr or locale.startswith("zh")
            assert locale.startswith("C") or any("\u4e00" <= char <= "\u9fff" for char in done.stderr)


OOM = (
    "Traceback (most recent call last):\n  File \"/home/ada/train.py\", line 40, in <module>\n    loss = model(x)\n"
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "1.20 GiB is free. Including non-PyTorch memory, this process has 77.90 GiB memory in use. Of the allocated memory 76.10 GiB is "
    "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
)  # fmt: skip


class TestPostMortem:
    def test_out_of_memory_says_what_would_have_fitted(self, machine: Machine) -> None:
        (machine.folder / "oom").write_text(OOM)
        done = machine.run("--", "sh", "-c", f"cat {machine.folder}/oom >&2; exit 1")
        assert done.returncode == 1
        assert done.stderr.count("Tried to allocate 20.00 GiB") == 1, "unchanged"
        for words in ("the same again will end the same", "needed at least 97.9 GiB", "H200", "error: oom-", "train.py"):
            assert words in done.stderr.partition("ran ")[2] or words == "train.py"

    def test_a_killed_command_is_told_as_killed(self, machine: Machine) -> None:
        done = machine.run("--gpus", "0", "--", "sh", "-c", "kill -9 $$")
        assert done.returncode == 137
        assert "signal 9: " in done.stderr
        assert ("who sent it is not known" in done.stderr) is bool(oom_kills.count()), "the kernel counts those that it ends itself"

    def test_a_fault_of_the_program_is_not_retried(self, machine: Machine) -> None:
        program = "print('once'); raise ValueError('bad shape')"
        done = machine.run("--retry-on-gpu-fault", "--", sys.executable, "-c", program)
        assert (done.returncode, done.stdout) == (1, "once\n")
        assert "its last words: ValueError: bad shape" in done.stderr

    def test_a_fault_of_a_gpu_is_retried_on_another(self, tmp_path: Path, nvml: Path) -> None:
        machine = Machine(tmp_path, nvml, "gpu.0.xid = 79", "gpu.0.xid_after_s = 1")
        program = f"{SHOW}; case $CUDA_VISIBLE_DEVICES in *0) sleep 3; exit 1;; esac"
        done = machine.run("--retry-on-gpu-fault", "--", "sh", "-c", program)
        assert done.returncode == 0
        assert [line.split()[0][-1] for line in done.stdout.splitlines()] == ["0", "1"]
        assert "a GPU is at fault, not the program" in done.stderr
        assert f"out of service until it has been tested: GPU 0 ({gpu(0)})" in done.stderr

    def test_a_stranger_who_came_between_is_told(self, machine: Machine) -> None:
        one = machine.start("--", "sh", "-c", f"{SHOW}; sleep 9")
        first(one)
        machine.says(f"gpu.0.proc = {os.getpid()},4096,C")
        assert one.stderr
        lines = [one.stderr.readline(), one.stderr.readline()]
        os.killpg(one.pid, signal.SIGTERM)
        one.communicate(timeout=20)
        assert f"GPU 0 is used by somebody else too, since a moment ago: pid {os.getpid()}, 4096 MiB" in lines[1]

    def test_its_own_processes_are_no_strangers(self, machine: Machine) -> None:
        one = machine.start("--", "sh", "-c", "sh -c 'echo $$; sleep 3.5; :'")
        machine.says(f"gpu.0.proc = {first(one)},4096,C")
        _, errors = one.communicate(timeout=30)
        assert "somebody else" not in errors

    @pytest.mark.parametrize("kind", ["json", "html"])
    def test_the_report_is_kept(self, machine: Machine, kind: str) -> None:
        (machine.folder / "oom").write_text(OOM)
        file = machine.folder / f"report.{kind}"
        machine.run("--report", str(file), "--", "sh", "-c", f"sleep 1.5; cat {machine.folder}/oom; echo '<script>'; exit 1")
        text = file.read_text()
        if kind == "html":
            assert "<script>" not in text
            assert "oom-" in text
            assert "GPU 0" in text
            return
        told = json.loads(text)
        assert (told["schema"], told["code"], told["ending"], told["gpus"][0]["uuid"]) == (1, 1, "out-of-memory", gpu(0))
        assert told["gpus"][0]["memory_timeline"]
        assert told["report"]["findings"][0]["slug"].startswith("oom-")

    def test_the_report_of_what_nobody_can_explain_is_not_told_as_well(self, machine: Machine) -> None:
        machine.run("--report", str(machine.folder / "r.html"), "--", "false")
        machine.run("--report", str(machine.folder / "r.json"), "--", "false")
        page, told = (machine.folder / "r.html").read_text(), json.loads((machine.folder / "r.json").read_text())
        assert told["report"]["verdict"] == "unknown"
        assert re.search(r"exit code 1, after \d+\.\d s: the program&#x27;s own fault", page)
        assert "Nothing wrong was found" not in page
        assert "<pre></pre>" not in page

    def test_one_whose_reader_went(self, machine: Machine) -> None:
        line = " ".join([*machine.line("--", "yes"), "| head -1"])
        done = subprocess.run(["sh", "-c", line], env=machine.environ, capture_output=True, text=True, timeout=60, check=False)
        assert "signal 13: nobody read its output any more (SIGPIPE)" in done.stderr

    def test_quiet_says_nothing_of_what_went_well(self, machine: Machine) -> None:
        assert machine.run("--quiet", "--", "true").stderr == ""


# --- the pure parts


def finding(slug: str, layer: Layer = Layer.HARDWARE, **more: object) -> Finding:
    words = Text("title", "why", "fix")
    rule = Rule(slug=slug, layer=layer, severity=Severity.ERROR, check=lambda: iter(()), en=words, zh=words, see=())
    return Finding(rule=rule, **more)  # type: ignore[arg-type]


def report(*findings: Finding) -> Report:
    return Report(subject="", verdict=Verdict.FOUND, findings=findings)


@pytest.mark.parametrize(("code", "number", "sent", "found", "xids", "kind"), [
    (0, None, (), (finding("driver-hung"),), [79], ends.OK),
    (1, None, (), (), [], ends.PROGRAM),
    (1, None, (), (), [79], ends.GPU_FAULT),
    (1, None, (), (), [13], ends.PROGRAM),
    (1, None, (), (), [31, 43, 45], ends.PROGRAM),
    (1, None, (), (finding("ecc-uncorrectable"),), [], ends.GPU_FAULT),
    (1, None, (), (finding("ecc-uncorrectable", certainty=Certainty.POSSIBLE),), [], ends.PROGRAM),
    (1, None, (), (finding("oom-batch-too-large", Layer.CODE),), [], ends.OUT_OF_MEMORY),
    (137, 9, (), (finding("host-oom", Layer.SYSTEM),), [], ends.HOST_MEMORY),
    (137, 9, (), (), [], ends.SIGNAL),
    (143, 15, (15,), (), [], ends.STOPPED),
    (130, None, (2,), (), [], ends.STOPPED),
    (139, 11, (), (), [], ends.SIGNAL),
])  # fmt: skip
def test_how_it_ended(code: int, number: int | None, sent: Sequence[int], found: tuple[Finding, ...], xids: list[int], kind: str) -> None:
    used = Used(0, "GPU-0", xids=xids)
    told = ending(code, number, sent, report(*found), [used])
    assert told.kind == kind
    assert told.retry is (kind == ends.GPU_FAULT)
    assert told.gpus == (("GPU-0",) if kind == ends.GPU_FAULT else ())


NUMBER = st.none() | st.integers(0, 100)


@given(st.lists(st.tuples(NUMBER, st.none() | st.integers(0, 200_000), st.none() | st.integers(0, 1 << 50)), max_size=3000))
def test_what_was_used_is_bounded_and_true(rows: list[tuple[int | None, int | None, int | None]]) -> None:
    used = Used(0, "GPU-0")
    recorder = Recorder([used], 0.0)
    for at, (util, memory, energy) in enumerate(rows):
        row: list[int | None] = [None] * len(COLUMNS)
        row[0], row[COLUMNS.index("mem_used")], row[COLUMNS.index("energy")] = util, memory, energy
        recorder.take({"k": "s", "g": [row]}, float(at))
    assert len(used.line) <= MOST_POINTS
    assert used.peak == max((memory for _, memory, _ in rows if memory is not None), default=None)
    assert used.busy is None or 0 <= used.busy <= 1
    assert used.energy is None or used.energy >= 0


def test_indices_may_move_while_it_runs() -> None:
    used = Used(1, "GPU-b")
    recorder = Recorder([used], 0.0)
    recorder.take({"k": "gpu", "i": 0, "uuid": "GPU-b"}, 1.0)
    row: list[int | None] = [50, None, 7, *[None] * (len(COLUMNS) - 3)]
    recorder.take({"k": "s", "g": [row, [0] * len(COLUMNS)]}, 2.0)
    assert (used.peak, used.busy) == (7, 0.5)


@pytest.mark.parametrize(("seconds", "words"), [(3.21, "3.2 s"), (245, "4 min 5 s"), (7380, "2 h 03 min"), (59.97, "60.0 s")])
def test_durations(seconds: float, words: str) -> None:
    assert ends.duration(seconds, False) == words


class TestWithinAJob:
    def test_it_runs_on_the_gpus_of_the_job_that_it_is_a_part_of(self, machine: Machine) -> None:
        """Not: waits for itself. Under another python, which closes the descriptors of the leases."""
        inner = [*machine.line("--gpus", "1", "--quiet", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")]
        program = f"import subprocess, sys; sys.exit(subprocess.run({inner!r}).returncode)"
        done = machine.run("--gpus", "2", "--", sys.executable, "-c", program)
        assert (done.returncode, done.stdout.strip()) in [(0, gpu(n)) for n in range(4)], done.stderr

    def test_more_than_the_job_has_is_refused(self, machine: Machine) -> None:
        inner = " ".join(machine.line("--gpus", "2", "--wait", "--", "true"))
        done = machine.run("--gpus", "1", "--", "sh", "-c", inner)
        assert done.returncode == 2
        assert "hidden by CUDA_VISIBLE_DEVICES" in done.stderr

    def test_a_gpu_that_is_too_small_is_not_waited_for(self, machine: Machine) -> None:
        with leases.take(machine.folder / "leases", [gpu(0)], {"pid": os.getpid(), "command": "other"}):  # type: ignore[union-attr]
            assert machine.run("--memory", "100GiB", "--wait", "--", "true").returncode == 2


class TestSlices:
    """MIG on the fake NVML: no partitioned card was at hand."""

    NVML = (
        "gpu.0.mig = 1", "gpu.0.slice = 1,0,9728,12,1g.10gb", "gpu.0.slice = 5,0,19968,25,2g.20gb", "gpu.0.slice = 6,0,19968,25,2g.20gb",
    )  # fmt: skip

    def machine(self, folder: Path, nvml: Path, *more: str, cards: int = 1) -> Machine:
        return Machine(folder, nvml, *self.NVML, *more, cards=cards)

    def test_the_smallest_that_has_the_memory_and_only_one(self, tmp_path: Path, nvml: Path) -> None:
        machine = self.machine(tmp_path, nvml)
        assert f"GPU={slice_of(0, 0)} " in machine.run("--memory", "5GiB", "--", "sh", "-c", SHOW).stdout
        assert f"GPU={slice_of(0, 1)} " in machine.run("--memory", "12GiB", "--", "sh", "-c", SHOW).stdout
        done = machine.run("--gpus", "2", "--", "true")
        assert done.returncode == 2
        assert "(GPU 0 MIG 1g.10gb, 2 x GPU 0 MIG 2g.20gb: a program sees only one slice (MIG): ask for --gpus 1" in done.stderr

    def test_what_others_compute_on_or_hold_is_left_alone(self, tmp_path: Path, nvml: Path) -> None:
        machine = self.machine(tmp_path, nvml, "gpu.0.slice_proc = 1,777,3000")
        (tmp_path / "root/proc/777").mkdir(parents=True)
        (tmp_path / "root/proc/777/comm").write_text("python\n")
        one = machine.start("--memory", "12GiB", "--", "sh", "-c", f"{SHOW}; exec sleep 30")
        try:
            assert slice_of(0, 2) in first(one)
            done = machine.run("--memory", "12GiB", "--", "true")
            assert done.returncode == 75
            assert "GPU 0 MIG 2g.20gb: in use: pid 777 (python, 3000 MiB)" in done.stderr
            assert "GPU 0 MIG 2g.20gb: leased by " in done.stderr
        finally:
            os.killpg(one.pid, signal.SIGKILL)
            one.communicate()

    def test_a_slice_is_not_free_while_the_whole_card_is_held(self, tmp_path: Path, nvml: Path) -> None:
        machine = self.machine(tmp_path, nvml)
        with leases.take(tmp_path / "leases", [gpu(0)], {"pid": os.getpid(), "command": "other"}) as lease:  # type: ignore[union-attr]
            assert lease.gpus == (gpu(0),)
            done = machine.run("--", "true")
        assert done.returncode == 75
        assert "(GPU 0 MIG 1g.10gb, 2 x GPU 0 MIG 2g.20gb: leased by pid " in done.stderr
        assert machine.run("--", "true").returncode == 0

    def test_names_of_cuda_visible_devices(self, tmp_path: Path, nvml: Path) -> None:
        machine = self.machine(tmp_path, nvml, cards=2)
        for names in (slice_of(0, 1), f"MIG-{gpu(0)}/5/0", slice_of(0, 1)[:25]):
            assert slice_of(0, 1) in machine.run("--", "sh", "-c", SHOW, CUDA_VISIBLE_DEVICES=names).stdout, names
        assert "MIG-" in machine.run("--", "sh", "-c", SHOW, CUDA_VISIBLE_DEVICES="0").stdout
        assert gpu(1) in machine.run("--", "sh", "-c", SHOW, CUDA_VISIBLE_DEVICES="1").stdout

    @pytest.mark.parametrize(("name", "code", "words"), [
        (slice_of(0, 1), 0, ""), (slice_of(0, 7), 1, "gpu-not-found: "), ("1", 1, "gpu-fell-off-bus: "),
    ])  # fmt: skip
    def test_the_gate_knows_their_names_and_their_cards(self, tmp_path: Path, nvml: Path, name: str, code: int, words: str) -> None:
        machine = self.machine(tmp_path, nvml, "gpu.1.error = 15", cards=2)
        line = [sys.executable, "-m", "ongpu", "gate", "--root", str(tmp_path / "root"), "--gpus", name]
        done = subprocess.run(line, env=machine.environ, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stdout.startswith(words)) == (code, True), done.stdout

    def test_what_is_not_told_of_a_slice_is_not_made_up(self, tmp_path: Path, nvml: Path) -> None:
        machine = self.machine(tmp_path, nvml)
        one = machine.start("--memory", "5GiB", "--", "sh", "-c", "echo $$; sleep 4")
        machine.says(f"gpu.0.slice_proc = 0,{first(one)},3000", "gpu.0.slice_proc = 1,1,9000")
        _, errors = one.communicate(timeout=30)
        assert "busy -, memory peak 2.9 / 9.5 GiB, energy -" in errors
        assert "somebody else" not in errors


def test_those_that_nvlink_joins(tmp_path: Path, nvml: Path) -> None:
    machine = Machine(tmp_path, nvml, "gpu.0.nvlink_to = 3,4", "gpu.3.nvlink_to = 0,4", "gpu.1.nvlink_to = 2,2", "gpu.2.nvlink_to = 1,2")
    assert machine.run("--gpus", "2", "--", "sh", "-c", SHOW).stdout.split()[0] == f"GPU={gpu(0)},{gpu(3)}"
