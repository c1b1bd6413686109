"""Bad memory rows could not be remapped (replace the card), or wait for a reset to be."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpu, Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

MEMORY = (48, 62, 63, 94, 95, 154)


def check(symptoms: Symptoms | None, xids: Xids | None, gpus: Gpus | None) -> Iterator[Finding]:
    events = xids.of(64) if xids else ()
    said = symptoms.cite("row-remap-failed") if symptoms else ()
    failed = [g for g in gpus.gpus if g.remap_failed] if gpus else []
    pending = [g for g in gpus.gpus if g.remap_pending or g.retired_pending] if gpus else []
    related = xids.of(*MEMORY) if xids else ()
    bus = next((e.bus for e in (*events, *related) if e.bus), "")
    if events or said or failed:
        gpu = failed[0] if failed else None
        refs = (
            *(e.ref for e in events),
            *(e.ref for e in related),
            *said,
            *_lines(gpus),
            *(g.ref for g in failed if g.ref),
        )
        yield Finding(
            subject=bus or _named(gpu),
            certainty=Certainty.CERTAIN,
            values={"where": bus or (gpu.label if gpu else "the GPU"), "index": gpu.index if gpu else None, "xid": 64 if events else None},
            fixes=(Fix("look-at-ecc"), Fix("diagnose-gpu")),
            refs=refs,
        )
        return
    recorded = xids.of(63) if xids else ()
    told = symptoms.cite("row-remap-pending") if symptoms else ()
    worse = bool(xids and xids.of(48, 94, 95, 140)) or any(g.ecc_uncorrected or g.remap_uncorrectable for g in pending)
    if (recorded or told or pending) and not worse:
        gpu = pending[0] if pending else None
        yield Finding(
            subject=bus or _named(gpu),
            certainty=Certainty.LIKELY,
            severity=Severity.WARNING,
            variant="pending",
            values={"where": bus or (gpu.label if gpu else "the GPU"), "index": gpu.index if gpu else None, "xid": 63 if recorded else None},
            fixes=(Fix("look-at-ecc"), Fix("reset-gpu")),
            refs=(*(e.ref for e in recorded), *told, *(_lines(gpus) or tuple(g.ref for g in pending if g.ref))),
        )


def _named(gpu: Gpu | None) -> str:
    """Which card it is, where no line of the kernel says so: the others of the machine are not meant."""
    return gpu.label if gpu and gpu.index is not None else ""


def _lines(gpus: Gpus | None):  # type: ignore[no-untyped-def]
    names = ("remap_failed", "remap_pending", "remap_uncorrectable", "retired_pending")
    return tuple(ref for ref in gpus.refs if ref.about in names) if gpus else ()


RULE = Rule(
    slug="row-remap-failure",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-answers-with-error", "ecc-uncorrectable", "illegal-memory-access", "gsp-timeout"),
    settle=("nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT",),
    see=(
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
        "https://docs.nvidia.com/deploy/dynamic-page-retirement/",
    ),
    en=Text(
        title="Row remapping (or page retirement) failed on {where}: the card's spare memory is used up{xid: (Xid *)}",
        why="Uncorrectable ECC errors (Xid 48, 94, 95) are repaired by remapping the bad row to a spare one. Here the remapping "
        "itself failed: no spare row is left, or it could not be recorded. Errors will go on.",
        fix='Drain the node and replace (RMA) the card: "Remapping Failure Occurred: Yes" qualifies for it. Reboot or reset first if '
        "other GPUs hang with it. Keep `nvidia-smi -q -d ECC,ROW_REMAPPER` and nvidia-bug-report.sh for the vendor.",
    ),
    zh=Text(
        title="{where} 的行重映射（或页退役）失败：备用显存行已用尽{xid:（Xid *）}",
        why="不可纠正的 ECC 错误（Xid 48、94、95）靠把坏行重映射到备用行来修复。这里重映射本身失败：没有剩余备用行，或无法记录。错误还会继续。",
        fix="排空节点并更换（replace，RMA）该卡：“Remapping Failure Occurred: Yes” 符合更换条件。若其他 GPU 也被拖住，先重启或重置。"
        "保留 `nvidia-smi -q -d ECC,ROW_REMAPPER` 与 nvidia-bug-report.sh 的输出给厂商。",
    ),
    variants={
        "pending": (
            Text(
                title="{where}: a memory row waits to be remapped ({xid:Xid *, }Pending: Yes); it takes a reset to take effect",
                why="The driver recorded a failing row (or page) and will replace it with a spare one at the next reset. This is the "
                "repair working as designed, not a broken card.",
                fix="At the next quiet moment drain the GPU and reset it (nvidia-smi --gpu-reset) or reboot; then check "
                '`nvidia-smi -q -d ROW_REMAPPER`: Pending must be No. Replace the card only if "Remapping Failure Occurred" is Yes.',
            ),
            Text(
                title="{where}：有显存行等待重映射（{xid:Xid *，}Pending: Yes），重置后才生效",
                why="驱动已记录坏行（或坏页），下次重置时会换成备用行。这是按设计进行的修复，不代表显卡损坏。",
                fix="在空闲时排空该 GPU 并重置（nvidia-smi --gpu-reset）或重启，再查看 `nvidia-smi -q -d ROW_REMAPPER`，Pending 应为 No。"
                "只有 “Remapping Failure Occurred” 为 Yes 才更换。",
            ),
        ),
    },
)
