"""Operators whose result's shape hangs on values: exact where the values are known, else the largest shape possible, as said."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from . import pretend, shadows, words
from .mode import Mode
from .operation import Operation
from .pretend import PLAIN_META

aten = torch.ops.aten


def register(mode: Mode) -> None:
    """Take these operators over."""
    table = {
        aten.nonzero.default: nonzero,
        aten.masked_select.default: masked_select,
        aten.index.Tensor: index,
        aten.index_put_.default: index_put,
        aten.index_put.default: index_put,
        aten._index_put_impl_.default: index_put,
        aten._unique2.default: unique,
        aten.unique_dim.default: unique,
        aten.unique_consecutive.default: unique,
        aten.repeat_interleave.Tensor: repeat_interleave,
        aten.bincount.default: bincount,
        aten._pack_padded_sequence.default: pack,
        aten._pack_padded_sequence_backward.default: pack_backward,
        aten._pad_packed_sequence.default: pad,
    }
    mode.special.update(table)
    for name in ("_unsafe_index",):
        packet = getattr(aten, name, None)
        if packet is not None:
            mode.special[packet.Tensor] = index
    for name in ("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"):
        packet = getattr(aten, name, None)
        if packet is not None:
            mode.special[packet.default] = keep_first
    for name in ("_use_cudnn_ctc_loss", "_use_cudnn_rnn_flatten_weight"):
        packet = getattr(aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            mode.special[getattr(packet, overload)] = lambda *_: False
    for name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"):
        packet = getattr(aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            mode.special[getattr(packet, overload)] = fused


def fresh(mode: Mode, operation: Operation, shape: List[int], dtype: torch.dtype, card: int) -> Tensor:
    """A new tensor on the card, with its memory."""
    made = pretend.like(torch.empty(shape, dtype=dtype, device=PLAIN_META), card)
    mode.adopt(made, operation, card)
    return made


def put(mode: Mode, operation: Operation, value: Tensor, card: int) -> Tensor:
    """A new tensor on the card whose values are known."""
    made = fresh(mode, operation, list(value.shape), value.dtype, card)
    record = mode.record_of(made)
    if record is not None:
        if shadows.may_keep(value.dtype, value.numel()):
            shadows.give(record, made, value)
        else:
            record.low, record.high = shadows.span(value)
    return made


def nonzero(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Waits for the count, then allocates."""
    mode.world.sync("nonzero")
    return _nonzero(mode, operation, args[0], card)


def _nonzero(mode: Mode, operation: Operation, source: Tensor, card: int) -> Tensor:
    twin = mode.twin_of(source)
    if twin is not None:
        return put(mode, operation, torch.nonzero(twin), card)
    record = mode.record_of(source)
    rows = 0 if record is not None and record.guess is False else source.numel()
    mode.world.assume("shape", rows)
    made = fresh(mode, operation, [rows, source.dim()], torch.int64, card)
    record = mode.record_of(made)
    if record is not None and len(set(source.shape)) == 1:  # else each column has a range of its own
        record.low, record.high = 0, max(0, max(source.shape) - 1)
    return made


