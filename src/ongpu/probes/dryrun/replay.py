"""Runs the history of one step through a fresh allocator, as a whole run would: with other sizes, or on another card.

A run does not start with its optimizer's state: the first step makes it, in the holes that the first backward pass left. So the
step is played twice: first with weights alone, then the state is made, then the step again. What one step leaves to the next (the
last loss, the old batch, gradients) is matched by the line and the operator that made it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple

from .allocator import UNLIMITED, Allocator, OutOfMemory, Settings

Sizes = Optional[Callable[[Any], int]]
Events = List[Tuple[Any, bool]]
LATER = ("optimizer_state", "gradient")


def replay(before: Iterable[Any], events: Events, settings: Settings, size: Sizes = None, capacity: int = UNLIMITED) -> Tuple[int, int]:
    """(peak allocated, peak reserved) in bytes. `size` gives a record's bytes (0: it is not there). OutOfMemory passes."""
    memory = Allocator(capacity, capacity, 0, settings)
    before = list(before)
    heirs = inherited(events)
    held: Dict[Any, Any] = {}

    def take(record: Any) -> None:
        held[record] = memory.malloc(record.nbytes if size is None else size(record))

    def drop(record: Any) -> None:
        block = held.pop(record, None)
        if block is not None:
            memory.release(block)

    def step() -> None:
        for record, born in events:
            if born:
                take(record)
            else:
                drop(record)
        for leaver, survivor in heirs.items():  # what this step leaves is what the next one finds
            if survivor in held:
                held[leaver] = held.pop(survivor)

    late = [record for record in before if getattr(record, "kind", "") in LATER]
    known = set(late)
    for record in before:
        if record not in known and record not in heirs:
            take(record)
    step()
    for record in late:
        if record not in held:
            take(record)
    step()
    return memory.peak_allocated, memory.peak_reserved


def through(windows: Iterable[Events], settings: Settings, size: Sizes = None) -> Tuple[int, int]:
    """(peak allocated, peak reserved) of consecutive histories, played one after the other from the start of the run."""
    memory = Allocator(UNLIMITED, UNLIMITED, 0, settings)
    held: Dict[Any, Any] = {}
    for events in windows:
        for record, born in events:
            if born:
                held[record] = memory.malloc(record.nbytes if size is None else size(record))
            else:
                block = held.pop(record, None)
                if block is not None:
                    memory.release(block)
    return memory.peak_allocated, memory.peak_reserved


def inherited(events: Events) -> Dict[Any, Any]:
    """{record of an earlier step that this step frees: the record of this step that the next one will free in its place}."""
    made: Dict[Any, None] = {}
    leavers: List[Any] = []
    for record, born in events:
        if born:
            made[record] = None
        elif record in made:
            del made[record]
        else:
            leavers.append(record)
    waiting: Dict[Any, Deque[Any]] = {}
    for record in made:
        waiting.setdefault(role(record), deque()).append(record)
    heirs: Dict[Any, Any] = {}
    for record in leavers:
        queue = waiting.get(role(record))
        if queue:
            heirs[record] = queue.popleft()
    return heirs


def role(record: Any) -> Any:
    """What made a record: alike in two steps of one loop."""
    return getattr(record, "op", None), getattr(record, "place", None), getattr(record, "phase", None)


def fits(before: List[Any], events: Events, settings: Settings, capacity: int) -> bool:
    """Whether the step runs on a card with that many bytes."""
    try:
        replay(before, events, settings, None, capacity)
    except OutOfMemory:
        return False
    return True
