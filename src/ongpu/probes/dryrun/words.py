"""Errors in CUDA's own words: mixed devices, fork, ordinals; and what to do where a meta kernel refuses or is missing."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from . import pretend
from .operation import Operation
from .state import Unfollowed, World

FORKED = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
_ASYNC = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
ORDINAL = "CUDA error: invalid device ordinal" + _ASYNC
NO_CARDS = "No CUDA GPUs are available"
NO_DATA = "Cannot copy out of meta tensor; no data!"
MOST_STAND_IN = 300_000_000  # elements of CPU stand-ins for a second opinion: about 1 GB untouched address space
VERSION = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in str(torch.__version__).split("+")[0].split(".")[:2])
METHODS = {"embedding": ("index_select", "index"), "embedding_dense_backward": ("embedding_dense_backward", "indices")}


def device_of(tensor: Tensor) -> str:
    """As torch prints a device."""
    index = pretend.index_of(tensor)
    return "cuda:%d" % index if index is not None else str(pretend.c_device(tensor))


def type_name(tensor: Tensor) -> str:
    """As Tensor.type() says it: torch.cuda.FloatTensor."""
    names = {
        torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.int64: "Long",
        torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool",
    }  # fmt: skip
    name = names.get(tensor.dtype, str(tensor.dtype).split(".")[-1])
    return "torch.%s%sTensor" % ("cuda." if pretend.is_pretend(tensor) else "", name)


def named(operation: Operation, args: Any, kwargs: Dict[str, Any]) -> List[Tuple[str, Tensor]]:
    """Tensor arguments with the names that the schema gives them, in its order."""
    found: List[Tuple[str, Tensor]] = []
    for at, argument in enumerate(operation.func._schema.arguments):
        value = args[at] if at < len(args) else kwargs.get(argument.name)
        values = value if isinstance(value, (list, tuple)) else [value]
        found.extend((argument.name, v) for v in values if isinstance(v, Tensor))
    return found


def mixed(operation: Operation, args: Any, kwargs: Dict[str, Any], card: Optional[int]) -> RuntimeError:
    """The error for operands on different devices: by the operator's kind, as TensorIterator, cuDNN or the generated wrapper say it."""
    tensors = named(operation, args, kwargs)
    if operation.short.endswith("convolution") and len(tensors) > 1:
        first, weight = tensors[0][1], tensors[1][1]
        if device_of(first) != device_of(weight):
            return RuntimeError("Input type (%s) and weight type (%s) should be the same" % (type_name(first), type_name(weight)))
        return RuntimeError(
            "Input type (%s) and bias type (%s) should be the same" % (type_name(first), type_name(tensors[2][1]))
        )
    big = [(name, t) for name, t in tensors if t.dim()] or tensors
    devices: List[str] = []
    for _, tensor in big:
        if device_of(tensor) not in devices:
            devices.append(device_of(tensor))
    pointwise = torch.Tag.pointwise in getattr(operation.func, "tags", ()) or operation.short.startswith("_foreach")
    if pointwise or len(devices) < 2:
        devices.sort(key=lambda d: d == "cpu")
        return RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, %s and %s!"
            % (devices[0], devices[1] if len(devices) > 1 else "cpu")
        )
    name, odd = next((name, t) for name, t in big if device_of(t) != devices[0])
    method, name = METHODS.get(operation.short, (operation.short, name))
    overload = operation.func._overloadname
    if overload not in ("default", "") and operation.short not in METHODS:
        method += "_" + overload
    if VERSION >= (2, 8):
        return RuntimeError(
            "Expected all tensors to be on the same device, but got %s is on %s, different from other tensors on %s (when checking "
            "argument in method wrapper_CUDA_%s)" % (name, device_of(odd), devices[0], method)
        )
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, %s and %s! (when checking argument for "
        "argument %s in method wrapper_CUDA_%s)" % (devices[0], device_of(odd), name, method)
    )


def second_opinion(world: World, operation: Operation, args: Any, kwargs: Dict[str, Any], error: BaseException) -> Any:
    """The meta kernel refused. The CPU kernel, on stand-ins of the same shapes, says it in the words that CUDA shares with it;
    where it agrees to run, its result's shape is taken and the difference noted."""
    count = sum(t.numel() for _, t in named(operation, args, kwargs))
    if count > MOST_STAND_IN:
        if isinstance(error, NotImplementedError):
            raise _unfollowed(world, operation, error) from None
        raise error
    stand_in = [_stand_in(v) for v in args]
    kw = {k: (torch.device("cpu") if k == "device" else _stand_in(v)) for k, v in kwargs.items()}
    try:
        with torch.no_grad():
            out = operation.func(*stand_in, **kw)
    except Exception as second:
        text = str(second)
        if isinstance(second, NotImplementedError) or "not implemented for" in text:
            if isinstance(error, NotImplementedError):
                raise _unfollowed(world, operation, error) from None
            raise error from None
        raise type(second)(*second.args) from None
    world.unsupported(operation.name, "no shape rule (%s); shape taken from the CPU kernel" % str(error).split("\n")[0][:120], True)
    if operation.writes:
        written = operation.written(args, kwargs)
        return written[0] if operation.returns == 1 and written else (tuple(written) if operation.returns else None)
    return _as_meta(out)


def _unfollowed(world: World, operation: Operation, error: BaseException) -> Unfollowed:
    world.unsupported(operation.name, str(error).split("\n")[0], False)
    return Unfollowed("%s cannot be followed by the dry run" % operation.name)


def _stand_in(value: Any) -> Any:
    if isinstance(value, Tensor) and pretend.is_pretend(value):
        made = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype)
        return made if value.dtype.is_floating_point or value.dtype.is_complex else made.zero_()
    if isinstance(value, (list, tuple)):
        return [_stand_in(v) for v in value]
    return value


def _as_meta(out: Any) -> Any:
    if isinstance(out, Tensor):
        return torch.empty_strided(tuple(out.shape), out.stride(), dtype=out.dtype, device="meta")
    if isinstance(out, (list, tuple)):
        return type(out)([_as_meta(v) for v in out]) if type(out) in (list, tuple) else tuple(_as_meta(v) for v in out)
    return out
