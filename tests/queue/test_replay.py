"""When waiting jobs start: the replay of the queue's own decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.lazy import replace
from ongpu.queue.admission import Reservation
from ongpu.queue.config import Quota, Quotas
from ongpu.queue.engines.local.schema import SPAN
from ongpu.queue.forecast import Forecast, Lengths, Terms, lengths
from ongpu.queue.job import Card, Spec, Told
from ongpu.queue.placement import POLICIES, Gpu
from ongpu.queue.reasons import Reason
from ongpu.queue.replay import Replay
from ongpu.queue.simulate import Task, simulate

NOW = 1_000_000.0
CARDS = tuple(Card(id=f"g{n}", index=n, memory=81920, name="NVIDIA A100") for n in range(2))
TERMS = Terms(policy=POLICIES["ours"])


def job(name: str, state: str = "waiting", *, since: float = 100.0, spec: dict[str, object] | None = None, **told: object) -> Told:
    whole = Spec(**{"command": ("x",), "name": name, **(spec or {})})  # type: ignore[arg-type]
    return Told(**{"id": name, "spec": whole, "state": state, "user": "ann", "submitted": NOW - since, "since": NOW - since, **told})  # type: ignore[arg-type]


def runs(name: str, gpus: tuple[str, ...], ago: float, **spec: object) -> Told:
    return job(name, "running", started=NOW - ago, gpus=gpus, spec={"gpus": len(gpus), **spec})


def ask(wanted: str, jobs: list[Told], cards: tuple[Card, ...] = CARDS, past: Lengths | None = None, terms: Terms = TERMS) -> Forecast:
    return Replay(jobs, cards, terms, past or {}, NOW).start(wanted)


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


def test_what_nobody_can_replay_is_not_forecast() -> None:
    assert ask("b", [job("b", "held")]).kind == "held"
    assert ask("b", [job("b", said=Reason("blind").json())]).kind == "other"
    assert ask("b", [job("b", said="a word of a newer daemon")]).kind == "other"
    assert ask("z", [job("b")]).kind == "far"


def test_a_quota_of_gpus_is_waited_for() -> None:
    jobs = [runs("a", ("g0",), 600, limit=3600.0), job("b"), job("c", user="bob")]
    terms = Terms(quotas=Quotas(users={"ann": Quota(gpus=1)}))
    assert ask("b", jobs).at == NOW
    told = ask("b", jobs, terms=terms)
    assert (told.at, told.rests) == (NOW + 3000, {"limit": 1, "earlier": 0})
    assert ask("c", jobs, terms=terms).at == NOW  # it is not bob's
    said = Reason("quota-gpus", {"who": "ann", "held": 1, "allowed": 1}).json()
    assert ask("b", [jobs[0], job("b", said=said)], terms=terms).at == NOW + 3000


def test_a_quota_of_gpu_hours_opens_when_the_old_ones_are_a_week_ago() -> None:
    span = int(NOW // SPAN)
    terms = Terms(quotas=Quotas(each=Quota(gpu_hours=10)), used=(("user:ann", span - 27, 30_000.0), ("user:ann", span, 10_000.0)))
    told = ask("b", [job("b")], terms=terms)
    assert told.at == (span + 2) * SPAN  # then the first of the two is out of the last 28 steps
    assert told.at - NOW <= 7 * 86_400
    running = [runs("a", ("g0",), 3600, limit=7200.0), job("b")]
    used = Terms(quotas=Quotas(each=Quota(gpu_hours=1.5)), used=())
    assert ask("b", running, terms=used).at == NOW  # 1 hour was used so far
    assert ask("b", running, terms=Terms(quotas=Quotas(each=Quota(gpu_hours=1.0)))).at == (span + 29) * SPAN


def test_cpus_and_host_memory_are_waited_for() -> None:
    first = runs("a", ("g0",), 0, limit=500.0, cpus=6, host_memory=50_000)
    for spec in ({"cpus": 4}, {"host_memory": 20_000}, {"cpus": 4, "gpus": 0}):
        assert ask("b", [first, job("b", spec=spec)]).at == NOW
        assert ask("b", [first, job("b", spec=spec)], terms=Terms(cpus=8, host_memory=64_000)).at == NOW + 500
    line = [job(f"w{n}", spec={"gpus": 0, "limit": 100.0}) for n in range(3)]  # what needs no GPU takes a CPU
    assert [ask(one.id, line, terms=Terms(cpus=2)).at for one in line] == [NOW, NOW, NOW + 100]
    assert ask("b", [job("b", spec={"cpus": 9})], terms=Terms(cpus=8)).kind == "other"


def test_reservations_are_kept_and_used() -> None:
    kept = Terms(reservations=(Reservation(name="demo", begin=NOW + 600, end=NOW + 3600, gpus=2, users=("bob",)),))
    assert ask("b", [job("b", spec={"limit": 600.0})], terms=kept).at == NOW
    assert ask("b", [job("b", spec={"limit": 601.0})], terms=kept).at == NOW + 3600
    assert ask("b", [job("b")], terms=kept).at == NOW + 3600  # nobody knows when it would end
    assert ask("b", [job("b", user="bob")], terms=kept).at == NOW
    assert ask("b", [job("b", user="bob", spec={"reservation": "demo"})], terms=kept).at == NOW + 600
    assert ask("b", [job("b", user="bob", spec={"reservation": "gone"})], terms=kept).kind == "other"
    began = Terms(reservations=(Reservation(name="demo", begin=NOW - 600, end=NOW + 3600, gpus=2),))
    said = Reason("reservation-runs", {"gpus": 2, "name": "demo", "begin": "-", "end": "-"}).json()
    assert ask("b", [job("b", said=said)], terms=began).at == NOW + 3600


def test_who_can_save_its_state_leaves_when_a_reservation_begins() -> None:
    terms = Terms(reservations=(Reservation(name="demo", begin=NOW + 600, end=NOW + 3600, gpus=2, users=("bob",)),))
    jobs = [job("a", spec={"gpus": 2, "checkpoint": "SIGUSR1", "limit": 50_000.0}),
            job("b", user="bob", spec={"gpus": 2, "begin": NOW + 601})]  # fmt: skip
    assert ask("a", jobs, terms=terms).at == NOW
    assert ask("b", jobs, terms=terms).at == NOW + 601


def test_parts_of_a_gpu_stand_beside_each_other() -> None:
    part = {"share": True, "memory": 40_000, "limit": 100.0}
    first = job("a", "running", started=NOW, gpus=("g0",), spec=part)
    jobs = [first, job("b", spec=part), job("c", spec=part), job("d", spec=part), job("e", spec={"gpus": 2})]
    assert [ask(name, jobs).at for name in "bcde"] == [NOW, NOW, NOW, NOW + 100]
    assert ask("b", [first, job("b", spec={**part, "memory": 81_920})]).kind == "never"  # some is left to the driver


def test_what_a_job_asks_of_a_gpu_is_asked_of_it() -> None:
    mixed = (CARDS[0], Card(id="h0", index=1, memory=81920, name="NVIDIA H100", capability="9.0"))
    jobs = [runs("a", ("h0",), 0, limit=500.0), job("b", spec={"model": "h100"}), job("c", spec={"capability": (9, 0)})]
    assert ask("b", jobs, mixed).at == NOW + 500
    assert ask("c", jobs, mixed).kind == "unknown"  # b comes first, and may run for any time
    assert ask("b", [job("b", more={"avoid": ("g0",)}, spec={"gpus": 2})]).kind == "never"


def test_a_gpu_that_is_unfit_is_not_counted_on_and_no_reason_to_leave() -> None:
    for more in ({"state": "suspect"}, {"slug": "gpu-not-judged"}, {"slug": "xid-79", "drained_by": "bob"}):
        unfit = (Card(id="g0", index=0, memory=81920, **more), CARDS[1])
        assert ask("b", [job("b", spec={"gpus": 2})], unfit).kind == "never"
        held = [runs("a", ("g0",), 0, limit=500.0, checkpoint="SIGUSR1"), runs("c", ("g1",), 0, limit=900.0), job("b")]
        assert ask("b", held, unfit).at == NOW + 900
    drained = (Card(id="g0", index=0, memory=81920, state="drained", slug="xid-79"), CARDS[1])
    moved = [runs("a", ("g0",), 0, limit=500.0, checkpoint="SIGUSR1"), job("b", since=50.0)]
    assert ask("b", moved, drained).at == NOW  # a waits behind it from now on


def test_of_gpus_that_no_card_tells_of_nothing_is_promised() -> None:
    jobs = [runs("a", ("MIG-1",), 0, limit=500.0), job("b"), job("c", spec={"gpus": 0})]
    assert [ask(name, jobs).kind for name in "bc"] == ["other", "at"]


def test_a_job_that_is_made_to_end_is_soon_gone() -> None:
    asked = job("a", "ending", started=NOW - 600, gpus=("g0", "g1"), more={"wish": "cancel"}, spec={"gpus": 2, "grace": 30.0})
    assert ask("b", [asked, job("b")]).at == NOW + 30
    gives_way = job("a", "ending", started=NOW - 6000, gpus=("g0", "g1"), more={"wish": "preempt"},
                    spec={"gpus": 2, "checkpoint": "SIGUSR1", "limit": 7000.0})  # fmt: skip
    jobs = [gives_way, job("b", spec={"gpus": 2, "limit": 100.0}), job("c", spec={"gpus": 2, "limit": 100.0, "priority": -5})]
    assert ask("b", jobs).at == NOW
    assert ask("c", jobs).at == NOW + 100 + 1000 + 60  # a goes on before it


def test_who_can_save_its_state_gives_way_once_it_has_used_more() -> None:
    told = ask("b", [runs("a", ("g0", "g1"), 600, checkpoint="SIGUSR1"), job("b", spec={"limit": 60.0})])
    assert told.kind == "at"  # nobody knows how long a runs; at one GPU hour it gives way
    assert told.at == pytest.approx(NOW + 1200, abs=1)
    assert told.rests == {"limit": 0, "earlier": 0}


def test_an_overdue_job_is_let_in() -> None:
    first = job("a", "running", started=NOW - 600, gpus=("g0", "g1"), spec={"gpus": 2, "checkpoint": "SIGUSR1", "priority": 10})
    told = ask("b", [first, job("b", since=20 * 86_400.0, spec={"gpus": 2, "checkpoint": "SIGUSR1"})])
    assert told.at is not None
    assert NOW + 86_400 <= told.at <= NOW + 86_400 + 6 * 3600


def test_the_fair_share_counts() -> None:
    jobs = [runs("a", ("g0", "g1"), 0, limit=600.0), job("b", since=100.0, spec={"gpus": 2, "limit": 50.0}),
            job("c", since=50.0, user="bob", spec={"gpus": 2, "limit": 50.0})]  # fmt: skip
    assert [ask(name, jobs).at for name in "bc"] == [NOW + 600, NOW + 650]
    spent = Terms(policy=replace(POLICIES["ours"], spent={"user:ann": 1e6, "user:bob": 0.0}))
    assert [ask(name, jobs, terms=spent).at for name in "bc"] == [NOW + 650, NOW + 600]


def test_an_array_is_waited_for_as_a_whole() -> None:
    array = [job(f"{n}", array="7", spec={"index": n, "at_once": 1, "limit": 100.0}) for n in range(3)]
    after = {"after": (("any", "7"),)}
    assert ask("b", [*array, job("b", spec=after)]).at == NOW + 300
    for name in ("7_1", "7[1]"):
        assert ask("b", [*array, job("b", spec={"after": (("ok", name),)})]).at == NOW + 200
    replay = Replay([*array, job("b", spec=after)], CARDS, TERMS, {}, NOW, cut=True)
    assert replay.start("b").kind == "far"  # who knows how many more there are of it


def test_what_comes_after_a_job_that_was_not_looked_at_is_not_promised() -> None:
    told = job("b", spec={"after": (("ok", "3"), ("ok", "900"))}, more={"blocked": 1})
    assert ask("b", [told]).kind == "far"
    assert ask("c", [told, job("c", spec={"after": (("ok", "b"),)})]).kind == "far"


def test_jobs_that_wait_for_each_other_wait_for_ever() -> None:
    jobs = [job("a", spec={"after": (("ok", "b"),)}), job("b", spec={"after": (("ok", "a"),)})]
    assert ask("a", jobs).kind == "other"


def test_what_waits_behind_a_chain_names_who_runs_for_ever() -> None:
    after = [job("b", spec={"after": (("ok", "a"),)}), job("c", spec={"after": (("ok", "b"),)})]
    chain = [runs("a", ("g0",), 0), runs("x", ("g1",), 0), *after]
    assert ask("c", chain).jobs == ("a",)


def test_the_replay_goes_on_where_it_was() -> None:
    jobs = [job(f"w{n}", since=100.0 - n, spec={"gpus": 2, "limit": 10.0 + n}) for n in range(8)]
    replay = Replay(jobs, CARDS, TERMS, {}, NOW)
    backwards = {one.id: replay.start(one.id) for one in reversed(jobs)}
    assert backwards == {one.id: ask(one.id, jobs) for one in jobs}
    assert Replay(jobs, CARDS, TERMS, {}, NOW, late=lambda: True).start("w7").kind == "far"


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


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(60, 40_000), st.booleans()), min_size=1, max_size=9))
def test_it_says_what_the_simulation_does(made: list[tuple[int, int, bool]]) -> None:
    tasks = [
        Task(f"{n + 1}", NOW, float(long), gpus, checkpoint=saves, limit=float(long)) for n, (gpus, long, saves) in enumerate(made)
    ]  # fmt: skip
    waits = simulate(tasks, [Gpu(f"g{n}") for n in range(4)], POLICIES["ours"]).waits
    jobs = [
        job(task.id, since=0.0, spec={"gpus": task.gpus, "limit": task.limit, "checkpoint": "SIGUSR1" if task.checkpoint else ""})
        for task in tasks
    ]  # fmt: skip
    cards = tuple(Card(id=f"g{n}", memory=81920) for n in range(4))
    replay = Replay(jobs, cards, TERMS, {}, NOW)
    for task in tasks:
        if not task.checkpoint:  # the others' waits may be in several pieces
            assert replay.start(task.id).at == pytest.approx(NOW + waits[task.id], abs=0.01)
