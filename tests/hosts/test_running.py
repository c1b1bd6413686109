"""A command started through us behaves as without us: streams, terminals, signals, exit codes; the end of its output is kept."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="terminals and signals of Linux")
HARNESS = """
import os, sys
from ongpu.hosts.running import Running
running = Running(sys.argv[2:], os.environ)
while running.status is None:
    running.step(0.5)
running.close()
open(sys.argv[1], "w").write(running.output())
sys.stdout.flush()
os._exit(running.status)
"""
ABOUT = (
    "import os, sys, stat; tell = lambda s: '|'.join(str(os.isatty(n)) for n in (0, 1, 2)); print(tell(0));"
    "print('kind', stat.S_IFMT(os.fstat(1).st_mode)); print('err', file=sys.stderr)"
)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def command(kept: Path, *argv: str) -> list[str]:
    return [sys.executable, "-c", HARNESS, str(kept), *argv]


def start(kept: Path, *argv: str, **more: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command(kept, *argv), **more)  # type: ignore[call-overload, no-any-return]


class TestPipesAndFiles:
    @pytest.mark.parametrize("code", [0, 1, 3, 255])
    def test_the_exit_code_is_the_commands(self, kept: Path, code: int) -> None:
        assert start(kept, "sh", "-c", f"exit {code}").wait(20) == code

    @pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV"])
    def test_a_signal_is_told_as_shells_do(self, kept: Path, name: str) -> None:
        assert start(kept, "sh", "-c", f"kill -{name} $$").wait(20) == 128 + getattr(signal, f"SIG{name}")

    def test_input_and_output_pass_through_and_are_kept(self, kept: Path) -> None:
        done = subprocess.run(command(kept, "sh", "-c", "cat; echo err >&2"), input=b"a\xffb\n" * 50_000, capture_output=True, timeout=30)
        assert done.stdout == b"a\xffb\n" * 50_000
        assert done.stderr == b"err\n"
        assert 60_000 < len(kept.read_bytes()) < 140_000
        assert "err" in kept.read_text()

    def test_a_file_stays_a_file(self, kept: Path, tmp_path: Path) -> None:
        with open(tmp_path / "out", "wb") as out:
            out.write(b"before\n")
            out.flush()
            program = "import os; os.write(1, b'xxxx\\n'); os.lseek(1, -5, 1); os.write(1, b'y')"
            assert start(kept, sys.executable, "-c", program, stdout=out).wait(20) == 0
        assert (tmp_path / "out").read_bytes() == b"before\nyxxx\n"
        assert kept.read_text() == "yxxx\n"

    def test_one_pipe_for_both_keeps_their_order(self, kept: Path) -> None:
        program = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done"
        done = subprocess.run(command(kept, "sh", "-c", program), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
        assert done.stdout.decode().split() == [f"{kind}{i}" for i in range(1, 10) for kind in ("out", "err")]

    def test_a_reader_that_goes_away_ends_it_as_without_us(self, kept: Path) -> None:
        line = " ".join(f"'{word}'" for word in command(kept, "yes"))
        done = subprocess.run(["bash", "-c", f"{line} | head -n 1; exit ${{PIPESTATUS[0]}}"], capture_output=True, timeout=20)
        assert (done.returncode, done.stdout) == (128 + signal.SIGPIPE, b"y\n")

    @pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1"])
    def test_signals_that_are_sent_to_us_reach_it(self, kept: Path, name: str) -> None:
        program = f"trap 'echo got; exit 9' {name}; echo up; while :; do sleep 0.05; done"
        process = start(kept, "sh", "-c", program, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.communicate(timeout=20)[0] == b"got\n"
        assert process.returncode == 9

    def test_a_second_command_hears_its_signals_too(self, kept: Path) -> None:
        first = "first = Running(['true'], os.environ)\nwhile first.status is None: first.step(0.5)\nfirst.close()\n"
        twice = HARNESS.replace("running = ", first + "running = ")
        program = "trap 'echo got; exit 9' TERM; echo up; while :; do sleep 0.05; done"
        words = [sys.executable, "-c", twice, str(kept), "sh", "-c", program]
        for _ in range(5):
            with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
                assert process.stdout
                assert process.stdout.readline() == b"up\n"
                process.terminate()
                assert process.stdout.read() == b"got\n"
                assert process.wait(20) == 9

    def test_what_it_leaves_behind_does_not_hold_us(self, kept: Path) -> None:
        begin = time.monotonic()
        process = start(kept, "sh", "-c", "sleep 30 & echo $!", stdout=subprocess.PIPE)
        assert process.wait(20) == 0
        assert time.monotonic() - begin < 10
        assert process.stdout
        os.kill(int(process.stdout.readline()), signal.SIGKILL)
        process.stdout.close()


class Terminal:
    """A terminal of its own, in which a program runs: keys are typed, the screen is read."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "$ "
            os.execvp(argv[0], argv)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def until(self, words: str, seconds: float = 20.0) -> str:
        """Waits until the screen shows the words; they are then behind us."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.file], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.file, 65536).decode("utf-8", "replace")
                except OSError:
                    break
        before, found, self.seen = self.seen.partition(words)
        assert found, before
        return before

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


@pytest.fixture
def shell() -> "Iterator[Terminal]":
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"])
    terminal.until("$ ")
    yield terminal
    terminal.close()


def line(kept: Path, program: str) -> str:
    """The command line, with quotes, of a Python program under us."""
    file = kept.parent / "program.py"
    file.write_text(program)
    (kept.parent / "harness.py").write_text(HARNESS)
    return f"{sys.executable} {kept.parent}/harness.py {kept} {sys.executable} -u {file}"


class TestInATerminal:
    def test_it_sees_terminals_and_their_size(self, shell: Terminal, kept: Path) -> None:
        shell.type(f"stty cols 77; {line(kept, ABOUT + '; print(os.get_terminal_size().columns, chr(33))')}\n")
        shell.until("True|True|True")
        shell.until("77 !")
        shell.until("$ ")
        assert "err" in kept.read_text()

    def test_a_pipe_behind_it_is_a_pipe(self, shell: Terminal, kept: Path) -> None:
        shell.type(line(kept, "import os; print(*(os.isatty(n) for n in (0, 1, 2)), sep='|')") + " | cat\n")
        shell.until("True|False|True")
        shell.until("$ ")

    def test_ctrl_c_reaches_it_and_its_answer_is_its_own(self, shell: Terminal, kept: Path) -> None:
        program = "import time\ntry:\n print('u' + 'p'); time.sleep(60)\nexcept KeyboardInterrupt: print('ca' + 'ught'); exit(4)"
        shell.type(line(kept, program) + "\n")
        shell.until("up")
        shell.type("\x03")
        shell.until("caught")
        shell.until("$ ")
        shell.type("echo code $?.\n")
        shell.until("code 4.")

    def test_ctrl_z_stops_it_and_fg_goes_on(self, shell: Terminal, kept: Path) -> None:
        shell.type(line(kept, "print('u' + 'p')\nprint('re' + 'ad', input())") + "\n")
        shell.until("up")
        shell.type("\x1a")
        shell.until("Stopped")
        shell.type("jobs; stty -a | grep -o ' icanon'\n")
        shell.until("Stopped")
        shell.until(" icanon")
        shell.type("fg\n")
        shell.until("harness.py")
        time.sleep(0.3)
        shell.type("hello\n")
        shell.until("read hello")
        shell.until("$ ")
        shell.type("echo code $?.\n")
        shell.until("code 0.")

    def test_ctrl_z_where_no_shell_could_wake_it_stops_nothing(self, kept: Path) -> None:
        program = "import time\nprint('u' + 'p')\ntime.sleep(0.6)\nprint('go' + 'es on')"
        terminal = Terminal(command(kept, sys.executable, "-u", "-c", program))
        try:
            terminal.until("up")
            terminal.type("\x1a")
            terminal.until("goes on")
        finally:
            terminal.close()

    def test_ctrl_d_is_the_end_of_its_input(self, shell: Terminal, kept: Path) -> None:
        shell.type(line(kept, "import sys; print('u' + 'p'); print(len(sys.stdin.read()), 'letters')") + "\n")
        shell.until("up")
        shell.type("abc\n\x04")
        shell.until("4 letters")

    def test_a_new_size_is_told(self, shell: Terminal, kept: Path) -> None:
        program = (
            "import os, signal, time\nsignal.signal(signal.SIGWINCH, lambda *_: print('w', os.get_terminal_size().columns, '.'))\n"
            "print('u' + 'p')\ntime.sleep(3)"
        )
        shell.type(line(kept, program) + "\n")
        shell.until("up")
        import fcntl
        import struct
        import termios

        fcntl.ioctl(shell.file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
        shell.until("w 123 .")

    def test_in_the_background_it_runs_and_takes_no_keys(self, shell: Terminal, kept: Path) -> None:
        shell.type(line(kept, "import time; time.sleep(0.5); print('do' + 'ne')") + " &\n")
        shell.type("echo al''ive\n")
        shell.until("alive")
        shell.until("done")
        shell.type("wait; echo code $?.\n")
        shell.until("code 0.")

    def test_the_terminal_is_as_it_was(self, shell: Terminal, kept: Path) -> None:
        shell.type(f"stty -g > {kept}.1; {line(kept, 'raise SystemExit(2)')}; stty -g > {kept}.2; echo o''k\n")
        shell.until("ok")
        assert Path(f"{kept}.1").read_text() == Path(f"{kept}.2").read_text()


UNDER = (
    HARNESS.replace("import os, sys", "import os, sys\nfrom ongpu.hosts.under import Under")
    .replace("running = Running(sys.argv[2:], os.environ)", """under = Under(sys.argv[1] + ".told", sys.argv[1] + ".log")
