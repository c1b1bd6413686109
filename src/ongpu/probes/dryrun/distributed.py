"""torch.distributed of one rank, without other processes: a fake process group, every collective noted as it is called.

Values are as if all ranks held the same as this one. The launch mode runs one process for each rank and compares the notes.
"""

from __future__ import annotations

import os
import types
from typing import Any, Dict, List

import torch

from . import pretend
from .mode import Mode
from .operation import Operation
from .words import device_of

MOST = 20000  # collectives kept for the comparison of ranks
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def collective(mode: Mode, operation: Operation, args: Any, kwargs: Dict[str, Any]) -> Any:
    """An operator of the namespace c10d: noted, then run on empty CPU tensors for its Work object; the script's tensors come back."""
    tensors: List[Any] = []
    plain = [_swapped(a, tensors) for a in args]
    _note(mode, operation, args, tensors)
    if not any(pretend.is_pretend(t) for t in tensors):
        return operation.func(*args, **kwargs)
    mode.world.ops["cuda"] += 1
    for tensor in operation.written(args, kwargs):
        record = mode.record_of(tensor)
        if record is not None and operation.short not in ("allreduce_", "broadcast_"):
            record.twin = record.low = record.high = record.guess = None
    if operation.short in ("allgather_", "_allgather_base_"):
        _gathered(mode, operation.short, args)
    out = operation.func(*plain, **{k: _swapped(v, []) for k, v in kwargs.items()})
    if isinstance(out, (tuple, list)) and len(out) == 2:
        return args[0], out[1]
    return out


def _gathered(mode: Mode, short: str, args: Any) -> None:
    """Every rank is taken to hold what this one holds."""
    from . import shadows

    pairs = [(args[0], args[1])] if short == "_allgather_base_" else [(out, args[1][0]) for out in args[0][0]]
    for out, source in pairs:
        value = mode.twin_of(source) if pretend.is_pretend(source) else source
        record = mode.record_of(out)
        if value is not None and record is not None and shadows.may_keep(out.dtype, out.numel()):
            shadows.give(record, out, value.reshape(-1).repeat(out.numel() // max(1, value.numel())).reshape(tuple(out.shape)))


def _swapped(value: Any, found: List[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        found.append(value)
        return torch.empty(0) if pretend.is_pretend(value) else value
    if isinstance(value, (list, tuple)):
        return [_swapped(v, found) for v in value]
    return value


def _note(mode: Mode, operation: Operation, args: Any, tensors: List[Any]) -> None:
    world = mode.world
    if len(world.collectives) >= MOST:
        return
    first = tensors[0] if tensors else None
    size = None
    for value in args:
        if hasattr(value, "_type") and "ProcessGroup" in str(value._type()):
            try:
                size = torch.distributed.ProcessGroup.unbox(value).size()
            except Exception:
                size = None
    world.collectives.append(
        {
            "op": operation.short.strip("_"), "place": world.where.here(3),
            "shape": [list(t.shape) for t in tensors[:4]] if first is not None else [], "count": len(tensors),
            "dtype": str(first.dtype).replace("torch.", "") if first is not None else None,
            "device": device_of(first) if first is not None else "cpu", "group": size,
        }
    )  # fmt: skip


def install(mode: Mode) -> None:
    """Process groups of any backend become fake ones."""
    if not torch.distributed.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    dist, world = torch.distributed, mode.world
    told = {"backend": "nccl"}
    old_init, old_group, old_backend = c10d.init_process_group, c10d.new_group, c10d.get_backend

    def init(
        backend: Any = None, init_method: Any = None, timeout: Any = None, world_size: int = -1, rank: int = -1, store: Any = None,
        group_name: str = "", pg_options: Any = None, device_id: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        if (init_method is None or str(init_method).startswith("env://")) and store is None:
            for name in NEEDED:
                given = {"RANK": rank, "WORLD_SIZE": world_size}.get(name, -1)
                if name not in os.environ and given == -1:
                    raise ValueError(
                        "Error initializing torch.distributed using env:// rendezvous: environment variable %s expected, but not set" % name
                    )
        rank = rank if rank >= 0 else int(os.environ.get("RANK", 0))
        world_size = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", 1))
        told["backend"] = str(backend or "nccl").split(":")[-1]
        from torch.testing._internal.distributed.fake_pg import FakeStore

        old_init("fake", store=FakeStore(), rank=rank, world_size=world_size)
        world.calls["process_group"] = {"backend": str(backend), "rank": rank, "world_size": world_size, "place": None}
        if world_size > 1 and world.spec.get("rank_of") is None:
            world.note("ranks-not-run", "only rank %d of %d was followed" % (rank, world_size), world.where.here())

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, pg_options: Any = None, **more: Any) -> Any:
        return old_group(ranks, backend="fake" if backend is not None else None, **{k: v for k, v in more.items() if k != "device_id"})

    def get_backend(group: Any = None) -> str:
        old_backend(group)
        return told["backend"]

    for name, answer in (("init_process_group", init), ("new_group", new_group), ("get_backend", get_backend)):
        setattr(c10d, name, answer)
        setattr(dist, name, answer)
    _data_parallel(mode)
    dist.is_nccl_available = c10d.is_nccl_available = lambda: True
    for name in ("ProcessGroupNCCL", "ProcessGroupCudaP2P"):  # a CPU wheel lacks them, and c10d asks for their instances
        if not hasattr(c10d, name):
            setattr(c10d, name, type(name, (), {"Options": Options}))
    if not hasattr(dist, "ProcessGroupNCCL"):
        dist.ProcessGroupNCCL = c10d.ProcessGroupNCCL


class Options:
    """What a script sets for its NCCL groups; nothing of it is simulated."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.config = types.SimpleNamespace()


def _data_parallel(mode: Mode) -> None:
    """DistributedDataParallel: its C++ reducer wants a result from the all-reduce, which a fake group does not give: a hook does."""
    parallel = torch.nn.parallel.DistributedDataParallel
    old_init = parallel.__init__

    def all_reduce(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        _row(mode, "allreduce", buffer, 1, state)
        done = torch.futures.Future()
        done.set_result(buffer)
        return done

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        old_init(self, *args, **kwargs)
        torch.distributed._register_comm_hook(self.reducer, self.process_group.size(), all_reduce)

    def register(self: Any, state: Any, hook: Any) -> None:
        mode.world.note("comm-hook-skipped", "the communication hook of DistributedDataParallel is not run", mode.world.where.here())

    parallel.__init__ = init
    parallel.register_comm_hook = register


def _row(mode: Mode, op: str, tensor: Any, count: int, group: Any) -> None:
    world = mode.world
    if len(world.collectives) < MOST:
        world.collectives.append(
            {"op": op, "place": world.where.here(3), "shape": [list(tensor.shape)], "count": count,
             "dtype": str(tensor.dtype).replace("torch.", ""), "device": device_of(tensor), "group": group}
        )  # fmt: skip
