"""The daemon's side of keeper.py: a process that keeps one run at a time, and takes the next when that is over."""

import contextlib
import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.queue.engines.local import recovery, starter
from ongpu.queue.engines.local.keeper import NEVER
from ongpu.queue.engines.local.recovery import KEEPS, Fate

if TYPE_CHECKING:
    from ongpu.queue.engines.local.rows import Run

PROGRAM = str(Path(__file__).with_name("keeper.py"))
PYTHON = os.path.realpath(sys.executable)  # that of a virtual environment may be removed while we run


def copy(place: Path) -> str:
    """A copy of the program in the queue's folder: ours may be replaced by another version while we run. Its path."""
    file, new = place / "keeper.py", place / "keeper.new"
    shutil.copyfile(PROGRAM, new)
    os.replace(new, file)
    return str(file)


class Keeper:
    """One process of keeper.py, a child of ours. It ends by itself when `link` is closed, which it is at our end at the latest.

    Raises OSError: no more processes.
    """

    def __init__(self, program: str = PROGRAM) -> None:
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                words = [PYTHON, "-I", "-S", program]
                environ = {name: value for name, value in os.environ.items() if name not in starter.OF_JOBS}
                environ[KEEPS] = os.path.dirname(program)
                self.pid = _child(words, environ, theirs.fileno())
        except BaseException:
            self.link.close()
            raise
        self.link.setblocking(False)
        self.proved = False  # it has kept a run
        self.since = 0.0  # when its last run was over, as `recovery.uptime()`
        self.handle = self.link.fileno()  # readable when it has something to say, or is dead

    def keep(self, run: "Run", leases: Iterable[int], boot: str) -> None:
        """Begins the run. leases: descriptors that all of its processes inherit; they stay open here. boot: of this boot of the machine.

        Raises OSError: a disk that is full, a keeper that is dead; ValueError: a null byte in its words.
        """
        text = starter.message(run, boot or recovery.NO_BOOT)
        for folder in (run.folder.parent, run.folder):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        file = _file(run.folder, text)
        try:
            socket.send_fds(self.link, [b"."], [file, *leases])
        finally:
            os.close(file)

    def told(self) -> Fate | None:
        """What it says of its run, or None: it is dead. To be asked when there is something to read."""
        try:
            text = self.link.recv(4096)
        except BlockingIOError:  # a poll that was wrong: as if dead, which it soon is, as we let go of it
            return None
        except OSError:
            return None
        self.proved = self.proved or bool(text)
        if text == NEVER:
            return Fate(recovery.NEVER)
        code, _, word = text.decode("ascii", "replace").partition(" ")
        if not code.isdecimal():
            return None
        return Fate(recovery.NOT_STARTED, code=int(code), word=word) if word else Fate(recovery.ENDED, code=int(code))

    def close(self) -> None:
        """Lets go of it: it ends, as soon as its run is over."""
        self.link.close()


def _child(words: list[str], environ: dict[str, str], standard_input: int) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, standard_input, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]  # 2: our log
    try:
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsid=True)
    except NotImplementedError:  # see keeper.py
        process = subprocess.Popen(words, env=environ, stdin=standard_input, stdout=subprocess.DEVNULL, start_new_session=True)
        process.returncode = 0  # it is waited for by its pid, as the others are
        return process.pid


def _file(folder: Path, text: bytes) -> int:
    """A file without a name that holds this: in memory where this Python can (one built for an old glibc cannot), else on the disk."""
    try:
        file = os.memfd_create("run")
    except (AttributeError, OSError):
        with tempfile.TemporaryFile(dir=folder) as temporary:
            file = os.dup(temporary.fileno())
    try:
        if os.write(file, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.close(file)
        raise
    return file
