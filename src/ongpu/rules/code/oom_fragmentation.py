"""Much memory is reserved by the allocator without being in use, in pieces that are too small."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import size
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.profile import Allocations, gib
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None, symptoms: Symptoms | None,
    allocations: Allocations | None, dryrun: DryRun | None,
) -> Iterator[Finding]:
    if dryrun:
        if dryrun.memory_cause == "oom-fragmentation":
            yield _in_run(dryrun)
        return
    if allocations:
        yield from _in_snapshot(allocations)
    if oom is None:
        return
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)

    if slug != "oom-fragmentation":
        return
    values = {
        "wanted": _size(error.wanted), "total": _size(error.total), "free": _size(error.free), "allocated": _size(error.allocated),
        "reserved": _size(error.reserved), "idle": _size(error.idle_reserve), "gpu": "?" if error.gpu is None else error.gpu,
    }
    yield Finding(fixes=(Fix("expandable-segments"),), certainty=certainty, values=values, refs=(error.ref,))


def _in_snapshot(allocations: Allocations) -> Iterator[Finding]:
    """A request that failed though more than it asked for lay idle, in pieces that were too small; or much that lies so."""
    for held in allocations.gpus:
        failed = next((one for one in reversed(held.refusals) if one.reserved is not None), None)
        if failed and failed.bytes and held.idle >= failed.bytes > held.largest_idle:
            yield Finding(
                fixes=(Fix("expandable-segments"),), certainty=Certainty.LIKELY if held.expandable else Certainty.CERTAIN, subject=f"GPU {held.index}",
                variant="snapshot", refs=(failed.ref, held.ref),
                values={
                    "gpu": held.index, "wanted": gib(failed.bytes), "idle": gib(held.idle), "largest": gib(held.largest_idle),
                    "reserved": gib(held.reserved), "where": failed.where or "?", "segments": held.segments,
                },
            )
        elif not held.refusals and held.idle > 0.4 * held.reserved and held.idle > 2 << 30 and held.largest_idle < held.idle / 20:
            yield Finding(
                fixes=(Fix("expandable-segments"),), certainty=Certainty.POSSIBLE, severity=Severity.NOTE, subject=f"GPU {held.index}",
                variant="scattered", refs=(held.ref,),
                values={"gpu": held.index, "idle": gib(held.idle), "largest": gib(held.largest_idle), "reserved": gib(held.reserved), "segments": held.segments},
            )


def _size(gib: float | None) -> str:
    return "?" if gib is None else f"{gib * 1024:.2f} MiB" if gib < 1 else f"{gib:.2f} GiB"


def _in_run(run: DryRun) -> Finding:
    """From a dry run: what the simulated allocator held without using it."""
    place = run.error.place if run.error else None
    return Finding(
        variant="run", fixes=(Fix("expandable-segments"),), certainty=Certainty.LIKELY,
        values={
            "idle": size(run.memory.peak_reserved - run.memory.peak_allocated), "reserved": size(run.memory.peak_reserved),
            "share": f"{100 * run.memory.fragmentation:.0f}", "card": run.card.name,
        },
        refs=tuple(p.ref() for p in (place, run.memory.at_peak.place) if p),
    )


RULE = Rule(
    slug="oom-fragmentation",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",),
    en=Text(
        title="{idle} of the {reserved} that PyTorch reserves are unused, and still {wanted} could not be had: fragmentation",
        why="Allocated {allocated}, reserved {reserved}, free {free}, on {total}. The unused reserve is larger than the request, but no piece of it is: shapes that change from step to step cut the cache into blocks that fit nothing else.",
        fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 or newer, Linux), or max_split_size_mb:128 on older releases and Windows. Keep shapes steady (bucketing, padding to a few lengths); call torch.cuda.empty_cache() between phases. A smaller batch gets by too.",
    ),
    zh=Text(
        title="PyTorch 保留的 {reserved} 中有 {idle} 未被使用，却仍然申请不到 {wanted}：显存碎片",
        why="已分配 {allocated}，已保留 {reserved}，空闲 {free}，总量 {total}。未用的保留量大于这次申请，但没有一块连续的够大：每步形状变化会把缓存切成别处用不上的碎块。",
        fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True（PyTorch 2.1 及更新，Linux），旧版本和 Windows 用 max_split_size_mb:128。保持形状稳定（分桶、填充到少数几种长度）；阶段之间调用 torch.cuda.empty_cache()。减小 batch 也能绕过。",
    ),
    variants={
        "run": (
            Text(
                title="{idle} of the {reserved} that the allocator reserves on {card} lie in pieces that are too small ({share} %)",
                why="In the simulated caching allocator the requests change in size from step to step, so that freed blocks do not fit the next ones.",
                fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; pad inputs to a few fixed sizes. Run the dry run with that variable set to see the difference.",
            ),
            Text(
                title="分配器在 {card} 上保留的 {reserved} 中，有 {idle} 是太小而用不上的碎块（{share} %）",
                why="在模拟的缓存分配器里，每步申请的大小都在变化，释放的块放不下后来的申请。",
                fix="设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True；把输入填充到少数几种固定尺寸。设好该变量再做一次试运行即可看到差别。",
            ),
        ),
        "snapshot": (
            Text(
                title="GPU {gpu}: {wanted} were refused while {idle} lay idle in the allocator, the largest piece {largest}: fragmentation",
                why="The snapshot shows {reserved} reserved in {segments} segments. Together the idle pieces would have been enough, but none is large enough, and a tensor needs one piece.{where: Asked for by *.|} Sizes that change from step to step leave such gaps.",
                fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (set before the first allocation); sizes that repeat (padding to a few lengths, drop_last=True); free large tensors before the larger ones are made (del, or optimizer.zero_grad(set_to_none=True)).",
            ),
            Text(
                title="GPU {gpu}：申请 {wanted} 被拒绝，而分配器中闲置 {idle}，最大一块只有 {largest}：碎片化",
                why="快照显示在 {segments} 个 segment 中保留了 {reserved}。闲置块合计足够，但没有一块够大，而一个张量需要一整块。{where:申请来自 *。|}每步大小不同会留下这样的空隙。",
                fix="设 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True（须在首次分配之前）；让大小重复出现（补齐到少数几种长度、drop_last=True）；在创建更大的张量之前先释放大张量（del，或 optimizer.zero_grad(set_to_none=True)）。",
            ),
        ),
        "scattered": (
            Text(
                title="GPU {gpu}: {idle} of {reserved} reserved lie idle in small pieces, the largest {largest}",
                why="The allocator keeps {segments} segments; what is idle in them can only be used for small tensors. A larger request may fail though enough is free.",
                fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and sizes that repeat from step to step.",
            ),
            Text(
                title="GPU {gpu}：已保留的 {reserved} 中有 {idle} 以小块闲置，最大一块 {largest}",
                why="分配器保留了 {segments} 个 segment，其中的闲置部分只能给小张量用。即使总量足够，较大的申请也可能失败。",
                fix="设 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True，并让每步的大小重复出现。",
            ),
        ),
    },
)
