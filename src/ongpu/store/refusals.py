"""Why a history cannot be opened or written, in words; what is done with a file that is of no use, and how a second agent is kept out."""

import contextlib
import errno
import os
import stat
import time
from pathlib import Path
from typing import Literal

from ongpu.store.schema import APPLICATION

_WORDS = {
    "missing": ("{path}: no history here yet; `ongpu watch` makes it", "{path}：这里还没有历史记录；运行 `ongpu watch` 后会生成"),
    "corrupt": ("{path}: the history is damaged ({detail})", "{path}：历史文件已损坏（{detail}）"),
    "foreign": ("{path}: this is not a history of ongpu", "{path}：这不是 ongpu 的历史文件"),
    "refused": (
        "{path}: this is not a history of ongpu; it was left as it is, name another file",
        "{path}：这不是 ongpu 的历史文件；未做任何改动，请换一个文件名",
    ),
    "folder": ("{path}: there is no folder {detail}; make it first", "{path}：文件夹 {detail} 不存在；请先创建"),
    "newer": (
        "{path}: a newer ongpu wrote this history (format {detail}); update ongpu",
        "{path}：该历史由更新版本的 ongpu 写入（格式 {detail}）；请升级 ongpu",
    ),
    "older": (
        "{path}: an older ongpu wrote this history (format {detail}); restart `ongpu watch`",
        "{path}：该历史由旧版本的 ongpu 写入（格式 {detail}）；请重启 `ongpu watch`",
    ),
    "busy": ("{path}: another `ongpu watch` writes this history ({detail})", "{path}：另一个 `ongpu watch` 正在写该历史（{detail}）"),
    "denied": ("{path}: not permitted ({detail})", "{path}：没有权限（{detail}）"),
    "full": ("{path}: no room left to write ({detail})", "{path}：没有可写空间（{detail}）"),
    "io": ("{path}: the disk does not take it ({detail})", "{path}：磁盘读写失败（{detail}）"),
    "removed": ("{path}: the history was removed or replaced while in use", "{path}：历史文件在使用中被删除或替换"),
}
# The low byte of SQLite's result code (https://www.sqlite.org/rescode.html). What is not here is a fault of ours and is raised.
KINDS = {
    3: "denied", 5: "busy", 6: "busy", 8: "denied", 10: "io", 11: "corrupt", 13: "full", 14: "denied", 15: "busy", 22: "full",
    23: "denied", 26: "corrupt",
}  # fmt: skip


UNUSABLE = ("corrupt", "newer", "foreign")  # a file that an agent puts aside, where it is ours (`may_set_aside`)
MAGIC = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html, 1.3: the first 16 bytes
LOOKED_AT = 256 << 10  # bytes in which the names of our tables are looked for
_TABLES = (b"CREATE TABLE tick (n INTEGER PRIMARY KEY, t", b"CREATE TABLE gpu (id INTEGER PRIMARY KEY, uuid")
Standing = Literal["empty", "ours", "database", "blank", "other"]
PARTS = ("", "-wal", "-shm")  # the files that are one database


class StoreError(Exception):
    """Why the history cannot be opened or written. kind: a key of `_WORDS`; en, zh: one line for the user."""

    def __init__(self, kind: str, path: Path, detail: str = "") -> None:
        self.kind, self.path, self.detail = kind, path, detail
        self.en, self.zh = (words.format(path=path, detail=detail) for words in _WORDS[kind])
        super().__init__(self.en)


def standing(path: Path) -> Standing:
    """What stands at the path, by its bytes alone: nothing is opened for writing, and SQLite, which may write, not at all.

    empty: no file, no bytes or no tables; ours: of an ongpu, sound or not; database: another's, or too damaged to tell; blank: zeros, or
    the first bytes of a database; other: anything else. Raises OSError where it cannot be read.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "empty"
    if not stat.S_ISREG(mode):
        return "other"
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    if not head:
        return "empty"
    if not any(head) or (len(head) < 100 and MAGIC.startswith(head[:16])):
        return "blank"
    if not head.startswith(MAGIC):
        return "other"
    application = int.from_bytes(head[68:72], "big")
    if application == APPLICATION or any(table in head for table in _TABLES):
        return "ours"
    # Of a young history all may still be in the log; the file is then one leaf page (13) of sqlite_master with no cells.
    return "empty" if not application and head[100:101] == b"\x0d" and not any(head[103:105]) else "database"


def may_set_aside(path: Path, own: bool) -> bool:
    """Whether a file of no use may be renamed: one that is ours; at our own default place (own) also one too damaged to tell."""
    try:
        what = standing(path)
    except OSError:
        return False
    return what == "ours" or (own and what != "other")


def set_aside(path: Path) -> Path:
    """Renames a history that cannot be used, so that a new one can be begun; nothing is deleted. Returns its new name."""
    stamp = time.strftime("%Y%m%dT%H%M%S")
    names = (path.with_name(f"{path.name}.bad-{stamp}{f'-{count}' if count else ''}") for count in range(1000))
    aside = next(name for name in names if not any(os.path.lexists(f"{name}{part}") for part in PARTS))
    for part in PARTS:
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{part}", f"{aside}{part}")
    return aside


def refusal(error: OSError, path: Path) -> StoreError:
    """What the operating system would not do, as a StoreError."""
    if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
        return StoreError("folder", path, str(path.parent))
    kind = "denied" if isinstance(error, PermissionError) else "full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "io"
    return StoreError(kind, path, error.strerror or str(error))


def lock(path: Path) -> int:
    """Keeps a second agent out, for as long as the process lives, whichever link leads to the file.

    By a file of its own, because closing SQLite's would drop SQLite's locks.
    """
    import fcntl

    try:
        held = os.open(f"{os.path.realpath(path)}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise refusal(error, path) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        other = os.pread(held, 20, 0).decode("ascii", "replace").strip()
        os.close(held)
        raise StoreError("busy", path, f"pid {other or '?'}") from error
    except OSError:
        return held  # a file system without locks: better no lock than no history
    with contextlib.suppress(OSError):
        if os.pread(held, 64, 0).strip(b"0123456789"):
            return held  # another program's file of that name
        os.ftruncate(held, 0)
        os.pwrite(held, str(os.getpid()).encode(), 0)
    return held
