"""cuDNN searches for the best algorithm anew for each input shape."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Items, Module, Tensor, Value
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, log: TrainingLog | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    told = symptoms.cite("new-size-slow", "shapes-vary", "shape-range", most=2) if symptoms else ()
    found = [finding for script in program.scripts for finding in _in_graph(script, told)] if program and not traceback else []
    yield from found
    if found:
        return
    yield from _in_words(symptoms, traceback, log) if symptoms else ()


RANDOM = ("random.*", "numpy.random.*", "torch.randint", "torch.randperm")


def _in_source(script: Script) -> Iterator[Finding]:
    """Benchmark mode, and modules that are called in a loop with a size that is drawn anew each time."""
    on = next((e for e in script.of("setattr") if e.name.endswith("cudnn.benchmark") and isinstance(e.value, Const) and e.value.value is True), None)
    if on is None:
        return
    detector = next((e for e in script.calls("forward") if e.loop and _resizes(e.receiver)), None)
    if detector is not None:
        values = {"size": detector.words(60), "line": on.line}
        yield Finding(certainty=Certainty.LIKELY, variant="detector", values=values, refs=(on.ref(), detector.ref()))
        return
    drawn = [call for call in script.calls(*RANDOM) if call.loop]
    sized = next((e for e in script.calls(*MADE) if e.at.frame.inside("getitem") and _in_sample(script, e)), None)
    alone = [loader for loader in script.loaders if isinstance(size := loader.setting("batch_size"), Const) and size.value == 1]
    if sized is not None and alone and script.names_cuda:
        yield Finding(certainty=Certainty.LIKELY, variant="source", values={"size": sized.words(60), "line": on.line}, refs=(on.ref(), sized.ref(), alone[0].made.ref()))
        return
    whole = next((e for e in script.calls(*MADE) if e.at.frame.inside("collate") and _in_sample(script, e)), None)  # each batch of its own size
    if whole is not None and script.names_cuda and any(loop.trains for loop in script.loops):
        yield Finding(certainty=Certainty.LIKELY, variant="source", values={"size": whole.words(60), "line": on.line}, refs=(on.ref(), whole.ref()))
        return
    for call in script.calls("forward"):
        varying = next((s for a in call.args if isinstance(a, Tensor) for t in a.line() if t.made and (s := _size(t.made, drawn))), None)
        if call.loop and isinstance(call.receiver, Module) and varying:
            yield Finding(
                certainty=Certainty.LIKELY, variant="source", values={"size": varying.words(60), "line": on.line}, refs=(on.ref(), varying.ref(), call.ref())
            )
            return


def _in_graph(script: Script, told: tuple[Ref, ...]) -> Iterator[Finding]:
    """TensorFlow, which tunes each convolution for each shape by itself (TF_CUDNN_USE_AUTOTUNE is 1 unless set): convolutions on an input
    whose height and width are left open, where the sizes are drawn anew in a loop, or told to vary."""
    if not script.imports & {"tensorflow", "keras"} or script.says("CUDNN_USE_AUTOTUNE"):
        return
    given = next((e for e in script.calls() if e.name.rpartition(".")[2] in ("placeholder", "Input", "InputLayer", "TensorSpec") and _open(e)), None)
    convs = any("conv" in e.name.rpartition(".")[2].lower() for e in script.calls()) or script.says("conv2d", "Conv2D", "applications")
    if given is None or not convs:
        return
    drawn = [call for call in script.calls(*RANDOM) if call.loop or call.at.frame.kind == "function"]
    sized = next((made for made in script.calls(*FED) if _varies(script, made, [d for d in drawn if d.at.frame is made.at.frame])), None)
    if sized is not None or told:
        size = (sized or given).words(60)
        refs = (given.ref(), *((sized.ref(),) if sized else ()), *told)
        yield Finding(certainty=Certainty.LIKELY, variant="graph", values={"size": size, "input": given.words(60)}, refs=refs)


# What makes or fits a picture of a size that it is given.
FED = (
    "numpy.zeros", "numpy.ones", "numpy.empty", "numpy.random.rand", "numpy.random.randn", "numpy.random.random", "numpy.random.uniform",
    "numpy.random.normal", "numpy.resize", "cv2.resize", "skimage.transform.resize", "tensorflow.image.resize", "tensorflow.random.normal",
    "tensorflow.random.uniform", "tensorflow.zeros", "tensorflow.ones",
)  # fmt: skip


def _varies(script: Script, made: Event, drawn: list[Event]) -> bool:
    """Whether a number that was drawn in the same function is among its arguments, or what was computed from one."""
    nodes, names = {id(d.node) for d in drawn}, set[str]()
    function = made.at.frame.function
    for stmt in ast.walk(function.node if function else script.tree):
        if isinstance(stmt, ast.Assign) and _takes(stmt.value, nodes, names):
            names |= {n.id for target in stmt.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return any(_takes(given, nodes, names) for given in (*made.call.args, *(k.value for k in made.call.keywords)))


def _takes(node: ast.expr, nodes: set[int], names: set[str]) -> bool:
    return any(id(n) in nodes or (isinstance(n, ast.Name) and n.id in names) for n in ast.walk(node))


def _open(made: Event) -> bool:
    """Whether two sides of the input, beside the batch's size, are left open: [1, None, None, 3], Input(shape=(None, None, 3))."""
    for value in (*made.args, *(made.kw or {}).values()):
        number = len(value.items) if isinstance(value, Items) else 0
        if isinstance(value, Items) and (number == 4 or (number == 3 and "Input" in made.name)):
            sides = value.items[number - 3 :]
            if sum(isinstance(side, Const) and side.value is None for side in sides) == 2:
                return True
    return False


