"""The answer for a terminal: the chain, then for each cause its slug, what, why, grounds and remedy."""

from collections.abc import Iterator, Sequence

from ongpu.model import Finding, Outcome, Ref, Report, Risk, Severity, Verdict
from ongpu.report import words
from ongpu.report.chain import chain
from ongpu.report.layout import cut, paint, width_of, wrap
from ongpu.report.recipes import commands
from ongpu.report.selection import HARMLESS, shown
from ongpu.report.words import word

MARKS = {
    "ok": ("ok", "green"), "error": ("x", "red"), "warning": ("!", "yellow"), "possible": ("?", "yellow"),
    "unknown": ("?", "yellow"), "unasked": ("-", "dim"),
}  # fmt: skip
COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
RISKS = {Risk.SAFE: "green", Risk.DISRUPTIVE: "yellow", Risk.DESTRUCTIVE: "red"}
SHOWN_REFS = 6
PLACE = 28  # columns of a source and its line


def render(report: Report, lang: str = "en", everything: bool = False, *, width: int = 80, colour: bool = False, links: bool = True) -> str:
    """The answer as text, at most `width` columns wide (commands and quoted lines are not broken)."""
    lines: list[str] = []
    if links:
        lines += [*_chain(report, lang, width, colour), ""]
    findings, harmless = shown(report, everything, live=links)
    for finding, others in _alike(findings):
        lines += [*_finding(report, finding, others, lang, everything, width, colour), ""]
    if report.verdict is Verdict.CLEAR:
        lines += [paint(word("clear", lang), "green", colour), *wrap(word("clear_detail", lang), width)]
    elif report.verdict is Verdict.UNKNOWN:
        lines += [paint(word("unknown", lang), "yellow", colour)]
        if report.signs:
            lines += [*wrap(word("signs", lang), width), *_quoted(report.signs, lang, everything, width, colour)]
        elif not report.unknown and not report.findings:
            lines += wrap(word("unknown_detail", lang), width)
    lines += _loose_ends(report, lang, everything, width, colour, harmless)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _chain(report: Report, lang: str, width: int, colour: bool) -> Iterator[str]:
    names = [words.layer(link.layer, lang) for link in chain(report, lang)]
    pad = max(width_of(name) for name in names)
    for name, link in zip(names, chain(report, lang), strict=True):
        mark, shade = MARKS[link.mark]
        head = f"{name}{' ' * (pad - width_of(name))}  {paint(mark.ljust(2), shade, colour)}  "
        text = wrap(link.words, width - pad - 6) or [""]
        yield (head + text[0]).rstrip()
        yield from (" " * (pad + 6) + line for line in text[1:])