running = Running([sys.argv[1] + ".tool", *under.argv(sys.argv[2:])], os.environ, under=under)""")
)  # fmt: skip


TOOL = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"  # SIGINT ends it, and it closes files for its child


class TestUnderATool:
    """A tool that writes among the command's words, or ends before it; as compute-sanitizer and nsys were seen to do."""

    def line(self, kept: Path, tool: str, program: str) -> str:
        file = kept.with_suffix(".tool")
        file.write_text(f"#!/bin/sh\necho words of the tool\n{tool}\n")
        file.chmod(0o755)
        return line(kept, program).replace("harness.py", "under.py")

    @pytest.fixture(autouse=True)
    def harness(self, kept: Path) -> None:
        (kept.parent / "under.py").write_text(UNDER)

    def test_in_a_terminal_it_has_the_terminal_and_its_own_code(self, shell: Terminal, kept: Path) -> None:
        shell.type(self.line(kept, '"$@"; exit 0', ABOUT + "; print('read', input()); exit(4)") + "\n")
        shell.until("True|True|True")
        shell.type("hello\n")
        shell.until("read hello")
        shell.until("$ ")
        shell.type("echo code $?.\n")
        shell.until("code 4.")
        assert "words of the tool" in kept.with_suffix(".log").read_text()
        assert "words of the tool" not in kept.read_text()

    def test_keys_reach_it_and_a_tool_that_they_end_does_not_take_it_along(self, shell: Terminal, kept: Path) -> None:
        program = "import time\ntry: print('u' + 'p'); time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(1); print('go' + 'ne'); exit(5)"
        shell.type(self.line(kept, f"exec {sys.executable} -c '{TOOL}' \"$@\"", program) + "\n")
        shell.until("up")
        shell.type("\x03")
        shell.until("gone")
        shell.until("$ ")
        shell.type("echo code $?.\n")
        shell.until("code 5.")

    def test_a_signal_goes_to_the_command_and_not_to_the_tool(self, kept: Path) -> None:
        program = "trap 'sleep 1; echo got; exit 9' TERM; echo up; while :; do sleep 0.05; done"
        self.line(kept, '"$@" & trap "exit 143" TERM; wait', "")
        words = [sys.executable, str(kept.parent / "under.py"), str(kept), "sh", "-c", program]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            process.terminate()
            assert process.stdout.read() == b"got\n"
            assert process.wait(20) == 9

    @pytest.mark.parametrize(("tool", "code"), [("exit 13", 13), ("exit 0", 0), ("kill -9 $$", 137)])
    def test_a_tool_that_starts_nothing_is_told_by_its_own_code(self, kept: Path, tool: str, code: int) -> None:
        self.line(kept, tool, "")
        words = [sys.executable, str(kept.parent / "under.py"), str(kept), "true"]
        assert subprocess.run(words, timeout=20, check=False).returncode == code
        assert not kept.with_suffix(".told").exists()

    @pytest.mark.parametrize(("name", "code"), [("no-such-program-x", 127), ("/", 126)])
    def test_a_command_that_cannot_be_run_is_told_as_shells_do(self, kept: Path, name: str, code: int) -> None:
        self.line(kept, '"$@"; exit 0', "")
        words = [sys.executable, str(kept.parent / "under.py"), str(kept), name]
        assert subprocess.run(words, timeout=20, check=False, capture_output=True).returncode == code

    def test_a_command_that_is_killed_with_its_guard_is_waited_for_no_longer(self, kept: Path) -> None:
        self.line(kept, '"$@" & sleep 0.7; kill -9 $!; exit 1', "")
        words = [sys.executable, str(kept.parent / "under.py"), str(kept), "sleep", "30"]
        with subprocess.Popen(words, start_new_session=True) as process:
            end = time.monotonic() + 10
            while not kept.with_suffix(".told").exists() and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(1)
            os.kill(int(kept.with_suffix(".told").read_text().split()[1]), signal.SIGKILL)
            assert process.wait(20) == 1, "how it ended is not known: the tool's own code"


