"""A DistributedSampler shuffles, and nobody tells it the epoch."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Event, Loop, Program, Script
from ongpu.facts.samples import takes
from ongpu.facts.values import Handle
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text

SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


def check(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        if not script.managed and script.says("DistributedSampler") and not _told(script):
            yield from _in_source(script)


def _told(script: Script) -> bool:
    """Whether set_epoch is called anywhere, on whatever."""
    return any(isinstance(node, ast.Attribute) and node.attr == "set_epoch" for node in ast.walk(script.tree))


def _in_source(script: Script) -> Iterator[Finding]:
    """Loaders with such a sampler that a loop trains on, epoch after epoch."""
    for loader in script.loaders:
        sampler = loader.setting("sampler")
        made = sampler.made if isinstance(sampler, Handle) and sampler.name in SAMPLERS else None
        if made is None or (made.arg(3, "shuffle") is not None and made.says("shuffle", ...) is not True):
            continue
        loop = next((lo for lo in script.loops if lo.trains and takes(lo, loader)), None)
        epochs = _around(script, loop) if loop else None
        if loop is None or epochs is None:
            continue
        step = next(e for e in script.events if loop in e.at.loops)
        yield Finding(
            subject=made.words(),
            certainty=Certainty.LIKELY,
            values={"sampler": made.words(60), "loop": step.file.line(loop.node.lineno).strip()[:80]},  # type: ignore[attr-defined]
            refs=(made.ref(), step.file.ref(loop.node)),  # type: ignore[arg-type]
            edits=_call(script, made, step, loop, epochs),
        )


def _around(script: Script, loop: Loop) -> Loop | None:
    """The loop over epochs around that one."""
    inside = next((e for e in script.events if loop in e.at.loops), None)
    outer = inside.at.loops[: inside.at.loops.index(loop)] if inside else ()
    return next((lo for lo in reversed(outer) if lo.kind != "comprehension"), None)


def _call(script: Script, made: Event, step: Event, loop: Loop, epochs: Loop) -> tuple[Edit, ...]:
    """loader.sampler.set_epoch(epoch) in front of the loop over batches: where there always is such a sampler, and both names are known there."""
    node, outer = loop.node, epochs.node
    if not isinstance(node, ast.For) or not isinstance(outer, ast.For) or not made.certain or step.file is not script.file:
        return ()
    over = node.iter
    while isinstance(over, ast.Call) and over.args:
        over = over.args[0]
    inside = any(one is node for one in ast.walk(outer))
    if not inside or not isinstance(over, ast.Name | ast.Attribute) or not isinstance(outer.target, ast.Name) or outer.target.id == "_":
        return ()
    if not isinstance(outer.iter, ast.Call) or not (isinstance(outer.iter.func, ast.Name) and outer.iter.func.id == "range"):
        return ()
    lead = step.file.line(node.lineno)[: node.col_offset]
    return (step.file.before(node, f"{ast.unparse(over)}.sampler.set_epoch({outer.target.id})\n{lead}"),) if not lead.strip() else ()


RULE = Rule(
    slug="sampler-without-set-epoch",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",),
    en=Text(
        title="{sampler} shuffles in the same order in every epoch: set_epoch is never called",
        why="DistributedSampler shuffles with seed + epoch, and its epoch stays 0 unless it is told. Every rank then sees the same samples in the same order in each epoch; training works, and learns worse.",
        fix="Call sampler.set_epoch(epoch) at the begin of each epoch, before the loop over the loader (loader.sampler.set_epoch(epoch) does it too). Lightning and accelerate do so themselves.",
    ),
    zh=Text(
        title="{sampler} 每个 epoch 的打乱顺序都一样：从未调用 set_epoch",
        why="DistributedSampler 用 seed + epoch 打乱，不告诉它时 epoch 一直是 0。于是每个 rank 在每个 epoch 里以同样的顺序看到同样的样本；训练能跑，但学得更差。",
        fix="在每个 epoch 开始、遍历加载器之前调用 sampler.set_epoch(epoch)（loader.sampler.set_epoch(epoch) 也可以）。Lightning 和 accelerate 会自动调用。",
    ),
)
