"""The middle of some numbers. Not `statistics`: that module takes as long to load as all sources."""

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The middle value, or halfway between the two in the middle. ValueError where there are none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
