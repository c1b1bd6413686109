"""Run every ```console block of the README and the docs again and put its true output in; with --check, say what is stale.

A block holds one command, `$ ongpu ...` or `$ cat FILE`, and its output. It runs in docs/examples, in the page's language.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from unittest import mock

from ongpu.fronts.cli import run
from ongpu.knowledge import freshness

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
BLOCK = re.compile(r"^(?P<head>```console\n\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n)(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
DATED = ("ongpu pick driver", "ongpu rules")  # their answer moves with the day or with each new rule: shown, not compared
ALLOWED = ("explain", "lint", "pick", "doctor", "rules", "fleet", "--version")  # nothing that changes a machine


def pages() -> list[Path]:
    """Every page that may show output; the rules' pages are generated from the rules."""
    docs = [path for lang in ("en", "zh") for path in sorted((ROOT / "docs" / lang).glob("*.md"))]
    return [ROOT / "README.md", ROOT / "README.zh.md", *docs]


def language(page: Path) -> str:
    """The language that a page is written in."""
    return "zh" if page.parent.name == "zh" or ".zh." in page.name else "en"


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of a page and the output that is shown."""
    for match in BLOCK.finditer(page.read_text("utf-8")):
        yield match["command"], match["output"]


def output(command: str, lang: str) -> str:
    """What the command prints today. ValueError for a command that may not run here."""
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    if program == "cat":
        return "".join((EXAMPLES / name).read_text("utf-8") for name in arguments)
    if program != "ongpu" or not arguments or arguments[0] not in ALLOWED:
        raise ValueError(f"not a command that the docs may run: {command}")
    told = io.StringIO()
    environ = {"LC_ALL": "zh_CN.UTF-8" if lang == "zh" else "C.UTF-8", "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    with (
        contextlib.chdir(EXAMPLES),
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(told),
        mock.patch.dict(os.environ, environ, clear=True),
        mock.patch.object(sys, "argv", ["ongpu", *arguments]),
    ):
        run(arguments)
    return told.getvalue()


def refreshed(page: Path) -> str:
    """The page with the output of today."""
    lang = language(page)
    return BLOCK.sub(lambda m: f"{m['head']}{output(m['command'], lang).rstrip()}\n```", page.read_text("utf-8"))


def stale(page: Path) -> list[str]:
    """The commands of a page whose output is no longer what is shown."""
    lang = language(page)
    dated = (*DATED, "ongpu doctor") if freshness.stale(date.today()) else DATED  # the doctor then says that tables are old
    compared = ((command, shown) for command, shown in blocks(page) if not command.startswith(dated))
    return [command for command, shown in compared if output(command, lang).rstrip() != shown.rstrip()]


def main() -> int:
    """Rewrite, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a shown output is stale")
    if parser.parse_args().check:
        found = [f"{page.relative_to(ROOT)}: $ {command}" for page in pages() for command in stale(page)]
        for line in found:
            print(f"stale: {line}; run: python tools/refresh_docs.py")
        return bool(found)
    for page in pages():
        text = refreshed(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"written: {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
