"""The processes on the GPUs, and what they did since the last look: shares and rates from counters."""

from collections.abc import Mapping
from typing import Any

from ongpu.lazy import dataclass, field

SHORTEST = 0.1  # seconds between two looks from which a rate is told: /proc counts processor time in hundredths, so to a tenth


@dataclass
class Child:
    """A process below one that is on a GPU, such as a worker that loads data."""

    pid: int
    name: str
    state: str | None
    cpu_share: float | None  # cores
    read_rate: float | None  # bytes per second from storage


@dataclass
class Proc:
    """A process on a GPU. Shares and rates are over the time since the last look at it; None: not told, or seen once only."""

    pid: int
    mem: int | None  # MiB on this GPU
    kind: str  # "C" compute, "G" graphics
    sm: int | None  # percent
    host: dict[str, Any] = field(default_factory=dict)  # facts.sample.HOST; {}: not visible from here
    cpu_share: float | None = None  # cores, all threads
    main_share: float | None = None  # cores, of its busiest thread: 1.0 is a full core
    read_rate: float | None = None  # bytes per second from storage
    rchar_rate: float | None = None  # bytes per second by system calls, sockets and the page cache included
    children: list[Child] = field(default_factory=list)


@dataclass
class Seen:
    """What /proc said of a process at the last look, and the rates since the look before."""

    at: float
    host: Mapping[str, Any]
    rates: dict[str, float | None] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def rate(new: Any, old: Any, seconds: float) -> float | None:
    """The growth per second of a counter; None where it is not told twice, shrank, or the time is too short to tell."""
    a, b = _number(new), _number(old)
    return None if a is None or b is None or a < b or seconds < SHORTEST else (a - b) / seconds


def _children(host: Mapping[str, Any]) -> dict[int, list[Any]]:
    told = host.get("children")
    return {row[0]: row for row in told if isinstance(row, list) and len(row) == 5} if isinstance(told, list) else {}


def look(old: Seen | None, host: Mapping[str, Any], at: float) -> Seen:
    """What is known of a process after another look. at: seconds of any clock that is the same for both."""
    rows = _children(host)
    if old is None or host.get("start") != old.host.get("start"):  # the first look, or the number went to another process
        return Seen(at, host, {}, [Child(pid, str(row[1]), row[3], None, None) for pid, row in rows.items()])
    seconds, before, was = at - old.at, _children(old.host), old.host
    rates = {name: rate(host.get(name), was.get(name), seconds) for name in ("cpu", "main", "read", "rchar")}
    none: list[Any] = [None] * 5
    children = [
        Child(pid, str(row[1]), row[3], rate(row[2], before.get(pid, none)[2], seconds), rate(row[4], before.get(pid, none)[4], seconds))
        for pid, row in rows.items()
    ]
    return Seen(at, host, rates, children)


def on_gpu(rows: Any, seen: Mapping[int, Seen]) -> list[Proc]:
    """The processes of one GPU, of its part of a "p" line."""
    found = []
    for pid, mem, kind, sm in rows:
        one = seen.get(pid)
        if one is None:
            found.append(Proc(pid, mem, kind, sm))
            continue
        of = one.rates.get
        found.append(Proc(pid, mem, kind, sm, dict(one.host), of("cpu"), of("main"), of("read"), of("rchar"), one.children))
    return found
