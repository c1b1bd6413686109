"""What a change would save: one more step of the same run is traced with the change made, and replayed like the step without it.

So each figure is computed from what the script really does. A change that cannot be tried is left out, and says why in `failed`.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from .replay import replay

EIGHT_BIT_LEAST = 4096  # elements: smaller states stay 32 bit (bitsandbytes' min_8bit_size)
EIGHT_BIT_BLOCK = 256  # elements that share one 4-byte scale (bitsandbytes' blockwise quantisation)


class Trial:
    """A change: `enter` makes it, `leave` takes it back; `size` is for changes that only alter sizes of records."""

    def __init__(self, change: str, how: str, enter: Callable[[], bool], leave: Callable[[], None]) -> None:
        self.change, self.how, self.enter, self.leave = change, how, enter, leave
        self.slow = 0  # steps after which the change is seen: batches may have been fetched ahead


class Savings:
    """After the wanted steps: one trial after the other."""

    def __init__(self, mode: Any, watch: Any, loaders: Any) -> None:
        self.mode, self.watch, self.loaders, self.world = mode, watch, loaders, mode.world
        self.base: Optional[Tuple[int, int]] = None
        self.rows: List[Dict[str, Any]] = []
        self.queue: List[Trial] = []
        self.active: Optional[Trial] = None
        self.wait = 0
        self.undo: List[Callable[[], None]] = []
        self.context: Any = None

    def install(self) -> None:
        """Listen; nothing changes before `begin`."""
        self.world.at_step.append(self._step)

    def begin(self) -> bool:
        """Start the trials after the last wanted step. False when there is nothing to try."""
        step = self.world.cards[0].last_step
        if step is None or self.base is not None:
            return False
        self.base = replay(step.before, step.events, self.world.settings)
        self._eight_bit(step)
        half = "bf16-autocast" if self._has_bf16() else "fp16-autocast"
        self.queue = [
            Trial("set-to-none", "zero_grad(set_to_none=True)", self._none, self._back),
            Trial("checkpointing", "the repeated blocks recomputed in the backward pass", self._checkpoint, self._back),
            Trial(half, "forward and loss under torch.autocast", self._autocast, self._back),
            Trial("half-sequence", "token batches cut to half their length", self._half, self._back),
        ]
        return self._next()

    # -- the clock --------------------------------------------------------------------------------------------------------
    def _step(self, watch: Any) -> None:
        if self.active is None:
            return
        if self.wait:
            self.wait -= 1
            return
        step = self.world.cards[0].last_step
        self.active.leave()
        if step is not None:
            self._row(self.active.change, self.active.how, replay(step.before, step.events, self.world.settings))
        self.active = None
        if not self._next():
            self.world.enough = True

    def _next(self) -> bool:
        while self.queue:
            trial = self.queue.pop(0)
            try:
                if not trial.enter():
                    if trial.change == "checkpointing":
                        self._not_tried(trial, "no repeated blocks were found in the model")
                    continue
            except Exception as error:
                self.failed(trial, error)
                continue
            self.active, self.wait = trial, trial.slow
            return True
        return False

    def failed(self, trial: Trial, error: BaseException) -> None:
        """The change could not be tried."""
        trial.leave()
        self._not_tried(trial, "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:200]))

    def _not_tried(self, trial: Trial, why: str) -> None:
        self.rows.append(
            {"change": trial.change, "how": trial.how, "applies": False, "saved": None, "saved_allocated": None,
             "peak_allocated": None, "peak_reserved": None, "failed": why}
        )  # fmt: skip

    def _row(self, change: str, how: str, figures: Tuple[int, int]) -> None:
        if self.base is None:
            return
        self.rows.append(
            {"change": change, "how": how, "applies": True, "peak_allocated": figures[0], "peak_reserved": figures[1],
             "saved": self.base[1] - figures[1], "saved_allocated": self.base[0] - figures[0], "failed": None}
        )  # fmt: skip

    def _back(self) -> None:
        for undo in reversed(self.undo):
            undo()
        self.undo = []

    # -- the changes ------------------------------------------------------------------------------------------------------
    def _eight_bit(self, step: Any) -> None:
        names = {row["class"] for row in self.watch.optimizers.values()}
        if not names & {"Adam", "AdamW", "NAdam", "RAdam", "Adamax"}:
            return

        def size(record: Any) -> int:
            if record.kind == "optimizer_state" and record.dtype is not None and record.dtype.is_floating_point:
                count = record.nbytes // record.dtype.itemsize
                if count >= EIGHT_BIT_LEAST:
                    return int(count + -(-count // EIGHT_BIT_BLOCK) * 4)
            if record.phase == "optimizer" and not record.kind:
                return 0  # the 8-bit kernels are fused: no temporaries
            return int(record.nbytes)

        self._row("adam-8bit", "optimizer states as 8-bit numbers with a scale for each 256", replay(
            step.before, step.events, self.world.settings, size))  # fmt: skip

    def _none(self) -> bool:
        if not any(row["set_to_none"] is False for row in self.watch.optimizers.values()):
            return False
        self.watch.force_none = True
        self.undo.append(lambda: setattr(self.watch, "force_none", False))
        return True

    def _models(self) -> List[Any]:
        found = [row["module"]() for row in self.watch.models.values()]
        return [m for m in found if m is not None and any(p.requires_grad for p in m.parameters())]

    def _checkpoint(self) -> bool:
        done = False
        for model in self._models():
            inner = getattr(model, "module", model)
            if callable(getattr(inner, "gradient_checkpointing_enable", None)):
                inner.gradient_checkpointing_enable({"use_reentrant": False})
                self.undo.append(inner.gradient_checkpointing_disable)
                done = True
                continue
            for block in blocks(model):
                self._wrap(block)
                done = True
        return done

    def _wrap(self, block: Any) -> None:
        from torch.utils.checkpoint import checkpoint

        had, old = block.__dict__.get("forward"), block.forward

        @functools.wraps(old)
        def forward(*args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled():
                return checkpoint(old, *args, use_reentrant=False, **kwargs)
            return old(*args, **kwargs)

        block.forward = forward

        def undo() -> None:
            if had is None:
                del block.forward
            else:
                block.forward = had

        self.undo.append(undo)

    def _autocast(self) -> bool:
        if self.world.calls.get("autocast_dtypes"):
            return False
        models = self._models()
        if not any(p.dtype is torch.float32 for m in models for p in m.parameters()):
            return False
        dtype = torch.bfloat16 if self._has_bf16() else torch.float16
        self.watch.around_forward = lambda: torch.autocast("cuda", dtype=dtype)

        def undo() -> None:
            self.watch.around_forward = None
            self.watch.leave_forward()

        self.undo.append(undo)
        return True

    def _has_bf16(self) -> bool:
        return tuple(self.world.card["capability"]) >= (8, 0)

    def _half(self) -> bool:
        lengths = {int(s) for s in self.loaders.token_lengths}
        if not lengths or max(lengths) < 16:
            return False
        long = max(lengths)
        old = self.loaders.resize
        self.loaders.resize = lambda batch, row: shortened(batch if old is None else old(batch, row), long)
        self.undo.append(lambda: setattr(self.loaders, "resize", old))
        self.queue_slow()
        return True

    def queue_slow(self) -> None:
        """A change of batches is seen one step later where loaders fetch ahead."""
        if self.world.batches > self.world.backwards > 0:
            self.wait = 1


def blocks(model: Any) -> List[Any]:
    """The repeated blocks of a model: children of one class, with children of their own, in a list or a sequence; outermost ones."""
    found: List[Any] = []

    def look(module: Any) -> None:
        children = list(module.children())
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(children) > 1:
            kinds = [type(c) for c in children if any(True for _ in c.children())]
            common = {k for k in kinds if kinds.count(k) > 1 and k not in (torch.nn.Sequential, torch.nn.ModuleList)}
            mine = [c for c in children if type(c) in common]
            if mine:
                found.extend(mine)
                children = [c for c in children if type(c) not in common]
        for child in children:
            look(child)

    look(model)
    return found


def shortened(batch: Any, long: int, depth: int = 0) -> Any:
    """Whole-number tensors (batch, long) cut to half of `long`."""
    if isinstance(batch, torch.Tensor):
        if batch.dim() == 2 and batch.shape[1] == long and not batch.dtype.is_floating_point:
            return batch[:, : long // 2].contiguous()
        return batch
    if depth > 5:
        return batch
    if isinstance(batch, dict) or (hasattr(batch, "keys") and hasattr(batch, "__setitem__")):
        made = batch.copy() if hasattr(batch, "copy") else dict(batch)
        for key in list(batch.keys()):
            made[key] = shortened(batch[key], long, depth + 1)
        return made
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        return type(batch)([shortened(v, long, depth + 1) for v in batch])
    return batch
