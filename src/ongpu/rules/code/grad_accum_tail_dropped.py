"""The last, incomplete group of batches of an epoch is never stepped."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.program import Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.windows import Window, begun, counter, over_loader, windows
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text


def check(log: TrainingLog | None, symptoms: Symptoms | None, dryrun: DryRun | None, program: Program | None) -> Iterator[Finding]:
    if dryrun:
        yield from _in_run(dryrun)
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
    if log and log.batches and log.accumulation and log.accumulation > 1 and log.optimizer_steps is not None and log.epochs:
        full, left = divmod(log.batches, log.accumulation)
        if left and log.optimizer_steps == log.epochs * full:  # full may be 0: the epoch is shorter than one group, and nothing is ever learnt
            yield Finding(
                certainty=Certainty.LIKELY,
                values={"batches": log.batches, "steps": log.accumulation, "left": left, "total": log.optimizer_steps},
                refs=log.about("announced"),
            )
            return
    told = symptoms.cite("tail-words", most=3) if symptoms else ()
    modulo = symptoms.cite("modulo-step", most=2) if symptoms else ()
    if modulo and log and log.batches and log.accumulation and log.accumulation > 1 and log.batches % log.accumulation and not (symptoms and symptoms.has("steps-on-last")):
        left = log.batches % log.accumulation
        yield Finding(
            certainty=Certainty.LIKELY, variant="modulo", values={"batches": log.batches, "steps": log.accumulation, "left": left},
            refs=(*modulo, *log.about("announced")),
        )
        return
    odd = symptoms.cite("accum-boundary-told", most=3) if symptoms else ()
    if odd and log and log.batches and log.accumulation and log.accumulation > 1 and log.batches % log.accumulation:
        left = log.batches % log.accumulation
        yield Finding(
            certainty=Certainty.LIKELY, variant="modulo", values={"batches": log.batches, "steps": log.accumulation, "left": left},
            refs=(*odd, *log.about("announced")),
        )
        return
    told = (*told, *odd)
    if told and symptoms and symptoms.has("accumulation-words", "modulo-step"):
        yield Finding(certainty=Certainty.POSSIBLE, variant="told", refs=(*told, *symptoms.cite("accumulation-words", most=2)))


def _in_source(script: Script) -> Iterator[Finding]:
    """Windows whose step asks for nothing but the remainder, in a loop over a loader, with no step after the loop."""
    for window in windows(script):
        if window.full and not window.flushed and over_loader(window.loop) and _anew(window, script):
            yield Finding(
                certainty=Certainty.LIKELY,
                variant="source",
                values={"steps": window.every, "line": window.step.line},
                refs=(window.step.ref(), *(b.ref() for b in window.backwards[:1])),
                edits=_last_too(window),
            )
            return


def _anew(window: Window, script: Script) -> bool:
    """Whether the loop itself counts: a counter that runs on over the epochs drops nothing but at the very end."""
    guard = next((g for g in window.step.guards_in(window.loop) if g.test is window.test), None)
    if guard is not None and (name := counter(guard, window.loop)):  # a counter of its own: of the epoch, or of the whole run
        around, frame = window.step.at.loops[: window.loop.depth], window.step.at.frame
        epoch = around[-1].node if len(around) > frame.loops else frame.function.node if frame.function else script.tree
        return begun(name, epoch, window.loop)
    names = [node.id for node in ast.walk(window.test) if isinstance(node, ast.Name)] if window.test is not None else []
    return any(name in window.loop.targets for name in names) and "self.global_step" not in ast.unparse(window.test or ast.Constant(0))


def _last_too(window: Window) -> tuple[Edit, ...]:
    """ "or i + 1 == len(loader)" behind "if (i + 1) % n == 0", in a loop over enumerate(loader)."""
    test, loop = window.test, window.loop.node
    over = loop.iter if isinstance(loop, ast.For) else None
    counted = isinstance(over, ast.Call) and ast.unparse(over.func) == "enumerate" and len(over.args) == 1 and not over.keywords and isinstance(over.args[0], ast.Name)
    if not counted or not isinstance(over, ast.Call) or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or not isinstance(test.left, ast.BinOp):
        return ()
    if not any(isinstance(node, ast.If) and node.test is test for node in ast.walk(loop)):
        return ()
    number = ast.unparse(test.left.left)
    target = loop.target if isinstance(loop, ast.For) else None
    first = ast.unparse(target.elts[0]) if isinstance(target, ast.Tuple) and target.elts else ""
    if number != f"{first} + 1":
        return ()
    return (window.step.file.after(test, f" or {number} == len({ast.unparse(over.args[0])})"),)


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run that reached the end: backward passes that no step followed."""
    done = run.accumulation
    if done.dropped and (done.every or 0) > 1:
        places = [place for place in (done.windows[-1].backward_place, done.windows[-1].step_place) if place] if done.windows else []
        yield Finding(
            variant="run",
            values={"steps": done.every, "left": done.dropped, "batches": done.loader_batches or "?"},
            refs=tuple(place.ref() for place in places),
        )


