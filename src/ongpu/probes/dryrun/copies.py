"""What crosses between the host and the card, and makes the host wait: copies both ways, and single values read."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
from torch import Tensor

from . import pretend, shadows, words
from .mode import Mode
from .operation import Operation
from .pretend import PLAIN_META, Kernel, c_device, c_is_meta, card_of

aten = torch.ops.aten


def register(mode: Mode) -> None:
    """Take these operators over."""
    mode.special.update(
        {
            aten._to_copy.default: to_copy,
            aten.copy_.default: copy_in_place,
            aten._local_scalar_dense.default: scalar,
            aten.equal.default: equal,
            aten.is_pinned.default: lambda *_: False,
            aten._pin_memory.default: lambda mode, operation, args, kwargs, card: _not_pinnable(args[0]),
            aten.record_stream.default: lambda *_: None,
        }
    )


def _not_pinnable(tensor: Tensor) -> None:
    raise RuntimeError("cannot pin '%s' only dense CPU tensors can be pinned" % words.type_name(tensor))


def to_copy(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """x.to(device), x.cuda(), x.cpu(): by where from and where to."""
    source = args[0]
    device = kwargs.get("device")
    goal = card_of(device, mode.world.current)
    here = pretend.index_of(source)
    if here is None and c_is_meta(source):
        if goal is not None:
            raise NotImplementedError(words.NO_DATA)
        return NotImplemented
    if here is None:
        return _upload(mode, operation, source, kwargs, goal if goal is not None else card)
    if device is None or goal == here:
        kwargs.pop("device", None)
        return mode.on_card(operation, args, _less(kwargs), here)
    if goal is not None:  # card to card
        out = mode.on_card(operation, args, _less(kwargs), goal)
        _carry(mode, source, out)
        return out
    if torch.device(device).type == "meta":
        with Kernel():
            return operation.func(*args, **_less(kwargs))
    return download(mode, source, kwargs.get("dtype"), bool(kwargs.get("non_blocking")), "cpu")


def _less(kwargs: Dict[str, Any]) -> Dict[str, Any]:
    return {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory", "non_blocking")}


def _row(mode: Mode, direction: str, nbytes: int, kwargs: Dict[str, Any], pinned: bool) -> None:
    place = mode.world.where.here(3)
    row = mode.world.row("copies", (place, direction), place=place, direction=direction, bytes=0, non_blocking=0, pinned=0)
    row["bytes"] += nbytes
    row["non_blocking"] += bool(kwargs.get("non_blocking"))
    row["pinned"] += pinned


def is_marked_pinned(tensor: Tensor) -> bool:
    """Whether a real tensor was pinned (a mark: nothing is pinned here)."""
    return bool(getattr(tensor, "_ongpu_pinned", False))


def _upload(mode: Mode, operation: Operation, source: Tensor, kwargs: Dict[str, Any], card: int) -> Tensor:
    if source.layout is not torch.strided:
        raise mode.unfollowed("sparse tensors", "layout %s" % source.layout)
    shape = torch.empty_strided(tuple(source.shape), source.stride(), dtype=source.dtype, device=PLAIN_META)
    out = operation.func(shape, **dict(_less(kwargs), device=PLAIN_META))
    made = pretend.like(out, card)
    record = mode.adopt(made, operation, card)
    _row(mode, "to-gpu", source.numel() * source.element_size(), kwargs, is_marked_pinned(source))
    if record is not None:
        record.kind = record.kind or "input"
        learn(record, made, source)
    return made


def learn(record: Any, made: Tensor, source: Tensor) -> None:
    """Keep what a real tensor tells of the values of its copy on the card."""
    if shadows.may_keep(made.dtype, made.numel()):
        shadows.give(record, made, source)
    elif not source.dtype.is_floating_point:
        record.low, record.high = shadows.span(source)


def _carry(mode: Mode, source: Tensor, made: Tensor) -> None:
    old, new = mode.record_of(source), mode.record_of(made)
    if old is not None and new is not None:
        value = mode.twin_of(source)
        if value is not None:
            shadows.give(new, made, value)
        new.low, new.high, new.guess = old.low, old.high, old.guess


def download(mode: Mode, source: Tensor, dtype: Optional[torch.dtype], non_blocking: bool, kind: str) -> Tensor:
    """The values of a card's tensor as a real one: known ones, else a stated guess."""
    if not non_blocking:
        mode.world.sync(kind)
    _row(mode, "to-cpu", source.numel() * source.element_size(), {"non_blocking": non_blocking}, False)
    value = values(mode, source, kind)
    return value.to(dtype) if dtype is not None else value


