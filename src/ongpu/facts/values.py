"""What an expression of a program may be: a module, a tensor, a loader, a device ... as far as rules about GPUs need it.

More than 400 lines because the kinds of values speak of each other: a tensor of the module that made it, a module of its tensors.
"""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ongpu.lazy import dataclass

if TYPE_CHECKING:
    from ongpu.facts.program import Event, Guard
    from ongpu.facts.source_text import File

# Where a tensor or a module lies.
CPU = "cpu"
CUDA = "cuda"  # on a CUDA device, whatever the machine
MAYBE = "cuda?"  # on CUDA where there is one: chosen by is_available(), or moved behind such a test
ANY = "any"  # on the device that an argument or a configuration names
SELF = "self"  # inside a module's method: where that module and its inputs lie
MANAGED = "managed"  # a framework places it: accelerate, Lightning, DeepSpeed, device_map ...
OTHER = "other"  # mps, xla, meta, an AMD or Intel device by name
NOWHERE = "unknown"


def may_be_gpu(where: str) -> bool:
    """Whether it is, or may be meant to be, on a GPU."""
    return where in (CUDA, MAYBE, ANY)


class Value:
    """Anything at all. A plain Value is what nobody can tell. Made by the thousand: the common kinds have slots."""

    __slots__ = ()


class Unknown(Value):
    """What cannot be told; `hint` is the name that it came from ("args.device"), where it had one. Equal only to itself."""

    __slots__ = ("backwards", "hint")

    def __init__(self, hint: str = "", backwards: "list[Event] | None" = None) -> None:
        self.hint = hint
        self.backwards = backwards  # calls of .backward() on it: it is a tensor with a graph then


class Const(Value):
    """A literal: a number, a string, True, None."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Number(Value):
    """A Python number (or shape) that is not known: len(x), x.size(0), loss.item()."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: "Tensor | None" = None) -> None:
        self.tensor = tensor  # the tensor that it was read from


