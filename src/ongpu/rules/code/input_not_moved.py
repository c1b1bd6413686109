"""The model is on the GPU, the batch or its labels are not."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.objects import Objects, cite, names
from ongpu.facts.operands import Operands, cause, seen, sides
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CPU, CUDA, Module, Tensor, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, program: Program | None, objects: Objects | None, operands: Operands | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    yield from found
    if mismatches and not found and not (program and _made_there(program, mismatches)):
        yield from _in_error(mismatches, operands)
    elif symptoms and not found and symptoms.value("input", "hf-model-device") == "cpu":  # transformers warns, and goes on slowly
        yield Finding(
            certainty=Certainty.LIKELY, severity=Severity.WARNING, refs=symptoms.cite("hf-model-device", most=2),
            values={"what": f"the batch ({symptoms.value('name', 'hf-model-device')})", "on": "cpu", "model": symptoms.value("model", "hf-model-device"), "line": "?", "code": "?"},
        )
    astray = objects.inputs_astray() if objects else ()
    if astray and objects:
        yield Finding(
            certainty=Certainty.LIKELY, variant="live", refs=(*cite(astray, 3), *cite(objects.of("parameter"), 1)),
            values={"what": names(astray), "on": astray[0].array or astray[0].device, "model": objects.home, "line": "?", "code": "?"},
        )


def _in_source(script: Script) -> Iterator[Finding]:
    for call in distinct(script.calls("forward")):
        model = call.receiver
        if not isinstance(model, Module) or model.wraps or not model.weighs or call.at.frame.inside("forward"):
            continue  # DataParallel and DistributedDataParallel move their inputs themselves
        where = model.where(call)
        for given in (*call.args, *(call.kw or {}).values()):
            if may_be_gpu(where) and _stays(given) and not _counts(call, given):
                yield _finding(call, given, where, "source")
                break
    heavy = {id(e.node) for e in script.calls("forward") if isinstance(e.receiver, Module) and e.receiver.weighs}  # no losses
    for mix in distinct(script.of("mix")):
        if id(mix.node) in heavy:
            continue
        loss = mix.name == "forward" or mix.name.endswith(("_loss", "cross_entropy", "_with_logits"))
        if not loss or mix.at.frame.inside("forward") or len(mix.args) < 2:
            continue
        output, target = mix.args[:2]
        if isinstance(output, Tensor) and may_be_gpu(output.where) and output.origin in ("output", "derived") and _stays(target) and not _constant(target):
            yield _finding(mix, target, output.where, "target-source")


CONSTANTS = ("torch.zeros", "torch.ones", "torch.full", "torch.arange", "torch.eye", "torch.linspace")


def _constant(target: object) -> bool:
    """Whether the code makes it itself at each step: tensor-created-on-cpu tells that."""
    seed = target.seed() if isinstance(target, Tensor) else None
    return seed is not None and seed.name in CONSTANTS and seed.loop is not None


def _counts(call: Event, given: object) -> bool:
    """Whether it is named as lengths are, which pack_padded_sequence wants on the CPU."""
    words = [call.given(place, "") for place, value in enumerate(call.args) if value is given]
    words += [call.given(None, name) for name, value in (call.kw or {}).items() if value is given]
    return any(node is not None and "len" in call.file.segment(node).lower() for node in words)


def _stays(value: object) -> bool:
    """Whether it is a batch or a new tensor that was never moved from the CPU."""
    return isinstance(value, Tensor) and value.where == CPU and not value.scalar and value.origin in ("batch", "made", "derived")


def _finding(call: Event, given: object, where: str, variant: str) -> Finding:
    places = [place for place, value in enumerate(call.args) if value is given]
    names = [name for name, value in (call.kw or {}).items() if value is given]
    node = call.given(places[0] if places else None, *names[:1]) if call.kind == "call" else None
    return Finding(
        subject=call.words(),
        variant=variant,
        certainty=Certainty.CERTAIN if where == CUDA else Certainty.LIKELY,
        values={"what": call.file.quote(node) if node is not None else "the input", "line": call.line, "code": call.words(), "model": "cuda"},
        refs=(call.ref(), *((given.made.ref(),) if isinstance(given, Tensor) and given.made else ())),
    )


def _made_there(program: Program, mismatches: Mismatches) -> bool:
    """Whether the source shows that what failed there was made in that same forward pass: no input, another rule's business."""
    lines = {found.raised.own()[-1].line for found in mismatches.found if found.raised.own()}
    return any(
        isinstance(given, Tensor) and given.where == CPU and any(t.origin == "made" and t.made and t.made.at.frame is call.at.frame for t in given.line())
        for script in program.scripts
        for call in script.calls("forward")
        if call.line in lines and call.at.frame.inside("forward") is not None
        for given in call.args
    )


def _in_error(mismatches: Mismatches, operands: Operands | None) -> Iterator[Finding]:
    for found in mismatches.found:
        slug, certainty = cause(found, operands)
        if slug != "input-not-moved":
            continue
        variant = "xgboost" if found.odd == "xgboost input" else "target" if found.odd == "target" else ""
        yield Finding(
            certainty=certainty,
            severity=Severity.WARNING if variant == "xgboost" else None,
            variant=variant,
            values={"what": found.odd or "input", "on": sides(found, operands)[0], "model": sides(found, operands)[1], "line": found.line or "?"},
            refs=(*found.raised.cite(), *seen(operands)),
        )
        return


