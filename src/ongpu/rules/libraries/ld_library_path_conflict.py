"""LD_LIBRARY_PATH (or an environment module) puts a library of another version in front of the right one."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Packages
from ongpu.facts.libraries import Loader
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_CUDA_FOLDER = lazy(r"cuda|cudnn|nvidia|nccl|nvhpc|hpc_sdk|tensorrt|/stubs|conda|cupti", re.IGNORECASE)
# Lines that a library of another version, found first, is known to cause.
# fmt: off
_CLASH = (
    "cublas-symbol", "cuda-api-symbol", "nccl-symbol", "cudnn-incompatible", "cudnn-loaded-runtime", "cudnn-graph-symbol", "cudnn-sublibrary",
    "jax-unable-to-load", "jax-version-check", "jax-cudnn-older", "stubs-in-use", "symbol-lookup-error", "cublas-init-line", "version-not-found",
    "nvjitlink-symbol", "cudnn-version-mismatch-status", "relocation-error", "system-cuda-symbol",
)
# fmt: on


def check(
    symptoms: Symptoms | None, variables: Variables | None, loader: Loader | None, packages: Packages | None
) -> Iterator[Finding]:
    path = variables.get("LD_LIBRARY_PATH") if variables else None
    path = path or (symptoms.value("path", "ld-debug-path") if symptoms else None)
    folders = [f for f in (path or "").split(":") if f and _CUDA_FOLDER.search(f) and "site-packages" not in f]
    refs = (
        *(variables.cite("LD_LIBRARY_PATH") if variables else ()),
        *(symptoms.cite("ld-debug-path") if symptoms else ()),
    )
    stubs = [f for f in (path or "").split(":") if f.rstrip("/").endswith("/stubs")]
    foreign = [
        item
        for item in (loader.loaded if loader else ())
        if "site-packages" in item.by
        and item.path.startswith("/")
        and "site-packages" not in item.path
        and re.match(r"lib(?:nvJitLink|cublas|cusparse|cudnn|cudart|nccl|cusolver|cufft|nvrtc)", item.name)
    ]
    if symptoms and symptoms.has("ld-library-path-set") and symptoms.has("jax-library-path"):
        yield Finding(
            certainty=Certainty.CERTAIN,
            variant="plain",
            values={"folders": folders or "?", "library": "?"},
            fixes=(Fix("unset-library-path"),),
            refs=(*symptoms.cite("jax-library-path"), *refs),
        )
        return
    clash = symptoms.cite(*_CLASH) if symptoms else ()
    module = symptoms.cite("module-loaded") if symptoms else ()
    if stubs and symptoms and symptoms.has("stubs-in-use", "no-driver-line"):
        yield Finding(
            certainty=Certainty.CERTAIN,
            variant="stubs",
            values={"folders": stubs, "library": "libcuda.so.1"},
            fixes=(Fix("unset-library-path"),),
            refs=(*symptoms.cite("stubs-in-use", "no-driver-line"), *refs),
        )
    elif symptoms and symptoms.has("stubs-in-use"):
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="stubs",
            values={"folders": stubs or "?", "library": "libcuda.so.1"},
            fixes=(Fix("unset-library-path"),),
            refs=(*symptoms.cite("stubs-in-use"), *refs),
        )
    elif foreign:
        item = foreign[0]
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="resolved",
            values={"library": item.name, "folders": item.path, "by": item.by.rsplit("/", 1)[-1]},
            fixes=(Fix("unset-library-path"), Fix("show-library-resolution")),
            refs=(*(f.ref for f in foreign if f.ref), *refs, *clash),
        )
    elif folders and clash:
        library = (
            symptoms.value("version", "cublas-symbol")
            or symptoms.value("lib", *_CLASH)
            or symptoms.value("what", *_CLASH)
            or symptoms.value("what2", *_CLASH)
            or "?"
            if symptoms
            else "?"
        )
        tried = symptoms.value("lib", "ld-debug-trying") if symptoms else None
        yield Finding(
            certainty=Certainty.LIKELY,
            values={"folders": folders, "library": tried or library},
            fixes=(Fix("unset-library-path"), Fix("show-library-resolution")),
            refs=(
                *refs,
                *clash,
                *(symptoms.cite("ld-debug-trying", "jax-installed-version", most=2) if symptoms else ()),
            ),
        )
    elif folders and symptoms and symptoms.has("crash-in-cuda", "cudnn-engine", "cudnn-status-line"):
        inside = symptoms.has("frame-in-cuda-wheel")
        yield Finding(
            certainty=Certainty.LIKELY if inside or symptoms.has("unset-helps") else Certainty.POSSIBLE,
            variant="plain",
            values={"folders": folders, "library": symptoms.value("lib", "frame-in-cuda-wheel") or "?"},
            fixes=(Fix("unset-library-path"), Fix("show-library-resolution")),
            refs=(*refs, *symptoms.cite("unset-helps", "crash-in-cuda", "frame-in-cuda-wheel", "cudnn-engine", "cudnn-status-line", most=2)),
        )
    elif (
        symptoms
        and symptoms.has("relocation-error")
        and re.search(r"/(?:usr/local/cuda|opt)[\w.\-]*/", symptoms.value("by", "relocation-error") or "")
    ):
        by = symptoms.value("by", "relocation-error") or "?"
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="resolved",
            values={
                "library": symptoms.value("version", "relocation-error") or "?",
                "folders": "another CUDA",
                "by": by,
            },
            fixes=(Fix("unset-library-path"), Fix("show-library-resolution")),
            refs=(*symptoms.cite("relocation-error"), *refs),
        )
    elif module and clash and symptoms:
        what = symptoms.value("what", "module-loaded") or "cuda"
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="module",
            values={"module": what, "folders": what, "library": symptoms.value("version", "cublas-symbol") or "?"},
            fixes=(Fix("unset-library-path"),),
            refs=(*module, *clash, *symptoms.cite("jax-installed-version", most=1)),
        )
    elif symptoms and symptoms.has("unset-helps"):
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="plain",
            values={"folders": folders or "?", "library": "?"},
            fixes=(Fix("unset-library-path"),),
            refs=(*symptoms.cite("unset-helps"), *refs, *clash),
        )


RULE = Rule(
    slug="ld-library-path-conflict",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("jax-without-cuda", "cuda-unavailable", "cublas-init-failed"),
    settle=("echo $LD_LIBRARY_PATH", "LD_DEBUG=libs python -c 'import torch' 2>&1 | grep 'calling init'"),
    see=(
        "https://man7.org/linux/man-pages/man8/ld.so.8.html",
        "https://docs.jax.dev/en/latest/installation.html",
        "https://github.com/jax-ml/jax/issues/28929",
    ),
    en=Text(
        title="LD_LIBRARY_PATH leads to other CUDA libraries first: {folders}{library: (library: *)}",
        why="The loader searches LD_LIBRARY_PATH before the folders that pip's nvidia-* wheels name for themselves (RUNPATH), so that a toolkit's older library is loaded under the wheels' newer ones: undefined symbols, version errors, or 'not installed' messages follow.",
        fix="Unset LD_LIBRARY_PATH (or unload the CUDA and cuDNN modules) and start again: the wheels bring their own libraries. Where something else needs the variable, put site-packages/nvidia/*/lib in front of it.",
    ),
    zh=Text(
        title="LD_LIBRARY_PATH 让加载器先找到别的 CUDA 库：{folders}{library:（涉及：*）}",
        why="加载器先搜索 LD_LIBRARY_PATH，再看 pip 的 nvidia-* wheel 自带的路径（RUNPATH），于是工具包里较旧的库被加载到 wheel 较新的库之下，出现未定义符号、版本错误或“未安装”之类的提示。",
        fix="unset LD_LIBRARY_PATH（或卸载 CUDA、cuDNN 模块）后重新启动：wheel 自带所需的库。若其他程序确实需要该变量，把 site-packages/nvidia/*/lib 放到最前面。",
    ),
    variants={
        "resolved": (
            Text(
                title="{by} of the wheel gets {library} from {folders}, not from its own wheel",
                why="A folder of LD_LIBRARY_PATH (or ld.so.conf) comes before the wheel's own. The two versions need not fit: a newer libcusparse or libcublas then asks for symbols that the older library does not have.",
                fix="Unset LD_LIBRARY_PATH, or put the wheel's folder (site-packages/nvidia/*/lib) in front of it, and check again with ldd.",
            ),
            Text(
                title="wheel 里的 {by} 从 {folders} 取得了 {library}，而不是自己的 wheel",
                why="LD_LIBRARY_PATH（或 ld.so.conf）中的目录排在 wheel 自带目录之前。两者版本未必匹配：较新的 libcusparse、libcublas 会要求旧库里没有的符号。",
                fix="unset LD_LIBRARY_PATH，或把 wheel 的目录（site-packages/nvidia/*/lib）放在最前，再用 ldd 核对。",
            ),
        ),
        "module": (
            Text(
                title="The environment module {module} puts its CUDA libraries in front of the wheels' own",
                why="`module load` sets LD_LIBRARY_PATH, which the loader searches before the wheels' folders. The framework was built with other versions.",
                fix="module unload {module} (or module purge) before activating the environment; pip and conda builds bring their own CUDA. Load a module only to compile with nvcc.",
            ),
            Text(
                title="环境模块 {module} 让自己的 CUDA 库排在 wheel 之前",
                why="`module load` 会设置 LD_LIBRARY_PATH，加载器先于 wheel 目录搜索它，而框架是用别的版本编译的。",
                fix="激活环境前 module unload {module}（或 module purge）；pip 和 conda 的构建自带 CUDA。只有用 nvcc 编译时才需要加载模块。",
            ),
        ),
        "stubs": (
            Text(
                title="The stub of the driver library is loaded instead of the driver ({folders})",
                why="The toolkit's lib64/stubs holds a {library} that is for linking only: each call fails with error 34. It must never be on LD_LIBRARY_PATH at run time.",
                fix="Take the stubs folder off LD_LIBRARY_PATH (unset LD_LIBRARY_PATH), and remove links to it from system folders, so that the driver's own libcuda.so.1 is found. In a container the real one comes with --gpus all.",
            ),
            Text(
                title="加载的是驱动库的占位文件，而不是真正的驱动（{folders}）",
                why="工具包 lib64/stubs 里的 {library} 只供链接，任何调用都会以错误 34 失败，运行时绝不能出现在 LD_LIBRARY_PATH 上。",
                fix="从 LD_LIBRARY_PATH 去掉 stubs 目录（unset LD_LIBRARY_PATH），并删除系统目录中指向它的链接，使驱动自己的 libcuda.so.1 被找到；容器里真正的驱动库由 --gpus all 带入。",
            ),
        ),
        "plain": (
            Text(
                title="LD_LIBRARY_PATH overrides the libraries that the framework brought ({folders})",
                why="The program itself, or the report, says that it works without LD_LIBRARY_PATH: the variable makes the loader take other CUDA libraries than those of the wheels.",
                fix="Unset LD_LIBRARY_PATH in the shell start files, the service or the job script; nothing that pip installed needs it.",
            ),
            Text(
                title="LD_LIBRARY_PATH 覆盖了框架自带的库（{folders}）",
                why="程序或报告本身说明：不设 LD_LIBRARY_PATH 就能工作，该变量让加载器取用了 wheel 之外的 CUDA 库。",
                fix="在 shell 启动文件、服务或作业脚本中 unset LD_LIBRARY_PATH；pip 安装的东西都不需要它。",
            ),
        ),
    },
)
