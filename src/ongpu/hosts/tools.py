"""Where the programs lie that a command can be run under: compute-sanitizer, and nsys of Nsight Systems."""

import glob
import os
from collections.abc import Iterator, Mapping

from ongpu.hosts.processes import which
from ongpu.lazy import lazy

SANITIZER, NSYS = "compute-sanitizer", "nsys"
# Beside it, or beside what its own script starts: without it children are not followed, and the tool starts nothing (12.9.79 of the
# wheel nvidia-cuda-sanitizer-api-cu12 lacks it; seen with the real program).
NEEDED = "TreeLauncherTargetLdPreloadHelper"
# After PATH and CUDA_HOME; globs, the newest of each first. Wheels and conda keep them below the environment of the interpreter.
PLACES: Mapping[str, tuple[str, ...]] = {
    SANITIZER: (
        "/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer",
        "/usr/local/cuda-*/bin/compute-sanitizer", "/usr/local/cuda-*/compute-sanitizer/compute-sanitizer",
        "/opt/cuda/bin/compute-sanitizer",
    ),
    NSYS: (
        "/usr/local/cuda/bin/nsys", "/usr/local/cuda-*/bin/nsys", "/opt/nvidia/nsight-systems/*/bin/nsys",
        "/opt/nvidia/nsight-systems/*/target-linux-*/nsys", "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
        "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys", "/usr/lib/nsight-systems/bin/nsys", "/opt/cuda/bin/nsys",
    ),
}  # fmt: skip
WHEELS: Mapping[str, tuple[str, ...]] = {
    SANITIZER: (
        "lib/python3*/site-packages/nvidia/cu*/bin/compute-sanitizer", "bin/compute-sanitizer", "compute-sanitizer/compute-sanitizer",
    ),
    NSYS: ("bin/nsys", "nsight-systems*/bin/nsys", "nsight-systems*/target-linux-*/nsys"),
}  # fmt: skip

_DIGITS = lazy(r"([0-9]{1,9})")


def find(name: str, environ: Mapping[str, str], python: str | None = None, root: str = "/") -> str | None:
    """The program, where it can be run; None where it is nowhere. python: the interpreter of the command, whose wheels are looked at."""
    return next((path for path in _candidates(name, environ, python, root) if _whole(name, path)), None)


def _candidates(name: str, environ: Mapping[str, str], python: str | None, root: str) -> Iterator[str]:
    if found := which(name, environ.get("PATH")):
        yield found
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := environ.get(variable):
            yield from (os.path.join(home, "bin", name), os.path.join(home, name, name))
    prefixes = [os.path.dirname(os.path.dirname(python)) if python else "", environ.get("VIRTUAL_ENV", ""), environ.get("CONDA_PREFIX", "")]
    for prefix in filter(None, prefixes):
        for pattern in WHEELS[name]:
            yield from _newest(os.path.join(glob.escape(prefix), pattern))
    for pattern in PLACES[name]:
        yield from _newest(os.path.join(root, pattern.lstrip("/")))


def _newest(pattern: str) -> list[str]:
    """What matches, the highest version first: 12.10 before 12.9."""
    return sorted(glob.glob(pattern), key=lambda path: [int(p) if n % 2 else p for n, p in enumerate(_DIGITS.split(path))], reverse=True)


def _whole(name: str, path: str) -> bool:
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False
    if name != SANITIZER or "site-packages" not in path:
        return True
    beside = os.path.dirname(os.path.realpath(path))
    return any(os.path.exists(os.path.join(folder, NEEDED)) for folder in (beside, os.path.join(os.path.dirname(beside), SANITIZER)))
