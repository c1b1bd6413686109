"""GradScaler's calls are missing, in the wrong order, or bypassed."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Event, Program, Script
from ongpu.facts.values import Handle, Named, Optimizer
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text

SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
BF16 = "torch.bfloat16"


def check(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        if script.says("GradScaler"):
            for made in script.calls(*SCALERS):
                if isinstance(made.value, Handle) and made.says("enabled", True) is not False:
                    yield from _in_source(script, made.value, made)


def _in_source(script: Script, scaler: Handle, made: Event) -> Iterator[Finding]:
    mine = [e for e in script.events if e.receiver is scaler and e.kind == "call"]
    scales, steps = ([e for e in mine if e.name == name] for name in (".scale", ".step"))
    given = _given_away(script, scaler)
    yield from _clipped(script, scales, steps, mine)
    yield from _bypassed(script, scales, steps, mine, given)
    if steps and not given:
        step = steps[0]
        if (not scales or all(s.discarded for s in scales)) and any(b.loop is step.loop and b.flow == step.flow for b in script.calls(".backward")):
            yield _finding("unscaled", step, script, Severity.ERROR)
        updates = [e for e in mine if e.name == ".update"]
        if not updates:
            yield _finding("no-update", steps[-1], script, Severity.ERROR, edits=_updated(steps))
        elif step.loop and all(u.loop is step.loop and u.before(step) and not apart(u, step) for u in updates) and not _next(updates, scales):
            yield _finding("early-update", updates[0], script, Severity.WARNING, other=step)
    often = next((u for u in mine if u.name == ".unscale_" and _each(u)), None)
    if often and steps and all(s.loop is often.loop and not _each(s) for s in steps) and all(not _each(e) for e in mine if e.name == ".update"):
        yield _finding("unscale-often", often, script, Severity.ERROR if _literal(steps[0]) else Severity.WARNING, other=steps[0])
    dtypes = [e.arg(1, "dtype") for e in script.calls("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")]
    plain = "enabled" not in (made.kw or {}) and not made.stars and not made.at.guards
    if scales and plain and dtypes and all(isinstance(d, Named) and d.name == BF16 for d in dtypes):
        yield _finding("bfloat16", made, script, Severity.NOTE)


def _each(event: Event) -> bool:
    """Whether it happens at each turn of its loop, not only at the end of a window."""
    return event.loop is not None and not any(g.kind == "every" for g in event.guards_in(event.loop))


def _literal(step: Event) -> bool:
    """Whether the window's length is a number in the source: an argument may be 1."""
    tests = [x for g in step.guards_in(step.loop) if g.test is not None for x in ast.walk(g.test)]
    return any(isinstance(x, ast.BinOp) and isinstance(x.op, ast.Mod) and isinstance(x.right, ast.Constant) for x in tests)


def apart(one: Event, other: Event) -> bool:
    """Whether the two stand in different branches of the same question: never both in one turn."""
    asked = {ast.unparse(g.test): g.negated for g in one.at.guards if g.test is not None}
    return any(g.test is not None and asked.get(ast.unparse(g.test), g.negated) is not g.negated for g in other.at.guards)


def _given_away(script: Script, scaler: Handle) -> bool:
    """Whether unseen code gets the scaler, and may call it."""
    own = {f.name for f in script.functions} | {c.name for c in script.classes}
    return any(
        e.kind == "call" and e.name not in own and e.name.removeprefix(".") not in own and any(v is scaler for v in (*e.args, *(e.kw or {}).values()))
        for e in script.events
    )


def _next(updates: list[Event], scales: list[Event]) -> bool:
    """Whether the update comes before the scaling: it then belongs to the turn before."""
    return any(u.before(s) for u in updates for s in scales)


def _clipped(script: Script, scales: list[Event], steps: list[Event], mine: list[Event]) -> Iterator[Finding]:
    """Gradients that are clipped while they are still multiplied by the scale."""
    for clip in script.calls(*CLIPS):
        scaled = [s for s in scales if s.before(clip) and s.loop is clip.loop and not apart(s, clip)]
        step = next((s for s in steps if clip.before(s) and s.loop is clip.loop and not apart(s, clip)), None)
        if scaled and step and not any(u.name == ".unscale_" and u.before(clip) for u in mine):
            yield _finding("clip", clip, script, Severity.ERROR, edits=_unscaled(script, clip, step, steps))
            return


def _bypassed(script: Script, scales: list[Event], steps: list[Event], mine: list[Event], given: bool) -> Iterator[Finding]:
    """optimizer.step() on scaled gradients, instead of scaler.step(optimizer) or beside it."""
    for step in script.calls(".step"):
        optimizer = step.receiver
        if not isinstance(optimizer, Optimizer) or any(e.name == ".unscale_" for e in mine):
            continue
        scaled = [s for s in scales if s.before(step) and s.loop is step.loop and not apart(s, step) and optimizer.updates(s.arg(0, "outputs")) is not False]
        own = [s for s in steps if s.arg(0, "optimizer") is optimizer]
        beside = [s for s in own if s.loop is step.loop and s.flow == step.flow and not apart(s, step)]
        if scaled and beside:
            yield _finding("twice", step, script, Severity.ERROR, other=beside[0])
            return
        unknown = any(not isinstance(s.arg(0, "optimizer"), Optimizer) for s in steps)
        if scaled and not own and not unknown and not given:
            yield _finding("instead", step, script, Severity.ERROR, edits=_through(step, scaled[0], mine))
            return


