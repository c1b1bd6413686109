"""Which host compilers nvcc accepts."""

from functools import cache

from ongpu.knowledge._tables import rows, table
from ongpu.knowledge._versions import cuda_numbers, numbers
from ongpu.lazy import dataclass


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Newest host compilers of one toolkit, by major version; the gate looks no further."""

    cuda: str
    gcc_max: int
    clang_max: int
    msvc_from: int | None  # _MSC_VER
    msvc_below: int | None
    visual_studio: str | None  # '2019-2022'
    measured: bool  # read from crt/host_config.h, not taken from a second-hand table


@cache
def limits() -> tuple[HostLimits, ...]:
    """All toolkits of the table, oldest first."""
    found = []
    for cuda, gcc, clang, low, high, studio, nvcc in rows(table("nvcc_hosts")["hosts"]["rows"], "|"):
        msvc_from, msvc_below = (None if bound == "-" else int(bound) for bound in (low, high))
        visual_studio = None if studio == "-" else studio
        found.append(HostLimits(cuda, int(gcc), int(clang), msvc_from, msvc_below, visual_studio, nvcc != "-"))
    return tuple(found)


def host_limits(cuda: str) -> HostLimits | None:
    """Limits of a toolkit ('12.4', '12.4.131', 'cu124'); None when it is not in the table."""
    asked = cuda_numbers(cuda)[:2]
    return next((one for one in limits() if numbers(one.cuda) == asked), None)


def accepts_gcc(cuda: str, gcc: str) -> bool | None:
    """Whether a toolkit's nvcc takes a gcc version ('13.3.0'); None when either is unknown."""
    found, asked = host_limits(cuda), numbers(gcc)[:1]
    return asked[0] <= found.gcc_max if found and asked else None


def accepts_clang(cuda: str, clang: str) -> bool | None:
    """Whether a toolkit's nvcc takes a clang version; None when either is unknown."""
    found, asked = host_limits(cuda), numbers(clang)[:1]
    return asked[0] <= found.clang_max if found and asked else None


def accepts_msvc(cuda: str, msc_ver: int) -> bool | None:
    """Whether a toolkit's nvcc takes a Visual C++ (_MSC_VER, for instance 1941); None when unknown."""
    found = host_limits(cuda)
    if found is None or found.msvc_from is None or found.msvc_below is None:
        return None
    return found.msvc_from <= msc_ver < found.msvc_below


def oldest_cuda_for_gcc(gcc: str) -> str | None:
    """Oldest toolkit whose nvcc takes a gcc version; None when none does."""
    return next((one.cuda for one in limits() if accepts_gcc(one.cuda, gcc)), None)
