"""Random schedules of faults through state, judge and incidents: no crash, nothing faulty told as healthy, no lost incident."""

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from test_judge import Node, T

from ongpu.watch.evidence import WORDS, place_of
from ongpu.watch.incidents import Incident, Incidents
from ongpu.watch.state import OK

GPUS = 3
CODES = st.sampled_from(sorted(WORDS))
ONE = st.integers(0, GPUS - 1)
XIDS = (13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 94, 95, 119, 120, 154, 999)
LOST = ("gpu-fell-off-bus", "gpu-answers-with-error", "driver-hung", "device-permission-denied", "ecc-uncorrectable")


class Faults(RuleBasedStateMachine):
    """What the sampling child may say in any order, and what must be so after each line."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(GPUS)
        self.incidents = Incidents(self.node.now, self.node.now)
        self.store: dict[int, Incident] = {}
        self.settle()

    def settle(self) -> None:
        """The incidents hear what was judged."""
        self.node.look()
        for change in self.incidents.step(self.node.now, self.node.now, self.node.answers):
            incident = change.incident
            if change.what == "opened":
                self.incidents.number(incident.key, len(self.store) + 1)
                incident = next(one for one in self.incidents.open if one.key == incident.key)
                assert incident.words["en"]["title"]
                assert incident.words["zh"]["title"]
            self.store[incident.id] = incident

    def tell(self, **line: object) -> None:
        self.node.tell(dict(line))
        self.settle()

    @rule(index=ONE, code=CODES, seconds=st.sampled_from([0.1, 1.0, 40.0]))
    def fails(self, index: int, code: int, seconds: float) -> None:
        self.node.rows[index] = code
        self.node.sample(seconds)
        self.settle()

    @rule(index=ONE, temp=st.integers(30, 110), ecc=st.integers(0, 2), reasons=st.integers(0, 0x3FF))
    def answers(self, index: int, temp: int, ecc: int, reasons: int) -> None:
        self.node.rows[index] = self.node.row(temp=temp, ecc=ecc, reasons=reasons)
        self.node.sample()
        self.settle()

    @rule(index=ONE)
    def hangs(self, index: int) -> None:
        self.node.rows[index] = None
        self.tell(k="hung", t=self.node.now, i=index, call="nvmlDeviceGetTemperature", **{"for": 2.0})

    @rule(index=ONE, code=st.sampled_from(XIDS), logged=st.booleans())
    def xid(self, index: int, code: int, logged: bool) -> None:
        if logged:
            line = f"NVRM: Xid (PCI:0000:{0x1a + index:02x}:00): {code}, pid=4242, name=python, Ch 00000008"
            self.tell(k="log", t=self.node.now, text=line)
        else:
            self.tell(k="xid", t=self.node.now, i=index, code=code)

    @rule(code=CODES)
    def driver_goes(self, code: int) -> None:
        self.tell(k="bye", t=self.node.now, code=code, error=WORDS[code])

    @rule(count=st.integers(0, GPUS))
    def driver_comes(self, count: int) -> None:
        self.tell(k="init", t=self.node.now, code=0, error=None, driver="1", cuda=12020, count=count)
        for index in range(count):
            self.node.identity(index)
        self.settle()

    @rule(seconds=st.sampled_from([0.2, 5.0, 60.0, 700.0]))
    def passes(self, seconds: float) -> None:
        self.node.now += seconds
        self.node.judge.hear(self.node.state.tick(self.node.now), self.node.state, self.node.now)
        self.settle()

    @rule()
    def restarts(self) -> None:
        """The agent ends and begins anew on the same store; the node goes on."""
        rows = self.node.rows
        old = self.node.now
        self.node = Node(GPUS)
        self.node.now, self.node.rows = max(old, T), rows
        kept = list(self.store.values())
        self.incidents = Incidents(self.node.now, self.node.now, [one for one in kept if one.closed is None], kept)
        self.node.sample()
        self.settle()

    @invariant()
    def no_rule_crashed(self) -> None:
        assert self.node.judge.crashed == {}

    @invariant()
    def nothing_that_does_not_answer_is_told_as_healthy(self) -> None:
        clear = {place for _, place in self.node.answers.clear}
        for gpu in self.node.state.gpus.values():
            assert gpu.condition == OK or place_of(gpu) not in clear, (gpu.index, gpu.condition)
        if not self.node.state.up:
            assert not clear - {""}

    @invariant()
    def whoever_is_lost_has_an_incident(self) -> None:
        open_ones = {one.key for one in self.incidents.open}
        assert open_ones == {one.key for one in self.store.values() if one.closed is None}
        for gpu in self.node.state.gpus.values():
            if self.node.state.up and gpu.condition in ("lost", "gone") and gpu.code != 16:
                assert any((slug, place_of(gpu)) in self.node.answers.found for slug in LOST), (gpu.index, gpu.condition, gpu.code)
                assert ("gpu-fell-off-bus", place_of(gpu)) in open_ones

    @invariant()
    def a_programs_own_xid_condemns_nothing(self) -> None:
        for seen in self.node.answers.found.values():
            for code in (13, 31, 43, 45):
                refs = seen.diagnosis().refs
                assert not refs or any(f" {code}, pid" not in ref["quote"] for ref in refs)


def test_some_schedules() -> None:
    run_state_machine_as_test(Faults, settings=settings(max_examples=20, stateful_step_count=25, deadline=None))


@pytest.mark.slow
def test_many_schedules() -> None:
    """ONGPU_SCHEDULES: how many; 1,000 take some three minutes and were gone through before issue 4 was closed."""
    many = int(os.environ.get("ONGPU_SCHEDULES", "300"))
    run_state_machine_as_test(Faults, settings=settings(max_examples=many, stateful_step_count=25, deadline=None))
