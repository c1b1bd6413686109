"""Leases of GPUs that all users of a machine see without a daemon: a file for each, locked while the GPU is taken.

The lock is the kernel's (an "open file description" lock, fcntl(2), Linux 3.15): it belongs to the open file, so that it passes to the
processes that the taker starts, as with flock(1), ends with the last of them, and can be looked at without being taken. The words in the
file are whatever its last taker wrote, or anyone: they are shown, and nothing rests on them. Leases are advisory: they bind those
who ask for them.
"""

import contextlib
import errno
import json
import os
import stat
import struct
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ongpu.hosts.stop import started
from ongpu.lazy import dataclass, lazy

if sys.platform == "linux":
    import fcntl
else:  # NVIDIA's other systems: Windows, where nobody shares
    fcntl = None  # type: ignore[assignment]

SHARED, FALLBACK = "/run/lock/ongpu", "/tmp/ongpu-leases"
LEASED = "ONGPU_LEASED"  # in the environment of a job: the UUIDs that it has leased, for an `ongpu run` inside of it
VARIABLE = "ONGPU_LEASES"  # another folder: tests, and containers that share one
MOST_WORDS = 4096  # bytes of a file that are read
GET, SET = 36, 37  # F_OFD_GETLK, F_OFD_SETLK (fcntl.h)
WHOLE, SLOTS = 0, 64  # a slot from 1 to 63 is one byte of the file: a part of the GPU, beside other parts; a whole GPU is all bytes
_LOCK = struct.Struct("hhqqi4x")  # struct flock on 64 bits: type, whence, start, length, pid
_NAME = lazy(r"(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z_-]{3,80}")


class Unusable(Exception):
    """Leases cannot be had here: why, in English and Chinese."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


@dataclass(frozen=True, slots=True)
class Holder:
    """Who says that he took a GPU. All but `gpu` may be missing or wrong: the file is writable by all. since: seconds since the epoch;
    memory: MiB that he wants; ended: that process is gone, but something that it started holds the lease on; drained: nothing runs there,
    the GPU is out of service: the slug of why."""

    gpu: str
    pid: int | None = None
    start: int | None = None  # clock ticks since boot
    user: str | None = None
    since: float | None = None
    command: str | None = None
    memory: int | None = None
    ended: bool = False
    drained: str | None = None


class Lease:
    """GPUs that are ours until `close`, or until the last process that has the files open ends."""

    def __init__(self, files: Mapping[str, int]) -> None:
        self.files = dict(files)  # UUID -> descriptor

    @property
    def gpus(self) -> tuple[str, ...]:
        """Their UUIDs."""
        return tuple(self.files)

    def say(self, about: Mapping[str, Any]) -> None:
        """Other words for others, as those of `take`."""
        for file in self.files.values():
            _write(file, about)

    def close(self) -> None:
        """Ours no more; children that got the files keep them."""
        for file in self.files.values():
            with contextlib.suppress(OSError):
                os.close(file)
        self.files = {}

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the leases of this machine lie: the same for all of its users, whoever asks first."""
    if told := environ.get(VARIABLE):
        return Path(told)
    with contextlib.suppress(OSError):
        mode = os.stat(os.path.dirname(SHARED)).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH:  # anyone can make it (Debian); elsewhere only root could
            return Path(SHARED)
    return Path(FALLBACK)


def opened(place: Path) -> int:
    """A descriptor of the folder, made where it is missing. Raises Unusable for one in which others' files can be taken away."""
    if fcntl is None:
        raise Unusable("leases need Linux", "租约需要 Linux")
    with contextlib.suppress(FileExistsError):
        try:
            os.mkdir(place, 0o700)
            os.chmod(place, 0o1777)  # noqa: S103 - all users' folder, like /tmp
        except FileExistsError:
            raise
        except OSError as error:
            raise Unusable(f"{place}: {error.strerror}", f"{place}：{error.strerror}") from None
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            found = os.open(place, flags)
        except PermissionError:  # made by someone a moment ago, and not yet open to all
            time.sleep(0.05)
            found = os.open(place, flags)
    except OSError as error:
        raise Unusable(f"{place}: no folder that can be used: {error.strerror}", f"{place}：不是可用的文件夹：{error.strerror}") from None
    about = os.fstat(found)
    private = about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)  # chosen by VARIABLE for oneself
    if not about.st_mode & stat.S_ISVTX and not private:
        os.close(found)
        english, chinese = "anyone could remove others' leases there; it needs mode 1777", "任何人都能删除他人的租约；权限应为 1777"
        raise Unusable(f"{place}: {english}", f"{place}：{chinese}")
    return found


def take(
    place: Path, gpus: Iterable[str], about: Mapping[str, Any], slots: Mapping[str, int] | None = None,
    beside: Mapping[str, Collection[int]] | None = None,
) -> "Lease | Holder":  # fmt: skip
    """All of these GPUs, or whoever holds one of them. Never waits: in the order of their UUIDs, so of several takers one gets all.

    about: the words for others: pid, start, user, since, command, memory, drained. slots: of a GPU of which a part is wanted, which one
    (1 to 63); beside: the slots of it that the taker has given out itself: whoever holds any other byte holds the GPU.
    """
    root = opened(place)
    files: dict[str, int] = {}
    try:
        for gpu in sorted(set(gpus)):
            slot = (slots or {}).get(gpu, WHOLE)
            file = _open(root, gpu, create=True)
            if file is None or not _lock(file, slot) or (slot and _others(file, {slot, *(beside or {}).get(gpu, ())})):
                holder = _holder(gpu, file)
                Lease(files).close()
                if file is not None:
                    os.close(file)
                return holder
            files[gpu] = file
            _write(file, about)
    except BaseException:
        Lease(files).close()
        raise
    finally:
        os.close(root)
    return Lease(files)


