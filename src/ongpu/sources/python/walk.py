"""Follows a program from its first statement, through its functions, classes and the files that it imports."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Context, Script
from ongpu.facts.source_text import File
from ongpu.facts.values import (
    Named,
    Unknown,
    Value,
)
from ongpu.sources.python import library
from ongpu.sources.python.project import Project
from ongpu.sources.python.scope import Names
from ongpu.sources.python.statements import Statements

WORK = 4_000  # statements that are followed in any case
WORK_RATE = 3  # and as many times the statements of the file

_FRAMES = {
    "forward": "forward", "__getitem__": "getitem", "__init__": "init", "training_step": "step", "validation_step": "evaluation",
    "test_step": "evaluation", "predict_step": "evaluation", "__iter__": "worker", "__getitems__": "worker",
}  # fmt: skip
_DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.If, ast.Try)


class Walk(Statements):
    """One run over one script."""

    def __init__(self, file: File, tree: ast.Module, project: Project | None) -> None:
        super().__init__(file, WORK + WORK_RATE * _size(tree))
        self.tree = tree
        self.project = project
        self.bound = frozenset(name for node in ast.walk(tree) for name in _binds(node) if name in library.CUSTOMARY)
        self.imported: dict[str, Names] = {}  # files of the project that were followed
        self.kinds = {
            ast.Expr: self._expr, ast.Assign: self._assign, ast.AnnAssign: self._annotated, ast.AugAssign: self._augmented, ast.If: self._if,
            ast.For: self._for, ast.AsyncFor: self._for, ast.While: self._while, ast.With: self._with, ast.AsyncWith: self._with, ast.Try: self._try,
            ast.FunctionDef: self._function, ast.AsyncFunctionDef: self._function, ast.ClassDef: self._class, ast.Return: self._return,
            ast.Import: self._import, ast.ImportFrom: self._import_from, ast.Raise: self._raise, ast.Break: self._leave, ast.Continue: self._leave,
            ast.Delete: self._delete, ast.Assert: self._assert, ast.Match: self._match,
        }  # fmt: skip
        if hasattr(ast, "TryStar"):
            self.kinds[ast.TryStar] = self._try

    def script(self) -> Script:
        """All that was seen."""
        self.body(self.tree.body)
        self._the_rest()
        words = self.file.text
        return Script(
            file=self.file, tree=self.tree, events=tuple(self.events), classes=tuple(self.classes), functions=tuple(self.functions),
            modules=tuple(self.modules), loaders=tuple(self.loaders), optimizers=tuple(self.optimizers), loops=tuple(self.loops),
            imports=frozenset(self.imports), managed=frozenset(self.managed), names_cuda="cuda" in words, limited=self.limited,
        )  # fmt: skip

    def define(self, names: Names, at: Context, tree: ast.Module) -> None:
        """Follows another file's definitions and assignments; what else it does at import is its own script's business."""
        scope, before, stmt = self.scope, self.at, self.stmt
        classes, functions, events = len(self.classes), len(self.functions), len(self.events)
        self.scope, self.at = names, at
        try:
            for statement in tree.body:
                if isinstance(statement, _DEFINES):
                    self.one(statement)
        finally:
            self.scope, self.at, self.stmt = scope, before, stmt
            del self.classes[classes:], self.functions[functions:], self.events[events:]

    def _the_rest(self) -> None:
        """Functions that nobody called, each on its own, with parameters that nobody knows."""
        for function in self.collates:
            self._alone(function, "collate")
        for cls in list(self.classes):
            me = self.instances.get(id(cls)) or self._example(cls)
            for method in cls.methods():
                self._alone(method, _FRAMES.get(method.name, "function"), me)
        for function in list(self.functions):
            if function.cls is None:
                self._alone(function, "function")

    # Imports

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = library.canonical(alias.name)
            head = alias.name.partition(".")[0]
            self.imports.add(library.canonical(head).partition(".")[0])
            if alias.asname:
                self.scope.names[alias.asname] = self._module_named(alias.name, 0) or Named(name)
            else:
                self.scope.names.setdefault(head, Named(head) if library.canonical(head) == head else Named(library.canonical(head)))

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.imports.add(library.canonical(module.partition(".")[0]).partition(".")[0])
        found = self.project.names(self.at.frame.file.name, module, node.level, self) if self.project else None
        for alias in node.names:
            name = alias.asname or alias.name
            if found is not None and alias.name in found.names:
                self.scope.names[name] = found.names[alias.name]
            elif node.level:
                self.scope.names[name] = Unknown(alias.name)
            elif alias.name != "*":
                self.scope.names[name] = Named(library.canonical(f"{module}.{alias.name}"))
            elif found is not None:
                self.scope.names |= found.names

    def _module_named(self, name: str, level: int) -> Value | None:
        return None


def _binds(node: ast.AST) -> Iterator[str]:
    """The names that a node gives a meaning."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name


def _size(tree: ast.Module) -> int:
    """About how many statements a tree has: by its last line."""
    return max((s.end_lineno or 0 for s in tree.body), default=0)
