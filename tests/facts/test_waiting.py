"""Each threshold of the verdicts, from both of its sides; and what the parts of a trend answer."""

from collections.abc import Sequence
from typing import Any

import pytest
from parts.trends import gpu, host, idle, process, report, text, told, worker

from ongpu.facts.trend import EMPTY, Series, share_in, short
from ongpu.facts.waiting import UNKNOWN, duration, waits
from ongpu.model import Evidence
from ongpu.sources import trend

Case = tuple[Sequence[dict[str, Any]], dict[str, Any] | None, str]
QUIET = process(cpu=0.0)
FULL = [worker(0.98)] * 4


def spin(**changes: Any) -> list[dict[str, Any]]:
    return [gpu(0, **{"util": 100, "power": 80, "mem_util": 0, **changes}), process()]


def reads(*states: str) -> list[dict[str, Any]]:
    return [gpu(util=20), process(workers=[worker(0.1, list(states), read=30)])]


EDGES: dict[str, tuple[Case, Case]] = {
    "BUSY": (([gpu(util=79), process(cpu=1.0)], None, "host-bound?"), ([gpu(util=80), process(cpu=1.0)], None, "gpu-busy")),
    "PARTLY": (([gpu(util=49), process()], None, "unknown"), ([gpu(util=50), process()], None, "gpu-busy/partly?")),
    "LOW": (([gpu(util=59), process(cpu=1.0)], None, "host-bound"), ([gpu(util=60), process(cpu=1.0)], None, "host-bound?")),
    "STILL": (
        ([gpu(util=[0, 2], idle=400), process(cpu=0.0)], None, "gpu-held-idle"),
        ([gpu(util=[0, 3], idle=400), process(cpu=0.0)], None, "unknown"),
    ),
    "LEAST": (
        ([gpu(util=95, seconds=0), process(cpu=1.0)], None, "unknown"),
        ([gpu(util=95, seconds=1), process(cpu=1.0)], None, "gpu-busy?"),
    ),
    "SHORT": (
        ([gpu(util=20, seconds=9), process(cpu=1.0)], None, "host-bound?"),
        ([gpu(util=20, seconds=10), process(cpu=1.0)], None, "host-bound"),
    ),
    "FEW": (
        ([gpu(util=20), process(cpu=1.0, looks=3)], None, "host-bound?"),
        ([gpu(util=20), process(cpu=1.0, looks=4)], None, "host-bound"),
    ),
    "HELD": (([idle(idle=59), QUIET], None, "unknown"), ([idle(idle=60), QUIET], None, "gpu-held-idle?")),
    "HELD_LONG": (([idle(idle=299), QUIET], None, "gpu-held-idle?"), ([idle(idle=300), QUIET], None, "gpu-held-idle")),
    "BARE": (([idle(mem=599)], None, "gpu-free"), ([idle(mem=600)], None, "gpu-held-idle/unseen?")),
    "FULL": (
        ([gpu(util=30), process(workers=[worker(0.84, "S")] * 4)], None, "unknown"),
        ([gpu(util=30), process(workers=[worker(0.85, "S")] * 4)], None, "input-pipeline-bound/live-workers"),
    ),
    "BOUND": (([gpu(util=30), process(cpu=0.89)], None, "unknown"), ([gpu(util=30), process(cpu=0.9)], None, "host-bound")),
    "QUIET": (
        ([idle(idle=400), process(cpu=0.05)], None, "gpu-held-idle"),
        ([idle(idle=400), process(cpu=0.06)], None, "gpu-held-idle/elsewhere?"),
    ),
    "ACTIVE": (
        ([gpu(util=30), process(workers=[*FULL, *[worker(0.04, "S")] * 9])], None, "input-pipeline-bound/live-workers"),
        ([gpu(util=30), process(workers=[*FULL, *[worker(0.05, "S")] * 9])], None, "unknown"),
    ),
    "SLACK": (
        ([gpu(util=30), process(cpu=0.49, rchar=60)], host(net=60), "gpu-waits-for-network"),
        ([gpu(util=30), process(cpu=0.5, rchar=60)], host(net=60), "unknown"),
    ),
    "CROWDED": (
        ([gpu(util=30), process(cpu=0.3, state="R")], host(10, busy=8.9), "unknown"),
        ([gpu(util=30), process(cpu=0.3, state="R")], host(10, busy=9.0), "host-bound/crowded"),
    ),
    "STANDS": (
        (reads("D", "S", "S"), host(iowait=1), "unknown"),
        (reads("D", "D", "S", "S", "S"), host(iowait=1), "gpu-waits-for-disk"),
    ),
    "HUNGRY": (
        ([gpu(util=30), process(workers=[worker(0.2, ["R", "R", "S"])] * 4)], None, "unknown"),
        ([gpu(util=30), process(workers=[worker(0.2, ["R", "R", "R", "S"])] * 4)], None, "input-pipeline-bound/live-starved"),
    ),
    "MOST": (
        ([gpu(util=30), process(workers=[worker(1.0)] * 6 + [worker(0.4, "S")] * 4)], None, "unknown"),
        ([gpu(util=30), process(workers=[worker(1.0)] * 7 + [worker(0.4, "S")] * 3)], None, "input-pipeline-bound/live-workers"),
    ),
    "FLOW": (
        ([gpu(util=30), process(cpu=0.1, rchar=0.9)], host(net=0.9), "unknown"),
        ([gpu(util=30), process(cpu=0.1, rchar=1)], host(net=1), "gpu-waits-for-network"),
    ),
    "STEADY": (
        ([gpu(util=30), process(cpu=1.0, rchar=4.9)], None, "host-bound"),
        ([gpu(util=30), process(cpu=1.0, rchar=5)], None, "input-pipeline-bound/live-main"),
    ),
    "SAME": (
        ([gpu(util=30), process(cpu=0.1, state="D", read=100)], host(net=69, iowait=1), "gpu-waits-for-disk"),
        ([gpu(util=30), process(cpu=0.1, state="D", read=100)], host(net=70, iowait=1), "gpu-waits-for-network/share"),
    ),
    "SPINS": ((spin(util=96), None, "gpu-busy"), (spin(util=97), None, "gpu-spins-waiting?")),
    "SPIN_POWER": ((spin(power=121), None, "gpu-busy"), (spin(power=120), None, "gpu-spins-waiting?")),
    "SPIN_MEMORY": ((spin(mem_util=3), None, "gpu-busy"), (spin(mem_util=2), None, "gpu-spins-waiting?")),
    "LINK": (([gpu(util=30, rx=18.8), process()], None, "unknown"), ([gpu(util=30, rx=19), process()], None, "pcie-bound")),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_both_sides_of_a_threshold(name: str) -> None:
    for rows, machine, expected in EDGES[name]:
        assert told(*rows, machine=machine) == expected


@pytest.mark.parametrize(
    ("mem", "first", "expected"), [(77_823, 70_000, False), (77_824, 70_000, True), (80_000, 49_151, False), (80_000, 49_152, True)]
)
def test_when_a_card_counts_as_full(mem: float, first: float, expected: bool) -> None:
    found = report(gpu(mem=mem), process(mem=first), process(5, mem=900, user="bob")).findings
    assert ("gpu-busy-other-process" in [f.slug for f in found]) is expected


@pytest.mark.parametrize(
    ("seconds", "looks", "expected"),
    [(9, 2, 0), (9, 12, 0), (15, 4, 1), (19, 12, 1), (60, 6, 1), (60, 3, 0), (20, 7, 2), (60, 12, 2)],
)
def test_how_sure_it_may_be(seconds: int, looks: int, expected: int) -> None:
    rows = [gpu(util=20, seconds=seconds)], [process(cpu=0.1, workers=FULL, looks=looks)]
    (answer,) = waits(next(iter(trend.read(Evidence("trend", text(*rows), "watch")))))  # type: ignore[arg-type]
    assert (answer.cause, int(answer.sure)) == ("loading", expected)


@pytest.mark.parametrize(("seconds", "expected"), [(1799, 1), (1800, 2)])
def test_when_it_is_certain_that_nobody_is_there(seconds: float, expected: int) -> None:
    (answer,) = waits(next(iter(trend.read(Evidence("trend", text([idle(idle=seconds)], [QUIET]), "watch")))))  # type: ignore[arg-type]
    assert (answer.cause, int(answer.sure)) == ("idle", expected)


def test_series() -> None:
    values = Series([None, 3, 1, None, 2, 10])
    assert (values.known, values.median, values.mean, values.least, values.most, values.last) == ((3, 1, 2, 10), 2.5, 4, 1, 10, 10)
    assert (values.share_below(3), values.share_with(2)) == (0.5, 0.75)
    assert Series([1, 2, 9]).median == 2
    assert (EMPTY.median, EMPTY.mean, EMPTY.most, EMPTY.share_below(5), EMPTY.share_with(1)) == (None,) * 5


def test_words() -> None:
    assert [duration(s) for s in (None, 40, 119, 120, 7199, 7200)] == ["?", "40 s", "119 s", "2 min", "120 min", "2.0 h"]
    assert short("/opt/conda/bin/python -u /home/a/train.py --data /mnt/x") == "python -u train.py --data x"
    assert short(None) == ""
    assert len(short("python " + "x" * 300)) == 40
    assert share_in(["R", None, "D", "D"], "D") == 2 / 3
    assert share_in([None], "D") == 0
    assert all(words.en and words.zh for words in UNKNOWN.values())


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([gpu(util=20), process(workers=[worker(0.1, "D", read=30)] * 4)], "gpu-waits-for-disk"),
        ([gpu(util=20), process(cpu=0.1, rchar=60)], "unknown"),
        ([gpu(util=20), process(cpu=31, main=0.9)], "host-bound"),
        ([gpu(util=20), process(cpu=0.1, workers=FULL)], "input-pipeline-bound/live-workers"),
        ([idle(idle=400), QUIET], "gpu-held-idle"),
    ],
)
def test_a_machine_of_which_nothing_is_told(rows: list[dict[str, Any]], expected: str) -> None:
    assert told(*rows, machine={}) == expected
