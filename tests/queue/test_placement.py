import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import NOW, queue

from ongpu.lazy import replace
from ongpu.queue.lines import Lines
from ongpu.queue.placement import (
    BASE,
    DAY,
    POLICIES,
    Decision,
    Gpu,
    Hold,
    Job,
    Policy,
    Preempt,
    Start,
    bucket,
    next_bucket,
    patience,
    place,
)
from ongpu.queue.placing import choose
from ongpu.queue.reasons import WORDS, Reason

OURS = POLICIES["ours"]
SPENT = replace(OURS, spent={"user:ann": 9e6, "user:bob": 1e5, "project:vision": 5e5})
ALL = [*POLICIES.values(), SPENT]
dices = st.integers(0, 2**32).map(random.Random)
policies = st.sampled_from(ALL)


def eight(node: str = "n") -> list[Gpu]:
    return [Gpu(f"{node}{n}", node) for n in range(8)]


def waits(name: str, gpus: int = 1, since: float = NOW, **more: object) -> Job:
    return Job(name, gpus, since, since, **more)  # type: ignore[arg-type]


def starts(decisions: list[Decision]) -> dict[str, tuple[str, ...]]:
    return {one.job.id: one.gpus for one in decisions if isinstance(one, Start)}


def preempted(decisions: list[Decision]) -> list[str]:
    return [one.job.id for one in decisions if isinstance(one, Preempt)]


def why(decisions: list[Decision], name: str) -> str:
    return next(one.why.name for one in decisions if one.job.id == name)


@settings(max_examples=300, deadline=None)
@given(dices, policies)
def test_no_gpu_twice_none_faulty_none_taken_and_large_enough(dice: random.Random, policy: Policy) -> None:
    jobs, gpus = queue(dice)
    decisions = place(jobs, gpus, policy, NOW)
    gone = set(preempted(decisions))
    cards = {gpu.id: gpu for gpu in gpus}
    used = [gpu for job in jobs if job.started is not None and job.id not in gone for gpu in job.held]
    for one in decisions:
        if isinstance(one, Start):
            assert len(one.gpus) == one.job.gpus
            assert all(not cards[gpu].fault and not cards[gpu].taken and cards[gpu].memory >= one.job.memory for gpu in one.gpus)
            used += one.gpus
    assert len(used) == len(set(used))


@settings(max_examples=300, deadline=None)
@given(dices, policies)
def test_only_running_jobs_that_declare_a_checkpoint_give_way(dice: random.Random, policy: Policy) -> None:
    jobs, gpus = queue(dice)
    for one in place(jobs, gpus, policy, NOW):
        if isinstance(one, Preempt):
            assert policy.preempts
            assert one.job.checkpoint
            assert one.job.started is not None


@settings(max_examples=300, deadline=None)
@given(dices, policies)
def test_every_waiting_job_is_told_exactly_once_in_both_languages(dice: random.Random, policy: Policy) -> None:
    jobs, gpus = queue(dice)
    decisions = place(jobs, gpus, policy, NOW)
    answered = [one.job.id for one in decisions if not isinstance(one, Preempt)]
    assert sorted(answered) == sorted(job.id for job in jobs if job.started is None)
    for one in decisions:
        assert one.why.text("en") != one.why.text("zh")


@settings(max_examples=300, deadline=None)
@given(dices, st.sampled_from([policy for policy in ALL if policy.passing == "all"]))
def test_nothing_is_idle_while_a_fitting_job_waits(dice: random.Random, policy: Policy) -> None:
    jobs, gpus = queue(dice)
    decisions = place(jobs, gpus, policy, NOW)
    gone = set(preempted(decisions))
    used = {gpu for job in jobs if job.id not in gone for gpu in job.held} | {gpu for held in starts(decisions).values() for gpu in held}
    idle = [gpu for gpu in gpus if gpu.id not in used and not gpu.fault and not gpu.taken]
    for one in decisions:
        if isinstance(one, Hold) and one.why.name != "reserved":
            assert sum(gpu.memory >= one.job.memory for gpu in idle) < one.job.gpus


@settings(max_examples=300, deadline=None)
@given(dices, policies)
def test_the_order_of_the_arguments_changes_nothing(dice: random.Random, policy: Policy) -> None:
    jobs, gpus = queue(dice)
    first = place(jobs, gpus, policy, NOW)
    dice.shuffle(jobs)
    assert place(jobs, gpus, policy, NOW) == first


@settings(max_examples=1000, deadline=None)
@given(dices, policies)
def test_the_heads_of_the_lines_give_the_answer_of_the_whole_queue(dice: random.Random, policy: Policy) -> None:
    jobs, gpus = queue(dice)
    lines, running = Lines(policy), [job for job in jobs if job.started is not None]
    for job in jobs:
        if job.started is None:
            lines.add(job)
    heads = lines.heads(running, gpus, NOW)
    whole = place(jobs, gpus, policy, NOW)
    part = place(running + heads, gpus, policy, NOW)
    assert starts(part) == starts(whole)
    assert preempted(part) == preempted(whole)


