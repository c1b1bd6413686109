"""TensorFlow releases: CUDA, cuDNN, Python versions, and where the GPU works at all."""

from collections.abc import Mapping
from functools import cache

from ongpu.knowledge._tables import table
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass, field


@dataclass(frozen=True, slots=True)
class Release:
    """One minor release and what its GPU build was made with."""

    version: str  # '2.15'
    python_min: str
    python_max: str
    cuda: str
    cudnn: str
    driver: str  # oldest Linux driver
    capability_min: str
    and_cuda: Mapping[str, str] = field(default_factory=dict)  # what tensorflow[and-cuda] pins; {} before 2.14


@cache
def releases() -> tuple[Release, ...]:
    """All releases of the table (1.15 and newer), newest first."""
    return tuple(Release(**row) for row in table("tensorflow")["release"])


def release(version: str) -> Release | None:
    """The minor release of a version ('2.15.1', '2.15'); None when unknown."""
    asked = numbers(version)[:2]
    return next((one for one in releases() if asked and numbers(one.version) == asked), None)


def python_ok(version: str, python: str) -> bool | None:
    """Whether a release has wheels for a Python ('3.12'); None when the release or the Python is unknown."""
    found, asked = release(version), numbers(python)[:2]
    if found is None or len(asked) < 2:
        return None
    return numbers(found.python_min) <= asked <= numbers(found.python_max)


def gpu_on_windows(version: str) -> bool | None:
    """Whether a release's native Windows wheel can use a GPU: up to 2.10; None when the version is unreadable."""
    asked = numbers(version)[:2]
    return asked <= numbers(table("tensorflow")["facts"]["windows_gpu_last"]) if asked else None


def has_and_cuda_extra(version: str) -> bool | None:
    """Whether tensorflow[and-cuda], which brings the CUDA libraries, exists: from 2.14; None when unreadable."""
    asked = numbers(version)[:2]
    return asked >= numbers(table("tensorflow")["facts"]["and_cuda_from"]) if asked else None


def has_code_for(capability: str) -> bool:
    """Whether the wheels run on a card of that capability as far as new cards go: none of PyPI does on Blackwell."""
    return numbers(capability) < numbers(table("tensorflow")["facts"]["capability_end"])


def gpu_platforms(version: str) -> tuple[str, ...]:
    """Platforms whose wheels of a release can use an NVIDIA GPU, named as in torch.PLATFORMS; () when unknown."""
    if release(version) is None:
        return ()
    return ("linux_x86_64", "windows_x86_64") if gpu_on_windows(version) else ("linux_x86_64",)


def newest_for_python(python: str) -> str | None:
    """Newest minor release with wheels for a Python; None when there is none."""
    return next((one.version for one in releases() if python_ok(one.version, python)), None)
