"""Pretend tensors: plain `torch.Tensor`s that say "cuda" to Python, and carry no data.

How, with no compiler and no address of a C++ table: the C++ tensor lies on device "meta:K" (the index tells pretend card K from
a user's own meta tensors, which have no index) and its dispatch keys are those of CUDA (`Tensor._make_subclass(...,
device_for_backend_keys=)`, the call that FakeTensor itself is built on). So autocast, autograd and `param.data = moved` treat it
as a CUDA tensor, the autograd engine needs no CUDA guard, and `torch.Tensor.device` is answered here.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch

C = torch._C
_base = C.TensorBase if hasattr(C, "TensorBase") else C._TensorBase
c_device = _base.device.__get__
c_is_cuda = _base.is_cuda.__get__
c_is_meta = _base.is_meta.__get__
c_is_cpu = _base.is_cpu.__get__
MAX_DEVICES = 64
CUDA = [torch.device("cuda", k) for k in range(MAX_DEVICES)]
META = [torch.device("meta", k) for k in range(MAX_DEVICES)]
PLAIN_META = torch.device("meta")
inside = [0]  # above 0 while a meta kernel runs: then `.device` tells the C++ truth, as FakeTensor does in its kernels


class Carrier(torch.Tensor):  # type: ignore[misc]
    """Only a step on the way to a plain tensor: wrapper subclasses may be made on any device and own a storage without data."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


_wrap = torch.Tensor._make_wrapper_subclass
_plain = torch.Tensor._make_subclass


def make(shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, index: int, offset: int = 0) -> torch.Tensor:
    """A pretend tensor with a new storage, just large enough. Call it with Python dispatch disabled or from inside the mode."""
    with C._DisableTorchDispatch():
        carrier = _wrap(Carrier, shape, stride, offset, dtype=dtype, device=META[index])
        return _plain(torch.Tensor, carrier, False, device_for_backend_keys=CUDA[index])


def like(meta: torch.Tensor, index: int) -> torch.Tensor:
    """The pretend tensor for the result of a meta kernel."""
    return make(tuple(meta.shape), meta.stride(), meta.dtype, index, 0)


def index_of(tensor: Any) -> Optional[int]:
    """Which pretend card a tensor lies on, None for all others."""
    if c_is_meta(tensor):
        index = c_device(tensor).index
        return None if index is None else int(index)
    return None


def is_pretend(tensor: Any) -> bool:
    """Whether a tensor lies on a pretend card."""
    return bool(c_is_meta(tensor)) and c_device(tensor).index is not None


def card_of(device: Any, current: int) -> Optional[int]:
    """The pretend card that a device argument names ("cuda", 1, torch.device("cuda:0"), our own meta:K); None for others."""
    if device is None:
        return None
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if not isinstance(device, torch.device):
        device = torch.device(device)
    if device.type == "cuda":
        return current if device.index is None else int(device.index)
    if device.type == "meta" and device.index is not None:
        return int(device.index)
    return None


class Kernel:
    """`with Kernel():` calls reach the meta kernels although the tensors' keys are CUDA's. Nested use is fine."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: Tuple[Any, ...] = ()

    def __enter__(self) -> None:
        off, keep = C._DisableTorchDispatch(), C._PreserveDispatchKeyGuard()
        off.__enter__()
        keep.__enter__()
        self._guards = (keep, off)
        C._set_meta_in_tls_dispatch_include(True)
        inside[0] += 1

    def __exit__(self, *error: object) -> None:
        inside[0] -= 1
        for guard in self._guards:
            guard.__exit__(*error)
