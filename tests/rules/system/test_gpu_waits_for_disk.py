from typing import Any

import pytest
from parts.trends import gpu, host, judged, process, report, told, worker

SLUG = "gpu-waits-for-disk"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([gpu(util=20), process(workers=[worker(0.1, "D", read=40)] * 8)], host(iowait=3), ""),
        ([gpu(util=20), process(workers=[worker(0.3, ["D", "S"], read=10)] * 2)], host(iowait=0.4), ""),
        ([gpu(util=55), process(cpu=0.3, state=["D", "S"], read=200)], host(), ""),
        ([gpu(util=20), process(workers=[worker(0.1, "D", read=40)] * 8, looks=2)], host(iowait=3), "?"),
        ([gpu(util=0, idle=30), process(cpu=0.0, state="D", read=0)], host(), "/stuck?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(util=90), process(workers=[worker(0.1, "D", read=40)] * 8)], host(iowait=3)),
        ([gpu(util=20), process(workers=[worker(0.3, ["D", "S", "S", "S"], read=10)] * 2)], host(iowait=0.4)),
        ([gpu(util=20), process(workers=[worker(0.95, ["D", "R", "R"], read=10)] * 4)], host(iowait=3)),
        ([gpu(util=20), process(workers=[worker(0.1, "D", read=40)] * 2)], host(iowait=2, net=90)),
        ([gpu(util=20), process(cpu=0.2)], host(iowait=8)),
        ([gpu(util=20), process(cpu=0.99, state=["R", "D"], read=40)], host(iowait=1)),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]


def test_the_words_tell_the_figures() -> None:
    finding = judged(gpu(util=12), process(workers=[worker(0.1, "D", read=20)] * 4), machine=host(iowait=2.5))
    assert finding
    words = finding.text("en")
    assert "busy only 12 %" in words.title
    assert "its 4 workers" in words.title
    assert "In 100 % of the looks" in words.why
    assert "80 MB/s come from storage; 2.5 cores wait" in words.why
    assert [fix.recipe for fix in finding.fixes] == ["look-at-disk", "profile-process"]