def _alike(findings: Sequence[Finding]) -> Iterator[tuple[Finding, list[Finding]]]:
    """Findings of one rule and the same words for several subjects (8 GPUs with one fault): told once."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.slug, finding.variant, finding.weight, finding.certainty, bool(finding.subject) or id(finding))
        groups.setdefault(key, []).append(finding)
    for first, *others in groups.values():
        yield first, others


def _finding(
    report: Report, finding: Finding, others: list[Finding], lang: str, everything: bool, width: int, colour: bool
) -> Iterator[str]:
    text, weight = finding.text(lang), finding.weight
    yield paint(words.headline(weight, finding.slug, finding.certainty, lang), COLOURS[weight], colour)
    title = wrap(text.title, width - 4)
    mark = "  i " if weight is Severity.NOTE else "  x "
    yield from ((mark if i == 0 else "    ") + paint(line, "bold", colour) for i, line in enumerate(title))
    yield from ("    " + line for line in wrap(text.why, width - 4))
    if others:
        subjects = ", ".join(other.subject for other in others[:16])
        yield from ("    " + line for line in wrap(word("more", lang, count=len(others), subjects=subjects), width - 4))
    refs = finding.refs if everything else finding.refs[:SHOWN_REFS]
    if refs:
        yield from _quoted(refs, lang, everything, width, colour)
    label = word("fix", lang)
    indent = 6 + width_of(label)
    for i, line in enumerate(wrap(text.fix, width - indent)):
        yield "    " + (paint(label, "green", colour) if i == 0 else " " * width_of(label)) + "  " + line
    for command in commands(finding, report, lang):
        yield f"{' ' * indent}$ {command.run}   {paint(f'[{words.risk(command.risk, lang)}]', RISKS[command.risk], colour)}"
        if everything and command.undo:
            undo = word("undo", lang) + words.colon(lang) + command.undo
            yield from (" " * indent + "  " + line for line in wrap(undo, width - indent - 2))


def _quoted(refs: Sequence[Ref], lang: str, everything: bool, width: int, colour: bool) -> Iterator[str]:
    """Lines of evidence and where they stand."""
    label = word("seen", lang)
    places = [_place(ref, lang) for ref in refs]
    pad = max(map(width_of, places))
    room = max(20, width - width_of(label) - pad - 8)
    for i, (ref, place) in enumerate(zip(refs, places, strict=True)):
        head = label if i == 0 else " " * width_of(label)
        quote = words.shown(ref, lang)
        rows = wrap(quote, room, hard=True) if everything else [cut(quote, room)]
        where = place + " " * (pad - width_of(place))
        yield f"    {paint(head, 'dim', colour)}  {paint(where, 'dim', colour)}  {rows[0] if rows else ''}".rstrip()
        yield from (" " * (width_of(label) + pad + 8) + row for row in rows[1:])


def _place(ref: Ref, lang: str) -> str:
    """Where a line stands, in at most PLACE columns: of a path the end, of words the beginning. Without a number where it has none."""
    source, line = words.source(ref.source, lang), words.numbered(ref)
    room = PLACE - len(line)
    if width_of(source) <= room:
        return source + line
    return ("..." + source[-(room - 3) :] if source.startswith(("/", "~")) else cut(source, room)) + line


def _cause(outcome: Outcome, report: Report, lang: str) -> str:
    """The cause that an answer would confirm, where the whole is unknown."""
    named = report.verdict is Verdict.UNKNOWN and bool(outcome.settle) and outcome.rule.slug != HARMLESS
    return words.bracketed(outcome.rule.slug, lang) if named else ""


def _loose_ends(report: Report, lang: str, everything: bool, width: int, colour: bool, harmless: int) -> Iterator[str]:
    """What could not be told, read or judged: never silently dropped."""
    told: set[str] = set()
    for outcome in report.unknown:
        if outcome.because in told or (report.verdict is Verdict.FOUND and not everything and len(told) >= 2):
            continue
        told.add(outcome.because)
        what = words.because(outcome.because, lang) + _cause(outcome, report, lang)
        yield from wrap(paint(word("could_not_tell", lang, what=what), "yellow", colour), width)
        if outcome.settle:
            head = f"    {word('settle', lang)}"
            line = f"{head} {'; '.join(outcome.settle[:2])}"
            yield from [line] if width_of(line) <= width else [head, *(f"      $ {one}" for one in outcome.settle[:2])]
    for outcome in report.outcomes:
        if outcome.verdict is Verdict.CRASHED:
            because = outcome.because if everything else outcome.because.strip().splitlines()[-1]
            yield from wrap(word("crashed", lang, slug=outcome.rule.slug, because=because), width)
    if everything or report.verdict is Verdict.UNKNOWN:
        for unread in report.unread:
            source, because = words.source(unread.source, lang), words.because(unread.because, lang)
            yield from wrap(word("not_read", lang, source=source, because=because), width)
    if report.hidden and not everything:
        yield paint(words.count("hidden", len(report.hidden), lang), "dim", colour)
    if harmless:
        yield paint(words.count("harmless", harmless, lang), "dim", colour)
