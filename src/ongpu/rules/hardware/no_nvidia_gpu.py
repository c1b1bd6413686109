"""The machine has no NVIDIA card at all: nothing to reseat, nothing to install."""

from collections.abc import Iterator

from ongpu.facts.container import Kubernetes
from ongpu.facts.driver import Kernel
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import UNGIVEN, Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

# Instance types with NVIDIA GPUs; all others that look like a type have none.
_AWS = lazy(r"(?:p[2-9]\w*|g[2-7]\w*)\.")
_AWS_OTHER = lazy(r"(?:g4ad|inf\d|trn\d\w*|dl\d\w*|vt1|f\d\w*|[tmcrxzidh]\d\w*)\.")
_AZURE = lazy(r"Standard_N(?!V\d+as_v4|V\d+ads_V710|G)")
_GCP = lazy(r"(?:a[2-4]|g[24])-")
_GCP_OTHER = lazy(r"(?:e2|n2d?|n4|c[234]d?|t2[ad]|m[1-3])-")


def has_nvidia(instance: str) -> bool | None:
    """Whether a cloud's instance type has NVIDIA GPUs; None where the name does not say."""
    if _AWS_OTHER.match(instance):
        return False
    if _AWS.match(instance) or _AZURE.match(instance) or _GCP.match(instance):
        return True
    return False if instance.startswith("Standard_") or _GCP_OTHER.match(instance) else None


def check(
    symptoms: Symptoms | None,
    pci: Pci | None,
    machine: Machine | None,
    kubernetes: Kubernetes | None,
    gpus: Gpus | None,
    torch: Torch | None,
    kernel: Kernel | None,
) -> Iterator[Finding]:
    if (gpus and (gpus.gpus or any("nvidia" in n.lower() or "tx " in n.lower() for n in gpus.names))) or (
        pci and pci.nvidia()
    ):
        return
    if pci and kernel and any(line.startswith("nvidia") for line in kernel.dkms) and not (machine and machine.virtual):
        return  # somebody built the driver's module for this kernel: there was a card (gpu-not-on-bus)
    instance = (
        (kubernetes.instance_type if kubernetes else None)
        or (symptoms.value("type", "instance-type") if symptoms else None)
        or (machine.cloud if machine else None)
    )
    if pci and any(device.bus == "?" and not device.name for device in pci.devices):
        return  # lines of a device that was cut out with grep
    if symptoms and symptoms.has("told-has-nvidia", "bus-remove-typed") and pci:
        return  # a card that is told to be there, or was taken off the bus, and is not seen: gpu-not-on-bus
    silent = bool(symptoms and symptoms.has("hw-driver-silent", "smi-missing")) or bool(torch and torch.available is False)
    refs: tuple[Ref, ...] = symptoms.cite("instance-type", "accelerator-of-another-maker", most=2) if symptoms else ()
    if instance and has_nvidia(instance) is False and (silent or refs):
        refs = (*refs, *(machine.about("cloud")[:1] if machine and machine.cloud else ()))
        yield _finding(instance, Certainty.LIKELY, (*refs, *_why(symptoms)), "instance")
        return
    shown = [d for d in pci.devices if d.display] if pci else []
    virtual = bool(symptoms and symptoms.has("virtual-display")) or bool(machine and machine.virtual and shown)
    if pci and not virtual and (pci.complete or shown) and (silent or pci.complete):
        names = ", ".join(d.name or d.bus for d in shown) or UNGIVEN
        certainty = Certainty.CERTAIN if pci.complete and shown else Certainty.LIKELY
        amd = any("amd" in (d.name or "").lower() or "ati " in (d.name or "").lower() for d in shown)
        if not amd or silent:
            yield _finding(names, certainty, (*(d.ref for d in shown if d.ref), *pci.refs[:2], *_why(symptoms)))
        return
    if not symptoms or not silent:
        return
    if pci and not pci.devices and symptoms.has("rented-server-told"):
        yield _finding(UNGIVEN, Certainty.LIKELY, (*symptoms.cite("rented-server-told", most=2), *pci.refs[:2], *_why(symptoms)))
        return
    if machine and machine.colab and not symptoms.has("gpu-runtime-told"):
        yield _finding("Colab", Certainty.LIKELY, (*machine.about("colab")[:1], *_why(symptoms)), "colab")
    elif symptoms.has("told-no-nvidia-card"):
        yield _finding("?", Certainty.LIKELY, (*symptoms.cite("told-no-nvidia-card"), *_why(symptoms)), "told")
    elif symptoms.has("told-amd-card") and machine and machine.system == "windows":
        card = symptoms.value("card", "told-amd-card") or "AMD"
        yield _finding(card, Certainty.LIKELY, (*symptoms.cite("told-amd-card"), *_why(symptoms)))
    elif symptoms.has("told-other-graphics") and not (gpus and gpus.names):
        card = symptoms.value("card", "told-other-graphics") or "Intel"
        yield _finding(card, Certainty.LIKELY, (*symptoms.cite("told-other-graphics"), *_why(symptoms)))


