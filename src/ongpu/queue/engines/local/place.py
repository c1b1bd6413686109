"""Whether a folder may hold this user's queue: nobody else can write it, and no other machine uses it."""

import contextlib
import os
import stat
from pathlib import Path

from ongpu.queue.engines.local.refusals import BookError

MOUNTS = "/proc/self/mounts"
MACHINE = "machine"  # a file with the name of the machine whose queue it is; only on a network
# File systems that several machines may have mounted. SQLite's log cannot be shared by them (https://www.sqlite.org/wal.html, 1), and
# a job of one would start on another.
SHARED = (
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "ocfs2", "gfs2", "orangefs", "pvfs2", "wekafs",
    "panfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.juicefs", "fuse.quobyte",
)  # fmt: skip


def look(folder: Path, file: Path, create: bool) -> None:
    """Makes the folder where it may. Raises BookError, OSError."""
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _looked(folder, file, create)
    except (FileExistsError, NotADirectoryError):
        raise BookError("folder", folder) from None


def _looked(folder: Path, file: Path, create: bool) -> None:
    for path, kind in ((folder, stat.S_ISDIR), (file, stat.S_ISREG)):
        try:
            status = path.stat() if path is folder else path.lstat()
        except FileNotFoundError:
            if create:
                break
            raise BookError("missing", folder) from None
        if not kind(status.st_mode):
            raise BookError("folder" if path is folder else "foreign", path)
        if status.st_uid != os.geteuid():
            raise BookError("owner", path, f"uid {status.st_uid}")
        if status.st_mode & 0o022:
            raise BookError("open", path, f"{stat.S_IMODE(status.st_mode):04o}")
    if kind_of(folder) in SHARED:
        _mine(folder)


def kind_of(folder: Path) -> str:
    """The type of the file system, as mount(8) names it; "" where it is not told."""
    real = os.path.realpath(folder)
    found, kind = -1, ""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, where, what, *_ = [*line.split(" ", 3), "", ""]
                if not where.startswith("/"):
                    continue
                where = where.replace("\\040", " ").rstrip("/")
                if len(where) >= found and (real == where or real.startswith(f"{where}/")):  # of two at one place the later covers
                    found, kind = len(where), what
    except OSError:
        return ""
    return kind


def _mine(folder: Path) -> None:
    """Writes down whose queue it is, where that is not known; refuses another machine's."""
    name = os.uname().nodename
    with contextlib.suppress(FileExistsError):
        file = os.open(folder / MACHINE, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, name.encode())
            os.fsync(file)
        finally:
            os.close(file)
    there = (folder / MACHINE).read_bytes()[:256].decode("utf-8", "replace").strip()
    if there and there != name:  # empty: made by one that was killed then
        raise BookError("elsewhere", folder, there)
