"""The digest of a timeline that a profiler wrote (`hosts/traces/digest.py`): Kineto, JAX, TensorFlow, Nsight Systems."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ongpu.facts.profile import Card, GpuTime, Kernels, Profile, SyncPoint, Wait
from ongpu.model import Evidence, Fact, Ref, Source

MAX_LINES = 20_000
_NO_ROOM = 200  # characters of a name


@dataclass
class _Gpu:
    """What the lines tell of one GPU, gathered."""

    row: dict[str, Any]
    ref: Ref
    waits: list[Wait] = field(default_factory=list)
    families: list[Kernels] = field(default_factory=list)
    longest: list[Kernels] = field(default_factory=list)
    copies: list[Kernels] = field(default_factory=list)
    syncs: list[SyncPoint] = field(default_factory=list)
    loading: tuple[dict[str, Any], Ref] | None = None


def number(row: dict[str, Any], key: str) -> float:
    """A number of a row; 0 where it has none."""
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18 else 0.0


def whole(row: dict[str, Any], key: str) -> int | None:
    """A whole number of a row."""
    value = row.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def rows(evidence: Evidence) -> Iterable[tuple[dict[str, Any], Ref]]:
    """The objects of the digest, one a line."""
    for count, (place, line) in enumerate(evidence.lines()):
        if count > MAX_LINES or not line.startswith("{"):
            continue
        try:
            row = json.loads(line[:8000])
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row, evidence.ref(place, line)


def read(evidence: Evidence) -> Iterable[Fact]:
    """What the timeline shows of each GPU."""
    head: dict[str, Any] = {}
    first: Ref | None = None
    cards: list[Card] = []
    gpus: dict[int, _Gpu] = {}
    for row, ref in rows(evidence):
        index = whole(row, "gpu")
        if "profile" in row:
            head, first = row, ref
        elif "card" in row:
            capability = row.get("capability")
            cards.append(Card(str(row["card"]), whole(row, "index"), whole(row, "bytes"), capability if isinstance(capability, str) else None))
        elif index is not None and "span_ms" in row:
            gpus.setdefault(index, _Gpu(row, ref))
        elif index in gpus:
            _add(gpus[index], row, ref)
    if first is None:
        return
    origin = evidence.origin
    told = tuple(_time(origin, index, gpu, head, cards) for index, gpu in gpus.items())
    yield Profile(
        gpus=told, tools=(str(head.get("tool")),), without_gpu=() if told else (first,), refs=(first, *(gpu.ref for gpu in told))[:8]
    )


def _add(gpu: _Gpu, row: dict[str, Any], ref: Ref) -> None:
    spent, count = number(row, "ms"), int(number(row, "kernels") or number(row, "count"))
    if "idle" in row:
        gpu.waits.append(Wait(str(row["idle"]), spent, number(row, "percent"), int(number(row, "gaps")), number(row, "longest_ms"), ref))
    elif "family" in row:
        gpu.families.append(Kernels(str(row["family"]), spent, count, ref, str(row.get("example", ""))[:_NO_ROOM]))
    elif "kernel" in row:
        gpu.longest.append(Kernels(str(row["kernel"])[:_NO_ROOM], spent, count, ref))
    elif "copy" in row:
        gpu.copies.append(Kernels(str(row["copy"])[:_NO_ROOM], spent, count, ref))
    elif "sync" in row:
        where = row.get("where")
        gpu.syncs.append(SyncPoint(str(row["sync"]), int(number(row, "calls")), spent, ref, where if isinstance(where, str) else None))
    elif "loading" in row:
        gpu.loading = row, ref


def _time(origin: str, index: int, gpu: _Gpu, head: dict[str, Any], cards: list[Card]) -> GpuTime:
    row = gpu.row
    loading, loading_ref = gpu.loading or (None, None)
    return GpuTime(
        trace=origin, index=index, span=number(row, "span_ms"), kernel_span=number(row, "kernel_span_ms"), busy=number(row, "busy_ms"),
        compute=number(row, "compute_ms"), copy_alone=number(row, "copy_alone_ms"), collective=number(row, "collective_ms"),
        collective_alone=number(row, "collective_alone_ms"), kernels=int(number(row, "kernels")), small=int(number(row, "small")), ref=gpu.ref,
        rank=str(head["rank"])[:20] if head.get("rank") is not None else None, step=number(row, "step_ms") or None, steps=whole(head, "steps"), host=head.get("host") is not False,
        waits=tuple(gpu.waits), families=tuple(gpu.families), longest=tuple(gpu.longest), copies=tuple(gpu.copies), syncs=tuple(gpu.syncs),
        loading=number(loading, "ms") if loading else None, loading_at_most=number(loading, "at_most_percent") if loading else None,
        loading_ref=loading_ref, card=next((c for c in cards if c.index == index), cards[0] if len(cards) == 1 else None),
    )


SOURCES = (
    Source(kind="profile", read=read, looks_like=lambda evidence: evidence.text.startswith('{"profile": 1'), gives=(Profile,)),
)
