from typing import Any

import pytest
from parts.trends import gpu, host, idle, process, report, told, worker

SLUG = "host-bound"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([gpu(util=30), process(cpu=1.0)], None, ""),
        ([gpu(util=55, power=90), process(cpu=1.3, main=0.97, workers=[worker(0.2, "S")] * 8)], None, ""),
        ([gpu(util=30), process(cpu=1.0, rchar=1)], None, ""),
        ([gpu(util=30), process(cpu=1.0, rchar=None, read=None)], None, ""),
        ([gpu(util=70), process(cpu=1.0)], None, "?"),
        ([gpu(util=30, seconds=5), process(cpu=1.0, looks=2)], None, "?"),
        ([idle(), process(cpu=1.0, rchar=30)], None, "/alone"),
        ([idle(), process(cpu=7.5, main=0.95)], host(8), "/alone"),
        ([gpu(util=30), process(cpu=0.4, state="R")], host(8, busy=7.9), "/crowded"),
        ([gpu(util=30), process(cpu=7.8, main=0.5)], host(8, busy=7.9), "/threads"),
        ([gpu(util=30), process(cpu=1.0, command="python -m sglang.launch_server")], None, "?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(util=83), process(cpu=1.0)], None),
        ([gpu(util=30), process(cpu=3.0, main=0.75)], None),
        ([gpu(util=30), process(cpu=1.0, rchar=60)], None),
        ([gpu(util=30), process(cpu=1.0, workers=[worker(1.0)] * 4)], None),
        ([gpu(util=30), process(cpu=0.4, state="R")], host(64, busy=8)),
        ([gpu(util=30), process(cpu=0.4, state="S")], host(8, busy=7.9)),
        ([gpu(util=30, rx=24), process(cpu=1.0)], None),
        ([idle(), process(cpu=1.0, command="python -m vllm.entrypoints.openai.api_server")], None),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]
