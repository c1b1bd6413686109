"""Outputs of all batches are collected on the GPU."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.program import Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import Items, Tensor, may_be_gpu
from ongpu.facts.windows import over_loader
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None, program: Program | None,
) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    yield from _in_error(oom, traceback, log, processes, gpus, symptoms) if oom else ()


def _in_source(script: Script) -> Iterator[Finding]:
    """Lists that grow by a tensor on the GPU for each batch; single numbers and small loops aside."""
    yield from _joined(script)
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
