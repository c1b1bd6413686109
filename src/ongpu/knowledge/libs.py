"""Which CUDA a shared library belongs to, and who ships it."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ongpu.knowledge._tables import table
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass, lazy

_LINUX = lazy(r"(?P<stem>lib[\w+-]+?)(?:-[0-9a-f]{8})?\.so(?:\.(?P<number>\d+(?:\.\d+)*))?", re.ASCII)
_WINDOWS = lazy(r"(?P<stem>[\w-]+?)(?:64)?(?:_(?P<number>\d+)(?:_\d+)?)?\.dll", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Library:
    """A library as it was asked for. cuda_majors: the CUDA majors it can belong to, oldest first; () for the driver's."""

    name: str
    component: str  # 'cublas', 'cudnn', 'driver' ...: the folder of its wheel, where there is one
    cuda_majors: tuple[int, ...]
    wheels: Mapping[int, str]  # CUDA major -> what to pip install
    from_driver: bool = False  # comes with the driver, never from pip or conda
    own_major: int | None = None  # its own major version, where that is not CUDA's (cuDNN 8, NCCL 2)
    apt: str | None = None  # {major}, {minor}: of CUDA; {branch}: of the driver
    conda: str | None = None
    note: str | None = None
    note_zh: str | None = None

    @property
    def cuda_major(self) -> int | None:
        """The CUDA major it belongs to, when there is but one."""
        return self.cuda_majors[0] if len(self.cuda_majors) == 1 else None


def oldest_card_of_cudnn(version: str) -> str | None:
    """Oldest compute capability that a cuDNN ('9.1.0.70') has code for; None when unknown."""
    asked = numbers(version)
    floors = [(since, card) for since, card in table("libs")["cudnn"]["oldest_card"].items() if numbers(since) <= asked]
    return max(floors, key=lambda pair: numbers(pair[0]))[1] if floors else None


def cudnn_bound(capability: str) -> str | None:
    """The first cuDNN without code for a card: '9.11' for '6.1'; None where the newest still has it."""
    for since, card in sorted(table("libs")["cudnn"]["oldest_card"].items(), key=lambda pair: numbers(pair[0])):
        if numbers(capability) < numbers(card):
            return str(since)
    return None


@cache
def _stems() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    linux: dict[str, dict[str, Any]] = {}
    windows: dict[str, dict[str, Any]] = {}
    for row in table("libs")["library"]:
        linux.update((stem, row) for stem in row["stems"])
        windows.update((stem, row) for stem in row.get("dlls", ()))
    return linux, windows


def _majors(numbers: Mapping[str, list[int]], number: str | None) -> tuple[int, ...]:
    """The CUDA majors of a number, '11.8' by way of '11' when it is not listed itself; all when there is no number."""
    if number is None:
        return tuple(sorted({major for majors in numbers.values() for major in majors}))
    return tuple(numbers.get(number) or numbers.get(number.partition(".")[0]) or ())


def library(name: str) -> Library | None:
    """What a library is: 'libcublas.so.11', a path to it, 'cudart64_110.dll'; None when it is not NVIDIA's, or unknown."""
    base = re.split(r"[\\/]", name.strip())[-1]
    linux, windows = _stems()
    row, is_windows = None, False
    if found := _LINUX.fullmatch(base):
        row = linux.get(found["stem"].lower())
    elif found := _WINDOWS.fullmatch(base):
        row, is_windows = windows.get(found["stem"].lower()), True
    if found is None or row is None:
        return None
    number = found["number"]
    majors = _majors(row.get("dll" if is_windows else "soname", {}), number)
    own = int(number.partition(".")[0]) if number and row.get("own_version") else None
    wheels = {
        int(cuda): wheel.format(own=own) if own is not None else wheel.partition("==")[0]
        for cuda, wheel in row.get("wheel", {}).items()
        if int(cuda) in majors
    }
    apt = row.get("apt")
    if isinstance(apt, dict):  # by its own major
        apt = apt.get(str(own))
    return Library(
        name=base,
        component=row["component"],
        cuda_majors=majors,
        wheels=wheels,
        from_driver=row.get("from_driver", False),
        own_major=own,
        apt=apt.replace("{own}", str(own)) if apt and own is not None else apt,
        conda=row.get("conda"),
        note=row.get("note"),
        note_zh=row.get("note_zh"),
    )


def wheel_folder(component: str, cuda_major: int) -> str | None:
    """Folder below site-packages where the wheel of a component puts its libraries; None before CUDA 11."""
    folders = table("libs")["wheel_folders"]
    pattern = folders.get("12" if component in folders["own"] else str(cuda_major))
    return pattern.format(lib=component) if pattern and cuda_major >= 11 else None


def is_stub_wheel(name: str) -> bool:
    """Whether a distribution on PyPI is a placeholder that installs no library ('nvidia-cublas-cu13')."""
    plain = re.sub(r"[-_.]+", "-", name.strip().lower())
    return plain in table("libs")["wheel_traps"]["stubs"]
