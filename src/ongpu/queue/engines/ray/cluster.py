"""What a Ray cluster tells of its nodes and GPUs, from the answers of its dashboard. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ongpu.lazy import dataclass, field
from ongpu.queue.answers import at, rows
from ongpu.queue.job import ENDING, RUNNING, Card, Told

FIT = "ongpu_fit"  # a node resource: so many GPUs passed `ongpu gate` when the node was started (ongpu gate install ray)
KEPT = "ongpu_kept:"  # and one such for each GPU that did not, with its UUID and the slug
TYPE_LABEL = "ray.io/accelerator-type"
NODES = "/api/v0/nodes?detail=1&limit=10000"  # names of resources and labels as they are; the summary writes them in another way
SUMMARY = "/nodes?view=summary"  # what its agents measure: GPUs by name, memory, use
STATUS = "/api/cluster_status"  # what is free


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as Ray's agent sees it. Memory in MiB."""

    index: int
    uuid: str = ""
    name: str = ""
    memory: int | None = None
    used: int | None = None
    util: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One that is alive. total, used: of its resources (GPU, CPU, memory in bytes, accelerator_type:A100, ...)."""

    id: str
    name: str = ""
    total: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    kind: str = ""  # of its GPUs, in Ray's words: "A100"
    gpus: tuple[Gpu, ...] = ()

    @property
    def offered(self) -> float:
        """How many GPUs Ray may give to jobs: not more than those that the gate passed."""
        return self.total.get("GPU", 0.0)

    @property
    def free(self) -> float:
        """How many of them are free."""
        return max(0.0, self.offered - self.used.get("GPU", 0.0))


def nodes(listed: Any, summary: Any, status: Any) -> tuple[Node, ...]:
    """The nodes that are alive, of the answers to NODES, SUMMARY and STATUS; what is not told is left out."""
    measured = {_text(at(row, "raylet", "nodeId")): row for row in rows(at(summary, "data", "summary"))}
    usage = at(status, "data", "clusterStatus", "loadMetricsReport", "usageByNode")
    found = []
    for row in rows(at(listed, "data", "result", "result")):
        name = _text(at(row, "node_id"))
        if not name or at(row, "state") != "ALIVE":
            continue
        more = measured.get(name)
        total = _numbers(at(row, "resources_total"))
        kinds = [key.partition(":")[2] for key in total if key.startswith("accelerator_type:")]
        found.append(Node(
            id=name, name=_text(at(more, "hostname")) or _text(at(row, "node_name")) or name[:12], total=total, used=_used(at(usage, name)),
            kind=_text(at(row, "labels", TYPE_LABEL)) or (kinds[0] if len(kinds) == 1 else ""),
            gpus=tuple(_gpu(place, one) for place, one in enumerate(rows(at(more, "gpus")))),
        ))  # fmt: skip
    return tuple(found)


def cards(here: Sequence[Node], jobs: Iterable[Told] = ()) -> tuple[Card, ...]:
    """The GPUs of the nodes. Ray tells how many of a node are taken, not which: the jobs stand on them in order. What is taken beside
    them is Ray's (its tasks and actors)."""
    found: list[Card] = []
    running = [one for one in jobs if one.state in (RUNNING, ENDING)]
    for node in here:
        kept = {uuid: slug for key in node.total if key.startswith(KEPT) for uuid, _, slug in [key[len(KEPT) :].partition(":")]}
        mine = [one.id for one in running if one.more.get("node_id") == node.id for _ in range(one.spec.gpus)]
        taken = math.ceil(node.used.get("GPU", 0.0))
        for gpu in node.gpus:
            free = gpu.uuid not in kept
            job = (mine.pop(0),) if free and mine else ()
            other = free and not job and taken > 0
            taken -= free
            found.append(Card(
                id=gpu.uuid or f"{node.name}/{gpu.index}", index=gpu.index, name=gpu.name, node=node.name, memory=gpu.memory, used=gpu.used,
                util=gpu.util, state="ok" if free else "drained", slug=kept.get(gpu.uuid, ""), jobs=job, holder="Ray" if other else "",
            ))  # fmt: skip
    return tuple(found)


def _gpu(place: int, row: Any) -> Gpu:
    return Gpu(
        index=_whole(at(row, "index")) or place if at(row, "index") is not None else place, uuid=_text(at(row, "uuid")),
        name=_text(at(row, "name")), memory=_whole(at(row, "memoryTotal")), used=_whole(at(row, "memoryUsed")),
        util=_whole(at(row, "utilizationGpu")),
    )  # fmt: skip


def _used(data: Any) -> dict[str, float]:
    pairs = data.items() if isinstance(data, dict) else ()
    return {key: float(pair[0]) for key, pair in pairs if isinstance(pair, list) and len(pair) == 2 and _number(pair[0])}


def _numbers(data: Any) -> dict[str, float]:
    return {key: float(value) for key, value in data.items() if _number(value)} if isinstance(data, dict) else {}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18


def _whole(value: Any) -> int | None:
    return int(value) if _number(value) and value >= 0 else None


def _text(value: Any) -> str:
    return value[:256] if isinstance(value, str) else ""
