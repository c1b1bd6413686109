from typing import Any

import pytest
from parts.trends import gpu, host, idle, judged, process, report, told

SLUG = "gpu-spins-waiting"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([*(gpu(i, 100, power=80, mem_util=0) for i in range(2)), process(), process(5, 1)], None, ""),
        (
            [*(gpu(i, 100, power=80, mem_util=1) for i in range(2)), process(job="slurm:7"), process(5, 1, job="slurm:7", command="x")],
            None,
            "",
        ),
        ([gpu(0, 100, power=80, mem_util=0), idle(1), process(), process(5, 1)], None, "/late"),
        ([gpu(0, 100, power=80, mem_util=0), process()], host(), "?"),
        ([gpu(0, 100, power=80, mem_util=0), gpu(1), process(), process(5, 1)], None, "?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(0, 100, power=300, mem_util=0), process()], None),
        ([gpu(0, 100, power=80, mem_util=9), process()], None),
        ([gpu(0, 100, power=80, mem_util=[0, 0, 0, 60]), process()], None),
        ([gpu(0, [100, 100, 100, 80], power=80, mem_util=0), process()], None),
        ([gpu(0, 85, power=80, mem_util=0), process()], None),
        ([gpu(0, 100, power=80, mem_util=None), process()], None),
        ([gpu(0, 100, power=80, mem_util=0)], None),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]


def test_the_words_name_the_rank_that_is_late() -> None:
    rows = [*(gpu(i, 100, power=80, mem_util=0) for i in (0, 1)), idle(2), *(process(5 + i, i) for i in range(3))]
    finding = judged(*rows)
    assert finding
    assert "of the same job's GPUs, 2 does nothing" in finding.text("en").title
    assert "Of the 3 GPUs" in finding.text("en").why
