"""Outputs of all batches are collected on the GPU."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.program import Event, Loop, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import CUDA, MANAGED, MAYBE, Class, Const, Function, Items, Module, Tensor, Value, may_be_gpu
from ongpu.facts.windows import over_loader
from ongpu.lazy import replace
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None, program: Program | None,
) -> Iterator[Finding]:
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    yield from (replace(finding, severity=None) if oom else finding for finding in found)
    yield from (finding for script in program.scripts for finding in _in_hooks(script, oom is not None)) if program else ()
    yield from (finding for script in program.scripts for finding in _in_callback(script)) if program and oom else ()
    yield from _in_error(oom, traceback, log, processes, gpus, symptoms) if oom else ()


def _in_source(script: Script) -> Iterator[Finding]:
    """Lists that grow by a tensor on the GPU for each batch; single numbers and small loops aside."""
    yield from _joined(script)
    yield from _filed(script)
    for event in distinct(script.of("accumulate")):
        kept = event.value
        if isinstance(kept, Items) and not kept.uniform:  # a dictionary or tuple of outputs
            kept = next((t for t in kept.items if isinstance(t, Tensor) and t.origin == "output"), kept)
        if event.name not in ("append", "extend") or not isinstance(kept, Tensor) or not may_be_gpu(kept.where) or kept.scalar or event.loop is None:
            continue
        from_model = any(t.origin == "output" for t in kept.line())
        if kept.graph is True and event.at.grad is True:
            continue  # its graph weighs more: oom-graph-retained
        if from_model and over_loader(event.loop) and not event.at.frame.inside("forward", "step"):
            yield Finding(
                subject=event.target,
                certainty=Certainty.LIKELY,
                severity=Severity.WARNING,
                variant="source",
                values={"target": event.target, "line": event.line},
                refs=(event.ref(),),
            )


def _filed(script: Script) -> Iterator[Finding]:
    """results[name] = output, in a dictionary or list that was begun before the loop, under another key at each turn."""
    for event in distinct(script.of("setitem")):
        kept, store = event.value, event.receiver
        turn = next((loop for loop in reversed(event.at.loops) if loop.kind != "comprehension" and any(f.loop is loop for f in loop.forwards or ())), None)
        if not isinstance(kept, Tensor) or not isinstance(store, Items) or kept.scalar or kept.where not in (CUDA, MAYBE) or turn is None:
            continue
        if isinstance(event.args[0], Const) or turn.trains or _few(turn) or (kept.graph is True and event.at.grad is True) or event.at.frame.inside("forward", "step"):
            continue
        target = event.node.value if isinstance(event.node, ast.Subscript) else None
        name = ast.unparse(target) if target is not None else ""
        if not any(t.origin == "output" for t in kept.line()) or any(isinstance(n, ast.Assign) and any(ast.unparse(t) == name for t in n.targets) for n in ast.walk(turn.node)):
            continue
        yield Finding(
            subject=name, certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="filed", values={"target": event.words(40), "line": event.line}, refs=(event.ref(),)
        )


def _few(loop: Loop) -> bool:
    """Whether it goes over a few things that the source lists, or over models that each answer once."""
    listed = isinstance(loop.over, Items) and not loop.over.uniform
    calls = [f for f in loop.forwards or () if f.loop is loop and isinstance(f.node, ast.Call)]
    return listed or any(isinstance(n, ast.Name) and n.id in loop.targets for f in calls for n in ast.walk(f.call.func))


def _joined(script: Script) -> Iterator[Finding]:
    """kept = torch.cat([kept, output]) for each batch."""
    for call in distinct(script.calls("torch.cat", "torch.concat", "torch.vstack", "torch.hstack")):
        stmt, given = call.stmt, call.given(0, "tensors")
        grown = stmt.targets[0] if isinstance(stmt, ast.Assign) else None
        if call.loop is None or not isinstance(grown, ast.Name | ast.Attribute) or not isinstance(given, ast.List | ast.Tuple) or not given.elts:
            continue
        same = type(given.elts[0]) is type(grown) and ast.unparse(given.elts[0]) == ast.unparse(grown)
        kept = call.value
        if not same or not isinstance(kept, Tensor) or not may_be_gpu(kept.where) or call.at.grad is not False:
            continue
        if over_loader(call.loop) and any(t.origin == "output" for t in kept.line()) and not call.at.frame.inside("forward", "step"):
            target = ast.unparse(grown)
            yield Finding(
                subject=target, certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source", values={"target": target, "line": call.line},
                refs=(call.ref(),),
            )


HOOKS = {"training_step": "training_epoch_end", "validation_step": "validation_epoch_end", "test_step": "test_epoch_end"}


def _in_hooks(script: Script, full: bool) -> Iterator[Finding]:
    """Lightning modules that keep the outputs of an epoch's steps. Up to 1.9 a module with an epoch-end hook has all that its steps
    return kept for it (2.0 took the hooks away for that reason); since then modules keep them in attributes, which they must empty."""
    for given in distinct(script.of("return")):
        cls, hook = _lightning(given), HOOKS.get(given.name, "")
        function = cls.find(hook) if cls and hook else None
        if not isinstance(function, Function) or not any(_large(value) for value in _parts(given.value)):
            continue
        places = [a.arg for a in function.node.args.args[1:]]
        used = any(isinstance(n, ast.Name) and n.id in places for n in ast.walk(function.node))
        yield Finding(
            subject=hook, certainty=Certainty.LIKELY, variant="hook", severity=None if full else Severity.NOTE if used else Severity.WARNING,
            values={"hook": hook, "step": given.name, "code": given.words(60)}, refs=(function.file.ref(function.node), given.ref()),
        )  # fmt: skip
    for event in distinct(script.of("accumulate")):
        cls = _lightning(event)
        if cls is None or not event.target.startswith("self.") or event.name not in ("append", "extend") or not any(_large(v) for v in _parts(event.value)):
            continue
        if any(g.kind in ("first", "every", "rank", "other") for g in event.at.guards):
            continue  # of some batches only: pictures for a log
        emptied = _emptied(cls, event.target)
        if not emptied or full:
            yield Finding(
                subject=event.target, certainty=Certainty.LIKELY, variant="source" if emptied else "never", severity=None if full else Severity.WARNING,
                values={"target": event.target, "line": event.line}, refs=(event.ref(),),
            )  # fmt: skip


def _in_callback(script: Script) -> Iterator[Finding]:
    """A callback of Lightning that puts what a batch gave aside, as it is. Only where memory did run out."""
    for event in distinct(script.of("accumulate")):
        function = event.at.frame.function
        cls = function.cls if function else None
        if function is None or cls is None or not event.target.startswith("self.") or event.name not in ("append", "extend") or not isinstance(event.node, ast.Call):
            continue
        given = {a.arg for a in function.node.args.args} & {"outputs", "batch"}
        if not function.name.endswith("_batch_end") or not any(base.endswith("Callback") for base in cls.bases) or not given or not event.node.args:
            continue
        words = ast.unparse(function.node)
        names = given | {t.id for n in ast.walk(function.node) if isinstance(n, ast.Assign) and _named(n.value, given) for x in n.targets for t in ast.walk(x) if isinstance(t, ast.Name)}
        if _named(event.node.args[0], names) and not any(move in words for move in (".cpu(", ".item(", ".tolist(", '.to("cpu")', ".to('cpu')")):
            yield Finding(subject=event.target, certainty=Certainty.LIKELY, variant="source", values={"target": event.target, "line": event.line}, refs=(event.ref(),))
            return


def _named(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def _lightning(event: Event) -> Class | None:
    """The Lightning module's class in whose step it happens."""
    frame = event.at.frame.inside("step", "evaluation")
    cls = frame.me.cls if frame and isinstance(frame.me, Module) else None
    return cls if isinstance(cls, Class) and cls.kind == "lightning" else None


