"""Jobs as squeue prints them as JSON, in all of its versions, read into rows; what Slurm's other programs print is in printed.py. Pure.

All of it may hold what other users wrote (names, comments): nothing is trusted beyond its type, and a row that makes no sense is left out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from ongpu.lazy import dataclass, lazy, replace
from ongpu.queue.asked import MOST_ARRAY, array
from ongpu.queue.engines import EngineError

UNSET = 0xFFFFFFFC  # from NO_VAL-2 on, 32 bits mean "not set" or "infinite" (slurm.h)
_IDX = lazy(r"gpu(?::[^:(,]{1,64})?:(\d{1,5})\(IDX:([\d,-]{1,400})\)")
_GPUS = lazy(r"(?:gres[/:])?gpu(?::(?P<type>\w[\w.-]{0,63}))??(?:[:=](?P<count>\d{1,5}))?")  # "gpu:2" has no type, "gpu:3090:2" has one
_HOSTS = lazy(r"(?:[^,\[\]\s]{1,200}|\[[\d,-]{1,4000}\]){1,16}")
_SIZE = lazy(r"mem=(\d{1,15}(?:\.\d{1,3})?)([KMGTP]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job. Times in seconds since the epoch; limit in seconds, memory in MiB; None, "": not told. id: "123" or "123_4".

    state: Slurm's words, the base first ("RUNNING COMPLETING"). tasks: of an array, those that are not split off yet.
    code: 128 + n for signal n. gres: what it holds by node: (node, index)."""

    id: str
    array: str = ""
    index: int | None = None
    tasks: tuple[int, ...] = ()
    at_once: int | None = None
    raw: str = ""
    name: str = ""
    user: str = ""
    state: str = ""
    reason: str = ""
    code: int | None = None
    submitted: float = 0.0
    eligible: float | None = None
    started: float | None = None
    ended: float | None = None
    limit: float | None = None
    nodes: str = ""
    gres: tuple[tuple[str, int], ...] = ()
    gpus: int = 0
    type: str = ""
    cpus: int | None = None
    memory: int | None = None
    comment: str = ""
    folder: str = ""
    output: str = ""
    command: str = ""
    restarts: int = 0
    priority: int | None = None
    dependency: str = ""
    partition: str = ""
    account: str = ""
    reservation: str = ""


# --- squeue --json


