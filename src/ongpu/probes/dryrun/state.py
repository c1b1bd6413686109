"""What a dry run knows while it goes: cards, counts, and lists for the answer. One object, handed to every part."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import allocator, ledger
from .where import Place, Where


class Stop(BaseException):
    """Ends the script from inside; `why` as in the answer's stopped_by."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Unfollowed(RuntimeError):
    """The script does something the dry run cannot follow: nothing is said about the script."""


DEFAULTS: Dict[str, Any] = {
    "mode": "run", "devices": 1, "steps": 4, "batches": 64, "seconds": 120.0, "cpu_flop": 5e11, "launch": 0, "sandbox": False,
    "scratch": "", "env": {}, "oom": "auto", "savings": False,
}  # fmt: skip
CARD: Dict[str, Any] = {
    "name": "NVIDIA A100-SXM4-40GB", "total": 42298834944, "capability": [8, 0], "sms": 108, "context": 500 << 20, "cuda": "12.8",
    "workspace": None, "free": None,
}  # fmt: skip


class World:
    """The run. Lists are plain rows as the answer holds them, keyed so that repeats only count."""

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.spec = dict(DEFAULTS, **spec)
        self._visible: Optional[int] = None
        self.inherited_devices: Optional[str] = None
        self.card = dict(CARD, **(spec.get("card") or {}))
        self.started = time.time()
        self.pid = os.getpid()
        self.where = Where("")
        self.current = 0
        total, context = int(self.card["total"]), int(self.card["context"])
        free = self.card["free"] if self.card["free"] is not None else total
        self.capacity = max(0, min(total, int(free)) - context)
        settings = allocator.Settings(os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF") or "")
        self.settings = settings
        self.cards = ledger.ledgers(
            max(1, int(self.spec["devices"])), lambda k: allocator.Allocator(self.capacity, total, k, settings)
        )
        self.go_on_after_oom = self.spec["oom"] != "raise"
        self.oom: Optional[Dict[str, Any]] = None
        self.stopped_by: Optional[str] = None
        self.steps = self.batches = self.backwards = 0
        self.batch_size: Optional[int] = None
        self.ops = {"cuda": 0, "cpu": 0}
        self.flop = {"cuda": 0.0, "cpu": 0.0}
        self.work: Dict[Tuple[Optional[Place], str], Dict[str, Any]] = {}
        self.tables: Dict[str, Dict[Any, Dict[str, Any]]] = {}
        self.calls: Dict[str, Any] = {}
        self.phase = ""
        self.enough = False
        self.call: Any = None
        self.workspaces: set[Any] = set()
        self.at_step: List[Callable[[Any], None]] = []
        self.kept: List[Any] = []
        self.collectives: List[Dict[str, Any]] = []

    def visible(self) -> int:
        """Cards that CUDA shows: all, or what CUDA_VISIBLE_DEVICES says when it is first asked, up to the first number without a card.
        A value from outside is about this machine's cards, not about the pretend ones: only one that the script (or the spec) set counts.
        """
        if self._visible is None:
            told, count = os.environ.get("CUDA_VISIBLE_DEVICES"), len(self.cards)
            if told is not None and told != self.inherited_devices:
                numbers = [part.strip() for part in told[:1000].split(",")]
                known = 0
                for number in numbers:
                    if number.startswith(("GPU-", "MIG-")) or (number.isdigit() and int(number) < len(self.cards)):
                        known += 1
                    else:
                        break
                count = min(known, count)
                if count < len(numbers) or count < len(self.cards):
                    self.note("visible-devices", "CUDA_VISIBLE_DEVICES=%s shows %d of %d cards" % (told[:80], count, len(self.cards)))
            self._visible = count
        return self._visible

    # -- rows -------------------------------------------------------------------------------------------------------------
    def row(self, table: str, key: Any, **first: Any) -> Dict[str, Any]:
        """The row of that key in a table, made on first sight; its `count` goes up by one."""
        rows = self.tables.setdefault(table, {})
        found = rows.get(key)
        if found is None:
            found = rows[key] = dict(first, count=0)
        found["count"] += 1
        return found

    def note(self, word: str, text: str, place: Optional[Place] = None) -> None:
        """Something the reader must know."""
        self.row("notes", (word, text, place), note=word, text=text, place=place)

    def sync(self, kind: str) -> None:
        """The host waited for the card at the user's line."""
        place = self.where.here(2)
        self.row("syncs", (place, kind), place=place, kind=kind)

    def unsupported(self, op: str, why: str, went_on: bool) -> None:
        """An operation that could not be followed."""
        place = self.where.here(2)
        self.row("unsupported", (op, place, went_on), op=op, place=place, why=why[:300], went_on=went_on)

    def assume(self, what: str, value: Any) -> Dict[str, Any]:
        """A value that the script asked for and nobody knows."""
        place = self.where.here(2)
        if not isinstance(value, (bool, int, float, str)):
            value = repr(value)[:80]
        return self.row("assumptions", (place, what, str(value)), place=place, what=what, value=value, branched=what == "bool")

    def called(self, name: str) -> None:
        """Count a call of the torch API that the answer tells."""
        self.calls[name] = int(self.calls.get(name) or 0) + 1

    # -- ends -------------------------------------------------------------------------------------------------------------
    def stop(self, why: str) -> None:
        """End the script here."""
        self.stopped_by = why
        raise Stop(why)

    def late(self) -> bool:
        """Whether the time is over."""
        return time.time() - self.started > float(self.spec["seconds"])
