"""What a Python program does, in the order in which it does it, as its source tells: calls with what they are given, loops, conditions."""

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from ongpu.facts.source_text import File, Node
from ongpu.facts.values import Class, Const, Function, Loader, Module, Optimizer, Tensor, Value
from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref

RARE = ("every", "rank", "first", "error", "other")  # conditions that do not hold at each step

class Guard:
    """A condition under which something happens: the test of an if around it; negated in the else branch.

    kind: "cuda" (asks whether there is CUDA, or for the device's type), "every" (each N steps), "rank" (one process of
    several), "first" (first or last step), "training" (phase, self.training), "none" (x is None), "main", "error" (except), "other".
    """

    __slots__ = ("kind", "negated", "test")

    def __init__(self, test: ast.expr | None, kind: str, negated: bool = False) -> None:
        self.test = test
        self.kind = kind
        self.negated = negated


@dataclass(eq=False)
class Loop:
    """A loop. over: what it iterates. guards: the conditions around it. begin, end: orders of the events in it."""

    node: ast.AST
    kind: str  # "for", "while", "comprehension"
    over: Value
    guards: tuple[Guard, ...]
    depth: int  # loops around it
    targets: tuple[str, ...] = ()
    begin: int = 0
    end: int = 0
    backwards: "list[Event] | None" = None  # backward calls in it (and in what it calls), inner loops included
    steps: "list[Event] | None" = None  # optimizer steps, likewise
    forwards: "list[Event] | None" = None  # module calls, likewise

    @property
    def trains(self) -> bool:
        """Whether each turn of it does a backward pass or a step itself (an epoch loop does so only in its inner loop)."""
        return any(event.loop is self for event in (*(self.backwards or ()), *(self.steps or ())))

    @property
    def evaluates(self) -> bool:
        """Whether each turn of it calls a module itself, and nothing in it trains."""
        return not self.backwards and not self.steps and any(event.loop is self for event in self.forwards or ())


class Frame:
    """A function at work. kind: "script" (the top level), "forward", "getitem", "collate", "worker" (other methods of a
    dataset), "init", "step" (training_step), "evaluation" (validation_step, test_step), "class", "function".

    me: the object whose method it is. outer: who called it, None where it was read on its own. alone: read on its own,
    with parameters that nobody knows. loops: how many loops were open when it was called.
    """

    __slots__ = ("alone", "file", "function", "kind", "loops", "me", "name", "outer")

    def __init__(
        self,
        name: str,
        kind: str,
        file: File,
        me: Value | None = None,
        outer: "Frame | None" = None,
        function: Function | None = None,
        alone: bool = False,
        loops: int = 0,
    ) -> None:
        self.name = name
        self.kind = kind
        self.file = file
        self.loops = loops
        self.me = me
        self.outer = outer
        self.function = function
        self.alone = alone

    def chain(self) -> "Iterator[Frame]":
        """Itself, who called it, and so on."""
        frame: Frame | None = self
        while frame:
            yield frame
            frame = frame.outer

    def inside(self, *kinds: str) -> "Frame | None":
        """The innermost frame of one of these kinds, itself included, up to the one that was read first."""
        return next((frame for frame in self.chain() if frame.kind in kinds), None)


class Context:
    """Where an event stands. loops and guards: from the outermost in, through the calls that led here.

    grad: False under no_grad, inference_mode or their decorators; None where nobody knows. autocast likewise.
    """

    __slots__ = ("autocast", "device", "frame", "grad", "guards", "loops")

    def __init__(
        self,
        frame: Frame,
        loops: tuple[Loop, ...] = (),
        guards: tuple[Guard, ...] = (),
        grad: bool | None = True,
        autocast: bool | None = False,
        device: str | None = None,  # the default device of new tensors, where it was set
    ) -> None:
        self.frame = frame
        self.loops = loops
        self.guards = guards
        self.grad = grad
        self.autocast = autocast
        self.device = device


