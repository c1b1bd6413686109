import random
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ongpu.lazy import replace
from ongpu.queue.figures import drawing, figures, geometric
from ongpu.queue.lines import Lines
from ongpu.queue.placement import DAY, HOUR, POLICIES, Job, Policy
from ongpu.queue.simulate import RESTART, Result, Simulation, Task, draw, machine, simulate

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking a whole replay takes minutes
dices = st.integers(0, 2**32).map(random.Random)


def task(name: str, submitted: float, duration: float, gpus: int = 1, **more: object) -> Task:
    return Task(name, submitted, duration, gpus, **more)  # type: ignore[arg-type]


def some(dice: random.Random, count: int = 60) -> list[Task]:
    return [
        task(f"{n:03d}", dice.uniform(0, 3 * DAY), dice.choice((60, 3000, 20_000, 60_000)), dice.choice((1, 1, 1, 2, 4, 8)),
             user=dice.choice(("ann", "bob", "cid")), checkpoint=dice.random() < 0.5)
        for n in range(count)
    ]  # fmt: skip


def test_first_in_first_out() -> None:
    tasks = [task("a", 0, 100, 2), task("b", 1, 100, 8), task("c", 2, 10, 1)]
    result = simulate(tasks, machine(8), POLICIES["fifo"])
    assert result.times == {"a": 100, "b": 199, "c": 208}
    assert result.waits == {"a": 0, "b": 99, "c": 198}


def test_easy_backfills_what_ends_in_time() -> None:
    tasks = [task("a", 0, 100, 2), task("b", 1, 100, 8), task("c", 2, 10, 1), task("d", 3, 98, 1)]
    assert simulate(tasks, machine(8), POLICIES["easy"]).times == {"a": 100, "b": 199, "c": 10, "d": 295}


def test_shortest_first() -> None:
    tasks = [task("a", 0, 100, 8), task("b", 1, 50, 8), task("c", 2, 10, 8)]
    assert simulate(tasks, machine(8), POLICIES["sjf"]).times == {"a": 100, "c": 108, "b": 159}


def test_a_preempted_job_pays_for_its_restart_and_loses_nothing_else() -> None:
    tasks = [task("long", 0, 10 * HOUR, 8, checkpoint=True), task("new", 5 * HOUR, HOUR / 16, 8, checkpoint=True)]
    result = simulate(tasks, machine(8), POLICIES["ours"])
    assert result.times["new"] == pytest.approx(HOUR / 16)
    assert result.times["long"] == pytest.approx(10 * HOUR + HOUR / 16 + RESTART)
    assert result.preemptions == 1
    hard = simulate([replace(one, checkpoint=False) for one in tasks], machine(8), POLICIES["ours"])
    assert hard.preemptions == 0
    assert hard.times["long"] == 10 * HOUR


@settings(max_examples=30, deadline=None, phases=QUICK)
@given(dices, st.sampled_from(list(POLICIES.values())), st.sampled_from([0.0, 3.0]))
def test_all_jobs_end_no_gpu_idles_and_none_starts_on_a_fault(dice: random.Random, policy: Policy, faults: float) -> None:
    tasks = some(dice)
    result = simulate(tasks, machine(12), policy, faults, dice.randrange(100))
    assert result.lost == []
    assert result.idle == 0
    assert result.on_fault == 0
    assert result.kept == 0
    for one in tasks:
        assert result.times[one.id] >= one.duration - 1e-3
    assert simulate(tasks, machine(12), policy, faults, 1) == simulate(list(reversed(tasks)), machine(12), policy, faults, 1)


class Whole(Lines):
    """The plain version: every decision sees the whole queue."""

    def heads(self, *_: object) -> list[Job]:  # type: ignore[override]
        return [entry[-1] for entries in self.lines.values() for entry in entries]


@settings(max_examples=15, deadline=None, phases=QUICK)
@given(dices, st.sampled_from(list(POLICIES.values())))
def test_a_replay_with_heads_is_the_replay_with_whole_queues(dice: random.Random, policy: Policy) -> None:
    policy = replace(policy, patience=DAY) if policy.name == "ours" else policy  # so that some are overdue
    tasks = some(dice, 80)
    plain = Simulation(tasks, machine(9), policy, 2.0)
    plain.lines = Whole(policy)
    mine, whole = Simulation(tasks, machine(9), policy, 2.0).run(), plain.run()
    assert mine.times == whole.times
    assert (mine.preemptions, mine.on_fault, mine.kept) == (whole.preemptions, whole.on_fault, whole.kept)


