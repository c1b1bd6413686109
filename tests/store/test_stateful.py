"""Any order of writing, rolling up, trimming, clock jumps and deaths: the store holds what a plain list of the samples says."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from parts.store_rows import rolled_by_hand, samples

from ongpu.facts.sample import COLUMNS
from ongpu.store import Keep, Sample, Store, StoreError

T = 1_800_000_000.0
KEEP = Keep(raw=3600, ten=86_400, five=30 * 86_400)
GPU = 1


class Life(RuleBasedStateMachine):
    """One store, and what it ought to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ongpu-store-"))
        self.path = self.folder / "watch.db"
        self.store = Store(self.path, keep=KEEP)
        assert self.store.see_gpu("GPU-a", 0, None, None, None) == GPU
        self.t = T
        self.waiting: list[tuple[float, Sample]] = []
        self.committed: list[tuple[float, Sample]] = []
        self.rolled = 0  # so many of them
        self.trimmed = 0.0  # raw rows before this time may be gone
        self.ahead: set[int] = set()  # and these of them: when the store was trimmed, the clock that dated them had been ahead by too much
        self.incidents: dict[int, Any] = {}
        self.deaths = 0

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def commit(self) -> None:
        self.committed += self.waiting
        self.waiting = []

    @rule(step=st.sampled_from((0.05, 0.3, 1.0, 1.0, 30.0, 4000.0, -2.0, -5000.0)), sample=samples)
    def sample(self, step: float, sample: Sample) -> None:
        self.t += step
        self.waiting.append((self.t, sample))
        if self.store.add_sample(self.t, {GPU: sample}):
            self.commit()

    @rule()
    def roll(self) -> None:
        assert self.store.rollup()
        self.rolled = len(self.committed)

    @rule()
    def trim(self) -> None:
        assert self.store.trim(self.t, budget=60)
        self.trimmed = max(self.trimmed, self.t - KEEP.raw)
        self.ahead |= {place for place, (t, _) in enumerate(self.committed[: self.rolled]) if t > self.t + KEEP.raw}

    @rule()
    def flush(self) -> None:
        assert self.store.flush()
        self.commit()

    @rule()
    def open_incident(self) -> None:
        number = self.store.open_incident(self.t, {"slug": "gpu-lost"})
        assert number not in self.incidents
        self.incidents[number] = [self.t, None]

    @precondition(lambda self: any(closed is None for _, closed in self.incidents.values()))
    @rule()
    def close_incident(self) -> None:
        number = next(number for number, (_, closed) in self.incidents.items() if closed is None)
        assert self.store.close_incident(number, self.t)
        self.incidents[number][1] = max(self.t, self.incidents[number][0])

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.commit()
        self.store = Store(self.path, keep=KEEP)

    @precondition(lambda self: self.deaths < 5)
    @rule()
    def die(self) -> None:
        """The files as they are now, without what the process held: the copy is what the next one finds."""
        self.deaths += 1
        after = self.folder / f"after-{self.deaths}"
        after.mkdir()
        for part in ("", "-wal"):
            if os.path.exists(f"{self.path}{part}"):
                shutil.copy(f"{self.path}{part}", f"{after / 'watch.db'}{part}")
        self.store.close()
        self.waiting = []
        self.path = after / "watch.db"
        self.store = Store(self.path, keep=KEEP)

    @rule()
    def a_second_agent_is_refused(self) -> None:
        with pytest.raises(StoreError, match="another"):
            Store(self.path)

    @invariant()
    def nothing_is_lost(self) -> None:
        with Store(self.path, readonly=True) as reader:
            found = reader.raw(GPU, 0, 4e9)
            kept = [place for place, (t, _) in enumerate(self.committed) if t >= self.trimmed or place >= self.rolled]
            mine = [(round(t, 3), one) for t, one in self.committed]
            assert [one for one in found if one in mine] == found
            places = iter(range(len(mine)))
            missing = set(kept) - {next(place for place in places if mine[place] == one) for one in found}
            assert missing <= self.ahead
            for level, seconds in (("ten", 10), ("five", 300)):
                rows = {row["t"]: row for row in reader.rolled(level, GPU, 0, 4e9)}
                expected = rolled_by_hand(self.committed[: self.rolled], seconds)
                assert set(rows) <= set(expected)
                assert all(expected[t] == row for t, row in rows.items())
                if level == "five":
                    assert rows == expected
            told = {one["id"]: [one["opened"], one["closed"]] for one in reader.incidents()}
            assert told == self.incidents


def test_what_a_clock_dated_too_far_ahead_goes_however_late_it_was_trimmed_before() -> None:
    """A walk that this test once reckoned wrongly."""
    life, nothing = Life(), Sample(values=(None,) * len(COLUMNS))
    try:
        life.trim()
        for step in (0.05, -5000.0, -5000.0):
            life.sample(step, nothing)
        life.roll()
        life.sample(4000.0, nothing)
        life.trim()
        life.nothing_is_lost()
        assert life.ahead
    finally:
        life.teardown()


Life.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase
