"""`ongpu lint`: what is wrong in training code, before it runs."""

import argparse
import difflib
import fnmatch
import gc
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, get_args

from ongpu import __version__, ignored
from ongpu.engine import all_rules, diagnose
from ongpu.facts.program import Program
from ongpu.fronts import repairs
from ongpu.fronts.answer import EXIT, add_format, add_language, coloured, columns, complain, language, say
from ongpu.hosts import source_files
from ongpu.hosts.source_files import SourceFile
from ongpu.ignored import Idle
from ongpu.model import Evidence, Finding, Report, Rule, Severity, Unread, Verdict
from ongpu.report import words
from ongpu.report.as_lint import listed
from ongpu.sources import python_source
from ongpu.sources.python.project import Project
from ongpu.sources.python.text import concerns

FORMATS = ("text", "json", "sarif", "github")
EPILOG_EN = """a comment answers for its line or, alone on a line, for the next:
  print(loss.item())  # ongpu: ignore[sync-in-hot-loop] a short run

settings, in pyproject.toml:
  [tool.ongpu.lint]
  ignore = ["no-mixed-precision"]        also: select
  exclude = ["third_party", "*_pb2.py"]
  per-file-ignores = { "tests/*" = ["sync-in-hot-loop"] }

exit codes: 0 nothing but notes, 1 an error or warning, 2 bad usage,
3 a file could not be read"""
EPILOG_ZH = """注释为所在行作出说明；单独成行时针对下一行：
  print(loss.item())  # ongpu: ignore[sync-in-hot-loop] 短时运行

设置写在 pyproject.toml 里：
  [tool.ongpu.lint]
  ignore = ["no-mixed-precision"]        另有：select
  exclude = ["third_party", "*_pb2.py"]
  per-file-ignores = { "tests/*" = ["sync-in-hot-loop"] }

退出码：0 只有说明，1 有错误或警告，2 用法错误，3 有文件未能读取"""


