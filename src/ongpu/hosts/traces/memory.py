"""A snapshot of PyTorch's CUDA allocator (`torch.cuda.memory._dump_snapshot`), replayed: peak and owners, what grows, what lies idle.

Its fields: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html (segments with blocks; device_traces with alloc,
free_requested, free_completed, segment_alloc, segment_free, oom). A block is the owner's whose frame is the innermost one that
is neither the framework's nor Python's own.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ongpu.hosts.traces.json_stream import Elements
from ongpu.lazy import lazy

MAX_ENTRIES = 4_000_000  # of one device's trace
MAX_DEVICES = 64
MAX_OWNERS = 50_000
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


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from (item for item in value if isinstance(item, dict))


@dataclass
class Places:
    """Frames as short names; a list of frames is looked at once."""

    known: dict[int, str] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)

    def owner(self, frames: Any) -> str:
        """file:line function of the innermost frame of the user's; else of the innermost Python frame."""
        if not isinstance(frames, list) or not frames:
            return NO_FRAME
        key = id(frames)
        if key not in self.known:
            if len(self.known) > MAX_OWNERS:
                return "other places"
            self.held.append(frames)  # so that the id stays its own
            self.known[key] = self._look(frames)
        return self.known[key]

    @staticmethod
    def _look(frames: list[Any]) -> str:
        python = [f for f in frames[:200] if isinstance(f, dict) and str(f.get("filename", "")).endswith(".py")]
        users = [f for f in python if not _THEIRS.search(str(f["filename"]))]
        if not python:
            return NO_FRAME
        frame = (users or python)[0]
        name = "/".join(str(frame["filename"]).replace("\\", "/").split("/")[-2:])
        return f"{name[-100:]}:{_int(frame.get('line'))} {str(frame.get('name', ''))[:60]}"


@dataclass
class Device:
    """What the allocator of one GPU holds at the end, and what it did before."""

    segments: list[dict[str, Any]] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)


def read_json(elements: Elements) -> dict[int, Device]:
    """The devices of a snapshot that was saved as JSON."""
    devices: dict[int, Device] = {}
    for key, value in elements:
        if key in ("segments", ""):  # memory_snapshot() gives the segments alone
            _segment(devices, value)
        elif key == "device_traces" and isinstance(value, dict):
            trace = devices.setdefault(_int(value.get("device")), Device()).trace
            if len(trace) < MAX_ENTRIES:
                trace.append(value)
    return devices


def of_object(snapshot: Any) -> dict[int, Device]:
    """The devices of a snapshot: a dict with segments and device_traces, or the list of segments alone."""
    devices: dict[int, Device] = {}
    whole = isinstance(snapshot, dict)
    for segment in _dicts(snapshot.get("segments") if whole else snapshot):
        _segment(devices, segment)
    traces = snapshot.get("device_traces") if whole else ()
    for index, trace in enumerate(traces[:MAX_DEVICES] if isinstance(traces, (list, tuple)) else ()):
        if entries := list(_dicts(trace))[:MAX_ENTRIES]:
            devices.setdefault(index, Device()).trace = entries
    return devices


def _segment(devices: dict[int, Device], segment: Any) -> None:
    if isinstance(segment, dict) and "blocks" in segment and (len(devices) < MAX_DEVICES):
        devices.setdefault(_int(segment.get("device")), Device()).segments.append(segment)


def lines(devices: dict[int, Device], notes: Iterable[str] = ()) -> Iterator[str]:
    """The digest: one JSON object a line, sizes in bytes."""
    entries = sum(len(d.trace) for d in devices.values())
    yield _line(snapshot=1, devices=len(devices), entries=entries, notes=list(notes) or None)
    places = Places()
    for index in sorted(devices):
        yield from _device(index, devices[index], places)


