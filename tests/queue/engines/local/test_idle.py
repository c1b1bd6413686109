"""Idle reaping: only what is known to be idle is warned, later stopped; what loads, waits for its data, or says nothing is not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines.local.idle import GAP, STOP, WARN, Idle, patience, step, words

QUIET: dict[str, Any] = {"how": "ok", "util": 0, "memory_util": 0, "used": 4000, "pcie": [10, 20]}


Looks = list[list[dict[str, Any]]]


def run(looks: Looks, limit: float | None = 100.0, stop: bool = True, apart: float = 1.0) -> list[tuple[int, str]]:
    """When what was said: the number of the look, and the word."""
    idle, found = Idle(), []
    for number, gpus in enumerate(looks):
        idle, word = step(idle, gpus, 1000.0 + number * apart, limit, stop)
        found += [(number, word)] if word else []
    return found


BUSY = {**QUIET, "util": 90}


class TestIdle:
    def test_a_warning_then_a_stop(self) -> None:
        said = run([[BUSY]] + [[QUIET]] * 300)
        assert said[0] == (101, WARN)
        assert said[1] == (201, STOP)
        assert {word for _, word in said[1:]} == {STOP}

    def test_no_stop_where_none_is_wanted(self) -> None:
        assert run([[BUSY]] + [[QUIET]] * 500, stop=False) == [(101, WARN)]

    def test_nothing_where_no_limit_is_set(self) -> None:
        assert run([[QUIET]] * 500, limit=None) == []

    def test_a_job_that_has_not_begun_gets_twice_the_time(self) -> None:
        assert run([[QUIET]] * 300)[0] == (200, WARN)

    def test_nothing_is_idle_within_a_minute(self) -> None:
        assert run([[BUSY]] + [[QUIET]] * 62, limit=1.0, stop=False) == [(61, WARN)]

    @pytest.mark.parametrize("sign", [
        {"util": 5}, {"memory_util": 7}, {"pcie": [0, 9_000_000]}, {"used": 4100}, {"how": "unknown"}, {"how": "hung"}, {"util": None},
        {"used": None},
    ])  # fmt: skip
    def test_any_sign_of_life_or_of_not_knowing_begins_anew(self, sign: dict[str, Any]) -> None:
        looks = [[BUSY]] + [[QUIET]] * 90 + [[{**QUIET, **sign}]] + [[QUIET]] * 90
        assert run(looks) == []

    def test_a_warned_job_that_works_again_is_warned_anew(self) -> None:
        assert run([[BUSY]] + [[QUIET]] * 150 + [[BUSY]] + [[QUIET]] * 102) == [(101, WARN), (252, WARN)]

    def test_one_gpu_of_several_at_work_is_enough(self) -> None:
        assert run([[QUIET, BUSY]] * 1000) == []

    def test_a_job_without_gpus_is_never_idle(self) -> None:
        assert run([[]] * 1000) == []

    def test_nobody_knows_what_was_while_nobody_looked(self) -> None:
        assert run([[BUSY]] + [[QUIET]] * 1000, apart=GAP + 1) == []

    def test_a_clock_that_jumps_back(self) -> None:
        idle, _ = step(Idle(), [QUIET], 1000.0, 100.0)
        idle, word = step(idle, [QUIET], 10.0, 100.0)
        assert (idle.since, word) == (10.0, "")

    def test_a_mig_slice_whose_use_is_not_told(self) -> None:
        assert run([[{**QUIET, "util": None, "memory_util": None}]] * 1000) == []


looks = st.fixed_dictionaries({
    "how": st.sampled_from(["ok", "ok", "ok", "unknown"]), "util": st.sampled_from([0, 0, 0, 1, 50, None]),
    "memory_util": st.sampled_from([0, 0, None, 30]), "used": st.sampled_from([4000, 4000, 4001, 9000, None]),
    "pcie": st.sampled_from([None, [0, 0], [None, None], [0, 10**7]]),
})  # fmt: skip


@given(st.lists(st.tuples(st.lists(looks, max_size=3), st.floats(0.1, 30)), max_size=80), st.floats(60, 200))
def test_whoever_is_warned_was_seen_idle_all_the_while(history: list[tuple[list[dict[str, Any]], float]], limit: float) -> None:
    idle, now, quiet = Idle(), 0.0, 0.0
    for gpus, apart in history:
        now += apart
        idle, word = step(idle, gpus, now, limit, True)
        still = gpus and all(gpu["how"] == "ok" and gpu["util"] in (0, 1) and gpu["used"] is not None for gpu in gpus)
        quiet = quiet + apart if still and apart <= GAP else 0.0
        if word:
            assert quiet >= limit * (0.99 if word == WARN else 1.99)


def test_the_words() -> None:
    english, chinese = words(1800, True)
    assert english == "its GPUs have done nothing for 30 min; it is stopped in 30 min if that stays so"
    assert chinese == "其 GPU 已闲置 30 分钟；若仍不使用，30 分钟后停止"
    assert words(10, False) == ("its GPUs have done nothing for 1 min", "其 GPU 已闲置 1 分钟")


def test_the_warning_tells_how_long_it_was_idle_and_has_left() -> None:
    assert (patience(Idle(worked=True), 600.0), patience(Idle(), 600.0), patience(Idle(worked=True), 1.0)) == (600.0, 1200.0, 60.0)
    assert words(patience(Idle(), 600.0), True)[0] == "its GPUs have done nothing for 20 min; it is stopped in 20 min if that stays so"
