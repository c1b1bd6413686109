"""A card that should be there does not appear on the PCI bus."""

from collections.abc import Iterator

from ongpu.facts.container import Container, Slurm
from ongpu.facts.counts import GpuCount
from ongpu.facts.driver import Kernel
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, pci: Pci | None, machine: Machine | None, gpus: Gpus | None, counts: GpuCount | None, variables: Variables | None,
    container: Container | None, slurm: Slurm | None, kernel: Kernel | None,
) -> Iterator[Finding]:
    silent = bool(symptoms and symptoms.has("hw-driver-silent", "nvrm-no-gpu", "modprobe-no-device"))
    why = symptoms.cite("hw-driver-silent", "nvrm-no-gpu", "modprobe-no-device", most=2) if symptoms else ()
    named = ", ".join(gpus.names[:2]) if gpus and gpus.names else ""
    card = named or "the GPU"
    if symptoms and symptoms.has("some-gpus-missing"):
        have = next(
            (v for k in ("have", "have2", "have3", "have4") if (v := symptoms.value(k, "some-gpus-missing"))), "?"
        )
        want = next((v for k in ("want", "want2", "want3") if (v := symptoms.value(k, "some-gpus-missing"))), "?")
        yield _finding(card, Certainty.POSSIBLE, symptoms.cite("some-gpus-missing"), "some", have=have, want=want)
        return
    chosen = bool(variables and (variables.get("CUDA_VISIBLE_DEVICES") or variables.get("NVIDIA_VISIBLE_DEVICES"))) or bool(slurm and (slurm.job or slurm.gres))
    boxed = bool(container and (container.inside or container.runs))
    explained = bool(symptoms and symptoms.has("gsp-silent", "fell-off-bus", "smi-handle-error", "ecc-error", "cannot-attach-gpu"))
    few = (chosen or boxed) and not (counts and counts.configured)  # a container may be given a part of them, unless its operator says how many
    short = None if few or explained else _short(symptoms, counts, gpus)
    if short:
        told, seen, refs = short
        yield _finding(card, Certainty.LIKELY if counts and counts.told else Certainty.POSSIBLE, refs, "some" if seen != "?" else "", have=seen, want=told)
        return
    off = symptoms.cite("gpu-switched-off") if symptoms else ()
    dead = [d for d in pci.devices if d.dead and (d.nvidia or d.display)] if pci else []
    if off and (dead or silent or (pci and not pci.nvidia())):
        yield _finding(card, Certainty.LIKELY, (*off, *(d.ref for d in dead if d.ref), *why), "off")
        return
    if (pci and pci.nvidia()) or (gpus and any(g.index is not None for g in gpus.gpus)):
        return  # lspci shows it, or the driver does: an excerpt of lspci says nothing then
    virtual = symptoms.cite("virtual-display") if symptoms else ()
    shown = [d for d in pci.devices if d.display] if pci else []
    refs = (*virtual, *(d.ref for d in shown if d.ref), *why)
    where = (machine.virtual if machine else None) or next((d.name for d in shown if d.name), None) or "virtual machine"
    if pci and (virtual or (machine and machine.virtual and (shown or named or not pci.complete))):
        sure = Certainty.CERTAIN if pci.complete else Certainty.LIKELY
        yield _finding(card, sure, refs, "virtual", where=where)
    elif pci and pci.complete and (named or (symptoms and symptoms.has("told-riser", "told-has-nvidia"))):
        riser = symptoms.cite("told-riser", "told-has-nvidia", most=2) if symptoms else ()
        yield _finding(
            card, Certainty.CERTAIN, (*pci.refs[:3], *riser, *(gpus.about("names")[:2] if gpus else ()), *why)
        )
    elif pci and pci.complete and (built := [line for line in kernel.dkms if line.startswith("nvidia")] if kernel else []) and not (machine and machine.virtual):
        yield _finding(card, Certainty.LIKELY, (*pci.refs[:2], *(kernel.about("dkms")[:2] if kernel and built else ()), *why))
    elif pci and pci.complete and not pci.devices and symptoms and (typed := symptoms.cite("bus-remove-typed", most=3)):
        yield _finding(card, Certainty.LIKELY, (*typed, *pci.refs[:2], *why), "rescan")
    elif pci and pci.complete and not shown and not (machine and machine.virtual):
        yield _finding(card, Certainty.LIKELY, (*pci.refs[:3], *why))
    elif symptoms and symptoms.has("told-lspci-empty"):
        kind = "virtual" if machine and machine.virtual else ""
        yield _finding(card, Certainty.LIKELY, (*symptoms.cite("told-lspci-empty"), *why), kind, where=where)
    elif symptoms and symptoms.has("bus-rescan-empty") and not (gpus and gpus.gpus):
        yield _finding(card, Certainty.LIKELY, (*symptoms.cite("bus-rescan-empty", most=3), *off, *why), "rescan")
    elif symptoms and symptoms.has("gpu-gone-told") and not (gpus and gpus.gpus):
        yield _finding(card, Certainty.LIKELY, (*symptoms.cite("gpu-gone-told", most=3), *off, *why), "gone")
    elif symptoms and symptoms.has("told-riser") and silent:
        yield _finding(card, Certainty.LIKELY, (*symptoms.cite("told-riser", most=2), *why), "riser")
    elif symptoms and symptoms.has("nvrm-no-gpu", "modprobe-no-device"):
        yield _finding(card, Certainty.POSSIBLE if not virtual else Certainty.LIKELY, why)
    elif symptoms and silent and virtual:
        yield _finding(card, Certainty.LIKELY, refs, "virtual", where=where)
    elif symptoms and silent and machine and machine.virtual and not machine.wsl:
        never = machine.virtual == "virtualbox"  # it cannot pass a card through
        sure = Certainty.LIKELY if never else Certainty.POSSIBLE
        yield _finding(card, sure, (*machine.about("virtual")[:2], *why), "virtual", where=where)


