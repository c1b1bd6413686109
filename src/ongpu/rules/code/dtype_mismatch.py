"""Half, single and double precision (or integer) tensors meet where one type is needed."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.dtypes import FLOATING, SAME, Dtypes, first_layer
from ongpu.facts.objects import FLOATS, Objects, cite
from ongpu.facts.operands import Operands, seen_types
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Loader, Module, Tensor
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_CPU_OPS = lazy(r"_cpu|cpu_|LayerNormKernelImpl|RMSNorm|conv2d_cpu|mkldnn|baddbmm_with_gemm|GeluKernelImpl|upsample_nearest2d_channels_last|softmax_lastdim")

_TARGETS = ("y", "target", "targets", "label", "labels", "1")


def check(
    symptoms: Symptoms | None, traceback: Traceback | None, objects: Objects | None, operands: Operands | None, program: Program | None
) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    yield from _in_objects(objects) if objects else ()
    yield from _in_error(symptoms, traceback, operands) if symptoms else ()


LAYERS = ("torch.nn.Linear", "torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d", "torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")


def _in_source(script: Script) -> Iterator[Finding]:
    """Inputs of one known type for layers of another, outside autocast; class losses whose targets are whole numbers."""
    dtypes = Dtypes(script)
    for call in distinct(script.calls("forward")):
        layer = call.receiver
        if not isinstance(layer, Module) or not call.args or call.at.autocast is not False or script.managed:
            continue
        given = call.args[0]
        first = first_layer(layer)
        if first.name not in (*LAYERS, "torch.nn.Embedding"):
            if layer.name == "torch.nn.BCEWithLogitsLoss" and len(call.args) > 1 and dtypes.of(call.args[1]) == "int64":
                yield _apart(call, "float32", "int64", "source")
            continue
        got = _given(dtypes, given)
        want = dtypes.weights(layer, call) if got else None
        if first.name == "torch.nn.Embedding":
            if got in FLOATING:
                yield _apart(call, "int64", got, "source")
        elif want and got and want != got and dtypes.made(given) is not call:
            yield _apart(call, want, got, "source")


def _given(dtypes: Dtypes, given: object) -> str | None:
    """The type of an input: of the tensor itself, or the only floating type in a loader's batches."""
    if not isinstance(given, Tensor):
        return None
    found = dtypes.of(given)
    if found or given.origin != "batch" or given.made is None or not isinstance(given.made.value, Loader):
        return found
    moved = [e for e in (dtypes.made(t) for t in given.line()) if e is not None]
    if any(e.name != ".to" and e.name not in SAME for e in moved) or any(dtypes.of(t) for t in given.line()):
        return None
    held = dtypes.batches(given.made.value)
    return "float64" if "float64" in held and not held & {None, "float32", "float16", "bfloat16"} else None


def _apart(call: Event, want: str, got: str, variant: str) -> Finding:
    return Finding(
        certainty=Certainty.LIKELY, variant=variant, subject=call.words(),
        values={"want": want, "got": got, "op": call.words(60), "line": call.line, "cast": {"float32": ".float()", "int64": ".long()"}.get(want, f".to(torch.{want})")},
        refs=(call.ref(),),
    )


def _in_objects(objects: Objects) -> Iterator[Finding]:
    """The first floating input against the one floating type of the weights; autocast may still bring half and single together."""
    want = objects.weights_dtype
    given = next((p for p in objects.of("input") if p.dtype in FLOATS and p.last_name not in _TARGETS), None)
    if want is None or given is None or given.dtype == want or objects.autocast:
        return
    double = "float64" in (want, given.dtype)
    yield Finding(
        certainty=Certainty.LIKELY if double else Certainty.POSSIBLE, severity=None if double else Severity.WARNING, variant="live",
        values={"want": want, "got": given.dtype, "op": "?", "line": "?", "name": given.name}, refs=(*cite([given]), *cite(objects.of("parameter"), 1)),
    )


