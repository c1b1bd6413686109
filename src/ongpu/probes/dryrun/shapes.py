"""Shape rules of CUDA's own attention kernels, for a torch whose meta kernels lack them (2.4: only its FakeTensor knew them).

An operator that the CPU has too needs none: its shape is then taken from the CPU kernel (words.second_opinion).
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .pretend import PLAIN_META, C


class Shapes:
    """The rules that are missing, put on the Meta key."""

    def __init__(self) -> None:
        self._library = torch.library.Library("aten", "IMPL", "Meta")

    def install(self) -> None:
        """Put each where this torch has the operator and no rule for it."""
        for name, rule in (
            ("_scaled_dot_product_flash_attention", flash),
            ("_scaled_dot_product_efficient_attention", efficient),
        ):
            if hasattr(torch.ops.aten, name) and not C._dispatch_has_kernel_for_dispatch_key("aten::" + name, "Meta"):
                self._library.impl(name, rule)


def flash(
    q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, causal: bool = False, debug: bool = False, *, scale: Optional[float] = None
) -> Any:
    """As aten/native/transformers/cuda/attention.cu allocates it: the output with heads inside rows, one float a query and head."""
    out, sums = _output(q, v), _floats(q.shape[0], q.shape[1], q.shape[2])
    nothing = torch.empty(0, dtype=q.dtype, device=PLAIN_META)
    return out, sums, None, None, q.shape[2], k.shape[2], _number(), _number(), nothing


def efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], keep: bool, dropout: float = 0.0, causal: bool = False, *,
    scale: Optional[float] = None,
) -> Any:  # fmt: skip
    """As above; the floats are kept only for a backward pass, in rows that are a multiple of 32 (kAlignLSE in kernel_forward.h)."""
    return _output(q, v), _floats(q.shape[0], q.shape[1], -(-q.shape[2] // 32) * 32 if keep else 0), _number(), _number()


def _output(q: Tensor, v: Tensor) -> Tensor:
    batch, heads, rows, _ = q.shape
    return torch.empty((batch, rows, heads, v.shape[-1]), dtype=q.dtype, device=PLAIN_META).transpose(1, 2)


def _floats(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=PLAIN_META)


def _number() -> Tensor:
    return torch.empty((), dtype=torch.int64, device=PLAIN_META)