@settings(max_examples=300, deadline=None)
@given(
    dices, st.floats(0, 1), st.floats(0, 1), st.sampled_from([1.0, DAY, 21 * DAY]), st.floats(0, 100), st.sampled_from([1.0, DAY, 1e9]),
    st.floats(1.1, 100), st.booleans(),
)  # fmt: skip
def test_whatever_the_knobs_of_ours_are_the_promises_hold(
    dice: random.Random, headroom: float, lane: float, wait: float, width: float, turn: float, factor: float, preempts: bool
) -> None:
    policy = replace(OURS, headroom=headroom, lane=lane, patience=wait, width=width, turn=turn, factor=factor, preempts=preempts)
    jobs, gpus = queue(dice)
    lines, running = Lines(policy), [job for job in jobs if job.started is not None]
    for job in jobs:
        if job.started is None:
            lines.add(job)
    whole = place(jobs, gpus, policy, NOW)
    part = place(running + lines.heads(running, gpus, NOW), gpus, policy, NOW)
    assert (starts(part), preempted(part)) == (starts(whole), preempted(whole))
    assert not {job.id for job in running} & starts(whole).keys()
    used = {gpu for job in running if job.id not in preempted(whole) for gpu in job.held}
    used |= {gpu for held in starts(whole).values() for gpu in held}
    idle = [gpu for gpu in gpus if gpu.id not in used and not gpu.fault and not gpu.taken]
    held = [one for one in whole if isinstance(one, Hold) and one.why.name != "reserved"]
    assert all(sum(gpu.memory >= one.job.memory for gpu in idle) < one.job.gpus for one in held)


def test_heads_are_few() -> None:
    lines = Lines(OURS)
    for n in range(1000):
        lines.add(waits(f"j{n}", 1 + n % 3, NOW - n))
    running = [waits(f"r{n}").begun(NOW - 10, (f"n{n}",)) for n in range(7)]
    heads = lines.heads(running, eight(), NOW)
    assert [job.id for job in heads] == ["j999"]  # one GPU is free, nobody can be moved: the oldest that wants one


def test_a_line_forgets_who_left() -> None:
    lines, job = Lines(OURS), waits("a")
    lines.add(job)
    lines.remove(job)
    assert lines.count == 0
    assert lines.heads([], eight(), NOW) == []
    with pytest.raises(KeyError):
        lines.remove(job)


def test_buckets_double() -> None:
    assert [bucket(hours * BASE) for hours in (0, 0.99, 1, 1.99, 2, 4, 1024)] == [0, 0, 1, 1, 2, 3, 11]
    assert [next_bucket(hours * BASE) / BASE for hours in (0, 1, 1.5, 2)] == [1, 2, 2, 4]


def test_less_gpu_time_comes_first_and_who_runs_stays_within_a_bucket() -> None:
    runs = waits("old", 8, checkpoint=True, attained=100 * BASE).begun(NOW - 60, tuple(f"n{n}" for n in range(8)))
    same = waits("same", 8, checkpoint=True, attained=100 * BASE)
    new = waits("new", 1, checkpoint=True)
    assert preempted(place([runs, same], eight(), OURS, NOW)) == []
    decisions = place([runs, new], eight(), OURS, NOW)
    assert preempted(decisions) == ["old"]
    assert why(decisions, "old") == "gives-way"
    assert why(decisions, "new") == "takes-place"
    assert "old" in next(one for one in decisions if one.job.id == "new").why.text("en")


def test_uninterruptible_jobs_leave_headroom_but_idle_gpus_are_theirs() -> None:
    runs = [waits(f"r{n}", 1, checkpoint=True, attained=50 * BASE).begun(NOW - 60, (f"n{n}",)) for n in range(8)]
    new = [waits(f"w{n}", 1, NOW - n) for n in range(5)]
    decisions = place([*runs, *new], eight(), OURS, NOW)
    assert len(starts(decisions)) == 2  # 0.3 x 8
    assert why(decisions, "w0") == "headroom"
    assert len(starts(place(new, eight(), OURS, NOW))) == 5
    told = [replace(job, limit=1800.0) for job in new]
    assert len(starts(place([*runs, *told], eight(), OURS, NOW))) == 5  # short by their own word


def test_fair_share_puts_the_heavy_user_behind() -> None:
    jobs = [waits("a", 8, NOW - 50, user="ann"), waits("b", 8, NOW - 10, user="bob")]
    assert list(starts(place(jobs, eight(), OURS, NOW))) == ["a"]
    spent = replace(OURS, spent={"user:ann": 1e6, "user:bob": 1e3, "user:cid": 1e3})
    assert list(starts(place(jobs, eight(), spent, NOW))) == ["b"]


def test_a_priority_is_worth_a_bucket() -> None:
    jobs = [waits("a", 8, NOW - 50), waits("b", 8, priority=1)]
    assert list(starts(place(jobs, eight(), OURS, NOW))) == ["b"]


