"""The card's memory had errors that its ECC could not correct."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

CODES = (48, 94, 95, 140, 171, 172)
RELATED = (62, 63, 64, 154)


def check(symptoms: Symptoms | None, xids: Xids | None, gpus: Gpus | None) -> Iterator[Finding]:
    events = xids.of(*CODES) if xids else ()
    consequences = [e for e in xids.events if e.caused_by in CODES and not e.switch] if xids else []
    said = symptoms.cite("ecc-error") if symptoms else ()
    bad = [g for g in gpus.gpus if g.ecc_uncorrected or (g.remap_uncorrectable and g.remap_pending)] if gpus else []
    past = [g for g in gpus.gpus if g not in bad and (g.ecc_uncorrected_total or g.remap_uncorrectable)] if gpus else []
    if not (events or consequences or said or bad):
        for old in past:
            yield Finding(
                subject=old.label, severity=Severity.NOTE, variant="past", fixes=(Fix("look-at-ecc"),),
                values={"gpu": old.label, "count": old.ecc_uncorrected_total or old.remap_uncorrectable},
                refs=_lines(gpus, "ecc_uncorrected_total", "remap_uncorrectable"),
            )  # fmt: skip
        return
    codes = sorted({e.code for e in events} | {e.caused_by for e in consequences if e.caused_by})
    bus = next((e.bus for e in [*events, *consequences] if e.bus), "") or next((g.bus for g in bad if g.bus), "")
    related = xids.of(*RELATED) if xids else ()
    gpu = bad[0] if bad else None
    counts = (gpu.ecc_uncorrected or gpu.remap_uncorrectable or 0) if gpu else 0
    yield Finding(
        subject=bus or "",
        certainty=Certainty.CERTAIN,
        variant="contained" if codes == [94] and not bad else ("counted" if gpu and gpu.remap_pending is False else "counter") if bad and not (events and codes)
        else "" if codes else "said",
        values={
            "where": bus or (gpu.label if gpu else "GPU"), "codes": codes or ["-"], "count": counts,
            "index": gpu.index if gpu else None, "pending": "Yes" if gpu and gpu.remap_pending else None,
        },
        fixes=(Fix("look-at-ecc"), *(() if bad and gpu and gpu.remap_pending is False and not events else (Fix("reset-gpu"),)), Fix("diagnose-gpu")),
        refs=(
            *(e.ref for e in events[:4]), *(e.ref for e in consequences[:2]), *said, *(e.ref for e in related),
            *(_lines(gpus, "ecc_uncorrected", "remap_uncorrectable", "remap_pending") if bad else ()),
            *(g.ref for g in bad if g.ref),
        ),
    )  # fmt: skip


def _lines(gpus: Gpus | None, *names: str):  # type: ignore[no-untyped-def]
    return tuple(ref for ref in gpus.refs if ref.about in names) if gpus else ()


RULE = Rule(
    slug="ecc-uncorrectable",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "gpu-answers-with-error",
        "illegal-memory-access",
        "device-side-assert",
        "cublas-init-failed",
        "cudnn-execution-failed",
        "nccl-timeout",
        "gsp-timeout",
    ),
    settle=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", "sudo dmesg | grep -i xid"),
    see=(
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
        "https://docs.nvidia.com/deploy/xid-errors/",
    ),
    en=Text(
        title="Uncorrectable ECC memory error on {where} (Xid: {codes})",
        why="A memory cell of the card failed in a way that ECC cannot correct (a double-bit error), so the driver ended the "
        "programs that used it. It is not a fault of the program: other jobs on this card fail in the same way.",
        fix="Drain the node and look at `nvidia-smi -q -d ECC,ROW_REMAPPER`. Reset the GPU (nvidia-smi --gpu-reset) or reboot, so "
        "that the row is remapped (A100 and newer; page retirement before), then run dcgmi diag -r 3. Replace (RMA) the card if "
        "errors come back, or if remapping or page retirement itself failed (Xid 64).",
    ),
    zh=Text(
        title="{where} 出现不可纠正的 ECC 显存错误（Xid：{codes}）",
        why="显存单元出现 ECC 无法纠正的错误（双比特错误），驱动因此终止了使用它的程序。这不是程序的问题，同一张卡上的其他任务也会这样失败。",
        fix="排空（drain）节点，查看 `nvidia-smi -q -d ECC,ROW_REMAPPER`。重置 GPU（nvidia-smi --gpu-reset）或重启，使坏行被重映射"
        "（A100 及更新；更早的卡为页退役），再运行 dcgmi diag -r 3。若错误再现，或重映射、页退役本身失败（Xid 64），更换（replace/RMA）该卡。",
    ),
    variants={
        "said": (
            Text(
                title="A program met an uncorrectable ECC memory error; which GPU had it is not said",
                why="A memory cell of a card failed in a way that ECC cannot correct, so the driver ended the programs that used it. It is "
                "not a fault of the program: other jobs on that card fail in the same way.",
                fix="Find the card: `nvidia-smi -q -d ECC,ROW_REMAPPER` counts its errors, `sudo dmesg | grep -i xid` names it. Drain it, "
                "reset it (nvidia-smi --gpu-reset) or reboot, then run dcgmi diag -r 3. Replace (RMA) it if errors come back.",
            ),
            Text(
                title="程序遇到不可纠正的 ECC 显存错误；未说明是哪块 GPU",
                why="某张卡的显存单元出现 ECC 无法纠正的错误，驱动因此终止了使用它的程序。这不是程序的问题，那张卡上的其他任务也会这样失败。",
                fix="先找到这张卡：`nvidia-smi -q -d ECC,ROW_REMAPPER` 有错误计数，`sudo dmesg | grep -i xid` 会指明。排空并重置"
                "（nvidia-smi --gpu-reset）或重启，再运行 dcgmi diag -r 3。若错误再现，更换（replace/RMA）该卡。",
            ),
        ),
        "contained": (
            Text(
                title="Contained uncorrectable ECC memory error on {where} (Xid {codes})",
                why="The error was contained: only the program that used that memory was ended. The row waits to be remapped; until "
                "the GPU is reset, the count of pending remappings stays.",
                fix="Restart the program. Drain and reset the GPU (nvidia-smi --gpu-reset) at the next quiet moment, so that the row is "
                "remapped; check `nvidia-smi -q -d ECC,ROW_REMAPPER`. If it repeats, run dcgmi diag -r 3 and replace the card.",
            ),
            Text(
                title="{where} 出现被隔离的不可纠正 ECC 显存错误（Xid {codes}）",
                why="错误已被隔离：只有使用那块显存的程序被终止。坏行等待重映射，在重置 GPU 之前一直处于挂起（Pending）状态。",
                fix="重新启动程序。尽快在空闲时排空并重置 GPU（nvidia-smi --gpu-reset）以完成重映射，查看 "
                "`nvidia-smi -q -d ECC,ROW_REMAPPER`。反复出现则运行 dcgmi diag -r 3 并更换该卡。",
            ),
        ),
        "counted": (
            Text(
                title="{where}: {count} uncorrectable ECC errors since the driver was loaded; no row waits to be remapped",
                why="The card has met memory errors that ECC could not correct, and the programs that used that memory were ended. Nothing is "
                "pending (Pending: No), so that a reset would remap nothing.",
                fix="Restart the programs that were ended, and watch the count with `nvidia-smi -q -d ECC,ROW_REMAPPER`. Where it grows, drain the "
                "GPU, run dcgmi diag -r 3, and replace (RMA) the card if that fails or remapping fails.",
            ),
            Text(
                title="{where}：驱动加载以来有 {count} 个不可纠正 ECC 错误；没有等待重映射的行",
                why="显存出现过 ECC 无法纠正的错误，使用那块显存的程序已被终止。没有挂起的重映射（Pending：No），重置也不会重映射任何行。",
                fix="重新启动被终止的程序，用 `nvidia-smi -q -d ECC,ROW_REMAPPER` 观察计数。若继续增加，排空该 GPU，运行 dcgmi diag -r 3；"
                "检测失败或重映射失败时更换（replace/RMA）该卡。",
            ),
        ),
        "counter": (
            Text(
                title="{where}: {count} uncorrectable ECC errors{pending: (remapping Pending: *)}",
                why="The card has met memory errors that ECC could not correct. A pending row remapping takes effect only at the next "
                "reset of the GPU; until then the bad row is still in use.",
                fix="Drain the GPU and reset it (nvidia-smi --gpu-reset, or nvidia-smi -r) or reboot, so that the rows are remapped; then "
                "look again with `nvidia-smi -q -d ECC,ROW_REMAPPER`. Replace the card only if remapping failed or errors return.",
            ),
            Text(
                title="{where}：{count} 个不可纠正 ECC 错误{pending:（重映射 Pending：*）}",
                why="显存出现过 ECC 无法纠正的错误。挂起（Pending）的行重映射要到下次重置 GPU 才生效，在那之前坏行仍在使用。",
                fix="排空该 GPU 并重置（reset：nvidia-smi --gpu-reset 或 nvidia-smi -r）或重启，完成行重映射，然后用 "
                "`nvidia-smi -q -d ECC,ROW_REMAPPER` 复查。只有重映射失败或错误再现才更换（replace）。",
            ),
        ),
        "past": (
            Text(
                title="{gpu} has had {count} uncorrectable memory errors in its life; none since the driver was loaded",
                why="Rows that failed were remapped or pages retired. This is how the card is meant to cope.",
                fix="Nothing now; watch the count with `nvidia-smi -q -d ECC,ROW_REMAPPER`.",
            ),
            Text(
                title="{gpu} 累计出现过 {count} 个不可纠正显存错误；驱动加载以来没有新错误",
                why="坏行已被重映射或坏页已退役，这是显卡的正常应对方式。",
                fix="目前无需处理；用 `nvidia-smi -q -d ECC,ROW_REMAPPER` 观察计数。",
            ),
        ),
    },
)
