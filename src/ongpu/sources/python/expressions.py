"""What each kind of expression gives."""

import ast
from collections.abc import Callable
from typing import Any

from ongpu.facts.program import Event, Guard, Loop
from ongpu.facts.values import (
    ANY,
    CUDA,
    Class,
    Const,
    Dataset,
    Device,
    Function,
    Handle,
    Instance,
    Items,
    Loader,
    Method,
    Module,
    Named,
    Number,
    Optimizer,
    Parameters,
    Tensor,
    Unknown,
    Value,
)
from ongpu.sources.python.arithmetic import folded
from ongpu.sources.python.conditions import guard_kind
from ongpu.sources.python.library import BUILTINS, CUSTOMARY, TENSOR_FIELDS, canonical
from ongpu.sources.python.scope import Names, State, flat

MAX_ITEMS = 64  # of a display; longer ones are uniform


class Expressions(State):
    """Evaluates expressions. `call` and `run` are the walk's."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._kinds: dict[type[ast.AST], Callable[[Any], Value]] = {
            ast.Constant: self._constant, ast.Name: self._name, ast.Attribute: self._attribute, ast.Call: self.call, ast.BinOp: self._binary,
            ast.Compare: self._compare, ast.Subscript: self._subscript, ast.Tuple: self._display, ast.List: self._display, ast.Set: self._display,
            ast.Dict: self._dict, ast.IfExp: self._either, ast.BoolOp: self._bool, ast.UnaryOp: self._unary, ast.JoinedStr: self._text,
            ast.Lambda: self._lambda, ast.ListComp: self._comprehension, ast.SetComp: self._comprehension, ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension, ast.Starred: self._starred, ast.NamedExpr: self._named, ast.Await: self._await,
            ast.Yield: self._yield, ast.YieldFrom: self._yield, ast.Slice: self._slice,
        }  # fmt: skip

    def value(self, node: ast.expr) -> Value:
        """What the expression gives."""
        kind = self._kinds.get(type(node))
        return kind(node) if kind else Unknown()

    def call(self, node: ast.Call) -> Value:
        """What a call gives."""
        raise NotImplementedError

    def run(self, function: Function, args: list[Value], kw: dict[str, Value], event: Event | None, me: Value | None = None, stars: bool = False) -> Value:
        """What a function of the program gives to these arguments."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Value, node: ast.AST | None = None) -> None:
        """Gives the value to a name, an attribute, an item, or a tuple of these."""
        raise NotImplementedError

    # Names

    def _constant(self, node: ast.Constant) -> Value:
        return Const(node.value)

    def _name(self, node: ast.Name) -> Value:
        found = self.scope.get(node.id)
        if found is not None:
            return self.today(found) if type(found) is Tensor else found
        if node.id in BUILTINS:
            return Named(node.id)
        if node.id in CUSTOMARY and node.id not in self.bound:  # nobody binds it: its import was left out
            self.imports.add(CUSTOMARY[node.id].partition(".")[0])
            return Named(CUSTOMARY[node.id])
        return Unknown(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node.attr, node)

    def attribute(self, base: Value, name: str, node: ast.expr) -> Value:
        """An attribute of a value."""
        if isinstance(base, Named):
            return Named(canonical(f"{base.name}.{name}"))
        if isinstance(base, Tensor):
            return self._tensor_attribute(base, name)
        if isinstance(base, Module):
            return self._module_attribute(base, name, node)
        if isinstance(base, Dataset) and isinstance(base.cls, str):
            return Method(base, name)
        if isinstance(base, Instance | Dataset):
            attrs = base.attrs or {}
            if name in attrs:
                return attrs[name]
            found = base.cls.find(name) if isinstance(base.cls, Class) else None
            return self._bound(base, name, found, node) if found is not None else Unknown(name)
        if isinstance(base, Class):
            return base.find(name) or Unknown(name)
        if isinstance(base, Device):
            return Number() if name == "index" else Unknown("device." + name)
        if isinstance(base, Unknown):
            return Unknown(f"{base.hint[-120:]}.{name}" if base.hint else name)
        if isinstance(base, Handle) and name == "device":
            return Device(ANY)
        if isinstance(base, Loader) and name == "dataset":
            return base.dataset
        if isinstance(base, Optimizer | Loader | Handle | Items | Parameters):
            return Method(base, name) if not name.endswith("device") else Unknown(name)
        return Unknown(name)

    def _bound(self, base: Value, name: str, found: Value, node: ast.expr) -> Value:
        """A class attribute as seen through an object: functions become methods, properties their value."""
        if not isinstance(found, Function):
            return found
        for mark in found.decorators():
            words = mark.id if isinstance(mark, ast.Name) else mark.attr if isinstance(mark, ast.Attribute) else ""
            if words in ("property", "cached_property"):
                given = self.run(found, [], {}, None, base)
                return Device(ANY) if isinstance(given, Unknown) and "device" in name else given
            if words == "staticmethod":
                return found
        return Method(base, name, found)

    def _tensor_attribute(self, base: Tensor, name: str) -> Value:
        if name == "device":
            return Device(base.where)
        if name in TENSOR_FIELDS:
            return Number()
        if name == "data":
            return Tensor(base.where, base.origin, False, base.scalar, (base,), base.made, base.placed, base.scaled)
        if name == "grad":
            return Tensor(base.where, "derived", False)
        if name == "loss":
            return Tensor(base.where, "loss", base.graph, True, (base,))
        return Tensor(base.where, base.origin, base.graph, False, (base,), base.made, base.placed, base.scaled)

    def _module_attribute(self, base: Module, name: str, node: ast.expr) -> Value:
        if base.attrs and name in base.attrs:
            own = base.attrs[name]
            if isinstance(own, Tensor) and own.origin == "parameter":  # it goes where the module goes
                return Tensor(base.where(self.now()), "parameter", own.graph, own.scalar, (base,), own.made, True)
            return own
        if isinstance(base.cls, Class):
            found = base.cls.find(name)
            if found is not None:
                return self._bound(base, name, found, node)
        if name == "module" and base.wraps:
            return base.wraps
        if name == "device":
            return Device(base.where(self.now()))
        if name in ("weight", "bias"):
            return Tensor(base.where(self.now()), "parameter", True, parents=(base,))
        if name in ("training", "config", "hparams", "dtype"):
            return Unknown(name)
        if not isinstance(base.cls, str) or base.me:
            return Unknown(f"self.{name}")
        if not base.weighs or name.startswith("get_"):
            return Unknown(name)  # a loss's setting, a method
        part = Module("part", base.made, sure=base.sure, owner=base, attached=0)
        base.attrs = {**(base.attrs or {}), name: part}
        return part

    # Operators

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            self.mix(type(node.op).__name__, node, (left, right))
            made = self.tensor_of((left, right))
            if isinstance(node.op, ast.Div | ast.FloorDiv) or (isinstance(node.op, ast.Mult) and not (isinstance(left, Tensor) and isinstance(right, Tensor))):
                made.scaled = True
            made.summed = isinstance(node.op, ast.Add | ast.Sub) and isinstance(left, Tensor) and isinstance(right, Tensor)
            losses = [v for v in (left, right) if isinstance(v, Tensor) and v.origin == "loss"]
            if losses:
                made.origin = "loss"
            return made
        if isinstance(left, Const) and left.value in ("cuda:", "cuda:{}", "cuda:%d", "cuda:%s"):
            return Device(CUDA, ranked=True)
        if isinstance(left, Number | Const) and isinstance(right, Number | Const):
            return folded(node.op, left, right)
        lists = [v for v in (left, right) if isinstance(v, Items) and not v.uniform and v.keys is None]
        if isinstance(node.op, ast.Add) and isinstance(left, Items) and isinstance(right, Items) and len(lists) == 2:
            return Items([*left.items, *right.items][:MAX_ITEMS], left.kind)
        if isinstance(left, Items) and isinstance(node.op, ast.Mult):
            return Items(left.items, left.kind, True)
        return Unknown()

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(node.left), *(self.value(item) for item in node.comparators)]
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            none = self.none_told(node)
            return Number() if none is None else Const(none)
        if flat(values):
            self.mix("Compare", node, tuple(values))
            return self.tensor_of(values, graph=False, origin="derived")
        return Unknown("cuda-test") if any(isinstance(v, Unknown) and "device." in v.hint for v in values) else Number()

    def _unary(self, node: ast.UnaryOp) -> Value:
        given = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            self.tested(node.operand, given)
            return Unknown(given.hint) if isinstance(given, Unknown) else Number()
        if isinstance(given, Const) and isinstance(node.op, ast.USub) and isinstance(given.value, int | float):
            return Const(-given.value)
        return given

    def _bool(self, node: ast.BoolOp) -> Value:
        values = []
        for item in node.values:
            given = self.value(item)
            self.tested(item, given)
            values.append(given)
        for given in values:
            if isinstance(given, Unknown) and "cuda" in given.hint:
                return Unknown("cuda-test")
        return self.all_of(values) if isinstance(node.op, ast.Or) else values[-1]

    def tested(self, node: ast.expr, value: Value) -> None:
        """The truth of that value is asked."""
        if isinstance(value, Tensor | Named | Function | Method):
            self.event("test", "", node, value=value)

    def _either(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        self.tested(node.test, test)
        kind = self.guard_kind(node.test, test)
        guard = Guard(node.test, kind)
        with self.within(self.guarded(guard)):
            one = self.value(node.body)
        with self.within(self.guarded(Guard(node.test, kind, True))):
            other = self.value(node.orelse)
        return self.join(one, other, kind)

    def guard_kind(self, node: ast.expr, value: Value) -> str:
        """Which kind of condition that is; see Guard."""
        if isinstance(value, Unknown) and value.hint.startswith("cuda-"):
            return "cuda"
        kind = self.guard_kinds.get(id(node))
        if kind is None:
            kind = self.guard_kinds[id(node)] = guard_kind(node)
        return kind

    def _text(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                given = self.value(part.value)
                if isinstance(given, Tensor):
                    self.event("call", "format", part.value, args=(given,), value=Number())
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and str(first.value).startswith("cuda"):
            return Device(CUDA, ranked=True)
        return Number()

    # Containers

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        kind = {ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"}[type(node)]
        items: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.value(item.value)
                if isinstance(inner, Items) and not inner.uniform and inner.keys is None:
                    items += inner.items
                else:
                    items.append(self.each(inner))
                    return Items([self.all_of([*items, *(self.value(e) for e in node.elts[node.elts.index(item) + 1 :])])], kind, True, made_in=len(self.at.loops))
            else:
                items.append(self.value(item))
        if len(items) > MAX_ITEMS:
            return Items([self.all_of(items[:MAX_ITEMS])], kind, True, made_in=len(self.at.loops))
        return Items(items, kind, made_in=len(self.at.loops))

    def _dict(self, node: ast.Dict) -> Value:
        keys: list[Value] = []
        items: list[Value] = []
        whole = True
        for key, item in zip(node.keys[:200], node.values[:200], strict=True):
            given = self.value(item)
            if key is None:
                whole = False
                continue
            keys.append(self.value(key))
            items.append(given)
        return Items(items, "dict", False, keys) if whole else Unknown()

    def _starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _slice(self, node: ast.Slice) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.value(part)
        return Number()

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        key = self.value(node.slice)
        if isinstance(base, Tensor):
            made = Tensor(base.where, base.origin if base.origin in ("batch", "input", "output", "loaded") else "derived", base.graph, base.scalar, (base,), base.made, base.placed)
            made.graph = base.graph
            return made
        if isinstance(base, Items):
            if isinstance(node.slice, ast.Slice):
                return Items(base.items, base.kind, True) if base.uniform else Unknown()
            if isinstance(key, Const):
                found = base.get(key.value)
                return found if found is not None else Unknown()
            return self.all_of(base.items) if base.items else Unknown()
        if isinstance(base, Dataset) and isinstance(base.cls, str) and isinstance(key, Const) and isinstance(key.value, str):
            return base
        if isinstance(base, Named):
            return Unknown(f"{base.name}[{key.value}]" if isinstance(key, Const) else base.name)
        if isinstance(base, Module):
            found = (base.attrs or {}).get(f"[{key.value}]") if isinstance(key, Const) else None
            return found if found is not None else Module("part", base.made, base.sure, owner=base)
        if isinstance(base, Unknown):
            return Unknown(f"{base.hint[-120:]}[{key.value}]" if isinstance(key, Const) and isinstance(key.value, str) else base.hint)
        return Unknown()

    def each(self, value: Value) -> Value:
        """What iterating over that value gives."""
        if isinstance(value, Items):
            if value.kind == "dict" and not value.uniform:
                return self.all_of(value.keys or ())
            return self.all_of(self.today(item) if type(item) is Tensor else item for item in value.items)
        if isinstance(value, Loader):
            return Tensor(value.where, "batch", False, made=value.made)
        if isinstance(value, Tensor):
            return Tensor(value.where, value.origin, value.graph, False, (value,), value.made, value.placed)
        if isinstance(value, Dataset):
            return Unknown("sample")
        if isinstance(value, Parameters):
            return Tensor(value.module.where(self.now()), "parameter", True, parents=(value.module,))
        if isinstance(value, Module):
            return Module("part", value.made, value.sure, owner=value)
        if isinstance(value, Instance):
            found = value.cls.find("__iter__")
            return self.each(self.run(found, [], {}, None, value)) if isinstance(found, Function) else Unknown()
        if isinstance(value, Number | Const):
            return Number()
        return Unknown()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        before = self.scope
        self.scope = Names(before)
        at = self.at
        try:
            for part in node.generators:
                over = self.value(part.iter)
                loop = Loop(part, "comprehension", over, self.at.guards, len(self.at.loops), begin=self.order)
                self.loops.append(loop)
                self.at = self.changed(loops=(*self.at.loops, loop))
                self.bind(part.target, self.each(over))
                for test in part.ifs:
                    self.value(test)
            if isinstance(node, ast.DictComp):
                self.value(node.key)
                return Items([self.value(node.value)], "dict", True, made_in=len(at.loops))
            item = self.value(node.elt)
            kind = {ast.ListComp: "list", ast.SetComp: "set"}.get(type(node), "generator")
            return Items([item], kind, True, made_in=len(at.loops))
        finally:
            self.scope = before
            self.at = at

    # The rest

    def _lambda(self, node: ast.Lambda) -> Value:
        return Function(node, self.at.frame.file, self.scope)

    def _named(self, node: ast.NamedExpr) -> Value:
        given = self.value(node.value)
        self.bind(node.target, given)
        return given

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        given = self.value(node.value) if node.value else Const(None)
        self.yielded(self.each(given) if isinstance(node, ast.YieldFrom) else given)
        return Unknown()

    def yielded(self, value: Value) -> None:
        """A generator gives that value."""
        raise NotImplementedError
