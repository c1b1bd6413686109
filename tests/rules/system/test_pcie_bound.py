from typing import Any

import pytest
from parts.trends import gpu, host, process, report, told

SLUG = "pcie-bound"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([gpu(util=40, rx=24), process()], None, ""),
        ([gpu(util=40, tx=20), process(cpu=1.0)], None, ""),
        ([gpu(util=40, rx=1.5, pcie=(1, 8)), process()], None, ""),
        ([gpu(util=40, rx=45, pcie=(5, 16)), process()], None, ""),
        ([gpu(util=40, rx=24, seconds=19), process()], host(), "?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(util=85, rx=24), process()], None),
        ([gpu(util=40, rx=24, pcie=(5, 16)), process()], None),
        ([gpu(util=40, rx=24, pcie=(7, 16)), process()], None),
        ([gpu(util=40, rx=24, seconds=5), process()], None),
        ([gpu(util=40, rx=[24] + [0.1] * 59), process()], None),
        ([gpu(util=40, rx=24)], None),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]
