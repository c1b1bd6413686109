"""The user's Python: which one it is, what is installed in it, and what its frameworks would load; nothing is imported."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ongpu.hosts import elf
from ongpu.hosts.live import Live, output
from ongpu.hosts.processes import bounded, which
from ongpu.lazy import lazy

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
GPU_FRAMEWORKS = ("torch", "tensorflow", "tensorflow_gpu", "tensorflow_cpu", "jax", "jaxlib", "onnxruntime", "onnxruntime_gpu", "cupy")
_SITES = ("site-packages", "dist-packages")
_CONDA = lazy(r"(?:py)?torch|cuda|cudnn|nccl|tensorflow|jax|cupy|libtorch|libcu|pytorch-|mkl$|numpy$|onnxruntime|rapids|__cuda")
# frameworks whose packages may lie over one another
_OVERLAID = lazy(r"torch|tensorflow|jax|cupy|onnxruntime|faiss|paddlepaddle|mxnet|dgl")
_DIST = lazy(r"^(?P<name>[A-Za-z0-9._]+?)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist-info|egg-info)$")


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
            recorded = Path(folder).is_dir() and any(Path(folder).glob("*.dist-info"))  # site-packages without its interpreter
            return folder if recorded else which(asked, environ.get("PATH"))
    return which("python", environ.get("PATH")) or which("python3", environ.get("PATH"))


def machine(root: str, asked: str | None) -> Live:
    """The machine whose file system lies at `root`, with the interpreter to examine."""
    return Live(root=Path(root), python=choose(os.environ, asked))


def ask(machine: Live, limit: float) -> tuple[str, str | None]:
    """One JSON object: the interpreter, its distributions, version files and libraries."""
    if machine.python is None:
        return "", "no Python interpreter was found on PATH"
    about, problem = _about(machine, limit)
    if about is None:
        return "", problem
    sites = [f for f in map(Path, about.get("path", ())) if f.is_dir() and (f.name in _SITES or any(f.glob("*.dist-info")))]
    about["distributions"] = [*distributions(sites), *conda(Path(about.get("prefix") or "/nonexistent"))]
    about["files"] = dict(_version_files(sites))
    about["libraries"] = {str(path): elf.describe(path, archs=path.name == "libtorch_cuda.so") for path in _libraries(sites)}
    about["shadows"] = _shadows(Path(about["cwd"]) if about.get("cwd") else None, about.get("path", ()), sites)
    about["resolved"] = resolve(about["libraries"], machine)
    if not any(name in GPU_FRAMEWORKS for name, *_ in about["distributions"]):
        about["others"] = others(Path(about.get("cwd") or "."), machine)
    return json.dumps(about), None


def _about(machine: Live, limit: float) -> tuple[dict[str, Any] | None, str | None]:
    """What the interpreter says of itself; of a recorded tree (the folder that holds site-packages), what its path tells."""
    recorded = Path(machine.python or "")
    if recorded.is_dir():
        version = re.search(r"python(\d\.\d+)", str(recorded))
        path = [*filter(None, machine.environ.get("PYTHONPATH", "").split(os.pathsep)), str(recorded)]
        return {
            "version": version[1] if version else None, "executable": str(recorded), "path": path, "prefix": None, "recorded": True,
        }, None  # fmt: skip
    text, problem = bounded([str(machine.python), "-c", PROBE.read_text("utf-8")], limit, machine.environ)
    try:
        about = json.loads(text[text.index("{") :])
    except ValueError:
        last = text.strip().splitlines()[-1:] or ["no answer"]
        return None, f"{machine.python}: {problem or last[0]}: {last[0][-200:]}"
    return (about, None) if isinstance(about, dict) else (None, f"{machine.python}: no answer")


def distributions(sites: Iterable[Path]) -> list[list[str]]:
    """[name, version, folder] of all that is installed, from the names of the metadata folders: no file is opened.

    [name, version, folder, "", "direct"] of a framework that came from a file or an address: pip cannot fetch it again by its name.
    """
    found = []
    for site in sites:
        try:
            entries = sorted(os.listdir(site))
        except OSError:
            continue
        for entry in entries:
            if match := _DIST.match(entry):
                told = _OVERLAID.match(match["name"]) and (site / entry / "direct_url.json").is_file()
                found.append([match["name"], match["version"], str(site), *(["", "direct"] if told else [])])
    return found


def conda(prefix: Path) -> list[list[str]]:
    """[name, version, folder, build] of the conda packages that pip does not see: CUDA, cuDNN, the variant that was chosen."""
    found = []
    for path in sorted((prefix / "conda-meta").glob("*.json")):
        name, _, rest = path.stem.rpartition("-")[0].rpartition("-")
        if _CONDA.match(name) and name and rest:
            found.append([name, rest, str(path.parent), path.stem.rpartition("-")[2]])
    return found


def others(cwd: Path, machine: Live) -> list[str]:
    """Environments nearby that do hold a framework, "path: torch 2.1.0+cu121", where the one that is examined has none."""
    home = machine.environ.get("HOME", "")
    places = [cwd / name for name in (".venv", "venv", "env")]
    if home and machine.commands:
        places += [f for base in ("miniconda3", "anaconda3", "miniforge3", "mambaforge") for f in Path(home, base).glob("envs/*")]
    found = []
    for place in places[:40]:
        for site in (*place.glob("lib/python3*/site-packages"), *place.glob("Lib/site-packages")):
            found += [f"{place}: {n} {v}" for n, v, *_ in distributions([site]) if n.lower() in ("torch", "tensorflow", "jax")]
    return found[:6]


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


def _shadows(cwd: Path | None, path: Iterable[str], sites: Iterable[Path]) -> list[list[str]]:
    """[module, file] of local files that would be imported instead of the installed package."""
    installed = set(map(str, sites))
    found = []
    for folder in dict.fromkeys([*([str(cwd)] if cwd else []), *path]):
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
    cache = {match[1]: match[2] for match in _CACHED.finditer(output(machine, ("ldconfig", "-p"), 2.0)[0])}
    found = []
    for path, about in libraries.items():
        origin = str(Path(path).parent)
        rpath, runpath = (
            [p.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for p in about.get(kind, ())] for kind in ("rpath", "runpath")
        )
        order = [*([] if runpath else rpath), *search, *runpath]
        for needed in about.get("needed", ()):
            if not re.match(r"lib(cu(?!da\.so)|nv(?!idia-ml)|nccl|cudnn)", needed):  # libcuda and NVML are the driver's
                continue
            place = next((os.path.join(f, needed) for f in order if os.path.exists(os.path.join(f, needed))), None)
            found.append([needed, os.path.normpath(place) if place else cache.get(needed, ""), path])
    return found


# soname -> path, as `ldconfig -p` lists it
_CACHED = lazy(r"^\s*(\S+) \([^)]*\) => (\S+)", re.MULTILINE)
