"""The graph of every step is kept, so memory grows until it is full."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import growth, suspect
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None,
) -> Iterator[Finding]:
    course = growth(log)
    grows = symptoms.cite("memory-grows-told", most=3) if symptoms else ()
    told = (*grows, *(symptoms.cite("grows-words") if symptoms else ()))
    code = symptoms.cite("retain-graph", "loss-kept-code", "diff-adds-item", most=3) if symptoms else ()
    if oom:
        slug, certainty, _ = suspect(oom, traceback, log, processes, gpus)
        if slug not in ("oom-graph-retained", "oom-batch-too-large", "oom-fragmentation", "oom-eval-with-grad") or not (course or told or code):
            return
        if slug != "oom-graph-retained":
            certainty = Certainty.LIKELY if code or told else Certainty.POSSIBLE
        late = symptoms.cite("steady-oom-words", most=2) if symptoms else ()
        told = (*told, *late) if told else told
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
