from typing import Any

import pytest
from parts.trends import gpu, host, idle, judged, process, report, told, unseen, worker

SLUG = "gpu-held-idle"


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([idle(idle=301), process(cpu=0.0)], None, ""),
        ([idle(idle=61), process(cpu=0.0)], None, "?"),
        ([idle(idle=301), process(cpu=0.0, command="/opt/jupyter/bin/python -m ipykernel_launcher -f k.json")], None, "/notebook"),
        ([idle(idle=301), process(cpu=0.0, command="ollama runner --model m")], None, "/server?"),
        ([idle(idle=301), process(cpu=0.0, command="python -m debugpy --listen 5678 a.py")], None, "/debugger"),
        ([idle(idle=20, seconds=20), process(cpu=0.0, state="T")], None, "/stopped"),
        ([idle(idle=301), process(cpu=0.0, workers=[worker(0.0, "S")] * 8)], None, ""),
        ([idle(idle=301), process(cpu=0.2)], None, "/elsewhere?"),
        ([idle(idle=301), unseen()], None, "/unseen?"),
        ([idle(idle=70, mem=9000)], None, "/unseen?"),
    ],
)
def test_found(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == SLUG + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([idle(idle=59, seconds=59), process(cpu=0.0)], None),
        ([idle(idle=100), process(cpu=0.2)], None),
        ([idle(idle=301), process(cpu=0.0, workers=[worker(1.0)] * 4)], None),
        ([idle(idle=301), process(cpu=0.0, state="D", read=9)], None),
        ([idle(idle=100), process(cpu=0.0, rchar=2)], host(net=40)),
        ([gpu(util=[0, 0, 0, 40]), process(cpu=0.0)], None),
        ([idle(idle=100), unseen()], None),
        ([idle(idle=9000, mem=400)], None),
        ([idle(idle=9000, mem=400), process(kind="G", cpu=0.0)], None),
        ([gpu(util=None, mig=True), process(cpu=0.0)], None),
    ],
)
def test_neighbours_are_not_it(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert SLUG not in [finding.slug for finding in report(*rows, machine=machine).findings]


def test_its_weight() -> None:
    def weight(**changes: Any) -> str:
        mem = changes.pop("mem", 40_000)
        finding = judged(idle(idle=changes.pop("idle", 4000), mem=mem), process(cpu=0.0, mem=mem, **changes))
        assert finding
        return finding.weight.name

    assert weight() == "WARNING"
    assert weight(command="vllm serve m") == "NOTE"
    assert weight(idle=90) == "NOTE"
    assert weight(mem=450) == "NOTE"


def test_the_words_tell_how_long_and_how_much() -> None:
    finding = judged(idle(idle=8100), process(cpu=0.0, mem=30_720, user="zhao"))
    assert finding
    assert finding.text("en").title.startswith("GPU 0 is held and idle for 2.2 h: python train.py")
    assert finding.text("en").title.endswith("of zhao keeps 30.0 of 80.0 GiB")
