"""A snapshot of PyTorch's CUDA allocator (`torch.cuda.memory._dump_snapshot`), replayed: peak and owners, what grows, what lies idle.

Its fields: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html (segments with blocks; device_traces with alloc,
free_requested, free_completed, segment_alloc, segment_free, oom). A block is the owner's whose frame is the innermost one that
is neither the framework's nor Python's own.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from ongpu.hosts.traces.json_stream import Elements
from ongpu.lazy import lazy

MAX_ENTRIES = 4_000_000  # of one device's trace
MAX_DEVICES = 64
MAX_OWNERS = 50_000
MAX_FRAMES = 200  # of one stack
WINDOWS = 8  # parts of the trace whose lowest use is compared
OWNERS = 8  # told
NO_FRAME = "no frame recorded"

_THEIRS = lazy(
    r"(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<|[/\\](?:torch|transformers|accelerate|lightning)[/\\](?=\w)"
    r"|^(?:torch|runpy|threading)\b"
)
_GONE = ("free_completed", "free")


def _int(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 60 else 0


def _text(value: Any) -> str:
    return value if type(value) is str else ""  # never str(value): a list may be nested a million deep


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from (item for item in value if isinstance(item, dict))


@lru_cache(maxsize=4096)
def _known(filename: str) -> tuple[bool, bool, str]:
    """Whether a file is Python's, whether it is the user's own, and the last two parts of its path."""
    python = filename.endswith(".py")
    return python, python and not _THEIRS.search(filename), "/".join(filename.replace("\\", "/").split("/")[-2:])[-100:]


def owner(frames: Any) -> str:
    """file:line function of the innermost frame of the user's; else of the innermost Python frame."""
    found = None
    for frame in frames[:MAX_FRAMES] if isinstance(frames, list) else ():
        if not isinstance(frame, dict):
            continue
        python, users, _ = _known(_text(frame.get("filename"))[:1000])
        if users or (python and found is None):
            found = frame
        if users:
            break
    if found is None:
        return NO_FRAME
    return f"{_known(_text(found['filename'])[:1000])[2]}:{_int(found.get('line'))} {_text(found.get('name'))[:60]}"


class Entry(NamedTuple):
    """One entry of the allocator's record. Bytes."""

    action: str
    address: int
    size: int
    owner: str
    free: int  # on the device, of a request that failed


class Block(NamedTuple):
    """One block of a segment. Bytes."""

    address: int
    size: int
    requested: int
    active: bool
    owner: str


@dataclass
class Device:
    """What the allocator of one GPU holds at the end, and what it did before."""

    reserved: int = 0
    segments: int = 0
    expandable: bool = False
    blocks: list[Block] = field(default_factory=list)
    trace: list[Entry] = field(default_factory=list)


class _Reader:
    """Takes in segments and entries; what is kept of them is small, whatever their frames are."""

    def __init__(self) -> None:
        self.devices: dict[int, Device] = {}
        self.names: dict[str, str] = {}  # each place once
        self.shared: dict[int, str] | None = None  # by the list of frames, where that stays alive

    def _device(self, index: int) -> Device | None:
        return self.devices.setdefault(index, Device()) if index in self.devices or len(self.devices) < MAX_DEVICES else None

    def _owner(self, frames: Any) -> str:
        if self.shared is not None and id(frames) in self.shared:
            return self.shared[id(frames)]
        name = owner(frames)
        if len(self.names) < MAX_OWNERS:
            name = self.names.setdefault(name, name)
        name = self.names.get(name, "other places")
        if self.shared is not None:
            self.shared[id(frames)] = name
        return name

    def segment(self, segment: Any) -> None:
        """One segment with its blocks."""
        if not isinstance(segment, dict) or "blocks" not in segment or (device := self._device(_int(segment.get("device")))) is None:
            return
        device.reserved += _int(segment.get("total_size"))
        device.segments += 1
        device.expandable = device.expandable or segment.get("is_expandable") is True
        at = _int(segment.get("address"))
        for block in _dicts(segment["blocks"]):
            size = _int(block.get("size"))
            active = _text(block.get("state")).startswith("active")
            frames = block["frames"] if "frames" in block else next((h.get("frames") for h in _dicts(block.get("history"))), None)
            if len(device.blocks) < MAX_ENTRIES:
                place = self._owner(frames) if active else ""
                requested = _int(block.get("requested_size")) or size
                device.blocks.append(Block(_int(block.get("address")) or at, size, requested, active, place))
            at += size

    def entry(self, index: int, entry: Any) -> None:
        """One entry of the record of a device."""
        if isinstance(entry, dict) and (device := self._device(index)) is not None and len(device.trace) < MAX_ENTRIES:
            action = _text(entry.get("action"))
            place = self._owner(entry.get("frames")) if action in ("alloc", "oom") else ""
            free = _int(entry.get("device_free", entry.get("addr")))
            device.trace.append(Entry(sys.intern(action[:20]), _int(entry.get("addr")), _int(entry.get("size")), place, free))