def _short(symptoms: Symptoms | None, counts: GpuCount | None, gpus: Gpus | None) -> tuple[str, str, tuple[Ref, ...]] | None:
    """(cards that should be there, cards that are shown, lines) where fewer are shown than told, or one is said to be missing."""
    lost = symptoms.cite("gpu-missing-told") if symptoms else ()
    listed = len([g for g in gpus.gpus if g.index is not None]) if gpus else 0
    told = counts.told if counts else None
    seen = counts.seen if counts and counts.seen is not None else listed or None
    shown = gpus.cite()[:6] if gpus and listed else ()
    if told and seen is not None and seen < told and (lost or (counts and (counts.seen or (counts.configured and counts.seen == 0)))):
        return str(told), str(seen), (*(counts.refs if counts else ()), *lost, *shown)
    if lost and (listed > 0 or (symptoms and symptoms.has("told-lspci-empty", "hw-driver-silent", "lspci-named")) or (counts and counts.told)):
        return "?", str(listed) if listed else "?", (*lost, *shown)
    return None


def _finding(card: str, certainty: Certainty, refs: tuple[Ref, ...], variant: str = "", **more: str) -> Finding:
    return Finding(
        certainty=certainty, variant=variant, values={"card": card, **more}, refs=refs,
        fixes=(Fix("look-at-the-bus"), *((Fix("choose-nvidia-graphics"),) if variant == "off" else ())),
    )  # fmt: skip


