"""What jobs cost: what was not told is never nothing, and the sums are the sums of the parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.config import Cost
from ongpu.queue.cost import Bill, bills, charge, fine, price, table, total
from ongpu.queue.job import Spec, Told

MODELS = {"GPU-a": "NVIDIA A100-SXM4-80GB", "GPU-h": "NVIDIA H100 PCIe"}
PRICES = Cost(gpu_hour={"A100": 2.0, "A100-SXM4": 3.0, "": 1.0}, kwh=0.5, currency="EUR")


def run(
    id: str = "1", user: str = "ann", project: str = "", gpus: tuple[str, ...] = ("GPU-a",), hours: float = 2.0, **more: object
) -> Told:
    spec = Spec(command=("x",), project=project, gpus=len(gpus))
    return Told(id=id, spec=spec, state="done", user=user, gpus=gpus, attained=hours * 3600, **{"ending": "ok", **more})  # type: ignore[arg-type]


class TestPrice:
    @pytest.mark.parametrize(("model", "money"), [
        ("NVIDIA A100-SXM4-80GB", 3.0), ("nvidia a100 80gb pcie", 2.0), ("RTX 4090", 1.0), ("", 1.0),
    ])  # fmt: skip
    def test_the_longest_name_counts(self, model: str, money: float) -> None:
        assert price(model, PRICES) == money

    def test_none(self) -> None:
        assert price("H100", Cost(gpu_hour={"A100": 2.0})) is None


class TestCharge:
    def test_hours_and_energy(self) -> None:
        bill = charge(run(energy=7.2e6, busy=0.5), PRICES, MODELS)
        assert (bill.hours, bill.kwh, bill.metered, bill.busy, bill.money, bill.unpriced) == (2.0, 2.0, 2.0, 1.0, 7.0, 0.0)

    def test_unlike_gpus_share_the_hours(self) -> None:
        assert charge(run(gpus=("GPU-a", "GPU-h"), energy=0.0), PRICES, MODELS).money == pytest.approx(2 * (3.0 + 1.0) / 2)

    def test_what_is_not_told_is_not_nothing(self) -> None:
        bill = charge(run(), PRICES, MODELS)
        assert (bill.kwh, bill.metered, bill.money, bill.unpriced) == (0.0, 0.0, 6.0, 2.0)
        bill = charge(run(gpus=("GPU-a", "GPU-h"), energy=3.6e6), Cost(gpu_hour={"A100": 2.0}), MODELS)
        assert (bill.money, bill.unpriced) == (2.0, 1.0)
        assert charge(run(), Cost(), MODELS).money is None
        assert charge(run(energy=3.6e6), Cost(kwh=0.5), MODELS).money == 0.5
        assert charge(run(energy=3.6e6), Cost(kwh=0.5), MODELS).unpriced == 0.0
        assert charge(run(energy=-1.0), Cost(kwh=0.5), MODELS).money is None

    def test_runs_that_came_to_nothing(self) -> None:
        endings = ("ok", "preempted", "gpu-fault", "program")
        assert [charge(run(ending=ending), PRICES, MODELS).wasted for ending in endings] == [0, 0, 2.0, 2.0]

    def test_a_job_without_gpus(self) -> None:
        assert charge(run(gpus=(), hours=0.0), PRICES, {}).money == 0.0


class TestBills:
    HISTORY = (
        run("1", "ann", "vision"), run("1", "ann", "vision", ending="gpu-fault"), run("2", "ben", "vision", hours=10.0), run("3", "ann"),
    )  # fmt: skip

    def test_by(self) -> None:
        by_user = bills(self.HISTORY, PRICES, MODELS)
        assert {name: (bill.jobs, bill.runs, bill.hours) for name, bill in by_user.items()} == {"ben": (1, 1, 10.0), "ann": (2, 3, 6.0)}
        assert list(by_user) == ["ben", "ann"], "the dearest first"
        assert {name: bill.jobs for name, bill in bills(self.HISTORY, PRICES, MODELS, "project").items()} == {"vision": 2, "": 1}
        assert {name: bill.runs for name, bill in bills(self.HISTORY, PRICES, MODELS, "job").items()} == {"1": 2, "2": 1, "3": 1}

    def test_the_table(self) -> None:
        rows = table(bills(self.HISTORY, PRICES, MODELS), "user", "EUR", "en")
        assert rows[0] == ("user", "jobs", "GPU h", "busy", "lost", "kWh", "EUR")
        assert rows[1] == ("ben", "1", "10.0", "-", "0%", "-", "~30.00")
        assert rows[-1][:3] == ("all", "3", "16.0")
        assert table({}, "project", "EUR", "zh") == [("项目", "作业数", "GPU 小时", "繁忙", "白费", "kWh", "EUR")]
        assert len(table(bills(self.HISTORY[:1], PRICES, MODELS), "user", "EUR", "zh")) == 2


@pytest.mark.parametrize(
    ("amount", "places", "text"),
    [
        (0, 1, "0.0"), (16, 1, "16.0"), (0.19444, 1, "0.19"), (0.0123, 2, "0.012"), (0.00006, 2, "0.0001"), (1e-9, 1, "0.0000"),
        (0.94, 1, "0.94"), (0.96, 1, "1.0"),
    ],
)  # fmt: skip
def test_small_amounts_are_seen(amount: float, places: int, text: str) -> None:
    assert fine(amount, places) == text


amounts = st.floats(0, 1e6)
runs = st.builds(
    run, st.sampled_from(["1", "2", "3"]), st.sampled_from(["ann", "ben"]), st.sampled_from(["", "p"]),
    st.sampled_from([(), ("GPU-a",), ("GPU-a", "GPU-h"), ("GPU-?",)]), amounts,
    energy=st.none() | amounts, busy=st.none() | st.floats(0, 1), ending=st.sampled_from(["ok", "program", "vanished"]),
)  # fmt: skip
costs = st.builds(Cost, gpu_hour=st.dictionaries(st.sampled_from(["A100", "H100", ""]), amounts), kwh=st.none() | amounts)


@given(st.lists(runs, max_size=12), costs, st.sampled_from(["job", "user", "project"]))
def test_the_parts_sum_up(history: list[Told], prices: Cost, by: str) -> None:
    whole, parts = total(bills(history, prices, MODELS, by)), [charge(one, prices, MODELS) for one in history]
    assert whole.runs == len(history)
    assert whole.jobs == len({one.id for one in history})
    for name in ("hours", "wasted", "busy", "kwh", "unpriced"):
        assert getattr(whole, name) == pytest.approx(sum(getattr(part, name) for part in parts))
    assert (whole.money is None) == all(part.money is None for part in parts)
    assert (whole.money or 0) == pytest.approx(sum(part.money or 0 for part in parts))
    assert whole.busy <= whole.watched * 1.0001
    assert 0 <= whole.unpriced <= whole.hours * 1.0001 + 1e-9
    assert Bill().plus(whole) == whole
