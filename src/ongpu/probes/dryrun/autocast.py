"""torch.autocast("cuda") for pretend tensors: the C++ kernels ask `is_cuda()` of the C++ device, so the same rules stand here.

Which operators cast to what: PyTorch's documented lists (docs: "Automatic Mixed Precision package", Autocast Op Reference) and
the macros of aten/src/ATen/autocast_mode.h. Only those that this torch has on its AutocastCUDA key are taken over.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable, Dict, List

import torch

from . import pretend
from .pretend import C
from .state import World

LOWER = {
    "_convolution", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "addbmm", "addmm", "addmv",
    "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "convolution", "cudnn_convolution", "cudnn_convolution_transpose", "einsum", "gru_cell", "linalg_multi_dot",
    "linalg_vecdot", "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_relu_cell", "rnn_tanh_cell",
    "scaled_dot_product_attention",
}  # fmt: skip
PROMOTE = {
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put", "scatter_add", "tensordot", "vdot",
}  # fmt: skip
OUTPUT_FLOAT = {"cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax", "prod", "softmax", "sum"}
APPEND_FLOAT = {"norm"}


def lower_dtype() -> torch.dtype:
    """The dtype that autocast is set to on the card."""
    return torch.get_autocast_dtype("cuda") if hasattr(torch, "get_autocast_dtype") else torch.get_autocast_gpu_dtype()


class Autocast:
    """The kernels, and the cache of cast weights that lives until autocast is left."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._cache: Dict[int, Any] = {}
        self._library = torch.library.Library("aten", "IMPL")
        self._key = C.DispatchKeySet(C.DispatchKey.AutocastCUDA)

    def install(self) -> None:
        """Take the kernels over, quietly: PyTorch warns once on standard error when a kernel is replaced."""
        names = C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        with _quiet():
            for full in names:
                short, _, overload = full.split("::")[-1].partition(".")
                packet = getattr(torch.ops.aten, short, None)
                if packet is None or not full.startswith("aten::"):
                    continue
                func = getattr(packet, overload or "default")
                self._library.impl(full.split("::")[-1], self._kernel(short, func), "AutocastCUDA")
        old = torch.clear_autocast_cache

        def clear() -> None:
            self._cache.clear()
            old()

        torch.clear_autocast_cache = clear

    def _kernel(self, short: str, func: Any) -> Callable[..., Any]:
        if short in LOWER:
            return self._with(func, lambda args: lower_dtype())
        if short in PROMOTE:
            return self._with(func, widest)
        if short == "binary_cross_entropy":
            return _banned
        if short in OUTPUT_FLOAT:
            return self._output_float(func)
        if short in APPEND_FLOAT:
            return self._append(func)
        return self._with(func, lambda args: torch.float32)

    def _with(self, func: Any, choose: Callable[[Any], torch.dtype]) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            dtype = choose((args, kwargs.values()))
            self._seen(dtype)
            with C._ExcludeDispatchKeyGuard(self._key):
                return func(*[self.cast(a, dtype) for a in args], **{k: self.cast(v, dtype) for k, v in kwargs.items()})

        return kernel

    def _output_float(self, func: Any) -> Callable[..., Any]:
        names = [a.name for a in func._schema.arguments]

        def kernel(*args: Any, **kwargs: Any) -> Any:
            first = args[0]
            at = names.index("dtype") if "dtype" in names else -1
            given = kwargs.get("dtype") or (args[at] if -1 < at < len(args) else None)
            with C._ExcludeDispatchKeyGuard(self._key):
                if _eligible(first) and given is None and at >= 0:
                    if at < len(args):
                        args = (*args[:at], torch.float32, *args[at + 1 :])
                    else:
                        kwargs["dtype"] = torch.float32
                return func(*args, **kwargs)

        return kernel

    def _append(self, func: Any) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            with C._ExcludeDispatchKeyGuard(self._key):
                return func(*[self.cast(a, torch.float32) for a in args], **kwargs)

        return kernel

    def _seen(self, dtype: torch.dtype) -> None:
        if dtype is not torch.float32 and dtype not in self.world.calls.setdefault("autocast_dtypes", []):
            self.world.calls["autocast_dtypes"].append(dtype)

    def cast(self, value: Any, dtype: torch.dtype) -> Any:
        """`value` with its eligible tensors cast; fp32 leaves that want a gradient are cast once until autocast is left."""
        if isinstance(value, torch.Tensor):
            if not _eligible(value) or value.dtype is dtype:
                return value
            keep = (
                dtype is lower_dtype() and value.dtype is torch.float32 and value.requires_grad and value.is_leaf
                and not value._is_view() and torch.is_autocast_cache_enabled()
            )  # fmt: skip
            if not keep:
                return value.to(dtype)
            found = self._cache.get(id(value))
            if found is None or found[0] is not value:
                found = self._cache[id(value)] = (value, value.to(dtype))
            return found[1]
        if isinstance(value, (list, tuple)):
            return type(value)([self.cast(v, dtype) for v in value])
        return value


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.dtype is not torch.float64 and pretend.is_pretend(value)
    )


def widest(groups: Any) -> torch.dtype:
    """The widest of the floating dtypes among the arguments: float32 if there is one."""
    dtypes: set[Any] = set()
    stack: List[Any] = list(groups)
    while stack:
        value = stack.pop()
        if isinstance(value, torch.Tensor):
            if _eligible(value):
                dtypes.add(value.dtype)
        elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
            stack.extend(value)
    return torch.float32 if torch.float32 in dtypes or len(dtypes) != 1 else dtypes.pop()


def _banned(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


class _quiet:
    """Standard error and warnings off while kernels are replaced."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self._old = os.dup(2)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        sys.stderr.flush()
        self._warnings.__exit__(None, None, None)
        os.dup2(self._old, 2)
        os.close(self._old)
