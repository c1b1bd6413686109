"""The GPU is well used: nothing holds it up that could be seen from outside."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import UNKNOWN, of
from ongpu.model import Finding, Layer, Rule, Severity, Text, Unknown


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "busy", "partly", "requests"):
        count = len(trend.on(one.gpu))
        variant = "" if one.cause == "busy" else one.cause
        yield Finding(subject=one.gpu.label, certainty=one.sure, variant=variant, values={**one.figures, "programs": count if count > 1 else "?"}, refs=one.refs)
    untold = of(trend, "unknown")
    if untold:
        raise Unknown("what these wait for: " + "; ".join(f"{one.gpu.label}: {UNKNOWN[one.kind].en}" for one in untold[:8]), settle_of(untold[0].kind))


def settle_of(kind: str) -> tuple[str, ...]:
    """What would tell, by why it is not known."""
    return {
        "mig": ("dcgmi dmon -e 1001,1002,1005",), "hidden": ("sudo fuser -v /dev/nvidia*", "ps -fp PID"), "unseen": ("py-spy dump --pid PID", "ongpu explain trace.json"),
    }.get(kind, ("ongpu top",))  # fmt: skip


RULE = Rule(
    slug="gpu-busy",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    settle=("nvidia-smi dmon -s pucvmet",),
    see=("https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html", "https://docs.nvidia.com/deploy/nvidia-smi/"),
    en=Text(
        title="GPU {gpu} is busy: {use} % of the time over {seconds} s{power:, * W}{limit: of *}{programs:, * programs}",
        why="A kernel was running nearly all of the time. How well the kernels use the card, the utilisation does not say: a profiler's trace does.",
        fix="Nothing has to be done. To make the kernels themselves faster: mixed precision, torch.compile, larger batches; ongpu explain trace.json.",
    ),
    zh=Text(
        title="GPU {gpu} 在忙：{seconds} 秒中有 {use} % 的时间{power:，* W}{limit:（上限 *）}{programs:，* 个程序}",
        why="几乎一直有 kernel 在运行。kernel 把卡用得多好，利用率看不出来，要看分析器的 trace。",
        fix="无需处理。想让 kernel 本身更快：混合精度、torch.compile、更大的 batch；ongpu explain trace.json。",
    ),
    variants={
        "partly": (
            Text(
                title="GPU {gpu} works {use} % of the time; nothing is seen that holds it up{programs: (* programs)}",
                why="Over {seconds} s neither the processor, the disk nor the network of {program} was a limit. Evaluation, checkpoints and other work between the steps make such pauses.",
                fix="Nothing has to be done. If it is to be faster, a profiler's trace tells what the pauses are: ongpu explain trace.json.",
            ),
            Text(
                title="GPU {gpu} 有 {use} % 的时间在工作；没看到有什么拖住它{programs:（* 个程序）}",
                why="{seconds} 秒内，{program} 的 CPU、磁盘、网络都不是瓶颈。评估、保存检查点等步骤之间的工作会造成这样的停顿。",
                fix="无需处理。若想更快，分析器的 trace 能说明停顿是什么：ongpu explain trace.json。",
            ),
        ),
        "requests": (
            Text(
                title="GPU {gpu} works {use} % of the time: {program} answers requests as they come",
                why="A server's GPU is as busy as it is asked; its processor is not the limit.",
                fix="Nothing has to be done. To use the card better: more requests at once, more models on it, or a smaller card.",
            ),
            Text(
                title="GPU {gpu} 有 {use} % 的时间在工作：{program} 按请求提供服务",
                why="服务的 GPU 有多忙取决于请求多少；CPU 不是瓶颈。",
                fix="无需处理。想更好地利用此卡：增加并发请求、放更多模型，或换小一些的卡。",
            ),
        ),
    },
)
