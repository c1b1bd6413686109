"""`ongpu` and `ongpu doctor`: why the GPU of this machine (or of a snapshot) is not used."""

import argparse
import os
from pathlib import Path

from ongpu.engine import all_sources, diagnose, prepare
from ongpu.fronts.answer import add_options, add_python, complain, say, show
from ongpu.hosts.interpreter import choose, machine
from ongpu.hosts.live import gather
from ongpu.model import Evidence, Verdict


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("snapshot", nargs="?", metavar="SNAPSHOT", help=say("a snapshot to examine instead of this machine", "要检查的快照文件（默认检查本机）"))
    add_python(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # another file system: rescue systems and tests
    add_options(parser, ("text", "json", "markdown", "html"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Examine, judge, tell."""
    if options.python and choose(os.environ, options.python) is None:
        return complain(f"--python {options.python}: no Python interpreter there", f"--python {options.python}：找不到 Python 解释器")
    evidence: list[Evidence]
    if options.snapshot:
        from ongpu.hosts import recorded  # archives are not needed for this machine

        try:
            evidence = recorded.read(Path(options.snapshot))
        except (OSError, ValueError) as error:
            return complain(f"{options.snapshot}: {error}", f"{options.snapshot}：{error}")
        subject = options.snapshot
    else:
        subject = say("this machine", "本机")
        evidence = gather(
            machine(options.root, options.python),
            all_sources(),
            meanwhile=prepare,
            enough=lambda quick: diagnose(quick, subject).verdict is Verdict.FOUND,
        )
    return show(diagnose(evidence, subject), options, links=True)
