"""The charts as options of ECharts: plain data, no text of others in any place that ECharts or NiceGUI would run.

NiceGUI runs what stands under a key that begins with ":", and ECharts fills "{b}" in a `formatter`: all keys and formatters are
ours, and tooltips are drawn as text (renderMode "richText"), never as HTML.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ongpu.store import Point
from ongpu.watch.web.words import word

# Eight colours that stay apart for most colour-blind readers and on both grounds, after Okabe and Ito
# (https://jfly.uni-koeln.de/color/), darkened or lightened to 3 : 1 on white and on #1d2127.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56a0d3", "#8a63d2", "#7f7f7f")
DASHES = ("solid", "dashed", "dotted")  # beyond eight GPUs
RED, AMBER = "rgba(214, 60, 50, 0.10)", "rgba(214, 150, 30, 0.06)"
LINES = {"error": "#d63c32", "warning": "#c98a1e"}  # where an incident begins
GREY = "rgba(128, 128, 128, 0.25)"
INK = {"light": "#57606a", "dark": "#a7b0bb"}
Options = dict[str, Any]
Band = tuple[float, float, str]  # from, to (s), severity


def time_chart(
    lines: Mapping[str, Sequence[Point]], bands: Sequence[Band], start: float, end: float, unit: str, scale: float, dark: bool,
    colours: Mapping[str, int] | None = None, empty: str = "",
) -> Options:  # fmt: skip
    """Lines over time, named. lines: points as the store gives them; scale: what their numbers are multiplied by to come to `unit`.

    colours: the place of each name in the palette, so that a GPU keeps its colour whatever else is shown. Gaps stay gaps.
    empty: what stands there where there is nothing to draw.
    """
    series = []
    for place, (name, points) in enumerate(lines.items()):
        number = (colours or {}).get(name, place)
        colour = PALETTE[number % len(PALETTE)]
        series.append({
            "type": "line", "name": name, "showSymbol": False, "connectNulls": False, "animation": False, "sampling": "lttb",
            "itemStyle": {"color": colour},
            "lineStyle": {"width": 1.5, "type": DASHES[number // len(PALETTE) % len(DASHES)], "color": colour},
            "emphasis": {"disabled": True},
            "data": [[round(p.t * 1000), None if p.avg is None else round(p.avg * scale, 2)] for p in points],
        })  # fmt: skip
    areas = [
        [{"xAxis": round(begin * 1000), "itemStyle": {"color": colour}}, {"xAxis": round(stop * 1000)}]
        for colour, spans in painted(bands, start, end) for begin, stop in spans
    ]  # fmt: skip
    begins = {
        "silent": True, "symbol": "none", "label": {"show": False}, "lineStyle": {"type": "dashed", "width": 1},
        "data": [
            {"xAxis": round(begin * 1000), "lineStyle": {"color": LINES[severity]}}
            for begin, _, severity in bands if start < begin < end and severity in LINES
        ],
    }  # fmt: skip
    # bands are a series of their own, so that they stay when a GPU is switched off in the legend
    shades = {"silent": True, "data": areas}
    series.append({"type": "line", "name": "", "data": [], "animation": False, "silent": True, "markArea": shades, "markLine": begins})
    ink = INK["dark" if dark else "light"]
    percent = {"max": 100, "interval": 25} if unit == "%" else {}
    nothing = not any(point.avg is not None for points in lines.values() for point in points)
    return {
        "animation": False,
        "aria": {"enabled": True},
        "title": {
            "text": empty if nothing else "", "left": "center", "top": "middle",
            "textStyle": {"color": ink, "fontSize": 14, "fontWeight": "normal"},
        },
        "grid": {"left": 8, "right": 16, "top": 38, "bottom": 4, "containLabel": True},
        "legend": {
            "type": "scroll", "top": 4, "data": list(lines), "icon": "roundRect", "itemWidth": 12, "itemHeight": 4, "itemGap": 9,
            "textStyle": {"color": ink, "fontSize": 11}, "pageTextStyle": {"color": ink}, "pageIconColor": ink,
        },
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True, "order": "valueDesc"},
        "xAxis": {
            "type": "time", "min": round(start * 1000), "max": round(end * 1000), "axisLabel": {"color": ink, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": GREY}},
        },
        "yAxis": {"type": "value", "min": 0, **percent, "axisLabel": {"color": ink}, "splitLine": {"lineStyle": {"color": GREY}}},
        "series": series,
    }  # fmt: skip


def painted(bands: Sequence[Band], start: float, end: float) -> list[tuple[str, list[tuple[float, float]]]]:
    """What is to be painted in which colour: each moment once, as the worst that was then, so that many at once are no darker."""
    ends = sorted({start, end, *(min(max(t, start), end) for begin, stop, _ in bands for t in (begin, stop))})
    found: dict[str, list[tuple[float, float]]] = {RED: [], AMBER: []}
    for left, right in itertools.pairwise(ends):
        kinds = {severity for begin, stop, severity in bands if begin < right and stop > left}
        if colour := RED if "error" in kinds else AMBER if kinds else None:
            spans = found[colour]
            if spans and spans[-1][1] == left:
                spans[-1] = (spans[-1][0], right)
            else:
                spans.append((left, right))
    return list(found.items())


def use_chart(rows: Sequence[tuple[str, float | None, float | None, float]], lang: str, dark: bool) -> Options:
    """What each used, as stacked bars. rows: name, busy hours, idle hours (None: not told), all hours; the most first."""
    shown = list(rows)[::-1]
    ink = INK["dark" if dark else "light"]
    idle = [round(min(idle or 0.0, total), 2) for _, _, idle, total in shown]
    busy = [round(min(busy or 0.0, max(total - gone, 0.0)), 2) for (_, busy, _, total), gone in zip(shown, idle, strict=True)]
    rest = [round(max(row[3] - a - b, 0.0), 2) for row, a, b in zip(shown, busy, idle, strict=True)]
    parts = (("busy_hours", busy, PALETTE[2]), ("waiting_hours", rest, GREY), ("idle_hours", idle, PALETTE[1]))
    return {
        "animation": False, "aria": {"enabled": True},
        "grid": {"left": 8, "right": 24, "top": 34, "bottom": 4, "containLabel": True},
        "legend": {"top": 2, "textStyle": {"color": ink}},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True, "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "value", "name": "", "axisLabel": {"color": ink}, "splitLine": {"lineStyle": {"color": GREY}}},
        "yAxis": {
            "type": "category", "data": [name for name, *_ in shown], "axisLabel": {"color": ink, "width": 180, "overflow": "truncate"},
            "axisTick": {"show": False}, "axisLine": {"lineStyle": {"color": GREY}},
        },
        "series": [
            {"type": "bar", "stack": "hours", "name": word(name, lang), "data": data, "itemStyle": {"color": colour}, "barMaxWidth": 22}
            for name, data, colour in parts
        ],
    }  # fmt: skip
