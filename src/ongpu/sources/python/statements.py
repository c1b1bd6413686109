"""What each kind of statement does.

More than 400 lines because each kind has its method here, and all share the walk's state.
"""

import ast
from collections.abc import Callable
from typing import Any

from ongpu.facts.program import Event, Loop
from ongpu.facts.values import (
    CPU,
    NOWHERE,
    Class,
    Const,
    Dataset,
    Device,
    Function,
    Handle,
    Instance,
    Items,
    Module,
    Named,
    Number,
    Tensor,
    Unknown,
    Value,
)
from ongpu.sources.python.branches import Branches
from ongpu.sources.python.library import FAILS


class Statements(Branches):
    """Follows statements."""

    kinds: dict[type[ast.AST], Callable[[Any], bool | None]]

    def body(self, statements: list[ast.stmt]) -> bool:
        """Follows them; True where the last one leaves the block (return, raise, break)."""
        for statement in statements:
            if self.work > self.limit:
                self.limited = "too long to follow to its end"
                return False
            if self.one(statement):
                return True
        return False

    def one(self, statement: ast.stmt) -> bool:
        """Follows one statement; True where it leaves the block."""
        self.work += 1
        self.stmt = statement
        kind = self.kinds.get(type(statement))
        if kind is None:
            return False
        try:
            return bool(kind(statement))
        except RecursionError:
            self.limited = "nested too deeply to follow all of it"
            return False

    def _expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        self._adds_up(node, value)
        if isinstance(value, Const) and isinstance(node.value, ast.BinOp) and self.at.loops:
            value = Number()  # dim = dim * 2: another at each turn
        for target in node.targets:
            self.bind(target, value, node.value)

    def _adds_up(self, node: ast.Assign, value: Value) -> None:
        """total = total + loss is told as an accumulation."""
        right = node.value
        if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name | ast.Attribute):
                words = ast.unparse(target) if isinstance(target, ast.Attribute) else target.id
                sides = [(right.left, right.right), (right.right, right.left)]
                for same, other in sides:
                    if type(same) is type(target) and (same.id if isinstance(same, ast.Name) else ast.unparse(same)) == words:
                        held = self._read(target)
                        parts = [p for p in value.parents if p is not held] if isinstance(value, Tensor) else []
                        added = parts[0] if len(parts) == 1 else self._again(other)
                        self.event("accumulate", "+=", node, held, value=added, target=words)
                        return

    def _again(self, node: ast.expr) -> Value:
        """What an expression gives that was followed already: nothing happens twice."""
        before, at = len(self.events), self.order
        value = self.value(node)
        del self.events[before:]
        self.order = at
        return value

    def _read(self, target: ast.expr) -> Value | None:
        """What a target holds now."""
        if isinstance(target, ast.Name):
            return self.scope.get(target.id)
        if isinstance(target, ast.Attribute):
            base = self._read(target.value)
            attrs = base.attrs if isinstance(base, Instance | Module | Dataset) else None
            return (attrs or {}).get(target.attr)
        return None

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value), node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        added = self.value(node.value)
        before = self._read(node.target) if not isinstance(node.target, ast.Subscript) else self.value(node.target)
        words = self.at.frame.file.quote(node.target)
        if isinstance(node.op, ast.Add):
            self.event("accumulate", "+=", node, before, value=added, target=words)
        if isinstance(before, Tensor) or isinstance(added, Tensor):
            self.mix(type(node.op).__name__, node.value, (before or Unknown(), added))
            result: Value = self.tensor_of((before, added))
            if isinstance(result, Tensor):
                result.scaled = result.scaled or isinstance(node.op, ast.Div)
                result.origin = added.origin if isinstance(added, Tensor) and added.origin == "loss" else before.origin if isinstance(before, Tensor) else "derived"
        elif isinstance(before, Items) and isinstance(added, Items):
            self._items_grow(before, added)
            return
        else:
            result = Number() if isinstance(before, Number | Const) and isinstance(added, Number | Const) else Unknown()
        self.bind(node.target, result)

    def _items_grow(self, before: Items, added: Items) -> None:
        before.items = [self.all_of([*before.items, *added.items])]
        before.uniform = True

    def bind(self, target: ast.expr, value: Value, node: ast.AST | None = None) -> None:
        """Gives the value to a target."""
        if isinstance(target, ast.Name):
            self.scope.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, Items([self.each(value)], "list", True))

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        if isinstance(value, Items) and not value.uniform and value.keys is None and len(value.items) == len(target.elts):
            for part, item in zip(target.elts, value.items, strict=True):
                self.bind(part, item)
            return
        for part in target.elts:
            self.bind(part, self.each(value))

    def _set_attribute(self, target: ast.Attribute, value: Value) -> None:
        base = self.value(target.value)
        name = target.attr
        if isinstance(base, Module | Instance | Dataset | Named):
            event = self.event("setattr", f"{base.name}.{name}" if isinstance(base, Named) else name, target, base, value=value)
            if isinstance(base, Instance) and not base.cls.complete:
                self.escape((value,), event)  # its base class, which nobody sees, may be a module
        if isinstance(base, Module):
            known = (base.attrs or {}).get(name)
            kind = self._branch_kind(base.made)
            self.set_attribute(base, name, value if known is None or not kind else self.join(known, value, kind), target)
            if isinstance(value, Module):
                self.own(base, value)
            elif isinstance(base.cls, str) and name.startswith(("weight", "bias")) and not (isinstance(value, Tensor) and value.where == CPU):
                self.escape((base,), event)  # a layer whose weights are another's: it lies where those do
            elif isinstance(value, Items):
                for item in value.items:
                    if isinstance(item, Module) and item.owner is None:
                        item.sure = item.sure  # in a plain list: not a part, and not moved with it
        elif isinstance(base, Instance | Dataset):
            attrs = base.attrs if base.attrs is not None else {}
            known = attrs.get(name)
            kind = self._branch_kind(base.made)
            attrs[name] = value if known is None or not kind else self.join(known, value, kind)
            base.attrs = attrs
        elif isinstance(base, Tensor) and name == "data" and isinstance(value, Tensor):
            base.where = value.where
        elif isinstance(base, Class):
            base.attrs = {**(base.attrs or {}), name: value}

    def _branch_kind(self, made: Event | None) -> str:
        """The kind of the condition under which an object is changed that was made outside it; "" for none."""
        born = made.at.guards if made else ()
        inner = [g for g in self.at.guards if g not in born and g.kind != "main"]
        return inner[-1].kind if inner else ""

    def _set_item(self, target: ast.Subscript, value: Value) -> None:
        base = self.value(target.value)
        key = self.value(target.slice)
        name = base.name if isinstance(base, Named) else ""
        self.event("setitem", name, target, base, (key,), value=value)
        if isinstance(base, Items):
            if base.keys is not None and not base.uniform and isinstance(key, Const) and not self.at.loops:
                base.keys.append(key)
                base.items.append(value)
            else:
                base.items = [self.all_of([*base.items[:4], value])]
                base.uniform, base.keys = True, None
        elif isinstance(base, Tensor) and isinstance(value, Tensor):
            if value.graph and not base.graph:
                base.graph = None
            if isinstance(key, Const) and isinstance(key.value, str):
                base.where = base.where if base.where == value.where else NOWHERE  # a batch of which one entry was moved
            elif base.origin == "batch" and self.at.loops and not isinstance(key, Number) and value.comes_from(base):
                base.where = value.where  # for name in batch: batch[name] = batch[name].to(device)
        elif isinstance(base, Module) and isinstance(value, Module):
            self.event("setattr", f"[{key.value}]" if isinstance(key, Const) else "[]", target, base, value=value)
            self.own(base, value)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        over = self.value(node.iter)
        loop = Loop(node, "for", over, self.at.guards, len(self.at.loops), tuple(_names(node.target)), self.order)
        if isinstance(over, Items) and not over.uniform and len(over.items) > 1 and self.events:
            self.escape([item for item in over.items if isinstance(item, Module)], self.events[-1])
        self._loop(loop, node.body, lambda: self.bind(node.target, self.each(over)))
        self.body(node.orelse)

    def _while(self, node: ast.While) -> None:
        test = self.value(node.test)
        self.tested(node.test, test)
        loop = Loop(node, "while", Unknown(), self.at.guards, len(self.at.loops), (), self.order)
        self._loop(loop, node.body, lambda: None)
        self.body(node.orelse)

    def _loop(self, loop: Loop, body: list[ast.stmt], begin: Callable[[], None]) -> None:
        self.loops.append(loop)
        before = self.at
        self.at = self.changed(loops=(*before.loops, loop))
        try:
            begin()
            self.body(body)
        finally:
            self.at = before
            loop.end = self.order

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        before, seen = self.at, len(self.events)
        fails = False
        for item in node.items:
            value = self.value(item.context_expr)
            self._context(value)
            called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
            named = isinstance(called, ast.Attribute) and called.attr in FAILS
            fails = fails or named or (isinstance(value, Unknown) and "fails" in value.hint)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        ended = self.body(node.body)
        self.at = before
        if fails:
            del self.events[seen:]  # a test wants it to fail
        return ended

    def _context(self, value: Value) -> None:
        """What a with statement's context changes."""
        if isinstance(value, Handle):
            name = value.name
            if name in ("torch.no_grad", "torch.inference_mode"):
                given = value.made.arg(0, "mode") if value.made and name == "torch.inference_mode" else None
                self.at = self.changed(grad=False if given is None or (isinstance(given, Const) and given.value) else None)
            elif name == "torch.enable_grad":
                self.at = self.changed(grad=True)
            elif name == "torch.set_grad_enabled":
                given = value.made.arg(0, "mode") if value.made else None
                self.at = self.changed(grad=bool(given.value) if isinstance(given, Const) else None)
            elif name.endswith("autocast"):
                off = value.made is not None and value.made.says("enabled", True) is False
                unsure = value.made is not None and value.made.says("enabled", True) is ...
                self.at = self.changed(autocast=None if unsure else not off)
        elif isinstance(value, Device):
            self.at = self.changed(device=value.where)
        elif isinstance(value, Unknown):  # it may be any of these
            self.at = self.changed(autocast=self.at.autocast or None, grad=self.at.grad and None)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = Function(node, self.at.frame.file, self.scope)
        self.functions.append(function)
        self.scope.names[node.name] = function

    def _return(self, node: ast.Return) -> bool:
        given = self.value(node.value) if node.value is not None else Const(None)
        if self.returns:
            self.returns[-1].append(given)
        if self.at.frame.kind in ("step", "evaluation"):
            self.event("return", self.at.frame.name, node, value=given)
        return True

    def yielded(self, value: Value) -> None:
        """A generator gives that value."""
        if self.yields:
            self.yields[-1].append(value)

    def _raise(self, node: ast.Raise) -> bool:
        if node.exc is not None:
            self.value(node.exc)
        return True

    def _leave(self, node: ast.stmt) -> bool:
        return True

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.names.pop(target.id, None)

    def _assert(self, node: ast.Assert) -> None:
        given = self.value(node.test)
        self.tested(node.test, given)


def _names(target: ast.expr) -> list[str]:
    """The names in a loop's target."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple | ast.List):
        return [name for part in target.elts for name in _names(part)]
    return []


