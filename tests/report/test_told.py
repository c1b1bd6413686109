"""What a reader is told, over all cases: no hole where a value is missing, no English left in Chinese."""

import re
import string
from functools import cache
from pathlib import Path

import pytest
import yaml
from asking import explain

from ongpu.model import UNGIVEN, Finding, Report, Text, Words
from ongpu.report import as_html, as_markdown, as_text
from ongpu.report.layout import width_of

pytestmark = pytest.mark.slow  # all cases are explained once, which takes half a minute
CASES = sorted((Path(__file__).parent.parent / "cases").glob("*/*.yaml"))
# Quotes of what a program printed, names, code and addresses are not language.
QUOTED = re.compile(
    r"\b(?:pip|uv|conda|sudo|docker|kubectl|python|apt|module load|nvidia-smi|ollama|lsmod|export|unset|user,pid)\b[^，。；：（）]*|https?://\S+|[“\"'‘`].*?[”\"'’`]|（[^（）]*）|\([^()]*\)|\b\w*[_./=\-]\S*|[A-Z]\w+|：[^。；]*$"
)
SENTENCE = re.compile(r"(?:\b[a-z][a-z']+\b[ ,]+){4,}[a-z]+")


@cache
def reports() -> tuple[tuple[str, Report], ...]:
    """Each case, explained."""
    found = []
    for path in CASES:
        case = yaml.safe_load(path.read_text("utf-8"))
        texts = [str(item["text"]) for item in case["inputs"] if item.get("kind") != "training-source"]
        if texts:
            found.append((path.stem, explain(*texts)))
    return tuple(found)


def findings() -> list[tuple[str, Finding]]:
    return [(name, finding) for name, report in reports() for finding in (*report.findings, *report.hidden)]


def template(finding: Finding, lang: str) -> Text:
    assert finding.rule
    return (finding.rule.variants.get(finding.variant) or (finding.rule.en, finding.rule.zh))[lang == "zh"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_hole_in_a_title(lang: str) -> None:
    """A value that may be missing stands inside a phrase of its own: "{driver:, driver *}"."""
    holes = set()
    for case, finding in findings():
        for _, name, spec, _ in string.Formatter().parse(template(finding, lang).title):
            given = finding.values.get(name or "", UNGIVEN)
            shown = finding.text(lang).title
            if name and not spec and (given is None or given == UNGIVEN) and ("未知" if lang == "zh" else "unknown") in shown:
                holes.add((finding.slug, finding.variant, name, case))
        shown = finding.text(lang).title
        if re.search(r"(?:^|[\s(（，])\?(?=$|[\s)），,;；:：.。])", shown):
            holes.add((finding.slug, finding.variant, shown, case))
    assert not holes


def test_no_english_sentence_in_chinese() -> None:
    left = set()
    for case, finding in findings():
        text = finding.text("zh")
        quotes = [str(v) for v in finding.values.values() if not isinstance(v, Words)]
        for part in (text.title, text.why, text.fix):
            for quote in quotes:
                part = part.replace(quote, "")
            if found := SENTENCE.search(QUOTED.sub("", part)):
                left.add((finding.slug, finding.variant, found[0], case))
    assert not left


def test_chinese_punctuation_in_chinese() -> None:
    wrong = set()
    for case, finding in findings():
        template_ = template(finding, "zh")
        for part in (template_.title, template_.why, template_.fix):
            if found := re.search(r"[\u4e00-\u9fff][,;:?!](?=\s|$)|[\u4e00-\u9fff] [\u4e00-\u9fff]|[\u4e00-\u9fff]\.$", part):
                wrong.add((finding.slug, finding.variant, part[max(0, found.start() - 10) : found.end() + 10], case))
    assert not wrong


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_case_is_printed_in_every_format(lang: str) -> None:
    for case, report in reports():
        for everything in (False, True):
            text = as_text.render(report, lang, everything, links=False)
            # commands, quotes and single words (paths) are not broken
            long = [
                line
                for line in text.splitlines()
                if width_of(line) > 80 and "$ " not in line and len(line.split()) > 3 and not everything and "  " not in line.strip()
            ]
            assert not [line for line in long if max(map(width_of, line.split())) < 60], case
            assert as_markdown.render(report, lang, everything).startswith("# ")
            assert as_html.render(report, lang, everything).startswith("<!doctype html>")
