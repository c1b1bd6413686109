"""Findings in source code as SARIF 2.1.0, which code hosts and editors show beside the lines."""

import json
from typing import Any

from ongpu.model import Finding, Report, Rule, Severity
from ongpu.report.as_lint import ordered, place

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report, version: str, lang: str, everything: bool) -> str:
    """The log: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""
    findings = ordered(report, everything)
    rules = {f.slug: f.rule for f in findings if f.rule}
    driver = {
        "name": "ongpu",
        "version": version,
        "semanticVersion": version,
        "rules": [_rule(rule, lang) for rule in rules.values()],
    }
    trouble = [{"level": "error", "message": {"text": f"{u.source}: {u.because}"}} for u in report.unread]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not trouble, "toolExecutionNotifications": trouble}],
        "results": [_result(f, list(rules).index(f.slug), lang) for f in findings],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=1)


def _rule(rule: Rule, lang: str) -> dict[str, Any]:
    from ongpu.report.rule_page import plain, texts  # its imports are slow

    text = texts(rule, lang)
    return {
        "id": rule.slug,
        "shortDescription": {"text": plain(text.title)},
        "fullDescription": {"text": plain(text.why)},
        "help": {"text": plain(text.fix)},
        "helpUri": rule.see[0],
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, index: int, lang: str) -> dict[str, Any]:
    text, at = finding.text(lang), place(finding)
    result: dict[str, Any] = {
        "ruleId": finding.slug,
        "ruleIndex": index,
        "level": _LEVELS[finding.weight],
        "message": {"text": f"{text.title}. {text.fix}"},
        "locations": [_location(at.source, at.line)],
        "properties": {"certainty": finding.certainty.name.lower()},
    }
    if len(finding.refs) > 1:
        result["relatedLocations"] = [_location(ref.source, ref.line) for ref in finding.refs[1:]]
    if finding.edits:
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
