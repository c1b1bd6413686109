"""The largest batch that fits: a few steps of the same run with resized batches, each replayed through a fresh allocator."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional

import torch

from .ledger import Step
from .loaders import rows_of
from .replay import replay

MOST_STEPS = 6
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
        self.factor = 1.0
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
        if self.skip:
            self.skip -= 1
        else:
            self._keep(ledger.last_step, ledger)
        if self.seen >= MOST_STEPS or self.world.late():
            self._finish()
        elif not self.skip:
            self._next()

    def _keep(self, step: Optional[Step], ledger: Any) -> None:
        if step is None or self.now is None:
            return
        allocated, reserved = replay(step.before, step.events, self.world.settings)
        if not self.traced:
            self.factor = max(1.0, ledger.memory.peak_reserved / reserved) if reserved else 1.0
        reserved = int(reserved * self.factor)
        self.traced[self.now] = {
            "batch": self.now, "peak_allocated": allocated, "peak_reserved": reserved, "fits": reserved <= self.world.capacity,
        }  # fmt: skip

    def _next(self) -> None:
        self.freeze()
        wanted = self.guess()
        if wanted is None or wanted in self.traced:
            above = max((b for b, row in self.traced.items() if row["fits"]), default=0) + 1
            if above <= 1 or above in self.traced or wanted is None:
                self._finish()
                return
            wanted = above
            if self.traced.get(wanted - 1, {}).get("fits") and self._slack(wanted) > 0:
                self._finish()
                return
        self.now = wanted
        self.skip = self.lag

    def _slack(self, batch: int) -> float:
        """Bytes that the model says are missing for that batch (above 0: it does not fit)."""
        fit = self.model()
        return 0.0 if fit is None else fit[0] + fit[1] * batch - self.world.capacity

    def model(self) -> Any:
        """(bytes at batch 0, bytes of reserved memory for each sample) by the two traced sizes nearest to the limit."""
        rows = sorted(self.traced.values(), key=lambda r: abs(r["peak_reserved"] - self.world.capacity))[:2]
        if len(rows) < 2 or rows[0]["batch"] == rows[1]["batch"]:
            return None
        slope = (rows[0]["peak_reserved"] - rows[1]["peak_reserved"]) / (rows[0]["batch"] - rows[1]["batch"])
        return rows[0]["peak_reserved"] - slope * rows[0]["batch"], slope

    def guess(self) -> Optional[int]:
        """The next size to trace."""
        if self.as_run is None:
            return None
        if len(self.traced) == 1:
            row = self.traced[self.as_run]
            return self.as_run * 2 if row["fits"] else max(1, self.as_run // 2)
        fit = self.model()
        if fit is None:
            return None
        if fit[1] <= 0:  # other things than the batch set the peak so far
            top = max(self.traced)
            return min(top * 64, self.as_run * 4096) if self.traced[top]["fits"] else None
        best = math.floor((self.world.capacity - fit[0]) / fit[1])
        return int(min(max(1, best), self.as_run * 4096))

    def _finish(self) -> None:
        self.done = True
        self.world.enough = True

    def answer(self) -> Dict[str, Any]:
        """The part `batch` of the answer."""
        if self.as_run is None or len(self.traced) < 2:
            why = "no batch came from a DataLoader" if self.as_run is None else "too few optimizer steps were seen"
            return {"as_run": self.as_run, "largest": None, "traced": list(self.traced.values()), "reserved_per_sample": None,
                    "reserved_fixed": None, "verified": False, "bounded": False, "by": None, "why": why, "accumulate": None}  # fmt: skip
        good = [b for b, row in self.traced.items() if row["fits"]]
        largest = max(good) if good else 0
        ends = sorted(self.traced.values(), key=lambda r: int(r["batch"]))
        slope = (ends[-1]["peak_reserved"] - ends[0]["peak_reserved"]) / (ends[-1]["batch"] - ends[0]["batch"])
        fixed = ends[0]["peak_reserved"] - slope * ends[0]["batch"]
        fit = self.model()
        verified = bool(good)
        if fit is not None and fit[1] > 0:
            modelled = math.floor((self.world.capacity - fit[0]) / fit[1])
            failed = min((b for b, row in self.traced.items() if not row["fits"]), default=None)
            modelled = modelled if failed is None else min(modelled, failed - 1)
            if modelled > largest * 1.02 + 1 or (not good and modelled >= 1):
                largest, verified = modelled, False
        bounded = any(not row["fits"] for row in self.traced.values()) or (fit is not None and fit[1] > 0 and largest >= 1)
        accumulate = 1 if largest >= self.as_run else (math.ceil(self.as_run / largest) if largest else None)
        rows: List[Dict[str, Any]] = [self.traced[b] for b in sorted(self.traced)]
        return {
            "as_run": self.as_run, "largest": largest, "traced": rows, "reserved_per_sample": round(slope),
            "reserved_fixed": round(fixed), "verified": verified, "bounded": bounded, "by": "loader",
            "why": None, "accumulate": accumulate,
        }  # fmt: skip
