"""torch.compile compiles the same function again and again."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import RARE, Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import counters
from ongpu.facts.values import Const, Function, Module, Number, Tensor
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text, Words


def check(symptoms: Symptoms | None, program: Program | None) -> Iterator[Finding]:
    if program:
        slow = bool(symptoms and symptoms.has("slow-words", "new-size-slow", "shapes-vary", "recompile-told"))
        yield from (finding for script in program.scripts if script.says("compile") for finding in _in_source(script, slow))
    if symptoms:
        yield from _in_words(symptoms)


def _in_source(script: Script, slow: bool) -> Iterator[Finding]:
    compiles = [e for e in script.calls("torch.compile") if isinstance(e.arg(0, "model"), Module | Function)]
    for call in distinct(compiles):
        if _again(call):
            where = call.at.frame.inside("forward")
            yield _finding("forward" if where and not call.loop else "loop", call, Severity.WARNING)
    yield from _counted(script, compiles)
    yield from _numbers(script, compiles, slow)
    yield from _sizes(script, compiles, slow)


def _finding(variant: str, event: Event, severity: Severity, *others: Event) -> Finding:
    return Finding(
        subject=event.words(), certainty=Certainty.LIKELY, severity=severity, variant=variant, values={"code": event.words(), "line": event.line},
        refs=(event.ref(), *(other.ref() for other in others)),
    )  # fmt: skip


def _again(call: Event) -> bool:
    """Whether the same thing is compiled at each turn of a loop over batches or epochs, or at each forward pass."""
    thing, loop = call.arg(0, "model"), call.loop
    if isinstance(thing, Module) and (thing.cls in ("part", "either") or thing.owner is not None or thing.either):
        return False  # layer by layer, or one of several
    if any(not isinstance(v, Const) for v in (*call.args[1:], *(v for k, v in (call.kw or {}).items() if k != "model"))) or call.stars:
        return False  # a comparison of settings
    if loop is None:
        return call.at.frame.kind == "forward" and call.certain and isinstance(thing, Module | Function)
    if call.guards_in(loop) or (isinstance(thing, Module) and thing.made is not None and loop in thing.made.at.loops):
        return False
    called = loop.forwards or loop.backwards
    return bool(called) and isinstance(loop.node, ast.For | ast.While)


def _counted(script: Script, compiles: list[Event]) -> Iterator[Finding]:
    """A number that a compiled module counts up in its own forward pass: each value is a version of its own."""
    modules = {id(m.inner.root) for e in (*compiles, *script.calls(".compile")) if isinstance(m := e.receiver or e.arg(0, "model"), Module) and m.sure}
    if not modules or script.says("allow_unspec_int_on_nn_module"):
        return
    for event in distinct(script.of("accumulate")):
        frame = event.at.frame.inside("forward")
        me = frame.me if frame else None
        plain = event.name == "+=" and event.target.startswith("self.") and isinstance(event.value, Const) and isinstance(event.receiver, Const | Number)
        if plain and isinstance(me, Module) and id(me.inner.root) in modules and not any(g.kind in RARE for g in event.at.guards):
            yield _finding("attribute", event, Severity.WARNING, *compiles[:1])
            return


def _numbers(script: Script, compiles: list[Event], slow: bool) -> Iterator[Finding]:
    """Calls of something compiled that get a Python number that is another one at each turn: the loop's counter."""
    whole: dict[int, Event | None] = {id(e.arg(0, "model")): e for e in compiles if e.says("dynamic") is not True}
    whole |= {id(f): None for f in script.functions if _decorated(f)}
    nodes = {id(f.node): whole[id(f)] for f in script.functions if id(f) in whole}
    for call in script.calls() if whole else ():
        loop = call.loop
        made = whole.get(id(call.receiver)) if call.name == "forward" else None
        ran = next((f for f in script.functions if f.name == call.name and id(f.node) in nodes), None) if call.name != "forward" else None
        if loop is None or (made is None and ran is None) or not isinstance(call.node, ast.Call):
            continue
        given = [*zip(call.node.args, call.args, strict=False), *((k.value, (call.kw or {}).get(k.arg or "")) for k in call.node.keywords)]
        counter = next((n for n, v in given if isinstance(v, Number) and v.tensor is None and _counts(n, counters(loop))), None)
        if counter is None or any(isinstance(v, Tensor) and isinstance(n, ast.Name) and n is counter for n, v in given):
            continue
        made = made or (nodes.get(id(ran.node)) if ran else None)
        fixed = (made is not None and made.says("dynamic") is False) or (ran is not None and _unrolled(ran, call.node, counter))
        yield _finding("number", call, Severity.WARNING if fixed or slow else Severity.NOTE, *((made,) if made else ()))
        return


