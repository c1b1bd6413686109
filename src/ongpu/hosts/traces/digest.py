"""A timeline as a short text: one JSON object a line. It is the evidence that rules are grounded on, and can be kept and replayed."""

import json
from bisect import bisect_right
from collections.abc import Iterator

from ongpu.hosts.traces.attribution import Host, Interval, best_steps, length, waits
from ongpu.hosts.traces.timeline import SYNC, Gpu, Place, Timeline
from ongpu.knowledge.kernel_names import family

TOP = 8  # kernels, places: the longest
MAX_SYNCS = 20_000  # calls whose place is looked up
LOOK_BACK = 200  # frames on a thread that are tried for one call


def lines(timeline: Timeline, tool: str) -> Iterator[str]:
    """The digest. Times in milliseconds, shares in percent."""
    steps = best_steps(timeline)
    yield _line(
        profile=1, tool=tool, events=timeline.events, steps=len(steps.start) if steps else None,
        rank=timeline.ranks[0] if timeline.ranks else None, host=bool(timeline.host), limited=timeline.limited or None,
        odd=timeline.odd or None,
    )
    for card in timeline.cards:
        if card.get("id") not in timeline.gpus and timeline.gpus:
            continue
        yield _line(
            card=str(card.get("name"))[:80], index=card.get("id"), bytes=card.get("totalGlobalMem"),
            capability=f"{card.get('computeMajor')}.{card.get('computeMinor')}" if "computeMajor" in card else None,
        )
    if not timeline.gpus:
        return
    host = Host(timeline)
    for device in sorted(timeline.gpus):
        if len(timeline.gpus[device].start):
            yield from _gpu(timeline, device, host)


def _gpu(timeline: Timeline, device: int, host: Host) -> Iterator[str]:
    gpu, told = timeline.gpus[device], waits(timeline, device, host)
    span = told.window[1] - told.window[0]
    idle = span - told.busy
    steps = best_steps(timeline)
    yield _line(
        gpu=device, busy_percent=_share(told.busy, span), span_ms=_ms(span), step_ms=_ms(span / len(steps.start)) if steps else None,
        busy_ms=_ms(told.busy), compute_ms=_ms(told.compute), kernel_span_ms=_ms(told.kernel_span),
        kernel_busy_ms=_ms(told.kernel_busy), kernel_compute_ms=_ms(told.kernel_compute),
        copy_alone_ms=_ms(told.copy_alone), collective_ms=_ms(told.collective), collective_alone_ms=_ms(told.collective_alone),
        **_sizes(gpu),
    )
    for cause, (spent, gaps, longest) in sorted(told.idle.items(), key=lambda row: -row[1][0]):
        yield _line(idle=cause, percent=_share(spent, span), ms=_ms(spent), gpu=device, gaps=int(gaps), longest_ms=_ms(longest))
    if (loading := length(host.loading, told.window)) > 0 and span > 0:
        calls = sum(1 for start, _ in host.loading if told.window[0] <= start < told.window[1])
        longest = max((e - s for s, e in host.loading), default=0.0)
        most = _share(min(idle, loading), span)
        yield _line(loading=calls, at_most_percent=most, ms=_ms(loading), gpu=device, longest_ms=_ms(longest))
    yield from _kernels(gpu, device)
    yield from _syncs(timeline, device, told.window)


def _sizes(gpu: Gpu) -> dict[str, object]:
    count = int(sum(row[0] for row in gpu.kernels.values()))
    small = int(sum(row[2] for row in gpu.kernels.values()))
    return {"kernels": count, "small": small}


def _kernels(gpu: Gpu, device: int) -> Iterator[str]:
    families: dict[str, list[float]] = {}
    longest: dict[str, tuple[float, str]] = {}
    for name, (count, spent, _) in gpu.kernels.items():
        kind = family(name)
        row = families.setdefault(kind, [0, 0.0])
        row[0] += count
        row[1] += spent
        longest[kind] = max(longest.get(kind, (0.0, "")), (spent, name))
    for kind, (count, spent) in sorted(families.items(), key=lambda row: -row[1][1]):
        yield _line(family=kind, ms=_ms(spent), gpu=device, kernels=int(count), example=longest[kind][1][:160])
    for name, (count, spent, _) in sorted(gpu.kernels.items(), key=lambda row: -row[1][1])[:TOP]:
        yield _line(kernel=name[:160], gpu=device, ms=_ms(spent), count=int(count))
    for name, (count, spent) in sorted(gpu.copies.items(), key=lambda row: -row[1][1])[:TOP]:
        yield _line(copy=name[:80], gpu=device, ms=_ms(spent), count=int(count))


def _syncs(timeline: Timeline, device: int, window: Interval) -> Iterator[str]:
    """Where the host waited for the GPU: the operator or the user's frame around each call."""
    operators = {thread: _Nested(places) for thread, places in timeline.operators.items()}
    frames = {thread: _Nested(places) for thread, places in timeline.frames.items()}
    found: dict[tuple[str, str], list[float]] = {}
    looked = 0
    for thread, spans in timeline.host.get(SYNC, {}).items():
        for start, end in zip(spans.start, spans.end, strict=True):
            if not window[0] <= start < window[1] or looked >= MAX_SYNCS:
                continue
            looked += 1
            operator = operators[thread].outermost(start) if thread in operators else ""
            frame = frames[thread].innermost(start) if thread in frames else ""
            row = found.setdefault((operator, frame), [0, 0.0])
            row[0] += 1
            row[1] += end - start
    for (operator, frame), (count, spent) in sorted(found.items(), key=lambda row: -row[1][1])[:TOP]:
        yield _line(sync=operator or "synchronize", calls=int(count), where=frame or None, ms=_ms(spent), gpu=device)


class _Nested:
    """The operators or frames of one thread, asked for what is around a moment."""

    def __init__(self, places: list[Place]) -> None:
        self.places = sorted(places, key=lambda place: (place.start, -place.end))
        self.starts = [place.start for place in self.places]

    def _around(self, moment: float) -> Iterator[str]:
        at = bisect_right(self.starts, moment) - 1
        for i in range(at, max(-1, at - LOOK_BACK), -1):
            if self.places[i].end >= moment:
                yield self.places[i].name

    def innermost(self, moment: float) -> str:
        return next(self._around(moment), "")

    def outermost(self, moment: float) -> str:
        return ([*self._around(moment)] or [""])[-1]


def _ms(micro: float) -> float:
    return round(micro / 1000, 3)


def _share(part: float, whole: float) -> float:
    return round(100 * part / whole, 1) if whole > 0 else 0.0


def _line(**values: object) -> str:
    return json.dumps({key: value for key, value in values.items() if value is not None}, ensure_ascii=False)
