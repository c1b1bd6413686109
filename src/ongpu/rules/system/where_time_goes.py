"""What a GPU did in the time that a trace covers, and what it waited for: told of every trace, healthy or not."""

from collections.abc import Iterator

from ongpu.facts.profile import GpuTime, Profile
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text, Unknown, Words

MOST = 8  # GPUs that are told of
_CAUSES = {
    "loading": ("the data loader", "数据加载"),
    "launch": ("the host to launch more work", "主机下发工作"),
    "sync": ("the host to start anew after it had waited for the GPU", "主机同步后重新下发"),
    "copy": ("copies from pageable memory", "来自可分页内存的拷贝"),
    "allocation": ("cudaMalloc and cudaFree", "cudaMalloc 与 cudaFree"),
    "compile": ("kernels to be compiled or loaded", "编译或装载 kernel"),
    "code": ("host code in no recorded call", "未被记录的主机代码"),
    "queue": ("work that was queued already (another stream, an event, a part of a CUDA graph that was not recorded)", "已排队的工作（其他流、事件，或未被记录的 CUDA graph 部分）"),
    "unknown": ("nobody recorded what", "未记录的原因"),
}
_FAMILIES = {
    "tensor-core": ("matrix products on tensor cores", "tensor core 上的矩阵乘"),
    "plain-matmul": ("matrix products without tensor cores", "不用 tensor core 的矩阵乘"),
    "attention": ("fused attention", "融合注意力"),
    "other": ("other kernels", "其他 kernel"),
}


def check(profile: Profile) -> Iterator[Finding]:
    if not profile.gpus:
        raise Unknown(
            "what the GPU did: the trace shows no activity of one (nothing ran on it, or the profiler did not record it)",
            ("profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])", "python -c 'import torch; print(torch.cuda.is_available())'"),
        )
    for gpu in profile.gpus[:MOST]:
        yield Finding(
            certainty=Certainty.CERTAIN,
            subject=f"GPU {gpu.index}",
            values={
                "gpu": gpu.index, "card": gpu.card.name if gpu.card else "?", "busy": f"{gpu.share(gpu.busy):.0f}",
                "span": _time(gpu.span), "step": _time(gpu.step) if gpu.step else "?", "steps": gpu.steps or "?",
                "waits": _waits(gpu), "work": _work(gpu), "small": _small(gpu), "kernels": gpu.kernels,
                "collective": f"{gpu.share(gpu.collective_alone):.0f}" if gpu.collective else "?", "copies": f"{gpu.share(gpu.copy_alone):.0f}",
                "loading": "?" if gpu.loading_at_most is None else f"{gpu.loading_at_most:.1f}",
            },
            refs=(gpu.ref, *(wait.ref for wait in gpu.waits[:4]), *((gpu.loading_ref,) if gpu.loading_ref else ()), *(one.ref for one in gpu.families[:3])),
        )


def _time(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3g} s" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"


def _small(gpu: GpuTime) -> str:
    return f"{100 * gpu.small / gpu.kernels:.0f}" if gpu.kernels else "?"


def _waits(gpu: GpuTime) -> Words:
    told = [(wait.percent, _CAUSES.get(wait.cause, (wait.cause, wait.cause))) for wait in gpu.waits if wait.percent >= 1]
    return Words(
        "; ".join(f"{percent:.0f} % for {names[0]}" for percent, names in told[:5]) or "less than 1 % for anything",
        "；".join(f"{percent:.0f} % 等{names[1]}" for percent, names in told[:5]) or "各项均不足 1 %",
    )


def _work(gpu: GpuTime) -> Words:
    told = [(gpu.of_kernels(one.name), _FAMILIES[one.name]) for one in gpu.families if one.name in _FAMILIES]
    return Words(
        ", ".join(f"{share:.0f} % {names[0]}" for share, names in told if share >= 1) or "none",
        "、".join(f"{share:.0f} % {names[1]}" for share, names in told if share >= 1) or "无",
    )


RULE = Rule(
    slug="where-time-goes",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    see=("https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html", "https://hta.readthedocs.io/en/latest/",),
    en=Text(
        title="GPU {gpu}{card: (*)} was busy {busy} % of {span}{step:, * a step}; it waited: {waits}",
        why="Busy means that at least one kernel or copy ran. Time of the kernels: {work}. {small:Of {kernels} kernels, * % took under 10 µs. |}{collective:Collectives alone took * % of the time. |}{loading:Were loading free, a step would take at most * % less (all other work of host and GPU unchanged).|}",
        fix="The largest share is what to work on first. A profiler slows the host down, most of all with stacks and shapes recorded: waits for launches are somewhat overstated. What stands under \"host code in no recorded call\" can be named by with_stack=True or record_function.",
    ),
    zh=Text(
        title="GPU {gpu}{card:（*）}在 {span} 中有 {busy} % 在忙{step:，每步 *}；等待：{waits}",
        why="忙指至少有一个 kernel 或拷贝在运行。kernel 时间构成：{work}。{small:{kernels} 个 kernel 中有 * % 不足 10 微秒。|}{collective:集合通信单独占 * % 的时间。|}{loading:若加载不耗时，每步最多快 * %（假定主机与 GPU 的其他工作不变）。|}",
        fix="先处理占比最大的一项。性能分析器会拖慢主机，记录堆栈和形状时尤甚，因此等待下发的时间会略微偏高。“未被记录的主机代码”可用 with_stack=True 或 record_function 查明。",
    ),
)
