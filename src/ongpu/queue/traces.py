"""Traces of jobs that ran, of four kinds, as tasks for the simulation; read within bounds, since what is read may be hostile."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from ongpu.lazy import dataclass, lazy
from ongpu.queue.simulate import Task

MAX_LINE, MAX_LINES, MAX_NAME = 20_000, 5_000_000, 64
MAX_REST = 100_000_000  # characters of an overlong line that are read over: a device has no end
MAX_SECONDS, MAX_GPUS, MAX_MEMORY = 10 * 365 * 86_400.0, 100_000, 1 << 30
LATEST = 253_402_300_799.0  # the end of the year 9999, in seconds
_ELAPSED = lazy(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,6})(?:\.\d{1,9})?")  # Slurm: [days-][hours:]minutes:seconds
_TRES = lazy(r"(?:^|,)gres/gpu(:[^=,]{1,64})?=(\d{1,6})(?=,|$)")
Row = Mapping[str, str]


class TraceError(Exception):
    """A trace that cannot be used, in both languages."""

    def __init__(self, en: str, zh: str) -> None:
        super().__init__(en)
        self.en, self.zh = en, zh


@dataclass(frozen=True, slots=True)
class Trace:
    """What a file held. skipped: rows that are no finished GPU job. groups: jobs by virtual cluster, project or account."""

    kind: str
    tasks: tuple[Task, ...]
    skipped: int
    groups: Mapping[str, int]


def read(path: Path, cluster: str | None = None) -> Trace:
    """The tasks of a trace, by submission; with `cluster`, those of that virtual cluster, project or account. Error: TraceError."""
    try:
        with path.open("r", encoding="utf-8", errors="replace", newline=None) as lines:
            return parse(_bounded(lines), cluster)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}", f"{path}：{error.strerror}") from None


def parse(lines: Iterable[str], cluster: str | None = None) -> Trace:
    """The same of lines."""
    feed = islice(lines, MAX_LINES)
    first = next((line for line in feed if line.strip()), "").strip().lstrip("\ufeff")
    kind, rows = _rows(first, feed)
    make = _KINDS[kind]
    tasks: list[Task] = []
    groups: dict[str, int] = {}
    skipped = 0
    for number, row in enumerate(rows):
        task = None
        if row is not None:
            try:
                task = make(row, number)
            except (ValueError, KeyError, OverflowError, TypeError):
                task = None
        if task is None:
            skipped += 1
            continue
        if len(groups) < 10_000 or task.project in groups:
            groups[task.project] = groups.get(task.project, 0) + 1
        if cluster is None or task.project == cluster:
            tasks.append(task)
    if not tasks:
        if cluster is not None and groups:
            most = ", ".join(sorted(filter(None, groups), key=lambda name: -groups[name])[:10])
            english, chinese = (f"; it has: {most}", f"；有：{most}") if most else ("", "")
            raise TraceError(f"no jobs of {cluster} in it{english}", f"其中没有 {cluster} 的作业{chinese}")
        raise TraceError("no finished GPU job in it", "其中没有已结束的 GPU 作业")
    return Trace(kind, tuple(sorted(tasks, key=lambda task: (task.submitted, task.id))), skipped, groups)


def _bounded(lines: Iterable[str]) -> Iterator[str]:
    """Lines of bounded length; of an overlong one the rest is read over."""
    readline: Callable[[int], str] | None = getattr(lines, "readline", None)
    if readline is None:
        yield from lines
        return
    while line := readline(MAX_LINE):
        if not line.endswith("\n") and len(line) >= MAX_LINE:
            for _ in range(MAX_REST // MAX_LINE):
                if not (rest := readline(MAX_LINE)) or rest.endswith("\n"):
                    break
            else:
                raise TraceError("a line of it has no end", "其中有一行没有结尾")
            line = "\n"
        yield line


def _rows(first: str, feed: Iterator[str]) -> tuple[str, Iterator[Row | None]]:
    if first.startswith("{"):
        return "history", (_json(line) for line in _with(first, feed) if line.strip())
    mark = "|" if "|" in first.split(",")[0] else ","
    names = first.split(mark)
    kinds = {
        "philly": {"timestamp", "duration", "num_gpus"},
        "openb": {"num_gpu", "creation_time", "deletion_time"},
        "sacct": {"JobID", "Submit"},
    }
    for kind, wanted in kinds.items():
        if wanted <= set(names):
            return kind, (_columns(names, line, mark) for line in feed if line.strip())
    raise TraceError(
        "not a trace that is known: Philly (timestamp,duration,num_gpus), Alibaba openb, sacct --parsable2, "
        "or the queue's history (JSON lines)",
        "无法识别的记录：支持 Philly（timestamp,duration,num_gpus）、阿里 openb、sacct --parsable2，以及队列历史（JSON Lines）",
    )


def _with(first: str, feed: Iterator[str]) -> Iterator[str]:
    yield first
    yield from feed


def _columns(names: list[str], line: str, mark: str) -> Row | None:
    cells = line.rstrip("\r\n").split(mark)
    return dict(zip(names, cells, strict=True)) if len(cells) == len(names) else None


def _json(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    return {name: str(value) for name, value in row.items() if value is not None and isinstance(value, (str, int, float))}


def _task(number: int, name: str, submitted: float, duration: float, gpus: int, **more: object) -> Task | None:
    """A task, where its figures can be true."""
    if not (0 < duration <= MAX_SECONDS and 0 <= submitted <= LATEST and 0 < gpus <= MAX_GPUS):  # not a number: no
        return None
    return Task(f"{number:07d}{':' if name else ''}{_name(name)}", submitted, duration, gpus, **more)  # type: ignore[arg-type]


def _name(text: str) -> str:
    return "".join(c for c in text[:MAX_NAME] if c.isprintable())


def _time(text: str) -> float:
    """ISO time or seconds since the epoch; without a zone: UTC, so that all machines read the same."""
    try:
        return float(text)
    except ValueError:
        told = datetime.fromisoformat(text[:40])
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()


def _philly(row: Row, number: int) -> Task | None:
    """The slim form of siasosp23/artifacts."""
    return _task(number, "", _time(row["timestamp"]), float(row["duration"]), int(row["num_gpus"]), project=_name(row.get("cluster", "")))


def _openb(row: Row, number: int) -> Task | None:
    """Alibaba cluster-trace-gpu-v2023. A share of a GPU counts as one; times are seconds from the trace's start."""
    begun = float(row.get("scheduled_time") or row["creation_time"])
    duration = float(row["deletion_time"]) - begun
    return _task(number, row.get("name", ""), float(row["creation_time"]), duration, int(row["num_gpu"]), project=_name(row.get("qos", "")))


