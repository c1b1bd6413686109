"""Keeps runs of jobs, one after the other: starts a command, waits for it, leaves its true exit code. It outlives the daemon.

    python -I -S keeper.py   (standard input: a socket from the daemon)

A program of the standard library alone: the daemon runs a copy of it (keepers.py). A message brings descriptors: a file that says what is
to be run, and the leases of its GPUs, which all processes of the run inherit; the answer is one line. When the daemon is gone, it ends as
soon as its run is over. Each run that goes on has one of its own: a kill takes one exit code with it, not those of others. When its run is
over it takes the next: a new process for each would cost more than all else of a short job.

In the folder of a run it makes `start`: its own pid and the boot's id, and in a second line the command's pid; `exit`: the code, 128 + n
for signal n, complete when it ends in a newline; `error`: a word, where the command could not be started.
"""

import contextlib
import errno
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence

MOST = 253  # descriptors that a message can bring (unix(7))
NEVER = b"never"  # an answer: the run never began, and never will
TRIES = 30  # seconds for which a machine without room for another process is asked again
BUSY = (errno.EAGAIN, errno.ENOMEM)
GONE = (errno.ENOENT, errno.ESTALE)
WRITES = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a pipe that nobody reads would wait for ever
PATH = b"/usr/local/bin:/usr/bin:/bin"  # where the job brings none
DEFAULTS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def keep(told: bytes, leases: Sequence[int]) -> bytes:
    """One run, from its start to its end: `NEVER`, or its exit code and the word of why it was not started. Closes the leases."""
    run, boot, folder, output, count, *words = told.split(b"\0")
    command, environ = words[: int(count)], dict(word.split(b"=", 1) for word in words[int(count) :])
    where, ended = -1, None
    with contextlib.suppress(OSError):
        where = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # open as long as we keep the run: by this others know that we do
    try:
        if where >= 0:
            ended = _run(where, folder, output, command, environ, boot)
        for file in leases:  # before the code is written down: a full disk is to keep no GPU from others
            _close(file)
        os.chdir("/")
        return _end(where, *ended) if ended else NEVER
    finally:
        _close(where)


def find(command: bytes, path: bytes) -> bytes:
    """The file that a command's name means, as exec(3) finds it; "" where there is none."""
    if b"/" in command:
        return command
    for folder in path.split(b":"):
        found = (folder or b".") + b"/" + command
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return b""


def refused(path: bytes) -> bytes:
    """Why that file cannot be run; "": it can, as far as can be seen."""
    if not path or not os.path.exists(path):
        return b"not-found"
    return b"is-folder" if os.path.isdir(path) else b"" if os.access(path, os.X_OK) else b"no-run-bit"


def _run(
    where: int, folder: bytes, output: bytes, command: list[bytes], environ: Mapping[bytes, bytes], boot: bytes
) -> tuple[int, bytes] | None:  # fmt: skip
    """The exit code, and why it was not started; None: it never began, and never will."""
    try:
        os.chdir(folder)
    except OSError:
        return 126, b"no-folder"
    try:
        writes = os.open(output, WRITES, 0o666)
        os.set_blocking(writes, True)
    except OSError:
        return 126, b"no-output"
    try:
        path = find(command[0], environ.get(b"PATH", PATH))
        if word := refused(path):
            return 127 if word == b"not-found" else 126, word
        pid = _begin(where, path, command, environ, writes, boot)
    finally:
        _close(writes)
    if not isinstance(pid, int):
        return pid
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code, b""


def _begin(
    where: int, path: bytes, command: list[bytes], environ: Mapping[bytes, bytes], output: int, boot: bytes
) -> int | tuple[int, bytes] | None:  # fmt: skip
    """The pid of the command; else as `_run`."""
    try:  # The one point at which a run begins: whoever makes this file first, we or a daemon that gives the run up.
        start = os.open("start", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=where)
    except OSError:
        return None
    try:
        try:
            os.write(start, b"%d %s\n" % (os.getpid(), boot))
        except OSError:  # a full disk
            return None
        try:
            pid = started(path, command, environ, output)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(output, b"ongpu: %s: %s\n" % (path, os.strerror(error.errno or 0).encode()))
            word = b"too-long" if error.errno == errno.E2BIG else b"cannot-run"
            return 127 if error.errno == errno.ENOENT else 126, word  # ENOENT: a script's interpreter is missing
        with contextlib.suppress(OSError):  # then it is known by its environment alone
            os.write(start, b"%d\n" % pid)
        return pid
    finally:
        _close(start)


def started(path: bytes, command: list[bytes], environ: Mapping[bytes, bytes], output: int) -> int:
    """The pid of the command, which leads a session of its own. Raises OSError."""
    actions = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2))
    for second in range(TRIES):
        try:
            try:
                return os.posix_spawn(path, command, environ, file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULTS)
            except NotImplementedError:  # a Python built for glibc before 2.26, as those of uv are: a process group, then
                return os.posix_spawn(path, command, environ, file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=DEFAULTS)
        except OSError as error:
            if error.errno == errno.ENOEXEC and path != b"/bin/sh":  # a script that names no interpreter, as exec(3) has it
                return started(b"/bin/sh", [b"sh", path, *command[1:]], environ, output)
            if error.errno not in BUSY or second == TRIES - 1:
                raise
            time.sleep(1)
    raise AssertionError


def _end(where: int, code: int, word: bytes = b"") -> bytes:
    """Writes down how it ended: on a full disk, when there is room."""
    if word:
        with contextlib.suppress(OSError):
            _leave(where, "error", word)
    while True:
        try:
            _leave(where, "exit", b"%d" % code)
            return b"%d %s" % (code, word)
        except OSError as error:
            if error.errno in GONE:  # the folder was removed: nobody asks any more
                return b"%d %s" % (code, word)
            time.sleep(1)


def _leave(where: int, name: str, word: bytes) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=where)
    try:
        os.write(file, word + b"\n")
    finally:
        os.close(file)


def _close(file: int) -> None:
    """A server of files may say only now that it had no room: no matter here, where a run would be lost by it."""
    with contextlib.suppress(OSError):
        os.close(file)


def main() -> None:
    """Run after run, until the daemon lets go of us or is gone."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())  # what is sent to us would cost a job its exit code
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    daemon = socket.socket(fileno=os.dup(0))
    while True:
        try:
            word, files, flags, _ = socket.recv_fds(daemon, 1, MOST)
            if not word:
                return
            if flags & socket.MSG_CTRUNC:  # we may not have so many descriptors: without one lease another could take that GPU
                for file in files:
                    os.close(file)
                daemon.send(NEVER)
                continue
            told, *leases = files
            try:
                text = os.pread(told, os.fstat(told).st_size, 0)
            finally:
                os.close(told)
            daemon.send(keep(text, leases))
        except OSError:
            return


if __name__ == "__main__":
    main()
