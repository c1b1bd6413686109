"""Losses for several numbers of gradient accumulation steps: a table, or one line for each."""

import re
from collections.abc import Iterable

from ongpu.facts.accumulation import AccumulationTable
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

_SPLIT = lazy(r"\s*\|\s*|\s{2,}|\t")
_ACC = lazy(r"acc|accum", re.IGNORECASE)
_NUMBER = lazy(r"^-?\d{1,9}(?:\.\d{1,9})?$")
_LINE = lazy(
    r"(?:grad\w*[_ ]acc\w*(?:[_ ]steps)?|accum\w*(?:[_ ]steps)?|ga)\s*[=:"
    r" ]\s*(?P<n>\d{1,5})\b.{0,120}?\bloss\b\D{0,12}(?P<loss>\d{1,6}(?:\.\d{1,9})?)",
    re.IGNORECASE,
)


def _table(evidence: Evidence) -> list[tuple[int, float, Ref]]:
    rows: list[tuple[int, float, Ref]] = []
    columns: tuple[int, int, int] | None = None  # accumulation, loss, number of columns
    for number, line in evidence.lines():
        cells = [cell for cell in _SPLIT.split(line.strip()[:1000]) if cell]
        low = [cell.lower() for cell in cells]
        acc = next((i for i, cell in enumerate(low) if _ACC.search(cell) and "accuracy" not in cell), None)
        loss = next((i for i, cell in enumerate(low) if "loss" in cell), None)
        if acc is not None and loss is not None and acc != loss and len(cells) >= 2 and not any(_NUMBER.match(c) for c in cells):
            columns = (acc, loss, len(cells))
            rows.append((0, 0.0, evidence.ref(number, line)))
        elif columns and len(cells) == columns[2] and _NUMBER.match(cells[columns[0]]) and _NUMBER.match(cells[columns[1]]):
            rows.append((int(float(cells[columns[0]])), float(cells[columns[1]]), evidence.ref(number, line)))
    return rows


def read(evidence: Evidence) -> Iterable[Fact]:
    """The losses, by accumulation steps."""
    rows = _table(evidence)
    if sum(1 for steps, _, _ in rows if steps) < 2:
        rows = []
        for number, line in evidence.lines():
            if match := _LINE.search(line[:1000]):
                rows.append((int(match["n"]), float(match["loss"]), evidence.ref(number, line)))
    told = {steps: loss for steps, loss, _ in reversed(rows) if steps > 0}
    if len(told) < 2:
        return
    order = sorted(told)
    yield AccumulationTable(steps=tuple(order), losses=tuple(told[n] for n in order), refs=tuple(ref for _, _, ref in rows)[:8])


def looks_like(evidence: Evidence) -> bool:
    """Whether both words stand in it."""
    low = evidence.text.lower()
    return "loss" in low and ("acc" in low or "ga=" in low)


SOURCES = (Source(kind="accumulation", read=read, looks_like=looks_like, gives=(AccumulationTable,)),)
