"""Why a history cannot be opened or written, in words; what is done with a file that is of no use, and how a second agent is kept out."""

import contextlib
import errno
import os
import time
from pathlib import Path

_WORDS = {
    "missing": ("{path}: no history here yet; `ongpu watch` makes it", "{path}：这里还没有历史记录；运行 `ongpu watch` 后会生成"),
    "corrupt": ("{path}: the history is damaged ({detail})", "{path}：历史文件已损坏（{detail}）"),
    "foreign": ("{path}: this is not a history of ongpu", "{path}：这不是 ongpu 的历史文件"),
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


UNUSABLE = ("corrupt", "newer", "foreign")  # a file that an agent puts aside
PARTS = ("", "-wal", "-shm")  # the files that are one database


class StoreError(Exception):
    """Why the history cannot be opened or written. kind: a key of `_WORDS`; en, zh: one line for the user."""

    def __init__(self, kind: str, path: Path, detail: str = "") -> None:
        self.kind, self.path, self.detail = kind, path, detail
        self.en, self.zh = (words.format(path=path, detail=detail) for words in _WORDS[kind])
        super().__init__(self.en)


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
    kind = "denied" if isinstance(error, PermissionError) else "full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "io"
    return StoreError(kind, path, error.strerror or str(error))


def lock(path: Path) -> int:
    """Keeps a second agent out, for as long as the process lives; a file of its own, because closing SQLite's would drop SQLite's locks."""
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
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
        os.ftruncate(held, 0)
        os.pwrite(held, str(os.getpid()).encode(), 0)
    return held
