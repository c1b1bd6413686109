"""A source text by lines: what stands at a place, and edits by position."""

import ast
import warnings
from functools import cached_property

from ongpu.model import MAX_QUOTE, Edit, Ref

Node = ast.expr | ast.stmt


def parses(text: str) -> bool:
    """Whether it is Python, told without a word on standard error, whatever the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class File:
    """A source text, its lines, and edits by position. name: as refs and edits call it."""

    def __init__(self, name: str, text: str, first_line: int = 1) -> None:
        self.name = name
        self.text = text
        self.first_line = first_line
        self._ranges: list[tuple[int, str]] = []  # of a notebook: first line of each cell, its name

    @cached_property
    def lines(self) -> list[str]:
        """As ast counts them: only line feeds end a line (carriage returns were made such)."""
        return self.text.split("\n")

    def cells(self, ranges: list[tuple[int, str]]) -> "File":
        """The same file, whose lines belong to these cells: (first line, name), rising."""
        self._ranges = ranges
        return self

    def line(self, number: int) -> str:
        """The text of that line, counted from 1."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def place(self, number: int) -> tuple[str, int]:
        """The name and the line as a reader knows them: in a notebook "x.ipynb:cell 3", and the line in that cell."""
        for first, name in reversed(self._ranges):
            if number >= first:
                return name, number - first + 1
        return self.name, number + self.first_line - 1

    def ref(self, node: Node, about: str = "") -> Ref:
        """The line where that node begins."""
        name, number = self.place(node.lineno)
        quote = self.line(node.lineno).strip()
        return Ref(name, number, quote if len(quote) <= MAX_QUOTE else quote[:MAX_QUOTE] + " ...", about)

    def column(self, line: int, offset: int) -> int:
        """Characters before the UTF-8 byte `offset` of that line (ast counts bytes, an Edit characters)."""
        text = self.line(line)
        return offset if text.isascii() else len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore"))

    def quote(self, node: Node, most: int = 80) -> str:
        """The node's own words on one line, cut after `most` characters."""
        words = " ".join(self.segment(node).split())
        return words if len(words) <= most else words[: most - 4] + " ..."

    def segment(self, node: Node) -> str:
        """The node's own words, as they stand."""
        last = node.end_lineno or node.lineno
        start, end = self.column(node.lineno, node.col_offset), self.column(last, node.end_col_offset or 0)
        if last == node.lineno:
            return self.line(last)[start:end]
        return "\n".join([self.line(node.lineno)[start:], *self.lines[node.lineno : last - 1], self.line(last)[:end]])

    def replace(self, node: Node, text: str) -> Edit:
        """The edit that puts `text` in the place of the node."""
        return self._edit(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0, text)

    def before(self, node: Node, text: str) -> Edit:
        """The edit that puts `text` in front of the node."""
        return self._edit(node.lineno, node.col_offset, node.lineno, node.col_offset, text)

    def after(self, node: Node, text: str) -> Edit:
        """The edit that puts `text` behind the node: `file.after(call.func, "()")`."""
        line, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._edit(line, column, line, column, text)

    def argument(self, call: ast.Call, text: str) -> Edit:
        """The edit that adds an argument to the call: `file.argument(call, "device=x.device")`."""
        given: list[ast.expr] = [*call.args, *(keyword.value for keyword in call.keywords)]
        if not given:
            line, column = call.end_lineno or call.lineno, (call.end_col_offset or 1) - 1
            return self._edit(line, column, line, column, text)
        last = max(given, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
        between = self._between(call, last)
        if not between.strip(" \t\n,"):
            return self.after(last, f", {text}")
        line, column = call.end_lineno or call.lineno, (call.end_col_offset or 1) - 1
        return self._edit(line, column, line, column, text if between.rstrip().endswith(",") else f", {text}")

    def _between(self, call: ast.Call, last: ast.expr) -> str:
        """What stands between the last argument and the call's closing bracket, comments aside: a comma, brackets around the argument."""
        begin, end = (last.end_lineno or 0, last.end_col_offset or 0), (call.end_lineno or 0, (call.end_col_offset or 1) - 1)
        first, final = self.column(*begin), self.column(*end)
        lines = [self.line(number) for number in range(begin[0], end[0] + 1)]
        lines[-1] = lines[-1][:final]
        lines[0] = lines[0][first:]
        return "\n".join(line.partition("#")[0] for line in lines)

    def _edit(self, line: int, column: int, end_line: int, end_column: int, text: str) -> Edit:
        name, first = self.place(line)
        shift = first - line
        return Edit(name, first, self.column(line, column), end_line + shift, self.column(end_line, end_column), text)
