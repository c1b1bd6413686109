"""What branches do: both are followed and their names joined, unless the test is known."""

import ast
from typing import Any

from ongpu.facts.program import Guard
from ongpu.facts.values import CPU, Const, Unknown, Value
from ongpu.sources.python.conditions import remainder
from ongpu.sources.python.functions import Functions
from ongpu.sources.python.scope import join_where


class Branches(Functions):
    """Follows if, try and match."""

    def _if(self, node: ast.If) -> bool:
        test = self.value(node.test)
        self.tested(node.test, test)
        kind = self.guard_kind(node.test, test)
        known = self._settled(node.test, test)
        if known is not None:
            return self.body(node.body if known else node.orelse)
        before = dict(self.scope.names)
        at, default = self.at, self.default_device
        self.at = self.guarded(Guard(node.test, kind))
        left = self.body(node.body)
        one, set_here = self.scope.names, self.default_device
        self.default_device = default
        self.at = at
        self.scope.names = before if not node.orelse else dict(before)
        right = False
        if node.orelse:
            self.at = self.guarded(Guard(node.test, kind, True))
            right = self.body(node.orelse)
            self.at = at
        if right or (not left and set_here != self.default_device):
            self.default_device = set_here if right else join_where(set_here or CPU, self.default_device or CPU, kind)
        if left and right:
            return True
        if left:
            if kind == "every" and remainder(node.test):
                self.at = self.guarded(Guard(node.test, kind, True))  # if i % 4: continue
            return False
        if right:
            self.scope.names = one
            return False
        if kind == "main":
            self.scope.names |= one
            return False
        self._merge(one, kind)
        return False

    def _settled(self, node: ast.expr, value: Value) -> bool | None:
        """Whether the test holds, where its value is known: not in a loop of the same function, where it may be another later."""
        if len(self.at.loops) > self.at.frame.loops and not isinstance(node, ast.Constant):
            return None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            right = node.comparators[0]
            if not isinstance(node.ops[0], ast.Is | ast.IsNot):
                return self._compared(node.ops[0], node.left, right)
            return self.none_told(node)
        return bool(value.value) if isinstance(value, Const) and isinstance(node, ast.Name | ast.Constant) else None

    def _compared(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> bool | None:
        """Whether a name that holds a literal equals (or not) another literal, by sign too; None where nobody knows."""
        held = self.scope.get(left.id) if isinstance(left, ast.Name) else None
        if not isinstance(held, Const) or not isinstance(op, ast.Eq | ast.NotEq) or not isinstance(right, ast.Constant | ast.UnaryOp):
            return None
        told = self.value(right)
        return bool(told.value == held.value) == isinstance(op, ast.Eq) if isinstance(told, Const) else None

    def _merge(self, one: dict[str, Value], kind: str) -> None:
        """The names after two branches."""
        names = self.scope.names
        for name, value in one.items():
            other = names.get(name)
            if other is None:
                names[name] = value
            elif other is not value:
                names[name] = self.join(value, other, kind)

    def _try(self, node: Any) -> bool:
        ended = self.body(node.body)
        after = self.scope.names
        for handler in node.handlers:
            self.scope.names = dict(after)
            at = self.at
            self.at = self.guarded(Guard(None, "error"))
            if handler.name:
                self.scope.names[handler.name] = Unknown()
            left = self.body(handler.body)
            self.at = at
            if not left and not ended:
                handled, self.scope.names = self.scope.names, dict(after)
                self._merge(handled, "other")
                after = self.scope.names
            elif not left:
                after, ended = self.scope.names, False
        self.scope.names = after
        if not ended:
            ended = self.body(node.orelse)
        return self.body(node.finalbody) or ended

    def _match(self, node: ast.Match) -> None:
        self.value(node.subject)
        before = self.scope.names
        result: dict[str, Value] | None = None
        for case in node.cases:
            self.scope.names = dict(before)
            at = self.at
            self.at = self.guarded(Guard(None, "other"))
            left = self.body(case.body)
            self.at = at
            if left:
                continue
            if result is not None:
                self._merge(result, "other")
            result = self.scope.names
        self.scope.names = result if result is not None else before
