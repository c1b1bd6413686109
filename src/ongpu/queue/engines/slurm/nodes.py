"""The nodes as scontrol shows them: which GPUs they have, who is on them, and whether Slurm gives them out. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from ongpu.lazy import dataclass, lazy
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm.printed import fields
from ongpu.queue.engines.slurm.rows import Row, numbers
from ongpu.queue.job import Card, Spec

# Of the words of a state (slurm_protocol_defs.c, 22.05 to 25.05). A node that is powered down is none: Slurm wakes it for a job.
CLOSED = frozenset({"DOWN", "DRAIN", "ERROR", "FAIL", "FUTURE", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "UNKNOWN"})
GATE = "ongpu gate:"  # the mark of our health check's drains
_GRES = lazy(  # "gpu:2" has no type, "gpu:3090:2" has one
    r"(?:^|,)gpu(?::(?P<type>\w[\w.-]{0,63}))??(?::(?P<count>\d{1,5}))?(?:\((?:IDX:(?P<idx>[\d,-]{1,400})|[^()]{0,400})\))?(?=,|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. gpus: the type of each GPU by its index; used: the indices given out; memory in MiB; reason: why it is closed."""

    name: str
    state: str = ""
    gpus: tuple[str, ...] = ()
    used: frozenset[int] = frozenset()
    cpus: int = 0
    memory: int = 0
    reason: str = ""
    partitions: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether Slurm starts nothing there."""
        return "*" in self.state or not CLOSED.isdisjoint(self.state.split("+"))


def read(text: str) -> list[Node]:
    """Of `scontrol show node -d`."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        told = fields(block)
        if not told.get("NodeName"):
            continue
        used = {index for match in _GRES.finditer(told.get("GresUsed", "")) if match["idx"] for index in numbers(match["idx"])}
        memory, cpus = told.get("RealMemory", ""), told.get("CPUTot", "")
        found.append(Node(
            name=told["NodeName"], state=told.get("State", "").upper(), gpus=types(told.get("Gres", "")), used=frozenset(used),
            cpus=int(cpus) if cpus.isdecimal() else 0, memory=int(memory) if memory.isdecimal() else 0,
            reason=told.get("Reason", "").rpartition(" [")[0] or told.get("Reason", ""), partitions=tuple(told.get("Partitions",
            "").split(",")),
        ))  # fmt: skip
    return found


def types(gres: str) -> tuple[str, ...]:
    """("a100", "a100", "v100") of "gpu:a100:2(S:0-1),gpu:v100:1"; at most 256 of a node."""
    return tuple(match["type"] or "" for match in _GRES.finditer(gres) for _ in range(min(256, int(match["count"] or 1))))[:256]


def cards(nodes: Iterable[Node], rows: Iterable[Row]) -> tuple[Card, ...]:
    """Each GPU of each node, with the jobs on it."""
    on: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        for place in row.gres:
            on.setdefault(place, []).append(row.id)
    found = []
    for node in nodes:
        slug = re.match(rf"{GATE} ([a-z0-9-]{{2,60}}):", node.reason)
        for index, kind in enumerate(node.gpus):
            found.append(Card(
                id=f"{node.name}:gpu{index}", index=index, name=kind, node=node.name, state="drained" if node.closed else "ok",
                slug=slug[1] if slug and node.closed else "", jobs=tuple(on.get((node.name, index), ())),
            ))  # fmt: skip
    return tuple(found)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def gres(spec: Spec, nodes: Sequence[Node]) -> str:
    """--gres of a job: by type where a model, memory or capability is asked for. Raises EngineError where no type here fits it, or where
    the types do not tell."""
    if not spec.gpus:
        return ""
    plain = f"gpu:{spec.gpus}"
    counts: dict[str, int] = {}
    for node in nodes:
        for kind in node.gpus:
            counts[kind] = counts.get(kind, 0) + 1
    largest = max((len(node.gpus) for node in nodes), default=0)
    if spec.gpus > largest:
        raise EngineError(
            f"{spec.gpus} GPUs on one machine: the largest here has {largest}",
            f"要单机 {spec.gpus} 块 GPU：这里最大的机器只有 {largest} 块",
        )
    if not (spec.model or spec.memory or spec.capability):
        return plain
    listed = ", ".join(sorted(kind for kind in counts if kind)) or "-"
    fit = [kind for kind in counts if _fits(kind, spec)]
    if not fit:
        unknown = not spec.model and any(_facts(kind) == (None, None) for kind in counts)
        if unknown:
            raise EngineError(
                f"Slurm does not tell the memory or capability of its GPUs (types: {listed}): ask for one by --model",
                f"Slurm 不提供 GPU 的显存或算力（类型：{listed}）：请用 --model 指定型号",
            )
        raise EngineError(f"no GPU here is such a one (types: {listed})", f"这里没有这样的 GPU（类型：{listed}）")
    enough = [kind for kind in fit if any(node.gpus.count(kind) >= spec.gpus for node in nodes)]
    if not enough:
        most = max(node.gpus.count(kind) for node in nodes for kind in fit)
        raise EngineError(
            f"{spec.gpus} such GPUs on one machine: the most here are {most} ({', '.join(fit)})",
            f"要单机 {spec.gpus} 块这样的 GPU：这里最多 {most} 块（{'、'.join(fit)}）",
        )
    if len(fit) == len(counts):
        return plain
    best = max(enough, key=lambda kind: (counts[kind], kind))
    if not best:
        raise EngineError(
            "the GPUs here have no types: no model can be asked for (Gres=gpu:TYPE:N in slurm.conf)",
            "这里的 GPU 没有类型，无法指定型号（slurm.conf 中写 Gres=gpu:类型:N）",
        )
    return f"gpu:{best}:{spec.gpus}"


