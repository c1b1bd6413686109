"""Tensors on different devices meet, and nothing more precise is known."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.operands import Operands, cause, seen, sides
from ongpu.facts.placing import stale
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.values import CPU, CUDA, MAYBE, Const, Device, Module, Tensor
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(mismatches: Mismatches | None, operands: Operands | None, program: Program | None) -> Iterator[Finding]:
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    yield from found
    if mismatches and not found:
        yield from _in_error(mismatches, operands)


CROSSES = ("copy_", "set_", "type_as", "index_select", "forward")  # may bring devices together; what a module is given, input-not-moved tells


def _in_source(script: Script) -> Iterator[Finding]:
    """Operations on a tensor that was brought to the CPU, or never left it, and one on the GPU."""
    yield from _two_cards(script)
    old = {id(mix.node): move for mix, _, move in stale(script)}
    for mix in distinct(script.of("mix")):
        if (move := old.get(id(mix.node))) and mix.name not in CROSSES:
            yield Finding(
                certainty=Certainty.LIKELY, subject=mix.words(), variant="stale",
                values={"one": "cpu", "other": "cuda", "line": mix.line, "code": mix.words(), "what": move.words(60)},
                refs=(mix.ref(), move.ref()),
            )  # fmt: skip
            continue
        parts = [a for a in mix.args if isinstance(a, Tensor) and not a.scalar]
        astray = next((a for a in parts if a.where == CPU and a.seed() is None), None)
        there = next((a for a in parts if a.where in (CUDA, MAYBE)), None)
        if there is not None and there.where == MAYBE and script.says(".is_cuda"):
            continue  # it is moved where another lies there
        if astray is None or there is None or mix.name in CROSSES or mix.name.endswith(("_loss", "cross_entropy", "_with_logits")) or _mixed(astray):
            continue
        yield Finding(
            certainty=Certainty.LIKELY,
            subject=mix.words(),
            variant="source",
            values={"one": "cpu", "other": "cuda", "line": mix.line, "code": mix.words(), "what": _origin(astray)},
            refs=(mix.ref(), *_brought(script, astray)),
        )


def _two_cards(script: Script) -> Iterator[Finding]:
    """A layer of PyTorch on one card and its input on another, both by literal numbers, unconditionally."""
    for call in distinct(script.calls("forward")):
        model = call.receiver
        if not isinstance(model, Module) or model.wraps or model.either or not model.name.startswith("torch.nn.") or not call.args:
            continue
        moves, given = model.moved(call), call.args[0]
        if not moves or model.parts_moved(call) or model.leaks() or not isinstance(given, Tensor):
            continue
        last = moves[-1]
        home = last.device.index if last.device.where == CUDA and not last.device.ranked else None
        brought = next((e for e in script.calls(".to", ".cuda") if e.value is given), given.made if given.origin == "made" else _placed(given, call))
        there = _card(brought) if brought else None
        if home is None or brought is None or there is None or home == there or not (brought.certain and last.event.certain):
            continue
        yield Finding(
            certainty=Certainty.LIKELY,
            subject=call.words(),
            variant="cards-source",
            values={"one": f"cuda:{there}", "other": f"cuda:{home}", "line": call.line, "code": call.words()},
            refs=(call.ref(), brought.ref(), last.event.ref()),
        )


def _placed(output: Tensor, call: Event) -> Event | None:
    """The move of the layer whose output that is: it lies on that layer's card, as long as nothing moves it."""
    layer = output.made.receiver if output.origin == "output" and output.made is not None and output.made.name == "forward" else None
    if not isinstance(layer, Module) or layer.wraps or layer.either or not layer.name.startswith("torch.nn.") or layer.leaks() or layer.parts_moved(call):
        return None
    moves = layer.moved(call)
    return moves[-1].event if moves else None


def _card(event: Event) -> int | None:
    """The card that the call names by a literal number."""
    given = event.arg(0 if event.name in (".to", ".cuda") else None, "device")
    if isinstance(given, Const):
        if isinstance(given.value, str) and given.value.startswith("cuda:") and given.value[5:].isdecimal():
            return int(given.value[5:])
        return given.value if type(given.value) is int else None
    return given.index if isinstance(given, Device) and given.where == CUDA and not given.ranked else None


def _mixed(astray: Tensor) -> bool:
    """Whether what it was computed from may have lain elsewhere, or have been a plain number."""
    return not astray.sized or any(t.scalar for t in astray.parents if isinstance(t, Tensor))


def _origin(astray: Tensor) -> str:
    return {"batch": "a batch of the loader", "output": "a model's output", "input": "an input", "loaded": "what was loaded"}.get(astray.origin, "a tensor")


def _brought(script: Script, astray: Tensor) -> tuple[Ref, ...]:
    """The .cpu() or .to("cpu") that brought it there."""
    moved: Event | None = next((e for e in script.calls(".cpu", ".to") if e.value is astray), None)
    return (moved.ref(),) if moved else ()


def _in_error(mismatches: Mismatches, operands: Operands | None) -> Iterator[Finding]:
    for found in mismatches.found:
        slug, certainty = cause(found, operands)
        if slug != "device-mismatch":
            continue
        variant = "lengths" if found.odd == "lengths" else "generator" if found.odd == "generator" else "gpus" if found.two_gpus else ""
        yield Finding(
            certainty=certainty,
            variant=variant,
            values={"one": sides(found, operands)[0], "other": sides(found, operands)[1], "what": found.odd or "?", "line": found.line or "?"},
            refs=(*found.raised.cite(), *seen(operands)),
        )
        return


