"""The life of every pretend storage: its record, its block in the simulated allocator, and the history of one step."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from . import allocator
from .where import Place


class Record:
    """One storage on a pretend card. `twin`: a real CPU storage with the same values, where they are known and few."""

    __slots__ = (
        "block", "call", "device", "dtype", "guess", "high", "kind", "known", "low", "nbytes", "op", "phase", "place", "ref",
        "shape", "size", "step", "twin",
    )  # fmt: skip

    def __init__(self, nbytes: int, device: int) -> None:
        self.nbytes, self.device = nbytes, device
        self.block: Optional[allocator.Block] = None
        self.size = 0
        self.kind = ""
        self.op = ""
        self.phase = "other"
        self.place: Optional[Place] = None
        self.call: Any = None
        self.shape: Tuple[int, ...] = ()
        self.dtype: Any = None
        self.step = 0
        self.twin: Any = None
        self.low: Optional[float] = None
        self.high: Optional[float] = None
        self.known = False
        self.guess: Any = None
        self.ref: Any = None


class Step:
    """Memory figures of one optimizer step (bytes), and its history as (record, born) pairs after the records alive before it."""

    def __init__(self, before: List[Record], events: List[Tuple[Record, bool]], figures: Dict[str, int]) -> None:
        self.before, self.events, self.figures = before, events, figures


class Ledger:
    """All that lives on one card."""

    def __init__(self, index: int, memory: allocator.Allocator) -> None:
        self.index, self.memory = index, memory
        self.live: Dict[int, Record] = {}
        self.events: List[Tuple[Record, bool]] = []
        self.before: List[Record] = []
        self.at_peak: List[Record] = []
        self.peak = 0
        self.peak_in_window = -1
        self.peak_what: Dict[str, Any] = {}
        self.steps: List[Dict[str, int]] = []
        self.first_step: Optional[Step] = None
        self.last_step: Optional[Step] = None
        self.step_peak = self.step_reserved = 0
        self.after_steps: List[Dict[Optional[Place], Tuple[int, int]]] = []

    def born(self, record: Record, key: int, storage: Any) -> None:
        """A new storage: its block is taken (allocator.OutOfMemory passes), and its end is watched."""
        block = self.memory.malloc(record.nbytes)
        record.block = block
        record.size = block.size if block is not None else 0
        self.live[key] = record
        live, ledger = self.live, self

        def gone(_: Any, key: int = key, record: Record = record) -> None:
            if live.get(key) is record:
                del live[key]
                ledger.free(record)

        record.ref = weakref.ref(storage, gone)
        if record.size:
            self._counted(record)

    def _counted(self, record: Record) -> None:
        memory = self.memory
        self.events.append((record, True))
        if memory.allocated > self.step_peak:
            self.step_peak = memory.allocated
        if memory.allocated > self.peak:
            self.peak = memory.allocated
            self.peak_in_window = len(self.events)
            self.peak_what = {"place": record.place, "op": record.op, "phase": record.phase, "step": len(self.steps)}
        if len(self.events) > 400000:
            self.close_window()

    def free(self, record: Record) -> None:
        """The storage is gone."""
        if record.block is not None:
            self.memory.release(record.block)
            record.block = None
            self.events.append((record, False))

    def resized(self, record: Record, nbytes: int) -> None:
        """A storage grew or shrank in place: the new block is taken before the old one goes, as resize_bytes_cuda does."""
        old = record.block
        new = self.memory.malloc(nbytes)
        if old is not None:
            self.memory.release(old)
            self.events.append((record, False))
        record.block, record.nbytes, record.size = new, nbytes, new.size if new is not None else 0
        if new is not None:
            self.events.append((record, True))

    def passing(self, nbytes: int) -> None:
        """A workspace that a library takes for one call only."""
        record = Record(nbytes, self.index)
        record.block = self.memory.malloc(nbytes)
        if record.block is not None:
            record.size, record.kind, record.op, record.phase = record.block.size, "workspace", "library", "library"
            self._counted(record)
            self.free(record)

    def close_window(self) -> None:
        """Forget the history, after the live set at a new peak was worked out from it."""
        if self.peak_in_window >= 0:
            alive = dict.fromkeys(self.before)
            for record, born in self.events[: self.peak_in_window]:
                if born:
                    alive[record] = None
                else:
                    alive.pop(record, None)
            self.at_peak = list(alive)
            self.peak_in_window = -1
        self.before = [record for record in self.live.values() if record.size]
        self.events = []

    def end_step(self, counted: bool = True) -> None:
        """An optimizer step is over: figures of the step, and its history kept until the next. A trial's step is not counted."""
        memory = self.memory
        figures = {
            "allocated_after": memory.allocated,
            "requested_after": memory.requested,
            "reserved_after": memory.reserved,
            "peak_allocated": self.step_peak,
            "peak_reserved": memory.peak_reserved,
        }
        self.last_step = Step(self.before, self.events, figures)
        if self.first_step is None:
            self.first_step = self.last_step
        self.close_window()
        self.step_peak = memory.allocated
        if not counted:
            return
        self.steps.append(figures)
        lines: Dict[Optional[Place], Tuple[int, int]] = {}
        for record in self.before:
            size, count = lines.get(record.place, (0, 0))
            lines[record.place] = (size + record.nbytes, count + 1)
        self.after_steps = [*self.after_steps[-2:], lines]


def ledgers(count: int, make: Callable[[int], allocator.Allocator]) -> List[Ledger]:
    """One ledger for each card."""
    return [Ledger(index, make(index)) for index in range(count)]


def storage_of(tensor: torch.Tensor) -> Any:
    """The storage of a tensor, and its key in `Ledger.live`."""
    return tensor.untyped_storage()
