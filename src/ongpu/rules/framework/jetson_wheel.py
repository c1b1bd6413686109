"""On a Jetson the wheel must be NVIDIA's own for its JetPack: the general aarch64 wheel has no code for it, or no CUDA."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import OnnxRuntime, Packages, TensorFlow, Torch
from ongpu.facts.installs import Installs
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_SAID = (
    "torch-not-compiled-with-cuda",
    "no-kernel-image",
    "kernel-image-missing",
    "cuda-requested-unavailable",
    "shared-object-missing",
    "arch-not-compatible",
    "not-supported-wheel",
    "libtorch-missing",
    "ort-provider-missing",
    "torchvision-nms",
    "bnb-no-gpu",
    "bnb-binary-missing",
    "tf-not-built-with-cuda",
    "chose-cpu",
    "gpu-not-seen",
    "nvidia-driver-not-found-torch",
)


def check(
    machine: Machine,
    torch: Torch | None,
    packages: Packages | None,
    symptoms: Symptoms | None,
    flow: TensorFlow | None,
    onnx: OnnxRuntime | None,
    installs: Installs | None,
) -> Iterator[Finding]:
    if not machine.jetson or machine.system in ("windows", "macos"):
        return
    said = (*(symptoms.cite(*_SAID) if symptoms else ()), *blind(symptoms, torch, flow, None, onnx))
    version = torch.version if torch else None
    local = version.partition("+")[2] if version else ""
    own = bool(version and (local.startswith("nv") or ".nv" in version or "nv2" in version or "git" in local))
    general = bool(
        version and not own and ((torch and torch.cuda == "") or local.startswith(("cu", "cpu")) or not local)
    )
    refused = tuple(i.ref for i in installs.installs if i.refused) if installs else ()
    asked = (
        tuple(
            i.ref
            for i in installs.installs
            if i.tool in ("pip", "uv")
            and i.asks("torch", "torchvision", "tensorflow", "onnxruntime-gpu", "tensorflow-gpu")
        )
        if installs
        else ()
    )
    if not (said or refused or (torch and torch.cuda == "")):
        return
    name = "onnxruntime-gpu" if onnx and not torch else "tensorflow" if flow and not torch else "torch"
    pointing = (
        general
        or refused
        or asked
        or (torch and torch.available is False)
        or (
            symptoms
            and symptoms.has(
                "torch-not-compiled-with-cuda",
                "no-kernel-image",
                "kernel-image-missing",
                "libtorch-missing",
                "torchvision-nms",
                "not-supported-wheel",
                "ort-provider-missing",
            )
        )
    )
    if not pointing and not (flow or onnx):
        return
    shown = version or (flow.version if flow else None) or (onnx.version if onnx else None)
    yield Finding(
        certainty=Certainty.CERTAIN if torch and torch.cuda == "" and said else Certainty.LIKELY,
        values={"version": shown or "?", "name": name},
        refs=(
            *said,
            *machine.about("jetson", "product"),
            *(torch.about("version", "cuda") if torch else ()),
            *asked,
            *refused,
            *(packages.cite("torch", "tensorflow", "onnxruntime-gpu", "onnxruntime") if packages else ()),
        ),
    )


RULE = Rule(
    slug="jetson-wheel",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "cpu-only-build",
        "aarch64-cpu-wheel",
        "compute-capability-too-new",
        "compute-capability-too-old",
        "cuda-lib-missing",
        "wheel-unavailable-for-python",
        "gpu-extra-missing",
        "cuda-unavailable",
        "companion-package-mismatch",
        "wrong-index-for-gpu",
    ),
    settle=("cat /etc/nv_tegra_release", "python3 -c 'import torch; print(torch.__version__, torch.version.cuda)'"),
    see=(
        "https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform/index.html",
        "https://pypi.jetson-ai-lab.io/",
        "https://forums.developer.nvidia.com/t/pytorch-for-jetson/72048",
    ),
    en=Text(
        title="The {name} wheel{version: (*)} is not one for this Jetson",
        why="PyPI's aarch64 wheels are CPU builds or, with CUDA, made for servers (SBSA) and have no code for the Jetson's GPU (7.2, 8.7). A Jetson needs the wheel that NVIDIA builds for its JetPack release and Python version.",
        fix="Uninstall {name} and install NVIDIA's wheel for this JetPack (docs: Installing PyTorch for Jetson Platform; index pypi.jetson-ai-lab.io/jp6/cu126 or the like), build torchvision against it, or use the l4t-pytorch / jetson-containers image. `cat /etc/nv_tegra_release` shows which JetPack (L4T) it is.",
    ),
    zh=Text(
        title="这个 {name} wheel{version:（*）}不适用于该 Jetson",
        why="PyPI 的 aarch64 wheel 要么是 CPU 版，要么是面向服务器（SBSA）的 CUDA 版，不含 Jetson GPU（7.2、8.7）的代码。Jetson 需要 NVIDIA 针对其 JetPack 版本和 Python 版本构建的 wheel。",
        fix="卸载 {name}，安装 NVIDIA 为该 JetPack 提供的 wheel（文档：Installing PyTorch for Jetson Platform；索引如 pypi.jetson-ai-lab.io/jp6/cu126），torchvision 需据此编译；或使用 l4t-pytorch / jetson-containers 镜像。`cat /etc/nv_tegra_release` 可看 JetPack（L4T）版本。",
    ),
)
