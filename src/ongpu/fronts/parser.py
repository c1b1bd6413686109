"""argparse in the reader's language: headings, usage line, -h, and the layout of examples."""

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from ongpu.fronts.answer import BAD_USAGE, say, terminal
from ongpu.report.layout import wrap

# argparse's own sentences (CPython Lib/argparse.py) and what they say in Chinese
_CHINESE = (
    (r"the following arguments are required: (.*)", r"缺少参数：\1"),
    (r"unrecognized arguments: (.*)", r"无法识别的参数：\1"),
    (r"argument (.*?): expected one argument", r"参数 \1：需要一个值"),
    (r"argument (.*?): expected at least one argument", r"参数 \1：至少需要一个值"),
    (r"argument (.*?): expected at most one argument", r"参数 \1：最多一个值"),
    (r"argument (.*?): expected (\d+) arguments?", r"参数 \1：需要 \2 个值"),
    (r"argument (.*?): invalid choice: (.*?) \(choose from (.*)\)", r"参数 \1：不能是 \2（可选：\3）"),
    (r"argument (.*?): invalid (\w+) value: (.*)", r"参数 \1：\3 不是有效的 \2"),
    (r"argument (.*?): not allowed with argument (.*)", r"参数 \1 不能与 \2 同用"),
    (r"argument (.*?): ignored explicit argument (.*)", r"参数 \1 不带值：\2"),
    (r"ambiguous option: (.*?) could match (.*)", r"选项 \1 不明确，可能是：\2"),
    (r"one of the arguments (.*) is required", r"必须给出以下参数之一：\1"),
)


def chinese(message: str) -> str:
    """An error sentence of argparse in Chinese; as it is where it is none."""
    for pattern, words in _CHINESE:
        if re.fullmatch(pattern, message, re.DOTALL):
            return re.sub(pattern, words, message, flags=re.DOTALL)
    return message


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions and examples."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": terminal() - 2, **options})  # argparse makes many, and would load shutil for each width

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Iterable[Any], prefix: str | None = None
    ) -> None:
        """The usage line, under its heading."""
        super().add_usage(usage, actions, groups, say("usage: ", "用法：") if prefix is None else prefix)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):  # the commands themselves, without a line for "COMMAND"
            return "".join(super(Formatter, self)._format_action(a) for a in action._get_subactions())
        return super()._format_action(action)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width)  # columns, not characters: Chinese is two wide


class Parser(argparse.ArgumentParser):
    """A parser whose own words are in both languages."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, "add_help": False, **options})
        self._positionals.title = say("arguments", "参数")
        self._optionals.title = say("options", "选项")
        self.add_argument("-h", "--help", action="help", help=say("show this help and exit", "显示帮助并退出"))

    def format_help(self) -> str:
        """With the headings' colons in the reader's language."""
        text = super().format_help()
        for title in (group.title for group in self._action_groups):
            text = text.replace(f"\n{title}:\n", f"\n{title}{say(':', '：')}\n")
        return text

    def error(self, message: str) -> NoReturn:
        """Bad usage: the usage line, what is wrong, and where to read on."""
        self.print_usage()
        more = say(f"see {self.prog} --help", f"请看 {self.prog} --help")
        self.exit(BAD_USAGE, f"{self.prog}: {say(message, chinese(message))}\n{more}\n")

    def print_usage(self, file: Any = None) -> None:
        """On standard error where nobody said."""
        import sys

        super().print_usage(file or sys.stderr)
