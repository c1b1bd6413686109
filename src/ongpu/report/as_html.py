"""The answer as one HTML page that needs nothing else."""

from html import escape

from ongpu.model import Finding, Report, Verdict
from ongpu.report import words
from ongpu.report.chain import chain
from ongpu.report.recipes import commands
from ongpu.report.selection import shown
from ongpu.report.words import word

STYLE = """
:root { color-scheme: light dark; --line: #8884; --red: #c62828; --amber: #b26a00; --green: #2e7d32; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --red: #ef9a9a; --amber: #ffcc80; --green: #a5d6a7; } }
body { font: 16px/1.5 system-ui, "Noto Sans CJK SC", "Microsoft YaHei", sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
article { border: 1px solid var(--line); border-left: 4px solid var(--amber); border-radius: 6px; padding: .5rem 1rem; margin: 1rem 0; }
article.error { border-left-color: var(--red); } article.note { border-left-color: var(--line); }
pre { background: var(--soft); padding: .5rem; white-space: pre-wrap; overflow-wrap: anywhere; border-radius: 4px; font-size: .85rem; }
.ok { color: var(--green); } .error b, .mark-error { color: var(--red); } .mark-warning, .mark-possible, .mark-unknown { color: var(--amber); }
.risk { opacity: .7; } h2 { font-size: 1.1rem; margin: .5rem 0; } code { font-size: .9em; }
"""


def render(report: Report, lang: str = "en", everything: bool = False) -> str:
    """The answer as a page. All text that came from evidence is escaped."""
    marks = {"ok": "✓", "error": "✗", "warning": "!", "possible": "?", "unknown": "?", "unasked": "–"}
    rows = "".join(
        f'<tr><td>{escape(words.layer(link.layer, lang))}</td><td class="{"ok" if link.mark == "ok" else "mark-" + link.mark}">'
        f"{marks[link.mark]}</td><td>{escape(link.words)}</td></tr>"
        for link in chain(report, lang)
    )
    findings, harmless = shown(report, everything, live=True)
    body = "".join(article(finding, report, lang) for finding in findings)
    if report.verdict in (Verdict.CLEAR, Verdict.UNKNOWN):
        body += f"<p>{escape(word(report.verdict.value, lang))}</p>"
    if report.signs:
        quotes = "\n".join(words.quoted(ref, lang) for ref in report.signs)
        body += f"<p>{escape(word('signs', lang))}</p><pre>{escape(quotes)}</pre>"
    for outcome in report.unknown:
        settle = "; ".join(f"<code>{escape(command)}</code>" for command in outcome.settle)
        body += f"<p>{escape(word('could_not_tell', lang, what=words.because(outcome.because, lang)))} {escape(word('settle', lang)) + ' ' + settle if settle else ''}</p>"
    if report.unread:
        unread = (word("not_read", lang, source=u.source, because=words.because(u.because, lang)) for u in report.unread)
        items = "".join(f"<li>{escape(line)}</li>" for line in unread)
        body += f'<details class="risk"><summary>{escape(words.count("unread", len(report.unread), lang))}</summary><ul>{items}</ul></details>'
    if harmless:
        body += f'<p class="risk">{escape(words.count("harmless", harmless, lang))}</p>'
    title = word("title", lang) + words.colon(lang) + report.subject
    return (
        f'<!doctype html><html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1><table>{rows}</table>{body}</body></html>"
    )


def article(finding: Finding, report: Report, lang: str) -> str:
    """One finding."""
    text, weight = finding.text(lang), finding.weight
    quotes = "\n".join(words.quoted(r, lang) for r in finding.refs)
    repairs = "\n".join(
        f'$ {escape(c.run)}   <span class="risk">[{escape(words.risk(c.risk, lang))}]</span>' for c in commands(finding, report, lang)
    )
    see = " ".join(f'<a href="{escape(url)}">{escape(url)}</a>' for url in (finding.rule.see if finding.rule else ()))
    head = words.headline(weight, "\0", finding.certainty, lang)
    head = escape(head).replace("\0", f"<code>{escape(finding.slug)}</code>")
    return (
        f'<article class="{weight.name.lower()}"><p><b>{head}</b></p><h2>{escape(text.title)}</h2><p>{escape(text.why)}</p>'
        + (f"<p>{escape(word('grounds', lang))}</p><pre>{escape(quotes)}</pre>" if quotes else "")
        + f"<p>{escape(word('remedy', lang) + words.colon(lang) + text.fix)}</p>"
        + (f"<pre>{repairs}</pre>" if repairs else "")
        + (f"<p>{escape(word('sources', lang) + words.colon(lang))}{see}</p>" if see else "")
        + "</article>"
    )
