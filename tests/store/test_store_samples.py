"""Samples: what was written is read; rollups say what a plain count of the samples says; nothing is overwritten or made up."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts.store_rows import rolled_by_hand, sample, samples

from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.store import Keep, Point, Sample, Store, Use
from ongpu.store.schema import COUNTERS, GAUGES, ROLLED

T = 1_800_000_000.0  # a multiple of 300


@pytest.fixture
def store(tmp_path: Path) -> Iterable[Store]:
    with Store(tmp_path / "watch.db") as opened:
        opened.see_gpu("GPU-a", 0, "H200", "0000:1a:00.0", 143_771)
        opened.see_gpu("GPU-b", 1, "H200", "0000:1b:00.0", 143_771)
        yield opened


# Seconds to the next tick: a beat, faster, a gap, and a clock that is set back or far ahead.
steps = st.sampled_from((1.0, 1.0, 1.0, 0.1, 1.003, 7.0, 400.0, -0.5, -3.0, -3600.0, 40_000.0))
histories = st.lists(st.tuples(steps, st.dictionaries(st.integers(1, 2), samples), st.booleans()), max_size=40)


@settings(max_examples=60, deadline=None)
@given(histories)
def test_rollups_equal_a_plain_count_of_the_samples(tmp_path_factory: pytest.TempPathFactory, history: list[Any]) -> None:
    path = tmp_path_factory.mktemp("store") / "watch.db"
    given_ticks: dict[int, list[tuple[float, Sample]]] = {1: [], 2: []}
    with Store(path) as store:
        assert [store.see_gpu(f"GPU-{name}", None, None, None, None) for name in "ab"] == [1, 2]
        t = T
        for step, rows, roll in history:
            t += step
            store.add_sample(t, rows)
            for gpu, one in rows.items():
                given_ticks[gpu].append((t, one))
            if roll:  # at any moment, also in the middle of a bucket
                store.flush()
                store.rollup()
        store.flush()
        store.rollup()
        for gpu, ticks in given_ticks.items():
            assert [one for _, one in store.raw(gpu, 0, 4e9)] == [one for _, one in ticks]
            for level, seconds in (("ten", 10), ("five", 300)):
                rows_of = {row["t"]: row for row in store.rolled(level, gpu, 0, 4e9)}
                assert rows_of == rolled_by_hand(ticks, seconds)


def test_the_schema_has_all_columns_and_a_change_of_them_needs_a_migration() -> None:
    assert set(GAUGES) | set(COUNTERS) | {"reasons", "energy"} == set(COLUMNS)
    assert COLUMNS == (
        "util", "mem_util", "mem_used", "temp", "power", "sm_clock", "mem_clock", "reasons", "energy", "fan", "pcie_tx", "pcie_rx", "ecc",
        "replays",
    ), "add a migration to store/schema.py, then this list"  # fmt: skip
    assert len(set(ROLLED)) == len(ROLLED)


class TestWriting:
    def test_a_tick_a_second_is_committed_at_once_and_faster_ones_share_a_commit(self, store: Store) -> None:
        assert store.add_sample(T, {1: sample(util=1)})
        assert [store.add_sample(T + tenth / 10, {1: sample(util=2)}) for tenth in range(1, 10)] == [False] * 8 + [True]
        with Store(store.path, readonly=True) as reader:
            assert len(reader.raw(1, T, T + 10)) == 10

    def test_a_clock_that_is_set_back_overwrites_nothing(self, store: Store) -> None:
        for t in (T, T + 1, T, T + 1, T - 3600, T):
            assert store.add_sample(t, {1: sample(util=50, mj=1)}) or store.flush()
        assert len(store.raw(1, T - 4000, T + 10)) == 6
        store.rollup()
        assert sum(row["mj"] for row in store.rolled("five", 1, 0, 4e9)) == 6

    def test_what_nvml_fills_with_ones_is_not_told(self, store: Store) -> None:
        store.add_sample(T, {1: sample(power=(1 << 64) - 1, temp=-1, util=3)})
        [(_, one)] = store.raw(1, T, T)
        assert (one.values[PLACE["power"]], one.values[PLACE["temp"]], one.values[PLACE["util"]]) == (None, None, 3)

    def test_ticks_go_on_after_all_were_trimmed_and_the_file_was_opened_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "watch.db"
        with Store(path) as store:
            gpu = store.see_gpu("GPU-a", 0, None, None, None)
            for second in range(10):
                store.add_sample(T + second, {gpu: sample(util=10)})
            store.rollup()
            assert store.trim(T + 30 * 86_400, budget=60)
            assert store.raw(gpu, 0, 4e9) == []
        with Store(path) as store:
            store.add_sample(T + 30 * 86_400, {gpu: sample(util=90)})
            store.rollup()
            assert [row["util"] for row in store.rolled("five", gpu, 0, 4e9)] == [100, 90]

    def test_a_gpu_keeps_its_number_and_what_is_newly_told_of_it(self, tmp_path: Path) -> None:
        with Store(tmp_path / "watch.db") as store:
            assert store.see_gpu("GPU-a", 3, None, None, None) == store.see_gpu("GPU-a", 2, "H200", None, 100) == 1
            assert store.see_gpu(None, 4, None, "0000:1c:00.0", None) == 2
            assert store.see_gpu(None, 4, None, None, None) == 3
        with Store(tmp_path / "watch.db") as store:
            assert store.see_gpu("GPU-b", 0, None, None, None) == 4
            assert store.see_gpu("GPU-a", None, None, None, None) == 1
            told = [(gpu.id, gpu.uuid, gpu.place, gpu.name) for gpu in store.gpus()]
            assert told == [(4, "GPU-b", 0, None), (1, "GPU-a", 2, "H200"), (2, "bus:0000:1c:00.0", 4, None), (3, "index:4", 4, None)]
            assert store.gpus()[1].mem_total == 100

    def test_the_latest_state_is_replaced(self, store: Store) -> None:
        assert store.now() is None
        store.put_now('{"a": 1}')
        store.put_now('{"显卡": 2}')
        assert store.now() == '{"显卡": 2}'


class TestSeries:
    def feed(self, store: Store, seconds: Iterable[float], **values: int) -> None:
        for second in seconds:
            store.add_sample(T + second, {1: sample(**values), 2: sample()})

    def test_raw_points_with_average_and_maximum(self, store: Store) -> None:
        for second, util in enumerate((0, 100, 50, 50)):
            store.add_sample(T + second, {1: sample(util=util), 2: sample(util=7)})
        assert store.series(1, "util", T, T + 4) == [(T, 0, 0), (T + 1, 100, 100), (T + 2, 50, 50), (T + 3, 50, 50)]
        assert store.series(1, "util", T, T + 4, points=3) == [(T, 50, 100), (T + 2, 50, 50)]
        assert store.all_series("util", T, T + 4, points=3)[2] == [(T, 7, 7), (T + 2, 7, 7)]

    def test_a_gap_stays_a_gap_and_what_was_not_told_has_no_point(self, store: Store) -> None:
        self.feed(store, (0, 1, 2, 60, 61, 62), util=10)
        utils = [(point.t - T, point.avg) for point in store.series(1, "util", T, T + 100)]
        assert utils == [(0, 10), (1, 10), (2, 10), (3, None), (60, 10), (61, 10), (62, 10)]
        assert store.series(2, "util", T, T + 100) == []
        assert store.series(1, "fan", T, T + 100) == []

    def test_a_column_that_is_asked_seldom_is_not_full_of_gaps(self, store: Store) -> None:
        for second in range(120):
            store.add_sample(T + second, {1: sample(pcie_tx=5 if second % 20 == 0 else None)})
        assert [point.avg for point in store.series(1, "pcie_tx", T, T + 120)] == [5] * 6

    @pytest.mark.parametrize("rolled", [False, True])
    def test_all_levels_tell_the_same_before_and_after_the_rollup(self, store: Store, rolled: bool) -> None:
        for second in range(0, 7200, 5):
            store.add_sample(
                T + second, {1: sample(5000, mj=5000, held=True, util=second % 101, reasons=1 << (second // 600), ecc=second, temp=60)}
            )
            if rolled and second % 60 == 0:
                store.rollup()
        for points in (700, 100, 5):
            chart = store.series(1, "util", T, T + 7200, points)
            assert len(chart) <= points + 1
            assert sum(point.avg or 0 for point in chart) / len(chart) == pytest.approx(50, abs=3)
            assert max(point.max or 0 for point in chart) == 100
            energy = store.series(1, "energy", T, T + 7200, points)
            assert sum(point.avg or 0 for point in energy) == pytest.approx(7200)
            assert store.series(1, "ecc", T, T + 7200, points)[-1].avg == 7195
            bits = 0
            for point in store.series(1, "reasons", T, T + 7200, points):
                bits |= int(point.avg or 0)
            assert bits == 0b1111_1111_1111
            idle = store.series(1, "idle", T, T + 7200, points)
            assert sum(point.avg or 0 for point in idle) / len(idle) == pytest.approx(5, abs=1)
            assert not any(point.avg is None for point in chart)

    def test_what_a_level_dropped_is_told_by_the_next_coarser(self, tmp_path: Path) -> None:
        with Store(tmp_path / "watch.db", keep=Keep(raw=600, ten=1800)) as store:
            gpu = store.see_gpu("GPU-a", 0, None, None, None)
            for second in range(0, 6000, 2):
                store.add_sample(T + second, {gpu: sample(2000, mj=2000, util=40)})
            store.rollup()
            assert store.trim(T + 6000, budget=60)
            assert store.raw(gpu, T, T + 5000) == []
            assert len(store.rolled("ten", gpu, T, T + 6000)) < 600
            assert len(store.rolled("five", gpu, T, T + 6000)) == 20
            for points in (6000, 600, 20):
                assert sum(point.avg or 0 for point in store.series(gpu, "energy", T, T + 6000, points)) == pytest.approx(6000)
                assert {point.avg for point in store.series(gpu, "util", T, T + 6000, points)} - {None} == {40}

    def test_an_unknown_column_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no such column"):
            store.series(1, "util; DROP TABLE raw", T, T + 1)
        with pytest.raises(ValueError, match="no such level"):
            store.rolled("raw", 1, T, T + 1)

    @pytest.mark.parametrize(("start", "end"), [(T, T), (T + 5, T), (0, 4e9), (-5.0, 5.0)])
    def test_odd_spans_are_answered(self, store: Store, start: float, end: float) -> None:
        self.feed(store, range(3), util=1)
        assert len(store.series(1, "util", start, end)) <= 4
        assert store.series(1, "util", start, end, points=0) is not None
        assert store.series(99, "util", start, end) == []

    def test_a_point_is_a_plain_triple(self) -> None:
        assert Point(1.0, 2.0, 3.0) == (1.0, 2.0, 3.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit that is reached soon; smaller than any that a user may set."""
    for module in ("file", "samples"):
        monkeypatch.setattr(f"ongpu.store.{module}.LEAST_BYTES", 1 << 20)
    return 2 << 20


