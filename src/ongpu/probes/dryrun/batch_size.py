"""The largest batch that fits: a few steps of the same run with resized batches, each replayed through a fresh allocator."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Callable, Deque, Dict, Optional, Tuple

import torch

from .ledger import Step
from .loaders import rows_of
from .replay import replay, role, through

MOST_STEPS = 6
MOST_TIMES = 4096  # times the batch as run: beyond that a search says nothing
MOST_EVENTS = 40000  # of a step: beyond that a replay takes too long to search by, and a straight line must do
REAL_COPY = 64 << 20  # bytes up to which a resized tensor is really made; larger ones repeat one row without memory


def resized(batch: Any, rows: int, wanted: int, depth: int = 0) -> Any:
    """The batch with `wanted` samples in place of `rows`: tensors along their first size, lists of that length, inside any mapping."""
    if isinstance(batch, torch.Tensor):
        if not batch.dim() or batch.shape[0] != rows:
            return batch
        if wanted <= rows:
            return batch[:wanted]
        if batch.numel() // max(1, rows) * wanted * batch.element_size() <= REAL_COPY:
            return batch[torch.arange(wanted) % rows]
        return batch[:1].expand(wanted, *batch.shape[1:])
    if depth > 5:
        return batch
    if isinstance(batch, dict) or (hasattr(batch, "keys") and hasattr(batch, "__setitem__")):
        made = batch.copy() if hasattr(batch, "copy") else dict(batch)
        for key in list(batch.keys()):
            made[key] = resized(batch[key], rows, wanted, depth + 1)
        return made
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[resized(v, rows, wanted, depth + 1) for v in batch])
    if isinstance(batch, (list, tuple)):
        if len(batch) == rows and not any(isinstance(v, torch.Tensor) and v.dim() and v.shape[0] == rows for v in batch):
            return type(batch)([batch[k % rows] for k in range(wanted)])
        return type(batch)([resized(v, rows, wanted, depth + 1) for v in batch])
    if hasattr(batch, "__dict__") and not callable(batch):
        import copy

        made = copy.copy(batch)
        for key, value in list(vars(batch).items()):
            made.__dict__[key] = resized(value, rows, wanted, depth + 1)
        return made
    return batch


class BatchFinder:
    """Counts the steps, chooses the next size, keeps what each size needed."""

    def __init__(self, mode: Any, loaders: Any, freeze: Callable[[], None]) -> None:
        self.mode, self.loaders, self.world, self.freeze = mode, loaders, mode.world, freeze
        self.base: Dict[int, Any] = {}
        self.rows: Dict[int, Optional[int]] = {}
        self.as_run: Optional[int] = None
        self.now: Optional[int] = None
        self.seen = 0
        self.skip = 0
        self.lag = 0
        self.traced: Dict[int, Dict[str, Any]] = {}
        self.steps: Dict[int, Step] = {}
        self.done = False

    def install(self) -> None:
        """Resize every batch of a loader; look at every optimizer step."""
        self.loaders.resize = self._resize
        self.world.at_step.append(self._step)
        self.world.spec["steps"] = 0

    def _resize(self, batch: Any, row: Dict[str, Any]) -> Any:
        key = id(row)
        if key not in self.base:
            self.base[key] = batch
            size = row.get("batch_size")
            found = rows_of(batch)
            self.rows[key] = int(size) if isinstance(size, int) and size > 0 and found is not None and found <= size else found
            if found is not None and self.rows[key] is not None and found < int(self.rows[key] or 0):
                self.rows[key] = found
            if self.as_run is None and self.rows[key]:
                self.as_run = self.now = self.rows[key]
        rows = self.rows[key]
        if self.as_run is None or not rows or self.now is None:
            return batch
        wanted = max(1, round(rows * self.now / self.as_run))
        return resized(self.base[key], rows, wanted)

    def _step(self, watch: Any) -> None:
        if self.done:
            return
        ledger = self.world.cards[0]
        self.seen += 1
        if self.seen == 1:
            self.lag = 1 if self.world.batches > self.world.backwards > 0 else 0
            if self.as_run is None:
                self._finish()
            return  # the first step makes the optimizer's state
        kept = not self.skip
        if kept:
            self._keep(ledger.last_step, ledger)
        else:
            self.skip -= 1
        if self.seen >= MOST_STEPS or self.world.late():
            self._finish()
        elif kept:
            self._next()

    def _keep(self, step: Optional[Step], ledger: Any) -> None:
        if step is None or self.now is None:
            return
        self.steps[self.now] = step
        allocated, reserved = ledger.peak, ledger.memory.peak_reserved  # the first size: the run itself, from its start
        if self.traced:
            sizes = self._sizes(self.now)
            allocated, reserved = replay(step.before, step.events, self.world.settings)
            if sizes is not None:
                allocated, reserved = self._whole(sizes(self.now))
        self.traced[self.now] = {
            "batch": self.now, "peak_allocated": allocated, "peak_reserved": reserved, "fits": reserved <= self.world.capacity,
        }  # fmt: skip

    def _sizes(self, other: int) -> Optional[Callable[[int], Callable[[Any], int]]]:
        """The size of each tensor of the run for any batch, by the step as run and the step of another size."""
        first = self.world.cards[0].first_step
        if first is None or first.before or self.as_run not in self.steps or other == self.as_run:
            return None
        return growing(first, self.steps[self.as_run], self.steps[other], self.as_run, other)

    def _whole(self, size: Callable[[Any], int]) -> Tuple[int, int]:
        first = self.world.cards[0].first_step
        return through([first.events, self.steps[self.as_run or 0].events], self.world.settings, size)

    def _next(self) -> None:
        self.freeze()
        wanted = self.guess()
        if wanted is None or wanted in self.traced:
            self._finish()
            return
        self.now = wanted
        self.skip = self.lag

    def guess(self) -> Optional[int]:
        """The next size to trace: twice the first one, or half of it, then the largest that should fit."""
        if self.as_run is None:
            return None
        if len(self.traced) == 1:
            return self.as_run * 2 if self.traced[self.as_run]["fits"] or self.as_run < 2 else self.as_run // 2
        return self.predicted()

    def predicted(self) -> Optional[int]:
        """The largest batch whose step, with every tensor's size worked out for it, passes through the allocator; 0: none."""
        needs = self.needs()
        if needs is None:
            return None
        good = max((b for b, row in self.traced.items() if row["fits"]), default=0)
        bad = min((b for b, row in self.traced.items() if not row["fits"] and b > good), default=None)
        top = (self.as_run or 1) * MOST_TIMES
        low = good
        high = bad if bad is not None else max(2, 2 * max(self.traced))
        while bad is None and high < top and needs(high) <= self.world.capacity:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            if needs(middle) <= self.world.capacity:
                low = middle
            else:
                high = middle
        return low

    def needs(self) -> Optional[Callable[[int], float]]:
        """Bytes of reserved memory as a function of the batch, by the traced sizes nearest to the limit."""
        others = sorted((b for b in self.traced if b != self.as_run), key=self._from_limit)
        if not others:
            return None
        sizes = self._sizes(others[0])
        if sizes is not None and len(self.steps[others[0]].events) <= MOST_EVENTS:
            return lambda batch: self._whole(sizes(batch))[1]
        small, large = sorted(sorted(self.traced, key=self._from_limit)[:2])
        first, last = self.traced[small]["peak_reserved"], self.traced[large]["peak_reserved"]
        slope = (last - first) / (large - small)
        return lambda batch: last + slope * (batch - large)

    def _from_limit(self, batch: int) -> int:
        return abs(int(self.traced[batch]["peak_reserved"]) - int(self.world.capacity))

    def _finish(self) -> None:
        self.done = True
        self.world.enough = True

    def answer(self) -> Dict[str, Any]:
        """The part `batch` of the answer."""
        if self.as_run is None or len(self.traced) < 2:
            why = "no batch came from a DataLoader" if self.as_run is None else "too few optimizer steps were seen"
            return {"as_run": self.as_run, "largest": None, "traced": list(self.traced.values()), "reserved_per_sample": None,
                    "reserved_fixed": None, "verified": False, "bounded": False, "by": None, "why": why, "accumulate": None}  # fmt: skip
        rows = [self.traced[b] for b in sorted(self.traced)]
        slope = (rows[-1]["peak_reserved"] - rows[0]["peak_reserved"]) / (rows[-1]["batch"] - rows[0]["batch"])
        largest = max((int(row["batch"]) for row in rows if row["fits"]), default=0)
        should = self.predicted()
        bounded = should is not None and should < self.as_run * MOST_TIMES
        verified = bool(largest)
        if should is not None and should > largest:
            largest, verified = should, False
        accumulate = 1 if largest >= self.as_run else (windows(self.as_run, largest) if largest else None)
        return {
            "as_run": self.as_run, "largest": largest, "traced": rows, "reserved_per_sample": round(slope),
            "reserved_fixed": round(rows[0]["peak_reserved"] - slope * rows[0]["batch"]), "verified": verified, "bounded": bounded,
            "by": "loader", "why": None, "accumulate": accumulate,
        }  # fmt: skip


def windows(rows: int, largest: int) -> int:
    """Least number of windows of at most `largest` rows; up to twice as many where these make exactly `rows`, such as 8 of 64 for 512."""
    least = math.ceil(rows / largest)
    return next((number for number in range(least, 2 * least + 1) if rows % number == 0), least)


def growing(start: Step, step: Step, other: Step, rows: int, rows_other: int) -> Optional[Callable[[int], Callable[[Any], int]]]:
    """How each tensor grows with the batch: from one step at two sizes, and for the first step of the run from the tensors of the
    same line, operator and size; None where the two steps did not run alike. `step` is the one that follows `start`."""
    if len(step.events) != len(other.events) or any(a[1] != b[1] or a[0].op != b[0].op for a, b in zip(step.events, other.events)):
        return None
    slopes: Dict[Any, float] = {}
    by_role: Dict[Any, Deque[float]] = {}
    for (mine, born), (theirs, _) in zip(step.events, other.events):
        if born:
            slopes[mine] = (theirs.nbytes - mine.nbytes) / (rows_other - rows)
            by_role.setdefault((role(mine), mine.nbytes), deque()).append(slopes[mine])
    for record, born in start.events:
        queue = by_role.get((role(record), record.nbytes))
        if born and queue:
            slopes[record] = queue.popleft()

    def at(batch: int) -> Callable[[Any], int]:
        def size(record: Any) -> int:
            grown: int = max(0, round(record.nbytes + slopes.get(record, 0.0) * (batch - rows)))
            return grown

        return size

    return at