def _unrolled(function: Function, call: ast.Call, counter: ast.expr) -> bool:
    """Whether the number bounds a loop in the compiled function, which is unrolled: each value is a graph of its own, dynamic or not."""
    names = [a.arg for a in function.node.args.args]
    place = next((i for i, given in enumerate(call.args) if given is counter), None)
    name = names[place] if place is not None and place < len(names) else next((k.arg for k in call.keywords if k.value is counter), None)
    ranges = [n for n in ast.walk(function.node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "range"]
    return any(isinstance(x, ast.Name) and x.id == name for n in ranges for x in ast.walk(n))


def _counts(node: ast.expr, targets: tuple[str, ...]) -> bool:
    """Whether it is computed from the loop's counter, and no truth about it (two values)."""
    parts = list(ast.walk(node))
    return any(isinstance(x, ast.Name) and x.id in targets for x in parts) and not any(isinstance(x, ast.Compare | ast.BoolOp | ast.Not) for x in parts)


DRAWS = ("random.*", "numpy.random.*", "torch.randint")


def _sizes(script: Script, compiles: list[Event], slow: bool) -> Iterator[Finding]:
    """Inputs whose size is another one at each turn: cut by the loop's counter, or made with a number that was drawn in it."""
    whole = {id(e.arg(0, "model")): e for e in compiles if e.says("dynamic") is not True}
    if not whole or script.says("mark_dynamic", "maybe_mark_dynamic"):
        return
    for call in script.calls("forward"):
        made, loop = whole.get(id(call.receiver)), call.loop
        if made is None or loop is None:
            continue
        drawn = {id(d.node) for d in script.calls(*DRAWS) if d.loop is loop and not (d.name == "torch.randint" and isinstance(d.value, Tensor) and not d.value.scalar)}
        names = set(loop.targets) | {
            x.id for node in ast.walk(loop.node) if isinstance(node, ast.Assign) and any(id(y) in drawn for y in ast.walk(node.value))
            for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name)
        }  # fmt: skip
        if any(_cut(node, names) for given in call.call.args for node in _origins(given, loop.node)):
            fixed = made.says("dynamic") is False or made.says("mode", "") in ("reduce-overhead", "max-autotune")
            yield _finding("size", call, Severity.WARNING if fixed or slow else Severity.NOTE, made)
            return


def _origins(given: ast.expr, loop: ast.AST) -> Iterator[ast.AST]:
    """What an argument is made of: its own expression, and that of the name that it is, as the loop assigns it."""
    yield from ast.walk(given)
    if isinstance(given, ast.Name):
        for node in ast.walk(loop):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == given.id for t in node.targets):
                yield from ast.walk(node.value)


def _cut(node: ast.AST, names: set[str]) -> bool:
    """x[:, :n] or torch.randn(8, n) with such a name."""
    if isinstance(node, ast.Slice):
        inner: list[ast.AST] = [part for part in (node.lower, node.upper) if part is not None]
        return len(inner) == 1 and any(isinstance(x, ast.Name) and x.id in names for x in ast.walk(inner[0]))
    makes = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("randn", "rand", "zeros", "ones", "empty")
    return makes and isinstance(node, ast.Call) and any(isinstance(x, ast.Name) and x.id in names for arg in node.args for x in ast.walk(arg))


def _decorated(function: Function) -> bool:
    marks = [ast.unparse(mark) for mark in function.decorators()]
    return any(mark.startswith("torch.compile") and "dynamic=True" not in mark for mark in marks)


def _in_words(symptoms: Symptoms) -> Iterator[Finding]:
    limit = symptoms.has("dynamo-limit")
    again = symptoms.seen("dynamo-recompile")
    graphs = symptoms.cite("cudagraph-sizes", most=2)
    sizes = [r for r in graphs if "skipping" not in r.quote.lower()]
    told = symptoms.cite("recompile-told", most=2) if symptoms.has("compile-words") and (symptoms.has("slow-words", "new-size-slow", "shapes-vary") or any("triggered" in h.ref.quote for h in symptoms.seen("recompile-told"))) else ()
    if told and not limit and len(again) < 3:
        sizes = list(told)
    if not limit and len(again) < 3 and not sizes:
        return
    yield Finding(
            fixes=(Fix("recompile-log"),),
        certainty=Certainty.CERTAIN if limit else Certainty.LIKELY,
        values={
            "function": symptoms.value("fn", "dynamo-function", "dynamo-recompile") or Words("a compiled function", "某个已编译的函数"),
            "reason": symptoms.value("why", "dynamo-reason") or symptoms.value("mismatch", "dynamo-reason") or Words("see the guard that failed", "见失败的守卫条件"),
            "limit": symptoms.value("n", "dynamo-limit") or "8",
        },
        refs=(*symptoms.cite("dynamo-limit", "dynamo-function", "dynamo-reason", most=2), *symptoms.cite("dynamo-recompile", most=2), *sizes),
    )


