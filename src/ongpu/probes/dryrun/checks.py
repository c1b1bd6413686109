"""What kernels assert on the card and meta kernels do not: index and label ranges, dtypes that must agree."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from . import pretend, words
from .dependent import note_range
from .mode import Mode
from .operation import Operation
from .views import strided

aten = torch.ops.aten


def register(mode: Mode) -> None:
    """Look before these operators run; they run as always afterwards."""
    table = {
        "nll_loss_forward": labels, "nll_loss2d_forward": labels, "embedding": words_of, "gather": along, "index_select": along,
        "scatter": along, "scatter_": along, "scatter_add": along, "scatter_add_": along, "convolution": convolution,
        "mm": factors, "addmm": factors, "mv": factors, "addmv": factors,
    }  # fmt: skip
    for name, check in table.items():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            func = getattr(packet, overload)
            if func not in mode.special and not any(a.alias_info is not None and a.kwarg_only for a in func._schema.arguments):
                mode.special[func] = check


def labels(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Class numbers of nll_loss and cross_entropy."""
    scores, target = args[0], args[1]
    ignored = args[4] if len(args) > 4 else -100
    if isinstance(target, Tensor) and pretend.is_pretend(target):
        if target.dtype not in (torch.int64, torch.uint8):
            name = words.type_name(target).rpartition(".")[2].replace("Tensor", "")
            raise RuntimeError("expected target dtype to be Long or Byte, but got %s" % name)
        classes = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
        note_range(mode, operation, target, 0, classes - 1, ignored)
    return NotImplemented


def words_of(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Rows of an embedding."""
    if isinstance(args[1], Tensor) and pretend.is_pretend(args[1]):
        note_range(mode, operation, args[1], 0, args[0].shape[0] - 1)
    return NotImplemented


def along(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Positions along one dimension."""
    if len(args) > 2 and isinstance(args[1], int) and isinstance(args[2], Tensor) and pretend.is_pretend(args[2]) and args[0].dim():
        note_range(mode, operation, args[2], 0, args[0].shape[args[1]] - 1)
    return NotImplemented


def factors(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Both factors of a product must have one dtype."""
    first, second = args[1:3] if operation.short.startswith("add") else args[:2]
    if pretend.is_pretend(first) and pretend.is_pretend(second) and first.dtype is not second.dtype:
        names = tuple(words.type_name(t).rpartition(".")[2].replace("Tensor", "") for t in (first, second))
        raise RuntimeError("mat1 and mat2 must have the same dtype, but got %s and %s" % names)
    return NotImplemented


def convolution(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Input, weight and bias must have one dtype."""
    source, weight, bias = args[0], args[1], args[2]
    if pretend.is_pretend(source) and pretend.is_pretend(weight):
        if source.dtype is not weight.dtype:
            names = (words.type_name(source), words.type_name(weight))
            raise RuntimeError("Input type (%s) and weight type (%s) should be the same" % names)
        if bias is not None and bias.dtype is not source.dtype:
            raise RuntimeError("Input type (%s) and bias type (%s) should be the same" % (words.type_name(source), words.type_name(bias)))
        if (bias is None or pretend.is_pretend(bias)) and (_channels_last(source) or _channels_last(weight)):
            # then cuDNN's result is too; the meta kernel does not know it
            out = mode.on_card(operation, args, kwargs, card)
            return strided(out, tuple(out.shape), channels_last_strides(tuple(out.shape)), 0)
    return NotImplemented


def _channels_last(tensor: Tensor) -> bool:
    kind = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return kind is not None and not tensor.is_contiguous() and bool(tensor.is_contiguous(memory_format=kind))


def channels_last_strides(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """Strides of a dense (batch, channels, ...) tensor whose channels lie next to each other."""
    strides, step = [0] * len(shape), 1
    for at in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[at] = step
        step *= max(1, shape[at])
    return tuple(strides)
