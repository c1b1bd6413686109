"""The states of a GPU: what drains it, what makes it suspect, and that nothing but a passed test or an operator's word brings it back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines.local import cards
from ongpu.queue.engines.local.cards import (
    DRAINED,
    EXPLAINED,
    FAILED,
    FAULT,
    OK,
    PASSED,
    SUSPECT,
    TESTING,
    UNEXPLAINED,
    UNPROVEN,
    WELL,
    Ended,
    Event,
    Health,
    Looked,
    Ordered,
    Patience,
    look,
    of_card,
    step,
    words,
)
from ongpu.queue.engines.local.cards import Tested as Trial  # pytest collects what is called Test...
from ongpu.queue.job import Card

SHORT = Patience(healthy=3, apart=0.9, away=30.0, sure=5.0)
FINE = Looked()


def after(health: Health, *events: Event, start: float = 100.0, apart: float = 1.0) -> Health:
    """The state after these, a second apart."""
    for number, event in enumerate(events):
        health = step(health, event, start + number * apart, SHORT)
    return health


class TestDrains:
    @pytest.mark.parametrize(("event", "slug"), [
        (Ended(FAULT, "ann", "ecc-uncorrectable"), "ecc-uncorrectable"),
        (Ended(FAULT), "gpu-fault"),
        (Looked(incident="gpu-fell-off-bus"), "gpu-fell-off-bus"),
        (Looked(xids=((99.0, 79),)), "xid-79"),
        (Ordered("drain"), "drained-by-hand"),
    ])  # fmt: skip
    def test_at_once(self, event: Event, slug: str) -> None:
        health = after(Health(), event)
        assert (health.state, health.slug, health.since, health.open) == (DRAINED, slug, 100.0, False)

    def test_an_xid_of_a_program_does_not(self) -> None:
        assert after(Health(), Looked(xids=((99.0, 13), (99.0, 31), (99.0, 43), (99.0, 99_999)))).state == OK

    def test_a_gpu_that_does_not_answer_only_after_a_while(self) -> None:
        away = Looked(how="lost", unfit="gpu-fell-off-bus")
        health = after(Health(), *[away] * 30)
        assert (health.state, health.slug) == (SUSPECT, "gpu-fell-off-bus")
        assert after(health, away, start=131.0).state == DRAINED

    def test_a_word_of_the_gate_that_stays(self) -> None:
        bad = Looked(unfit="ecc-uncorrectable")
        assert after(Health(), *[bad] * 5).state == SUSPECT
        assert after(Health(), *[bad] * 6).state == DRAINED

    def test_a_verdict_of_before_it_came_back_does_not(self) -> None:
        away, stale = Looked(how="lost", unfit="gpu-fell-off-bus"), Looked(unfit="gpu-fell-off-bus")
        assert after(Health(), *[away] * 20, Looked(unfit="not-judged"), stale, stale, *[FINE] * 5).state == OK

    def test_a_driver_that_is_away_condemns_no_gpu(self) -> None:
        down = Looked(how="unknown", unfit="driver-hung")
        assert after(Health(), *[down] * 1000).state == SUSPECT

    def test_nor_does_what_is_wrong_with_the_setup(self) -> None:
        assert after(Health(), *[Looked(unfit="driver-module-not-loaded")] * 1000).state == SUSPECT


class TestSuspect:
    def test_it_returns_by_itself_after_some_healthy_looks(self) -> None:
        health = after(Health(), Looked(how="hung", unfit="driver-hung"), FINE, FINE)
        assert (health.state, health.slug) == (SUSPECT, "driver-hung")
        assert after(health, FINE, start=103.0).state == OK

    def test_looks_that_follow_close_count_once(self) -> None:
        health = after(Health(), Looked(how="hung"), *[FINE] * 50, apart=0.01)
        assert health.state == SUSPECT

    def test_a_bad_look_begins_anew(self) -> None:
        assert after(Health(), Looked(how="hung"), FINE, FINE, Looked(how="error"), FINE, FINE).state == SUSPECT

    def test_two_programs_in_a_row_that_died_unexplained(self) -> None:
        one, two = Ended(UNEXPLAINED, "ann train.py"), Ended(UNEXPLAINED, "ben a.out")
        assert after(Health(), one, one, one).state == OK
        health = after(Health(), one, Ended(EXPLAINED, "cy"), two)
        assert (health.state, health.slug) == (SUSPECT, "failures-unexplained")
        assert after(Health(), one, Ended(WELL, "cy"), two).state == OK
        assert after(health, *[FINE] * 5, start=110.0) == Health(since=112.0)

    def test_not_judged_yet_is_no_news(self) -> None:
        assert after(Health(), Looked(unfit="not-judged"), Looked(how="unknown", unfit="not-judged")) == Health()
        assert after(Health(), Looked(how="hung"), FINE, FINE, Looked(unfit="not-judged"), FINE).state == OK


class TestReturn:
    def test_a_passed_test(self) -> None:
        health = after(Health(), Looked(xids=((99.0, 79),)), Ordered("test"))
        assert (health.state, health.slug, health.open) == (TESTING, "xid-79", False)
        old = Looked(xids=((99.0, 79),))
        assert after(health, old, Trial(PASSED), old, start=103.0) == Health(since=104.0, forgiven=104.0)

    def test_a_new_xid_during_the_test(self) -> None:
        health = after(Health(), Ended(FAULT, slug="nvlink-error"), Ordered("test"), Looked(xids=((102.0, 48),)), Trial(PASSED))
        assert (health.state, health.slug) == (DRAINED, "xid-48")

    def test_a_failed_one_and_one_that_proves_nothing(self) -> None:
        drained = after(Health(), Ordered("drain"), Ordered("test"))
        assert after(drained, Trial(FAILED, "compute-wrong")).slug == "compute-wrong"
        assert (after(drained, Trial(UNPROVEN)).state, after(drained, Trial(UNPROVEN)).slug) == (DRAINED, "drained-by-hand")
        assert after(Health(), Ordered("test"), Trial(UNPROVEN)).state == OK
        assert after(Health(), Looked(how="hung"), Ordered("test"), Trial(UNPROVEN)).state == SUSPECT

    def test_a_test_that_nobody_ordered_changes_nothing(self) -> None:
        drained = after(Health(), Ordered("drain"))
        assert after(drained, Trial(PASSED), Trial(UNPROVEN)) == drained

    def test_an_operators_word_and_what_is_still_so(self) -> None:
        drained = after(Health(), Looked(xids=((99.0, 79),)))
        returned = after(drained, Ordered("return"), Looked(xids=((99.0, 79),)), start=200.0)
        assert returned.state == OK
        assert after(returned, Looked(incident="gpu-fell-off-bus"), start=210.0).state == DRAINED
        assert after(returned, Looked(xids=((99.0, 79), (205.0, 79))), start=210.0).state == DRAINED

    def test_a_restart_of_the_daemon(self) -> None:
        kept = Card(id="a", state="drained", slug="xid-79", since=5.0)
        assert of_card(kept) == Health(state=DRAINED, slug="xid-79", since=5.0, was=DRAINED)
        assert after(of_card(Card(id="a", state="testing", slug="xid-79")), Trial(UNPROVEN)).state == DRAINED
        assert after(of_card(Card(id="a", state="testing")), Trial(UNPROVEN)).state == OK
        assert of_card(Card(id="a", state="of a newer ongpu")).state == DRAINED


codes = st.lists(st.tuples(st.floats(0, 300), st.sampled_from([13, 48, 79])), max_size=2).map(tuple)
slugs = st.sampled_from([None, "not-judged", "ecc-uncorrectable", "driver-hung", "nouveau-conflict", "x"])
looks = st.builds(
    Looked, how=st.sampled_from(["ok", "ok", "ok", "lost", "gone", "hung", "error", "denied", "unknown"]), unfit=slugs,
    incident=st.sampled_from([None, None, None, "gpu-fell-off-bus"]), xids=codes,
)  # fmt: skip
outcomes = st.sampled_from([WELL, FAULT, UNEXPLAINED, EXPLAINED])
ends = st.builds(Ended, outcomes, st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "s"]))
orders = st.builds(Ordered, st.sampled_from(["drain", "return", "test", "nonsense"]))
tests = st.builds(Trial, st.sampled_from([PASSED, FAILED, UNPROVEN, "nonsense"]), st.sampled_from(["", "compute-wrong"]))
events = st.one_of(looks, ends, orders, tests)


@given(st.lists(st.tuples(events, st.floats(-100, 400)), max_size=60))
def test_nothing_else_brings_a_drained_gpu_back(history: list[tuple[Event, float]]) -> None:
    health, condemned, testing = Health(), False, False
    for event, now in history:
        new = step(health, event, now, SHORT)
        returned = isinstance(event, Ordered) and event.word == "return"
        passed = isinstance(event, Trial) and event.result == PASSED and testing
        if condemned and not returned and not passed:
            assert new.state in (DRAINED, TESTING)
            assert new.slug
        if returned or passed:
            assert new.state == OK
        condemned = new.state == DRAINED or (condemned and new.state == TESTING)
        testing = new.state == TESTING
        assert new.open == (new.state == OK)
        assert (new.slug == "") == (new.state == OK) or new.state == TESTING
        health = new


anything = st.recursive(st.none() | st.integers() | st.text() | st.floats(), lambda inner: st.lists(inner, max_size=3), max_leaves=8)


@given(st.dictionaries(st.sampled_from(["how", "unfit", "incident", "xids", "uuid"]), anything))
def test_a_look_is_read_whatever_it_holds(told: dict[str, Any]) -> None:
    assert isinstance(step(Health(), look(told), 1.0), Health)


def test_a_look_is_read() -> None:
    told = {"how": "ok", "unfit": None, "incident": "x", "xids": [[5.0, 79], ["?", 1], 3]}
    assert look(told) == Looked(incident="x", xids=((5.0, 79),))
    assert look({}).how == "unknown"


def test_every_slug_of_ours_has_words() -> None:
    mine = [getattr(cards, name) for name in ("NOT_JUDGED", "LOST", "SILENT", "BY_HAND", "DIED", "BLAMED", "UNTESTED")]
    assert all(words(slug) for slug in mine)
    assert words("xid-79") == ("the driver reported Xid 79", "驱动报告了 Xid 79")
    assert words("gpu-fell-off-bus") is None
