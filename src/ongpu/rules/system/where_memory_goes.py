"""What PyTorch's allocator held at its peak, and who owned it: told of every memory snapshot, healthy or not."""

from collections.abc import Iterator

from ongpu.facts.profile import Allocations, Held, gib
from ongpu.model import Finding, Layer, Rule, Severity, Text

MOST = 8  # GPUs that are told of


def check(allocations: Allocations) -> Iterator[Finding]:
    for held in allocations.gpus[:MOST]:
        if not (held.peak or held.reserved):
            continue
        yield Finding(
            subject=f"GPU {held.index}",
            variant="" if held.entries else "now",
            values={
                "gpu": held.index, "peak": gib(held.peak or held.allocated), "allocated": gib(held.allocated), "reserved": gib(held.reserved),
                "idle": gib(held.idle), "largest": gib(held.largest_idle), "entries": held.entries, "owners": _owners(held),
            },
            refs=(*((held.peak_ref,) if held.peak_ref else ()), held.ref, *(owner.ref for owner in held.owners[:5])),
        )


def _owners(held: Held) -> str:
    whole = held.peak or held.allocated or 1
    return "; ".join(f"{owner.place}: {gib(owner.bytes)} ({100 * owner.bytes / whole:.0f} %)" for owner in held.owners[:5]) or "?"


RULE = Rule(
    slug="where-memory-goes",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/torch_cuda_memory.html",),
    en=Text(
        title="GPU {gpu}: memory peaked at {peak}; its largest owners: {owners}",
        why="Replayed from {entries} entries of the allocator's record. At the snapshot {allocated} were in use of {reserved} reserved; {idle} lay idle, the largest piece {largest}. An owner is the innermost line of the program itself that led to the allocation. What the CUDA context and NCCL take is not in it.",
        fix="To lower the peak, begin with the largest owner: a smaller batch or sequence and activation checkpointing for activations, a lower precision or sharding for weights and optimizer states. \"no frame recorded\" is what was allocated before the record began: call torch.cuda.memory._record_memory_history() earlier.",
    ),
    zh=Text(
        title="GPU {gpu}：显存峰值 {peak}；主要持有者：{owners}",
        why="由分配器记录的 {entries} 条事件回放得到。快照时刻已用 {allocated}，已保留 {reserved}，闲置 {idle}（最大一块 {largest}）。持有者指引发分配的、属于程序自身的最内层代码行。CUDA 上下文与 NCCL 占用的显存不在其中。",
        fix="要降低峰值，从最大的持有者入手：激活可用更小的 batch 或序列、激活检查点；权重和优化器状态可用更低精度或分片。“no frame recorded” 是记录开始前就已分配的部分：请更早调用 torch.cuda.memory._record_memory_history()。",
    ),
    variants={
        "now": (
            Text(
                title="GPU {gpu}: {allocated} in use at the snapshot; largest owners: {owners}",
                why="{reserved} are reserved by the allocator, of which {idle} lie idle, the largest piece {largest}. The snapshot holds no history, so the peak is not known.",
                fix="Call torch.cuda.memory._record_memory_history() before the part that matters; the snapshot then holds every allocation with its stack.",
            ),
            Text(
                title="GPU {gpu}：快照时刻已用 {allocated}；主要持有者：{owners}",
                why="分配器保留了 {reserved}，其中闲置 {idle}（最大一块 {largest}）。快照不含历史记录，因此不知道峰值。",
                fix="在要观察的代码之前调用 torch.cuda.memory._record_memory_history()；快照就会包含每次分配及其堆栈。",
            ),
        ),
    },
)
