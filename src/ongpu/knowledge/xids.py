"""Xid and SXid codes of the kernel log: meaning, whose fault, and what to do."""

from functools import cache
from typing import Literal

from ongpu.knowledge._tables import rows, table
from ongpu.lazy import dataclass

Category = Literal["app", "driver", "hardware", "unclear"]


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid. A code without a known meaning has a name only, and condemns nothing."""

    code: int
    name: str
    title: str | None = None  # NVIDIA's
    category: Category | None = None
    meaning: str | None = None
    meaning_zh: str | None = None
    action: str | None = None
    action_zh: str | None = None
    drain: bool | None = None  # take the card out of service; None: the text of the line decides, or unknown
    nvidia_action: str | None = None  # NVIDIA's word for what to do at once: RESTART_APP, RESET_GPU ...
    derived: bool = False  # from NVIDIA's name or title alone
    fails_node: bool = False  # Azure's node health check fails on it
    old_cards_only: bool = False  # unused on Ampere and newer

    @property
    def condemns(self) -> bool:
        """Whether this code alone is ground to take the card out of service; never so for an application's fault."""
        return self.category in ("hardware", "driver") and self.drain is True


@dataclass(frozen=True, slots=True)
class SXid:
    """One SXid: an error of an NVSwitch."""

    code: int
    name: str
    fatal: str  # always, potential, never
    action: str
    action_zh: str
    drain: bool


@cache
def _xids() -> dict[int, Xid]:
    found = {}
    for code, name, action, *used in rows(table("xid")["unexplained"]["rows"]):
        found[int(code)] = Xid(int(code), name, nvidia_action=None if action == "-" else action, old_cards_only=not used)
    found.update((row["code"], Xid(**row)) for row in table("xid")["xid"])
    return found


@cache
def _sxids() -> dict[int, SXid]:
    told = table("xid")["sxid"]
    found = (SXid(code=int(code), name=name, fatal=fatal, **told[fatal]) for code, fatal, name in rows(told["rows"], "|"))
    return {one.code: one for one in found}


def xid(code: int) -> Xid | None:
    """The Xid of a code; None when NVIDIA's catalogue and driver source have no such code."""
    return _xids().get(code)


def sxid(code: int) -> SXid | None:
    """The SXid of a code; None when unknown."""
    return _sxids().get(code)


def xids() -> tuple[Xid, ...]:
    """All Xids, by code."""
    return tuple(_xids()[code] for code in sorted(_xids()))


def sxids() -> tuple[SXid, ...]:
    """All SXids, by code."""
    return tuple(_sxids()[code] for code in sorted(_sxids()))