def masked_select(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Waits for the count, then allocates."""
    source, mask = args[0], args[1]
    if pretend.index_of(source) != pretend.index_of(mask):
        raise words.mixed(operation, args, kwargs, card)
    mode.world.sync("mask")
    shape = torch.broadcast_shapes(tuple(source.shape), tuple(mask.shape))
    return fresh(mode, operation, [_true(mode, mask, shape)], source.dtype, card)


def _true(mode: Mode, mask: Tensor, shape: Any) -> int:
    twin = mode.twin_of(mask)
    if twin is not None:
        return int(twin.expand(shape).sum())
    record = mode.record_of(mask)
    count = 0 if record is not None and record.guess is False else int(torch.Size(shape).numel())
    mode.world.assume("shape", count)
    return count


def _indices(mode: Mode, operation: Operation, args: Any, card: int, wait: bool = True) -> Optional[List[Any]]:
    """Index lists with masks turned into positions; None if there were none. CPU indices are copied to the card, as CUDA does."""
    source, indices = args[0], list(args[1])
    changed = False
    made: List[Any] = []
    for at in indices:
        if isinstance(at, Tensor) and not pretend.is_pretend(at):
            if pretend.index_of(source) is None:
                made.append(at)
                continue
            changed = True
            if at.dtype in (torch.bool, torch.uint8):
                made.extend(put(mode, operation, part, card) for part in at.nonzero().unbind(1))
            else:
                made.append(put(mode, operation, at, card))
            continue
        if isinstance(at, Tensor) and pretend.index_of(source) is None:
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        if isinstance(at, Tensor) and at.dtype in (torch.bool, torch.uint8):
            changed = True
            if wait:
                mode.world.sync("mask")
            rows = _nonzero(mode, operation, at, card)
            made.extend(fresh_column(mode, operation, rows, k, card) for k in range(at.dim()))
            continue
        made.append(at)
    return made if changed else None


def fresh_column(mode: Mode, operation: Operation, rows: Tensor, column: int, card: int) -> Tensor:
    """One column of a nonzero() result (a view in CUDA too: no memory of its own)."""
    with pretend.Kernel():
        view = aten.select.int(rows, 1, column)
    return view


def index(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """x[indices]."""
    made = _indices(mode, operation, args, card)
    new = (args[0], made) if made is not None else args
    check_index(mode, operation, new)
    return mode.on_card(operation, new, kwargs, card)


def index_put(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """x[indices] = values. A mask with one value needs no wait (it becomes masked_fill)."""
    source, value = args[0], args[2]
    mask = any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])
    single = mask and value.numel() == 1
    if isinstance(value, Tensor) and value.dim() and pretend.index_of(value) != pretend.index_of(source):
        raise words.mixed(operation, (source, [], value), kwargs, card)
    record = mode.record_of(source)
    if record is not None:
        record.twin = record.low = record.high = record.guess = None
    if single:
        return source if operation.writes else mode.on_card_clone(operation, source, card)
    made = _indices(mode, operation, args, card)
    if made is None:
        check_index(mode, operation, args)
    if not operation.writes:
        return mode.on_card_clone(operation, source, card)
    return source


def check_index(mode: Mode, operation: Operation, args: Any) -> None:
    """Index values against the sizes that they select from; negative ones count from the end."""
    source, indices = args[0], args[1]
    if any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return
    for at, values in enumerate(indices):
        if isinstance(values, Tensor) and at < source.dim():
            note_range(mode, operation, values, -source.shape[at], source.shape[at] - 1)


def note_range(mode: Mode, operation: Operation, values: Tensor, low: int, high: int, ignored: Optional[int] = None) -> None:
    """A row for the answer where known values lie outside what the kernel asserts."""
    record = mode.record_of(values)
    if record is None:
        return
    least, most = record.low, record.high
    twin = mode.twin_of(values)
    if twin is not None:
        if ignored is not None:
            twin = twin[twin != ignored]
        least, most = shadows.span(twin)
    if least is None or most is None:
        return
    if most > high or (least < low and (twin is not None or least != ignored)):
        place = mode.world.where.here(3)
        row = mode.world.row(
            "indices", (place, operation.short), place=place, op=operation.short, low=least, high=most, allowed=[low, high]
        )
        row["low"], row["high"] = min(row["low"], least), max(row["high"], most)


def unique(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """unique() waits; unknown values may all differ."""
    mode.world.sync("unique")
    source = args[0]
    twin = mode.twin_of(source)
    if twin is not None:
        return tuple(put(mode, operation, part, card) for part in operation.func(twin, *args[1:], **kwargs))
    mode.world.assume("shape", source.numel())
    plain = torch.zeros(tuple(source.shape), dtype=source.dtype) if source.numel() < 1 << 20 else None
    parts = operation.func(plain, *args[1:], **kwargs) if plain is not None else None
    if operation.short == "unique_dim" and parts is not None:
        return tuple(fresh(mode, operation, list(source.shape) if k == 0 else list(p.shape), p.dtype, card) for k, p in enumerate(parts))
    wants = list(args[1:]) + list(kwargs.values())
    out = [fresh(mode, operation, [source.numel()], source.dtype, card)]
    out.append(fresh(mode, operation, list(source.shape) if any(wants[1:2]) else [0], torch.int64, card))
    out.append(fresh(mode, operation, [source.numel()] if any(wants[2:3]) else [0], torch.int64, card))
    return tuple(out)


def repeat_interleave(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Positions to repeat; without output_size the card must be asked."""
    size = kwargs.get("output_size")
    twin = mode.twin_of(args[0])
    if twin is not None:
        if size is None:
            mode.world.sync("nonzero")
        return put(mode, operation, torch.repeat_interleave(twin), card)
    if size is None:
        mode.world.sync("nonzero")
        size = args[0].numel()
        mode.world.assume("shape", size)
    return fresh(mode, operation, [int(size)], torch.int64, card)


def bincount(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Waits for the largest value."""
    mode.world.sync("nonzero")
    twin = mode.twin_of(args[0])
    least = int(args[2]) if len(args) > 2 else int(kwargs.get("minlength", 0))
    if twin is not None and (len(args) < 2 or args[1] is None):
        return put(mode, operation, torch.bincount(twin, minlength=least), card)
    record = mode.record_of(args[0])
    most = int(record.high) + 1 if record is not None and record.high is not None else 0
    weighted = len(args) > 1 and args[1] is not None
    if not most:
        mode.world.assume("shape", max(least, 1))
    return fresh(mode, operation, [max(least, most, 1)], args[1].dtype if weighted else torch.int64, card)


def keep_first(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """GradScaler's kernels: gradients are taken to be finite, so found_inf stays 0 and the scale as it is."""
    for tensor in args[0] if operation.short.startswith("_amp_foreach") else ():
        if not pretend.is_pretend(tensor):
            raise words.mixed(operation, args, kwargs, card)
    return None if operation.short.startswith("_amp_foreach") else args[0]


def fused(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """Fused optimizers change their lists in place and allocate nothing."""
    for group in args[:5]:
        if isinstance(group, (list, tuple)):
            for tensor in group:
                if isinstance(tensor, Tensor):
                    if pretend.index_of(tensor) != card and tensor.dim():
                        raise words.mixed(operation, args, kwargs, card)
                    record = mode.record_of(tensor)
                    if record is not None and tensor.dim():
                        record.twin = None
    return None


def pack(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """pack_padded_sequence: lengths are on the CPU, so the sizes are known."""
    source, lengths = args[0], args[1]
    if pretend.is_pretend(lengths):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:%d Long tensor" % card)
    sizes = [int((lengths > t).sum()) for t in range(int(lengths.max()))]
    data = fresh(mode, operation, [int(lengths.sum()), *source.shape[2:]], source.dtype, card)
    return data, torch.tensor(sizes, dtype=torch.int64)


def pack_backward(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """The gradient has the padded shape."""
    return fresh(mode, operation, list(args[1]), args[0].dtype, card)


def pad(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """pad_packed_sequence: the sizes are on the CPU."""
    data, sizes, batch_first, _, total = args
    long, rows = max(int(total), len(sizes)), int(sizes[0])
    shape = [rows, long] if batch_first else [long, rows]
    lengths = torch.tensor([int((sizes > k).sum()) for k in range(rows)], dtype=torch.int64)
    return fresh(mode, operation, [*shape, *data.shape[1:]], data.dtype, card), lengths


__all__ = ["check_index", "note_range", "register"]
