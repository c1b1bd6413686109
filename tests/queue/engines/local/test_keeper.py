"""Keepers, and what is read from their files: real processes, real kills."""

import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from keeping import BOOT, LIMIT, PATH, Kept, output, run_of, until, whole

from ongpu.queue.engines.local import keeper, recovery
from ongpu.queue.engines.local.keepers import Keeper
from ongpu.queue.engines.local.recovery import Fate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
PRINT = "import os; print(ascii({n: os.environ.get(n) for n in ('BASH_FUNC_module%%', 'a.b', 'IFS', 'OPTIND', 'LC_X')}))"
IGNORED = "import signal as s; print([n.name for n in map(s.Signals, range(1, 32)) if s.getsignal(n) == s.SIG_IGN])"


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


def test_variables_with_odd_names_reach_the_command(tmp_path: Path) -> None:
    odd = {"BASH_FUNC_module%%": "() { :; }", "a.b": "c\nd", "IFS": ":", "OPTIND": "7", "PATH": os.environ["PATH"], "LC_X": "\udcff"}
    run = run_of(tmp_path, sys.executable, "-c", PRINT, environ=odd)  # fmt: skip
    assert whole(run).code == 0
    assert output(run) == ascii({name: value for name, value in odd.items() if name != "PATH"}) + "\n"


def test_nothing_of_our_environment_reaches_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONGPU_TEST_OURS", "1")
    run = run_of(tmp_path, "env", environ={"MINE": "2", **PATH})
    whole(run)
    told = dict(line.split("=", 1) for line in output(run).splitlines())
    assert told["MINE"] == "2"
    assert not {"ONGPU_TEST_OURS", recovery.KEEPS} & set(told)


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


