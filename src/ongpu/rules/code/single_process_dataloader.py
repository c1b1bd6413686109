"""Data is loaded in the training process itself."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, traceback: Traceback | None, log: TrainingLog | None, gpus: Gpus | None) -> Iterator[Finding]:
    warned = symptoms.cite("many-workers-warning", most=2)
    setting = symptoms.cite("few-workers", "loader-without-workers", "default-workers", most=2)
    if not warned and not setting:
        return
    failed = traceback is not None and any(r.error for r in traceback.raised)
    slow = symptoms.has("slow-words", "low-utilization", "gpu-idles-told", "pauses-words", "data-slow-words") or (log is not None and (log.data_share() or 0) > 0.3)
    if not warned and not slow:
        return
    yield Finding(
        certainty=Certainty.LIKELY if slow and not failed else Certainty.POSSIBLE,
        severity=Severity.NOTE if failed or (not set(setting) - set(warned) and ((not slow and _busy(gpus)) or (goes_on(symptoms) and not symptoms.has("low-utilization")))) else None,
        values={"number": symptoms.value("try", "many-workers-warning") or "the number of CPU cores"}, refs=(*warned, *setting, *symptoms.cite("low-utilization", most=1)),
    )


def _busy(gpus: Gpus | None) -> bool:
    """Whether a GPU is well used already."""
    return bool(gpus and any((g.utilization or 0) > 80 for g in gpus.gpus))


RULE = Rule(
    slug="single-process-dataloader",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    hides=("input-pipeline-bound",),
    see=("https://docs.pytorch.org/docs/stable/data.html",),
    en=Text(
        title="The DataLoader has no worker processes (num_workers=0): data is loaded in the training process",
        why="Reading, decoding and augmenting then happen between the steps, while the GPU is idle.",
        fix="num_workers={number}, with pin_memory=True and persistent_workers=True (Trainer: dataloader_num_workers). On Windows put the training under if __name__ == '__main__'. Keep 0 only if the whole data set already lies on the GPU.",
    ),
    zh=Text(
        title="DataLoader 没有 worker 进程（num_workers=0）：数据在训练进程里加载",
        why="读取、解码和增强都发生在两步之间，此时 GPU 空闲。",
        fix="设 num_workers={number}，配合 pin_memory=True 和 persistent_workers=True（Trainer：dataloader_num_workers）。在 Windows 上把训练代码放在 if __name__ == '__main__' 下。只有整个数据集已在 GPU 上时才保持 0。",
    ),
)
