"""The answer as Markdown: for an issue, a chat, a wiki."""

import re

from ongpu.model import Finding, Report, Verdict
from ongpu.report import words
from ongpu.report.chain import chain
from ongpu.report.recipes import commands
from ongpu.report.words import word

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _code(lines: list[str], language: str = "") -> list[str]:
    fence = "`" * max(3, *(len(m) + 1 for line in lines for m in re.findall(r"`+", line)), 3)
    return [fence + language, *lines, fence]


def render(report: Report, lang: str = "en", everything: bool = False) -> str:
    """The answer as text."""
    lines = [f"# {word('title', lang)}: {_plain(report.subject)}", "", f"| {word('chain', lang)} | | |", "|---|---|---|"]
    marks = {"ok": "✓", "error": "✗", "warning": "!", "possible": "?", "unknown": "?", "unasked": "–"}
    lines += [f"| {words.layer(link.layer, lang)} | {marks[link.mark]} | {_plain(link.words)} |" for link in chain(report, lang)]
    for finding in (*report.findings, *(report.hidden if everything else ())):
        lines += ["", *_finding(finding, report, lang)]
    if report.verdict in (Verdict.CLEAR, Verdict.UNKNOWN):
        lines += ["", word(report.verdict.value, lang)]
    for outcome in report.unknown:
        settle = "; ".join(f"`{command}`" for command in outcome.settle)
        lines += ["", _plain(word("could_not_tell", lang, what=outcome.because)) + (f" {word('settle', lang)} {settle}" if settle else "")]
    lines += [f"- {_plain(word('not_read', lang, source=u.source, because=u.because))}" for u in report.unread]
    return "\n".join(lines)


def _finding(finding: Finding, report: Report, lang: str) -> list[str]:
    text = finding.text(lang)
    weight, sure = words.severity(finding.weight, lang), words.certainty(finding.certainty, lang)
    lines = [f"## {weight}: `{finding.slug}` ({sure})", "", f"**{_plain(text.title)}**", "", _plain(text.why)]
    if finding.refs:
        lines += ["", f"{word('grounds', lang)}:", "", *_code([f"{r.source}:{r.line}: {r.quote}" for r in finding.refs])]
    lines += ["", f"{word('remedy', lang)}: {_plain(text.fix)}"]
    repairs = commands(finding, report, lang)
    if repairs:
        lines += ["", *_code([f"{c.run}   # {words.risk(c.risk, lang)}" for c in repairs], "sh")]
    if finding.rule and finding.rule.see:
        lines += ["", f"{word('sources', lang)}: " + ", ".join(f"<{url}>" for url in finding.rule.see)]
    return lines
