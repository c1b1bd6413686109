"""Findings in source code as SARIF 2.1.0, which code hosts and editors show beside the lines."""

import json
import string
from collections.abc import Iterable
from typing import Any

from ongpu.model import Finding, Report, Rule, Severity, Unread
from ongpu.report import words
from ongpu.report.as_lint import line_of, ordered, place

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report, version: str, lang: str, everything: bool) -> str:
    """The log: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""
    findings = ordered(report, everything)
    rules = {f.slug: f.rule for f in findings if f.rule}
    driver = {
        "name": "ongpu",
        "version": version,
        "semanticVersion": version,
        "rules": [_rule(rule, max(f.weight for f in findings if f.rule is rule), lang) for rule in rules.values()],
    }
    trouble = [_notification(u, lang) for u in report.unread]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not trouble, "toolExecutionNotifications": trouble}],
        "results": [_result(f, list(rules).index(f.slug), lang) for f in findings],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=1)


def _notification(unread: Unread, lang: str) -> dict[str, Any]:
    told = f"{unread.source}: {words.because(unread.because, lang)}"
    return {"level": "error", "message": {"text": told}, "locations": [_location(unread.source, line_of(unread))]}


def _rule(rule: Rule, level: Severity, lang: str) -> dict[str, Any]:
    from ongpu.report.rule_page import texts  # its imports are slow

    text = texts(rule, lang)
    return {
        "id": rule.slug,
        "shortDescription": {"text": _sentence(text.title)},
        "fullDescription": {"text": _sentence(text.why)},
        "help": {"text": _sentence(text.fix)},
        "helpUri": rule.see[0],
        "defaultConfiguration": {"level": _LEVELS[level]},
    }


def _sentence(text: str) -> str:
    """A rule's text as a sentence about any case: "..." stands for what a finding would name."""
    from ongpu.report.rule_page import plain

    shown = plain(text)
    for _, name, _, _ in string.Formatter().parse(text):
        shown = shown.replace(f"<{name}>", "...") if name else shown
    return shown


def _joined(sentences: Iterable[str], lang: str) -> str:
    """The sentences one after another, each with its full stop."""
    stop = "。" if lang == "zh" else "."
    full = [told if told.endswith(tuple(".。!?！？")) else told + stop for told in sentences if told]
    return ("" if lang == "zh" else " ").join(full)


def _result(finding: Finding, index: int, lang: str) -> dict[str, Any]:
    text, at = finding.text(lang), place(finding)
    result: dict[str, Any] = {
        "ruleId": finding.slug,
        "ruleIndex": index,
        "level": _LEVELS[finding.weight],
        "message": {"text": _joined((text.title, text.fix), lang)},
        "locations": [_location(at.source, at.line)],
        "properties": {"certainty": finding.certainty.name.lower()},
    }
    if len(finding.refs) > 1:
        result["relatedLocations"] = [_location(ref.source, ref.line) for ref in finding.refs[1:]]
    if finding.edits and ":cell " not in finding.edits[0].origin:  # lines of a cell are no lines of its file
        result["fixes"] = [{"description": {"text": text.fix}, "artifactChanges": _changes(finding)}]
    return result


def _location(path: str, line: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": path.partition(":cell ")[0]}, "region": {"startLine": max(1, line)}}}


def _changes(finding: Finding) -> list[dict[str, Any]]:
    return [
        {
            "artifactLocation": {"uri": edit.origin},
            "replacements": [
                {
                    "deletedRegion": {
                        "startLine": edit.line, "startColumn": edit.column + 1, "endLine": edit.end_line, "endColumn": edit.end_column + 1,
                    },
                    "insertedContent": {"text": edit.text},
                }
            ],
        }
        for edit in finding.edits
    ]  # fmt: skip
