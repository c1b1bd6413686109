"""Other frameworks and libraries: the CUDA, cuDNN, torch and GPU that their releases want."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ongpu.knowledge._tables import table
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """A run of releases with the same needs. cuda: versions ('11.8') or majors ('12': any 12.x)."""

    first: str
    cuda: tuple[str, ...]
    last: str | None = None  # None: still so
    cudnn: str | None = None  # major version
    torch: str | None = None  # PEP 440 specifier
    python_min: str | None = None
    python_max: str | None = None
    capability_min: str | None = None  # "compiler": of its CUDA's compiler
    extras: str | None = None  # of the package, that bring the CUDA libraries: 'cuda,cudnn'
    beside: tuple[str, ...] = ()  # requirements that bring them where it has no such extra
    toolkit: bool = False  # wants a CUDA toolkit installed
    gone: bool = False  # no longer on PyPI
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution on PyPI. rivals: distributions that must not be installed beside it."""

    name: str
    newest: str
    lines: tuple[Line, ...] = ()
    torch: Mapping[str, str] = field(default_factory=dict)  # release -> PEP 440 specifier of torch
    rivals: tuple[str, ...] = ()
    needs: str | None = None  # the package whose GPU needs it has
    index: str | None = None  # where newer wheels are, with {build}
    capability_min: str | None = None
    note: str | None = None
    note_zh: str | None = None
    source: str | None = None
    thin: bool = False  # few sources: tell it as likely, not as certain


def _line(row: Mapping[str, Any]) -> Line:
    kept = {key: value for key, value in row.items() if key not in ("from", "to", "cuda", "beside")}
    return Line(first=row["from"], last=row.get("to"), cuda=tuple(row["cuda"]), beside=tuple(row.get("beside", ())), **kept)


@cache
def packages() -> tuple[Package, ...]:
    """All packages of the table."""
    found = []
    for row in table("others")["package"]:
        row = dict(row)
        rivals = (*row.pop("rivals", ()), *([row.pop("rival")] if "rival" in row else ()))
        lines = tuple(_line(line) for line in row.pop("line", ()))
        found.append(Package(**row, rivals=rivals, lines=lines))
    return tuple(found)


def package(name: str) -> Package | None:
    """The package of a distribution's name, spelled as people spell it ('Flash_Attn'); None when unknown."""
    plain = re.sub(r"[-_.]+", "-", name.strip().lower())
    return next((one for one in packages() if one.name == plain), None)


def line(name: str, version: str) -> Line | None:
    """The line that a release of a package belongs to; None when the package, the release or its needs are unknown."""
    found, asked = package(name), numbers(version)
    if found is None or not asked:
        return None
    for one in found.lines:
        if numbers(one.first) <= asked and (one.last is None or asked <= numbers(one.last)):
            return one
    return None


def torch_spec(name: str, version: str) -> str | None:
    """What a release requires of torch, as a PEP 440 specifier ('==2.10.0'); None when it asks nothing known."""
    found, public = package(name), version.strip().partition("+")[0]
    if found is None:
        return None
    of_line = line(name, version)
    return found.torch.get(public) or (of_line.torch if of_line else None)


def torch_ok(name: str, version: str, torch: str) -> bool | None:
    """Whether a release of a package goes with a release of torch ('2.1.2+cu118'); None when unknown."""
    spec = torch_spec(name, version)
    if spec is None:
        return None
    from packaging.specifiers import SpecifierSet  # loaded only here: few machines hold such a package
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(spec).contains(Version(Version(torch.strip()).public), prereleases=True)
    except InvalidVersion:
        return None


def releases_for_torch(name: str, torch: str) -> tuple[str, ...]:
    """Releases of a package that list a torch they go with, and go with this one, newest first; () when none is known."""
    found = package(name)
    return tuple(release for release in (found.torch if found else ()) if torch_ok(name, release, torch))


def cuda_ok(name: str, version: str, cuda: str) -> bool | None:
    """Whether a release runs on a CUDA version ('12.4'); None when its needs are unknown."""
    found, asked = line(name, version), numbers(cuda)
    if found is None or not asked:
        return None
    return any(numbers(one) == asked[: len(numbers(one))] for one in found.cuda)
