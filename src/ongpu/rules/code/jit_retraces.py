"""A function of JAX or TensorFlow is traced and compiled again and again."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import RARE, Event, Program, Script, distinct
from ongpu.facts.traced import JITS, TF_FUNCTION, Jit, called, counters, jits
from ongpu.facts.values import Number, Value
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        if script.imports & {"jax", "flax", "equinox", "tensorflow"}:
            known = jits(script)
            yield from _fresh(script)
            yield from _nested(script, known)
            yield from _numbers(script, known)


def _fresh(script: Script) -> Iterator[Finding]:
    """jit(lambda ...), jit(partial(...)) or jit of a function that the loop defines, at each turn: another function for the cache each time."""
    for call in distinct(script.calls(*JITS, *TF_FUNCTION)):
        loop = call.loop
        given: ast.AST | None = call.node.args[0] if isinstance(call.node, ast.Call) and call.node.args else None
        if loop is None or given is None or any(g.kind in (*RARE, "none") for g in call.guards_in(loop)):
            continue
        if isinstance(given, ast.Name):
            name = given.id
            given = next((n for n in ast.walk(loop.node) if isinstance(n, ast.FunctionDef) and n.name == name), None)
        made = isinstance(given, ast.Lambda | ast.FunctionDef) or (isinstance(given, ast.Call) and ast.unparse(given.func).endswith("partial"))
        if given is not None and made and not _uses(given, loop.targets) and not _compared(call):
            yield _finding("fresh", call, call)


def _compared(call: Event) -> bool:
    """Whether a loop around it goes over settings that are written out: a comparison, compiled once each."""
    return any(isinstance(loop.node, ast.For) and isinstance(loop.node.iter, ast.List | ast.Tuple | ast.Dict) for loop in call.at.loops)


def _uses(node: ast.AST, names: tuple[str, ...]) -> bool:
    return any(isinstance(x, ast.Name) and x.id in names for x in ast.walk(node))


def _nested(script: Script, known: list[Jit]) -> Iterator[Finding]:
    """A traced function that is defined anew in each call of a function which a loop calls."""
    traced = {id(j.function) for j in known}
    for outer in script.functions:
        if id(outer.node) in traced or any(isinstance(n, ast.For | ast.While) for n in ast.walk(outer.node)):
            continue
        inner = next((j for j in known if j.function is not None and j.function is not outer.node and _inside(outer.node, j.function)), None)
        if inner is None or inner.function is None:
            continue
        call = next((e for e in script.calls(outer.name, f".{outer.name}") if e.loop is not None and not e.guards_in(e.loop)), None)
        ran = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == inner.name for n in ast.walk(outer.node))
        if call and ran and isinstance(inner.function, ast.FunctionDef) and not _compared(call):
            yield Finding(
                subject=inner.name, certainty=Certainty.LIKELY, variant="fresh", values={"code": inner.name, "line": inner.function.lineno},
                refs=(outer.file.ref(inner.function), call.ref()),
            )  # fmt: skip


def _inside(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(outer))


def _numbers(script: Script, known: list[Jit]) -> Iterator[Finding]:
    """A Python number that is another one at each turn, where each value is traced for itself: TensorFlow's arguments, JAX's static ones."""
    by_name = {j.name: j for j in known}
    for call in distinct(e for e in script.calls() if e.loop is not None and isinstance(e.node, ast.Call) and called(e.node) in by_name):
        jit, loop = by_name[called(call.call)], call.loop
        if loop is None or not isinstance(call.node, ast.Call) or any(g.kind in RARE for g in call.guards_in(loop)):
            continue
        options = {k.arg: k.value for k in jit.call.keywords} if isinstance(jit.call, ast.Call) else {}
        if jit.framework == "tensorflow" and options.keys() & {"input_signature", "reduce_retracing", "experimental_relax_shapes"}:
            continue
        shift = 1 if call.name.startswith(".") and _method(jit) else 0
        given: list[tuple[ast.expr, int, str, Value | None]] = [(n, i + shift, "", v) for i, (n, v) in enumerate(zip(call.node.args, call.args, strict=False))]
        given += [(k.value, -1, k.arg or "", (call.kw or {}).get(k.arg or "")) for k in call.node.keywords]
        for node, place, name, value in given:
            counter = isinstance(value, Number) and value.tensor is None and _uses(node, counters(loop)) and not _two(node)
            if counter and (jit.framework == "tensorflow" or _static(options, place, name, jit)):
                yield _finding("static" if jit.framework == "jax" else "number", call, call)
                return


def _two(node: ast.expr) -> bool:
    """Whether it is a truth (two values, so two traces) or an item of something."""
    return isinstance(node, ast.Subscript) or any(isinstance(x, ast.Compare | ast.BoolOp | ast.Not) for x in ast.walk(node))


def _method(jit: Jit) -> bool:
    args = jit.function.args.args if isinstance(jit.function, ast.FunctionDef) else []
    return bool(args) and args[0].arg == "self"


def _static(options: dict[str | None, ast.expr], place: int, name: str, jit: Jit) -> bool:
    """Whether JAX was told that this argument is a constant."""
    told: set[object] = set()
    for option in ("static_argnums", "static_argnames", "static_broadcasted_argnums"):
        node = options.get(option)
        if node is not None:
            told |= {x.value for x in ast.walk(node) if isinstance(x, ast.Constant)}
    names = [a.arg for a in jit.function.args.args] if isinstance(jit.function, ast.FunctionDef) else []
    name = name or (names[place] if 0 <= place < len(names) else "")
    return (place >= 0 and place in told) or (bool(name) and (name in told or (name in names and names.index(name) in told)))


def _finding(variant: str, event: Event, *refs: Event) -> Finding:
    return Finding(
        subject=event.words(), certainty=Certainty.LIKELY, variant=variant, values={"code": event.words(60), "line": event.line}, refs=tuple(e.ref() for e in refs)
    )


RULE = Rule(
    slug="jit-retraces",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.jax.dev/en/latest/jit-compilation.html", "https://www.tensorflow.org/guide/function#controlling_retracing",),
    en=Text(
        title="{code} is traced and compiled again and again",
        why="What jax.jit and tf.function compiled is kept by the function and by its constants. Another function object or another constant at each step means another compilation, which takes far longer than the step.",
        fix="Make the traced function once, outside of the loop, and give it what varies as arrays.",
    ),
    zh=Text(
        title="{code} 被反复跟踪和编译",
        why="jax.jit 和 tf.function 的编译结果按函数对象和常量缓存。每一步都换函数对象或常量，就要重新编译，而编译远比一步训练慢。",
        fix="在循环之外只创建一次被跟踪的函数，会变的量用数组传入。",
    ),
    variants={
        "fresh": (
            Text(
                title="{code} makes a new traced function at each step, which is compiled anew",
                why="The cache of jax.jit and tf.function belongs to the function object. A lambda, a partial or a function that is defined inside the loop (line {line}) is another object each time, so it is traced and compiled at each step.",
                fix="Define and jit it once, outside of the loop (at the top of the file), and give it as arguments what it took from around.",
            ),
            Text(
                title="{code} 每一步都产生新的被跟踪函数，都要重新编译",
                why="jax.jit 和 tf.function 的缓存属于函数对象。循环里定义的 lambda、partial 或函数（第 {line} 行）每次都是新对象，因此每一步都会重新跟踪和编译。",
                fix="在循环之外（文件顶层）只定义并 jit 一次，它从外层取用的东西改为参数传入。",
            ),
        ),
        "static": (
            Text(
                title="{code} gives a static argument another value at each step: JAX compiles for each",
                why="static_argnums and static_argnames make an argument a constant of the compiled function, so each new value is a new compilation. A counter is another constant at each step.",
                fix="Take the counter out of the static arguments (lax.cond, jnp.where and lax.fori_loop work with traced numbers).",
            ),
            Text(
                title="{code} 的静态参数每一步都不同：JAX 每个值都要编译",
                why="static_argnums 和 static_argnames 把参数变成编译函数的常量，每个新值都要重新编译。计数器每一步都是新的常量。",
                fix="把计数器移出静态参数（lax.cond、jnp.where、lax.fori_loop 都能用被跟踪的数）。",
            ),
        ),
        "number": (
            Text(
                title="{code} gives a tf.function a Python number that changes: TensorFlow traces for each value",
                why="A Python number is a constant of the traced graph, so each new value is a new graph (\"triggered tf.function retracing\"); the graphs stay in memory too.",
                fix="Pass a tensor: tf.constant(step) or tf.Variable, or iterate over tf.range and dataset.enumerate(), whose counters are tensors.",
            ),
            Text(
                title="{code} 给 tf.function 传了会变的 Python 数字：TensorFlow 对每个值都重新跟踪",
                why="Python 数字是被跟踪图里的常量，每个新值都会产生一张新图（“triggered tf.function retracing”），这些图还会留在内存里。",
                fix="改传张量：tf.constant(step) 或 tf.Variable，或遍历 tf.range、dataset.enumerate()，它们的计数器是张量。",
            ),
        ),
    },
)
