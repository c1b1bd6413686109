"""`ongpu lint`: what is wrong in training code, before it runs."""

import argparse
import difflib
import fnmatch
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from ongpu import __version__
from ongpu.engine import all_rules, diagnose
from ongpu.facts.program import Program
from ongpu.fronts.answer import EXIT, add_format, add_language, columns, complain, language, say
from ongpu.hosts import source_files
from ongpu.hosts.source_files import SourceFile
from ongpu.model import Evidence, Finding, Report, Rule, Severity, Verdict
from ongpu.sources import python_source
from ongpu.sources.python.project import Project
from ongpu.sources.python.text import concerns

FORMATS = ("text", "json", "sarif", "github")
ROUNDS = 8  # a repair may make another one possible


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
    if options.paths == ["-"]:
        text = sys.stdin.buffer.read(source_files.MAX_BYTES + 1) if sys.stdin else b""
        files = [source_files.of_bytes(Path("stdin.py"), text)]
    else:
        for path in paths:
            if not path.exists():
                return complain(f"{path}: no such file or folder", f"{path}：没有这个文件或目录")
        files = [source_files.read(path) for path in source_files.walk(paths, choice.exclude)]
    if not files:
        return complain("no Python file or notebook there", "这里没有 Python 文件或 notebook")
    judge = _Judge(rules, files, choice)
    report = _merged([judge(file.evidence) for file in files], " ".join(options.paths) or ".")
    if options.fix or options.diff:
        changes = _repairs(files, report, judge)
        if options.diff:
            print("".join(_diff(file, new) for file, new in changes), end="")
            return EXIT[report.verdict]
        for file, new in changes:
            try:
                source_files.write(file, new)
            except OSError as error:
                return complain(f"{file.path}: not written: {error.strerror}", f"{file.path}：未能写入：{error.strerror}")
        if changes:
            fixed = {file.path: new for file, new in changes}
            files = [replace(f, evidence=replace(f.evidence, text=fixed.get(f.path, f.evidence.text))) for f in files]
            judge = _Judge(rules, files, choice)
            report = _merged([judge(file.evidence) for file in files], report.subject)
            done = ", ".join(str(file.path) for file, _ in changes)
            print(say(f"repaired: {done}", f"已修复：{done}"), file=sys.stderr)
    _print(report, len(files), options)
    return EXIT[report.verdict]


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
        findings = tuple(finding for finding in report.findings if self.choice.wants(finding))
        return replace(report, findings=findings, evidence=(), facts=())  # thousands of files are held


def _merged(reports: Sequence[Report], subject: str) -> Report:
    """All files as one report. Found, where something is amiss in one; unknown, where none could be read."""
    findings = tuple({(f.slug, f.refs[:1]): f for report in reports for f in report.findings}.values())  # a file may be met twice
    unread = tuple(u for report in reports for u in report.unread)
    if any(finding.weight > Severity.NOTE for finding in findings):
        verdict = Verdict.FOUND
    elif any(report.verdict is Verdict.CRASHED for report in reports):
        verdict = Verdict.CRASHED
    else:
        verdict = Verdict.UNKNOWN if len(unread) == len(reports) else Verdict.CLEAR
    crashed = tuple(o for report in reports for o in report.outcomes if o.verdict is Verdict.CRASHED)
    return Report(subject=subject, verdict=verdict, findings=findings, outcomes=crashed, unread=unread)


def _repairs(files: Sequence[SourceFile], report: Report, judged: Callable[[Evidence], Report]) -> list[tuple[SourceFile, str]]:
    """Each file that can be repaired, with its new text."""
    changes = []
    for file in files:
        findings = [f for f in report.findings if f.edits and _same(f.edits[0].origin, file)]
        text: str | None = None
        for _ in range(ROUNDS):
            edits = [edit for finding in findings for edit in finding.edits]
            now = file if text is None else replace(file, evidence=replace(file.evidence, text=text))
            new = source_files.repaired(now, edits) if edits else None
            if new is None:
                break
            text = new
            findings = [f for f in judged(replace(file.evidence, text=text)).findings if f.edits]
        if text is not None:
            changes.append((file, text))
    return changes


def _same(origin: str, file: SourceFile) -> bool:
    return origin.partition(":cell ")[0] == file.evidence.origin


def _diff(file: SourceFile, new: str) -> str:
    old, path = file.evidence.text, file.evidence.origin
    return "".join(difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"))


def _print(report: Report, files: int, options: argparse.Namespace) -> None:
    lang = options.lang or language()
    if options.format == "json":
        from ongpu.report import as_json

        print(as_json.render(report, lang))
    elif options.format == "sarif":
        from ongpu.report import as_sarif

        print(as_sarif.render(report, __version__, lang, options.all))
    elif options.format == "github":
        from ongpu.report import as_lint

        print(as_lint.github(report, lang, options.all))
    else:
        from ongpu.report import as_lint

        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        print(as_lint.text(report, files, lang, options.all, width=columns(), colour=colour))


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
