"""The view of all GPUs: honest after every message, whatever is lost, hung, gone, silent or shuffled; nothing is forgotten."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from ongpu.facts.sample import COLUMNS, HOST, IDENTITY, PLACE
from ongpu.watch import state as module
from ongpu.watch.processes import SHORTEST, rate
from ongpu.watch.state import State, bus

T = 1_800_000_000.0


def row(**changes: int | None) -> list[int | None]:
    values: dict[str, int | None] = {**dict.fromkeys(COLUMNS, 1), "pcie_tx": None, "pcie_rx": None, **changes}
    return [values[name] for name in COLUMNS]


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def begun(gpus: int = 2, **fields: Any) -> State:
    state = State(**fields)
    state.take({"k": "init", "t": T, "code": 0, "driver": "550.1", "cuda": 12040, "count": gpus}, T)
    for i in range(gpus):
        state.take({"k": "gpu", "i": i, "uuid": uuid(i), "name": "A100", "bus": f"0000:{26 + i:02x}:00.0", "mem_total": 81920}, T)
    state.take({"k": "s", "t": T, "n": 0, "g": [row() for _ in range(gpus)]}, T)
    return state


def test_it_begins_knowing_nothing() -> None:
    state = State()
    assert (state.up, state.reason, state.gpus) == (False, "starting", {})
    assert state.take({"k": "init", "t": T, "code": 0, "driver": "550.1", "cuda": 12040, "count": 1}, T) == ["init"]
    assert (state.up, state.gpus[0].condition, state.gpus[0].value("util")) == (False, "unknown", None)
    assert state.take({"k": "s", "t": T, "n": 0, "g": [row(util=50)]}, T) == ["row", "up", "gpu:0"]
    assert (state.up, state.reason, state.driver, state.cuda) == (True, "", "550.1", 12040)
    assert (state.gpus[0].condition, state.gpus[0].value("util"), state.gpus[0].seen) == ("ok", 50, T)


@pytest.mark.parametrize(("code", "condition"), [(15, "lost"), (16, "lost"), (4, "denied"), (999, "error"), (2, "error"), (10, "error")])
def test_a_gpu_that_answers_a_code_keeps_its_name_and_has_no_row(code: int, condition: str) -> None:
    state = begun(3)
    state.take({"k": "p", "t": T, "g": {"1": [[5, 100, "C", None]]}}, T)
    assert state.take({"k": "s", "t": T + 1, "n": 1, "g": [row(), code, row()]}, T + 1) == ["row", "gpu:1"]
    gpu = state.gpus[1]
    assert (gpu.condition, gpu.code, gpu.row, gpu.processes, gpu.value("temp")) == (condition, code, None, [], None)
    assert (gpu.index, gpu.uuid, gpu.since, gpu.seen) == (1, uuid(1), T + 1, T)
    assert [state.gpus[i].condition for i in (0, 2)] == ["ok", "ok"]
    state.take({"k": "s", "t": T + 2, "n": 2, "g": [row(), row(), row()]}, T + 2)
    assert (gpu.condition, gpu.code, gpu.since) == ("ok", None, T + 2)


def test_a_gpu_lost_before_the_child_was_started_is_known_by_its_index() -> None:
    state = begun(3)
    state.take({"k": "init", "t": T, "code": 0, "count": 3}, T)
    for i in (0, 2):
        state.take({"k": "gpu", "i": i, "uuid": uuid(i), "name": "A100", "bus": f"0000:{26 + i:02x}:00.0"}, T)
    state.take({"k": "gpu", "i": 1, "uuid": None, "name": None, "bus": None}, T)
    state.take({"k": "s", "t": T, "n": 0, "g": [row(), 15, row()]}, T)
    gpu = state.gpus[1]
    assert (gpu.uuid, gpu.name, gpu.bus, gpu.condition) == (uuid(1), "A100", "0000:1b:00.0", "lost")
    assert gpu.identity == {"mem_total": 81920}


def test_the_count_shrank_and_the_others_moved_up() -> None:
    state = begun(4)
    state.take({"k": "xid", "t": T, "i": 3, "code": 63}, T)
    state.take({"k": "init", "t": T, "code": 0, "count": 3}, T + 1)
    for index, number in enumerate((0, 2, 3)):  # the second one is gone
        state.take({"k": "gpu", "i": index, "uuid": uuid(number), "name": "A100", "bus": None}, T + 1)
    state.take({"k": "s", "t": T + 1, "n": 0, "g": [row()] * 3}, T + 1)
    assert [(gpu.index, gpu.uuid, gpu.condition) for gpu in state.gpus.values()] == [
        (0, uuid(0), "ok"), (1, uuid(2), "ok"), (2, uuid(3), "ok"), (3, uuid(1), "gone"),
    ]  # fmt: skip
    assert state.gpus[2].xids == {63: 1}
    assert state.gpus[2].bus == "0000:1d:00.0"
    state.take({"k": "init", "t": T, "code": 0, "count": 4}, T + 2)
    for index in range(4):
        state.take({"k": "gpu", "i": index, "uuid": uuid(index)}, T + 2)
    state.take({"k": "s", "t": T + 2, "n": 0, "g": [row()] * 4}, T + 2)
    assert [(gpu.uuid, gpu.condition) for gpu in state.gpus.values()] == [(uuid(i), "ok") for i in range(4)]
    assert state.gpus[3].xids == {63: 1}


def test_another_card_in_its_place() -> None:
    state = begun(1)
    state.take({"k": "init", "t": T, "code": 0, "count": 1}, T)
    state.take({"k": "gpu", "i": 0, "uuid": uuid(9), "name": "H100"}, T)
    assert [(gpu.index, gpu.uuid, gpu.name, gpu.condition) for gpu in state.gpus.values()] == [
        (0, uuid(9), "H100", "unknown"), (1, uuid(0), "A100", "gone"),
    ]  # fmt: skip


def test_silence_leaves_nothing_ok() -> None:
    state = begun()
    changes: list[str] = []
    for tenth in range(1, 60):
        changes += state.tick(T + tenth / 10)
        assert (state.up, state.gpus[0].condition) == ((True, "ok") if tenth < 35 else (False, "unknown")), tenth
    assert changes == ["down", "gpu:0", "gpu:1"]
    assert (state.reason, state.gpus[0].row) == ("no answer", None)
    assert state.take({"k": "s", "t": T + 6, "n": 1, "g": [row(), row()]}, T + 6) == ["row", "up", "gpu:0", "gpu:1"]
    slow = begun(interval=10.0)
    for second in range(1, 31):
        slow.tick(T + second)
        assert slow.up is (second < 30)


def test_a_clock_that_jumps_is_no_silence() -> None:
    state = begun()
    assert state.tick(T + 3600) == []
    assert state.tick(T - 3600) == []
    assert state.tick(T - 3599.8) == []
    assert state.up
    state.take({"k": "s", "t": T, "n": 1, "g": [row(), row()]}, T - 3599.5)
    assert state.tick(T - 3599) == []


@pytest.mark.parametrize("code", [1, 4, 9, 12, 18, 999])
def test_the_driver_went(code: int) -> None:
    state = begun()
    assert state.take({"k": "bye", "t": T, "code": code, "error": "Driver Not Loaded"}, T) == ["down", "gpu:0", "gpu:1"]
    assert (state.up, state.reason, state.code) == (False, "Driver Not Loaded", code)
    assert [(gpu.condition, gpu.code, gpu.uuid) for gpu in state.gpus.values()] == [("unknown", code, uuid(i)) for i in (0, 1)]
    assert state.take({"k": "init", "t": T, "code": code, "error": "Driver Not Loaded"}, T + 1) == ["init"]
    assert all(state.tick(T + 1 + second) == [] for second in range(20))
    assert state.reason == "Driver Not Loaded"
    state.take({"k": "init", "t": T, "code": 0, "count": 2}, T + 30)
    assert not state.up
    state.take({"k": "s", "t": T, "n": 0, "g": [row(), row()]}, T + 30)
    assert (state.up, state.reason, state.code, state.restarts) == (True, "", None, 2)


def test_a_hang_spares_the_others_until_they_are_late_too() -> None:
    state = begun()
    state.tick(T + 1.5)
    state.tick(T + 3.0)
    assert state.take({"k": "hung", "t": T, "i": 1, "call": "nvmlDeviceGetTemperature", "for": 2.0}, T + 3.1) == ["gpu:1", "hung:1"]
    assert (state.gpus[1].condition, state.gpus[1].hung_in, state.gpus[1].row) == ("hung", "nvmlDeviceGetTemperature", None)
    assert (state.up, state.gpus[0].condition) == (True, "ok")
    assert state.tick(T + 4.0) == []
    assert state.tick(T + 4.2) == ["down", "gpu:0", "gpu:1"]
    state.take({"k": "hung", "t": T, "i": 1, "call": "x", "for": 2.0}, T + 5)
    state.take({"k": "s", "t": T, "n": 0, "g": [row(), None]}, T + 5)
    assert [gpu.condition for gpu in state.gpus.values()] == ["ok", "hung"]
    state.take({"k": "s", "t": T, "n": 1, "g": [row(), row()]}, T + 6)
    assert (state.gpus[1].condition, state.gpus[1].hung_in) == ("ok", None)
    assert state.take({"k": "hung", "t": T, "i": None, "call": "nvmlInit_v2", "for": 15.0}, T + 7) == ["down", "gpu:0", "gpu:1"]
    assert state.reason == "nvmlInit_v2 hangs"


def test_why_is_told_and_no_permission_is_not_none() -> None:
    state = begun(1)
    state.take({"k": "p", "t": T, "g": {"0": [[5, None, "C", None]]}}, T)
    assert len(state.gpus[0].processes) == 1
    assert state.take({"k": "why", "i": 0, "codes": {"util": 3, "processes": 4}}, T) == ["gpu:0"]
    assert (state.gpus[0].why, state.gpus[0].processes) == ({"util": 3, "processes": 4}, [])


def test_rates_of_processes() -> None:
    state = begun(1)

    def p(t: float, m: float | None, host: dict[str, Any]) -> Any:
        state.take({"k": "p", "t": t, **({} if m is None else {"c": m}), "g": {"0": [[42, 100, "C", 7]]}, "h": {"42": host}}, t)
        return state.gpus[0].processes[0]

    first = {"start": 5, "cpu": 10.0, "main": 8.0, "read": 0, "rchar": 1 << 20, "children": [[43, "w", 1.0, "R", None]]}
    process = p(T, 100.0, first)
    assert (process.pid, process.mem, process.kind, process.sm, process.cpu_share) == (42, 100, "C", 7, None)
    second = {**first, "cpu": 13.0, "main": 10.0, "read": 4000, "rchar": None, "children": [[43, "w", 2.0, "R", 9], [44, "v", 1.0, "S", 9]]}
    process = p(T - 3600, 102.0, second)  # the wall clock was set back; m was not
    assert (process.cpu_share, process.main_share, process.read_rate, process.rchar_rate) == (1.5, 1.0, 2000.0, None)
    assert [(c.pid, c.cpu_share, c.read_rate) for c in process.children] == [(43, 0.5, None), (44, None, None)]
    assert p(T, 102.0, second).cpu_share is None  # no time passed
    assert p(T, 104.0, {**first, "cpu": 1.0}).cpu_share is None  # shrank
    assert p(T, 106.0, {**second, "start": 6}).cpu_share is None  # another process
    assert p(T, 108.0, {}).host == {}  # not visible from here
    state.take({"k": "p", "t": T, "g": {"0": []}}, T)
    assert state.hosts == {}


def test_a_process_that_is_not_visible_is_told_as_such() -> None:
    state = begun(1)
    state.take({"k": "p", "t": T, "g": {"0": [[4242, 8000, "C", None]]}, "h": {"4242": {}}}, T)
    assert state.gpus[0].processes[0].host == {}


def test_seldom_columns_are_remembered_for_a_while() -> None:
    state = begun(1)
    state.take({"k": "s", "t": T, "n": 1, "g": [row(pcie_tx=500, pcie_rx=0)]}, T)
    state.take({"k": "s", "t": T, "n": 2, "g": [row()]}, T + 30)
    assert (state.gpus[0].value("pcie_tx"), state.gpus[0].value("pcie_rx")) == (500, 0)
    state.take({"k": "s", "t": T, "n": 3, "g": [row()]}, T + 200)
    assert state.gpus[0].value("pcie_tx") is None


def test_xids_are_counted_once_from_two_witnesses() -> None:
    state = begun()
    text = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
    assert state.take({"k": "log", "t": T, "text": text}, T) == ["log", "xid:1:79"]
    assert state.take({"k": "xid", "t": T, "i": 1, "code": 79}, T) == ["xid:1:79"]
    assert state.gpus[1].xids == {79: 1}
    state.take({"k": "xid", "t": T, "i": 1, "code": 79}, T)
    assert state.gpus[1].xids == {79: 2}
    assert state.take({"k": "log", "t": T - 5000, "text": text}, T) == ["log"]  # from before
    assert state.gpus[1].xids == {79: 2}
    assert list(state.log) == [(T, text), (T - 5000, text)]
    assert list(state.events) == [(T, 1, 79)] * 2
    assert state.take({"k": "log", "error": "denied"}, T) == ["log"]
    assert state.log_problem == "denied"


def test_late_samples_are_counted() -> None:
    state = begun()
    for number in (1, 2, 5, 6):
        state.take({"k": "s", "t": T, "n": number, "g": [row(), row()]}, T)
    assert (state.samples, state.late) == (5, 2)


def test_json_goes_round() -> None:
    state = begun()
    state.take({"k": "why", "i": 0, "codes": {"fan": 3}}, T)
    state.take({"k": "p", "t": T, "g": {"0": [[42, 1, "C", 7]]}, "h": {"42": {"start": 5, "children": [[43, "w", 1.0, "R", None]]}}}, T)
    state.take({"k": "xid", "t": T, "i": 1, "code": 79}, T)
    state.take({"k": "full", "t": T, "text": "x"}, T)
    state.take({"k": "log", "t": T, "text": "NVRM: hello"}, T)
    again = State.from_json(state.as_json())
    assert json.loads(again.as_json()) == json.loads(state.as_json())
    assert again.gpus == state.gpus
    assert (again.up, again.driver, list(again.log), again.gpus[1].xids) == (True, "550.1", [(T, "NVRM: hello")], {79: 1})


def test_a_place_on_the_bus_has_one_spelling() -> None:
    assert bus("00000000:1A:00.0") == bus("0000:1a:00") == bus("0000:1a:00.0") == "0:1a:00"
    assert bus("0001:1a:00.0") != bus("0000:1a:00.0")


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(-1e6, 1e6))
def test_a_rate_is_never_negative(new: float, old: float, seconds: float) -> None:
    told = rate(new, old, seconds)
    assert told is None or (told >= 0 and math.isfinite(told))
    assert (told is None) is (new < old or seconds < SHORTEST)


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2000) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.fixed_dictionaries(
    {"k": st.sampled_from(["init", "gpu", "s", "why", "full", "xid", "log", "hung", "bye", "no_such", "take_s", "", None, 3])},
    optional=dict.fromkeys(("i", "code", "count", "g", "codes", "uuid", "text", "error", "call", "n"), VALUES),
), max_size=6))  # fmt: skip
def test_no_message_breaks_it(messages: list[dict[str, Any]]) -> None:
    state = begun()
    for number, message in enumerate(messages):
        assert isinstance(state.take(message, T + number), list)
    assert {uuid(0), uuid(1)} <= {gpu.uuid for gpu in state.gpus.values()}
    state.as_json()


CODES = [1, 2, 3, 4, 6, 9, 10, 13, 15, 16, 17, 18, 19, 20, 999]


class Node(RuleBasedStateMachine):
    """A machine whose GPUs, driver and child fail at random, and what State says of it after each message."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State()
        self.now = T
        self.place: list[int] = []  # index -> number of the card that is there
        self.fault: dict[int, int | str] = {}  # number -> NVML's code, "hung"
        self.told: set[str] = set()  # UUIDs that were said
        self.driver: int = 0  # its code
        self.fresh = False  # a sample came, and nothing after it that would change the picture
        self.number = 0
        self.cpu = 0.0

    def take(self, **message: Any) -> None:
        self.state.take({"t": self.now, **message}, self.now)

    def start(self) -> None:
        self.take(k="init", code=0, driver="550.1", cuda=12040, count=len(self.place))
        self.number = 0
        for index, card in enumerate(self.place):
            if card not in self.fault:
                self.take(k="gpu", i=index, uuid=uuid(card), name="A100", bus=f"0000:{26 + card:02x}:00.0")
                self.told.add(uuid(card))
            elif self.fault[card] != "hung":
                self.take(k="gpu", i=index, uuid=None, name=None, bus=None)
        self.fresh = False

    @initialize(cards=st.integers(1, 5))
    def begin(self, cards: int) -> None:
        self.place = list(range(cards))
        self.cards = cards
        self.start()

    @precondition(lambda self: not self.driver)
    @rule()
    def sample(self) -> None:
        self.now += 1
        rows = [None if (f := self.fault.get(card)) == "hung" else row() if f is None else f for card in self.place]
        self.take(k="s", n=self.number, g=rows)
        self.number += 1
        self.fresh = True

    @precondition(lambda self: self.place and not self.driver)
    @rule(data=st.data(), code=st.sampled_from(CODES))
    def one_fails(self, data: st.DataObject, code: int) -> None:
        self.fault[data.draw(st.sampled_from(self.place))] = code
        self.sample()

    @precondition(lambda self: self.place and not self.driver)
    @rule(data=st.data())
    def one_hangs(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.place) - 1))
        self.fault[self.place[index]] = "hung"
        self.now += 2
        self.take(k="hung", i=index, call="nvmlDeviceGetPowerUsage", **{"for": 2.0})
        self.start()
        self.sample()

    @precondition(lambda self: self.fault)
    @rule(data=st.data())
    def one_heals(self, data: st.DataObject) -> None:
        card = data.draw(st.sampled_from(sorted(self.fault)))
        del self.fault[card]
        if not self.driver and card in self.place:
            self.take(k="gpu", i=self.place.index(card), uuid=uuid(card), name="A100", bus=None)
            self.told.add(uuid(card))
            self.sample()

    @precondition(lambda self: not self.driver)
    @rule(code=st.sampled_from([1, 9, 12, 18, 999]))
    def the_driver_goes(self, code: int) -> None:
        self.driver = code
        self.take(k="bye", code=code, error="words")
        self.fresh = False

    @precondition(lambda self: self.driver)
    @rule()
    def a_new_child_fails(self) -> None:
        self.now += 1
        self.take(k="init", code=self.driver, error="words")

    @precondition(lambda self: self.driver)
    @rule(data=st.data())
    def the_driver_comes_back(self, data: st.DataObject) -> None:
        self.driver = 0
        self.place = data.draw(st.lists(st.integers(0, self.cards - 1), unique=True, max_size=self.cards))
        self.start()

    @precondition(lambda self: not self.driver)
    @rule()
    def the_child_is_started_anew(self) -> None:
        self.take(k="bye", code=None, error="the sampling process: ended by SIGKILL")
        self.start()

    @rule(tenths=st.integers(1, 80))
    def time_passes(self, tenths: int) -> None:
        for _ in range(tenths):
            self.now += 0.1
            self.state.tick(self.now)
        self.fresh = False
        if tenths >= 10 * module.PATIENCE + 1:
            assert not self.state.up
            assert all(gpu.condition != "ok" for gpu in self.state.gpus.values())

    @rule(seconds=st.sampled_from([-86400.0, -5.0, 5.0, 86400.0]))
    def the_clock_jumps(self, seconds: float) -> None:
        before, self.fresh = self.state.up, False
        self.now += seconds
        silence = self.state.silence
        self.state.tick(self.now)
        if silence < module.PATIENCE / 2:
            assert self.state.up is before

    @precondition(lambda self: self.place and not self.driver)
    @rule(data=st.data(), seconds=st.floats(-5, 5), used=st.floats(-1, 5))
    def processes(self, data: st.DataObject, seconds: float, used: float) -> None:
        self.cpu += used
        host = {"start": 5, "cpu": self.cpu, "main": self.cpu, "read": None}
        index = data.draw(st.integers(0, len(self.place) - 1))
        self.take(k="p", m=self.now + seconds, g={str(index): [[42, 100, "C", None]]}, h={"42": host})

    @rule(i=st.none() | st.integers(0, 6), code=st.sampled_from([13, 31, 43, 63, 79]))
    def xid(self, i: int | None, code: int) -> None:
        if i is None or i < len(self.place):
            self.take(k="xid", i=i, code=code)

    @invariant()
    def identity_is_never_lost(self) -> None:
        known = [gpu.uuid for gpu in self.state.gpus.values() if gpu.uuid]
        assert len(known) == len(set(known))
        assert set(known) >= self.told
        assert [gpu.index for gpu in self.state.gpus.values()] == list(self.state.gpus) == sorted(self.state.gpus)
        assert all(gpu.bus == f"0000:{26 + int(gpu.uuid[4:12], 16):02x}:00.0" for gpu in self.state.gpus.values() if gpu.uuid and gpu.bus)

    @invariant()
    def nothing_stale_and_no_fault_is_ok(self) -> None:
        by_uuid = {gpu.uuid: gpu for gpu in self.state.gpus.values() if gpu.uuid}
        for gpu in self.state.gpus.values():
            assert (gpu.row is not None) == (gpu.condition == "ok")
            assert gpu.condition == "ok" or not gpu.processes
            assert not (gpu.condition == "ok" and not self.state.up)
            assert all((p.cpu_share or 0) >= 0 and (p.main_share or 0) >= 0 for p in gpu.processes)
        for card in range(getattr(self, "cards", 0)):
            if (card in self.fault or card not in self.place or self.driver) and (gpu := by_uuid.get(uuid(card))):
                assert gpu.condition != "ok", (card, gpu)

    @invariant()
    def what_answers_is_ok_again(self) -> None:
        if self.fresh and not self.driver:
            assert self.state.up
            assert self.state.reason == ""
            for index, card in enumerate(self.place):
                gpu = self.state.gpus[index]
                if card not in self.fault:
                    assert gpu.condition == "ok"
                    assert gpu.uuid in (uuid(card), None)

    def teardown(self) -> None:
        """All faults end: all is well again, and nobody was forgotten."""
        if not self.place:
            return
        self.driver, self.fault = 0, {}
        self.start()
        self.sample()
        self.what_answers_is_ok_again()
        self.identity_is_never_lost()
        assert json.loads(State.from_json(self.state.as_json()).as_json()) == json.loads(self.state.as_json())


def machine(examples: int) -> None:
    run_state_machine_as_test(
        Node, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
    )


def test_random_faults() -> None:
    machine(60)


@pytest.mark.slow
def test_a_thousand_random_schedules() -> None:
    machine(1000)


def test_the_names_of_the_contract() -> None:
    assert set(PLACE) == set(COLUMNS)
    assert {"cpu", "main", "read", "rchar", "children", "start"} <= set(HOST)
    assert {"temp_limit", "mem_total", "mig"} <= set(IDENTITY)
