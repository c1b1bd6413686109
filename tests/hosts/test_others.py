"""Who else uses the GPUs: the failing process is left out, or, where it cannot be known among them, all are."""

import json
import time
from typing import Any

import pytest

from ongpu.hosts import nvml, others
from ongpu.model import Evidence

LINES = [
    '{"init": "Success", "code": 0}',
    '{"gpu": 0, "processes": [{"pid": 7, "memory": 1}, {"pid": 8, "memory": 2}]}',
    '{"gpu": 1, "processes": [{"pid": 9}]}',
    "no JSON",
]


def pids(item: Evidence) -> list[int]:
    return [p["pid"] for line in item.text.split("\n") if '"processes"' in line for p in json.loads(line)["processes"]]


@pytest.mark.parametrize(
    ("pid", "started", "left"), [(8, True, [7, 9]), (8, False, [7, 9]), (100, False, [7, 8, 9]), (100, True, [])]
)
def test_without(pid: int, started: bool, left: list[int]) -> None:
    item = others.without(Evidence("nvml", "\n".join(LINES), "NVML"), pid, started)
    assert pids(item) == left
    assert item.text.split("\n")[::3] == LINES[::3]


def test_other_evidence_stays() -> None:
    item = Evidence("pasted", LINES[1], "nvidia-smi")
    assert others.without(item, 7, True) is item


def test_a_hung_driver_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any) -> list[Evidence]:
        time.sleep(5)
        return []

    monkeypatch.setattr(nvml, "ask", hang)
    start = time.monotonic()
    assert others.ask(False, 0.1) == []
    assert time.monotonic() - start < 4
