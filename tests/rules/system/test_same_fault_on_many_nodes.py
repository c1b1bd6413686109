import json

from ongpu.engine import diagnose
from ongpu.model import Certainty, Evidence, Report, Severity, Verdict


def node(name: str, present: int = 8, *faults: tuple[str, int | None], **more: object) -> dict[str, object]:
    told = [{"slug": slug, "gpu": gpu, "severity": "error", "title": slug} for slug, gpu in faults]
    machine = {"driver": "550.54.15", "kernel": "5.15.0-113", "model": "H100"}
    return {"name": name, "answered": True, "present": present, **machine, "faults": told, **more}


def judged(nodes: list[dict[str, object]]) -> Report:
    return diagnose([Evidence("fleet", "\n".join(map(json.dumps, nodes)), "fleet")], "fleet")


def told(report: Report) -> list[tuple[str, str, str]]:
    return [(f.slug, f.variant, f.subject) for f in report.findings if f.weight > Severity.NOTE]


HEALTHY = [node(f"gpu{n:03}") for n in range(70)]


def test_loose_power_cables_on_a_third_of_the_nodes_are_one_pattern_with_one_cause() -> None:
    lost = [node(f"gpu{n:03}", 7, ("gpu-fell-off-bus", n % 8)) for n in range(70, 95)]
    lost += [node(f"gpu{n:03}", 7, ("power-cable-missing", n % 8)) for n in range(95, 100)]
    report = judged(HEALTHY + lost)
    assert told(report) == [("same-fault-on-many-nodes", "cable", "gpus-missing")]
    finding = report.findings[0]
    assert finding.certainty is Certainty.LIKELY
    assert "30 of 100 nodes (30 %) lost GPUs (30 in all): most likely loose power cables" in finding.text("en").title
    assert "供电线松动" in finding.text("zh").title


def test_the_count_alone_shows_it() -> None:
    report = judged(HEALTHY + [node(f"gpu{n:03}", 7) for n in range(70, 100)])
    assert told(report) == [("same-fault-on-many-nodes", "lost", "gpus-missing")]
    assert report.findings[0].certainty is Certainty.POSSIBLE


def test_the_same_place_points_to_the_chassis() -> None:
    report = judged(HEALTHY + [node(f"gpu{n:03}", 7, ("gpu-fell-off-bus", 5)) for n in range(70, 80)])
    assert told(report) == [("same-fault-on-many-nodes", "lost-apart", "gpus-missing")]
    assert "GPU 5" in report.findings[0].text("en").title


def test_what_sets_the_faulty_nodes_apart_is_named() -> None:
    report = judged(HEALTHY + [node(f"new{n}", 8, ("gsp-timeout", 1), driver="570.86.10") for n in range(6)])
    (found,) = report.findings
    assert found.variant == "apart"
    assert "driver 570.86.10" in found.text("en").title
    assert "驱动 570.86.10" in found.text("zh").title


def test_a_driver_that_the_healthy_have_too_is_no_cause() -> None:
    report = judged(HEALTHY + [node(f"gpu{n:03}", 8, ("thermal-throttle", n % 8)) for n in range(70, 80)])
    assert told(report) == [("same-fault-on-many-nodes", "", "thermal-throttle")]


def test_two_nodes_are_no_pattern() -> None:
    report = judged([*HEALTHY, node("gpu100", 7), node("gpu101", 8, ("thermal-throttle", 3))])
    assert told(report) == [("node-at-fault", "missing", "gpu100"), ("node-at-fault", "", "gpu101")]


def test_a_healthy_fleet_is_clear() -> None:
    assert judged(HEALTHY).verdict is Verdict.CLEAR
