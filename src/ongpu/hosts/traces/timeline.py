"""What a profiler saw, as intervals in flat arrays: the GPU's activities, and what the host did that a GPU may have waited for.

All times are microseconds of one clock. Memory: 17 bytes for each activity of the GPU and each interval of the host, 16 for
each launch; MAX_KEPT bounds them.
"""

import math
import re
from array import array
from dataclasses import dataclass, field

from ongpu.knowledge.kernel_names import COLLECTIVE, family
from ongpu.lazy import lazy

MAX_KEPT = 6_000_000  # intervals of the GPU, and as many of the host; what comes later is counted, not kept
MAX_NAMES = 20_000
MAX_NAME = 300
MAX_PLACES = 200_000  # frames and operators that a wait may stand in
SMALL = 10.0  # µs: a kernel shorter than what it takes to launch it

COMPUTE, COPY, SET, COLLECT = range(4)  # kinds of activity of the GPU
LOADING, COMPILE, ALLOCATE, BLOCKING_COPY, SYNC, WORK = range(6)  # what the host did, the more telling first

_LOADING = lazy(
    r"enumerate\(DataLoader\)|dataloader\.py\(\d{1,6}\): (?:__next__|_next_data|_get_data)|DataLoaderIter\.__next__|dataloader_next"
    r"|IteratorGetNext|Iterator::(?:Root|Prefetch)$|\bfetch(?:_next)?_batch\b|\bdata[ _]?load(?:ing|er)?\b|\bload[ _](?:data|batch)\b"
    r"|\bget_batch\b",
    re.IGNORECASE,
)
_SYNC = lazy(
    r"^(?:cuda|cu|hip)(?:Device|Stream|Event|Ctx|Context)Synchronize|^(?:cuda|hip)ThreadSynchronize|^(?:hip|cuda)MemcpyWithStream$"
)
_ALLOCATE = lazy(
    r"^(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostRegister|MallocHost|FreeHost)"
    r"|^cuMem(?:Alloc|Free|HostAlloc|Create|Map|Unmap|Release|AddressReserve)"
)
_BLOCKING = lazy(r"^(?:cuda|hip)Memcpy|^cuMemcpy")
_COMPILE = lazy(
    r"^cu(?:ModuleLoad|LibraryLoad|LinkComplete|LinkAddData)|^hipModuleLoad|\(dynamo_timed\)|backend_compile|XlaCompile"
    r"|PjRt\w{0,20}Compile"
)
_LAUNCH = lazy(r"^(?:cuda|cu|hip)(?:Ext|Module)?(?:Launch|Graph|Memcpy|Memset)")


@dataclass
class Gpu:
    """The activities of one GPU, in the order in which they were written."""

    start: "array[float]" = field(default_factory=lambda: array("d"))
    end: "array[float]" = field(default_factory=lambda: array("d"))
    kind: "array[int]" = field(default_factory=lambda: array("b"))
    correlation: "array[int]" = field(default_factory=lambda: array("q"))
    kernels: dict[str, list[float]] = field(default_factory=dict)  # name: count, µs, count of the small
    copies: dict[str, list[float]] = field(default_factory=dict)  # name: count, µs


@dataclass
class Spans:
    """Intervals of the host of one kind on one thread."""

    start: "array[float]" = field(default_factory=lambda: array("d"))
    end: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, start: float, end: float, *, merge: bool = True) -> bool:
        """Whether it needed room: what the last one holds, or only prolongs it, does not."""
        if merge and self.start:
            if start >= self.start[-1] and end <= self.end[-1]:
                return False
            if self.start[-1] <= start <= self.end[-1]:
                self.end[-1] = end
                return False
        self.start.append(start)
        self.end.append(end)
        return True


@dataclass
class Place:
    """Where on a thread the program was: an operator or a frame of the user's."""

    start: float
    end: float
    name: str


