"""The first GPU carries more than the others and fills up first."""

import re
from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import first_gpu_crowd, same_on_first, suspect, uneven_first
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

# Messages that name GPU 0, or all of something, in themselves.
_MESSAGE = lazy(r"all tensors to be on the same device|OOM when allocating|(?:[Cc]annot|[Tt]ried to|[Ff]ailed to) allocate|any other process using", re.IGNORECASE)


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, processes: Processes | None, gpus: Gpus | None, symptoms: Symptoms | None,
) -> Iterator[Finding]:
    crowd = first_gpu_crowd(processes)
    if crowd:
        guests, _ = crowd
        each = guests[0].memory
        yield Finding(
            certainty=Certainty.LIKELY, variant="contexts", severity=None if oom else Severity.WARNING,
            values={"number": len(guests), "pids": [p.pid for p in guests][:8], "each": each or "?", "gpu": guests[0].gpu},
            refs=tuple(p.ref for p in guests[:6] if p.ref),
        )
        return
    uneven = uneven_first(processes)
    if uneven:
        yield Finding(
            certainty=Certainty.LIKELY, variant="one", severity=None if oom else Severity.WARNING,
            values={"gpu": uneven[0].gpu, "first": uneven[0].memory or "?", "others": uneven[1].memory or "?", "pid": uneven[0].pid or "?"},
            refs=tuple(p.ref for p in uneven[:6] if p.ref),
        )
        return
    same = same_on_first(processes)
    if same:
        yield Finding(
            certainty=Certainty.LIKELY, variant="contexts", severity=None if oom else Severity.WARNING,
            values={"number": len(same), "pids": [p.pid for p in same][:8], "each": same[0].memory or "?", "gpu": same[0].gpu},
            refs=tuple(p.ref for p in same[:6] if p.ref),
        )
        return
    told = symptoms.cite("first-gpu-told", most=3) if symptoms else ()
    told = tuple(ref for ref in told if not _MESSAGE.search(ref.quote))
    if told and symptoms and not symptoms.has("dataparallel", "nccl-duplicate-gpu", "harmless-p2p-no") and not (gpus and len(gpus.gpus) == 1):
        yield Finding(
            certainty=Certainty.LIKELY if oom or symptoms.has("per-rank-launch", "torch-load-line") else Certainty.POSSIBLE, variant="told",
            severity=None if oom else Severity.WARNING,
            refs=(*told, *symptoms.cite("gpu-sizes-told", "torch-load-line", "per-rank-launch", most=2), *((oom.errors[0].ref,) if oom else ())),
        )
        return
    if oom:
        slug, certainty, error = suspect(oom, traceback, None, processes, gpus)
        if slug == "oom-first-gpu-imbalance":
            yield Finding(certainty=certainty, values={"gpu": error.gpu or 0}, refs=(error.ref, *(symptoms.cite("dataparallel") if symptoms else ())))


