"""The queue's folder: where it is, whether its daemon lives, how it is woken and how it is started. Light: every command needs it."""

import contextlib
import errno
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

if sys.platform == "linux":
    import fcntl

LOCK, WAKE, LOG = "daemon.lock", "wake", "daemon.log"
UNDELIVERED = "undelivered"  # a file in a job's folder: why a message about it did not arrive
VARIABLE = "ONGPU_QUEUE"
LEAST_ROOM = 1 << 15  # bytes of a disk, below which nothing can be written down
TAIL, RECENT = 4096, 120.0  # bytes of the log's end, seconds: where a fault is looked for
_GET, _SET = 36, 37  # F_OFD_GETLK, F_OFD_SETLK (fcntl.h)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64 bits: type, whence, start, length, pid


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Of this user's queue on this machine."""
    if told := environ.get(VARIABLE):
        return Path(told).absolute()
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(environ.get("XDG_STATE_HOME") or f"{home}/.local/state", "ongpu", "queue").absolute()


def lock(place: Path) -> int | None:
    """The daemon's lock, ours until the descriptor is closed; None: another daemon has it. Raises OSError."""
    file = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.fcntl(file, _SET, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        os.close(file)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    with contextlib.suppress(OSError):  # for whoever looks; nothing rests on it
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file


def ours(place: Path, file: int) -> bool:
    """Whether the lock that we have is still that of the folder: not where somebody removed the folder under us."""
    try:
        return os.path.samestat(os.stat(place / LOCK), os.fstat(file))
    except OSError:
        return False


def lives(place: Path) -> bool:
    """Whether a daemon has the lock. Takes nothing."""
    try:
        file = os.open(place / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        told = fcntl.fcntl(file, _GET, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        return bool(_FLOCK.unpack(told)[0] != fcntl.F_UNLCK)
    finally:
        os.close(file)


def pid(place: Path) -> int | None:
    """Of the daemon that lives; None: there is none, or it does not say."""
    try:
        text = (place / LOCK).read_text("ascii", "replace").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and len(text) < 12 and lives(place) else None


def dying(place: Path) -> bool:
    """Whether the daemon that has the lock was killed, and only its files are not closed yet: a matter of a moment."""
    try:
        owner = (place / LOCK).read_text("ascii", "replace").strip()
        return owner.isdecimal() and Path(f"/proc/{owner}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] in ("Z", "X")
    except FileNotFoundError:
        return True
    except (OSError, IndexError):
        return False


def wake(place: Path) -> None:
    """Tells the daemon that something changed. Where it does not hear, it looks by itself a little later."""
    import socket

    with contextlib.suppress(OSError):
        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(b".", f"/proc/self/fd/{root}/{WAKE}")  # a folder's name may be longer than an address
        finally:
            os.close(root)


def rouse(place: Path) -> None:
    """The daemon is to look now: it is woken, or started where it does not live. Does not wait for it."""
    if there := lives(place):
        wake(place)
    if not there or dying(place):
        start(place)


def begun(place: Path, patience: float) -> bool:
    """Whether the daemon lives, at the latest after so many seconds."""
    import time

    end = time.monotonic() + patience
    while not (living := lives(place)) and time.monotonic() < end:
        time.sleep(0.005)
    return living


def silence(place: Path, now: float) -> float:
    """Seconds since the daemon that lives showed that it does not hang: it touches its lock every second or so."""
    try:
        return max(0.0, now - os.stat(place / LOCK).st_mtime)
    except OSError:
        return 0.0


def fault(place: Path, now: float) -> str:
    """What the daemon's log says last, where that is a fault: of one that does not live, or of these last minutes. "": none."""
    import time

    try:
        with open(place / LOG, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read(TAIL).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    try:
        at = time.mktime(time.strptime(last[:19], "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):  # of the interpreter: it could not even begin
        said = any(word in last for word in ("Error", "Exception", "No module named", "not found"))
        return last[:300] if said and not lives(place) else ""
    text = last[20:]
    if text.startswith("fault") and (0 <= now - at < RECENT or not lives(place)):
        return text[:300]
    return "no room left on its disk" if _full(place) else ""


def _full(place: Path) -> bool:
    """Whether the queue's disk is full: then not even the log says so."""
    about = os.statvfs(place)
    return about.f_blocks > 0 and (about.f_bavail if os.geteuid() else about.f_bfree) * about.f_frsize < LEAST_ROOM


def start(place: Path) -> None:
    """A daemon, detached from us. One that finds another ends at once. Raises OSError: no more processes."""
    from ongpu.queue.engines.local.starter import OF_JOBS

    command = [sys.executable, "-P", "-m", "ongpu.queue.engines.local.daemon", str(place)]
    script = 'exec </dev/null >>"$0" 2>&1; cd /; "$@" &'  # the shell ends at once: the daemon is nobody's child
    words = ["sh", "-c", script, str(place / LOG), *command]
    environ = {name: value for name, value in os.environ.items() if name not in OF_JOBS}  # a job may submit: the daemon is no part of it
    try:
        with contextlib.suppress(ChildProcessError):  # who called us ignores SIGCHLD
            os.waitpid(os.posix_spawn("/bin/sh", words, environ, setsid=True), 0)
    except NotImplementedError:  # see keeper.py
        import subprocess

        subprocess.run(["/bin/sh", *words[1:]], env=environ, start_new_session=True, check=False, timeout=60)
