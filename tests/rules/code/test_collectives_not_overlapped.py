from asking import explain_files, found
from parts import profiles

from ongpu.model import Severity


def test_collectives_that_run_alone() -> None:
    finding = found("collectives-not-overlapped", profiles.text(profiles.kineto(collective=3000)))
    assert finding
    assert (finding.values["share"], finding.values["hidden"]) == ("33", "0")
    assert str(finding.values["kernel"]).startswith("ncclDevKernel_AllReduce")


def test_collectives_that_are_short_or_hidden_are_fine() -> None:
    assert found("collectives-not-overlapped", profiles.text(profiles.kineto(collective=300))) is None
    trace = profiles.kineto()
    events = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    trace["traceEvents"] += [{**event, "name": profiles.NCCL, "tid": 9} for event in events]
    assert found("collectives-not-overlapped", profiles.text(trace)) is None


def test_ranks_that_wait_for_another() -> None:
    waiting, late = profiles.kineto(collective=3000), profiles.kineto(kernels=85, collective=400)
    late["distributedInfo"]["rank"] = 1
    report = explain_files(profiles.text(waiting), profiles.text(late))
    (finding,) = [f for f in report.findings if f.weight > Severity.NOTE]
    assert (finding.slug, finding.variant) == ("collectives-not-overlapped", "ranks")
    assert (finding.values["waits"], finding.values["late"]) == ("rank 0/2 (file1)", "rank 1/2 (file2)")


def test_ranks_that_arrive_together_are_judged_one_by_one() -> None:
    report = explain_files(profiles.text(profiles.kineto(collective=3000)), profiles.text(profiles.kineto(collective=3000)))
    assert [(f.slug, f.variant) for f in report.findings if f.weight > Severity.NOTE] == [("collectives-not-overlapped", "")] * 2


def test_a_trace_without_collectives_beside_one_says_nothing_of_ranks() -> None:
    report = explain_files(profiles.text(profiles.kineto(collective=3000)), profiles.text(profiles.kineto()))
    assert [(f.slug, f.variant) for f in report.findings if f.weight > Severity.NOTE] == [("collectives-not-overlapped", "")]
