"""What happened at a moment: each Xid once, with its program; what changed of GPUs and driver."""

from hypothesis import given
from hypothesis import strategies as st
from test_judge import Node

from ongpu.watch.events import SAME, Event, Events, _program


class Log(Node):
    """A node whose events are kept."""

    def __init__(self, gpus: int = 2) -> None:
        self.kept: list[Event] = []
        self.events = Events()
        super().__init__(gpus)

    def tell(self, *lines: dict[str, object]):  # type: ignore[no-untyped-def, override]
        for line in lines:
            self.kept += self.events.step(self.state.take(line, self.now), self.state, self.now)
        return self.answers

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.kept += self.events.step([], self.state, self.now)

    def xids(self) -> list[tuple[int | None, int]]:
        return [(one["gpu"], one["code"]) for one in self.kept if one["kind"] == "xid"]


LINE = "NVRM: Xid (PCI:0000:1b:00): 31, pid=4242, name=python, Ch 00000013, MMU Fault"


def test_one_xid_that_nvml_and_the_log_tell_is_one_event_with_its_program() -> None:
    for first, second in ((0, 1), (1, 0)):
        log = Log()
        host = {"user": "ada", "command": "python train.py", "job": "slurm:7"}
        log.tell({"k": "p", "t": log.now, "g": {"1": [[4242, 100, "C", 5]]}, "h": {"4242": host}})
        lines = [{"k": "xid", "t": log.now, "i": 1, "code": 31}, {"k": "log", "t": log.now, "text": LINE}]
        log.tell(lines[first])
        log.pass_time(0.5)
        log.tell(lines[second])
        log.pass_time(2 * SAME)
        assert log.xids() == [(1, 31)]
        (event,) = [one for one in log.kept if one["kind"] == "xid"]
        assert (event["pid"], event["process"], event["user"], event["job"]) == (4242, "python", "ada", "slurm:7")
        assert event["application"]
        assert "GPU 1: Xid 31" in event["en"]
        assert "ada" in event["zh"]


def test_the_same_xid_again_is_another_event() -> None:
    log = Log()
    for _ in range(3):
        log.tell({"k": "log", "t": log.now, "text": LINE})
        log.pass_time(60)
    assert log.xids() == [(1, 31)] * 3


def test_an_xid_without_a_log_is_told_after_a_moment() -> None:
    log = Log()
    log.tell({"k": "xid", "t": log.now, "i": 0, "code": 48})
    assert log.xids() == []
    log.pass_time(SAME)
    assert log.xids() == [(0, 48)]
    assert not log.kept[-1]["application"]


def test_gpus_and_the_driver_come_and_go() -> None:
    log = Log()
    assert [one["kind"] for one in log.kept] == ["driver"]
    log.rows[1] = 15
    log.sample()
    log.rows[1] = log.row()
    log.sample()
    log.tell({"k": "bye", "t": log.now, "code": 9, "error": "Driver Not Loaded"})
    told = [(one["kind"], one.get("condition", one.get("up"))) for one in log.kept[1:]]
    assert told == [("gpu", "lost"), ("gpu", "ok"), ("driver", False)]
    assert log.kept[-1]["en"] == "NVML does not answer: Driver Not Loaded"


@given(st.text(max_size=500))
def test_any_line_names_a_program_or_none(text: str) -> None:
    pid, name = _program(f"NVRM: Xid (PCI:0000:1b:00): 31, {text}")
    assert pid is None or pid >= 0
    assert name is None or len(name) <= 64


def test_programs_of_real_lines() -> None:
    assert _program(LINE) == (4242, "python")
    assert _program("NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.") == (None, None)
    assert _program("NVRM: Xid (PCI:0000:1b:00): 13, pid='1234', name=a.out, Graphics Exception") == (1234, "a.out")
