"""Gradients or losses are summed over the accumulation steps without being divided."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.accumulation import AccumulationTable
from ongpu.facts.code import TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.framework import Packages
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Tensor
from ongpu.facts.windows import Window, named, nested, over_loader, windows
from ongpu.knowledge._versions import numbers
from ongpu.lazy import lazy
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text

_MICRO = lazy(r"accum|micro", re.IGNORECASE)
_ROW = lazy(r"^\s*\|?(?:\s*[\d.]+\s*\|?){3,8}\s*$")


def check(
    symptoms: Symptoms | None, log: TrainingLog | None, packages: Packages | None, table: AccumulationTable | None, dryrun: DryRun | None,
    program: Program | None,
) -> Iterator[Finding]:
    if dryrun:
        yield from _in_run(dryrun)
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
    told = symptoms.cite("accumulation-words", most=3) if symptoms else ()
    version = packages.version("transformers") if packages else None
    affected = bool(version and (4, 46) <= numbers(version)[:2] < (4, 50))
    if table and table.proportional:
        yield Finding(
            certainty=Certainty.LIKELY, variant="trainer" if version else "",
            values={"version": version or "?", "low": table.losses[0], "high": table.losses[-1], "steps": table.steps},
            refs=(*table.refs, *told, *(packages.cite("transformers") if packages else ())),
        )
        return
    scaled = symptoms.cite("accum-scale-told", most=3) if symptoms else ()
    if scaled and told and not (symptoms and symptoms.has("accum-token-told", "num-items-in-batch")):
        yield Finding(certainty=Certainty.LIKELY, variant="told", values={"version": version or "?"}, refs=(*scaled, *told))
        return
    losses = [s.loss for s in log.speeds if s.loss is not None] if log else []
    steps = [int(n) for hit in symptoms.seen("accumulation-words") if (n := hit.groups.get("n"))] if symptoms else []
    if len(losses) == 2 and len(set(steps)) == 2 and losses[0] and losses[1]:
        low, high = sorted(losses)
        if (losses[1] > losses[0]) == (steps[-1] > steps[0]) and 1.8 < high / low < 2.5 * max(steps) / min(steps):
            yield Finding(
                certainty=Certainty.LIKELY, variant="trainer" if version else "",
                values={"version": version or "?", "low": low, "high": high, "steps": "more"},
                refs=(*(s.ref for s in (log.speeds[:2] if log else ())), *told, *(packages.cite("transformers") if packages else ())),
            )
            return
    doubled = len(losses) >= 2 and losses[0] and _whole(losses[-1] / losses[0]) and (told or affected) and len(losses) <= 6
    if doubled and told:
        yield Finding(
            certainty=Certainty.LIKELY, variant="trainer" if version else "",
            values={"version": version or "?", "low": losses[0], "high": losses[-1], "steps": "more"},
            refs=(*(s.ref for s in (log.speeds[:2] if log else ()) if s.loss is not None), *told, *(packages.cite("transformers") if packages else ())),
        )


MEANS = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "huber_loss", "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "BCELoss", "BCEWithLogitsLoss", "HuberLoss", "CTCLoss",
)  # fmt: skip


def _in_source(script: Script) -> Iterator[Finding]:
    """Windows of several backward passes of a mean, which nothing divides."""
    if any(True for _ in script.calls(".div_", ".mul_")):  # of the gradients, before the step
        return
    yield from _in_micro_steps(script)
    for window in windows(script):
        for backward in window.backwards:
            loss = backward.receiver
            # a weight before one term of a sum ("mse + 1e-3 * l1") is no division of the whole
            bare = [term for term in loss.terms() if not any(t.scaled for t in term.line())] if isinstance(loss, Tensor) else []
            if not bare:
                continue
            if not over_loader(window.loop) and not named(window.test, script.tree):
                continue
            line = {id(t) for term in bare for t in term.line()}
            if any(_mean(e) for e in script.calls() if id(e.value) in line):
                yield Finding(
                    certainty=Certainty.LIKELY,
                    variant="source",
                    values={"steps": window.every, "line": backward.line, "code": backward.words()},
                    refs=(backward.ref(), window.step.ref()),
                    edits=_divided(backward, window.every),
                )
                return


def _in_micro_steps(script: Script) -> Iterator[Finding]:
    """`for micro_step in range(n)` around the backward pass, the step behind it, and not one division in between; likewise over the
    pieces of a batch."""
    for window in nested(script):
        if (pieces := _pieces(script, window)) and (found := _summed(window, pieces)):
            yield found
            return
        loop = window.loop.node
        count = loop.iter.args[0] if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and len(loop.iter.args) == 1 else None
        if count is None or not isinstance(loop, ast.For) or not _MICRO.search(f"{ast.unparse(count)} {ast.unparse(loop.target)}"):
            continue
        if any(isinstance(n, (ast.BinOp, ast.AugAssign)) and isinstance(n.op, (ast.Div, ast.Mult)) for n in ast.walk(loop)):
            continue
        losses = [b.receiver for b in window.backwards]
        if any(isinstance(t, Tensor) and any(one.scaled for one in t.line()) for t in losses):
            continue
        backward, every = window.backwards[0], ast.unparse(count)
        if not re.search(rf"/\s{{0,4}}(?:self\.|args\.)?{re.escape(every)}\b", script.file.text):
            yield Finding(
                certainty=Certainty.LIKELY, variant="source", values={"steps": every, "line": backward.line, "code": backward.words()},
                refs=(backward.ref(), window.step.ref()), edits=_divided(backward, every),
            )  # fmt: skip
            return


_PIECES = (".split", ".chunk", "torch.split", "torch.chunk", "torch.tensor_split")


def _pieces(script: Script, window: Window) -> str:
    """How many pieces of one batch the loop goes over, in the source's words: of batch.split(8), of what is named micro_batches."""
    loop = window.loop.node
    over = loop.iter if isinstance(loop, ast.For) else None
    while isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in ("enumerate", "tqdm") and over.args:
        over = over.args[0]
    if over is None:
        return ""
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range" and len(over.args) == 1:
        fresh = any(e.loop is window.loop for e in script.calls("next"))  # a batch of its own at each turn, and gradients cleared before
        cleared = any(z.loop is window.step.loop and z.before(window.backwards[0]) for z in script.calls(".zero_grad")) or any(z.loop is window.step.loop for z in script.calls(".zero_grad"))
        return ast.unparse(over.args[0]) if fresh and cleared and isinstance(loop, ast.For) and ast.unparse(loop.target) == "_" else ""
    cut = any(e.node is over or (e.value is not None and e.value is window.loop.over) for e in script.calls(*_PIECES))
    cut = cut or (isinstance(over, ast.Name) and any(
        isinstance(e.stmt, ast.Assign) and any(ast.unparse(t) == over.id for t in e.stmt.targets) and e.stmt.value is e.node for e in script.calls(*_PIECES)
    ))
    if not cut and not (isinstance(over, ast.Name | ast.Attribute) and _MICRO.search(ast.unparse(over))):
        return ""
    return f"len({ast.unparse(over)})"