def _in_error(symptoms: Symptoms, traceback: Traceback | None, operands: Operands | None) -> Iterator[Finding]:
    names = ("dtype-found", "dtype-same", "dtype-type", "dtype-conv", "dtype-not-implemented", "dtype-unscale", "dtype-bf16-unsupported", "dtype-flash", "dtype-index")
    aside = {hit.ref for hit in symptoms.seen("feature-stands-aside")} if not symptoms.has("run-ends") else set()  # "falling back to float16"
    hits = [hit for hit in symptoms.seen(*names) if not _devices(hit.groups) and not (hit.name == "dtype-bf16-unsupported" and hit.ref in aside)]
    if not hits:
        return
    first = hits[0]
    want = next((first.groups[key] for key in ("want", "want2", "want3") if first.groups.get(key)), "")
    got = next((first.groups[key] for key in ("got", "got2") if first.groups.get(key)), "")
    operation = first.groups.get("op", "")
    raised = traceback.said("dtype", "scalar type", "to have the same type", "not implemented for", "should be the same", "unscale") if traceback else None
    variant = {"dtype-unscale": "unscale", "dtype-bf16-unsupported": "bf16", "dtype-index": "index"}.get(first.name, "")
    if first.name == "dtype-not-implemented":
        variant = "cpu" if _CPU_OPS.search(operation) and got.lower() in ("half", "bfloat16") else "operation"
    yield Finding(
        certainty=Certainty.LIKELY,
        variant=variant,
        values={"want": want or "one type", "got": got or "another", "op": operation or "the operation", "line": raised.own()[-1].code if raised and raised.own() else "?"},
        refs=(*(hit.ref for hit in hits[:2]), *(raised.cite() if raised else ()), *seen_types(operands)),
    )


def _devices(groups: object) -> bool:
    """Whether "input type and weight type" differ by device, which is not a matter of types."""
    if not isinstance(groups, dict) or "want" not in groups or "got" not in groups:
        return False
    return ("cuda" in groups["want"].lower()) != ("cuda" in groups["got"].lower()) and "tensor" in groups["want"].lower()


