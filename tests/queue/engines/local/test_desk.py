"""Decisions of the local queue: what a job asks for beyond placement's words, parts of GPUs, quotas, and the same answer as placement's."""

import time
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.queue.admission import Admission, Reservation, Room
from ongpu.queue.config import Quota, Quotas
from ongpu.queue.engines.local.desk import RESERVE, Busy, Chosen, Desk, Device, job_of
from ongpu.queue.engines.local.rows import Row
from ongpu.queue.placement import POLICIES, Gpu, Hold, Policy, Preempt, Start, place
from ongpu.queue.reasons import Reason

NOW = 1_800_000_000.0
OURS = POLICIES["ours"]


def row(number: int, **more: Any) -> Row:
    plain: dict[str, Any] = {
        "id": number, "seq": number, "state": "waiting", "gpus": 1, "memory": None, "share": False, "model": "", "capability": "",
        "limit": None, "cpus": 0, "host_memory": 0, "user": "ann", "project": "", "priority": 0, "submitted": NOW - 100 + number,
        "since": NOW - 100 + number, "attained": 0.0, "checkpoint": "", "begin": None, "blocked": 0, "array": None, "at_once": None,
        "avoid": (), "attempt": 0, "wish": "", "reservation": "",
    }  # fmt: skip
    return Row(**{**plain, **more})


def device(number: int, **more: Any) -> Device:
    plain = {"id": f"GPU-{number}", "index": number, "name": "NVIDIA A100-SXM4-80GB", "memory": 81920, "capability": "8.0"}
    return Device(**{**plain, **more})


def decided(
    rows: Sequence[Row], devices: Sequence[Device], busy: Sequence[Busy] = (), policy: Policy = OURS, quotas: Quotas | None = None,
    reservations: Sequence[Reservation] = (), room: Room | None = None, tell: bool = True,
) -> Chosen:  # fmt: skip
    desk = Desk(policy, quotas is not None)
    desk.set_reserved(bool(reservations), NOW)
    for one in rows:
        desk.put(one, NOW)
    room = room or Room(gpus=sum(not d.fault and not d.taken for d in devices), cpus=64)
    admission = Admission([one.row for one in busy], room, NOW, quotas, reservations, {}, {one.row.id: NOW - one.since for one in busy})
    return desk.decide(devices, busy, admission, NOW, tell)


def started(chosen: Chosen) -> dict[int, list[str]]:
    return {one.row.id: sorted(gpu for gpu, _ in one.leases) for one in chosen.starts}


def test_models_capabilities_and_gpus_to_avoid() -> None:
    devices = [device(0), device(1, name="NVIDIA H100", capability="9.0"), device(2, name="Tesla T4", capability="7.5", memory=15360)]
    chosen = decided([row(1, model="h100"), row(2, capability="8.0"), row(3, avoid=("GPU-0", "GPU-1"))], devices)
    assert started(chosen) == {1: ["GPU-1"], 2: ["GPU-0"], 3: ["GPU-2"]}
    chosen = decided([row(1, model="H200"), row(2, capability="9.0", gpus=2), row(3, avoid=("GPU-0", "GPU-1", "GPU-2"))], devices)
    assert started(chosen) == {}
    assert {job: why.name for job, why in chosen.reasons.items()} == {1: "no-such-gpu", 2: "no-such-gpu", 3: "avoids"}


def test_a_gpu_that_something_unknown_uses_comes_last_for_whole_and_shared_jobs() -> None:
    devices = [device(0, last=True, memory=70000), device(1), device(2)]
    assert started(decided([row(1), row(2)], devices)) == {1: ["GPU-1"], 2: ["GPU-2"]}
    assert started(decided([row(1), row(2), row(3)], devices))[3] == ["GPU-0"]
    assert started(decided([row(1, share=True, memory=1000)], devices)) == {1: ["GPU-1"]}


def test_who_comes_first_gets_it_among_those_who_ask_for_different_things() -> None:
    devices = [device(0), device(1, name="NVIDIA H100")]
    first = decided([row(1, model="H100"), row(2), row(3)], devices)
    assert started(first) == {1: ["GPU-1"], 2: ["GPU-0"]}
    urgent = decided([row(1), row(2, model="H100", priority=5), row(3)], devices)
    assert started(urgent) == {2: ["GPU-1"], 1: ["GPU-0"]}


