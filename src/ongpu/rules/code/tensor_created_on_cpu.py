"""A tensor or layer is made without a device inside the computation."""

import ast
from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatch, Mismatches
from ongpu.facts.objects import Objects, cite, names
from ongpu.facts.operands import Operands, cause, seen
from ongpu.facts.placing import move_of, stale
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CPU, CUDA, MANAGED, MAYBE, SELF, Class, Items, Module, Tensor, Unknown
from ongpu.lazy import replace
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text


def check(
    mismatches: Mismatches | None, symptoms: Symptoms | None, objects: Objects | None, operands: Operands | None, program: Program | None
) -> Iterator[Finding]:
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    yield from found
    yield from _in_objects(objects) if objects else ()
    met = {raised.own()[-1].line for raised in (one.raised for one in mismatches.found) if raised.own()} if mismatches else set()
    old = {mix.line for script in program.scripts for mix, _, _ in stale(script)} if program else set()
    if not any(finding.severity is None and ref.line in met for finding in found for ref in finding.refs) and not old:  # the source names the place
        yield from _in_error(mismatches, symptoms, operands)


def _in_source(script: Script) -> Iterator[Finding]:
    """Layers and tensors that are made on the CPU inside a forward pass on the GPU, and meet what lies there."""
    for call in distinct(script.calls("forward")):  # a layer that was built in the same forward pass
        layer = call.receiver
        if not isinstance(layer, Module) or layer.made is None or not layer.weighs or not layer.made.at.frame.inside("forward"):
            continue
        moved = [a for a in call.args if isinstance(a, Tensor) and a.where in (CUDA, MAYBE)]
        if layer.where(call) == CPU and moved:
            yield _made(layer.made, call, "layer-source", layer.name.rpartition(".")[2])
    yield from _weights(script)
    yield from _late(script)
    told: set[int] = set()
    for source, call in _given(script):
        if id(source.node) not in told:
            told.add(id(source.node))
            yield _made(source, call, "source", source.words(40), None, _placed(source))
    old = {id(mix.node) for mix, _, _ in stale(script)}
    for mix in distinct(script.of("mix")):
        made = next((seed for a in mix.args if isinstance(a, Tensor) and a.where == CPU and not a.scalar and (seed := a.seed())), None)
        if made is None or id(made.node) in told or mix.name in CROSSES or not _shaped(made):
            continue
        if id(mix.node) in old:
            continue  # it was moved: the name that is used here is the old one's
        places = {a.where for a in mix.args if isinstance(a, Tensor)}
        inside = mix.at.frame.inside("forward", "step") is not None
        held = _held(script, made, mix)
        if held is not None and (places & {CUDA, MAYBE, MANAGED} or (SELF in places and not script.managed)):
            told.add(id(made.node))
            sure = bool(places & {CUDA, MAYBE, MANAGED})
            yield _made(made, mix, "plain", f"self.{held.name}", None if sure else Severity.WARNING if script.names_cuda else Severity.NOTE, _registered(held))
        elif held is None and places & ({CUDA, MAYBE, MANAGED} if made.at.frame.inside("forward", "step") else {CUDA, MAYBE}) and not (mix.name in LOSSES and not inside and not _constant(made)):
            told.add(id(made.node))
            yield _made(made, mix, "source", made.words(40), None, _placed(made))


# what makes a table of a range: to do it on the host, at each pass, keeps the GPU waiting (PyTorch spreads it over all cores)
WORKS = ("einsum", "sin", "cos", "exp", "pow", "log", "outer", "matmul", "bmm", "cat", "stack", "meshgrid", "cdist", "softmax", "cumsum", "tril", "triu")


def _late(script: Script) -> Iterator[Finding]:
    """Tables (of positions, frequencies, masks) that a forward pass on the GPU computes on the CPU from ranges, and only then moves."""
    for move in distinct(script.calls(".to", ".cuda")):
        table, moved = move.receiver, move.value
        if not (isinstance(table, Tensor) and isinstance(moved, Tensor) and table.where == CPU and moved.where == CUDA):
            continue
        line = [t for t in table.line() if t.made is not None]
        ranges = [t.made for t in line if t.origin == "made" and t.made and t.made.name in ("torch.arange", "torch.linspace")]
        works = {t.made.name.rpartition(".")[2] for t in line if t.made} & set(WORKS)
        if ranges and len(works) >= 2 and move.at.frame.inside("forward") and all(made.at.frame.inside("forward") for made in ranges):
            yield _made(ranges[-1], move, "late", ranges[-1].words(40), Severity.WARNING)
            return


