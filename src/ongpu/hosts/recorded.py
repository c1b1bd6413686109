"""A snapshot: the evidence of one machine as an archive (or a folder), written and replayed."""

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ongpu.model import Evidence

SCHEMA = 1
INDEX = "ongpu-snapshot.json"
MAX_BYTES = 256 << 20  # unpacked size that is read: a larger one is a mistake or an attack
MAX_FILES = 5000


def write(evidence: Sequence[Evidence], to: Path | BinaryIO, version: str) -> None:
    """Write a gzipped tar archive into a file or a stream: an index, and one text file per evidence."""
    index = []
    with tarfile.open(to, "w:gz") if isinstance(to, Path) else tarfile.open(fileobj=to, mode="w|gz") as archive:
        for number, item in enumerate(evidence):
            name = f"evidence/{number:04d}.txt" if item.text else None
            index.append(
                {"kind": item.kind, "origin": item.origin, "command": item.command, "problem": item.problem, "file": name}
            )
            if name:
                _add(archive, name, item.text)
        _add(archive, INDEX, json.dumps({"schema": SCHEMA, "ongpu": version, "evidence": index}, ensure_ascii=False, indent=1))


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def is_snapshot(path: Path) -> bool:
    """Whether it is one of ours."""
    if path.is_dir():
        return (path / INDEX).is_file()
    try:
        with tarfile.open(path, "r:*") as archive:
            return any(member.name == INDEX for _, member in zip(range(MAX_FILES), archive, strict=False))
    except (OSError, tarfile.TarError, EOFError):
        return False


def read(path: Path) -> list[Evidence]:
    """The evidence of a snapshot. ValueError where it is not one, or too large; nothing is ever unpacked to disk."""
    if path.exists() and not (path.is_dir() or path.is_file()):  # a pipe without a writer would be waited for for ever
        raise ValueError("not a snapshot of ongpu: no file")
    files = _folder(path) if path.is_dir() else _archive(path)
    if INDEX not in files:
        raise ValueError(f"not a snapshot of ongpu: it holds no {INDEX}; for other files use `ongpu explain`")
    try:
        index = json.loads(files[INDEX])
        if index["schema"] != SCHEMA:
            raise ValueError(f"snapshot of schema {index['schema']}; this ongpu reads {SCHEMA}: update ongpu")
        return [
            Evidence(
                str(entry["kind"]),
                files.get(str(entry.get("file")), b"").decode("utf-8", "replace"),
                str(entry["origin"]),
                entry.get("command"),
                entry.get("problem"),
            )
            for entry in index["evidence"]
        ]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"damaged snapshot: {type(error).__name__}: {error}") from error


def _folder(path: Path) -> dict[str, bytes]:
    names = [path / INDEX, *sorted(path.glob("evidence/*.txt"))[:MAX_FILES]]
    return {str(name.relative_to(path)): name.read_bytes() for name in names if name.is_file()}


def _archive(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(path, "r|*") as archive:
            for count, member in enumerate(archive):
                if count >= MAX_FILES:
                    raise ValueError(f"more than {MAX_FILES} files: not a snapshot")
                if not member.isfile():
                    continue
                total += member.size
                if total > MAX_BYTES:
                    raise ValueError(f"more than {MAX_BYTES >> 20} MiB unpacked: not read")
                file = archive.extractfile(member)
                files[member.name] = file.read() if file else b""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"cannot be read as a snapshot archive: {error}") from error
    return files
