"""One child process of the feed: started, read without waiting, told things, ended. It may hang for ever in the driver."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ongpu.hosts.processes import end, exit_words

CHILD = "import sys; from ongpu.hosts.sampling.child import main; main(sys.argv[1])"
DEMO = "import json, sys; from ongpu.hosts.sampling.demo import main; main(**json.loads(sys.argv[1]))"
MOST_LINE = 16 << 20  # bytes: 10,000 processes take a few
ROOM = 1 << 20  # bytes that a pipe may hold: what Linux gives anyone (/proc/sys/fs/pipe-max-size)
CHUNK = 1 << 15  # bytes: a larger buffer is mapped anew at each read, which costs more than the read
_decode = json.JSONDecoder().raw_decode  # one line holds one object: nothing more to look for


class Process:
    """A child and what it printed so far that is not a whole line yet."""

    pumped = os.name == "nt"  # whether a thread reads the pipe

    def __init__(self, options: Mapping[str, Any], environ: Mapping[str, str], program: Sequence[str]) -> None:
        env = {**environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        self.popen = subprocess.Popen(
            [*program, json.dumps(dict(options))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=env, start_new_session=True, bufsize=0,
        )  # fmt: skip
        self.rest = b""
        self.words = ""  # the last line that was none of ours: what Python or the library said when it failed
        self.ended = False  # it said all that it ever will
        self.socket = self._pump() if self.pumped else None
        if self.socket is None and self.popen.stdout:
            os.set_blocking(self.popen.stdout.fileno(), False)
            _widen(self.popen.stdout.fileno())

    def _pump(self) -> socket.socket:
        """A socket that gives what the pipe gives: on Windows a pipe cannot be waited for."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        pipe = self.popen.stdout

        def pump() -> None:
            with theirs, contextlib.suppress(OSError, ValueError):
                while pipe and (data := pipe.read(CHUNK)):
                    theirs.sendall(data)

        threading.Thread(target=pump, daemon=True).start()
        return ours

    def fileno(self) -> int:
        """What a selector waits for."""
        pipe = self.popen.stdout
        return self.socket.fileno() if self.socket else pipe.fileno() if pipe and not pipe.closed else -1

    def read(self) -> list[dict[str, Any]]:
        """The messages that are there now. `ended` is set where there will be no more."""
        try:
            data = self.socket.recv(CHUNK) if self.socket else os.read(self.fileno(), CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return []
        *lines, self.rest = (self.rest + data if self.rest else data).split(b"\n")
        if len(self.rest) > MOST_LINE:
            self.rest = b""
        return [message for line in lines if (message := self._message(line)) is not None]

    def _message(self, line: bytes) -> dict[str, Any] | None:
        try:
            found = _decode(line.decode("utf-8", "replace"))[0] if line.startswith(b"{") else None
        except ValueError:
            found = None
        if isinstance(found, dict) and isinstance(found.get("k"), str):
            return found
        self.words = line.decode("utf-8", "replace").strip()[:300] or self.words
        return None

    def tell(self, words: str) -> None:
        """A line for the child."""
        with contextlib.suppress(OSError, ValueError):
            if self.popen.stdin:
                self.popen.stdin.write(words.encode() + b"\n")

    @property
    def lives(self) -> bool:
        """Whether it is still there: one that sleeps in the driver cannot be ended."""
        return self._status() is None

    def _status(self) -> int | None:
        """Its exit status. After `end` gave it up, subprocess no longer asks: we do."""
        if self.popen.returncode != -9 or os.name == "nt":
            return self.popen.poll()
        try:
            return -9 if os.waitpid(self.popen.pid, os.WNOHANG)[0] else None
        except ChildProcessError:  # it was asked already
            return -9

    def end(self) -> bool:
        """Whether it is gone now. All that it printed is lost."""
        for pipe in (self.popen.stdin, self.popen.stdout, self.socket):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.ended = True
        end(self.popen)
        return not self.lives

    def why(self) -> str:
        """How it ended, in words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(0.5)
        status = self.popen.returncode
        ended = (exit_words(status) or "exit status 0") if status is not None else "closed its output"
        return f"the sampling process: {ended}" + (f": {self.words}" if self.words else "")


def _widen(pipe: int) -> None:
    """More room, where the system gives it: neither a long line nor a reader that is busy for a moment is to hold up the clock."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, ROOM)


def program(demo: bool) -> list[str]:
    """The command line, without the options."""
    return [sys.executable, "-P", "-S", "-c", DEMO if demo else CHILD]