class BadConfig(ValueError):
    """What is wrong in `[tool.ongpu.lint]`, in both languages."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rules judge which files. Empty `select`: all rules."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def wants(self, finding: Finding) -> bool:
        """Whether the finding is asked for where it stands."""
        slug, path = finding.slug, finding.refs[0].source.partition(":cell ")[0] if finding.refs else ""
        if slug in self.ignore or (self.select and slug not in self.select):
            return False
        return not any(
            slug in slugs and (fnmatch.fnmatch(path, glob) or fnmatch.fnmatch(path, f"*/{glob}")) for glob, slugs in self.per_file.items()
        )


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help=say("files, notebooks, folders; - for standard input (default: .)", "文件、notebook、目录；- 表示标准输入（默认 .）"))
    parser.add_argument("--fix", action="store_true", help=say("repair what is safe to repair, in place", "就地修复可以安全修复的问题"))
    parser.add_argument("--diff", action="store_true", help=say("show what --fix would change; write nothing", "显示 --fix 会做的改动，不写入"))
    parser.add_argument("--select", metavar="SLUG,...", help=say("only these rules", "只用这些规则"))
    parser.add_argument("--ignore", metavar="SLUG,...", help=say("without these rules", "不用这些规则"))
    parser.add_argument("--exclude", metavar="GLOB,...", help=say("without these files and folders", "跳过这些文件和目录"))
    add_format(parser, FORMATS)
    add_language(parser)
    parser.add_argument("--all", action="store_true", help=say("show also notes, and the reasons", "同时显示说明与原因"))
    parser.epilog = say(EPILOG_EN, EPILOG_ZH)
    parser.set_defaults(run=run)


def lint_rules() -> tuple[Rule, ...]:
    """The rules that can judge a program."""
    return tuple(
        rule for rule in all_rules() if any(Program in (kind, *get_args(kind)) for kind in rule.check.__annotations__.values())
    )


def run(options: argparse.Namespace) -> int:
    """Read the files, judge each, tell or repair."""
    rules = lint_rules()
    paths = [Path(p) for p in options.paths or ["."]]
    try:
        choice = _choice(options, paths, {rule.slug for rule in rules})
    except BadConfig as error:
        return complain(error.english, error.chinese)
    piped = options.paths == ["-"]
    data = sys.stdin.buffer.read(source_files.MAX_BYTES + 1) if piped and sys.stdin else b""
    if piped:
        notebook = data.lstrip().startswith(b"{") and b'"cells"' in data
        files = [source_files.of_bytes(Path("stdin.ipynb" if notebook else "stdin.py"), data)]
    else:
        for path in paths:
            if not path.exists():
                return complain(f"{path}: no such file or folder", f"{path}：没有这个文件或目录")
        files = [source_files.read(path) for path in source_files.walk(paths, choice.exclude)]
    if not files:
        return complain("no Python file or notebook there", "这里没有 Python 文件或 notebook")
    gc.set_threshold(2000, 10, 10)  # what is seen in one file refers to itself in circles, and thousands of files may come
    judge = _Judge(rules, files, choice)
    report, idle = _judged(judge, files, " ".join(options.paths) or ".")
    if options.fix or options.diff:
        changes = repairs.repairs(files, listed(report, options.all), lambda item: listed(judge(item), options.all))
        if options.diff:
            print("".join(repairs.diff(change.file, change.text) for change in changes), end="")
            for unread in report.unread:
                print(f"{unread.source}: {words.because(unread.because, options.lang or language())}", file=sys.stderr)
            return EXIT[report.verdict]
        for change in changes:
            try:
                if not piped:
                    source_files.write(change.file, change.text)
            except OSError as error:
                return complain(f"{change.file.path}: not written: {error.strerror}", f"{change.file.path}：未能写入：{error.strerror}")
        if piped:
            _pass_on(source_files.encoded(changes[0].file, changes[0].text) if changes else data)
        if changes:
            fixed = {change.file.path: change.text for change in changes}
            files = [replace(f, evidence=replace(f.evidence, text=fixed.get(f.path, f.evidence.text))) for f in files]
            report, idle = _judged(_Judge(rules, files, choice), files, report.subject)
            for finding in (finding for change in changes for finding in change.answered):
                at = finding.refs[0] if finding.refs else finding.edits[0]
                told = f"{getattr(at, 'source', '') or finding.edits[0].origin}:{at.line} {finding.slug}"
                print(say(f"repaired: {told}", f"已修复：{told}"), file=sys.stderr)
    able = repairs.count(files, listed(report, options.all)) if options.format == "text" else 0
    _print(report, len(files), options, idle, able, sys.stderr if piped and options.fix else sys.stdout)
    return EXIT[report.verdict]


def _pass_on(text: bytes) -> None:
    """The text to standard output as formatters do; what of standard input was too long to be read follows unchanged."""
    import shutil

    sys.stdout.buffer.write(text)
    if sys.stdin:
        shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)
    sys.stdout.buffer.flush()


class _Judge:
    """Judges one file at a time, with the others at hand: what it imports of them is followed."""

    def __init__(self, rules: Sequence[Rule], files: Sequence[SourceFile], choice: Choice) -> None:
        texts = {file.evidence.origin: file.evidence.text for file in files}
        self.rules, self.choice = rules, choice
        self.sources = (python_source.reading(Project(texts, texts.__getitem__)),)

    def __call__(self, item: Evidence) -> Report:
        """The report on one file, without what nobody asked for."""
        if not item.problem and not concerns(item.text):  # most files of a tree
            return Report(subject=item.origin, verdict=Verdict.CLEAR)
        report = diagnose([item], item.origin, self.rules, self.sources)
        wanted, effects = ([f for f in kind if self.choice.wants(f)] for kind in (report.findings, report.hidden))
        findings, hidden = _apart(wanted, effects, self._after_repair(item, wanted) if effects else None)
        unread = tuple(Unread(u.source, u.because.removeprefix("python: NotPython: ")) for u in report.unread)
        if unread and _without_code(item):
            unread = ()
        return replace(report, findings=findings, hidden=hidden, unread=unread, evidence=(), facts=())  # thousands of files are held

    def _after_repair(self, item: Evidence, findings: Sequence[Finding]) -> set[tuple[str, str]] | None:
        """What would be found, slug and line, with these findings repaired; None where none can be."""
        file = SourceFile(Path(item.origin), item)
        new = repairs.repaired(file, repairs.repairable(file, findings))
        if new is None:
            return None
        report = diagnose([replace(item, text=new)], item.origin, self.rules, self.sources)
        return {(f.slug, f.refs[0].quote) for f in (*report.findings, *report.hidden) if f.refs}


def _apart(
    findings: Sequence[Finding], effects: Sequence[Finding], after: set[tuple[str, str]] | None
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """What to show, and mere consequences: those at the line of another finding, and those that go away with its repair.

    Rules explain one another by name. In a source, what stands elsewhere and stays is a fault of its own.
    """
    shown, hidden = list(findings), list[Finding]()
    taken = {(f.refs[0].source, f.refs[0].line) for f in shown if f.refs and f.weight > Severity.NOTE}
    for effect in effects:
        at = effect.refs[0] if effect.refs else None
        if at is None or (at.source, at.line) in taken or (after is not None and (effect.slug, at.quote) not in after):
            hidden.append(effect)
        else:
            shown.append(effect)
            taken.add((at.source, at.line))
    return tuple(shown), tuple(hidden)


def _without_code(item: Evidence) -> bool:
    """Whether it is a notebook of other things than Python: there is nothing in it to be read."""
    cells = source_files.programs(item.text)
    return cells is not None and all(not cell.strip() or cell.startswith("%%") for cell in cells)


def _judged(judge: "_Judge", files: Sequence[SourceFile], subject: str) -> tuple[Report, list[Idle]]:
    """All files as one report, and the ignore comments that answer for nothing."""
    slugs = {rule.slug for rule in judge.rules}
    reports: list[Report] = []
    idle: list[Idle] = []
    for file in files:
        report = judge(file.evidence)
        crashed = tuple(o for o in report.outcomes if o.verdict is Verdict.CRASHED)
        if not report.unread and not crashed:
            idle += ignored.idle(file.evidence, [f for outcome in report.outcomes for f in outcome.findings], slugs)
        reports.append(replace(report, outcomes=crashed))
    return _merged(reports, subject), idle


def _merged(reports: Sequence[Report], subject: str) -> Report:
    """All files as one report. Found, where something is amiss in one; unknown, where one could not be read."""
    findings = _once(f for report in reports for f in report.findings)
    unread = tuple(dict.fromkeys(u for report in reports for u in report.unread))
    crashed = tuple(o for report in reports for o in report.outcomes)
    if any(finding.weight > Severity.NOTE for finding in findings):
        verdict = Verdict.FOUND
    elif crashed:
        verdict = Verdict.CRASHED
    else:
        verdict = Verdict.UNKNOWN if unread else Verdict.CLEAR
    hidden = _once(f for report in reports for f in report.hidden)
    return Report(subject=subject, verdict=verdict, findings=findings, hidden=hidden, outcomes=crashed, unread=unread)


def _once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """A file may be met twice: imported by another, and by itself."""
    return tuple({(f.slug, f.refs[:1]): f for f in findings}.values())


def _print(report: Report, files: int, options: argparse.Namespace, idle: Sequence[Idle], able: int, out: TextIO) -> None:
    lang = options.lang or language()
    if options.format == "json":
        from ongpu.report import as_json

        told = as_json.render(report, lang)
    elif options.format == "sarif":
        from ongpu.report import as_sarif

        told = as_sarif.render(report, __version__, lang, options.all)
    elif options.format == "github":
        from ongpu.report import as_lint

        told = as_lint.github(report, lang, options.all, idle)
    else:
        from ongpu.report import as_lint

        colour = coloured(out)
        told = as_lint.text(report, files, lang, options.all, idle=idle, repairable=able, width=columns(), colour=colour)
    print(told, file=out)


def _choice(options: argparse.Namespace, paths: Sequence[Path], slugs: set[str]) -> Choice:
    """What the command line and `[tool.ongpu.lint]` of the nearest pyproject.toml ask for; the command line speaks last."""
    settings = _settings(paths[0])
    known = {"select", "ignore", "exclude", "per-file-ignores"}
    for name in settings:
        if name not in known:
            names = ", ".join(sorted(known))
            raise BadConfig(f"[tool.ongpu.lint] knows no {name}: {names}", f"[tool.ongpu.lint] 没有 {name} 这一项，可用：{names}")
    per_file = settings.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise BadConfig("[tool.ongpu.lint] per-file-ignores is a table: glob = [slugs]", "[tool.ongpu.lint] 的 per-file-ignores 应为表：glob = [规则名]")
    choice = Choice(
        select=_split(options.select) or _list(settings, "select"),
        ignore=(*_list(settings, "ignore"), *_split(options.ignore)),
        exclude=(*_list(settings, "exclude"), *_split(options.exclude)),
        per_file={glob: _list(per_file, glob) for glob in per_file},
    )
    for slug in (*choice.select, *choice.ignore, *(s for slugs_of in choice.per_file.values() for s in slugs_of)):
        if slug not in slugs:
            near = difflib.get_close_matches(slug, sorted(slugs), 1)
            hint = f"; near: {near[0]}" if near else ""
            raise BadConfig(f"{slug}: no rule of lint{hint} (ongpu rules lists all)", f"{slug}：lint 没有这条规则{hint}（ongpu rules 列出全部）")
    return choice


def _settings(start: Path) -> dict[str, Any]:
    here = start.resolve() if start.is_dir() else start.resolve().parent
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            try:
                table = tomllib.loads(file.read_text("utf-8")).get("tool", {}).get("ongpu", {}).get("lint", {})
            except (OSError, ValueError) as error:
                raise BadConfig(f"{file}: {error}", f"{file}：{error}") from error
            return table if isinstance(table, dict) else {}
    return {}


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _list(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadConfig(f"[tool.ongpu.lint] {name} is a list of texts", f"[tool.ongpu.lint] 的 {name} 应为字符串列表")
    return tuple(value)
