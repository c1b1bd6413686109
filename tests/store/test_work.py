"""Who used what: sums over buckets, by user, job, GPU and command, and what it cost."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.store import Store, Use

T = 1_800_000_000.0
HOUR = 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> Iterable[Store]:
    with Store(tmp_path / "watch.db") as opened:
        for name in "ab":
            opened.see_gpu(f"GPU-{name}", None, None, None, None)
        yield opened


def use(gpu: int = 1, user: str | None = "li", state: int = 1, t: float = T, **told: int | None) -> Use:
    values: dict[str, int | None] = {"ms": HOUR, "share": HOUR, **told}
    return Use(t, gpu, state, user, "slurm:7", "train.py", **values)  # type: ignore[arg-type]


class TestWork:
    def test_cost_is_energy_and_gpu_hours(self, store: Store) -> None:
        store.add_work([use(busy=HOUR // 2, idle=HOUR // 10, memory=70_000, mj=3_600_000_000, mj_estimated=1000, mj_equal=2000)])
        [told] = store.work(T, T + 300, price_kwh=0.5, price_gpu_hour=2.0)
        assert told.name == "li"
        assert told.cost == pytest.approx(0.5 * 1 + 2.0)  # 3.6 MJ are one kWh
        assert (told.gpu_seconds, told.busy_seconds, told.held_idle_seconds, told.memory_mib) == (3600, 1800, 360, 70_000)
        assert (told.energy_j, told.estimated_j, told.equal_j) == (3_600_000, 1, 2)
        assert store.work(T, T + 300)[0].cost is None
        assert store.work(T, T + 300, price_gpu_hour=2.0)[0].cost == pytest.approx(2.0)

    def test_what_is_not_told_is_not_zero(self, store: Store) -> None:
        store.add_work([use()])
        [told] = store.work(T, T + 300, price_kwh=1.0)
        assert (told.busy_seconds, told.held_idle_seconds, told.memory_mib, told.energy_j) == (None, None, None, None)
        store.add_work([use(busy=10), use(gpu=2, mj=5)])
        [told] = store.work(T, T + 300)
        assert (told.busy_seconds, told.energy_j) == (0.01, 0.005)

    def test_an_unseen_user_nobody_and_not_told_are_three_things(self, store: Store) -> None:
        store.add_work([use(user=None), use(user=None, state=0), use(user=None, state=-1), use(user="li")])
        told = store.work(T, T + 300)
        assert {(one.name, one.state) for one in told} == {(None, 1), (None, 0), (None, -1), ("li", 1)}
        assert sum(one.gpu_seconds for one in told) == 4 * 3600
        assert [(one.name, one.state, one.gpu_seconds) for one in store.work(T, T + 300, by="gpu")] == [("GPU-a", 1, 4 * 3600)]

    def test_by_job_command_and_gpu(self, store: Store) -> None:
        store.add_work([use(), use(gpu=2, user="wang", ms=5, share=5)])
        assert [(one.name, one.gpu_seconds) for one in store.work(T, T + 300, by="job")] == [("slurm:7", 3600.005)]
        assert [one.name for one in store.work(T, T + 300, by="command")] == ["train.py"]
        assert [one.name for one in store.work(T, T + 300, by="gpu")] == ["GPU-a", "GPU-b"]
        assert [one.name for one in store.work(T, T + 300)] == ["li", "wang"]
        with pytest.raises(ValueError, match="by what"):
            store.work(T, T + 300, by="user; DROP TABLE work")  # type: ignore[arg-type]

    def test_whole_buckets_that_begin_in_the_span(self, store: Store) -> None:
        store.add_work([use(t=T - 1), use(t=T), use(t=T + 299), use(t=T + 300)])
        assert [one.gpu_seconds for one in store.work(T, T + 300)] == [2 * 3600]
        assert [one.gpu_seconds for one in store.work(T + 100, T + 301)] == [3 * 3600]

    def test_nothing_to_add(self, store: Store) -> None:
        assert store.add_work([])
        assert store.work(0, 4e9) == []


names = st.sampled_from((None, "li", "wang", "o'brien; --"))
told = st.none() | st.integers(0, 1 << 40)
uses = st.builds(
    Use, st.floats(T, T + 900), st.integers(1, 2), st.sampled_from((1, 0, -1)), names, names, names,
    st.integers(0, 300_000), st.integers(0, 300_000), told, told, told, told, told, told,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(uses, max_size=5), max_size=6))
def test_sums_equal_a_plain_count(tmp_path_factory: pytest.TempPathFactory, parts: list[list[Use]]) -> None:
    with Store(tmp_path_factory.mktemp("store") / "watch.db") as store:
        for name in "ab":
            store.see_gpu(f"GPU-{name}", None, None, None, None)
        for part in parts:
            assert store.add_work(part)
        for by in ("user", "job", "command"):
            groups = defaultdict(list)
            for one in (one for part in parts for one in part):
                groups[getattr(one, by), one.state].append(one)
            found = {(one.name, one.state): one for one in store.work(0, 4e9, by)}  # type: ignore[arg-type]
            assert set(found) == set(groups)
            for key, group in groups.items():
                assert found[key].gpu_seconds == pytest.approx(sum(one.share for one in group) / 1000)
                energies = [one.mj for one in group if one.mj is not None]
                assert found[key].energy_j == (pytest.approx(sum(energies) / 1000) if energies else None)
                assert found[key].memory_mib == max((one.memory for one in group if one.memory is not None), default=None)
