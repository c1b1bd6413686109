"""DataParallel loads the GPUs unevenly."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import Items, Module
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, oom: OutOfMemory | None, traceback: Traceback | None, processes: Processes | None, gpus: Gpus | None,
    program: Program | None,
) -> Iterator[Finding]:
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
    if symptoms:
        yield from _in_words(symptoms, oom, traceback, processes, gpus)
    if gpus and not (processes and processes.processes) and not oom:
        yield from _in_table(gpus, symptoms)


def _in_table(gpus: Gpus, symptoms: Symptoms | None) -> Iterator[Finding]:
    """Three GPUs or more, all at work, the others alike in memory and the first half as full again: one process drives them all."""
    used = [g.memory_used or 0 for g in gpus.gpus]
    if len(used) < 3 or [g.index for g in gpus.gpus] != list(range(len(used))) or min(g.utilization or 0 for g in gpus.gpus) < 20 or (symptoms and symptoms.has("dataparallel")):
        return
    if min(used[1:]) > 2000 and max(used[1:]) < 1.05 * min(used[1:]) and used[0] > 1.5 * max(used[1:]):
        yield Finding(
            certainty=Certainty.POSSIBLE, severity=Severity.WARNING, values={"first": used[0], "others": max(used[1:])}, refs=gpus.cite(*gpus.gpus[:4]),
        )


def _in_source(script: Script) -> Iterator[Finding]:
    """A training loop over a module that DataParallel wraps; what is not trained gathers little."""
    for call in distinct(script.calls("torch.nn.DataParallel", "torch.nn.parallel.DataParallel")):
        wrapped = call.value
        devices = call.arg(1, "device_ids")
        chosen = devices is not None and not (isinstance(devices, Items) and len(devices.items) > 1)  # one card, or whoever starts it decides
        if chosen or any(g.kind in ("other", "every", "rank") for g in call.at.guards):
            continue  # only where somebody asks for several
        trained = any(
            isinstance(f.receiver, Module) and wrapped in (f.receiver, *f.receiver.either) and f.training_loop for f in script.calls("forward")
        )
        if trained:
            yield Finding(
                certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source", values={"line": call.line}, refs=(call.ref(),)
            )


def _in_words(
    symptoms: Symptoms, oom: OutOfMemory | None, traceback: Traceback | None, processes: Processes | None, gpus: Gpus | None
) -> Iterator[Finding]:
    warned = symptoms.cite("gpu-imbalance-warning")
    if warned:
        yield Finding(variant="cards", severity=Severity.WARNING, values={"gpu": symptoms.value("gpu", "gpu-imbalance-warning") or "?"}, refs=warned)
        return
    wrapped = symptoms.cite("dataparallel")
    if not wrapped:
        return
    uneven = _uneven(processes, gpus)
    gathered = traceback is not None and any(r.through("scatter_gather.py", "comm.py", "parallel/data_parallel.py") for r in traceback.raised)
    told = symptoms.cite("first-gpu-told", most=2)
    sizes = _sizes(symptoms) or (None if gpus and gpus.gpus else _column(symptoms))
    uneven = uneven or sizes
    if not (uneven or (oom and (gathered or told)) or told):
        return
    yield Finding(
        certainty=Certainty.LIKELY, severity=None if oom else Severity.WARNING,
        values={"first": uneven[0] if uneven else "?", "others": uneven[1] if uneven else "?"},
        refs=(*wrapped[:3], *((oom.errors[0].ref,) if oom else ()), *told, *symptoms.cite("gpu-sizes-told", most=1), *(symptoms.cite("smi-memory-column", most=3) if uneven and not (gpus and gpus.gpus) else ()), *(gpus.refs[:3] if gpus and uneven else ())),
    )


def _uneven(processes: Processes | None, gpus: Gpus | None) -> tuple[int, int] | None:
    """(MiB on the first GPU, most on any other) where the first holds a third more than the others."""
    used = [g.memory_used for g in gpus.gpus if g.memory_used is not None] if gpus else []
    if len(used) < 2 and processes:
        one = [p for p in processes.processes if p.kind != "G" and p.memory]
        used = [p.memory or 0 for p in sorted(one, key=lambda p: p.gpu or 0)] if len({p.pid for p in one}) == 1 else []
    if len(used) < 2 or max(used[1:]) < 500:
        return None
    return (used[0], max(used[1:])) if used[0] > 1.33 * max(used[1:]) else None


def _sizes(symptoms: Symptoms) -> tuple[int, int] | None:
    """The same from sizes told in words: "GPU0 23.6GB, GPU1 12.1GB"."""
    for hit in symptoms.seen("gpu-sizes-told"):
        first, other = (float(hit.groups[f"m{i}"]) * (1024 if hit.groups[f"u{i}"].lower() == "g" else 1) for i in (0, 1))
        if first > 1.33 * other > 500:
            return round(first), round(other)
    return None


def _column(symptoms: Symptoms) -> tuple[int, int] | None:
    """The same from nvidia-smi's table where only the rows with the memory were pasted."""
    used = [int(hit.groups["used"]) for hit in symptoms.seen("smi-memory-column")]
    first, other = (used[0], max(used[1:])) if len(used) > 1 else (0, 0)
    return (first, other) if first > 1.33 * other > 500 else None


