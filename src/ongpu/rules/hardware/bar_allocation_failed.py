"""The BIOS, the kernel or the hypervisor gave the card no address space for its memory regions (BARs)."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

CERTAIN = ("assigned to your nvidia device is invalid", "is 0m", "misconfigured")


def check(symptoms: Symptoms | None, pci: Pci | None, machine: Machine | None) -> Iterator[Finding]:
    hits = symptoms.seen("bar-invalid") if symptoms else ()
    regions = [d for d in pci.devices if d.no_bar and d.nvidia] if pci else []
    if not (hits or regions):
        return
    sure = any(any(words in hit.ref.quote.lower() for words in CERTAIN) for hit in hits)
    bar = (symptoms.value("bar", "bar-which") if symptoms else None) or "BAR1"
    bus = (symptoms.value("bus", "bar-which") if symptoms else None) or next((d.bus for d in regions), "")
    virtual = bool(machine and machine.virtual)
    yield Finding(
        subject=bus,
        certainty=Certainty.CERTAIN if sure or regions else Certainty.LIKELY,
        values={"bus": bus or "?", "bar": bar, "where": machine.virtual if machine and virtual else "?"},
        fixes=(Fix("look-at-bars"),),
        refs=(
            *(hit.ref for hit in hits[:4]), *(symptoms.cite("bar-which") if symptoms else ()), *(d.ref for d in regions if d.ref),
        ),
    )  # fmt: skip


RULE = Rule(
    slug="bar-allocation-failed",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "driver-module-not-loaded",
        "device-node-missing",
        "driver-not-installed",
        "cuda-unavailable",
        "no-nvidia-gpu",
        "gpu-not-on-bus",
        "gpu-fell-off-bus",
        "windows-code-43",
        "k8s-device-plugin-missing",
    ),
    settle=("sudo dmesg | grep -iE 'BAR|nvrm'", "lspci -vv -d 10de: | grep -i region"),
    see=(
        "https://docs.nvidia.com/datacenter/tesla/tesla-installation-notes/",
        "https://github.com/NVIDIA/gpu-operator/issues/492",
    ),
    en=Text(
        title="The GPU{bus: at *} got no address space for {bar}: the driver cannot map it",
        why="A data-centre card (or one with resizable BAR) wants a 64-bit window as large as its memory. The BIOS or hypervisor "
        "left too little 64-bit MMIO space above 4 GiB, so the region stayed unassigned and the probe fails. With several cards the "
        "first may fit and the others not.",
        fix="Bare metal: turn on Above 4G Decoding (and Resizable BAR / large MMIO, MMIO High Size) in the BIOS, turn CSM off and boot by "
        "UEFI, update the BIOS; try the kernel argument pci=realloc. VM: use EFI firmware and a larger 64-bit MMIO window: VMware "
        "pciPassthru.use64bitMMIO=TRUE and pciPassthru.64bitMMIOSizeGB=256 (or more), QEMU/KVM -global "
        "q35-pcihost.pci-hole64-size=1T or opt/ovmf/X-PciMmio64Mb=262144, Hyper-V Set-VM -HighMemoryMappedIoSpace. Windows error "
        "code 12 has the same cause.",
    ),
    zh=Text(
        title="{bus:* 的 }GPU 没有分到 {bar} 地址空间：驱动无法映射",
        why="数据中心卡（或启用 resizable BAR 的卡）需要与显存一样大的 64 位窗口。BIOS 或虚拟机管理程序在 4 GiB 以上留的 64 位 MMIO 空间太小，"
        "该区域未分配，驱动探测失败。多卡时可能前几张够用，后面的不够。",
        fix="物理机：在 BIOS 打开 Above 4G Decoding（以及 Resizable BAR、MMIO High Size），关闭 CSM 用 UEFI 启动，升级 BIOS；可试内核参数 "
        "pci=realloc。虚拟机：用 EFI 固件并加大 64 位 MMIO 窗口：VMware 设 pciPassthru.use64bitMMIO=TRUE 与 "
        "pciPassthru.64bitMMIOSizeGB=256（或更大），QEMU/KVM 用 -global q35-pcihost.pci-hole64-size=1T 或 "
        "opt/ovmf/X-PciMmio64Mb=262144，Hyper-V 用 Set-VM -HighMemoryMappedIoSpace。Windows 的代码 12 原因相同。",
    ),
)
