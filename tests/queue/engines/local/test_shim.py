"""The shim, and what is read from its files: real shells, real kills."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ongpu.queue.engines.local import recovery, starter
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Run
from ongpu.queue.job import Spec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
LIMIT = 20.0
PRINT = "import os; print(ascii({n: os.environ.get(n) for n in ('BASH_FUNC_module%%', 'a.b', 'IFS', 'OPTIND', 'LC_X')}))"
IGNORED = "import signal as s; print([n.name for n in map(s.Signals, range(1, 32)) if s.getsignal(n) == s.SIG_IGN])"
BOOT = recovery.boot_id()


def run_of(here: Path, *command: str, attempt: int = 1, leases: tuple[tuple[str, int], ...] = (), **spec: Any) -> Run:
    asked = Spec(**{"command": command, "folder": str(here), "environ": {"PATH": os.environ["PATH"]}, **spec})
    where = here / "queue" / "jobs" / "7" / str(attempt)
    where.parent.parent.mkdir(parents=True, exist_ok=True)
    return Run(job=7, attempt=attempt, leases=leases, spec=asked, state="starting", claimed=time.time(), folder=where)


def wait(pid: int) -> int:
    """Its wait status."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("it did not end")


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


def whole(run: Run) -> Fate:
    """Started, awaited, and looked at."""
    wait(starter.start(run, [], BOOT))
    return recovery.fate(run.folder)


def output(run: Run) -> str:
    return (run.folder / "output").read_text()


def test_a_command_runs_in_its_folder_with_its_environment(tmp_path: Path) -> None:
    program = (
        'pwd; echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $ONGPU_JOB $ONGPU_ATTEMPT $ONGPU_ARRAY_INDEX $MINE"; echo bad >&2; exit 7'
    )
    leases = (("GPU-aaaa1111", 0), ("GPU-bbbb2222", 0))
    run = run_of(tmp_path, "sh", "-c", program, leases=leases, index=3, environ={"MINE": "a b", "PATH": os.environ["PATH"]})
    found = whole(run)
    assert (found.what, found.code) == (recovery.ENDED, 7)
    assert output(run) == f"{tmp_path}\nGPU-aaaa1111,GPU-bbbb2222 PCI_BUS_ID 7 1 3 a b\nbad\n"


@pytest.mark.parametrize(("end", "code"), [("exit 0", 0), ("exit 255", 255), ("kill -9 $$", 137), ("kill -USR1 $$", 138), ("kill $$", 143)])
def test_the_exit_code_is_the_commands(tmp_path: Path, end: str, code: int) -> None:
    found = whole(run_of(tmp_path, "sh", "-c", end))
    assert (found.what, found.code) == (recovery.ENDED, code)


def test_nothing_of_ours_is_in_the_output(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", "echo mine; kill -9 $$")
    assert whole(run).code == 137
    assert output(run) == "mine\n"


NOT_STARTED = {
    "no-folder": ({"folder": "gone"}, ["true"], 126),
    "not-found": ({}, ["no-such-command"], 127),
    "no-run-bit": ({}, ["./script"], 126),
    "is-folder": ({}, ["./sub"], 126),
    "no-output": ({"output": "gone/file"}, ["true"], 126),
}


@pytest.mark.parametrize("word", NOT_STARTED)
def test_what_cannot_be_started_says_why(tmp_path: Path, word: str) -> None:
    spec, command, code = NOT_STARTED[word]
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "sub").mkdir()
    more = {**spec, "folder": str(tmp_path / str(spec["folder"]))} if "folder" in spec else spec
    found = whole(run_of(tmp_path, *command, **more))
    assert (found.what, found.code, found.word) == (recovery.NOT_STARTED, code, word)