RULE = Rule(
    slug="device-mismatch",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://github.com/pytorch/pytorch/issues/43227",),
    en=Text(
        title="Tensors on {one} and on {other} meet in one operation",
        why="Every operand of an operation must lie on one device. The message does not say which tensor is astray; it stands in the line where the traceback enters your own code{line:: *}",
        fix="Print .device of each operand in that line, and move the odd one: x = x.to(device). Make new tensors with device=x.device; keep the model, the inputs and the targets on one device.",
    ),
    zh=Text(
        title="同一个运算里同时用到了 {one} 和 {other} 上的张量",
        why="一次运算的所有操作数必须在同一设备上。报错没有说明是哪个张量放错了位置；看回溯中进入你自己代码的那一行{line:：*}",
        fix="打印该行每个操作数的 .device，把放错的那个移过去：x = x.to(device)。新建张量时写 device=x.device；模型、输入和标签要放在同一设备。",
    ),
    variants={
        "stale": (
            Text(
                title="{code} takes the tensor as it was before {what}: the old name still holds the one on the CPU",
                why="x.to(device) returns a moved copy; every other name of the tensor still means the one on the CPU, and here that name meets tensors on the GPU.",
                fix="Take the moved tensor there, or make the second name after the move.",
            ),
            Text(
                title="{code} 用的是 {what} 之前的张量：旧名字仍指向 CPU 上的那一个",
                why="x.to(device) 返回移动后的副本；该张量的其他名字仍指 CPU 上的那一个，在这里它遇上了 GPU 上的张量。",
                fix="在那里改用移动后的张量，或在移动之后再起第二个名字。",
            ),
        ),
        "source": (
            Text(
                title="{code}: one operand is on the CPU ({what}), the other on the GPU",
                why="PyTorch does not copy between devices on its own; only a CPU tensor without dimensions may take part in an operation on the GPU.",
                fix="Bring both to one place before: .to(other.device), or both to the CPU where only numbers are wanted.",
            ),
            Text(
                title="{code}：一个操作数在 CPU 上（{what}），另一个在 GPU 上",
                why="PyTorch 不会自动在设备间复制；只有没有维度的 CPU 张量才能参与 GPU 上的运算。",
                fix="先把两者放到同一处：.to(other.device)，只需要数值时则都放到 CPU。",
            ),
        ),
        "cards-source": (
            Text(
                title="{code}: the input is on {one}, the layer on {other}",
                why="PyTorch does not copy between GPUs on its own: every operand of an operation must lie on one card. This stops with \"Expected all tensors to be on the same device\".",
                fix="Name one device once, and use it for both: device = torch.device(\"{other}\"); or, where the layers are spread on purpose, move the tensor to the layer's card just before: .to(\"{other}\").",
            ),
            Text(
                title="{code}：输入在 {one} 上，而层在 {other} 上",
                why="PyTorch 不会自动在 GPU 之间复制：一次运算的所有操作数必须在同一块卡上。这里会报 \"Expected all tensors to be on the same device\"。",
                fix="只写一次设备并两处共用：device = torch.device(\"{other}\")；若有意把层分布在多块卡上，就在使用前把张量移到该层所在的卡：.to(\"{other}\")。",
            ),
        ),
        "lengths": (
            Text(
                title="pack_padded_sequence needs its lengths on the CPU, but they are on {one}",
                why="Since PyTorch 1.7 the 'lengths' argument must be a 1D CPU int64 tensor, by design: the lengths are read on the host. Here the lengths went to the GPU with the rest of the batch.",
                fix="Pass lengths.cpu() (or a plain Python list), and keep only the padded data on the GPU.",
            ),
            Text(
                title="pack_padded_sequence 要求 lengths 在 CPU 上，而现在它在 {one}",
                why="自 PyTorch 1.7 起，'lengths' 参数必须是一维的 CPU int64 张量，这是有意的设计：长度要在主机上读取。这里 lengths 随整个 batch 一起被移到了 GPU。",
                fix="传 lengths.cpu()（或普通 Python 列表），只把填充后的数据放在 GPU。",
            ),
        ),
        "generator": (
            Text(
                title="A random generator on {one} is used to make tensors on {other}",
                why="torch.Generator belongs to one device. The generator that was handed over was made for {one}, the tensor is made on {other}.",
                fix="Make the generator on the same device: torch.Generator(device='cuda').manual_seed(0), or make the tensor on the generator's device and move it afterwards.",
            ),
            Text(
                title="用 {one} 上的随机数生成器去创建 {other} 上的张量",
                why="torch.Generator 属于某一个设备。传入的生成器建在 {one}，而张量要建在 {other}。",
                fix="在同一设备上创建生成器：torch.Generator(device='cuda').manual_seed(0)；或者先在生成器所在设备上创建张量，再移过去。",
            ),
        ),
        "gpus": (
            Text(
                title="Tensors on two GPUs, {one} and {other}, meet in one operation",
                why="The model is spread over several GPUs (device_map, pipeline or model parallel, DataParallel), or a part of it names a fixed GPU, and a tensor was not brought to the GPU of the layer that uses it: {line}",
                fix="Move the tensor to the device of the layer: x = x.to(layer.weight.device). With device_map=\"auto\" do not move inputs or layers by hand, and keep blocks whole (no_split_module_classes); otherwise use one GPU: CUDA_VISIBLE_DEVICES=0.",
            ),
            Text(
                title="同一个运算里同时用到了两块 GPU 上的张量：{one} 与 {other}",
                why="模型分布在多块 GPU 上（device_map、流水线或模型并行、DataParallel），或者某处写死了 GPU 编号，张量没有被送到使用它的那一层所在的 GPU：{line}",
                fix="把张量移到该层所在设备：x = x.to(layer.weight.device)。使用 device_map=\"auto\" 时不要手动移动输入或层，并保持模块完整（no_split_module_classes）；或者只用一块 GPU：CUDA_VISIBLE_DEVICES=0。",
            ),
        ),
    },
)
