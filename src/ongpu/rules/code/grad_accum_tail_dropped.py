"""The last, incomplete group of batches of an epoch is never stepped."""

from collections.abc import Iterator

from ongpu.facts.code import TrainingLog
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(log: TrainingLog | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    if log and log.batches and log.accumulation and log.accumulation > 1 and log.optimizer_steps and log.epochs:
        full, left = divmod(log.batches, log.accumulation)
        if left and full and log.optimizer_steps == log.epochs * full:
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
