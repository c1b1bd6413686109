"""Checks the knowledge tables against what this machine offers; prints every difference and exits 1 on any.

Looks at CUDA headers (below --headers, or /usr/local/cuda*/include; wheels of PyPI are read in place), nvcc, nvidia-ml-py,
the system's pci.ids and, with --pypi, the names of the wheels of torch and tensorflow on PyPI.
"""

import argparse
import importlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ongpu.knowledge import cuda, errors, gpus, nvcc, pci, tensorflow, torch
from ongpu.knowledge._versions import capability_numbers, numbers

# Header -> family and the start of its names.
HEADERS = {
    "cuda.h": ("cuda", "CUDA_(?:SUCCESS|ERROR)"),
    "driver_types.h": ("cuda", "cuda(?:Success|Error)"),
    "cublas_api.h": ("cublas", "CUBLAS_STATUS_"),
    "cudnn_graph.h": ("cudnn9", "CUDNN_STATUS_"),
    "cudnn_ops_infer_v8.h": ("cudnn8", "CUDNN_STATUS_"),
    "cusparse.h": ("cusparse", "CUSPARSE_STATUS_"),
    "cusolver_common.h": ("cusolver", "CUSOLVER_STATUS_"),
    "cufft.h": ("cufft", "CUFFT_(?!FORWARD|INVERSE|COMPATIBILITY|R2C|C2R|C2C|D2Z|Z2D|Z2Z|MAX|PROP|XT|COPY|CB|LD|ST|UNDEFINED|QUERY|MP)"),
    "nccl.h": ("nccl", "nccl(?=Success|Unhandled|System|Internal|Invalid|Remote|InProgress|Timeout)"),
}


def headers(places: list[Path]) -> Iterator[tuple[str, str, str]]:
    """(where, file name, text) of each wanted header below some folders, wheels included."""
    wanted = {*HEADERS, "host_config.h"}
    for place in places:
        for path in sorted(place.rglob("*.h")) if place.is_dir() else []:
            if path.name in wanted:
                yield str(path), path.name, path.read_text(errors="replace")
        for wheel in sorted(place.rglob("*.whl")) if place.is_dir() else []:
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.rpartition("/")[2] in wanted:
                        yield f"{wheel.name}:{name}", name.rpartition("/")[2], archive.read(name).decode(errors="replace")