def values(mode: Mode, source: Tensor, what: str) -> Tensor:
    """A real tensor with the shape and strides of `source`, its values known or assumed."""
    out = torch.empty_strided(tuple(source.shape), source.stride(), dtype=source.dtype)
    twin = mode.twin_of(source)
    if twin is not None:
        return out.copy_(twin)
    record = mode.record_of(source)
    fill = guess_of(record, source)
    if source.numel():
        mode.world.assume(what, fill)
    return out.fill_(fill)


def guess_of(record: Any, source: Tensor) -> Any:
    """The value to go on with where nobody knows: healthy (finite, no NaN), and inside the range that is known."""
    if record is not None and record.guess is not None:
        return bool(record.guess) if source.dtype is torch.bool else int(record.guess)
    if source.dtype is torch.bool:
        return False
    if record is not None and record.low is not None and not source.dtype.is_floating_point:
        return int(record.high) if source.numel() == 1 else int(record.low)
    if source.numel() == 1:
        return 1.0 if source.dtype.is_floating_point else 1
    return 0


def copy_in_place(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """dst.copy_(src) over the bus."""
    target, source = args[0], args[1]
    non_blocking = bool(args[2]) if len(args) > 2 else bool(kwargs.get("non_blocking"))
    there, here = pretend.index_of(target), pretend.index_of(source)
    if there is None and here is not None:
        if c_is_meta(target):
            return target
        if not non_blocking:
            mode.world.sync("cpu")
        _row(mode, "to-cpu", source.numel() * source.element_size(), {"non_blocking": non_blocking}, False)
        target.copy_(values(mode, source, "cpu"))
        return target
    if here is None and there is not None:
        if c_is_meta(source):
            raise NotImplementedError(words.NO_DATA)
        if source.dim() or source.numel() > 1:
            torch.broadcast_shapes(tuple(source.shape), tuple(target.shape))
        _row(mode, "to-gpu", source.numel() * source.element_size(), {"non_blocking": non_blocking}, is_marked_pinned(source))
        record = mode.record_of(target)
        if record is not None:
            twin = mode.twin_of(target)
            if twin is not None:
                twin.copy_(source)
            elif target.numel() * target.element_size() == record.nbytes:
                record.low = record.high = record.guess = None
                learn(record, target, source.expand(tuple(target.shape)))
            else:
                record.low = record.high = record.guess = None
        return target
    if there is not None and here is not None and there != here:
        torch.broadcast_shapes(tuple(source.shape), tuple(target.shape))
        return target
    return NotImplemented


def scalar(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """.item(), float(), int(), bool(): the host waits for the card."""
    source = args[0]
    kind = "bool" if source.dtype is torch.bool else "item"
    mode.world.sync(kind)
    twin = mode.twin_of(source)
    if twin is not None:
        return twin.item()
    value = guess_of(mode.record_of(source), source)
    mode.world.assume(kind, value)
    return complex(value) if source.dtype.is_complex else value


def equal(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
    """torch.equal waits; with unknown values it says no."""
    if pretend.index_of(args[0]) != pretend.index_of(args[1]):
        raise words.mixed(operation, args, kwargs, card)
    mode.world.sync("bool")
    first, second = mode.twin_of(args[0]), mode.twin_of(args[1])
    if first is not None and second is not None:
        return bool(torch.equal(first, second))
    if args[0].shape != args[1].shape or c_device(args[0]) != c_device(args[1]):
        return False
    same = args[0] is args[1]
    if not same:
        mode.world.assume("bool", same)
    return same
