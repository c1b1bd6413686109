"""On Linux aarch64 the default wheel of the framework is a CPU build."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.installs import Installs
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.knowledge._versions import numbers
from ongpu.knowledge.torch import default_build
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_ARM = ("GB10", "GH200", "GB200", "Spark")


def check(
    machine: Machine,
    torch: Torch | None,
    packages: Packages | None,
    symptoms: Symptoms | None,
    gpus: Gpus | None,
    installs: Installs | None,
    flow: TensorFlow | None,
) -> Iterator[Finding]:
    arm = machine.architecture == "aarch64" or any(name in (machine.product or "") for name in _ARM)
    if not arm or machine.jetson or machine.system in ("macos", "windows"):
        return
    where = machine.product or "aarch64"
    missed = (
        *(symptoms.cite("torch-not-compiled-with-cuda", "cuda-requested-unavailable") if symptoms else ()),
        *blind(symptoms, torch, flow),
    )
    package = packages.get("torch") if packages else None
    version = torch.version if torch else None
    cpu = bool(torch and torch.cuda == "" and not torch.hip)
    default = bool(
        version
        and "+" not in version
        and torch
        and torch.cuda is None
        and default_build(version, "linux_aarch64") == "cpu"
    )
    cpu = cpu or bool(torch and any("+cpu" in conflict for conflict in torch.conflicts))
    if version and not (cpu or default) and torch and (torch.cuda or "+cu" in version):
        return
    plain = (
        [
            i
            for i in installs.installs
            if i.tool in ("pip", "uv") and i.asks("torch") and not any("whl/" in u for u in i.indexes)
        ]
        if installs
        else []
    )
    refs = (
        *machine.about("architecture", "product"),
        *missed,
        *(torch.about("version", "cuda") if torch else ()),
        *((package.ref,) if package and package.ref else ()),
        *(i.ref for i in plain),
    )
    if flow and flow.version and flow.gpus == 0:
        yield Finding(
            variant="tensorflow",
            certainty=Certainty.LIKELY,
            values={"version": flow.version, "where": where},
            refs=(*machine.about("architecture", "product"), *flow.refs),
        )
        return
    if not (
        cpu or default or (plain and missed) or (missed and symptoms and symptoms.has("torch-not-compiled-with-cuda"))
    ):
        return
    new = bool(version and numbers(version) >= (2, 7))
    yield Finding(
        certainty=Certainty.CERTAIN if cpu and missed else Certainty.LIKELY,
        values={
            "version": version or "?",
            "where": where,
            "tag": "cu130" if new and numbers(version or "") >= (2, 9) else "cu128",
            "pin": f"=={version.partition('+')[0]}" if version and new else "",
        },
        fixes=(Fix("install-torch-cuda"),),
        refs=refs,
    )


RULE = Rule(
    slug="aarch64-cpu-wheel",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("cpu-only-build", "cuda-unavailable"),
    settle=("uname -m", "python -c 'import torch; print(torch.__version__, torch.version.cuda)'"),
    see=("https://pytorch.org/get-started/locally/", "https://docs.nvidia.com/dgx/dgx-spark/"),
    en=Text(
        title="On {where} (Linux aarch64) the default PyTorch wheel {version:(*) }is a CPU build",
        why="Up to torch 2.10 the aarch64 wheel on PyPI has no CUDA; CUDA wheels for aarch64 (SBSA: Grace, GH200, DGX Spark) exist only on PyTorch's CUDA index, from 2.7 on. Installers that look for a driver on x86_64 only take the CPU wheel too.",
        fix="pip uninstall torch torchvision torchaudio, then pip install torch torchvision --index-url https://download.pytorch.org/whl/{tag} (shows as {version:*|VERSION}+{tag}), or torch 2.11 and newer from PyPI, or NVIDIA's NGC PyTorch container for aarch64.",
    ),
    zh=Text(
        title="在 {where}（Linux aarch64）上，默认的 PyTorch wheel{version:（*）}是 CPU 版",
        why="torch 2.10 及更早，PyPI 上的 aarch64 wheel 不带 CUDA；aarch64（SBSA：Grace、GH200、DGX Spark）的 CUDA wheel 只在 PyTorch 的 CUDA 索引里，从 2.7 开始提供。只在 x86_64 上检测驱动的安装器也会装成 CPU 版。",
        fix="先 pip uninstall torch torchvision torchaudio，再 pip install torch torchvision --index-url https://download.pytorch.org/whl/{tag}（版本会显示为 {version:*|版本号}+{tag}）；或用 PyPI 上的 torch 2.11 及以上，或 NVIDIA NGC 的 aarch64 PyTorch 容器。",
    ),
    variants={
        "tensorflow": (
            Text(
                title="TensorFlow {version} for Linux aarch64 ({where}) is a CPU build",
                why="TensorFlow's aarch64 wheels are built without CUDA.",
                fix="Use NVIDIA's TensorFlow container for aarch64 (NGC, nvcr.io/nvidia/tensorflow) or build TensorFlow from source.",
            ),
            Text(
                title="Linux aarch64（{where}）上的 TensorFlow {version} 是 CPU 版",
                why="TensorFlow 的 aarch64 wheel 不带 CUDA。",
                fix="使用 NVIDIA 的 aarch64 TensorFlow 容器（NGC，nvcr.io/nvidia/tensorflow），或从源码编译。",
            ),
        ),
    },
)
