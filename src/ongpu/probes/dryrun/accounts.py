"""The answer: what the run knows, put into the shape that the package's docstring promises."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import pretend, words
from .ledger import Ledger, Record
from .mode import Mode
from .where import Place, told, told_rows

KINDS = ("weight", "buffer", "gradient", "optimizer_state", "activation", "input", "temporary", "workspace", "other")


def kind_of(record: Record) -> str:
    """Whose memory a storage is: told by the hooks where they know, else by when it was made."""
    if record.kind:
        return record.kind
    if record.phase == "forward":
        return "activation"
    if record.phase in ("backward", "optimizer"):
        return "activation" if record.call is not None else "temporary"
    return "other"


def at_peak(ledger: Ledger) -> Dict[str, Any]:
    """The live storages at the highest moment, by kind, line, module; the largest ones."""
    records = ledger.at_peak
    by_kind = dict.fromkeys(KINDS, 0)
    lines: Dict[Tuple[Optional[Place], str], Dict[str, Any]] = {}
    modules: Dict[int, Dict[str, Any]] = {}
    names: Dict[int, str] = {}
    for record in records:
        kind = kind_of(record)
        by_kind[kind] += record.size
        row = lines.setdefault((record.place, kind), {"place": record.place, "kind": kind, "bytes": 0, "count": 0})
        row["bytes"] += record.size
        row["count"] += 1
        module = record.call.module() if record.call is not None else None
        if module is not None and kind == "activation":
            name = names.get(id(module)) or names.setdefault(id(module), _name(record.call))
            found = modules.setdefault(id(module), {"module": name, "class": type(module).__name__, "bytes": 0})
            found["bytes"] += record.size
    largest = sorted(records, key=lambda r: -r.size)[:10]
    what = ledger.peak_what
    return {
        "by_kind": by_kind,
        "by_line": told_rows(lines, 10, "bytes"),
        "by_module": sorted(modules.values(), key=lambda row: -int(row["bytes"]))[:10],
        "largest": [
            {"bytes": r.size, "shape": list(r.shape), "dtype": str(r.dtype).replace("torch.", ""), "op": r.op, "kind": kind_of(r),
             "place": told(r.place)}
            for r in largest
        ],
        "place": told(what.get("place")), "op": what.get("op"), "phase": what.get("phase"), "step": what.get("step"),
    }  # fmt: skip


def _name(call: Any) -> str:
    """A module's dotted name inside the outermost module that was called."""
    module, top = call.module(), call
    while top.parent is not None:
        top = top.parent
    root = top.module()
    if root is None or module is None:
        return ""
    for name, child in root.named_modules():
        if child is module:
            return str(name)
    return ""


def memory_of(mode: Mode, ledger: Ledger) -> Dict[str, Any]:
    """One card's memory."""
    world, memory = mode.world, ledger.memory
    ledger.close_window()
    growth, by_line = grown(ledger)
    context = int(world.card["context"])
    oom = world.oom if world.oom is not None and world.oom["device"] == ledger.index else None
    return {
        "capacity": world.capacity, "context": context,
        "workspace": sum(r.size for r in ledger.live.values() if r.kind == "workspace"),
        "peak_allocated": ledger.peak, "peak_reserved": memory.peak_reserved, "peak_requested": memory.peak_requested,
        "peak_total": memory.peak_reserved + context, "at_peak": at_peak(ledger),
        "fragmentation": round(1 - ledger.peak / memory.peak_reserved, 4) if memory.peak_reserved else 0.0,
        "steps": ledger.steps, "growth": growth, "growth_by_line": by_line, "ooms": memory.ooms, "retries": memory.retries,
        "oom": None if oom is None else {
            "message": oom["message"], "asked": oom["asked"], "place": told(oom["place"]), "op": oom["op"], "phase": oom["phase"],
            "step": oom["step"], "allocated": oom["allocated"], "reserved": oom["reserved"],
        },
        "empty_cache_calls": told_rows(world.tables.get("empty_cache", {}), 10, "count"),
        "expandable_segments": world.settings.expandable,
    }  # fmt: skip


