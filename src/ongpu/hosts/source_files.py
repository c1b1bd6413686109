"""The Python files and notebooks under the paths that a user names; and how a repaired one is written back."""

import fnmatch
import io
import json
import os
import stat
import tempfile
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ongpu.facts.source_text import parses
from ongpu.model import Edit, Evidence

MAX_BYTES = 4 << 20  # of one file: longer ones are data, not programs
TOO_LARGE = f"larger than {MAX_BYTES >> 20} MiB"
SUFFIXES = (".py", ".pyw", ".ipynb")
# Folders that hold other people's code or nothing to read; looked into only where they are named themselves.
PASSED_BY = frozenset(
    {
        ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", ".eggs", ".mypy_cache", ".pytest_cache", ".ruff_cache",
        ".ipynb_checkpoints", "__pycache__", "__pypackages__", "node_modules", "site-packages", "build", "dist", "_build",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was read. newline: what ends its lines on disk; its text ends them with "\\n"."""

    path: Path
    evidence: Evidence
    encoding: str = "utf-8"
    newline: str = "\n"


def walk(paths: Sequence[Path], exclude: Sequence[str] = ()) -> Iterator[Path]:
    """The files to read, each once, in order. `exclude`: glob patterns of names or of paths."""
    seen: set[Path] = set()
    for path in paths:
        found = [path] if not path.is_dir() else _under(path, exclude)
        for file in found:
            if file not in seen:
                seen.add(file)
                yield file


def _under(folder: Path, exclude: Sequence[str]) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):  # links to folders are not followed: they may go in circles
        here = Path(root)
        folders[:] = sorted(name for name in folders if name not in PASSED_BY and not _excluded(here / name, exclude))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not _excluded(here / name, exclude):
                yield here / name


def _excluded(path: Path, patterns: Sequence[str]) -> bool:
    text = path.as_posix()
    return any(fnmatch.fnmatch(path.name, p) or fnmatch.fnmatch(text, p) or fnmatch.fnmatch(text, f"*/{p.rstrip('/')}") for p in patterns)


def read(path: Path) -> SourceFile:
    """One file. Where it cannot be read as a program, its evidence has no text and says why."""
    try:
        about = path.stat()
        if about.st_size > MAX_BYTES:
            return _unread(path, TOO_LARGE)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return _unread(path, error.strerror or str(error))
    named = path.suffix.lower() in SUFFIXES or not stat.S_ISREG(about.st_mode)  # `ongpu lint <(git show HEAD:train.py)`
    if not named and not (data.startswith(b"#!") and b"python" in data[:200].partition(b"\n")[0]):
        return _unread(path, "not a Python file")
    return of_bytes(path, data)


def _unread(path: Path, problem: str) -> SourceFile:
    return SourceFile(path, Evidence("python", "", path.as_posix(), problem=problem))


def of_bytes(path: Path, data: bytes) -> SourceFile:
    """A file of these bytes, decoded as Python itself would (a byte order mark, a coding line, else UTF-8)."""
    origin = path.as_posix()
    if len(data) > MAX_BYTES:
        return _unread(path, TOO_LARGE)
    try:
        encoding = "utf-8" if path.suffix == ".ipynb" else tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return _unread(path, f"not readable as text: {error}")
    if path.suffix == ".ipynb" and sources(text) is None:
        return _unread(path, "not a notebook that can be read")
    newline = "\r\n" if "\r\n" in text else "\n"
    return SourceFile(path, Evidence("python", text.replace("\r\n", "\n").replace("\r", "\n"), origin), encoding, newline)


def sources(text: str) -> list[str] | None:
    """The sources of a notebook's cells, in order; None where the text is no notebook."""
    try:
        return [_joined(cell.get("source", "")) for cell in json.loads(text)["cells"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def programs(text: str) -> list[str] | None:
    """The sources of a notebook's code cells; None where the text is no notebook."""
    told = sources(text)
    if told is None:
        return None
    return [words for words, cell in zip(told, json.loads(text)["cells"], strict=True) if cell.get("cell_type") == "code"]


def _joined(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def made(edits: Iterable[Edit]) -> list[Edit]:
    """The edits of one text that are made together, in order: of two that overlap, the one further down is left for the next round."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda e: (e.line, e.column, e.end_line, e.end_column, e.text)):
        if not kept or (edit.line, edit.column) >= (kept[-1].end_line, kept[-1].end_column):
            kept.append(edit)
    return kept


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made, the last first."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for e in reversed(made(edits)):
        text = text[: starts[e.line - 1] + e.column] + e.text + text[starts[e.end_line - 1] + e.end_column :]
    return text


def repaired(file: SourceFile, edits: Sequence[Edit]) -> str | None:
    """The file's text with the edits made; None where nothing changes or the result would be no program.

    Edits of a notebook name its cell, of all its cells, in their origin ("train.ipynb:cell 3") and count lines in that cell.
    """
    text = file.evidence.text
    if file.path.suffix != ".ipynb":
        new = edited(text, edits)
        return new if new != text and parses(new) else None
    notebook = json.loads(text)
    changed = False
    for origin in dict.fromkeys(edit.origin for edit in edits):
        number = int(origin.rpartition("cell ")[2])
        cell = notebook["cells"][number - 1]
        source = _joined(cell["source"])
        new = edited(source, (edit for edit in edits if edit.origin == origin))
        if new != source:
            changed = True
            cell["source"] = new.splitlines(keepends=True) if isinstance(cell["source"], list) else new
    return _in_style(notebook, text) if changed else None


def _in_style(notebook: object, before: str) -> str:
    """The notebook as JSON, written as the file was: its indent, separators, escapes and last line end."""
    body = before.rstrip()
    original = json.loads(before)
    for ascii_only in (False, True):
        for indent in (1, 2, 4, None, "\t"):
            for separators in ((",", ": "), (", ", ": "), (",", ":")):
                if json.dumps(original, ensure_ascii=ascii_only, indent=indent, separators=separators) == body:
                    style = json.JSONEncoder(ensure_ascii=ascii_only, indent=indent, separators=separators)
                    return style.encode(notebook) + before[len(body) :]
    second = body.split("\n")[1:2]  # of no one style: its first indent, at least
    spaces = len(second[0]) - len(second[0].lstrip(" ")) if second else None
    return json.dumps(notebook, ensure_ascii=False, indent=spaces) + before[len(body) :]


def encoded(file: SourceFile, text: str) -> bytes:
    """The text with the file's own line ends and encoding."""
    return text.replace("\n", file.newline).encode(file.encoding)


def write(file: SourceFile, text: str) -> None:
    """Put the text in the file's place in one step, with its mode kept: a kill in the middle loses nothing."""
    target = file.path.resolve()  # a link stays a link
    data = encoded(file, text)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.chmod(name, target.stat().st_mode & 0o7777)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
