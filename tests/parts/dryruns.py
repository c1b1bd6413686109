"""Answers of the dry run as its child writes them, and what the engine says of them."""

import json
from typing import Any

from ongpu.engine import diagnose
from ongpu.hosts.dryrun import evidence
from ongpu.model import Report, Severity

MIB, GIB = 1 << 20, 1 << 30
LOSS = {"file": "/home/me/train.py", "line": 20, "function": "main", "text": "loss.backward()"}
STEP = {"file": "/home/me/train.py", "line": 21, "function": "main", "text": "optimizer.step()"}
CALL = {"file": "/home/me/train.py", "line": 18, "function": "main", "text": "out = model(x)"}


def answer(**changes: Any) -> dict[str, Any]:
    """A healthy run of three steps on a 24 GB card; `changes` replace whole entries."""
    healthy = {
        "schema": 1,
        "outcome": "stopped",
        "error": None,
        "stopped_by": "steps",
        "torch": "2.13.0",
        "script": "/home/me/train.py",
        "seconds": 2.5,
        "card": {"name": "NVIDIA GeForce RTX 4090 24 GB", "total": 24207 * MIB, "capability": [8, 9], "context": 500 * MIB},
        "steps": 3,
        "batches": 4,
        "backwards": 3,
        "batch_size": 32,
        "devices": {
            "ops": {"cuda": 600, "cpu": 40},
            "flop": {"cuda": 9e10, "cpu": 0.0},
            "by_line": [{"place": CALL, "device": "cuda", "ops": 200, "flop": 9e10}],
            "inputs": {"cuda:0": 1 << 20},
            "models": [
                {"class": "Net", "parameters": 10_000_000, "trainable": 10_000_000, "bytes": {"cuda:0": 40_000_000},
                 "dtypes": {"float32": 10_000_000}, "called": 3}
            ],
            "optimizers": [{"class": "AdamW", "parameters": 20, "state_bytes": {"cuda:0": 80_000_000}, "steps": 3, "place": STEP}],
        },
        "memory": memory(),
    }  # fmt: skip
    return {**healthy, **changes}


def memory(**changes: Any) -> dict[str, Any]:
    """The memory of the healthy run."""
    kinds = {"weight": 40 * MIB, "gradient": 40 * MIB, "optimizer_state": 80 * MIB, "activation": 900 * MIB}
    healthy = {
        "capacity": 23707 * MIB,
        "context": 500 * MIB,
        "peak_allocated": 1060 * MIB,
        "peak_reserved": 1200 * MIB,
        "peak_total": 1700 * MIB,
        "at_peak": {
            "by_kind": kinds, "by_line": [{"place": CALL, "kind": "activation", "bytes": 900 * MIB, "count": 30}], "place": LOSS,
            "op": "mm", "phase": "backward", "step": 1,
        },
        "fragmentation": 0.12,
        "steps": [{"allocated_after": 160 * MIB}] * 3,
        "growth": None,
    }  # fmt: skip
    return {**healthy, **changes}


def error(kind: str, message: str, name: str = "RuntimeError", place: dict[str, Any] | None = None) -> dict[str, Any]:
    """An error with its traceback as Python prints it."""
    at = place or CALL
    trace = f'Traceback (most recent call last):\n  File "{at["file"]}", line {at["line"]}, in main\n    {at["text"]}\n{name}: {message}\n'
    return {"type": name, "message": message, "traceback": trace, "place": at, "kind": kind, "exit": None}


def full(phase: str, **kinds: int) -> dict[str, Any]:
    """What changes where the card is full."""
    message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 100.00 MiB is free."
    held = {"by_kind": kinds, "place": CALL, "phase": phase, "by_line": [{"place": CALL, "kind": "activation", "bytes": GIB, "count": 3}]}
    used = sum(kinds.values())
    return {
        "outcome": "error",
        "error": error("oom", message, "torch.OutOfMemoryError"),
        "memory": memory(at_peak=held, peak_allocated=used, peak_reserved=used + 100 * MIB, peak_total=used + 600 * MIB, ooms=1),
    }


def judged(**changes: Any) -> Report:
    """The engine's report on such an answer."""
    return diagnose(evidence(json.dumps(answer(**changes)), "/home/me"), "train.py")


def slugs(**changes: Any) -> list[str]:
    """The errors and warnings in it, the root first."""
    return [f.slug for f in judged(**changes).findings if f.weight > Severity.NOTE]


def notes(**changes: Any) -> list[str]:
    """The notes in it."""
    return [f.slug for f in judged(**changes).findings if f.weight is Severity.NOTE]