def test_brought_to_the_front_it_gets_the_keys(kept: Path) -> None:
    """Also where the shell sends no signal with that, or sends it before."""
    words = command(kept, sys.executable, "-u", "-c", "print('here'); print('re' + 'ad', input())")
    shell = (
        "import os, signal, sys\nsignal.signal(signal.SIGTTOU, signal.SIG_IGN)\nready, go = os.pipe()\npid = os.fork()\n"
        "if pid == 0:\n os.setpgid(0, 0)\n os.write(go, b'.')\n os.execv(sys.argv[1], sys.argv[1:])\n"
        "os.read(ready, 1)\ninput()\nos.tcsetpgrp(0, pid)\nos.waitpid(pid, 0)"
    )
    terminal = Terminal([sys.executable, "-c", shell, *words])
    try:
        terminal.until("here")
        terminal.type("\n")
        time.sleep(1.5)
        terminal.type("hello\n")
        terminal.until("read hello")
    finally:
        terminal.close()


def test_a_key_may_be_a_signal_of_a_person(shell: Terminal, kept: Path) -> None:
    program = "import time\ntry:\n print('u' + 'p'); time.sleep(60)\nexcept KeyboardInterrupt: exit(4)"
    words = line(kept, program)
    (kept.parent / "harness.py").write_text(HARNESS.replace("sys.stdout.flush()", "print('sent', *running.from_user, '.', flush=True)"))
    shell.type(words + "\n")
    shell.until("up")
    shell.type("\x03")
    shell.until("sent 2 .")


def test_who_is_left_behind_and_writes_on_does_not_keep_us() -> None:
    """However fast it writes: what is always ready is read for a while only."""
    program = (
        "import os\nfrom ongpu.hosts.running import Running\nrunning = Running(['true'], os.environ)\n"
        "running.copies = {os.open('/dev/zero', os.O_RDONLY): os.open('/dev/null', os.O_WRONLY)}\n"
        "while running.status is None: running.step(0.5)\nos._exit(running.status)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
