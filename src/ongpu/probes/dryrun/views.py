"""Views that torch works out in Python on meta tensors (tens of microseconds each), done by one as_strided instead."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor

from .pretend import Kernel

aten = torch.ops.aten


def strided(source: Tensor, shape: Any, stride: Any, offset: int) -> Tensor:
    """A view of the same storage."""
    with Kernel():
        view: Tensor = aten.as_strided.default(source, shape, stride, offset)
        return view


def _t(source: Tensor) -> Tensor:
    if source.dim() > 2:
        raise RuntimeError("t() expects a tensor with <= 2 dimensions, but self is %dD" % source.dim())
    return strided(source, tuple(source.shape)[::-1], source.stride()[::-1], source.storage_offset())


def _select(source: Tensor, dim: int, index: int) -> Any:
    if not source.dim() or not -source.dim() <= dim < source.dim():
        return NotImplemented
    dim %= source.dim()
    size = source.shape[dim]
    if not -size <= index < size:
        return NotImplemented  # the slow way has the words for the error
    shape, stride = list(source.shape), list(source.stride())
    offset = source.storage_offset() + (index % size) * stride[dim]
    del shape[dim], stride[dim]
    return strided(source, shape, stride, offset)


def _pieces(source: Tensor, sizes: List[int], dim: int) -> List[Tensor]:
    shape, stride, start = list(source.shape), source.stride(), source.storage_offset()
    found: List[Tensor] = []
    for size in sizes:
        shape[dim] = size
        found.append(strided(source, tuple(shape), stride, start))
        start += size * stride[dim]
    return found


def _split(source: Tensor, size: int, dim: int = 0) -> Any:
    if not source.dim() or size <= 0 or not -source.dim() <= dim < source.dim():
        return NotImplemented
    dim %= source.dim()
    whole = source.shape[dim]
    return _pieces(source, [min(size, whole - at) for at in range(0, whole, size)] or [0], dim)


def _split_with_sizes(source: Tensor, sizes: List[int], dim: int = 0) -> Any:
    if not source.dim() or not -source.dim() <= dim < source.dim() or sum(sizes) != source.shape[dim % source.dim()]:
        return NotImplemented
    return _pieces(source, list(sizes), dim % source.dim())


def _unbind(source: Tensor, dim: int = 0) -> Any:
    if not source.dim() or not -source.dim() <= dim < source.dim():
        return NotImplemented
    return [_select(source, dim, at) for at in range(source.shape[dim])]


QUICK: Dict[Any, Callable[..., Any]] = {
    aten.t.default: _t,
    aten.select.int: _select,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.unbind.int: _unbind,
}


def quick(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """The view, or NotImplemented where torch must say it."""
    made = QUICK.get(func)
    return NotImplemented if made is None or kwargs else made(*args)
