"""Samples of every GPU: kept raw for hours, rolled up to 10 s and 5 min for weeks, read as the points of a chart."""

# ruff: noqa: S608  the names in the SQL are those of schema.py, or were checked

import sqlite3
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ongpu.facts.sample import COLUMNS
from ongpu.store.file import LEAST_BYTES, File
from ongpu.store.refusals import StoreError
from ongpu.store.schema import COUNTERS, GAUGES, ROLLED

IDLE_BELOW = 5  # percent: a GPU that is held and less busy than this is idle
TOGETHER = 0.9  # s: faster ticks share a commit
AGAIN = 5.0  # s: after a write that failed
MAX_WAITING = 10_000  # samples of a GPU that wait in memory while the disk is full: about 5 MB
_SANE = 1 << 53  # NVML fills what it does not know with all ones
SECONDS = {"raw": 1, "ten": 10, "five": 300}
# Down to how many seconds each level goes, in this order, while the file is too large.
_FLOORS = (("raw", 900), ("ten", 86_400), ("five", 7 * 86_400), ("ten", 3600), ("raw", 0), ("ten", 0), ("five", 0))
LEAP = 86_400  # s: a clock that is further ahead of the last trim than this has leapt, or nobody was here
PATIENCE = 3600  # s for which nothing goes for its age then
_SLICE = {"raw": 300, "ten": 3 * 3600, "five": 2 * 86_400}  # seconds of rows that one transaction drops


class Sample(NamedTuple):
    """One GPU at one tick. values: facts/sample.COLUMNS; the rest as in schema.py (raw), `history.Meter` fills it in."""

    values: Sequence[int | None]
    ms: int = 0
    mj: int | None = None
    estimated: bool = False
    held: bool | None = None


class Gpu(NamedTuple):
    """A GPU that was ever seen. uuid: or "bus:..." or "index:..." where the card tells none; place: its index; mem_total: MiB."""

    id: int
    uuid: str
    place: int | None
    name: str | None
    bus: str | None
    mem_total: int | None


