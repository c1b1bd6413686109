"""What every command that answers has in common: its options, its exit code, how its report is printed."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ongpu.model import Report, Verdict

EXIT = {Verdict.CLEAR: 0, Verdict.FOUND: 1, Verdict.UNKNOWN: 3, Verdict.CRASHED: 3}
BAD_USAGE = 2


def language(environ: "os._Environ[str] | dict[str, str]" = os.environ) -> str:
    """"zh" where the locale is Chinese, else "en"."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE", "LANG"):
        if environ.get(name):
            return "zh" if environ[name].lower().startswith("zh") else "en"
    if sys.platform == "win32":
        import locale


        return "zh" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"
    return "en"


FORMATS = ("text", "json", "markdown")


def add_options(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """--format, --lang, --all."""
    add_format(parser, formats)
    add_language(parser)
    text = say("show also mere consequences, harmless lines and all evidence", "同时显示连带后果、无害信息与全部证据")
    parser.add_argument("--all", action="store_true", help=text)


def add_format(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """--format."""
    shown = ", ".join(formats)
    text = say(f"how the answer is printed: {shown} (default: text)", f"输出格式：{shown}（默认 text）")
    parser.add_argument("--format", choices=formats, default="text", metavar="FORMAT", help=text)


def add_language(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """--lang."""
    text = say("language: en, zh (default: the locale's)", "语言：en、zh（默认按系统区域设置）")
    parser.add_argument("--lang", choices=("en", "zh"), default=None, metavar="LANG", help=text)


def add_python(parser: argparse.ArgumentParser) -> None:
    """--python, of the commands that examine an environment."""
    text = say(
        "interpreter or venv to examine (default: the active venv or conda environment, then python on PATH)",
        "要检查的解释器或虚拟环境（默认：已激活的 venv 或 conda 环境，其次是 PATH 上的 python）",
    )
    parser.add_argument("--python", metavar="PATH", help=text)


def add_slug(parser: argparse.ArgumentParser, english: str, chinese: str) -> None:
    """SLUG, of the commands that speak of one fault; a shell can complete it."""
    slug = parser.add_argument("slug", nargs="?", metavar="SLUG", help=say(english, chinese))
    slug.completer = lambda prefix, **more: _slugs(prefix)  # type: ignore[attr-defined]  # argcomplete's own way


def _slugs(prefix: str) -> list[str]:
    from ongpu.engine import all_rules

    return [rule.slug for rule in all_rules() if rule.slug.startswith(prefix)]


def say(english: str, chinese: str) -> str:
    """A line of help in the reader's language: --lang on the command line, else the locale's."""
    asked = next((b for a, b in zip(sys.argv, sys.argv[1:], strict=False) if a == "--lang"), None)
    asked = asked or next((a[7:] for a in sys.argv if a.startswith("--lang=")), None)
    return chinese if (asked or language()) == "zh" else english


def show(report: Report, options: argparse.Namespace, *, links: bool) -> int:
    """Print the report as asked; the exit code."""
    lang = options.lang or language()
    if options.format == "json":
        from ongpu.report import as_json

        text = as_json.render(report, lang, options.all)
    elif options.format == "markdown":
        from ongpu.report import as_markdown

        text = as_markdown.render(report, lang, options.all, live=links)
    elif options.format == "html":
        from ongpu.report import as_html

        text = as_html.render(report, lang, options.all)
    else:
        from ongpu.report import as_text

        colour = coloured(sys.stdout)
        text = as_text.render(report, lang, options.all, width=columns(), colour=colour, links=links)
    print(text)
    return EXIT[report.verdict]


def coloured(out: TextIO) -> bool:
    """Whether colours are wanted there: a terminal that shows them, and nobody said no (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """Columns to fill: the terminal's, at most 100; 80 where the answer goes elsewhere."""
    return min(terminal(), 100) if sys.stdout.isatty() else 80


def terminal() -> int:
    """Columns of the terminal: what COLUMNS says, else what it says itself; 80 where there is none (as shutil has it)."""
    with contextlib.suppress(ValueError):
        if (told := int(os.environ.get("COLUMNS", "0"))) > 0:
            return told
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def complain(english: str, chinese: str) -> int:
    """One line on standard error; the exit code for bad usage."""
    print(f"ongpu: {say(english, chinese)}", file=sys.stderr)
    return BAD_USAGE
