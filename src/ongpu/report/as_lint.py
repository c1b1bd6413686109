"""What `ongpu lint` found, for a terminal and for GitHub's annotations: place by place, in the order of the files."""

import re
from collections.abc import Iterator, Sequence

from ongpu.ignored import Idle
from ongpu.model import Finding, Ref, Report, Severity, Unread, Verdict
from ongpu.report import words
from ongpu.report.as_text import COLOURS
from ongpu.report.layout import paint, width_of, wrap

_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_TEXTS = {
    "clear": ("{files}: nothing wrong was found", "{files}：未发现问题"),
    "checked": ("{files} checked, {unread} could not be read", "检查了 {files}，另有 {unread} 个未能读取"),
    "nothing": ("{files} checked: a rule crashed, the others found nothing", "检查了 {files}：有规则崩溃，其余规则未发现问题"),
    "no_rule": ("ignore[{slug}]: lint has no rule of this name", "ignore[{slug}]：lint 没有这条规则"),
    "idle": ("this {comment} comment answers for nothing that is found", "这条 {comment} 注释没有对应的问题"),
    "unread": ("could not be read: {because}", "未能读取：{because}"),
    "notes": ("--all shows the notes and the reasons", "用 --all 查看说明与原因"),
    "fixable": ("{count} can be repaired with --fix (--diff shows how)", "其中 {count} 处可用 --fix 修复（--diff 可预览）"),
}
_COUNTED = {"file": "个文件", "error": "个错误", "warning": "个警告", "note": "条说明"}


def place(finding: Finding) -> Ref:
    """Where it stands."""
    return finding.refs[0] if finding.refs else Ref("", 0, "")


def listed(report: Report, everything: bool) -> list[Finding]:
    """The findings to be repaired: those shown, notes only where everything is asked for, never mere consequences."""
    return [f for f in report.findings if everything or f.weight > Severity.NOTE]


def ordered(report: Report, everything: bool) -> list[Finding]:
    """The findings by file and line; notes and consequences only where everything is asked for."""
    kept = [*listed(report, everything), *(report.hidden if everything else ())]
    files = {name: n for n, name in enumerate(dict.fromkeys(place(f).source for f in kept))}
    return sorted(kept, key=lambda f: (files[place(f).source], place(f).line, f.slug))


def text(
    report: Report, files: int, lang: str, everything: bool, *, idle: Sequence[Idle] = (), repairable: int = 0, width: int, colour: bool
) -> str:
    """The findings, each with its line and its remedy, then how many there are."""
    lines: list[str] = []
    for finding in ordered(report, everything):
        lines += [*_finding(finding, lang, everything, width, colour), ""]
    for weight, at, told in _comments(idle, lang, everything):
        lines += wrap(f"{at.source}:{at.line}  {words.severity(weight, lang)}{words.colon(lang)}{told}", width)
    for unread in report.unread:
        lines += wrap(f"{unread.source}: {words.because(unread.because, lang)}", width)
    for outcome in report.outcomes:
        if outcome.verdict is Verdict.CRASHED:
            because = outcome.because if everything else outcome.because.strip().splitlines()[-1]
            lines += wrap(words.word("crashed", lang, slug=outcome.rule.slug, because=because), width)
    lines += _summary(report, files, lang, everything, repairable)
    return "\n".join(lines)


def _comments(idle: Sequence[Idle], lang: str, everything: bool) -> Iterator[tuple[Severity, Idle, str]]:
    """What is amiss with ignore comments."""
    for one in idle:
        if not one.known:
            yield Severity.WARNING, one, _TEXTS["no_rule"][lang == "zh"].format(slug=one.slug)
        elif everything:
            comment = f"ignore[{one.slug}]" if one.slug else "ignore"
            yield Severity.NOTE, one, _TEXTS["idle"][lang == "zh"].format(comment=comment)


