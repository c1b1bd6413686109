"""The state of a walk: names, frames, loops, conditions; events as they happen; values of two branches joined."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ongpu.facts.program import Context, Event, Frame, Guard, Loop
from ongpu.facts.source_text import File, Node
from ongpu.facts.values import (
    ANY,
    CPU,
    CUDA,
    MANAGED,
    MAYBE,
    NOWHERE,
    OTHER,
    SELF,
    Class,
    Const,
    Device,
    Function,
    Handle,
    Instance,
    Items,
    Loader,
    Module,
    Move,
    Named,
    Number,
    Optimizer,
    Tensor,
    Unknown,
    Value,
    may_be_gpu,
)

_NOWHERE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
MAX_NESTED = 3  # lists in lists that are looked into
DEVICE_WORDS = ("device", "cuda", "gpu", "rank")


class Names:
    """The names of one function (or file), and where others are looked up."""

    __slots__ = ("names", "outer", "stars")

    def __init__(self, outer: "Names | None" = None) -> None:
        self.names: dict[str, Value] = {}
        self.outer = outer
        self.stars: list[str] = []

    def get(self, name: str) -> Value | None:
        """What the name stands for; None where nobody said."""
        scope: Names | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None


class State:
    """What all parts of the walk share."""

    def __init__(self, file: File, limit: int) -> None:
        self.file = file
        self.limit = limit  # statements that are followed at most
        self.limited = ""  # why not all was followed
        self.work = 0
        self.waiting: list[Value] = []  # functions that unknown code was given
        self.collates: list[Function] = []  # functions that make batches in workers
        self.done: set[int] = set()  # functions that were followed
        self.running: list[int] = []
        self.returns: list[list[Value]] = []  # of each running function
        self.yields: list[list[Value]] = []
        self.answers: dict[tuple[object, ...], Value] = {}  # of calls that need not be followed again
        self.guard_kinds: dict[int, str] = {}  # of the tests that were met, by the node's id
        self.instances: dict[int, Value] = {}  # the last object of each class
        self.events: list[Event] = []
        self.modules: list[Module] = []
        self.loaders: list[Loader] = []
        self.optimizers: list[Optimizer] = []
        self.loops: list[Loop] = []
        self.classes: list[Class] = []
        self.functions: list[Function] = []
        self.managed: set[str] = set()
        self.imports: set[str] = set()
        self.at = Context(Frame("<script>", "script", file))
        self.scope = Names()
        self.order = 0
        self.flow = 0
        self.stmt: ast.stmt | None = None
        self.default_device: str | None = None
        self.bound: frozenset[str] = frozenset()  # names of library.CUSTOMARY that the file gives a meaning of its own

    # Events

    def event(
        self,
        kind: str,
        name: str,
        node: Node,
        receiver: Value | None = None,
        args: tuple[Value, ...] = (),
        kw: dict[str, Value] | None = None,
        value: Value | None = None,
        stars: bool = False,
        target: str = "",
    ) -> Event:
        """The next event."""
        self.order += 1
        stmt = self.stmt
        discarded = isinstance(stmt, ast.Expr) and stmt.value is node
        event = Event(kind, name, node, self.at, self.order, self.flow, receiver, args, kw, value, stars, discarded, target, stmt)
        self.events.append(event)
        return event

    def now(self) -> Event:
        """The moment after the last event: to ask where a module lies."""
        here = self.stmt if self.stmt is not None else _NOWHERE
        return Event("now", "", here, self.at, self.order + 1, self.flow)

    @contextmanager
    def within(self, at: Context) -> Iterator[None]:
        """All that happens inside stands in that context."""
        before = self.at
        self.at = at
        try:
            yield
        finally:
            self.at = before

    def guarded(self, guard: Guard) -> Context:
        """The present context under one more condition."""
        at = self.at
        return Context(at.frame, at.loops, (*at.guards, guard), at.grad, at.autocast, at.device)

    def changed(self, **fields: object) -> Context:
        """The present context, with other fields."""
        at = self.at
        new = Context(at.frame, at.loops, at.guards, at.grad, at.autocast, at.device)
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    # Values

    def device(self, value: Value | None, node: ast.expr | None = None) -> Device | None:
        """The device that a value means; None where it means something else (a dtype), or nobody knows."""
        if isinstance(value, Device):
            return value
        if isinstance(value, Const):
            if isinstance(value.value, str):
                return named_device(value.value)
            return Device(CUDA, index=value.value) if type(value.value) is int else None
        if isinstance(value, Named):
            return None
        if isinstance(value, Tensor | Module | Items | Handle):
            return None
        words = value.hint if isinstance(value, Unknown) else ""
        if node is not None:
            words += " " + " ".join(getattr(n, "id", "") or getattr(n, "attr", "") for n in ast.walk(node))
        words = words.lower()
        if any(word in words for word in DEVICE_WORDS):
            return Device(ANY, ranked="rank" in words)
        return None

    def join(self, one: Value, other: Value, kind: str = "other", depth: int = 0) -> Value:
        """What is so, whichever of two branches ran; kind is that of the condition between them."""
        if one is other:
            return one
        if isinstance(one, Const) and isinstance(other, Const) and one.value == other.value:
            return one
        left, right = _empty(one), _empty(other)
        if left or right:
            return other if left else one
        a, b = self._device_like(one), self._device_like(other)
        if a and b:
            return Device(join_where(a.where, b.where, "cuda"), ranked=a.ranked or b.ranked)
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            return Tensor(
                join_where(one.where, other.where, kind),
                one.origin if one.origin == other.origin else "derived",
                one.graph if one.graph == other.graph else None,
                one.scalar and other.scalar,
                (one, other),
                one.made,
                one.placed and other.placed,
                one.scaled or other.scaled,
            )
        if isinstance(one, Module) and isinstance(other, Module):
            joined = Module("either", one.made, one.sure and other.sure, either=(one, other))
            event = self.now()
            if (one.moves or other.moves or one.escapes or other.escapes or one.owner or other.owner or one.wraps or other.wraps):
                where = join_where(one.where(event), other.where(event), kind)
                joined.moves = [Move(event, Device(where))]
            self.modules.append(joined)
            return joined
        if isinstance(one, Optimizer) and isinstance(other, Optimizer):
            return Optimizer(one.cls if one.cls == other.cls else "either", one.made, one.over or other.over)
        if isinstance(one, Loader) and isinstance(other, Loader):
            return Loader(one.made, one.dataset, join_where(one.where, other.where, kind))
        if isinstance(one, Items) and isinstance(other, Items) and depth < MAX_NESTED and _alike(one, other):
            return Items([self.join(x, y, kind, depth + 1) for x, y in zip(one.items, other.items, strict=True)], one.kind, one.uniform)
        if isinstance(one, Number | Const) and isinstance(other, Number | Const):
            return Number()
        hint = " ".join(v.hint for v in (one, other) if isinstance(v, Unknown))
        return Unknown(hint) if hint else Unknown()

    def _device_like(self, value: Value) -> Device | None:
        if isinstance(value, Device):
            return value
        return named_device(value.value) if isinstance(value, Const) and isinstance(value.value, str) else None

    def all_of(self, values: Iterable[Value]) -> Value:
        """One value that stands for each of these."""
        joined: Value | None = None
        for value in values:
            joined = value if joined is None else self.join(joined, value)
        return joined if joined is not None else Unknown()

    def escape(self, values: Iterable[Value | None], event: Event, depth: int = 0) -> None:
        """Unknown code gets these values: where modules lie is unknown from now on."""
        for value in values:
            if isinstance(value, Module):
                value.escapes = [*(value.escapes or ()), event]
                for inner in value.either:
                    inner.escapes = [*(inner.escapes or ()), event]
            elif isinstance(value, Items) and depth < 3:
                self.escape(value.items, event, depth + 1)
            elif isinstance(value, Instance) and depth < 3:
                self.escape(value.attrs.values(), event, depth + 1)

    def move(self, module: Module, move: Move) -> None:
        """The module is moved, and whatever it may be."""
        module.moves = [*(module.moves or ()), move]
        if module.cls == "part" and module.owner:  # which of its parts, nobody knows
            module.owner.escapes = [*(module.owner.escapes or ()), move.event]
        for inner in (*module.either, *((module.wraps,) if module.wraps else ())):
            self.move(inner, move)

    def own(self, module: Module, part: Module) -> None:
        """The part belongs to the module from now on, and moves with it."""
        if part.owner is None and not part.me and part is not module.root:
            part.owner, part.attached = module, self.order

    def today(self, kept: Tensor) -> Tensor:
        """A parameter that was kept under a name or in a list lies where its module lies today: module.to() moves it in place."""
        module = kept.parents[0] if kept.origin == "parameter" and kept.where == CPU and len(kept.parents) == 1 else None
        where = module.where(self.now()) if isinstance(module, Module) else CPU
        return kept if where == CPU else Tensor(where, "parameter", kept.graph, kept.scalar, kept.parents, kept.made, True)

    def none_told(self, node: ast.Compare) -> bool | None:
        """What "name is None" (is not None) gives where the name's value is known, outside loops of the same function; None elsewhere."""
        if len(self.at.loops) > self.at.frame.loops or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return None
        right = node.comparators[0]
        if not (isinstance(node.left, ast.Name) and isinstance(right, ast.Constant) and right.value is None):
            return None
        held = self.scope.get(node.left.id)
        if not isinstance(held, Const | Tensor | Module | Items):
            return None
        return (isinstance(held, Const) and held.value is None) == isinstance(node.ops[0], ast.Is)

    def mix(self, name: str, node: ast.expr, operands: tuple[Value, ...]) -> None:
        """Tells where tensors that lie in different places meet. Scalars may: PyTorch lets a dimensionless CPU tensor take part."""
        parts = [t for t in operands if isinstance(t, Tensor) and not t.scalar]
        places = {t.where for t in parts}
        if MAYBE in places and any(g.kind == "cuda" and g.negated for g in self.at.guards):
            places.discard(MAYBE)  # the branch of a machine without CUDA
        if len(places) > 1 and CPU in places and any(may_be_gpu(place) or place in (SELF, MANAGED) for place in places):
            self.event("mix", name, node, args=tuple(parts))

    def tensor_of(self, values: Sequence[Value | None], **fields: object) -> Tensor:
        """A tensor that is computed from these values."""
        parts = flat(values)
        where = combined([t.where for t in parts])
        if not parts:
            where = NOWHERE
        graph: bool | None = False
        if any(t.graph for t in parts):
            graph = True
        elif not parts or any(t.graph is None for t in parts) or any(isinstance(v, Unknown) for v in values):
            graph = None
        if self.at.grad is False:
            graph = False
        elif self.at.grad is None and graph:
            graph = None
        made = Tensor(where, "derived", graph, False, tuple(parts), scaled=any(t.scaled for t in parts))
        for name, value in fields.items():
            setattr(made, name, value)
        return made


