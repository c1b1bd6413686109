"""The digest of a snapshot of PyTorch's CUDA allocator (`hosts/traces/memory.py`)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ongpu.facts.profile import Allocations, Held, Owner, Refusal
from ongpu.model import Evidence, Fact, Ref, Source
from ongpu.sources.profile import number, rows, whole


@dataclass
class _Held:
    """What the lines tell of one GPU, gathered."""

    row: dict[str, Any]
    ref: Ref
    peak: tuple[dict[str, Any], Ref] | None = None
    growth: tuple[dict[str, Any], Ref] | None = None
    owners: list[Owner] = field(default_factory=list)
    kept: list[Owner] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def read(evidence: Evidence) -> Iterable[Fact]:
    """What the allocator held on each GPU."""
    held: dict[int, _Held] = {}
    first: Ref | None = None
    for row, ref in rows(evidence):
        index = next((i for i in (whole(row, key) for key in ("memory", "peak", "oom", "growth", "gpu")) if i is not None), None)
        if "snapshot" in row:
            first = ref
        elif index is not None and "memory" in row:
            held.setdefault(index, _Held(row, ref))
        elif index in held:
            _add(held[index], row, ref)
    if first is not None:
        yield Allocations(gpus=tuple(_told(index, one) for index, one in held.items()), refs=(first, *(one.ref for one in held.values()))[:6])


def _add(held: _Held, row: dict[str, Any], ref: Ref) -> None:
    if "peak" in row:
        held.peak = row, ref
    elif "growth" in row:
        held.growth = row, ref
    elif "oom" in row:
        where = row.get("where")
        held.refusals.append(
            Refusal(
                whole(row, "bytes") or 0, ref, whole(row, "device_free"), whole(row, "reserved"), whole(row, "allocated"),
                whole(row, "largest_idle"), where if isinstance(where, str) else None,
            )
        )
    elif "owner" in row:
        held.owners.append(Owner(str(row["owner"])[:200], whole(row, "bytes") or 0, whole(row, "blocks") or 0, ref))
    elif "kept" in row:
        held.kept.append(Owner(str(row["kept"])[:200], whole(row, "bytes") or 0, whole(row, "blocks") or 0, ref))


def _told(index: int, held: _Held) -> Held:
    row = held.row
    peak, peak_ref = held.peak or ({}, None)
    growth, growth_ref = held.growth or ({}, None)
    lowest = growth.get("lowest")
    size = {key: int(number(row, key)) for key in ("reserved", "allocated", "requested", "idle", "largest_idle", "segments")}
    return Held(
        index=index, **size, ref=held.ref, expandable=row.get("expandable") is True, peak=int(number(peak, "bytes")), peak_ref=peak_ref, entries=int(number(peak, "entries")),
        owners=tuple(held.owners), kept=tuple(held.kept), growth_ref=growth_ref, refusals=tuple(held.refusals),
        lowest=tuple(size for size in lowest if isinstance(size, int)) if isinstance(lowest, list) else (),
    )


SOURCES = (
    Source(
        kind="memory_snapshot", read=read, looks_like=lambda evidence: evidence.text.startswith('{"snapshot": 1'), gives=(Allocations,),
        settle='python -c \'import torch; torch.cuda.memory._dump_snapshot("snapshot.pickle")\'',
    ),
)