def _parts(value: Value | None) -> list[Value]:
    """What a step gives or keeps, one by one; its loss is needed anyway."""
    if not isinstance(value, Items):
        return [value] if value is not None else []
    names = [key.value if isinstance(key, Const) else None for key in value.keys or ()]
    return [item for index, item in enumerate(value.items) if index >= len(names) or names[index] != "loss"]


def _large(value: Value) -> bool:
    """Whether it is a tensor on the GPU with more than one number, as far as seen, that was computed there."""
    return isinstance(value, Tensor) and not value.scalar and value.where in (CUDA, MAYBE, MANAGED) and any(t.origin in ("output", "made") for t in value.line())


def _emptied(cls: Class, target: str) -> bool:
    """Whether a method beside __init__ empties the list: target.clear(), target = [], del target."""
    for method in (m for one in (cls, *cls.own_bases) for m in one.methods()):
        if method.name == "__init__":
            continue
        for node in ast.walk(method.node):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("clear", "pop", "popleft") and ast.unparse(node.func.value) == target
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target] if isinstance(node, ast.AnnAssign) else []
            if called or any(ast.unparse(one).partition("[")[0] == target for one in targets):
                return True
    return False


def _in_error(
    oom: OutOfMemory, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None,
) -> Iterator[Finding]:
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)
    kept = symptoms.cite("outputs-kept", "outputs-kept-told", "diff-adds-cpu", most=3) if symptoms else ()
    if slug in ("oom-batch-too-large", "oom-eval-with-grad", "oom-graph-retained", "oom-fragmentation") and kept:
        certainty = Certainty.LIKELY
    elif slug != "oom-outputs-kept-on-gpu":
        return
    trainer = traceback is not None and any(r.through("transformers/trainer", "nested_concat") for r in traceback.raised)
    raised = next((r for r in traceback.raised if r.frames), None) if traceback else None
    joins = raised.through("cat(", "concat", "append(", "gather") if raised else None
    yield Finding(
        certainty=certainty, variant="trainer" if trainer else "",
        values={"line": joins.code if joins else raised.own()[-1].code if raised and raised.own() else "?"},
        refs=(error.ref, *kept[:2], *((joins.ref,) if joins else ()), *(raised.cite() if raised else ())),
    )


