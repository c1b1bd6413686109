"""Chrome's trace format, as PyTorch (Kineto), JAX and TensorFlow write it, event by event into a timeline."""

import sys
from collections.abc import Callable
from typing import Any

from ongpu.hosts.traces.json_stream import Elements
from ongpu.hosts.traces.timeline import COMPUTE, COPY, SET, Timeline
from ongpu.lazy import lazy

MAX_OPEN = 100_000  # begun events that wait for their end
MAX_THREADS = 4096
_KEPT = ("device", "correlation", "correlation_id", "step_num")
_KINDS = {
    "kernel": COMPUTE, "gpu_memcpy": COPY, "memcpy": COPY, "gpu_memset": SET, "memset": SET,
    "cuda_runtime": "call", "runtime": "call", "cuda_driver": "call", "driver": "call", "hip_runtime": "call",
    "cpu_op": "operator", "operator": "operator", "user_annotation": "note", "python_function": "frame", "python function": "frame",
    "concurrent_kernel": COMPUTE, "ac2g": "", "fwdbwd": "", "gpu_user_annotation": "", "cuda_sync": "", "overhead": "", "trace": "",
    "cpu_instant_event": "", "python": "frame",
}  # fmt: skip
STEP = lazy(r"^(ProfilerStep|(?:train(?:ing)?[ _]?)?(?:step|iter(?:ation)?|batch))[ _#:*]{0,3}(\d{1,9})\b", 2)
_CALL = lazy(r"^(?:cu|cuda|hip|nccl)[A-Z]")
_STREAM = lazy(r"^(?:Stream|stream) ?#?\d")
_DEVICE = lazy(r"^/device:(?:GPU|TPU|CUDA|ROCM)[^\d]{0,8}(\d{1,4})", 2)
_WAITERS = lazy(
    r"^aten::(?:item|_local_scalar_dense|nonzero|is_nonzero|equal|masked_select|unique\w{0,12}|to|copy_|_to_copy|cpu|argwhere|bincount"
    r"|repeat_interleave|index)$"
)
_THEIRS = lazy(
    r"^(?:torch|torchvision|transformers|accelerate|lightning|pytorch_lightning|ignite|deepspeed|numpy|jax|tensorflow|triton)[/\\]"
    r"|site-packages|dist-packages|[/\\]lib[/\\]python\d|^<"
)
_FRAME = lazy(r"^(.{1,200}\.py)\((\d{1,7})\): (.{1,100})")


def is_users(name: str) -> bool:
    """Whether a recorded Python frame is code of the user's, not of the framework or of Python itself."""
    match = _FRAME.match(name)
    if match is None or _THEIRS.search(name):
        return False
    top = match[1].replace("\\", "/").lstrip("/").partition("/")[0].removesuffix(".py")
    return top not in sys.stdlib_module_names


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float(str(value)) if value is not None else float("nan")


