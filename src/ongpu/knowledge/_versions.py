"""Versions as tuples of numbers: enough for CUDA, drivers and toolkits, which have no pre-releases worth comparing."""

import re

from ongpu.lazy import lazy

# A tag such as cu118 or cu1210 in a wheel's name: the last digit is the minor version.
_BUILD = lazy(r"cu(\d{1,2})(\d)", re.IGNORECASE)
_NUMBERS = lazy(r"v?(\d{1,9}(?:\.\d{1,9})*)", re.IGNORECASE)


def numbers(version: str) -> tuple[int, ...]:
    """'535.104.05' -> (535, 104, 5); what follows the numbers is left out; () when it starts with none."""
    found = _NUMBERS.match(version.strip())
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def cuda_numbers(cuda: str) -> tuple[int, ...]:
    """'12.4', '12.4.1', '12' or a wheel's tag 'cu124' -> (12, 4) and so on; () when it is none of these."""
    build = _BUILD.fullmatch(cuda.strip())
    return (int(build[1]), int(build[2])) if build else numbers(cuda)


def capability_numbers(capability: str) -> tuple[int, int] | None:
    """'8.6', 'sm_86', 'sm_90a', 'compute_120' -> (major, minor); None when it is no compute capability."""
    found = re.fullmatch(r"(\d{1,2})\.(\d)[a-z]?", capability.strip())
    found = found or re.fullmatch(r"(?:sm|compute)_?(\d{1,2})(\d)[a-z]?", capability.strip(), re.IGNORECASE)
    return (int(found[1]), int(found[2])) if found else None
