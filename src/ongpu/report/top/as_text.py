"""`ongpu top --once` for a terminal: a row for each GPU, under it the processes and the verdict; at most `width` columns."""

from collections.abc import Iterator
from time import localtime, strftime

from ongpu.model import Severity
from ongpu.report.layout import paint, wrap
from ongpu.report.top import words
from ongpu.report.top.view import OK, Card, Program, View, in_order, only_user, programs_in_order
from ongpu.report.top.words import NOTHING, fit, word
from ongpu.report.words import because

INDENT = "     "
# Columns of a GPU's row, with their widths in both languages; "held" takes what is left.
CELLS = (("util", 4, 6), ("memory", 9, 9), ("temp", 6, 6), ("power", 7, 7), ("clock", 4, 4), ("pcie", 4, 4), ("ecc", 4, 4), ("xid", 3, 3))
NAME, NAME_ZH = 14, 12
PROGRAM, PROGRAM_WIDTHS = ("pid", "gpu_mem", "host_mem", "cpu"), (7, 7, 6, 5)
MOST_LINES = 3  # of a verdict; --format json has the whole
MOST_PROGRAMS = 12  # under one GPU
# Column -> the cells of the row that would show it; "processes" is told in a line of its own.
_TOLD = ("util", "mem_used", "temp", "power", "sm_clock", "reasons", "ecc")
_LABELS = {"mem_used": "memory", "sm_clock": "clock", "reasons": "held"}


def render(view: View, lang: str = "en", *, width: int = 80, colour: bool = False, user: str | None = None, by: str = "index") -> str:
    """The whole answer."""
    lines = [paint(fit(words.title(view, lang), width).rstrip(), "bold", colour)]
    if not view.up:
        told = word("down", lang, reason=words.code(view.code, lang) if view.code is not None else view.reason or NOTHING)
        lines += [*(paint(line, "red", colour) for line in wrap(told, width)), *wrap(word("doctor", lang), width)]
        if not view.cards:
            return "\n".join([*lines, *_machine(view, lang, width, colour)])
        lines.append(word("last_known", lang))
    lines += [paint(line, "dim", colour) for line in _header(lang, width)]
    hidden = 0
    for card in in_order(view, by):
        lines += _row(card, view, lang, width, colour)
        mine = programs_in_order(tuple(only_user(card, user)), by)
        hidden += len(card.programs) - len(mine)
        lines += [line for program in mine[:MOST_PROGRAMS] for line in _program(program, lang, width)]
        if len(mine) > MOST_PROGRAMS:
            lines.append(f"{INDENT}... +{len(mine) - MOST_PROGRAMS}")
        lines += _verdicts(card, lang, width, colour)
    lines += [*_machine(view, lang, width, colour), *_footnotes(view, lang, width, hidden)]
    return "\n".join(line.rstrip() for line in lines)


def _machine(view: View, lang: str, width: int, colour: bool) -> Iterator[str]:
    """What is found of no single GPU."""
    for finding in view.findings:
        shade = "red" if finding.weight is Severity.ERROR else "yellow"
        yield from (paint(line, shade, colour) for line in wrap(words.headline(finding, lang), width))


def _header(lang: str, width: int) -> Iterator[str]:
    chinese = lang == "zh"
    cells = [fit(word("gpu", lang), 4), fit(word("name", lang), NAME_ZH if chinese else NAME)]
    cells += [fit(word(name, lang), zh if chinese else en, right=True) for name, en, zh in CELLS]
    yield fit(" ".join([*cells, word("held", lang)]), width)
    names = [fit(word("user", lang), 8), *(fit(word(n, lang), w, right=True) for n, w in zip(PROGRAM, PROGRAM_WIDTHS, strict=True))]
    yield fit(INDENT + " ".join([*names, word("job", lang)]), width)


