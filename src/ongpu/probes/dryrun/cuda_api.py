"""torch.cuda, torch.accelerator and torch.backends as the named card would answer them."""

from __future__ import annotations

import types
from typing import Any, Dict

import torch

from . import cuda_memory, cuda_streams
from .current import index_of
from .mode import Mode
from .patch import put
from .pretend import CUDA, C

MIB = 1 << 20


def install(mode: Mode) -> None:
    """Answer for the card. Only names that this torch has are replaced, and a few that a CPU wheel lacks are added."""
    world = mode.world
    _devices(mode)
    cuda_memory.install(mode)
    cuda_streams.install(mode)
    torch.version.cuda = str(world.card["cuda"])
    if hasattr(C, "_set_only_lift_cpu_tensors"):
        C._set_only_lift_cpu_tensors(True)  # torch.tensor(3., device="cuda") is then made on the CPU and moved, where it is seen


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
        if not 0 <= index_of(world, device) < world.visible():
            raise AssertionError("Invalid device id")
        return True

    def set_device(device: Any) -> None:
        index = index_of(world, device)
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
            self.idx = index_of(world, device) if device is not None else -1
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
