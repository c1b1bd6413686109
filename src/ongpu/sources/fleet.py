"""What `watch/fleet.py` gathered of many machines: one JSON object a line for each node."""

import json
from collections.abc import Iterable
from typing import Any

from ongpu.facts.fleet import Fault, Fleet, Node
from ongpu.model import Evidence, Fact, Ref, Source


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _fault(row: dict[str, Any]) -> Fault:
    severity = row.get("severity")
    return Fault(
        slug=_str(row.get("slug")) or "?", gpu=_int(row.get("gpu")), title=_str(row.get("title")) or "",
        severity=severity if severity in ("error", "warning", "note") else "error",
    )  # fmt: skip


def _words(row: dict[str, Any], faults: tuple[Fault, ...]) -> str:
    """What a reader sees of a node."""
    if row.get("answered") is not True:
        return f"{row.get('name')}: no answer ({row.get('problem') or '?'})"
    seen, want = row.get("present"), row.get("expected")
    count = f"{'?' if seen is None else seen}{'' if want is None else f' of {want}'} GPUs"
    told = ", ".join(dict.fromkeys(f"{f.slug}{'' if f.gpu is None else f' (GPU {f.gpu})'}" for f in faults))
    driver = f"driver {row['driver']}" if row.get("driver") else ""
    return f"{row.get('name')}: " + ", ".join(filter(None, (count, told, driver)))


def _node(row: dict[str, Any], evidence: Evidence, number: int) -> Node:
    faults = tuple(_fault(fault) for fault in _list(row.get("faults"))[:100] if isinstance(fault, dict))
    return Node(
        name=_str(row.get("name")) or "?", answered=row.get("answered") is True, problem=_str(row.get("problem")) or "",
        expected=_int(row.get("expected")), present=_int(row.get("present")), lost=tuple(n for n in _list(row.get("lost")) if _int(n) is not None),
        model=_str(row.get("model")), driver=_str(row.get("driver")), kernel=_str(row.get("kernel")), busy=_float(row.get("busy")),
        hottest=_int(row.get("hottest")), idle_hours=_float(row.get("idle_hours")), faults=faults,
        ref=Ref(evidence.origin, number, _words(row, faults)),
    )  # fmt: skip


def read(evidence: Evidence) -> Iterable[Fact]:
    nodes = []
    for number, line in evidence.lines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            nodes.append(_node(row, evidence, number))
    yield Fleet(nodes=tuple(nodes), refs=tuple(node.ref for node in nodes[:12]))


SOURCES = (Source(kind="fleet", read=read, looks_like=lambda evidence: False, gives=(Fleet,), settle="ongpu fleet"),)
