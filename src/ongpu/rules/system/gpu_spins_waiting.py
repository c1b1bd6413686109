"""The GPU shows 100 % and does next to nothing: a kernel spins while it waits for other ranks, or for the host."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import of
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "spin"):
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=Severity.NOTE if one.sure is Certainty.POSSIBLE else None,
            variant=one.kind, values=one.figures, refs=one.refs, fixes=(Fix("profile-process", {"pid": one.figures["pid"]}), Fix("find-missing-rank")),
        )  # fmt: skip


_FIX_EN = (
    "py-spy dump --pid of each rank: the one that stands somewhere else than the others is the cause (its loader, an exception that was caught, a "
    "checkpoint, another number of batches). For the next run: TORCH_NCCL_TRACE_BUFFER_SIZE and TORCH_NCCL_DUMP_ON_TIMEOUT=1; nccl-tests for the network."
)
_FIX_ZH = (
    "对每个 rank 执行 py-spy dump --pid：与其他 rank 停在不同地方的那个就是原因（数据加载、被捕获的异常、保存检查点、batch 数不同）。下次运行设 "
    "TORCH_NCCL_TRACE_BUFFER_SIZE 和 TORCH_NCCL_DUMP_ON_TIMEOUT=1；网络用 nccl-tests 测。"
)

RULE = Rule(
    slug="gpu-spins-waiting",
    layer=Layer.SYSTEM,
    severity=Severity.WARNING,
    check=check,
    settle=("py-spy dump --pid PID", "nvidia-smi dmon -s pucm"),
    see=("https://github.com/NVIDIA/nccl/issues/968", "https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html"),
    en=Text(
        title="GPU {gpu} shows {use} % but works little: {power} W{limit: of *} and {mem_use} % memory use; its kernel seems to wait for others",
        why="Utilisation only says that some kernel was running. A collective (NCCL all-reduce and the like) runs from when it is launched until the last rank has come, and spins meanwhile: full utilisation at {share} % of the power. A chain of tiny kernels looks alike, so does code that computes little.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="GPU {gpu} 显示 {use} %，实际做得很少：{power} W{limit:（上限 *）}，显存访问 {mem_use} %；它的 kernel 看来在等别人",
        why="利用率只说明有某个 kernel 在运行。集合通信（NCCL all-reduce 等）从启动到最后一个 rank 到来一直在运行并空转：利用率满，功耗却只有 {share} %。一连串极小的 kernel 或计算很少的代码也是这个样子。",
        fix=_FIX_ZH,
    ),
    variants={
        "late": (
            Text(
                title="GPU {gpu} shows {use} % but only waits ({power} W{limit: of *}): of the same job's GPUs, {late} does nothing",
                why="A collective runs from when it is launched until the last rank has come, and spins meanwhile. Of the {ranks} GPUs of this job on this machine, those that spin wait for the one that is idle: look at that one's verdict.",
                fix=_FIX_EN,
            ),
            Text(
                title="GPU {gpu} 显示 {use} %，其实只是在等（{power} W{limit:，上限 *}）：同一作业的 GPU {late} 什么也没做",
                why="集合通信从启动到最后一个 rank 到来一直在运行并空转。此作业在本机有 {ranks} 块 GPU，空转的在等空闲的那块：请看那一块的结论。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
