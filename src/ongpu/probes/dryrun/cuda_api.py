"""torch.cuda, torch.accelerator and torch.backends as the named card would answer them."""

from __future__ import annotations

import types
from typing import Any, Callable, Dict, List, Optional

import torch

from . import pretend
from .mode import Mode
from .patch import put
from .pretend import CUDA, C

MIB = 1 << 20


def install(mode: Mode) -> None:
    """Answer for the card. Only names that this torch has are replaced, and a few that a CPU wheel lacks are added."""
    world = mode.world
    _devices(mode)
    _memory(mode)
    _streams(mode)
    _random(mode)
    torch.version.cuda = str(world.card["cuda"])
    if hasattr(C, "_set_only_lift_cpu_tensors"):
        C._set_only_lift_cpu_tensors(True)  # torch.tensor(3., device="cuda") is then made on the CPU and moved, where it is seen


def _index(world: Any, device: Any) -> int:
    found = pretend.card_of(device if device is not None else "cuda", world.current)
    return world.current if found is None else found


def _devices(mode: Mode) -> None:
    world, cuda = mode.world, torch.cuda
    card = world.card
    major, minor = (int(n) for n in card["capability"])
    properties = types.SimpleNamespace(
        name=card["name"], major=major, minor=minor, total_memory=int(card["total"]), multi_processor_count=int(card["sms"]), warp_size=32,
        max_threads_per_multi_processor=2048 if major >= 8 and minor == 0 else 1536, max_threads_per_block=1024,
        regs_per_multiprocessor=65536, shared_memory_per_block=49152, shared_memory_per_block_optin=101376 if minor else 166912,
        shared_memory_per_multiprocessor=102400 if minor else 167936, L2_cache_size=40 * MIB, is_integrated=False, is_multi_gpu_board=False,
        uuid="GPU-00000000-0000-0000-0000-000000000000", gcnArchName="", pci_bus_id=0, pci_device_id=0, pci_domain_id=0, clock_rate=1410000,
        memory_clock_rate=1215000, memory_bus_width=5120,
    )  # fmt: skip

    def known(device: Any) -> bool:
        if not 0 <= _index(world, device) < world.visible():
            raise AssertionError("Invalid device id")
        return True

    def set_device(device: Any) -> None:
        index = _index(world, device)
        if index < 0:
            return
        if index >= world.visible():
            from .words import ORDINAL

            raise torch.AcceleratorError(ORDINAL) if hasattr(torch, "AcceleratorError") else RuntimeError(ORDINAL)
        world.current = index
        world.calls.setdefault("set_device", []).append(index)

    class OnDevice:
        """torch.cuda.device(k)."""

        def __init__(self, device: Any) -> None:
            self.idx = _index(world, device) if device is not None else -1
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx = world.current
            if self.idx >= 0:
                world.current = self.idx

        def __exit__(self, *error: object) -> None:
            world.current = self.prev_idx

    class DeviceOf(OnDevice):
        """torch.cuda.device_of(tensor)."""

        def __init__(self, tensor: Any) -> None:
            super().__init__(tensor.get_device() if tensor.is_cuda else None)

    def bf16(including_emulation: bool = True) -> bool:
        return major >= 8 or including_emulation

    def settle(device: Any = None) -> None:
        world.called("synchronize")
        world.sync("synchronize")

    answers: Dict[str, Any] = {
        "is_available": lambda: world.visible() > 0, "device_count": lambda: world.visible(), "current_device": lambda: world.current,
        "set_device": set_device, "device": OnDevice, "device_of": DeviceOf, "_DeviceGuard": OnDevice,
        "get_device_name": lambda device=None: known(device) and card["name"],
        "get_device_capability": lambda device=None: known(device) and (major, minor),
        "get_device_properties": lambda device=None: known(device) and properties, "_get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: ["sm_%d%d" % (major, minor)], "is_bf16_supported": bf16, "is_tf32_supported": lambda: major >= 8,
        "_lazy_init": lambda: None, "_lazy_call": lambda call, **kwargs: call(), "init": lambda: None, "is_initialized": lambda: True,
        "synchronize": settle, "ipc_collect": lambda: None, "can_device_access_peer": lambda a, b: True,
        "utilization": lambda device=None: 0,
        "temperature": lambda device=None: 40, "power_draw": lambda device=None: 100000,
        "_nvml_based_avail": lambda: False, "_device_count_nvml": lambda: world.visible(), "set_sync_debug_mode": lambda mode: None,
        "get_sync_debug_mode": lambda: 0, "_exchange_device": lambda index: _exchange(world, index),
        "_maybe_exchange_device": lambda index: _exchange(world, index), "is_current_stream_capturing": lambda: False,
    }  # fmt: skip
    for name, answer in answers.items():
        put(torch.cuda, name, answer)
    cuda._initialized = True
    for name, answer in (("_cuda_getDevice", lambda: world.current), ("_cuda_setDevice", set_device), ("_cuda_synchronize", settle),
                         ("_cuda_getDeviceCount", lambda: world.visible()), ("_cuda_isInBadFork", lambda: False),
                         ("_cuda_isCurrentStreamCapturing", lambda: False), ("_cuda_getCurrentRawStream", lambda device: 0),
                         ("_nccl_version", lambda: (2 << 32) + (27 << 16) + 3), ("_nccl_version_suffix", lambda: b"")):  # fmt: skip
        put(C, name, answer)
    for name in ("FloatTensor", "HalfTensor", "BFloat16Tensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor"):
        put(cuda, name, _legacy(name))
    _between()
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        current: Dict[str, Any] = {
            "is_available": lambda: world.visible() > 0, "device_count": lambda: world.visible(), "synchronize": settle,
            "current_accelerator": lambda check_available=False: torch.device("cuda"), "set_device_index": set_device,
            "set_device_idx": set_device, "current_device_index": lambda: world.current, "current_device_idx": lambda: world.current,
        }  # fmt: skip
        for name, answer in current.items():
            if hasattr(accelerator, name):
                put(accelerator, name, answer)
    group = C._group_tensors_by_device_and_dtype
    C._group_tensors_by_device_and_dtype = lambda *args: {
        (_shown(device), dtype): value for (device, dtype), value in group(*args).items()
    }


