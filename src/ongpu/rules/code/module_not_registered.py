"""Layers are kept in a plain list or dict, so that .to() and the optimizer do not see them."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    if symptoms and symptoms.has("empty-parameter-list"):
        yield Finding(certainty=Certainty.LIKELY, variant="empty", refs=symptoms.cite("empty-parameter-list"))
        return
    none = symptoms.cite("parameters-empty", most=2) if symptoms else ()
    if none:
        yield Finding(certainty=Certainty.LIKELY, variant="empty", refs=(*none, *symptoms.cite("list-of-modules", "modules-appended", most=2)))  # type: ignore[union-attr]
        return
    listed = symptoms.cite("list-of-modules", "modules-appended", "plain-list-told", most=2) if symptoms else ()
    for found in mismatches.found if mismatches else ():
        slug, certainty = found.suspect
        both = bool(symptoms and symptoms.has("list-of-modules") and (symptoms.has("modules-appended") or any("nn." in h.ref.quote for h in symptoms.seen("list-of-modules"))))
        if listed and (both or slug == "model-not-moved" or found.odd in ("weight", "class weight", None)):
            yield Finding(certainty=Certainty.LIKELY, variant="listed", values={"line": listed[0].quote}, refs=(*found.raised.cite(), *listed))
            return
        if slug == "module-not-registered":
            yield Finding(certainty=certainty, values={"line": found.line or "?"}, refs=found.raised.cite())
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
