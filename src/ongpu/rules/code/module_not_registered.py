"""Layers are kept in a plain list or dict, so that .to() and the optimizer do not see them."""

import ast
from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.objects import Objects, cite, names
from ongpu.facts.operands import Operands, cause, seen
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Class, Items, Module
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text


def check(
    mismatches: Mismatches | None, symptoms: Symptoms | None, objects: Objects | None, operands: Operands | None, program: Program | None
) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    yield from _in_objects(objects) if objects else ()
    yield from _in_error(mismatches, symptoms, operands)


def _in_source(script: Script) -> Iterator[Finding]:
    """Attributes of a module that hold layers in a plain list, dict or tuple, and that its other methods use."""
    for event in distinct(script.of("setattr")):
        owner, held = event.receiver, event.value
        if not isinstance(owner, Module) or not isinstance(owner.cls, Class) or owner.cls.kind not in ("module", "lightning"):
            continue
        if isinstance((owner.attrs or {}).get(event.name), Module):
            continue  # in the end it holds a ModuleList: the list was only its making
        layers = [item for item in held.items if isinstance(item, Module) and item.sure and item.weighs and not _transforms(item) and item.root is not owner.root] if isinstance(held, Items) else []
        if not layers or not _used(owner.cls, event.name) or any(_registers(call, owner) for call in script.calls(".add_module", ".register_module", "setattr")):
            continue
        yield Finding(
            subject=f"{owner.cls.name}.{event.name}",
            certainty=Certainty.LIKELY,
            variant="source",
            values={"name": f"self.{event.name}", "model": owner.cls.name, "kind": held.kind if isinstance(held, Items) else "list", "line": event.line},
            refs=(event.ref(), *((layers[0].made.ref(),) if layers[0].made and layers[0].made.line != event.line else ())),
            edits=_wrapped(event),
        )


TRANSFORMS = ("torchaudio.transforms.", "torchvision.transforms.", "kornia.augmentation.")


def _transforms(layer: Module) -> bool:
    """Whether all that it is made of changes samples and learns nothing."""
    parts = [part for part in (layer.attrs or {}).values() if isinstance(part, Module)] if isinstance(layer.cls, Class) else []
    return layer.name.startswith(TRANSFORMS) or (bool(parts) and all(_transforms(part) for part in parts))


