"""What ran where, as HTML: one row for each GPU, one bar for each run, faults behind them, and a line where now is.

Bars are links that stand by percent, so that the picture fits any window, follows the theme, and can be gone through by keyboard.
"""

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from ongpu.queue.job import Card
from ongpu.watch.web.markup import Html, tag
from ongpu.watch.web.queue.reading import Run
from ongpu.watch.web.words import clock, span, word

ROWS = 64  # GPUs that are drawn
LANES = 8  # jobs that share a GPU at one time and have a place of their own
FINE = 1 / 400  # of the span: what is shorter is drawn together with its neighbours
WIDE = 0.05  # of the span: a bar that has room for its name
HUES = 8
STEPS = (600, 1800, 3600, 2 * 3600, 4 * 3600, 12 * 3600, 86_400, 2 * 86_400)  # s between two marks of the axis
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
BAD = ("gpu-fault", "out-of-memory", "host-memory", "program", "signal", "timeout", "vanished", "not-started")


@dataclass(frozen=True, slots=True)
class Fault:
    """A time in which a GPU was out of service, or had a fault. ended None: still."""

    gpu: str
    started: float
    ended: float | None
    what: str
    severity: str = "error"


@dataclass(frozen=True, slots=True)
class Bar:
    """A run on one GPU, or `count` short ones together. lane: its place among those that share the GPU. until: its end, or now."""

    run: Run
    started: float
    until: float
    lane: int = 0
    count: int = 1
    bad: int = 0


def bars(runs: Sequence[Run], start: float, now: float) -> dict[str, list[Bar]]:
    """By GPU, by their start. Those that overlap have lanes of their own; short ones that follow each other are one bar."""
    fine = (now - start) * FINE
    mine: dict[str, list[Run]] = {}
    for run in runs:
        if (run.ended is None or run.ended > start) and run.started <= now:
            for gpu in run.gpus:
                mine.setdefault(gpu, []).append(run)
    return {gpu: _joined(_laned(sorted(found, key=lambda run: run.started), start, now), fine) for gpu, found in mine.items()}


def _laned(runs: Sequence[Run], start: float, now: float) -> list[Bar]:
    free: list[int] = []
    busy: list[tuple[float, int]] = []  # until when, which lane
    found, lanes = [], 0
    for run in runs:
        until = min(now if run.ended is None else run.ended, now)
        while busy and busy[0][0] <= run.started:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (until, lane))
        found.append(Bar(run, max(run.started, start), until, min(lane, LANES - 1), 1, run.ended is not None and run.ending in BAD))
    return found


def _joined(found: Sequence[Bar], fine: float) -> list[Bar]:
    joined: list[Bar] = []
    for _, lane in groupby(sorted(found, key=lambda bar: (bar.lane, bar.started)), key=lambda bar: bar.lane):
        last: Bar | None = None
        for bar in lane:
            short = bar.until - bar.started < fine and bar.run.ended is not None
            if last and short and last.until - last.started < 4 * fine and last.run.ended is not None and bar.started - last.until < fine \
                    and (last.count > 1 or last.until - last.started < fine):  # fmt: skip
                last = Bar(last.run, last.started, max(bar.until, last.until), last.lane, last.count + bar.count, last.bad + bar.bad)
                joined[-1] = last
            else:
                last = bar
                joined.append(bar)
    return joined


def chart(
    runs: Sequence[Run], cards: Sequence[Card], faults: Sequence[Fault], start: float, now: float, lang: str
) -> Html:  # fmt: skip
    """The whole picture. start, now: seconds since the epoch; the right edge is a little after now."""
    end = now + (now - start) * 0.015
    hues = colours(runs)
    placed = bars(runs, start, now)
    names = {card.id: name(card) for card in cards}
    order = [card.id for card in cards] + sorted(gpu for gpu in placed if gpu not in names)
    rows = [_row(gpu, names.get(gpu, gpu[:12]), placed.get(gpu, []), faults, hues, start, now, end, lang) for gpu in order[:ROWS]]
    more = tag("p", word("more_gpus", lang, count=len(order) - ROWS), class_="small soft") if len(order) > ROWS else ""
    axis = tag("div", tag("span", ""), tag("div", *_marks(start, end, lang), class_="lanes"), class_="axis", aria_hidden="true")
    body = tag("div", *rows, axis, class_="gantt", role="list", aria_label=word("gantt", lang))
    return tag("div", body, _legend(hues, lang), more, class_="stack-small")


def name(card: Card) -> str:
    """What a GPU is called in a row: its node, where there are several, and its index."""
    return f"{card.node} · GPU {card.index}" if card.node else f"GPU {card.index}"