def _sacct(row: Row, number: int) -> Task | None:
    """`sacct --allusers --parsable2 --format=JobID,User,Account,Submit,ElapsedRaw,AllocTRES,TimelimitRaw,State`; steps are left out."""
    if "." in row["JobID"] or row.get("State", "").startswith(("PENDING", "RUNNING", "SUSPENDED")):
        return None
    duration = float(row["ElapsedRaw"]) if row.get("ElapsedRaw") else _elapsed(row["Elapsed"])
    found = _TRES.findall(row.get("AllocTRES") or row.get("ReqTRES", ""))
    plain = [int(count) for kind, count in found if not kind]  # gres/gpu=4,gres/gpu:a100=4 tells the same four twice
    gpus = plain[0] if plain else sum(int(count) for _, count in found)
    limit = float(row["TimelimitRaw"]) * 60 if row.get("TimelimitRaw", "").isdecimal() else None
    if limit is not None and not 0 < limit <= MAX_SECONDS:
        limit = None  # as good as none
    owner = {"user": _name(row.get("User", "")), "project": _name(row.get("Account", ""))}
    return _task(number, row["JobID"], _time(row["Submit"]), duration, gpus, **owner, limit=limit)


def _elapsed(text: str) -> float:
    found = _ELAPSED.fullmatch(text)
    if not found:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _history(row: Row, number: int) -> Task | None:
    """The queue's own history: id, submitted, started and ended (or duration), gpus, memory, user, project, checkpoint, limit."""
    duration = float(row["duration"]) if "duration" in row else _time(row["ended"]) - _time(row["started"])
    limit = float(row["limit"]) if "limit" in row else None
    if limit is not None and not 0 < limit <= MAX_SECONDS:
        return None
    memory = int(row.get("memory", "0"))
    if not 0 <= memory <= MAX_MEMORY:
        return None
    owner = {"user": _name(row.get("user", "")), "project": _name(row.get("project", ""))}
    more = {"memory": memory, "checkpoint": row.get("checkpoint") == "True", "limit": limit}
    return _task(number, row.get("id", ""), _time(row["submitted"]), duration, int(row["gpus"]), **owner, **more)


_KINDS: Mapping[str, Callable[[Row, int], Task | None]] = {"philly": _philly, "openb": _openb, "sacct": _sacct, "history": _history}
