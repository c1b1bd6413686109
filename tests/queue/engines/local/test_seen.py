"""What the sampling child's messages add up to: honest lines, whatever comes, in whatever order."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.queue.engines.local.cards import Health, look, step
from ongpu.queue.engines.local.seen import HANGS, SILENCE, STARTING, Seen, Verdict, bus, marks

KEYS = {
    "uuid", "index", "name", "memory", "used", "util", "memory_util", "pcie", "capability", "energy_mj", "how", "unfit", "words",
    "incident", "foreign", "procs", "xids", "ecc", "near", "partitioned", "slices",
}  # fmt: skip
START = 1000.0


def row(**values: int | None) -> list[int | None]:
    found: list[int | None] = [0] * len(COLUMNS)
    for name, value in values.items():
        found[PLACE[name]] = value
    return found


def gpu(index: int, uuid: str | None = None, **more: Any) -> dict[str, Any]:
    about = {"name": "A100", "bus": f"0000:{0x1A + index:02x}:00.0", "mem_total": 81920, "mig": False, **more}
    return {"k": "gpu", "i": index, "uuid": uuid or f"GPU-{index}", **about}


def sample(*rows: Any, t: float = START) -> dict[str, Any]:
    return {"k": "s", "t": t, "c": t, "n": 1, "g": list(rows)}


def seen(*messages: dict[str, Any], now: float = 10.0, judged: bool = True) -> Seen:
    """A machine with two GPUs that were judged, and these messages after that."""
    found = Seen(START)
    init = {"k": "init", "t": START, "code": 0, "error": None, "count": 2}
    for message in (init, gpu(0), gpu(1), sample(row(mem_used=5), row()), {"k": "full", "t": START, "text": '{"init": "ok"}'}):
        found.take(message, 5.0)
    if judged:
        found.settle({f"GPU-{i}": Verdict(capability="8.0", near=("numa0",)) for i in (0, 1)}, None, 6.0)
    for message in messages:
        found.take(message, now)
    return found


def line(found: Seen, jobs: dict[int, str] | None = None, now: float = START + 10) -> dict[str, Any]:
    """The line, as the daemon reads it."""
    told: dict[str, Any] = json.loads(json.dumps(found.line(now, jobs or {})))
    assert all(set(one) == KEYS for one in told["gpus"])
    return told


class TestLine:
    def test_of_healthy_gpus(self) -> None:
        told = line(seen())
        assert (told["up"], told["why"], len(told["gpus"])) == (True, None, 2)
        one = told["gpus"][0]
        assert (one["uuid"], one["used"], one["memory"], one["capability"], one["near"]) == ("GPU-0", 5, 81920, "8.0", ["numa0"])
        assert (one["how"], one["unfit"], one["foreign"]) == ("ok", None, [])

    def test_nothing_is_fit_that_was_not_judged(self) -> None:
        assert [one["unfit"] for one in line(seen(judged=False))["gpus"]] == ["not-judged"] * 2

    def test_before_the_driver_answered(self) -> None:
        told = line(Seen(START))
        assert (told["up"], told["why"], told["gpus"]) == (False, list(STARTING), [])

    def test_a_looker_that_starts_makes_no_gpu_suspect(self) -> None:
        found = Seen(START)
        found.take(gpu(0), 1.0)
        one = line(found)["gpus"][0]
        assert (one["how"], one["unfit"]) == ("unknown", "not-judged")
        assert step(Health(), look(one), 1.0).state == "ok"

    @pytest.mark.parametrize(("code", "how", "slug"), [
        (15, "lost", "gpu-fell-off-bus"), (16, "lost", "gpu-fell-off-bus"), (999, "error", "gpu-answers-with-error"),
        (4, "denied", "device-permission-denied"),
    ])  # fmt: skip
    def test_a_gpu_that_does_not_answer_tells_nothing(self, code: int, how: str, slug: str) -> None:
        one = line(seen(sample(row(), code)))["gpus"][1]
        assert (one["how"], one["unfit"], one["used"], one["util"], one["energy_mj"]) == (how, slug, None, None, None)

    def test_the_gates_word_counts_where_it_is_newer(self) -> None:
        found = seen(sample(row(), 15), now=10.0)
        found.settle({"GPU-1": Verdict(unfit="gsp-timeout", words=("e", "z"))}, None, 11.0)
        assert (line(found)["gpus"][1]["unfit"], line(found)["gpus"][1]["words"]) == ("gsp-timeout", ["e", "z"])

    def test_one_that_comes_back_is_judged_anew(self) -> None:
        found = seen(sample(row(), 15), now=10.0)
        found.take(sample(row(), row()), 12.0)
        assert line(found)["gpus"][1]["unfit"] == "not-judged"
        found.settle({"GPU-1": Verdict()}, None, 12.5)
        assert line(found)["gpus"][1]["unfit"] is None

    def test_a_gpu_that_hangs_and_the_others(self) -> None:
        found = seen({"k": "hung", "t": START, "i": 1, "call": "x", "for": 2.0}, sample(row(), None))
        assert [(one["how"], one["unfit"]) for one in line(found)["gpus"]] == [("ok", None), ("hung", "driver-hung")]

    def test_the_driver_as_a_whole(self) -> None:
        for message in ({"k": "hung", "i": None, "call": "nvmlInit"}, {"k": "bye", "code": None, "error": "no answer"}):
            told = line(seen(message))
            assert (told["up"], told["why"]) == (False, list(HANGS))
            assert [(one["how"], one["unfit"]) for one in told["gpus"]] == [("unknown", "driver-hung")] * 2
        told = line(seen({"k": "bye", "code": 9, "error": "Driver Not Loaded"}))
        assert told["why"][0] == "nvml-init-failed"

    def test_the_gate_names_the_cause_of_a_driver_that_does_not_start(self) -> None:
        found = Seen(START)
        found.take({"k": "init", "code": 9, "error": "Driver Not Loaded"}, 1.0)
        evidence = found.evidence()
        assert evidence
        assert evidence.text.splitlines()[-1] == '{"init": "Driver Not Loaded", "code": 9}'
        found.settle({}, ("driver-module-not-loaded", "e", "z"), 2.0)
        assert line(found)["why"] == ["driver-module-not-loaded", "e", "z"]

    def test_silence(self) -> None:
        found = seen()
        found.tick(5.0 + SILENCE - 0.1)
        assert line(found)["up"]
        found.tick(5.0 + SILENCE)
        assert line(found)["why"][0] == "driver-hung"
        assert found.evidence() is not None
        found.take(sample(row(), row()), 30.0)
        assert line(found)["up"]

    def test_fewer_gpus_and_others(self) -> None:
        assert [one["how"] for one in line(seen(sample(row())))["gpus"]] == ["ok", "gone"]
        moved = line(seen(gpu(0, "GPU-1"), sample(row())))["gpus"]
        assert [(one["uuid"], one["index"], one["how"]) for one in moved] == [("GPU-1", 0, "ok"), ("GPU-0", -1, "gone")]
        changed = line(seen(gpu(1, "GPU-new"), sample(row(), row())))["gpus"]
        assert {(one["uuid"], one["how"]) for one in changed} == {("GPU-0", "ok"), ("GPU-1", "gone"), ("GPU-new", "ok")}

    def test_incidents_and_slices(self) -> None:
        found = seen()
        found.incidents = {"GPU-1": "gpu-fell-off-bus"}
        found.settle({"GPU-0": Verdict(partitioned=True, slices=({"uuid": "MIG-1", "name": "1g", "memory": 9000},))}, None, 7.0)
        told = line(found)["gpus"]
        assert [one["incident"] for one in told] == [None, "gpu-fell-off-bus"]
        assert (told[0]["partitioned"], told[0]["slices"][0]["uuid"]) == (True, "MIG-1")


PROCESSES = {"k": "p", "t": START, "c": 1.0, "g": {"0": [[7, 300, "C", None], [8, 50, "G", None], [9, None, "C", 3]]}, "h": {
    "7": {"user": "ann", "command": "/usr/bin/python train.py"}, "9": {},
}}  # fmt: skip


class TestProcesses:
    def test_who_is_a_stranger(self) -> None:
        found = seen(PROCESSES)
        one = line(found, {9: "12"})["gpus"][0]
        assert one["procs"] == [[7, 300, "C", None], [8, 50, "G", None], [9, None, "C", "12"]]
        assert one["foreign"] == ["pid 7 (ann: python, 300 MiB)"]
        assert line(found)["gpus"][0]["foreign"][1] == "pid 9 (?)"

    def test_of_a_gpu_that_does_not_answer_nobody_is_known(self) -> None:
        found = seen(PROCESSES, sample(15, row()))
        assert line(found)["gpus"][0]["procs"] == []
        found.take(sample(row(), row()), 20.0)
        assert line(found)["gpus"][0]["procs"] == [], "until they are listed anew"

    def test_one_that_is_gone_is_none(self) -> None:
        found = seen(PROCESSES)
        found.settle({"GPU-0": Verdict(gone=frozenset({7, 9}))}, None, 20.0)
        assert line(found)["gpus"][0]["foreign"] == []


LINE = {"k": "log", "t": START + 5, "text": "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."}
EVENT = {"k": "xid", "t": START + 5.5, "i": 1, "code": 79}


class TestXids:
    def test_the_log_and_the_event_are_one(self) -> None:
        for messages in ((LINE, EVENT), (EVENT, LINE)):
            assert [[code for _, code in one["xids"]] for one in line(seen(*messages))["gpus"]] == [[], [79]]

    def test_two_are_two(self) -> None:
        assert len(line(seen(LINE, {**LINE, "t": START + 6}))["gpus"][1]["xids"]) == 2
        assert len(line(seen(LINE, {**EVENT, "t": START + 60}))["gpus"][1]["xids"]) == 2
        assert len(line(seen(LINE, {**EVENT, "code": 48}))["gpus"][1]["xids"]) == 2

    def test_what_is_old_is_no_news(self) -> None:
        found = seen({**LINE, "t": START - 100})
        assert not found.log
        assert line(found)["gpus"][1]["xids"] == []
        assert line(seen(LINE), now=START + 700)["gpus"][1]["xids"] == []

    def test_lines_of_the_kernel_are_passed_on(self) -> None:
        assert list(seen(LINE).log) == [(START + 5, LINE["text"])]


def test_what_is_told_at_once() -> None:
    still, found = marks(line(seen())), seen(sample(row(mem_used=9, util=50), row()))
    assert marks(line(found)) == still  # figures are told each second
    for message in (sample(row(), 15), EVENT, PROCESSES, {"k": "bye", "code": 9}, sample(row(ecc=1), row())):
        assert marks(line(seen(message))) != still, message


def test_one_spelling_of_a_place() -> None:
    assert bus("00000000:1A:00.0") == bus("0000:1a:00") == bus("0:1a:00.1") == "0:1a:00"


plain = st.none() | st.booleans() | st.integers(-2, 2000) | st.floats(allow_nan=False) | st.text(max_size=20)
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=10
)
kinds = st.sampled_from(["init", "gpu", "s", "p", "full", "xid", "log", "hung", "bye", "why", "?"])
names = st.sampled_from(["i", "uuid", "name", "bus", "g", "h", "code", "error", "text", "t", "mem_total", "mig"])
fields = st.dictionaries(names, anything)
rows = st.lists(st.sampled_from([row(), row(mem_used=None), 15, 999, None]), max_size=4).map(lambda some: sample(*some))
cards = st.builds(gpu, st.integers(0, 3), st.sampled_from(["GPU-a", "GPU-b", "GPU-c", "GPU-d"]))
hangs = st.integers(0, 3).map(lambda index: {"k": "hung", "i": index, "t": 1.0})
messages = st.one_of(st.builds(lambda kind, more: {**more, "k": kind}, kinds, fields), rows, cards, hangs)


@given(st.lists(st.tuples(messages, st.floats(0, 20)), max_size=40))
def test_any_messages_leave_an_honest_line(history: list[tuple[dict[str, Any], float]]) -> None:
    found, now = Seen(START), 0.0
    for message, apart in history:
        now += apart
        found.take(message, now)
        found.tick(now)
        told = line(found)
        names = [one["uuid"] for one in told["gpus"]]
        assert len(names) == len(set(names))
        assert told["up"] == (told["why"] is None)
        for one in told["gpus"]:
            look(one)
            assert one["unfit"], "nothing was judged, and something is fit"
            if one["how"] != "ok":
                assert (one["used"], one["util"], one["procs"]) == (None, None, [])