class Named(Value):
    """Something imported, by its full name: "torch.nn.Linear", "torch.float16", "os.environ"; built-ins too: "print"."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Device(Value):
    """A device as a value. where: one of the constants above. index: the card, where given as a number; ranked: by rank."""

    __slots__ = ("index", "ranked", "where")

    def __init__(self, where: str, index: int | None = None, ranked: bool = False) -> None:
        self.where = where
        self.index = index
        self.ranked = ranked


class Tensor(Value):
    """A tensor, or a structure of tensors that are all alike (a batch).

    origin: "made" by a factory, "batch" of a loader, "output" of a module, "loss", "parameter", "input" of a forward,
    "loaded", "derived". graph: whether it carries an autograd graph (None: nobody knows). scalar: known to have no dimension.
    """

    __slots__ = ("backwards", "graph", "made", "origin", "parents", "placed", "scalar", "scaled", "summed", "where")

    def __init__(
        self,
        where: str = NOWHERE,
        origin: str = "derived",
        graph: bool | None = None,
        scalar: bool = False,
        parents: tuple[Value, ...] = (),
        made: "Event | None" = None,  # the call that made it
        placed: bool = False,  # where it lies was said: device= was given, or it was moved
        scaled: bool = False,  # divided, or multiplied by a number (a loss, for accumulation)
        backwards: "list[Event] | None" = None,
        summed: bool = False,  # the sum of its parents
    ) -> None:
        self.where = where
        self.origin = origin
        self.graph = graph
        self.scalar = scalar
        self.parents = parents
        self.made = made
        self.placed = placed
        self.scaled = scaled
        self.backwards = backwards
        self.summed = summed

    def line(self, most: int = 200, gradients: bool = False, unmoved: bool = False) -> "Iterator[Tensor]":
        """Itself and the tensors that it was computed from.

        gradients: only those that a backward pass from it may reach. unmoved: only those that nothing moved on the way.
        """
        todo: list[Value] = [self]
        seen: set[int] = set()
        while todo and len(seen) < most:
            value = todo.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Tensor):
                if gradients and value.graph is False:
                    continue
                yield value
                todo += () if unmoved and value.placed else value.parents
            elif isinstance(value, Items):
                todo += value.items

    def terms(self, most: int = 20) -> "list[Tensor]":
        """What it is the sum of: itself where it is no sum."""
        found: list[Tensor] = [self]
        while len(found) < most and (whole := next((t for t in found if t.summed), None)) is not None:
            found.remove(whole)
            found += [part for part in whole.parents if isinstance(part, Tensor)]
        return found

    def seed(self) -> "Event | None":
        """The call of a factory (torch.arange ...) that it was computed from, where nothing else was: it lies where that was told to."""
        line = [t for t in self.line() if not t.scalar]
        made = [t for t in line if t.origin == "made"]
        alone = all(t.origin in ("made", "derived") and t.where == self.where for t in line)
        return made[0].made if made and alone else None

    @property
    def sized(self) -> bool:
        """Whether it surely has a dimension, as far as calls that make tensors of numbers go: torch.tensor(x) has none for a number x."""
        made = (t.made for t in self.line() if t.made is not None)
        unsure = (e for e in made if e.name in ("torch.tensor", "torch.as_tensor") and not isinstance(e.arg(0, "data"), Items | Tensor))
        return not any(unsure)

    def modules(self) -> "list[Module]":
        """The modules that a backward pass from it reaches, by their outputs or parameters: the outermost of each."""
        found: dict[int, Module] = {}
        for tensor in self.line(gradients=True):
            caller = tensor.made.receiver if tensor.made is not None and tensor.made.name == "forward" else None
            for module in (caller, *tensor.parents):
                if isinstance(module, Module):
                    found.setdefault(id(module.inner.root), module.inner.root)
        return list(found.values())

    def comes_from(self, other: Value) -> bool:
        """Whether it was computed from that value (or is it)."""
        return any(tensor is other for tensor in self.line())


@dataclass(eq=False)
class Move(Value):
    """A module was moved: when, whereto, and under which conditions."""

    event: "Event"
    device: Device


@dataclass(eq=False)
class Module(Value):
    """A torch.nn.Module (or Keras/Flax model): the object, with its history.

    cls: the full name of a library's class ("torch.nn.Linear"), or the program's own Class.
    sure: False where a foreign class or function only may give a module.
    me: `self` of a method that was read on its own: nobody knows where it lies.
    """

    cls: "str | Class"
    made: "Event | None" = None
    sure: bool = True
    me: bool = False
    moves: "list[Move] | None" = None
    escapes: "list[Event] | None" = None  # calls of unknown code that it was given to
    modes: "list[Event] | None" = None  # calls of .train(), .eval(), .requires_grad_()
    attrs: "dict[str, Value] | None" = None
    owner: "Module | None" = None  # the module that it is a part of, since `attached`
    attached: int = 0
    wraps: "Module | None" = None  # DataParallel, DistributedDataParallel: the module inside
    either: "tuple[Module, ...]" = ()  # one of these: an if decided

    @property
    def name(self) -> str:
        """The name of its class, in full for a library's."""
        return self.cls if isinstance(self.cls, str) else self.cls.name

    @property
    def weighs(self) -> bool:
        """Whether it holds parameters or buffers: losses and activations of torch.nn do not, an own class whose parts do."""
        if self.either:
            return any(module.weighs for module in self.either)
        return self.holds(0)

    def holds(self, depth: int) -> bool:
        """Whether parameters are found in it, down to a depth of 4."""
        if not isinstance(self.cls, str):
            return depth < 4 and any(_weighs(value, depth + 1) for value in (self.attrs or {}).values())
        if not self.cls.startswith("torch.nn."):
            return True
        last = self.cls.rpartition(".")[2]
        return not (last.endswith(("Loss", "Pool1d", "Pool2d", "Pool3d", "Pad1d", "Pad2d", "Pad3d")) or last in _WEIGHTLESS)

    @property
    def inner(self) -> "Module":
        """The module inside DataParallel or DistributedDataParallel; else itself."""
        return self.wraps.inner if self.wraps else self

    def placements(self) -> "Iterator[Move]":
        """Its moves and those of what it is a part of or wraps, unordered."""
        yield from self.moves or ()
        if self.owner:
            yield from (m for m in self.owner.placements() if m.event.order >= self.attached)
        if self.wraps:
            yield from self.wraps.placements()

    def moved(self, before: "Event | None" = None) -> "list[Move]":
        """Its moves in order, up to that event."""
        moves = [m for m in self.placements() if before is None or m.event.order < before.order]
        return sorted(moves, key=lambda m: m.event.order)

    def where(self, event: "Event") -> str:
        """Where it lies when that event happens. "cpu" only where it surely was never moved."""
        root = self.root
        if isinstance(root.cls, Class) and root.cls.kind == "lightning":
            return MANAGED
        start = SELF if root.me else CPU if self.sure and root.sure else NOWHERE
        steps: list[tuple[int, str, Move | None]] = [(m.event.order, m.device.where, m) for m in self.placements()]
        steps += [(e.order, NOWHERE, None) for e in self.leaks()]
        born = self.birth_guards()
        for order, where, move in sorted(steps, key=lambda step: step[0]):
            if order >= event.order:
                break
            if move is None:
                start = NOWHERE
                continue
            guards = [g for g in move.event.at.guards if g not in born and g not in event.at.guards and g.kind != "main"]
            if not guards:
                start = where
            elif all(g.kind == "cuda" for g in guards):
                start = MAYBE if may_be_gpu(where) else start
            elif where != start:
                start = NOWHERE
        return NOWHERE if start == CPU and self.parts_moved(event) else start

    @property
    def root(self) -> "Module":
        """The module that it is a part of, at whatever depth; else itself."""
        root = self
        for _ in range(20):
            if root.owner is None:
                break
            root = root.owner
        return root

    def parts_moved(self, event: "Event", depth: int = 0) -> bool:
        """Whether a part of it was moved alone before that event: it places its parts itself."""
        for part in (*(self.attrs or {}).values(), self.wraps):
            if isinstance(part, Module) and part is not self and depth < 4:
                own = any(m.event.order < event.order for m in part.moves or ())
                if own or any(e.order < event.order for e in part.escapes or ()) or part.parts_moved(event, depth + 1):
                    return True
        return False

    def leaks(self) -> "list[Event]":
        """The calls of unknown code that it, its owner or what it wraps was given to."""
        found = list(self.escapes or ())
        if self.owner:
            found += [e for e in self.owner.leaks() if e.order >= self.attached]
        if self.wraps:
            found += self.wraps.leaks()
        return found

    def birth_guards(self) -> "tuple[Guard, ...]":
        """The conditions under which it was made."""
        return self.made.at.guards if self.made else ()

    def training(self, event: "Event") -> bool | None:
        """Whether it was last set to train() (True) or eval() (False) before that event; None: neither."""
        told = [e for e in self.modes or () if e.order < event.order and e.name in (".train", ".eval")]
        if not told:
            return self.wraps.training(event) if self.wraps else None
        last = told[-1]
        if last.name == ".eval":
            return False
        given = last.arg(0, "mode")
        return True if given is None else bool(given.value) if isinstance(given, Const) else None


