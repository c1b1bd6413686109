"""What is told of when a waiting job starts, and how long jobs run."""

import pytest

from ongpu.queue.forecast import Forecast, length
from ongpu.queue.job import ENDING, RUNNING, WAITING, Spec, Told

NOW = 1_000_000.0


def told(state: str = RUNNING, ago: float = 600.0, attained: float = 0.0, wish: str = "", **spec: object) -> Told:
    whole = Spec(command=("x",), name="a", **spec)  # type: ignore[arg-type]
    return Told(id="1", spec=whole, state=state, user="ann", started=NOW - ago, attained=attained, more={"wish": wish} if wish else {})


def test_a_run_that_is_longer_than_all_before_is_judged_by_its_limit_and_without_one_by_nothing() -> None:
    past = {("ann", "a"): [100.0, 200.0]}
    assert length(told(limit=1000.0), past, NOW) == (400.0, "limit")
    assert length(told(), past, NOW) == (None, "")
    assert length(told(ago=120.0), past, NOW) == (80.0, "earlier")


def test_who_saved_its_state_goes_on_from_there() -> None:
    assert length(told(WAITING, attained=300.0, gpus=2, checkpoint="SIGUSR1"), {("ann", "a"): [500.0]}, NOW) == (350.0, "earlier")
    assert length(told(WAITING, attained=300.0, gpus=2), {("ann", "a"): [500.0]}, NOW) == (500.0, "earlier")


def test_what_was_asked_to_end_does_not_run_to_its_limit() -> None:
    assert length(told(ENDING, wish="cancel", limit=5000.0, grace=20.0), {}, NOW) == (20.0, "")
    assert length(told(ENDING, wish="cancel", limit=610.0, grace=20.0), {}, NOW) == (10.0, "limit")
    assert length(told(ENDING, wish="preempt", limit=5000.0), {}, NOW) == (4400.0, "limit")  # it comes back


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", ["held", "never", "others", "far", "other", "unknown", "at"])
def test_each_has_words(kind: str, lang: str) -> None:
    assert Forecast(kind=kind, at=NOW + 90_000, rests={"limit": 2, "earlier": 3}, jobs=("1", "2", "3", "4")).text(lang, NOW)