def _finding(finding: Finding, lang: str, everything: bool, width: int, colour: bool) -> Iterator[str]:
    words_of, at = finding.text(lang), place(finding)
    headline = words.headline(finding.weight, finding.slug, finding.certainty, lang)
    yield f"{paint(f'{at.source}:{at.line}', 'bold', colour)}  {paint(headline, COLOURS[finding.weight], colour)}"
    for ref in finding.refs[: 6 if everything else 3]:
        number = str(ref.line) if ref.source == at.source else f"{ref.source}{words.numbered(ref)}"
        room = max(20, width - width_of(number) - 7)
        quote = ref.quote if width_of(ref.quote) <= room else ref.quote[: room - 3] + "..."
        yield f"  {paint(number + ' |', 'dim', colour)} {quote}"
    mark = "  i " if finding.weight is Severity.NOTE else "  x "
    yield from ((mark if i == 0 else "    ") + line for i, line in enumerate(wrap(words_of.title, width - 4)))
    if everything:
        yield from ("    " + line for line in wrap(words_of.why, width - 4))
    label = words.word("fix", lang)
    indent = " " * width_of(label)
    for i, line in enumerate(wrap(words_of.fix, width - 6 - width_of(label))):
        yield f"    {paint(label, 'green', colour) if i == 0 else indent}  {line}"


def _summary(report: Report, files: int, lang: str, everything: bool, repairable: int) -> Iterator[str]:
    chinese = lang == "zh"
    told = (*report.findings, *(report.hidden if everything else ()))
    count = {s.name.lower(): sum(f.weight is s for f in told) for s in (Severity.ERROR, Severity.WARNING, Severity.NOTE)}
    unread = len({u.source for u in report.unread})
    checked = _counted(files, "file", lang)
    if unread:
        checked = _TEXTS["checked"][chinese].format(files=_counted(files - unread, "file", lang), unread=unread)
    numbers = [_counted(number, name, lang) for name, number in count.items() if number]
    if numbers:
        yield checked + ("：" if chinese else ": ") + ("，" if chinese else ", ").join(numbers)
    else:
        yield checked if unread else _TEXTS["nothing" if report.outcomes else "clear"][chinese].format(files=checked)
    if repairable:
        yield _TEXTS["fixable"][chinese].format(count=repairable)
    if report.hidden and not everything:
        yield words.count("hidden", len(report.hidden), lang)
    if count["note"] and not everything:
        yield _TEXTS["notes"][chinese]


def _counted(number: int, name: str, lang: str) -> str:
    """"3 errors", "1 file"."""
    return f"{number} {_COUNTED[name]}" if lang == "zh" else f"{number} {name}" + ("s" if number != 1 else "")


def github(report: Report, lang: str, everything: bool, idle: Sequence[Idle] = ()) -> str:
    """Workflow commands that GitHub shows beside the lines of a pull request."""
    lines = [_annotation(finding, lang) for finding in ordered(report, everything)]
    for weight, at, told in _comments(idle, lang, everything):
        lines.append(f"::{_GITHUB[weight]} file={_property(at.source)},line={at.line},title=ongpu::{_escaped(told)}")
    for unread in report.unread:
        line = line_of(unread)
        told = _TEXTS["unread"][lang == "zh"].format(because=words.because(unread.because, lang))
        lines.append(f"::error file={_property(unread.source)}{f',line={line}' if line else ''},title=ongpu::{_escaped(told)}")
    for outcome in report.outcomes:
        if outcome.verdict is Verdict.CRASHED:
            told = words.word("crashed", lang, slug=outcome.rule.slug, because=outcome.because.strip())
            lines.append(f"::error title=ongpu::{_escaped(told)}")
    return "\n".join(lines)


def line_of(unread: Unread) -> int:
    """The line at which the reading stopped, from 1; 0 where it is not known."""
    match = re.search(r"\bline (\d{1,9})\b", unread.because)
    return int(match[1]) if match else 0


def _annotation(finding: Finding, lang: str) -> str:
    told, at = finding.text(lang), place(finding)
    message = _escaped(f"{told.title}\n{told.fix}")
    # https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    return f"::{_GITHUB[finding.weight]} file={_property(at.source)},line={at.line},title={_property(finding.slug)}::{message}"


def _escaped(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


