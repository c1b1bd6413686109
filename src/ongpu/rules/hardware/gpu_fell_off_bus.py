"""The card vanished while it was running: it no longer answers on the PCI bus."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.hardware import Gpus, Pci, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

SURE = ("fell-off-bus",)
SIGNS = ("cannot-attach-gpu", "device-inaccessible", "header-7f", "pcie-hotplug-down")
BESIDE = ("aer-errors", "recovery-action")
LOST = ("lost", "fallen off")


def check(
    symptoms: Symptoms | None, xids: Xids | None, pci: Pci | None, gpus: Gpus | None, container: Container | None
) -> Iterator[Finding]:
    events = xids.of(79) if xids else ()
    dead = [d for d in pci.devices if d.dead and (d.nvidia or d.display)] if pci else []
    lost = [g for g in gpus.gpus if g.error and any(word in g.error.lower() for word in LOST)] if gpus else []
    said = symptoms.has(*SURE) if symptoms else False
    signs = symptoms.cite(*SIGNS) if symptoms else ()
    handle = [g for g in gpus.gpus if g.error and not lost and _silent(g.error)] if gpus else []
    if dead and symptoms and symptoms.has("gpu-switched-off"):
        return  # a laptop's card that was put to sleep looks the same: gpu-not-on-bus
    if not (events or said or lost or dead or signs or handle):
        told = symptoms.cite("gpu-vanishes-told") if symptoms else ()
        boxed = bool(container and (container.inside or container.runtime))
        if told and symptoms and symptoms.has("load-or-reboot-told") and not boxed and not symptoms.has("suspend-told", "uvm-node-missing"):
            yield Finding(
                certainty=Certainty.LIKELY, variant="told", values={"bus": "?", "xid": "?"}, fixes=(Fix("look-at-the-bus"), Fix("power-cycle")),
                refs=(*told, *symptoms.cite("load-or-reboot-told", most=2), *symptoms.cite("told-riser", most=1)),
            )  # fmt: skip
        return
    bus = (
        next((e.bus for e in events if e.bus), "")
        or next((d.bus for d in dead), "")
        or next((g.bus for g in [*lost, *handle] if g.bus), "")
    )
    bus = bus or (symptoms.value("bus", "nvrm-gpu-line") if symptoms else "") or ""
    sure = bool(events or said or lost)
    refs = (
        *(e.ref for e in events), *(symptoms.cite(*SURE, *BESIDE) if symptoms else ()),
        *(symptoms.cite("nvrm-gpu-line", most=1) if symptoms else ()), *signs,
        *(d.ref for d in dead if d.ref), *(g.ref for g in [*lost, *handle] if g.ref),
    )  # fmt: skip
    certainty = Certainty.CERTAIN if sure else Certainty.LIKELY if dead or signs or handle else Certainty.POSSIBLE
    if sure and not refs:
        refs = xids.refs if xids else ()
    link = bool(symptoms and symptoms.has("aer-errors"))
    # The words of Xid 79 itself. "GPU is lost" is NVML's, and "rev ff" is lspci's: of an Xid these say nothing.
    logged = bool(events) or any("fallen off the bus" in ref.quote.lower() for ref in refs)
    yield Finding(
        subject=bus,
        certainty=certainty,
        variant="link" if link and sure else "signs" if not (sure or dead) else "" if logged else "lost",
        values={"bus": bus or "?", "xid": 79 if logged else "?"},
        fixes=(Fix("look-at-the-bus"), Fix("power-cycle")),
        refs=refs,
    )


def _silent(error: str) -> bool:
    """Whether nvidia-smi could read next to nothing of the card."""
    return "unknown error" in error.lower() or error == "ERR!" or error.count(",") >= 1


_FIX = (
    "Reboot with a full power-off (a warm reboot often does not bring it back). Then check input power and power "
    "connectors, seat the card and riser, look at temperature and dust; cap the slot at a lower PCIe generation in the "
    "BIOS, boot with pcie_aspm=off, cap the power (nvidia-smi -pl) to see if load triggers it. Try another slot and "
    "another machine: if it follows the card, RMA it. Drain a cluster node meanwhile.",
    "彻底断电后重启（热重启往往恢复不了）。然后检查输入电源与供电接头，重新插紧显卡和延长线，查看温度与积灰；在 BIOS 里"
    "把插槽降到较低的 PCIe 代数，用 pcie_aspm=off 启动，用 nvidia-smi -pl 限制功耗看是否与负载有关。换插槽、换机器测试："
    "若问题跟着卡走，送修（RMA）。集群节点先排空（drain）。",
)

RULE = Rule(
    slug="gpu-fell-off-bus",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "gpu-answers-with-error",
        "driver-hung",
        "gpu-not-on-bus",
        "no-nvidia-gpu",
        "cuda-unavailable",
        "driver-module-not-loaded",
        "device-node-missing",
        "driver-not-installed",
        "illegal-memory-access",
        "nccl-timeout",
        "pcie-link-degraded",
        "kernel-driver-incompatible",
        "cublas-init-failed",
        "cudnn-execution-failed",
    ),
    settle=("sudo dmesg | grep -iE 'xid|nvrm|pcieport'", "lspci -nn -d 10de:"),
    see=("https://docs.nvidia.com/deploy/xid-errors/", "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1247"),
    en=Text(
        title="The GPU{bus: at *} has fallen off the PCI bus (Xid 79): it no longer answers",
        why="The driver read only ones from the card: power broke down, the contact or riser is bad, it overheated, or the card "
        "or slot is dying. Everything the program printed (launch failure, illegal access, NCCL timeout) follows from it.",
        fix=_FIX[0],
    ),
    zh=Text(
        title="{bus:* 的 }GPU 已从 PCI 总线掉线（Xid 79），不再响应",
        why="驱动从卡上读到的全是 1：供电跌落、接触或延长线不良、过热，或显卡、插槽将坏。程序打印的其他报错"
        "（launch failure、非法访问、NCCL 超时）都是它的后果。",
        fix=_FIX[1],
    ),
    variants={
        "lost": (
            Text(
                title="The GPU{bus: at *} is lost: it has fallen off the PCI bus, or cannot be reached any more",
                why="The driver, or the list of PCI devices, says that the card does not answer; no Xid was seen here. Power broke down, the contact or "
                "riser is bad, it overheated, or the card or slot is dying. What programs printed (launch failure, NCCL timeout) follows from it.",
                fix=_FIX[0],
            ),
            Text(
                title="{bus:* 的 }GPU 已丢失：从 PCI 总线掉线，或无法再访问",
                why="驱动或 PCI 设备列表表明该卡不再响应；这里没有看到 Xid。可能是供电跌落、接触或延长线不良、过热，或显卡、插槽将坏。"
                "程序打印的报错（launch failure、NCCL 超时）是它的后果。",
                fix=_FIX[1],
            ),
        ),
        "link": (
            Text(
                title="The GPU{bus: at *} fell off the bus{xid: (Xid *)} after link errors on its PCIe port",
                why="Receiver errors (RxErr, BadTLP, PCIe Bus Error) on the port show that the link itself loses data: a long or "
                "poor cable, riser or OCuLink adapter, a dirty slot, or an enclosure without enough power. Then the card was gone.",
                fix="Reboot with a full power-off. Shorten or change the cable or riser, seat it anew, cap the slot at a lower PCIe "
                "generation (Gen3 or Gen2) in the BIOS, check the enclosure's power supply. Only if it stays on a direct slot is "
                "the card to blame.",
            ),
            Text(
                title="{bus:* 的 }GPU 在 PCIe 端口报链路错误之后掉线{xid:（Xid *）}",
                why="端口上的接收错误（RxErr、BadTLP、PCIe Bus Error）说明链路本身在丢数据：线缆、延长线或 OCuLink 转接过长或质量差、"
                "插槽脏污，或外置盒供电不足；随后显卡消失。",
                fix="彻底断电后重启（reboot）。缩短或更换线缆、延长线并重新插紧，在 BIOS 里把插槽降到 Gen3 或 Gen2，检查外置盒电源。"
                "只有直插主板插槽仍然出现时才怀疑显卡。",
            ),
        ),
        "signs": (
            Text(
                title="The GPU{bus: *} does not answer: it has probably fallen off the bus",
                why='Messages such as "Cannot attach gpu", "device inaccessible" or "unable to determine the device handle" are '
                "what later opens get after the card has gone. An Xid 79, where one came first, stands further up in the kernel log.",
                fix="Look further up for Xid 79 (sudo dmesg | grep -i xid). Reboot with a full power-off, then check input power, "
                "power connectors, slot and riser before you touch the driver.",
            ),
            Text(
                title="GPU{bus: *} 不响应：很可能已从总线掉线",
                why="“Cannot attach gpu”“device inaccessible”“unable to determine the device handle” 这类信息，是显卡掉线之后再次打开时的"
                "表现。若先出现过 Xid 79，它在内核日志更靠前处。",
                fix="往前找 Xid 79（sudo dmesg | grep -i xid）。彻底断电后重启，先检查输入电源（power）、供电接头、插槽与延长线，"
                "再考虑驱动。",
            ),
        ),
        "told": (
            Text(
                title="The GPU disappears while it works: it has probably fallen off the bus",
                why="A card that is there when idle and gone under load, until a reboot or power cycle, loses its power or its PCIe link. The kernel log "
                "then holds Xid 79 (GPU has fallen off the bus).",
                fix="Read sudo dmesg | grep -iE 'xid|nvrm' after the next loss. Check power supply and cables, seating, riser, OCuLink or Thunderbolt cable; force "
                "a lower PCIe generation (Gen3) in the BIOS; try pcie_aspm=off, a lower power limit (nvidia-smi -pl) and capped clocks (nvidia-smi -lgc).",
            ),
            Text(
                title="GPU 在工作时消失：很可能已从总线掉线（掉卡）",
                why="空闲时正常，一有负载就消失，重启或断电后才回来，说明供电或 PCIe 链路不稳。此时内核日志里会有 Xid 79（GPU has fallen off the bus）。",
                fix="下次掉卡后看 sudo dmesg | grep -iE 'xid|nvrm'。检查电源与供电线、插接、延长线（riser）、OCuLink 或雷电线；在 BIOS 把插槽降到较低代数（Gen3）；"
                "试 pcie_aspm=off、降低功耗上限（nvidia-smi -pl）、限制频率（nvidia-smi -lgc）。",
            ),
        ),
    },
)