RULE = Rule(
    slug="torch-compile-recompiles",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",),
    en=Text(
        title="torch.compile keeps recompiling {function} (limit {limit}): {reason}",
        why="Each compiled version is guarded by what it assumed: shapes, numbers, modules, dtypes. Inputs that break a guard at every call cause a recompile each time; beyond the limit the function runs uncompiled (or fails with fullgraph=True).",
        fix="See the reasons with TORCH_LOGS=recompiles. Mark what varies: torch.compile(..., dynamic=True), torch._dynamo.mark_dynamic(x, dim), torch._dynamo.config.force_parameter_static_shapes = False for parameters; pass changing numbers as tensors; pad to a few sizes; else raise torch._dynamo.config.recompile_limit (cache_size_limit before 2.6).",
    ),
    zh=Text(
        title="torch.compile 反复重新编译 {function}（上限 {limit}）：{reason}",
        why="每个编译版本都有守卫条件：形状、数值、模块、dtype。每次调用都不满足守卫的输入会导致每次都重编译；超过上限后该函数不再编译执行（fullgraph=True 时直接报错）。",
        fix="用 TORCH_LOGS=recompiles 查看原因。标明会变的部分：torch.compile(..., dynamic=True)、torch._dynamo.mark_dynamic(x, dim)，参数形状变化用 torch._dynamo.config.force_parameter_static_shapes = False；变化的数字改传张量；填充到少数几种尺寸；或调大 torch._dynamo.config.recompile_limit（2.6 之前叫 cache_size_limit）。",
    ),
    variants={
        "loop": (
            Text(
                title="{code} compiles anew at each turn of the loop",
                why="Each call makes another compiled object; tracing and compiling take seconds to minutes, and what was compiled before is thrown away or wrapped once more.",
                fix="Compile once, before the loop (model = torch.compile(model)), and call the result in it.",
            ),
            Text(
                title="{code} 在循环的每一轮都重新编译",
                why="每次调用都会产生新的编译对象；跟踪和编译要几秒到几分钟，之前编译的结果被丢掉，或者又包了一层。",
                fix="在循环之前只编译一次（model = torch.compile(model)），循环里调用它的结果。",
            ),
        ),
        "forward": (
            Text(
                title="{code} compiles inside forward, at each call",
                why="Each pass makes another compiled object, and tracing and compiling take seconds to minutes.",
                fix="Compile once in __init__ or after the model is made (model = torch.compile(model)).",
            ),
            Text(
                title="{code} 写在 forward 里，每次调用都会编译",
                why="每次前向都会产生新的编译对象，而跟踪和编译要几秒到几分钟。",
                fix="只编译一次：写在 __init__ 里，或在创建模型之后（model = torch.compile(model)）。",
            ),
        ),
        "attribute": (
            Text(
                title="{code} changes a number that the compiled module is guarded by: it recompiles at each call",
                why="torch.compile takes integer attributes of a module as constants. A counter in forward is another constant each time; after 8 versions the module runs uncompiled.",
                fix="Count outside of forward, keep the counter in a tensor (register_buffer), or set torch._dynamo.config.allow_unspec_int_on_nn_module = True.",
            ),
            Text(
                title="{code} 改变了编译模块的守卫所依赖的数字：每次调用都会重新编译",
                why="torch.compile 把模块的整数属性当作常量。forward 里的计数器每次都是新的常量；8 个版本之后模块就不再编译执行。",
                fix="在 forward 之外计数，或把计数放进张量（register_buffer），或设 torch._dynamo.config.allow_unspec_int_on_nn_module = True。",
            ),
        ),
        "size": (
            Text(
                title="{code} gives a compiled model another input size at each step",
                why="torch.compile specialises on sizes. The second size costs another compilation (then that dimension is taken as variable); with dynamic=False, CUDA graphs (mode=\"reduce-overhead\") and several varying dimensions each size is compiled or recorded anew, up to the limit of 8.",
                fix="torch.compile(..., dynamic=True) or torch._dynamo.mark_dynamic(x, dim); pad to a few sizes; a fixed buffer (static cache) for generation. TORCH_LOGS=recompiles tells whether it matters.",
            ),
            Text(
                title="{code} 每一步都给编译过的模型不同的输入大小",
                why="torch.compile 会针对大小做特化。第二种大小会再编译一次（之后该维视为可变）；dynamic=False、CUDA graph（mode=\"reduce-overhead\"）或多个维度同时变化时，每种大小都要重新编译或录制，直到上限 8 次。",
                fix="用 torch.compile(..., dynamic=True) 或 torch._dynamo.mark_dynamic(x, dim)；填充到少数几种大小；生成时用固定缓冲区（静态缓存）。TORCH_LOGS=recompiles 可看出是否有影响。",
            ),
        ),
        "number": (
            Text(
                title="{code} gives a compiled function a Python number that changes at each step",
                why="torch.compile makes a number part of what it compiled. The second value costs another compilation (then it is taken as variable); with dynamic=False, and before PyTorch 2.1, each value does, up to the limit of 8.",
                fix="Pass it as a tensor (torch.tensor(step, device=...)), leave it out, or compile with dynamic=True. TORCH_LOGS=recompiles tells whether it matters.",
            ),
            Text(
                title="{code} 给编译过的函数传了每步都变的 Python 数字",
                why="torch.compile 会把数字编进结果里。第二个值会再编译一次（之后视为可变）；dynamic=False 时，以及 PyTorch 2.1 之前，每个值都会重新编译，直到上限 8 次。",
                fix="改传张量（torch.tensor(step, device=...)），或不传，或用 dynamic=True 编译。TORCH_LOGS=recompiles 可看出是否有影响。",
            ),
        ),
    },
)
