"""Data is loaded in the training process itself."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.defaults import option
from ongpu.facts.dryrun import DryRun
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.samples import costly, costly_call, takes
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import is_keras
from ongpu.facts.values import Class, Dataset, Function, Instance, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, traceback: Traceback | None, log: TrainingLog | None, gpus: Gpus | None, dryrun: DryRun | None,
    program: Program | None,
) -> Iterator[Finding]:
    if dryrun:
        yield from _in_run(dryrun)
    if program:
        asked = bool(symptoms and symptoms.has("gpu-idles-told", "low-utilization", "pauses-words", "data-slow-words"))
        yield from (finding for script in program.scripts for finding in (*_in_source(script, asked), *_in_keras(script)))
    if symptoms is None:
        return
    warned = symptoms.cite("many-workers-warning", most=2)
    setting = symptoms.cite("few-workers", "loader-without-workers", "default-workers", most=2)
    if not warned and not setting:
        return
    failed = traceback is not None and any(r.error for r in traceback.raised)
    slow = symptoms.has("slow-words", "low-utilization", "gpu-idles-told", "pauses-words", "data-slow-words") or (log is not None and (log.data_share() or 0) > 0.3) or _idle(gpus)
    if not warned and not slow:
        return
    yield Finding(
        certainty=Certainty.LIKELY if slow and not failed else Certainty.POSSIBLE,
        severity=Severity.NOTE if failed or (not set(setting) - set(warned) and ((not slow and _busy(gpus)) or (goes_on(symptoms) and not symptoms.has("low-utilization")))) else None,
        values={"number": symptoms.value("try", "many-workers-warning") or "the number of CPU cores"}, refs=(*warned, *setting, *symptoms.cite("low-utilization", most=1)),
    )


def _in_source(script: Script, asked: bool) -> Iterator[Finding]:
    """Loaders of a training loop without workers, whose samples cost something to make. asked: somebody complains of a GPU that waits;
    then a function counts that nothing in the source calls."""
    for loader in script.loaders:
        said = option(script, loader.setting("num_workers")) if loader.workers is None else None
        workers = loader.workers if said is None else said.says("default", ...)
        if workers != 0 or workers is False or may_be_gpu(loader.where) or loader.made.stars or (loader.made.at.frame.alone and not asked):
            continue
        trains = any(takes(loop, loader) and loop.trains for loop in script.loops)
        cost = costly(script, loader)
        if trains and cost is not None and (script.names_cuda or script.managed):
            yield Finding(
                subject=loader.made.words(60),
                certainty=Certainty.LIKELY,
                variant="default" if said else "source",
                values={"option": said.words(60) if said else "?", "line": loader.made.line, "what": cost.name.lstrip(".") if isinstance(cost, Event) else cost},
                refs=(loader.made.ref(), *((said.ref(),) if said else ()), *((cost.ref(),) if isinstance(cost, Event) else ())),
            )


def _in_keras(script: Script) -> Iterator[Finding]:
    """Keras' fit over a Sequence (PyDataset) whose batches cost something, with its default of one thread."""
    for fit in distinct(script.calls(".fit", ".fit_generator")):
        data = fit.arg(0, "x")
        if not isinstance(data, Instance | Dataset) or not isinstance(data.cls, Class) or not any(base.startswith("keras.") for base in data.cls.bases):
            continue
        if fit.stars or not is_keras(fit.receiver):
            continue
        said = {**((data.made.kw or {}) if data.made else {}), **(fit.kw or {})}
        start = data.cls.find("__init__")
        text = ast.unparse(start.node) if isinstance(start, Function) else ""
        if "workers" in said or "use_multiprocessing" in said or "workers" in text or (data.made is not None and data.made.stars):
            continue
        cost = costly_call(script, data.cls)
        if cost is not None:
            yield Finding(
                subject=fit.words(60), certainty=Certainty.LIKELY, variant="keras", values={"what": cost.name.lstrip("."), "code": fit.words(60)},
                refs=(fit.ref(), cost.ref()),
            )  # fmt: skip


def _idle(gpus: Gpus | None) -> bool:
    """Whether every GPU that is shown has little to do, in a process that holds memory there (or is not told of any)."""
    shown = [gpu for gpu in gpus.gpus if gpu.utilization is not None] if gpus else []
    return bool(shown) and all((gpu.utilization or 0) < 40 and (gpu.memory_used is None or gpu.memory_used > 1000) for gpu in shown)


def _busy(gpus: Gpus | None) -> bool:
    """Whether a GPU is well used already."""
    return bool(gpus and any((g.utilization or 0) > 80 for g in gpus.gpus))


