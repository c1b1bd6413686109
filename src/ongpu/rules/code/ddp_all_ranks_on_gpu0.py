"""Several ranks use the same GPU."""

import re
from collections.abc import Iterator

from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_EXTRA = lazy(r"\balso\b|extra|addition|more than|\d ?[MG](?:i?B)?\b|比.{0,6}多|还占", re.IGNORECASE)  # a block beside a rank's own card


def check(symptoms: Symptoms | None, processes: Processes | None, gpus: Gpus | None) -> Iterator[Finding]:
    if symptoms and symptoms.has("nccl-duplicate-gpu"):
        name = "nccl-duplicate-gpu"
        yield Finding(
            values={
                "a": symptoms.value("a", name) or "0", "b": symptoms.value("b", name) or "1", "dev": symptoms.value("dev", name) or "?",
                "cards": len(gpus.gpus) if gpus and gpus.gpus else "?",
            },
            refs=(*symptoms.cite(name), *symptoms.cite("set-device-missing", "per-rank-launch", most=2)),
        )
        return
    guessed = symptoms.seen("rank-uses-gpu") if symptoms else ()
    by_gpu: dict[str, set[str]] = {}
    for hit in guessed:
        by_gpu.setdefault(hit.groups["gpu"], set()).add(hit.groups["rank"])
    shared = next((gpu for gpu, ranks in by_gpu.items() if len(ranks) > 1), None)
    if shared is not None:
        yield Finding(
            certainty=Certainty.LIKELY, variant="guess", severity=Severity.WARNING,
            values={"gpu": shared, "number": len(by_gpu[shared])}, refs=tuple(h.ref for h in guessed if h.groups["gpu"] == shared)[:4],
        )
        return
    told = tuple(r for r in symptoms.cite("all-on-first", most=2) if not _EXTRA.search(r.quote)) if symptoms else ()
    if told and symptoms and symptoms.has("barrier-device-unknown") and (goes_on(symptoms) or len({hit.groups["rank"] for hit in guessed}) <= 1):
        return  # one rank's hint, and the run went on
    if told and symptoms and symptoms.has("per-rank-launch", "several-gpus") and not symptoms.has("dataparallel", "gpu-not-seen"):
        by_launcher = symptoms.cite("per-rank-launch", most=2)
        yield Finding(
            certainty=Certainty.LIKELY if by_launcher else Certainty.POSSIBLE, variant="told", severity=Severity.WARNING,
            values={"cards": len(gpus.gpus) if gpus and gpus.gpus else "?"}, refs=(*told, *by_launcher, *symptoms.cite("set-device-missing", most=1)),
        )
        return
    if not processes or not gpus or len(gpus.gpus) < 2:
        return
    compute = [p for p in processes.processes if p.kind != "G" and p.gpu is not None]
    used = {p.gpu for p in compute}
    launched = symptoms is not None and symptoms.has("per-rank-launch", "barrier-device-unknown")
    if len({p.pid for p in compute}) >= 2 and len(used) == 1 and launched and len({p.name for p in compute}) == 1:
        yield Finding(
            certainty=Certainty.LIKELY, variant="table",
            values={"number": len(compute), "gpu": next(iter(used)), "cards": len(gpus.gpus)}, refs=tuple(p.ref for p in compute[:6] if p.ref),
        )


