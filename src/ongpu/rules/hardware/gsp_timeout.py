"""The GPU's own system processor (GSP) stopped answering the driver."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

BEFORE = (48, 62, 64, 79, 95)  # events that explain a silent GSP


def check(symptoms: Symptoms | None, xids: Xids | None, driver: Driver | None) -> Iterator[Finding]:
    events = xids.of(119, 120) if xids else ()
    said = symptoms.cite("gsp-silent") if symptoms else ()
    unborn = symptoms.cite("gsp-boot-failed", most=3) if symptoms else ()
    if unborn and not events and not said:
        told = symptoms.value("bus", "rm-init-failed") if symptoms else None
        yield Finding(
            subject=told or "", certainty=Certainty.LIKELY if len(unborn) > 1 else Certainty.POSSIBLE, variant="boot",
            values={"bus": told or "?", "driver": (driver and (driver.module or driver.version)) or "?"}, fixes=(Fix("reboot-node"),),
            refs=(*unborn, *(symptoms.cite("rm-init-failed", most=1) if symptoms else ()), *(driver.about("module", "version")[:1] if driver else ())),
        )  # fmt: skip
    if not (events or said):
        return
    root = bool(xids and xids.of(*BEFORE))
    bus = (
        next((e.bus for e in events if e.bus), "") or (symptoms.value("bus", "nvrm-gpu-line") if symptoms else "") or ""
    )
    lines = symptoms.cite("nvrm-gpu-line", most=1) if symptoms else ()
    flavour = driver.flavour if driver else None
    yield Finding(
        subject=bus,
        certainty=Certainty.POSSIBLE if root else Certainty.CERTAIN if events else Certainty.LIKELY,
        variant="open" if flavour == "open" else "",
        values={"bus": bus or "?", "codes": sorted({e.code for e in events}) or [119],
                "driver": (driver and (driver.module or driver.version)) or "?"},
        fixes=(Fix("reboot-node"),),
        refs=(*(e.ref for e in events[:4]), *said[:3], *lines, *(driver.about("version", "module")[:1] if driver else ())),
    )  # fmt: skip


_EN = (
    "GSP timeout on the GPU{bus: at *} (Xid {codes}): its system processor stopped answering",
    "Newer drivers leave much of their work to the GPU System Processor. It no longer answers remote calls (RPC), so each "
    "nvidia-smi or CUDA call waits about 45 seconds and then fails. Early 525 drivers had such a fault; power management and a "
    "dying card are other causes.",
)
_ZH = (
    "{bus:* 的 }GPU 发生 GSP 超时（Xid {codes}）：其系统处理器不再应答",
    "较新的驱动把大量工作交给 GPU 系统处理器（GSP）。它不再应答 RPC，于是每次 nvidia-smi 或 CUDA 调用都要等约 45 秒后失败。"
    "早期 525 驱动有此缺陷；电源管理与显卡故障也是常见原因。",
)

RULE = Rule(
    slug="gsp-timeout",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "gpu-answers-with-error",
        "driver-hung",
        "nccl-timeout",
        "cuda-unavailable",
        "driver-module-not-loaded",
        "zombie-holds-memory",
    ),
    settle=("sudo dmesg | grep -iE 'xid|gsp'",),
    see=(
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/446",
        "https://docs.nvidia.com/deploy/xid-errors/",
    ),
    en=Text(
        title=_EN[0],
        why=_EN[1],
        fix="Drain and reboot the node (a reset may hang too; power-cycle if so). Update the driver to the newest release of its branch "
        "(525.105.17 fixed the early-525 fault). If it comes back, switch GSP off where the card and the proprietary module allow "
        "it: options nvidia NVreg_EnableGpuFirmware=0 in /etc/modprobe.d, rebuild the initramfs, reboot. A card that alone fails "
        "again and again is an RMA case.",
    ),
    zh=Text(
        title=_ZH[0],
        why=_ZH[1],
        fix="排空并重启节点（重置也可能卡住，必要时断电重启）。把驱动升级到所在分支的最新版（525.105.17 修复了早期 525 的缺陷）。"
        "若仍出现，在显卡和闭源模块允许时关闭 GSP：在 /etc/modprobe.d 写入 options nvidia NVreg_EnableGpuFirmware=0，更新 initramfs 后"
        "重启。若总是同一张卡出现，应送修（RMA）。",
    ),
    variants={
        "boot": (
            Text(
                title="The GPU{bus: at *} does not start: its system processor (GSP) did not come up{driver:, driver *}",
                why="Driver and card agree on nothing until the GSP's firmware runs. \"GFW_BOOT\" means that the card's own boot never ended (power, slot, riser, a wedged card), "
                "\"WPR2 already up\" that an earlier driver or virtual machine left it half started, \"Booter failed\" or \"cannot bootstrap\" that firmware and module do not fit or the card was not reset.",
                fix="Switch the machine off wholly (not only a warm reboot) and start again; in a VM reset the card on the host. Reseat it and its power. Make sure that the firmware is of the module's version (/lib/firmware/nvidia/<version>/), "
                "take a newer driver release, update the BIOS; before Blackwell the proprietary module with NVreg_EnableGpuFirmware=0 does without GSP. If only this card fails, it is an RMA case.",
            ),
            Text(
                title="{bus:* 的 }GPU 无法启动：其系统处理器（GSP）没有起来{driver:，驱动 *}",
                why="GSP 固件没有运行之前，驱动无法使用该卡。“GFW_BOOT” 表示显卡自身的启动没有完成（供电、插槽、延长线或卡死），“WPR2 already up” 表示之前的驱动或虚拟机让它停在半启动状态，“Booter failed”“cannot bootstrap” 表示固件与模块不匹配或显卡没有复位。",
                fix="彻底断电再开机（不只是热重启）；虚拟机则在宿主机上复位该卡。重新插紧显卡和供电。确认固件与模块同版本（/lib/firmware/nvidia/<版本>/），升级驱动和 BIOS；Blackwell 之前的卡可用闭源模块加 NVreg_EnableGpuFirmware=0 绕过 GSP。若只有这张卡如此，应送修（RMA）。",
            ),
        ),
        "open": (
            Text(
                title=_EN[0],
                why=_EN[1],
                fix="Drain and reboot the node (power-cycle if the reset hangs). Update the driver to the newest release of its branch. The "
                "open kernel modules cannot run without GSP: to switch it off (NVreg_EnableGpuFirmware=0) you need the proprietary "
                "modules and a card before Blackwell. A card that alone fails again and again is an RMA case.",
            ),
            Text(
                title=_ZH[0],
                why=_ZH[1],
                fix="排空并重启节点（重置卡住时断电重启）。把驱动升级到所在分支的最新版。开源内核模块离不开 GSP：要关闭它"
                "（NVreg_EnableGpuFirmware=0）须改用闭源模块，且显卡早于 Blackwell。若总是同一张卡出现，应送修（RMA）。",
            ),
        ),
    },
)