class TestTrim:
    def test_ticks_that_are_not_rolled_up_are_never_dropped(self, store: Store) -> None:
        store.add_sample(T, {1: sample(util=1)})
        assert store.trim(T + 500 * 86_400, budget=60)
        assert len(store.raw(1, T, T)) == 1
        store.rollup()
        store.add_sample(T + 1, {1: sample(util=2)})
        store.trim(T + 500 * 86_400, budget=60)
        assert [t for t, _ in store.raw(1, T, T + 9)] == [T + 1]

    def test_what_was_dated_by_a_wrong_clock_goes_with_its_time(self, store: Store) -> None:
        for t in (T + 9e7, T + 9e7 + 1, T, T + 1):
            store.add_sample(t, {1: sample(util=1)})
        store.rollup()
        assert store.trim(T + 3600, budget=60)
        assert len(store.raw(1, 0, 4e9)) == 4
        assert store.trim(T + 8 * 3600, budget=60)
        assert store.raw(1, 0, 4e9) == []

    def test_a_clock_that_leaps_ahead_and_is_set_right_costs_no_history(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path, year = tmp_path / "watch.db", 366 * 86_400

        def kept(store: Store) -> list[int]:
            rolled = (store.rolled(level, 1, 0, 4e9) for level in ("ten", "five"))
            return [*map(len, (store.raw(1, 0, 4e9), *rolled, store.work(0, 4e9), store.events(), store.incidents()))]

        with Store(path, keep=Keep(ten=86_400, five=2 * 86_400)) as store:
            gpu = store.see_gpu("GPU-a", 0, None, None, None)
            store.add_sample(T, {gpu: sample(util=1)})
            store.rollup()
            store.add_work([Use(T, gpu, 1, "li", None, None, 5, 5)])
            store.add_event(T, {})
            store.close_incident(store.open_incident(T, {}), T)
            assert store.trim(T + 60, budget=60)
            store.trim(T + year, budget=60)
            store.trim(T + year + 60, budget=60)
            assert kept(store) == [1] * 6
        with Store(path, keep=Keep(ten=86_400, five=2 * 86_400)) as store:
            store.trim(T + year, budget=60)
            assert kept(store) == [1] * 6
            store.trim(T + 120, budget=60)  # set right: what comes later is measured anew
            store.trim(T + 3 * 3600, budget=60)
            assert kept(store) == [1] * 6
            clock = time.monotonic()
            monkeypatch.setattr("time.monotonic", lambda: clock)
            store.trim(T + year, budget=60)
            clock += 3599
            store.trim(T + year, budget=60)
            assert kept(store) == [1] * 6
            clock += 1
            assert store.trim(T + year, budget=60)  # it has been so for an hour: it is so
            assert kept(store) == [0] * 6

    def test_charts_are_as_fine_as_before_once_a_wrong_clock_was_set_right(self, tmp_path: Path) -> None:
        with Store(tmp_path / "watch.db") as store:
            gpu = store.see_gpu("GPU-a", 0, None, None, None)
            store.add_sample(T, {gpu: sample(util=1)})
            store.rollup()
            assert store.trim(T + 500 * 86_400, budget=60)
            seconds = range(290, 310)
            for second in seconds:
                store.add_sample(T + second, {gpu: sample(mj=1000)})
            store.rollup()
            chart = store.series(gpu, "energy", T + 300, T + 310)
            assert [point.t - T for point in chart] == list(range(300, 310))
            assert sum(point.avg or 0 for point in store.series(gpu, "energy", T, T + 310)) == len(seconds)

    def test_the_file_stays_under_its_limit_and_raw_goes_first(self, tmp_path: Path, small: int) -> None:
        with Store(tmp_path / "watch.db", keep=Keep(max_bytes=small)) as store:
            gpus = [store.see_gpu(f"GPU-{number}", number, None, None, None) for number in range(16)]
            busy = sample(mj=300_000, util=77, temp=60, power=300_000, sm_clock=1980, mem_used=99_999, energy=1 << 40)
            now = T
            for minute in range(300):
                for _ in range(6):
                    now += 10
                    assert store.add_sample(now, dict.fromkeys(gpus, busy))
                assert store.rollup()
                store.trim(now)
                file, _, log = store.size()
                assert file <= small, minute
                assert log <= 12 << 20
            assert store.problem is None
            assert store.raw(1, T, T + 3600) == []  # raw went
            assert len(store.raw(1, now - 600, now)) >= 60  # but not all of it
            assert len(store.rolled("five", 1, T, now)) >= 60
            assert len(store.rolled("ten", 1, now - 3600, now)) >= 359
            assert store.rolled("ten", 1, T, T + 600) == []

    def test_a_flood_of_events_leaves_room_for_samples(self, tmp_path: Path, small: int) -> None:
        with Store(tmp_path / "watch.db", keep=Keep(max_bytes=small)) as store:
            gpu = store.see_gpu("GPU-a", 0, None, None, None)
            for minute in range(60):
                for number in range(100):
                    store.add_event(T + 60 * minute, {"n": number, "text": "x" * 400})
                assert store.add_sample(T + 60 * minute, {gpu: sample(util=1)})
                assert store.rollup()
                assert store.trim(T + 60 * minute, budget=60)
            assert store.problem is None
            assert len(store.rolled("five", gpu, T, T + 3600)) == 12
            assert len(store.events()) > 100

    def test_a_smaller_limit_gives_room_back(self, tmp_path: Path, small: int) -> None:
        path = tmp_path / "watch.db"
        with Store(path) as store:
            gpus = [store.see_gpu(f"GPU-{number}", number, None, None, None) for number in range(16)]
            for tick in range(4200):
                store.add_sample(T + tick / 10, dict.fromkeys(gpus, sample(util=77, energy=1 << 40, power=300_000, mem_used=9999)))
            store.flush()
            store.rollup()
            assert store.size()[0] > small
        with Store(path, keep=Keep(max_bytes=small)) as store:
            for _ in range(20):
                store.trim(T + 4800, budget=60)
            assert store.size()[0] <= small