def read_json(elements: Elements) -> dict[int, Device]:
    """The devices of a snapshot that was saved as JSON."""
    reader = _Reader()
    for key, value in elements:
        if key in ("segments", ""):  # memory_snapshot() gives the segments alone
            reader.segment(value)
        elif key == "device_traces":
            reader.entry(elements.outer, value)
    return reader.devices


def of_object(snapshot: Any) -> dict[int, Device]:
    """The devices of a snapshot: a dict with segments and device_traces, or the list of segments alone."""
    reader = _Reader()
    reader.shared = {}
    whole = isinstance(snapshot, dict)
    for segment in _dicts(snapshot.get("segments") if whole else snapshot):
        reader.segment(segment)
    traces = snapshot.get("device_traces") if whole else ()
    for index, trace in enumerate(traces[:MAX_DEVICES] if isinstance(traces, (list, tuple)) else ()):
        for entry in trace if isinstance(trace, (list, tuple)) else ():
            reader.entry(index, entry)
    return reader.devices


def lines(devices: dict[int, Device]) -> Iterator[str]:
    """The digest: one JSON object a line, sizes in bytes."""
    yield _line(snapshot=1, devices=len(devices), entries=sum(len(d.trace) for d in devices.values()))
    for index in sorted(devices):
        yield from _device(index, devices[index])


def _device(index: int, device: Device) -> Iterator[str]:
    active = [block for block in device.blocks if block.active]
    allocated = sum(block.size for block in active)
    idle = sum(block.size for block in device.blocks) - allocated
    largest = max((block.size for block in device.blocks if not block.active), default=0)
    yield _line(
        memory=index, allocated=allocated, reserved=device.reserved, idle=idle, largest_idle=largest, segments=device.segments,
        requested=sum(block.requested for block in active), expandable=device.expandable,
    )
    alive = {block.address: (block.size, block.owner) for block in active}
    replay = _Replay(device.trace, alive)
    peak = replay.run()
    owners = replay.owners if device.trace else _sums(alive)
    end = replay.now if device.trace else allocated
    yield _line(peak=index, bytes=peak or allocated, entry=replay.peak_at, entries=len(device.trace), start=replay.base, end=end)
    for place, (size, count) in sorted(owners.items(), key=lambda row: -row[1][0])[:OWNERS]:
        yield _line(owner=place, bytes=size, percent=_share(size, peak or allocated), blocks=count, gpu=index)
    yield from replay.failures(index, device.reserved, allocated, largest)
    if growth := replay.growth():
        yield _line(growth=index, percent=_share(growth[-1] - growth[0], peak), lowest=growth)
        for place, (size, count) in sorted(replay.kept().items(), key=lambda row: -row[1][0])[:OWNERS]:
            yield _line(kept=place, bytes=size, blocks=count, gpu=index)


