"""`ongpu explain`: the answer from what a person pasted or sent."""

import argparse
import sys
from pathlib import Path

from ongpu.engine import diagnose
from ongpu.fronts.answer import add_options, complain, say, show
from ongpu.hosts import pasted
from ongpu.model import Evidence


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "what",
        nargs="*",
        metavar="FILE|-|TERM",
        help=say("files judged together, - for standard input, or a term: 803, 'Xid 79'", "文件（一起判断）、- 表示标准输入，或一个术语：803、'Xid 79'"),
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain files, standard input or a term."""
    evidence: list[Evidence] = []
    if not options.what and sys.stdin is not None and sys.stdin.isatty():
        print(say("paste the text, then press Ctrl-D:", "粘贴文本，然后按 Ctrl-D："), file=sys.stderr)
    for what in options.what or ["-"]:
        try:
            if what == "-":
                evidence += pasted.read_stdin()
            elif Path(what).exists() or ("/" in what and not what.strip().count(" ")):
                evidence += pasted.read_file(Path(what))
            else:
                evidence += pasted.read_text(what, say("argument", "参数"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return complain(f"{what}: {reason}", f"{what}：{reason}")
    return show(diagnose(evidence, " ".join(options.what) or "stdin"), options, links=False)
