"""Several ranks use the same GPU."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.dryrun import DryRun
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.program import Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import CUDA, MAYBE, Const
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_EXTRA = lazy(r"\balso\b|extra|addition|more than|\d ?[MG](?:i?B)?\b|比.{0,6}多|还占", re.IGNORECASE)  # a block beside a rank's own card


def check(symptoms: Symptoms | None, processes: Processes | None, gpus: Gpus | None, dryrun: DryRun | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    if dryrun and len(dryrun.ranks) > 1:
        devices = {rank.device for rank in dryrun.ranks}
        if len(devices) == 1 and None not in devices:
            yield Finding(variant="run", values={"number": len(dryrun.ranks), "device": dryrun.ranks[0].device}, refs=dryrun.refs[:2])
        return
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




CHOOSES = ("torch.cuda.set_device", "torch.cuda.device", "torch.accelerator.set_device_index", "torch.set_default_device", "torch.cuda._set_device")


def _in_source(script: Script) -> Iterator[Finding]:
    """A distributed script whose module goes to "cuda" or "cuda:0" in every rank, and that chooses no card anywhere."""
    start = next(script.calls("torch.distributed.init_process_group"), None)
    backend = start.arg(0, "backend") if start else None
    if start is None or script.managed or (isinstance(backend, Const) and backend.value in ("gloo", "mpi")):
        return
    if any(True for _ in script.calls(*CHOOSES)) or _sets_visible(script):
        return
    for module in script.modules:
        for move in module.moves or ():
            device = move.device
            if move.event.kind == "now":
                continue  # two branches met: which card each of them named, their own moves tell
            if device.where in (CUDA, MAYBE) and not device.ranked and device.index in (None, 0) and not _by_name(script):
                yield Finding(
                    certainty=Certainty.LIKELY,
                    variant="source",
                    values={"code": move.event.words(60), "line": move.event.line},
                    refs=(move.event.ref(), start.ref()),
                )
                return


def _sets_visible(script: Script) -> bool:
    """Whether CUDA_VISIBLE_DEVICES is written anywhere (to be read is no choice): an item, a key of a dictionary, a keyword, an argument of
    setdefault or putenv."""
    name = "CUDA_VISIBLE_DEVICES"
    if not script.says(name):
        return False
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _is(node.slice, name):
            return True
        if isinstance(node, ast.Dict) and any(_is(key, name) for key in node.keys):
            return True
        if isinstance(node, ast.keyword) and node.arg == name:
            return True
        if isinstance(node, ast.Call) and node.args and _is(node.args[0], name) and ast.unparse(node.func).endswith((".setdefault", "putenv", "setenv")):
            return True
    return False


def _is(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _by_name(script: Script) -> bool:
    """Whether a device is named by the rank somewhere: "cuda:%d" % rank."""
    return script.says("cuda:{", "cuda:%d", "cuda:%s", '"cuda:" +', "'cuda:' +", '"cuda", local_rank', '"cuda", rank')


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
        "source": (
            Text(
                title="Every rank goes to the same card: {code} names none, and nothing calls set_device with LOCAL_RANK",
                why="cuda without an index is the current device, GPU 0 in each process that has not chosen another. All ranks then share GPU 0: out of memory, NCCL's 'Duplicate GPU detected', or a hang, while the other cards stay idle.",
                fix="At the start, before anything touches the GPU: local_rank = int(os.environ['LOCAL_RANK']); torch.cuda.set_device(local_rank); and DistributedDataParallel(model, device_ids=[local_rank]).",
            ),
            Text(
                title="所有 rank 都用同一块卡：{code} 没有指明哪一块，也没有用 LOCAL_RANK 调用 set_device",
                why="不带编号的 cuda 指当前设备；进程没有另选时就是 GPU 0。于是所有 rank 共用 GPU 0：显存不足、NCCL 报 Duplicate GPU detected，或卡住，而其他卡空闲。",
                fix="在最开始、接触 GPU 之前：local_rank = int(os.environ['LOCAL_RANK'])；torch.cuda.set_device(local_rank)；并用 DistributedDataParallel(model, device_ids=[local_rank])。",
            ),
        ),
        "run": (
            Text(
                title="All {number} ranks put their tensors on {device}",
                why="In the dry run each rank had its own card and LOCAL_RANK, and every one used {device}: a bare .cuda() or \"cuda\" means the first card in every process. NCCL refuses two ranks on one card; other backends share its memory.",
                fix="At the start of each process: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); model.to(local_rank), DistributedDataParallel(model, device_ids=[local_rank]); no fixed device names.",
            ),
            Text(
                title="全部 {number} 个 rank 都把张量放在 {device} 上",
                why="试运行中每个 rank 都有自己的卡和 LOCAL_RANK，却都用了 {device}：裸 .cuda() 或 \"cuda\" 在每个进程里都指第一块卡。NCCL 不接受两个 rank 共用一块卡；其他后端则共用其显存。",
                fix="每个进程开头：torch.cuda.set_device(int(os.environ['LOCAL_RANK']))；model.to(local_rank)，DistributedDataParallel(model, device_ids=[local_rank])；不要写死设备名。",
            ),
        ),
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