RULE = Rule(
    slug="dtype-mismatch",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/amp.html",),
    en=Text(
        title="Tensors of two types meet: {want} was wanted, {got} was given",
        why="The operation wants one dtype for all operands. Typical: a model cast with .half() or bfloat16 gets float32 inputs (or a custom layer, a grid or a mask made in float32), validation casts to half while a custom op does not, or NumPy's float64 reaches float32 weights.{line: The line: *.} Under CUDA autocast, Float against Half can also mean a layer that was left on the CPU.",
        fix="Cast the odd one: x = x.to(other.dtype) (or .float(), .half(), .long()); or cast nothing by hand and use torch.autocast('cuda', dtype=torch.float16) around the forward pass. Where a trainer has the switch, turn half precision off (half=False, amp=False).",
    ),
    zh=Text(
        title="两种类型的张量相遇：需要 {want}，给的是 {got}",
        why="运算要求所有操作数是同一 dtype。常见情形：模型被 .half() 或转成 bfloat16，输入仍是 float32（或自定义层、网格、掩码用 float32 建的）；验证时转成半精度而自定义算子没有转；NumPy 的 float64 遇上 float32 权重。{line:出错行：*。}在 CUDA autocast 下，Float 对 Half 也可能意味着有一层留在了 CPU。",
        fix="把不一致的那个转过去：x = x.to(other.dtype)（或 .float()、.half()、.long()）；或者不手工转换，用 torch.autocast('cuda', dtype=torch.float16) 包住前向。训练器有开关时关掉半精度（half=False、amp=False）。",
    ),
    variants={
        "source": (
            Text(
                title="{op} gets {got} where {want} is needed",
                why="A layer's weights and its input must be of one type outside autocast, and PyTorch converts neither. NumPy makes float64 by itself, PyTorch's layers are float32, ids and class labels are int64.",
                fix="Convert the input where it is made or moved: {cast} (for NumPy .astype(np.float32)); or the model, if it is the model that should change.",
            ),
            Text(
                title="{op} 得到的是 {got}，需要的是 {want}",
                why="在 autocast 之外，层的权重与输入必须是同一类型，PyTorch 不会自动转换。NumPy 默认产生 float64，PyTorch 的层是 float32，id 和类别标签是 int64。",
                fix="在创建或移动输入处转换：{cast}（NumPy 用 .astype(np.float32)）；如果该变的是模型，就转换模型。",
            ),
        ),
        "live": (
            Text(
                title="{name} is {got}, the model's weights are {want}",
                why="A layer wants its input in the type of its weights: the forward pass stops, unless it runs under torch.autocast (which brings float32 and half together, never float64) or the model casts its input itself. NumPy makes float64 by default.",
                fix="x = x.to(next(model.parameters()).dtype), or .float(); for mixed precision keep the weights in float32 and use torch.autocast('cuda', dtype=torch.bfloat16).",
            ),
            Text(
                title="{name} 是 {got}，而模型权重是 {want}",
                why="各层要求输入与权重类型一致：前向会报错，除非在 torch.autocast 下运行（它能调和 float32 与半精度，但不管 float64），或模型自己会转换输入。NumPy 默认产生 float64。",
                fix="x = x.to(next(model.parameters()).dtype) 或 .float()；要用混合精度，权重保持 float32，并使用 torch.autocast('cuda', dtype=torch.bfloat16)。",
            ),
        ),
        "cpu": (
            Text(
                title="{op} has no {got} version on the CPU: a half-precision model is running on the CPU",
                why="The kernel that is missing is a CPU kernel, so the computation does not run on the GPU at all: the model or the input was left on the CPU, or no GPU is available (CPU-only build, driver) while half precision was asked for.",
                fix="First make it run on the GPU: print(torch.cuda.is_available(), next(model.parameters()).device). If the CPU is meant, load the model in float32 (torch_dtype=torch.float32, --no-half, .float()).",
            ),
            Text(
                title="{op} 在 CPU 上没有 {got} 版本：半精度模型正在 CPU 上运行",
                why="缺的是 CPU kernel，说明计算根本不在 GPU 上：模型或输入留在了 CPU，或者没有可用 GPU（CPU 版构建、驱动问题），却要求了半精度。",
                fix="先让它跑在 GPU 上：print(torch.cuda.is_available(), next(model.parameters()).device)。如果就是要用 CPU，请用 float32 加载模型（torch_dtype=torch.float32、--no-half、.float()）。",
            ),
        ),
        "operation": (
            Text(
                title="{op} is not implemented for {got}",
                why="This operation has no kernel for that dtype in this release.{line: The line: *.}",
                fix="Cast around it (x.float(), x.long()), or leave it to autocast; GradScaler is for float16 only, use none with bfloat16.",
            ),
            Text(
                title="{op} 不支持 {got} 类型",
                why="该运算在此版本里没有这种 dtype 的 kernel。{line:出错行：*。}",
                fix="在它前后转换类型（x.float()、x.long()），或交给 autocast；GradScaler 只用于 float16，bfloat16 不需要它。",
            ),
        ),
        "unscale": (
            Text(
                title="GradScaler meets float16 gradients: the weights themselves were cast to half",
                why="GradScaler and autocast want float32 weights; \"Attempting to unscale FP16 gradients\" comes from a model loaded or cast as float16 (model.half(), torch_dtype=torch.float16) with fp16 training on top.",
                fix="Keep the trained weights in float32 (load without torch_dtype=float16, or cast the trainable ones: for p in model.parameters(): if p.requires_grad: p.data = p.data.float()), or train in bf16 without a scaler.",
            ),
            Text(
                title="GradScaler 遇到了 float16 梯度：权重本身被转成了半精度",
                why="GradScaler 与 autocast 要求 float32 权重；“Attempting to unscale FP16 gradients”说明模型是以 float16 加载或转换的（model.half()、torch_dtype=torch.float16），又叠加了 fp16 训练。",
                fix="让参与训练的权重保持 float32（不要用 torch_dtype=float16 加载，或把可训练参数转回：p.data = p.data.float()），或改用不需要 scaler 的 bf16。",
            ),
        ),
        "bf16": (
            Text(
                title="bfloat16 was asked for, and this device or function does not take it",
                why="bfloat16 in hardware needs compute capability 8.0 (Ampere) or newer on NVIDIA; NumPy has no bfloat16 at all. A check that says so can also fail because no GPU is found.",
                fix="Use float16: dtype='float16' (--dtype half), fp16=True instead of bf16=True; before .numpy() cast with .float().",
            ),
            Text(
                title="要求使用 bfloat16，而这个设备或函数不支持",
                why="NVIDIA 上的硬件 bfloat16 需要计算能力 8.0（Ampere）或更新；NumPy 根本没有 bfloat16。若根本没找到 GPU，这类检查也会失败。",
                fix="改用 float16：dtype='float16'（--dtype half），fp16=True 代替 bf16=True；.numpy() 之前先 .float()。",
            ),
        ),
        "index": (
            Text(
                title="Indices must be integers (Long), but {got} was given",
                why="Embedding, gather, one_hot and NLL loss take int64 indices.{line: The line: *.}",
                fix="Cast them: ids = ids.long(); make them with dtype=torch.long.",
            ),
            Text(
                title="索引必须是整数（Long），给的却是 {got}",
                why="Embedding、gather、one_hot 和 NLL 损失只接受 int64 索引。{line:出错行：*。}",
                fix="转换类型：ids = ids.long()；创建时写 dtype=torch.long。",
            ),
        ),
    },
)
