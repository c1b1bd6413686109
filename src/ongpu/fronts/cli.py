"""The command line: arguments only; each command is a file beside this one, loaded when it is asked for."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ongpu import __version__
from ongpu.fronts.answer import say

COMMANDS = {
    "doctor": ("find why this machine's GPU is not used (the default)", "检查本机 GPU 为什么没用上（默认命令）"),
    "explain": ("the same answer from pasted text, logs, files or a term", "从粘贴的文本、日志、文件或术语得出同样的答案"),
    "snapshot": ("record this machine's evidence, redacted, as one file", "把本机证据脱敏后存成一个文件"),
    "fix": ("show the repair plan; run the safe repairs after asking", "给出修复计划；询问后执行安全的修复"),
    "pick": ("the build that this GPU, driver and Python can run", "选出本机 GPU、驱动、Python 能运行的安装包"),
    "rules": ("list everything that can be found; show one rule", "列出能发现的所有问题；查看一条规则"),
    "completion": ("print a completion script for the shell", "输出 shell 补全脚本"),
}


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser; with `only`, just that command's arguments are loaded (start-up time)."""
    top = argparse.ArgumentParser(
        prog="ongpu", description=say("Get your model on the GPU, and keep it there.", "让模型跑在 GPU 上，并一直跑在上面。")
    )
    top.add_argument("--version", action="version", version=f"ongpu {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, (english, chinese) in COMMANDS.items():
        command = commands.add_parser(name, help=say(english, chinese), description=say(english, chinese))
        if only in (None, name):
            import_module(f"ongpu.fronts.{name}").add(command)
    return top


def run(argv: Sequence[str]) -> int:
    """Run one command; the exit code. The doctor is asked where no command is named."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser())
    arguments = list(argv)
    named = next((a for a in arguments if a in COMMANDS), None)
    if named and arguments[0].startswith("-"):  # `ongpu --lang zh rules`
        arguments.remove(named)
        arguments.insert(0, named)
    elif not arguments or (arguments[0] not in COMMANDS and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "doctor")
    only = arguments[0] if arguments[0] in COMMANDS else None
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            with contextlib.suppress(ValueError, OSError):
                stream.reconfigure(encoding="utf-8", errors="replace")
    options = parser(only).parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader went away: `ongpu | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