def _why(symptoms: Symptoms | None) -> tuple[Ref, ...]:
    return symptoms.cite("hw-driver-silent", most=2) if symptoms else ()


def _finding(what: str, certainty: Certainty, refs: tuple[Ref, ...], variant: str = "") -> Finding:
    return Finding(
        certainty=certainty, variant=variant, values={"what": what}, fixes=(Fix("look-at-the-bus"),), refs=refs
    )


_FIX_EN = (
    'Run on the CPU: map_location="cpu", device="cpu", no .cuda(); install the CPU build; or use another machine or a cloud GPU. '
    "Installing an NVIDIA driver or CUDA cannot help here."
)
_FIX_ZH = (
    '改用 CPU 运行：map_location="cpu"、device="cpu"、去掉 .cuda()，安装 CPU 版；或换一台机器、用云 GPU。'
    "在这里安装 NVIDIA 驱动或 CUDA 没有用。"
)

RULE = Rule(
    slug="no-nvidia-gpu",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "driver-not-installed",
        "driver-module-not-loaded",
        "device-node-missing",
        "cuda-unavailable",
        "gpu-not-on-bus",
        "nouveau-conflict",
        "container-toolkit-missing",
        "cpu-only-build",
        "cuda-lib-missing",
        "driver-module-build-failed",
        "uvm-module-missing",
        "k8s-device-plugin-missing",
        "secure-boot-unsigned-module",
        "mixed-driver-installs",
    ),
    settle=("lspci -nn -d 10de:", "lspci | grep -Ei 'vga|3d|display'"),
    see=("https://developer.nvidia.com/cuda-gpus", "https://github.com/awslabs/amazon-eks-ami/issues/1470"),
    en=Text(
        title="This machine has no NVIDIA GPU{what: (display devices on the PCI bus: *)}",
        why="CUDA runs on NVIDIA cards only. The message asks for a driver because the library cannot tell a missing driver from a "
        "missing card.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="这台机器没有 NVIDIA GPU{what:（PCI 总线上的显示设备：*）}",
        why="CUDA 只能在 NVIDIA 显卡上运行。报错让你装驱动，是因为库分不清“没有驱动”与“没有显卡”。",
        fix=_FIX_ZH,
    ),
    variants={
        "instance": (
            Text(
                title="The instance type {what} has no NVIDIA GPU",
                why="inf and trn carry AWS Inferentia and Trainium chips, g4ad AMD cards, and t, m, c, r types no accelerator at all. The GPU "
                "image boots there too, and its driver then finds no device (driver not loaded).",
                fix="Choose an instance type with an NVIDIA GPU: AWS g4dn, g5, g6, p3, p4, p5; Azure NC, ND, NV (not NVv4); Google a2, a3, g2, "
                "or n1 with an accelerator attached. In Kubernetes give GPU nodes a pool of their own and a nodeSelector. Otherwise run "
                "on the CPU.",
            ),
            Text(
                title="实例类型 {what} 没有 NVIDIA GPU",
                why="inf、trn 是 AWS Inferentia、Trainium 芯片，g4ad 是 AMD 卡，t、m、c、r 系列没有任何加速卡。GPU 镜像在上面也能启动，"
                "但驱动找不到设备（driver not loaded）。",
                fix="选择带 NVIDIA GPU 的实例：AWS g4dn、g5、g6、p3、p4、p5；Azure NC、ND、NV（NVv4 除外）；Google a2、a3、g2 或附加加速器的 n1。"
                "在 Kubernetes 中为 GPU 节点单独建池并用 nodeSelector。否则在 CPU 上运行。",
            ),
        ),
        "colab": (
            Text(
                title="This Colab session has no GPU: its runtime type is CPU (or the quota is used up)",
                why="Colab gives a GPU only when the runtime type asks for one; after long use it may be refused or taken away.",
                fix="Runtime > Change runtime type > Hardware accelerator: GPU (T4), then run all cells again. If it is refused, the free quota is "
                "used up: wait or use a paid tier; or run on the CPU.",
            ),
            Text(
                title="这个 Colab 会话没有 GPU：运行时类型是 CPU（或额度已用完）",
                why="只有运行时类型选了 GPU，Colab 才会分配；长时间使用后可能被拒绝或收回。",
                fix="“代码执行程序”→“更改运行时类型”→ 硬件加速器选 GPU（T4），再重新运行全部单元格。若被拒绝说明免费额度用完：稍后再试或付费；"
                "或在 CPU 上运行。",
            ),
        ),
        "told": (
            Text(
                title="This machine is said to have no NVIDIA GPU, and the program asks for one",
                why="CUDA runs on NVIDIA cards only; integrated graphics do not count. No driver can change that.",
                fix=_FIX_EN,
            ),
            Text(
                title="据描述这台机器没有 NVIDIA GPU，而程序要求使用它",
                why="CUDA 只能在 NVIDIA 显卡上运行，集成显卡不算，装驱动也改变不了。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
