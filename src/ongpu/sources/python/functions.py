"""Functions and classes of the program: followed when they are called, with what they are given."""

import ast

from ongpu.facts.program import Context, Event, Frame
from ongpu.facts.values import (
    CPU,
    MANAGED,
    NOWHERE,
    SELF,
    Class,
    Const,
    Dataset,
    Device,
    Function,
    Instance,
    Items,
    Module,
    Move,
    Named,
    Number,
    Tensor,
    Unknown,
    Value,
)
from ongpu.sources.python import library
from ongpu.sources.python.calls import Calls
from ongpu.sources.python.scope import Names, flat

MAX_DEPTH = 8  # calls inside calls that are followed

_FRAMES = {
    "forward": "forward", "__getitem__": "getitem", "__init__": "init", "training_step": "step", "validation_step": "evaluation",
    "test_step": "evaluation", "predict_step": "evaluation", "__iter__": "worker",
}  # fmt: skip



class Functions(Calls):
    """Follows functions, makes objects."""

    def body(self, statements: list[ast.stmt]) -> bool:
        """Follows statements; True where the last one leaves the block."""
        raise NotImplementedError

    def one(self, statement: ast.stmt) -> bool:
        """Follows one statement; True where it leaves the block."""
        raise NotImplementedError


    def _alone(self, function: Function, kind: str, me: Value | None = None) -> None:
        if id(function.node) in self.done or self.work > self.limit:
            return
        self.flow += 1
        frame = Frame(function.name, kind, function.file, me, None, function, True)
        self.at = Context(frame)
        self._enter(function, frame, None, [], {}, True)

    def _example(self, cls: Class) -> Value:
        """`self` of a class that nobody instantiates: made by its own __init__ with unknown arguments."""
        me: Value
        if cls.kind in ("module", "lightning"):
            me = Module(cls, me=True)
            if cls.kind == "lightning":
                self.managed.add("lightning")
        elif cls.kind == "dataset":
            me = Dataset(cls, attrs={})
        else:
            me = Instance(cls, {})
        self.instances[id(cls)] = me
        start = cls.find("__init__")
        if isinstance(start, Function):
            self._alone(start, "init", me)
        return me

    def run(self, function: Function, args: list[Value], kw: dict[str, Value], event: Event | None, me: Value | None = None, stars: bool = False) -> Value:
        """What the function gives; its events happen now."""
        key = id(function.node)
        same = self._same_call(function, args, kw, me)
        if same is not None and same in self.answers:
            return self.answers[same]
        if key in self.running or len(self.running) >= MAX_DEPTH or self.work > self.limit:
            if event:
                self.escape((*args, *kw.values(), me), event)
            return Unknown()
        kind = _FRAMES.get(function.name, "") if me is not None or function.cls else ""
        if not kind:
            kind = "worker" if isinstance(me, Dataset) else "function"
        if kind == "forward" and not isinstance(me, Module):
            kind = "function"
        frame = Frame(function.name, kind, function.file, me, self.at.frame, function, loops=len(self.at.loops))
        before = self.at
        self.at = Context(frame, before.loops, before.guards, before.grad, before.autocast, before.device)
        try:
            answer = self._enter(function, frame, me, args, kw, stars)
        finally:
            self.at = before
        if same is not None:
            self.answers[same] = answer
        return answer

    def _same_call(self, function: Function, args: list[Value], kw: dict[str, Value], me: Value | None) -> tuple[object, ...] | None:
        """What two calls have in common that do the same: function, object, surroundings, plain arguments; None for others."""
        given: list[object] = []
        for value in (*args, *kw.values()):
            kind = type(value)
            if kind is Const:
                given.append(value.value)  # type: ignore[attr-defined]
            elif kind is Unknown or kind is Number or kind is Named:
                given.append(kind)
            else:
                return None
        at = self.at
        inner = id(at.loops[-1]) if at.loops else 0
        return (id(function.node), id(me), inner, self.flow, at.grad, at.autocast, at.device, tuple(kw), *given)

    def _enter(self, function: Function, frame: Frame, me: Value | None, args: list[Value], kw: dict[str, Value], stars: bool) -> Value:
        """Follows the body in the present context."""
        self.done.add(id(function.node))
        self._decorated(function)
        if frame.kind == "evaluation":  # Lightning runs it without gradients
            self.at = self.changed(grad=False)
        names = Names(function.scope)
        if frame.alone and frame.me is not None:
            me = frame.me
        self._parameters_of(function, names, me, args, kw, stars, frame)
        scope, stmt = self.scope, self.stmt
        self.scope = names
        self.running.append(id(function.node))
        self.returns.append([])
        self.yields.append([])
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body)
            self.body(function.node.body)
        finally:
            self.scope, self.stmt = scope, stmt
            self.running.pop()
            returned, yielded = self.returns.pop(), self.yields.pop()
        if yielded:
            return Items([self.all_of(yielded)], "list", True)
        return self.all_of(returned) if returned else Const(None)

    def _decorated(self, function: Function) -> None:
        """Decorators that switch gradients off."""
        for mark in function.decorators():
            node = mark.func if isinstance(mark, ast.Call) else mark
            scope = self.scope
            self.scope = function.scope
            value = self._quiet(node)
            self.scope = scope
            name = value.name if isinstance(value, Named) else ""
            if name in ("torch.no_grad", "torch.inference_mode"):
                self.at = self.changed(grad=False)
            elif name == "torch.enable_grad":
                self.at = self.changed(grad=True)
            elif any(w in _words(value).lower() for w in ("no_grad", "inference", "grad")):
                self.at = self.changed(grad=None)

    def _quiet(self, node: ast.expr) -> Value:
        """A dotted name's value, without events."""
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            base = self._quiet(node.value)
            if isinstance(base, Named):
                return Named(library.canonical(f"{base.name}.{node.attr}"))
            return Unknown(node.attr)
        return Unknown()

    def _parameters_of(
        self, function: Function, names: Names, me: Value | None, args: list[Value], kw: dict[str, Value], stars: bool, frame: Frame
    ) -> None:
        """Gives the parameters their values."""
        given = function.node.args
        places = [*given.posonlyargs, *given.args]
        defaults: dict[str, ast.expr] = dict(zip([p.arg for p in places[len(places) - len(given.defaults) :]], given.defaults, strict=True))
        defaults |= {p.arg: d for p, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None}
        values = list(args)
        static = any(isinstance(m, ast.Name) and m.id == "staticmethod" for m in function.decorators())
        if function.cls is not None and not static and places:
            klass = any(isinstance(m, ast.Name) and m.id == "classmethod" for m in function.decorators())
            values = [function.cls if klass else me if me is not None else Unknown("self"), *values]
        for index, place in enumerate(places):
            name = place.arg
            if index < len(values):
                names.names[name] = values[index]
            elif name in kw:
                names.names[name] = kw[name]
            else:
                names.names[name] = self._default(name, defaults.get(name), function, stars, frame)
        for place in given.kwonlyargs:
            names.names[place.arg] = kw[place.arg] if place.arg in kw else self._default(place.arg, defaults.get(place.arg), function, stars, frame)
        if given.vararg:
            rest = values[len(places) :]
            names.names[given.vararg.arg] = Items(rest, "tuple") if rest and not stars else Unknown(given.vararg.arg)
        if given.kwarg:
            names.names[given.kwarg.arg] = Unknown(given.kwarg.arg)

    def _default(self, name: str, node: ast.expr | None, function: Function, stars: bool, frame: Frame) -> Value:
        """A parameter that nobody gave: its default where the call is known, else what its name promises."""
        if node is not None and not frame.alone and not stars:
            scope, self.scope = self.scope, function.scope
            try:
                return self.value(node)
            finally:
                self.scope = scope
        if frame.kind == "forward" and isinstance(frame.me, Module):
            return Tensor(SELF, "input", None) if node is None else Unknown(name)
        if frame.kind in ("step", "evaluation") and isinstance(frame.me, Module) and "batch" in name and "id" not in name:
            return Tensor(MANAGED, "batch", False)
        if "device" in name.lower():
            return Device("any")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda"):
            return Device("any")
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            return Number()
        return Unknown(name)

    # Classes

    def construct(self, cls: Class, args: list[Value], kw: dict[str, Value], event: Event) -> Value:
        """A new object of the program's own class."""
        me: Value
        if cls.kind in ("module", "lightning"):
            me = module = Module(cls, event, sure=cls.complete)
            if cls.kind == "lightning":
                module.moves = [Move(event, Device(MANAGED))]
                self.managed.add("lightning")
            elif self.default_device or self.at.device:
                module.moves = [Move(event, Device(NOWHERE))]
            self.modules.append(module)
        elif cls.kind == "dataset":
            me = Dataset(cls, tuple(args), event, {})
        else:
            me = Instance(cls, {}, event)
        start = cls.find("__init__")
        if isinstance(start, Function):
            self.run(start, args, kw, event, me, event.stars)
        else:
            if cls.kind == "plain" and (args or kw):
                self.escape((*args, *kw.values()), event)
                self._fields(cls, me, args, kw)
        self.instances[id(cls)] = me
        return me

    def _fields(self, cls: Class, me: Value, args: list[Value], kw: dict[str, Value]) -> None:
        """The fields of a dataclass."""
        if isinstance(me, Instance):
            names = [s.target.id for s in cls.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
            me.attrs |= dict(zip(names, args, strict=False)) | {name: value for name, value in kw.items() if name in names}

    def sample_place(self, dataset: Dataset) -> str:
        """Where the tensors of a sample lie: "cpu" unless __getitem__ gives others."""
        if not isinstance(dataset.cls, Class):
            return CPU
        get = dataset.cls.find("__getitem__")
        if not isinstance(get, Function):
            return NOWHERE
        places = {t.where for t in flat([self.run(get, [Number()], {}, None, dataset)])}
        return CPU if places <= {CPU, NOWHERE} else NOWHERE

    def _class(self, node: ast.ClassDef) -> None:
        bases: list[str] = []
        own: list[Class] = []
        complete = True
        for base in node.bases:
            found = self._quiet(base)
            if isinstance(found, Class):
                own.append(found)
                bases += [found.name, *found.bases]
                complete = complete and found.complete
            elif isinstance(found, Named):
                bases.append(found.name)
                complete = complete and (found.name in library.MODULE_BASES | library.DATASET_BASES | library.LIGHTNING_BASES or found.name == "object")
            else:
                bases.append(found.hint if isinstance(found, Unknown) else "?")
                complete = False
        attrs: dict[str, Value] = {}
        kind = _class_kind(bases, own)
        if kind == "plain" and not complete and any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in node.body):
            kind = "module"  # of a base that nobody sees
        cls = Class(node.name, node, self.at.frame.file, kind, tuple(bases), tuple(own), attrs, complete)
        self.classes.append(cls)
        scope = self.scope
        self.scope = Names(scope)
        self.scope.names[node.name] = cls
        before = self.at
        self.at = self.changed(frame=Frame(node.name, "class", before.frame.file, None, before.frame))
        try:
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                    function = Function(statement, self.at.frame.file, scope, cls)
                    self.functions.append(function)
                    attrs[statement.name] = function
                else:
                    self.one(statement)
            for name, value in self.scope.names.items():
                if name != node.name:
                    attrs.setdefault(name, value)
        finally:
            self.scope = scope
            self.at = before
        self.scope.names[node.name] = cls


def _words(mark: Value) -> str:
    """The name of a decorator."""
    return mark.hint if isinstance(mark, Unknown) else mark.name if isinstance(mark, Function | Named) else ""


def _class_kind(bases: list[str], own: list[Class]) -> str:
    for cls in own:
        if cls.kind != "plain":
            return cls.kind
    for base in bases:
        last = base.rpartition(".")[2]
        if base in library.LIGHTNING_BASES or "LightningModule" in last:
            return "lightning"
        if base in library.MODULE_BASES or base == "Module" or base.startswith(("torch.nn.", "torchvision.models.")) or (last.endswith(("PreTrainedModel", "ModelMixin"))):
            return "module"
        if base in library.DATASET_BASES or last.endswith("Dataset"):
            return "dataset"
        if base.startswith("keras."):
            return "keras"
        if base.startswith(("flax.", "equinox.", "haiku.")):
            return "flax"
    return "plain"


