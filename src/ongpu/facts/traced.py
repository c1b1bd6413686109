"""Training with TensorFlow and JAX as a program's source shows it: which functions are traced, which loops step, what holds a result."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import RARE, Event, Loop, Script
from ongpu.facts.values import Class, Function, Module, Value
from ongpu.lazy import dataclass

JITS = ("jax.jit", "jax.pmap", "flax.nnx.jit", "equinox.filter_jit", "equinox.filter_pmap", "jax.api.jit")
GRADIENTS = (
    "jax.grad", "jax.value_and_grad", "flax.nnx.grad", "flax.nnx.value_and_grad", "optax.apply_updates", "equinox.filter_grad",
    "equinox.filter_value_and_grad",
)  # fmt: skip
TF_FUNCTION = ("tensorflow.function", "tensorflow.compat.v2.function")


@dataclass(eq=False)
class Jit:
    """A traced function. name: by which it is called. framework: "jax" or "tensorflow". call: the decorator or the call that
    made it, with its options. function: its definition, where it is seen."""

    name: str
    framework: str
    call: ast.expr
    function: ast.AST | None


def jits(script: Script) -> list[Jit]:
    """The traced functions: decorated ones, and names that jax.jit(...) or tf.function(...) was assigned to."""
    names = aliases(script.tree)
    found: list[Jit] = []
    for node in ast.walk(script.tree):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                framework = tracer(mark, names)
                if framework:
                    found.append(Jit(node.name, framework, mark, node))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            framework = "" if _dotted(node.value.func, names).endswith("partial") else tracer(node.value.func, names)
            target = node.targets[0]
            if framework and isinstance(target, ast.Name | ast.Attribute):
                given = node.value.args[0] if node.value.args else None
                name = target.id if isinstance(target, ast.Name) else target.attr
                found.append(Jit(name, framework, node.value, given if isinstance(given, ast.Lambda) else None))
    return found


def tracer(node: ast.expr, names: dict[str, str]) -> str:
    """The framework whose tracing decorator that is: jax.jit, jit(...), partial(jax.jit, ...), tf.function(...); "" for none."""
    if isinstance(node, ast.Call):
        name = _dotted(node.func, names)
        if name.rpartition(".")[2] == "partial" and node.args:
            return tracer(node.args[0], names)
        return tracer(node.func, names)
    name = _dotted(node, names)
    if name in JITS:
        return "jax"
    return "tensorflow" if name in TF_FUNCTION else ""


def aliases(tree: ast.Module) -> dict[str, str]:
    """What the names of a program's imports stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The full name of a dotted expression, by the imports; "" where it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


# Steps


def tf_steps(script: Script) -> Iterator[Event]:
    """The calls that train a TensorFlow or Keras model: fit, train_on_batch, a tape's gradient, apply_gradients, minimize."""
    if not script.imports & {"tensorflow", "keras"}:
        return
    for event in script.calls(".fit", ".fit_generator", ".train_on_batch", ".gradient", ".apply_gradients", ".minimize"):
        if event.name in (".gradient", ".apply_gradients", ".minimize") or is_keras(event.receiver):
            yield event


def trainers(steps: list[Event]) -> set[str]:
    """The names of the functions in which these calls stand, or that lead to them."""
    return {frame.name for e in steps for frame in e.at.frame.chain() if frame.kind not in ("script", "class")}


def meant(event: Event) -> bool:
    """Whether a comment beside the line, or above it, says that the CPU is meant."""
    words = " ".join(event.file.line(number).partition("#")[2] for number in (event.line, event.line - 1, event.line - 2)).lower()
    return any(word in words for word in ("cpu", "ignore", "disable", "hide", "no gpu", "without gpu", "禁用", "不用"))


def is_keras(value: Value | None) -> bool:
    """Whether it is a Keras model, as far as seen."""
    if isinstance(value, Module):
        return value.name.startswith(("keras", "tensorflow", "tf_")) or (isinstance(value.cls, Class) and value.cls.kind == "keras")
    kind = getattr(getattr(value, "cls", None), "kind", "")
    return kind == "keras"


def jax_steps(script: Script) -> Iterator[Event]:
    """The calls that train with JAX: a gradient taken, updates applied."""
    if script.imports & {"jax", "optax", "flax"}:
        yield from script.calls(*GRADIENTS)
        yield from (e for e in script.calls(".apply_gradients") if not script.imports & {"tensorflow", "keras"})


def loops(script: Script, steps: list[Event], known: list[Jit]) -> list[Loop]:
    """The loops that step at each turn: the innermost around a step, or around the call of a traced function that trains by its name."""
    around = [e.loop for e in steps if e.loop is not None and e.name not in (".fit", ".fit_generator")]
    names = {j.name for j in known if any(word in j.name.lower() for word in ("step", "update", "train"))}
    around += [e.loop for e in script.calls() if e.loop is not None and isinstance(e.node, ast.Call) and called(e.node) in names]
    return list(dict.fromkeys(around))


def called(call: ast.Call) -> str:
    """The last word of what a call names: "step" of `self.step(x)`."""
    func = call.func
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def results(loop: Loop, steps: list[Event], known: list[Jit]) -> set[str]:
    """The names in that loop that hold what a step gave: of a traced or training function, or from under a tape."""
    names = trainers([e for e in steps if loop in e.at.loops]) | {j.name for j in known}
    found: set[str] = set()
    for node in ast.walk(loop.node):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) in names:
            found |= _targets(node)
        elif isinstance(node, ast.With) and any("GradientTape" in ast.unparse(item.context_expr) for item in node.items):
            found |= {name for inner in ast.walk(node) if isinstance(inner, ast.Assign) for name in _targets(inner)}
    return found


def _targets(node: ast.Assign) -> set[str]:
    return {x.id for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name)}


def counters(loop: Loop) -> tuple[str, ...]:
    """The names of numbers that are others at each turn: what the loop counts, and what is computed from that by arithmetic alone."""
    found = list(loop.targets)
    for node in ast.walk(loop.node):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name):
            parts = list(ast.walk(node.value))
            plain = not any(isinstance(x, ast.Call | ast.Subscript | ast.Compare | ast.BoolOp | ast.Tuple | ast.List) for x in parts)
            if plain and isinstance(node.value, ast.BinOp) and any(isinstance(x, ast.Name) and x.id in found for x in parts):
                found.append(target.id)
    return tuple(found)


def root(node: ast.expr) -> str:
    """The name that an expression starts from: metrics of metrics["loss"].mean()."""
    while True:
        if isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node.id if isinstance(node, ast.Name) else ""


def each_turn(event: Event, loop: Loop) -> bool:
    """Whether it happens at each turn of the loop, and of no loop inside it."""
    return event.loop is loop and not any(g.kind in RARE for g in event.guards_in(loop))


def in_traced(event: Event, known: list[Jit], wrapped: tuple[Function, ...] = ()) -> bool:
    """Whether it stands in a function that is traced: it runs once then, at the tracing."""
    nodes = {id(j.function) for j in known} | {id(f.node) for f in wrapped}
    return any(frame.function is not None and id(frame.function.node) in nodes for frame in event.at.frame.chain())