RULE = Rule(
    slug="dataparallel-imbalance",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-first-gpu-imbalance", "oom-batch-too-large",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",),
    en=Text(
        title="nn.DataParallel overloads the first card, GPU 0 ({first} MiB against {others} MiB)",
        why="One process drives all cards: the weights are copied at each step, and all outputs and the loss sit on device_ids[0]. PyTorch recommends DistributedDataParallel even on one machine.",
        fix="Use DistributedDataParallel with torchrun (one process a GPU), or compute the loss inside the wrapped module so that only scalars are gathered.",
    ),
    zh=Text(
        title="nn.DataParallel 让第一块卡（GPU 0）负载过重（{first} MiB 对 {others} MiB）",
        why="一个进程驱动所有卡：每步都复制权重，所有输出和损失都在 device_ids[0]。PyTorch 官方建议即使在单机上也使用 DistributedDataParallel。",
        fix="用 torchrun 启动 DistributedDataParallel（每卡一个进程），或在被包装的模块内部计算损失，只汇集标量。",
    ),
    variants={
        "source": (
            Text(
                title="The training loop runs through nn.DataParallel: the first card carries more than the rest",
                why="One process drives all cards: at each step it copies the weights to them, and gathers all outputs on device_ids[0], where the loss is computed. That card runs out of memory first, and the others wait.",
                fix="Use DistributedDataParallel with torchrun (one process a GPU), or compute the loss inside the wrapped module so that only scalars are gathered.",
            ),
            Text(
                title="训练循环使用 nn.DataParallel：第一块卡的负担比其他卡重",
                why="一个进程驱动所有卡：每步都要把权重复制过去，并把全部输出汇集到 device_ids[0]，损失也在那里计算。这块卡最先显存不足，其他卡则在等待。",
                fix="用 torchrun 启动 DistributedDataParallel（每卡一个进程），或在被包装的模块内部计算损失，只汇集标量。",
            ),
        ),
        "cards": (
            Text(
                title="DataParallel runs on unequal cards: GPU {gpu} has less than 75% of the memory or cores of the other",
                why="Each card gets the same share of the batch, so the weakest one sets the pace and runs out of memory first.",
                fix="Leave the weak card out (device_ids=[0], or CUDA_VISIBLE_DEVICES), or use DistributedDataParallel with a batch size for each card.",
            ),
            Text(
                title="DataParallel 用在了不对等的显卡上：GPU {gpu} 的显存或核心数不到另一块的 75%",
                why="每张卡分到同样多的 batch，最弱的一张决定速度，也最先显存不足。",
                fix="不用较弱的卡（device_ids=[0] 或 CUDA_VISIBLE_DEVICES），或用 DistributedDataParallel 并给每张卡不同的 batch。",
            ),
        ),
    },
)