def _row(card: Card, view: View, lang: str, width: int, colour: bool) -> Iterator[str]:
    chinese = lang == "zh"
    room = NAME_ZH if chinese else NAME
    shade = words.colour(card)
    head = f"{paint(fit(f'{card.index:>3}', 4), 'bold', colour)} {fit(words.short(card.name, room), room)}"
    if card.condition != OK:
        yield f"{head} {paint(fit(words.condition(card, lang), width - room - 6), shade, colour)}"
        if when := " | ".join(_when(card, view, lang)):
            yield INDENT + fit(when, width - len(INDENT))
        return
    told_cells = words.figures(card)
    cells = [fit(told_cells[name], zh if chinese else en, right=True) for name, en, zh in CELLS]
    if card.too_hot():
        cells[2] = paint(cells[2], "red", colour)
    if card.narrow():
        cells[5] = paint(cells[5], "yellow", colour)
    if card.value("ecc"):
        cells[6] = paint(cells[6], "red", colour)
    used = room + 5 + sum((zh if chinese else en) + 1 for _, en, zh in CELLS)
    yield " ".join([head, *cells, fit(words.held(card, lang), width - used - 1)])


def _when(card: Card, view: View, lang: str) -> list[str]:
    """How long it has been silent, and when it last answered."""
    if view.now is None:
        return []
    told = [word("since", lang, span=words.span(max(view.now - card.since, 0), lang))] if card.since else []
    return told + ([word("last_seen", lang, span=words.span(max(view.now - card.seen, 0), lang))] if card.seen else [])


def clock(time: float) -> str:
    """The time of day, here."""
    return strftime("%H:%M:%S", localtime(time))


def _program(program: Program, lang: str, width: int) -> Iterator[str]:
    """user, pid, GPU memory, host memory, processor; then its job or container and its command."""
    mem = words.size(program.mem)
    if not program.visible:
        yield fit(f"{INDENT}{fit('?', 8)} {program.pid:>7} {mem:>7} {word('invisible', lang)}", width)
        return
    user = fit(program.user or (str(program.uid) if program.uid is not None else NOTHING), 8)
    figures = f"{program.pid:>7} {mem:>7} {words.size(program.rss):>6} {words.cores(program.cpu):>5}"
    yield fit(f"{INDENT}{user} {figures} {words.what(program)}", width)


def _verdicts(card: Card, lang: str, width: int, colour: bool) -> Iterator[str]:
    """Each finding in up to three lines; where there is none, what is plain."""
    if not card.findings and card.condition != OK:
        return  # its row has said why
    told = [words.headline(finding, lang) for finding in card.findings] or [words.unjudged(card, lang)]
    shade = words.colour(card)
    for text in told:
        lines = wrap(text, width - len(INDENT) - 3)
        if len(lines) > MOST_LINES:
            lines = [*lines[: MOST_LINES - 1], fit(lines[MOST_LINES - 1] + " ...", width - len(INDENT) - 3).rstrip()]
        for number, line in enumerate(lines):
            yield INDENT + paint("=> " if number == 0 else "   ", shade, colour) + paint(line, shade, colour)


def _footnotes(view: View, lang: str, width: int, hidden: int) -> Iterator[str]:
    """Why something is not told, who is not shown, and what the verdicts rest on."""
    if hidden:
        yield from wrap(words.counted("hidden_user", hidden, lang), width)
    answering = [card for card in view.cards if card.condition == OK]
    gaps: dict[tuple[str, str], list[int]] = {}
    for card in answering:
        mig = word("mig", lang) if card.identity.get("mig") else ""
        for column in (*_TOLD, "processes"):
            missing = column in card.why if column == "processes" else card.value(column) is None
            if missing:
                why = words.code(card.why.get(column), lang)
                gaps.setdefault((column, why + mig * (card.why.get(column) == 3)), []).append(card.index)
    told = []
    for (column, why), indices in gaps.items():
        which = word("all_gpus", lang) if len(indices) == len(view.cards) > 1 else word("of_gpu", lang, which=_ranges(indices))
        told.append(f"{word(_LABELS.get(column, column), lang)} ({which}): {why}")
    if view.log_problem and any(card.xids is None for card in answering):
        told.append(f"Xid ({word('all_gpus', lang)}): {word('log_denied', lang, because=because(view.log_problem, lang))}")
    if told:
        yield from wrap(word("not_told", lang, what="; ".join(told)), width)
    if answering and (view.seconds or view.kept):
        name = "rests_on_history" if view.kept else "rests_on"
        yield from wrap(word(name, lang, span=words.span(view.seconds, lang)), width)


def _ranges(indices: list[int]) -> str:
    """0-3, 7"""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
