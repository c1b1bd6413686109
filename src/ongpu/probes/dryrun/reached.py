"""Which functions of the script were entered: a mark at the head of each, put there as the script is compiled."""

from __future__ import annotations

import ast
import builtins
import os
from types import CodeType
from typing import Any, Dict, List, Set

MARK = "__ongpu_reached__"
HARMLESS = {"staticmethod", "classmethod", "property", "no_grad", "inference_mode", "enable_grad", "override"}
MOST = 40  # functions told


class Reached:
    """Marks functions and methods; those inside functions, with other decorators (which may compile their bytecode) and with
    names between double underscores are left as they are, and nothing is said of them."""

    def __init__(self) -> None:
        self.file = ""
        self.marked: Dict[int, Dict[str, Any]] = {}
        self.entered: Set[int] = set()

    def compile(self, source: bytes, name: str) -> CodeType:
        """The code of a script; SyntaxError as Python raises it."""
        tree: Any = compile(source, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        self.file = os.path.abspath(name)
        self._mark(tree.body, "")
        setattr(builtins, MARK, self.entered.add)
        code: CodeType = compile(tree, name, "exec", dont_inherit=True)
        return code

    def _mark(self, body: List[ast.stmt], within: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._mark(node.body, within + node.name + ".")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if not node.name.startswith("__") and all(_name(d) in HARMLESS for d in node.decorator_list):
                    self._one(node, within)
            elif isinstance(node, (ast.If, ast.With, ast.Try)):
                self._mark(node.body, within)

    def _one(self, node: Any, within: str) -> None:
        first = node.body[0]
        docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
        at = node.body[min(docstring, len(node.body) - 1)]
        mark = ast.Expr(ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(node.lineno)], []))
        for part in ast.walk(mark):
            ast.copy_location(part, at)
        node.body.insert(int(docstring), mark)
        self.marked[node.lineno] = {"file": self.file, "name": within + node.name, "line": node.lineno, "end": node.end_lineno}

    def missed(self) -> List[Dict[str, Any]]:
        """The functions that were never entered, in the script's order."""
        return [row for line, row in sorted(self.marked.items()) if line not in self.entered][:MOST]


def _name(decorator: ast.expr) -> str:
    """The last word of a decorator: "no_grad" of @torch.no_grad()."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