def _weights(script: Script) -> Iterator[Finding]:
    """The class weights of a loss that nothing moved, where its input lies on the GPU."""
    told: set[str] = set()
    for call in distinct(script.calls("forward")):
        loss = call.receiver
        if not isinstance(loss, Module) or loss.made is None or loss.name not in WEIGHTED or loss.where(call) != CPU:
            continue
        moved = bool(call.args) and isinstance(call.args[0], Tensor) and call.args[0].where in (CUDA, MAYBE)
        for name in ("weight", "pos_weight"):
            weight = loss.made.arg(0 if name == "weight" else None, name)
            if moved and isinstance(weight, Tensor) and weight.where == CPU and weight.sized and not weight.scalar:
                criterion = call.file.quote(call.call.func)
                if criterion not in told:
                    told.add(criterion)
                    yield replace(_made(loss.made, call, "weight-source", name), values={"what": name, "code": loss.made.words(60), "criterion": criterion, "moved": _as_moved(script, call, criterion), "used": call.words(60)})


WEIGHTED = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss", "torch.nn.BCELoss", "torch.nn.BCEWithLogitsLoss", "torch.nn.MultiMarginLoss")


def _as_moved(script: Script, call: Event, criterion: str) -> str:
    """The move of the criterion, in the words of the model's own."""
    output = call.args[0]
    made = next((t.made for t in output.line() if t.made and t.made.name == "forward"), None) if isinstance(output, Tensor) else None
    return criterion + (move_of(made.receiver, call, script) if made and isinstance(made.receiver, Module) else ".cuda()")


def _given(script: Script) -> Iterator[tuple[Event, Event]]:
    """Tensors that a forward pass makes on the CPU and gives to one of PyTorch's own layers on the GPU: positions, mostly."""
    for call in distinct(script.calls("forward")):
        layer, frame = call.receiver, call.at.frame
        ours = isinstance(layer, Module) and isinstance(layer.cls, str) and layer.cls.startswith("torch.nn.")
        if not (ours and isinstance(layer, Module) and layer.weighs and layer.where(call) == CUDA and frame.inside("forward") is not None):
            continue
        for given in call.args:
            if isinstance(given, Tensor) and given.where == CPU and not given.scalar:
                made = next((t.made for t in given.line() if t.origin == "made" and t.made and t.made.at.frame is frame), None)
                if made is not None:
                    yield made, call


CROSSES = ("copy_", "set_", "to", "type_as", "index_select")  # may bring devices together
LOSSES = ("forward", "cross_entropy", "mse_loss", "l1_loss", "nll_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")  # input-not-moved
SIZED = ("zeros", "ones", "full", "arange", "linspace", "eye", "rand", "randn", "randint", "randperm", "empty", "tensor")


CONSTANTS = ("torch.zeros", "torch.ones", "torch.full", "torch.arange", "torch.eye", "torch.linspace")


def _constant(made: Event) -> bool:
    """Whether the code makes it itself at each step, as a target; data that is made once, input-not-moved tells."""
    return made.name in CONSTANTS and made.loop is not None


def _shaped(made: Event) -> bool:
    """Whether it surely has a dimension: torch.tensor(x) has none where x is a number."""
    number = made.name in ("torch.tensor", "torch.as_tensor") and not isinstance(made.arg(0, "data"), Items | Tensor)
    return not number and not (len(made.args) == 1 and isinstance(made.args[0], Unknown) and made.name not in SIZED)


def _held(script: Script, made: Event, mix: Event) -> Event | None:
    """The assignment that keeps it as a plain attribute of a module, in __init__, if nothing else sets or moves that attribute before it
    meets the GPU there (a running state is set anew behind that)."""
    keeps = [e for e in script.of("setattr") if isinstance(e.value, Tensor) and e.value.seed() is made and isinstance(e.receiver, Module)]
    if not keeps or not keeps[0].at.frame.inside("init"):
        return None
    others = [e for e in script.of("setattr") if e.name == keeps[0].name and e.node is not keeps[0].node and e.file is keeps[0].file]
    others = [e for e in others if not (e.at.frame is mix.at.frame and mix.before(e))]
    return None if others else keeps[0]