RULE = Rule(
    slug="grad-accum-tail-dropped",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation",),
    en=Text(
        title="{batches} batches an epoch in groups of {steps}: the last {left} are never stepped ({total} optimizer steps in all)",
        why="The step is taken only when (i + 1) % accumulation_steps == 0. The remainder of the epoch leaves gradients that are thrown away by the next zero_grad, or leak into the next epoch's first group.",
        fix="Step also after the last batch: if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader), and divide that group's loss by its true size; or drop the remainder on purpose (drop_last=True with a whole number of groups). accelerate and newer Trainer releases do it by themselves.",
    ),
    zh=Text(
        title="每个 epoch 有 {batches} 个 batch，每组 {steps} 个：最后 {left} 个从未执行 step（共 {total} 个优化步）",
        why="只有 (i + 1) % accumulation_steps == 0 时才 step。epoch 末尾的余数留下的梯度要么被下一次 zero_grad 丢掉，要么混进下一个 epoch 的第一组。",
        fix="最后一个 batch 之后也要 step：if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader)，并按该组真实大小除损失；或有意丢弃余数（drop_last=True 且组数为整数）。accelerate 和较新的 Trainer 会自动处理。",
    ),
    variants={
        "source": (
            Text(
                title="The last batches of an epoch get no optimizer step, unless their number is a multiple of {steps}",
                why="The step is taken only on a full window of {steps} batches. What is left over at the end of the loop is computed in vain, or its gradients leak into the first window of the next epoch.",
                fix="Step also at the last batch: if (i + 1) % {steps} == 0 or i + 1 == len(loader), and divide that window's loss by its own size.",
            ),
            Text(
                title="每个 epoch 最后几个 batch 没有优化步，除非 batch 数是 {steps} 的整数倍",
                why="只有凑满 {steps} 个 batch 才会 step。循环末尾剩下的要么白算，要么梯度混进下一个 epoch 的第一组。",
                fix="最后一个 batch 也要 step：if (i + 1) % {steps} == 0 or i + 1 == len(loader)，并按该组真实大小除损失。",
            ),
        ),
        "run": (
            Text(
                title="The last {left} backward passes are followed by no optimizer step{batches: (* batches in groups of {steps})}",
                why="The dry run reached the end of the loop: with groups of {steps} the rest of the epoch is computed and thrown away, or its gradients leak into the next epoch.",
                fix="Step also at the last batch: if (i + 1) % {steps} == 0 or i + 1 == len(loader); scale that window by its own size.",
            ),
            Text(
                title="最后 {left} 次反向之后没有优化步{batches:（* 个 batch，每组 {steps} 个）}",
                why="试运行走到了循环末尾：每组 {steps} 个，剩下的算了也白算，或其梯度混入下一个 epoch。",
                fix="最后一个 batch 也要 step：if (i + 1) % {steps} == 0 or i + 1 == len(loader)；该窗口按自身大小缩放。",
            ),
        ),
        "modulo": (
            Text(
                title="{batches} batches an epoch in groups of {steps}: the last {left} are left without a step",
                why="The step is taken only when (i + 1) % accumulation_steps == 0, and {batches} is no multiple of {steps}: the gradients of the last {left} batches are thrown away or leak into the next epoch.",
                fix="Step also after the last batch: if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader), and divide that group's loss by its true size.",
            ),
            Text(
                title="每个 epoch 有 {batches} 个 batch，每组 {steps} 个：最后 {left} 个没有 step",
                why="只有 (i + 1) % accumulation_steps == 0 时才 step，而 {batches} 不是 {steps} 的整数倍：最后 {left} 个 batch 的梯度被丢掉或混入下一个 epoch。",
                fix="最后一个 batch 之后也要 step：if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader)，并按该组真实大小除损失。",
            ),
        ),
        "told": (
            Text(
                title="The last batches of an epoch may be left out of gradient accumulation",
                why="Where the number of batches is no multiple of the accumulation steps, a loop that steps only on full groups loses the last, incomplete group.",
                fix="Step also after the last batch: if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader), and divide by that group's true size.",
            ),
            Text(
                title="epoch 的最后几个 batch 可能没有参与梯度累积",
                why="当 batch 数不是累积步数的整数倍时，只在满组时 step 的循环会丢掉最后不完整的一组。",
                fix="最后一个 batch 之后也要 step：if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader)，并按该组真实大小相除。",
            ),
        ),
    },
)