class Event:
    """Something that happens.

    kind "call": name is the full name of what is called ("torch.zeros", "print"), ".to" for a method of a value (the
        receiver), "forward" for a module that is called (the receiver is the Module), a plain name for the program's own
        functions and classes.
        kw holds a batch that is spread over the arguments as "**".
    kind "accumulate": name is "+=" (also x = x + y), "append" or "extend"; receiver is what was there, value what is added,
        target the words of the target.
    kind "setattr": name is the attribute; receiver the object; value what it gets.
    kind "setitem": name is the container's full name where it has one ("os.environ"); args[0] the key; value what it gets.
    kind "mix": an operation on tensors that lie in different places; args are the operands, name the operator or function.
    kind "return": what a training_step, validation_step or test_step (name) gives back: value.
    kind "test": the truth of a value is asked (if, while, and, not, conditional expression): value; node the tested expression.
    """

    __slots__ = ("args", "at", "discarded", "flow", "kind", "kw", "name", "node", "order", "receiver", "stars", "stmt", "target", "value")

    def __init__(
        self,
        kind: str,
        name: str,
        node: Node,
        at: Context,
        order: int,
        flow: int,
        receiver: Value | None = None,
        args: tuple[Value, ...] = (),
        kw: dict[str, Value] | None = None,
        value: Value | None = None,
        stars: bool = False,  # *args or **kwargs are among the arguments: what is not given may yet be
        discarded: bool = False,  # the call is a statement of its own: nothing uses its result
        target: str = "",
        stmt: ast.stmt | None = None,  # the statement that it stands in
    ) -> None:
        self.kind = kind
        self.name = name
        self.node = node
        self.at = at
        self.order = order
        self.flow = flow
        self.receiver = receiver
        self.args = args
        self.kw = kw
        self.value = value
        self.stars = stars
        self.discarded = discarded
        self.target = target
        self.stmt = stmt

    @property
    def file(self) -> File:
        """The source in which it stands (another than the script's own where a function of another file was followed)."""
        return self.at.frame.file

    @property
    def loop(self) -> Loop | None:
        """The innermost loop around it, comprehensions aside."""
        return next((loop for loop in reversed(self.at.loops) if loop.kind != "comprehension"), None)

    @property
    def training_loop(self) -> Loop | None:
        """The innermost loop around it that trains at each turn."""
        return next((loop for loop in reversed(self.at.loops) if loop.trains), None)

    def guards_in(self, loop: Loop | None) -> tuple[Guard, ...]:
        """The conditions that stand inside that loop, around the event; all where the loop is None."""
        return tuple(g for g in self.at.guards if loop is None or g not in loop.guards)

    @property
    def hot(self) -> bool:
        """Whether it happens at each step of a training loop: no condition of the rare kinds stands between."""
        loop = self.training_loop
        return loop is not None and not any(g.kind in RARE for g in self.guards_in(loop))

    @property
    def certain(self) -> bool:
        """Whether it happens whenever the code around it runs: no condition but __main__ and CUDA's presence."""
        return all(g.kind in ("main", "cuda") for g in self.at.guards)

    @property
    def line(self) -> int:
        """The line in its file, from 1."""
        return self.node.lineno

    @property
    def call(self) -> ast.Call:
        """The call's node. TypeError where it is no call."""
        if not isinstance(self.node, ast.Call):
            raise TypeError(f"a {self.kind} is no call")
        return self.node

    def arg(self, place: int | None, name: str = "") -> Value | None:
        """The argument at that place or of that name; None where it is not given (see `stars`)."""
        if self.kw and name in self.kw:
            return self.kw[name]
        return self.args[place] if place is not None and place < len(self.args) else None

    def given(self, place: int | None, name: str = "") -> ast.expr | None:
        """The source of that argument; None where it is not given."""
        for keyword in self.call.keywords:
            if keyword.arg == name or (keyword.arg is None and name == "**"):
                return keyword.value
        plain = self.call.args
        if place is None or place >= len(plain) or any(isinstance(node, ast.Starred) for node in plain[: place + 1]):
            return None
        return plain[place]

    def says(self, name: str, default: object = None) -> object:
        """The literal value of that keyword; `default` where it is not given, ... (Ellipsis) where nobody knows."""
        given = (self.kw or {}).get(name)
        if given is None:
            return ... if self.stars else default
        return given.value if isinstance(given, Const) else ...

    def ref(self, about: str = "") -> Ref:
        """Its line, to cite."""
        return self.file.ref(self.node, about)

    def words(self, most: int = 80) -> str:
        """Its source on one line."""
        return self.file.quote(self.node, most)

    @property
    def variable(self) -> str:
        """The environment variable that it sets, by an item of os.environ, setdefault or putenv; "" for any other event."""
        sets = (self.kind == "setitem" and self.name == "os.environ") or self.name in ("os.putenv", "os.environ.setdefault")
        name = self.args[0] if sets and self.args else None
        return name.value if isinstance(name, Const) and isinstance(name.value, str) else ""

    @property
    def variable_value(self) -> Value | None:
        """What that variable is set to."""
        return self.value if self.kind == "setitem" else self.arg(1)

    def before(self, other: "Event") -> bool:
        """Whether it happens earlier in the same run (functions that nobody calls are runs of their own)."""
        return self.flow == other.flow and self.order < other.order