def test_the_overdue_comes_first_and_gpus_are_kept_for_it() -> None:
    wide = waits("wide", 8, NOW - 80 * DAY)
    stays = waits("stays").begun(NOW - 100, ("n0",))
    small = waits("small", 1)
    soft = waits("soft", 1, checkpoint=True)
    short = waits("short", 1, limit=600.0)
    decisions = place([wide, stays, small, soft, short], eight(), OURS, NOW)
    assert list(starts(decisions)) == ["soft"]
    assert why(decisions, "small") == "reserved"
    assert why(decisions, "short") == "reserved"  # nobody knows when the one that stays will end
    known = replace(stays, limit=3600.0)
    assert set(starts(place([wide, known, small, soft, short], eight(), OURS, NOW))) == {"soft", "short"}  # backfill
    assert why(place([wide, *[]], eight(), OURS, NOW), "wide") == "overdue"


def test_the_wide_and_uninterruptible_wait_longest() -> None:
    assert patience(waits("a", 8, checkpoint=True), OURS, 8) == OURS.patience
    assert OURS.patience < patience(waits("a", 1), OURS, 8) < patience(waits("a", 8), OURS, 8) == 3 * OURS.patience


def test_an_overdue_job_that_can_never_fit_blocks_nobody() -> None:
    jobs = [waits("huge", 9, 0.0), waits("large", 1, 0.0, memory=1 << 40), waits("small", 1, NOW)]
    for policy in POLICIES.values():
        decisions = place(jobs, eight(), policy, NOW)
        assert list(starts(decisions)) == ["small"], policy.name
        assert why(decisions, "huge") == "impossible"


def test_a_job_on_a_faulted_gpu_moves_where_it_can() -> None:
    gpus = [replace(gpu, fault="xid-79") if gpu.id == "n0" else gpu for gpu in eight()]
    soft = waits("soft", 1, checkpoint=True).begun(NOW - 60, ("n0",))
    assert why(place([soft], gpus, OURS, NOW), "soft") == "on-fault"
    assert place([replace(soft, checkpoint=False)], gpus, OURS, NOW) == []


def test_a_gpu_that_comes_last_is_given_where_others_are_too_few() -> None:
    gpus = [replace(gpu, last=gpu.id in ("n0", "n1"), memory=500 if gpu.id == "n0" else gpu.memory) for gpu in eight()]
    assert [gpu.id for gpu in gpus if gpu.last] == ["n0", "n1"]
    for count in range(1, 9):
        chosen = {gpu.id for gpu in choose(gpus, count)}
        assert len(chosen) == count
        assert len(chosen & {"n0", "n1"}) == max(0, count - 6), chosen
    given = starts(place([waits(f"j{n}", since=NOW + n) for n in range(7)], gpus, POLICIES["fifo"], NOW))
    assert {gpu for job in range(6) for gpu in given[f"j{job}"]}.isdisjoint({"n0", "n1"})
    assert given["j6"] <= ("n1",)


def test_gangs_are_packed() -> None:
    gpus = [*eight("a")[:3], *eight("b")[:5], *eight("c")]
    assert {gpu.node for gpu in choose(gpus, 3)} == {"a"}
    assert {gpu.node for gpu in choose(gpus, 4)} == {"b"}
    assert {gpu.node for gpu in choose(gpus, 8)} == {"c"}
    assert {gpu.node for gpu in choose(gpus, 10)} == {"b", "c"}
    mixed = [Gpu("big", "n", 80), Gpu("small", "n", 16)]
    assert [gpu.id for gpu in choose(mixed, 1)] == ["small"]


def test_easy_lets_by_only_what_delays_nobody() -> None:
    runs = waits("runs", 6, limit=7200.0).begun(NOW - 3600, tuple(f"n{n}" for n in range(6)))
    head = waits("head", 8, NOW - 9)
    quick, slow = waits("quick", 1, NOW - 5, limit=3000.0), waits("slow", 1, NOW - 7, limit=9000.0)
    assert list(starts(place([runs, head, slow, quick], eight(), POLICIES["easy"], NOW))) == ["quick"]
    assert starts(place([runs, head, slow, quick], eight(), POLICIES["fifo"], NOW)) == {}


def test_jobs_without_gpus_start_at_once() -> None:
    for policy in POLICIES.values():
        assert starts(place([waits("cpu", 0)], [], policy, NOW)) == {"cpu": ()}


@pytest.mark.parametrize("name", [name for name in WORDS if "{en}" not in WORDS[name][0]])  # those bring their own words, in both
def test_reasons_name_the_same_in_both_languages(name: str) -> None:
    import string

    english, chinese = ({field for _, field, _, _ in string.Formatter().parse(text) if field} for text in WORDS[name])
    assert english == chinese
    assert Reason(name, dict.fromkeys(english, 1)).text("zh") != Reason(name, dict.fromkeys(english, 1)).text("en")
