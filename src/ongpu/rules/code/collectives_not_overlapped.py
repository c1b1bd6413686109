"""The GPU waits for the other GPUs: collectives run while nothing is computed."""

from collections.abc import Iterator

from ongpu.facts.profile import GpuTime, Profile
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

SHARE = 15.0  # percent of the time, from which it is worth a word
UNEVEN = 10.0  # percent of the time, by which ranks differ that do not arrive together


def check(profile: Profile) -> Iterator[Finding]:
    together = [gpu for gpu in profile.gpus if gpu.collective > 0]
    if len({(gpu.trace, gpu.index) for gpu in together}) > 1 and (uneven := _uneven(together)):
        yield uneven
        return
    for gpu in profile.gpus:
        share = gpu.share(gpu.collective_alone)
        if share < SHARE:
            continue
        kernels = gpu.family("collective")
        hidden = 100 * (1 - gpu.collective_alone / gpu.collective) if gpu.collective > 0 else 0.0
        yield Finding(
            certainty=Certainty.LIKELY,
            subject=f"GPU {gpu.index}",
            values={
                "gpu": gpu.index, "share": f"{share:.0f}", "milliseconds": f"{gpu.collective_alone:.4g}", "hidden": f"{hidden:.0f}",
                "kernel": kernels.example.partition("(")[0][:60] if kernels else "?",
            },
            refs=(gpu.ref, *((kernels.ref,) if kernels else ())),
        )


def _uneven(gpus: list[GpuTime]) -> Finding | None:
    """Ranks of one job of which some wait for another: it comes last to each collective, so its own are the shortest."""
    last = min(gpus, key=lambda gpu: gpu.share(gpu.collective_alone))
    first = max(gpus, key=lambda gpu: gpu.share(gpu.collective_alone))
    longest, shortest = first.share(first.collective_alone), last.share(last.collective_alone)
    if longest < SHARE or longest - shortest < UNEVEN:
        return None
    return Finding(
        certainty=Certainty.LIKELY,
        variant="ranks",
        values={
            "waits": _name(first), "late": _name(last), "longest": f"{longest:.0f}", "shortest": f"{shortest:.0f}",
            "own": f"{last.share(last.compute):.0f}", "others": f"{first.share(first.compute):.0f}", "idle": f"{last.share(last.span - last.busy):.0f}",
        },
        refs=(first.ref, last.ref),
    )


def _name(gpu: GpuTime) -> str:
    return f"rank {gpu.rank} ({gpu.trace})" if gpu.rank else f"{gpu.trace}, GPU {gpu.index}"


RULE = Rule(
    slug="collectives-not-overlapped",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/notes/ddp.html", "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    en=Text(
        title="GPU {gpu} spends {share} % of the time on collectives while it computes nothing ({hidden} % of their time is hidden)",
        why="{milliseconds} ms of {kernel} run alone. A collective kernel occupies the GPU also while it waits for the slowest rank, so either the link is slow, or the ranks do not arrive together: one trace cannot tell which. Were all of it hidden or free, the step would take at most {share} % less.",
        fix="Compare the traces of all ranks: if the longest collective of one is the shortest of another, balance the work (sequence lengths, data loading). Else make them fewer and larger and let them overlap: DDP(bucket_cap_mb=..., gradient_as_bucket_view=True, static_graph=True), no_sync() during accumulation, FSDP with prefetch, bf16 gradients; and look at the link (NCCL_DEBUG=INFO: P2P, NVLink or IB rather than SHM or sockets).",
    ),
    zh=Text(
        title="GPU {gpu} 有 {share} % 的时间只在做集合通信而没有计算（通信时间中被掩盖的占 {hidden} %）",
        why="{kernel} 有 {milliseconds} 毫秒是单独运行的。集合通信的 kernel 在等最慢的 rank 时也占着 GPU，所以要么链路慢，要么各 rank 没有同时到达：单份 trace 无法区分。如果全部被掩盖或不耗时，每步最多快 {share} %。",
        fix="对比所有 rank 的 trace：若某个 rank 上最长的通信在另一个 rank 上最短，说明负载不均（序列长度、数据加载）。否则减少次数、加大每次的量并与计算重叠：DDP(bucket_cap_mb=..., gradient_as_bucket_view=True, static_graph=True)，梯度累积时用 no_sync()，FSDP 预取，bf16 梯度；并检查链路（NCCL_DEBUG=INFO：应为 P2P、NVLink 或 IB，而不是 SHM 或 socket）。",
    ),
    variants={
        "ranks": (
            Text(
                title="The ranks do not arrive together: {waits} spends {longest} % of the time in collectives alone, {late} only {shortest} %",
                why="A collective ends for all at once, and its kernel runs on each rank from the moment that rank comes. The one with the least time in it comes last, and the others wait for it. {late} computes {own} % of the time and is idle {idle} %; {waits} computes {others} %.",
                fix="Look at what the late rank does more of: longer sequences or larger batches (bucket by length, pad alike), slower loading (its own trace: idle for the loader), logging or checkpoints on rank 0 only, a slower or throttled card (nvidia-smi -q -d PERFORMANCE), other processes on its GPU or cores.",
            ),
            Text(
                title="各 rank 没有同时到达：{waits} 有 {longest} % 的时间单独花在集合通信上，{late} 只有 {shortest} %",
                why="集合通信对所有 rank 同时结束，而每个 rank 从自己到达起就开始占用 GPU。花费最少的那个到得最晚，其他都在等它。{late} 有 {own} % 的时间在计算、{idle} % 空闲；{waits} 有 {others} % 在计算。",
                fix="看较晚的 rank 多做了什么：更长的序列或更大的 batch（按长度分桶、统一填充）、更慢的数据加载（看它自己的 trace 是否在等加载器）、只在 rank 0 上做的日志或检查点、较慢或降频的显卡（nvidia-smi -q -d PERFORMANCE）、同一 GPU 或 CPU 核上的其他进程。",
            ),
        ),
    },
)