def _device(index: int, device: Device, places: Places) -> Iterator[str]:
    reserved = allocated = requested = idle = largest = 0
    alive: dict[int, tuple[int, str]] = {}
    for segment in device.segments:
        reserved += _int(segment.get("total_size"))
        at = _int(segment.get("address"))
        for block in _dicts(segment.get("blocks")):
            size = _int(block.get("size"))
            if str(block.get("state", "")).startswith("active"):
                allocated += size
                requested += _int(block.get("requested_size")) or size
                alive[_int(block.get("address")) or at] = (size, places.owner(_frames(block)))
            else:
                idle += size
                largest = max(largest, size)
            at += size
    kinds = {str(segment.get("segment_type"))[:10] for segment in device.segments}
    yield _line(
        memory=index, reserved=reserved, allocated=allocated, requested=requested, idle=idle, largest_idle=largest,
        segments=len(device.segments), expandable=any(segment.get("is_expandable") is True for segment in device.segments),
        pools=sorted(kinds),
    )
    replay = _Replay(device.trace, alive, places)
    peak = replay.run()
    owners = replay.owners if device.trace else _sums(alive)
    end = replay.now if device.trace else allocated
    yield _line(peak=index, bytes=peak or allocated, entry=replay.peak_at, entries=len(device.trace), start=replay.base, end=end)
    for owner, (size, count) in sorted(owners.items(), key=lambda row: -row[1][0])[:OWNERS]:
        yield _line(owner=owner, gpu=index, bytes=size, blocks=count, percent=_share(size, peak or allocated))
    yield from replay.failures(index, reserved, allocated, largest)
    if growth := replay.growth():
        yield _line(growth=index, lowest=growth, percent=_share(growth[-1] - growth[0], peak))
        for owner, (size, count) in sorted(replay.kept().items(), key=lambda row: -row[1][0])[:OWNERS]:
            yield _line(kept=owner, gpu=index, bytes=size, blocks=count)


def _frames(block: dict[str, Any]) -> Any:
    """The frames of a block; older snapshots keep them in its history."""
    if "frames" in block:
        return block["frames"]
    return next((item.get("frames") for item in _dicts(block.get("history"))), None)


def _sums(alive: dict[int, tuple[int, str]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for size, owner in alive.values():
        had = sums.get(owner, (0, 0))
        sums[owner] = (had[0] + size, had[1] + 1)
    return sums


class _Replay:
    """The trace of one device, from the start that its end implies."""

    def __init__(self, trace: list[dict[str, Any]], alive: dict[int, tuple[int, str]], places: Places) -> None:
        self.trace, self.places = trace, places
        self.ended = alive
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
            action, address = entry.get("action"), _int(entry.get("addr"))
            if action == "alloc":
                born.add(address)
            elif action in _GONE and address not in born and address not in before:
                before[address] = (_int(entry.get("size")), NO_FRAME)
                born.add(address)
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
        for entry in self.trace[: self.peak_at + 1] if self.peak > self.base else ():
            action, address = entry.get("action"), _int(entry.get("addr"))
            if action == "alloc":
                held[address] = (_int(entry.get("size")), self.places.owner(entry.get("frames")))
            elif action in _GONE:
                held.pop(address, None)
        self.owners = _sums(held)
        return self.peak

    @staticmethod
    def _step(live: dict[int, int], entry: dict[str, Any]) -> int:
        """The bytes that one entry adds."""
        action, address = entry.get("action"), _int(entry.get("addr"))
        if action == "alloc":
            size = _int(entry.get("size"))
            change = size - live.get(address, 0)
            live[address] = size
            return change
        return -live.pop(address, 0) if action in _GONE else 0

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
        start = 2 * len(self.trace) // WINDOWS
        for entry in self.trace[start:]:
            action, address = entry.get("action"), _int(entry.get("addr"))
            if action == "alloc":
                held[address] = (_int(entry.get("size")), self.places.owner(entry.get("frames")))
            elif action in _GONE:
                held.pop(address, None)
        return _sums(held)

    def failures(self, index: int, reserved: int, allocated: int, largest: int) -> Iterator[str]:
        """Requests that found no room; what the snapshot says of the state then is that of its end."""
        told = 0
        for at, entry in enumerate(self.trace):
            if entry.get("action") == "oom" and told < 3:
                told += 1
                last = at > len(self.trace) - 20
                yield _line(
                    oom=index, bytes=_int(entry.get("size")), device_free=_int(entry.get("device_free", entry.get("addr"))), entry=at,
                    reserved=reserved if last else None, allocated=allocated if last else None, largest_idle=largest if last else None,
                    where=self.places.owner(entry.get("frames")),
                )


def _share(part: float, whole: float) -> float:
    return round(100 * part / whole, 1) if whole > 0 else 0.0


def _line(**values: object) -> str:
    return json.dumps({key: value for key, value in values.items() if value is not None}, ensure_ascii=False)
