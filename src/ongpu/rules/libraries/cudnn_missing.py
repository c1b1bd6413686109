"""cuDNN cannot be found, or one of its parts."""

import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.framework import OnnxRuntime, Packages, TensorFlow, Torch
from ongpu.facts.libraries import Loader, Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

NAMES = ("cudnn-load", "cudnn-so", "cudnn-not-found", "tf-dnn-not-found", "zlibwapi", "cudnn-sublibrary-loading")


def major_of(library: str | None) -> str | None:
    """cuDNN's major of a file name: "8" of libcudnn_ops_infer.so.8 and cudnn64_8.dll."""
    match = re.search(r"\.so\.(\d+)|64_(\d+)\.dll", library or "")
    return (match[1] or match[2]) if match else None


def check(
    symptoms: Symptoms | None,
    loader: Loader | None,
    toolkit: Toolkit | None,
    packages: Packages | None,
    flow: TensorFlow | None,
    torch: Torch | None,
    onnx: OnnxRuntime | None,
    traceback: Traceback | None,
) -> Iterator[Finding]:
    missing = [item for item in loader.missing() if "cudnn" in item.name.lower()] if loader else []
    said = symptoms.cite(*NAMES) if symptoms else ()
    if not missing and not said:
        return
    library = missing[0].name if missing else symptoms.value("lib", *NAMES) if symptoms else None
    want = major_of(library)
    if want is None and symptoms and (full := symptoms.value("all", "cudnn-load")):
        want = major_of(full)
    have: str | None = None
    refs: tuple[Ref, ...] = ()
    wheel = packages.get("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11", "cudnn") if packages else None
    if toolkit and toolkit.cudnn:
        have, refs = toolkit.cudnn, toolkit.about("cudnn")
    elif wheel and wheel.ref:
        have, refs = wheel.version, (wheel.ref,)
    if not have and symptoms and (told := symptoms.value("v", "cudnn-file-told") or symptoms.value("v2", "cudnn-file-told")):
        have, refs = told, symptoms.cite("cudnn-file-told")
    if have and want and have.split(".")[0] != want:
        return  # another version is there: cudnn-version-mismatch
    windows = bool(library and library.endswith(".dll"))
    others = len([item for item in loader.missing() if re.match(r"lib(?:cudart|cublas)", item.name)]) if loader else 0
    yield Finding(
        variant="zlib"
        if symptoms and symptoms.has("zlibwapi")
        else "found-wheel"
        if have or (packages and packages.get("ctranslate2"))
        else "",
        severity=Severity.NOTE if traceback and traceback.in_torch and symptoms and symptoms.has("tf-library-not-loaded") else None,
        certainty=Certainty.LIKELY if others or not (missing or library) else Certainty.CERTAIN,
        values={
            "lib": library or "libcudnn",
            "major": want or "?",
            "have": have or "?",
            "path": "PATH" if windows else "LD_LIBRARY_PATH",
        },
        fixes=(Fix("cudnn-9") if want != "8" else Fix("cudnn-8"), Fix("wheels-on-library-path"))
        if want in ("8", "9", None)
        else (),
        refs=(
            *(item.ref for item in missing if item.ref),
            *said,
            *refs,
            *(flow.refs[:1] if flow else ()),
            *(packages.cite("ctranslate2", "faster-whisper") if packages else ()),
        ),
    )


RULE = Rule(
    slug="cudnn-missing",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "gpu-extra-missing", "cudnn-execution-failed"),
    settle=(
        "ldconfig -p | grep cudnn",
        "pip list | grep -i cudnn",
        "python -c 'import torch; print(torch.backends.cudnn.version())'",
    ),
    see=(
        "https://docs.nvidia.com/deeplearning/cudnn/installation/latest/",
        "https://github.com/SYSTRAN/faster-whisper#gpu",
    ),
    en=Text(
        title="cuDNN cannot be found: {lib}",
        why="The program opens cuDNN {major} by file name and it is in no folder that the loader searches: the CUDA toolkit does not contain cuDNN. Another major version has files of other names and does not serve.",
        fix="Install cuDNN {major} (nvidia-cudnn-cu12 with pip, cudnn with conda, libcudnn{major} from NVIDIA's repository) and put its folder, for wheels site-packages/nvidia/cudnn/lib, on {path}.",
    ),
    zh=Text(
        title="找不到 cuDNN：{lib}",
        why="程序按文件名打开 cuDNN {major}，而加载器搜索的目录里都没有：CUDA 工具包并不包含 cuDNN。其他主版本的文件名不同，不能代替。",
        fix="安装 cuDNN {major}（pip 用 nvidia-cudnn-cu12，conda 用 cudnn，或 NVIDIA 软件源的 libcudnn{major}），并把其目录（wheel 为 site-packages/nvidia/cudnn/lib）加入 {path}。",
    ),
    variants={
        "found-wheel": (
            Text(
                title="cuDNN is not on the search path: {lib} is not found",
                why="CTranslate2, ONNX Runtime and others look for cuDNN {major} on the loader's path only. The copy that pip installed {have:(found here: *) }lies in site-packages/nvidia/cudnn/lib, where they do not look.",
                fix="Add site-packages/nvidia/cudnn/lib to LD_LIBRARY_PATH before the start (Windows: PATH), or import torch first, or install cuDNN {major} system-wide. ctranslate2 4.5 and newer want cuDNN 9, ctranslate2 4.4 and older cuDNN 8.",
            ),
            Text(
                title="cuDNN 不在搜索路径上：找不到 {lib}",
                why="CTranslate2、ONNX Runtime 等只在加载器路径上查找 cuDNN {major}。pip 安装的那份{have:（此处为 *）}在 site-packages/nvidia/cudnn/lib，它们不会去找。",
                fix="启动前把 site-packages/nvidia/cudnn/lib 加入 LD_LIBRARY_PATH（Windows 为 PATH），或先 import torch，或系统级安装 cuDNN {major}。ctranslate2 4.5 起需要 cuDNN 9，4.4 及更早需要 cuDNN 8。",
            ),
        ),
        "zlib": (
            Text(
                title="cuDNN 8 on Windows does not find zlibwapi.dll",
                why="cuDNN 8 for Windows needs zlibwapi.dll, which it does not bring. Without it the program stops at the first convolution.",
                fix="Put zlibwapi.dll (from NVIDIA's cuDNN 8 installation guide, or the copy in Nsight Systems' folder) into a folder on PATH, for instance the CUDA bin folder.",
            ),
            Text(
                title="Windows 上的 cuDNN 8 找不到 zlibwapi.dll",
                why="Windows 版 cuDNN 8 需要 zlibwapi.dll，却不随附。缺了它，程序在第一次卷积时就会中止。",
                fix="把 zlibwapi.dll（来自 NVIDIA cuDNN 8 安装指南，或 Nsight Systems 目录中的副本）放到 PATH 上的目录，例如 CUDA 的 bin 目录。",
            ),
        ),
    },
)
