"""A CUDA library of the version that a program was built for cannot be found.

Longer than 400 lines because linkers, loaders, TensorFlow, ONNX Runtime, JAX, Numba and XLA each need their own words.
"""

import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import OnnxRuntime, Packages, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.installs import Installs
from ongpu.facts.libraries import Loader, Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.tensorflow import has_and_cuda_extra, release
from ongpu.lazy import lazy, replace
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

_CUDA = lazy(
    r"^(?:lib)?(?P<lib>cudart|cublaslt|cublas|cufftw?|curand|cusolvermg|cusolver|cusparselt|cusparse|nvrtc-builtins|nvrtc|nvjitlink|"
    r"nvtoolsext|cupti|cufile|nvshmem_host|nccl|npp\w+?|nvjpeg|nvblas|cutensor|cudss|nvvm)(?:64)?(?:[._-](?P<v>\d[\d._]*))?(?:\.so(?:\.(?P<so>[\d.]+))?|\.dll)?",
    re.IGNORECASE,
)
# CUDA of a soname, where its number is not the CUDA major: libs.toml, read from the wheels
_SHIFTED = {
    ("cufft", "10"): "11",
    ("cufft", "11"): "12",
    ("cufft", "12"): "13",
    ("cusolver", "12"): "13",
    ("cusparse", "11"): "11",
}
_SHARED = ("curand", "nccl", "cusolver", "cusparse", "nvtoolsext", "cusparselt", "cufile", "nvshmem_host")
# before the table of knowledge/tensorflow.toml begins: tensorflow/docs site/en/install/source.md
_OLD_TF = {
    "1.14": ("10.0", "7.4"),
    "1.13": ("10.0", "7.4"),
    "1.12": ("9.0", "7"),
    "1.10": ("9.0", "7"),
    "1.4": ("8.0", "6"),
}


def _needs(version: str | None) -> tuple[str, str] | None:
    """(CUDA, cuDNN) that a TensorFlow release was built with."""
    found = release(version) if version else None
    return (found.cuda, found.cudnn) if found else _OLD_TF.get(_minor(version))


def cuda_major(library: str) -> str | None:
    """CUDA that a library name belongs to: "12" of libcublas.so.12, "10.1" of cudart64_101.dll; None where it does not say."""
    match = _CUDA.match(library)
    number = (match["so"] or match["v"] or "") if match else ""
    if not match or not number:
        return None
    name, first = match["lib"].lower(), number.split(".")[0].split("_")[0]
    if library.lower().endswith(".dll") and len(first) == 3 and name == "cudart":
        return "11" if first == "110" else f"{first[:2]}.{first[2]}"
    if library.lower().endswith(".dll") and len(first) == 2 and name == "cudart" and first in ("80", "90", "91", "92"):
        return f"{first[0]}.{first[1]}"
    if shifted := _SHIFTED.get((name, first)):
        return shifted
    if name in _SHARED or name not in ("cudart", "cublas", "cublaslt", "nvrtc", "nvrtc-builtins", "nvjitlink", "cupti"):
        return None
    return number if first in ("8", "9", "10") else first


def _minor(version: str | None) -> str:
    return ".".join(version.split(".")[:2]) if version else ""


def _missing(symptoms: Symptoms | None, loader: Loader | None) -> list[str]:
    names = [item.name for item in loader.missing()] if loader else []
    if symptoms:
        for hit in symptoms.seen(
            "shared-object-missing",
            "tf-library-not-loaded",
            "library-not-found-or-loaded",
            "cupy-load-failed",
            "tf-old-dll-missing",
        ):
            names.append(hit.groups.get("lib") or hit.groups.get("lib2", ""))
    return list(dict.fromkeys(name for name in names if _CUDA.match(name)))


def check(
    symptoms: Symptoms | None,
    loader: Loader | None,
    flow: TensorFlow | None,
    onnx: OnnxRuntime | None,
    torch: Torch | None,
    toolkit: Toolkit | None,
    packages: Packages | None,
    installs: Installs | None,
    machine: Machine | None,
    gpus: Gpus | None,
    variables: Variables | None,
    traceback: Traceback | None,
) -> Iterator[Finding]:
    ended = bool(traceback and traceback.in_torch) or bool(symptoms and symptoms.has("other-protobuf"))  # by what has nothing to do with it
    aside = bool(ended and symptoms and symptoms.has("tf-library-not-loaded"))
    wanted = aside or bool(symptoms and symptoms.has("cpu-wanted", "other-data-folder") and symptoms.has("tf-library-not-loaded", "tf-no-cuda-drivers", "tf-cannot-dlopen"))
    for finding in _judge(symptoms, loader, flow, onnx, torch, toolkit, packages, installs, machine, gpus, variables):
        yield replace(finding, severity=Severity.NOTE) if wanted else finding


