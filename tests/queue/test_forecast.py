import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.forecast import Forecast, forecast, length, lengths
from ongpu.queue.job import Card, Spec, Told
from ongpu.queue.placement import POLICIES
from ongpu.queue.reasons import Reason

NOW = 1_000_000.0
CARDS = tuple(Card(id=f"g{n}", index=n, memory=81920, name="NVIDIA A100") for n in range(2))
OURS = POLICIES["ours"]


def job(name: str, state: str = "waiting", *, since: float = 100.0, spec: dict[str, object] | None = None, **told: object) -> Told:
    whole = Spec(**{"command": ("x",), "name": name, **(spec or {})})  # type: ignore[arg-type]
    return Told(**{"id": name, "spec": whole, "state": state, "user": "ann", "submitted": NOW - since, "since": NOW - since, **told})  # type: ignore[arg-type]


def runs(name: str, gpus: tuple[str, ...], ago: float, **spec: object) -> Told:
    return job(name, "running", started=NOW - ago, gpus=gpus, spec={"gpus": len(gpus), **spec})


def ask(wanted: str, jobs: list[Told], cards: tuple[Card, ...] = CARDS, past: dict[tuple[str, str], list[float]] | None = None) -> Forecast:
    return forecast(wanted, jobs, cards, OURS, past or {}, NOW)


def test_after_the_limit_of_the_one_that_holds_the_gpus() -> None:
    told = ask("b", [runs("a", ("g0", "g1"), 600, limit=3600.0), job("b", spec={"gpus": 2})])
    assert (told.kind, told.at) == ("at", NOW + 3000)
    assert told.rests == {"limit": 1, "earlier": 0}
    assert told.text("en", NOW).startswith("expected to start in about 50m (")
    assert told.text("en", NOW).endswith("if 1 before it runs to its limit")
    assert told.text("zh", NOW).endswith("假定前面 1 个运行到时限")


def test_earlier_runs_of_that_name_are_better_than_a_limit() -> None:
    past = lengths([job("a", "done", started=0.0 + n, ended=900.0 + n) for n in range(1, 4)])
    told = ask("b", [runs("a", ("g0", "g1"), 600, limit=36_000.0), job("b")], past=past)
    assert (told.at, told.rests) == (NOW + 300, {"limit": 0, "earlier": 1})


def test_a_run_that_is_longer_than_all_before_is_judged_by_its_limit_and_without_one_by_nothing() -> None:
    past = {("ann", "a"): [100.0, 200.0]}
    assert length(runs("a", ("g0",), 600, limit=1000.0), past, NOW) == (400.0, "limit")
    assert length(runs("a", ("g0",), 600), past, NOW) == (None, "")


def test_who_may_run_for_any_time_is_named() -> None:
    told = ask("b", [runs("a", ("g0", "g1"), 600), job("b")])
    assert (told.kind, told.jobs) == ("unknown", ("a",))
    assert "a may run for any time" in told.text("en", NOW)
    assert told.text("zh", NOW).startswith("无法预计何时开始：a ")


def test_those_that_come_before_it_are_run_first() -> None:
    line = [job(f"w{n}", since=1000.0 - n, spec={"gpus": 2, "limit": 600.0}) for n in range(3)]
    told = ask("w2", [runs("a", ("g0", "g1"), 0, limit=60.0), *line])
    assert told.at == NOW + 60 + 600 + 600
    assert told.rests == {"limit": 3, "earlier": 0}


def test_a_free_gpu_is_at_once() -> None:
    told = ask("b", [job("b")])
    assert told.at == NOW
    assert told.text("en", NOW) == "expected to start at any moment, if nothing else comes"


def test_it_waits_for_its_time_its_dependencies_and_its_array() -> None:
    assert ask("b", [job("b", spec={"begin": NOW + 500})]).at == NOW + 500
    assert ask("b", [runs("a", ("g0",), 0, limit=700.0), job("b", spec={"after": (("ok", "a"),)})]).at == NOW + 700
    array = [job(f"t{n}", array="t", spec={"index": n, "at_once": 1, "limit": 100.0}) for n in range(3)]
    assert ask("t2", array).at == NOW + 200


def test_a_sick_gpu_is_not_counted_on() -> None:
    sick = (CARDS[0], Card(id="g1", index=1, memory=81920, state="drained", slug="gpu-fell-off-bus"))
    assert ask("b", [job("b", spec={"gpus": 2})], sick).kind == "never"
    assert ask("b", [job("b", spec={"model": "H100"})]).kind == "never"
    assert ask("b", [job("b", spec={"memory": 90_000})]).kind == "never"


def test_a_gpu_that_strangers_hold_is_not_counted_on() -> None:
    taken = (CARDS[0], Card(id="g1", index=1, memory=81920, foreign=("python (bob)",)))
    assert ask("b", [job("b", spec={"gpus": 2})], taken).kind == "others"
    assert ask("b", [job("b")], taken).at == NOW


def test_what_is_no_question_of_gpus_is_not_forecast() -> None:
    assert ask("b", [job("b", "held")]).kind == "held"
    assert ask("b", [job("b", said=Reason("quota-gpus", {"who": "ann", "held": 2, "allowed": 2}).json())]).kind == "other"
    assert ask("z", [job("b")]).kind == "far"


