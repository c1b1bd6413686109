from asking import explain_files, found
from parts import profiles

from ongpu.model import Verdict


def test_the_peak_and_its_owners() -> None:
    report = explain_files(profiles.pickled(profiles.snapshot()))
    (finding,) = report.findings
    assert report.verdict is Verdict.CLEAR
    assert (finding.slug, finding.values["peak"]) == ("where-memory-goes", "500.0 MiB")
    assert "project/train.py:30 forward: 300.0 MiB (60 %)" in finding.text("en").title
    assert "project/train.py:30 forward" in finding.text("zh").title


def test_a_snapshot_without_history() -> None:
    finding = found("where-memory-goes", profiles.pickled({"segments": profiles.snapshot()["segments"]}))
    assert finding
    assert finding.variant == "now"


def test_an_empty_snapshot_is_not_healthy() -> None:
    report = explain_files(profiles.pickled({"segments": [{"device": 0, "total_size": 0, "blocks": []}], "device_traces": []}))
    assert report.verdict is Verdict.UNKNOWN
