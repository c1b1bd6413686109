"""Another kernel driver (nouveau, nvidiafb, vfio-pci) holds the card."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, driver: Driver | None, pci: Pci | None, gpus: Gpus | None) -> Iterator[Finding]:
    if (driver and (driver.smi_works or driver.nvml == "ok")) or (gpus and any(g.index is not None and g.memory_total for g in gpus.gpus)):
        return
    held = [d for d in pci.nvidia() if d.driver in ("nouveau", "vfio-pci", "nvidiafb", "NovaCore", "nova_core")] if pci else []
    loaded = bool(driver and driver.nouveau_loaded and not driver.module_loaded)
    said = symptoms.cite("nouveau-in-use") if symptoms else ()
    owner = symptoms.cite("module-not-owner") if symptoms else ()
    vfio = symptoms.cite("vfio-in-use") if symptoms else ()
    nova = symptoms.cite("nova-in-use") if symptoms else ()
    if (held and held[0].driver == "vfio-pci") or (vfio and not said and not loaded and owner):
        name, variant = "vfio-pci", "vfio"
    elif nova or (held and "nova" in (held[0].driver or "").lower()):
        name, variant = "nova_core", "nova"
    else:
        name, variant = (held[0].driver or "nouveau") if held else "nouveau", ""
    if not (held or loaded or said or owner or nova):
        return
    if variant == "vfio" and not owner and not (symptoms and symptoms.has("smi-no-communication", "smi-missing", "torch-no-driver", "no-cuda-device")):
        return  # a card passed through to a guest on purpose
    if (pci and pci.nvidia() and all(d.driver == "nvidia" for d in pci.nvidia())) or (driver and driver.module_loaded and not owner and not held):
        return
    sure = bool(held or loaded or said or nova)
    yield Finding(
        certainty=Certainty.CERTAIN if sure else Certainty.LIKELY,
        variant=variant,
        values={"driver": name, "bus": held[0].bus if held else "?"},
        fixes=(Fix("blacklist-nouveau"),) if not variant else (Fix("blacklist-nova" if variant == "nova" else "show-pci-driver"),),
        refs=(*(d.ref for d in held if d.ref), *nova, *said, *owner, *(driver.about("nouveau_loaded") if loaded and driver else ()), *vfio, *(symptoms.cite("smi-missing", "smi-no-communication", most=1) if symptoms else ())),
    )


RULE = Rule(
    slug="nouveau-conflict",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-not-on-bus", "driver-module-not-loaded", "device-node-missing", "driver-not-installed", "uvm-module-missing", "driver-too-old-for-cuda"),
    settle=("lspci -nnk -d 10de:", "lsmod | grep -E 'nouveau|nvidia'"),
    see=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/", "https://github.com/mattshma/bigdata/issues/133"),
    en=Text(
        title="The open-source driver {driver} holds the card, so the NVIDIA module cannot take it",
        why="Only one kernel driver can own a PCI device. {driver} was loaded first (usually out of the initramfs), and it has no CUDA.",
        fix="Install the NVIDIA driver if it is not there. Blacklist nouveau: put \"blacklist nouveau\" and \"options nouveau modeset=0\" into /etc/modprobe.d/blacklist-nouveau.conf, run sudo update-initramfs -u (sudo dracut --force on Fedora and RHEL), reboot, and check that lspci -k says \"Kernel driver in use: nvidia\".",
    ),
    zh=Text(
        title="开源驱动 {driver} 占用了显卡，NVIDIA 模块无法接管",
        why="一个 PCI 设备只能由一个内核驱动掌管。{driver} 先被加载（通常来自 initramfs），而它不支持 CUDA。",
        fix="如果还没装 NVIDIA 驱动，先安装。然后屏蔽 nouveau：在 /etc/modprobe.d/blacklist-nouveau.conf 写入 “blacklist nouveau” 和 “options nouveau modeset=0”，运行 sudo update-initramfs -u（Fedora、RHEL 用 sudo dracut --force），重启，并确认 lspci -k 显示 “Kernel driver in use: nvidia”。",
    ),
    variants={
        "nova": (
            Text(
                title="The new open-source driver nova_core holds the card, so the NVIDIA module cannot take it",
                why="Nova is the kernel's successor to nouveau. Kernels that are built with CONFIG_NOVA_CORE load it at boot for Turing and newer cards; it has no CUDA yet, and a list that blacklists only nouveau does not stop it.",
                fix="Blacklist it: put \"blacklist nova_core\" and \"blacklist nova_drm\" into a file in /etc/modprobe.d, run sudo update-initramfs -u (sudo dracut --force on Fedora and RHEL), reboot, and check that lspci -k says \"Kernel driver in use: nvidia\".",
            ),
            Text(
                title="新的开源驱动 nova_core 占用了显卡，NVIDIA 模块无法接管",
                why="Nova 是内核中 nouveau 的后继者。启用了 CONFIG_NOVA_CORE 的内核会在启动时为 Turing 及更新的卡加载它；它还不支持 CUDA，而只屏蔽 nouveau 拦不住它。",
                fix="屏蔽它：在 /etc/modprobe.d 的文件中写入 “blacklist nova_core” 和 “blacklist nova_drm”，运行 sudo update-initramfs -u（Fedora、RHEL 用 sudo dracut --force），重启，并确认 lspci -k 显示 “Kernel driver in use: nvidia”。",
            ),
        ),
        "vfio": (
            Text(
                title="vfio-pci holds the card: it is set aside for a virtual machine",
                why="The card was bound to vfio-pci (boot line vfio-pci.ids=10de:..., modprobe.d, or a hypervisor), so the host's NVIDIA driver may not take it.",
                fix="If this host shall use the card: remove its id from vfio-pci.ids and from /etc/modprobe.d, update the initramfs, reboot. If a guest shall use it: install the driver in the guest.",
            ),
            Text(
                title="vfio-pci 占用了显卡：它已预留给虚拟机",
                why="该卡被绑定到 vfio-pci（启动参数 vfio-pci.ids=10de:...、modprobe.d 或虚拟化平台），宿主机的 NVIDIA 驱动不能接管。",
                fix="如果要在本机使用：从 vfio-pci.ids 和 /etc/modprobe.d 中去掉它的 id，更新 initramfs 后重启。如果给虚拟机使用：在虚拟机内安装驱动。",
            ),
        ),
    },
)
