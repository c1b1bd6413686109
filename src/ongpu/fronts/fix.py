"""`ongpu fix`: shows the plan, runs the safe repairs after asking, and asks the doctor again whether the fault is gone."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from ongpu.fronts.answer import EXIT, add_options, add_python, add_slug, columns, complain, language, say, show
from ongpu.fronts.examined import examine, no_python
from ongpu.lazy import dataclass, replace
from ongpu.model import Command, Finding, Report, Risk, Severity, Verdict
from ongpu.report import words
from ongpu.report.layout import wrap
from ongpu.report.recipes import commands

# What changes the shell that it is typed into: in one of our own it would change nothing that the doctor sees.
IN_SHELL = (
    "export ", "unset ", "set ", "setx ", "$env:", "Remove-Item Env:", "source ", ". ", "cd ", "ulimit ", "conda activate", "conda deactivate",
    "module load", "deactivate",
)  # fmt: skip
TEMPLATE = re.compile(r"<[A-Za-z\u4e00-\u9fff][\w \u4e00-\u9fff|-]*>|\.\.\.")  # "<index>", not the "<" of 'nvidia-cudnn-cu12<9'
LIMIT = 1800  # seconds for one repair: a framework is several GB to fetch


@dataclass(frozen=True)
class Step:
    """One finding and what repairs it here."""

    finding: Finding
    commands: tuple[Command, ...]


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_slug(parser, "repair only this fault", "只修复这一项")
    parser.add_argument("--yes", action="store_true", help=say("run the safe repairs without asking; never disruptive or destructive ones", "不询问，直接执行安全的修复；绝不执行会中断服务或删除内容的操作"))
    add_python(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    add_options(parser)
    parser.set_defaults(run=run)


def plan(report: Report, slug: str | None, lang: str, everything: bool = False) -> list[Step]:
    """The faults to repair, the root cause first, each with its commands; everything: their consequences too."""
    told = (*report.findings, *report.hidden) if everything else report.findings
    serious = [f for f in told if f.weight > Severity.NOTE and slug in (None, f.slug)]
    steps: dict[str, Step] = {}
    for finding in serious:
        steps.setdefault(finding.slug, Step(finding, tuple(commands(finding, report, lang))))
    return list(steps.values())


def run(options: argparse.Namespace) -> int:
    """Plan, ask, repair, examine again."""
    lang = options.lang or language()
    if options.yes and options.format != "text":
        return complain("--yes runs repairs, which are told as text: leave --format out", "--yes 会执行修复，过程以文本给出：请去掉 --format")
    if wrong := no_python(options.python):
        return complain(*wrong)
    report = examine(options.root, options.python)
    steps = plan(report, options.slug, lang, options.all)
    if options.format != "text" and (steps or not options.slug):  # the plan as data: nothing is run
        chosen = tuple(f for f in report.findings if options.slug in (None, f.slug))
        return show(replace(report, findings=chosen), options, links=False)
    if not steps:
        return _nothing(report, options.slug)
    print(say("The plan, the root cause first:", "修复计划（根本原因在前）："))
    for step in steps:
        _show(step, lang)
    safe = [(step, command) for step in steps for command in _safe(step)]
    if not safe:
        print(say("\nNothing of this is run for you: run what applies yourself, and then `ongpu` again.", "\n以上都不会代为执行：请自行执行适用的命令，然后再运行 `ongpu`。"))
        return 1
    if options.root != "/":
        print(say("\nAnother root is examined: nothing is run.", "\n检查的是另一个根目录：不执行任何操作。"))
        return 1
    return _repair(options, safe)


def _nothing(report: Report, slug: str | None) -> int:
    if slug and report.verdict is Verdict.FOUND:
        found = ", ".join(f.slug for f in report.findings if f.weight > Severity.NOTE)
        return complain(f"{slug} is not found here; found: {found}", f"这里没有发现 {slug}；发现的是：{found}")
    print(say("Nothing to repair was found.", "没有发现需要修复的问题。"))
    return EXIT[report.verdict] if not slug else 0


def _safe(step: Step) -> Iterator[Command]:
    """The commands of a step that are run: not what follows one that is left to the reader, on which it builds."""
    for command in step.commands:
        if command.risk is not Risk.SAFE:
            return
        if _runnable(command):
            yield command


def _runnable(command: Command) -> bool:
    """Whether running it repairs: no template that the reader must complete, nothing that acts in their own shell only,
    nothing that only looks."""
    return not (command.looks or TEMPLATE.search(command.run) or command.run.startswith(IN_SHELL) or "activate" in command.run)


def _why_not(command: Command) -> str:
    """Why a safe command is not run for the user; "" where it is, or where its risk says it."""
    if command.risk is not Risk.SAFE or _runnable(command):
        return ""
    if TEMPLATE.search(command.run):
        return say(", to complete", "，需补全")
    return say(", only looks", "，仅查看") if command.looks else say(", in your own shell", "，需在你自己的 shell 里执行")


def _show(step: Step, lang: str) -> None:
    text = step.finding.text(lang)
    width = columns()
    print("\n" + words.headline(step.finding.weight, step.finding.slug, step.finding.certainty, lang))
    for part in (text.title, text.fix):
        print("\n".join("  " + line for line in wrap(part, width - 2)))
    for command in step.commands:
        print(f"  $ {command.run}   [{words.risk(command.risk, lang)}{_why_not(command)}]")
        if command.undo:
            print("      " + words.word("undo", lang) + words.colon(lang) + command.undo)


def _repair(options: argparse.Namespace, safe: list[tuple[Step, Command]]) -> int:
    """Run the safe commands of one fault after another; after each fault ask the doctor whether it is gone."""
    left: set[str] = set()
    report = None
    for slug in dict.fromkeys(step.finding.slug for step, _ in safe):
        mine = [command for step, command in safe if step.finding.slug == slug]
        ran: list[Command] = []
        for command in mine:  # the later ones build on the former: one that fails, or is declined, ends the repair
            if not _allowed(command, options.yes):
                break
            if not _execute(command):
                for undo in dict.fromkeys(one.undo for one in ran if one.undo):
                    print("      " + words.word("undo", options.lang or language()) + words.colon(options.lang or language()) + undo)
                break
            ran.append(command)
        if not ran:
            left.add(slug)
            continue
        print(say("asking the doctor again ...", "重新检查……"), flush=True)
        report = examine(options.root, options.python)
        if any(f.slug == slug and f.weight > Severity.NOTE for f in (*report.findings, *report.hidden)):
            left.add(slug)
            print(say(f"{slug}: still there after the repair", f"{slug}：修复后问题仍在"))
        else:
            print(say(f"{slug}: gone", f"{slug}：已消失"))
    if report is None:
        return 1
    others = [f.slug for f in report.findings if f.weight > Severity.NOTE and f.slug not in left]
    if others:
        print(say(f"what remains: {', '.join(others)}", f"剩余问题：{'、'.join(others)}"))
    return 1 if left else EXIT[report.verdict]


def _allowed(command: Command, yes: bool) -> bool:
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        print(say(f"not run (no terminal to ask on; --yes runs it): {command.run}", f"未执行（没有终端可询问；可用 --yes）：{command.run}"))
        return False
    try:
        return input(say(f"run: {command.run} ? [y/N] ", f"执行：{command.run} ？[y/N] ")).strip().lower() in ("y", "yes", "是")
    except EOFError:
        return False


def _execute(command: Command) -> bool:
    """Run one repair in a shell, its output shown; whether it succeeded."""
    print(f"$ {command.run}", flush=True)
    try:
        done = subprocess.run(["/bin/sh", "-c", command.run] if os.name == "posix" else command.run, timeout=LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(say(f"failed: {error}", f"失败：{error}"))
        return False
    if done.returncode:
        print(say(f"failed: exit status {done.returncode}", f"失败：退出码 {done.returncode}"))
    return done.returncode == 0
