"""What the daemon knows of the GPUs: the looker's lines, leases of others, lookers that die or say nonsense."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import looker
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.hosts import leases
from ongpu.queue.engines.local import cards
from ongpu.queue.engines.local.sight import Sight
from ongpu.queue.job import Card

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")


@pytest.fixture
def sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sight:
    monkeypatch.setenv(leases.VARIABLE, str(tmp_path / "leases"))
    return Sight([], 1024, 100.0)


def told(sight: Sight, *gpus: dict[str, Any], at: float = 100.0, **more: Any) -> bool:
    return sight._take({"t": at, "up": True, "why": None, "gpus": list(gpus), **more}, at)


def test_gpus_that_can_be_given_out(sight: Sight) -> None:
    assert sight.fault(looker.uuid(0)), "nothing is known yet"
    told(sight, looker.gpu(0), looker.gpu(1, unfit="driver-hung"), looker.gpu(2, foreign=["pid 1 (x)"], procs=[[1, None, "C", None]]))
    found = {device.index: (device.fault, device.taken) for device in sight.devices({})}
    assert found == {0: ("", False), 1: ("", True), 2: ("", True)}
    assert not told(sight, looker.gpu(0, util=90), *sight.gpus.values()), "use alone changes nothing"
    assert told(sight, looker.gpu(0, unfit="x")), "this does"


def test_a_desktop_is_no_stranger_but_one_that_works_is(sight: Sight) -> None:
    for size, util, taken in ((300, 0, False), (1024, 5, False), (1025, 0, True), (300, 80, True), (None, 0, True)):
        told(sight, looker.gpu(0, foreign=["pid 1 (Xorg)"], procs=[[1, size, "C", None], [2, 9000, "C", "17"]], util=util))
        assert sight.taken(looker.uuid(0)) == taken, (size, util)


@pytest.mark.parametrize(("used", "procs", "last"), [
    (1024, [], 0), (1025, [], 1025), (40960, [], 40960), (40961, [], 0),  # more than half: it is taken
    (6000, [[2, 3000, "G", None]], 3000), (6000, [[2, None, "G", None]], 0), (6000, [[2, 5500, "G", None]], 0),
])  # fmt: skip
def test_memory_in_use_by_nobody_that_is_known_puts_a_gpu_last(sight: Sight, used: int, procs: list[Any], last: int) -> None:
    told(sight, looker.gpu(0, used=used, procs=procs), looker.gpu(1))
    first, second = sight.devices({})
    assert (first.last, second.last) == (bool(last), False)
    assert [card.unexplained for card in sight.shown()] == [last or None, None]
    sight.ours[looker.uuid(0)] = float("inf")
    assert not sight.devices({})[0].last, "of a job of ours it is known"


def test_a_partitioned_gpu_is_its_slices(sight: Sight) -> None:
    slices = [{"uuid": f"MIG-aaaa-{n}", "name": "A100 MIG 1g.10gb", "memory": 9856} for n in range(2)]
    told(sight, looker.gpu(0, partitioned=True, slices=slices), looker.gpu(1, partitioned=True))
    assert [(one.id, one.memory) for one in sight.devices({})] == [("MIG-aaaa-0", 9856), ("MIG-aaaa-1", 9856)]


def test_an_incident_drains_and_stays_over_a_restart(sight: Sight) -> None:
    told(sight, looker.gpu(0, incident="ecc-uncorrectable"))
    told(sight, looker.gpu(0), at=101.0)
    assert sight.fault(looker.uuid(0)) == "ecc-uncorrectable"
    (card,) = sight.shown()
    assert (card.state, card.slug) == ("drained", "ecc-uncorrectable")
    again = Sight([card], 1024, 200.0)
    told(again, looker.gpu(0), at=201.0)
    assert again.fault(looker.uuid(0)) == "ecc-uncorrectable"
    again.event(looker.uuid(0), cards.Ordered(cards.RETURN), 202.0)
    assert again.fault(looker.uuid(0)) == ""


def test_nobody_is_sent_away_from_a_gpu_of_which_nothing_is_known_for_a_moment(sight: Sight) -> None:
    told(sight, looker.gpu(0))
    sight._end(0.0)  # the looker was killed
    (device,) = sight.devices({})
    assert (device.fault, device.taken) == ("", True), "no fault: running jobs stay; and nothing is started on it"
    told(sight, looker.gpu(0, how="lost"), at=101.0)
    assert [(one.fault, one.taken) for one in sight.devices({})] == [("", True)]
    told(sight, looker.gpu(0, incident="ecc-uncorrectable"), at=102.0)
    assert [(one.fault, one.taken) for one in sight.devices({})] == [("ecc-uncorrectable", False)]


def test_what_was_not_judged_yet_is_no_suspect_after_a_restart() -> None:
    again = Sight([Card(id=looker.uuid(0), slug="not-judged")], 1024, 100.0)
    told(again, looker.gpu(0))
    assert again.fault(looker.uuid(0)) == ""


def test_a_driver_that_is_down_and_a_gpu_that_is_gone(sight: Sight) -> None:
    told(sight, looker.gpu(0), looker.gpu(1))
    told(sight, looker.gpu(0), at=101.0)
    assert sight.fault(looker.uuid(1))
    sight._take({"t": 102.0, "up": False, "why": ["nvml-init-failed", "a", "b"], "gpus": []}, 102.0)
    assert sight.fault(looker.uuid(0)) == "nvml-init-failed"
    assert [device.id for device in sight.devices({})] == [looker.uuid(0)], "it is remembered"


def test_others_leases(sight: Sight) -> None:
    told(sight, looker.gpu(0), looker.gpu(1))
    lease = leases.take(sight.place, [looker.uuid(0), looker.uuid(1)], leases.words(["theirs"]))
    assert isinstance(lease, leases.Lease)
    assert sight.lend([looker.uuid(1)])
    assert [sight.taken(looker.uuid(n)) for n in (0, 1)] == [True, False], "the second is ours"
    assert not sight.lend([looker.uuid(1)])
    lease.close()
    assert sight.lend([])
    assert not sight.taken(looker.uuid(0))


def test_a_looker_that_dies_is_started_anew(sight: Sight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus").write_text(json.dumps([looker.gpu(0)]))
    monkeypatch.setenv("ONGPU_QUEUE_LOOKER", f"{sys.executable} {Path(looker.__file__)} {tmp_path / 'gpus'}")

    def until_up(up: bool) -> None:
        end = time.monotonic() + 30
        while sight.up != up:
            assert time.monotonic() < end
            sight.mind(time.monotonic())
            sight.read(time.monotonic(), time.time())
            time.sleep(0.01)

    try:
        for _ in range(2):
            until_up(True)
            assert sight.process
            os.kill(sight.process.pid, 9)
            until_up(False)
            assert sight.fault(looker.uuid(0)), "nothing is known of it meanwhile"
        until_up(True)
    finally:
        sight.close()


def test_a_looker_that_falls_silent(sight: Sight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONGPU_QUEUE_LOOKER", "sleep 100")
    try:
        told(sight, looker.gpu(0))
        sight.mind(1000.0)
        first = sight.process
        assert first
        assert sight.up
        sight.mind(1006.0)
        assert not sight.up
        sight.mind(1021.0)
        assert sight.process is None
        assert first.poll() is not None
        sight.mind(1023.0)
        assert sight.process is not first
    finally:
        sight.close()


LINES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*looker.gpu(0), "gpus", "why"]), inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(st.tuples(LINES, st.dictionaries(st.sampled_from([*looker.gpu(0)]), LINES, max_size=6)), max_size=5))
def test_whatever_a_looker_says(lines: list[tuple[Any, dict[str, Any]]]) -> None:
    sight = Sight([], 1024, 100.0)
    for line, changes in lines:
        for one in (line, {"up": True, "gpus": [{**looker.gpu(0), **changes}, line], "log": line, "why": line}):
            if isinstance(one, dict):
                sight._take(one, 101.0)
        assert isinstance(sight.devices({}), list)
        assert isinstance(sight.shown(), list)


@pytest.mark.parametrize(
    ("used", "procs", "memory", "taken"),
    [
        (4, [], 81920, False), (1024, [], 81920, False), (3000, [[9, 3000, "G", None]], 78920, False),
        (70000, [[9, 70000, "G", None]], 11920, False), (20000, [], 61920, False), (70000, [], 11920, True), (None, [], 81920, False),
    ],
)  # fmt: skip
def test_memory_that_nobody_who_is_seen_holds(sight: Sight, used: int | None, procs: list[Any], memory: int, taken: bool) -> None:
    told(sight, looker.gpu(0, used=used, procs=procs))
    (device,) = sight.devices({})
    assert (device.memory, device.total, device.taken) == (memory, 81920, taken)
    assert sight.shown()[0].foreign == ((f"pid ? ({used} MiB)",) if taken else ())


def test_memory_of_our_own_jobs_is_free_when_they_are_over(sight: Sight) -> None:
    for until, at, memory in ((float("inf"), 100.0, 81920), (100.0, 100.2, 81920), (100.0, 101.0, 11920)):
        sight.ours[looker.uuid(0)] = until
        told(sight, looker.gpu(0, used=70000), at=at)
        assert [device.memory for device in sight.devices({})] == [memory], (until, at)


def test_gpus_of_which_no_lease_can_be_had(sight: Sight) -> None:
    sight.mind(0.0)
    told(sight, looker.gpu(0), looker.gpu(1))
    sight.bar([looker.uuid(0)], ("no", "不"), 10.0)
    assert (sight.closed(5.0), [device.taken for device in sight.devices({})]) == (None, [True, False])
    sight.bar([looker.uuid(1)], ("no", "不"), 12.0)
    closed = sight.closed(5.0)
    assert closed is not None
    assert (closed.name, closed.text("zh")) == ("no-lease", "无法取得 GPU 租约：不")
    assert (sight.closed(11.0), [device.taken for device in sight.devices({})]) == (None, [False, True])
    sight.close()


def test_where_nothing_is_known_that_is_said(sight: Sight) -> None:
    sight.mind(0.0)
    names = [closed.name if (closed := sight.closed(at)) else "" for at in (5.0, 100.0)]
    told(sight, looker.gpu(0))
    names += [closed.name if (closed := sight.closed(100.0)) else ""]
    sight._end(101.0)
    names += [closed.name if (closed := sight.closed(102.0)) else ""]
    assert names == ["looking", "blind", "", "blind"]
