"""The model is on the GPU, the batch or its labels are not."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.objects import Objects, cite, names
from ongpu.facts.operands import Operands, cause, seen, sides
from ongpu.facts.placing import move_of, moved_words, place_of
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CPU, CUDA, Items, Module, Tensor, Value, may_be_gpu
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


class _Astray:
    """What one line gives a model and its loss that never was moved: the words of each, and the calls."""

    def __init__(self, call: Event, where: str, move: str) -> None:
        self.call, self.where, self.move = call, where, move
        self.given: list[tuple[Tensor, ast.expr | None]] = []
        self.others: list[Event] = []  # losses that are given more of it

    def reaches(self, output: Tensor) -> bool:
        """Whether that output was computed from one of these, as it is."""
        mine = {id(given) for given, _ in self.given}
        return any(id(tensor) in mine for tensor in output.line(unmoved=True))


def _in_source(script: Script) -> Iterator[Finding]:
    """One finding for each line that calls a model; what its loss is given joins it, where both stay on the CPU."""
    found: dict[tuple[str, int], _Astray] = {}
    for call in distinct(script.calls("forward")):
        model = call.receiver
        if not isinstance(model, Module) or model.wraps or not model.weighs or call.at.frame.inside("forward"):
            continue  # DataParallel and DistributedDataParallel move their inputs themselves
        where = model.where(call)
        stay = [(given, node) for given, node in _parts(call, model) if _stays(given) and not _counts(call, node)] if may_be_gpu(where) else []
        if stay:
            astray = found.setdefault((call.file.name, call.line), _Astray(call, where, move_of(model, call, script)))
            astray.given += stay
    alone: list[Finding] = []
    heavy = {id(e.node) for e in script.calls("forward") if isinstance(e.receiver, Module) and e.receiver.weighs}  # no losses
    for mix in distinct(script.of("mix")):
        if id(mix.node) in heavy:
            continue
        loss = mix.name == "forward" or mix.name.endswith(("_loss", "cross_entropy", "_with_logits"))
        if not loss or mix.at.frame.inside("forward") or len(mix.args) < 2:
            continue
        output, target = mix.args[:2]
        if not isinstance(output, Tensor) or not isinstance(target, Tensor) or not may_be_gpu(output.where) or output.origin not in ("output", "derived"):
            continue
        if not _stays(target) or _constant(target):
            continue
        node = _node(script, mix, target)
        with_inputs = next((astray for astray in found.values() if astray.reaches(output)), None)
        if with_inputs:
            with_inputs.given.append((target, node))
            with_inputs.others.append(mix)
        else:
            alone.append(_labels(script, mix, output, target, node))
    yield from (_finding(astray) for astray in found.values())
    yield from alone


def _parts(call: Event, model: Module) -> Iterator[tuple[Value, ast.expr | None]]:
    """What the model is given, with its words; for PyTorch's own layers also what stands in tuples: the state of an LSTM."""
    given = [(value, call.given(place)) for place, value in enumerate(call.args)]
    given += [(value, call.given(None, name)) for name, value in (call.kw or {}).items()]
    for value, node in given:
        if isinstance(value, Items) and value.keys is None and model.name.startswith("torch.nn."):
            apart = node.elts if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == len(value.items) else [node] * len(value.items)
            yield from ((item, part) for item, part in zip(value.items, apart, strict=True) if not _constant(item))
        else:
            yield value, node


def _node(script: Script, mix: Event, target: Tensor) -> ast.expr | None:
    """The words of the target among the arguments of the loss."""
    for event in script.of("call"):
        if event.node is mix.node and isinstance(event.node, ast.Call):
            places = [event.given(place) for place, value in enumerate(event.args) if value is target]
            places += [event.given(None, name) for name, value in (event.kw or {}).items() if value is target]
            if places:
                return places[0]
    return None


CONSTANTS = ("torch.zeros", "torch.ones", "torch.full", "torch.arange", "torch.eye", "torch.linspace")


def _constant(target: object) -> bool:
    """Whether the code makes it itself at each step: tensor-created-on-cpu tells that."""
    seed = target.seed() if isinstance(target, Tensor) else None
    return seed is not None and seed.name in CONSTANTS and seed.loop is not None


def _counts(call: Event, node: ast.expr | None) -> bool:
    """Whether it is named as lengths are, which pack_padded_sequence wants on the CPU."""
    return node is not None and "len" in call.file.segment(node).lower()