def _resizes(model: Value | None) -> bool:
    """Whether it is a detector of torchvision that scales each batch to sizes of its own: min_size to max_size, padded to the widest
    image of the batch (GeneralizedRCNNTransform); SSD and SSDlite have one fixed size."""
    name = model.name if isinstance(model, Module) else ""
    return name.startswith("torchvision.models.detection.") and not name.rpartition(".")[2].startswith("ssd")


MADE = ("torch.randn", "torch.rand", "torch.zeros", "torch.ones", "torch.empty", "torch.nn.functional.interpolate")


def _in_sample(script: Script, made: Event) -> bool:
    """Whether a random number of the same sample gives it a size."""
    sizes = [*made.args, *(made.kw or {}).values()]
    drawn = (d for d in script.calls(*RANDOM) if d.at.frame.function is made.at.frame.function)
    return any(_holds(size, d.value) for d in drawn for size in sizes)


def _size(made: Event, drawn: list[Event]) -> Event | None:
    """The random call that gives a size to that one, in the same loop."""
    if made.name not in MADE:
        return None
    sizes = [*made.args, *(made.kw or {}).values()]
    return next((d for d in drawn if d.loop is made.loop and any(_holds(size, d.value) for size in sizes)), None)


def _holds(size: Value, value: Value | None) -> bool:
    return size is value or (isinstance(size, Items) and any(item is value for item in size.items))


def _in_words(symptoms: Symptoms, traceback: Traceback | None, log: TrainingLog | None) -> Iterator[Finding]:
    on = [hit for hit in (*symptoms.seen("cudnn-benchmark"), *symptoms.seen("cudnn-find")) if hit.groups.get("set")]
    new = symptoms.cite("new-size-slow", most=2)
    failed = traceback is not None and any(r.error for r in traceback.raised)
    if not on:
        if new and not failed and symptoms.has("conv-words", "image-words") and not symptoms.has("dynamo-limit", "dynamo-recompile"):
            refs = (*new, *(s.ref for s in (log.speeds[:4] if log else ())))
            yield Finding(certainty=Certainty.LIKELY, variant="told", refs=refs)
        return
    vary = symptoms.cite("shapes-vary", "shape-range", "new-size-slow", most=2)
    shapes = {h.groups["shape"] for h in symptoms.seen("shape-tuple")}
    if len(shapes) > 1:
        vary = (*vary, *symptoms.cite("shape-tuple", most=3))
    again = len(symptoms.seen("cudnn-mxnet-autotune")) >= 3
    if not (vary or again) or failed:
        return
    yield Finding(
        certainty=Certainty.LIKELY,
        values={"set": on[0].groups["set"]}, refs=(*(hit.ref for hit in on[:2]), *vary),
    )


