"""The window that the verdicts are judged from, of messages as the child prints them."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.engine import diagnose
from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.facts.trend import Trend
from ongpu.hosts.sampling import demo
from ongpu.model import Verdict
from ongpu.report.verdicts import unexplained, verdicts
from ongpu.sources import trend
from ongpu.watch.window import LENGTH, MOST_ROWS, Window

START = 1_764_500_000.0


def row(**values: Any) -> list[Any]:
    told: list[Any] = [None] * len(COLUMNS)
    for name, value in values.items():
        told[PLACE[name]] = value
    return told


def sample(second: float, *rows: Any) -> dict[str, Any]:
    return {"k": "s", "t": START + second, "n": int(second), "g": list(rows)}


def look(second: float, listed: dict[str, Any], hosts: dict[str, Any] | None = None, machine: Any = None) -> dict[str, Any]:
    return {"k": "p", "t": START + second, "g": listed, **({"h": hosts} if hosts else {}), **({"m": machine} if machine else {})}


def after(*messages: dict[str, Any]) -> tuple[Window, Trend]:
    window = Window()
    for message in messages:
        window.take(message, START)
    return window, fact(window)


def fact(window: Window) -> Trend:
    evidence = window.evidence()
    assert evidence
    return next(one for one in trend.read(evidence) if isinstance(one, Trend))


def test_nothing_is_said_before_a_gpu_answered() -> None:
    window = Window()
    assert window.evidence() is None
    window.take(sample(0, 15, None), START)
    assert window.evidence() is None


def test_rows_and_the_time_without_work() -> None:
    window, told = after(*(sample(n, row(util=50 if n < 20 else 1)) for n in range(50)))
    (gpu,) = told.gpus
    assert (gpu.seconds, gpu.idle) == (49, 30)
    assert gpu.series("power").known == ()
    for n in range(50, 4000):
        window.take(sample(n, row(util=0)), START)
    (gpu,) = fact(window).gpus
    assert (gpu.seconds, gpu.idle) == (LENGTH, 3999 - 19)
    window.take(sample(4000, row(util=None)), START)
    assert fact(window).gpus[0].idle is None


def test_rates_are_of_counters() -> None:
    def host(second: float) -> dict[str, Any]:
        children = [[8, "pt_data_worker", 0.9 * second, "R", None], [9, "python", 0.0, "S", 5]]
        return {"start": 77, "user": "ann", "command": "python a.py", "cpu": 1.5 * second, "main": second, "state": "S",
                "read": None, "rchar": int(2e6 * second), "children": children}  # fmt: skip

    def machine(second: float) -> dict[str, Any]:
        return {"cores": 8, "load": 2.0, "busy": 3 * second, "iowait": 0.5 * second, "net_rx": int(1e6 * second)}

    messages = [
        message for n in (0, 5, 10) for message in (sample(n, row(util=9)), look(n, {"0": [[7, 100, "C", 9]]}, {"7": host(n)}, machine(n)))
    ]
    _, told = after(*messages)
    (program,) = told.processes
    assert (program.cpu, program.main.median, program.rchar.median, program.read.known) == ((None, 1.5, 1.5), 1.0, 2e6, ())
    assert [(w.pid, w.cpu.median, w.state) for w in program.workers] == [(8, 0.9, ("R",) * 3), (9, 0.0, ("S",) * 3)]
    assert program.quiet == 0
    assert told.host
    assert (told.host.cores, told.host.busy.median, told.host.iowait.median, told.host.net_rx.median) == (8, 3.0, 0.5, 1e6)


def test_a_number_that_went_to_another_program_begins_anew() -> None:
    listed = {"0": [[7, 100, "C", None]]}
    host = {"cpu": 100.0, "main": 1.0, "state": "S", "children": [], "command": "a", "start": 1}
    other = {**host, "cpu": 900.0, "command": "b", "start": 2}
    _, told = after(sample(0, row(util=9)), look(0, listed, {"7": host}), look(5, listed, {"7": other}), sample(5, row(util=9)))
    (program,) = told.processes
    assert (program.command, program.cpu.known) == ("b", ())


def test_ranks_are_not_workers_of_their_parent() -> None:
    parent = {"cpu": 1.0, "start": 1, "state": "S", "children": [[8, "python", 1.0, "R", None], [9, "python", 1.0, "R", None]]}
    _, told = after(
        sample(0, row(util=9)), look(0, {"0": [[7, 1, "C", None], [8, 1, "C", None]]}, {"7": parent, "8": {"start": 2, "state": "R"}})
    )
    assert {p.pid: [w.pid for w in p.workers] for p in told.processes} == {7: [9], 8: []}


def test_the_other_gpus_of_a_job_are_told_beside_its_programs() -> None:
    def host(**changes: Any) -> dict[str, Any]:
        return {"start": 1, "state": "R", "command": "python a.py", "user": "ann", **changes}

    card = {"k": "gpu", "uuid": "x", "power_default": 400_000}
    rows = [row(util=100, power=80_000), row(util=0, power=60_000), row(util=50, power=200_000)]
    window, told = after(
        *({**card, "i": i, "uuid": str(i)} for i in range(3)),
        *(sample(n, *rows) for n in range(30)),
        look(30, {str(i): [[i + 7, 1, "C", None]] for i in range(3)}, {"7": host(), "8": host(), "9": host(job="slurm:5")}),
    )
    shown = {p.gpu: [(rank.gpu, rank.util, rank.power) for rank in p.ranks] for p in told.processes}
    assert shown == {0: [(1, 0, 0.15)], 1: [(0, 100, 0.2)], 2: []}
    evidence = window.evidence({0})
    assert evidence
    (alone,) = [one for one in trend.read(evidence) if isinstance(one, Trend)]
    assert [gpu.index for gpu in alone.gpus] == [0]
    assert [rank.gpu for rank in alone.processes[0].ranks] == [1]


def test_other_namespaces_and_refused_lists_are_told() -> None:
    _, told = after(
        sample(0, row(util=9), row(util=9)),
        {"k": "why", "i": 1, "codes": {"processes": 4}},
        look(0, {"0": [[7, None, "C", None]]}, {"7": {}}),
    )
    assert [p.visible for p in told.processes] == [False]
    assert [gpu.processes for gpu in told.gpus] == [True, False]


def test_a_gpu_that_was_lost_begins_anew() -> None:
    window, _ = after(*(sample(n, row(util=90), row(util=90)) for n in range(30)), sample(30, row(util=90), 15))
    assert [gpu.index for gpu in fact(window).gpus] == [0]
    window.take(sample(31, row(util=0), row(util=0)), START)
    assert [len(gpu.t) for gpu in fact(window).gpus] == [32, 1]
    window.take(sample(32, row(util=0)), START)
    assert [gpu.index for gpu in fact(window).gpus] == [0]


def test_another_card_at_an_index_begins_anew() -> None:
    def card(uuid: str) -> dict[str, Any]:
        return {"k": "gpu", "i": 0, "uuid": uuid, "name": "T4", "mem_total": 15_360}

    window, _ = after(card("GPU-a"), sample(0, row(util=90)), card("GPU-a"), sample(1, row(util=90)))
    assert len(fact(window).gpus[0].t) == 2
    window.take(card("GPU-b"), START)
    window.take(sample(2, row(util=5)), START)
    assert (fact(window).gpus[0].uuid, len(fact(window).gpus[0].t)) == ("GPU-b", 1)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    window, _ = after(*(sample(n, row(util=90)) for n in range(100)))
    window.take(sample(-5000, row(util=3)), START)
    assert fact(window).gpus[0].series("util") == (3,)


def test_traffic_reaches_back_further() -> None:
    _, told = after(*(sample(n, row(util=9, pcie_rx=1000 * n if n % 30 == 0 else None)) for n in range(300)))
    assert told.gpus[0].series("pcie_rx") == (120_000, 150_000, 180_000, 210_000, 240_000, 270_000)


def test_it_stays_small() -> None:
    window = Window()
    for n in range(6000):
        window.take(sample(n / 10, *[row(util=50, power=1) for _ in range(8)]), START)
        window.take(look(n / 10, {"0": [[n + 1, 5, "C", None]]}, {str(n + 1): {"start": n, "cpu": 1.0, "state": "S"}}), START)
    assert all(len(gpu.rows) <= MOST_ROWS for gpu in window.gpus.values())
    assert len(window.programs) == len(window.mem) == 1
    evidence = window.evidence()
    assert evidence
    assert len(evidence.text) < 150_000


def test_the_simulated_machine_gets_its_verdicts() -> None:
    window = Window()
    for message in demo.messages(seconds=61, speed=0.0):
        window.take(message, 0.0)
    evidence = window.evidence()
    assert evidence
    report = diagnose([evidence], "test")
    found = {index: finding.slug for index, finding in verdicts(report).items()}
    assert found | {4: "gpu-held-idle"} == {
        0: "gpu-busy",
        1: "gpu-busy",
        2: "input-pipeline-bound",
        3: "host-bound",
        4: "gpu-held-idle",
        5: "gpu-waits-for-disk",
        6: "gpu-busy",
        7: "gpu-busy",
    }
    assert set(unexplained(report)) <= {4}


ODD: st.SearchStrategy[Any] = st.none() | st.integers(-3, 99) | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=15)
MESSAGE = st.fixed_dictionaries(
    {"k": st.sampled_from(["s", "p", "gpu", "why", "init", "bye"])},
    optional={
        "t": ODD,
        "i": ODD,
        "uuid": ODD,
        "codes": st.dictionaries(st.text(max_size=3), ODD, max_size=2) | ODD,
        "m": ODD | st.dictionaries(st.sampled_from(["cores", "busy"]), ODD),
        "g": st.lists(st.just(row(util=5)) | ODD, max_size=3)
        | st.dictionaries(st.sampled_from(["0", "1", "x"]), ODD | st.lists(st.just([7, 1, "C", None]) | ODD, max_size=2)),
        "h": ODD
        | st.dictionaries(
            st.sampled_from(["7", "x"]), ODD | st.dictionaries(st.sampled_from(["cpu", "start", "state", "children", "command"]), ODD)
        ),
    },
)


@given(st.lists(MESSAGE, max_size=8))
@settings(max_examples=300, deadline=None)
def test_no_message_makes_it_crash(messages: list[dict[str, Any]]) -> None:
    window = Window()
    for message in messages:
        window.take(json.loads(json.dumps(message)), START)
    evidence = window.evidence()
    if evidence:
        report = diagnose([evidence], "test")
        assert not report.unread
        assert not [o for o in report.outcomes if o.verdict is Verdict.CRASHED]
