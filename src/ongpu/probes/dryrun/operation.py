"""What one operator is: does it write, does it view, can its result's shape be remembered; learned once from its schema."""

from __future__ import annotations

import logging
from typing import Any, Dict, List, Optional, Tuple

import torch


class Operation:
    """One overload. `writes`: positions (or names of keyword-only arguments) that it changes."""

    __slots__ = ("collective", "fast", "flop", "func", "functional", "name", "random", "returns", "short", "takes_cpu", "views", "writes")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.func = func
        self.name = schema.name
        self.short = schema.name.split("::")[-1]
        self.writes: List[Any] = [
            a.name if a.kwarg_only else at
            for at, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ]
        self.collective = schema.name.startswith("c10d::")
        self.views = any(r.alias_info is not None for r in schema.returns) and not self.writes
        self.fast = self.views  # until tried: most views need no meta kernel
        self.functional = not self.writes and not self.views
        self.returns = len(schema.returns)
        self.random = torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
        self.flop = _flop_of(func)
        self.takes_cpu = self.short in TAKES_CPU

    def written(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[torch.Tensor]:
        """The tensors that a call changes."""
        found: List[torch.Tensor] = []
        for where in self.writes:
            value = kwargs.get(where) if isinstance(where, str) else (args[where] if where < len(args) else None)
            if isinstance(value, torch.Tensor):
                found.append(value)
            elif isinstance(value, (list, tuple)):
                found.extend(v for v in value if isinstance(v, torch.Tensor))
        return found


# operators whose CUDA kernels take some arguments on the CPU: lengths, step counts, indices
TAKES_CPU = {
    "_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward", "_cudnn_rnn", "_cudnn_rnn_backward", "index",
    "index_put_", "index_put", "_index_put_impl_", "_unsafe_index", "_ctc_loss", "_ctc_loss_backward",
    "_cudnn_ctc_loss", "_fused_adam_", "_fused_adamw_",
    "_fused_sgd_",
}  # fmt: skip

_table: Dict[Any, Any] = {}


def _flop_of(func: Any) -> Optional[Any]:
    """torch's own formula for the FLOP of a matrix operator, None for all others."""
    if not _table:
        try:
            logger = logging.getLogger("torch.utils.flop_counter")
            logger.disabled = True  # it says that triton is missing
            from torch.utils.flop_counter import flop_registry

            _table.update(flop_registry)
        except Exception:  # the registry is an extra: without it the counts say 0
            _table[None] = None
    return _table.get(func._overloadpacket)


def remembered(value: Any) -> Any:
    """An argument as part of a key: what can change a result's shape, and nothing that changes at every call."""
    kind = type(value)
    if kind is float:
        return float
    if kind in (list, tuple) or kind is torch.Size:
        return tuple(remembered(v) for v in value)
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype, value.device.type
    return value