RULE = Rule(
    slug="input-not-moved",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html",),
    en=Text(
        title="The input is on {on} while the model's weights are on {model}",
        why="The model was moved to the GPU, the batch that it is given was not{line:: *}. If the code does call .to() on the batch, its result was thrown away: for a tensor, x.to(device) returns a copy and leaves x where it was.",
        fix="Move each batch before the forward pass and keep the result: inputs, targets = inputs.to(device), targets.to(device). Dictionaries and lists have to be moved item by item: batch = {{k: v.to(device) for k, v in batch.items()}}.",
    ),
    zh=Text(
        title="输入在 {on} 上，而模型权重在 {model} 上",
        why="模型已经移到 GPU，但送进去的 batch 没有移过去{line:：*}。如果代码里确实写了 .to()，那就是返回值被丢掉了：对张量而言 x.to(device) 返回副本，x 本身不动。",
        fix="在前向之前移动每个 batch 并接住返回值：inputs, targets = inputs.to(device), targets.to(device)。字典和列表要逐项移动：batch = {{k: v.to(device) for k, v in batch.items()}}。",
    ),
    variants={
        "live": (
            Text(
                title="Of the batch, {what} is not on {model}, where the model is (but: {on})",
                why="The whole model sits on {model}; what the batch holds on another device, or as a NumPy array, has to be moved before the forward pass. (Trainers that move batches themselves do it later than this check.)",
                fix="Move each batch and keep the result: x = x.to(device); dictionaries item by item: batch = {{k: v.to(device) for k, v in batch.items()}}; arrays: torch.from_numpy(a).to(device).",
            ),
            Text(
                title="batch 中的 {what} 不在模型所在的 {model} 上（而在：{on}）",
                why="整个模型都在 {model}；batch 中位于其他设备的张量或 NumPy 数组必须在前向之前移动。（会自动移动 batch 的训练器在此检查之后才移动。）",
                fix="移动每个 batch 并接住返回值：x = x.to(device)；字典逐项移动：batch = {{k: v.to(device) for k, v in batch.items()}}；数组：torch.from_numpy(a).to(device)。",
            ),
        ),
        "source": (
            Text(
                title="{what} is never moved to the GPU, where the model is (line {line})",
                why="The model is moved to {model}, but what \"{code}\" gives it is still on the CPU. This stops with \"Expected all tensors to be on the same device\" as soon as there is a GPU.",
                fix="Move each batch before the forward pass and keep the result: {what} = {what}.to(device); of a dictionary, item by item: {{k: v.to(device) for k, v in {what}.items()}}.",
            ),
            Text(
                title="{what} 从未移到模型所在的 GPU（第 {line} 行）",
                why="模型已移到 {model}，而“{code}”送进去的数据仍在 CPU 上。一旦有 GPU，就会报 \"Expected all tensors to be on the same device\"。",
                fix="在前向之前移动每个 batch 并接住返回值：{what} = {what}.to(device)；字典要逐项移动：{{k: v.to(device) for k, v in {what}.items()}}。",
            ),
        ),
        "target-source": (
            Text(
                title="The labels at line {line} are still on the CPU, while the model's output is on the GPU",
                why="The model and its inputs are on {model}; the second argument of \"{code}\" never was moved there.",
                fix="Move the targets with the inputs: targets = targets.to(device).",
            ),
            Text(
                title="第 {line} 行的标签仍在 CPU 上，而模型输出在 GPU 上",
                why="模型和输入都在 {model}，而“{code}”的第二个参数没有移过去。",
                fix="和输入一起移动标签：targets = targets.to(device)。",
            ),
        ),
        "target": (
            Text(
                title="The labels are on {on} while the model's output is on {model}",
                why="The inputs were moved to the GPU, the targets for the loss were not{line:: *}.",
                fix="Move the targets with the inputs: targets = targets.to(device).",
            ),
            Text(
                title="标签在 {on} 上，而模型输出在 {model} 上",
                why="输入已移到 GPU，但计算损失用的标签没有移过去{line:：*}。",
                fix="和输入一起移动标签：targets = targets.to(device)。",
            ),
        ),
        "xgboost": (
            Text(
                title="XGBoost trains on {model}, but the data given to predict is on the CPU",
                why="Training does use the GPU. At predict time a NumPy or pandas input lies in host memory, so XGBoost builds a DMatrix first: slower, not wrong. It is a hint about performance.",
                fix="Give predict data on the same device (a CuPy array, or a DMatrix with Booster.predict), or set the booster to the CPU before predicting (set_params(device='cpu')); or ignore the warning.",
            ),
            Text(
                title="XGBoost 在 {model} 上训练，而传给 predict 的数据在 CPU 上",
                why="训练确实用了 GPU。预测时的 NumPy 或 pandas 输入在主机内存里，XGBoost 需要先构建 DMatrix：只是变慢，结果没有错。这是一条性能提示。",
                fix="给 predict 传同一设备上的数据（CuPy 数组，或用 DMatrix 调 Booster.predict）；或在预测前把模型设到 CPU（set_params(device='cpu')）；也可以忽略该警告。",
            ),
        ),
    },
)