def _whole(value: Any) -> int:
    """A device, stream or correlation id; 0 where there is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if -(1 << 62) < number < 1 << 62 else 0


def _thread(value: Any) -> object:
    """A process or thread as a key that stays small."""
    return value if type(value) is int else str(value)[:64]


def _slim(event: dict[str, Any]) -> dict[str, Any]:
    """What is needed of an event whose end has yet to come."""
    args = event.get("args")
    kept = {key: _whole(args[key]) for key in _KEPT if key in args} if isinstance(args, dict) else {}
    texts = {key: event[key][:300] for key in ("name", "cat") if isinstance(event.get(key), str)}
    return {**texts, "ts": _number(event.get("ts")), "pid": _thread(event.get("pid")), "tid": _thread(event.get("tid")), "args": kept}


class Events:
    """Hands each event to the timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.tool = "chrome"
        self._devices: dict[object, int] = {}  # processes that are a GPU (JAX, TensorFlow)
        self._streams: set[tuple[object, object]] = set()
        self._open: dict[tuple[object, object], list[dict[str, Any]]] = {}
        self._pending = 0

    def feed(self, event: Any) -> None:
        """One element of the trace's list of events."""
        if not isinstance(event, dict):
            return
        phase = event.get("ph")
        self.timeline.events += 1
        try:
            if phase == "X":
                self._complete(event)
            elif phase == "M":
                self._meta(event)
            elif phase in ("B", "E"):
                self._half(event, phase)
        except (TypeError, ValueError, OverflowError, RecursionError):  # a field of the wrong type: this event tells nothing
            self.timeline.odd += 1

    def _half(self, event: dict[str, Any], phase: str) -> None:
        thread = (_thread(event.get("pid")), _thread(event.get("tid")))
        stack = self._open.setdefault(thread, []) if len(self._open) < MAX_THREADS else self._open.get(thread, [])
        if phase == "B" and self._pending < MAX_OPEN:
            self._pending += 1
            stack.append(_slim(event))
        elif phase == "E" and stack:
            self._pending -= 1
            begun = stack.pop()
            self._complete({**begun, "dur": _number(event.get("ts")) - _number(begun.get("ts"))})

    def _meta(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        name = str(args.get("name", "")) if isinstance(args, dict) else ""
        process = _thread(event.get("pid"))
        if event.get("name") == "process_name" and (match := _DEVICE.match(name)) and len(self._devices) < 256:
            self._devices[process] = int(match[1])
        elif event.get("name") == "thread_name" and _STREAM.match(name) and len(self._streams) < MAX_THREADS:
            self._streams.add((process, _thread(event.get("tid"))))

    def _complete(self, event: dict[str, Any]) -> None:
        category = event.get("cat")
        name = event.get("name")
        start, duration = event.get("ts"), event.get("dur", 0)
        if type(start) is not float or type(duration) is not float:
            start, duration = _number(start), _number(duration)
        if not isinstance(name, str):
            name = str(name)
        if category is None:
            self._bare(event, name, start, duration)
            return
        kind = _KINDS.get(category) if category in _KINDS else _KINDS.get(str(category).lower())
        timeline = self.timeline
        thread = event.get("tid")
        if type(thread) is not int:
            thread = _thread(thread)
        if kind == "operator" or kind == "note":
            self.tool = "kineto"
            if kind == "note":
                if step := STEP.match(name):
                    timeline.step(step[1], start, duration)
                else:
                    timeline.noted(name, thread, start, duration)
                return
            timeline.operator(name, thread, start, duration)
            if name.startswith("aten::") and _WAITERS.match(name):
                timeline.place(timeline.operators, thread, name, start, duration)
        elif kind == "frame":
            if "dataloader.py" in name:
                timeline.operator(name, thread, start, duration)
            elif name[:1] != "<" and is_users(name):
                timeline.place(timeline.frames, thread, name, start, duration)
        elif kind == "call":
            args = event.get("args")
            timeline.called(name, thread, start, duration, _whole(args.get("correlation")) if isinstance(args, dict) else 0)
        elif isinstance(kind, int):
            args = event.get("args")
            args = args if isinstance(args, dict) else {}
            device = args.get("device", event.get("pid"))
            timeline.activity(_whole(device), kind, name, start, duration, _whole(args.get("correlation")))

    def _bare(self, event: dict[str, Any], name: str, start: float, duration: float) -> None:
        """An event without category: JAX, TensorFlow."""
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        process, thread = _thread(event.get("pid")), _thread(event.get("tid"))
        device = self._devices.get(process)
        correlation = _whole(args.get("correlation_id", args.get("correlation")))
        if device is not None:
            if (process, thread) in self._streams:
                self.tool = "jax" if "hlo_module" in args or "hlo_op" in args else self.tool if self.tool == "jax" else "tensorflow"
                low = name.lower()
                kind = COPY if low.startswith("memcpy") else SET if low.startswith("memset") else COMPUTE
                self.timeline.activity(device, kind, name, start, duration, correlation)
        elif "step_num" in args:
            self.timeline.step(name[:100], start, duration)
        elif _CALL.match(name):
            self.timeline.called(name, (process, thread), start, duration, correlation)
        elif not name.startswith("$"):  # a Python frame of JAX's tracer; the outermost would cover all
            self.timeline.operator(name, (process, thread), start, duration)


def _card(value: dict[str, Any]) -> dict[str, object]:
    card: dict[str, object] = {"name": str(value.get("name"))[:80]}
    return card | {key: _whole(value[key]) for key in ("id", "totalGlobalMem", "computeMajor", "computeMinor") if key in value}


def read(read_block: Callable[[int], bytes]) -> tuple[Timeline, Events, Elements]:
    """The timeline of a trace."""
    elements = Elements(read_block)
    timeline = Timeline()
    events = Events(timeline)
    for key, value in elements:
        if key in ("traceEvents", ""):
            events.feed(value)
        elif key == "deviceProperties" and isinstance(value, dict) and len(timeline.cards) < 64:
            timeline.cards.append(_card(value))
        elif key == "distributedInfo" and isinstance(value, dict) and isinstance(value.get("rank"), int):
            timeline.ranks[:] = [f"{_whole(value['rank'])}/{_whole(value.get('world_size')) or '?'}"]
    return timeline, events, elements
