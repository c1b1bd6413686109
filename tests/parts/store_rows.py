"""Samples as the store's tests write them, and what a rollup of them is by its definition."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.store import Sample
from ongpu.store.schema import COUNTERS, GAUGES


def sample(ms: int = 1000, mj: int | None = None, held: bool | None = None, estimated: bool = False, **values: int | None) -> Sample:
    return Sample([values.get(name) for name in COLUMNS], ms, mj, estimated, held)


def rolled_by_hand(ticks: Iterable[tuple[float, Sample]], seconds: int) -> dict[int, dict[str, Any]]:
    """The definition of a rollup, in plain Python, of one GPU."""
    buckets: dict[int, list[Sample]] = defaultdict(list)
    for t, one in ticks:
        buckets[round(t * 1000) // (seconds * 1000) * seconds].append(one)
    found = {}
    for t, samples in buckets.items():
        row: dict[str, Any] = {"t": t, "n": len(samples), "ms": sum(one.ms for one in samples)}

        def told(name: str, samples: list[Sample] = samples) -> list[int]:
            return [value for one in samples if (value := one.values[PLACE[name]]) is not None]

        for name in GAUGES:
            row[name] = sum(told(name)) if told(name) else None
            row[f"{name}_max"] = max(told(name), default=None)
            row[f"{name}_none"] = len(samples) - len(told(name))
        bits = None
        for value in told("reasons"):
            bits = value | (bits or 0)
        row["reasons"] = bits
        for name in COUNTERS:
            row[name] = max(told(name), default=None)
        energies = [(one.mj, one.estimated) for one in samples if one.mj is not None]
        row["mj"] = sum(mj for mj, _ in energies) if energies else None
        row["mj_estimated"] = sum(mj for mj, estimated in energies if estimated) if energies else None
        busy = [one.values[PLACE["util"]] * one.ms for one in samples if one.values[PLACE["util"]] is not None]
        row["busy"] = sum(busy) if busy else None
        known = [
            one.ms if one.held and (util is not None and util < 5) else 0
            for one in samples
            for util in [one.values[PLACE["util"]]]
            if one.held is False or (util is not None and util >= 5) or (one.held and util is not None)
        ]
        row["idle"] = sum(known) if known else None
        found[t] = row
    return found


optional = st.none() | st.integers(0, 1 << 40)
samples = st.builds(
    Sample,
    st.tuples(
        *(
            st.none() | st.integers(0, 100) if name == "util" else st.none() | st.integers(0, 0x7FF) if name == "reasons" else optional
            for name in COLUMNS
        )
    ),
    st.integers(0, 10_000),
    optional,
    st.booleans(),
    st.none() | st.booleans(),
)
