"""The answer as Markdown: for an issue, a chat, a wiki."""

import re

from ongpu.lazy import lazy
from ongpu.model import Finding, Report, Verdict
from ongpu.report import words
from ongpu.report.chain import chain
from ongpu.report.recipes import commands
from ongpu.report.selection import shown
from ongpu.report.words import word

_SPECIAL = lazy(r"([\\`*_\[\]<>|#])")


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _code(lines: list[str], language: str = "") -> list[str]:
    fence = "`" * max(3, *(len(m) + 1 for line in lines for m in re.findall(r"`+", line)), 3)
    return [fence + language, *lines, fence]


def render(report: Report, lang: str = "en", everything: bool = False, *, live: bool = False) -> str:
    """The answer as text. live: a machine was examined, not a text explained."""
    lines = [f"# {word('title', lang)}{words.colon(lang)}{_plain(report.subject)}", "", f"| {word('chain', lang)} | | |", "|---|---|---|"]
    marks = {"ok": "✓", "error": "✗", "warning": "!", "possible": "?", "unknown": "?", "unasked": "–"}
    lines += [f"| {words.layer(link.layer, lang)} | {marks[link.mark]} | {_plain(link.words)} |" for link in chain(report, lang)]
    findings, harmless = shown(report, everything, live)
    for finding in findings:
        lines += ["", *_finding(finding, report, lang)]
    if report.verdict in (Verdict.CLEAR, Verdict.UNKNOWN):
        lines += ["", word(report.verdict.value, lang)]
    if report.signs:
        quotes = [words.quoted(ref, lang, ": ") for ref in report.signs]
        lines += ["", word("signs", lang), "", *_code(quotes)]
    for outcome in report.unknown:
        settle = "; ".join(f"`{command}`" for command in outcome.settle)
        told = _plain(word("could_not_tell", lang, what=words.because(outcome.because, lang)))
        lines += ["", told + (f" {word('settle', lang)} {settle}" if settle else "")]
    if everything or report.verdict is Verdict.UNKNOWN:
        unread = (word("not_read", lang, source=u.source, because=words.because(u.because, lang)) for u in report.unread)
        lines += [f"- {_plain(line)}" for line in unread]
    if harmless:
        lines += ["", f"_{words.count('harmless', harmless, lang)}_"]
    return "\n".join(lines)


def _finding(finding: Finding, report: Report, lang: str) -> list[str]:
    text = finding.text(lang)
    head = words.headline(finding.weight, f"`{finding.slug}`", finding.certainty, lang)
    lines = [f"## {head}", "", f"**{_plain(text.title)}**", "", _plain(text.why)]
    if finding.refs:
        quotes = [words.quoted(r, lang, ": ") for r in finding.refs]
        lines += ["", word("grounds", lang) + words.colon(lang).rstrip(), "", *_code(quotes)]
    lines += ["", word("remedy", lang) + words.colon(lang) + _plain(text.fix)]
    repairs = commands(finding, report, lang)
    if repairs:
        lines += ["", *_code([f"{c.run}   # {words.risk(c.risk, lang)}" for c in repairs], "sh")]
    if finding.rule and finding.rule.see:
        lines += ["", word("sources", lang) + words.colon(lang) + ", ".join(f"<{url}>" for url in finding.rule.see)]
    return lines
