"""`ongpu run` where something around it fails or ends it: streams, scripts that cannot start, a person who stops it, others' words."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from parts.runs import Machine, gpu

from ongpu.fronts.run_words import Bad, command
from ongpu.hosts import leases, oom_kills
from ongpu.model import Certainty, Finding, Layer, Report, Rule, Severity, Text, Verdict
from ongpu.queue import postmortem
from ongpu.queue import run as ends
from ongpu.queue.machine import told
from ongpu.queue.run import Used, ending

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs commands as Linux does")


@pytest.fixture
def machine(tmp_path: Path, nvml: Path) -> Machine:
    return Machine(tmp_path, nvml)


def shell(machine: Machine, redirected: str, *arguments: str) -> int:
    """The exit code of `ongpu run`, started by a shell with these redirections."""
    line = [*machine.line(*arguments)]
    words = ["bash", "-c", f'"$@" {redirected}; exit ${{PIPESTATUS[0]}}', "-", *line]
    return subprocess.run(words, cwd=machine.folder, env=machine.environ, check=False, timeout=60, capture_output=True).returncode


class TestStreams:
    @pytest.mark.parametrize("redirected", ["2>/dev/full", ">/dev/full", "2>&1 | true", "2>&-", ">&-", "<&- >&- 2>&-"])
    def test_whatever_takes_our_words_the_command_runs_and_its_code_is_ours(self, machine: Machine, redirected: str) -> None:
        assert shell(machine, redirected, "--", "sh", "-c", "echo ran > ran; exit 4") == 4
        assert (machine.folder / "ran").exists()

    def test_a_closed_stream_is_never_another_file(self, machine: Machine) -> None:
        """A lease took its place, and the command wrote into it; our own words went to its output."""
        for redirected in (">out 2>&-", "<&- >out 2>&-"):
            assert shell(machine, redirected, "--", "sh", "-c", "echo words; readlink /proc/$$/fd/2 >place; exit 4") == 4
            assert (machine.folder / "out").read_text() == "words\n"
            assert (machine.folder / "place").read_text() == "", "closed, as it was"

    def test_our_words_begin_on_a_line_of_their_own(self, machine: Machine) -> None:
        done = machine.run("--", "sh", "-c", "printf 50%% >&2")
        assert "50%\nongpu: ran " in done.stderr
        with open(machine.folder / "log", "wb") as log:
            subprocess.run(machine.line("--", "printf", "50%%"), env=machine.environ, stdout=log, stderr=log, check=True, timeout=60)
        assert "50%\nongpu: ran " in (machine.folder / "log").read_text()

    def test_what_it_wrote_last_is_told_without_what_a_terminal_obeys(self, machine: Machine) -> None:
        done = machine.run("--", "sh", "-c", r"printf '\033[31mall is lost\033[0m\n'; exit 1")
        assert "its last words: all is lost\n" in done.stderr


@pytest.mark.parametrize(("text", "code", "words"), [
    (b"#!/bin/nosuch -x\n", 127, "an interpreter that is not there: /bin/nosuch"),
    (b"#!/bin/sh\r\necho hi\r\n", 127, "lines end as on Windows"),
    (b"echo hi\n", 126, "names no interpreter"),
    ("# 训练\necho hi\n".encode(), 126, "names no interpreter"),
    (b"", 126, "names no interpreter"),
])  # fmt: skip
def test_a_script_that_cannot_start_is_refused_before_it_waits(tmp_path: Path, text: bytes, code: int, words: str) -> None:
    script = tmp_path / "train"
    script.write_bytes(text)
    script.chmod(0o755)
    with pytest.raises(Bad) as bad:
        command(["--", str(script)])
    assert bad.value.code == code
    assert words in bad.value.english
    assert any("\u4e00" <= char <= "\u9fff" for char in bad.value.chinese)


@pytest.mark.parametrize("text", [b"#!/bin/sh\n", b"#! /usr/bin/env python3\n", b"#!/bin/sh", b"\x7fELF\0", bytes(range(1, 256))])
def test_what_may_start_is_let_through(tmp_path: Path, text: bytes) -> None:
    script = tmp_path / "train"
    script.write_bytes(text)
    script.chmod(0o755)
    assert command([str(script), "1"]) == [str(script), "1"]


@pytest.mark.parametrize("option", ["--memory", "--report"])
def test_an_option_whose_variable_was_not_set_is_refused(machine: Machine, option: str) -> None:
    done = machine.run(option, "", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")


class TestStopped:
    def test_one_that_was_asked_to_end_and_did_so_in_its_own_way(self, machine: Machine) -> None:
        one = machine.start("--", "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done")
        assert one.stdout
        assert one.stdout.readline() == "up\n"
        one.terminate()
        _, errors = one.communicate(timeout=30)
        assert one.returncode == 7
        assert "exit code 7: stopped on request" in errors

    def test_who_stops_it_while_a_gpu_fails_does_not_see_it_start_anew(self, tmp_path: Path, nvml: Path) -> None:
        machine = Machine(tmp_path, nvml, "gpu.0.xid = 79", "gpu.0.xid_after_s = 1")
        one = machine.start("--retry-on-gpu-fault", "--", "sh", "-c", "echo up; trap 'sleep 4; exit 9' TERM; while :; do sleep 0.05; done")
        assert one.stdout
        assert one.stdout.readline() == "up\n"
        one.terminate()
        out, errors = one.communicate(timeout=30)
        assert (one.returncode, out) == (9, "")
        assert "a GPU is at fault" in errors

    def test_where_no_other_gpu_is_left_its_own_exit_code_is_told(self, tmp_path: Path, nvml: Path) -> None:
        machine = Machine(tmp_path, nvml, "gpu.0.xid = 79", "gpu.0.xid_after_s = 1", cards=1)
        done = machine.run("--retry-on-gpu-fault", "--", "sh", "-c", "sleep 3; exit 7")
        assert done.returncode == 7
        assert "ongpu: not started anew: --gpus 1: this machine has 1; none would fit (GPU 0: was at fault before)" in done.stderr
        assert "started anew elsewhere" not in done.stderr

    @pytest.mark.parametrize("kind", ["json", "html"])
    def test_the_report_keeps_what_became_of_the_first_try(self, tmp_path: Path, nvml: Path, kind: str) -> None:
        machine = Machine(tmp_path, nvml, "gpu.0.xid = 79", "gpu.0.xid_after_s = 1")
        file = tmp_path / f"r.{kind}"
        program = "case $CUDA_VISIBLE_DEVICES in *0) sleep 3; exit 7;; esac"
        assert machine.run("--retry-on-gpu-fault", "--report", str(file), "--", "sh", "-c", program).returncode == 0
        if kind == "html":
            assert "before: exit code 7, after " in file.read_text()
            assert f"a GPU is at fault, not the program: another GPU may do {gpu(0)}" in file.read_text()
            return
        tries = json.loads(file.read_text())["tries"]
        assert [(one["code"], one["ending"], one["gpus_at_fault"]) for one in tries] == [(7, "gpu-fault", [gpu(0)]), (0, "ok", [])]


class TestWords:
    def test_an_exit_code_of_a_shell_stands_for_a_signal(self, machine: Machine) -> None:
        done = machine.run("--", "sh", "-c", "exit 137")
        assert done.returncode == 137
        assert "exit code 137 (signal 9 within): " in done.stderr
        assert "the program's own fault" not in done.stderr

    @pytest.mark.skipif(not oom_kills.count(), reason="the kernel counts nothing here")
    def test_killed_is_no_want_of_memory_where_the_kernel_counted_none(self, machine: Machine) -> None:
        done = machine.run("--", "bash", "-c", "bash -c 'kill -9 $$'; echo Killed >&2; exit 137")
        assert "the host's memory (RAM) ran out" not in done.stderr
        assert "host-oom" not in done.stderr

    def test_where_others_hold_the_memory_it_is_not_said_that_the_same_again_will_end_the_same(self, machine: Machine) -> None:
        words = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
            "1.20 GiB is free. Process 777 has 50.00 GiB memory in use. Including non-PyTorch memory, this process has 27.90 GiB memory "
            "in use. Of the allocated memory 26.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
        )  # fmt: skip
        (machine.folder / "words").write_text(words)
        done = machine.run("--", "sh", "-c", f"cat {machine.folder}/words >&2; exit 1")
        assert "the GPU's memory ran out: others hold a part of it" in done.stderr
        assert "the same again" not in done.stderr

    def test_a_gpu_that_was_never_used_is_told_after_a_while_and_a_short_run_tells_nothing(self, machine: Machine) -> None:
        assert "gpu-free" not in machine.run("--", "sh", "-c", "sleep 1.5; exit 1").stderr
        assert "no program of the command computed on it" in machine.run("--", "sleep", "6.5").stderr

    def test_a_number_of_a_process_that_is_not_here_is_no_stranger(self, machine: Machine) -> None:
        """In a container NVML tells the host's numbers, of the command itself too."""
        one = machine.start("--", "sh", "-c", "echo up; sleep 4")
        assert one.stdout
        one.stdout.readline()
        machine.says("gpu.0.proc = 4194305,4096,C")  # above all that Linux gives (proc(5): pid_max)
        _, errors = one.communicate(timeout=30)
        assert "somebody else" not in errors

    def test_a_lease_that_somebody_spoiled_hides_no_other(self, machine: Machine) -> None:
        place = machine.folder / "leases"
        with leases.take(place, [gpu(1)], {"pid": os.getpid(), "command": "other"}):  # type: ignore[union-attr]
            (place / gpu(0)).mkdir()
            done = machine.run("--gpus", "4", "--", "true")
        assert done.returncode == 75
        assert "GPU 1: leased by pid " in done.stderr

    def test_the_environment_of_a_job_that_ended_lends_nothing(self, machine: Machine) -> None:
        """As a tmux has it that was started by one."""
        machine.environ["ONGPU_LEASED"] = gpu(2)
        one = machine.start("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 30")
        del machine.environ["ONGPU_LEASED"]
        try:
            assert one.stdout
            uuid = one.stdout.readline().strip()
            assert uuid in leases.held(machine.folder / "leases", [uuid])
        finally:
            os.killpg(one.pid, signal.SIGKILL)
            one.communicate()

    def test_what_was_left_behind_is_told_in_ones_own_language(self) -> None:
        assert told(leases.Holder("GPU-1", pid=7, command="sleep", ended=True), "zh") == "pid 7 遗留的进程：sleep"