def _judge(
    symptoms: Symptoms | None,
    loader: Loader | None,
    flow: TensorFlow | None,
    onnx: OnnxRuntime | None,
    torch: Torch | None,
    toolkit: Toolkit | None,
    packages: Packages | None,
    installs: Installs | None,
    machine: Machine | None,
    gpus: Gpus | None,
    variables: Variables | None,
) -> Iterator[Finding]:
    missing = _missing(symptoms, loader)
    no_driver = bool(loader and any(item.name.startswith(("libcuda.so", "libnvidia-ml")) for item in loader.missing()))
    version = flow.version if flow else None
    if missing:
        yield from _named(missing, symptoms, loader, torch, toolkit, version, no_driver)
        return
    if symptoms and symptoms.has("linker-cuda", "triton-no-libcuda"):
        yield Finding(
            variant="linker",
            values={"lib": "libcuda.so"},
            fixes=(Fix("find-libcuda"),),
            refs=symptoms.cite("linker-cuda", "triton-no-libcuda"),
            certainty=Certainty.CERTAIN,
        )
        return
    if symptoms and symptoms.has("bnb-no-cudart"):
        yield Finding(
            certainty=Certainty.LIKELY,
            values={
                "libs": "libcudart.so",
                "cuda": (torch.cuda if torch and torch.cuda else "?"),
                "have": "?",
                "wheel": "nvidia-cuda-runtime-cu12",
            },
            fixes=(Fix("wheels-on-library-path"),),
            refs=symptoms.cite("bnb-no-cudart", "bnb-no-gpu", most=2),
        )
        return
    if symptoms and symptoms.has("linker-cuda-library"):
        lib = symptoms.value("lib", "linker-cuda-library") or "?"
        yield Finding(
            variant="link-library",
            values={"lib": lib},
            fixes=(Fix("find-cuda-library"),),
            refs=symptoms.cite("linker-cuda-library"),
        )
        return
    if symptoms and symptoms.has("ort-126", "ort-cuda-create-failed"):
        yield from _onnx(symptoms, onnx, toolkit)
        return
    if (
        symptoms
        and symptoms.has("tf-cannot-dlopen", "tf-no-cuda-drivers")
        and not (loader and any("cudnn" in i.name for i in loader.missing()))
    ):
        new = bool(version and has_and_cuda_extra(version))
        certain = symptoms.has("tf-cannot-dlopen")
        asked = any("and-cuda" in item for i in installs.installs for item in i.asked) if installs else False
        cuda, cudnn = _needs(version) or ("?", "?")
        yield Finding(
            variant="tf-wheels" if new or asked or not version else "tf",
            certainty=Certainty.LIKELY if certain or gpus or asked else Certainty.POSSIBLE,
            values={"version": version or "?", "libs": "CUDA", "cuda": cuda, "cudnn": cudnn},
            fixes=(Fix("tf-and-cuda"), Fix("wheels-on-library-path")) if new or asked or not version else (),
            refs=(*symptoms.cite("tf-cannot-dlopen", "tf-no-cuda-drivers"), *(flow.refs if flow else ())),
        )
        return
    if symptoms and symptoms.has(
        "nvrtc-builtins", "libdevice-missing", "numba-no-nvvm", "jax-unable-to-load", "ptxas-missing"
    ):
        names = ("nvrtc-builtins", "libdevice-missing", "numba-no-nvvm", "jax-unable-to-load", "ptxas-missing")
        name = next(n for n in names if symptoms.has(n))
        library = symptoms.value("lib", name) or {
            "libdevice-missing": "libdevice.10.bc",
            "numba-no-nvvm": "libNVVM",
            "ptxas-missing": "ptxas",
        }.get(name)
        library = library or symptoms.value("what", name) or symptoms.value("what2", name) or "?"
        elsewhere = name == "jax-unable-to-load" and bool(
            symptoms.has("ld-debug-path") or (variables and variables.get("LD_LIBRARY_PATH"))
        )
        yield Finding(
            variant={
                "libdevice-missing": "libdevice",
                "ptxas-missing": "libdevice",
                "jax-unable-to-load": "jax",
                "numba-no-nvvm": "numba",
            }.get(name, "nvrtc"),
            certainty=Certainty.POSSIBLE if elsewhere else Certainty.LIKELY,
            values={"lib": library},
            refs=symptoms.cite(name),
            severity=Severity.WARNING if name == "ptxas-missing" else None,
        )
        return
    importing = symptoms.cite("dll-load-failed", "tf-native-runtime") if symptoms else ()
    found = list(_table(flow, toolkit, packages, machine, torch, importing))
    yield from found
    if not found and symptoms and symptoms.has("torch-cuda-dll"):
        yield Finding(
            certainty=Certainty.POSSIBLE,
            values={"libs": symptoms.value("lib", "torch-cuda-dll") or "?", "cuda": (torch.cuda if torch and torch.cuda else "?"), "have": "?", "wheel": "torch"},
            refs=symptoms.cite("torch-cuda-dll"),
        )


