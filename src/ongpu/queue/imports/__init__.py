"""The jobs that wait in another queue, read from its own listing: pueue's, task-spooler's or Slurm's; pure, nothing of it is executed.

Nothing is to start sooner than it would there: what waits for a job that is left where it is, is left too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ongpu.queue.engines import EngineError
from ongpu.queue.imports import pueue, slurm, spooler
from ongpu.queue.imports.found import LEFT, NOTES, Found, Imported, Wish

__all__ = ["LEFT", "NOTES", "Found", "Imported", "Wish", "read"]

MOST_TEXT, MOST_LINE, MOST_JOBS = 64 << 20, 200_000, 100_000
_JOBS: Mapping[str, Callable[[Any, Wish], tuple[str, Found | str]]] = {"pueue": pueue.job, "task-spooler": spooler.job, "slurm": slurm.job}
_NOTES = {"pueue": (), "task-spooler": ("quotes",), "slurm": ("slurm",)}


def read(text: str, wish: Wish) -> Imported:
    """The jobs of a listing. Raises EngineError where it is none that is known."""
    text = text[:MOST_TEXT].lstrip("\ufeff")
    kind, rows = _kind(text)
    reading = _JOBS[kind]
    jobs: list[Found] = []
    left: list[tuple[str, str]] = []
    notes: dict[str, None] = dict.fromkeys(_NOTES[kind])
    for row in rows:
        if len(jobs) + len(left) >= MOST_JOBS:
            break
        name, answer = reading(row, wish)
        if isinstance(answer, str):
            left.append((name, answer))
        else:
            jobs.append(answer)
    jobs = _without(_joined(jobs), left)
    if any(not job.spec.environ for job in jobs):
        notes["environment"] = None
    there = {job.id for job in jobs}
    kept = []
    for job in jobs:
        needs = tuple(need for need in job.needs if need[1] in there and need[1] != job.id)
        if len(needs) != len(job.needs):
            notes["dependency"] = None
        kept.append(Found(job.id, job.spec, needs, job.array))
    return Imported(kind, tuple(_in_order(kept)), tuple(left), tuple(notes))


def _joined(jobs: Iterable[Found]) -> list[Found]:
    """The parts of an array as one: Slurm lists those apart that ran before, or were changed."""
    found: dict[str, Found] = {}
    for job in jobs:
        before = found.get(job.id, job)
        found[job.id] = Found(job.id, before.spec, before.needs, tuple(sorted({*before.array, *job.array})))
    return list(found.values())


def _without(jobs: list[Found], left: list[tuple[str, str]]) -> list[Found]:
    """Those that wait for none that are left; the others are added to these. What has ended there is waited for no more."""
    followers: dict[str, list[str]] = {}
    for job in jobs:
        for _, one in job.needs:
            followers.setdefault(one, []).append(job.id)
    missing = {one for name, why in left if why != "ended" for one in (name, name.partition("_")[0])}  # a part of an array: all of it
    todo, bad = list(missing), dict[str, None]()
    while todo:
        for name in followers.pop(todo.pop(), ()):
            if name not in bad:
                bad[name] = None
                todo.append(name)
    left += [(name, "needs") for name in bad]
    return [job for job in jobs if job.id not in bad]


def _in_order(jobs: Iterable[Found]) -> list[Found]:
    """Those that others wait for come first; of a circle, the needs that close it are left out. Each need is looked at once."""
    waiting = {job.id: job for job in jobs}
    done: dict[str, Found] = {}
    for name in waiting:
        path: dict[str, Iterator[tuple[str, str]]] = {} if name in done else {name: iter(waiting[name].needs)}
        while path:
            last = next(reversed(path))
            following = next((one for _, one in path[last] if one not in done and one not in path), None)
            if following is not None:
                path[following] = iter(waiting[following].needs)
                continue
            del path[last]
            job = waiting[last]
            done[last] = Found(last, job.spec, tuple(need for need in job.needs if need[1] in done), job.array)
    return list(done.values())


def _kind(text: str) -> tuple[str, Iterator[Any]]:
    start = text.lstrip()[:20_000]
    if start.startswith("{"):
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            read = None
        tasks = read.get("tasks") if isinstance(read, dict) else None
        if isinstance(tasks, dict):
            return "pueue", iter(tasks.items())
    first = start.split("\n", 1)[0]
    if re.match(r"ID\s{1,9}State\s{1,20}Output\s", first):
        gpus = " GPUs " in first
        return "task-spooler", ((line, gpus) for line in _lines(text[text.index("\n") + 1 :] if "\n" in text else ""))
    if "JobId=" in start:
        return "slurm", slurm.records(text)
    if "|" in first and (head := [name.strip() for name in first.split("|")]) and {"JobID", "JOBID"} & set(head):
        return "slurm", (slurm.columns(head, line) for line in _lines(text.partition("\n")[2]))
    if re.match(r"\s{0,30}JOBID\s", first):  # squeue as it prints by itself
        return "slurm", ({"JOBID": line.split()[0]} for line in _lines(text.partition("\n")[2]))
    raise EngineError(
        "no list that is known: `pueue status --json`, `tsp -l`, `scontrol show job`, `sacct --parsable2`, `squeue --format=%all`",
        "无法识别的列表：支持 `pueue status --json`、`tsp -l`、`scontrol show job`、`sacct --parsable2`、`squeue --format=%all`",
    )


def _lines(text: str) -> Iterator[str]:
    return (line[:MOST_LINE] for line in text.splitlines() if line.strip())