RULE = Rule(
    slug="cudnn-benchmark-variable-shapes",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark", "https://github.com/pytorch/pytorch/issues/2759",),
    en=Text(
        title="cuDNN's benchmark mode is on ({set}) while the input size changes: the search runs again for every new shape",
        why="benchmark tries all algorithms the first time a shape is seen and remembers the result for that shape only. With sizes that vary, many steps are searches: slow, irregular, and with peaks of memory.",
        fix="Turn it off (torch.backends.cudnn.benchmark = False; MXNET_CUDNN_AUTOTUNE_DEFAULT=0; onnxruntime cudnn_conv_algo_search=HEURISTIC), or pad and bucket inputs to a few sizes.",
    ),
    variants={
        "detector": (
            Text(
                title="cuDNN's benchmark mode is on for a detector whose input size changes with each batch ({size})",
                why="torchvision's detectors scale each image to min_size and max_size and pad the batch to its widest image: hardly two batches have one size. Benchmark mode tries all algorithms again for each new size.",
                fix="torch.backends.cudnn.benchmark = False for this training.",
            ),
            Text(
                title="cuDNN benchmark 模式已开启，而该检测模型的输入尺寸每个 batch 都在变化（{size}）",
                why="torchvision 的检测模型会把每张图缩放到 min_size 与 max_size 之间，再把整个 batch 填充到最宽的图：几乎没有两个 batch 尺寸相同。benchmark 模式每遇到新尺寸都要重新试遍算法。",
                fix="这个训练里设 torch.backends.cudnn.benchmark = False。",
            ),
        ),
        "graph": (
            Text(
                title="TensorFlow searches for convolution algorithms again for each new input size ({size})",
                why="{input} leaves height and width open, and the sizes vary. TensorFlow tries all cuDNN algorithms the first time a convolution sees a shape (TF_CUDNN_USE_AUTOTUNE=1 by default) and remembers the result for that shape only: steps with new sizes are slow, repeated sizes are fast.",
                fix="Run with TF_CUDNN_USE_AUTOTUNE=0 (set it before TensorFlow is imported); or resize, pad or bucket the inputs to a few sizes and warm these up.",
            ),
            Text(
                title="TensorFlow 对每种新的输入尺寸都重新搜索卷积算法（{size}）",
                why="{input} 没有固定高和宽，而尺寸在变化。卷积第一次遇到某个形状时，TensorFlow 会试遍 cuDNN 算法（默认 TF_CUDNN_USE_AUTOTUNE=1），结果只对该形状有效：新尺寸的步很慢，重复的尺寸很快。",
                fix="用 TF_CUDNN_USE_AUTOTUNE=0 运行（在导入 TensorFlow 之前设置）；或把输入缩放、填充、分桶成少数几种尺寸并预热。",
            ),
        ),
        "source": (
            Text(
                title="cuDNN's benchmark mode is on while the input size is drawn anew at each turn ({size})",
                why="benchmark tries all algorithms the first time a shape is seen and remembers the result for that shape only. With sizes that vary, many steps are searches: slow, irregular, and with peaks of memory.",
                fix="torch.backends.cudnn.benchmark = False, or pad and bucket the inputs to a few sizes.",
            ),
            Text(
                title="cuDNN benchmark 模式已开启，而输入尺寸每轮都随机变化（{size}）",
                why="benchmark 在第一次遇到某个形状时试遍所有算法，结果只对该形状有效。尺寸不断变化时，许多步都在搜索：慢、时快时慢，显存还有尖峰。",
                fix="torch.backends.cudnn.benchmark = False，或把输入填充、分桶到少数几种尺寸。",
            ),
        ),
        "told": (
            Text(
                title="Each new input size is slow the first time: cuDNN searches for an algorithm again (torch.backends.cudnn.benchmark)",
                why="With benchmark mode on (many scripts and libraries set it), every shape that was not seen before triggers a search over all convolution algorithms; repeated sizes are fast. Compilers (torch.compile, TensorRT, XLA) behave alike.",
                fix="torch.backends.cudnn.benchmark = False (MXNET_CUDNN_AUTOTUNE_DEFAULT=0, TF_CUDNN_USE_AUTOTUNE=0, onnxruntime cudnn_conv_algo_search=HEURISTIC), or resize, pad or bucket the inputs to a few sizes and warm these up.",
            ),
            Text(
                title="每种新的输入尺寸第一次都很慢：cuDNN 在重新搜索算法（torch.backends.cudnn.benchmark）",
                why="开启 benchmark 模式时（许多脚本和库会设置），每个没见过的形状都会触发对所有卷积算法的搜索；重复的尺寸则很快。编译器（torch.compile、TensorRT、XLA）也有类似表现。",
                fix="torch.backends.cudnn.benchmark = False（MXNET_CUDNN_AUTOTUNE_DEFAULT=0、TF_CUDNN_USE_AUTOTUNE=0、onnxruntime cudnn_conv_algo_search=HEURISTIC），或把输入缩放、填充、分桶成少数几种尺寸并预热。",
            ),
        ),
    },
    zh=Text(
        title="cuDNN benchmark 模式已开启（{set}），而输入尺寸在变化：每个新形状都要重新搜索算法",
        why="benchmark 在第一次遇到某个形状时试遍所有算法，结果只对该形状有效。尺寸不断变化时，许多步都在搜索：慢、时快时慢，显存还有尖峰。",
        fix="关掉它（torch.backends.cudnn.benchmark = False；MXNET_CUDNN_AUTOTUNE_DEFAULT=0；onnxruntime 设 cudnn_conv_algo_search=HEURISTIC），或把输入填充/分桶到少数几种尺寸。",
    ),
)