def from_json(text: str) -> list[Row]:
    """Of `squeue --json` (21.08 and newer: numbers bare or as {"set", "infinite", "number"}, states as a word or a list).
    Error: ValueError where it is no such answer."""
    try:
        told = json.loads(text)
        jobs = told["jobs"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not the JSON of squeue: {str(error)[:100]}") from None
    if not isinstance(jobs, list):
        raise ValueError("not the JSON of squeue: jobs")
    return [row for job in jobs if isinstance(job, dict) and (row := _job(job)) is not None]


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < UNSET << 20:
        return None
    return None if UNSET <= value <= 0xFFFFFFFF else int(value)


def _text(value: Any) -> str:
    return value[:4096] if isinstance(value, str) else ""


def _time(value: Any) -> float | None:
    return float(number) if (number := _number(value)) else None


def _states(value: Any) -> str:
    words = value if isinstance(value, list) else [value]
    return " ".join(str(word)[:40].upper() for word in words[:8])


def _wait_status(value: Any) -> int | None:
    """An exit code of a status as wait(2) gives it, or of its parts; 128 + n for signal n."""
    if isinstance(value, dict) and ("return_code" in value or "signal" in value):
        signal = value.get("signal")
        number = _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
        return 128 + number if number else _number(value.get("return_code"))
    status = _number(value)
    if status is None:
        return None
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8 & 0xFF


def _job(job: Mapping[str, Any]) -> Row | None:
    raw = _number(job.get("job_id"))
    if not raw:
        return None
    parent, index = _number(job.get("array_job_id")), _number(job.get("array_task_id"))
    waiting = _text(job.get("array_task_string"))
    tasks, at_once = tasks_of(waiting)
    at_once = at_once or _number(job.get("array_max_tasks")) or None
    name = f"{parent}_{index}" if parent and index is not None else str(raw)
    nodes = _text(job.get("nodes")) or _text(_inner(job, "job_resources", "nodes"))
    minutes = _number(job.get("time_limit"))
    request = " ".join(_text(job.get(key)) for key in ("tres_per_node", "tres_per_job", "tres_per_task", "tres_req_str"))
    count, kind = asked_gpus(request)
    details = job.get("gres_detail")
    gres = held(nodes, [_text(one) for one in details]) if isinstance(details, list) else ()
    return Row(
        id=name, array=str(parent) if parent else "", index=index, tasks=tasks, at_once=at_once, raw=str(raw), name=_text(job.get("name")),
        user=_text(job.get("user_name")) or str(_number(job.get("user_id")) or 0), state=_states(job.get("job_state", "")),
        reason=_text(job.get("state_description")) or _text(job.get("state_reason")), code=_wait_status(job.get("exit_code")),
        submitted=_time(job.get("submit_time")) or 0.0, eligible=_time(job.get("eligible_time")), started=_time(job.get("start_time")),
        ended=_time(job.get("end_time")), limit=60.0 * minutes if minutes else None, nodes=nodes, gres=gres, gpus=len(gres) or count,
        type=kind,
        cpus=_number(job.get("cpus")), memory=memory_of(_text(job.get("tres_req_str"))), comment=_text(job.get("comment")),
        folder=_text(job.get("current_working_directory")), output=_text(job.get("stdout_expanded")) or _text(job.get("standard_output")),
        command=_text(job.get("command")),
        restarts=_number(job.get("restart_cnt")) or 0, priority=_number(job.get("priority")), dependency=_text(job.get("dependency")),
        partition=_text(job.get("partition")), account=_text(job.get("account")), reservation=_text(job.get("resv_name")),
    )  # fmt: skip


def _inner(value: Mapping[str, Any], *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None  # type: ignore[assignment]
    return value


def tasks_of(text: str) -> tuple[tuple[int, ...], int | None]:
    """Those of "1-3,7%2"; long lists that Slurm cut ("1,3,5,...") give what is there."""
    if not text:
        return (), None
    body, mark, many = text.partition("%")
    try:
        return array(body.partition("...")[0].rstrip(",") + (mark + many if many.isdecimal() else ""))
    except EngineError:
        return (), None


def asked_gpus(text: str) -> tuple[int, str]:
    """(how many, type) of "gres:gpu:a100:2", "gres/gpu:2", "cpu=4,mem=8G,gres/gpu=2,gres/gpu:a100=2"."""
    count, kind = 0, ""
    for word in re.split(r"[ ,]", text):
        match = _GPUS.fullmatch(word)
        if match:
            count, kind = max(count, int(match["count"] or 1)), kind or match["type"] or ""
    return count, kind


def memory_of(tres: str) -> int | None:
    """MiB of "cpu=4,mem=8G,node=1"; None: not told."""
    match = _SIZE.search(tres)
    return round(float(match[1]) * 1024.0 ** ("KMGTP".index(match[2] or "M") - 1)) if match else None


def held(nodes: str, details: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Which GPUs a job holds: of its nodes and, node by node, "gpu:a100:2(IDX:0-1)"."""
    found: list[tuple[str, int]] = []
    for node, detail in zip(hosts(nodes), details, strict=False):
        for match in _IDX.finditer(detail):
            found += [(node, index) for index in numbers(match[2])]
    return tuple(found[:1024])


def numbers(text: str) -> list[int]:
    """Of "0-1,3"; at most 1024."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found += range(int(first), min(int(last or first), int(first) + 1023) + 1)
    return found[:1024]


def hosts(text: str, most: int = 4096) -> list[str]:
    """The names of a host list: "gpu[01-03,7],login1", "rack[1-2]n[1-8]"; at most so many."""
    found: list[str] = []
    for part in _HOSTS.finditer(text[:65_536]):
        names = [""]
        for piece in re.split(r"(\[[^]]*\])", part[0]):
            ends = _numbered(piece[1:-1], most) if piece.startswith("[") else [piece]
            names = list(islice((name + end for name in names for end in ends), most))
        found += names
        if len(found) > most:
            break
    return found[:most]


def _numbered(text: str, most: int) -> list[str]:
    """Of "01-03,7": as wide as they are written."""
    found: list[str] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            upto = min(int(last or first), int(first) + most)
            found += [f"{number:0{len(first)}}" for number in range(int(first), upto + 1)]
    return found[:most]


def split(row: Row, most: int = MOST_ARRAY) -> list[Row]:
    """A row of an array of which tasks wait, as one row each; at most so many."""
    if row.index is not None or not row.tasks:
        return [row]
    parent = row.array or row.id
    return [replace(row, id=f"{parent}_{index}", array=parent, index=index, tasks=()) for index in row.tasks[:most]]
