"""macOS has no CUDA: code that asks for it cannot run there."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import Torch
from ongpu.facts.installs import Installs
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_SAID = (
    "torch-not-compiled-with-cuda",
    "torch-op-no-cuda",
    "cuda-requested-unavailable",
    "op-no-cuda",
    "bnb-no-gpu",
    "nvidia-driver-not-found-torch",
    "bnb-binary-missing",
    "gpu-not-seen",
    "cuda-home-unset",
    "nvcc-not-found",
    "xformers-built-for",
    "tf-not-built-with-cuda",
    "map-location",
)


def check(
    machine: Machine | None, symptoms: Symptoms | None, torch: Torch | None, installs: Installs | None
) -> Iterator[Finding]:
    mac = bool(machine and machine.system == "macos")
    told = symptoms.cite("mac-told", most=2) if symptoms and not mac and not (machine and machine.system) else ()
    if not mac and not told:
        return
    said = (*(symptoms.cite(*_SAID) if symptoms else ()), *blind(symptoms, torch))
    cuda = (
        [
            i
            for i in installs.installs
            if i.refused
            and (
                i.refused.startswith("nvidia-")
                or any("+cu" in x or "/whl/cu" in x or "cuda" in x for x in (i.refused, *i.indexes))
            )
        ]
        if installs
        else []
    )
    asked = (
        [
            i
            for i in installs.installs
            if any("/whl/cu" in u for u in i.indexes)
            or any(
                "pytorch-cuda" in a or "cudatoolkit" in a or "flash-attn" in a or "[cuda" in a or "and-cuda" in a
                for a in i.asked
            )
        ]
        if installs
        else []
    )
    if not said and not cuda and not asked:
        return
    aside = not cuda and not asked and all("available" in ref.quote.lower() and "cuda" in ref.quote.lower() for ref in said)
    aside = aside and bool(symptoms and symptoms.has("mac-cuda-not-asked"))
    yield Finding(
        certainty=Certainty.CERTAIN if mac else Certainty.LIKELY,
        severity=Severity.NOTE if aside else None,
        values={"arch": (machine.architecture if machine else None) or "?"},
        fixes=(Fix("use-mps"),),
        refs=(*said, *(i.ref for i in (*cuda, *asked)), *told, *(machine.about("system") if machine and mac else ())),
    )


RULE = Rule(
    slug="macos-no-cuda",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "cpu-only-build",
        "gpu-extra-missing",
        "cuda-home-unset",
        "nvcc-missing",
        "companion-package-mismatch",
        "wheel-unavailable-for-python",
        "model-not-moved",
        "checkpoint-map-location",
        "driver-not-installed",
        "no-nvidia-gpu",
        "aarch64-cpu-wheel",
    ),
    see=("https://pytorch.org/docs/stable/notes/mps.html", "https://pytorch.org/get-started/locally/"),
    en=Text(
        title="There is no CUDA on macOS (Mac): the code asks for a device that cannot exist there",
        why="NVIDIA stopped supporting macOS with CUDA 10.2, and Apple Silicon has no NVIDIA GPU. No wheel, index or driver changes that. Apple's GPU is reached through MPS (Metal) instead.",
        fix="Use device 'mps' where the program allows it (torch.backends.mps.is_available(), PYTORCH_ENABLE_MPS_FALLBACK=1 for missing operations), else 'cpu' (torch.load(..., map_location='cpu')), or run on a Linux machine with an NVIDIA GPU.",
    ),
    zh=Text(
        title="macOS 上没有 CUDA：代码请求的设备在那里不可能存在",
        why="NVIDIA 自 CUDA 10.2 之后不再支持 macOS，Apple Silicon 也没有 NVIDIA GPU，换 wheel、索引或驱动都无济于事。苹果的 GPU 要通过 MPS（Metal）使用。",
        fix="程序支持时使用 'mps' 设备（torch.backends.mps.is_available()，缺失的算子设 PYTORCH_ENABLE_MPS_FALLBACK=1），否则用 'cpu'（torch.load(..., map_location='cpu')），或在带 NVIDIA GPU 的 Linux 机器上运行。",
    ),
)