def _summed(window: Window, every: str) -> Finding | None:
    """The backward pass of a mean that nothing scales, and no gradient that is divided later."""
    for backward in window.backwards:
        loss, around = backward.receiver, ast.unparse(window.step.loop.node) if window.step.loop else ""
        if not isinstance(loss, Tensor) or any(t.scaled for t in loss.line()) or re.search(r"\.grad\b[^\n]{0,40}/|weight", around):
            continue
        line = {id(t) for t in loss.line()}
        if any(t.made is not None and _mean(t.made) for t in loss.line() if id(t) in line):
            return Finding(
                certainty=Certainty.LIKELY, variant="source", values={"steps": every, "line": backward.line, "code": backward.words()},
                refs=(backward.ref(), window.step.ref()), edits=_divided(backward, every),
            )  # fmt: skip
    return None


def _divided(backward: Event, every: str) -> tuple[Edit, ...]:
    """(loss / n).backward() for loss.backward()."""
    func = backward.call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or not re.fullmatch(r"[\w.]{1,60}", every):
        return ()
    return (backward.file.replace(func.value, f"({func.value.id} / {every})"),)


def _mean(made: Event) -> bool:
    """Whether that call gives the mean over a batch."""
    name = made.name.rpartition(".")[2] if made.name != "forward" else getattr(made.receiver, "name", "").rpartition(".")[2]
    if name == "mean":
        return True
    origin = getattr(made.receiver, "made", None) if made.name == "forward" else made
    return name in MEANS and origin is not None and origin.says("reduction", "mean") == "mean"


