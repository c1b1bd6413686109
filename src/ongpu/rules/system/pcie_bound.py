"""Copies between host and GPU go as fast as the PCIe link lets them, and the GPU waits for them."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import of
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text, Words

_WAYS = {"in": Words("to the GPU", "到 GPU"), "out": Words("from the GPU", "从 GPU 出")}


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "pcie"):
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=Severity.NOTE if one.sure is Certainty.POSSIBLE else None,
            values={**one.figures, "way": _WAYS[one.kind]}, refs=one.refs, fixes=(Fix("look-at-link"),),
        )  # fmt: skip


RULE = Rule(
    slug="pcie-bound",
    layer=Layer.SYSTEM,
    severity=Severity.WARNING,
    check=check,
    settle=("nvidia-smi dmon -s pucvt",),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/", "https://github.com/NVIDIA/nvbandwidth"),
    en=Text(
        title="GPU {gpu} is busy only {use} % of the time: its PCIe link is full ({rate} GB/s {way}; a {link} link carries about {most})",
        why="{program} moves data faster than it computes on it: weights or optimizer states that are kept in host memory (offloading), batches in float32 that could be bytes, or tensors that go back and forth.",
        fix="Keep more on the GPU: a quantised model, a smaller batch with less offloading, more GPUs instead of the host's memory. Send less: uint8 instead of float32 and convert on the GPU, no copies back and forth; pinned memory and non_blocking=True let copies run beside the computation. If the slot could do more than {link}, see pcie-link-degraded.",
    ),
    zh=Text(
        title="GPU {gpu} 只有 {use} % 的时间在忙：PCIe 链路已满（{way} {rate} GB/s；{link} 链路约可传 {most}）",
        why="{program} 传数据比计算还快：权重或优化器状态放在主机内存里（offload）、batch 用 float32 而本可用字节，或张量来回拷贝。",
        fix="多放在 GPU 上：量化模型、减少 offload（batch 小一些）、用更多 GPU 代替主机内存。少传：用 uint8 代替 float32，到 GPU 上再转换，不要来回拷贝；锁页内存加 non_blocking=True 可让拷贝与计算同时进行。如果插槽能比 {link} 更快，见 pcie-link-degraded。",
    ),
)
