"""A file or folder of the user, or an older user-site copy, is imported in place of the real module."""

import re
import sys
from collections.abc import Iterator

from ongpu.facts.code import Frame, Traceback
from ongpu.facts.framework import Packages, Python, Torch
from ongpu.facts.installs import Installs
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_FRAMEWORKS = (
    "torch",
    "tensorflow",
    "jax",
    "onnxruntime",
    "numpy",
    "torchvision",
    "cupy",
    "keras",
    "transformers",
    "triton",
    "datasets",
    "faiss",
    "paddle",
    "mxnet",
    "xformers",
    "diffusers",
    "accelerate",
    "flash_attn",
    "bitsandbytes",
)
_STANDARD = sys.stdlib_module_names - {"__main__", "main", "test", "this", "setup"}
_HARMLESS = ("__init__", "train", "test", "main", "run", "model", "utils", "data")


def _stem(path: str) -> str:
    return re.split(r"[\\/]", path)[-1].removesuffix(".py").removesuffix(".pyc")


def _shadow(frame: Frame) -> str | None:
    """The module that a user's own file carries the name of."""
    name = _stem(frame.file)
    if frame.library or name in _HARMLESS or frame.file.startswith("<"):
        return None
    return name if name in _STANDARD or name in _FRAMEWORKS else None


def _stale(torch: Torch, installs: Installs) -> str | None:
    """The torch that is imported, where an install brought another version: torch's versions contradict each other, and one is the install's."""
    brought = {done.rpartition("-")[2] for item in installs.of("torch") for done in item.installed if done.startswith("torch-")}
    for conflict in torch.conflicts:
        told = [*conflict.removeprefix("version: ").split(" / ")] if conflict.startswith("version: ") else []
        other = [version for version in told if version not in brought]
        if len(told) == 2 and len(other) == 1:
            return other[0]
    return None