def _sums(alive: dict[int, tuple[int, str]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for size, place in alive.values():
        had = sums.get(place, (0, 0))
        sums[place] = (had[0] + size, had[1] + 1)
    return sums


class _Replay:
    """The trace of one device, from the start that its end implies."""

    def __init__(self, trace: list[Entry], alive: dict[int, tuple[int, str]]) -> None:
        self.trace = trace
        self.before = self._before(alive)
        self.base = sum(size for size, _ in self.before.values())
        self.now = self.peak = self.base
        self.peak_at = 0
        self.lowest: list[int] = []
        self.owners: dict[str, tuple[int, int]] = {}

    def _before(self, alive: dict[int, tuple[int, str]]) -> dict[int, tuple[int, str]]:
        """What was allocated before the trace began: freed in it without being allocated, or there at its end."""
        born: set[int] = set()
        before: dict[int, tuple[int, str]] = {}
        for entry in self.trace:
            if entry.action == "alloc":
                born.add(entry.address)
            elif entry.action in _GONE and entry.address not in born:
                before[entry.address] = (entry.size, NO_FRAME)
                born.add(entry.address)
        return before | {address: block for address, block in alive.items() if address not in born}

    def run(self) -> int:
        """Replay to the end; then again to the peak, for its owners. The peak's bytes."""
        if not self.trace:
            return 0
        live = {address: size for address, (size, _) in self.before.items()}
        part = max(1, -(-len(self.trace) // WINDOWS))
        low = self.now
        for at, entry in enumerate(self.trace):
            self.now += self._step(live, entry)
            if self.now > self.peak:
                self.peak, self.peak_at = self.now, at
            low = min(low, self.now)
            if (at + 1) % part == 0 or at + 1 == len(self.trace):
                self.lowest.append(low)
                low = self.now
        held = dict(self.before)
        self._hold(held, 0, self.peak_at + 1 if self.peak > self.base else 0)
        self.owners = _sums(held)
        return self.peak

    @staticmethod
    def _step(live: dict[int, int], entry: Entry) -> int:
        """The bytes that one entry adds."""
        if entry.action == "alloc":
            change = entry.size - live.get(entry.address, 0)
            live[entry.address] = entry.size
            return change
        return -live.pop(entry.address, 0) if entry.action in _GONE else 0

    def _hold(self, held: dict[int, tuple[int, str]], start: int, end: int) -> None:
        """Let those entries happen to what is held."""
        for at in range(start, end):
            entry = self.trace[at]
            if entry.action == "alloc":
                held[entry.address] = (entry.size, entry.owner)
            elif entry.action in _GONE:
                held.pop(entry.address, None)

    def growth(self) -> list[int]:
        """The lowest use in each part of the trace, where it rises from part to part; else []."""
        low = self.lowest
        if len(low) < WINDOWS or len(self.trace) < 20 * WINDOWS:
            return []
        later = low[2:]  # weights and optimizer states come at first
        rises = all(b > a for a, b in pairwise(later))
        return low if rises and later[-1] - later[0] > 0.05 * self.peak else []

    def kept(self) -> dict[str, tuple[int, int]]:
        """Who holds what was allocated in the later parts and never freed."""
        held: dict[int, tuple[int, str]] = {}
        self._hold(held, 2 * len(self.trace) // WINDOWS, len(self.trace))
        return _sums(held)

    def failures(self, index: int, reserved: int, allocated: int, largest: int) -> Iterator[str]:
        """Requests that found no room; what the snapshot says of the state then is that of its end."""
        told = 0
        for at, entry in enumerate(self.trace):
            if entry.action == "oom" and told < 3:
                told += 1
                last = at > len(self.trace) - 20
                yield _line(
                    oom=index, bytes=entry.size, device_free=entry.free, where=entry.owner, entry=at,
                    reserved=reserved if last else None, allocated=allocated if last else None, largest_idle=largest if last else None,
                )


def _share(part: float, whole: float) -> float:
    return round(100 * part / whole, 1) if whole > 0 else 0.0


def _line(**values: object) -> str:
    return json.dumps({key: value for key, value in values.items() if value is not None}, ensure_ascii=False)
