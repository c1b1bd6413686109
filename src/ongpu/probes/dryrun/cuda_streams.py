"""Streams, events, graphs, profiler ranges and random states of the pretend card."""

from __future__ import annotations

import importlib
import types
from abc import ABCMeta
from typing import Any, Dict, List

import torch

from . import pretend
from .current import index_of
from .mode import Mode
from .patch import put
from .pretend import CUDA


def install(mode: Mode) -> None:
    """Streams and events of a card that does everything in order; generators and their states."""
    _random(mode)
    world = mode.world

    class Stream:
        """All work is in order here: a stream does nothing."""

        def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
            self.device = CUDA[index_of(world, device)]
            self.priority, self.stream_id, self.cuda_stream, self.device_index, self.device_type = priority, 0, 0, self.device.index, 1

        def synchronize(self) -> None:
            """The host waits."""
            world.sync("synchronize")

        def wait_stream(self, stream: Any) -> None:
            """Nothing to wait for."""

        def wait_event(self, event: Any) -> None:
            """Nothing to wait for."""

        def record_event(self, event: Any = None) -> Any:
            """An event at this point."""
            return event if event is not None else Event()

        def query(self) -> bool:
            """All is done."""
            return True

        def is_capturing(self) -> bool:
            """Graphs are not captured."""
            return False

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: object) -> None:
            return None

    class Event:
        """Time between two events is not simulated: 1 ms."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            return None

        def record(self, stream: Any = None) -> None:
            """Nothing to record."""

        def wait(self, stream: Any = None) -> None:
            """Nothing to wait for."""

        def query(self) -> bool:
            """All is done."""
            return True

        def synchronize(self) -> None:
            """The host waits."""
            world.sync("synchronize")

        def elapsed_time(self, other: Any) -> float:
            """Not measured."""
            world.note("time-not-simulated", "times between CUDA events are not simulated: 1 ms is told", world.where.here())
            return 1.0

    class OnStream:
        """torch.cuda.stream(s)."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __enter__(self) -> Any:
            return self.stream

        def __exit__(self, *error: object) -> None:
            return None

    cuda = torch.cuda
    cuda.Stream = cuda.ExternalStream = cuda.streams.Stream = Stream
    cuda.Event = cuda.streams.Event = Event
    cuda.stream, cuda.StreamContext = OnStream, OnStream
    cuda.current_stream = cuda.default_stream = lambda device=None: Stream(device)
    cuda.set_stream = lambda stream: None
    cuda.current_blas_handle = lambda: 0
    for name, gives in (("range_push", 0), ("range_pop", 0), ("range_start", 0), ("range_end", None), ("mark", None)):
        put(cuda.nvtx, name, lambda *args, _gives=gives, **kwargs: _gives)
    put(cuda.profiler, "start", lambda: None)
    put(cuda.profiler, "stop", lambda: None)
    zero = types.SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0, cudaMemGetInfo=cuda.mem_get_info)
    put(cuda, "cudart", lambda: zero)
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and hasattr(accelerator, "current_stream"):
        accelerator.current_stream = lambda device=None: Stream(device)
    torch.Stream = Stream if hasattr(torch, "Stream") else None
    _inherit(_StreamBase=Stream, _EventBase=Event)

    class CUDAGraph:
        """Captured graphs are not simulated."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise mode.unfollowed("CUDA graphs", "captured graphs are not simulated")

    class graph(CUDAGraph):
        """torch.cuda.graph."""

    def make_graphed(*args: Any, **kwargs: Any) -> Any:
        raise mode.unfollowed("CUDA graphs", "captured graphs are not simulated")

    cuda.CUDAGraph, cuda.graph = CUDAGraph, graph
    put(cuda, "make_graphed_callables", make_graphed)


def _inherit(**ours: Any) -> None:
    """Where torch (before 2.6) asks whether a stream or an event inherits from an abstract class, ours are said to."""
    try:
        bases = importlib.import_module("torch._streambase")
    except ImportError:
        return
    for name, kind in ours.items():
        base = getattr(bases, name, None)
        if isinstance(base, ABCMeta):
            base.register(kind)


def _random(mode: Mode) -> None:
    cuda = torch.cuda
    state: List[Any] = [torch.zeros(16, dtype=torch.uint8)]

    def get(device: Any = "cuda") -> Any:
        return state[0].clone()

    def keep(new: Any, device: Any = "cuda") -> None:
        state[0] = new.clone() if isinstance(new, torch.Tensor) else new

    answers: Dict[str, Any] = {
        "manual_seed": lambda seed: None, "manual_seed_all": lambda seed: None, "seed": lambda: None, "seed_all": lambda: None,
        "initial_seed": lambda: 0, "get_rng_state": get, "set_rng_state": keep,
        "get_rng_state_all": lambda: [get() for _ in mode.world.cards],
        "set_rng_state_all": lambda states: None,
    }  # fmt: skip
    for name, answer in answers.items():
        put(cuda, name, answer)
        put(cuda.random, name, answer)
    maker = torch.Generator

    class Generator(maker):  # type: ignore[misc,valid-type]
        """A generator for the card is one of the CPU with another name: nothing random is computed there."""

        def __new__(cls, device: Any = None) -> Any:
            made = maker.__new__(cls, "cpu" if pretend.card_of(device, 0) is not None else device or "cpu")
            made._shown = torch.device(device) if device is not None else torch.device("cpu")
            return made

        def __init__(self, device: Any = None) -> None:
            return None

        @property
        def device(self) -> Any:
            """Where it says it is."""
            return self._shown

    torch.Generator = Generator
    default = Generator("cuda")
    cuda.default_generators = tuple(default for _ in mode.world.cards)