def _named(
    missing: list[str],
    symptoms: Symptoms | None,
    loader: Loader | None,
    torch: Torch | None,
    toolkit: Toolkit | None,
    version: str | None,
    no_driver: bool,
) -> Iterator[Finding]:
    cuda = next((found for name in missing if (found := cuda_major(name))), None)
    said = (
        symptoms.cite(
            "shared-object-missing",
            "tf-library-not-loaded",
            "library-not-found-or-loaded",
            "cupy-load-failed",
            "tf-old-dll-missing",
        )
        if symptoms
        else ()
    )
    lines = tuple(item.ref for item in loader.missing() if item.ref and _CUDA.match(item.name)) if loader else ()
    tf = bool(symptoms and symptoms.has("tf-library-not-loaded", "tf-cannot-dlopen", "tf-old-dll-missing"))
    have = (toolkit.nvcc or toolkit.told_cuda) if toolkit else None
    major = cuda.split(".")[0] if cuda else None
    want, cudnn = _needs(version) or (cuda or "?", "?")
    suffix = {"11": "-cu11", "12": "-cu12", "13": ""}.get(major or "")
    wheel = (
        "nvidia-cuda-runtime"
        if "cudart" in missing[0]
        else "nvidia-cuda-nvrtc"
        if "nvrtc" in missing[0]
        else f"nvidia-{_short(missing[0])}"
    )
    yield Finding(
        variant="tf" if tf else "",
        certainty=Certainty.POSSIBLE if no_driver else Certainty.LIKELY if tf else Certainty.CERTAIN,
        values={
            "libs": missing,
            "cuda": want if tf else cuda or "?",
            "version": version or "?",
            "cudnn": cudnn,
            "have": have or "?",
            "wheel": f"{wheel}{suffix}" if suffix is not None else "nvidia-*-cu12",
        },
        fixes=(Fix("tf-and-cuda"), Fix("wheels-on-library-path"))
        if tf and version and want[:2] == "12"
        else ()
        if tf or suffix is None
        else (Fix("install-cuda-wheel", {"wheel": f"{wheel}{suffix}"}), Fix("wheels-on-library-path")),
        refs=(
            *lines,
            *said,
            *(toolkit.about("nvcc", "told_cuda") if toolkit and have else ()),
            *(toolkit.about("installed")[:3] if toolkit else ()),
            *(torch.about("version", "cuda") if torch and torch.cuda else ()),
        ),
    )


def _short(name: str) -> str:
    match = _CUDA.match(name)
    return {"cublaslt": "cublas"}.get(match["lib"].lower(), match["lib"].lower()) if match else "cublas"


