"""The command line: arguments only; each command is a file beside this one, loaded when it is asked for."""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

from ongpu import __version__
from ongpu.fronts.answer import complain, say
from ongpu.fronts.parser import Parser

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)  # of a standard output that takes nothing
COMMANDS = {
    "doctor": ("find why this machine's GPU is not used", "检查本机 GPU 为什么没用上"),
    "explain": ("find the cause from pasted text, logs, files or a term", "根据粘贴的文本、日志、文件或术语查找原因"),
    "lint": ("find in training code what will keep it off the GPU or waste it", "检查训练代码：哪里会用不上或浪费 GPU"),
    "snapshot": ("record this machine's evidence, redacted, as one file", "把本机证据脱敏后存成一个文件"),
    "fix": ("show the repair plan; run the safe repairs after asking", "给出修复计划；询问后执行安全的修复"),
    "pick": ("choose the build that this GPU, driver and Python can run", "选出本机 GPU、驱动、Python 能运行的安装包"),
    "dryrun": ("run a training script on a pretended GPU: does it run, does it fit", "在假想的 GPU 上试运行训练脚本：能否运行、能否放下"),
    "top": ("every GPU, the processes on it, and why it is not busy", "查看每块 GPU、其上的进程，以及它为什么不忙"),
    "watch": ("keep an eye on this machine's GPUs: history, incidents, metrics", "持续监视本机 GPU：历史、事件、指标"),
    "fleet": ("the GPUs of many machines, over ssh or by Prometheus", "查看多台机器的 GPU（通过 ssh 或 Prometheus）"),
    "run": ("run a command on free, healthy GPUs; say what it used, or why it died", "在空闲且健康的 GPU 上运行命令；报告用量，失败时给出原因"),
    "submit": ("queue a command for free, healthy GPUs; print its id", "把命令交给队列，等空闲且健康的 GPU 运行；输出编号"),
    "jobs": ("what runs, what waits and why, what ended and what it died of", "查看运行中、等待中（及原因）、已结束（及死因）的作业"),
    "logs": ("what a job wrote", "查看作业的输出"),
    "cancel": ("end jobs, or keep them from starting", "取消作业"),
    "hold": ("let waiting jobs wait", "挂起等待中的作业"),
    "release": ("let held jobs start", "解除作业的挂起"),
    "gate": ("may a job be placed on this machine's GPUs: for schedulers", "本机 GPU 能否放置作业：供调度系统使用"),
    "queue": ("the queue: its state, GPUs in and out of service, import, simulate", "队列本身：状态、GPU 停用与恢复、导入、模拟"),
    "rules": ("list everything that can be found; show one rule", "列出能发现的所有问题；查看一条规则"),
    "completion": ("print a completion script for the shell", "输出 shell 补全脚本"),
}
FILES = {"cancel": "steer", "hold": "steer", "release": "steer"}  # commands that share a file


EPILOG_EN = """Without a command: doctor. Options of a command: ongpu COMMAND --help

examples:
  ongpu                              why is this machine's GPU not used?
  ongpu explain train.log            what does this log say?
  python train.py 2>&1 | ongpu explain
  ongpu explain 'Xid 79'             what does this term mean?
  ongpu pick torch                   which build runs here?
  ongpu submit --gpus 2 -- python train.py      then: ongpu jobs

exit codes: 0 clear, 1 a fault was found, 2 bad usage, 3 could not tell"""
EPILOG_ZH = """不写命令即为 doctor。各命令的选项：ongpu 命令 --help

示例：
  ongpu                              本机 GPU 为什么没用上？
  ongpu explain train.log            这份日志说明了什么？
  python train.py 2>&1 | ongpu explain
  ongpu explain 'Xid 79'             这个术语是什么意思？
  ongpu pick torch                   哪个安装包能在这里运行？
  ongpu submit --gpus 2 -- python train.py      之后查看：ongpu jobs

退出码：0 正常，1 发现故障，2 用法错误，3 无法判断"""


def parser(only: str | None = None) -> Parser:
    """The parser; with `only`, just that command's arguments are loaded (start-up time)."""
    top = Parser(
        prog="ongpu",
        description=say("Get your model on the GPU, and keep it there.", "让模型跑在 GPU 上，并一直跑在上面。"),
        epilog=say(EPILOG_EN, EPILOG_ZH),
    )
    shown = say("show the version and exit", "显示版本并退出")
    top.add_argument("--version", action="version", version=f"ongpu {__version__}", help=shown)
    commands = top.add_subparsers(dest="command", metavar=say("COMMAND", "命令"), title=say("commands", "命令"))
    for name, (english, chinese) in COMMANDS.items():
        told = say(f"{english[0].upper()}{english[1:]}.", f"{chinese}。")
        command = commands.add_parser(name, help=say(english, chinese), description=told)
        if only in (None, name):
            import_module(f"ongpu.fronts.{FILES.get(name, name)}").add(command)
            command.set_defaults(asked=command)
    return top


def _without_language(arguments: Sequence[str]) -> list[str]:
    """The arguments but for --lang, which `say` reads by itself."""
    return [a for before, a in zip(("", *arguments), arguments, strict=False) if "--lang" not in (before, a) and not a.startswith("--lang=")]


def _misspelt(word: str) -> bool:
    """Whether it can only be meant as a command: a bare word that names no file."""
    return word not in COMMANDS and re.fullmatch(r"[A-Za-z][A-Za-z_-]{0,40}", word) is not None and not os.path.exists(word)


def _no_command(word: str) -> int:
    import difflib

    near = ", ".join(difflib.get_close_matches(word.lower(), COMMANDS, 2))
    more = say(f"did you mean: {near}?", f"是不是想用：{near}？") if near else say("see ongpu --help", "请看 ongpu --help")
    return complain(f"{word}: no such command or file; {more}", f"{word}：没有这个命令或文件；{more}")


def _open_streams() -> None:
    """Those that were closed by who started us lead nowhere: a file that is opened later is not to take their place. A command that we
    start finds them closed as they were."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free; not passed on
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  for the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def run(argv: Sequence[str]) -> int:
    """Run one command; the exit code. The doctor is asked where no command is named."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser())
    _open_streams()
    arguments = list(argv)
    named = next((a for a in arguments if a in COMMANDS), None)
    others = _without_language(arguments)
    general = len(others) == 1 and others[0] in ("-h", "--help", "--version")  # `ongpu --lang zh --help`
    if general:
        arguments = others
    elif others and _misspelt(others[0]):
        return _no_command(others[0])
    elif named and arguments[0].startswith("-"):  # `ongpu --lang zh rules`
        arguments.remove(named)
        arguments.insert(0, named)
    elif not arguments or arguments[0] not in COMMANDS:
        arguments.insert(0, "doctor")
    only = arguments[0] if arguments[0] in COMMANDS else None
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            with contextlib.suppress(ValueError, OSError):
                stream.reconfigure(encoding="utf-8", errors="replace")
    top = parser(only)
    options, unknown = top.parse_known_args(arguments)
    if unknown:  # the command's own usage is shown, where one was named
        (options.asked if argv and only in argv else top).error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader went away: `ongpu | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        with contextlib.suppress(OSError):  # what waits to be written is dropped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return complain(f"the output cannot be written: {error.strerror}", f"无法写出输出：{error.strerror}")
    except KeyboardInterrupt:
        return 130