def test_parts_stand_beside_each_other_as_far_as_memory_goes() -> None:
    third = (81920 - RESERVE) // 3
    chosen = decided([row(number, share=True, memory=third) for number in range(1, 6)], [device(0), device(1)])
    assert len(chosen.starts) == 5
    leases = [lease for one in chosen.starts for lease in one.leases]
    assert len(set(leases)) == 5
    assert sorted(gpu for gpu, _ in leases) == ["GPU-0"] * 3 + ["GPU-1"] * 2
    assert all(1 <= slot <= 63 for _, slot in leases)
    more = decided([row(1, share=True, memory=third)], [device(0, parts=((1, third), (3, third)))])
    assert more.starts[0].leases == (("GPU-0", 2),)
    full = decided([row(1, share=True, memory=third + 10)], [device(0, parts=((1, third), (3, third)))])
    assert not full.starts


def test_a_whole_gpu_and_parts_exclude_each_other() -> None:
    assert not decided([row(1)], [device(0, parts=((1, 100),))]).starts
    held = Busy(row=row(9, state="running"), gpus=("GPU-0",), since=5.0, movable=False)
    assert not decided([row(1, share=True, memory=100)], [device(0)], [held]).starts
    both = decided([row(1, priority=1), row(2, share=True, memory=100), row(3, share=True, memory=100)], [device(0), device(1)])
    assert len(both.starts) == 3
    gpus = started(both)
    assert gpus[2] == gpus[3] != gpus[1]


def test_everybody_is_told_why() -> None:
    devices = [device(0, fault="xid-79"), device(1, taken=True), device(2), device(3)]
    chosen = decided([row(1, gpus=3), row(2, gpus=4), row(3, memory=90_000)], devices)
    assert {job: why.name for job, why in chosen.reasons.items()} == {1: "too-few", 2: "too-few", 3: "impossible"}
    whole = [Busy(row=row(9, state="running"), gpus=("GPU-0",), since=5.0, movable=False)]
    chosen = decided([row(1, share=True, memory=8192), row(2, share=True, memory=81920)], [device(0)], whole)
    assert {job: why.name for job, why in chosen.reasons.items()} == {1: "behind", 2: "impossible"}


def test_memory_that_others_hold_is_not_given_out() -> None:
    devices = [device(number, memory=11_000, total=81920) for number in range(3)] + [device(3, total=81920)]
    chosen = decided([row(1, gpus=2, memory=60_000), row(2, gpus=1, memory=60_000), row(3, gpus=2, memory=10_000)], devices)
    assert started(chosen) == {2: ["GPU-3"], 3: ["GPU-0", "GPU-1"]}
    assert chosen.reasons[1].name == "memory-used"
    used = decided([row(1, gpus=2, memory=60_000)], [device(0, memory=11_000, total=81920, taken=True), device(1, total=81920)])
    assert used.reasons[1].name == "memory-used"
    assert chosen.reasons[1].text("en").startswith("it asks for 2 GPUs of 58.59 GiB; 1 healthy one has as much free")


def test_nothing_is_given_out_while_the_gpus_are_being_looked_at() -> None:
    desk = Desk(OURS)
    for one in (row(1), row(2, gpus=0, cpus=1)):
        desk.put(one, NOW)
    chosen = desk.decide([device(0)], [], Admission([], Room(gpus=1, cpus=4), NOW), NOW, tell=True, closed=Reason("looking"))
    assert (started(chosen), {job: why.name for job, why in chosen.reasons.items()}) == ({2: []}, {1: "looking"})


def test_sick_and_taken_gpus_are_left_alone() -> None:
    chosen = decided([row(1), row(2), row(3)], [device(0, fault="xid-79"), device(1, taken=True), device(2)])
    assert started(chosen) == {1: ["GPU-2"]}
    chosen = decided([row(1, share=True, memory=10)], [device(0, fault="xid-79"), device(1, taken=True)])
    assert not chosen.starts


