"""argparse in the reader's language: headings, usage line, -h, and the layout of examples."""

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn

from ongpu.fronts.answer import BAD_USAGE, say
from ongpu.report.layout import wrap


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions and examples."""

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

    def error(self, message: str) -> NoReturn:
        """Bad usage: the usage line, what is wrong, and where to read on."""
        self.print_usage()
        more = say(f"see {self.prog} --help", f"请看 {self.prog} --help")
        self.exit(BAD_USAGE, f"{self.prog}: {message}\n{more}\n")

    def print_usage(self, file: Any = None) -> None:
        """On standard error where nobody said."""
        import sys

        super().print_usage(file or sys.stderr)