def _finding(variant: str, event: Event, script: Script, severity: Severity, other: Event | None = None, edits: tuple[Edit, ...] = ()) -> Finding:
    return Finding(
        subject=event.words(), certainty=Certainty.LIKELY, severity=severity, variant=variant, values={"code": event.words()},
        refs=(event.ref(), *((other.ref(),) if other else ())), edits=edits,
    )  # fmt: skip


# Edits: a statement of its own before or behind another one


def _lead(event: Event) -> str | None:
    """The indentation of the statement in which the event stands; None where it does not begin its line."""
    lead = event.file.line(event.stmt.lineno)[: event.stmt.col_offset] if event.stmt else "-"
    return None if lead.strip() else lead


def _unscaled(script: Script, clip: Event, step: Event, steps: list[Event]) -> tuple[Edit, ...]:
    """scaler.unscale_(optimizer) before the clipping: where one optimizer is stepped, in the same function and not more rarely."""
    lead, func, given = _lead(clip), step.call.func, step.given(0, "optimizer")
    alike = step.at.frame.function is clip.at.frame.function and all(g in clip.at.guards for g in step.guards_in(step.loop))
    if lead is None or not alike or len({id(s.node) for s in steps}) != 1 or not isinstance(func, ast.Attribute) or given is None or clip.stmt is None:
        return ()
    if not isinstance(clip.stmt, ast.Expr | ast.Assign):
        return ()
    return (clip.file.before(clip.stmt, f"{ast.unparse(func.value)}.unscale_({ast.unparse(given)})\n{lead}"),)


def _through(step: Event, scale: Event, mine: list[Event]) -> tuple[Edit, ...]:
    """scaler.step(optimizer), and scaler.update() where it is missing."""
    lead, func, caller = _lead(step), scale.call.func, step.call.func
    if lead is None or not step.discarded or step.call.args or step.call.keywords or not isinstance(func, ast.Attribute) or not isinstance(caller, ast.Attribute):
        return ()
    if scale.at.frame.function is not step.at.frame.function:
        return ()
    scaler = ast.unparse(func.value)
    update = "" if any(e.name == ".update" for e in mine) else f"\n{lead}{scaler}.update()"
    return (step.file.replace(step.node, f"{scaler}.step({ast.unparse(caller.value)}){update}"),)


def _updated(steps: list[Event]) -> tuple[Edit, ...]:
    """scaler.update() behind the only step."""
    step, lead = steps[0], _lead(steps[0])
    if len({id(s.node) for s in steps}) != 1 or lead is None or not step.discarded or not isinstance(step.call.func, ast.Attribute):
        return ()
    return (step.file.after(step.node, f"\n{lead}{ast.unparse(step.call.func.value)}.update()"),)


