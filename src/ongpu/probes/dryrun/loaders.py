"""DataLoaders: their settings and waits, pinned batches as a mark, and the end of the run after enough batches."""

from __future__ import annotations

import functools
import linecache
import os
import time
from typing import Any, Dict, Optional

import torch

from . import pretend, words
from .mode import Mode


def each_tensor(batch: Any, depth: int = 0) -> Any:
    """The tensors inside a batch: in dicts, lists, tuples and objects with attributes, to a small depth."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif depth < 6 and isinstance(batch, (list, tuple)):
        for item in batch[:10000]:
            yield from each_tensor(item, depth + 1)
    elif depth < 6 and hasattr(batch, "values") and callable(batch.values):
        try:
            parts = list(batch.values())
        except Exception:
            return
        for item in parts:
            yield from each_tensor(item, depth + 1)
    elif depth < 6 and hasattr(batch, "__dict__") and not isinstance(batch, type):
        for item in list(vars(batch).values())[:1000]:
            if isinstance(item, (torch.Tensor, list, tuple, dict)):
                yield from each_tensor(item, depth + 1)


def rows_of(batch: Any) -> Optional[int]:
    """Samples in a batch: the first size that most of its tensors share."""
    sizes: Dict[int, int] = {}
    for tensor in each_tensor(batch):
        if tensor.dim():
            sizes[int(tensor.shape[0])] = sizes.get(int(tensor.shape[0]), 0) + 1
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else None


class Loaders:
    """Watches every iteration over a DataLoader. `resize`: a function that changes a batch (used to find the batch size)."""

    def __init__(self, mode: Mode) -> None:
        self.mode, self.world = mode, mode.world
        self.resize: Any = None
        self.token_lengths: set[int] = set()
        self.rows: Dict[int, Dict[str, Any]] = {}

    def install(self) -> None:
        """Watch the iterators, below any subclass of DataLoader."""
        import torch.utils.data.dataloader as module

        base = module._BaseDataLoaderIter
        old_init, old_next = base.__init__, base.__next__
        loaders = self

        def start(self: Any, loader: Any) -> None:
            pinned = bool(getattr(loader, "pin_memory", False))
            self._ongpu_row = loaders.row(loader)
            self._ongpu_pinned = pinned
            if pinned:
                loader.__dict__["pin_memory"] = False  # pinning is a mark here: no thread, no CUDA call
            try:
                old_init(self, loader)
            finally:
                if pinned:
                    loader.__dict__["pin_memory"] = True

        def following(self: Any) -> Any:
            return loaders.following(self, old_next)

        base.__init__, base.__next__ = start, following
        old_made = module.DataLoader.__init__

        @functools.wraps(old_made)
        def made(self: Any, *args: Any, **kwargs: Any) -> None:
            self.__dict__["_ongpu_made"] = loaders.world.where.here()
            old_made(self, *args, **kwargs)

        module.DataLoader.__init__ = made
        sampler = torch.utils.data.distributed.DistributedSampler
        old_epoch = sampler.set_epoch

        def set_epoch(self: Any, epoch: int) -> None:
            for row in loaders.rows.values():
                if row.get("sampler_id") == id(self):
                    row["set_epoch"] = True
            old_epoch(self, epoch)

        sampler.set_epoch = set_epoch

    def row(self, loader: Any) -> Dict[str, Any]:
        """The settings of a loader as the answer holds them."""
        found = self.rows.get(id(loader))
        if found is None:
            sampler = getattr(loader, "sampler", None)
            try:
                length = len(loader.dataset)
            except Exception:
                length = None
            try:
                per_epoch = len(loader)
            except Exception:
                per_epoch = None
            context = getattr(loader, "multiprocessing_context", None)
            method = getattr(context, "_name", None) or torch.multiprocessing.get_start_method()
            found = self.rows[id(loader)] = {
                "place": self._place(loader), "dataset": type(loader.dataset).__name__, "length": length,
                "batch_size": getattr(loader, "batch_size", None), "workers": int(loader.num_workers),
                "pin_memory": bool(loader.pin_memory), "persistent_workers": bool(getattr(loader, "persistent_workers", False)),
                "prefetch_factor": getattr(loader, "prefetch_factor", None), "drop_last": bool(getattr(loader, "drop_last", False)),
                "shuffle": type(sampler).__name__ == "RandomSampler", "sampler": type(sampler).__name__, "sampler_id": id(sampler),
                "context": method, "batches": 0, "seconds": 0.0, "per_epoch": per_epoch, "set_epoch": False, "kept": loader,
            }  # fmt: skip
        return found

    def _place(self, loader: Any) -> Any:
        """The line that makes it, where that is the user's own; else the line that reads it."""
        made = loader.__dict__.get("_ongpu_made")
        own = made is not None and "Loader" in linecache.getline(made[0], made[1])
        return made if own else self.world.where.here()

    def following(self, iterator: Any, old_next: Any) -> Any:
        """The next batch, unless enough were seen."""
        world = self.world
        if os.getpid() != world.pid:
            return old_next(iterator)
        row = iterator._ongpu_row
        if world.enough:
            world.stop("steps")
        if world.batches >= int(world.spec["batches"]):
            world.stop("batches")
        if world.late():
            world.stop("seconds")
        started = time.time()
        batch = old_next(iterator)
        row["seconds"] += time.time() - started
        row["batches"] += 1
        world.batches += 1
        if self.resize is not None:
            batch = self.resize(batch, row)
        if world.batch_size is None:
            world.batch_size = rows_of(batch)
        if len(self.token_lengths) < 20:
            self.token_lengths.update(t.shape[1] for t in each_tensor(batch) if t.dim() == 2 and not t.dtype.is_floating_point)
        if iterator._ongpu_pinned:
            for tensor in each_tensor(batch):
                if pretend.is_pretend(tensor):
                    raise RuntimeError("cannot pin '%s' only dense CPU tensors can be pinned" % words.type_name(tensor))
                tensor._ongpu_pinned = True
        return batch