RULE = Rule(
    slug="oom-first-gpu-imbalance",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-other-process", "gpu-busy-other-process", "oom-batch-too-large",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html", "https://github.com/Lightning-AI/pytorch-lightning/issues/1702",),
    en=Text(
        title="GPU {gpu} fills up first: DataParallel gathers every output there",
        why="nn.DataParallel keeps the master copy of the weights, gathers all outputs and computes the loss on device_ids[0]; that card needs far more memory than the rest, whatever the total batch.",
        fix="Use DistributedDataParallel (torchrun, one process a GPU); or compute the loss inside the wrapped module, so that only scalars are gathered.",
    ),
    zh=Text(
        title="GPU {gpu} 最先占满：DataParallel 把所有输出都汇集到它上面",
        why="nn.DataParallel 把主权重、全部输出和损失都放在 device_ids[0]；无论总 batch 多大，这张卡需要的显存都远多于其他卡。",
        fix="改用 DistributedDataParallel（torchrun，每卡一个进程）；或在被包装的模块内部计算损失，只汇集标量。",
    ),
    variants={
        "told": (
            Text(
                title="GPU 0 is told to hold more than the other GPUs",
                why="In a job with one process a GPU the first card fills up when other ranks touch it: a CUDA context opened before torch.cuda.set_device, a checkpoint restored by torch.load without map_location, a bare .cuda(), or work that rank 0 alone does (evaluation, logging, gathered outputs). With nn.DataParallel it carries the gathered outputs and the loss.",
                fix="torch.cuda.set_device(local_rank) before anything touches CUDA (or CUDA_VISIBLE_DEVICES for each process); torch.load(path, map_location=f'cuda:{{local_rank}}') or 'cpu'; DistributedDataParallel in place of DataParallel. The process table of nvidia-smi shows which PIDs sit on GPU 0.",
            ),
            Text(
                title="GPU 0 占用的显存比其他 GPU 多",
                why="每卡一个进程的任务里，其他 rank 碰到了第一块卡就会这样：在 torch.cuda.set_device 之前创建了 CUDA 上下文、torch.load 没写 map_location、裸 .cuda()，或只有 rank 0 做的工作（评估、日志、汇集输出）。用 nn.DataParallel 时，汇集的输出和损失都在第一块卡上。",
                fix="在接触 CUDA 之前先 torch.cuda.set_device(local_rank)（或给每个进程设 CUDA_VISIBLE_DEVICES）；torch.load(path, map_location=f'cuda:{{local_rank}}') 或 'cpu'；用 DistributedDataParallel 代替 DataParallel。nvidia-smi 的进程表能看出哪些 PID 在 GPU 0 上。",
            ),
        ),
        "one": (
            Text(
                title="GPU {gpu} carries {first} MiB, the other GPUs of the same process (PID {pid}) {others} MiB",
                why="One process drives all cards (nn.DataParallel and the like): the master weights, all gathered outputs and the loss sit on its first card, which runs out of memory long before the others.",
                fix="Use DistributedDataParallel (torchrun, one process a GPU); or compute the loss inside the wrapped module, so that only scalars are gathered.",
            ),
            Text(
                title="GPU {gpu} 占用 {first} MiB，而同一进程（PID {pid}）在其他 GPU 上只占 {others} MiB",
                why="一个进程驱动所有卡（nn.DataParallel 之类）：主权重、汇集的全部输出和损失都在第一块卡上，它会比其他卡早得多耗尽显存。",
                fix="改用 DistributedDataParallel（torchrun，每卡一个进程）；或在被包装的模块内部计算损失，只汇集标量。",
            ),
        ),
        "contexts": (
            Text(
                title="{number} process(es) that work on other GPUs also hold a block ({each} MiB) on GPU {gpu}",
                why="PIDs {pids} appear on their own card and on GPU {gpu}. The extra block is a CUDA context, or a checkpoint restored there: something touched the default device (torch.cuda.empty_cache(), torch.load without map_location, pin_memory, a bare .cuda()) before the process chose its own.",
                fix="Call torch.cuda.set_device(local_rank) before anything else touches CUDA, or give each process one card with CUDA_VISIBLE_DEVICES; load checkpoints with map_location='cpu'.",
            ),
            Text(
                title="{number} 个在其他 GPU 上工作的进程还在 GPU {gpu} 上占了一块（{each} MiB）",
                why="PID {pids} 同时出现在自己的卡和 GPU {gpu} 上。多出的那块是 CUDA 上下文，或恢复到那里的检查点：进程在选定自己的卡之前就碰了默认设备（torch.cuda.empty_cache()、不带 map_location 的 torch.load、pin_memory、裸 .cuda()）。",
                fix="在任何 CUDA 操作之前调用 torch.cuda.set_device(local_rank)，或用 CUDA_VISIBLE_DEVICES 让每个进程只看到一张卡；加载检查点时用 map_location='cpu'。",
            ),
        ),
    },
)
