"""The answer as JSON: stable (schema 1), for other tools."""

import json
from dataclasses import asdict
from typing import Any

from ongpu.model import Finding, Report, Words
from ongpu.report import words
from ongpu.report.recipes import commands


def finding_dict(finding: Finding, report: Report, lang: str) -> dict[str, Any]:
    """One finding, with its words in the language asked for."""
    text = finding.text(lang)
    return {
        "slug": finding.slug,
        "layer": finding.rule.layer.name.lower() if finding.rule else "",
        "severity": finding.weight.name.lower(),
        "certainty": finding.certainty.name.lower(),
        "subject": finding.subject,
        "title": text.title,
        "why": text.why,
        "fix": {
            "text": text.fix,
            "commands": [{"run": c.run, "risk": c.risk.name.lower()} for c in commands(finding, report, lang)],
        },
        "values": {name: asdict(value) if isinstance(value, Words) else value for name, value in finding.values.items()},
        "refs": [{"source": r.source, "line": r.line, "quote": r.quote} for r in finding.refs],
        "see": list(finding.rule.see) if finding.rule else [],
    }


def facts_dict(report: Report) -> dict[str, Any]:
    """The facts by type, without empty fields and without the lines they came from."""
    return {type(fact).__name__: _slim(asdict(fact)) for fact in report.facts if type(fact).__name__ not in ("Symptoms", "Program")}


def _slim(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _slim(v) for k, v in value.items() if v not in (None, (), [], {}, "") and k not in ("refs", "ref", "lines")}
    if isinstance(value, (list, tuple)):
        return [_slim(item) for item in value]
    return value


def to_dict(report: Report, lang: str = "en", everything: bool = False) -> dict[str, Any]:
    """The answer as plain data; `everything` adds what was hidden as a consequence."""
    answer: dict[str, Any] = {
        "schema": 1,
        "verdict": report.verdict.value,
        "subject": report.subject,
        "findings": [finding_dict(finding, report, lang) for finding in report.findings],
        "unknown": [
            {"slug": o.rule.slug, "because": words.because(o.because, lang), "settle": list(o.settle)} for o in report.unknown
        ],
        "unread": [{"source": u.source, "because": u.because} for u in report.unread],
        "crashed": [{"slug": o.rule.slug, "because": o.because} for o in report.outcomes if o.verdict.value == "crashed"],
        "facts": facts_dict(report),
    }
    if everything:
        answer["hidden"] = [finding_dict(finding, report, lang) for finding in report.hidden]
    return answer


def render(report: Report, lang: str = "en", everything: bool = False) -> str:
    """The answer as text."""
    return json.dumps(to_dict(report, lang, everything), ensure_ascii=False, indent=1, default=str)
