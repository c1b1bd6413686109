"""Environment reports: torch's and vLLM's collect_env, `transformers env`, `accelerate env`, and the start banners of
ultralytics, ComfyUI, A1111 and SD.Next."""

import re
from collections.abc import Iterable

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Jax, Python, TensorFlow, Torch
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.libraries import Toolkit
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

_TORCH = lazy(
    r"^[ \t\-*|]*(?:PyTorch|Torch)(?:[ _]version)?(?: \(GPU\?\))?[ \t]*[:=|]?[ "
    r"\t]*(?P<v>\d+\.\d+[\w.+]*)(?:[ \t]*\((?P<gpu>True|False|NA|cuda available: \w+)\))?",
    re.IGNORECASE | re.MULTILINE,
)
_BUILT = lazy(
    r"CUDA used to build (?:PyTorch|torch)[ \t]*:[ \t]*(?P<v>\d{1,2}\.\d{1,2}|None|N/A|Could not "
    r"collect)",
    re.IGNORECASE,
)
_HIP = lazy(r"ROCM used to build PyTorch[ \t]*:[ \t]*(?P<v>[\d.]+[\w.\-]*|None|N/A)", re.IGNORECASE)
_AVAILABLE = lazy(
    r"^[ \t\-*]*(?:Is )?CUDA available[ \t]*:[ \t]*(?P<v>Yes|No|True|False)\b", re.IGNORECASE | re.MULTILINE
)
_RUNTIME = lazy(r"CUDA runtime version[ \t]*:[ \t]*(?P<v>\d{1,2}\.\d{1,2})(?:\.\d+)*", re.IGNORECASE)
_GPU = lazy(
    r"^[ \t\-*]*GPU (?P<n>\d{1,2})[ \t]*:[ \t]*(?P<v>[^\n(]{3,80}?)(?:[ \t]*\(UUID: "
    r"(?P<uuid>GPU-[\w\-]+)\))?[ \t]*$",
    re.MULTILINE,
)
_GPU_TYPE = lazy(r"^[ \t\-*]*GPU type[ \t]*:[ \t]*(?P<v>[^\n]{3,80})$", re.MULTILINE | re.IGNORECASE)
_DRIVER = lazy(r"Nvidia driver version[ \t]*:[ \t]*(?P<v>\d{3}\.\d{2,3}(?:\.\d{2})?)", re.IGNORECASE)
_CUDNN = lazy(
    r"cuDNN version[ \t]*:[ \t]*(?:Probably one of the "
    r"following:\s*)?[^\n]*?libcudnn\w*\.so\.(?P<v>\d{1,2}\.\d{1,2}\.\d{1,2})",
    re.IGNORECASE,
)
_GCC = lazy(r"GCC version[ \t]*:[ \t]*(?:\([^)\n]*\)[ \t]*)?(?P<v>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)", re.IGNORECASE)
_PYTHON = lazy(r"Python version[ \t]*:[ \t]*(?P<v>[23]\.\d{1,2}(?:\.\d{1,2})?)", re.IGNORECASE)
_HF_TF = lazy(
    r"Tensorflow version(?: \(GPU\?\))?[ \t]*:[ \t]*(?P<v>\d+\.\d+[\w.]*)[ \t]*\((?P<gpu>True|False)\)", re.IGNORECASE
)
_HF_JAX = lazy(r"Flax version \(CPU\?/GPU\?/TPU\?\)[ \t]*:[ \t]*[\d.]+ \((?P<v>cpu|gpu|tpu)\)", re.IGNORECASE)
_PLATFORM = lazy(r"Platform[ \t]*:[ \t]*(?P<v>(?:Linux|Windows|macOS|Darwin)[\w.\-+]*)", re.IGNORECASE)
_YOLO = lazy(
    r"(?:Python-(?P<py>[\d.]+) )?torch-(?P<v>\d+\.\d+[\w.+]*)(?:[ ]+(?P<dev>CPU|CUDA:\d)(?: "
    r"\((?P<name>[^,)\n]{3,60}))?)?",
    re.IGNORECASE,
)
_COMFY = lazy(r"pytorch version[ \t]*:[ \t]*(?P<v>\d+\.\d+[\w.+]*)", re.IGNORECASE)
_DEVICE = lazy(
    r"^[ \t]*(?:\[[^\]\n]*\] ?)?Device(?: name)?[ \t]*:[ \t]*(?P<v>cpu|"
    r"cuda(?::\d+)?[ ]+(?P<name>[^:\n]{3,60}))",
    re.MULTILINE,
)
_ENOUGH = lazy(
    r"CUDA used to build|Is CUDA available|PyTorch version \(GPU\?\)|Collecting environment information|"
    r"torch-\d+\.\d+|pytorch version:|^Torch \d|"
    r"GPU models and configuration|CUDA runtime version|Device: (?:cpu|cuda)|GPU \d: ",
    re.IGNORECASE | re.MULTILINE,
)