def check(
    trace: Traceback | None,
    symptoms: Symptoms | None,
    torch: Torch | None,
    python: Python | None,
    packages: Packages | None,
    installs: Installs | None,
) -> Iterator[Finding]:
    failed = bool(
        trace
        and trace.error
        and trace.error.split(".")[-1]
        in ("AttributeError", "ImportError", "ModuleNotFoundError", "TypeError", "NameError", "RuntimeError")
    )
    if trace and failed:
        for frame in trace.frames:
            name = _shadow(frame)
            if name and (
                name in _FRAMEWORKS
                or any(f.library for f in trace.frames)
                or "circular" in (trace.message or "")
                or f"'{name}'" in (trace.message or "")
            ):
                sure = (
                    name in _FRAMEWORKS
                    or "has no attribute" in (trace.message or "")
                    or "circular" in (trace.message or "")
                    or "cannot import name" in (trace.message or "")
                )
                yield Finding(
                    certainty=Certainty.CERTAIN if sure else Certainty.POSSIBLE,
                    values={
                        "file": frame.file if len(frame.file) < 100 else f"{name}.py",
                        "module": name,
                        "kind": "standard module" if name in _STANDARD else "package",
                    },
                    refs=(
                        frame.ref,
                        *(symptoms.cite("module-no-attribute", "circular-import", most=2) if symptoms else ()),
                        *trace.refs[-1:],
                    ),
                )
                return
    for name, file in python.shadows if python else ():
        if name in _FRAMEWORKS:
            yield Finding(
                certainty=Certainty.LIKELY,
                values={"file": file, "module": name, "kind": "package"},
                refs=python.about("shadows") if python else (),
            )
            return
    if symptoms is None:
        return
    if symptoms.has("not-a-package"):
        hidden = symptoms.value("module", "not-a-package") or symptoms.value("module2", "not-a-package") or "?"
        yield Finding(
            certainty=Certainty.CERTAIN,
            values={"file": symptoms.value("file", "not-a-package") or f"{hidden}.py", "module": hidden, "kind": "package"},
            refs=symptoms.cite("not-a-package"),
        )
        return
    if symptoms.has("torch-folder-shadow"):
        yield Finding(
            variant="folder",
            certainty=Certainty.CERTAIN,
            values={"file": "torch/", "module": "torch"},
            refs=symptoms.cite("torch-folder-shadow"),
        )
        return
    module = symptoms.value("module", "circular-import") or symptoms.value("module", "module-no-attribute")
    attribute = symptoms.value("attr", "module-no-attribute") or ""
    basic = {
        "torch": (
            "cuda",
            "device",
            "tensor",
            "Tensor",
            "nn",
            "__version__",
            "float32",
            "zeros",
            "manual_seed",
            "FloatTensor",
            "load",
            "from_numpy",
        ),
        "tensorflow": ("__version__", "config", "keras", "Session", "constant", "test"),
        "jax": ("numpy", "devices", "Array"),
        "numpy": ("array", "ndarray", "__version__"),
        "onnxruntime": ("get_available_providers", "InferenceSession"),
        "tf": ("__version__",),
    }
    listed = symptoms.value("file", "shadow-file")
    if listed or (module in basic and attribute in basic[module] and not symptoms.has("companion-import")):
        where = listed or f"{module}.py"
        yield Finding(
            certainty=Certainty.CERTAIN if listed else Certainty.LIKELY,
            values={"file": where, "module": module or _stem(where), "kind": "package"},
            refs=(*symptoms.cite("shadow-file", "module-no-attribute", "circular-import", "unknown-location"),),
        )
        return
    if symptoms.has("circular-import") and module in _FRAMEWORKS:
        yield Finding(
            certainty=Certainty.LIKELY,
            values={"file": f"{module}.py", "module": module, "kind": "package"},
            refs=symptoms.cite("circular-import"),
        )
        return
    if (
        symptoms.has("unknown-location")
        and (symptoms.value("module", "unknown-location") or "").split(".")[0] in _FRAMEWORKS
    ):
        name = (symptoms.value("module", "unknown-location") or "?").split(".")[0]
        yield Finding(
            variant="folder",
            certainty=Certainty.LIKELY,
            values={"file": f"{name}/", "module": name},
            refs=symptoms.cite("unknown-location"),
        )
        return
    own = torch.location if torch and torch.location and re.search(r"/\.local/|AppData.Roaming", torch.location) else None
    if own and symptoms.has("old-copy-told", "no-user-site") and torch:
        yield Finding(
            variant="user",
            certainty=Certainty.LIKELY,
            values={"path": own, "env": "the environment", "module": f"torch {torch.version or ''}".strip()},
            refs=(*torch.about("location", "version"), *symptoms.cite("old-copy-told", "no-user-site", most=2)),
        )
        return
    if own and torch and installs and (stale := _stale(torch, installs)):
        yield Finding(
            variant="user",
            certainty=Certainty.LIKELY,
            values={"path": own, "env": "the environment", "module": f"torch {stale}"},
            refs=(*torch.about("location", "version"), *(item.ref for item in installs.of("torch")[:2])),
        )
        return
    user = symptoms.value("path", "conda-and-local") or own
    user = user or (symptoms.value("path", "user-site-told") if symptoms.has("no-user-site") else None)
    if user and symptoms.has("no-user-site"):
        yield Finding(
            variant="user",
            certainty=Certainty.LIKELY,
            values={"path": user, "env": "the environment", "module": symptoms.value("module", "conda-and-local") or "torch"},
            refs=(*symptoms.cite("conda-and-local", "user-site-told", "no-user-site", most=2), *(torch.refs[:2] if torch else ())),
        )
        return
    env = symptoms.value("env", "conda-env-path") or (python.prefix if python and python.conda else None)
    if (
        user
        and env
        and (
            symptoms.has(
                "module-no-attribute",
                "shared-object-missing",
                "torch-undefined-symbol",
                "torch-not-compiled-with-cuda",
                "cuda-requested-unavailable",
                "no-kernel-image",
                "kernel-image-missing",
                "shadow-words",
                "torchvision-nms",
                "torch-attribute",
                "nvjitlink-symbol",
                "cublas-symbol",
            )
            or (torch and (torch.available is False or torch.cuda == ""))
        )
    ):
        yield Finding(
            variant="user",
            certainty=Certainty.LIKELY,
            values={"path": user, "env": env, "module": symptoms.value("module", "conda-and-local") or "torch"},
            refs=(
                *symptoms.cite("conda-and-local", most=3),
                *symptoms.cite("conda-env-path", most=2),
                *(torch.refs[:2] if torch else ()),
            ),
        )