def _between() -> None:
    """Copies between cards, which DataParallel asks of C++ functions that a CPU wheel lacks."""

    def scatter(tensor: Any, devices: Any, sizes: Any = None, dim: int = 0, streams: Any = None) -> Any:
        parts = tensor.split(list(sizes), dim) if sizes else tensor.chunk(len(devices), dim)
        return tuple(part.to(CUDA[device]) for part, device in zip(parts, devices))

    def gather(tensors: Any, dim: int, destination: Any = None) -> Any:
        goal = CUDA[destination] if isinstance(destination, int) and destination >= 0 else torch.device("cpu")
        return torch.cat([t.to(goal) for t in tensors], dim)

    def broadcast(tensor: Any, devices: Any) -> Any:
        return [tensor.to(CUDA[device]) for device in devices]

    def coalesced(tensors: Any, devices: Any, size: int = 0) -> Any:
        return [[t.to(CUDA[device]) for t in tensors] for device in devices]

    for name, answer in (("_scatter", scatter), ("_gather", gather), ("_broadcast", broadcast), ("_broadcast_coalesced", coalesced)):
        put(C, name, answer)


def _legacy(name: str) -> Any:
    kind = getattr(torch, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        return kind(*args, **kwargs).cuda()

    return make


def _shown(device: Any) -> Any:
    """A device that C++ tells, as Python must see it."""
    if device is not None and device.type == "meta" and device.index is not None:
        return CUDA[device.index]
    return device


def _exchange(world: Any, index: int) -> int:
    old = world.current
    if index is not None and index >= 0:
        world.current = index
    return int(old)


def _memory(mode: Mode) -> None:
    world, cuda = mode.world, torch.cuda

    def of(device: Any) -> Any:
        return world.cards[_index(world, device)].memory

    def empty() -> None:
        place = world.where.here()
        world.called("empty_cache")
        world.row("empty_cache", place, place=place)
        for ledger in world.cards:
            ledger.memory.empty_cache()

    def statistics(device: Any = None) -> Dict[str, Any]:
        m = of(device)
        found: Dict[str, Any] = {}
        for pool in ("all", "small_pool", "large_pool"):
            for name, now, peak in (("allocated_bytes", m.allocated, m.peak_allocated), ("reserved_bytes", m.reserved, m.peak_reserved),
                                    ("active_bytes", m.allocated, m.peak_allocated), ("requested_bytes", m.requested, m.peak_requested),
                                    ("allocation", m.mallocs, m.mallocs), ("segment", m.segments_made, m.segments_made),
                                    ("active", 0, 0), ("inactive_split", 0, 0), ("inactive_split_bytes", 0, 0)):  # fmt: skip
                for part, value in (("current", now), ("peak", peak), ("allocated", now), ("freed", 0)):
                    found["%s.%s.%s" % (name, pool, part)] = value
        found.update({"num_alloc_retries": m.retries, "num_ooms": m.ooms, "max_split_size": -1, "num_sync_all_streams": 0,
                      "num_device_alloc": m.segments_made, "num_device_free": 0})  # fmt: skip
        return found

    def info(device: Any = None) -> Any:
        m = of(device)
        return max(0, min(m.capacity, world.capacity) - m.reserved), int(world.card["total"])

    answers: Dict[str, Callable[..., Any]] = {
        "memory_allocated": lambda device=None: of(device).allocated, "max_memory_allocated": lambda device=None: of(device).peak_allocated,
        "memory_reserved": lambda device=None: of(device).reserved, "max_memory_reserved": lambda device=None: of(device).peak_reserved,
        "memory_cached": lambda device=None: of(device).reserved, "max_memory_cached": lambda device=None: of(device).peak_reserved,
        "reset_peak_memory_stats": lambda device=None: of(device).reset_peaks(),
        "reset_max_memory_allocated": lambda device=None: of(device).reset_peaks(),
        "reset_max_memory_cached": lambda device=None: of(device).reset_peaks(), "reset_accumulated_memory_stats": lambda device=None: None,
        "empty_cache": empty, "mem_get_info": info, "memory_stats": statistics, "memory_stats_as_nested_dict": statistics,
        "memory_summary": lambda device=None, abbreviated=False: "(a dry run: %d bytes allocated)" % of(device).allocated,
        "memory_snapshot": lambda *args, **kwargs: [],
        "set_per_process_memory_fraction": lambda fraction, device=None: _fraction(world, of(device), fraction),
        "list_gpu_processes": lambda device=None: "no processes", "_record_memory_history": lambda *args, **kwargs: None,
        "_dump_snapshot": lambda *args, **kwargs: None, "_snapshot": lambda *args, **kwargs: {"segments": [], "device_traces": []},
        "memory_usage": lambda device=None: 0,
    }  # fmt: skip
    for name, answer in answers.items():
        put(cuda, name, answer)
        put(cuda.memory, name, answer)
    accelerator = getattr(torch, "accelerator", None)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "empty_cache", "memory_stats",
                 "reset_peak_memory_stats", "reset_accumulated_memory_stats"):  # fmt: skip
        if accelerator is not None and hasattr(accelerator, name):
            put(accelerator, name, answers[name])


def _fraction(world: Any, memory: Any, fraction: float) -> None:
    memory.capacity = min(memory.capacity, int(float(fraction) * int(world.card["total"])))


def _streams(mode: Mode) -> None:
    world = mode.world

    class Stream:
        """All work is in order here: a stream does nothing."""

        def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
            self.device = CUDA[_index(world, device)]
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


def optional(call: Callable[[], Any]) -> Optional[Any]:
    """What a call gives, None where this torch has no such thing."""
    try:
        return call()
    except (AttributeError, ImportError):
        return None