def _onnx(symptoms: Symptoms, onnx: OnnxRuntime | None, toolkit: Toolkit | None) -> Iterator[Finding]:
    version = onnx.version if onnx else None
    cuda = symptoms.value("cuda", "ort-cuda-create-failed") or _ort_needs(version)[0]
    cudnn = symptoms.value("cudnn", "ort-cuda-create-failed") or _ort_needs(version)[1]
    have = (toolkit.nvcc or toolkit.told_cuda) if toolkit else None
    other = (toolkit.cudnn if toolkit else None) or symptoms.value("v", "cudnn-number")
    if other and cudnn and other[0] != cudnn and (not have or not cuda or have.startswith(cuda)):
        return  # CUDA fits, cuDNN does not: cudnn-version-mismatch
    yield Finding(
        variant="onnxruntime",
        certainty=Certainty.LIKELY,
        values={"version": version or "?", "cuda": cuda or "12", "cudnn": cudnn or "9", "have": have or "?"},
        fixes=(Fix("onnxruntime-with-libraries", {"major": cuda or "12"}),),
        refs=(
            *symptoms.cite("ort-126", "ort-cuda-create-failed"),
            *(toolkit.about("nvcc", "told_cuda") if toolkit and have else ()),
            *(onnx.refs if onnx and version else ()),
        ),
    )


def _ort_needs(version: str | None) -> tuple[str | None, str | None]:
    """CUDA major and cuDNN major of an onnxruntime-gpu release from PyPI (onnxruntime.ai and PyPI metadata)."""
    parts = [int(x) for x in re.findall(r"\d+", version or "")[:2]]
    if len(parts) < 2:
        return None, None
    if parts >= [1, 27]:
        return "13", "9"
    return ("12", "9") if parts >= [1, 19] else ("11", "8") if parts >= [1, 7] else ("10", "8")


def _table(
    flow: TensorFlow | None,
    toolkit: Toolkit | None,
    packages: Packages | None,
    machine: Machine | None,
    torch: Torch | None,
    importing: tuple[Ref, ...],
) -> Iterator[Finding]:
    """No error line: a TensorFlow that lists no GPU, and a toolkit of another CUDA than it was built for."""
    have = (toolkit.nvcc or toolkit.told_cuda) if toolkit else None
    if not flow or not flow.version or not (flow.gpus == 0 or importing) or flow.cuda == "":
        return
    windows = machine is not None and machine.system == "windows" and not machine.wsl
    if has_and_cuda_extra(flow.version) and not windows and not importing and not (machine and machine.system == "macos"):
        needs = _needs(flow.version) or ("12", "9")
        yield Finding(
            variant="tf-wheels",
            certainty=Certainty.POSSIBLE,
            values={"version": flow.version, "libs": "CUDA", "cuda": needs[0], "cudnn": needs[1]},
            fixes=(Fix("tf-and-cuda"), Fix("wheels-on-library-path")),
            refs=(*flow.refs[:3], *(toolkit.about("nvcc", "told_cuda") if toolkit and have else ())),
        )
        return
    if not have or not toolkit:
        return
    want = _needs(flow.version)
    parts = [int(x) for x in _minor(flow.version).split(".")]
    if not want or (windows and parts >= [2, 11]) or parts >= [2, 14]:
        return
    if want[0] == have or (want[0].startswith("11.") and have.startswith("11.") and parts >= [2, 5]):
        return
    yield Finding(
        variant="tf-version",
        certainty=Certainty.LIKELY,
        values={"version": flow.version, "cuda": want[0], "cudnn": want[1], "have": have, "libs": "CUDA"},
        refs=(*flow.refs[:3], *importing, *toolkit.about("nvcc", "told_cuda")),
    )


