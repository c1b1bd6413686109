"""What `ongpu lint` found, for a terminal and for GitHub's annotations: place by place, in the order of the files."""

from collections.abc import Iterator

from ongpu.model import Finding, Ref, Report, Severity
from ongpu.report import words
from ongpu.report.as_text import COLOURS
from ongpu.report.layout import paint, width_of, wrap

_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_TEXTS = {
    "clear": ("{files}: nothing wrong was found", "{files}：未发现问题"),
    "notes": ("--all shows the notes and the reasons", "用 --all 查看说明与原因"),
    "fixable": ("{count} can be repaired with --fix (--diff shows how)", "其中 {count} 处可用 --fix 修复（--diff 可预览）"),
}
_COUNTED = {"file": "个文件", "error": "个错误", "warning": "个警告", "note": "条说明"}


def place(finding: Finding) -> Ref:
    """Where it stands."""
    return finding.refs[0] if finding.refs else Ref("", 0, "")


def ordered(report: Report, everything: bool) -> list[Finding]:
    """The findings by file and line; notes only where everything is asked for."""
    kept = [f for f in report.findings if everything or f.weight > Severity.NOTE]
    files = {name: n for n, name in enumerate(dict.fromkeys(place(f).source for f in kept))}
    return sorted(kept, key=lambda f: (files[place(f).source], place(f).line, f.slug))


def text(report: Report, files: int, lang: str, everything: bool, *, width: int, colour: bool) -> str:
    """The findings, each with its line and its remedy, then how many there are."""
    lines: list[str] = []
    for finding in ordered(report, everything):
        lines += [*_finding(finding, lang, everything, width, colour), ""]
    lines += [f"{u.source}: {words.because(u.because, lang)}" for u in report.unread]
    lines += _summary(report, files, lang, everything)
    return "\n".join(lines)


def _finding(finding: Finding, lang: str, everything: bool, width: int, colour: bool) -> Iterator[str]:
    words_of, at = finding.text(lang), place(finding)
    headline = words.headline(finding.weight, finding.slug, finding.certainty, lang)
    yield f"{paint(f'{at.source}:{at.line}', 'bold', colour)}  {paint(headline, COLOURS[finding.weight], colour)}"
    for ref in finding.refs[: 6 if everything else 3]:
        number = str(ref.line) if ref.source == at.source else f"{ref.source}:{ref.line}"
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


def _summary(report: Report, files: int, lang: str, everything: bool) -> Iterator[str]:
    chinese = lang == "zh"
    count = {s.name.lower(): sum(f.weight is s for f in report.findings) for s in (Severity.ERROR, Severity.WARNING, Severity.NOTE)}
    if not any(count.values()):
        yield _TEXTS["clear"][chinese].format(files=_counted(files, "file", lang))
        return
    told = [_counted(number, name, lang) for name, number in count.items() if number]
    yield _counted(files, "file", lang) + ("：" if chinese else ": ") + ("，" if chinese else ", ").join(told)
    fixable = sum(bool(f.edits) for f in report.findings)
    if fixable:
        yield _TEXTS["fixable"][chinese].format(count=fixable)
    if count["note"] and not everything:
        yield _TEXTS["notes"][chinese]


def _counted(number: int, name: str, lang: str) -> str:
    """"3 errors", "1 file"."""
    return f"{number} {_COUNTED[name]}" if lang == "zh" else f"{number} {name}" + ("s" if number != 1 else "")


def github(report: Report, lang: str, everything: bool) -> str:
    """Workflow commands that GitHub shows beside the lines of a pull request."""
    return "\n".join(_annotation(finding, lang) for finding in ordered(report, everything))


def _annotation(finding: Finding, lang: str) -> str:
    told, at = finding.text(lang), place(finding)
    message = _escaped(f"{told.title}\n{told.fix}")
    # https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    return f"::{_GITHUB[finding.weight]} file={_property(at.source)},line={at.line},title={_property(finding.slug)}::{message}"


def _escaped(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


