"""Much memory is reserved by the allocator without being in use, in pieces that are too small."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Finding, Fix, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None, symptoms: Symptoms | None,
) -> Iterator[Finding]:
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)

    if slug != "oom-fragmentation":
        return
    values = {
        "wanted": _size(error.wanted), "total": _size(error.total), "free": _size(error.free), "allocated": _size(error.allocated),
        "reserved": _size(error.reserved), "idle": _size(error.idle_reserve), "gpu": "?" if error.gpu is None else error.gpu,
    }
    yield Finding(fixes=(Fix("expandable-segments"),), certainty=certainty, values=values, refs=(error.ref,))


def _size(gib: float | None) -> str:
    return "?" if gib is None else f"{gib * 1024:.2f} MiB" if gib < 1 else f"{gib:.2f} GiB"


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
)
