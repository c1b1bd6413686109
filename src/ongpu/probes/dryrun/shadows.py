"""What is known of values on the pretend card: small tensors keep a real twin on the CPU, integers their range, tests a guess.

A twin is a whole storage, so views and in-place operations stay right by themselves. Values made of unknown ones are unknown:
whoever asks for them gets a stated assumption (see `world.assume`).
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from .ledger import Record

MOST_WHOLE, MOST_FLOAT = 262144, 256  # elements: labels and masks of a batch; scalars and class weights
CONSTANT = {
    "aten::zeros", "aten::ones", "aten::full", "aten::arange", "aten::scalar_tensor", "aten::eye", "aten::linspace", "aten::zeros_like",
    "aten::ones_like", "aten::full_like", "aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::tril_indices", "aten::triu_indices",
    "aten::fill_", "aten::zero_", "aten::fill",
}  # fmt: skip
KEEPS = {
    "aten::clone", "aten::_to_copy", "aten::index", "aten::gather", "aten::index_select", "aten::flip", "aten::roll", "aten::repeat",
    "aten::contiguous", "aten::cat", "aten::stack", "aten::max", "aten::min", "aten::amax", "aten::amin", "aten::sort", "aten::where",
    "aten::masked_select", "aten::constant_pad_nd", "aten::take", "aten::unfold_copy", "aten::slice_scatter",
}  # fmt: skip
KEEPS_GUESS = KEEPS | {"aten::all", "aten::any", "aten::sum", "aten::logical_or", "aten::logical_and", "aten::bitwise_or", "aten::mean"}
POSITIONS = {"aten::argmax", "aten::argmin", "aten::argsort"}
SECOND_POSITIONS = {"aten::max", "aten::min", "aten::topk", "aten::sort", "aten::kthvalue", "aten::mode", "aten::median"}


def may_keep(dtype: torch.dtype, count: int) -> bool:
    """Whether a twin of so many elements is worth its memory and time."""
    return count <= (MOST_FLOAT if dtype.is_floating_point or dtype.is_complex else MOST_WHOLE)


def seen_through(twin: Any, tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor that shows the twin as this view shows its storage."""
    return torch.empty(0, dtype=tensor.dtype).set_(twin, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())


def give(record: Record, tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Make `value` (a real CPU tensor) the twin of a tensor with a storage of its own."""
    twin = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype)
    twin.copy_(value)
    if twin.untyped_storage().nbytes() == record.nbytes:
        record.twin = twin.untyped_storage()


def span(value: torch.Tensor) -> Tuple[Optional[float], Optional[float]]:
    """Least and largest of a real integer tensor."""
    if value.numel() == 0 or value.dtype.is_floating_point or value.dtype.is_complex or value.dtype is torch.bool:
        return None, None
    low, high = torch.aminmax(value)
    return int(low), int(high)


def range_of(record: Optional[Record], tensor: torch.Tensor) -> Tuple[Optional[float], Optional[float]]:
    """What is known of an integer tensor's values."""
    if record is None:
        return None, None
    if record.twin is not None:
        return span(seen_through(record.twin, tensor))
    return record.low, record.high


def carry(name: str, records: List[Optional[Record]], args: Tuple[Any, ...], outs: List[Tuple[Record, torch.Tensor]]) -> None:
    """Ranges and guesses of the results of one operation without twins."""
    first = records[0] if records else None
    if name in SECOND_POSITIONS and len(outs) == 2:
        _positions(outs[1][0], args, name)
        outs = outs[:1]
    if name in POSITIONS:
        for record, _ in outs:
            _positions(record, args, name)
        return
    if name == "aten::randint":
        numbers = [a for a in args if isinstance(a, int)]
        for record, _ in outs:
            record.low, record.high = (0, numbers[0] - 1) if len(numbers) == 1 else (numbers[0], numbers[1] - 1)
        return
    if name == "aten::randperm":
        for record, _ in outs:
            record.low, record.high = 0, args[0] - 1
        return
    guess = _guess(name, first, args)
    for record, tensor in outs:
        if guess is not None:
            record.guess = guess
        if not tensor.dtype.is_floating_point and name in KEEPS:
            _join(record, records if name in ("aten::cat", "aten::stack", "aten::where") else records[:1], name)


def _join(record: Record, sources: List[Optional[Record]], name: str) -> None:
    if name == "aten::where":
        sources = sources[1:]
    if not sources or any(s is None or s.low is None or s.high is None for s in sources):
        return
    record.low = min(s.low for s in sources if s is not None and s.low is not None)
    record.high = max(s.high for s in sources if s is not None and s.high is not None)


def _positions(record: Record, args: Tuple[Any, ...], name: str) -> None:
    tensor = args[0]
    if not isinstance(tensor, torch.Tensor):
        return
    numbers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    size = tensor.numel()
    if name.startswith(("aten::topk", "aten::kthvalue")):
        numbers = numbers[1:]  # the first is k
    if not numbers and tensor.dim() and not name.startswith(("aten::argmax", "aten::argmin")):
        numbers = [-1]  # left out where it is the default
    if numbers and tensor.dim() and -tensor.dim() <= numbers[-1] < tensor.dim():
        size = tensor.shape[numbers[-1]]
    record.low, record.high = 0, max(0, size - 1)


def _guess(name: str, first: Optional[Record], args: Tuple[Any, ...]) -> Any:
    """True or False where a healthy run has only one answer: nothing is infinite, nothing is NaN."""
    if name == "aten::isfinite":
        return True
    if name in ("aten::isnan", "aten::isinf", "aten::isposinf", "aten::isneginf"):
        return False
    if name == "aten::ne" and len(args) > 1 and args[1] is args[0]:
        return False
    if name == "aten::eq" and len(args) > 1 and args[1] is args[0]:
        return True
    if first is None or first.guess is None:
        return None
    if name in ("aten::logical_not", "aten::bitwise_not"):
        return not first.guess
    if name in KEEPS_GUESS and (first.guess is False or name not in ("aten::sum",)):
        return first.guess
    return None


def real_result(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """The operation on real CPU tensors; None when it cannot be had (then the result is unknown)."""
    try:
        with torch.no_grad():
            return func(*args, **kwargs)
    except Exception:
        return None
