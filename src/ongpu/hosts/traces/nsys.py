"""A report of Nsight Systems, exported as SQLite (`nsys export --type sqlite`), into a timeline.

Its tables: https://docs.nvidia.com/nsight-systems/UserGuide/index.html (exported data). Tables are made only where there is
something to tell, and differ by version: what is missing is left out. The file is opened read-only and immutable, nothing in
its schema but plain tables is touched, and every query runs under a time limit.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ongpu.hosts.traces.chrome import STEP
from ongpu.hosts.traces.timeline import COMPUTE, COPY, SET, Timeline

PATIENCE = 300.0  # seconds for all queries
MAX_ROWS = 12_000_000  # of one table
MAX_IN_MEMORY = 256 << 20  # bytes of a database that has no file of its own
TICK = 20_000  # rows between two signs of progress
_PREFIX = "CUPTI_ACTIVITY_KIND_"
READ = frozenset({f"{_PREFIX}{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "RUNTIME")} | {"NVTX_EVENTS"})
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_NVTX_RANGE = (59, 60)  # push/pop and start/end ranges, as the tables' ENUM_NSYS_EVENT_TYPE names them

Tick = Callable[[int, int], None]


class Unknown(ValueError):
    """Not a report of Nsight Systems; in both languages."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


def opened(path: Path) -> sqlite3.Connection:
    """The database of a file, never changed. sqlite3.Error where it is none."""
    return _careful(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True))


def of_bytes(data: bytes) -> sqlite3.Connection:
    """The database in these bytes."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    return _careful(connection)


def _careful(connection: sqlite3.Connection) -> sqlite3.Connection:
    end = time.monotonic() + PATIENCE
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA mmap_size=0")
    connection.set_progress_handler(lambda: time.monotonic() > end, 100_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 << 20)
    return connection


class _Tables:
    """The plain tables of a database and their columns."""

    def __init__(self, connection: sqlite3.Connection, tick: Tick) -> None:
        self.connection, self.tick = connection, tick
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' LIMIT 2000")
        self.names = {str(name) for (name,) in rows if str(name).replace("_", "").isalnum()}
        self.done = 0
        self.all = sum(self._count(name) for name in self.names & READ)

    def _count(self, table: str) -> int:
        """About how many rows a table has: the last row's number, which is there without counting."""
        try:
            return _whole(self.connection.execute(f'SELECT MAX(rowid) FROM "{table}"').fetchone()[0])  # noqa: S608 - a known name
        except sqlite3.Error:
            return 0

    def columns(self, table: str) -> set[str]:
        return {str(row[1]) for row in self.connection.execute(f'PRAGMA table_info("{table}")')}  # a name of letters and digits

    def rows(self, table: str, *wanted: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, with None for each wanted column that it lacks; nothing where there is no such table.

        A name with bars between is the first of these columns that there is.
        """
        if table not in self.names:
            return
        there = self.columns(table)
        chosen = [next((name for name in names.split("|") if name in there), None) for names in wanted]
        listed = ", ".join(f'"{name}"' if name else "NULL" for name in chosen)
        for count, row in enumerate(self.connection.execute(f'SELECT {listed} FROM "{table}" LIMIT {MAX_ROWS}')):  # noqa: S608 - checked names
            if count % TICK == 0:
                self.tick(min(self.done + count, self.all), self.all)
            yield row
        self.done += self._count(table)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def read(connection: sqlite3.Connection, tick: Tick = lambda done, size: None) -> tuple[Timeline, list[str]]:
    """The timeline of a report, and what could not be read of it. Unknown where it is another database."""
    trouble: list[str] = []
    timeline = Timeline()
    try:
        tables = _Tables(connection, tick)
        if not any(name.startswith((_PREFIX, "NVTX_EVENTS", "TARGET_INFO_")) for name in tables.names):
            raise Unknown(
                "an SQLite database, but not a report of Nsight Systems (no CUPTI tables)",
                "是 SQLite 数据库，但不是 Nsight Systems 的报告（没有 CUPTI 表）",
            )
        for part in (_cards, _activities, _calls, _notes):
            try:
                part(tables, timeline)
            except sqlite3.Error as error:  # a damaged table: the others may be whole
                trouble.append(f"{part.__name__.strip('_')}: {error}")
    finally:
        connection.close()
    return timeline, trouble


def _strings(tables: _Tables) -> dict[int, str]:
    return {key: str(value)[:300] for key, value in tables.rows("StringIds", "id", "value") if isinstance(key, int)}


def _cards(tables: _Tables, timeline: Timeline) -> None:
    for index, name, size, major, minor in tables.rows(
        "TARGET_INFO_GPU", "cuDevice|id", "name", "totalMemory", "computeMajor", "computeMinor"
    ):
        card = {"id": index, "name": name, "totalGlobalMem": size, "computeMajor": major, "computeMinor": minor}
        if len(timeline.cards) < 64:
            timeline.cards.append({key: value for key, value in card.items() if value is not None})


def _activities(tables: _Tables, timeline: Timeline) -> None:
    names = _strings(tables)
    for start, end, device, correlation, name in tables.rows(
        _PREFIX + "KERNEL", "start", "end", "deviceId", "correlationId", "demangledName|shortName"
    ):
        _activity(timeline, COMPUTE, names.get(_whole(name), str(name)), start, end, device, correlation)
    for start, end, device, correlation, kind in tables.rows(_PREFIX + "MEMCPY", "start", "end", "deviceId", "correlationId", "copyKind"):
        _activity(timeline, COPY, f"Memcpy {_COPY_KINDS.get(_whole(kind), kind)}", start, end, device, correlation)
    for start, end, device, correlation in tables.rows(_PREFIX + "MEMSET", "start", "end", "deviceId", "correlationId"):
        _activity(timeline, SET, "Memset", start, end, device, correlation)
    for start, end, device, correlation in tables.rows(_PREFIX + "GRAPH_TRACE", "start", "end", "deviceId", "correlationId"):
        _activity(timeline, COMPUTE, "CUDA graph (whole)", start, end, device, correlation)


def _activity(timeline: Timeline, kind: int, name: str, start: Any, end: Any, device: Any, correlation: Any) -> None:
    timeline.events += 1
    if isinstance(start, int) and isinstance(end, int):
        timeline.activity(_whole(device), kind, name, start / 1000, (end - start) / 1000, _whole(correlation))
    else:
        timeline.odd += 1


def _calls(tables: _Tables, timeline: Timeline) -> None:
    names = _strings(tables)
    for start, end, thread, correlation, name in tables.rows(_PREFIX + "RUNTIME", "start", "end", "globalTid", "correlationId", "nameId"):
        timeline.events += 1
        if isinstance(start, int) and isinstance(end, int):
            called = names.get(_whole(name), "").partition("_v")[0]  # cudaLaunchKernel_v7000
            timeline.called(called, thread, start / 1000, (end - start) / 1000, _whole(correlation))


def _notes(tables: _Tables, timeline: Timeline) -> None:
    names = _strings(tables)
    for start, end, kind, text, key, thread in tables.rows("NVTX_EVENTS", "start", "end", "eventType", "text", "textId", "globalTid"):
        timeline.events += 1
        if kind not in _NVTX_RANGE or not (isinstance(start, int) and isinstance(end, int)):
            continue
        name = str(text) if text is not None else names.get(_whole(key), "")
        if step := STEP.match(name):
            timeline.step(step[1], start / 1000, (end - start) / 1000)
        else:
            timeline.noted(name, thread, start / 1000, (end - start) / 1000)
