"""The user's Python: which one it is, what is installed in it, and what its frameworks would load; nothing is imported."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ongpu.hosts import elf
from ongpu.hosts.live import Live, bounded

PROBE = Path(__file__).parent.parent / "probes" / "environment.py"
# Files that say what a framework was built for; read as text, never run.
VERSION_FILES = (
    "torch/version.py", "torchvision/version.py", "torchaudio/version.py", "tensorflow/python/platform/build_info.py",
    "onnxruntime/capi/build_and_package_info.py", "paddle/version/__init__.py", "cupy/_version.py", "mxnet/libinfo.py",
    "jaxlib/version.py", "xformers/cpp_lib.json", "llama_cpp/__init__.py",
)  # fmt: skip
# Libraries whose needs decide whether a framework finds CUDA; the first holds the GPU code of each.
LIBRARIES = (
    "torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "torch/lib/libtorch_global_deps.so",
    "tensorflow/libtensorflow_cc.so.2", "tensorflow/python/_pywrap_tensorflow_internal.so",
    "onnxruntime/capi/libonnxruntime_providers_cuda.so", "jax_cuda12_plugin/xla_cuda_plugin.so",
    "jax_cuda13_plugin/xla_cuda_plugin.so", "paddle/base/libpaddle.so", "ctranslate2.libs", "cupy_backends",
)  # fmt: skip
SHADOWS = ("torch", "tensorflow", "jax", "cupy", "onnxruntime", "numpy", "paddle", "triton", "select", "random", "types", "typing", "queue")
_DIST = re.compile(r"^(?P<name>[A-Za-z0-9._]+?)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist-info|egg-info)$")


def choose(environ: Mapping[str, str], asked: str | None = None) -> str | None:
    """The interpreter to examine: the one asked for (a file, or an environment's folder), the active venv or conda
    environment, then python on PATH."""
    for folder in (asked, environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX")):
        if not folder:
            continue
        for path in (Path(folder), Path(folder, "bin/python"), Path(folder, "Scripts/python.exe"), Path(folder, "python.exe")):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        if folder == asked:
            return shutil.which(asked, path=environ.get("PATH"))
    return shutil.which("python", path=environ.get("PATH")) or shutil.which("python3", path=environ.get("PATH"))


def machine(root: str, asked: str | None) -> Live:
    """The machine whose file system lies at `root`, with the interpreter to examine."""
    return Live(root=Path(root), python=choose(os.environ, asked))


def ask(machine: Live, limit: float) -> tuple[str, str | None]:
    """One JSON object: the interpreter, its distributions, version files and libraries."""
    if machine.python is None:
        return "", "no Python interpreter was found on PATH"
    recorded = Path(machine.python)
    if recorded.is_dir():  # a recorded tree: the folder that holds site-packages
        about: dict[str, Any] = {"executable": machine.python, "path": [str(recorded)], "version": None, "recorded": True}
    else:
        text, problem = bounded([machine.python, "-c", PROBE.read_text("utf-8")], limit, machine.environ)
        try:
            about = json.loads(text[text.index("{") :])
        except ValueError:
            return "", f"{machine.python} did not answer: {problem or text[-200:]}"
    folders = [Path(p) for p in about.get("path", ()) if Path(p).is_dir()]
    sites = [f for f in folders if f.name in ("site-packages", "dist-packages") or recorded.is_dir()]
    about["distributions"] = distributions(sites)
    about["files"] = dict(_version_files(sites))
    about["libraries"] = {str(path): elf.describe(path, archs=path.name == "libtorch_cuda.so") for path in _libraries(sites)}
    about["shadows"] = _shadows(Path(about.get("cwd") or "."), about.get("path", ()), sites)
    about["resolved"] = resolve(about["libraries"], machine)
    return json.dumps(about), None


def distributions(sites: Iterable[Path]) -> list[list[str]]:
    """[name, version, folder] of all that is installed, from the names of the metadata folders: no file is opened."""
    found = []
    for site in sites:
        for entry in sorted(os.listdir(site)):
            if match := _DIST.match(entry):
                found.append([match["name"], match["version"], str(site)])
    return found


def _version_files(sites: Iterable[Path]) -> Iterable[tuple[str, str]]:
    for name in VERSION_FILES:
        for site in sites:
            try:
                yield name, (site / name).read_text("utf-8", "replace")[:8000]
                break
            except OSError:
                continue


def _libraries(sites: Iterable[Path]) -> Iterable[Path]:
    for name in LIBRARIES:
        for site in sites:
            if (site / name).is_file():
                yield site / name
                break


def _shadows(cwd: Path, path: Iterable[str], sites: Iterable[Path]) -> list[list[str]]:
    """[module, file] of local files that would be imported instead of the installed package."""
    installed = set(map(str, sites))
    found = []
    for folder in dict.fromkeys([str(cwd), *path]):
        if folder in installed or "/lib/python" in folder or folder.endswith(".zip"):
            continue
        for name in SHADOWS:
            for file in (Path(folder, f"{name}.py"), Path(folder, name, "__init__.py")):
                if file.is_file():
                    found.append([name, str(file)])
    return found


def resolve(libraries: Mapping[str, Mapping[str, Any]], machine: Live) -> list[list[str]]:
    """[needed, path or "", by] of the CUDA libraries that these need, in the loader's order: RPATH (only where there
    is no RUNPATH), LD_LIBRARY_PATH, RUNPATH, ld.so.cache, the default folders. See ld.so(8)."""
    search = [p for p in machine.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    cache = _cache(machine)
    found = []
    for path, about in libraries.items():
        origin = str(Path(path).parent)
        rpath, runpath = ([p.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for p in about.get(k, ())] for k in ("rpath", "runpath"))
        order = [*([] if runpath else rpath), *search, *runpath]
        for needed in about.get("needed", ()):
            if not re.match(r"lib(cu|nv|nccl|cudnn)", needed):
                continue
            place = next((os.path.join(f, needed) for f in order if os.path.exists(os.path.join(f, needed))), None)
            found.append([needed, os.path.normpath(place) if place else cache.get(needed, ""), path])
    return found


def _cache(machine: Live) -> dict[str, str]:
    """soname -> path, as `ldconfig -p` lists it; empty where it cannot be asked."""
    program = shutil.which("ldconfig", path="/sbin:/usr/sbin") if machine.commands else None
    if not program:
        return {}
    text, _ = bounded([program, "-p"], 1.0, machine.environ)
    return {m[1]: m[2] for m in re.finditer(r"^\s*(\S+) \([^)]*\) => (\S+)", text, re.MULTILINE)}
