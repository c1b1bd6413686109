"""A process is ended: only the very one that was shown, known by its number and its start time."""

import os
import signal
import sys
from pathlib import Path

GONE, OTHER, DENIED, UNSUPPORTED = "gone", "other", "denied", "unsupported"
SIGNALS = ("TERM", "KILL")


def started(pid: int, root: str = "/") -> tuple[int, int] | None:
    """(start time in clock ticks since boot, uid) of a process; None where there is none, or it is not visible."""
    folder = Path(root, "proc", str(pid))
    try:
        with open(folder / "stat", "rb") as file:
            after = file.read(4096).rpartition(b")")[2].split()  # the name before it may hold spaces and brackets
        return int(after[19]), os.stat(folder).st_uid
    except (OSError, ValueError, IndexError):
        return None


def may(uid: int | None) -> bool:
    """Whether we may signal a process of that user: our own, or any as root."""
    return hasattr(os, "geteuid") and (os.geteuid() == 0 or uid == os.geteuid())


def send(pid: int, start: int, name: str) -> str | None:
    """Send TERM or KILL to the process that had this number and start time; why it was not sent, or None.

    The process is held by a descriptor while it is compared (Linux 5.3), so that its number cannot pass to another meanwhile.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return UNSUPPORTED
    number = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}[name]
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return GONE
    except OSError:
        return UNSUPPORTED
    try:
        now = started(pid)
        if now is None:
            return GONE
        if now[0] != start:
            return OTHER
        if not may(now[1]):
            return DENIED
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return GONE
    except PermissionError:
        return DENIED
    finally:
        os.close(handle)
    return None
