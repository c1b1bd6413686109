"""Text that came from evidence is data in every format."""

import json
from dataclasses import replace

import pytest
from asking import explain

from ongpu.model import Ref
from ongpu.report import as_html, as_json, as_markdown, as_text
from ongpu.report.layout import width_of
from ongpu.report.words import shown

EVIL = 'Failed to initialize NVML: Driver/library version mismatch <script>alert(1)</script> | `x` [a](b) "quoted"'


def test_html_escapes_what_was_pasted() -> None:
    page = as_html.render(explain(EVIL))
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_markdown_keeps_what_was_pasted_inside_a_fence() -> None:
    text = as_markdown.render(explain(EVIL + " ```` break"))
    fence = next(line for line in text.splitlines() if line.startswith("```"))
    assert len(fence) == 5


def test_json_is_json() -> None:
    assert json.loads(as_json.render(explain(EVIL)))["findings"][0]["slug"] == "driver-library-mismatch"


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 80])
def test_text_fits_the_terminal(lang: str, width: int) -> None:
    text = as_text.render(explain(EVIL), lang, width=width)
    assert [line for line in text.splitlines() if width_of(line) > width and "$ " not in line] == []


def test_harmless_lines_are_told_only_where_nothing_is_wrong() -> None:
    alarm = "nvidia: module license 'NVIDIA' taints kernel.\n"
    alone, beside = explain(alarm), explain(alarm + "Failed to initialize NVML: Driver/library version mismatch\n")
    assert "healthy" in as_text.render(alone, links=False)
    assert "healthy" not in as_text.render(alone, links=True)
    for text in (as_text.render(beside, links=False), as_markdown.render(beside), as_html.render(alone)):
        assert "healthy" not in text
        assert "1 harmless line is explained with --all" in text
    assert "healthy" in as_text.render(beside, everything=True, links=False)
    assert "另有 1 处无害的信息" in as_text.render(beside, "zh", links=False)


@pytest.mark.parametrize(
    ("source", "quote", "english", "chinese"),
    [
        ("dpkg -l", "dpkg -l", "(none of the driver's in it)", "（其中没有驱动的内容）"),
        ("/proc/modules", "cat /proc/modules", "(none of the driver's in it)", "（其中没有驱动的内容）"),
        ("/usr/lib/libcuda.so.535.1", "/usr/lib/libcuda.so.535.1", "(it is there)", "（存在）"),
        ("dmesg", "NVRM:  a\tline ", "NVRM: a line", "NVRM: a line"),
    ],
)
def test_evidence_without_words_of_its_own_says_what_it_is(source: str, quote: str, english: str, chinese: str) -> None:
    ref = Ref(source, 1, quote)
    assert (shown(ref, "en"), shown(ref, "zh")) == (english, chinese)


def test_evidence_without_lines_is_told_without_a_number() -> None:
    report = explain(EVIL)
    setting, text = Ref("nvidia-smi", 0, "persistence mode is off"), Ref("dmesg", 7, "NVRM: a line")
    told = replace(report, findings=(replace(report.findings[0], refs=(setting, text)),))
    for shown_in in (as_markdown.render(told), as_html.render(told), as_text.render(told)):
        assert "nvidia-smi:0" not in shown_in
        assert "dmesg:7" in shown_in
