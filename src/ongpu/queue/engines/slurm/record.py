"""What ongpu keeps of the jobs that it gave to Slurm: what was asked for, and the runs that the job's own script notes.

Slurm forgets a job some minutes after its end where it keeps no accounts; a line in a file of the user does not. Beside each other in a
folder of the user (shared by the nodes, as homes are): ID.json, ID.runs (each task of an array its own), ID.out.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ongpu.lazy import dataclass, lazy, replace
from ongpu.queue.asked import from_json, quick, to_json
from ongpu.queue.engines import EngineError
from ongpu.queue.job import Spec

MOST = 256 << 10  # bytes of a file that are read
_ID = lazy(r"(\d{1,12})(?:_(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as its script noted it. Times in seconds since the epoch. offset: bytes of the output before it. code None: not noted."""

    attempt: int
    start: float
    node: str = ""
    gpus: tuple[int, ...] = ()
    offset: int = 0
    end: float | None = None
    code: int | None = None
    again: bool = False  # it asked Slurm to run it again


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where they lie: beside the local engine's."""
    if told := environ.get("ONGPU_QUEUE"):
        return Path(told, "slurm")
    home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return Path(home, "ongpu", "queue", "slurm")


def parts(job: str) -> tuple[str, int | None]:
    """("123", 4) of "123_4". Error: ValueError."""
    match = _ID.fullmatch(job)
    if not match:
        raise ValueError(job)
    return match[1], int(match[2]) if match[2] else None


def valid(job: str) -> bool:
    """Whether it is a number of Slurm's."""
    return _ID.fullmatch(job) is not None


def keep(place: Path, job: str, token: str, specs: Mapping[int | None, Spec], now: float) -> None:
    """A job (or an array: specs by index) as it was asked for, without its environment, which may hold secrets. A full disk keeps none."""
    first = next(iter(specs.values()))
    told = _plain(first)
    other = {str(i): {k: v for k, v in _plain(s).items() if v != told.get(k)} for i, s in specs.items() if i is not None}
    tasks = {i: more for i, more in other.items() if more}
    text = json.dumps({"schema": 1, "token": token, "submitted": now, "spec": told, "indices": [int(i) for i in other], "tasks": tasks})
    with contextlib.suppress(OSError):
        part = place / f".{job}.part"
        part.write_text(text, "utf-8")
        part.chmod(0o600)
        part.replace(place / f"{job}.json")


def _plain(spec: Spec) -> dict[str, Any]:
    return {name: value for name, value in to_json(spec).items() if name != "environ"}


@dataclass(frozen=True, slots=True)
class Kept:
    """A record: of a job or of an array with its tasks."""

    token: str
    submitted: float
    told: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    indices: tuple[int, ...] = ()  # of an array

    def spec(self, index: int | None = None) -> Spec:
        """As it was asked for."""
        own = {} if index is None else {**self.tasks.get(str(index), {}), "index": index}
        return quick({**self.told, **own})


def read(place: Path, job: str) -> Kept | None:
    """The record of "123" or "123_4"; None where there is none, or it is not ours."""
    try:
        with open(place / f"{parts(job)[0]}.json", "rb") as file:
            told = json.loads(file.read(64 << 20))
        spec, tasks = told["spec"], told.get("tasks", {})
        indices = tuple(int(index) for index in told.get("indices", ()))
        kept = Kept(str(told["token"]), float(told["submitted"]), dict(spec), {str(k): dict(v) for k, v in tasks.items()}, indices)
        from_json(kept.told)
        return kept
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, EngineError):
        return None


def runs(place: Path, job: str) -> tuple[Run, ...]:
    """Its runs, as far as they are noted; the job's own script writes them, and anything that cannot be one is passed over."""
    try:
        with open(place / f"{job}.runs", "rb") as file:
            text = file.read(MOST).decode("utf-8", "replace")
    except OSError:
        return ()
    found: dict[int, Run] = {}
    for line in text.splitlines():
        words = line.split()
        with contextlib.suppress(ValueError, IndexError):
            kind, attempt = words[0], int(words[1])
            if kind == "start":
                found[attempt] = Run(attempt, float(words[2]), words[3], _indices(words[4]), int(words[5]))
            elif kind == "end" and attempt in found:
                run = found[attempt]
                found[attempt] = replace(run, end=float(words[2]), code=int(words[3]), again=words[4:5] == ["again"])
    return tuple(found[n] for n in sorted(found))


def cancel(place: Path, job: str, now: float) -> None:
    """Notes that it was asked to end, of a job of ours: when Slurm has forgotten it, nothing else tells so."""
    if read(place, job) is not None:
        with contextlib.suppress(OSError), open(place / f"{job}.runs", "a", encoding="utf-8") as file:
            file.write(f"cancel {now:.0f}\n")


def cancelled(place: Path, job: str) -> bool:
    """Whether it, or the array that it belongs to, was asked to end."""
    for name in {job, job.partition("_")[0]}:
        with contextlib.suppress(OSError), open(place / f"{name}.runs", "rb") as file:
            if any(line.startswith(b"cancel ") for line in file.read(MOST).splitlines()):
                return True
    return False


def _indices(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",")[:64] if re.fullmatch(r"\d{1,4}", word))


def all_ids(place: Path, most: int = 10_000) -> Iterator[str]:
    """The jobs of which there is a record, the newest first."""
    with contextlib.suppress(OSError):
        names = [entry.name[:-5] for entry in os.scandir(place) if entry.name.endswith(".json") and entry.name[:-5].isdecimal()]
        yield from sorted(names, key=int, reverse=True)[:most]
