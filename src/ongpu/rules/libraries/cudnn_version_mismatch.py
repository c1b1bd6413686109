"""cuDNN is there, but of another version than the program was built for."""

import re
from collections.abc import Iterator

from ongpu.facts.framework import OnnxRuntime, Packages, TensorFlow, Torch
from ongpu.facts.libraries import Loader, Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

_TELLS = (
    "cudnn-loaded-runtime",
    "cudnn-incompatible",
    "cudnn-graph-symbol",
    "cudnn-sublibrary",
    "cudnn-version-mismatch-status",
    "jax-cudnn-older",
    "jax-cudnn-plugin",
)


def dotted(version: str | None) -> str | None:
    """ "7.3.1" of 7301, "8.9.7" of 8907 or (8, 9, 7), "9.1.0" of 90100."""
    if version is None:
        return None
    if numbers := re.findall(r"\d+", version):
        if len(numbers) > 1:
            return ".".join(numbers[:3])
        whole = numbers[0]
        if len(whole) == 4:
            return f"{whole[0]}.{int(whole[1])}.{int(whole[2:])}"
        if len(whole) == 5:
            return f"{whole[0]}.{int(whole[1:3])}.{int(whole[3:])}"
    return version


def _have(
    toolkit: Toolkit | None, packages: Packages | None, torch: Torch | None, symptoms: Symptoms | None
) -> tuple[str | None, tuple[Ref, ...]]:
    if toolkit and toolkit.cudnn:
        return dotted(toolkit.cudnn), toolkit.about("cudnn")
    wheel = packages.get("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11", "cudnn") if packages else None
    if wheel and wheel.ref and wheel.version:
        return wheel.version, (wheel.ref,)
    if symptoms and (number := symptoms.value("v", "cudnn-number")):
        return dotted(number), symptoms.cite("cudnn-number")
    if symptoms and (told := symptoms.value("v", "cudnn-file-told") or symptoms.value("v2", "cudnn-file-told")):
        return told, symptoms.cite("cudnn-file-told")
    if torch and torch.cudnn:
        return dotted(torch.cudnn), torch.about("cudnn")
    return None, ()


def _cached(loader: Loader | None) -> str | None:
    """The only cuDNN that the loader's cache holds: "9" of libcudnn_ops.so.9."""
    found = {match[1] for name in (loader.cache if loader else ()) if (match := re.match(r"libcudnn\w*\.so\.(\d{1,2})", name))}
    return found.pop() if len(found) == 1 else None


def check(
    symptoms: Symptoms | None,
    loader: Loader | None,
    toolkit: Toolkit | None,
    packages: Packages | None,
    torch: Torch | None,
    flow: TensorFlow | None,
    onnx: OnnxRuntime | None,
) -> Iterator[Finding]:
    have, refs = _have(toolkit, packages, torch, symptoms)
    have = have or _cached(loader)
    doubled = bool(packages and sum(name.startswith("nvidia-cudnn-cu") for name in packages.packages) > 1)
    if symptoms and symptoms.has(*_TELLS):
        want = dotted(symptoms.value("want", *_TELLS) or symptoms.value("want2", *_TELLS)) or "?"
        loaded = dotted(symptoms.value("have", *_TELLS) or symptoms.value("have2", *_TELLS)) or have or "?"
        yield Finding(
            variant="told" if want != "?" else "",
            certainty=Certainty.CERTAIN
            if not doubled and (want != "?" or symptoms.has("cudnn-graph-symbol", "cudnn-sublibrary"))
            else Certainty.LIKELY,
            values={
                "have": loaded,
                "want": want,
                "line": _minor(want),
                "symbol": symptoms.value("symbol", *_TELLS) or symptoms.value("lib", *_TELLS) or "cuDNN",
            },
            fixes=(Fix("unset-library-path"),),
            refs=(*symptoms.cite(*_TELLS), *refs),
        )
        return
    missing = [item for item in loader.missing() if "cudnn" in item.name.lower()] if loader else []
    library = (
        missing[0].name
        if missing
        else symptoms.value("lib", "cudnn-load", "cudnn-so", "cudnn-dll")
        if symptoms and symptoms.has("cudnn-load", "cudnn-so")
        else None
    )
    match = re.search(r"\.so\.(\d+)|64_(\d+)\.dll", library or "")
    major = (match[1] or match[2]) if match else None
    if major and have and have.split(".")[0] != major:
        yield Finding(
            variant="file",
            values={"lib": library, "want": major, "have": have, "version": (flow.version if flow else None) or "?"},
            certainty=Certainty.CERTAIN,
            fixes=(Fix("cudnn-8") if major == "8" else Fix("cudnn-9"),) if major in ("8", "9") else (),
            refs=(
                *(item.ref for item in missing if item.ref),
                *(symptoms.cite("cudnn-load", "cudnn-so") if symptoms else ()),
                *refs,
                *(flow.refs[:1] if flow else ()),
            ),
        )
        return
    if symptoms and symptoms.has("ort-126", "ort-cuda-create-failed") and have:
        needed = symptoms.value("cudnn", "ort-cuda-create-failed") or _ort_cudnn(onnx.version if onnx else None)
        if needed and needed != have.split(".")[0]:
            yield Finding(
                variant="onnxruntime",
                certainty=Certainty.LIKELY,
                values={"version": (onnx.version if onnx else None) or "?", "want": needed, "have": have},
                fixes=(Fix("cudnn-9"),) if needed == "9" else (),
                refs=(*symptoms.cite("ort-126", "ort-cuda-create-failed"), *refs, *(onnx.refs if onnx else ())),
            )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _ort_cudnn(version: str | None) -> str | None:
    """cuDNN major of an onnxruntime-gpu release from PyPI: 9 from 1.19 on (onnxruntime.ai)."""
    parts = [int(x) for x in re.findall(r"\d+", version or "")[:2]]
    return None if len(parts) < 2 else "9" if parts >= [1, 19] else "8"


