"""The result of .to() on a tensor is not used."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, mismatches: Mismatches | None) -> Iterator[Finding]:
    lines = symptoms.seen("to-discarded")
    if not lines:
        return
    stays = [m for m in mismatches.found if m.suspect[0] in ("input-not-moved", "device-mismatch", "tensor-created-on-cpu")] if mismatches else []
    refs = (*(hit.ref for hit in lines[:3]), *(stays[0].raised.cite() if stays else ()))
    yield Finding(
        certainty=Certainty.LIKELY if stays else Certainty.POSSIBLE,
        values={"name": lines[0].groups.get("name", "x"), "line": lines[0].ref.quote.strip()},
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
        title="The result of .to() is thrown away: {name} stays where it was",
        why="For a tensor, .to() and .cuda() return a copy and change nothing; only nn.Module moves in place. The line \"{line}\" has no effect on {name}.",
        fix="Assign the result: {name} = {name}.to(device).",
    ),
    zh=Text(
        title=".to() 的返回值被丢弃：{name} 仍在原来的设备上",
        why="对张量而言 .to() 和 .cuda() 返回副本，不改变自身；只有 nn.Module 才会原地移动。“{line}”这一行对 {name} 没有作用。",
        fix="接住返回值：{name} = {name}.to(device)。",
    ),
)
