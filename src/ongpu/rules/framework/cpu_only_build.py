"""The installed framework is a build without CUDA."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.installs import Installs, name_of
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.knowledge.card_fit import build_name
from ongpu.knowledge.torch import builds, release
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

_TORCH = ("torch-not-compiled-with-cuda", "torch-op-no-cuda")
_OTHER = ("paddle-no-cuda", "mxnet-no-cuda", "tf-not-built-with-cuda")


def check(
    symptoms: Symptoms | None,
    torch: Torch | None,
    flow: TensorFlow | None,
    packages: Packages | None,
    installs: Installs | None,
    machine: Machine | None,
    gpus: Gpus | None,
    pci: Pci | None,
) -> Iterator[Finding]:
    if machine and (machine.system == "macos" or machine.jetson):
        return
    said = symptoms.cite(*_TORCH) if symptoms else ()
    missed = (*said, *blind(symptoms, torch, flow), *(symptoms.cite("cuda-requested-unavailable") if symptoms else ()))
    package = packages.get("torch") if packages else None
    windows = bool(machine and machine.system == "windows" and not machine.wsl)
    cpu = bool(torch and torch.cuda == "" and not torch.hip)
    conda = package if package and package.build and cpu else None
    plain = bool(package and not package.local and not package.build and torch and torch.cuda is None and windows)
    none_here = bool(pci and pci.complete and not pci.nvidia())
    from_cpu_index = _cpu_index(installs)
    refs = (
        *missed,
        *(torch.about("cuda", "version") if torch else ()),
        *((package.ref,) if package and package.ref else ()),
    )
    values = _values(torch, installs)
    if said or cpu or (plain and (missed or gpus)):
        if not said and not missed and none_here:
            return
        if torch and torch.cuda and not cpu and symptoms and said and symptoms.has("torch-op-no-cuda"):
            return
        wanted = bool(missed or (gpus and (gpus.gpus or gpus.names)))
        if torch and torch.cuda and not cpu and said:  # the version that is shown has CUDA: the program runs another
            yield Finding(
                subject="PyTorch", variant="another", certainty=Certainty.LIKELY, values=values, fixes=(Fix("install-torch-cuda"),), refs=refs,
            )  # fmt: skip
            return
        yield Finding(
            subject="PyTorch",
            variant="conda"
            if conda
            else "index"
            if from_cpu_index
            else "windows"
            if windows and (plain or said)
            else "",
            certainty=Certainty.CERTAIN if (cpu and missed) or said else Certainty.LIKELY,
            severity=None if wanted or said else Severity.WARNING,
            values=values
            | {"build": conda.build if conda else "", "index": from_cpu_index[0] if from_cpu_index else ""},
            fixes=(Fix("install-torch-cuda"),),
            refs=(*refs, *(from_cpu_index[1] if from_cpu_index else ()), *_conda_pair(installs, packages)),
        )
        return
    if symptoms and symptoms.has(*_OTHER):
        name = (
            "PaddlePaddle"
            if symptoms.has("paddle-no-cuda")
            else "MXNet"
            if symptoms.has("mxnet-no-cuda")
            else "TensorFlow"
        )
        fix = {"PaddlePaddle": "paddlepaddle-gpu", "MXNet": "mxnet-cu112", "TensorFlow": "tensorflow[and-cuda]"}[name]
        yield Finding(
            variant="other",
            certainty=Certainty.LIKELY,
            values={"name": name, "package": fix},
            refs=symptoms.cite(*_OTHER),
        )
        return
    if not from_cpu_index and missed and symptoms and symptoms.has("install-on-cpu-index") and not (torch and torch.cuda):
        from_cpu_index = symptoms.value("what", "install-on-cpu-index") or "whl/cpu", symptoms.cite("install-on-cpu-index", most=2)
    if from_cpu_index and (missed or not (torch and torch.cuda)):
        yield Finding(
            variant="index",
            certainty=Certainty.LIKELY if missed else Certainty.POSSIBLE,
            values=values | {"index": from_cpu_index[0]},
            fixes=(Fix("install-torch-cuda"),),
            refs=(*from_cpu_index[1], *refs),
        )
        return
    if flow and flow.cuda == "" and (flow.version or flow.gpus == 0):
        yield Finding(
            variant="other",
            certainty=Certainty.LIKELY if flow.gpus == 0 else Certainty.POSSIBLE,
            values={"name": f"TensorFlow {flow.version or ''}".strip(), "package": "tensorflow[and-cuda]"},
            refs=flow.refs,
        )
    elif packages and packages.get("tensorflow-cpu") and missed:
        yield Finding(
            variant="other",
            certainty=Certainty.LIKELY,
            values={"name": "tensorflow-cpu", "package": "tensorflow[and-cuda]"},
            refs=packages.cite("tensorflow-cpu"),
        )
    elif packages and packages.get("paddlepaddle") and not packages.get("paddlepaddle-gpu") and missed and not torch:
        yield Finding(
            variant="other",
            certainty=Certainty.LIKELY,
            values={"name": "paddlepaddle", "package": "paddlepaddle-gpu"},
            refs=(*missed, *packages.cite("paddlepaddle")),
        )
    elif symptoms and symptoms.has("cpu-wheel-named") and (missed or gpus) and not symptoms.has("cpu-wanted"):
        yield Finding(
            variant="",
            certainty=Certainty.LIKELY,
            values=values | {"version": symptoms.value("wheel", "cpu-wheel-named") or values["version"]},
            fixes=(Fix("install-torch-cuda"),),
            refs=(*symptoms.cite("cpu-wheel-named"), *missed),
        )
    elif (
        windows
        and not (torch and torch.cuda)
        and (missed or (symptoms and symptoms.has("chose-cpu")))
        and _brings_torch(installs, packages)
    ):
        yield Finding(
            variant="windows",
            certainty=Certainty.LIKELY,
            values=values,
            fixes=(Fix("install-torch-cuda"),),
            refs=(*missed, *(symptoms.cite("chose-cpu", most=2) if symptoms else ()), *_brings_torch(installs, packages)),
        )
    elif windows and missed and _plain_install(installs) and not (torch and torch.cuda):
        yield Finding(
            variant="windows",
            certainty=Certainty.LIKELY,
            values=values,
            fixes=(Fix("install-torch-cuda"),),
            refs=(*missed, *_plain_install(installs)),
        )


def _cpu_index(installs: Installs | None) -> tuple[str, tuple[Ref, ...]] | None:
    for item in installs.installs if installs else ():
        where = next((url for url in item.indexes if re.search(r"whl/cpu\b|/cpu/?$", url)), None)
        where = where or next((name for name in item.asked if name_of(name) in ("cpuonly", "pytorch-cpu")), None)
        where = where or next((name for name in item.installed if re.match(r"torch-.*\+cpu", name)), None)
        if where and (
            not item.asked
            or any(name_of(name).startswith(("torch", "pytorch", "cpuonly", "-r")) for name in item.asked)
        ):
            return where, (item.ref,)
    return None


def _conda_pair(installs: Installs | None, packages: Packages | None) -> tuple[Ref, ...]:
    refs = (
        tuple(i.ref for i in installs.installs if i.tool == "conda" and i.asks("pytorch", "torch")) if installs else ()
    )
    return (*refs, *(packages.cite("cudatoolkit", "pytorch-cuda", "pytorch-mutex", "cpuonly") if packages else ()))


# Packages that bring torch with them: on Windows the wheel of PyPI, which has no CUDA.
_BRINGERS = (
    "openai-whisper", "ultralytics", "transformers", "sentence-transformers", "easyocr", "accelerate", "diffusers", "pytorch-lightning", "whisperx",
    "fastai", "timm", "stable-baselines3", "torchmetrics", "demucs", "tts", "coqui-tts", "flair", "kornia", "segment-anything", "basicsr", "realesrgan",
)  # fmt: skip


def _brings_torch(installs: Installs | None, packages: Packages | None) -> tuple[Ref, ...]:
    asked = tuple(
        item.ref
        for item in (installs.installs if installs else ())
        if item.asks(*_BRINGERS) and not any("whl/cu" in url for url in item.indexes)
    )
    return asked or (packages.cite(*_BRINGERS)[:2] if packages else ())


def _plain_install(installs: Installs | None) -> tuple[Ref, ...]:
    return (
        tuple(
            i.ref
            for i in installs.installs
            if i.tool in ("pip", "uv", "poetry") and i.asks("torch") and not any("whl/cu" in u for u in i.indexes)
        )
        if installs
        else ()
    )


def _values(torch: Torch | None, installs: Installs | None) -> dict[str, str]:
    version = torch.version if torch and torch.version else ""
    found = release(version) if version else None
    asked = next(
        (
            name.split("=")[-1]
            for i in (installs.installs if installs else ())
            for name in i.asked
            if name_of(name) in ("cudatoolkit", "pytorch-cuda") and "=" in name
        ),
        "?",
    )
    available = builds(version) if found else ()
    tag = (
        build_name(asked)
        if asked != "?" and build_name(asked) in available
        else available[-1]
        if available
        else "cu126"
    )
    return {
        "version": version or "?",
        "public": version.partition("+")[0] or "?",
        "tag": tag,
        "builds": ", ".join(available) or "?",
        "asked": asked,
        "pin": f"=={version.partition('+')[0]}" if found else "",
    }


RULE = Rule(
    slug="cpu-only-build",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "model-not-moved"),
    settle=("python -c 'import torch; print(torch.__version__, torch.version.cuda)'", "pip list | grep -i torch"),
    see=("https://pytorch.org/get-started/locally/", "https://pytorch.org/get-started/previous-versions/"),
    en=Text(
        title="The installed PyTorch {version:(*) }is a CPU-only build",
        why="A version with +cpu, torch.version.cuda None, or 'Torch not compiled with CUDA enabled' means that the package has no CUDA code at all: no driver or toolkit can change that. It comes from the CPU index, from a dependency that pulled the default wheel, or from PyPI on Windows, where the wheel is always the CPU build.",
        fix="pip uninstall torch torchvision torchaudio, then install them from a CUDA index: pip install torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{tag}{builds: (CUDA builds of this release: *)}. Without the uninstall pip keeps the CPU copy.",
    ),
    zh=Text(
        title="安装的 PyTorch{version:（*）| }是 CPU 版",
        why="版本带 +cpu、torch.version.cuda 为 None，或出现 'Torch not compiled with CUDA enabled'，都说明这个包根本没有 CUDA 代码，换驱动或装工具包都没用。它来自 CPU 索引、被某个依赖拉下来的默认 wheel，或 Windows 上的 PyPI（那里的 wheel 永远是 CPU 版）。",
        fix="先 pip uninstall torch torchvision torchaudio，再从 CUDA 索引安装：pip install torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{tag}{builds:（该版本的 CUDA 构建有：*）}。不先卸载，pip 会保留 CPU 版。",
    ),
    variants={
        "another": (
            Text(
                title="The program that failed runs a CPU-only build of PyTorch, not the one that is shown{version: (*)}",
                why="\"Torch not compiled with CUDA enabled\" comes from a build without CUDA, but the version shown is a CUDA build. So they are two environments (another venv, conda environment, kernel or container), or the package was replaced in between.",
                fix="Print, in the program itself, sys.executable, torch.__version__ and torch.__file__. Start it with the environment that has the CUDA build, or install one in its own.",
            ),
            Text(
                title="出错的程序使用的是 CPU 版 PyTorch，而不是所显示的那个{version:（*）}",
                why="“Torch not compiled with CUDA enabled” 来自不带 CUDA 的构建，而所显示的版本是 CUDA 构建。所以这是两个环境（另一个 venv、conda 环境、内核或容器），或者中间换过包。",
                fix="在程序里打印 sys.executable、torch.__version__ 和 torch.__file__。用带 CUDA 构建的环境启动程序，或在它自己的环境中安装 CUDA 构建。",
            ),
        ),
        "windows": (
            Text(
                title="PyTorch{version: (*)} from PyPI on Windows is the CPU-only build",
                why="On Windows the wheel on PyPI never contains CUDA; a CUDA build shows a suffix such as +cu126 in its version. A plain pip install, or a requirement of another package, brought this one.",
                fix="pip uninstall torch torchvision torchaudio, then: pip install torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{tag}{builds: (CUDA builds of this release: *)}. Use the pip of the program's own environment (venv, python_embeded).",
            ),
            Text(
                title="Windows 上从 PyPI 装的 PyTorch{version:（*）}是 CPU 版",
                why="Windows 平台 PyPI 上的 wheel 从不带 CUDA；CUDA 构建的版本号会有 +cu126 之类的后缀。普通的 pip install 或其他包的依赖把它装了进来。",
                fix="先 pip uninstall torch torchvision torchaudio，再 pip install torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{tag}{builds:（该版本的 CUDA 构建有：*）}。要用该程序自己环境（venv、python_embeded）里的 pip。",
            ),
        ),
        "conda": (
            Text(
                title="conda installed a CPU build of PyTorch {version} ({build})",
                why="The build string names cpu. conda takes the CPU build silently where no CUDA build of that version goes with what was asked for (cudatoolkit or pytorch-cuda{asked: *}{builds:; CUDA builds there are: *}), where the channel is wrong, or where no driver was visible at the install.",
                fix="Ask for a pair that exists and name the CUDA build: conda install pytorch={public} 'pytorch=*=*cuda*' with a matching cudatoolkit / pytorch-cuda (for example 11.1 instead of 11.3 for 1.9.0) from the pytorch and nvidia channels, or use pip with --index-url https://download.pytorch.org/whl/{tag}. Check that the build string says cuda.",
            ),
            Text(
                title="conda 安装的是 PyTorch {version} 的 CPU 构建（{build}）",
                why="构建字符串里写着 cpu。当该版本没有与所要求的 cudatoolkit / pytorch-cuda{asked:（*）}匹配的 CUDA 构建{builds:（现有：*）}、通道不对，或安装时看不到驱动，conda 会悄悄选 CPU 构建。",
                fix="改用存在的组合并指定 CUDA 构建：conda install pytorch={public} 'pytorch=*=*cuda*'，配合匹配的 cudatoolkit / pytorch-cuda（例如 1.9.0 用 11.1 而不是 11.3），通道用 pytorch 和 nvidia；或用 pip 加 --index-url https://download.pytorch.org/whl/{tag}。装完确认构建字符串含 cuda。",
            ),
        ),
        "index": (
            Text(
                title="PyTorch was installed from the CPU index ({index})",
                why="The install command names the CPU wheels ({index}), so the result has no CUDA support whatever the driver is.",
                fix="pip uninstall torch torchvision torchaudio, then install with --index-url https://download.pytorch.org/whl/{tag} instead (conda: without cpuonly, with pytorch-cuda).",
            ),
            Text(
                title="PyTorch 是从 CPU 索引安装的（{index}）",
                why="安装命令指定了 CPU wheel（{index}），无论驱动如何都不会有 CUDA 支持。",
                fix="先 pip uninstall torch torchvision torchaudio，再改用 --index-url https://download.pytorch.org/whl/{tag} 安装（conda：去掉 cpuonly，加 pytorch-cuda）。",
            ),
        ),
        "other": (
            Text(
                title="The installed {name} is a CPU build",
                why="The program says itself that it was built without CUDA; the GPU build is another package or wheel.",
                fix="Uninstall it and install the GPU build: {package} (PaddlePaddle: from paddlepaddle.org.cn's index for your CUDA; TensorFlow on Linux: pip install 'tensorflow[and-cuda]').",
            ),
            Text(
                title="安装的 {name} 是 CPU 版",
                why="程序自己说明它编译时没有 CUDA；GPU 版是另一个包或 wheel。",
                fix="卸载后安装 GPU 版：{package}（PaddlePaddle 用 paddlepaddle.org.cn 上与 CUDA 对应的索引；Linux 上的 TensorFlow 用 pip install 'tensorflow[and-cuda]'）。",
            ),
        ),
    },
)
