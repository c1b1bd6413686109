"""Copies of submitted shell scripts: what runs is what the script said when it was submitted, as with sbatch.

They lie in `scripts/` of the queue's folder, each once however many jobs have it. The script's own shell reads the copy with `.`, so that
$0 is the name that was typed and the working directory the one that was asked for: a script that looks for files beside itself finds
them. Of other programs' scripts nothing is copied: a Python program imports what lies beside it, and is more than its first file. Nor of
a script that asks by other means where it lies, or whether it is sourced.
"""

import hashlib
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ongpu.lazy import lazy
from ongpu.queue.job import Spec

FOLDER = "scripts"
SHELLS = ("sh", "bash", "dash", "ksh")  # those whose `.` leaves $0 alone (zsh's does not)
MOST = 4 << 20  # bytes of a script, as many as Slurm takes
SPARED = 86400.0  # seconds for which a copy stays that no job has: its job may be about to be written down
_FLAGS = lazy("-[abefhklmpuvxBCEHPT]+|--login|--norc|--noprofile|--posix")  # of a shell that goes on to its script
_SELF = lazy(rb"BASH_SOURCE|FUNCNAME|\(\s*return\b")
_NOT_PLAIN = lazy("[^A-Za-z0-9._-]")


def copied(queue: Path, command: Sequence[str], folder: str) -> str:
    """Copies the script that this command runs; what is to stand in `Spec.script`: the place of its word, and its copy's name. "": the
    command runs no script of a shell. folder: the job's. Raises OSError where the copy cannot be written."""
    number = _interpreter(command)
    if not 0 <= number < len(command) or (not number and "/" not in command[0]):
        return ""
    path = os.path.join(folder or "/", command[number])
    data = _read(path, b"" if number else b"#!")
    if data is None or (not number and not (_shebang(data) and os.access(path, os.X_OK))):  # without the run bit it does not start
        return ""
    name = f"{hashlib.sha256(data).hexdigest()[:16]}-{_NOT_PLAIN.sub('_', os.path.basename(command[number]))[:64]}"
    _write(queue / FOLDER, name, data)
    return f"{number}:{name}"


def arguments(queue: Path, spec: Spec) -> list[str]:
    """The command as it is started."""
    if not spec.script:
        return list(spec.command)
    word, _, name = spec.script.partition(":")
    number, copy = int(word), queue / FOLDER / name
    program = list(spec.command[:number]) or _shebang(_read(str(copy)) or b"") or ["/bin/sh"]  # which says so where the copy is gone
    return [*program, "-c", f". {shlex.quote(str(copy))}", *spec.command[number:]]


def prune(queue: Path, used: Iterable[str], now: float) -> None:
    """Removes the copies that no job has any more. used: `Spec.script` of all jobs."""
    names = {script.partition(":")[2] for script in used}
    try:
        with os.scandir(queue / FOLDER) as there:
            for entry in there:
                if entry.name not in names and now - entry.stat(follow_symlinks=False).st_mtime > SPARED:
                    os.unlink(entry.path)
    except OSError:  # none was ever made; or next time
        return


def _interpreter(words: Sequence[str]) -> int:
    """How many words name a shell that reads a script next; 0: they name none, -1: one that reads none, as with -c."""
    number = 1 if words and os.path.basename(words[0]) == "env" else 0
    if number >= len(words) or os.path.basename(words[number]) not in SHELLS:
        return 0
    number += 1
    while number < len(words) and _FLAGS.fullmatch(words[number]):
        number += 1
    return number if number == len(words) or not words[number].startswith("-") else -1


def _shebang(data: bytes) -> list[str]:
    """The shell that a script names in its first line; [] where that is another program, or called in a way that is not known."""
    first = data[: data.find(b"\n")] if b"\n" in data else data
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    return words if words and _interpreter(words) == len(words) else []


def _read(path: str, begins: bytes = b"") -> bytes | None:
    """A script that may be copied, where it begins so."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            data = file.read(len(begins))
            if data != begins:
                return None
            data += file.read(MOST + 1 - len(data))
    except OSError:
        return None
    return None if len(data) > MOST or b"\0" in data or _SELF.search(data) else data


def _write(folder: Path, name: str, data: bytes) -> None:
    """On the disk when it returns; one that is there is as good as new."""
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.utime(folder / name)
        return
    except FileNotFoundError:
        pass
    new = folder / f".{name}.{os.getpid()}.{time.monotonic_ns()}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    try:
        with open(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, folder / name)
    except OSError:
        os.unlink(new)
        raise