def grown(ledger: Ledger) -> Tuple[Optional[int], List[Dict[str, Any]]]:
    """Bytes by which memory grew at every step after the first two (which make state and caches), and the lines that hold them."""
    after = [step["requested_after"] for step in ledger.steps][1:]
    gains = [b - a for a, b in zip(after, after[1:])]  # noqa: RUF007 - pairwise() is newer than the user's Python
    if len(gains) < 2 or min(gains) <= 0 or len(ledger.after_steps) < 2:
        return None, []
    old, new = ledger.after_steps[-2], ledger.after_steps[-1]
    rows = {
        place: {"place": place, "bytes": size - old.get(place, (0, 0))[0], "count": count - old.get(place, (0, 0))[1]}
        for place, (size, count) in new.items()
        if size > old.get(place, (0, 0))[0]
    }
    return min(gains), told_rows(rows, 10, "bytes")


def by_device(tensors: Any) -> Dict[str, int]:
    """Bytes of tensors by device."""
    sizes: Dict[str, int] = {}
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and not isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            name = words.device_of(tensor)
            sizes[name] = sizes.get(name, 0) + tensor.numel() * tensor.element_size()
    return sizes


def described(module: Any, deep: bool) -> Dict[str, Any]:
    """A model in numbers."""
    parameters = list(module.parameters())
    dtypes: Dict[str, int] = {}
    for p in parameters:
        name = str(p.dtype).replace("torch.", "")
        dtypes[name] = dtypes.get(name, 0) + 1
    row: Dict[str, Any] = {
        "class": type(module).__name__, "parameters": sum(_count(p) for p in parameters),
        "trainable": sum(_count(p) for p in parameters if p.requires_grad), "bytes": by_device(parameters), "dtypes": dtypes,
    }  # fmt: skip
    if deep:
        row["children"] = [dict(described(child, False), name=name) for name, child in list(module.named_children())[:40]]
    return row


def _count(parameter: Any) -> int:
    return 0 if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin) else int(parameter.numel())


def owners_of(watch: Any) -> Dict[str, Any]:
    """Where models, gradients and optimizer states sit now."""
    rows_alive = [(row, row["module"]()) for row in watch.models.values()]
    alive = [(row, m) for row, m in rows_alive if m is not None]
    parameters = {id(p): p for _, m in alive for p in m.parameters()}
    buffers = {id(b): b for _, m in alive for b in m.buffers()}
    states: List[Any] = []
    rows: List[Dict[str, Any]] = []
    for row in watch.optimizers.values():
        optimizer = row["optimizer"]()
        if optimizer is None:
            continue
        mine = [v for s in optimizer.state.values() if isinstance(s, dict) for v in s.values() if isinstance(v, torch.Tensor)]
        for group in optimizer.param_groups:
            parameters.update({id(p): p for p in group["params"]})
        states.extend(mine)
        rows.append(
            {"class": row["class"], "parameters": sum(len(g["params"]) for g in optimizer.param_groups), "state_bytes": by_device(mine),
             "foreach": row["foreach"], "fused": row["fused"], "set_to_none": row["set_to_none"], "steps": row["steps"],
             "place": told(row["place"])}
        )  # fmt: skip
    return {
        "parameters": by_device(parameters.values()), "buffers": by_device(buffers.values()),
        "gradients": by_device(p.grad for p in parameters.values() if p.grad is not None), "optimizer_state": by_device(states),
        "models": [dict(described(m, True), called=row["called"]) for row, m in alive], "optimizers": rows,
    }  # fmt: skip