def test_a_script_whose_interpreter_is_missing(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    run = run_of(tmp_path, "./script")
    assert whole(run).code == 127
    assert "script" in output(run)


@pytest.mark.parametrize("path", ["{0}/a:{0}/b", ":{0}/b", "{0}/b:", "{0}/no:{0}/b:/usr/bin"])
def test_a_command_is_looked_for_as_everywhere(tmp_path: Path, path: str) -> None:
    for folder, text in (("a", ""), ("b", "#!/bin/sh\necho b $0\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "echo").write_text(text)
    (tmp_path / "b" / "echo").chmod(0o755)
    run = run_of(tmp_path, "echo", "x", environ={"PATH": path.format(tmp_path)})
    assert whole(run).code == 0
    assert output(run) == f"b {tmp_path}/b/echo\n", "not a builtin of the shell, and not what cannot be run"


@pytest.mark.parametrize("command", ["exit", "cd", "exec", "eval", "if"])
def test_what_only_a_shell_knows_is_no_command(tmp_path: Path, command: str) -> None:
    found = whole(run_of(tmp_path, command, "0", environ={"PATH": "/no:/where"}))
    assert (found.what, found.word) == (recovery.NOT_STARTED, "not-found")


def test_a_command_that_itself_says_127_was_started(tmp_path: Path) -> None:
    assert whole(run_of(tmp_path, "sh", "-c", "no-such-command")).what == recovery.ENDED


def test_variables_that_a_shell_would_lose_reach_the_command(tmp_path: Path) -> None:
    odd = {"BASH_FUNC_module%%": "() { :; }", "a.b": "c\nd", "IFS": ":", "OPTIND": "7", "PATH": os.environ["PATH"], "LC_X": "\udcff"}
    run = run_of(tmp_path, sys.executable, "-c", PRINT, environ=odd)  # fmt: skip
    assert whole(run).code == 0
    assert output(run) == ascii({name: value for name, value in odd.items() if name != "PATH"}) + "\n"


def test_our_own_variables_reach_no_command_and_change_none_of_its(tmp_path: Path) -> None:
    mine = {"ongpu_code": "1", "code": "2", "run": "3", "PATH": os.environ["PATH"]}
    run = run_of(tmp_path, "env", environ=mine)
    whole(run)
    told = dict(line.split("=", 1) for line in output(run).splitlines())
    assert {name: told[name] for name in ("code", "run")} == {"code": "2", "run": "3"}
    assert [name for name in told if name.startswith("ongpu_") and name not in mine] == []


def test_signals_reach_the_command_as_by_default(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = run_of(tmp_path, sys.executable, "-c", IGNORED)
        whole(run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert output(run) == "['SIGPIPE', 'SIGXFSZ']\n", "what Python itself ignores"


def test_the_output_of_a_job_is_appended_to_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"before\n")
    assert whole(run_of(tmp_path, "printf", "\\377\\000x\\n", output="log.txt")).code == 0
    assert (tmp_path / "log.txt").read_bytes() == b"before\n\xff\x00x\n"


def test_the_shim_survives_what_is_sent_to_its_group(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done")
    pid = starter.start(run, [], BOOT)
    until(lambda: (run.folder / "output").exists() and "ready" in output(run))
    os.killpg(pid, signal.SIGTERM)
    wait(pid)
    assert recovery.fate(run.folder).code == 3


def test_only_one_of_two_shims_starts_the_command(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", f"echo x >>{tmp_path}/ran; sleep 0.1")
    shims = [starter.start(run, [], BOOT) for _ in range(8)]
    for pid in shims:
        wait(pid)
    assert (tmp_path / "ran").read_text() == "x\n"


def test_a_run_that_was_given_up_is_never_started(tmp_path: Path) -> None:
    run = run_of(tmp_path, "touch", str(tmp_path / "ran"))
    assert recovery.fate(run.folder).what == recovery.NEVER
    wait(starter.start(run, [], BOOT))
    assert not (tmp_path / "ran").exists()
    assert recovery.void(run.folder), "twice is once"
    again = run_of(tmp_path, "true", attempt=2)
    assert whole(again).code == 0
    assert not recovery.void(again.folder), "it has begun"


def test_a_run_is_known_while_it_lives_and_after(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sleep", "60")
    pid = starter.start(run, [], BOOT)
    until(lambda: recovery.children(pid) and recovery.begun(run.folder))
    assert recovery.fate(run.folder) == Fate(recovery.RUNS, pid)
    assert 0 <= recovery.age(run.folder, pid, recovery.uptime()) < LIMIT
    (command,) = recovery.children(pid)
    assert recovery.processes(tmp_path / "queue") == {pid: str(run.folder), command: str(run.folder)}
    os.kill(pid, signal.SIGKILL)
    wait(pid)
    assert recovery.fate(run.folder) == Fate(recovery.ORPHAN, command), "its command lives on"
    os.kill(command, signal.SIGKILL)
    until(lambda: recovery.fate(run.folder).what == recovery.GONE)


def test_after_a_reboot(tmp_path: Path) -> None:
    run = run_of(tmp_path, "true")
    run.folder.mkdir(parents=True)
    (run.folder / "start").write_text(f"{os.getpid()} 00000000-0000-4000-8000-000000000000\n")
    assert recovery.fate(run.folder).what == recovery.REBOOTED
    other = run_of(tmp_path, "true", attempt=2)
    assert recovery.fate(other.folder, rebooted=True).what == recovery.REBOOTED, "its start may have been lost with the power"
    done = run_of(tmp_path, "true", attempt=3)
    whole(done)
    assert recovery.fate(done.folder, rebooted=True).code == 0


def test_a_start_that_was_never_filled_never_ran(tmp_path: Path) -> None:
    run = run_of(tmp_path, "true")
    run.folder.mkdir(parents=True)
    for text in ("", "12", "12 ", f"12 {BOOT}", "x y\n"):
        (run.folder / "start").write_text(text)
        assert recovery.fate(run.folder).what == recovery.NEVER


def test_a_pid_that_somebody_else_has_now_is_no_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, "true")
    run.folder.mkdir(parents=True)
    (run.folder / "start").write_text(f"{os.getpid()} {BOOT}\n")
    assert recovery.fate(run.folder).what == recovery.GONE


@pytest.mark.parametrize("text", ["", "7", "x\n", "7\n7\n", "-1\n", "1e3\n", "999\n", "\udcff\n"])
def test_half_an_exit_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "exit").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert recovery.code_of(tmp_path) is None


def test_a_full_disk_stops_the_command_before_it_begins(tmp_path: Path) -> None:
    run = run_of(tmp_path, "touch", str(tmp_path / "ran"))
    run.folder.mkdir(parents=True)
    os.symlink("/dev/full", run.folder / "start")  # O_EXCL does not follow it: as a file that another made
    wait(starter.start(run, [], BOOT))
    assert not (tmp_path / "ran").exists()


def test_the_leases_live_as_long_as_the_command(tmp_path: Path) -> None:
    read, write = os.pipe()
    run = run_of(tmp_path, "sleep", "0.3")
    pid = starter.start(run, [write], BOOT)
    assert not os.get_inheritable(write)
    os.close(write)
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    wait(pid)
    assert os.read(read, 1) == b"", "all who held it are gone"
    os.close(read)


def test_what_no_shell_takes_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        starter.start(run_of(tmp_path, "true", "x" * (1 << 20)), [], BOOT)


def test_passed_variables() -> None:
    told: Mapping[str, str] = {"A": "1", "a_1": "2", "1a": "3", "a.b": "4", "IFS": "5", "": "6"}
    assert starter.passed(told) == {"A": "1", "a_1": "2"}