def _registered(held: Event) -> tuple[Edit, ...]:
    """register_buffer for a plain assignment, after super().__init__(); persistent=False keeps old checkpoints loadable."""
    stmt, owner = held.stmt, held.receiver
    function = held.at.frame.function
    if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(owner, Module) or not isinstance(owner.cls, Class) or function is None:
        return ()
    body = getattr(function.node, "body", [])
    begun = isinstance(body, list) and any(
        isinstance(s, ast.Expr) and "super(" in ast.unparse(s) and "__init__" in ast.unparse(s) and s.lineno < stmt.lineno for s in body
    )
    if not begun or stmt not in body:
        return ()
    words = held.file.segment(stmt.value)
    return (held.file.replace(stmt, f'self.register_buffer("{held.name}", {words}, persistent=False)'),)


def _placed(made: Event) -> tuple[Edit, ...]:
    """device=x.device, where x is the first input of the forward pass that makes it."""
    frame = made.at.frame
    given = frame.function.node.args.args if frame.kind == "forward" and frame.function else []
    if len(given) < 2 or made.stars or made.name.removeprefix("torch.") not in SIZED or made.given(None, "device") is not None:
        return ()
    first = given[1]
    if (first.annotation is not None and "Tensor" not in ast.unparse(first.annotation)) or first.arg == "batch":
        return ()
    return (made.file.argument(made.call, f"device={first.arg}.device"),)


def _made(made: Event, met: Event, variant: str, what: str, severity: Severity | None = None, edits: tuple[Edit, ...] = ()) -> Finding:
    return Finding(
        subject=made.words(),
        certainty=Certainty.LIKELY,
        severity=severity,
        variant=variant,
        values={"what": what, "code": made.words(), "line": made.line, "used": met.words(60)},
        refs=(made.ref(), *((met.ref(),) if met.line != made.line else ())),
        edits=edits,
    )


def _in_objects(objects: Objects) -> Iterator[Finding]:
    """Mere attributes on another device than the model; where the model has not been moved yet, those that will stay behind."""
    astray = objects.plain_astray()
    direct = [p for p in astray if p.held == "attribute"]
    if not astray and not objects.working():
        direct = [p for p in objects.of("plain") if p.held == "attribute" and p.dtype.startswith("float") and not p.scalar and not p.graph and not p.library]
    if direct or astray:
        yield Finding(
            certainty=Certainty.LIKELY if astray and direct else Certainty.POSSIBLE, severity=Severity.WARNING if astray and direct else Severity.NOTE,
            variant="attribute", refs=cite(direct or astray),
            values={"names": names(direct or astray), "model": objects.model, "on": (direct or astray)[0].device, "what": "tensor", "line": "?"},
        )


def _in_error(mismatches: Mismatches | None, symptoms: Symptoms | None, operands: Operands | None) -> Iterator[Finding]:
    made = symptoms.cite("makes-tensor", "device-passed-told", most=3) if symptoms else ()
    printed = symptoms.cite("prints-device", most=3) if symptoms else ()
    if mismatches is None:
        told = symptoms.cite("device-passed-told", most=3) if symptoms else ()
        if told and symptoms and not symptoms.has("gpu-not-seen"):
            yield Finding(
                certainty=Certainty.LIKELY if printed else Certainty.POSSIBLE,
                values={"what": "tensor", "on": "cpu", "line": told[0].quote}, refs=(*told, *printed, *made),
            )
        return
    for found in mismatches.found:
        slug, certainty = cause(found, operands)
        if slug != "tensor-created-on-cpu" and not (slug == "device-mismatch" and made and found.odd not in ("lengths", "generator") and not found.two_gpus):
            continue
        variant = "collective" if found.odd == "collective" else "layer" if found.odd == "weight" else ""
        what = {"hidden": "hidden state", "tensors": "tensor", "condition": "torch.where condition"}.get(found.odd or "", found.odd or "tensor")
        yield Finding(
            certainty=certainty,
            variant=variant,
            values={"what": what, "on": "cpu" if "cpu" in (found.odd_on, found.other_on) else found.odd_on or "cpu", "line": _place(found) or "?"},
            refs=(*found.raised.cite(), *seen(operands), *made, *printed),
        )
        return