@dataclass(eq=False)
class Dataset(Value):
    """A dataset: of a library's class (by full name) or of the program's own; `items` are what it was made of."""

    cls: "str | Class"
    items: tuple[Value, ...] = ()
    made: "Event | None" = None
    attrs: "dict[str, Value] | None" = None


@dataclass(eq=False)
class Loader(Value):
    """A DataLoader. made: the call, with its arguments (`made.arg(1, "batch_size")`). where: where its batches lie."""

    made: "Event"
    dataset: Value
    where: str = CPU

    def setting(self, name: str) -> Value | None:
        """The argument of that name; None where it was not given."""
        return self.made.arg(_LOADER.index(name) if name in _LOADER else None, name)

    @property
    def workers(self) -> int | None:
        """Worker processes: 0 where not given, None where nobody knows."""
        given = self.setting("num_workers")
        if given is None:
            return None if self.made.stars else 0
        return given.value if isinstance(given, Const) and isinstance(given.value, int) else None


_LOADER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last")


@dataclass(eq=False)
class Optimizer(Value):
    """An optimizer. over: the modules and tensors whose parameters it got. loads: calls of load_state_dict on it."""

    cls: str
    made: "Event"
    over: tuple[Value, ...] = ()
    loads: "list[Event] | None" = None
    managed: bool = False

    def updates(self, loss: Value | None) -> bool | None:
        """Whether a backward pass from that loss gives it gradients; None where nobody knows (which modules, or what loss)."""
        mine = {id(value.inner.root) for value in self.over if isinstance(value, Module)}
        theirs = {id(module) for module in loss.modules()} if isinstance(loss, Tensor) else set()
        return bool(mine & theirs) if mine and theirs else None