class Samples(File):
    """The part of the store that holds samples; see `Store`."""

    def _opened(self) -> None:
        super()._opened()
        known, here = getattr(self, "_gpus", {}), {gpu.uuid: gpu for gpu in self.gpus()}  # known: where a file is opened anew
        # What waits may name a GPU by a number that it was given while there was no file.
        self._alias: dict[int, int] = getattr(self, "_alias", {}) | {known[key].id: gpu.id for key, gpu in here.items() if key in known}
        self._gpus: dict[str, Gpu] = known | here
        self._next_gpu = max((gpu.id + 1 for gpu in self._gpus.values()), default=self._first_id)
        for key in known.keys() - here.keys():
            self._keep_gpu(known[key])
        self._waiting: deque[tuple[float, Mapping[int, Sample]]] = getattr(self, "_waiting", deque())
        self._size = sum(len(rows) for _, rows in self._waiting)
        self._rows(LAST)  # what is damaged there is to show now
        self._tried = float("-inf")
        self._leapt: float | None = None  # when (time.monotonic) the clock was first seen to be far ahead

    def _finish(self) -> None:
        self.flush()
        super()._finish()

    # -- GPUs

    def see_gpu(self, uuid: str | None, index: int | None, name: str | None, bus: str | None, mem_total: int | None) -> int:
        """The id of this GPU in the store, the same for good; what is newly told of it is kept. mem_total: MiB."""
        key = uuid or (f"bus:{bus}" if bus else f"index:{index}")
        with self._turn:
            old = self._gpus.get(key)
            new = Gpu(self._next_gpu, key, index, name, bus, mem_total)
            if old:
                new = old._replace(**{field: value for field, value in new._asdict().items() if field != "id" and value is not None})
            else:
                self._next_gpu += 1
            if new != old:
                self._gpus[key] = new
                self._keep_gpu(new)
            return new.id

    def _keep_gpu(self, gpu: Gpu) -> None:
        if not self.waits:
            self._durably("INSERT OR REPLACE INTO gpu VALUES (?, ?, ?, ?, ?, ?)", *gpu)

    def gpus(self) -> list[Gpu]:
        """Every GPU ever seen, by index."""
        return [Gpu(*row) for row in self._rows("SELECT * FROM gpu ORDER BY place IS NULL, place, id")]

    # -- writing

    def add_sample(self, t: float, rows: Mapping[int, Sample]) -> bool:
        """One tick: what each GPU (by its id) that answered told. True: it is committed, and so are those before it.

        False: it waits, for the next tick (ticks of less than a second apart share a commit) or for room (`problem` says so).
        """
        with self._turn:
            self._waiting.append((t, rows))
            self._size += len(rows)
            while max(self._size, len(self._waiting)) > MAX_WAITING:  # a tick may be of no GPU
                self._size -= len(self._waiting.popleft()[1])
                self.lost += 1
            if abs(t - self._tried) < (AGAIN if "samples" in self._problems else TOGETHER):
                return False
            self._tried = t
            return self.flush()

    def flush(self) -> bool:
        """Commits the ticks that wait."""
        with self._turn:
            if not self._waiting:
                return True

            def add(db: sqlite3.Connection) -> None:
                ticks, raw = [], []
                ((last,),) = db.execute(LAST)  # asked each time: a number is nobody's own
                for n, (t, rows) in enumerate(self._waiting, last + 1):
                    ticks.append((n, round(t * 1000)))
                    for gpu, sample in rows.items():
                        values = [value if value is None or 0 <= value < _SANE else None for value in sample.values]
                        raw.append((n, self._alias.get(gpu, gpu), sample.ms, sample.mj, sample.estimated, sample.held, *values))
                db.executemany("INSERT INTO tick VALUES (?, ?)", ticks)
                db.executemany(_ADD, raw)

            if not self._write("samples", add):
                return False
            self._size = 0
            self._waiting.clear()
            return True

    def rollup(self, now: float | None = None) -> bool:
        """Rolls up the ticks since the last time (each once, in one transaction with the mark that says so); call it every minute.

        At most 20,000 ticks a call, the rest at the next. now: not needed, for the caller's convenience.
        """
        return self._write("rollup", _roll)

    def trim(self, now: float, budget: float = 0.25) -> bool:
        """Drops what is older than `keep` says, then, while the file is too large, the oldest raw, 10 s and 5 min rows.

        Stops after `budget` seconds of its own time; the rest goes at the next call (call it every minute). True: nothing is left to do.
        Ticks that are not rolled up yet are never dropped, and the last week of 5 min rows only when nothing else is left. Where the clock
        has leapt ahead by more than a day, nothing goes for its age for an hour: a wrong date that is soon set right costs no history.
        """
        self._may_write()
        try:
            return self._trim(now, time.monotonic() + budget)
        except StoreError as error:
            self._problems["trim"] = error
            return False

    def _trim(self, now: float, end: float) -> bool:
        if self._believes(now) and not self._age(now, end):
            return False
        limit = max(self.keep.max_bytes, LEAST_BYTES)
        for level, floor in _FLOORS:
            while self.size()[1] > limit * 0.9:
                oldest = self._oldest(level)
                if oldest is None or oldest >= now - floor - SECONDS["five"]:
                    break
                if time.monotonic() > end or not self._write("trim", self._dropping(level, min(now - floor, oldest + _SLICE[level]), now)):
                    return False
        self._problems.pop("trim", None)
        return self.size()[0] <= limit or self._shrink(2000)  # the limit was made smaller

    def _believes(self, now: float) -> bool:
        """Whether what is old by this clock may go; the file remembers the last that was believed."""
        ((last,),) = self._rows("SELECT max(value) FROM mark WHERE name = 'trimmed'")
        if last is None or now - last <= LEAP:
            self._leapt = None
            return True
        if self._leapt is None:
            self._leapt = time.monotonic()
        return time.monotonic() - self._leapt >= PATIENCE

    def _age(self, now: float, end: float) -> bool:
        """Drops what is older than `keep` says; False where time or room ran out."""
        if not self._write("trim", lambda db: db.execute("INSERT OR REPLACE INTO mark VALUES ('trimmed', ?)", (int(now),))):
            return False
        for level in ("raw", "ten", "five"):
            if not self._drop(level, now - getattr(self.keep, level), now, end):
                return False
        return self._forget(now - self.keep.five)

    def _drop(self, level: str, before: float, now: float, end: float) -> bool:
        """Drops in slices what is older; False where time or room ran out."""
        while (oldest := self._oldest(level)) is not None and oldest < before - SECONDS["five"]:
            if time.monotonic() > end or not self._write("trim", self._dropping(level, min(before, oldest + _SLICE[level]), now)):
                return False
        return True

    def _dropping(self, level: str, before: float, now: float) -> Callable[[sqlite3.Connection], None]:
        whole = int(before) // SECONDS["five"] * SECONDS["five"]  # so that a coarser row never tells what a finer one still does
        return _drop(level, whole, now + self.keep.raw, [gpu.id for gpu in self._gpus.values()])

    def _oldest(self, level: str) -> float | None:
        if level == "raw":
            ((oldest,),) = self._rows("SELECT min(t) FROM tick WHERE n <= (SELECT value FROM mark WHERE name = 'done')")
            return None if oldest is None else oldest / 1000
        ((oldest,),) = self._rows(f"SELECT min(t) FROM (SELECT (SELECT min(t) FROM {level} WHERE gpu = id) AS t FROM gpu)")
        if level == "five":
            ((work,),) = self._rows("SELECT min(t) FROM work")
            oldest = min((t for t in (oldest, work) if t is not None), default=None)
        return None if oldest is None else float(oldest)

    # -- reading

    def raw(self, gpu: int, start: float, end: float, limit: int = 100_000) -> list[tuple[float, Sample]]:
        """The samples themselves, in the order in which they were taken; the last `limit` of them."""
        sql = f"""SELECT tick.t, ms, mj, estimated, held, {", ".join(COLUMNS)} FROM tick JOIN raw ON raw.n = tick.n AND raw.gpu = ?
            WHERE tick.t BETWEEN ? AND ? ORDER BY tick.n DESC LIMIT ?"""
        rows = self._rows(sql, (gpu, round(start * 1000), round(end * 1000), limit))
        flags = ((t, ms, mj, bool(estimated), None if held is None else bool(held), values) for t, ms, mj, estimated, held, *values in rows)
        return [(t / 1000, Sample(tuple(values), ms, mj, estimated, held)) for t, ms, mj, estimated, held, values in flags][::-1]

    def rolled(self, level: str, gpu: int, start: float, end: float) -> list[dict[str, Any]]:
        """The 10 s ("ten") or 5 min ("five") rows that begin in [start, end): `t` and the columns of schema.ROLLED."""
        names = ("t", *ROLLED)
        sql = f"SELECT {', '.join(names)} FROM {_known(level)} WHERE gpu = ? AND t >= ? AND t < ? ORDER BY t"
        return [dict(zip(names, row, strict=True)) for row in self._rows(sql, (gpu, start, end))]

    # -- the latest state

    def put_now(self, text: str) -> bool:
        """Replaces the latest state (JSON); call it at most once a second."""
        body = zlib.compress(text.encode("utf-8", "replace"), 1)
        return self._write("now", lambda db: db.execute("INSERT OR REPLACE INTO now VALUES (1, ?)", (body,)))

    def now(self) -> str | None:
        """The latest state (JSON) as `put_now` was given it, however old it is: it tells its own time."""
        rows = self._rows("SELECT body FROM now")
        return zlib.decompress(rows[0][0]).decode() if rows else None


