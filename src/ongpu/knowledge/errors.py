"""Error numbers and names of CUDA, NVML, cuBLAS, cuDNN, NCCL and their kin, and what they mean in practice."""

import re
from collections.abc import Mapping
from functools import cache

from ongpu.knowledge._tables import rows, table
from ongpu.lazy import dataclass

FAMILIES = ("cuda", "nvml", "cublas", "cudnn9", "cudnn8", "cusparse", "cusolver", "cufft", "nccl")
OLD_RUNTIME = "cuda before 10.1"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One number of one family, with the meaning where the table has one."""

    family: str  # one of FAMILIES, or OLD_RUNTIME
    number: int
    names: tuple[str, ...]  # driver API before runtime API
    layer: str | None = None  # the layer its usual cause lies in, as in ongpu.model.Layer
    cause: str | None = None
    cause_zh: str | None = None
    action: str | None = None
    action_zh: str | None = None
    sticky: bool = False  # every later CUDA call of the process fails with it
    number_now: int | None = None  # of OLD_RUNTIME: the number since CUDA 10.1
    note: str | None = None
    note_zh: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether it says that all went well."""
        return self.number == 0


@dataclass(frozen=True, slots=True)
class ClockReason:
    """Why NVML says the clocks are not higher. bad: a fault rather than normal work."""

    bit: int
    name: str
    meaning: str
    meaning_zh: str
    bad: bool
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class _Index:
    by_number: Mapping[int, tuple[ErrorCode, ...]]
    by_name: Mapping[str, tuple[ErrorCode, ...]]


def _codes() -> list[ErrorCode]:
    told = table("errors")
    meanings = {name: row for row in told["meaning"] for name in row["names"]}
    sticky, renumbering = set(told["sticky"]), told["renumbering"]
    found: list[ErrorCode] = []

    def add(family: str, number: int, names: tuple[str, ...], now: int | None = None) -> None:
        row: dict[str, str] = next((meanings[name] for name in names if name in meanings), {})
        is_cuda = family in ("cuda", OLD_RUNTIME)
        found.append(
            ErrorCode(
                family,
                number,
                names,
                layer=row.get("layer"),
                cause=row.get("cause"),
                cause_zh=row.get("cause_zh"),
                action=row.get("action"),
                action_zh=row.get("action_zh"),
                sticky=is_cuda and (number if now is None else now) in sticky,
                number_now=now,
                note=renumbering["note"].format(now=now) if now is not None else None,
                note_zh=renumbering["note_zh"].format(now=now) if now is not None else None,
            )
        )

    by_runtime: dict[str, tuple[str, ...]] = {}
    for number, driver, runtime in rows(told["names"]["cuda"]):
        names = tuple(name for name in (driver, runtime) if name != "-")
        by_runtime[runtime] = names
        add("cuda", int(number), names)
    for old, name, now in rows(told["names"]["cuda_before_10_1"]):
        add(OLD_RUNTIME, int(old), by_runtime.get(name, (name,)), int(now))
    for family in FAMILIES[1:]:
        for number, name in rows(told["names"][family]):
            add(family, int(number), (name,))
    return found


@cache
def _index() -> _Index:
    by_number: dict[int, tuple[ErrorCode, ...]] = {}
    by_name: dict[str, tuple[ErrorCode, ...]] = {}
    for code in _codes():
        by_number[code.number] = (*by_number.get(code.number, ()), code)
        if code.family != OLD_RUNTIME:
            for name in code.names:
                by_name[name.lower()] = (*by_name.get(name.lower(), ()), code)
    return _Index(by_number, by_name)


def families() -> tuple[str, ...]:
    """The families that look_up knows, in the order of its answers."""
    return (FAMILIES[0], OLD_RUNTIME, *FAMILIES[1:])


def look_up(term: str) -> list[ErrorCode]:
    """Everything that a number ('803', '0x2bc') or a name ('cudaErrorNoDevice') can mean; [] when nothing.

    Numbers are shared by families and eras: CUDA of today comes first, then the runtime before CUDA 10.1 with a note, then
    the libraries. A longer text is searched for known names, and without one for a number after 'error' or 'code', of the
    family that the text names.
    """
    text = term.strip()
    if (number := _whole_number(text)) is not None:
        return list(_index().by_number.get(number, ()))
    named = [code for word in re.findall(r"\w+", text) for code in _index().by_name.get(word.lower(), ())]
    if named:
        return list(dict.fromkeys(named))
    found = re.search(r"(?:error|code|status|err)\W{0,3}(?:code\W{0,3})?(\d{1,5})\b", text, re.IGNORECASE | re.ASCII)
    numbered = list(_index().by_number.get(int(found[1]), ())) if found else []
    named_family = re.search(r"nvml|cublas|cudnn|cusparse|cusolver|cufft|nccl|cuda", text, re.IGNORECASE)
    return [one for one in numbered if named_family is None or one.family.startswith(named_family[0].lower())]


def _whole_number(text: str) -> int | None:
    if re.fullmatch(r"\d{1,5}", text, re.ASCII):
        return int(text)
    return int(text, 16) if re.fullmatch(r"0x[0-9a-f]{1,4}", text, re.ASCII | re.IGNORECASE) else None


def code(family: str, number: int) -> ErrorCode | None:
    """The error of one family ('cuda', 'nvml', ...); None when it has no such number."""
    return next((one for one in _index().by_number.get(number, ()) if one.family == family), None)


def by_name(name: str) -> ErrorCode | None:
    """The error of a name in any spelling of case; for a name of both cuDNN 8 and 9, that of 9; None when unknown."""
    return next(iter(_index().by_name.get(name.strip().lower(), ())), None)


@cache
def clock_reasons() -> tuple[ClockReason, ...]:
    """All bits of NVML's clocks event reasons."""
    return tuple(ClockReason(**row) for row in table("errors")["clock_reason"])


def clock_reasons_of(mask: int) -> list[ClockReason]:
    """The reasons whose bits are set in a mask as NVML gives it; bits that the table does not know are left out."""
    return [reason for reason in clock_reasons() if mask & reason.bit]
