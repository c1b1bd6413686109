"""What stands where in an object of the API, and times and names as Kubernetes writes them. Pure."""

import re
from datetime import UTC, datetime
from typing import Any

from ongpu.queue.answers import at, rows

MINE = "ongpu"  # of labels, annotations, the field manager, the taint
MANAGED = "app.kubernetes.io/managed-by"
_BAD = re.compile(r"[^A-Za-z0-9_.-]{1,256}")
_NOT_NAME = re.compile(r"[^a-z0-9]{1,256}")

_UNITS = {
    "": 1.0, "m": 1e-3, **{unit: 10.0 ** (3 * i) for i, unit in enumerate("kMGTP", 1)},
    **{f"{unit}i": 1024.0**i for i, unit in enumerate("KMGTP", 1)},
}  # fmt: skip


def text(value: Any, most: int = 1024) -> str:
    """A text; "" for what is none."""
    return value[:most] if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """A whole number; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else None


def label(value: str) -> str:
    """As a label may hold it: at most 63 of letters, digits, "-", "_", ".", and none of these at its ends."""
    return _BAD.sub("-", value)[:63].strip("-_.")


def name_of(value: str, most: int = 40) -> str:
    """As the beginning of an object's name: small letters, digits, "-"."""
    return _NOT_NAME.sub("-", value.lower()[:256])[:most].strip("-")


def seconds(value: Any) -> float | None:
    """Since the epoch, of "2026-11-30T17:20:41Z"; None for what is no time."""
    try:
        return datetime.fromisoformat(value[:40]).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def moment(at_seconds: float) -> str:
    """The other way."""
    return datetime.fromtimestamp(at_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(data: Any, kind: str) -> Any:
    """The condition of that type in an object's status; None where there is none."""
    return next((row for row in rows(at(data, "status", "conditions")) if at(row, "type") == kind), None)


def is_true(data: Any, kind: str) -> bool:
    """Whether that condition is "True"."""
    return bool(at(condition(data, kind), "status") == "True")


def quantity(value: Any) -> float | None:
    """Of "4", "16Gi", "500m" (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/); None for what is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"([+-]?\d{1,18}(?:\.\d{1,9})?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi|[eE][+-]?\d{1,2})?", text(value, 40))
    if match is None:
        return None
    unit = match[2] or ""
    if unit[:1] in ("e", "E"):
        return float(match[1] + unit)
    return float(match[1]) * _UNITS[unit]
