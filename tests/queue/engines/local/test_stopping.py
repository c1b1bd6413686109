"""How a run is brought to its end: steps and their times."""

import signal

from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines.local.stopping import ASK, KILL, SAVE, STAY, number, step, stop, stronger
from ongpu.queue.job import Spec

SPEC = Spec(command=("x",), grace=30.0, checkpoint="SIGUSR1")


def steps(why: str, saved: bool, until: float = 100.0) -> list[tuple[float, str]]:
    """What is done when, from 0 on."""
    state, found, now = stop(why, 0.0, 0.0), [], 0.0
    while now <= until:
        state, what = step(state, SPEC, now, saved)
        if what:
            found.append((now, what))
        now += 1.0
    return found


def test_asked_then_killed_until_it_is_gone() -> None:
    assert steps("cancel", True, 41) == [(0, ASK), (30, KILL), (35, KILL), (40, KILL)]
    assert steps("timeout", False, 31) == [(0, ASK), (30, KILL)]


def test_who_gives_way_saves_first_and_is_left_alone_where_nothing_was_saved() -> None:
    assert steps("preempt", True, 61) == [(0, SAVE), (30, ASK), (60, KILL)]
    assert steps("preempt", False) == [(0, SAVE), (30, STAY)]


def test_a_cancel_while_it_saves_is_heeded_at_once() -> None:
    state, what = step(stop("preempt", 0.0, 0.0), SPEC, 0.0, False)
    assert what == SAVE
    state = stronger(state, "cancel", 5.0)
    state, what = step(state, SPEC, 5.0, False)
    assert (state.why, what) == ("cancel", ASK)
    assert stronger(state, "preempt", 6.0) == state
    assert step(stronger(state, "timeout", 6.0), SPEC, 6.0, False)[1] == "", "it has been asked"


@given(st.one_of(st.text(max_size=20), st.sampled_from(["SIGUSR1", "usr1", "10", "SIGKILL", "RTMIN", "0", "999"])))
def test_any_word_is_a_signal(name: str) -> None:
    assert number(name) in [int(one) for one in signal.valid_signals()]
    assert number("SIGUSR1") == number("usr1") == number("10") == signal.SIGUSR1