def test_a_wide_job_is_not_starved_by_small_ones() -> None:
    small = [task(f"s{n:04d}", n * 600.0, 5000.0, 1) for n in range(3000)]  # 8.3 GPUs wanted of 8, for 21 days
    wide = [task("wide", 1000.0, HOUR, 8)]
    policy = replace(POLICIES["ours"], patience=DAY)
    result = simulate(small + wide, machine(8), policy)
    assert result.times["wide"] <= policy.patience * (1 + policy.width) + 2 * 5000 + HOUR + 6 * HOUR  # asked each six hours
    assert result.kept > 0
    assert result.idle == 0
    never = simulate(small + wide, machine(8), replace(policy, patience=float("inf")))
    assert never.times["wide"] > 10 * DAY


def test_overdue_jobs_start_in_the_order_of_their_waiting() -> None:
    small = [task(f"s{n:04d}", n * 600.0, 5000.0, 1, checkpoint=True) for n in range(2000)]
    wide = [task(f"w{n}", 1000.0 + n, HOUR, 8) for n in range(4)]
    result = simulate(small + wide, machine(8), replace(POLICIES["ours"], patience=DAY))
    ends = [result.times[f"w{n}"] for n in range(4)]
    assert all(a < b for a, b in pairwise(ends))
    assert ends[-1] < 5 * DAY


def test_a_faulted_gpu_ends_what_runs_there_and_a_checkpoint_saves_work() -> None:
    tasks = draw([task(f"{n}", 0.0, 20 * DAY, 1) for n in range(8)], 0.5, 3)
    result = simulate(tasks, machine(8), POLICIES["ours"], faults=3.0)
    assert result.failures > 5
    soft = [result.times[one.id] for one in tasks if one.checkpoint]
    hard = [result.times[one.id] for one in tasks if not one.checkpoint]
    assert sum(soft) / len(soft) < sum(hard) / len(hard)


def test_fair_share_evens_out_users() -> None:
    many = [task(f"a{n:03d}", n, 2 * HOUR, 1, user="ann", checkpoint=True) for n in range(300)]
    few = [task(f"b{n:03d}", 20 * HOUR + n * HOUR, HOUR, 1, user="bob", checkpoint=True) for n in range(10)]
    result = simulate(many + few, machine(8), POLICIES["ours"])
    assert max(result.times[one.id] for one in few[6:]) < 4 * HOUR  # whose share is looked at each six hours


def test_what_wants_more_than_there_is_takes_no_part() -> None:
    assert simulate([task("a", 0, 1, 9), task("b", 0, 1, 8)], machine(8), POLICIES["ours"]).times == {"b": 1}
    assert simulate([], machine(8), POLICIES["ours"]).times == {}
    large = [task("a", 0, 1, memory=1 << 31), task("b", 0, 1)]
    assert simulate(large, machine(8), POLICIES["ours"]).times == {"b": 1}


def test_what_fails_again_and_again_is_given_up_and_all_else_ends() -> None:
    tasks = [task("hard", 0, 400 * DAY), task("soft", 0, 20 * DAY, checkpoint=True), task("brief", 100 * DAY, HOUR)]
    for policy in POLICIES.values():
        result = simulate(tasks, machine(8), policy, faults=20.0)
        assert set(result.times) | set(result.lost) == {"hard", "soft", "brief"}
        assert "brief" in result.times
    result = simulate(tasks, machine(8), POLICIES["ours"], faults=20.0)
    assert result.lost == ["hard"]
    assert figures(result, tasks)["never"] == 1


def test_figures() -> None:
    result = Result("x", {"a": 3600.0, "b": 7200.0}, {"a": 0.0, "b": 3600.0}, {})
    rows = figures(result, [task("a", 0, 3600, user="ann"), task("b", 0, 3600, user="bob")])
    assert (rows["mean"], rows["p50"], rows["worst"], rows["wait"]) == (1.5, 2.0, 2.0, 0.5)
    assert rows["fair"] == pytest.approx(9 / (2 * 5))
    assert geometric([1, 4]) == pytest.approx(2)
    assert figures(Result("x", {}, {}, {}), [])["mean"] == 0


def test_the_drawing_is_well_formed_and_escapes() -> None:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(drawing({"ours": [0.0, 0.5, 3.0], "none": []}, "<script>&", "h"))
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert len([one for one in root.iter() if one.tag.endswith("polyline")]) == 2