def test_a_keeper_survives_what_is_sent_to_it_and_to_the_command(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done")
    kept = Kept(run)
    until(lambda: (run.folder / "output").exists() and "ready" in output(run))
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(kept.keeper.pid, each)
    (command,) = recovery.children(kept.keeper.pid)
    assert (os.getsid(command), os.getpgid(command)) == (command, command)
    os.killpg(command, signal.SIGTERM)
    assert kept.told().code == 3


def test_one_keeper_keeps_run_after_run(tmp_path: Path) -> None:
    one = Keeper()
    for attempt in range(1, 6):
        program = f'echo "$A $1"; exit {attempt}'
        run = run_of(tmp_path, "sh", "-c", program, "x", str(attempt), environ={"A": f"a{attempt}", **PATH}, attempt=attempt)
        read, write = os.pipe()
        one.keep(run, [write], BOOT)
        os.close(write)
        assert select.select([one.link], [], [], LIMIT)[0]
        told = one.told()
        assert told == Fate(recovery.ENDED, code=attempt) == recovery.fate(run.folder)
        assert os.read(read, 1) == b"", "the lease is let go of before it says so"
        os.close(read)
        assert output(run) == f"a{attempt} {attempt}\n"
        assert not recovery.keeps(one.pid, run.folder)
        assert os.readlink(f"/proc/{one.pid}/cwd") == "/", "no file system is kept busy"
    assert recovery.keepers()[one.pid]
    files = len(os.listdir(f"/proc/{one.pid}/fd"))
    assert files <= 4, "nothing of the runs is open"
    one.close()
    until(lambda: os.waitpid(one.pid, os.WNOHANG)[0])


def test_a_keeper_whose_daemon_is_gone_ends_with_its_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 5")
    kept = Kept(run)
    until(lambda: recovery.begun(run.folder))
    kept.keeper.close()
    assert recovery.fate(run.folder) == Fate(recovery.RUNS, kept.keeper.pid)
    (tmp_path / "go").touch()
    until(lambda: os.waitpid(kept.keeper.pid, os.WNOHANG)[0])
    assert recovery.fate(run.folder).code == 5


def test_a_keeper_between_making_start_and_filling_it_keeps_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sleep", "60")
    kept = Kept(run)
    until(lambda: recovery.begun(run.folder))
    (run.folder / "start").write_text("")
    assert recovery.fate(run.folder) == Fate(recovery.RUNS, kept.keeper.pid)
    (command,) = recovery.children(kept.keeper.pid)
    os.kill(command, signal.SIGKILL)
    kept.told()


def test_only_one_of_many_keepers_starts_the_command(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", f"echo x >>{tmp_path}/ran; sleep 0.1")
    told = [kept.told() for kept in [Kept(run) for _ in range(8)]]
    assert (tmp_path / "ran").read_text() == "x\n"
    assert sorted(fate.what for fate in told) == [recovery.ENDED, *[recovery.NEVER] * 7]


def test_a_run_that_was_given_up_is_never_started(tmp_path: Path) -> None:
    run = run_of(tmp_path, "touch", str(tmp_path / "ran"))
    assert recovery.fate(run.folder).what == recovery.NEVER
    assert Kept(run).told() == Fate(recovery.NEVER)
    assert not (tmp_path / "ran").exists()
    assert recovery.void(run.folder), "twice is once"
    again = run_of(tmp_path, "true", attempt=2)
    assert whole(again).code == 0
    assert not recovery.void(again.folder), "it has begun"


def test_a_run_is_known_while_it_lives_and_after(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sleep", "60")
    kept = Kept(run)
    pid = kept.keeper.pid
    until(lambda: recovery.children(pid) and (found := recovery.begun(run.folder)) and found.command)
    assert recovery.fate(run.folder) == Fate(recovery.RUNS, pid)
    (command,) = recovery.children(pid)
    assert recovery.begun(run.folder) == recovery.Begun(pid, BOOT, command)
    assert 0 <= recovery.age(run.folder, command, recovery.uptime()) < LIMIT
    assert recovery.processes(tmp_path / "queue") == {command: str(run.folder)}
    kept.end(kill=True)
    assert recovery.fate(run.folder) == Fate(recovery.ORPHAN, command), "its command lives on"
    os.kill(command, signal.SIGKILL)
    until(lambda: recovery.fate(run.folder).what == recovery.GONE)


def test_a_command_without_our_environment_is_known_by_its_session(tmp_path: Path) -> None:
    run = run_of(tmp_path, "env", "-i", "sleep", "60")
    kept = Kept(run)
    until(lambda: (found := recovery.begun(run.folder)) and found.command)
    known = recovery.begun(run.folder)
    assert known
    until(lambda: os.readlink(f"/proc/{known.command}/exe").endswith("sleep"))
    kept.end(kill=True)
    assert recovery.fate(run.folder) == Fate(recovery.ORPHAN, known.command)
    os.kill(known.command, signal.SIGKILL)


def test_a_full_disk_stops_the_command_before_it_begins(tmp_path: Path) -> None:
    run = run_of(tmp_path, "touch", str(tmp_path / "ran"))
    run.folder.mkdir(parents=True)
    os.symlink("/dev/full", run.folder / "start")  # O_EXCL does not follow it: as a file that another made
    assert Kept(run).told() == Fate(recovery.NEVER)
    assert not (tmp_path / "ran").exists()


def test_an_exit_code_is_written_down_when_there_is_room_again(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", "exit 9")
    run.folder.mkdir(parents=True)
    os.symlink("/dev/full", run.folder / "exit")
    kept = Kept(run)
    until(lambda: recovery.begun(run.folder) and not recovery.children(kept.keeper.pid))
    assert recovery.fate(run.folder) == Fate(recovery.RUNS, kept.keeper.pid), "it is not over before that"
    (run.folder / "exit").unlink()
    assert kept.told().code == 9 == recovery.code_of(run.folder)


def test_the_folder_of_a_run_may_be_removed_meanwhile(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 9")
    kept = Kept(run)
    until(lambda: recovery.begun(run.folder))
    shutil.rmtree(run.folder)
    (tmp_path / "go").touch()
    assert kept.told().code == 9


def test_a_command_that_is_too_long_says_so(tmp_path: Path) -> None:
    found = whole(run_of(tmp_path, "true", "x" * (1 << 20)))
    assert (found.what, found.code, found.word) == (recovery.NOT_STARTED, 126, "too-long")


def test_a_pipe_that_nobody_reads_is_no_output(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    run = run_of(tmp_path, sys.executable, "-c", "import os; print(os.get_blocking(1))", output="pipe")
    assert whole(run).word == "no-output"
    read = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    again = run_of(tmp_path, *run.spec.command, output="pipe", attempt=2)
    assert whole(again).code == 0
    assert os.read(read, 100) == b"True\n"
    os.close(read)


def test_a_command_that_cannot_be_started_while_its_outputs_disk_is_full(tmp_path: Path) -> None:
    found = whole(run_of(tmp_path, "true", "x" * (1 << 20), output="/dev/full"))
    assert (found.what, found.code, found.word) == (recovery.NOT_STARTED, 126, "too-long")


def test_a_variable_without_a_name_is_left_out(tmp_path: Path) -> None:
    assert whole(run_of(tmp_path, "true", environ={"": "x", **PATH})).code == 0


WORDS = r"""import sys, time; from pathlib import Path
from ongpu.queue.engines.local import starter; from ongpu.queue.engines.local.rows import Run; from ongpu.queue.job import Spec
spec = Spec(command=("echo", "\u4e2d\U0001f600", "\udcff"), folder="/x", environ={"A": "\xe9"})
run = Run(job=7, attempt=1, leases=(), spec=spec, state="starting", claimed=0.0, folder=Path("/queue/jobs/7/1"))
sys.stdout.buffer.write(starter.message(run, "-"))"""


def test_words_that_the_daemons_locale_has_not(tmp_path: Path) -> None:
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", **PATH}
    told = subprocess.run([sys.executable, "-c", WORDS], env=ascii_only, check=True, capture_output=True, timeout=LIMIT).stdout.split(b"\0")
    assert told[5:8] == [b"echo", "\u4e2d\U0001f600".encode(), b"\xff"]
    assert b"A=\xc3\xa9" in told


def test_a_null_byte_is_refused(tmp_path: Path) -> None:
    one = Keeper()
    with pytest.raises(ValueError, match="null"):
        one.keep(run_of(tmp_path, "true", "a\0b"), [], BOOT)
    one.close()
    until(lambda: os.waitpid(one.pid, os.WNOHANG)[0])


def test_a_script_that_names_no_interpreter_is_the_shells(tmp_path: Path) -> None:
    (tmp_path / "script").write_text('echo "$0 $1"\n')
    (tmp_path / "script").chmod(0o755)
    run = run_of(tmp_path, "./script", "a b")
    assert whole(run).code == 0
    assert output(run) == "./script a b\n"


def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that was built for an old glibc: as those of python-build-standalone, which uv installs."""
    real = os.posix_spawn

    def spawn(*words: Any, setsid: bool = False, **more: Any) -> int:
        if setsid:
            raise NotImplementedError("posix_spawn: setsid unavailable on this platform")
        return real(*words, **more)

    monkeypatch.setattr(os, "posix_spawn", spawn)
    monkeypatch.delattr(os, "memfd_create")


def test_a_python_for_an_old_glibc_starts_keepers_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old(monkeypatch)
    run = run_of(tmp_path, "sh", "-c", "exit 3")
    kept = Kept(run)
    assert os.getsid(kept.keeper.pid) == kept.keeper.pid
    assert kept.told() == Fate(recovery.ENDED, code=3)
    null = os.open(os.devnull, os.O_WRONLY)
    pid = keeper.started(b"/bin/sh", [b"sh", b"-c", b'[ "$(ps -o pgid= -p $$)" -eq $$ ]'], {b"PATH": keeper.PATH}, null)
    os.close(null)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "it leads a process group"