def test_a_quota_lets_others_by() -> None:
    rows = [*(row(number) for number in range(1, 6)), row(6, user="bob")]
    chosen = decided(rows, [device(number) for number in range(4)], quotas=Quotas(users={"ann": Quota(gpus=2)}))
    assert sorted(started(chosen)) == [1, 2, 6]
    assert chosen.reasons[3].name == "quota-gpus"
    gang = [row(1, gpus=2), row(2, gpus=2), row(3, user="bob"), row(4, user="bob")]
    chosen = decided(gang, [device(number) for number in range(4)], quotas=Quotas(each=Quota(gpus=3)))
    assert sorted(started(chosen)) == [1, 3, 4]


def test_cpus_are_counted_for_jobs_with_and_without_gpus() -> None:
    rows = [row(number, gpus=0, cpus=1) for number in range(1, 6)]
    chosen = decided(rows, [], room=Room(gpus=0, cpus=3))
    assert list(started(chosen)) == [1, 2, 3]
    assert chosen.reasons[4].name == "cpus"
    mixed = decided([row(1, cpus=3), row(2, cpus=3)], [device(0), device(1)], room=Room(gpus=2, cpus=4))
    assert list(started(mixed)) == [1]


def test_a_reservation_keeps_its_gpus() -> None:
    kept = [Reservation(name="demo", begin=NOW - 10, end=NOW + 1000, gpus=1)]
    chosen = decided([row(1), row(2), row(3, reservation="demo")], [device(0), device(1)], reservations=kept)
    assert sorted(started(chosen)) == [1, 3]
    assert chosen.reasons[2].name.startswith("reservation")


def test_who_gives_way_is_asked_and_the_other_waits_for_it() -> None:
    held = Busy(row=row(9, state="running", checkpoint="SIGUSR1", attained=1e6), gpus=("GPU-0",), since=5.0, movable=True)
    chosen = decided([row(1, limit=60.0)], [device(0)], [held])
    assert list(chosen.leave) == [9]
    assert not chosen.starts
    assert chosen.reasons[1].name == "makes-room", "it was asked, and has not given way yet"
    fixed = Busy(row=held.row, gpus=held.gpus, since=5.0, movable=False)
    assert not decided([row(1, limit=60.0)], [device(0)], [fixed]).leave, "it does not save its state"
    sick = decided([], [device(0, fault="xid-79")], [held])
    assert not sick.leave, "nobody waits: placement is not asked"
    sick = decided([row(1, gpus=2)], [device(0, fault="xid-79")], [held])
    assert list(sick.leave) == [9]


def test_times_dependencies_and_changes() -> None:
    desk = Desk(OURS)
    for one in (row(1, begin=NOW + 5), row(2, blocked=1), row(3, state="held"), row(4)):
        desk.put(one, NOW)
    assert (desk.count, desk.next) == (1, NOW + 5)
    assert not desk.wake(NOW + 4)
    assert desk.wake(NOW + 6)
    assert (desk.count, desk.next) == (2, None)
    desk.put(row(4, priority=3), NOW)
    assert desk.count == 2
    for number in (1, 4, 4, 99):
        desk.drop(number)
    assert (desk.count, desk.rows, desk._lines) == (0, {}, {})


ROWS = st.builds(
    lambda number, gpus, memory, limit, checkpoint, priority, user, attained, since: row(
        number, gpus=gpus, memory=memory, limit=limit, checkpoint="SIGUSR1" if checkpoint else "", priority=priority, user=user,
        attained=attained, since=NOW - since, submitted=NOW - since,
    ),
    st.just(0), st.integers(1, 4), st.sampled_from([None, 20_000, 70_000]), st.sampled_from([None, 600.0, 90_000.0]), st.booleans(),
    st.integers(-2, 2), st.sampled_from(["ann", "bob"]), st.sampled_from([0.0, 3000.0, 1e5]), st.sampled_from([1.0, 4000.0, 30 * 86400.0]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, max_size=12), st.lists(st.sampled_from([16_384, 40_960, 81_920]), min_size=1, max_size=6), st.booleans())
