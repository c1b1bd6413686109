"""What every command that answers has in common: its options, its exit code, how its report is printed."""

import argparse
import locale
import os
import shutil
import sys
from collections.abc import Sequence

from ongpu.model import Report, Verdict

EXIT = {Verdict.CLEAR: 0, Verdict.FOUND: 1, Verdict.UNKNOWN: 3, Verdict.CRASHED: 3}
BAD_USAGE = 2


def language(environ: "os._Environ[str] | dict[str, str]" = os.environ) -> str:
    """"zh" where the locale is Chinese, else "en"."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE", "LANG"):
        if environ.get(name):
            return "zh" if environ[name].lower().startswith("zh") else "en"
    if sys.platform == "win32":
        return "zh" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"
    return "en"


def add_options(parser: argparse.ArgumentParser, formats: Sequence[str] = ("text", "json", "markdown")) -> None:
    """--format, --lang, --all."""
    parser.add_argument("--format", choices=formats, default="text", help=say("how the answer is printed", "输出格式"))
    parser.add_argument("--lang", choices=("en", "zh"), default=None, help=say("language (default: the locale's)", "语言（默认按系统区域）"))
    parser.add_argument("--all", action="store_true", help=say("show also mere consequences and all evidence", "同时显示连带后果与全部证据"))


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

        text = as_markdown.render(report, lang, options.all)
    elif options.format == "html":
        from ongpu.report import as_html

        text = as_html.render(report, lang, options.all)
    else:
        from ongpu.report import as_text

        terminal = sys.stdout.isatty()
        width = min(shutil.get_terminal_size((80, 24)).columns, 100) if terminal else 80
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        text = as_text.render(report, lang, options.all, width=width, colour=colour, links=links)
    print(text)
    return EXIT[report.verdict]


def complain(english: str, chinese: str) -> int:
    """One line on standard error; the exit code for bad usage."""
    print(f"ongpu: {say(english, chinese)}", file=sys.stderr)
    return BAD_USAGE
