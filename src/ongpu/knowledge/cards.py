"""A card as CUDA reports it: the memory that a program can see, multiprocessors, compute capability; and the smallest card for a need."""

import re
from difflib import get_close_matches
from functools import cache

from ongpu.knowledge._tables import rows, table
from ongpu.knowledge.gpus import Model, model, models
from ongpu.lazy import dataclass, lazy, replace

MIB, GIB = 1 << 20, 1 << 30
DEFAULT = "A100 SXM4 40 GB"
_SIZE = lazy(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_HBM = ("GP100", "GV100", "GA100", "GH100", "GB100")


@dataclass(frozen=True, slots=True)
class Card:
    """total: bytes as CUDA reports them. measured: whether that figure was seen on such a card, not inferred from the nominal size."""

    name: str
    total: int
    capability: tuple[int, int]
    sms: int | None = None
    measured: bool = False


class NoSuchCard(ValueError):
    """The name fits no card, or several of different memory. `choices`: how to name each of these."""

    def __init__(self, name: str, choices: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self.name, self.choices = name, choices


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    mib: int
    sms: int
    common: bool
    measured: bool


@cache
def _seen() -> dict[str, _Seen]:
    told = rows(table("cards")["cards"]["rows"], "|")
    return {name: _Seen(name, int(mib), int(sms), bool(common), not where.startswith("inferred")) for name, mib, sms, common, where in told}


def card(name: str) -> Card:
    """The card of that name: "A100 40GB", "RTX 4090", "NVIDIA H100 80GB HBM3". NoSuchCard where it is none or ambiguous."""
    found = model(name)
    if found is None or found.capability is None:
        raise NoSuchCard(name)
    if found.memory_gib is None:
        raise NoSuchCard(name, _sizes(name))
    exact = any(one.name == found.name for one in models())
    return _card(found if exact else replace(found, name=" ".join(name.split())))


def with_memory(name: str, total: int) -> Card:
    """The card of that name, whatever its variant, with so many bytes. NoSuchCard where the name is none."""
    found = model(name)
    if found is None or found.capability is None:
        raise NoSuchCard(name)
    major, minor = found.capability.split(".")
    return Card(f"{found.name} {total / GIB:.4g} GiB", total, (int(major), int(minor)))


def _sizes(name: str) -> tuple[str, ...]:
    """The name with each memory size that its variants have, smallest first."""
    bare = re.sub(r"\s*\d+\s*gi?b\b", "", name, flags=re.IGNORECASE).strip()
    sizes = sorted({one.memory_gib for one in models() if one.memory_gib})
    return tuple(f"{bare} {size:.0f}GB" for size in sizes if (found := model(f"{bare} {size:.0f}GB")) and found.memory_gib == size)


def _card(found: Model) -> Card:
    """Its row, else that of a card with the same chip, memory and purpose; else what is usually missing is taken off."""
    known = _seen().get(found.name)
    alike = (found.chip, found.memory_gib, found.kind)
    twins = [_seen()[m.name] for m in models() if m.name in _seen() and all(alike) and (m.chip, m.memory_gib, m.kind) == alike]
    major, minor = (found.capability or "0.0").split(".")
    capability = (int(major), int(minor))
    if known:
        return Card(_full(found), known.mib * MIB, capability, known.sms, known.measured)
    if twins:
        sms = twins[0].sms if len({row.sms for row in twins}) == 1 and len(twins) > 1 else None
        return Card(_full(found), min(row.mib for row in twins) * MIB, capability, sms, all(row.measured for row in twins))
    share = table("cards")["missing"]
    ecc = found.kind == "datacenter" and not (found.chip or "").startswith(_HBM) and capability >= (7, 5)
    missing = share["hbm"] if (found.chip or "").startswith(_HBM) else share["gddr_ecc"] if ecc else share["other"]
    return Card(_full(found), int((found.memory_gib or 0) * (1 - missing) * 1024) * MIB, capability)


def _full(found: Model) -> str:
    """The name with its memory, once."""
    size = f"{found.memory_gib:.0f}"
    return found.name if re.search(rf"\b{size} ?gi?b\b", found.name, re.IGNORECASE) else f"{found.name} {size} GB"


def memory(text: str) -> int | None:
    """"24GiB", "24 GB" (as cards are sold: GiB), "24576MiB", "24" (GiB) -> bytes; None where it is no size."""
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    unit = match[2].lower() or ("" if "b" in text.lower() else "g")
    return int(float(match[1]) * (1 << _UNITS[unit])) or None


def of_memory(total: int) -> Card:
    """A card of which only the memory is known: capability and multiprocessors of an A100."""
    size = total / GIB
    return Card(f"{size:.4g} GiB", total, (8, 0), 108)


def common() -> tuple[Card, ...]:
    """The cards that are offered, smallest memory first; of two with the same memory the older architecture."""
    found = [_card(m) for m in models() if m.name in _seen() and _seen()[m.name].common]
    return tuple(sorted(found, key=lambda c: (c.total, c.capability)))


def _bare(name: str) -> str:
    return re.sub(r"^(?:nvidia |geforce |tesla |quadro )+", "", name.lower())


def near(name: str) -> tuple[str, ...]:
    """Names of cards that are written alike, at most three; of the common ones where none is."""
    names = {_bare(one.name): one.name for one in models() if one.capability}
    found = get_close_matches(_bare(name), names, 3, 0.6)
    return tuple(names[one] for one in found) or tuple(one.name for one in common()[-3:])


def smallest(need: int) -> Card | None:
    """The smallest of the common cards with so many bytes; None where even the largest has less."""
    return next((c for c in common() if c.total >= need), None)
