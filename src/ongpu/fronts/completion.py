"""`ongpu completion`: the script that turns completion on in a shell, by argcomplete."""

import argparse
import sys

from ongpu.fronts.answer import add_language, complain, say

HOW_EN = """Put one line into the start file of your shell:
  ~/.bashrc                    eval "$(ongpu completion bash)"
  ~/.zshrc                     eval "$(ongpu completion zsh)"
  ~/.config/fish/config.fish   ongpu completion fish | source
  $PROFILE (PowerShell)
      ongpu completion powershell | Out-String | Invoke-Expression"""
HOW_ZH = HOW_EN.replace("Put one line into the start file of your shell:", "把对应的一行写进 shell 的启动文件：")
SHELLS = ("bash", "zsh", "fish", "powershell")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (parser.description or "") + "\n\n" + say(HOW_EN, HOW_ZH)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    add_language(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        command = f"{sys.executable} -m pip install argcomplete"
        return complain(f"completion needs argcomplete: {command}", f"补全需要 argcomplete：{command}")
    print(argcomplete.shellcode(["ongpu"], shell=options.shell))
    return 0