def devices_of(mode: Mode, watch: Any) -> Dict[str, Any]:
    """Work by device and line, and where everything sat: now, or when it was last looked at, whichever saw more."""
    world = mode.world
    work = sorted(world.work.values(), key=lambda row: -float(row["flop"]))[:10]
    owners = owners_of(watch)
    seen = watch.seen
    if seen is not None:
        for key in ("parameters", "buffers", "gradients", "optimizer_state", "models", "optimizers"):
            if len(owners[key]) < len(seen[key]) or (key == "gradients" and not owners[key]):
                owners[key] = seen[key]
    steps = {row["class"]: row["steps"] for row in watch.optimizers.values()}
    for row in owners["optimizers"]:
        row["steps"] = steps.get(row["class"], row["steps"])
    return dict(
        owners, ops=dict(world.ops), flop=dict(world.flop), by_line=[dict(row, place=told(row["place"])) for row in work],
        inputs=dict(watch.inputs),
    )  # fmt: skip


def accumulation_of(mode: Mode, watch: Any, outcome: str) -> Dict[str, Any]:
    """Gradient accumulation as it ran."""
    windows = [dict(w, step_place=told(w["step_place"]), backward_place=told(w["backward_place"])) for w in watch.windows[:20]]
    counts = {w["backwards"] for w in watch.windows}
    scaled = {w["scaled"] for w in watch.windows if w["scaled"] is not None}
    ended = outcome == "finished" and bool(watch.windows)
    return {
        "windows": windows, "every": max(counts) if counts else None, "dropped": len(watch.window) if ended else None,
        "loader_batches": mode.world.batches, "scaled": None if not scaled else scaled == {True},
    }  # fmt: skip


def answer(mode: Mode, watch: Any, loaders: Any, outcome: str, error: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """The whole JSON object."""
    world = mode.world
    steps = max(1, world.steps)
    tables = world.tables

    def rows(name: str, by: str = "count", most: int = 50) -> List[Dict[str, Any]]:
        found = told_rows(tables.get(name, {}), most, by)
        for row in found:
            if name in ("syncs", "copies"):
                row["per_step"] = round(row["count"] / steps, 2)
        return found

    kept = [
        dict({k: v for k, v in row.items() if k not in ("kept", "sampler_id")}, place=told(row["place"]), seconds=round(row["seconds"], 3))
        for row in loaders.rows.values()
    ]
    memory = memory_of(mode, world.cards[0])
    others = {"cuda:%d" % c.index: memory_of(mode, c) for c in world.cards[1:] if c.peak}
    memory["others"] = others
    if world.ops["cuda"] == 0 and outcome in ("finished", "stopped", "timeout"):
        world.note("gpu-never-used", "no operation ran on the GPU")
    return {
        "schema": 1, "outcome": outcome, "error": error, "stopped_by": world.stopped_by, "torch": str(torch.__version__),
        "python": platform.python_version(), "platform": sys.platform, "script": world.where.script, "mode": world.spec["mode"],
        "seconds": round(time.time() - world.started, 3), "started_seconds": round(world.calls.pop("started_seconds", 0.0), 3),
        "card": dict(world.card), "steps": world.steps, "batches": world.batches, "backwards": world.backwards,
        "batch_size": world.batch_size, "devices": devices_of(mode, watch), "memory": memory, "syncs": rows("syncs"),
        "copies": rows("copies", "bytes"), "loaders": kept,
        "accumulation": accumulation_of(mode, watch, outcome), "indices": rows("indices"), "forked": rows("forked"),
        "assumptions": rows("assumptions"), "unsupported": rows("unsupported"), "notes": rows("notes"), "files": rows("files"),
        "calls": {k: [str(v).replace("torch.", "") for v in c] if isinstance(c, list) else c for k, c in world.calls.items()},
        "batch": None, "savings": [], "ranks": None, "mismatches": [], "pid": os.getpid(),
    }  # fmt: skip


__all__ = ["answer", "at_peak", "kind_of", "memory_of", "pretend"]