RULE = Rule(
    slug="cuda-lib-missing",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "gpu-extra-missing"),
    settle=("ldconfig -p | grep -E 'libcudart|libcublas'", "pip list | grep -i nvidia", "echo $LD_LIBRARY_PATH"),
    see=(
        "https://www.tensorflow.org/install/pip",
        "https://www.tensorflow.org/install/source#gpu",
        "https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#requirements",
    ),
    en=Text(
        title="A CUDA library cannot be found: {libs}{cuda: (it belongs to CUDA *)}",
        why="The program was built for {cuda:CUDA *|a certain CUDA} and asks the loader for these files by name. The version that nvidia-smi shows is what the driver supports, not an installed runtime; another CUDA version{have: (found here: *)} has files of other names, and a symlink under the old name does not make it the same library.",
        fix="Install the runtime libraries of {cuda:CUDA *|that CUDA} (the wheel {wheel}, conda's cuda-runtime, or NVIDIA's toolkit package) where the loader looks, or install a build of the program for the CUDA that is there. Libraries of wheels lie in site-packages/nvidia/*/lib: put that folder on LD_LIBRARY_PATH where the program does not look there itself.",
    ),
    zh=Text(
        title="找不到 CUDA 库：{libs}{cuda:（属于 CUDA *）}",
        why="程序是为{cuda: CUDA * |某个 CUDA 版本}编译的，会按文件名向加载器请求这些库。nvidia-smi 显示的版本只是驱动所支持的上限，并不代表装了运行库；其他版本的 CUDA{have:（此处为 *）}文件名不同，用旧名字做软链接也不会变成同一个库。",
        fix="安装{cuda: CUDA * |对应 CUDA }的运行库（{wheel} wheel、conda 的 cuda-runtime，或 NVIDIA 的工具包），并确保加载器能找到；或者换用与现有 CUDA 匹配的程序版本。wheel 里的库在 site-packages/nvidia/*/lib，程序自己不查找时需把该目录加入 LD_LIBRARY_PATH。",
    ),
    variants={
        "tf": (
            Text(
                title="TensorFlow{version: *} cannot load {libs}: it was built for CUDA {cuda}{cudnn: with cuDNN *}",
                why="TensorFlow opens these libraries by exact name when it starts; one that is missing makes it skip all GPUs. Another CUDA version on the machine {have:(*) }does not serve. A missing TensorRT (libnvinfer) is harmless.",
                fix="Install CUDA {cuda}{cudnn: and cuDNN *} and put their folders on LD_LIBRARY_PATH (Windows: PATH), or from TensorFlow 2.14 on: pip install 'tensorflow[and-cuda]', or take the TensorFlow release built for the CUDA that you have.",
            ),
            Text(
                title="TensorFlow{version: *} 加载不到 {libs}：它是为 CUDA {cuda}{cudnn:、cuDNN *} 编译的",
                why="TensorFlow 启动时按确切文件名打开这些库，缺一个就会跳过所有 GPU。机器上的其他 CUDA 版本{have:（*）}不能代替。找不到 TensorRT（libnvinfer）则无关紧要。",
                fix="安装 CUDA {cuda}{cudnn: 和 cuDNN *}，并把其目录加入 LD_LIBRARY_PATH（Windows 为 PATH）；TensorFlow 2.14 起可直接 pip install 'tensorflow[and-cuda]'；或改用与现有 CUDA 对应的 TensorFlow 版本。",
            ),
        ),
        "tf-wheels": (
            Text(
                title="TensorFlow{version: *} does not find its CUDA libraries and skips the GPU",
                why="Since 2.14 the CUDA libraries come as nvidia-* wheels with the extra [and-cuda]. They are not installed here, or TensorFlow (2.15 and 2.16.1 in particular) does not look into site-packages/nvidia/*/lib. The TensorRT line beside it is harmless.",
                fix="pip install 'tensorflow[and-cuda]'. If the wheels are there already, put their lib folders (site-packages/nvidia/*/lib) on LD_LIBRARY_PATH, or move to a release that finds them by itself (2.17 or newer).",
            ),
            Text(
                title="TensorFlow{version: *} 找不到自己的 CUDA 库，跳过了 GPU",
                why="自 2.14 起，CUDA 库由 [and-cuda] 附加项以 nvidia-* wheel 的形式提供。此处没有安装，或者 TensorFlow（尤其是 2.15 和 2.16.1）没有去 site-packages/nvidia/*/lib 查找。旁边的 TensorRT 提示无关紧要。",
                fix="pip install 'tensorflow[and-cuda]'。若 wheel 已经装好，把其 lib 目录（site-packages/nvidia/*/lib）加入 LD_LIBRARY_PATH，或升级到能自行找到它们的版本（2.17 及以上）。",
            ),
        ),
        "tf-version": (
            Text(
                title="TensorFlow {version} was built for CUDA {cuda} (cuDNN {cudnn}), but the machine has CUDA {have}",
                why="TensorFlow loads CUDA by exact file names (cudart64_101.dll, libcudart.so.10.1, ...). With another CUDA version it finds none and lists only the CPU; a newer CUDA does not serve for an older one.",
                fix="Install CUDA {cuda}{cudnn: with cuDNN *} beside the present one and put it on the path (Windows: PATH, Linux: LD_LIBRARY_PATH), or use a TensorFlow release built for CUDA {have}.",
            ),
            Text(
                title="TensorFlow {version} 是为 CUDA {cuda}（cuDNN {cudnn}）编译的，而机器上装的是 CUDA {have}",
                why="TensorFlow 按确切文件名加载 CUDA（cudart64_101.dll、libcudart.so.10.1 等）。装的是别的版本就一个也找不到，只列出 CPU；更新的 CUDA 不能代替旧版。",
                fix="并行安装 CUDA {cuda} 与 cuDNN {cudnn} 并加入路径（Windows 为 PATH，Linux 为 LD_LIBRARY_PATH），或改用为 CUDA {have} 编译的 TensorFlow。",
            ),
        ),
        "onnxruntime": (
            Text(
                title="ONNX Runtime{version: *} cannot load its CUDA provider: it needs CUDA {cuda} and cuDNN {cudnn}",
                why="Error 126 means that a library which onnxruntime_providers_cuda needs is missing, not the provider itself. get_available_providers() only lists what was compiled in.{have: On this machine: CUDA *.} Releases from 1.19 on are built for CUDA 12 with cuDNN 9, those from 1.27 for CUDA 13; 1.18 and older for CUDA 11.8 with cuDNN 8.",
                fix="Install CUDA {cuda} and cuDNN {cudnn} on the path (or pip install 'onnxruntime-gpu[cuda,cudnn]' and call onnxruntime.preload_dlls()), or take the onnxruntime-gpu that fits what is there: 1.18 for cuDNN 8, the CUDA 11.8 package index for CUDA 11.",
            ),
            Text(
                title="ONNX Runtime{version: *} 无法加载 CUDA provider：需要 CUDA {cuda} 和 cuDNN {cudnn}",
                why="错误 126 说明 onnxruntime_providers_cuda 所依赖的某个库找不到，而不是 provider 本身缺失。get_available_providers() 只列出编译进来的 provider。{have:这台机器上是 CUDA *。}1.19 起为 CUDA 12 + cuDNN 9 编译，1.27 起为 CUDA 13；1.18 及更早为 CUDA 11.8 + cuDNN 8。",
                fix="安装 CUDA {cuda} 和 cuDNN {cudnn} 并加入路径（或 pip install 'onnxruntime-gpu[cuda,cudnn]' 后调用 onnxruntime.preload_dlls()），或换用与现有环境匹配的 onnxruntime-gpu：cuDNN 8 用 1.18，CUDA 11 用 CUDA 11.8 专用索引。",
            ),
        ),
        "linker": (
            Text(
                title="The linker does not find libcuda.so (-lcuda)",
                why="Triton (torch.compile, mamba, flash-attention and others) compiles a small launcher and links it with the driver's {lib}. The driver library is often present only as libcuda.so.1, in a folder that the linker does not search.",
                fix="Make libcuda.so visible: sudo ldconfig on the driver's library folder, or set TRITON_LIBCUDA_PATH or LIBRARY_PATH to the folder that holds libcuda.so.1 (WSL: /usr/lib/wsl/lib; a build machine without a driver: /usr/local/cuda/lib64/stubs, for linking only). A link libcuda.so -> libcuda.so.1 in that folder also serves.",
            ),
            Text(
                title="链接器找不到 libcuda.so（-lcuda）",
                why="Triton（torch.compile、mamba、flash-attention 等）会编译一个小的启动器并链接驱动的 {lib}。驱动库往往只有 libcuda.so.1，且所在目录不在链接器的搜索范围内。",
                fix="让链接器看得到 libcuda.so：对驱动库目录执行 sudo ldconfig，或把 TRITON_LIBCUDA_PATH 或 LIBRARY_PATH 设为 libcuda.so.1 所在目录（WSL 为 /usr/lib/wsl/lib；没有驱动的编译机用 /usr/local/cuda/lib64/stubs，仅供链接）。在该目录建 libcuda.so -> libcuda.so.1 的软链接也可以。",
            ),
        ),
        "link-library": (
            Text(
                title="The linker does not find a CUDA library ({lib})",
                why="The development files of CUDA are not in the folders that the linker searches: conda's lib folder instead of lib64, a runtime-only install, or a CUDA_HOME without lib64.",
                fix="Install the toolkit's development packages and give the folder to the linker: export LIBRARY_PATH=$CUDA_HOME/lib64:$LIBRARY_PATH (and LD_LIBRARY_PATH at run time where needed).",
            ),
            Text(
                title="链接器找不到 CUDA 库（{lib}）",
                why="CUDA 的开发文件不在链接器搜索的目录里：conda 用的是 lib 而非 lib64、只装了运行时，或 CUDA_HOME 下没有 lib64。",
                fix="安装工具包的开发组件并告诉链接器目录：export LIBRARY_PATH=$CUDA_HOME/lib64:$LIBRARY_PATH（必要时运行时再设 LD_LIBRARY_PATH）。",
            ),
        ),
        "nvrtc": (
            Text(
                title="The run-time compiler NVRTC cannot load {lib}",
                why="NVRTC opens a second library of its exact minor version by name when it first compiles. It is not in a folder that the loader searches, often because only part of a toolkit is on the path.",
                fix="Install the NVRTC of the same minor version (nvidia-cuda-nvrtc wheel or the toolkit) and put its folder, which holds {lib}, on LD_LIBRARY_PATH.",
            ),
            Text(
                title="运行时编译器 NVRTC 加载不到 {lib}",
                why="NVRTC 首次编译时按确切的次版本名再打开一个库。它不在加载器搜索的目录里，常见原因是路径上只有工具包的一部分。",
                fix="安装同一次版本的 NVRTC（nvidia-cuda-nvrtc wheel 或工具包），并把含有 {lib} 的目录加入 LD_LIBRARY_PATH。",
            ),
        ),
        "libdevice": (
            Text(
                title="XLA does not find {lib}, a part of the CUDA toolkit",
                why="TensorFlow and JAX compile GPU code with libdevice.10.bc (folder nvvm/libdevice) and ptxas. The runtime wheels do not contain them, so XLA searches a toolkit folder and finds none.",
                fix="Install nvidia-cuda-nvcc-cu12 (or the toolkit; conda: cuda-nvcc) and set XLA_FLAGS=--xla_gpu_cuda_data_dir=/path/to/cuda, the folder that contains nvvm/libdevice.",
            ),
            Text(
                title="XLA 找不到 CUDA 工具包中的 {lib}",
                why="TensorFlow 和 JAX 用 libdevice.10.bc（位于 nvvm/libdevice）和 ptxas 编译 GPU 代码。运行时 wheel 不含它们，XLA 只能去工具包目录里找，却没有找到。",
                fix="安装 nvidia-cuda-nvcc-cu12（或工具包；conda 用 cuda-nvcc），并设置 XLA_FLAGS=--xla_gpu_cuda_data_dir=/path/to/cuda，即包含 nvvm/libdevice 的目录。",
            ),
        ),
        "jax": (
            Text(
                title="JAX cannot load {lib}",
                why="A library of the CUDA plugin's wheels is not installed, or another version of one of its dependencies is found first (LD_LIBRARY_PATH). The later line that no CUDA-enabled jaxlib is installed is a consequence.",
                fix="Unset LD_LIBRARY_PATH and try again; then pip install -U 'jax[cuda12]' (or cuda13), so that all nvidia-* wheels are of the versions that it wants.",
            ),
            Text(
                title="JAX 加载不到 {lib}",
                why="CUDA 插件所需 wheel 中的某个库没有安装，或者其依赖的另一版本先被找到（LD_LIBRARY_PATH）。后面那句“没有安装带 CUDA 的 jaxlib”只是结果。",
                fix="先 unset LD_LIBRARY_PATH 再试；然后 pip install -U 'jax[cuda12]'（或 cuda13），让所有 nvidia-* wheel 版本一致。",
            ),
        ),
        "numba": (
            Text(
                title="Numba does not find {lib} of the CUDA toolkit",
                why="Numba compiles kernels with libNVVM and libdevice. The driver and the runtime wheels do not contain them; with CUDA 12 and newer, numba-cuda and its extras bring them.",
                fix="pip install 'numba-cuda[cu12]' (or cu13), or with conda: conda install cuda-nvcc cuda-nvrtc (cudatoolkit for CUDA 11), or set CUDA_HOME to an installed toolkit. `numba -s` shows what it finds.",
            ),
            Text(
                title="Numba 找不到 CUDA 工具包的 {lib}",
                why="Numba 用 libNVVM 和 libdevice 编译 kernel，驱动和运行时 wheel 都不含它们；CUDA 12 起由 numba-cuda 的附加项提供。",
                fix="pip install 'numba-cuda[cu12]'（或 cu13）；conda 用 conda install cuda-nvcc cuda-nvrtc（CUDA 11 用 cudatoolkit）；或把 CUDA_HOME 指向已安装的工具包。`numba -s` 可查看它找到了什么。",
            ),
        ),
    },
)
