"""Data is loaded in the training process itself."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Class, Dataset, Loader, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, traceback: Traceback | None, log: TrainingLog | None, gpus: Gpus | None, dryrun: DryRun | None,
    program: Program | None,
) -> Iterator[Finding]:
    if dryrun:
        yield from _in_run(dryrun)
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
    if symptoms is None:
        return
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


# What costs milliseconds for each sample: decoding, reading, resampling, augmenting.
COSTLY = (
    "PIL.*", "cv2.*", "imageio.*", "skimage.*", "scipy.*", "librosa.*", "torchaudio.*", "soundfile.*", "decord.*", "pydicom.*", "nibabel.*",
    "h5py.*", "albumentations.*", "torchvision.io.*", "torchvision.transforms.functional.*", "numpy.load", "torch.load", "pandas.read_*", "open",
    "torch.nn.functional.interpolate", "torch.nn.functional.grid_sample", "torch.stft", "torch.istft",
)  # fmt: skip
FOLDERS = ("torchvision.datasets.", "torchaudio.datasets.", "timm.data.")
SMALL = ("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "KMNIST", "QMNIST", "EMNIST", "USPS", "FakeData")  # lie in memory, decoded


def _in_source(script: Script) -> Iterator[Finding]:
    """Loaders of a training loop without workers, whose samples cost something to make."""
    for loader in script.loaders:
        if loader.workers != 0 or may_be_gpu(loader.where) or loader.made.stars or loader.made.at.frame.alone:
            continue
        trains = any(loop.over is loader and loop.trains for loop in script.loops)
        cost = _costly(script, loader)
        if trains and cost is not None and (script.names_cuda or script.managed):
            yield Finding(
                subject=loader.made.words(60),
                certainty=Certainty.LIKELY,
                variant="source",
                values={"line": loader.made.line, "what": cost.name.lstrip(".") if isinstance(cost, Event) else cost},
                refs=(loader.made.ref(), *((cost.ref(),) if isinstance(cost, Event) else ())),
            )


def _costly(script: Script, loader: Loader) -> Event | str | None:
    """What makes a sample costly: a call in the dataset's own methods, or a library's dataset of files; None where nothing is seen."""
    data = loader.dataset
    if not isinstance(data, Dataset):
        return None
    if isinstance(data.cls, str):
        name = data.cls.rpartition(".")[2]
        return name if data.cls.startswith(FOLDERS) and name not in SMALL else None
    return next((call for call in distinct(script.calls(*COSTLY)) if _of(call, data.cls)), None)


def _of(call: Event, cls: Class) -> bool:
    frame = call.at.frame.inside("getitem", "worker")
    return frame is not None and frame.function is not None and frame.function.cls in (cls, *cls.own_bases)


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
