from pathlib import Path

from asking import explain_files, found
from parts import profiles

from ongpu.model import Severity, Verdict


def test_every_trace_is_told_of() -> None:
    finding = found("where-time-goes", profiles.text(profiles.kineto(load=20_000, names=(profiles.SGEMM, profiles.HMMA))))
    assert finding
    assert finding.weight is Severity.NOTE
    english, chinese = finding.text("en"), finding.text("zh")
    assert "was busy 27 % of 88.2 ms, 22 ms a step" in english.title
    assert "73 % for the data loader" in english.title
    assert "73 % 等数据加载" in chinese.title
    assert "Were loading free, a step would take at most 72.8 % less" in english.why


def test_a_healthy_trace_is_clear() -> None:
    report = explain_files(profiles.text(profiles.kineto()))
    assert report.verdict is Verdict.CLEAR
    assert [f.slug for f in report.findings] == ["where-time-goes"]


def test_a_trace_without_a_gpu_is_unknown_and_not_healthy() -> None:
    trace = profiles.kineto()
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") != "kernel"]
    report = explain_files(profiles.text(trace))
    assert report.verdict is Verdict.UNKNOWN
    assert any("shows no activity" in outcome.because for outcome in report.unknown)


def test_a_report_of_nsight_systems_and_a_jax_trace_are_told_alike(tmp_path: Path) -> None:
    for data in (profiles.nsys(tmp_path / "a.sqlite", profiles.kineto()).read_bytes(), profiles.text(profiles.jax())):
        assert found("where-time-goes", data)


def test_waits_of_unknown_cause_are_told_so() -> None:
    trace = profiles.kineto(pause=9000)
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    finding = found("where-time-goes", profiles.text(trace))
    assert finding
    assert "nobody recorded what" in finding.text("en").title
