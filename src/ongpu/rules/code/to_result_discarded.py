"""The result of .to() on a tensor is not used."""

import ast
from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.placing import thrown_away
from ongpu.facts.program import Event, Program
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Device, Tensor, Value, may_be_gpu
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, mismatches: Mismatches | None, program: Program | None) -> Iterator[Finding]:
    found = list(_in_source(program)) if program else []
    yield from found
    if symptoms and not found:
        yield from _in_error(symptoms, mismatches)


def _in_source(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        for call in thrown_away(script):
            func = call.call.func
            if not isinstance(func, ast.Attribute):
                continue
            name = call.file.quote(func.value)
            moved = may_be_gpu(call.value.where) if isinstance(call.value, Tensor) else call.name == ".cuda" or _names_gpu(call.arg(0, "device"))
            yield Finding(
                subject=name,
                severity=None if moved else Severity.WARNING,
                certainty=Certainty.CERTAIN if isinstance(call.receiver, Tensor) else Certainty.LIKELY,
                values={"name": name, "line": call.words(), "method": f"{call.name}()"},
                refs=(call.ref(),),
                edits=_kept(call, name),
            )


def _names_gpu(given: Value | None) -> bool:
    return isinstance(given, Device) or (isinstance(given, Const) and str(given.value).startswith("cuda"))


def _kept(call: Event, name: str) -> tuple[Edit, ...]:
    """The result assigned, where the tensor has a plain name."""
    target = call.call.func.value if isinstance(call.call.func, ast.Attribute) else None
    keeps = isinstance(target, ast.Name | ast.Subscript) or (isinstance(target, ast.Attribute) and isinstance(call.receiver, Tensor))
    return (call.file.before(call.node, f"{name} = "),) if keeps else ()  # what a tokenizer gave has items, and attributes to read only


def _in_error(symptoms: Symptoms, mismatches: Mismatches | None) -> Iterator[Finding]:
    lines = symptoms.seen("to-discarded")
    if not lines:
        return
    stays = [m for m in mismatches.found if m.suspect[0] in ("input-not-moved", "device-mismatch", "tensor-created-on-cpu")] if mismatches else []
    refs = (*(hit.ref for hit in lines[:3]), *(stays[0].raised.cite() if stays else ()))
    name, line = lines[0].groups.get("name", "x"), lines[0].ref.quote.strip()
    call = line[max(line.find(f"{name}."), 0) :].partition("#")[0].strip(" │")
    yield Finding(
        certainty=Certainty.LIKELY if stays else Certainty.POSSIBLE,
        values={"name": name, "line": call, "method": ".cuda()" if call.startswith(f"{name}.cuda(") else ".to()"},
        refs=refs,
    )


RULE = Rule(
    slug="to-result-discarded",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("input-not-moved", "device-mismatch", "tensor-created-on-cpu",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html",),
    en=Text(
        title="The result of {method} is thrown away: {name} stays where it was",
        why="For a tensor, {method} returns a copy and changes nothing; only nn.Module moves in place. The line \"{line}\" has no effect on {name}.",
        fix="Assign the result: {name} = {line}.",
    ),
    zh=Text(
        title="{method} 的返回值被丢弃：{name} 仍在原来的设备上",
        why="对张量而言 {method} 返回副本，不改变自身；只有 nn.Module 才会原地移动。“{line}”这一行对 {name} 没有作用。",
        fix="接住返回值：{name} = {line}。",
    ),
)