# Of the last tick, dropped or not.
LAST = "SELECT coalesce(max(n), 0) FROM (SELECT max(n) AS n FROM tick UNION ALL SELECT value FROM mark WHERE name = 'done')"
_ADD = f"INSERT INTO raw VALUES ({', '.join('?' * (6 + len(COLUMNS)))})"


def _sums() -> Iterator[tuple[str, str, str]]:
    """Of each rolled column: its name, what a bucket's ticks give it, and how two parts of a bucket are joined."""
    plus, most = "coalesce({0} + excluded.{0}, {0}, excluded.{0})", "coalesce(max({0}, excluded.{0}), {0}, excluded.{0})"
    yield "n", "count(*)", plus
    yield "ms", "sum(ms)", plus
    for gauge in GAUGES:
        yield gauge, f"sum({gauge})", plus
        yield f"{gauge}_max", f"max({gauge})", most
        yield f"{gauge}_none", f"count(*) - count({gauge})", plus
    yield "reasons", "any_bit(reasons)", "coalesce({0} | excluded.{0}, {0}, excluded.{0})"
    for counter in COUNTERS:
        yield counter, f"max({counter})", most
    yield "mj", "sum(mj)", plus
    yield "mj_estimated", "sum(mj * estimated)", plus
    yield "busy", "sum(util * ms)", plus
    yield "idle", IDLE, plus