def _stays(value: object) -> TypeGuard[Tensor]:
    """Whether it is a batch or a new tensor that was never moved from the CPU."""
    return isinstance(value, Tensor) and value.where == CPU and not value.scalar and value.origin in ("batch", "made", "derived")


def _finding(astray: _Astray) -> Finding:
    call = astray.call
    nodes = {call.file.quote(node): node for _, node in astray.given if node is not None}
    names = list(nodes) or ["the input"]
    single = len(names) == 1
    piece = single and bool(nodes) and isinstance(nodes[names[0]], ast.Name) and astray.given[0][0].origin == "batch" and not astray.given[0][0].parents
    spread = call.given(None, "**") if isinstance(call.node, ast.Call) else None
    by_item = f"{{k: v{astray.move} for k, v in {names[0]}.items()}}"
    moved = f"{names[0]} = {by_item}" if single and spread is not None and spread is nodes.get(names[0]) else moved_words(call.file, [*nodes.values()], astray.move) or astray.move
    return Finding(
        subject=call.words(),
        variant="source" if single else "sources",
        certainty=Certainty.CERTAIN if astray.where == CUDA else Certainty.LIKELY,
        values={
            "what": names[0] if single else ", ".join(names), "first": ", ".join(names[:-1]), "last": names[-1], "line": call.line, "model": place_of(astray.move),
            "code": (astray.others or [call])[0].words(), "moved": moved, "by_item": by_item if piece else "?",
        },
        refs=(call.ref(), *(e.ref() for e in astray.others), *(given.made.ref() for given, _ in astray.given if given.made)),
    )  # fmt: skip


def _labels(script: Script, loss: Event, output: Tensor, target: Tensor, node: ast.expr | None) -> Finding:
    """Only the labels stay; the output came from a model on the GPU."""
    made = next((t.made for t in output.line(unmoved=True) if t.made and t.made.name == "forward" and isinstance(t.made.receiver, Module) and t.made.receiver.weighs), None)
    move = move_of(made.receiver, loss, script) if made and isinstance(made.receiver, Module) else ".to(device)"
    return Finding(
        subject=loss.words(),
        variant="target-source",
        certainty=Certainty.CERTAIN if output.where == CUDA else Certainty.LIKELY,
        values={
            "what": loss.file.quote(node) if node is not None else "?", "line": loss.line, "code": loss.words(), "model": place_of(move),
            "moved": moved_words(loss.file, [node], move) if node is not None else f"targets = targets{move}",
        },
        refs=(loss.ref(), *((target.made.ref(),) if target.made else ())),
    )  # fmt: skip


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
                fix="Move it before the forward pass and keep the result: {moved}{by_item:; of a dictionary, item by item: *}.",
            ),
            Text(
                title="{what} 从未移到模型所在的 GPU（第 {line} 行）",
                why="模型已移到 {model}，而“{code}”送进去的数据仍在 CPU 上。一旦有 GPU，就会报 \"Expected all tensors to be on the same device\"。",
                fix="在前向之前移动它并接住返回值：{moved}{by_item:；字典要逐项移动：*}。",
            ),
        ),
        "sources": (
            Text(
                title="{first} and {last} are never moved to the GPU, where the model is (line {line})",
                why="The model is moved to {model}, while {first} and {last} are still on the CPU when they are used (\"{code}\"). This stops with \"Expected all tensors to be on the same device\" as soon as there is a GPU.",
                fix="Move them before the forward pass and keep the results: {moved}.",
            ),
            Text(
                title="{first} 和 {last} 从未移到模型所在的 GPU（第 {line} 行）",
                why="模型已移到 {model}，而 {first} 和 {last} 在使用时（“{code}”）仍在 CPU 上。一旦有 GPU，就会报 \"Expected all tensors to be on the same device\"。",
                fix="在前向之前移动它们并接住返回值：{moved}。",
            ),
        ),
        "target-source": (
            Text(
                title="{what:The labels *|The labels} at line {line} are still on the CPU, while the model's output is on the GPU",
                why="The model is on {model}, and so is what it gives; the labels that \"{code}\" is given never were moved there.",
                fix="Move the labels too, and keep the result: {moved}.",
            ),
            Text(
                title="第 {line} 行的标签{what: *|}仍在 CPU 上，而模型输出在 GPU 上",
                why="模型在 {model}，输出也在那里；而“{code}”用到的标签没有移过去。",
                fix="同样移动标签并接住返回值：{moved}。",
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
