"""The GPU or its firmware reported an internal fault (an Xid that takes it out of service) that no other rule explains."""

from collections.abc import Iterator

from ongpu.facts.hardware import Xids
from ongpu.knowledge.xids import xid
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text, Words

# These have rules of their own, which know more.
EXPLAINED = (48, 54, 63, 64, 74, 79, 94, 95, 119, 120, 136, 140, 144, 145, 146, 147, 148, 149, 150, 155, 171, 172)


def check(xids: Xids) -> Iterator[Finding]:
    if xids.of(*EXPLAINED):
        return
    told: set[tuple[int, str]] = set()
    for event in xids.events:
        known = None if event.switch else xid(event.code)
        if not known or not known.condemns or (event.code, event.bus) in told:
            continue
        told.add((event.code, event.bus))
        after = xids.of(154)
        yield Finding(
            subject=event.bus or f"Xid {event.code}",
            certainty=Certainty.LIKELY,
            values={
                "code": event.code, "bus": event.bus or "?", "meaning": Words(known.meaning or known.name, known.meaning_zh or known.name),
                "action": Words(known.action or "reset the GPU", known.action_zh or "复位 GPU"),
            },
            fixes=(Fix("reset-gpu"), Fix("diagnose-gpu")),
            refs=(event.ref, *(e.ref for e in after[:1])),
        )  # fmt: skip


RULE = Rule(
    slug="gpu-internal-error",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-answers-with-error", "illegal-memory-access", "nccl-timeout", "cuda-unavailable"),
    settle=("sudo dmesg | grep -i xid",),
    see=("https://docs.nvidia.com/deploy/xid-errors/",),
    en=Text(
        title="The GPU{bus: at *} reported an internal error, Xid {code}: {meaning}",
        why="The driver took note of a fault in the card, its micro-controllers or a unit of it. After this the programs on it fail, "
        "whatever they print. Xid 154, if it follows, says which recovery the driver wants.",
        fix="What to do: {action}. Drain the card first, keep nvidia-bug-report.sh, and update the driver to the newest release of its "
        "branch; run dcgmi diag -r 3. If it comes back on the same card, replace the card.",
    ),
    zh=Text(
        title="{bus:* 的 }GPU 报告内部错误，Xid {code}：{meaning}",
        why="驱动记录到显卡、其微控制器或某个单元的故障。此后上面的程序无论打印什么都会失败。若随后出现 Xid 154，它说明驱动要求哪种恢复方式。",
        fix="处理：{action}。先排空任务，保留 nvidia-bug-report.sh 的输出，把驱动升级到所在分支的最新版，运行 dcgmi diag -r 3。"
        "若同一张卡再次出现，更换该卡。",
    ),
)
