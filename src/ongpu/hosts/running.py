"""A command run as if it had been started without us: its terminal, its signals, its exit status; the end of its output is kept.

What it writes to a terminal passes through another one (a pty), what it writes to a pipe through a pipe, and of a file the end is read
afterwards: `isatty` and `seek` answer what they would have answered. In a terminal there are two processes of ours: one copies, and one
leads the session of the other terminal, so that the command can be stopped there (a process group whose parent is in another session
cannot, setpgid(2)).
"""

import contextlib
import fcntl
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ongpu.hosts.streams import KEPT, Tail, end_of_file, files_of, pipes_of, terminal_of, write_all
from ongpu.hosts.under import CANNOT_RUN, Under, become

CHUNK = 1 << 16
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
MOST_DRAINS = 64  # pieces of CHUNK that are read at the end: more than a pipe holds, and an end where others write on
POLL = 0.1  # seconds between two looks at a command whose tool has ended
BY_USER = 0  # siginfo_t.si_code: sent by kill(2); above it, the terminal sent it, and to the command as well


class Running:
    """The command, started at once. `step` moves its output; `status` is None until it ends, then its exit code, 128 + n for signal n.

    files: descriptors that it gets besides the usual ones. under: where argv is a tool that runs the command: its end, not the tool's,
    is what `status` tells. Raises OSError (from the fork) only.
    """

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], files: Sequence[int] = (), tee: bool = True, under: Under | None = None
    ) -> None:
        self.argv, self.environ, self.files, self.under = list(argv), dict(environ), list(files), under
        self.tool: int | None = None  # how the tool ended, where the command runs on without it
        self.tail = Tail()
        self.status: int | None = None
        self.signal: int | None = None  # that ended it
        self.from_user: set[int] = set()  # signals that a person or a program sent for it: to us, or by a key
        self.pid = 0
        self.copies: dict[int, int] = {}  # where its output comes from -> where it goes
        self.open_lines: set[int] = set()  # where it goes, and the last line has no end yet
        self.ends = files_of() if tee else {}  # of output files: where the command began to write
        self.terminal = terminal_of() if tee else None  # the real one
        self.master, self.told = -1, -1
        self.raw: list[Any] | None = None  # how the real terminal was set
        self.rest = b""
        self.own = self.terminal is not None  # a process group of its own
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._listened())
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        if self.terminal is None:
            self._start_plain(tee)
        else:
            self._start_in_terminal(self.terminal)
        self.wake, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self.closed = False
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listened(self) -> set[int]:
        more = {signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP} if self.own else set()
        return {*FORWARDED, signal.SIGCHLD, *more}

    # --- the start

    def _start_plain(self, tee: bool) -> None:
        """In our own process group: the terminal's signals reach it as they reach us."""
        pipes = pipes_of() if tee else {}
        made: dict[tuple[int, int], tuple[int, int]] = {}
        ends: dict[int, int] = {}
        for number, place in pipes.items():
            if place not in made:
                made[place] = os.pipe()
                self.copies[made[place][0]] = number
            ends[number] = made[place][1]
        self.pid = os.fork()
        if self.pid == 0:
            self._become(ends)
        for _, write in made.values():
            os.close(write)

    def _start_in_terminal(self, terminal: int) -> None:
        self.master, slave = os.openpty()
        with contextlib.suppress(termios.error):
            termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(terminal))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8)))
        pipes = {number: os.pipe() for number in pipes_of()}
        self.told, tell = os.pipe()
        leader = os.fork()
        if leader == 0:
            try:
                os.close(self.told)
                os.close(self.master)
                self._lead(slave, tell, {number: ends[1] for number, ends in pipes.items()})
            finally:
                os._exit(CANNOT_RUN)
        self.leader = leader
        for number, (read, write) in pipes.items():
            os.close(write)
            self.copies[read] = number
        os.close(slave)
        os.close(tell)
        self.copies[self.master] = 1 if os.isatty(1) else 2
        self._enter()
        while not self.pid and self._hear():  # the leader's first word is the command's number
            pass

    def _lead(self, slave: int, tell: int, ends: dict[int, int]) -> None:
        """The leader of the other terminal's session: starts the command, tells when it stops and how it ends."""
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(slave, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.set_inheritable(tell, False)
            self._become({**{number: slave for number in (0, 1, 2) if os.isatty(number)}, **ends})
        for number in (*ends.values(), 0, 1, 2):
            with contextlib.suppress(OSError):
                os.close(number)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        _tell(tell, "pid", pid)
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            _tell(tell, "stopped", os.WSTOPSIG(status))
        while self.under and (ended := self._below(status)) is None:
            time.sleep(POLL)
        status = ended if self.under and ended is not None else status
        with contextlib.suppress(OSError):  # what the command left behind is not to end with this session
            os.tcsetpgrp(slave, os.getpid())
        _tell(tell, "ended", status)
        os._exit(0)

    def _become(self, ends: Mapping[int, int]) -> NoReturn:
        """In the new process: the command, with its streams."""

        def prepare() -> None:
            for number, end in ends.items():
                os.dup2(end, number)
            for file in self.files:
                os.set_inheritable(file, True)
            if self.under:
                self.under.prepare(self.environ)
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

        become(self.argv, self.environ, prepare)

    # --- while it runs

    def step(self, seconds: float) -> None:
        """Move what it wrote and what was typed, for at most so long; returns early where something happened."""
        reading = [*self.copies, self.wake]
        if self.told >= 0:
            self._enter()  # a shell that brings a job to the front sends no signal where it had not stopped it
            reading.append(self.told)
            if self.raw is not None and os.isatty(0) and self._in_front():
                reading.append(0)
        try:
            ready, _, _ = select.select(reading, [], [], seconds if self.tool is None else min(seconds, POLL))
        except (OSError, ValueError):
            ready = []
        for file in ready:
            if file == self.wake:
                os.read(self.wake, 64)
                self._after_signal()
            elif file == self.told:
                self._hear()
            elif file == 0:
                self._type()
            elif file in self.copies:
                self._copy(file)
        if self.told < 0 and self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG) if self.tool is None else (self.pid, self.tool)
            below = self._below(status) if pid else None
            if below is not None:
                self._ended(below)
            elif pid:
                self.tool = status

    def _below(self, status: int) -> int | None:
        """How the command ended, after a tool that ended so; None: it runs on. Without a tool, and where it started nothing: as told."""
        ended = self.under.status() if self.under else status
        return status if ended == -1 else ended

    def _copy(self, file: int) -> None:
        try:
            data = os.read(file, CHUNK)
        except OSError:  # EIO: nobody holds the other end of a terminal
            data = b""
        if data:
            self.tail.add(data)
            try:
                write_all(self.copies[file], data)
                (self.open_lines.discard if data.endswith(b"\n") else self.open_lines.add)(self.copies[file])
                return
            except OSError:  # the reader went away: the command is to learn it as it would have without us
                pass
        os.close(file)
        del self.copies[file]

    def _type(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except OSError:
            return
        if self._interrupts(data):
            self.from_user.add(signal.SIGINT)
        with contextlib.suppress(OSError):
            write_all(self.master, data)

    def _interrupts(self, data: bytes) -> bool:
        """Whether a key among these interrupts the command, as its terminal is set."""
        try:
            _, _, _, local, _, _, keys = termios.tcgetattr(self.master)
        except termios.error:
            return False
        return bool(local & termios.ISIG) and keys[termios.VINTR] in data

    def _hear(self) -> bool:
        """What the leader tells; False where it is gone."""
        data = os.read(self.told, 256)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            word, _, number = line.decode().partition(" ")
            if word == "pid":
                self.pid = int(number)
            elif word == "stopped":
                self._stop()
            elif word == "ended":
                self._ended(int(number))
        if not data and self.status is None:  # the leader was killed
            self._ended(signal.SIGKILL)
        return bool(data)

    def _stop(self) -> None:
        """The command was stopped: so are we, in the eyes of whoever started us; until both go on. Where nobody could wake us again
        (no shell, as in a container) the kernel would not have stopped it, and nor do we."""
        self._drain()
        if not _orphaned():
            self._leave()
            os.killpg(0, signal.SIGSTOP)
            self._enter()
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGCONT)

    def _after_signal(self) -> None:
        if self.terminal is not None and self.raw is None and self.status is None:
            self._enter()  # brought to the front again

    def _listen(self) -> None:
        """A thread: passes on what is sent to us."""
        listened = self._listened()
        while not self.closed:
            told = signal.sigwaitinfo(listened)
            number = told.si_signo
            with contextlib.suppress(OSError):
                if number == signal.SIGWINCH and self.terminal is not None:
                    fcntl.ioctl(self.master, termios.TIOCSWINSZ, fcntl.ioctl(self.terminal, termios.TIOCGWINSZ, bytes(8)))
                elif number not in (signal.SIGCONT, signal.SIGCHLD):
                    self.from_user.add(number)
                    if self.status is None and self.pid:
                        self._pass_on(number, told.si_code <= BY_USER)
                os.write(self._wake, b".")

    def _pass_on(self, number: int, sent: bool) -> None:
        """sent: by a program, to us alone as far as we know; else by the terminal, which has told the command too where it is its own."""
        if sent:
            os.kill((self.under and self.under.pid()) or self.pid, number)
        elif self.own:
            os.killpg(self.pid, number)

    # --- the real terminal

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self.terminal if self.terminal is not None else 0) == os.getpgrp()
        except OSError:
            return False

    def _enter(self) -> None:
        """The real terminal passes everything on, where it is ours and the command's input: its keys mean what the other one says."""
        if self.terminal is not None and self.raw is None and os.isatty(0) and self._in_front():
            with contextlib.suppress(termios.error):
                self.raw = termios.tcgetattr(0)
                tty.setraw(0, termios.TCSADRAIN)

    def _leave(self) -> None:
        if self.raw is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self.raw)
            self.raw = None

    # --- the end

    def _ended(self, status: int) -> None:
        self._drain()
        self._leave()
        code = os.waitstatus_to_exitcode(status)
        self.signal = -code if code < 0 else None
        self.status = 128 - code if code < 0 else code
        if self.told >= 0:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.leader, 0)

    def _drain(self) -> None:
        """What it wrote before; not what others who hold its pipe will write."""
        for _ in range(MOST_DRAINS):
            ready, _, _ = select.select(list(self.copies), [], [], 0) if self.copies else ([], [], [])
            if not ready:
                return
            for file in ready:
                self._copy(file)

    def close(self) -> None:
        """Signals are ours again. What it left behind writes on to nobody, as after a terminal that was closed."""
        self._leave()
        self.closed = True
        if self.listener.ident is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(self.listener.ident, signal.SIGCHLD)  # one that it listens for, and heeds not
        self.listener.join()
        for file in (*self.copies, self.wake, self._wake, *([self.told] if self.told >= 0 else [])):
            os.close(file)
        self.copies = {}
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def mid_line(self) -> bool:
        """Whether what it wrote last to where our standard error goes has no end of line yet; asked once, as a line of ours follows."""
        with contextlib.suppress(OSError):
            ours = os.fstat(2)
            for number in list(self.open_lines):
                about = os.fstat(number)
                if (about.st_dev, about.st_ino, about.st_rdev) == (ours.st_dev, ours.st_ino, ours.st_rdev):
                    self.open_lines.discard(number)
                    return True
            for number, (place, start) in self.ends.items():
                if place == (ours.st_dev, ours.st_ino):
                    return end_of_file(number, place, start)[-1:] not in (b"", b"\n")
        return False

    def output(self) -> str:
        """The end of what it wrote."""
        data = self.tail.bytes()
        for number, (place, start) in self.ends.items():
            data += end_of_file(number, place, start)
        return data[-2 * KEPT :].decode("utf-8", "replace")


def _orphaned() -> bool:
    """Whether nobody in our session watches over our process group."""
    try:
        return os.getsid(os.getppid()) != os.getsid(0)
    except (OSError, ProcessLookupError):  # it is gone, or in another namespace
        return True


def _tell(file: int, word: str, number: int) -> None:
    with contextlib.suppress(OSError):
        os.write(file, f"{word} {number}\n".encode())