RULE = Rule(
    slug="ddp-all-ranks-on-gpu0",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout", "oom-other-process", "oom-batch-too-large", "nccl-p2p-broken", "oom-first-gpu-imbalance", "input-pipeline-bound",),
    see=("https://docs.pytorch.org/docs/stable/elastic/run.html", "https://github.com/pytorch/examples/pull/1142",),
    en=Text(
        title="rank {a} and rank {b} both use the same GPU (CUDA device {dev})",
        why="NCCL wants one GPU for each rank. The script does not choose its card by LOCAL_RANK (a bare .cuda() or \"cuda:0\" means the same card in every process), a device is fixed in the script or in CUDA_VISIBLE_DEVICES, or more ranks are started than there are GPUs{cards: (cards seen: *)}.",
        fix="At the start of each process: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), model.to(local_rank), DistributedDataParallel(model, device_ids=[local_rank]). Remove fixed device names; start at most as many ranks (--nproc_per_node) as nvidia-smi -L lists GPUs.",
    ),
    zh=Text(
        title="rank {a} 和 rank {b} 用了同一块 GPU（CUDA 设备 {dev}）",
        why="NCCL 要求每个 rank 独占一块 GPU。脚本没有按 LOCAL_RANK 选卡（裸 .cuda() 或 \"cuda:0\" 在每个进程里都是同一块卡），或在脚本/CUDA_VISIBLE_DEVICES 中写死了设备，或启动的 rank 比 GPU 多{cards:（看到的 GPU 数：*）}。",
        fix="每个进程开头：torch.cuda.set_device(int(os.environ['LOCAL_RANK']))，model.to(local_rank)，DistributedDataParallel(model, device_ids=[local_rank])。去掉写死的设备名；rank 数（--nproc_per_node）不要超过 nvidia-smi -L 列出的 GPU 数。",
    ),
    variants={
        "told": (
            Text(
                title="All ranks seem to work on the same GPU, the other GPUs stay empty",
                why="Each process has to choose its card by LOCAL_RANK. A bare .cuda(), \"cuda\" or \"cuda:0\" means the first card in every process; a CUDA_VISIBLE_DEVICES with one card, or a script that is not started by a launcher (so that LOCAL_RANK is unset) has the same effect.",
                fix="torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) at the start, model.to(local_rank), DistributedDataParallel(model, device_ids=[local_rank]); start it by torchrun --nproc_per_node=<GPUs>; no fixed device names.",
            ),
            Text(
                title="所有 rank 似乎都在用同一块 GPU，其他 GPU 空着",
                why="每个进程要按 LOCAL_RANK 选自己的卡。裸 .cuda()、“cuda”或“cuda:0”在每个进程里都指第一块卡；CUDA_VISIBLE_DEVICES 只写了一块卡，或脚本不是由启动器启动（没有 LOCAL_RANK），效果相同。",
                fix="开头就 torch.cuda.set_device(int(os.environ['LOCAL_RANK']))，model.to(local_rank)，DistributedDataParallel(model, device_ids=[local_rank])；用 torchrun --nproc_per_node=<GPU 数> 启动；不要写死设备名。",
            ),
        ),
        "guess": (
            Text(
                title="{number} ranks are about to use GPU {gpu}: none of them chose its device",
                why="The process group asks which device belongs to the rank and has to guess, because neither torch.cuda.set_device nor device_id was called before the first collective; several ranks end on the same card, which can hang or run out of memory.",
                fix="torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before init_process_group, or init_process_group('nccl', device_id=torch.device(f'cuda:{{local_rank}}')); give each rank its own card.",
            ),
            Text(
                title="{number} 个 rank 将使用 GPU {gpu}：它们都没有选定设备",
                why="进程组不知道该 rank 对应哪块设备，只能猜测，因为在第一次集合通信之前既没有 torch.cuda.set_device，也没有传 device_id；多个 rank 落到同一块卡上，会卡住或显存不足。",
                fix="在 init_process_group 之前 torch.cuda.set_device(int(os.environ['LOCAL_RANK']))，或 init_process_group('nccl', device_id=torch.device(f'cuda:{{local_rank}}'))；让每个 rank 用自己的卡。",
            ),
        ),
        "table": (
            Text(
                title="All {number} ranks run on GPU {gpu}, while the machine has {cards} GPUs",
                why="Each process of the launcher shows up on the same card and the others are idle: the script never chooses its card by LOCAL_RANK.",
                fix="At the start of each process: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), and use that rank's device everywhere (device_ids=[local_rank]).",
            ),
            Text(
                title="全部 {number} 个 rank 都在 GPU {gpu} 上运行，而机器有 {cards} 块 GPU",
                why="启动器的每个进程都出现在同一块卡上，其余空闲：脚本没有按 LOCAL_RANK 选卡。",
                fix="每个进程开头：torch.cuda.set_device(int(os.environ['LOCAL_RANK']))，之后各处都用该 rank 的设备（device_ids=[local_rank]）。",
            ),
        ),
    },
)
