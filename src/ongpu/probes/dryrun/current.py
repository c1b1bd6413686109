"""Which card a call of torch.cuda is about."""

from __future__ import annotations

from typing import Any

from . import pretend


def index_of(world: Any, device: Any) -> int:
    """The card that a device argument names, the current one for None."""
    found = pretend.card_of(device if device is not None else "cuda", world.current)
    return int(world.current if found is None else found)
