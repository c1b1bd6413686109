"""Evaluation records a graph, because gradients are not switched off."""

from collections.abc import Iterator

from ongpu.facts.code import Oom, OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(
    oom: OutOfMemory, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None, symptoms: Symptoms | None,
) -> Iterator[Finding]:
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)
    told = symptoms.cite("eval-oom-words", "eval-oom-told", "volatile-removed", "diff-adds-no-grad", most=2) if symptoms else ()
    late = _evaluating(symptoms, error) if symptoms else ()
    free = symptoms is not None and symptoms.has("no-grad-words") and not symptoms.has("volatile-removed", "diff-adds-no-grad")
    told = (*told, *late)
    if slug in ("oom-graph-retained", "oom-fragmentation") and (late or (symptoms and symptoms.has("volatile-removed"))):
        slug = "oom-batch-too-large"
    if slug == "oom-batch-too-large" and told and not free and certainty is not Certainty.CERTAIN:
        certainty = Certainty.LIKELY
    elif slug != "oom-eval-with-grad" or free:
        return
    elif told:
        certainty = max(certainty, Certainty.LIKELY)
    raised = next((r for r in traceback.raised if r.frames), None) if traceback else None
    yield Finding(
        certainty=certainty,
        values={"line": raised.own()[-1].code if raised and raised.own() else "?"},
        refs=(error.ref, *told, *(raised.cite() if raised else ())),
    )


def _evaluating(symptoms: Symptoms, error: Oom) -> tuple[Ref, ...]:
    """Lines of the log that show evaluation just before the memory ran out."""
    lines = [hit.ref for hit in symptoms.seen("eval-context")]
    near = [ref for ref in lines if ref.source != error.ref.source or 0 <= error.ref.line - ref.line <= 14]
    return tuple(near[-2:])


RULE = Rule(
    slug="oom-eval-with-grad",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-batch-too-large", "oom-graph-retained",),
    see=("https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",),
    en=Text(
        title="Memory ran out during evaluation, and nothing shows that gradients are off",
        why="model.eval() only switches layers such as BatchNorm and Dropout; autograd still records the graph and keeps all activations. The traceback runs through evaluation code without torch.no_grad() around it{line:: *|.}",
        fix="Wrap the forward pass of validation and inference in with torch.no_grad(): (or torch.inference_mode()), move outputs to the host (.cpu()) as they come, and use a batch that fits.",
    ),
    zh=Text(
        title="显存在评估阶段耗尽，且没有迹象表明关闭了梯度",
        why="model.eval() 只切换 BatchNorm、Dropout 等层；autograd 仍会记录计算图并保留全部激活。回溯经过评估代码，而外层没有 torch.no_grad(){line:：*|。}",
        fix="验证和推理的前向用 with torch.no_grad():（或 torch.inference_mode()）包住，输出及时移到主机（.cpu()），并使用放得下的 batch。",
    ),
)
