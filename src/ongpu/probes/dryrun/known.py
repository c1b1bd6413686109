"""After each operation: what became known of values, and what no longer is."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from . import pretend, shadows
from .ledger import Record
from .operation import Operation
from .pretend import c_is_meta


def follow(mode: Any, operation: Operation, args: Any, kwargs: Dict[str, Any], out: Any, news: List[Tuple[Record, Tensor]]) -> None:
    """Twins of results whose inputs are all known; ranges and guesses of the others; what was written over is forgotten."""
    constant = operation.name in shadows.CONSTANT
    flat: List[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            flat.append(value)
        elif type(value) in (list, tuple):
            flat.extend(v for v in value if isinstance(v, Tensor))
    records: List[Optional[Record]] = []
    known = not operation.random
    for tensor in flat:
        record = mode.record_of(tensor)
        records.append(record)
        if record is None:
            known = known and not c_is_meta(tensor)
        elif record.twin is None and not constant:
            known = False
    if known and (flat or constant) and _worth(operation, args, kwargs, news):
        _compute(mode, operation, args, kwargs, out, news, constant)
        return
    for tensor in operation.written(args, kwargs):
        record = mode.record_of(tensor)
        if record is not None:
            record.twin = record.low = record.high = record.guess = None
    if news and (records or operation.random):
        shadows.carry(operation.name, records, args, news)


def _worth(operation: Operation, args: Any, kwargs: Dict[str, Any], news: List[Tuple[Record, Tensor]]) -> bool:
    if any(not shadows.may_keep(t.dtype, t.numel()) for _, t in news):
        return False
    return bool(news) or bool(operation.writes)


def _compute(
    mode: Any, operation: Operation, args: Any, kwargs: Dict[str, Any], out: Any, news: List[Tuple[Record, Tensor]], constant: bool
) -> None:
    if constant and operation.writes:  # fill_ and zero_: a whole storage becomes known
        record = mode.record_of(args[0])
        if record is not None and record.twin is None:
            if not shadows.may_keep(args[0].dtype, args[0].numel()) or args[0].numel() * args[0].element_size() != record.nbytes:
                record.low = record.high = record.guess = None
                return
            shadows.give(record, args[0], torch.zeros((), dtype=args[0].dtype))
    real = [_real(mode, v, constant) for v in args]
    kw = {k: (torch.device("cpu") if k == "device" and v is not None else _real(mode, v, constant)) for k, v in kwargs.items()}
    result = shadows.real_result(operation.func, tuple(real), kw)
    if operation.writes:
        return
    results = result if isinstance(result, (list, tuple)) else [result]
    outs = out if isinstance(out, (list, tuple)) else [out]
    for record, tensor in news:
        for mine, value in zip(outs, results):
            if mine is tensor and isinstance(value, Tensor) and value.shape == tensor.shape:
                shadows.give(record, tensor, value)


def _real(mode: Any, value: Any, constant: bool) -> Any:
    if isinstance(value, Tensor) and pretend.is_pretend(value):
        twin = mode.twin_of(value)
        return twin if twin is not None else torch.empty(tuple(value.shape), dtype=value.dtype)
    if type(value) in (list, tuple):
        return [_real(mode, v, constant) for v in value]
    return value
