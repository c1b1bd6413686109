"""Runs the history of one step through a fresh allocator: with other sizes, without some tensors, on another card."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from .allocator import UNLIMITED, Allocator, OutOfMemory, Settings

Sizes = Optional[Callable[[Any], int]]


def replay(
    before: Iterable[Any], events: Iterable[Tuple[Any, bool]], settings: Settings, size: Sizes = None, capacity: int = UNLIMITED
) -> Tuple[int, int]:
    """(peak allocated, peak reserved) in bytes. `size` gives a record's bytes (0: it is not there). OutOfMemory passes."""
    memory = Allocator(capacity, capacity, 0, settings)
    held: Dict[Any, Any] = {}
    for record in before:
        held[record] = memory.malloc(record.nbytes if size is None else size(record))
    for record, born in events:
        if born:
            held[record] = memory.malloc(record.nbytes if size is None else size(record))
        else:
            block = held.pop(record, None)
            if block is not None:
                memory.release(block)
    return memory.peak_allocated, memory.peak_reserved


def fits(before: List[Any], events: List[Tuple[Any, bool]], settings: Settings, capacity: int) -> bool:
    """Whether the step runs on a card with that many bytes."""
    try:
        replay(before, events, settings, None, capacity)
    except OutOfMemory:
        return False
    return True
