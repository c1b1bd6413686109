import pytest
from asking import explain_files, found, slugs
from parts import profiles

from ongpu.model import Certainty, Severity, Verdict


@pytest.mark.parametrize(
    "text",
    [
        "Epoch: [0][10/5005]\tTime 22.424 (7.498)\tData 22.372 (7.070)\tLoss 6.9065 (6.9074)",
        "2022-01-01 - mmdet - INFO - Epoch [1][50/7330] lr: 1e-03, eta: 1 day, time: 1.234, data_time: "
        "0.987, memory: 5432, loss: 2.1",
        "UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of "
        "worker in current system is 2, which is smaller than what this DataLoader is going to create. "
        "Please be aware that excessive worker creation might get DataLoader running slow or even freeze",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "input-pipeline-bound"


@pytest.mark.parametrize(
    "text",
    [
        "Epoch: [0][10/5005]\tTime 0.424 (0.498)\tData 0.002 (0.010)\tLoss 6.9065 (6.9074)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "input-pipeline-bound" not in slugs(text)


def test_a_trace_whose_gpu_waits_for_the_loader() -> None:
    finding = found("input-pipeline-bound", profiles.text(profiles.kineto(load=20_000)))
    assert finding
    assert (finding.variant, finding.certainty, finding.weight) == ("trace", Certainty.CERTAIN, Severity.WARNING)
    assert finding.values["share"] == "73"
    assert 72 <= float(str(finding.values["most"])) <= 74


def test_only_the_first_batch_is_slow_in_a_trace() -> None:
    trace = profiles.kineto(steps=8, load=2000)
    waits = [event for event in trace["traceEvents"] if "DataLoader" in event["name"]]
    for event in waits[1:]:
        trace["traceEvents"].remove(event)
    waits[0]["ts"], waits[0]["dur"] = waits[0]["ts"] - 30_000, 32_000.0
    finding = found("input-pipeline-bound", profiles.text(trace))
    assert finding is None or finding.weight is Severity.NOTE


def test_copies_from_pageable_memory_in_a_trace() -> None:
    trace = profiles.kineto(names=("Memcpy HtoD (Pageable -> Device)", profiles.HMMA, profiles.HMMA))
    for event in trace["traceEvents"]:
        if event["name"].startswith("Memcpy"):
            event["cat"] = "gpu_memcpy"
    finding = found("input-pipeline-bound", profiles.text(trace))
    assert finding
    assert (finding.variant, finding.values["share"]) == ("pageable", "33")


def test_a_trace_whose_loading_is_hidden_is_clear() -> None:
    trace = profiles.text(profiles.kineto(steps=30, load=2000))
    assert found("input-pipeline-bound", trace) is None
    assert explain_files(trace).verdict is Verdict.CLEAR
