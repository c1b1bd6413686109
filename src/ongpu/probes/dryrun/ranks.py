"""The ranks of a torchrun job: one process for each, on cards of its own, none talking to another; then their collectives compared.

Standard library only: the parent never imports torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

MOST_MISMATCHES = 10
GRACE = 30.0  # seconds beyond the soft limit, for imports and the writing of the answer


def launch(spec: Dict[str, Any], arguments: List[str], here: str) -> Dict[str, Any]:
    """Run every rank, two at a time, and join their answers: that of rank 0, with `ranks` and `mismatches`."""
    count = int(spec["launch"])
    with tempfile.TemporaryDirectory(prefix="ongpu-ranks-") as folder:
        waiting = list(range(count))
        running: Dict[int, Any] = {}
        width = max(1, min(os.cpu_count() or 1, 4))
        each = max(10.0, float(spec.get("seconds") or 120.0) / -(-count // width))  # the whole launch keeps the limit
        spec = dict(spec, seconds=each)
        limit = each + GRACE
        while waiting or running:
            while waiting and len(running) < width:
                rank = waiting.pop(0)
                running[rank] = (_start(spec, arguments, here, folder, rank, count), time.time())
            for rank, (process, since) in list(running.items()):
                if process.poll() is not None:
                    del running[rank]
                elif time.time() - since > limit:
                    process.kill()
                    process.wait()
                    del running[rank]
            time.sleep(0.05)
        answers = [_read(os.path.join(folder, "answer%d.json" % rank)) for rank in range(count)]
    return joined(answers)


def _start(spec: Dict[str, Any], arguments: List[str], here: str, folder: str, rank: int, count: int) -> Any:
    mine = dict(spec, launch=0, rank_of=rank, answer=os.path.join(folder, "answer%d.json" % rank))
    mine["devices"] = max(int(spec.get("devices") or 1), count)
    mine["env"] = dict(
        spec.get("env") or {}, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count), GROUP_RANK="0",
        ROLE_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", TORCHELASTIC_RUN_ID="ongpu", TORCHELASTIC_RESTART_COUNT="0",
    )  # fmt: skip
    path = os.path.join(folder, "spec%d.json" % rank)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(mine, stream)
    quiet = None if rank == 0 else subprocess.DEVNULL
    return subprocess.Popen([sys.executable, here, path, *arguments], stdout=quiet, stderr=quiet, stdin=subprocess.DEVNULL)


def _read(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def joined(answers: List[Optional[Dict[str, Any]]]) -> Dict[str, Any]:
    """Rank 0's answer with what the others did."""
    first = answers[0] if answers and answers[0] is not None else {"schema": 1, "outcome": "crashed", "error": None}
    sequences: Dict[int, List[Dict[str, Any]]] = {}
    rows: List[Dict[str, Any]] = []
    for rank, found in enumerate(answers):
        if found is None:
            rows.append({"rank": rank, "local_rank": rank, "device": None, "devices": [], "outcome": "timeout", "error": None,
                         "peak_reserved": None, "collectives": [], "steps": None})  # fmt: skip
            continue
        mine = found.pop("collectives", None) or []
        sequences[rank] = mine
        rows.append(_row(rank, found, mine))
    result = dict(first, ranks=rows, mismatches=mismatches(sequences, rows))
    bad = next((row for row in rows if row["outcome"] in ("error", "crashed", "unsupported", "timeout")), None)
    if bad is not None and result.get("outcome") in ("finished", "stopped"):
        result["outcome"], result["error"] = bad["outcome"], bad["error"]
    return result


def _row(rank: int, found: Dict[str, Any], sequence: List[Dict[str, Any]]) -> Dict[str, Any]:
    memory = found.get("memory") or {}
    peaks = {"cuda:0": memory.get("peak_allocated") or 0}
    reserved = {"cuda:0": memory.get("peak_reserved") or 0}
    for name, other in (memory.get("others") or {}).items():
        peaks[name], reserved[name] = other.get("peak_allocated") or 0, other.get("peak_reserved") or 0
    used = [name for name, size in peaks.items() if size]
    device = max(used, key=lambda name: peaks[name]) if used else None
    counts: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
    for call in sequence:
        place = call.get("place") or {}
        key = (call["op"], str(call["shape"]), call["dtype"], place.get("file"), place.get("line"))
        row = counts.setdefault(key, dict(call, count=0))
        row["count"] += 1
    return {
        "rank": rank, "local_rank": rank, "device": device, "devices": sorted(used), "outcome": found.get("outcome"),
        "error": found.get("error"), "peak_reserved": reserved[device] if device else 0,
        "collectives": sorted(counts.values(), key=lambda r: -int(r["count"]))[:20], "steps": found.get("steps"),
        "stopped_by": found.get("stopped_by"), "loaders": found.get("loaders"),
    }  # fmt: skip


def mismatches(sequences: Dict[int, List[Dict[str, Any]]], rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The first collectives, in order, that not all ranks call alike: the job would hang or fail there."""
    world = len(rows)
    whole = {
        rank: [c for c in calls if c.get("group") in (None, world) and c["op"] not in ("send", "recv")] for rank, calls in sequences.items()
    }
    if len(whole) < 2:
        return []
    ended = {row["rank"]: row["outcome"] in ("finished", "stopped") and row.get("stopped_by") in (None, "steps") for row in rows}
    found: List[Dict[str, Any]] = []
    for index in range(max(len(calls) for calls in whole.values())):
        here: Dict[int, Optional[Dict[str, Any]]] = {}
        for rank, calls in whole.items():
            if index < len(calls):
                here[rank] = {k: calls[index][k] for k in ("op", "shape", "dtype", "place")}
            elif ended.get(rank):
                here[rank] = None
        kinds = {None if c is None else (c["op"], str(c["shape"]), c["dtype"]) for c in here.values()}
        if len(kinds) > 1:
            found.append({"index": index, "ranks": {str(rank): call for rank, call in here.items()}})
            break  # what follows the first difference is its consequence
    return found[:MOST_MISMATCHES]