def _used(cls: Class, name: str) -> bool:
    """Whether a method other than __init__ reads that attribute of self."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
        for method in cls.methods() if method.name != "__init__"
        for node in ast.walk(method.node)
    )  # fmt: skip


def _registers(call: Event, owner: Module) -> bool:
    """Whether the layers are registered one by one beside the list."""
    return call.receiver is owner or (bool(call.args) and call.args[0] is owner)


def _wrapped(event: Event) -> tuple[Edit, ...]:
    """nn.ModuleList around a list that is written out in the assignment."""
    given = event.stmt.value if isinstance(event.stmt, ast.Assign | ast.AnnAssign) else None
    full = isinstance(given, ast.ListComp) or (isinstance(given, ast.List) and bool(given.elts))
    if given is None or not full or "nn." not in event.file.text:
        return ()
    return (event.file.before(given, "nn.ModuleList("), event.file.after(given, ")"))


def _in_objects(objects: Objects) -> Iterator[Finding]:
    escaped = objects.escaped()
    if not escaped:
        return
    sure = [p for p in escaped if p.kind != "tensor"]
    apart = any(objects.working() and p.device != objects.home for p in sure)
    yield Finding(
        certainty=Certainty.POSSIBLE if not sure else Certainty.CERTAIN if apart or objects.optimizer else Certainty.LIKELY,
        severity=None if sure else Severity.WARNING, variant="live", refs=cite(sure or escaped),
        values={"names": names(sure or escaped), "model": objects.model, "held": (sure or escaped)[0].held, "count": len(sure or escaped), "line": "?"},
    )


def _in_error(mismatches: Mismatches | None, symptoms: Symptoms | None, operands: Operands | None) -> Iterator[Finding]:
    if symptoms and symptoms.has("empty-parameter-list"):
        yield Finding(certainty=Certainty.LIKELY, variant="empty", refs=symptoms.cite("empty-parameter-list"))
        return
    none = symptoms.cite("parameters-empty", most=2) if symptoms else ()
    if none:
        yield Finding(certainty=Certainty.LIKELY, variant="empty", refs=(*none, *symptoms.cite("list-of-modules", "modules-appended", most=2)))  # type: ignore[union-attr]
        return
    listed = symptoms.cite("list-of-modules", "modules-appended", "plain-list-told", most=2) if symptoms else ()
    for found in mismatches.found if mismatches else ():
        slug, certainty = cause(found, operands)
        both = bool(symptoms and symptoms.has("list-of-modules") and (symptoms.has("modules-appended") or any("nn." in h.ref.quote for h in symptoms.seen("list-of-modules"))))
        if listed and (both or slug == "model-not-moved" or found.odd in ("weight", "class weight") or (found.odd is None and symptoms and symptoms.has("modules-appended", "plain-list-told"))):
            yield Finding(certainty=Certainty.LIKELY, variant="listed", values={"line": listed[0].quote}, refs=(*found.raised.cite(), *listed))
            return
        if slug == "module-not-registered":
            yield Finding(certainty=certainty, values={"line": found.line or "?"}, refs=(*found.raised.cite(), *seen(operands)))
            return


RULE = Rule(
    slug="module-not-registered",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("input-not-moved", "model-not-moved", "device-mismatch", "tensor-created-on-cpu",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html",),
    en=Text(
        title="Layers taken from a list or dict still have their weights on the CPU",
        why="The line that failed runs through a collection of layers: {line}. nn.Module only registers modules that are attributes; those in a plain Python list, tuple or dict are not moved by .to(device), not trained and not saved.",
        fix="Hold them in nn.ModuleList(...) or nn.ModuleDict(...) (parameters: nn.ParameterList), tensors in register_buffer; then model.to(device) reaches them.",
    ),
    zh=Text(
        title="从列表或字典中取出的层，权重还在 CPU 上",
        why="出错的那一行正在遍历一组层：{line}。nn.Module 只注册作为属性的模块；放在普通 Python 列表、元组或字典里的层不会被 .to(device) 移动、不会被训练，也不会被保存。",
        fix="改用 nn.ModuleList(...) 或 nn.ModuleDict(...)（参数用 nn.ParameterList），张量用 register_buffer；这样 model.to(device) 才能移到它们。",
    ),
    variants={
        "source": (
            Text(
                title="{name} of {model} keeps layers in a plain {kind}: .to(), state_dict() and the optimizer do not see them",
                why="Only attributes that are modules are registered. Layers in a plain list or dict stay on the CPU when the model is moved, are not trained, and are missing from checkpoints.",
                fix="nn.ModuleList([...]) for a list, nn.ModuleDict({{...}}) for a dict, nn.Sequential(...) where they follow one another.",
            ),
            Text(
                title="{model} 的 {name} 把层放在普通的 {kind} 里：.to()、state_dict() 和优化器都看不到",
                why="只有本身是模块的属性才会被注册。放在普通列表或字典里的层，在移动模型时留在 CPU，不会被训练，检查点里也没有。",
                fix="列表用 nn.ModuleList([...])，字典用 nn.ModuleDict({{...}})，依次执行的用 nn.Sequential(...)。",
            ),
        ),
        "live": (
            Text(
                title="{model} does not know of parameters that it holds ({held}): {names}",
                why="{count} parameters stand in a plain list, tuple, dict or attribute of the model. model.parameters() does not give them: .to(device) leaves them where they are, the optimizer does not train them, state_dict() does not save them.",
                fix="Hold layers in nn.ModuleList or nn.ModuleDict, parameters in nn.ParameterList or as nn.Parameter attributes, constants with register_buffer. A frozen helper that is hidden on purpose has to be moved by hand, and its parameters set to requires_grad_(False).",
            ),
            Text(
                title="{model} 持有一些没有注册的参数（{held}）：{names}",
                why="有 {count} 个参数放在模型的普通列表、元组、字典或属性里。model.parameters() 不包含它们：.to(device) 不移动、优化器不训练、state_dict() 不保存。",
                fix="层放进 nn.ModuleList 或 nn.ModuleDict，参数放进 nn.ParameterList 或设为 nn.Parameter 属性，常量用 register_buffer。若是有意隐藏的冻结子模块，需要手动移动，并对其参数 requires_grad_(False)。",
            ),
        ),
        "listed": (
            Text(
                title="Modules are kept in a plain Python list or dict, so .to(device) does not reach them: {line}",
                why="nn.Module (and Lightning) only moves modules and parameters that are registered as attributes. What stands in a list, tuple or dict (layers, or criteria with class weights) stays on the CPU, is not trained and not saved.",
                fix="Use nn.ModuleList([...]) or nn.ModuleDict({{...}}); parameters in nn.ParameterList, tensors in register_buffer.",
            ),
            Text(
                title="模块放在普通 Python 列表或字典里，.to(device) 移不到它们：{line}",
                why="nn.Module（以及 Lightning）只移动作为属性注册的模块和参数。放在列表、元组或字典里的东西（层，或带类别权重的损失函数）会留在 CPU，不会被训练，也不会保存。",
                fix="改用 nn.ModuleList([...]) 或 nn.ModuleDict({{...}})；参数用 nn.ParameterList，张量用 register_buffer。",
            ),
        ),
        "empty": (
            Text(
                title="The model has no parameters that the optimizer could see",
                why="model.parameters() is empty. Usually the layers stand in a plain Python list or dict, or are not assigned as attributes in __init__: they are not registered, so neither .to(device) nor the optimizer finds them.",
                fix="Hold layers in nn.ModuleList or nn.ModuleDict and assign them to self in __init__ (after super().__init__()); then build the optimizer.",
            ),
            Text(
                title="优化器看不到模型的任何参数",
                why="model.parameters() 是空的。通常是层放在普通 Python 列表或字典里，或没有在 __init__ 中赋给属性：没有注册，.to(device) 和优化器都找不到它们。",
                fix="用 nn.ModuleList 或 nn.ModuleDict 存放层，并在 __init__（super().__init__() 之后）赋给 self；然后再创建优化器。",
            ),
        ),
    },
)