@dataclass
class Timeline:
    """Filled event by event, in any order; `attribution` reads it."""

    gpus: dict[int, Gpu] = field(default_factory=dict)
    host: dict[int, dict[object, Spans]] = field(default_factory=dict)  # kind: thread: intervals
    launch_id: "array[int]" = field(default_factory=lambda: array("q"))
    launch_time: "array[float]" = field(default_factory=lambda: array("d"))
    launchers: dict[object, int] = field(default_factory=dict)  # thread: launches
    steps: dict[str, Spans] = field(default_factory=dict)  # family of names: intervals
    operators: dict[object, list[Place]] = field(default_factory=dict)
    frames: dict[object, list[Place]] = field(default_factory=dict)
    cards: list[dict[str, object]] = field(default_factory=list)
    ranks: list[str] = field(default_factory=list)
    events: int = 0
    kept: int = 0
    places: int = 0
    odd: int = 0  # events whose times are no times
    limited: bool = False

    def _room(self, times: int = 1) -> bool:
        if self.kept < times * MAX_KEPT:
            self.kept += 1
            return True
        self.limited = True
        return False

    def _timed(self, start: float, duration: float) -> bool:
        good = math.isfinite(start) and math.isfinite(duration) and 0 <= duration < 1e13 and abs(start) < 1e19
        self.odd += not good
        return good

    def activity(self, device: int, kind: int, name: str, start: float, duration: float, correlation: int) -> None:
        """The GPU did something."""
        if not self._timed(start, duration):
            return
        gpu = self.gpus.get(device)
        if gpu is None:
            if len(self.gpus) >= 64:
                return
            gpu = self.gpus[device] = Gpu()
        name = name[:MAX_NAME]
        if kind == COMPUTE:
            row = gpu.kernels.get(name)
            if row is None:
                name = name if len(gpu.kernels) < MAX_NAMES else "other kernels"
                row = gpu.kernels.setdefault(name, [0, 0.0, 0])
            row[0] += 1
            row[1] += duration
            row[2] += duration < SMALL
            if family(name) == COLLECTIVE:
                kind = COLLECT
        elif len(gpu.copies) < 100 or name in gpu.copies:
            copy = gpu.copies.setdefault(name, [0, 0.0])
            copy[0] += 1
            copy[1] += duration
        if self._room(2):  # the host's intervals never crowd out the GPU's
            gpu.start.append(start)
            gpu.end.append(start + duration)
            gpu.kind.append(kind)
            gpu.correlation.append(correlation)

    def span(self, kind: int, thread: object, start: float, duration: float, *, merge: bool = True) -> None:
        """The host did something of that kind."""
        if self._timed(start, duration):
            threads = self.host.setdefault(kind, {})
            spans = threads.get(thread)
            if spans is None:
                if len(threads) > 4096:
                    return
                spans = threads[thread] = Spans()
            if self.kept < MAX_KEPT:
                self.kept += spans.add(start, start + duration, merge=merge)
            else:
                self.limited = True

    def called(self, name: str, thread: object, start: float, duration: float, correlation: int) -> None:
        """The host called the CUDA runtime or driver."""
        if not self._timed(start, duration):
            return
        if _SYNC.match(name):
            self.span(SYNC, thread, start, duration, merge=False)
        elif _ALLOCATE.match(name):
            self.span(ALLOCATE, thread, start, duration)
        elif _COMPILE.search(name):
            self.span(COMPILE, thread, start, duration)
        elif _BLOCKING.match(name) and duration > 30.0:  # an asynchronous copy that the host waited for: pageable memory
            self.span(BLOCKING_COPY, thread, start, duration)
        self.span(WORK, thread, start, duration)
        if correlation and _LAUNCH.match(name) and self._room():
            self.launch_id.append(correlation)
            self.launch_time.append(start)
            self.launchers[thread] = self.launchers.get(thread, 0) + 1 if len(self.launchers) < 4096 else 1

    def operator(self, name: str, thread: object, start: float, duration: float) -> None:
        """An operator of the framework ran on the host."""
        if not self._timed(start, duration):
            return
        if _COMPILE.search(name):
            self.span(COMPILE, thread, start, duration)
        elif _LOADING.search(name):
            self.span(LOADING, thread, start, duration)
            return
        self.span(WORK, thread, start, duration)

    def noted(self, name: str, thread: object, start: float, duration: float) -> None:
        """A range that the program itself marked: it counts only where its name tells what was waited for."""
        if _LOADING.search(name):
            self.span(LOADING, thread, start, duration)
        elif _COMPILE.search(name):
            self.span(COMPILE, thread, start, duration)

    def place(self, where: dict[object, list[Place]], thread: object, name: str, start: float, duration: float) -> None:
        """A frame or operator that a wait may stand in."""
        if self.places < MAX_PLACES and self._timed(start, duration) and len(where) < 4096:
            self.places += 1
            where.setdefault(thread, []).append(Place(start, start + duration, name[:MAX_NAME]))

    def step(self, group: str, start: float, duration: float) -> None:
        """One step of the training loop; steps of one family of names."""
        if self._timed(start, duration) and (group in self.steps or len(self.steps) < 50):
            spans = self.steps.setdefault(group, Spans())
            if len(spans.start) < 100_000:
                spans.add(start, start + duration, merge=False)
