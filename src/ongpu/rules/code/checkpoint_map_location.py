"""A checkpoint is loaded onto the device that it was saved from."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import first_gpu_crowd, suspect
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import CPU, Parameters
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, oom: OutOfMemory | None, traceback: Traceback | None, processes: Processes | None, gpus: Gpus | None,
    program: Program | None,
) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    lines = symptoms.seen("map-location") if symptoms else ()
    real = [hit for hit in lines if hit.groups or "ttempting to deserialize" in hit.ref.quote]
    if real and symptoms:
        device, count = symptoms.value("device", "map-location"), symptoms.value("count", "map-location")
        yield Finding(
            variant="ordinal" if device and count else "",
            values={"device": device or "?", "count": count or "?"},
            refs=(*(hit.ref for hit in real[:2]), *symptoms.cite("torch-load-line")),
        )
        return
    if symptoms and symptoms.has("restore-frame") and symptoms.has("invalid-ordinal"):
        yield Finding(certainty=Certainty.LIKELY, refs=symptoms.cite("invalid-ordinal", "restore-frame", "torch-load-line", most=2))
        return
    stale = traceback.said("invalid device ordinal", "no cuda gpus", "cuda error") if traceback else None
    if stale and stale.through("_cuda_deserialize", "restore_location", "torch.load("):
        yield Finding(certainty=Certainty.LIKELY, refs=stale.cite())
        return
    if oom:
        slug, certainty, error = suspect(oom, traceback, None, processes, gpus)
        if slug == "checkpoint-map-location":
            yield Finding(certainty=certainty, variant="memory", values={"gpu": error.gpu or 0}, refs=(error.ref,))
            return
    crowd = first_gpu_crowd(processes)
    if crowd and symptoms and symptoms.has("torch-load-line"):
        guests, _ = crowd
        yield Finding(
            certainty=Certainty.LIKELY, variant="ranks", severity=Severity.WARNING,
            values={"number": len(guests), "pids": [p.pid for p in guests][:8]},
            refs=(*symptoms.cite("torch-load-line"), *(p.ref for p in guests[:6] if p.ref)),
        )


def _in_source(script: Script) -> Iterator[Finding]:
    """Checkpoints that go back to the device of whoever saved them, in scripts that are written for several."""
    for load in distinct(script.calls("torch.load")):
        if load.given(1, "map_location") is not None or load.stars or not script.names_cuda or load.at.frame.inside("getitem", "worker", "collate"):
            continue
        if any(e.given(1, "map_location") is not None for e in script.calls("torch.load")) or _stateless(load) or _in_memory(script, load):
            continue  # another branch says it; or it holds no weights
        alone = any(guard.kind == "rank" for guard in load.at.guards)  # one rank reads it
        ranks = script.says("LOCAL_RANK", "init_process_group", "DistributedDataParallel") and not alone
        if not ranks and not _maybe(script):
            continue  # the script is for a machine with a GPU: the checkpoint's device is there
        away = not ranks and not script.trains and not any(True for _ in script.calls("torch.save")) and any(load.before(use) for use in script.calls(".load_state_dict"))
        yield Finding(
            subject=load.words(),
            certainty=Certainty.LIKELY if (ranks and _saves_moved(script) and _restored(script, load)) or away else Certainty.POSSIBLE,
            severity=Severity.WARNING if (ranks and _saves_moved(script)) or away else Severity.NOTE,
            variant="source-ranks" if ranks else "source",
            values={"code": load.words(60), "line": load.line},
            refs=(load.ref(),),
            edits=(load.file.argument(load.call, 'map_location="cpu"'),),
        )


def _in_memory(script: Script, load: Event) -> bool:
    """Whether it reads what the same process wrote: an io.BytesIO, or a file that each rank saved before."""
    if any(load.args and e.value is load.args[0] for e in script.calls("io.BytesIO")):
        return True
    path = load.given(0, "f")
    saves = (e for e in script.calls("torch.save") if e.before(load) and not any(guard.kind == "rank" for guard in e.at.guards))
    return path is not None and any((there := e.given(1, "f")) is not None and ast.dump(there) == ast.dump(path) for e in saves)


def _stateless(load: Event) -> bool:
    """Whether it names what holds no tensors on a GPU: a scheduler, random states, metrics."""
    words = load.words(200).lower()
    return any(word in words for word in ("sched", "scaler", "rng", "metric", "bytesio", "vocab", "tokenizer"))


def _maybe(script: Script) -> bool:
    """Whether the script also runs without CUDA."""
    return any(True for _ in script.calls("torch.cuda.is_available"))


def _saves_moved(script: Script) -> bool:
    """Whether it saves anything but what surely lies on the CPU."""
    return any(not _on_cpu(save) for save in script.calls("torch.save"))


def _restored(script: Script, load: Event) -> bool:
    """Whether what it reads goes into a model or an optimizer, and what is saved is their state: the same program's own checkpoint."""
    states = any("state_dict" in save.words(400) for save in script.calls("torch.save"))
    return states and any(load.before(use) for use in script.calls(".load_state_dict"))


def _on_cpu(save: Event) -> bool:
    given = save.arg(0, "obj")
    return isinstance(given, Parameters) and given.module.where(save) == CPU


