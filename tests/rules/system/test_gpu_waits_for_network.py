from typing import Any

import pytest
from parts.trends import gpu, host, process, report, told, worker

SLUG = "gpu-waits-for-network"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([gpu(util=20), process(workers=[worker(0.1, "D", read=10)] * 8)], host(net=82), "/share"),
        ([gpu(util=20), process(cpu=0.1, state="D", read=30)], host(net=33), "/share"),
        ([gpu(util=20), process(cpu=0.2, rchar=30)], host(net=33), ""),
        ([gpu(util=0, idle=20), process(cpu=0.1, rchar=30)], host(net=33), ""),
        ([gpu(util=20), process(cpu=0.2, rchar=0)], host(net=33), "?"),
        ([gpu(util=20), process(cpu=0.2, rchar=30, command="vllm serve m")], host(net=33), "?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(util=85), process(cpu=0.2, rchar=30)], host(net=33)),
        ([gpu(util=60), process(cpu=0.2, rchar=30)], host(net=33)),
        ([gpu(util=20), process(cpu=0.7, rchar=30)], host(net=33)),
        ([gpu(util=20), process(cpu=0.2, rchar=30)], host(net=0.3)),
        ([gpu(util=20), process(cpu=0.2, rchar=30)], host(net=None)),
        ([gpu(util=20), process(cpu=0.2, read=30, rchar=30)], host(net=33)),
        ([gpu(util=20), process(cpu=0.2, workers=[worker(0.9)] * 4)], host(net=33)),
        ([gpu(util=100, power=90, mem_util=0), process(cpu=0.2)], host(net=900)),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]