def cuda_of(version: str) -> str | None:
    """CUDA of the local part of a torch version."""
    local = version.partition("+")[2]
    if match := re.match(r"cu(\d{2,3})$", local):
        return f"{match[1][:-1]}.{match[1][-1]}"
    return "" if local.startswith("cpu") else None


def read(evidence: Evidence) -> Iterable[Fact]:
    """The facts of the report."""
    text = evidence.text[:400_000]

    def ref(match: re.Match[str] | None, about: str) -> tuple[Ref, ...]:
        return (evidence.ref_at(match.start("v"), about),) if match else ()

    yolo = _YOLO.search(text)
    torch, built, hip, available = (
        _TORCH.search(text) or _COMFY.search(text) or yolo,
        _BUILT.search(text),
        _HIP.search(text),
        _AVAILABLE.search(text),
    )
    if torch or built or available:
        version = torch["v"] if torch else None
        cuda = cuda_of(version) if version else None
        if built and cuda is None and "not" not in built["v"].lower():
            cuda = built["v"] if built["v"][0].isdigit() else ""
        usable = available["v"].lower() in ("yes", "true") if available else None
        if torch and usable is None and torch.re.pattern == _TORCH.pattern and torch["gpu"] in ("True", "False"):
            usable = torch["gpu"] == "True"
        if usable is None and yolo and yolo["dev"]:
            usable = yolo["dev"].upper() != "CPU"
        yield Torch(
            version=version,
            cuda=cuda,
            available=usable,
            hip=hip["v"] if hip and hip["v"][0].isdigit() else None,
            refs=(
                *ref(torch, "version"),
                *ref(built, "cuda"),
                *ref(hip if hip and hip["v"][0].isdigit() else None, "hip"),
                *ref(available, "available"),
            ),
        )
    yield from _cards(evidence, text, yolo)
    if driver := _DRIVER.search(text):
        yield Driver(version=driver["v"], refs=ref(driver, "version"))
    runtime, cudnn, gcc = _RUNTIME.search(text), _CUDNN.search(text), _GCC.search(text)
    if runtime or cudnn or gcc:
        yield Toolkit(
            nvcc=runtime["v"] if runtime else None,
            cudnn=cudnn["v"] if cudnn else None,
            gcc=gcc["v"] if gcc else None,
            refs=(*ref(runtime, "nvcc"), *ref(cudnn, "cudnn"), *ref(gcc, "gcc")),
        )
    if python := _PYTHON.search(text):
        yield Python(version=python["v"], refs=ref(python, "version"))
    if flow := _HF_TF.search(text):
        yield TensorFlow(version=flow["v"], gpus=0 if flow["gpu"] == "False" else None, refs=ref(flow, "gpus"))
    if jax := _HF_JAX.search(text):
        yield Jax(backend=jax["v"], refs=ref(jax, "backend"))
    if platform := _PLATFORM.search(text):
        name = platform["v"].lower()
        yield Machine(
            system="windows" if name.startswith("windows") else "linux" if name.startswith("linux") else "macos",
            architecture="aarch64" if re.search(r"aarch64|arm64", name) else "x86_64" if "x86_64" in name else None,
            wsl=2 if "wsl2" in name else None,
            refs=ref(platform, "system"),
        )


def _cards(evidence: Evidence, text: str, yolo: re.Match[str] | None) -> Iterable[Fact]:
    gpus = tuple(
        Gpu(index=int(match["n"]), name=match["v"].strip(), uuid=match["uuid"], ref=evidence.ref_at(match.start("n")))
        for match in _GPU.finditer(text)
        if not re.match(r"(?:No|N/A|Could)\b", match["v"])
    )
    if gpus:
        yield Gpus(gpus=gpus, refs=tuple(gpu.ref for gpu in gpus if gpu.ref)[:4])
    device, kind = _DEVICE.search(text), _GPU_TYPE.search(text)
    for name, match in (
        (yolo["name"] if yolo else None, yolo),
        (device["name"] if device else None, device),
        (kind["v"] if kind else None, kind),
    ):
        if name and match and not gpus:
            yield Gpus(names=(name.strip(),), refs=(evidence.ref_at(match.start("v"), "names"),))


SOURCES = (
    Source(
        kind="collect_env",
        read=read,
        looks_like=lambda evidence: bool(_ENOUGH.search(evidence.text[:400_000])),
        gives=(Torch, Gpus, Driver, Toolkit, Python, TensorFlow, Jax, Machine),
        settle="python -m torch.utils.collect_env",
    ),
)