def colours(runs: Sequence[Run]) -> dict[str, int]:
    """The colour of each user: those with the most runs have one of their own; by name, so that it stays from look to look."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.user] = counts.get(run.user, 0) + 1
    most = sorted(sorted(counts, key=lambda user: (-counts[user], user))[: HUES - 1 if len(counts) > HUES else HUES])
    return {user: place for place, user in enumerate(most)}


def _at(moment: float, start: float, end: float) -> float:
    return min(max((moment - start) / (end - start) * 100, 0.0), 100.0)


def _box(begin: float, until: float, start: float, end: float) -> str:
    left = _at(begin, start, end)
    return f"left:{left:.2f}%;width:{max(_at(until, start, end) - left, 0.12):.2f}%"


def _row(
    gpu: str, label: str, found: Sequence[Bar], faults: Sequence[Fault], hues: Mapping[str, int], start: float, now: float, end: float,
    lang: str,
) -> Html:  # fmt: skip
    lanes = max((bar.lane for bar in found), default=0) + 1
    behind = [
        tag("span", class_=f"fault {one.severity}", style=_box(max(one.started, start), one.ended or end, start, end),
            title=f"{one.what}: {clock(one.started, now)} - {clock(one.ended, now) if one.ended else word('still', lang)}")
        for one in faults if one.gpu == gpu and (one.ended or end) > start
    ]  # fmt: skip
    shown = [_bar(bar, hues, start, now, end, lang) for bar in sorted(found, key=lambda bar: bar.started)]
    line = tag("span", class_="now-line", style=f"left:{_at(now, start, end):.2f}%")
    inner = tag("div", *behind, *shown, line, class_="lanes", style=f"--lanes:{lanes}")
    return tag("div", tag("span", label, class_="who", title=gpu), inner, class_="gantt-row", role="listitem")


def _bar(bar: Bar, hues: Mapping[str, int], start: float, now: float, end: float, lang: str) -> Html:
    run = bar.run
    until = word("running", lang) if run.ended is None else clock(run.ended, now)
    if bar.count > 1:
        told = word("many_runs", lang, count=bar.count, bad=bar.bad)
        label = f"{told}: {clock(bar.started, now)} - {clock(bar.until, now)}"
    else:
        parts = [run.name, run.user, f"{clock(run.started, now)} - {until} ({span((run.ended or now) - run.started, lang)})"]
        label = " · ".join(filter(None, [*parts, ending(run.ending, lang) if run.ended is not None else ""]))
    wide = bar.until - bar.started > (now - start) * WIDE
    kind = " ".join(filter(None, [
        "run", f"u{hues[run.user]}" if run.user in hues and bar.count == 1 else "u-other", "bad" if bar.bad else "",
        "live" if run.ended is None else "",
    ]))  # fmt: skip
    style = f"{_box(bar.started, bar.until, start, end)};--lane:{bar.lane}"
    inner = (f"× {bar.count}" if bar.count > 1 else run.name) if wide else ""
    link = None if bar.count > 1 else f"/queue/{quote(run.job, safe='')}"
    return tag("a", inner, href=link, class_=kind, style=style, title=label, aria_label=label)


def ending(name: str, lang: str) -> str:
    """How a run ended, in a few words; as the engine calls it where we have none."""
    return word(f"end_{name.replace('-', '_')}", lang) if name in ENDINGS else name


ENDINGS = (
    "ok", "gpu-fault", "out-of-memory", "host-memory", "program", "signal", "stopped", "timeout", "idle", "preempted", "vanished", "reboot",
    "not-started",
)  # fmt: skip


def _marks(start: float, end: float, lang: str) -> list[Html]:
    step = next((step for step in STEPS if (end - start) / step <= 8), STEPS[-1])
    first = time.localtime(start)
    offset = (first.tm_hour * 3600 + first.tm_min * 60 + first.tm_sec) % min(step, 86_400)
    found, moment = [], start - offset + step
    while moment < end:
        there = time.localtime(moment)
        day = step >= 86_400 or (there.tm_hour, there.tm_min) == (0, 0)
        month = f"{there.tm_mon}月" if lang == "zh" else MONTHS[there.tm_mon - 1]
        text = word("day", lang, month=month, day=there.tm_mday) if day else time.strftime("%H:%M", there)
        left = _at(moment, start, end)
        if left < 95:
            found.append(tag("span", text, class_="mark", style=f"left:{left:.2f}%"))
        moment += step
    return found


def _legend(hues: Mapping[str, int], lang: str) -> Html:
    users = [tag("span", tag("i", class_=f"run u{place}"), user or "-") for user, place in hues.items()]
    rest = [tag("span", tag("i", class_=kind), word(text, lang)) for kind, text in (
        ("run u-other", "legend_other"), ("run u-other bad", "legend_bad"), ("fault error", "legend_fault"), ("now-mark", "legend_now"),
    )]  # fmt: skip
    return tag("div", *users, *rest, class_="legend small soft")
