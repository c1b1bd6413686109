"""A folder as a package that Ray unpacks on its nodes: a zip, named by what is in it, so that the same folder is sent once."""

import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator

from ongpu.queue.engines import EngineError

MOST_BYTES = 100 << 20  # of all files; Ray itself takes 500 MiB, and keeps it in the head node's memory
MOST_FILES = 20_000
LEFT_OUT = frozenset({"__pycache__", "node_modules", "venv", "wandb"})  # and all that begins with a dot
_MOMENT = (1980, 1, 1, 0, 0, 0)  # of every file: the same files make the same package


def package(folder: str) -> tuple[str, bytes]:
    """Its name and the zip. Links are followed to files, not to folders. Raises EngineError where it is too large, or cannot be read."""
    data = io.BytesIO()
    total = count = 0
    if not os.path.isdir(folder):
        raise EngineError(f"{folder}: no such folder to send", f"{folder}：没有这个要上传的目录")
    try:
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
            for path, name in _files(folder):
                count += 1
                with open(path, "rb") as file:
                    info = zipfile.ZipInfo(name, _MOMENT)
                    info.external_attr = (stat.S_IMODE(os.fstat(file.fileno()).st_mode) | stat.S_IFREG) << 16
                    info.compress_type = zipfile.ZIP_DEFLATED
                    text = file.read(MOST_BYTES - total + 1)
                total += len(text)
                if total > MOST_BYTES or count > MOST_FILES:
                    raise _too_large(folder)
                package.writestr(info, text)
    except OSError as error:
        raise EngineError(f"{folder}: cannot be read: {error}", f"{folder}：无法读取：{error}") from None
    except (UnicodeEncodeError, ValueError):
        raise EngineError(f"{folder}: a file's name is not UTF-8", f"{folder}：有文件名不是 UTF-8") from None
    text = data.getvalue()
    return f"_ray_pkg_{hashlib.sha256(text).hexdigest()[:32]}.zip", text


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """Paths and names within the package, always in the same order; what is no plain file is left out."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in LEFT_OUT)
        for name in sorted(files):
            path = os.path.join(place, name)
            if not name.startswith(".") and os.path.isfile(path):
                yield path, os.path.relpath(path, folder).replace(os.sep, "/")


def _too_large(folder: str) -> EngineError:
    return EngineError(
        f"{folder}: more than {MOST_BYTES >> 20} MiB or {MOST_FILES} files: too large to send; where the nodes share it, set [ray] "
        'folder = "path" in queue.toml',
        f"{folder}：超过 {MOST_BYTES >> 20} MiB 或 {MOST_FILES} 个文件，无法上传；若各节点共享该目录，请在 queue.toml 的 [ray] 中设 "
        'folder = "path"',
    )