def test_where_all_ask_for_plain_gpus_the_answer_is_placements(rows: list[Row], sizes: list[int], tell: bool) -> None:
    rows = [one._replace(id=100 + at) for at, one in enumerate(rows)]
    devices = [device(at, memory=size) for at, size in enumerate(sizes)]
    busy = [
        Busy(
            row=row(at + 1, state="running", checkpoint=("", "SIGUSR1")[at % 2], attained=at * 5e3),
            gpus=(one.id,),
            since=50.0,
            movable=at % 2 > 0,
        )
        for at, one in enumerate(devices[: len(devices) // 2])
    ]
    chosen = decided(rows, devices, busy, tell=tell)
    running = [job_of(one.row, one.movable).begun(NOW - one.since, one.gpus) for one in busy]
    whole = place(
        [*running, *(job_of(one, bool(one.checkpoint)) for one in rows)], [Gpu(d.id, "", d.memory or 0) for d in devices], OURS, NOW
    )
    left = {int(one.job.id) for one in whole if isinstance(one, Preempt)}
    theirs = {gpu for one in busy if one.row.id in left for gpu in one.gpus}
    expected = {int(one.job.id): sorted(one.gpus) for one in whole if isinstance(one, Start) and theirs.isdisjoint(one.gpus)}
    assert started(chosen) == expected
    assert set(chosen.leave) == left
    said = {int(one.job.id): one.why.name for one in whole if isinstance(one, (Hold, Start))}
    said = {job: "makes-room" if name == "takes-place" else name for job, name in said.items()}  # as long as it does not run
    for job, why in chosen.reasons.items():  # that it can never be is said before that it cannot be now
        assert job in expected or why.name in (said[job], "impossible", "too-few")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(ROWS, st.sampled_from(["", "", "A100", "H100"]), st.booleans()), max_size=14),
    st.lists(st.tuples(st.sampled_from(["A100", "H100"]), st.booleans(), st.booleans()), min_size=1, max_size=6),
)
def test_no_gpu_is_given_twice_and_all_is_as_asked(asked: list[tuple[Row, str, bool]], cards: list[tuple[str, bool, bool]]) -> None:
    rows = [
        one._replace(id=at + 1, model=model, share=share, memory=20_000 if share else one.memory)
        for at, (one, model, share) in enumerate(asked)
    ]
    devices = [device(at, name=name, fault="x" if sick else "", taken=taken) for at, (name, sick, taken) in enumerate(cards)]
    known = {one.id: one for one in devices}
    whole: list[str] = []
    parts: dict[str, list[int]] = {}
    for choice in decided(rows, devices, tell=False).starts:
        assert len({gpu for gpu, _ in choice.leases}) == choice.row.gpus == len(choice.leases)
        for gpu, slot in choice.leases:
            assert not known[gpu].fault
            assert not known[gpu].taken
            assert choice.row.model in known[gpu].name
            assert (slot > 0) == choice.row.share
            (parts.setdefault(gpu, []) if slot else whole).append(slot if slot else gpu)  # type: ignore[arg-type]
    assert len(whole) == len(set(whole))
    assert not set(whole) & set(parts)
    assert all(len(slots) == len(set(slots)) and len(slots) * 20_000 <= 81920 - RESERVE for slots in parts.values())


def test_a_hundred_thousand_that_wait() -> None:
    desk = Desk(OURS)
    for number in range(1, 100_001):
        desk.put(
            row(
                number,
                user=f"u{number % 20}",
                gpus=1 + number % 3,
                limit=(None, 3600.0)[number % 2],
                checkpoint=("", "SIGUSR1")[number % 2],
            ),
            NOW,
        )
    devices = [device(number) for number in range(8)]
    best = 1.0
    for _ in range(3):
        begin = time.process_time()
        chosen = desk.decide(devices, [], Admission([], Room(gpus=8), NOW), NOW, tell=True)
        best = min(best, time.process_time() - begin)
        assert chosen.starts
        for one in chosen.starts:
            desk.put(one.row, NOW)
    assert best < 0.15, "50 ms on a machine that has nothing else to do"