RULE = Rule(
    slug="checkpoint-map-location",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("invalid-device-ordinal", "oom-first-gpu-imbalance", "ddp-all-ranks-on-gpu0",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.load.html",),
    en=Text(
        title="The checkpoint was saved from a GPU, and is loaded where that GPU is not available",
        why="torch.load puts every tensor back on the device it was saved from unless map_location says otherwise; this process has no usable CUDA device. If a GPU should be there, its absence is the fault to look at first.",
        fix="torch.load(path, map_location='cpu') (or map_location=device), then model.to(device).",
    ),
    zh=Text(
        title="检查点是从 GPU 保存的，而加载它的地方没有可用的 GPU",
        why="torch.load 在没有 map_location 时会把每个张量放回保存时的设备，而当前进程没有可用的 CUDA 设备。如果这里本该有 GPU，应先查 GPU 为什么不可用。",
        fix="torch.load(path, map_location='cpu')（或 map_location=device），然后 model.to(device)。",
    ),
    variants={
        "source": (
            Text(
                title="{code} brings the checkpoint back to the device that it was saved from",
                why="Without map_location every storage goes to its old device. Saved on a GPU, it cannot be read on a machine without one (the script itself provides for that), and on one with fewer cards its index is not there.",
                fix="torch.load(path, map_location='cpu') (or map_location=device), then load_state_dict and model.to(device).",
            ),
            Text(
                title="{code} 会把检查点放回保存它时的设备",
                why="不写 map_location，每个存储都会回到原来的设备。在 GPU 上保存的检查点，在没有 GPU 的机器上（脚本本身考虑了这种情况）读不出来；卡更少的机器上则没有那个编号。",
                fix="torch.load(path, map_location='cpu')（或 map_location=device），再 load_state_dict 和 model.to(device)。",
            ),
        ),
        "source-ranks": (
            Text(
                title="{code}: every rank brings the checkpoint to the card that it was saved from, usually GPU 0",
                why="Without map_location every storage goes to its old device. With several ranks GPU 0 then holds one copy for each of them, and may run out of memory.",
                fix="torch.load(path, map_location='cpu') (or map_location=f'cuda:{{local_rank}}'), then load_state_dict.",
            ),
            Text(
                title="{code}：每个 rank 都会把检查点放回保存它的那块卡，通常是 GPU 0",
                why="不写 map_location，每个存储都会回到原来的设备。多 rank 时 GPU 0 要为每个 rank 各存一份，可能显存不足。",
                fix="torch.load(path, map_location='cpu')（或 map_location=f'cuda:{{local_rank}}'），再 load_state_dict。",
            ),
        ),
        "ordinal": (
            Text(
                title="The checkpoint was saved from cuda:{device}, but this process has {count} GPU(s)",
                why="torch.load puts every tensor back on the device it was saved from unless map_location says otherwise; CUDA device {device} does not exist here (torch.cuda.device_count() is {count}).",
                fix="torch.load(path, map_location='cpu') (or map_location='cuda:0'), then model.to(device).",
            ),
            Text(
                title="检查点保存自 cuda:{device}，而当前进程只有 {count} 块 GPU",
                why="torch.load 在没有 map_location 时会把每个张量放回保存时的设备；这里不存在 CUDA 设备 {device}（torch.cuda.device_count() 为 {count}）。",
                fix="torch.load(path, map_location='cpu')（或 map_location='cuda:0'），然后 model.to(device)。",
            ),
        ),
        "memory": (
            Text(
                title="Loading the checkpoint fills GPU {gpu}: it goes back to the card it was saved from",
                why="The memory ran out inside torch.load. Without map_location every tensor (model, optimizer state, and once per rank) is restored onto the saving GPU, beside the model that is already there.",
                fix="torch.load(path, map_location='cpu'), load_state_dict, then delete the checkpoint object before training.",
            ),
            Text(
                title="加载检查点时占满了 GPU {gpu}：张量被放回了保存时的那块卡",
                why="显存是在 torch.load 里耗尽的。没有 map_location 时，所有张量（模型、优化器状态，且每个 rank 一份）都会恢复到保存时的 GPU，与已在卡上的模型叠加。",
                fix="用 torch.load(path, map_location='cpu')，load_state_dict 之后、训练之前删除检查点对象。",
            ),
        ),
        "ranks": (
            Text(
                title="{number} ranks hold a block on the first GPU besides their own: the checkpoint is loaded without map_location",
                why="Each rank (PIDs {pids}) called torch.load without map_location, so every one restored the tensors onto the GPU that they were saved from, usually cuda:0.",
                fix="torch.load(path, map_location='cpu') (or map_location=f'cuda:{{local_rank}}'), and torch.cuda.set_device(local_rank) before anything touches the GPU.",
            ),
            Text(
                title="{number} 个 rank 除自己的卡外还在第一块 GPU 上占了一块显存：加载检查点时没有写 map_location",
                why="每个 rank（PID {pids}）都用不带 map_location 的 torch.load，于是都把张量恢复到了保存时的 GPU，通常是 cuda:0。",
                fix="torch.load(path, map_location='cpu')（或 map_location=f'cuda:{{local_rank}}'），并在接触 GPU 之前 torch.cuda.set_device(local_rank)。",
            ),
        ),
    },
)
