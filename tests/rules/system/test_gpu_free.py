from typing import Any

import pytest
from parts.trends import gpu, host, idle, process, report, told

SLUG = "gpu-free"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([idle(mem=3)], None, ""),
        ([idle(mem=500, util=[0, 3])], host(), ""),
        ([idle(mem=300), process(kind="G", mem=280)], None, ""),
        ([idle(mem=3, seconds=0)], None, "?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([idle(mem=700)], None),
        ([gpu(util=30, mem=3)], None),
        ([idle(mem=None)], None),
        ([idle(mem=3), process(cpu=0.0, mem=3)], None),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]