def flat(values: Iterable[Value | None], depth: int = 0) -> list[Tensor]:
    """The tensors among these values and in their lists."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, Items) and depth < 3:
            found += flat(value.items[:20], depth + 1)
    return found


def named_device(name: str) -> Device | None:
    """The device of that name; None where it names none."""
    head, _, index = name.partition(":")
    if head == "cuda":
        return Device(CUDA, int(index) if index.isdecimal() and len(index) < 4 else None)
    if head == "cpu":
        return Device(CPU)
    if head == "auto":
        return Device(ANY)
    return Device(OTHER) if head in ("mps", "xla", "xpu", "hpu", "npu", "meta", "mlu", "privateuseone") else None


def join_where(one: str, other: str, kind: str = "other") -> str:
    """Where something lies that lies here or there; between CPU and CUDA under a question for CUDA: cuda where there is one."""
    if one == other:
        return one
    pair = {one, other}
    if pair <= {CUDA, MAYBE, ANY}:
        return MAYBE if ANY not in pair else ANY
    if kind == "cuda" and pair <= {CPU, CUDA, MAYBE, OTHER, ANY}:
        return MAYBE if pair & {CUDA, MAYBE, ANY} else NOWHERE
    return NOWHERE


def combined(places: Sequence[str]) -> str:
    """Where the result of an operation on tensors there lies."""
    known = {place for place in places if place != NOWHERE}
    if not known or len(known) < len(set(places)):
        return next(iter(known)) if len(known) == 1 and known != {CPU} else NOWHERE
    if len(known) == 1:
        return next(iter(known))
    for best in (CUDA, MAYBE, ANY):
        if best in known and known <= {best, CPU}:
            return best  # a scalar on the CPU may take part; what may not, a "mix" event tells
    return NOWHERE


def _alike(one: Items, other: Items) -> bool:
    """Whether two lists can be joined item by item."""
    plain = one.keys is None and other.keys is None and one.kind == other.kind
    return plain and len(one.items) == len(other.items) and one.uniform == other.uniform


def _empty(value: Value) -> bool:
    """Whether it only stands for "not yet": None."""
    return isinstance(value, Const) and value.value is None