RULE = Rule(
    slug="gpu-not-on-bus",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "driver-not-installed",
        "driver-module-not-loaded",
        "device-node-missing",
        "cuda-unavailable",
        "nouveau-conflict",
        "uvm-module-missing",
        "cpu-only-build",
        "driver-module-build-failed",
        "secure-boot-unsigned-module",
    ),
    settle=("lspci -nn -d 10de:", "sudo dmesg | grep -iE 'pcie|link'"),
    see=(
        "https://docs.nvidia.com/datacenter/tesla/gpu-troubleshooting-guide/",
        "https://github.com/Cyclenerd/ethereum_nvidia_miner/issues/40",
    ),
    en=Text(
        title="{card} does not appear on the PCI bus (lspci): no driver can use it",
        why="The system's list of PCI devices holds no NVIDIA card. The driver has nothing to talk to, so its messages are "
        "consequences. The fault lies in seating, power, slot or riser, BIOS, or in the virtual machine's settings.",
        fix="Look at lspci -nn -d 10de: first. Power off, seat the card, connect its power, try another slot without a riser; in the BIOS (firmware) "
        "enable the slot and Above 4G Decoding, and force a lower PCIe generation; echo 1 | sudo tee /sys/bus/pci/rescan shows whether it "
        "comes back. In a VM pass the card through.",
    ),
    zh=Text(
        title="PCI 总线（lspci）上看不到 {card}：任何驱动都无法使用它",
        why="系统的 PCI 设备列表里没有 NVIDIA 卡。驱动没有可通信的对象，其报错只是后果。问题在插接、供电、插槽或延长线、BIOS，或虚拟机设置。",
        fix="先看 lspci -nn -d 10de:。关机后重新插紧显卡、接好供电，换插槽并去掉延长线；在 BIOS 启用插槽和 Above 4G Decoding，并强制较低的 "
        "PCIe 代数；echo 1 | sudo tee /sys/bus/pci/rescan 看能否找回。虚拟机要做直通。",
    ),
    variants={
        "rescan": (
            Text(
                title="{card} is not on the PCI bus, and a rescan did not bring it back",
                why="A tool for switching graphics (optimus-manager, nvidia-xrun, suse-prime, bbswitch, supergfxctl) or echo 1 > /sys/bus/pci/devices/.../remove took the card off the PCI bus or cut its power. A rescan shows it only if the card has power again and the firmware lets it come up; one rescan at once is often too early.",
                fix="Wait some seconds and rescan again: echo 1 | sudo tee /sys/bus/pci/rescan, also on the bridge above the card; set the bridge's power/control to on first. If it stays away: do not remove the device (pci_remove=no, another power management in the tool), choose hybrid or discrete graphics in the BIOS, and switch the machine off wholly once (full power cycle).",
            ),
            Text(
                title="{card} 不在 PCI 总线上，重新扫描（rescan）也没有找回",
                why="显卡切换工具（optimus-manager、nvidia-xrun、suse-prime、bbswitch、supergfxctl）或 echo 1 > /sys/bus/pci/devices/.../remove 把卡从 PCI 总线移除或断了电。只有卡重新上电且固件允许时，重新扫描才能看到它；立即扫描一次往往太早。",
                fix="等几秒再扫描：echo 1 | sudo tee /sys/bus/pci/rescan，对上级桥也做一次；先把桥的 power/control 设为 on。仍没有：不要移除设备（工具里 pci_remove=no 或换一种电源管理），在 BIOS 选混合或独显模式，并彻底断电一次再开机。",
            ),
        ),
        "gone": (
            Text(
                title="{card} has vanished from the list of devices: the machine no longer finds the card",
                why="A card that the device manager does not show is not found by the firmware, so no driver can help. In laptops an eco or integrated mode, a "
                "firmware fault or a hung embedded controller (EC) switches it off; otherwise its power, seating or the card itself has failed.",
                fix="Show hidden devices and scan for hardware changes. Laptop: choose hybrid or standard mode (MUX, eco mode off) in the maker's tool or the BIOS; "
                "shut down, unplug, hold the power button for 40 s (EC hard reset); update or reset the BIOS (firmware). Desktop: seat the card and its "
                "power anew, try another slot. If it stays away, it needs repair.",
            ),
            Text(
                title="{card} 从设备列表中消失：机器已经识别不到这块卡",
                why="设备管理器里没有的卡，是固件没有识别到，装驱动没有用。笔记本上可能是节能（eco）或集显模式、固件故障，或嵌入式控制器（EC）卡死把它关掉；"
                "否则是供电、插接或显卡本身坏了。",
                fix="显示隐藏的设备并扫描硬件改动。笔记本：在厂商工具或 BIOS 中选混合或标准模式（MUX，关闭 eco）；关机、拔掉电源，按住电源键 40 秒（EC hard reset）；"
                "更新或重置 BIOS（固件）。台式机：重新插好显卡和供电，换插槽。仍找不到就需要维修。",
            ),
        ),
        "virtual": (
            Text(
                title="This virtual machine ({where}) sees only a virtual display adapter, no NVIDIA GPU",
                why="A guest sees the host's card only if it is passed through (PCI passthrough, vfio) or a vGPU is assigned. Installing a driver "
                "in the guest cannot help before that.",
                fix="Pass the GPU through to the VM: enable IOMMU (VT-d / AMD-Vi) on the host, bind the card to vfio-pci, add it to the VM (VMware "
                "ESXi: PCI device / DirectPath I/O; Proxmox: hostpci; KVM: hostdev). VMware Workstation, Player and VirtualBox cannot pass "
                "a GPU through: use WSL2 or a native install, or run on the CPU.",
            ),
            Text(
                title="虚拟机（{where}）里只有虚拟显示适配器，没有 NVIDIA GPU",
                why="只有做了直通（PCI passthrough、vfio）或分配了 vGPU，客户机才能看到宿主机的显卡。在那之前，在客户机里装驱动没有用。",
                fix="把 GPU 直通（passthrough）给虚拟机：宿主机启用 IOMMU（VT-d / AMD-Vi），显卡绑定 vfio-pci，再加到虚拟机（VMware ESXi：PCI 设备 / "
                "DirectPath I/O；Proxmox：hostpci；KVM：hostdev）。VMware Workstation、Player 与 VirtualBox 不支持 GPU 直通：改用 WSL2 或"
                "原生系统，或在 CPU 上运行。",
            ),
        ),
        "riser": (
            Text(
                title="{card} is probably not on the PCI bus since it sits on a riser or cable; check lspci",
                why="The driver is the same as before; what changed is the link. A riser or long cable often cannot carry the newest PCIe "
                "generation, then the card is not found at boot and nvidia-smi blames the driver.",
                fix="Check lspci -nn -d 10de: first. If the card is missing, force the slot to PCIe Gen2 or Gen3 in the BIOS, change the riser or its "
                "cable and power lead, or put the card back into the slot. Do not reinstall the driver.",
            ),
            Text(
                title="{card} 接在延长线（riser）上之后很可能不在 PCI 总线上；请用 lspci 检查",
                why="驱动没变，变的是链路。延长线往往跑不了最新的 PCIe 代数，开机时识别不到显卡，nvidia-smi 便归咎于驱动。",
                fix="先看 lspci -nn -d 10de:。若没有该卡，在 BIOS 把插槽强制为 PCIe Gen2 或 Gen3，更换延长线（riser）及其供电，或把卡插回主板插槽。"
                "不必重装驱动。",
            ),
        ),
        "off": (
            Text(
                title="The NVIDIA card of this hybrid laptop is switched off (integrated graphics mode)",
                why="prime-select intel, bbswitch, supergfxctl or envycontrol powers the card down; it then vanishes from the bus or answers only "
                '"rev ff".',
                fix="Switch it on: sudo prime-select nvidia (or on-demand), supergfxctl -m Hybrid, sudo envycontrol -s hybrid, or remove bbswitch / set "
                "the BIOS to hybrid or discrete; then reboot.",
            ),
            Text(
                title="这台混合显卡笔记本的 NVIDIA 卡被关闭（集显模式）",
                why="prime-select intel、bbswitch、supergfxctl 或 envycontrol 会切断独显电源，它便从总线消失，或只显示 “rev ff”。",
                fix="重新打开：sudo prime-select nvidia（或 on-demand）、supergfxctl -m Hybrid、sudo envycontrol -s hybrid，或移除 bbswitch、在 BIOS 设为"
                "混合或独显模式；然后重启。",
            ),
        ),
        "some": (
            Text(
                title="Only {have}{want: of *} GPUs are visible: the others may not be on the PCI bus",
                why="If lspci lists fewer cards than are installed, the missing ones have a fault of power, seating or slot; if lspci lists them all, "
                "look in the kernel log why the driver did not take them.",
                fix="Compare lspci -nn -d 10de: with nvidia-smi -L, and read sudo dmesg | grep -iE 'nvrm|xid'. Reboot with a full power-off; seat the "
                "missing card anew; check its power; swap it with a working one to see whether card or slot is bad.",
            ),
            Text(
                title="{want:* 张 }GPU 只看到 {have} 张：其余的可能不在 PCI 总线上",
                why="若 lspci 列出的卡比实际少，缺的卡有供电、插接或插槽问题；若 lspci 全部列出，则在内核日志里找驱动没有接管的原因。",
                fix="对比 lspci -nn -d 10de: 与 nvidia-smi -L，查看 sudo dmesg | grep -iE 'nvrm|xid'。彻底断电重启；重插缺失的卡、检查供电；与好卡对调，"
                "判断是卡还是插槽的问题。",
            ),
        ),
    },
)