RULE = Rule(
    slug="cudnn-version-mismatch",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("cudnn-missing", "cuda-unavailable", "cudnn-execution-failed", "jax-without-cuda"),
    settle=(
        "python -c 'import torch; print(torch.backends.cudnn.version())'",
        "ldconfig -p | grep cudnn",
        "echo $LD_LIBRARY_PATH",
    ),
    see=(
        "https://docs.nvidia.com/deeplearning/cudnn/installation/latest/",
        "https://github.com/tensorflow/tensorflow/issues/23715",
    ),
    en=Text(
        title="Parts of different cuDNN versions are loaded together ({symbol})",
        why="cuDNN is a family of libraries that must all be of one version. A second copy (system, LD_LIBRARY_PATH, conda or another wheel) supplies some of them.{have: Found: *.}",
        fix="Leave one cuDNN on the search path: unset LD_LIBRARY_PATH or remove the cuDNN folder from it, uninstall the second nvidia-cudnn wheel, and reinstall the one that the framework asks for.",
    ),
    zh=Text(
        title="同时加载了不同版本的 cuDNN 组件（{symbol}）",
        why="cuDNN 由一组库组成，必须全部同一版本。系统、LD_LIBRARY_PATH、conda 或另一个 wheel 里的第二份提供了其中一部分。{have:现有：*。}",
        fix="搜索路径上只保留一份 cuDNN：unset LD_LIBRARY_PATH 或从中去掉 cuDNN 目录，卸载多余的 nvidia-cudnn wheel，再重装框架所要求的版本。",
    ),
    variants={
        "told": (
            Text(
                title="cuDNN {have} was loaded, but the program was built for cuDNN {want}",
                why="The library that the loader found first is of another version than the one the binary was compiled with. The loaded version must be of the same major and at least the same minor, and with old binaries (cuDNN 7.0) exactly the same line: the message's advice to upgrade can point the wrong way. A copy on LD_LIBRARY_PATH wins over the one that came with the package.",
                fix="Install cuDNN {line}.x for the CUDA version of the binary, or take the other copy off LD_LIBRARY_PATH (pip wheels bring their own), so that the version it was compiled with is loaded.",
            ),
            Text(
                title="加载的是 cuDNN {have}，而程序是为 cuDNN {want} 编译的",
                why="加载器先找到的库与二进制编译时的版本不同。主版本必须相同，次版本不得更低；老的二进制（cuDNN 7.0）要求同一系列，提示里的“升级”可能恰好指错了方向。LD_LIBRARY_PATH 上的副本会压过包自带的那份。",
                fix="安装与二进制所用 CUDA 对应的 cuDNN {line}.x，或把另一份从 LD_LIBRARY_PATH 去掉（pip wheel 自带 cuDNN），让编译时的版本被加载。",
            ),
        ),
        "file": (
            Text(
                title="The program needs cuDNN {want} ({lib}), but cuDNN {have} is installed",
                why="cuDNN's file names carry the major version, and the interfaces differ: renaming or linking {lib} to the other version does not work.",
                fix="Install cuDNN {want}.x for the CUDA of the program, or a release of the program that was built for the installed cuDNN {have}.",
            ),
            Text(
                title="程序需要 cuDNN {want}（{lib}），而装的是 cuDNN {have}",
                why="cuDNN 的文件名带主版本号，接口也不同：把 {lib} 改名或软链接到另一版本不起作用。",
                fix="安装与程序所用 CUDA 对应的 cuDNN {want}.x，或换用为 cuDNN {have} 编译的程序版本。",
            ),
        ),
        "onnxruntime": (
            Text(
                title="onnxruntime-gpu {version} needs cuDNN {want}, but cuDNN {have} is what it finds",
                why="From 1.19 on the CUDA provider is built for cuDNN 9, older releases for cuDNN 8; the two are not interchangeable. Error 126 means that such a dependency is missing. The cuDNN of a torch in the same environment decides what is there (torch 2.4+ brings cuDNN 9).",
                fix="Bring cuDNN {want} (with torch 2.4 or newer, or nvidia-cudnn-cu12 9.x), or go back to onnxruntime-gpu 1.18.0 for cuDNN 8.",
            ),
            Text(
                title="onnxruntime-gpu {version} 需要 cuDNN {want}，而找到的是 cuDNN {have}",
                why="1.19 起 CUDA provider 为 cuDNN 9 编译，更早为 cuDNN 8，两者不能互换。错误 126 就是说缺了这类依赖。同一环境里的 torch 决定了有哪个 cuDNN（torch 2.4 起带 cuDNN 9）。",
                fix="提供 cuDNN {want}（随 torch 2.4 及以上，或 nvidia-cudnn-cu12 9.x），或退回使用 cuDNN 8 的 onnxruntime-gpu 1.18.0。",
            ),
        ),
    },
)
