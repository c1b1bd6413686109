"""The card needs NVIDIA's open kernel modules, and the closed ones are loaded."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver, SystemPackages
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.cuda import open_modules
from ongpu.knowledge.gpus import compute_capability
from ongpu.knowledge.pci import architecture_of_device_id
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

CLOSED = lazy(r"^nvidia-(?:driver|dkms|kernel-source|headless)-(?:server-)?\d{3}(?:-server)?$|^nvidia-kernel-dkms$|^kmod-nvidia-latest-dkms$|^nvidia-dkms$")


def check(symptoms: Symptoms | None, driver: Driver | None, pci: Pci | None, gpus: Gpus | None, packages: SystemPackages | None, machine: Machine | None) -> Iterator[Finding]:
    said = symptoms.cite("open-module-required") if symptoms else ()
    working = bool(gpus and any(g.index is not None and g.memory_total for g in gpus.gpus))
    if working and not said:
        return
    card, device, lines = _card(symptoms, pci, gpus)
    if not card and not device and machine and (machine.product or "").startswith(("GB", "DGX Spark", "DGX-Spark", "DGX B200")):
        card, lines = machine.product, machine.about("product")[:1]
    words = symptoms.cite("closed-driver-told", "open-fixes-told", most=2) if symptoms else ()
    flavour = driver.flavour if driver else None
    if flavour == "open" and not said and not (symptoms and symptoms.has("open-fixes-told") and symptoms.has("closed-driver-told")):
        return
    closed = next((name for name in packages.packages if CLOSED.match(name)), None) if packages else None
    opened = any("open" in name and "nvidia" in name for name in packages.packages) if packages else False
    init = symptoms.cite("rm-init-failed") if symptoms else ()
    telling = symptoms.cite("rm-init-closed-blackwell") if symptoms else ()
    none = bool(gpus is not None and not gpus.gpus and gpus.refs) or bool(symptoms and symptoms.has("no-devices-found", "no-cuda-device", "smi-no-communication"))
    needs = bool(device or card)
    smi_empty = bool(symptoms and symptoms.has("no-devices-found"))
    if needs and words and (init or none):
        certainty = Certainty.LIKELY
    elif said or (needs and flavour == "proprietary" and (init or none)):
        certainty = Certainty.CERTAIN
    elif (needs and (telling or (init and none) or flavour == "proprietary" or (closed and not opened and (none or init)))) or (needs and smi_empty and not opened and not (symptoms and symptoms.has("open-modules-told"))):
        certainty = Certainty.LIKELY
    elif telling and none:
        certainty = Certainty.POSSIBLE
    else:
        return
    version = (driver.module or driver.version) if driver else None
    branch = symptoms.value("branch", "closed-driver-told") if symptoms and not version else None
    device = device or (symptoms.value("id", "nvrm-pci-id") if symptoms else None)
    yield Finding(
        certainty=certainty,
        values={"card": " ".join(p for p in (card, f"[{device}]" if device else "") if p) or "NVIDIA GPU",
                "version": version or "?", "branch": version.partition(".")[0] if version else branch or "580"},
        fixes=(Fix("use-open-modules"),),
        refs=(*said, *words, *(symptoms.cite("nvrm-pci-id", "nvrm-bare-id") if symptoms else ()), *init[:2], *telling[:1], *lines, *(driver.about("flavour", "module")[:2] if driver and flavour else ()),
              *(packages.about("packages")[:2] if packages and closed else ())),
    )


def _card(symptoms: Symptoms | None, pci: Pci | None, gpus: Gpus | None) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    """(name, PCI id, lines) of a card that needs the open modules."""
    for hit in symptoms.seen("nvrm-pci-id", "nvrm-bare-id", "modalias-id") if symptoms else ():
        found = hit.groups.get("id") or hit.groups.get("id2") or ""
        architecture = architecture_of_device_id(found)
        if architecture and architecture.open_modules == "required":
            return None, found, (hit.ref,)
    for device in pci.nvidia() if pci else ():
        architecture = architecture_of_device_id(device.device) if device.device else None
        capability = architecture.capability if architecture else compute_capability(device.name or "")
        if capability and open_modules(capability) == "required":
            return device.name, f"10de:{device.device}" if device.device else None, (device.ref,) if device.ref else ()
    for name in gpus.all_names() if gpus else ():
        capability = compute_capability(name)
        if capability and open_modules(capability) == "required":
            return name, None, gpus.about("names")[:1] if gpus else ()
    return None, None, ()


RULE = Rule(
    slug="open-kernel-module-required",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-internal-error", "gpu-not-on-bus", "driver-module-not-loaded", "power-cable-missing", "bar-allocation-failed", "gpu-fell-off-bus", "driver-not-installed", "device-node-missing", "no-nvidia-gpu"),
    settle=("modinfo -F license nvidia", "cat /proc/driver/nvidia/version", "sudo dmesg | grep -i nvrm"),
    see=("https://developer.nvidia.com/blog/nvidia-transitions-fully-towards-open-source-gpu-kernel-modules/", "https://github.com/NVIDIA/open-gpu-kernel-modules"),
    en=Text(
        title="{card} works only with the NVIDIA open kernel modules, and the closed (proprietary) ones are loaded{version: (*)}",
        why="Blackwell and newer cards are supported by the open kernel modules only. The closed module of the same version loads, sees the card and refuses it: RmInitAdapter fails and nvidia-smi says \"No devices were found\". The card itself is fine.",
        fix="Replace the closed modules by the open ones of the same version: nvidia-open (CUDA repository, Arch), nvidia-driver-<branch>-open (Ubuntu), nvidia-open-kernel-dkms (Debian), or the .run file with --kernel-module-type=open. Reboot, then check modinfo -F license nvidia: it must say \"Dual MIT/GPL\", not \"NVIDIA\". Driver 570 or newer.",
    ),
    zh=Text(
        title="{card} 只能使用 NVIDIA 开源内核模块（open kernel modules），而当前加载的是闭源模块{version:（*）}",
        why="Blackwell 及更新的卡只受开源内核模块支持。同版本的闭源模块能加载、能看到卡，但会拒绝它：RmInitAdapter 失败，nvidia-smi 显示 “No devices were found”。卡本身没有问题。",
        fix="换成同版本的开源模块：nvidia-open（CUDA 仓库、Arch）、nvidia-driver-<分支>-open（Ubuntu）、nvidia-open-kernel-dkms（Debian），或给 .run 加 --kernel-module-type=open。重启后检查 modinfo -F license nvidia：应为 “Dual MIT/GPL”，而不是 “NVIDIA”。驱动至少 570。",
    ),
)
