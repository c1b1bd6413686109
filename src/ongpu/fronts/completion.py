"""`ongpu completion`: a completion script for the shell, by shtab."""

import argparse

from ongpu.fronts.answer import complain, say

SHELLS = ("bash", "zsh", "tcsh")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help=say("eval \"$(ongpu completion bash)\"", "eval \"$(ongpu completion bash)\""))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ModuleNotFoundError:
        return complain("completion needs an extra: pip install 'ongpu[completion]'", "补全需要额外组件：pip install 'ongpu[completion]'")
    from ongpu.fronts.cli import parser

    print(shtab.complete(parser(), shell=options.shell))
    return 0
