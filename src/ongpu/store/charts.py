"""The points of a chart, from raw, 10 s and 5 min rows."""

# ruff: noqa: S608  the names in the SQL are those of schema.py, or were checked

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from ongpu.facts.sample import COLUMNS
from ongpu.store.file import File
from ongpu.store.samples import IDLE, SECONDS
from ongpu.store.schema import COUNTERS

MAX_READ = 150_000  # rows that one question may read; beyond it a coarser level answers
POINT_COLUMNS = (*COLUMNS, "idle")


class Point(NamedTuple):
    """A point of a chart. t: its begin, s. avg and max None: nothing is known from here to the next point."""

    t: float
    avg: float | None
    max: float | None


class Charts(File):
    """The part of the store that makes charts; see `Store`."""

    def series(self, gpu: int, column: str, start: float, end: float, points: int = 600) -> list[Point]:
        """The chart of one column of one GPU, at most `points` points and the marks of its gaps.

        column: one of facts/sample.COLUMNS in its unit, or "idle". Where it makes no sense to average: "energy" gives the joules of each
        point, "reasons" the bits that were ever set, "ecc" and "replays" the highest count, as avg and max alike; "idle" the percent of
        the time in which it was held and idle. Where nothing is known (no sample, or the column was not told) there is no point, and the
        first point after which more than two are missing is followed by a Point(t, None, None).
        """
        return self.all_series(column, start, end, points, [gpu])[gpu]

    def all_series(
        self, column: str, start: float, end: float, points: int = 600, gpus: Iterable[int] | None = None
    ) -> dict[int, list[Point]]:
        """`series` of these GPUs (None: all), from the same level: finer where the span is short, coarser where it is long."""
        if column not in POINT_COLUMNS:
            raise ValueError(f"no such column: {column}")
        ids = [number for (number,) in self._rows("SELECT id FROM gpu")] if gpus is None else list(gpus)
        span = max(end - start, 0.001)
        step = max(span / max(points - 1, 1), 0.001)
        level = "five"
        for finer in ("ten", "raw"):
            if step < SECONDS[level] and span / SECONDS[finer] * len(ids) <= MAX_READ:
                level = finer
        whole = 100 if level == "raw" and span <= 60 else SECONDS[level] * 1000
        width = -(-round(step * 1000) // whole) * whole  # ms; a whole number of buckets, so that every point holds equally many
        first = int(start * 1000) // width * width
        found: dict[tuple[int, int], list[float]] = {}
        with self._turn:
            self._rows("BEGIN")  # one look at the file, while others write
            try:
                for sql, values in _questions(level, column, self._marks(), first, int(end * 1000), width, ids):
                    for gpu, place, total, weight, most in self._rows(sql, values):
                        old = found.get((gpu, place))
                        found[gpu, place] = _joined(column, old, [total, weight, most]) if old else [total, weight, most]
            finally:
                self._rows("COMMIT")
        charts: dict[int, list[Point]] = {gpu: [] for gpu in ids}
        for gpu, place in sorted(found):
            total, weight, most = found[gpu, place]
            if weight:
                charts[gpu].append(_point((first + place * width) / 1000, column, total, weight, most))
        return {gpu: _with_gaps(chart, width / 1000) for gpu, chart in charts.items()}

    def _marks(self) -> dict[str, int]:
        return dict(self._rows("SELECT name, value FROM mark"))


def _questions(
    level: str, column: str, marks: dict[str, int], first: int, last: int, width: int, gpus: list[int]
) -> Iterator[tuple[str, dict[str, int]]]:
    """What to ask of which level: the level itself, a coarser one for the time that it has dropped, raw for what is not rolled up yet."""
    done, begin = marks.get("done", 0), first
    sources: list[tuple[str, int, int]] = []  # level, ms, ms
    for coarser, finer in (("five", "ten"), ("ten", "raw")):
        if SECONDS[level] < SECONDS[coarser]:
            cut = min(marks.get(f"cut_{finer}", 0) * 1000, last)
            if cut > begin:
                sources.append((coarser, begin, cut))
                begin = cut
    sources.append((level, begin, last))
    who = f"gpu IN ({', '.join(str(int(gpu)) for gpu in gpus)})"
    for source, since, until in sources:
        if source != "raw":
            values = {"first": first, "since": -(-since // 1000), "until": -(-until // 1000), "width": width}
            yield _asking(column, source, f"{who} AND t >= :since AND t < :until"), values
    values = {"first": first, "since": begin, "until": last, "width": width, "done": 0 if level == "raw" else done}
    yield _asking(column, "raw", f"{who} AND tick.t >= :since AND tick.t <= :until AND tick.n > :done"), values


def _asking(column: str, source: str, where: str) -> str:
    """The question whose rows are gpu, place of the point, sum, weight, most; how they make a value: `_point`."""
    raw = source == "raw"
    if column == "energy":
        parts = "sum(mj), count(mj), max(mj)"
    elif column == "idle":
        idle = IDLE if raw else "sum(idle)"
        parts = f"{idle}, CASE WHEN {idle} IS NULL THEN 0 ELSE sum(ms) END, 0"
    elif column == "reasons":
        # Bit by bit: there is no OR over rows in SQL, and readers need no function of ours.
        bits = " | ".join(f"max({column} & {1 << bit})" for bit in range(16))
        parts = f"{bits}, count({column}), 0"
    elif column in COUNTERS:
        parts = f"max({column}), count({column}), 0"
    elif raw:
        parts = f"sum({column}), count({column}), max({column})"
    else:
        parts = f"sum({column}), sum(n - {column}_none), max({column}_max)"
    time_of, rows = ("tick.t", "tick JOIN raw ON raw.n = tick.n") if raw else ("t * 1000", source)
    return f"SELECT gpu, ({time_of} - :first) / :width AS place, {parts} FROM {rows} WHERE {where} GROUP BY gpu, place"


def _joined(column: str, one: list[Any], two: list[Any]) -> list[Any]:
    """Two parts of the same point, from two levels."""
    if not one[1] or not two[1]:
        return two if two[1] else one
    if column == "reasons":
        total = one[0] | two[0]
    else:
        total = max(one[0], two[0]) if column in COUNTERS else one[0] + two[0]
    return [total, one[1] + two[1], max(one[2], two[2])]


def _point(t: float, column: str, total: float, weight: float, most: float) -> Point:
    if column == "energy":
        return Point(t, total / 1000, total / 1000)
    if column == "idle":
        return Point(t, 100 * total / weight, 100 * total / weight)
    if column == "reasons" or column in COUNTERS:
        return Point(t, total, total)
    return Point(t, total / weight, most)


def _with_gaps(chart: list[Point], width: float) -> list[Point]:
    """A mark after each point that is followed by nothing for longer than is usual in this chart."""
    if len(chart) < 2:
        return chart
    usual = max(width, median(after.t - before.t for before, after in pairwise(chart)))
    whole: list[Point] = []
    for point in chart:
        if whole and point.t - whole[-1].t > 2.5 * usual:
            whole.append(Point(whole[-1].t + width, None, None))
        whole.append(point)
    return whole
