"""JAX releases and their CUDA plugins."""

from collections.abc import Mapping
from functools import cache

from ongpu.knowledge._tables import table
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """The plugin wheels of one CUDA major."""

    cuda_major: int
    plugin: str  # 'jax-cuda12-plugin'
    extra: str  # pip install "jax[extra]"
    first: str  # first release of jax that has it
    needs_cuda: str
    driver: str  # oldest Linux driver
    capability_min: str
    last: str | None = None  # None: still made
    find_links: str | None = None  # where its wheels are, if not on PyPI
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A release of jax; it stands for those that follow it, up to the next in the table."""

    version: str
    python_min: str
    python_max: str
    cudnn: Mapping[str, str]  # CUDA major ('12') -> oldest cuDNN
    note: str | None = None


@cache
def lines() -> tuple[Line, ...]:
    """All plugin lines, newest CUDA first."""
    return tuple(Line(**row) for row in table("jax")["line"])


@cache
def releases() -> tuple[Release, ...]:
    """The releases of the table, newest first."""
    return tuple(Release(**row) for row in table("jax")["release"])


def newest() -> str:
    """The newest release that the table knows."""
    return str(table("jax")["newest"])


def release(version: str) -> Release | None:
    """The row that covers a version: the newest that is not newer; None before the table begins."""
    asked = numbers(version)
    return next((one for one in releases() if asked and numbers(one.version) <= asked), None)


def lines_of(version: str) -> tuple[Line, ...]:
    """Plugin lines that exist for a release of jax, newest CUDA first; () before plugins (0.4.22) or when unreadable."""
    asked = numbers(version)
    return tuple(line for line in lines() if numbers(line.first) <= asked and (line.last is None or asked[:3] <= numbers(line.last)))


def line_of_plugin(plugin: str) -> Line | None:
    """The line of a distribution name such as 'jax-cuda12-plugin' or 'jax_cuda12_pjrt'; None when it is none."""
    name = plugin.strip().lower().replace("_", "-").removesuffix("-plugin").removesuffix("-pjrt")
    return next((line for line in lines() if name == line.plugin.removesuffix("-plugin")), None)


def oldest_cudnn(version: str, cuda_major: int) -> str | None:
    """Oldest cuDNN that a release's plugin for a CUDA major takes; None when unknown."""
    found = release(version)
    return found.cudnn.get(str(cuda_major)) if found else None


def gpu_platforms() -> tuple[str, ...]:
    """Platforms that have CUDA plugins, named as in torch.PLATFORMS."""
    return tuple(table("jax")["facts"]["platforms"])
