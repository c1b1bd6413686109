from typing import Any

import pytest
from parts.trends import gpu, host, idle, judged, process, report, told, unseen, worker

from ongpu.model import Verdict

SLUG = "gpu-busy"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([gpu(util=80), process()], None, ""),
        ([gpu(util=100)], None, ""),
        ([gpu(util=100), unseen()], None, ""),
        ([gpu(util=[100, 100, 100, 30]), process(workers=[worker(1.0)] * 4)], None, ""),
        ([gpu(util=99, seconds=1)], None, "?"),
        ([gpu(util=60), process(cpu=0.5)], None, "/partly?"),
        ([gpu(util=20), process(cpu=0.3, command="vllm serve m")], None, "/requests?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(util=40), process(cpu=0.5)], None),
        ([gpu(util=60), process(cpu=1.0)], None),
        ([gpu(util=20), process(cpu=1.0, command="vllm serve m")], None),
        ([idle(), process(cpu=0.0)], host()),
        ([gpu(util=None, mig=True), process()], None),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]


def outcome(*rows: dict[str, Any]) -> Any:
    return next(one for one in report(*rows).outcomes if one.rule.slug == SLUG)


def test_several_programs_are_told() -> None:
    finding = judged(gpu(), process(), process(5, user="bob"))
    assert finding
    assert finding.text("en").title.endswith("2 programs")


@pytest.mark.parametrize(
    ("rows", "words", "command"),
    [
        ([gpu(util=None, mig=True)], "MIG is on", "dcgmi"),
        ([gpu(util=30), unseen()], "another PID namespace", "fuser"),
        ([gpu(util=30), process(cpu=0.3)], "neither processor, disk nor network", "py-spy"),
        ([gpu(util=30, seconds=3), process(cpu=0.3, looks=1)], "too short a time", "ongpu top"),
        ([idle(seconds=20), process(cpu=0.0)], "less than a minute", "ongpu top"),
        ([gpu(util=None)], "utilisation is not told", "ongpu top"),
    ],
)
def test_what_cannot_be_told_is_unknown(rows: list[dict[str, Any]], words: str, command: str) -> None:
    told = outcome(*rows)
    assert told.verdict is Verdict.UNKNOWN
    assert words in told.because
    assert command in " ".join(told.settle)
    assert report(*rows).verdict is Verdict.UNKNOWN
