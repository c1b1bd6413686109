"""Gradient accumulation as a program's source shows it: several backward passes, then one optimizer step."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Event, Guard, Loop, Script
from ongpu.facts.values import Items, Loader, Optimizer, Tensor, Unknown
from ongpu.lazy import dataclass

MANAGED = ("accelerate", "lightning", "deepspeed", "transformers.Trainer")  # they divide, and step the rest, by themselves


@dataclass(eq=False)
class Window:
    """loop: the loop over micro-batches. step: the step that waits for a full window. backwards: in each turn of the loop.
    every: its length as the source writes it ("accum_steps"). full: the test is "number of the batch % length == 0", nothing else."""

    loop: Loop
    step: Event
    backwards: tuple[Event, ...]
    every: str
    full: bool
    steps: tuple[Event, ...] = ()  # all steps of the script
    test: ast.expr | None = None  # the condition of the step

    @property
    def flushed(self) -> bool:
        """Whether another step follows the loop in the same turn of what is around it."""
        return any(
            step is not self.step and self.loop not in step.at.loops and step.order > self.loop.end
            and step.at.loops[: self.loop.depth] == self.step.at.loops[: self.loop.depth]
            for step in self.steps
        )  # fmt: skip


def windows(script: Script) -> Iterator[Window]:
    """The windows of the script. None where a framework accumulates by itself."""
    if any(name.startswith(MANAGED) for name in script.managed):
        return
    steps = tuple(e for e in script.calls(".step") if isinstance(e.receiver, (Optimizer, Unknown)) or _scaler(e))
    for step in steps:
        loop = step.loop
        if loop is None or not (isinstance(step.receiver, Optimizer) or _scaler(step)):
            continue
        guard = next((g for g in step.guards_in(loop) if g.kind == "every" or counter(g, loop)), None)
        others = [s for s in steps if s.loop is loop and guard not in s.guards_in(loop)]  # a GAN's discriminator steps at each turn
        turns = (b for b in script.calls(".backward") if b.loop is loop and b.flow == step.flow and guard not in b.guards_in(loop))
        mine = tuple(b for b in turns if not any(b.before(s) for s in others) and _moves(step, b) is not False)
        if guard is None or not mine:
            continue
        every, full = _length(guard)
        yield Window(loop, step, mine, every, full or counter(guard, loop) != "" or since(guard, loop) != "", steps, guard.test)


def nested(script: Script) -> Iterator[Window]:
    """Windows that are an inner loop over micro-batches, with the step behind it."""
    if any(name.startswith(MANAGED) for name in script.managed):
        return
    backwards = list(script.calls(".backward"))
    for step in script.calls(".step"):
        outer = step.loop
        if outer is None or not (isinstance(step.receiver, Optimizer) or _scaler(step)):
            continue
        inner = (b for b in backwards if b.loop is not None and b.loop is not outer and outer in b.at.loops and b.before(step))
        mine = tuple(b for b in inner if b.loop not in step.at.loops)
        if mine and mine[0].loop is not None and not any(mine[0].loop in z.at.loops for z in script.calls(".zero_grad")):
            yield Window(mine[0].loop, step, mine, _divisor(mine[0].loop), False)


def _divisor(loop: Loop) -> str:
    """What a loss is divided by in the loop, as the source writes it; N where nothing is."""
    parts = [n for n in ast.walk(loop.node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    parts += [n for n in ast.walk(loop.node) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Div)]  # type: ignore[misc]
    return next((ast.unparse(n.right if isinstance(n, ast.BinOp) else n.value) for n in parts), "N")


def _scaler(event: Event) -> bool:
    return any(isinstance(arg, Optimizer) for arg in event.args)


def _moves(step: Event, backward: Event) -> bool | None:
    """Whether that step uses the gradients of that backward pass; None where nobody knows."""
    return next((one.updates(backward.receiver) for one in (step.receiver, *step.args) if isinstance(one, Optimizer)), None)


def _length(guard: Guard) -> tuple[str, bool]:
    """(the length of a window, whether only the remainder decides)."""
    test = guard.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _modulo(test.operand) and not guard.negated:
        return ast.unparse(test.operand.right), True  # type: ignore[attr-defined]
    if test is not None and _modulo(test) and guard.negated:
        return ast.unparse(test.right), True  # type: ignore[attr-defined]
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _modulo(test.left):
        plain = isinstance(test.ops[0], (ast.Eq, ast.NotEq)) and isinstance(test.comparators[0], (ast.Constant, ast.BinOp))
        equal = isinstance(test.ops[0], ast.Eq) is not guard.negated
        return ast.unparse(test.left.right), plain and equal  # type: ignore[attr-defined]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):  # or it is the last batch
        return _length(Guard(test.values[0], guard.kind, guard.negated))[0], False
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.GtE | ast.Eq):  # a counter of its own
        return ast.unparse(test.comparators[0]), False
    return "?", False


def counter(guard: Guard, loop: Loop) -> str:
    """The name that counts the batches up to a full window, where the condition asks for nothing else: raised by one in the loop,
    compared with the length, set to nothing behind the condition ("pending += 1; if pending == n: step(); pending = 0")."""
    test = guard.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.GtE) or guard.negated:
        return ""
    if not isinstance(test.left, ast.Name | ast.Attribute):
        return ""
    name, inside = ast.unparse(test.left), list(ast.walk(loop.node))
    raised = [n for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) and _is(n.value, 1)]
    return name if any(ast.unparse(n.target) == name for n in raised) and any(_sets(n, name) for n in inside) else ""


def since(guard: Guard, loop: Loop) -> str:
    """The name that holds the batch of the last step, where the condition asks how many have passed since ("i - last >= n"), and
    nothing else."""
    test = guard.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.GtE) or guard.negated:
        return ""
    apart = test.left
    if not isinstance(apart, ast.BinOp) or not isinstance(apart.op, ast.Sub):
        return ""
    counted, last = ast.unparse(apart.left), ast.unparse(apart.right)
    sets = [n for n in ast.walk(loop.node) if isinstance(n, ast.Assign) and ast.unparse(n.value) == counted]
    kept = any(ast.unparse(target) == last for n in sets for target in n.targets)
    return last if kept and counted in loop.targets else ""


def begun(name: str, node: ast.AST, loop: Loop) -> bool:
    """Whether that part of the program sets the counter to nothing outside of the loop over the batches."""
    inner = {id(n) for n in ast.walk(loop.node)}
    return any(_sets(n, name) and id(n) not in inner for n in ast.walk(node))


def _sets(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and _is(node.value, 0) and any(ast.unparse(target) == name for target in node.targets)


def _is(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == number


def _modulo(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def named(test: ast.expr | None, tree: ast.AST | None = None) -> bool:
    """Whether the condition itself speaks of accumulation, or what a name in it was set to in that tree
    (steps = config["gradient_accumulation_steps"])."""
    if test is None or "accum" in ast.unparse(test).lower():
        return test is not None
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    sets = (n for n in ast.walk(tree) if isinstance(n, ast.Assign)) if tree is not None else ()
    return any("accum" in ast.unparse(n.value).lower() and any(isinstance(t, ast.Name) and t.id in names for t in n.targets) for n in sets)


def over_loader(loop: Loop) -> bool:
    """Whether the loop takes the batches of a loader, counted or not."""
    over = loop.over
    if isinstance(over, Items) and over.uniform and over.items:
        parts = over.items[0].items if isinstance(over.items[0], Items) else over.items
        return any(isinstance(part, Tensor) and part.origin == "batch" for part in parts)
    return isinstance(over, Loader)