def _place(found: Mismatch) -> str:
    """The user's own line where it happened, with its file."""
    own = found.raised.own()
    name = own[-1].file.replace("\\", "/").rsplit("/", 1)[-1] if own else ""
    return f"{found.line} ({name}:{own[-1].line})" if own and found.line else found.line


RULE = Rule(
    slug="tensor-created-on-cpu",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer",),
    en=Text(
        title="A {what} that the code makes itself is on {on}, while the rest is on the GPU",
        why="torch.zeros, arange, tensor, from_numpy and the like make tensors on the CPU unless they are told a device; .to() on the model moves parameters and buffers only. Here it meets GPU tensors{line:: *|.}",
        fix="Make it where it is used: torch.zeros(n, device=x.device), torch.zeros_like(x), x.new_zeros(n); move NumPy results with torch.from_numpy(a).to(x.device); constants of a module belong in register_buffer. Class weights of a loss: criterion.to(device).",
    ),
    zh=Text(
        title="代码自己创建的 {what} 在 {on} 上，其余张量在 GPU 上",
        why="torch.zeros、arange、tensor、from_numpy 等不指定设备时都建在 CPU；对模型调用 .to() 只移动参数和 buffer。它在这里遇上了 GPU 张量{line:：*|。}",
        fix="在使用处的设备上创建：torch.zeros(n, device=x.device)、torch.zeros_like(x)、x.new_zeros(n)；NumPy 结果用 torch.from_numpy(a).to(x.device)；模块里的常量用 register_buffer。损失的类别权重：criterion.to(device)。",
    ),
    variants={
        "late": (
            Text(
                title="{what} and what is computed from it run on the CPU in each forward pass; the result is copied to the GPU at the end",
                why="A range without a device lies on the CPU, and all that is computed from it runs there, on every core that PyTorch finds, while the GPU waits for the copy ({used}).",
                fix="Give the range the device of the input: torch.arange(..., device=x.device); or compute the table once and keep it with register_buffer.",
            ),
            Text(
                title="{what} 以及由它算出的结果在每次前向时都在 CPU 上计算，最后才复制到 GPU",
                why="没有指定设备的 range 在 CPU 上，由它派生的计算也都在 CPU 上进行，占满 PyTorch 能用的所有核，GPU 则等着这次复制（{used}）。",
                fix="在输入所在的设备上创建：torch.arange(..., device=x.device)；或只算一次，用 register_buffer 保存。",
            ),
        ),
        "plain": (
            Text(
                title="{what} is a plain attribute: model.to('cuda') leaves it on the CPU, where {used} meets it",
                why="Module.to() and .cuda() move parameters, buffers and submodules; a tensor that is merely assigned in __init__ stays where it was made ({code}).",
                fix="In __init__: self.register_buffer('name', tensor, persistent=False); or move it where it is used: .to(x.device).",
            ),
            Text(
                title="{what} 只是普通属性：model.to('cuda') 会把它留在 CPU 上，而 {used} 会用到它",
                why="Module.to() 和 .cuda() 只移动参数、buffer 和子模块；在 __init__ 里直接赋值的张量会留在创建它的地方（{code}）。",
                fix="在 __init__ 中用 self.register_buffer('name', tensor, persistent=False)；或在使用处 .to(x.device)。",
            ),
        ),
        "source": (
            Text(
                title="{code} makes a tensor on the CPU inside the forward pass, where it meets tensors on the GPU",
                why="Without a device the tensor lies on the CPU, wherever the module is. On a GPU this line raises an error, or forces a copy in each step.",
                fix="Make it where the input lies: device=x.device, x.new_zeros(...) or torch.zeros_like(x); a fixed table belongs into __init__ with register_buffer, which .to(device) moves.",
            ),
            Text(
                title="{code} 在前向计算里把张量建在 CPU 上，而它要与 GPU 上的张量一起运算",
                why="不指定设备时张量在 CPU 上，与模块在哪里无关。在 GPU 上运行时这一行会报错，或每步都要复制。",
                fix="建在输入所在的设备上：device=x.device、x.new_zeros(...) 或 torch.zeros_like(x)；固定的表应在 __init__ 里用 register_buffer 注册，.to(device) 会一并移动。",
            ),
        ),
        "layer-source": (
            Text(
                title="{what} is built inside forward: {code} makes a new layer on the CPU, with new weights, at every call",
                why="Nothing moves a layer that is built in forward: its weights lie on the CPU while the input is on the GPU. They are also drawn anew each time, and no optimizer ever trains them.",
                fix="Build it once in __init__ as an attribute (self.layer = {what}(...)), so that .to(device) moves it and the optimizer trains it; for functions without weights use torch.nn.functional.",
            ),
            Text(
                title="{what} 建在 forward 里：{code} 每次调用都在 CPU 上新建一层，权重也是新的",
                why="没有任何东西会移动 forward 里新建的层：它的权重在 CPU，而输入在 GPU。而且每次都重新随机初始化，优化器从不训练它。",
                fix="在 __init__ 里建一次并存为属性（self.layer = {what}(...)），这样 .to(device) 会移动它、优化器会训练它；没有权重的函数用 torch.nn.functional。",
            ),
        ),
        "weight-source": (
            Text(
                title="The {what} of {criterion} lies on the CPU, while what {used} is given is on the GPU",
                why="A loss holds its {what} as a buffer, which moves with the loss only; \"{code}\" was never moved. This stops with \"Expected all tensors to be on the same device\" as soon as there is a GPU.",
                fix="Move the loss as the model: {criterion} = {moved}; or make the {what} on the GPU.",
            ),
            Text(
                title="{criterion} 的 {what} 在 CPU 上，而 {used} 的输入在 GPU 上",
                why="损失函数把 {what} 存为 buffer，只会随损失函数本身移动；“{code}”从未移动过。一旦有 GPU，就会报 \"Expected all tensors to be on the same device\"。",
                fix="像模型一样移动损失函数：{criterion} = {moved}；或者把 {what} 建在 GPU 上。",
            ),
        ),
        "attribute": (
            Text(
                title="Tensors that are mere attributes of {model} are on {on}: {names}",
                why="model.to(device) moves parameters and buffers, and leaves other tensors where they were made. Where forward uses them together with the weights or the input it stops, as soon as the model is on a GPU; copied at each step they cost a transfer and a wait.",
                fix="In __init__: self.register_buffer('name', tensor) (persistent=False keeps it out of the checkpoint); then model.to(device) moves it with the model.",
            ),
            Text(
                title="{model} 有一些只是普通属性的张量，位于 {on}：{names}",
                why="model.to(device) 只移动参数和 buffer，其他张量留在创建处。只要模型在 GPU 上，forward 里把它们和权重或输入一起用就会报错；若每步都复制一次，则要付出传输和等待的代价。",
                fix="在 __init__ 中写 self.register_buffer('name', tensor)（persistent=False 表示不存进检查点）；之后 model.to(device) 会一起移动。",
            ),
        ),
        "layer": (
            Text(
                title="A layer is made inside forward, so its weights stay on {on}",
                why="The line builds a new layer at each call: {line}. It is not part of the model, so model.to(device) never moves it and the optimizer never trains it.",
                fix="Create the layer once in __init__ as an attribute (self.norm = ...), and only call it in forward.",
            ),
            Text(
                title="层是在 forward 里新建的，权重一直在 {on} 上",
                why="这一行每次调用都新建一层：{line}。它不属于模型，model.to(device) 移不到它，优化器也训练不到它。",
                fix="在 __init__ 中创建一次并存为属性（self.norm = ...），forward 里只调用它。",
            ),
        ),
        "collective": (
            Text(
                title="A tensor on the CPU is handed to an NCCL collective",
                why="NCCL moves GPU memory only; all_reduce, all_gather, broadcast and barrier of a CPU tensor need the Gloo backend. Here a tensor on {on} reached the NCCL process group.",
                fix="Make the tensor on this rank's GPU (device=f'cuda:{{local_rank}}'), or start with init_process_group('cpu:gloo,cuda:nccl') so that CPU tensors have a backend too.",
            ),
            Text(
                title="把 CPU 张量交给了 NCCL 集合通信",
                why="NCCL 只搬运 GPU 显存；CPU 张量做 all_reduce、all_gather、broadcast 需要 Gloo 后端。这里有一个 {on} 上的张量进了 NCCL 进程组。",
                fix="在本 rank 的 GPU 上创建张量（device=f'cuda:{{local_rank}}'），或用 init_process_group('cpu:gloo,cuda:nccl')，让 CPU 张量也有后端。",
            ),
        ),
    },
)