# Not told (NULL) where the processes or the use are not.
IDLE = f"sum(CASE WHEN held = 0 OR util >= {IDLE_BELOW} THEN 0 WHEN held = 1 AND util < {IDLE_BELOW} THEN ms END)"


class _AnyBit:
    """The SQL function any_bit: the OR of all values; NULL where none was told."""

    def __init__(self) -> None:
        self.bits: int | None = None

    def step(self, bits: int | None, /) -> None:
        if bits is not None:
            self.bits = bits | (self.bits or 0)

    def finalize(self) -> int | None:
        return self.bits


def _rolling(level: str) -> str:
    seconds, parts = SECONDS[level], list(_sums())
    return f"""INSERT INTO {level} (gpu, t, {", ".join(name for name, _, _ in parts)})
        SELECT gpu, t / {seconds * 1000} * {seconds}, {", ".join(sql for _, sql, _ in parts)}
        FROM tick JOIN raw ON raw.n = tick.n WHERE tick.n > ? AND tick.n <= ? GROUP BY 1, 2
        ON CONFLICT (gpu, t) DO UPDATE SET {", ".join(f"{name} = {join.format(name)}" for name, _, join in parts)}"""


_ROLLING = (_rolling("ten"), _rolling("five"))


def _roll(db: sqlite3.Connection) -> None:
    db.create_aggregate("any_bit", 1, cast("Any", _AnyBit))
    (done,) = db.execute("SELECT coalesce((SELECT value FROM mark WHERE name = 'done'), 0)").fetchone()
    (last,) = db.execute("SELECT coalesce(max(n), 0) FROM (SELECT n FROM tick WHERE n > ? ORDER BY n LIMIT 20000)", (done,)).fetchone()
    if last > done:
        for sql in _ROLLING:
            db.execute(sql, (done, last))
        # Where the clock was set back behind a cut, what is there now was taken since: it is not to be asked of a coarser level.
        ((first,),) = db.execute("SELECT min(t) FROM tick WHERE n > ? AND n <= ?", (done, last))
        whole = -(-first // (SECONDS["five"] * 1000)) * SECONDS["five"]
        db.execute("UPDATE mark SET value = min(value, ?) WHERE name IN ('cut_raw', 'cut_ten', 'cut_five')", (whole,))
        db.execute("INSERT OR REPLACE INTO mark VALUES ('done', ?)", (last,))


def _drop(level: str, before: int, ahead: float, gpus: list[int]) -> Callable[[sqlite3.Connection], None]:
    """Drops the older rows of a level, and remembers since when there are none. ahead: what is later was dated by a wrong clock."""

    def drop(db: sqlite3.Connection) -> None:
        if level == "raw":
            # A tick of the future was taken when the clock was wrong: it is old once one that was taken later is.
            old = """SELECT n FROM tick WHERE n <= (SELECT value FROM mark WHERE name = 'done')
                AND (t < ?1 OR (t > ?2 AND n < (SELECT max(n) FROM tick WHERE t < ?1)))"""
            ticks = db.execute(old, (before * 1000, round(ahead * 1000))).fetchall()
            db.executemany("DELETE FROM raw WHERE n = ?", ticks)
            db.executemany("DELETE FROM tick WHERE n = ?", ticks)
        else:
            db.executemany(f"DELETE FROM {level} WHERE gpu = ? AND t < ?", [(gpu, before) for gpu in gpus])
        if level == "five":
            db.execute("DELETE FROM work WHERE t < ?", (before,))
            db.execute("DELETE FROM who WHERE last < ?", (before,))
        mark = "INSERT INTO mark VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)"
        db.execute(mark, (f"cut_{level}", before))

    return drop


def _known(level: str) -> str:
    if level not in ("ten", "five"):
        raise ValueError(f"no such level: {level}")
    return level
