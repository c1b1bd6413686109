"""The page of many machines, from what Prometheus told of them."""

from collections.abc import Callable
from typing import Any

import pytest

from ongpu.engine import diagnose
from ongpu.hosts.prometheus import Refused
from ongpu.watch import fleet as source
from ongpu.watch.web.pages import fleet

EVIL = "<script>alert(1)</script>"


def rows() -> list[dict[str, Any]]:
    """Twenty machines of eight GPUs; six lack one, one does not answer, one is hot and idle."""
    lost = {"slug": "gpu-fell-off-bus", "severity": "error", "title": "fell off the bus", "gpu": 7}
    found: list[dict[str, Any]] = [
        {"name": f"node{n:02}", "answered": True, "present": 8, "expected": 8, "driver": "550.127.08", "busy": 90.0, "hottest": 66}
        for n in range(20)
    ]  # fmt: skip
    for n in range(6):
        found[n] |= {"present": 7, "lost": [7], "faults": [lost]}
    found[7] = {"name": EVIL, "answered": False, "problem": EVIL}
    found[8] |= {"idle_hours": 120.5, "faults": [{"slug": "gpu-held-idle", "severity": "note", "title": EVIL}]}
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_missing_gpus_stand_out_as_one_pattern(lang: str) -> None:
    report = diagnose([source.evidence(rows(), "a test")], "the fleet")
    html = fleet.show(report, lang)
    assert EVIL not in html
    assert html.index("node00") < html.index("node09")
    assert "7 / 8" in html
    assert "19 / 20" in html
    assert html.count("diagnosis") >= 1
    assert "120.5" in html


@pytest.mark.parametrize("error", [Refused("no route to host"), ValueError("no JSON"), OSError("reset")])
def test_a_prometheus_that_gives_no_answer_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(source, "from_prometheus", refuse)
    assert "Prometheus gave no answer" in fleet.look("http://127.0.0.1:9", "en")


def test_what_prometheus_says_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(url: str, limit: float, title: Callable[[str], str]) -> object:
        assert title("gpu-fell-off-bus") != title("some-other") == "some other"
        return source.evidence(rows(), url)

    monkeypatch.setattr(source, "from_prometheus", told)
    assert "node19" in fleet.look("http://127.0.0.1:9", "en")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_beside_a_simulated_node_stands_a_simulated_fleet(lang: str) -> None:
    html = fleet.made_up(lang)
    assert "99 / 100" in html
    assert html.count("<tr>") == 101
    assert ("GPU 掉卡" in html) == (lang == "zh")
