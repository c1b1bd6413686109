"""What the store is fed: the time and energy that a sample stands for, who is charged with it, and what is said of a disk that is full."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.store import Keep, Sample, Store, StoreError
from ongpu.watch.history import MOST_USERS, OTHERS, Charges, History, Meter, opened
from ongpu.watch.processes import Proc
from ongpu.watch.state import State

T = 1_800_000_000.0


def row(**values: int | None) -> list[int | None]:
    return [values.get(name) for name in COLUMNS]


def process(user: str | None = "li", sm: int | None = None, mem: int | None = 1000, kind: str = "C", command: str = "train.py") -> Proc:
    return Proc(pid=1, mem=mem, kind=kind, sm=sm, host={} if user is None else {"user": user, "job": "slurm:7", "command": command})


processes = st.builds(process, st.sampled_from(("li", "wang", "zhao", None)), st.none() | st.integers(0, 100))


class TestMeter:
    def measured(self, *looks: tuple[float, int | None, int | None], gap: float = 10.0) -> list[tuple[int, int | None, bool]]:
        """looks: seconds, energy mJ, power mW."""
        meter = Meter(gap)
        told = [meter.measure(1, T + t, row(energy=energy, power=power), None) for t, energy, power in looks]
        return [(sample.ms, sample.mj, sample.estimated) for sample in told]

    def test_the_counter_says_how_much(self) -> None:
        assert self.measured((0, 1_000_000, 300_000), (1, 1_350_000, 300_000), (2.5, 1_800_000, 1)) == [
            (0, None, False), (1000, 350_000, False), (1500, 450_000, False),
        ]  # fmt: skip

    def test_a_counter_that_goes_back_starts_anew(self) -> None:
        looks = self.measured((0, 9_000_000, 300_000), (1, 10, 300_000), (2, 300_010, 300_000))
        assert looks == [(0, None, False), (1000, 300_000, True), (1000, 300_000, False)]
        assert self.measured((0, 9_000_000, None), (1, 10, None)) == [(0, None, False), (1000, None, False)]

    def test_a_counter_that_cannot_be_is_not_believed(self) -> None:
        assert self.measured((0, 0, 300_000), (1, 1 << 50, 300_000))[1] == (1000, 300_000, True)

    def test_without_a_counter_power_and_time_estimate_it(self) -> None:
        assert self.measured((0, None, 70_000), (2, None, 100_000))[1] == (2000, 200_000, True)

    def test_a_counter_that_comes_and_goes(self) -> None:
        looks = self.measured((0, None, 100_000), (1, 5_000, 100_000), (2, None, None), (3, 7_000, None), (4, 7_500, None))
        assert looks == [(0, None, False), (1000, 100_000, True), (1000, None, False), (1000, None, False), (1000, 500, False)]

    @pytest.mark.parametrize("jump", [-3600.0, -0.001, 0.0, 10.5, 3600.0])
    def test_a_gap_or_a_clock_that_jumps_stands_for_no_time(self, jump: float) -> None:
        assert self.measured((0, 0, 300_000), (jump, 300_000, 300_000))[1] == (0, None, False)
        assert self.measured((0, 0, 300_000), (jump, 300_000, 300_000), (jump + 1, 600_000, 1))[2] == (1000, 300_000, False)

    def test_each_gpu_has_a_meter_of_its_own(self) -> None:
        meter = Meter()
        meter.measure(1, T, row(energy=5), None)
        assert meter.measure(2, T + 1, row(energy=1000), True) == Sample(row(energy=1000), 0, None, False, True)

    @settings(max_examples=200)
    @given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.none() | st.integers(0, 1 << 62), st.none() | st.integers(0, 1 << 40))))
    def test_never_negative(self, looks: list[tuple[float, int | None, int | None]]) -> None:
        for ms, mj, estimated in self.measured(*looks):
            assert 0 <= ms <= 10_000
            assert mj is None or mj >= 0
            assert not (estimated and mj is None)


class TestCharges:
    def charged(
        self, sample: Sample, processes: list[Proc] | None
    ) -> dict[str | int, tuple[float, float | None, float | None, int | None, int | None, int | None]]:
        """By user (or state where there is none): share, busy, idle, memory, mJ, of which equally."""
        charges = Charges()
        charges.add(T, 1, sample, processes)
        return {use.user or use.state: (use.share, use.busy, use.idle, use.memory, use.mj, use.mj_equal) for use in charges.uses()}

    def test_one_process_has_all_of_it(self) -> None:
        assert self.charged(Sample(row(util=80), 1000, 300), [process()]) == {"li": (1000, 800, 0, 1000, 300, 0)}

    def test_two_processes_of_one_user_and_command_are_one(self) -> None:
        assert self.charged(Sample(row(util=80), 1000, 300), [process(mem=5), process(mem=7)]) == {"li": (1000, 800, 0, 12, 300, 0)}

    def test_two_users_share_by_what_the_card_tells(self) -> None:
        found = self.charged(Sample(row(util=80), 1000, 400), [process(sm=60), process("wang", sm=20)])
        assert found == {"li": (500, 600, 0, 1000, 300, 0), "wang": (500, 200, 0, 1000, 100, 0)}

    @pytest.mark.parametrize("sms", [(None, None), (60, None), (0, 0)])
    def test_else_equally_and_that_is_said(self, sms: tuple[int | None, int | None]) -> None:
        found = self.charged(Sample(row(util=80), 1000, 400), [process(sm=sms[0]), process("wang", sm=sms[1])])
        assert found == {"li": (500, 400, 0, 1000, 200, 200), "wang": (500, 400, 0, 1000, 200, 200)}

    def test_held_but_idle(self) -> None:
        assert self.charged(Sample(row(util=4), 1000), [process()])["li"][2] == 1000
        assert self.charged(Sample(row(util=5), 1000), [process()])["li"][2] == 0
        assert self.charged(Sample(row(), 1000), [process()])["li"][1:3] == (None, None)

    def test_nobody_not_told_and_not_visible(self) -> None:
        sample = Sample(row(util=0), 1000, 100)
        assert self.charged(sample, []) == {0: (1000, 0, 0, None, 100, 0)}
        assert self.charged(sample, None) == {-1: (1000, 0, None, None, 100, 0)}
        assert self.charged(sample, [process(None, mem=None)]) == {1: (1000, 0, 1000, None, 100, 0)}
        assert self.charged(sample, [process(kind="G")]) == {0: (1000, 0, 0, None, 100, 0)}

    def test_estimated_energy_is_told(self) -> None:
        charges = Charges()
        charges.add(T, 1, Sample(row(), 1000, 100, True), [process()])
        charges.add(T, 1, Sample(row(), 1000, 50, False), [process()])
        [use] = charges.uses()
        assert (use.mj, use.mj_estimated) == (150, 100)

    def test_many_commands_are_bounded_and_none_of_the_time_is_lost(self) -> None:
        charges = Charges()
        for number in range(500):
            charges.add(T, 1, Sample(row(util=100), 1000, 10), [process(command=f"run-{number}")])
        uses = charges.uses()
        assert len(uses) == MOST_USERS + 1
        assert sum(use.share for use in uses) == 500_000
        assert [use.job for use in uses if use.command == OTHERS] == [None]

    def test_what_is_never_taken_is_let_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.watch.history.MOST_WAITING", 10)
        charges = Charges()
        for number in range(15):
            charges.add(T + 300 * number, 1, Sample(row(), 1000), [process()])
        charges.bound()
        assert len(charges.uses()) == 10
        assert charges.uses()[0].t == T + 1500
        assert charges.lost == 5

    @settings(max_examples=100)
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 10_000), st.none() | st.integers(0, 100), st.none() | st.integers(0, 1 << 30),
                st.none() | st.lists(processes, max_size=6),
            )
        )
    )  # fmt: skip
    def test_the_parts_add_up_to_the_whole(self, looks: list[tuple[int, int | None, int | None, list[Proc] | None]]) -> None:
        charges = Charges()
        for ms, util, mj, processes in looks:
            charges.add(T, 1, Sample(row(util=util), ms, mj), processes)
        uses = charges.uses()
        assert sum(use.share for use in uses) == pytest.approx(sum(ms for ms, *_ in looks), abs=10)
        assert sum(use.mj or 0 for use in uses) == pytest.approx(sum(mj or 0 for _, _, mj, _ in looks), abs=10)
        assert sum(use.busy or 0 for use in uses) == pytest.approx(sum(ms * (util or 0) / 100 for ms, util, *_ in looks), abs=10)
        assert all((use.idle or 0) <= use.share + 1 and (use.busy or 0) <= use.ms + 1 for use in uses)


def messages(second: int, processes: bool = False, energy: int | None = None) -> Iterable[dict[str, object]]:
    """What the child prints of two GPUs in a second: one works, one is held and idle."""
    first = row(util=90, power=300_000, energy=energy, temp=60, mem_used=5000)
    yield {"k": "s", "t": T + second, "n": second, "g": [first, row(util=0, power=70_000, temp=40, mem_used=9000)]}
    if processes:
        hosts = {"7": {"user": "li", "job": "slurm:1", "command": "train.py"}, "8": {"user": "wang", "job": None, "command": "jupyter"}}
        yield {"k": "p", "t": T + second, "g": {"0": [[7, 5000, "C", 90]], "1": [[8, 9000, "C", 0]]}, "h": hosts}


@pytest.fixture
def state() -> State:
    state = State()
    state.take({"k": "init", "t": T, "code": 0, "driver": "580.1", "count": 2}, T)
    for index in range(2):
        state.take({"k": "gpu", "i": index, "uuid": f"GPU-{index}", "name": "H200", "bus": f"0000:1{index}:00.0", "mem_total": 143_771}, T)
    return state


def run(history: History, state: State, seconds: range, every: int = 5) -> None:
    for second in seconds:
        for message in messages(second, second % every == 0, 1_000_000 + 300_000 * second):
            history.step(state, state.take(message, T + second), T + second)


class TestHistory:
    def test_an_hour_of_two_gpus(self, tmp_path: Path, state: State) -> None:
        store, said = opened(tmp_path / "watch.db")
        history = History(store)
        run(history, state, range(3601))
        history.close()
        assert said == history.said == []
        with Store(tmp_path / "watch.db", readonly=True) as reader:
            assert [(gpu.uuid, gpu.name, gpu.place, gpu.mem_total) for gpu in reader.gpus()] == [
                ("GPU-0", "H200", 0, 143_771), ("GPU-1", "H200", 1, 143_771),
            ]  # fmt: skip
            assert len(reader.raw(1, T, T + 4000)) == 3601
            assert sum(point.avg or 0 for point in reader.series(1, "energy", T, T + 3601)) == pytest.approx(3600 * 300)
            assert {point.avg for point in reader.series(2, "idle", T + 60, T + 3500)} == {100.0}
            assert {point.avg for point in reader.series(1, "idle", T + 60, T + 3500)} == {0.0}
            work = {one.name: one for one in reader.work(T, T + 3600, price_kwh=1.0, price_gpu_hour=2.0)}
            assert work["li"].busy_seconds == pytest.approx(3600 * 0.9, abs=10)
            assert work["li"].energy_j == pytest.approx(3600 * 300, rel=0.01)
            assert work["li"].estimated_j == 0
            assert work["wang"].held_idle_seconds == pytest.approx(3600, abs=10)
            assert work["wang"].estimated_j == work["wang"].energy_j == pytest.approx(3600 * 70, rel=0.01)
            assert work["li"].cost == pytest.approx(0.3 + 2.0, rel=0.01)
            assert sum(one.gpu_seconds for one in work.values()) == pytest.approx(7200, abs=2)

    def test_processes_are_not_told_as_none_before_they_were_looked_for(self, tmp_path: Path, state: State) -> None:
        with Store(tmp_path / "watch.db") as store:
            history = History(store)
            for second in range(3):
                for message in messages(second):
                    history.step(state, state.take(message, T + second), T + second)
            run(history, state, range(5, 7))
            store.flush()
            assert [sample.held for _, sample in store.raw(1, T, T + 99)] == [None, None, None, None, True]
            state.take({"k": "s", "t": T + 7, "n": 7, "g": [15, 15]}, T + 7)
            history.step(state, ["row"], T + 7)
            history.step(state, state.take(next(iter(messages(8))), T + 8), T + 8)
            store.flush()
            assert store.raw(1, T + 8, T + 8)[0][1].held is None
            state.take({"k": "why", "i": 0, "codes": {"processes": 4}}, T + 9)
            run(history, state, range(10, 12))
            store.flush()
            assert [sample.held for _, sample in store.raw(1, T + 11, T + 11)] == [None]
            assert [sample.held for _, sample in store.raw(2, T + 11, T + 11)] == [True]

    def test_a_gpu_that_does_not_answer_has_a_gap(self, tmp_path: Path, state: State) -> None:
        with Store(tmp_path / "watch.db") as store:
            history = History(store)
            run(history, state, range(30))
            for second in range(30, 90):
                message = {"k": "s", "t": T + second, "n": second, "g": [15, row(util=0, power=70_000)]}
                history.step(state, state.take(message, T + second), T + second)
            run(history, state, range(90, 120))
            store.flush()
            times = [t for t, _ in store.raw(1, T, T + 200)]
            assert times == [T + second for second in (*range(30), *range(90, 120))]
            assert store.raw(1, T + 90, T + 90)[0][1][1:3] == (0, None)  # and the energy of that time is not made up
            assert [point.avg for point in store.series(1, "util", T, T + 120)].count(None) == 1

    def test_clock_jumps_lose_nothing_and_charge_nothing_twice(self, tmp_path: Path, state: State) -> None:
        with Store(tmp_path / "watch.db") as store:
            history = History(store)
            run(history, state, range(600))
            run(history, state, range(100, 700))  # set back by 500 s
            run(history, state, range(8000, 8100))  # and forward
            history._keep(T + 8100)
            assert len(store.raw(1, T, T + 9000)) == 1300
            rolled = store.rolled("five", 1, T, T + 9000)
            assert sum(line["n"] for line in rolled) == 1300
            assert sum(line["ms"] for line in rolled) == (599 + 599 + 99) * 1000
            assert all(line["mj"] >= 0 for line in rolled)
            assert sum(one.gpu_seconds for one in store.work(0, 4e9, by="gpu")) == pytest.approx(2 * 1297, abs=2)

    def test_a_full_disk_is_said_once_and_so_is_its_end(self, tmp_path: Path, state: State) -> None:
        with Store(tmp_path / "watch.db", keep=Keep()) as store:
            history = History(store)
            run(history, state, range(10))
            store._rows("PRAGMA max_page_count=1")
            run(history, state, range(10, 1500))
            assert store.problem is not None
            assert [line[0].split(": ", 1)[1].split(" (")[0] for line in history.said] == ["no room left to write"]
            assert "goes on" in history.said[0][0]
            assert "继续" in history.said[0][1]
            store._rows("PRAGMA max_page_count=1000000")
            run(history, state, range(1500, 1700))
            assert store.problem is None
            assert len(history.said) == 2
            assert "written again" in history.said[1][0]
            assert len(store.raw(1, T, T + 5000)) + store.lost == 1700
            assert sum(one.gpu_seconds for one in store.work(0, 4e9)) == pytest.approx(2 * 1660, abs=150)  # work waited

    def test_a_removed_file_is_begun_anew_and_that_is_said(self, tmp_path: Path, state: State) -> None:
        path = tmp_path / "watch.db"
        with Store(path) as store:
            history = History(store)
            run(history, state, range(30))
            for part in ("", "-wal", "-shm"):
                Path(f"{path}{part}").unlink()
            run(history, state, range(30, 200))
            assert [line[0] for line in history.said] == [f"{path}: the history was removed or replaced while in use; a new one is begun"]
            assert store.problem is None
            with Store(path, readonly=True) as reader:
                assert len(reader.raw(1, T, T + 999)) > 100
                assert [gpu.uuid for gpu in reader.gpus()] == ["GPU-0", "GPU-1"]

    def test_damage_is_said_and_the_old_file_named(self, tmp_path: Path, state: State) -> None:
        path = tmp_path / "watch.db"
        Store(path).close()
        damaged = path.read_bytes()[:100] + b"damaged" * 1000
        path.write_bytes(damaged)
        store, said = opened(path)
        [(english, chinese)] = said
        aside = next(tmp_path.glob("watch.db.bad-*"))
        assert english.endswith(f"a new one is begun, the old one is kept as {aside}")
        assert str(aside) in chinese
        assert aside.read_bytes() == damaged
        with store:
            history = History(store)
            run(history, state, range(3000))
            store._rows("PRAGMA wal_checkpoint(TRUNCATE)")
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(b"\xa5" * (path.stat().st_size - 4096))
            store._rows("PRAGMA cache_size=0")
            run(history, state, range(3000, 3300))
            assert len(history.said) == 1
            assert "damaged" in history.said[0][0]
            assert store.problem is None
            assert store.raw(1, T + 3299, T + 3299)

    def test_where_no_file_can_be_made(self, tmp_path: Path) -> None:
        with Store(tmp_path / "watch.db"), pytest.raises(StoreError, match="another"):
            opened(tmp_path / "watch.db")

    def test_a_start_on_a_full_disk_is_said_once_and_history_begins_when_there_is_room(
        self, tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: Store) -> None:
            raise StoreError("full", self.path, "database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "_connection", full)
            store, said = opened(tmp_path / "watch.db")
            assert [line[0].split(": ")[1] for line in said] == [
                "no room left to write (database or disk is full); the watch goes on without its history"
            ]
            history = History(store)
            run(history, state, range(200))
            assert history.said == []
            assert store.waits
        run(history, state, range(200, 400))
        assert [line[0].split(": ")[1] for line in history.said] == ["written again (0 samples lost)"]
        history.close()
        with Store(tmp_path / "watch.db") as reader:
            gpu = next(one.id for one in reader.gpus() if one.uuid == "GPU-0")
            assert len(reader.raw(gpu, T, T + 999)) == 400
            assert sum(one.gpu_seconds for one in reader.work(0, 4e9)) == pytest.approx(2 * 399, abs=2)

    def test_a_gpu_that_tells_no_uuid_and_a_driver_that_is_not_there(self, tmp_path: Path) -> None:
        state = State()
        with Store(tmp_path / "watch.db") as store:
            history = History(store)
            history.step(state, state.take({"k": "init", "t": T, "code": 9, "error": "Driver Not Loaded"}, T), T)
            history.step(state, state.tick(T + 100), T + 100)
            assert store.gpus() == []
            state.take({"k": "init", "t": T, "code": 0, "count": 1}, T + 101)
            history.step(state, state.take({"k": "s", "t": T + 101, "n": 1, "g": [row(util=3)]}, T + 101), T + 101)
            assert [gpu.uuid for gpu in store.gpus()] == ["index:0"]
            assert store.raw(1, T, T + 200)[0][1].values[PLACE["util"]] == 3
            store.put_now(state.as_json())
            assert json.loads(store.now() or "")["up"] is True
