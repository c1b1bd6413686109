"""The graph of every step is kept, so memory grows until it is full."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import size
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import growth, suspect
from ongpu.facts.profile import Allocations, gib
from ongpu.facts.program import RARE, Event, Loop, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import Instance, Items, Module, Tensor, Unknown, Value
from ongpu.lazy import replace
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None, program: Program | None,
    allocations: Allocations | None, dryrun: DryRun | None,
) -> Iterator[Finding]:
    if dryrun:
        if dryrun.memory_cause == "oom-graph-retained" or (dryrun.grows and not dryrun.ran_out):
            yield _in_run(dryrun)
        return
    if allocations:
        yield from _in_snapshot(allocations)
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    if oom:  # what costs little by itself counts where memory did run out
        found = [replace(finding, severity=None) if finding.variant == "nodes" else finding for finding in found]
    yield from found
    if any(finding.severity is not Severity.NOTE for finding in found):
        return
    yield from _in_error(oom, traceback, log, processes, gpus, symptoms)


def _in_snapshot(allocations: Allocations) -> Iterator[Finding]:
    """A record of the allocator in which the lowest use rises from part to part: something of every step is kept."""
    for held in allocations.gpus:
        if len(held.lowest) < 4:
            continue
        grown, owner = held.lowest[-1] - held.lowest[2], held.kept[0] if held.kept else None
        yield Finding(
            certainty=Certainty.LIKELY, severity=None if held.refusals else Severity.WARNING, subject=f"GPU {held.index}", variant="snapshot",
            values={
                "gpu": held.index, "first": gib(held.lowest[2]), "last": gib(held.lowest[-1]), "grown": gib(grown),
                "owner": owner.place if owner else "?", "blocks": owner.blocks if owner else "?", "size": gib(owner.bytes) if owner else "?",
            },
            refs=(*((held.growth_ref,) if held.growth_ref else ()), *(one.ref for one in held.kept[:4]), *(one.ref for one in held.refusals[:1])),
        )


def _in_source(script: Script) -> Iterator[Finding]:
    yield from _carried(script)
    yield from _gathered(script)


def _carried(script: Script) -> Iterator[Finding]:
    """A hidden state that goes from turn to turn with its graph, which retain_graph=True keeps for backward."""
    for call in distinct(script.calls("forward")):
        stmt, loop = call.stmt, call.loop
        if loop is None or not isinstance(stmt, ast.Assign) or "detach" in ast.unparse(loop.node):
            continue
        targets = {n.id for t in stmt.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        carried = targets & {n.id for a in call.call.args for n in ast.walk(a) if isinstance(n, ast.Name)}
        retains = [b for b in script.calls(".backward") if b.loop is loop and b.says("retain_graph", False) is True]
        if carried and retains:
            name = sorted(carried)[0]
            yield Finding(
                subject=name, certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="carried",
                values={"target": name, "line": call.line, "code": call.words(60)}, refs=(call.ref(), retains[0].ref()),
            )
            return


def _gathered(script: Script) -> Iterator[Finding]:
    if script.imports & {"tensorflow", "keras", "jax", "flax"} and "torch" not in script.imports:
        return  # their tensors carry no graph: it belongs to a tape, or to the function that is differentiated
    yield from _unknown(script)
    for event in distinct(e for e in script.of("accumulate") if isinstance(e.value, Tensor) and e.value.graph is not False):
        kept = event.value
        loop = event.loop
        if not isinstance(kept, Tensor) or kept.origin == "parameter" or loop is None or event.at.grad is not True or _leaves(event):
            continue
        if _layers(loop.over):
            continue  # one pass through a model, layer by layer
        backwards = list(script.calls(".backward", "torch.autograd.backward"))
        trains = not _begun_in(event, loop) and any(b.loop is loop and isinstance(b.receiver, Tensor) and b.receiver.comes_from(kept) for b in backwards)
        if not trains and any(isinstance(me := frame.me, Module) or (isinstance(me, Instance) and not me.cls.complete) for frame in event.at.frame.chain()):
            continue  # code of a module: its caller decides
        if any(loop in b.at.loops and not any(g.kind == "every" for g in b.guards_in(loop)) and _shares(b.receiver, kept) for b in backwards):
            found = _kept(event, "nodes", Severity.NOTE)
            yield replace(found, refs=(*found.refs, *_given(script, event)))
            continue
        if kept.graph is None:
            continue
        mine = [b for b in backwards if isinstance(b.receiver, Tensor) and b.receiver.comes_from(kept)]
        if not mine and any(not isinstance(b.receiver, Tensor) or b.flow != event.flow for b in backwards if not event.at.frame.alone or b.at.frame is event.at.frame):
            continue
        inside = [b for b in mine if loop in b.at.loops]
        if mine and not inside:
            continue  # one backward over all turns of an inner loop: that graph is meant
        if not mine:
            if any(frame.alone for frame in event.at.frame.chain()) and not (loop.trains or loop.evaluates):
                continue
            yield _kept(event, "kept", Severity.NOTE if _unseen(kept) and not loop.trains else Severity.WARNING)
        elif all(any(g.kind == "every" for g in b.guards_in(loop)) for b in inside):
            yield _kept(event, "window", Severity.WARNING)
        else:
            yield _kept(event, "nodes", Severity.WARNING if event.hot and trains else Severity.NOTE)


def _unknown(script: Script) -> Iterator[Finding]:
    """Losses that nobody can tell the making of, but on which the same turn of the loop calls backward()."""
    for event in distinct(e for e in script.of("accumulate") if isinstance(e.value, Unknown) and e.value.backwards):
        loop, backwards = event.loop, event.value.backwards or [] if isinstance(event.value, Unknown) else []
        mine = [b for b in backwards if b.loop is loop and b.at.frame is event.at.frame and b.order < event.order]
        node = event.node
        added = node.value if isinstance(node, ast.AugAssign) else node.args[0] if isinstance(node, ast.Call) and node.args else None
        if loop is not None and mine and isinstance(added, ast.Name) and event.at.grad is True and not _begun_in(event, loop) and not any(g.kind in RARE for g in event.guards_in(loop)):
            yield _kept(event, "nodes", Severity.WARNING)


def _begun_in(event: Event, loop: Loop) -> bool:
    """Whether what it is added to begins anew at each turn: a loss of several terms. What a condition sets back now and then does not."""
    todo: list[ast.AST] = list(getattr(loop.node, "body", []))
    for node in todo:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == event.target for target in node.targets):
            return True
        if isinstance(node, ast.With | ast.For | ast.While | ast.Try):
            todo += node.body
    return False


def _given(script: Script, event: Event) -> tuple[Ref, ...]:
    """The call of the method in which it is kept: there the tensor should have become a number."""
    name = event.at.frame.name
    calls = [c for c in script.calls("." + name, name) if c.before(event)] if event.at.frame.outer else []
    return (calls[-1].ref(),) if calls else ()


def _shares(loss: Value | None, kept: Tensor) -> bool:
    """Whether what is kept was computed from a term of that loss: "loss = a + b; loss.backward(); kept.append(a * 100)"."""
    if not isinstance(loss, Tensor) or (kept.graph and loss.comes_from(kept)):
        return False
    terms = [t for t in kept.line(gradients=True) if t.scalar and t.graph is not False and t.origin not in ("made", "batch", "parameter")]
    return any(loss.comes_from(term) for term in terms)


def _layers(over: Value, depth: int = 0) -> bool:
    """Whether a loop goes over the parts of a module."""
    return isinstance(over, Module) or (isinstance(over, Items) and depth < 3 and any(_layers(item, depth + 1) for item in over.items[:4]))


def _unseen(kept: Tensor) -> bool:
    """Whether only modules gave it whose code nobody sees: they may switch gradients off themselves."""
    calls = [t.made.receiver for t in kept.line() if t.made is not None and t.made.name == "forward"]
    return bool(calls) and not any(isinstance(module, Module) and module.inner.sure for module in calls)


def _leaves(event: Event) -> bool:
    """Whether the function gives what it gathers to a caller that nobody knows."""
    frame = event.at.frame
    if not frame.alone or frame.function is None:
        return False
    name = event.target.partition(".")[0]
    returns = [node.value for node in ast.walk(frame.function.node) if isinstance(node, ast.Return | ast.Yield) and node.value is not None]
    return name == "self" or any(isinstance(part, ast.Name) and part.id == name for value in returns for part in ast.walk(value))


def _kept(event: Event, variant: str, severity: Severity) -> Finding:
    node = event.node
    added: ast.expr | None = None
    if isinstance(node, ast.AugAssign):
        added = node.value
    elif isinstance(node, ast.Call) and len(node.args) == 1 and event.name == "append":
        added = node.args[0]
    simple = isinstance(added, ast.Name | ast.Attribute | ast.Call)
    return Finding(
        subject=event.target,
        variant=variant,
        certainty=Certainty.LIKELY,
        severity=severity,
        values={"target": event.target, "line": event.line, "code": event.words()},
        refs=(event.ref(),),
        edits=(event.file.after(added, ".detach()"),) if added is not None and simple and variant != "window" else (),
    )


def _in_error(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None,
) -> Iterator[Finding]:
    course = growth(log)
    grows = symptoms.cite("memory-grows-told", most=3) if symptoms else ()
    told = (*grows, *(symptoms.cite("grows-words") if symptoms else ()))
    code = symptoms.cite("retain-graph", "loss-kept-code", "diff-adds-item", "diff-detaches-sum", "item-cures-told", most=3) if symptoms else ()
    if oom:
        slug, certainty, _ = suspect(oom, traceback, log, processes, gpus)
        if slug not in ("oom-graph-retained", "oom-batch-too-large", "oom-fragmentation", "oom-eval-with-grad") or not (course or told or code):
            return
        if slug != "oom-graph-retained":
            certainty = Certainty.LIKELY if code or told else Certainty.POSSIBLE
        late = symptoms.cite("steady-oom-words", most=2) if symptoms else ()
        told = (*told, *late) if told else told
    elif symptoms and symptoms.has("diff-detaches-sum") and traceback_free(traceback):
        certainty = Certainty.LIKELY  # the repair itself: a sum over steps that kept each step's graph
    elif course and log and len(log.memory()) >= 4:
        certainty = Certainty.POSSIBLE
    elif grows and traceback_free(traceback):
        certainty = Certainty.LIKELY
    elif symptoms and symptoms.has("loss-kept-code") and symptoms.has("ram-grows-told") and traceback_free(traceback):
        certainty, told = Certainty.LIKELY, symptoms.cite("ram-grows-told", most=2)
    else:
        return
    lines = log.memory() if log and course else ()
    yield Finding(
        certainty=certainty,
        variant="course" if course else "",
        severity=None if oom else Severity.WARNING,
        values={"first": f"{course[0]:.2f}" if course else "?", "last": f"{course[1]:.2f}" if course else "?", "number": len(lines)},
        refs=(*(s.ref for s in (*lines[:2], *lines[-2:])), *code, *told, *((oom.errors[0].ref,) if oom else ())),
    )


def traceback_free(traceback: Traceback | None) -> bool:
    """Whether no exception was shown: with one, its own rule speaks."""
    return traceback is None or not any(r.error for r in traceback.raised)


def _in_run(run: DryRun) -> Finding:
    """From a dry run: memory that rose with every optimizer step, and the lines that made what is kept."""
    memory, growth = run.memory, run.memory.growth or 1
    left = max(0, memory.capacity - memory.peak_reserved)
    lines = [share.place for share in memory.growth_by_line if share.place]
    return Finding(
        variant="run",
        certainty=Certainty.LIKELY,
        severity=None if run.ran_out else Severity.WARNING,
        values={"growth": size(growth), "steps": left // growth, "card": run.card.name, "line": str(lines[0]) if lines else "?"},
        refs=tuple(line.ref() for line in dict.fromkeys(lines))[:4],
    )


RULE = Rule(
    slug="oom-graph-retained",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-batch-too-large", "oom-fragmentation", "cublas-init-failed", "cudnn-execution-failed",),
    see=("https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",),
    en=Text(
        title="Memory grows with the number of steps: the autograd graph of past steps is kept",
        why="A loss or output that is stored as a tensor (total += loss, losses.append(loss), retain_graph=True, hidden states carried over without detach) holds the whole graph of its step, with all activations. It is not a leak of PyTorch.",
        fix="Keep numbers, not tensors: total += loss.item(), losses.append(loss.detach().cpu()); call backward for every micro-batch instead of once on the sum; drop retain_graph=True; hidden = hidden.detach() between chunks; torch.no_grad() in validation.",
    ),
    zh=Text(
        title="显存随步数增长：过去各步的计算图被保留了",
        why="把损失或输出以张量形式存下来（total += loss、losses.append(loss)、retain_graph=True、隐藏状态不 detach 就传到下一步）会连带保留那一步的整个计算图和全部激活。这不是 PyTorch 泄漏。",
        fix="保存数值而不是张量：total += loss.item()，losses.append(loss.detach().cpu())；每个 micro-batch 都 backward，不要累加后只 backward 一次；去掉 retain_graph=True；分段之间 hidden = hidden.detach()；验证时用 torch.no_grad()。",
    ),
    variants={
        "carried": (
            Text(
                title="{target} goes from turn to turn with its graph, and retain_graph=True keeps all of them",
                why="Each turn's output depends on the one before. Without detach() the backward pass runs through all earlier turns, and retain_graph=True, which makes that possible, keeps their activations: time and memory grow with every turn.",
                fix="{target} = {target}.detach() before each turn (for an LSTM: tuple(h.detach() for h in {target})), and backward() without retain_graph. To train through several turns on purpose, sum their losses and call backward once per window.",
            ),
            Text(
                title="{target} 带着计算图从一轮传到下一轮，而 retain_graph=True 把它们全部保留",
                why="每一轮的输出都依赖上一轮。不 detach()，反向就会一直走过之前的所有轮；使之可行的 retain_graph=True 会保留它们的激活：时间和显存随轮数增长。",
                fix="每轮之前 {target} = {target}.detach()（LSTM 用 tuple(h.detach() for h in {target})），backward() 不带 retain_graph。若有意跨多轮训练，把各轮损失相加，每个窗口只 backward 一次。",
            ),
        ),
        "run": (
            Text(
                title="Memory grows by {growth} with every step: {card} is full after about {steps} more steps",
                why="After each optimizer step more stays allocated than after the one before{line:; most of what stays is made at *}. Something keeps tensors of past steps, with their graph: a sum or list of losses or outputs, retain_graph=True, a hidden state that is carried on.",
                fix="Keep numbers or detached tensors (loss.item(), out.detach().cpu()), detach the hidden state between steps, and drop retain_graph=True.",
            ),
            Text(
                title="显存每步增加 {growth}：再过约 {steps} 步 {card} 就会占满",
                why="每个优化步之后，仍占用的显存都比前一步多{line:；留下的部分多产生于 *}。有东西保留了以往各步的张量及其计算图：损失或输出的累加/列表、retain_graph=True、跨步传递的隐藏状态。",
                fix="只保存数值或 detach 后的张量（loss.item()、out.detach().cpu()），在两步之间 detach 隐藏状态，去掉 retain_graph=True。",
            ),
        ),
        "snapshot": (
            Text(
                title="GPU {gpu}: memory grows all through the record, from {first} to {last} at its lowest points",
                why="Between steps the use should come back to the same level; it rises by {grown}, so something of each step is kept. Most of what stays was allocated at {owner} ({blocks} blocks, {size}). A loss or output stored as a tensor keeps its whole graph; a list, cache or metric that collects tensors looks the same.",
                fix="At that place, keep numbers or detached tensors on the CPU: total += loss.item(), outputs.append(y.detach().cpu()); drop retain_graph=True; hidden = hidden.detach(); empty lists and caches after each epoch.",
            ),
            Text(
                title="GPU {gpu}：在整段记录中显存持续增长，最低点从 {first} 升到 {last}",
                why="各步之间用量本应回到同一水平，这里却上升了 {grown}，说明每步都有东西被留下。留下的大部分在 {owner} 处分配（{blocks} 块，{size}）。以张量形式保存的 loss 或输出会保留整个计算图；不断收集张量的列表、缓存或指标也是同样现象。",
                fix="在该处保存数值，或 detach 到 CPU 的张量：total += loss.item()，outputs.append(y.detach().cpu())；去掉 retain_graph=True；hidden = hidden.detach()；每个 epoch 后清空列表和缓存。",
            ),
        ),
        "kept": (
            Text(
                title="{target} keeps the autograd graph of every batch (line {line})",
                why="\"{code}\" stores a tensor that carries its graph, and no backward pass ever frees it: all activations of every turn of the loop stay in memory until the loop ends.",
                fix="Keep numbers or detached tensors: .item() or .detach() on what is added; in validation run the loop under torch.no_grad().",
            ),
            Text(
                title="{target} 保留了每个 batch 的计算图（第 {line} 行）",
                why="“{code}”存下了带计算图的张量，而且没有任何 backward 会释放它：每一轮循环的全部激活都留在显存里，直到循环结束。",
                fix="只保存数值或 detach 后的张量：对加入的值用 .item() 或 .detach()；验证循环放在 torch.no_grad() 下。",
            ),
        ),
        "window": (
            Text(
                title="The graphs of all micro-batches are held until one backward on their sum (line {line})",
                why="\"{code}\" sums losses with their graphs, and backward is called only every few turns: the activations of every micro-batch are in memory at once, so accumulation saves nothing.",
                fix="Call backward for every micro-batch (gradients add up by themselves), scaled by the number of micro-batches or afterwards by the token count, and keep only loss.detach() for the log.",
            ),
            Text(
                title="所有 micro-batch 的计算图都被保留，直到对总和做一次 backward（第 {line} 行）",
                why="“{code}”把带计算图的损失相加，隔几轮才 backward 一次：每个 micro-batch 的激活同时留在显存里，梯度累积没有省下任何显存。",
                fix="每个 micro-batch 都调用 backward（梯度会自动累加），按 micro-batch 数缩放，或之后按 token 数缩放；日志只保留 loss.detach()。",
            ),
        ),
        "nodes": (
            Text(
                title="{target} holds tensors with a graph, though backward has freed its activations (line {line})",
                why="\"{code}\" keeps the graph of every step: backward has freed the activations, but the nodes stay, and whatever a custom function keeps by itself. Memory of the process grows with each step of the loop, on the GPU a little, on the host by some 100 KB for a deep network.",
                fix="Add .detach() to what is kept (or .item() where it is only printed now and then).",
            ),
            Text(
                title="{target} 保存了带计算图的张量，不过激活已被 backward 释放（第 {line} 行）",
                why="“{code}”保留了每一步的计算图：backward 已释放激活，但节点以及自定义函数自己保留的内容都还在。进程占用的内存随循环的每一步增长：GPU 上很少，主机上对深的网络每步约 100 KB。",
                fix="对保存的值加 .detach()（只是偶尔打印的话用 .item()）。",
            ),
        ),
        "course": (
            Text(
                title="Memory rises from {first} to {last} GiB over {number} lines of the log (epoch after epoch or step after step) until the card is full",
                why="Steady growth rules out a batch that is simply too large. A loss or output that is stored as a tensor (total += loss, losses.append(loss), retain_graph=True) holds the graph of its step with all activations.",
                fix="Keep numbers, not tensors: total += loss.item(), losses.append(loss.detach().cpu()); call backward for every micro-batch; drop retain_graph=True; detach hidden states; torch.no_grad() in validation. torch.cuda.memory._record_memory_history() shows what is kept.",
            ),
            Text(
                title="日志中 {number} 行显示显存从 {first} 升到 {last} GiB（逐 epoch 或逐步上升），直到占满",
                why="持续上升排除了“batch 太大”。以张量形式存下的损失或输出（total += loss、losses.append(loss)、retain_graph=True）会保留那一步的计算图和全部激活。",
                fix="保存数值而不是张量：total += loss.item()，losses.append(loss.detach().cpu())；每个 micro-batch 都 backward；去掉 retain_graph=True；对隐藏状态 detach；验证时用 torch.no_grad()。torch.cuda.memory._record_memory_history() 能看到保留了什么。",
            ),
        ),
    },
)
