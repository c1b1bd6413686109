"""Which waiting jobs may be placed: quotas, CPUs, host memory, arrays, times, reservations."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.queue.admission import Admission, Kind, Reservation, Room, at, kind
from ongpu.queue.config import Quota, Quotas
from ongpu.queue.engines.local.rows import Row
from ongpu.queue.reasons import WORDS, Reason

NOW = 1_800_000_000.0
HOUR = 3600.0
PLAIN = Row(
    id=1, seq=1, state="waiting", gpus=1, memory=None, share=False, model="", capability="", limit=None, cpus=0, host_memory=0,
    user="ann", project="", priority=0, submitted=NOW, since=NOW, attained=0.0, checkpoint="", begin=None, blocked=0, array=None,
    at_once=None, avoid=(), attempt=0, wish="", reservation="",
)  # fmt: skip


@dataclass(frozen=True)
class Admitted:
    """rows: those that may be placed, in order. reasons: why the others may not, by id. leave: running ones to be preempted, and why."""

    rows: tuple[Row, ...]
    reasons: Mapping[int, Reason]
    leave: Mapping[int, Reason] = field(default_factory=dict)


def admit(waiting: Iterable[Row], running: Iterable[Row], room: Room, now: float, *more: Any, **named: Any) -> Admitted:
    """Of the waiting jobs, in their order, those that may be placed now, each for itself; of each kind as many as there is room for."""
    admission = Admission(running, room, now, *more, **named)
    left: dict[Kind, int] = {}
    whys: dict[Kind, Reason | None] = {}
    rows, reasons = [], {}
    for row in waiting:
        this = kind(row, now)
        if this not in left:
            left[this], whys[this] = admission.how_many(this)
        left[this] -= 1
        why = whys[this]
        if left[this] >= 0 or why is None:
            rows.append(row)
        else:
            reasons[row.id] = why
    return Admitted(tuple(rows), reasons, admission.leaving())


def row(number: int = 1, **asked: Any) -> Row:
    return PLAIN._replace(id=number, **asked)


def name(admitted: Admitted, number: int) -> str:
    """The word for why it waits; "": it may be placed."""
    if number in {one.id for one in admitted.rows}:
        assert number not in admitted.reasons
        return ""
    return admitted.reasons[number].name


def answer(waiting: Sequence[Row], running: Sequence[Row] = (), gpus: int = 8, **more: Any) -> list[str]:
    room = more.pop("room", Room(gpus=gpus))
    admitted = admit(waiting, running, room, NOW, **more)
    return [name(admitted, one.id) for one in waiting]


def test_what_asks_for_nothing_special_may_be_placed_in_order() -> None:
    rows = [row(number) for number in (3, 1, 2)]
    assert admit(rows, [], Room(gpus=1), NOW) == Admitted(tuple(rows), {})


@pytest.mark.parametrize(
    ("asked", "word"),
    [({"state": "held"}, "held"), ({"blocked": 2}, "dependency"), ({"begin": NOW + 1}, "begin"), ({"begin": NOW}, ""),
     ({"reservation": "none"}, "reservation-over")],
)  # fmt: skip
def test_what_may_not_yet(asked: dict[str, Any], word: str) -> None:
    assert answer([row(**asked)]) == [word]


class TestBounds:
    def test_an_array_at_once(self) -> None:
        rows = [row(number, array=9, at_once=2) for number in range(2, 6)]
        assert answer(rows) == ["", "", "at-once", "at-once"]
        assert answer(rows, [row(1, array=9, at_once=2)]) == ["", "at-once", "at-once", "at-once"]
        assert answer([row(2, array=9)], [row(1, array=9)] * 5) == [""]

    def test_cpus_and_host_memory(self) -> None:
        room = Room(gpus=8, cpus=16, host_memory=1000)
        running = [row(1, cpus=10, host_memory=600)]
        asked = [
            row(2, cpus=6),
            row(3, cpus=7),
            row(4, cpus=17),
            row(5, host_memory=400),
            row(6, host_memory=401),
            row(7, host_memory=1001),
        ]
        assert answer(asked, running, room=room) == ["", "cpus", "cpus-never", "", "host-memory", "host-memory-never"]
        assert answer([row(2, cpus=3), row(3, cpus=3), row(4, cpus=3)], running, room=room) == ["", "", "cpus"]

    def test_quota_of_gpus(self) -> None:
        quotas = Quotas(each=Quota(gpus=2), users={"bob": Quota(gpus=4)}, projects={"vision": Quota(gpus=1)})
        asked = [row(2), row(3), row(4, user="bob", gpus=3), row(5, gpus=3), row(6, user="eve", project="vision"), row(7, gpus=0)]
        assert answer(asked, quotas=quotas) == ["", "", "", "quota-never", "", ""]
        running = [row(1, gpus=2), row(8, user="bob", gpus=2, project="vision")]
        assert answer(asked, running, quotas=quotas) == ["quota-gpus", "quota-gpus", "quota-gpus", "quota-never", "quota-gpus", ""]

    def test_quota_of_hours(self) -> None:
        quotas = Quotas(each=Quota(gpu_hours=10), projects={"vision": Quota(gpu_hours=1)})
        used = {"user:ann": 10 * HOUR, "user:bob": 9.9 * HOUR, "project:vision": HOUR}
        asked = [row(1), row(2, user="bob"), row(3, user="bob", project="vision"), row(4, gpus=0)]
        assert answer(asked, quotas=quotas, used=used) == ["quota-hours", "", "quota-hours", ""]
        small = Admission([], Room(gpus=9), NOW, Quotas(each=Quota(gpu_hours=0.01)), used={"user:ann": 0.0123 * HOUR})
        assert small.take(row(1)) == Reason("quota-hours", {"who": "ann", "used": "0.0123", "allowed": "0.01"})

    def test_two_that_exclude_each_other_are_told_at_the_start(self) -> None:
        admission = Admission([], Room(gpus=8, cpus=8), NOW)
        one, two = row(1, cpus=5), row(2, cpus=6)
        assert answer([one, two], room=Room(gpus=8, cpus=8)) == ["", ""]
        assert admission.take(one) is None
        why = admission.take(two)
        assert why == Reason("cpus", {"cpus": 6, "free": 3, "total": 8})


class TestReservations:
    demo = Reservation(name="demo", begin=NOW + HOUR, end=NOW + 3 * HOUR, gpus=2)
    now = Reservation(name="demo", begin=NOW - 1, end=NOW + HOUR, gpus=2)

    def test_others_leave_its_gpus_alone(self) -> None:
        two = [row(1), row(2)]
        assert answer([row(3)], two, gpus=4, reservations=[self.now]) == ["reservation-runs"]
        assert answer([row(3)], two[:1], gpus=3, reservations=[self.now]) == ["reservation-runs"]
        assert answer([row(3), row(4)], two[:1], gpus=4, reservations=[self.now]) == ["", "reservation-runs"]
        assert answer([row(3)], two, gpus=5, reservations=[self.now]) == [""]
        assert answer([row(3, gpus=0)], two, gpus=2, reservations=[self.now]) == [""]

    def test_before_it_begins_what_will_have_ended_may_run(self) -> None:
        asked = [row(1, limit=HOUR), row(2, limit=HOUR + 1), row(3), row(4, checkpoint="SIGUSR1")]
        assert answer(asked, gpus=2, reservations=[self.demo]) == ["", "reservation", "reservation", ""]
        assert answer(asked, gpus=3, reservations=[self.demo]) == [""] * 4
        ends = [row(9, limit=600.0)]
        assert answer([row(3)], ends, gpus=3, reservations=[self.demo], started={9: NOW - 60}) == [""]
        assert answer([row(3)], [row(9)], gpus=3, reservations=[self.demo]) == ["reservation"]

    def test_who_belongs_to_it(self) -> None:
        demo = Reservation(name="demo", begin=NOW - 1, end=NOW + HOUR, gpus=2, users=("ann",), projects=("vision",))
        asked = [row(1), row(2, user="bob"), row(3, user="bob", project="vision"), row(4, user="bob", reservation="demo")]
        assert answer(asked, gpus=2, reservations=[demo]) == ["", "reservation-runs", "", ""]
        inside = [row(9, gpus=2)]
        assert answer([row(2, user="bob")], inside, gpus=3, reservations=[demo]) == [""]  # its two are in use: one is left for others

    def test_a_job_that_names_it(self) -> None:
        assert answer([row(1, reservation="demo")], reservations=[self.demo]) == ["reservation-later"]
        named = [row(number, reservation="demo") for number in (1, 2, 3)]
        assert answer(named, reservations=[self.now]) == ["", "", "reservation-full"]
        assert answer(named[:1], reservations=[Reservation(name="demo", begin=0, end=NOW, gpus=2)]) == ["reservation-over"]

    def test_those_that_can_save_their_state_leave_when_it_begins(self) -> None:
        running = [row(1), row(2, checkpoint="SIGUSR1"), row(3, checkpoint="SIGUSR1"), row(4, checkpoint="SIGUSR1", reservation="demo")]
        started = {2: NOW - 50, 3: NOW - 5}
        for gpus, leave in ((4, {3}), (3, {2, 3}), (5, set())):
            admitted = admit([], running, Room(gpus=gpus), NOW, reservations=[self.now], started=started)
            assert set(admitted.leave) == leave, gpus
        assert admit([], running, Room(gpus=2), NOW, reservations=[self.demo], started=started).leave == {}
        assert admitted.leave == {}


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("gpus", "name", "many", "at")), inner, max_size=4),
)
reservations = st.lists(
    st.builds(
        Reservation,
        name=st.sampled_from(("a", "b")), begin=st.sampled_from((NOW - 100, NOW, NOW + 50, NOW + 500)),
        end=st.sampled_from((NOW - 50, NOW + 100, NOW + 1000)), gpus=st.integers(1, 4),
        users=st.sampled_from(((), ("ann",))), projects=st.sampled_from(((), ("vision",))),
    ),
    max_size=3,
    unique_by=lambda one: one.name,
)  # fmt: skip
rows = st.lists(
    st.builds(
        lambda number, array, **asked: row(number, array=array[0], at_once=array[1], **asked),
        st.integers(1, 10**6),
        st.sampled_from(((None, None), (7, 2), (8, None))),
        gpus=st.integers(0, 3),
        cpus=st.sampled_from((0, 3)),
        host_memory=st.sampled_from((0, 40)),
        user=st.sampled_from(("ann", "bob")),
        project=st.sampled_from(("", "vision")),
        limit=st.sampled_from((None, 40.0, 400.0)),
        checkpoint=st.sampled_from(("", "SIGUSR1")),
        blocked=st.sampled_from((0, 0, 1)),
        begin=st.sampled_from((None, NOW - 5, NOW + 5)),
        reservation=st.sampled_from(("", "a")),
        state=st.sampled_from(("waiting", "waiting", "held")),
    ),
    max_size=8,
    unique_by=lambda one: one.id,
)


def belongs(one: Row, to: Reservation) -> bool:
    return one.reservation == to.name if one.reservation else one.user in to.users or one.project in to.projects


quota = st.builds(Quota, gpus=st.sampled_from((None, 1, 4)), gpu_hours=st.sampled_from((None, 1.0)))
quotas = st.builds(Quotas, each=quota, projects=st.sampled_from(({}, {"vision": Quota(gpus=2)})))


@given(rows, rows, reservations, quotas, st.integers(0, 6), st.sampled_from(({}, {"user:ann": 2 * HOUR})))
@settings(max_examples=300, deadline=None)
def test_whatever_starts_together_keeps_every_bound(
    waiting: list[Row], running: list[Row], reserved: list[Reservation], bounds: Quotas, gpus: int, used: dict[str, float]
) -> None:
    running = [one for one in running if one.id not in {other.id for other in waiting}]
    room = Room(gpus=gpus, cpus=8, host_memory=100)
    admitted = admit(waiting, running, room, NOW, bounds, reserved, used)
    assert {one.id for one in admitted.rows} | set(admitted.reasons) == {one.id for one in waiting}
    for why in admitted.reasons.values():
        for lang in ("en", "zh"):
            assert "{" not in why.text(lang)
            assert why.name in WORDS
        assert Reason.of(why.json()) == why
    admission = Admission(running, room, NOW, bounds, reserved, used)
    taken: list[Row] = []
    for one in admitted.rows:
        if admission.take(one) is None:
            taken.append(one)
            if one.gpus:
                strange = [this for this in reserved if this.begin <= NOW < this.end and not belongs(one, this)]
                kept = [max(0, this.gpus - sum(other.gpus for other in running + taken if belongs(other, this))) for this in strange]
                assert not strange or sum(other.gpus for other in running + taken) + sum(kept) <= gpus
    together = running + taken
    for one in taken:
        assert (one.state, one.blocked) == ("waiting", 0)
        assert one.begin is None or one.begin <= NOW
        if one.cpus:
            assert sum(other.cpus for other in together) <= room.cpus
        if one.host_memory:
            assert sum(other.host_memory for other in together) <= room.host_memory
        if one.at_once is not None and one.array is not None:
            assert sum(other.array == one.array for other in together) <= one.at_once
        if one.gpus:
            for who, bound in bounds.of(one.user, one.project):
                kept, _, key = who.partition(":")
                held = sum(other.gpus for other in together if getattr(other, kept) == key)
                assert bound.gpus is None or held <= bound.gpus
                assert bound.gpu_hours is None or used.get(who, 0.0) < bound.gpu_hours * HOUR
    # Whoever may be placed is placed, where it is alone: nothing is refused without a bound that would break.
    if not running and not reserved and not used:
        for one in waiting:
            free = one.state == "waiting" and not one.blocked and (one.begin is None or one.begin <= NOW) and not one.reservation
            small = all(bound.gpus is None or one.gpus <= bound.gpus for _, bound in bounds.of(one.user, one.project))
            assert (Admission([], room, NOW, bounds).take(one) is None) == (free and small)


@given(rows, rows, reservations, quotas)
def test_equals_get_the_same_answer(waiting: list[Row], running: list[Row], reserved: list[Reservation], bounds: Quotas) -> None:
    admission = Admission(running, Room(gpus=4, cpus=8), NOW, bounds, reserved)
    for one in waiting:
        twin = one._replace(id=one.id + 1, submitted=5.0, since=6.0, attained=9.0, priority=3)
        assert admission.how_many(kind(one, NOW)) == admission.how_many(kind(twin, NOW))


@given(st.text(max_size=40) | st.builds(lambda name, values: json.dumps([name, values]), st.sampled_from([*WORDS, "x"]), anything))
def test_a_reason_that_was_kept_is_read_or_is_none(text: str) -> None:
    reason = Reason.of(text)
    assert reason is None or isinstance(reason.text("en") + reason.text("zh"), str)


def test_a_time_that_no_calendar_holds() -> None:
    assert at(1e300) == "1e+300"
    assert at(math.inf) == "inf"
