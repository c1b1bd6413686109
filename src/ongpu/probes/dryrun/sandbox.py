"""Refuses what a dry run must not do: writes outside the scratch folder, deletions, the network, other programs.

Python's audit hooks cannot be taken off again, so the script cannot lift this; a C extension that opens files itself is not seen.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, List, Optional, Tuple

CHANGES = {
    "os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.mkdir": 1, "os.link": 2, "os.symlink": 2, "os.truncate": 1, "os.chmod": 1,
    "os.chown": 1, "os.utime": 1, "os.setxattr": 1, "shutil.rmtree": 1, "shutil.move": 2, "shutil.copyfile": 2, "shutil.copytree": 2,
    "shutil.make_archive": 1, "shutil.unpack_archive": 1,
}  # event: how many of its first arguments are paths that it changes  # fmt: skip
NETWORK = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname")
PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.startfile", "pty.spawn")
ALWAYS = ("/dev/null", "/dev/tty", "/dev/stdout", "/dev/stderr", "/dev/zero")
LOCAL = ("127.0.0.1", "::1", "localhost", "")


class Sandbox:
    """`tell(what, path)` is called for everything that is refused."""

    def __init__(self, folders: List[str], tell: Callable[[str, str], None]) -> None:
        self.folders = [os.path.realpath(f) for f in folders if f]
        self.tell = tell
        self._inside = False

    def install(self) -> None:
        """From now on, for the life of the process and of those it forks."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: Tuple[Any, ...]) -> None:
        if self._inside:
            return
        refused = self._refused(event, arguments)
        if refused is None:
            return
        self._inside = True
        try:
            self.tell(event, refused)
        finally:
            self._inside = False
        raise PermissionError(13, "ongpu dry run, sandbox: %s refused" % event, refused)

    def _refused(self, event: str, arguments: Tuple[Any, ...]) -> Optional[str]:
        if event == "open":
            path, mode, flags = (*arguments, None, None, None)[:3]
            writes = isinstance(mode, str) and any(c in mode for c in "wax+")
            writes = writes or (isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)))
            return self._outside(path) if writes else None
        if event in CHANGES:
            for path in arguments[: CHANGES[event]]:
                found = self._outside(path)
                if found is not None and not (event.startswith("shutil.copy") and path is arguments[0]):
                    return found
            return None
        if event in NETWORK:
            return _far(event, arguments)
        if event in PROGRAMS or event.startswith("os.spawn"):
            return str(arguments[0])[:200] if arguments else event
        return None

    def _outside(self, path: Any) -> Optional[str]:
        if isinstance(path, int) or path is None:
            return None  # an open descriptor: it was judged when it was opened
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        if text in ALWAYS or text.startswith(("/dev/shm/", "/proc/self/")):
            return None
        full = os.path.realpath(text)
        if any(full == f or full.startswith(f + os.sep) for f in self.folders):
            return None
        return text


def _far(event: str, arguments: Tuple[Any, ...]) -> Optional[str]:
    """An address that is not this machine's; local sockets (of worker processes) are allowed."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0] if arguments else ""
        text = host.decode("utf-8", "replace") if isinstance(host, bytes) else str(host or "")
        return None if text in LOCAL else text
    address = arguments[1] if len(arguments) > 1 else None
    if isinstance(address, tuple) and address:
        return None if str(address[0]) in LOCAL else str(address[0])
    return None