SLOW, SOME = 0.1, 0.01  # seconds that a batch takes in the training process: a fault, a hint


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run: loaders without workers whose batches took long on this machine."""
    for loader in run.loaders:
        each = loader.seconds / loader.batches if loader.batches >= 2 else 0.0
        if run.used_gpu and loader.workers == 0 and each >= SOME:
            yield Finding(
                variant="run",
                certainty=Certainty.LIKELY,
                severity=None if each >= SLOW else Severity.NOTE,
                subject=str(loader.place or loader.dataset),
                values={"milliseconds": f"{1000 * each:.0f}", "dataset": loader.dataset or "?", "line": str(loader.place) if loader.place else "?"},
                refs=(loader.place.ref(),) if loader.place else (),
            )


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
    variants={
        "keras": (
            Text(
                title="{code} makes its batches in one thread, and they cost time: {what}",
                why="Keras' Sequence (PyDataset) has workers=1 and use_multiprocessing=False by default; each batch is read and decoded by one thread beside the training, and the GPU waits for it.",
                fix="Keras 3: super().__init__(workers=8, use_multiprocessing=True, max_queue_size=16) in the PyDataset; Keras 2: model.fit(..., workers=8, use_multiprocessing=True). Or tf.data with map(num_parallel_calls=tf.data.AUTOTUNE) and prefetch.",
            ),
            Text(
                title="{code} 只用一个线程准备 batch，而每个 batch 都要花时间：{what}",
                why="Keras 的 Sequence（PyDataset）默认 workers=1、use_multiprocessing=False；每个 batch 由训练旁边的一个线程读取和解码，GPU 在等。",
                fix="Keras 3：在 PyDataset 里 super().__init__(workers=8, use_multiprocessing=True, max_queue_size=16)；Keras 2：model.fit(..., workers=8, use_multiprocessing=True)。或用 tf.data，配 map(num_parallel_calls=tf.data.AUTOTUNE) 和 prefetch。",
            ),
        ),
        "default": (
            Text(
                title="This loader has no worker processes unless its user asks for some ({option}), and its samples cost time: {what}",
                why="The default is num_workers=0: each sample is read, decoded and changed in the training process, between two steps; the GPU waits meanwhile.",
                fix="Start the program with more workers (the option sets num_workers: CPU cores a GPU, 4 to 16), or raise the default; pin_memory=True, persistent_workers=True where there are workers.",
            ),
            Text(
                title="除非使用者另行指定，这个加载器没有 worker 进程（{option}），而每个样本都要花时间：{what}",
                why="默认 num_workers=0：样本的读取、解码和变换都在训练进程里、两步之间进行，这期间 GPU 在等。",
                fix="启动程序时给出更多 worker（该选项就是 num_workers：每块 GPU 的 CPU 核数，4 到 16），或提高默认值；有 worker 时加 pin_memory=True、persistent_workers=True。",
            ),
        ),
        "source": (
            Text(
                title="This loader has no worker processes (num_workers=0), and its samples cost time: {what}",
                why="Each sample is read, decoded and changed in the training process, between two steps; the GPU waits meanwhile.",
                fix="num_workers = CPU cores a GPU (4 to 16), pin_memory=True, persistent_workers=True; on Windows and macOS the training goes under if __name__ == '__main__'.",
            ),
            Text(
                title="这个加载器没有 worker 进程（num_workers=0），而每个样本都要花时间：{what}",
                why="样本的读取、解码和变换都在训练进程里、两步之间进行，这期间 GPU 在等。",
                fix="num_workers 设为每块 GPU 的 CPU 核数（4 到 16），pin_memory=True、persistent_workers=True；在 Windows 和 macOS 上把训练代码放在 if __name__ == '__main__' 下。",
            ),
        ),
        "run": (
            Text(
                title="The loader at {line} has no workers, and a batch takes {milliseconds} ms: the GPU waits meanwhile",
                why="{dataset} reads, decodes and augments in the training process, between two steps. Measured on this machine: another one is faster or slower.",
                fix="num_workers = CPU cores a GPU (4 to 16), pin_memory=True, persistent_workers=True; on Windows the training goes under if __name__ == '__main__'.",
            ),
            Text(
                title="{line} 处的加载器没有 worker，每批要 {milliseconds} 毫秒：这期间 GPU 在等",
                why="{dataset} 的读取、解码和增强都在训练进程里、两步之间进行。该时间是在本机测得的，别的机器可能更快或更慢。",
                fix="num_workers 设为每块 GPU 的 CPU 核数（4 到 16），pin_memory=True、persistent_workers=True；在 Windows 上把训练代码放在 if __name__ == '__main__' 下。",
            ),
        ),
    },
)
