import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from parts.trends import gpu, host, process, text, unseen, worker

from ongpu.engine import diagnose
from ongpu.facts.hardware import Gpus
from ongpu.facts.sample import COLUMNS
from ongpu.facts.trend import Trend
from ongpu.facts.waiting import waits
from ongpu.model import Evidence, Verdict
from ongpu.sources import trend


def read(written: str) -> Trend:
    return next(fact for fact in trend.read(Evidence("trend", written, "watch")) if isinstance(fact, Trend))


def cards(written: str) -> Gpus:
    return next(fact for fact in trend.read(Evidence("trend", written, "watch")) if isinstance(fact, Gpus))


def test_what_a_window_tells() -> None:
    fact = read(text([gpu(3, [10, 90], rx=20)], [process(7, 3, cpu=0.5, workers=[worker(0.9)] * 2, read=2)], host(8, net=3)))
    (one,) = fact.gpus
    assert (one.index, one.seconds, one.identity["mem_total"]) == (3, 60, 81_920)
    assert (round(one.mean("util") or 0, 6), one.share_below("util", 50)) == (round((10 * 31 + 90 * 30) / 61, 6), 31 / 61)
    assert one.power_share == 330 / 400
    assert (one.link_name, round(one.link or 0, 1)) == ("Gen4 x16", 25.2)
    (program,) = fact.on(one)
    assert (program.pid, program.cpu.median, program.total_cpu, program.total_read) == (7, 0.5, 2.3, 2e6)
    assert program.visible
    assert fact.host is not None
    assert (fact.host.cores, fact.host.net_rx.median) == (8, 3e6)
    assert fact.working()


def test_grounds_are_lines_with_figures() -> None:
    written = text([gpu(0), gpu(1, 12)], [process(7, 1, workers=[worker(1.0)]), unseen(8, 1)])
    fact = read(written)
    line, quote = (fact.gpus[1].ref.line, fact.gpus[1].ref.quote) if fact.gpus[1].ref else (0, "")
    assert json.loads(written.splitlines()[line - 1].rstrip(","))["i"] == 1
    assert "utilisation 12 % (12 to 12)" in quote
    first, second = fact.processes
    assert first.ref
    assert first.workers_ref
    assert "pid 7, ann, python train.py" in first.ref.quote
    assert "pt_data_worker 8: 100 %" in first.workers_ref.quote
    assert second.ref
    assert "not visible in /proc from here" in second.ref.quote
    assert not second.visible


def test_the_cards_are_told_as_one_look_would_show_them() -> None:
    (card,) = cards(text([gpu(2, [0, 100, 100], reasons=[0x20, 0x20, 0], temp=91)])).gpus
    assert (card.index, card.utilization, card.temperature, card.throttle) == (2, 100, 91, ("SW Thermal Slowdown",))
    assert (card.pcie_gen, card.pcie_width) == (None, None), "the identity may be of an idle time"
    (spike,) = cards(text([gpu(reasons=[4, 0, 0, 0])])).gpus
    assert spike.throttle == ()
    (untold,) = cards(text([gpu(reasons=None)])).gpus
    assert untold.throttle is None


def test_what_is_not_told_stays_unknown() -> None:
    fact = read(text([{"i": 0, "t": [0, 1], "util": [None, None]}]))
    (one,) = fact.gpus
    assert (one.mean("util"), one.median("power"), one.share_below("util", 5), one.idle, one.link) == (None, None, None, None, None)
    assert not fact.working()
    assert waits(fact)[0].cause == "unknown"


def test_no_window_is_told_and_not_taken_for_none() -> None:
    for bad in ("", "[]", "1", "{", '{"from": 0, "gpus": ' + "[" * 100_000):
        report = diagnose([Evidence("trend", bad, "watch")], "test")
        assert report.fact(Trend) is None
        assert bool(report.unread) or not bad
        assert report.verdict is Verdict.UNKNOWN


ODD = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
ROW = st.dictionaries(
    st.sampled_from(
        [*COLUMNS, "i", "t", "identity", "idle", "processes", "pid", "gpu", "cpu", "main", "state", "workers", "mem", "command", "quiet"]
    ),
    ODD
    | st.lists(ODD, max_size=4)
    | st.dictionaries(st.sampled_from(["mig", "pcie_gen_max", "pcie_width", "power_limit", "mem_total"]), ODD, max_size=3),
    max_size=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["from", "to", "interval", "gpus", "processes", "host"]), ODD | st.lists(ROW | ODD, max_size=4) | ROW, max_size=6
    )
)
@settings(max_examples=300, deadline=None)
def test_no_json_makes_it_crash(told: dict[str, Any]) -> None:
    report = diagnose([Evidence("trend", json.dumps(told), "watch")], "test")
    assert [o.because for o in report.outcomes if o.verdict is Verdict.CRASHED] == []
    assert report.unread == ()


KNOWN = st.floats(0, 120) | st.none()
SOME = st.lists(KNOWN, min_size=1, max_size=13)


@given(
    st.lists(
        st.builds(gpu, st.integers(0, 3), SOME, power=SOME, mem_util=SOME, mem=st.floats(0, 81_920), seconds=st.integers(0, 70), rx=SOME),
        max_size=3,
    ),
    st.lists(
        st.builds(
            process,
            st.integers(1, 9),
            st.integers(0, 3),
            cpu=SOME,
            state=st.sampled_from("RSDTZ"),
            read=SOME,
            rchar=SOME,
            looks=st.integers(1, 13),
            workers=st.lists(st.builds(worker, SOME, st.sampled_from("RSD")), max_size=3),
        ),
        max_size=3,
    ),
    st.builds(host, st.floats(0, 128), busy=SOME, iowait=SOME, net=SOME),
)
@settings(max_examples=200, deadline=None)
def test_every_window_gets_one_answer_a_gpu(gpus: list[dict[str, Any]], processes: list[dict[str, Any]], machine: dict[str, Any]) -> None:
    written = text(gpus, processes, machine)
    assert len(waits(read(written))) == len(gpus)
    report = diagnose([Evidence("trend", written, "watch")], "test")
    assert [o.because for o in report.outcomes if o.verdict is Verdict.CRASHED] == []


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_no_text_makes_it_crash(text: str) -> None:
    (source,) = trend.SOURCES
    assert not source.looks_like(Evidence("pasted", text, "paste")) or text.startswith('{"from"')
    diagnose([Evidence("trend", text, "watch")], "test")


def test_a_window_may_be_pasted() -> None:
    from ongpu.hosts import pasted

    report = diagnose(list(pasted.read_text(text([gpu(util=20)], [process(workers=[worker()] * 4)]), "window.json")), "test")
    assert report.findings[0].slug == "input-pipeline-bound"
