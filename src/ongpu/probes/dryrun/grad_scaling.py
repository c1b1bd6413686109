"""Gradients that are divided after the last backward pass and before the step: as good as a loss divided in each pass."""

from __future__ import annotations

from typing import Any, Dict

import torch

from . import pretend
from .mode import Mode
from .operation import Operation

aten = torch.ops.aten


def install(mode: Mode, watch: Any) -> None:
    """Look at in-place products of one tensor, or of several at once, with a number."""

    def look(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
        factor = args[1] if len(args) > 1 else None
        if len(watch.window) > 1 and not watch.grads_scaled and isinstance(factor, (int, float)) and factor > 0:
            shrinks = factor > 1 if "div" in operation.short else factor < 1
            first = args[0][0] if isinstance(args[0], (list, tuple)) and args[0] else args[0]
            if shrinks and isinstance(first, torch.Tensor) and pretend.is_pretend(first):
                watch.grads_scaled = _is_gradient(mode, watch, first)
        return NotImplemented

    for name in ("div_", "mul_", "_foreach_div_", "_foreach_mul_"):
        packet = getattr(aten, name)
        for overload in packet.overloads():
            func = getattr(packet, overload)
            if overload in ("Tensor", "Scalar") and func not in mode.special:
                mode.special[func] = look


def _is_gradient(mode: Mode, watch: Any, tensor: torch.Tensor) -> bool:
    record = mode.record_of(tensor)
    for row in watch.optimizers.values():
        optimizer = row["optimizer"]()
        for group in optimizer.param_groups if optimizer is not None else ():
            for parameter in group["params"]:
                if parameter.grad is not None and pretend.is_pretend(parameter.grad) and mode.record_of(parameter.grad) is record:
                    return True
    return False