def _whole(ratio: float) -> bool:
    """Whether one loss is a whole multiple (2 to 64) of the other, within 3 %."""
    ratio = ratio if ratio >= 1 else 1 / ratio if ratio > 0 else 0
    return 1.9 < ratio < 65 and abs(ratio - round(ratio)) / ratio < 0.03


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run: windows of several backward passes whose loss was seen not to be divided."""
    done = run.accumulation
    several = [window for window in done.windows if window.backwards > 1]
    if done.scaled is False and several and not any(window.scaled for window in several):
        places = dict.fromkeys(place for place in (several[0].backward_place, several[0].step_place) if place)
        yield Finding(
            certainty=Certainty.LIKELY, variant="run", values={"steps": done.every or several[0].backwards, "line": str(next(iter(places), "?"))},
            refs=tuple(place.ref() for place in places),
        )


RULE = Rule(
    slug="grad-accum-unscaled",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://github.com/huggingface/transformers/issues/37766", "https://github.com/huggingface/transformers/pull/35207",),
    en=Text(
        title="The loss grows with gradient accumulation ({low} to {high}): it is summed over the steps and not divided",
        why="backward() adds gradients up; without a division by the number of accumulation steps the effective learning rate and the reported loss grow in proportion to it.",
        fix="loss = loss / accumulation_steps before backward() (for losses that are means); log the undivided one. With accelerate use with accelerator.accumulate(model), with Lightning accumulate_grad_batches: both divide by themselves, so do not do it twice.",
    ),
    zh=Text(
        title="损失随梯度累积成比例增大（{low} 到 {high}）：各步求和而没有除以步数",
        why="backward() 会累加梯度；不除以累积步数，等效学习率和显示的损失就会成比例变大。",
        fix="在 backward() 之前 loss = loss / accumulation_steps（损失为均值时）；日志记录未除的值。accelerate 用 with accelerator.accumulate(model)，Lightning 用 accumulate_grad_batches：它们会自动除，不要再除一次。",
    ),
    variants={
        "source": (
            Text(
                title="{code} adds up the gradients of {steps} batches, and the loss is not divided by {steps}",
                why="This is gradient accumulation: backward() adds to what is there. The loss is a mean over one batch, so the step is {steps} times as large as with one large batch, as if the learning rate were (Adam hides most of it; SGD, clipping and weight decay do not).",
                fix="loss = loss / {steps} before backward() (log the undivided one). For losses over tokens, sum them and divide by the number of tokens in the window.",
            ),
            Text(
                title="{code} 把 {steps} 个 batch 的梯度相加，而损失没有除以 {steps}",
                why="这是梯度累积：backward() 会在已有梯度上累加。损失是单个 batch 的均值，因此每步相当于用一个大 batch 时的 {steps} 倍，等于学习率放大（Adam 会掩盖大部分；SGD、梯度裁剪和权重衰减不会）。",
                fix="backward() 之前 loss = loss / {steps}（日志记录未除的值）。按 token 计的损失应求和，再除以整组的 token 数。",
            ),
        ),
        "run": (
            Text(
                title="Gradients of {steps} backward passes are summed, and the loss at {line} is not divided by {steps}",
                why="The dry run followed the loss from its mean to backward(): nothing divides it. The step is then {steps} times as large as with one large batch, as if the learning rate were (Adam hides most of it; clipping and SGD do not).",
                fix="(loss / {steps}).backward(), or divide the gradients once before the step. For losses over tokens divide by the window's number of tokens.",
            ),
            Text(
                title="{steps} 次反向的梯度相加，而 {line} 处的损失没有除以 {steps}",
                why="试运行从取均值一直跟踪到 backward()：没有任何除法。这样每步相当于用一个大 batch 时的 {steps} 倍，等于学习率放大（Adam 会掩盖大部分；梯度裁剪和 SGD 不会）。",
                fix="(loss / {steps}).backward()，或在 step 之前把梯度除一次。按 token 计的损失应除以整个窗口的 token 数。",
            ),
        ),
        "told": (
            Text(
                title="The loss is not divided by the number of accumulation steps, so gradients are that many times too large",
                why="backward() adds up: N micro-batches give N times the gradient of their mean, unless each loss is divided by N. A loss that is logged as the sum looks N times larger, too.",
                fix="loss = loss / gradient_accumulation_steps before backward() (log the undivided one), clip gradients after the last micro-batch; with the Trainer or accelerate update transformers (4.46 to 4.49 had this fault) and let accelerator.accumulate() do it.",
            ),
            Text(
                title="损失没有除以梯度累积步数，梯度因此放大了同样的倍数",
                why="backward() 会把梯度相加：N 个 micro-batch 的梯度是平均值的 N 倍，除非每个损失先除以 N。记录的损失若是总和，看起来也会大 N 倍。",
                fix="backward() 之前 loss = loss / gradient_accumulation_steps（日志记录未除的值），最后一个 micro-batch 之后再做梯度裁剪；用 Trainer 或 accelerate 时升级 transformers（4.46 到 4.49 有此缺陷），并使用 accelerator.accumulate()。",
            ),
        ),
        "trainer": (
            Text(
                title="transformers {version}: the loss grows with gradient_accumulation_steps ({low} to {high})",
                why="From 4.46 the Trainer divides by num_items_in_batch inside the model's loss; a model (or a wrapper such as trl or PEFT) whose forward takes no loss kwargs gets neither that nor the old division, so losses and gradients of the accumulation steps are summed.",
                fix="Upgrade transformers (4.50 or newer averages over the steps where the model does not accept loss kwargs), let the model's forward accept and use num_items_in_batch, or divide the loss by gradient_accumulation_steps in compute_loss.",
            ),
            Text(
                title="transformers {version}：损失随 gradient_accumulation_steps 成比例增大（{low} 到 {high}）",
                why="从 4.46 起，Trainer 依靠模型损失里的 num_items_in_batch 做除法；如果模型（或 trl、PEFT 等包装）的 forward 不接受 loss kwargs，两种除法都没有，累积各步的损失和梯度就被直接相加。",
                fix="升级 transformers（4.50 及更新会在模型不接受 loss kwargs 时按步数平均），让模型的 forward 接受并使用 num_items_in_batch，或在 compute_loss 里把损失除以 gradient_accumulation_steps。",
            ),
        ),
    },
)