def test_what_the_reason_itself_says_is_not_called_unknown() -> None:
    running = Reason("reservation-runs", {"gpus": 2, "name": "demo", "begin": "-", "end": "19:17"})
    assert ask("b", [job("b", said=running.json())]).text("en", NOW) == "it can start when the reservation is over"
    later = Reason("reservation-later", {"name": "demo", "begin": "19:17"})
    assert ask("b", [job("b", said=later.json())]).text("zh", NOW) == "预留开始后才能开始"


def test_a_job_whose_time_has_not_come_waits_for_nobody_else() -> None:
    told = ask("b", [runs("a", ("g0",), 0, limit=600.0), job("b", spec={"begin": NOW + 3600})])
    assert (told.at, told.text("en", NOW).endswith("if nothing else comes")) == (NOW + 3600, True)
    behind = ask("b", [runs("a", ("g0", "g1"), 0, limit=7200.0), job("b", spec={"begin": NOW + 3600})])
    assert (behind.at, behind.rests["limit"]) == (NOW + 7200, 1)


def test_who_did_not_save_is_not_counted_on_to_give_way() -> None:
    stays = Reason("no-checkpoint", {"signal": "SIGUSR1"}).json()
    old = runs("a", ("g0", "g1"), 50_000, checkpoint="SIGUSR1")
    assert ask("b", [old, job("b", spec={"gpus": 2, "limit": 60.0})]).kind == "at"
    told = ask("b", [job("a", "running", started=NOW - 50_000, gpus=("g0", "g1"), said=stays, spec={"gpus": 2, "checkpoint": "SIGUSR1"}),
                     job("b", spec={"gpus": 2, "limit": 60.0})])  # fmt: skip
    assert (told.kind, told.jobs) == ("unknown", ("a",))


def test_what_comes_after_a_job_that_is_held_names_nobody() -> None:
    told = ask("b", [job("a", "held"), job("b", spec={"after": (("any", "a"),)})])
    assert (told.kind, told.text("en", NOW)) == ("other", "when that changes cannot be told")


def test_preempted_jobs_come_back() -> None:
    first = runs("a", ("g0", "g1"), 50_000, limit=60_000.0, checkpoint="SIGUSR1")
    told = ask("c", [first, job("b", since=10.0, spec={"gpus": 2, "limit": 300.0}), job("c", since=5.0, spec={"gpus": 2, "limit": 300.0})])
    assert told.kind == "at"
    assert told.at is not None
    assert NOW <= told.at <= NOW + 1000


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", ["held", "never", "others", "far", "other", "unknown", "at"])
def test_each_has_words(kind: str, lang: str) -> None:
    assert Forecast(kind=kind, at=NOW + 90_000, rests={"limit": 2, "earlier": 3}, jobs=("1", "2", "3", "4")).text(lang, NOW)


def test_a_long_line_is_answered_in_time() -> None:
    import time

    line = [job(f"w{n}", since=5000.0 - n, spec={"limit": 600.0}) for n in range(500)]
    begin = time.process_time()
    assert ask("w499", line).kind == "at"
    assert time.process_time() - begin < 5


SPECS = st.fixed_dictionaries(
    {"gpus": st.integers(0, 3)},
    optional={
        "limit": st.floats(1, 1e6), "memory": st.sampled_from([1000, 81920, 90_000]),
        "checkpoint": st.just("SIGUSR1"), "priority": st.integers(-10, 10),
        "begin": st.floats(NOW - 1e5, NOW + 1e5), "after": st.sampled_from([(("ok", "j0"),), (("any", "gone"),)]), "share": st.just(True),
    },
)  # fmt: skip


@given(
    st.lists(st.tuples(SPECS, st.sampled_from(["waiting", "held", "running", "ending"]), st.floats(0, 1e6)), min_size=1, max_size=12),
    st.integers(0, 3),
    st.sampled_from(["ok", "drained"]),
)
def test_whatever_the_queue_is_there_is_an_answer(made: list[tuple[dict[str, object], str, float]], gpus: int, state: str) -> None:
    cards = tuple(Card(id=f"g{n}", index=n, memory=81920, state=state if n == 0 else "ok") for n in range(gpus))
    free = [card.id for card in cards]
    jobs = []
    for number, (spec, kind, ago) in enumerate(made):
        held = tuple(free[: int(spec["gpus"])]) if kind in ("running", "ending") else ()  # type: ignore[call-overload]
        free = free[len(held) :]
        more = {"started": NOW - ago, "gpus": held} if held or kind in ("running", "ending") else {}
        jobs.append(job(f"j{number}", kind, since=ago, spec=spec, **more))
    for one in jobs:
        told = ask(one.id, jobs, cards)
        assert told.text("en", NOW)
        assert told.text("zh", NOW)
        assert (told.at is not None) == (told.kind == "at")
        assert told.at is None or told.at >= NOW


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 1000)), min_size=1, max_size=10))
def test_where_all_limits_are_known_each_start_is_too(made: list[tuple[int, int]]) -> None:
    jobs = [job(f"j{n}", since=100.0 - n, spec={"gpus": gpus, "limit": float(limit)}) for n, (gpus, limit) in enumerate(made)]
    starts = [ask(one.id, jobs) for one in jobs]
    assert all(told.kind == "at" for told in starts)
    total = sum(gpus * limit for gpus, limit in made)
    assert max(told.at or 0.0 for told in starts) <= NOW + total