RULE = Rule(
    slug="oom-outputs-kept-on-gpu",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-batch-too-large", "oom-eval-with-grad", "oom-graph-retained", "oom-fragmentation",),
    see=("https://huggingface.co/docs/transformers/main_classes/trainer",),
    en=Text(
        title="The outputs of all batches are collected on the GPU",
        why="Predictions, logits or features of each batch are appended to a list or concatenated while they still lie on the GPU, so memory grows with the data set{line:: *|.}",
        fix="Move them to the host as they come: outputs.append(out.detach().cpu()); reduce them first (argmax); run the loop under torch.no_grad().",
    ),
    zh=Text(
        title="所有 batch 的输出都累积在 GPU 上",
        why="每个 batch 的预测、logits 或特征在仍位于 GPU 时就被加入列表或拼接，显存随数据集增长{line:：*|。}",
        fix="随算随移到主机：outputs.append(out.detach().cpu())；先做归约（argmax）；循环放在 torch.no_grad() 下。",
    ),
    variants={
        "source": (
            Text(
                title="{target} collects the outputs of all batches on the GPU",
                why="Each batch adds its outputs to what stays on the card until the loop is over; with large outputs (logits over a vocabulary, masks, embeddings) it fills up long after the first batch went well.",
                fix="Move them to the host as they come: {target}.append(out.cpu()); or keep what is needed only: argmax, sums, a running metric (torchmetrics).",
            ),
            Text(
                title="{target} 把所有 batch 的输出都收集在 GPU 上",
                why="每个 batch 的输出都会留在显存里直到循环结束；输出较大时（对整个词表的 logits、掩码、embedding），前面都正常，跑到后面显存就满了。",
                fix="随产生随移到主机：{target}.append(out.cpu())；或只保留需要的东西：argmax、求和、滚动指标（torchmetrics）。",
            ),
        ),
        "filed": (
            Text(
                title="{target} keeps the outputs of every batch on the GPU",
                why="Each turn of the loop files its outputs under another key, and they stay on the card until the loop is over. A row of a batch's output keeps the whole of it.",
                fix="Move them to the host as they come: {target} = out.cpu(); or reduce them first (argmax, topk) and keep that.",
            ),
            Text(
                title="{target} 把每个 batch 的输出都留在 GPU 上",
                why="循环的每一轮都把输出存到另一个键下，直到循环结束都占着显存。只存一行也会保留整个 batch 的输出。",
                fix="随产生随移到主机：{target} = out.cpu()；或先归约（argmax、topk）再保存。",
            ),
        ),
        "hook": (
            Text(
                title="{hook} makes Lightning keep what each {step} returns, on the GPU, until the epoch ends",
                why="A module that defines {hook} gets the outputs of all steps at the end of the epoch, so Lightning 1.x keeps them all, even where the hook does nothing: \"{code}\" returns more than the loss. Lightning 2 has no such hook any more, for this reason.",
                fix="Remove {hook}, or return the loss alone; keep sums or a metric (torchmetrics) in the step, or .detach().cpu() what is needed. In Lightning 2: on_{hook} without outputs, with a list of your own that it clears.",
            ),
            Text(
                title="定义了 {hook}，Lightning 会把每个 {step} 的返回值留在 GPU 上直到 epoch 结束",
                why="定义了 {hook} 的模块会在 epoch 末收到所有步的输出，所以 Lightning 1.x 会全部保留，哪怕该钩子什么都不做：“{code}”返回的不只是 loss。Lightning 2 正因如此取消了这种钩子。",
                fix="删掉 {hook}，或只返回 loss；在每步里累计求和或用 torchmetrics，需要的张量用 .detach().cpu()。Lightning 2 中改用不带 outputs 的 on_{hook}，自己维护并清空列表。",
            ),
        ),
        "never": (
            Text(
                title="{target} collects the outputs of all steps on the GPU, and nothing empties it",
                why="Each step adds tensors to a list of the module that lives as long as the module: memory grows from step to step and from epoch to epoch (line {line}).",
                fix="{target}.append(out.detach().cpu()), and {target}.clear() in on_train_epoch_end or on_validation_epoch_end; better a running metric (torchmetrics).",
            ),
            Text(
                title="{target} 把所有步的输出收集在 GPU 上，而且从不清空",
                why="每一步都往模块自己的列表里加张量，列表和模块一样长寿：显存逐步、逐 epoch 增长（第 {line} 行）。",
                fix="{target}.append(out.detach().cpu())，并在 on_train_epoch_end 或 on_validation_epoch_end 里 {target}.clear()；更好的是用滚动指标（torchmetrics）。",
            ),
        ),
        "trainer": (
            Text(
                title="Trainer.evaluate or predict joins the logits of all batches on the GPU",
                why="Without eval_accumulation_steps the Trainer concatenates every prediction on the GPU until the end of the evaluation loop; logits over a vocabulary are large.",
                fix="Set eval_accumulation_steps (for example 8) so that predictions go to the host now and then, or reduce them first with preprocess_logits_for_metrics (argmax), or prediction_loss_only=True; a smaller per_device_eval_batch_size.",
            ),
            Text(
                title="Trainer.evaluate/predict 把所有 batch 的 logits 都拼接在 GPU 上",
                why="没有设置 eval_accumulation_steps 时，Trainer 会把全部预测留在 GPU 上拼接到评估结束；对整个词表的 logits 非常大。",
                fix="设置 eval_accumulation_steps（例如 8），让预测定期移到主机；或用 preprocess_logits_for_metrics 先归约（argmax），或 prediction_loss_only=True；减小 per_device_eval_batch_size。",
            ),
        ),
    },
)