@dataclass(frozen=True, eq=False)
class Script:
    """One source text, followed from its first statement.

    imports: top-level names of the imported packages, canonical ("torch", "lightning", "tensorflow").
    managed: the frameworks in use that place models and data themselves ("accelerate", "lightning", "transformers.Trainer" ...).
    names_cuda: whether the source asks for CUDA anywhere. limited: why not all of it was followed, or "".
    """

    file: File
    tree: ast.Module
    events: tuple[Event, ...] = ()
    classes: tuple[Class, ...] = ()
    functions: tuple[Function, ...] = ()
    modules: tuple[Module, ...] = ()
    loaders: tuple[Loader, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    loops: tuple[Loop, ...] = ()
    imports: frozenset[str] = frozenset()
    managed: frozenset[str] = frozenset()
    names_cuda: bool = False
    limited: str = ""

    @cached_property
    def _by_name(self) -> dict[str, list[Event]]:
        index: dict[str, list[Event]] = {}
        for event in self.events:
            if event.kind == "call":
                index.setdefault(event.name, []).append(event)
        return index

    def calls(self, *names: str) -> Iterator[Event]:
        """The calls of these full names or methods (".item"), in order; "torch.cuda.*" takes all below. None given: all calls."""
        if not names:
            yield from (event for event in self.events if event.kind == "call")
            return
        found: list[Event] = []
        for name in names:
            if name.endswith("*"):
                found += [e for key, events in self._by_name.items() if key.startswith(name[:-1]) for e in events]
            else:
                found += self._by_name.get(name, [])
        yield from sorted(found, key=lambda event: event.order)

    def of(self, kind: str) -> Iterator[Event]:
        """The events of that kind, in order."""
        return (event for event in self.events if event.kind == kind)

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass anywhere."""
        return any(True for _ in self.calls(".backward", "torch.autograd.backward"))

    def says(self, *words: str) -> bool:
        """Whether one of these stands anywhere in the text, comments included: a cheap check before costly ones."""
        return any(word in self.file.text for word in words)


def distinct(events: Iterable[Event]) -> Iterator[Event]:
    """One event per place in the source: a function that is called twice happens twice."""
    seen: set[tuple[object, ...]] = set()
    for event in events:
        node = event.node  # a.b().c() begins where a.b() does
        place = (event.file.name, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        if place not in seen:
            seen.add(place)
            yield event


def tensors(values: Iterable[Value | None]) -> Iterator[Tensor]:
    """The tensors among these values."""
    return (value for value in values if isinstance(value, Tensor))


@dataclass(frozen=True, kw_only=True)
class Program(Fact):
    """The programs given: each script with what it does. Rules go through `scripts`, each on its own."""

    scripts: tuple[Script, ...] = ()