# --- the pure parts


def found(slug: str, **more: object) -> Finding:
    words = Text("title", "why", "fix")
    rule = Rule(
        slug=slug, layer=Layer.SYSTEM, severity=Severity.ERROR, check=lambda: iter(()), en=words, zh=words, see=(),
        variants={"limit": (words, words)},
    )  # fmt: skip
    return Finding(rule=rule, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("finding", "stays"), [
    (found("host-oom", certainty=Certainty.LIKELY), False),
    (found("host-oom"), True),
    (found("host-oom", certainty=Certainty.LIKELY, variant="limit"), True),
    (found("nccl-timeout", certainty=Certainty.LIKELY), True),
])  # fmt: skip
def test_only_a_mere_word_is_overruled_by_the_kernels_counters(finding: Finding, stays: bool) -> None:
    report = postmortem.spared(Report(subject="", verdict=Verdict.FOUND, findings=(finding,)))
    assert (report.findings, report.verdict) == (((finding,), Verdict.FOUND) if stays else ((), Verdict.UNKNOWN))


@pytest.mark.parametrize(("code", "number"), [(137, 9), (143, 15), (139, 11), (130, 2), (129, None), (1, None), (255, None), (128, None)])
def test_exit_codes_that_stand_for_signals(code: int, number: int | None) -> None:
    assert ends.signal_of(code) == number


@pytest.mark.parametrize(("sent", "kind"), [((), ends.PROGRAM), ((signal.SIGUSR1,), ends.PROGRAM), ((signal.SIGTERM,), ends.STOPPED)])
def test_who_was_asked_to_end_and_did_was_stopped(sent: tuple[int, ...], kind: str) -> None:
    assert ending(7, None, sent, Report(subject="", verdict=Verdict.UNKNOWN), [Used(0, "GPU-0")]).kind == kind
