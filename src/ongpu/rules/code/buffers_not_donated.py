"""A JAX training step gets its old state and gives a new one, and holds both in memory meanwhile."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Program, Script
from ongpu.facts.traced import called, jits
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        if "jax" in script.imports and not script.says("donate"):
            yield from _in_source(script)


def _in_source(script: Script) -> Iterator[Finding]:
    """params, state = step(params, state, batch) in a loop, where step is jitted: the old values are dead after the call."""
    steps = {j.name for j in jits(script) if j.framework == "jax"}
    for loop in script.loops:
        for node in ast.walk(loop.node) if loop.kind != "comprehension" else ():
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or called(node.value) not in steps:
                continue
            new = {name for target in node.targets for name in _names(target)}
            old = [place for place, given in enumerate(node.value.args) if _names(given) and set(_names(given)) <= new]
            if old:
                yield _finding(called(node.value), [ast.unparse(node.value.args[place]) for place in old], old, script.file.ref(node))
                return


def _names(node: ast.expr) -> list[str]:
    """The names and attributes of an assignment's target, or of an argument that is nothing but one."""
    if isinstance(node, ast.Tuple | ast.List):
        return [name for part in node.elts for name in _names(part)]
    return [ast.unparse(node)] if isinstance(node, ast.Name | ast.Attribute) else []


def _finding(name: str, given: list[str], places: list[int], ref: Ref) -> Finding:
    numbers = ", ".join(map(str, places)) + ("," if len(places) == 1 else "")
    return Finding(subject=name, certainty=Certainty.LIKELY, values={"step": name, "names": given, "places": numbers}, refs=(ref,))


RULE = Rule(
    slug="buffers-not-donated",
    layer=Layer.CODE,
    severity=Severity.NOTE,
    check=check,
    see=("https://docs.jax.dev/en/latest/faq.html#buffer-donation", "https://docs.jax.dev/en/latest/buffer_donation.html"),
    en=Text(
        title="{step} gives new {names} for old ones, without donating the old buffers",
        why="Inputs of a jitted function stay alive during the call, so both the old and the new weights and optimizer states are in "
        "memory at the peak. A donated input's memory is used for the output.",
        fix="jax.jit({step}, donate_argnums=({places})). Afterwards the old values must not be used any more (JAX says: Array has been deleted).",
    ),
    zh=Text(
        title="{step} 用旧的 {names} 换出新的，却没有捐出（donate）旧缓冲区",
        why="jit 函数的输入在调用期间一直存活，峰值时新旧两份权重和优化器状态同时在显存里。捐出的输入，其显存会被输出复用。",
        fix="jax.jit({step}, donate_argnums=({places}))。此后不能再使用旧值（JAX 会报 Array has been deleted）。",
    ),
)
