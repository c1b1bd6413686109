"""Nothing runs on the GPU, and nobody holds its memory: it is free."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import of
from ongpu.model import Finding, Layer, Rule, Severity, Text


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "free"):
        yield Finding(subject=one.gpu.label, certainty=one.sure, values=one.figures, refs=one.refs)


RULE = Rule(
    slug="gpu-free",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    settle=("nvidia-smi",),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/",),
    en=Text(
        title="GPU {gpu} is free: no program computes on it{total: (* GiB)}",
        why="Over {seconds} s it was busy {use} % of the time, and nobody holds memory beyond what a driver or a display takes.",
        fix="Nothing has to be done. To use it: CUDA_VISIBLE_DEVICES={gpu}, or ongpu pick.",
    ),
    zh=Text(
        title="GPU {gpu} 空闲：没有程序在上面计算{total:（* GiB）}",
        why="{seconds} 秒内它有 {use} % 的时间在忙，除驱动或显示之外没有谁占用显存。",
        fix="无需处理。要使用它：CUDA_VISIBLE_DEVICES={gpu}，或 ongpu pick。",
    ),
)