def enumerators(text: str, start: str) -> dict[str, int]:
    """Enumerators with a number of their own."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    return {name: int(number, 0) for name, number in re.findall(rf"\b({start}\w*)\s*=\s*(0x[0-9a-fA-F]+|\d+)", bare)}


def check_errors(where: str, file: str, text: str) -> Iterator[str]:
    """Error numbers of one header against the table, both ways when the header is as new as the table."""
    family, start = HEADERS[file]
    found = enumerators(text, start)
    known = {name: code.number for number in range(10001) if (code := errors.code(family, number)) for name in code.names}
    for name, number in found.items():
        if known.get(name) != number:
            yield f"{where}: {name} = {number}, the table says {known.get(name)}"
    version = re.search(r"#define CUDA_VERSION (\d+)", text)
    is_newest = version and f"{int(version[1]) // 1000}.{int(version[1]) % 1000 // 10}" == cuda.newest_toolkit()
    if file == "cuda.h" and is_newest:
        for name in sorted(set(known) - set(found)):
            if name.startswith("CUDA_"):
                yield f"{where}: {name} stands in the table only"


def check_hosts(where: str, text: str) -> Iterator[str]:
    """Host compiler limits of one crt/host_config.h."""
    version = re.search(r"(\d+\.\d+)\.\d+-py3", where) or re.search(r"cuda-(\d+\.\d+)/", where)
    gcc = re.search(r"__GNUC__ > (\d+)", text)
    if version is None or gcc is None:
        return
    known = nvcc.host_limits(version[1])
    clang = re.search(r"__clang_major__ (>=?) (\d+)", text)
    msvc = re.search(r"_MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)", text)
    newest_clang = int(clang[2]) - (clang[1] == ">=") if clang else None
    bounds = (int(msvc[1]), int(msvc[2])) if msvc else (None, None)
    said = (int(gcc[1]), newest_clang, *bounds)
    if known is None or said != (known.gcc_max, known.clang_max, known.msvc_from, known.msvc_below):
        yield f"{where}: gcc, clang, msvc {said}, the table says {known}"


def check_nvcc() -> Iterator[str]:
    """Targets of every nvcc below /usr/local."""
    for compiler in sorted(Path("/usr/local").glob("cuda-*/bin/nvcc")):
        version = compiler.parts[3].removeprefix("cuda-")
        out = subprocess.run([compiler, "--list-gpu-code"], capture_output=True, text=True, timeout=60, check=False).stdout
        offers = {capability_numbers(word) for word in out.split() if word.startswith("sm_")}
        for one in gpus.architectures():
            said, is_offered = cuda.toolkit_supports(version, one.capability), capability_numbers(one.capability) in offers
            if out and said != is_offered:
                yield f"{compiler}: {one.capability} offered: {is_offered}, the table says {said}"


def check_nvml() -> Iterator[str]:
    """Return codes and clock reasons of nvidia-ml-py."""
    nvml = vars(importlib.import_module("pynvml"))
    for name, number in nvml.items():
        if re.match(r"NVML_(ERROR_|SUCCESS)", name):
            known = errors.code("nvml", number)
            if known is None or name not in known.names:
                yield f"pynvml: {name} = {number}, the table says {known.names if known else None}"
    for reason in errors.clock_reasons():
        bits = {nvml.get(f"nvmlClocks{word}Reason{reason.name}") for word in ("Event", "Throttle")} - {None}
        if bits != {reason.bit}:
            yield f"pynvml: clock reason {reason.name} = {bits}, the table says {reason.bit}"


def check_pci(path: Path | None) -> Iterator[str]:
    """Chips of pci.ids against the ranges of device ids."""
    for device_id, text in pci.pci_names(path).items():
        said, ours = gpus.chip_capability(text.split()[0]), pci.architecture_of_device_id(device_id)
        is_gpu = "[" in text and not re.search(r"Audio|USB|UCSI|Bridge|NVSwitch", text)
        if said and is_gpu and int(device_id, 16) >= 0x06C0 and (ours is None or ours.capability != said):
            yield f"pci.ids: {device_id} {text}: {said}, the table says {ours.capability if ours else None}"


def wheels(name: str) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """(version, Python, platform tag) of all wheels that pip's index lists."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-vvv", "--no-deps", "-d", folder, "--only-binary=:all:"]
        ran = subprocess.run(
            [*command, "--python-version=3.99", f"{name}==99999"], capture_output=True, text=True, timeout=300, check=False
        )
    pattern = rf"\b{name}-(\d+(?:\.\d+)+)(?:-\d)?-cp3(\d+)-\w+-([\w.]+)\.whl"
    for version, minor, tag in set(re.findall(pattern, ran.stdout + ran.stderr)):
        yield version, (3, int(minor)), tag


def check_pypi() -> Iterator[str]:
    """Python bounds of torch and tensorflow on Linux x86_64 against the wheels on PyPI."""
    for name, module in (("torch", torch), ("tensorflow", tensorflow)):
        pythons: dict[str, set[tuple[int, ...]]] = {}
        for version, python, tag in wheels(name):
            if "linux" in tag and "x86_64" in tag:
                pythons.setdefault(version, set()).add(python)
        first = min(numbers(release.version) for release in module.releases())
        newest = max(pythons, key=numbers, default="0")
        if module.release(newest) is None:
            yield f"PyPI: {name} {newest} is not in the table"
        for version, seen in sorted(pythons.items(), key=lambda entry: numbers(entry[0])):
            release = module.release(version)
            is_last = not any(numbers(v)[:2] == numbers(version)[:2] and numbers(v) < numbers(version) for v in pythons)
            if numbers(version) < first or (name == "tensorflow" and not is_last):
                continue
            said = release and (numbers(release.python_min), numbers(release.python_max))
            if said != (min(seen), max(seen)):
                yield f"PyPI: {name} {version} has Python {min(seen)} to {max(seen)}, the table says {said}"


def main() -> int:
    """Runs all checks that the machine has the means for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headers", type=Path, action="append", help="folder with headers or wheels (may be repeated)")
    parser.add_argument("--pci-ids", type=Path, help="a pci.ids other than the system's")
    parser.add_argument("--pypi", action="store_true", help="ask pip's index for the wheels of torch and tensorflow")
    options = parser.parse_args()
    problems, read = [], 0
    for where, file, text in headers(options.headers or sorted(Path("/usr/local").glob("cuda-*/targets/*/include"))):
        read += 1
        problems += list(check_hosts(where, text) if file == "host_config.h" else check_errors(where, file, text))
    for check in (check_nvcc, check_nvml, lambda: check_pci(options.pci_ids), *([check_pypi] if options.pypi else [])):
        problems += list(check())
    print(*problems, f"{read} headers read, {len(problems)} differences", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