RULE = Rule(
    slug="grad-scaler-misuse",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/notes/amp_examples.html", "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling",),
    en=Text(
        title="GradScaler is used in the wrong way: {code}",
        why="Under float16 the loss is multiplied by a scale, so the gradients are too; only scaler.step divides them again, and skips the step where they are infinite.",
        fix="scaler.scale(loss).backward(); scaler.unscale_(optimizer) before anything that looks at the gradients; scaler.step(optimizer); scaler.update(), once a step.",
    ),
    zh=Text(
        title="GradScaler 用法有误：{code}",
        why="float16 下损失乘了缩放系数，梯度也随之放大；只有 scaler.step 会除回来，并在梯度为无穷时跳过这一步。",
        fix="scaler.scale(loss).backward()；要看或改梯度之前先 scaler.unscale_(optimizer)；scaler.step(optimizer)；每步一次 scaler.update()。",
    ),
    variants={
        "clip": (
            Text(
                title="{code} clips gradients that are still scaled: scaler.unscale_(optimizer) is missing before it",
                why="The gradients are multiplied by the scale (65536 at first), so nearly every step is clipped to the limit, and the division that follows makes the update tiny. Training hardly learns.",
                fix="scaler.unscale_(optimizer) right before the clipping; scaler.step(optimizer) knows then that they are unscaled.",
            ),
            Text(
                title="{code} 裁剪的是仍带缩放的梯度：前面缺少 scaler.unscale_(optimizer)",
                why="梯度乘了缩放系数（起始为 65536），几乎每一步都会被裁到上限，之后再除回来，更新就极小，训练几乎学不动。",
                fix="裁剪之前先调用 scaler.unscale_(optimizer)；之后 scaler.step(optimizer) 知道梯度已还原。",
            ),
        ),
        "instead": (
            Text(
                title="{code} applies scaled gradients: scaler.step(optimizer) belongs here",
                why="scaler.scale(loss).backward() leaves gradients that are multiplied by the scale (65536 at first). Only scaler.step divides them again, and skips steps with infinite gradients; a plain step does neither.",
                fix="Replace it by scaler.step(optimizer), followed by scaler.update().",
            ),
            Text(
                title="{code} 直接使用了带缩放的梯度：这里应当是 scaler.step(optimizer)",
                why="scaler.scale(loss).backward() 得到的梯度乘了缩放系数（起始为 65536）。只有 scaler.step 会除回来，并跳过梯度为无穷的步；直接 step 两样都不做。",
                fix="改成 scaler.step(optimizer)，随后 scaler.update()。",
            ),
        ),
        "twice": (
            Text(
                title="{code} beside scaler.step: the optimizer steps twice on the same gradients",
                why="scaler.step(optimizer) already calls optimizer.step(). The second step doubles the update, and before scaler.step it even uses scaled gradients.",
                fix="Leave the plain optimizer.step() away.",
            ),
            Text(
                title="{code} 与 scaler.step 并存：优化器对同一梯度更新了两次",
                why="scaler.step(optimizer) 内部已经调用 optimizer.step()。再调用一次更新就翻倍；若在 scaler.step 之前，用的还是带缩放的梯度。",
                fix="去掉单独的 optimizer.step()。",
            ),
        ),
        "unscaled": (
            Text(
                title="{code} divides gradients that were never scaled: the loss is not passed through scaler.scale",
                why="scaler.step divides the gradients by the scale (65536 at first). loss.backward() alone did not multiply them, so the updates are that much too small.",
                fix="scaler.scale(loss).backward().",
            ),
            Text(
                title="{code} 会除以缩放系数，而梯度从未放大：损失没有经过 scaler.scale",
                why="scaler.step 会把梯度除以缩放系数（起始为 65536）。单独的 loss.backward() 没有乘过它，更新就小了这么多倍。",
                fix="写成 scaler.scale(loss).backward()。",
            ),
        ),
        "unscale-often": (
            Text(
                title="{code} runs at each micro-batch, but scaler.step only at the end of a window",
                why="unscale_ may be called once an optimizer between two update() calls; the second call raises \"unscale_() has already been called\". Gradients of later micro-batches would be added scaled to unscaled ones.",
                fix="Call unscale_ (and clip) only where scaler.step follows, inside the same condition.",
            ),
            Text(
                title="{code} 每个小批次都执行，而 scaler.step 只在窗口结束时执行",
                why="两次 update() 之间，每个优化器只能调用一次 unscale_；第二次会报 “unscale_() has already been called”。之后小批次的带缩放梯度会加到已还原的梯度上。",
                fix="只在随后要 scaler.step 的地方（同一个条件里）调用 unscale_ 和裁剪。",
            ),
        ),
        "no-update": (
            Text(
                title="scaler.update() is never called after {code}",
                why="The second step raises \"step() has already been called since the last update()\": update() adapts the scale and opens the next turn.",
                fix="Call scaler.update() once at the end of each step.",
            ),
            Text(
                title="{code} 之后从未调用 scaler.update()",
                why="第二次 step 会报 “step() has already been called since the last update()”：update() 负责调整缩放系数并开始下一轮。",
                fix="每步结束时调用一次 scaler.update()。",
            ),
        ),
        "early-update": (
            Text(
                title="{code} stands before scaler.step: it forgets what was found about the gradients",
                why="update() sets the scale for the next turn and clears the record of infinite gradients. A step after it divides by another scale than the loss was multiplied by.",
                fix="scaler.step(optimizer) first, scaler.update() last.",
            ),
            Text(
                title="{code} 写在 scaler.step 之前：丢掉了对梯度的检查结果",
                why="update() 会为下一轮设定缩放系数，并清除无穷梯度的记录。之后再 step，除的就不是损失当初乘的那个系数。",
                fix="先 scaler.step(optimizer)，最后 scaler.update()。",
            ),
        ),
        "bfloat16": (
            Text(
                title="{code} is of no use with bfloat16",
                why="bfloat16 has the range of float32, so gradients do not underflow; the scaler only adds a check for infinities, and a wait for the GPU, to each step.",
                fix="Leave the scaler away with bfloat16 (or GradScaler(enabled=dtype == torch.float16)).",
            ),
            Text(
                title="使用 bfloat16 时 {code} 没有作用",
                why="bfloat16 的范围与 float32 相同，梯度不会下溢；缩放器只会给每一步多加一次无穷检查和一次等待 GPU。",
                fix="使用 bfloat16 时去掉缩放器（或 GradScaler(enabled=dtype == torch.float16)）。",
            ),
        ),
    },
)
