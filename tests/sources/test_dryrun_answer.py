import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.dryruns import GIB, answer, error

from ongpu.facts.dryrun import DryRun
from ongpu.model import Evidence
from ongpu.sources.dryrun import SOURCES, read


def run(folder: str = "/home/me", **changes: Any) -> DryRun:
    (fact,) = read(Evidence("dryrun", json.dumps({**answer(**changes), "folder": folder}), "dry run"))
    assert isinstance(fact, DryRun)
    return fact


def test_all_of_a_healthy_run_is_read() -> None:
    fact = run()
    assert (fact.outcome, fact.steps, fact.batch_size, fact.card.capability) == ("stopped", 3, 32, (8, 9))
    assert fact.devices.models[0].class_ == "Net"
    assert fact.memory.at_peak.by_kind["activation"] == 900 << 20
    assert fact.memory.at_peak.by_line[0].place is not None
    assert fact.working()
    assert fact.unseen() is None


def test_places_are_told_relative_to_the_folder() -> None:
    assert str(run().memory.at_peak.place) == "train.py:20"
    assert str(run("/somewhere").memory.at_peak.place) == "/home/me/train.py:20"
    assert run().script == "train.py"


def test_it_is_never_taken_for_a_pasted_text() -> None:
    assert not any(source.looks_like(Evidence("pasted", json.dumps(answer()), "x")) for source in SOURCES)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"schema": 2}', "{"])
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        list(read(Evidence("dryrun", text, "x")))


def test_wrong_types_are_left_out() -> None:
    fact = run(steps="three", batches=True, seconds=1, devices=[1], loaders=[{"workers": "4", "batches": 2}, 7], memory={"growth": 1.5})
    assert (fact.steps, fact.batches, fact.seconds) == (0, 0, 1.0)
    assert fact.devices.ops == {}
    assert [(loader.workers, loader.batches) for loader in fact.loaders] == [(None, 2)]
    assert fact.memory.growth is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["place", "line", "x"]), inner, max_size=3),
    max_leaves=12,
)


KEYS = sorted({*answer(), "syncs", "loaders", "accumulation", "ranks", "batch"} - {"schema"})


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8))
def test_any_json_is_read_without_a_crash_and_judged_by_nobody_as_well(changes: dict[str, Any]) -> None:
    fact = run(**changes)
    assert isinstance(fact.steps, int)
    assert all(isinstance(loader.batches, int) for loader in fact.loaders)
    fact.unseen()
    assert fact.fixed >= 0


class TestUnseen:
    """What keeps the answer from being "all is well"."""

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"outcome": "crashed", "error": error("internal", "boom")}, "the dry run itself failed"),
            ({"outcome": "unsupported", "unsupported": [{"op": "my::op", "why": "no fake kernel", "went_on": False}]}, "my::op: no fake"),
            ({"outcome": "timeout", "steps": 0, "backwards": 0}, "no step ended within the time limit"),
            ({"outcome": "error", "error": error("script", "'valid'", "KeyError")}, "it stops with KeyError: 'valid'"),
            ({"outcome": "finished", "steps": 0, "backwards": 0, "devices": {"ops": {"cpu": 3}}}, "no model was run"),
        ],
    )
    def test_is_told(self, changes: dict[str, Any], words: str) -> None:
        fact = run(**changes)
        assert words in (fact.unseen() or "")
        assert not fact.working()

    def test_what_went_on_with_a_stated_assumption_does_not_count(self) -> None:
        assert run(unsupported=[{"op": "x", "why": "y", "went_on": True}]).unseen() is None


class TestMemory:
    def test_weights_gradients_and_states_are_counted_before_the_states_exist(self) -> None:
        """2 GiB of weights in the first forward pass: Adam will need 8 GiB, whatever the batch."""
        from parts.dryruns import full

        assert run(**full("forward", weight=2 * GIB, activation=20 * GIB)).fixed == 8 * GIB

    def test_frozen_weights_need_no_gradient(self) -> None:
        from parts.dryruns import full

        devices = answer()["devices"]
        devices["models"][0]["trainable"] = 0
        assert run(**full("forward", weight=2 * GIB), devices=devices).fixed == 2 * GIB
