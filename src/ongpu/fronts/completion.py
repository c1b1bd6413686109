"""`ongpu completion`: the line that turns completion on in a shell, by argcomplete."""

import argparse

from ongpu.fronts.answer import complain

SHELLS = ("bash", "zsh", "fish", "powershell")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help='eval "$(ongpu completion bash)"')
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        return complain("completion needs an extra: pip install 'ongpu[completion]'", "补全需要额外组件：pip install 'ongpu[completion]'")
    print(argcomplete.shellcode(["ongpu"], shell=options.shell))
    return 0