RULE = Rule(
    slug="module-shadowed",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("companion-package-mismatch", "cpu-only-build", "wrong-interpreter"),
    settle=("python -c 'import torch; print(torch.__file__)'", "python -m site"),
    see=("https://docs.python.org/3/library/sys_path_init.html", "https://github.com/pytorch/pytorch/issues/6412"),
    en=Text(
        title="{file} takes the place of the module {module} in the import",
        why="Python searches the script's own folder first: a file or folder there with the name of a module is imported instead of it, also when a framework asks for that module inside. The error then names an attribute that the real module has.",
        fix="Rename {file} (and delete its __pycache__ or .pyc), so that no file of the project is called like the module {module}; check with python -c 'import {module}; print({module}.__file__)'.",
    ),
    zh=Text(
        title="{file} 在导入时顶替了 {module} 模块",
        why="Python 先搜索脚本所在目录：那里若有与模块同名的文件或文件夹，就会被导入来代替真正的模块，框架内部导入该模块时也一样。于是报错说缺少某个真正模块明明有的属性。",
        fix="给 {file} 改名（并删除其 __pycache__ 或 .pyc），项目里不要有与 {module} 同名的文件；用 python -c 'import {module}; print({module}.__file__)' 核对。",
    ),
    variants={
        "folder": (
            Text(
                title="A folder {file} near the script is imported instead of the installed {module}",
                why="The program was started inside the source tree (or beside a folder of that name), where Python finds an uncompiled {module} first.",
                fix="Start it from another folder, or rename the folder {file}; a namespace left over after a broken uninstall (site-packages/{module} without __init__.py) must be deleted and {module} reinstalled.",
            ),
            Text(
                title="脚本附近的文件夹 {file} 被当作 {module} 导入，而不是已安装的包",
                why="程序是在源码目录（或同名文件夹旁）启动的，Python 先找到了未编译的 {module}。",
                fix="换个目录启动，或给文件夹 {file} 改名；若是卸载不完整留下的空壳（site-packages/{module} 没有 __init__.py），删除它并重装 {module}。",
            ),
        ),
        "user": (
            Text(
                title="{module} of the user folder ({path}) hides the one in the environment ({env})",
                why="~/.local/lib/pythonX.Y/site-packages comes before a conda environment's own folder on sys.path, so that an older copy installed with pip --user is imported in every environment with the same Python version.",
                fix="Run with PYTHONNOUSERSITE=1 (or python -s), or uninstall the user copy: PYTHONNOUSERSITE= python -m pip uninstall {module} outside the environment; then check {module}.__file__.",
            ),
            Text(
                title="用户目录里的 {module}（{path}）遮住了环境中的那份（{env}）",
                why="在 sys.path 中，~/.local/lib/pythonX.Y/site-packages 排在 conda 环境自身目录之前，pip --user 装的旧版会在所有相同 Python 版本的环境里被导入。",
                fix="用 PYTHONNOUSERSITE=1（或 python -s）运行；或在环境之外卸载用户目录的那份：python -m pip uninstall {module}；再核对 {module}.__file__。",
            ),
        ),
    },
)
