"""A timeline, judged: how busy each GPU was, and what it waited for in each of its gaps.

A gap is a time in which nothing runs on the GPU. What follows a gap was launched by the host at a moment L. Up to L the host
is to blame: what it did meanwhile names the cause. If L lies before the gap, the work was queued already and the GPU waited
for itself (another stream, an event, the latency of a launch). A gap that begins while the host waits for the GPU was made by
that wait: the host was ahead, and had to start anew.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ongpu.hosts.traces.timeline import ALLOCATE, BLOCKING_COPY, COLLECT, COMPILE, COMPUTE, LOADING, SYNC, WORK, Gpu, Spans, Timeline

LONG = 1000.0  # µs of host time in no recorded call: code of the user's, not the small pauses between two launches
LATENCY = 2.0  # µs between two kernels that follow each other; no cause is looked for
MIN_SHARE = 0.01  # of the launches, from which a thread counts as one that feeds the GPU

CAUSES = {LOADING: "loading", COMPILE: "compile", ALLOCATE: "allocation", BLOCKING_COPY: "copy", SYNC: "sync", WORK: "launch"}
_CODE = "code"
Interval = tuple[float, float]


def merged(spans: Iterable[Interval]) -> Iterator[Interval]:
    """The union of intervals that come in the order of their starts."""
    start = end = None
    for s, e in spans:
        if end is None or start is None:
            start, end = s, e
        elif s <= end:
            end = max(end, e)
        else:
            yield start, end
            start, end = s, e
    if start is not None and end is not None:
        yield start, end


def without(spans: Iterable[Interval], taken: Sequence[Interval]) -> Iterator[Interval]:
    """The parts of merged intervals that merged intervals of another kind do not cover."""
    at = 0
    for start, end in spans:
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        i = at
        while i < len(taken) and taken[i][0] < end:
            if taken[i][0] > start:
                yield start, taken[i][0]
            start = max(start, taken[i][1])
            i += 1
        if start < end:
            yield start, end


def length(spans: Iterable[Interval], window: Interval) -> float:
    """How much of merged intervals lies in the window."""
    return sum(max(0.0, min(e, window[1]) - max(s, window[0])) for s, e in spans)


def _ordered(spans: Spans) -> Iterator[Interval]:
    """The intervals of one thread in the order of their starts; as they come where they are so already."""
    start, end = spans.start, spans.end
    if all(a <= b for a, b in pairwise(start)):
        return zip(start, end, strict=True)
    return ((start[i], end[i]) for i in sorted(range(len(start)), key=start.__getitem__))


def _union(spans: Iterable[Spans]) -> Iterator[Interval]:
    return merged(heapq.merge(*map(_ordered, spans)))


def _labelled(spans: Iterator[Interval], kind: int) -> Iterator[tuple[float, float, int]]:
    return ((start, end, kind) for start, end in spans)


@dataclass
class Waits:
    """What one GPU did and waited for, in microseconds."""

    device: int
    window: Interval
    kernel_span: float  # from the first activity to the last, and what was busy and computed in it
    kernel_busy: float
    kernel_compute: float
    busy: float
    compute: float
    copy_alone: float
    collective: float
    collective_alone: float
    idle: dict[str, list[float]] = field(default_factory=dict)  # cause: µs, gaps, longest

    def add(self, cause: str, spent: float) -> None:
        """So much of a gap has that cause."""
        row = self.idle.setdefault(cause, [0.0, 0, 0.0])
        row[0] += spent
        row[1] += 1
        row[2] = max(row[2], spent)


class Host:
    """What the host did at each moment: the most telling cause, sorted by time."""

    def __init__(self, timeline: Timeline) -> None:
        all_launches = sum(timeline.launchers.values())
        feeds = {thread for thread, count in timeline.launchers.items() if count >= MIN_SHARE * all_launches}
        pieces: list[Iterator[tuple[float, float, int]]] = []
        taken: list[Interval] = []
        self.loading: list[Interval] = []
        for kind in (LOADING, COMPILE, ALLOCATE, BLOCKING_COPY, SYNC, WORK):
            threads = timeline.host.get(kind, {})
            union = _union(spans for thread, spans in threads.items() if kind != LOADING or not feeds or thread in feeds)
            if kind != WORK:  # work is what is left, and the most of all: it is never held
                found = list(union)
                self.loading = found if kind == LOADING else self.loading
                pieces.append(_labelled(without(found, taken), kind))
                taken = list(merged(heapq.merge(taken, found)))
            else:
                pieces.append(_labelled(without(union, taken), kind))
        self.starts, self.ends, self.kinds = array("d"), array("d"), array("b")
        for start, end, kind in heapq.merge(*pieces):
            self.starts.append(start)
            self.ends.append(end)
            self.kinds.append(kind)
        self.syncs = list(_union(timeline.host.get(SYNC, {}).values()))
        self._sync_starts = [start for start, _ in self.syncs]
        self._at = 0
        order = sorted(range(len(timeline.launch_id)), key=timeline.launch_id.__getitem__)
        self._ids = array("q", (timeline.launch_id[i] for i in order))
        self._times = array("d", (timeline.launch_time[i] for i in order))
        self.seen = bool(self.starts)

    def launched(self, correlation: int) -> float | None:
        """When that work was launched."""
        at = bisect_right(self._ids, correlation) - 1
        return self._times[at] if correlation and at >= 0 and self._ids[at] == correlation else None

    def waited(self, moment: float) -> bool:
        """Whether the host was waiting for the GPU at that moment."""
        at = bisect_right(self._sync_starts, moment) - 1
        return at >= 0 and self.syncs[at][1] >= moment

    def during(self, start: float, end: float) -> Iterator[tuple[str, float]]:
        """What the host did then: cause and microseconds. Asked in the order of time."""
        at = self._at = bisect_right(self.ends, start, lo=self._back(start))
        here = start
        while at < len(self.starts) and self.starts[at] < end:
            if self.starts[at] > here:
                yield self._nothing(self.starts[at] - here)
            until = min(self.ends[at], end)
            if until > max(here, self.starts[at]):
                yield CAUSES[self.kinds[at]], until - max(here, self.starts[at])
            here = max(here, until)
            at += 1
        if here < end:
            yield self._nothing(end - here)

    def _back(self, start: float) -> int:
        return self._at if self._at < len(self.ends) and (self._at == 0 or self.ends[self._at - 1] <= start) else 0

    @staticmethod
    def _nothing(spent: float) -> tuple[str, float]:
        return (_CODE if spent >= LONG else "launch"), spent


def window(timeline: Timeline, gpu: Gpu, host: Host) -> Interval:
    """From the first step to the end of what was launched up to the last; without steps, the time in which the GPU had work."""
    first, last = min(gpu.start), max(gpu.end)
    steps = best_steps(timeline)
    if steps is None or min(steps.start) >= last or max(steps.end) <= first:
        return first, last
    begin = end = min(steps.start)
    done = max(steps.end)
    for i, start in enumerate(gpu.start):
        if gpu.end[i] > end and (start <= done or (host.launched(gpu.correlation[i]) or start) <= done):
            end = gpu.end[i]
    return begin, max(done, end)


def best_steps(timeline: Timeline) -> Spans | None:
    """The steps of the training loop: of several families of names that with most of them."""
    named = timeline.steps.get("ProfilerStep")
    if named is not None:
        return named
    return max((s for s in timeline.steps.values() if len(s.start) > 1), key=lambda s: len(s.start), default=None)


def waits(timeline: Timeline, device: int, host: Host) -> Waits:
    """How busy that GPU was, and what it waited for."""
    gpu = timeline.gpus[device]
    order = sorted(range(len(gpu.start)), key=gpu.start.__getitem__)
    span = window(timeline, gpu, host)

    def union(*kinds: int) -> Iterator[Interval]:
        return merged((gpu.start[i], gpu.end[i]) for i in order if not kinds or gpu.kind[i] in kinds)

    busy, compute, worked = (length(union(*kinds), span) for kinds in ((), (COMPUTE,), (COMPUTE, COLLECT)))
    whole = min(gpu.start), max(gpu.end)
    told = Waits(
        device, span, whole[1] - whole[0], length(union(), whole), length(union(COMPUTE), whole),
        busy, compute, busy - worked, length(union(COLLECT), span), worked - compute,
    )  # fmt: skip
    end = span[0]
    for i in order:
        start = min(gpu.start[i], span[1])
        if start > end:
            _blame(told, host, end, start, gpu.correlation[i])
        end = max(end, gpu.end[i])
        if end >= span[1]:
            return told
    _blame(told, host, end, span[1], 0)
    return told


def _blame(told: Waits, host: Host, start: float, end: float, correlation: int) -> None:
    """Name the causes of one gap."""
    if end - start <= LATENCY:
        told.add("queue", end - start)
        return
    if not host.seen:
        told.add("unknown", end - start)
        return
    launched = host.launched(correlation)
    late = end if launched is None else min(launched, end)
    if late <= start:
        told.add("queue", end - start)
        return
    after_wait = host.waited(start)
    spent: dict[str, float] = {}
    for cause, time in host.during(start, late):
        cause = "sync" if after_wait and cause == "launch" else cause
        spent[cause] = spent.get(cause, 0.0) + time
    if late < end:  # what was launched has yet to begin
        cause = "sync" if after_wait else "launch"
        spent[cause] = spent.get(cause, 0.0) + end - late
    for cause, time in spent.items():
        told.add(cause, time)
