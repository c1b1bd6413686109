"""The chain says "ok" only of what works."""

import pytest
from asking import explain

from ongpu.engine import all_rules
from ongpu.facts.driver import Driver
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.hardware import Gpu, Gpus, Pci
from ongpu.model import Fact, Layer, Outcome, Report, Verdict
from ongpu.report import words
from ongpu.report.chain import Link, chain


def link(layer: Layer, *facts: Fact, lang: str = "en") -> Link:
    """The link of a layer in which every rule was content."""
    outcomes = tuple(Outcome(rule, Verdict.CLEAR) for rule in all_rules() if rule.layer is layer)
    report = Report(subject="x", verdict=Verdict.CLEAR, facts=facts, outcomes=outcomes)
    return next(one for one in chain(report, lang) if one.layer is layer)


@pytest.mark.parametrize(
    ("layer", "fact", "mark"),
    [
        (Layer.DRIVER, Driver(version="535.261.03", smi_works=False, nvml="Driver Not Loaded"), "unknown"),
        (Layer.DRIVER, Driver(version="535.261.03", nvml="Driver Not Loaded"), "unknown"),
        (Layer.DRIVER, Driver(version="535.261.03", smi_works=True, nvml="ok"), "ok"),
        (Layer.DRIVER, Driver(version="535.261.03"), "ok"),
        (Layer.FRAMEWORK, Packages(packages={}, complete=True), "unasked"),
        (Layer.FRAMEWORK, Torch(version="2.4.1", cuda="12.1"), "ok"),
        (Layer.HARDWARE, Pci(complete=True), "unasked"),
        (Layer.HARDWARE, Gpus(gpus=(Gpu(index=0, name="A100"),)), "ok"),
    ],
)
def test_ok_only_where_something_works(layer: Layer, fact: Fact, mark: str) -> None:
    assert link(layer, fact).mark == mark


@pytest.mark.parametrize(("lang", "said"), [("en", "535.261.03 (not working)"), ("zh", "535.261.03（未工作）")])
def test_a_driver_that_does_not_work_is_called_so(lang: str, said: str) -> None:
    assert link(Layer.DRIVER, Driver(version="535.261.03", smi_works=False), lang=lang).words == said


def test_what_ongpu_saw_itself_is_told_in_both_languages() -> None:
    quote = "6 devices, no graphics card"
    assert words.observed(quote, "en") == quote
    assert words.observed(quote, "zh") == "6 个设备，其中没有显卡"
    assert words.observed("NVRM: x", "zh") == "NVRM: x"


def test_the_variable_that_hides_the_cards_is_shown_where_it_is_empty() -> None:
    report = explain("$ env\nHOME=/home/ada\nCUDA_VISIBLE_DEVICES=\nLD_LIBRARY_PATH=/opt/lib\n")
    for lang, nothing in (("en", "(empty)"), ("zh", "（空）")):
        shown = next(one for one in chain(report, lang) if one.layer is Layer.ENVIRONMENT)
        assert shown.words.startswith(f"CUDA_VISIBLE_DEVICES={nothing}")