def held(place: Path, gpus: Iterable[str]) -> dict[str, Holder]:
    """Of these GPUs those that are taken, and by whom. Takes nothing, waits for nothing, disturbs no taker."""
    if fcntl is None or not place.is_dir():
        return {}
    found = {}
    root = opened(place)
    try:
        for gpu in gpus:
            file = _open(root, gpu, create=False)
            if file is None:
                continue
            try:
                if _locked(file):
                    found[gpu] = _holder(gpu, file)
            finally:
                os.close(file)
    finally:
        os.close(root)
    return found


def words(command: Sequence[str], memory: int | None = None) -> dict[str, Any]:
    """What others are told of this process. command: without its secrets; memory in MiB."""
    from ongpu.hosts.accounts import user_name
    from ongpu.hosts.sampling.proc import command as shown

    known = started(os.getpid())
    line = shown("\0".join(command).encode("utf-8", "replace"))
    return {
        "pid": os.getpid(), "start": known[0] if known else None, "user": user_name(os.getuid()), "since": round(time.time(), 1),
        "command": line, "memory": memory,
    }  # fmt: skip


def _open(root: int, gpu: str, create: bool) -> int | None:
    """The GPU's file; None where there is none yet. Planted links, pipes and devices are refused.

    A file of another user is never opened with O_CREAT: fs.protected_regular forbids that in such folders.
    """
    if not _NAME.fullmatch(gpu):
        raise Unusable(f"{gpu!r} is no UUID of a GPU", f"{gpu!r} 不是 GPU 的 UUID")
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    for _ in range(3):
        try:
            file = os.open(gpu, flags, dir_fd=root)
        except FileNotFoundError:
            if not create:
                return None
            try:
                file = os.open(gpu, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=root)
                os.fchmod(file, 0o666)
            except FileExistsError:
                continue
            except OSError as error:  # a full disk, a read-only one
                raise Unusable(f"{gpu}: {error.strerror}", f"{gpu}：{error.strerror}") from None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):  # made by its owner a moment ago, and not yet open to all
                time.sleep(0.01)
                continue
            english, chinese = f"the lease of {gpu} is no file that can be opened", f"{gpu} 的租约文件无法打开"
            raise Unusable(f"{english}: {error.strerror}", f"{chinese}：{error.strerror}") from None
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
            os.close(file)
            raise Unusable(f"the lease of {gpu} is not a plain file: someone planted it", f"{gpu} 的租约不是普通文件：可能被人做了手脚")
        if info.st_nlink == 1:  # else it was removed meanwhile
            return file
        os.close(file)
    raise Unusable(f"the lease of {gpu} cannot be opened", f"无法打开 {gpu} 的租约")


def _lock(file: int, slot: int = WHOLE) -> bool:
    """Whether it is ours now: all of it (and whatever it may ever hold: length 0), or that byte."""
    try:
        fcntl.fcntl(file, SET, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, slot, 1 if slot else 0, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise Unusable(f"locks do not work there: {error.strerror}", f"该处无法加锁：{error.strerror}") from None
    return True


def _locked(file: int, first: int = 0, many: int = 0) -> bool:
    """Whether any of those bytes is someone's (many 0: all from the first), without taking it; our own do not count."""
    told = fcntl.fcntl(file, GET, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, many, 0))
    return bool(_LOCK.unpack(told)[0] != fcntl.F_UNLCK)


def _others(file: int, ours: Collection[int]) -> bool:
    """Whether any byte but those is someone's: a part of the GPU that another queue gave out."""
    first = 0
    for slot in sorted(ours):
        if slot > first and _locked(file, first, slot - first):
            return True
        first = slot + 1
    return _locked(file, first)


def _write(file: int, about: Mapping[str, Any]) -> None:
    """The words, for others; a disk that is full keeps none, and the lease is a lease all the same."""
    text = json.dumps(dict(about), ensure_ascii=False).encode("utf-8", "replace")[:MOST_WORDS]
    with contextlib.suppress(OSError):
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))


def _holder(gpu: str, file: int | None) -> Holder:
    try:
        told = json.loads(os.pread(file, MOST_WORDS, 0)) if file is not None else None
    except (OSError, ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        return Holder(gpu)

    def number(name: str) -> int | None:
        value = told.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None

    def text(name: str) -> str | None:
        value = told.get(name)
        return "".join(char if char.isprintable() else "?" for char in value[:200]) if isinstance(value, str) else None

    pid, start, since = number("pid"), number("start"), told.get("since")
    now = started(pid) if pid else None
    gone = pid is not None and start is not None and (now is None or now[0] != start)
    at = float(since) if isinstance(since, (int, float)) and 0 <= since < 1e11 else None
    return Holder(gpu, pid, start, text("user"), at, text("command"), number("memory"), gone, text("drained"))