def _facts(kind: str) -> tuple[float | None, str | None]:
    """(GiB, capability) of a GPU by its type: "a100", "nvidia_a100-sxm4-80gb"."""
    from ongpu.knowledge.gpus import compute_capability, model

    name = re.sub(r"[_-]", " ", kind)
    known = model(name)
    size = re.search(r"(\d{1,3})gb?\b", name)
    return (float(size[1]) if size else known.memory_gib if known else None), known.capability if known else compute_capability(name)


def _fits(kind: str, spec: Spec) -> bool:
    if spec.model and _plain(spec.model) not in _plain(kind) and (not kind or _plain(kind) not in _plain(spec.model)):
        return False
    memory, capability = _facts(kind) if spec.memory or spec.capability else (None, None)
    if spec.memory and (memory is None or memory * 1024 < spec.memory):
        return False
    return not spec.capability or (capability is not None and tuple(int(n) for n in capability.split(".")) >= spec.capability)


def share(spec: Spec, nodes: Sequence[Node], config: Mapping[str, str]) -> int | None:
    """MiB of host memory for a job that asks for none, where Slurm has no default: else it would be given all of the node's, and nothing
    else would start there. None: Slurm has one, or counts no memory."""
    if spec.host_memory or "MEMORY" not in config.get("SelectTypeParameters", "").upper():
        return None
    names = ("DefMemPerCPU", "DefMemPerNode", *(("DefMemPerGPU",) if spec.gpus else ()))
    if any(config.get(name, "UNLIMITED") not in ("UNLIMITED", "0", "") for name in names):
        return None
    able = [node for node in nodes if len(node.gpus) >= max(1, spec.gpus)] if spec.gpus else list(nodes)
    if spec.gpus:
        parts = [node.memory * spec.gpus // len(node.gpus) for node in able]
    else:
        parts = [node.memory * (spec.cpus or 1) // max(1, node.cpus) for node in able]
    least = min(parts, default=0)
    return max(1, least * 9 // 10) if least else None


def closed(nodes: Sequence[Node], gpus: bool = True) -> tuple[str, str] | None:
    """A warning where nothing can start: all nodes (with GPUs, where there are any) are closed."""
    some = [node for node in nodes if node.gpus] or list(nodes) if gpus else list(nodes)
    if not some or not all(node.closed for node in some):
        return None
    first = some[0]
    why = first.reason or first.state.lower()
    mend = f"scontrol update NodeName={first.name} State=RESUME"
    if first.reason.startswith(GATE):
        mend, mend_zh = "the health check takes it back when the GPUs are well", "GPU 恢复后健康检查会自动撤销"
    else:
        mend_zh = mend
    state = first.state.lower()
    return f"nothing starts: {first.name} is {state}: {why} ({mend})", f"没有作业能启动：{first.name} 处于 {state}：{why}（{mend_zh}）"
