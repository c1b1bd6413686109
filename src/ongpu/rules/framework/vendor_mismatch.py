"""A CUDA build on an AMD or Intel card, or a ROCm build on an NVIDIA card."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_NO_CUDA = (
    "nvidia-driver-not-found-torch",
    "torch-not-compiled-with-cuda",
    "cuda-requested-unavailable",
    "no-gpu-complaint",
    "torch-no-driver",
    "gpu-not-seen",
    "chose-cpu",
    "smi-missing",
    "bnb-no-gpu",
    "bnb-binary-missing",
    "tf-no-cuda-drivers",
    "cuda-home-unset",
)


def check(
    symptoms: Symptoms | None,
    torch: Torch | None,
    gpus: Gpus | None,
    pci: Pci | None,
    packages: Packages | None,
    machine: Machine | None,
    variables: Variables | None,
) -> Iterator[Finding]:
    nvidia = bool(gpus and (gpus.gpus or gpus.names)) or bool(pci and pci.nvidia())
    amd = symptoms.value("card", "amd-card") if symptoms else None
    intel = symptoms.value("card", "intel-card") if symptoms else None
    rocm = bool(torch and (torch.hip or (torch.version and "+rocm" in torch.version)))
    missed = (*blind(symptoms, torch), *(symptoms.cite(*_NO_CUDA, most=2) if symptoms else ()))
    before = bool(torch and torch.cuda and amd and not nvidia)  # the build for CUDA is the present one: ROCm is what was there once
    if rocm or (symptoms and symptoms.has("rocm-build") and not before):
        own = nvidia or bool(symptoms and symptoms.has("nvidia-card-named") and not amd)
        lib = symptoms.value("what", "rocm-build") if symptoms else None
        if own and not (amd and not nvidia):
            yield Finding(
                variant="rocm",
                certainty=Certainty.CERTAIN if rocm and nvidia else Certainty.LIKELY,
                values={
                    "version": (torch.version if torch else None) or "?",
                    "card": gpus.all_names()[:2] if gpus and gpus.all_names() else "NVIDIA",
                    "lib": lib or "ROCm",
                },
                refs=(
                    *(torch.about("version", "hip") if torch and rocm else ()),
                    *(symptoms.cite("rocm-build") if symptoms else ()),
                    *(gpus.cite()[:2] if gpus else ()),
                    *(symptoms.cite("nvidia-card-named", most=2) if symptoms else ()),
                ),
            )
        elif (
            rocm
            and symptoms
            and symptoms.has("no-nvcc-in-torch", "cuda-home-unset", "nvcc-not-found", "shared-object-missing")
        ):
            yield Finding(
                variant="build",
                certainty=Certainty.LIKELY,
                values={"version": (torch.version if torch else None) or "?"},
                refs=(
                    *torch.about("version", "hip"),
                    *symptoms.cite(
                        "no-nvcc-in-torch", "cuda-home-unset", "nvcc-not-found", "shared-object-missing", most=2
                    ),
                )
                if torch
                else (),
            )
        return
    card = amd or (intel if intel and "arc" in intel.lower() else None)  # integrated graphics: no-nvidia-gpu
    if not card or (nvidia and not (symptoms and symptoms.has("card-replaced"))) or not symptoms or (machine and machine.system == "macos"):
        return
    if symptoms.has("nvidia-card-named") and not _only_words(symptoms) and not symptoms.has("card-replaced"):
        return
    cuda = bool(torch and torch.cuda) or bool(
        packages
        and any(n.startswith("nvidia-c") or n in ("onnxruntime-gpu", "tensorflow-gpu") for n in packages.packages)
    )
    if not (cuda or missed):
        return
    yield Finding(
        variant="" if amd else "intel",
        certainty=Certainty.CERTAIN if cuda and missed else Certainty.LIKELY,
        values={"card": _named(card), "version": (torch.version if torch else None) or "?"},
        refs=(
            *symptoms.cite("amd-card" if amd else "intel-card", most=2),
            *missed,
            *(torch.about("version", "cuda") if torch else ()),
        ),
    )


def _named(card: str) -> str:
    """The card without the maker, which the title names."""
    return card.strip().removeprefix("AMD ").removeprefix("Intel ").strip()


def _only_words(symptoms: Symptoms) -> bool:
    """Whether "NVIDIA" stands only in messages that every machine prints, not as a card."""
    return all(
        any(
            w in hit.ref.quote.lower()
            for w in ("nvidia-smi", "nvidia driver", "nvidia gpu and", "www.nvidia.com", "no nvidia")
        )
        for hit in symptoms.seen("nvidia-card-named")
    )


RULE = Rule(
    slug="vendor-mismatch",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "cpu-only-build",
        "driver-not-installed",
        "cuda-unavailable",
        "gpu-extra-missing",
        "no-nvidia-gpu",
        "cuda-home-unset",
        "nvcc-missing",
    ),
    settle=(
        "lspci | grep -iE 'vga|3d|display'",
        "python -c 'import torch; print(torch.version.cuda, torch.version.hip)'",
    ),
    see=(
        "https://pytorch.org/get-started/locally/",
        "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/3rd-party/pytorch-install.html",
        "https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html",
    ),
    en=Text(
        title="The card is an AMD {card}: a CUDA build {version:(torch *) }cannot use it",
        why="CUDA runs on NVIDIA cards only. An AMD card needs the ROCm build (Linux; on Windows ROCm/HIP or DirectML), which answers to torch.cuda all the same.",
        fix="Linux: pip install torch torchvision --index-url https://download.pytorch.org/whl/rocm6.4 (or newer), for a card that ROCm supports. Windows: PyTorch for ROCm from AMD where the card is supported, torch-directml, or ZLUDA builds of the program; else the CPU.",
    ),
    zh=Text(
        title="显卡是 AMD {card}：CUDA 构建{version:（torch *）}用不了它",
        why="CUDA 只能在 NVIDIA 显卡上运行。AMD 卡需要 ROCm 构建（Linux；Windows 上为 ROCm/HIP 或 DirectML），代码里同样用 torch.cuda 访问。",
        fix="Linux：pip install torch torchvision --index-url https://download.pytorch.org/whl/rocm6.4（或更新），前提是 ROCm 支持该卡。Windows：AMD 提供的 ROCm 版 PyTorch（支持该卡时）、torch-directml 或程序的 ZLUDA 版；否则用 CPU。",
    ),
    variants={
        "build": (
            Text(
                title="A CUDA package is being built or used with a ROCm build of PyTorch ({version})",
                why="The torch in this environment is the one for AMD cards, while the package needs nvcc and CUDA. With an NVIDIA card it is the wrong build; with an AMD card the package needs its ROCm variant.",
                fix="NVIDIA card: uninstall torch and install the CUDA build (--index-url https://download.pytorch.org/whl/cu126 or newer). AMD card: take the ROCm version of the package (flash-attention for ROCm, bitsandbytes with ROCm), no CUDA toolkit is needed.",
            ),
            Text(
                title="正在用 ROCm 版 PyTorch（{version}）编译或使用 CUDA 包",
                why="该环境里的 torch 面向 AMD 卡，而这个包需要 nvcc 和 CUDA。若是 NVIDIA 卡，就是装错了构建；若是 AMD 卡，则应使用该包的 ROCm 版本。",
                fix="NVIDIA 卡：卸载 torch，安装 CUDA 构建（--index-url https://download.pytorch.org/whl/cu126 或更新）。AMD 卡：使用该包的 ROCm 版本（ROCm 版 flash-attention、bitsandbytes 等），不需要 CUDA 工具包。",
            ),
        ),
        "intel": (
            Text(
                title="The card is an Intel {card}: a CUDA build {version:(torch *) }cannot use it",
                why="CUDA runs on NVIDIA cards only. Intel Arc cards are used through the XPU build; integrated graphics are of little use for training.",
                fix="For Arc: pip install torch torchvision --index-url https://download.pytorch.org/whl/xpu and device 'xpu'; for integrated graphics use the CPU, OpenVINO, or a machine with an NVIDIA GPU.",
            ),
            Text(
                title="显卡是 Intel {card}：CUDA 构建{version:（torch *）}用不了它",
                why="CUDA 只能在 NVIDIA 显卡上运行。Intel Arc 要用 XPU 构建；集成显卡对训练帮助不大。",
                fix="Arc：pip install torch torchvision --index-url https://download.pytorch.org/whl/xpu，设备写 'xpu'；集成显卡请用 CPU、OpenVINO，或换带 NVIDIA GPU 的机器。",
            ),
        ),
        "rocm": (
            Text(
                title="A ROCm build ({version}; {lib}) is installed for an NVIDIA card ({card})",
                why="The ROCm wheel drives AMD cards only. pip took it from an index or find-links page that offers both, or an installer misjudged the card.",
                fix="pip uninstall torch torchvision torchaudio and install the CUDA build: pip install torch torchvision torchaudio --index-url https://download.pytorch.org/whl/cu126 (or the cuXXX of the others); name the +cuXXX suffix for every package.",
            ),
            Text(
                title="给 NVIDIA 显卡（{card}）装了 ROCm 构建（{version}；{lib}）",
                why="ROCm wheel 只能驱动 AMD 卡。pip 从同时提供两者的索引或 find-links 页面取到了它，或安装器误判了显卡。",
                fix="先 pip uninstall torch torchvision torchaudio，再装 CUDA 构建：pip install torch torchvision torchaudio --index-url https://download.pytorch.org/whl/cu126（或其他包所用的 cuXXX）；每个包都写明 +cuXXX 后缀。",
            ),
        ),
    },
)
