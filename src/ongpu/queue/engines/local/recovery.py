"""What became of a run, by the files that its keeper left and the processes that live: the same question after a crash as at any time."""

import contextlib
import os
import time
from pathlib import Path

from ongpu.hosts.stop import started
from ongpu.lazy import dataclass, lazy
from ongpu.queue.engines.local.starter import RUN

BOOT = "/proc/sys/kernel/random/boot_id"
NO_BOOT = "-"  # in `start`, where the boot has no id
KEEPS = "ONGPU_KEEPS"  # in the environment of every keeper: the queue's folder
MOST = 4096  # bytes of a keeper's file
CANNOT = (126, 127)  # the codes of a command that could not be started, as shells have them
VOID = "void\n"
_START = lazy(r"(\d{1,9}) ([0-9a-f-]{1,40})\n(?:(\d{1,9})\n|\d*)")  # of the second line a power cut may leave half
_CODE = lazy(r"(\d{1,3})\n")
_WORD = lazy(r"([a-z][a-z-]{0,30})\n")

# What may have become of a run:
RUNS = "runs"  # its keeper lives
ORPHAN = "orphan"  # its command lives, its keeper does not: nobody will know its exit code
ENDED = "ended"  # it left its exit code
NOT_STARTED = "not-started"  # its command could not be started; why is known
NEVER = "never"  # it never began, and never will
GONE = "gone"  # it began, and nothing of it is left
REBOOTED = "rebooted"  # it began before the machine was started


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a run. pid: of the keeper, or of an orphan. code: 128 + n for signal n. word: why it could not be started."""

    what: str
    pid: int = 0
    code: int | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """What `start` says: the keeper's pid and the boot, and the command's pid. pid 0: nothing, it is incomplete, or says that the run was
    given up (`void`); command 0: not yet."""

    pid: int = 0
    boot: str = ""
    command: int = 0
    void: bool = False


def uptime() -> float:
    """Seconds since the boot, on a clock that no one sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Of this boot of the machine; "" where it is not told."""
    with contextlib.suppress(OSError):
        return Path(BOOT).read_text().strip()
    return ""


def begun(run: Path) -> Begun | None:
    """What the file `start` says; None: there is none."""
    text = _read(f"{run}/start")
    if text is None:
        return None
    if text == VOID:
        return Begun(void=True)
    found = _START.fullmatch(text)
    return Begun(int(found[1]), found[2], int(found[3] or 0)) if found else Begun()


def age(run: Path, command: int, now: float) -> float:
    """Seconds since it began, now being `uptime()`: by the clock of the boot where the command lives, else by the files."""
    if command and not _ended(command) and (known := started(command)) is not None:
        return max(0.0, now - known[0] / os.sysconf("SC_CLK_TCK"))
    with contextlib.suppress(OSError):
        return max(0.0, time.time() - os.stat(run / "start").st_mtime)
    return 0.0


def code_of(run: Path) -> int | None:
    """The exit code that the keeper left; None where there is none, or half of one."""
    found = _CODE.fullmatch(_read(f"{run}/exit") or "")
    return int(found[1]) if found and int(found[1]) < 256 else None


def error_of(run: Path) -> str:
    """Why the command could not be started; "" where it could."""
    found = _WORD.fullmatch(_read(f"{run}/error") or "")
    return found[1] if found else ""


def void(run: Path) -> bool:
    """Give the run up before it begins. True: no keeper will ever start it. Raises OSError: a disk that is full."""
    os.makedirs(run, mode=0o700, exist_ok=True)
    try:
        file = os.open(run / "start", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        known = begun(run)
        return known is not None and known.void
    with contextlib.suppress(OSError):  # that it is there is enough
        os.write(file, VOID.encode())
    os.close(file)
    return True


def there(pid: int) -> bool:
    """Whether a process of that number has not ended."""
    return not _ended(pid)


def keeps(pid: int, run: Path) -> bool:
    """Whether a process is the keeper that keeps that run now: it has its folder open."""
    tail = f"/{run.parent.name}/{run.name}"
    with contextlib.suppress(OSError):
        wanted = os.stat(run)
        for file in os.listdir(f"/proc/{pid}/fd"):
            file = f"/proc/{pid}/fd/{file}"
            with contextlib.suppress(OSError):  # closed meanwhile
                # of all others not even the state is asked: a job's output may be on a server that is dead
                if os.readlink(file).endswith(tail) and os.path.samestat(os.stat(file), wanted):
                    return not _ended(pid)
    return False


def keepers() -> dict[int, str]:
    """All keepers of this user that live: pid -> the folder of its queue. Looks at every process of the machine."""
    head, own, found = f"{KEEPS}=".encode(), os.geteuid(), {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == own:
                with open(f"/proc/{name}/environ", "rb") as file:
                    told = file.read(4 << 20)
                for word in told.split(b"\0") if head in told else ():
                    if word.startswith(head) and not _ended(int(name)):
                        found[int(name)] = os.fsdecode(word[len(head) :])
    return found


def processes(runs: Path, session: int = 0) -> dict[int, str]:
    """All processes of ours that came from a run below that folder, or are of that session: pid -> the run's folder, "" where it does
    not say. Looks at every process of the machine."""
    head = f"{RUN}={runs}".encode("utf-8", "surrogateescape")
    found, own = {}, os.geteuid()
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != own:
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                told = file.read(4 << 20)
            if session and os.getsid(int(name)) == session and not _ended(int(name)):
                found[int(name)] = ""
        except OSError:
            continue
        for word in told.split(b"\0"):
            if word.startswith(head) and (len(word) == len(head) or word[len(head) : len(head) + 1] == b"/"):
                if not _ended(int(name)):
                    found[int(name)] = os.fsdecode(word[len(RUN) + 1 :])
                break
    return found


def files(pid: int) -> set[str]:
    """The paths of what a process has open; empty where it does not say."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def fate(run: Path, rebooted: bool = False) -> Fate:
    """What became of the run. rebooted: the machine was started since it was claimed.

    A run that has not begun, and of which nothing lives, is given up for good. Raises OSError where that cannot be written.
    """
    known = begun(run)
    if known and known.void:
        return Fate(NEVER)
    if (code := code_of(run)) is not None:
        word = error_of(run) if code in CANNOT else ""
        if word or (known and known.pid):
            return Fate(NOT_STARTED if word else ENDED, 0, code, word)
        return Fate(NEVER)  # its keeper could not make `start`
    if rebooted or (known and known.pid and known.boot != (boot_id() or NO_BOOT)):
        return Fate(REBOOTED)  # without `start` too: it may have been lost with the power
    if known and known.pid:
        if keeps(known.pid, run):
            return Fate(RUNS, known.pid)
        left = processes(run, known.command)
        if code_of(run) is not None:  # it ended while we looked
            return fate(run, rebooted)
        return Fate(ORPHAN, known.command if known.command in left else min(left)) if left else Fate(GONE)
    if known is None and void(run):
        return Fate(NEVER)
    if (known := begun(run)) and known.pid:  # a keeper was faster
        return fate(run, rebooted)
    if known and known.void:
        return Fate(NEVER)
    for pid in keepers():
        if keeps(pid, run):  # between making `start` and filling it
            return Fate(RUNS, pid)
    if (known := begun(run)) and known.pid:
        return fate(run, rebooted)
    return Fate(NEVER)  # `start` was never filled: a full disk, or a kill; the command comes after that


def goes_on(run: Path) -> bool:
    """Whether its keeper waits for its command still: also a run of a book that was removed. Nothing is changed."""
    known = begun(run)
    return known is not None and known.pid > 0 and code_of(run) is None and keeps(known.pid, run)


def children(pid: int) -> list[int]:
    """The processes that a process started and has not waited for."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read(1 << 16).split()]
    except (OSError, ValueError):  # a kernel without it
        return [other for other in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _parent(other) == pid]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read(MOST).rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _ended(pid: int) -> bool:
    """Whether it is gone, or only waits to be asked for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(MOST).rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def _read(path: str) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, MOST).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
