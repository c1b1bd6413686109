"""Numbers that nobody knows, as the script gets them: they calculate as numbers, and tell when the script decides by them."""

from __future__ import annotations

import operator
from typing import Any


class _Told:
    """Comparisons are noted with the script's line."""

    _world: Any = None

    def _noted(self, other: Any, how: str) -> bool:
        plain = float(self) if isinstance(self, float) else int(self)  # type: ignore[call-overload]
        outcome = bool(getattr(operator, how)(plain, other))
        world = type(self)._world
        if world is not None:
            row = world.assume("compare", plain)
            row["branched"] = True
        return outcome

    def __lt__(self, other: Any) -> bool:
        return self._noted(other, "lt")

    def __le__(self, other: Any) -> bool:
        return self._noted(other, "le")

    def __gt__(self, other: Any) -> bool:
        return self._noted(other, "gt")

    def __ge__(self, other: Any) -> bool:
        return self._noted(other, "ge")


class AssumedFloat(_Told, float):
    """A float whose value was assumed."""

    __hash__ = float.__hash__


class AssumedInt(_Told, int):
    """An int whose value was assumed."""

    __hash__ = int.__hash__


def _spread(kind: type, base: type) -> None:
    def carry(name: str) -> Any:
        plain = getattr(base, name)

        def method(self: Any, *others: Any) -> Any:
            value = plain(self, *others)
            if type(value) is float:
                return AssumedFloat(value)
            return AssumedInt(value) if type(value) is int else value

        return method

    for name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__neg__", "__abs__"):
        setattr(kind, name, carry(name))


_spread(AssumedFloat, float)
_spread(AssumedInt, int)


def assumed(world: Any, value: Any) -> Any:
    """`value` as one of these (bools and complex numbers stay as they are)."""
    _Told._world = world
    if type(value) is float:
        return AssumedFloat(value)
    if type(value) is int:
        return AssumedInt(value)
    return value