@dataclass(eq=False)
class Parameters(Value):
    """What module.parameters() (named_parameters, state_dict ...) gives."""

    module: Module


@dataclass(eq=False)
class Handle(Value):
    """An object of a library that rules know by name: Accelerator, Trainer, GradScaler, a context such as torch.no_grad()."""

    name: str
    made: "Event | None" = None


class Items(Value):
    """A list, tuple, set or dict. items: its values; uniform: any number of such items; keys: of a dict, aligned."""

    __slots__ = ("items", "keys", "kind", "made_in", "uniform")

    def __init__(
        self,
        items: list[Value],
        kind: str = "list",
        uniform: bool = False,
        keys: list[Value] | None = None,
        made_in: int = 0,  # how many loops were open where it was made
    ) -> None:
        self.items = items
        self.kind = kind
        self.uniform = uniform
        self.keys = keys
        self.made_in = made_in

    def get(self, key: object) -> Value | None:
        """The item at that index or key."""
        if self.uniform:
            return self.items[0] if self.items else None
        if self.keys is not None:
            for at, item in zip(self.keys, self.items, strict=False):
                if isinstance(at, Const) and at.value == key:
                    return item
            return None
        if isinstance(key, int) and -len(self.items) <= key < len(self.items):
            return self.items[key]
        return None


@dataclass(eq=False)
class Function(Value):
    """A function of the program; `scope` is where its free names are looked up."""

    node: "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
    file: "File"
    scope: Any
    cls: "Class | None" = None

    @property
    def name(self) -> str:
        """Its name; "<lambda>" without."""
        return getattr(self.node, "name", "<lambda>")

    def decorators(self) -> list[ast.expr]:
        """The decorators on it."""
        return getattr(self.node, "decorator_list", [])


@dataclass(eq=False)
class Class(Value):
    """A class of the program. bases: full names, the bases of its own bases included. kind: "module", "lightning",
    "dataset", "keras", "flax" or "plain"."""

    name: str
    node: ast.ClassDef
    file: "File"
    kind: str
    bases: tuple[str, ...]
    own_bases: "tuple[Class, ...]" = ()
    attrs: "dict[str, Value] | None" = None
    complete: bool = True  # all its bases are known

    def find(self, name: str) -> Value | None:
        """The method or class attribute of that name, its own or inherited."""
        if self.attrs and name in self.attrs:
            return self.attrs[name]
        return next((found for base in self.own_bases if (found := base.find(name)) is not None), None)

    def methods(self) -> "list[Function]":
        """Its own methods."""
        return [value for value in (self.attrs or {}).values() if isinstance(value, Function)]


@dataclass(eq=False)
class Instance(Value):
    """An object of one of the program's plain classes."""

    cls: Class
    attrs: dict[str, Value]
    made: "Event | None" = None


class Method(Value):
    """A method, not yet called: on which value, by which name."""

    __slots__ = ("function", "name", "receiver")

    def __init__(self, receiver: Value, name: str, function: Function | None = None) -> None:
        self.receiver = receiver
        self.name = name
        self.function = function


@dataclass(eq=False)
class Super(Value):
    """super() in a method: the object, and the class whose bases are asked."""

    me: Value
    cls: Class


def _weighs(value: Value, depth: int) -> bool:
    if isinstance(value, Module):
        return value.holds(depth)
    if isinstance(value, Items):
        return depth < 4 and any(_weighs(item, depth + 1) for item in value.items[:20])
    return isinstance(value, Tensor) and value.origin == "parameter"


_WEIGHTLESS = frozenset({
    "ReLU", "ReLU6", "GELU", "SiLU", "Mish", "ELU", "SELU", "CELU", "LeakyReLU", "Sigmoid", "Tanh", "Softplus", "Softmax",
    "Softmax2d", "LogSoftmax", "Hardswish", "Hardsigmoid", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
    "Flatten", "Unflatten", "Identity", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "PixelShuffle",
    "PixelUnshuffle", "Fold", "Unfold", "CosineSimilarity", "PairwiseDistance", "Softsign",
})  # fmt: skip
NOTHING = Unknown()  # nobody knows, and nobody will ask
