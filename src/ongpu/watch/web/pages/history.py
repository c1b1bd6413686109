"""What was: a chart for each metric, the figures below it in a table, and the incidents of that time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from ongpu.report.top import words as top
from ongpu.store import Gpu, Point
from ongpu.watch.web import charts, figures
from ongpu.watch.web.markup import Html, tag
from ongpu.watch.web.reading import RANGES, Body, Reader
from ongpu.watch.web.words import word

METRICS = tuple(figures.SCALES)
FIRST = ("util", "mem_used", "temp", "power")  # shown when nobody chose
POINTS, LEAST, ALL = 600, 100, 6000  # of one line at most and at least, and of all lines of a chart
MOST_GPUS = 64  # that are drawn at once


@dataclass(frozen=True)
class Choice:
    """What is asked for in the address. gpus: indices; () means all."""

    span: str = "1h"
    metrics: tuple[str, ...] = FIRST
    gpus: tuple[int, ...] = ()

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Choice":
        """From the address; what makes no sense is left out."""
        span = query.get("range", "1h")
        metrics = tuple(name for name in METRICS if name in query.get("metric", ",".join(FIRST)).split(",")[:20])
        gpus = tuple(sorted({int(part) for part in query.get("gpu", "").split(",")[:1024] if part.isdecimal() and len(part) < 6}))
        return cls(span if span in RANGES else "1h", metrics, gpus)

    def address(self) -> str:
        """The address that asks for it."""
        told = {"range": self.span, "metric": ",".join(self.metrics), "gpu": ",".join(map(str, self.gpus))}
        return "/history?" + urlencode({name: value for name, value in told.items() if value or name == "metric"}, safe=",")


@dataclass(frozen=True)
class Drawn:
    """One look at the store. series: metric -> name of the GPU -> points; colours: the place of each GPU in the palette.

    why: metric -> the NVML code for which one of the GPUs does not tell it now.
    """

    start: float
    end: float
    series: Mapping[str, Mapping[str, Sequence[Point]]]
    colours: Mapping[str, int]
    incidents: Sequence[Body]
    why: Mapping[str, int]


def names(gpus: Sequence[Gpu]) -> dict[int, str]:
    """What a GPU of the store is called: its index, and more where two ever had the same."""
    seen: dict[int, str] = {}
    for gpu in gpus:
        name = f"GPU {gpu.place}" if gpu.place is not None else gpu.uuid[:12]
        seen[gpu.id] = name if name not in seen.values() else f"{name} ({gpu.uuid[:12]})"
    return seen


def draw(reader: Reader, choice: Choice, now: float) -> Drawn:
    """Reads what is to be drawn. Raises StoreError."""
    start, gpus = now - RANGES[choice.span], reader.gpus()
    called = names(gpus)
    wanted = [gpu.id for gpu in gpus if not choice.gpus or gpu.place in choice.gpus][:MOST_GPUS]
    series = {}
    for metric in choice.metrics:
        found = reader.series(metric, start, now, points_of(len(wanted)), wanted)
        series[metric] = {called[number]: line for number, line in found.items() if line}
    colours = {called[gpu.id]: place for place, gpu in enumerate(gpus)}
    incidents = reader.incidents(start=start, end=now, limit=200)
    shown = [gpu for gpu in reader.view().gpus if not choice.gpus or gpu.index in choice.gpus]
    why = {metric: gpu.why[metric] for gpu in shown for metric in choice.metrics if metric in gpu.why}
    return Drawn(start, now, series, colours, [one for one in incidents if _of(one, choice)], why)


def points_of(lines: int) -> int:
    """How many points each of so many lines has: nobody sees more of many, and they would take long to draw."""
    return min(POINTS, max(LEAST, ALL // max(lines, 1)))


def _of(incident: Body, choice: Choice) -> bool:
    return not choice.gpus or incident.get("gpu") is None or incident.get("gpu") in choice.gpus


def chart(drawn: Drawn, metric: str, dark: bool, lang: str) -> charts.Options:
    """The chart of one metric."""
    unit, scale = figures.SCALES[metric]
    bands = [
        (float(one["opened"]), float(one["closed"] or drawn.end), str(one.get("severity")))
        for one in drawn.incidents if one.get("severity") in ("error", "warning")
    ]  # fmt: skip
    empty = top.code(drawn.why[metric], lang) if metric in drawn.why else word("no_history", lang)
    return charts.time_chart(drawn.series[metric], bands, drawn.start, drawn.end, unit, scale, dark, drawn.colours, empty)


def table(drawn: Drawn, lang: str) -> Html:
    """The same as figures: for who cannot see a chart, and for exact numbers."""
    rows = []
    for metric, lines in drawn.series.items():
        unit, scale = figures.SCALES[metric]
        for name, points in lines.items():
            told = [p for p in points if p.avg is not None]
            if not told:
                continue
            mean = sum(p.avg or 0.0 for p in told) / len(told) * scale
            most = max(p.max or 0.0 for p in told) * scale
            latest = points[-1].avg
            digits = 1 if unit in ("GiB", "W") else 0
            rows.append(tag(
                "tr", tag("td", word(metric, lang)), tag("td", name),
                *(tag("td", f"{figures.number(v, digits)} {unit}" if v is not None else "-", class_="n")
                  for v in (mean, most, None if latest is None else latest * scale)),
            ))  # fmt: skip
    if not rows:
        return tag("p", word("no_history", lang), class_="soft")
    names = (("metrics", ""), ("gpus", ""), ("mean", "n"), ("max", "n"), ("latest", "n"))
    head = tag("tr", *(tag("th", word(name, lang), class_=kind) for name, kind in names))
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="rows")
    return tag("details", tag("summary", word("figures", lang)), tag("div", body, class_="scroll"), class_="panel")
