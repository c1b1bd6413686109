"""The card is older than the open kernel modules support, and they are the ones that are loaded."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver, SystemPackages
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.cuda import open_modules
from ongpu.knowledge.gpus import compute_capability
from ongpu.knowledge.pci import architecture_of_device_id
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

OPEN = lazy(r"^nvidia-(?:driver|dkms|kernel-source)-\d{3}(?:-server)?-open$|^nvidia-open(?:-dkms|-\d+)?$|^nvidia-open-kernel-dkms$|^kmod-nvidia-open-dkms$|^linux-modules-nvidia-\d+-open")


def check(symptoms: Symptoms | None, driver: Driver | None, pci: Pci | None, gpus: Gpus | None, packages: SystemPackages | None) -> Iterator[Finding]:
    said = symptoms.cite("open-module-unsupported") if symptoms else ()
    if not said and gpus and any(g.index is not None and g.memory_total for g in gpus.gpus):
        return
    card, device, lines = _card(symptoms, pci, gpus)
    flavour = driver.flavour if driver else None
    opened = next((name for name in packages.packages if OPEN.match(name)), None) if packages else None
    told = symptoms.cite("open-modules-told") if symptoms else ()
    fails = bool(symptoms and symptoms.has("rm-init-failed", "no-devices-found", "smi-no-communication", "no-cuda-device", "module-no-such-device", "nvrm-none-initialized", "torch-no-driver"))
    fails = fails or bool(gpus is not None and not gpus.gpus and gpus.refs) or bool(driver and driver.smi_works is False)
    needs = bool(card or device)
    if said:
        certainty = Certainty.CERTAIN
    elif needs and (flavour == "open" or opened) and fails:
        certainty = Certainty.CERTAIN if flavour == "open" else Certainty.LIKELY
    elif needs and (flavour == "open" or opened or (told and fails)):
        certainty = Certainty.LIKELY
    else:
        return
    device = device or (symptoms.value("id", "nvrm-pci-id") if symptoms else None)
    version = (driver.module or driver.version) if driver else None
    label = " ".join(part for part in (card, f"[{device}]" if device else "") if part)
    yield Finding(
        certainty=certainty,
        values={"card": label or "NVIDIA GPU", "version": version or "?", "branch": "580"},
        fixes=(Fix("use-closed-modules"),),
        refs=((*(symptoms.cite("nvrm-pci-id") if symptoms else ()), *said, *lines, *told, *(driver.about("flavour", "module")[:2] if driver and flavour else ()),
              *(packages.about("packages")[:2] if packages and opened else ()), *(symptoms.cite("rm-init-failed", "nvrm-none-initialized", most=2) if symptoms else ()))),
    )


def _card(symptoms: Symptoms | None, pci: Pci | None, gpus: Gpus | None) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    """(name, PCI id, lines) of a card without GSP."""
    for hit in symptoms.seen("nvrm-pci-id", "nvrm-bare-id", "modalias-id") if symptoms else ():
        found = hit.groups.get("id") or hit.groups.get("id2") or ""
        architecture = architecture_of_device_id(found)
        if architecture and architecture.open_modules == "unsupported":
            return None, found, (hit.ref,)
    for device in pci.nvidia() if pci else ():
        architecture = architecture_of_device_id(device.device) if device.device else None
        capability = architecture.capability if architecture else compute_capability(device.name or "")
        if capability and open_modules(capability) == "unsupported":
            return device.name, f"10de:{device.device}" if device.device else None, (device.ref,) if device.ref else ()
    for name in gpus.all_names() if gpus else ():
        capability = compute_capability(name)
        if capability and open_modules(capability) == "unsupported":
            return name, None, gpus.about("names")[:1] if gpus else ()
    return None, None, ()


RULE = Rule(
    slug="open-kernel-module-unsupported-gpu",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-not-on-bus", "driver-module-not-loaded", "gsp-firmware-missing", "driver-not-installed", "gpu-fell-off-bus", "device-node-missing", "no-nvidia-gpu",
           "secure-boot-unsigned-module", "power-cable-missing", "driver-module-build-failed"),
    settle=("modinfo -F license nvidia", "sudo dmesg | grep -i nvrm", "lspci -nn -d 10de:"),
    see=("https://github.com/NVIDIA/open-gpu-kernel-modules", "https://developer.nvidia.com/blog/nvidia-transitions-fully-towards-open-source-gpu-kernel-modules/"),
    en=Text(
        title="{card} is older than the open kernel modules support (it has no GSP), and the open ones are installed{version: (*)}",
        why="NVIDIA's open kernel modules run on Turing and newer only, because they need the GPU System Processor. Maxwell, Pascal and Volta cards need the closed (proprietary) modules. Many packages switched to the open ones by default with 560, and from 590 on there are only open ones.",
        fix="Switch to the proprietary modules: nvidia-driver-<branch> without -open (Ubuntu), nvidia-kernel-dkms (Debian), nvidia-580xx-dkms (Arch), or the .run file with --kernel-module-type=proprietary; reboot. The last branch for Maxwell, Pascal and Volta is 580.",
    ),
    zh=Text(
        title="{card} 太老，开源内核模块不支持（没有 GSP），而系统装的正是开源模块{version:（*）}",
        why="NVIDIA 开源内核模块依赖 GPU 系统处理器（GSP），只支持 Turing 及更新的卡。Maxwell、Pascal、Volta 必须用闭源（proprietary）模块。许多软件包从 560 起默认改装开源模块，590 起只有开源模块。",
        fix="换成 proprietary 闭源模块：Ubuntu 用不带 -open 的 nvidia-driver-<分支>，Debian 用 nvidia-kernel-dkms，Arch 用 nvidia-580xx-dkms，或给 .run 加 --kernel-module-type=proprietary；然后重启。Maxwell、Pascal、Volta 的最后一个分支是 580。",
    ),
)
