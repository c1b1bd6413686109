"""Memory that libraries take for themselves inside PyTorch's allocator: cuBLAS's as long as the process lives, cuDNN's for a call.

PyTorch gives each cuBLAS handle (one for each thread that computes: the script's and autograd's) a workspace of 4096 KiB x 2 +
16 KiB x 8 = 8.125 MiB, on Hopper 32 MiB (aten/src/ATen/cuda/CublasHandlePool.cpp; CUBLAS_WORKSPACE_CONFIG changes it).

cuDNN's workspace depends on the algorithm that it chooses, and no table of that is public. What shows in measured peaks is the
gradient of the weights on tensor cores: they want channels last, so a call with channels first rewrites its input and its
incoming gradient, and takes about twice their bytes: ungrouped convolutions larger than 1 x 1 with at least 64 output channels do. Two
numbers for all, read off a few rows of fp32 training on an A100; nothing by model.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Tuple

import torch

from . import allocator
from .pretend import C
from .state import World

REWRITTEN = 2  # bytes of workspace for each byte of input and incoming gradient
TILE = 64  # output channels from which that shows
MATRIX = {"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "_int_mm", "_scaled_mm", "linear", "addbmm", "_addmm_activation"}


def cublas_bytes(card: Dict[str, Any]) -> int:
    """Bytes of one cuBLAS workspace on that card."""
    if card.get("workspace") is not None:
        return int(card["workspace"])
    told = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    parts = [p for p in told.split(":") if p]
    if parts and len(parts) % 2 == 0 and all(p.isdigit() for p in parts):
        return sum(int(size) * int(count) * 1024 for size, count in zip(parts[::2], parts[1::2]))
    wide = (9, 10, 11, 12) if _torch() >= (2, 12) else (9,)  # pytorch#175344
    return 4096 * 8 * 1024 if int(card["capability"][0]) in wide else 4096 * 1024 * 2 + 16 * 1024 * 8


def _torch() -> Tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())


def before(world: World, short: str, args: Any, card: int) -> None:
    """Called before each operation on a card: the first matrix product of a thread takes that thread's workspace."""
    if short not in MATRIX:
        return
    key = (card, C._current_graph_task_id() != -1)
    if key in world.workspaces:
        return
    world.workspaces.add(key)
    keep(world, card, cublas_bytes(world.card), "cublas")


def convolution(world: World, short: str, args: Any, card: int) -> None:
    """Called after a convolution's gradients have their memory: the workspace of the weights' gradient, for this call only."""
    if short != "convolution_backward" or not args[10][1]:
        return
    grad, source, weight, groups = args[0], args[1], args[2], args[9]
    if groups > 1 or weight.shape[0] < TILE or weight.shape[2:].numel() == 1:  # other kernels; of 1 x 1 they are matrix products
        return
    if not _on_tensor_cores(grad, world.card) or _channels_last(source) or _channels_last(grad):
        return
    with contextlib.suppress(allocator.OutOfMemory):  # then cuDNN is asked for its next algorithm, which needs less
        world.cards[card].passing(REWRITTEN * sum(t.numel() * t.element_size() for t in (source, grad)))


def _on_tensor_cores(tensor: Any, card: Dict[str, Any]) -> bool:
    if tensor.dtype is torch.float32:
        return int(card["capability"][0]) >= 8 and torch.backends.cudnn.allow_tf32
    return int(card["capability"][0]) >= 7 and tensor.dtype in (torch.float16, torch.bfloat16)


def _channels_last(tensor: Any) -> bool:
    return bool(tensor.dim() > 2 and tensor.shape[1] > 1 and tensor.stride(1) == 1)


def keep(world: World, card: int, size: int, op: str) -> None:
    """A workspace that stays until the process ends."""
    from .ledger import Record

    if size <= 0:
        return
    ledger = world.cards[card]
    record = Record(size, card)
    record.kind, record.op = "workspace", op
    storage = type("Workspace", (), {})()
    world.kept.append(storage)
    ledger.born(record, -len(world.kept), storage)
