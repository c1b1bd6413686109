"""The memory is held by somebody else."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import others_on, suspect, without_room
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.system import Processes
from ongpu.facts.traced import tf_steps
from ongpu.facts.values import Module, Tensor, may_be_gpu
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None, program: Program | None,
) -> Iterator[Finding]:
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
        yield from (finding for script in program.scripts for finding in _siblings(script, oom))
    if oom:
        yield from _in_error(oom, traceback, log, processes, gpus)


GROWTH = ("set_memory_growth", "ALLOW_GROWTH", "allow_growth", "set_visible_devices", "memory_limit", "set_logical_device", "per_process_gpu_memory")
CLIENT = ("XLA_PYTHON_CLIENT", "XLA_CLIENT_MEM", "JAX_PLATFORMS", "jax_platform")


def _in_source(script: Script) -> Iterator[Finding]:
    """TensorFlow or JAX, which take nearly the whole card at their first use, beside PyTorch on CUDA in one program."""
    if "torch" not in script.imports:
        return
    torch = next((e for e in script.calls(".to", ".cuda") if isinstance(e.value, Module | Tensor) and _on_cuda(e)), None)
    flow = next(iter(script.calls("tensorflow.*", "keras.*")), None) if list(tf_steps(script)) or list(script.calls("keras.models.load_model")) else None
    jax = next(iter(script.calls("jax.numpy.*", "jax.jit", "jax.grad", "jax.device_put")), None)
    for event, quiet, name in ((flow, GROWTH, "TensorFlow"), (jax, CLIENT, "JAX")):
        if torch is not None and event is not None and not script.says(*quiet):
            yield Finding(
                certainty=Certainty.POSSIBLE, severity=Severity.NOTE, variant="source", values={"name": name, "code": event.words(60)},
                refs=(event.ref(), torch.ref()),
            )  # fmt: skip


STARTS = ("multiprocessing.Process", "multiprocessing.Pool", "multiprocessing.pool.Pool", "concurrent.futures.ProcessPoolExecutor")


def _siblings(script: Script, oom: OutOfMemory | None) -> Iterator[Finding]:
    """Several processes of one program that each use JAX: the first takes three quarters of the card (XLA_PYTHON_CLIENT_MEM_FRACTION is
    0.75), and leaves the others nothing."""
    start = next(script.calls(*STARTS), None)
    used = next(iter(script.calls("jax.numpy.*", "jax.random.*", "jax.jit", "jax.grad", "jax.device_put")), None)
    several = start is not None and (bool(start.at.loops) or not start.name.endswith("Process"))
    if start is not None and used is not None and several and not script.says(*CLIENT, "CUDA_VISIBLE_DEVICES", "local_device_ids"):
        yield Finding(
            certainty=Certainty.LIKELY if oom else Certainty.POSSIBLE, severity=None if oom else Severity.NOTE, variant="siblings",
            values={"code": start.words(60), "used": used.words(40)}, refs=(start.ref(), used.ref(), *(e.ref for e in (oom.errors if oom else ())[:1])),
        )  # fmt: skip


def _on_cuda(event: Event) -> bool:
    if isinstance(event.receiver, Module):
        return any(m.event is event and may_be_gpu(m.device.where) for m in event.receiver.moves or ())
    return isinstance(event.value, Tensor) and may_be_gpu(event.value.where)


def _in_error(oom: OutOfMemory, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None) -> Iterator[Finding]:
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)
    present = [p for p in others_on(error.gpu, processes, gpus) if (p.memory or 0) > 2000]
    busy = slug in ("oom-batch-too-large", "oom-fragmentation") and error.total is None and present
    if slug != "oom-other-process" and not busy:
        return
    frame = without_room(error, traceback)
    if frame and not busy:
        yield Finding(
            certainty=certainty, variant="context", values={"code": frame.code or frame.function}, fixes=(Fix("who-holds-gpu"),),
            refs=(error.ref, frame.ref, *(p.ref for p in present[:4] if p.ref)),
        )
        return
    held, mine = error.held_by_others, error.in_use if error.in_use is not None else error.reserved
    if mine is None:
        mine = error.allocated
    shown = [p for p in present if not error.pids or p.pid in error.pids] or present
    yield Finding(
        certainty=certainty if not busy else Certainty.LIKELY,
        variant="startup" if error.kind == "startup" else "busy" if busy else "",
        values={
            "held": "?" if held is None else f"{held:.2f} GiB", "mine": "?" if mine is None else _size(mine), "total": "?" if error.total is None else f"{error.total:.2f} GiB",
            "gpu": "?" if error.gpu is None else error.gpu, "free": _size(error.free), "wanted": _size(error.wanted),
            "pids": error.pids or tuple(p.pid for p in shown if p.pid)[:6] or "not shown",
        },
        fixes=(Fix("who-holds-gpu"),),
        refs=(error.ref, *(p.ref for p in shown[:4] if p.ref), *(gpus.about("memory_used")[:2] if gpus and error.total is None else ())),
    )


def _size(gib: float | None) -> str:
    return "?" if gib is None else f"{gib * 1024:.2f} MiB" if gib < 1 else f"{gib:.2f} GiB"


RULE = Rule(
    slug="oom-other-process",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed", "oom-batch-too-large",),
    settle=("nvidia-smi", "sudo fuser -v /dev/nvidia*",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.nvidia.com/deploy/nvidia-smi/",),
    en=Text(
        title="Somebody else holds {held} of GPU {gpu} ({total}); this program has only {mine} and asked for {wanted}",
        why="Total minus free minus what PyTorch reserves is far more than a CUDA context. It belongs to other processes (PIDs: {pids}): another user, a notebook kernel, a desktop, or leftovers of an earlier run; in a container their PIDs cannot be seen.",
        fix="Look on the host: nvidia-smi, sudo fuser -v /dev/nvidia*; end what is yours (stale workers, notebook kernels), choose a free card with CUDA_VISIBLE_DEVICES, or wait. A smaller batch does not cure it.",
    ),
    zh=Text(
        title="GPU {gpu}（{total}）上有 {held} 被别人占用；本程序只有 {mine}，申请 {wanted} 时失败",
        why="总量减去空闲、再减去 PyTorch 自己保留的，剩余远大于一个 CUDA 上下文。它属于其他进程（PID：{pids}）：别的用户、notebook 内核、桌面，或之前运行的残留；在容器里看不到它们的 PID。",
        fix="到宿主机上查：nvidia-smi、sudo fuser -v /dev/nvidia*；结束属于自己的进程（残留 worker、notebook 内核），用 CUDA_VISIBLE_DEVICES 换一张空闲的卡，或等待。减小 batch 解决不了。",
    ),
    variants={
        "siblings": (
            Text(
                title="{code} starts several processes that each use JAX: the first takes 75 % of the card",
                why="JAX reserves three quarters of a GPU's memory when it is first used ({used}). Each process does so for itself, so the second one finds next to nothing, and stops with RESOURCE_EXHAUSTED at a small request.",
                fix="Before JAX is imported, in each process: XLA_PYTHON_CLIENT_MEM_FRACTION=.4 (for two), or XLA_PYTHON_CLIENT_PREALLOCATE=false; or one process that does the work of all (vmap), or a GPU for each (CUDA_VISIBLE_DEVICES).",
            ),
            Text(
                title="{code} 启动了多个各自使用 JAX 的进程：第一个就占去整张卡的 75 %",
                why="JAX 第一次使用 GPU 时会预留四分之三的显存（{used}）。每个进程都各自预留，第二个几乎没有剩余，稍一申请就报 RESOURCE_EXHAUSTED。",
                fix="在每个进程导入 JAX 之前设 XLA_PYTHON_CLIENT_MEM_FRACTION=.4（两个进程时），或 XLA_PYTHON_CLIENT_PREALLOCATE=false；或用一个进程完成全部工作（vmap），或每个进程一块 GPU（CUDA_VISIBLE_DEVICES）。",
            ),
        ),
        "source": (
            Text(
                title="{name} will take nearly the whole card, beside PyTorch in the same program ({code})",
                why="TensorFlow maps almost all memory of every visible GPU at its first use, JAX three quarters of it; PyTorch then runs out of memory, or the other way round.",
                fix="TensorFlow: tf.config.experimental.set_memory_growth(gpu, True) for each GPU before the first use (or hide the GPU from it: tf.config.set_visible_devices([], 'GPU')). JAX: XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION=.3, before import jax.",
            ),
            Text(
                title="{name} 会占用几乎整张卡，而同一程序里还有 PyTorch（{code}）",
                why="TensorFlow 首次使用时会占下每块可见 GPU 的几乎全部显存，JAX 占四分之三；之后 PyTorch 就会显存不足，反之亦然。",
                fix="TensorFlow：首次使用前对每块 GPU 调用 tf.config.experimental.set_memory_growth(gpu, True)（或对它隐藏 GPU：tf.config.set_visible_devices([], 'GPU')）。JAX：在 import jax 之前设 XLA_PYTHON_CLIENT_PREALLOCATE=false，或 XLA_PYTHON_CLIENT_MEM_FRACTION=.3。",
            ),
        ),
        "context": (
            Text(
                title="The card is full before this program holds anything there: {code} found no room for a CUDA context",
                why="The call allocates nothing itself (empty_cache, synchronize, set_device): it opens a CUDA context of some hundred MiB on the current device, which is GPU 0 unless told otherwise. Another process fills that card, though this program may do its work on a different one.",
                fix="See who holds the card (nvidia-smi) and end or move it. If the program was given another GPU (gpus=[1], device='cuda:1'): call torch.cuda.set_device(1) before torch.cuda.empty_cache() and the like, or start it with CUDA_VISIBLE_DEVICES=1, so that nothing touches GPU 0.",
            ),
            Text(
                title="本程序还没占用显存，这块卡就已满：{code} 连 CUDA 上下文都放不下",
                why="该调用（empty_cache、synchronize、set_device）本身不分配显存，只是在当前设备上建立几百 MiB 的 CUDA 上下文；未指定时当前设备是 GPU 0。那块卡已被其他进程占满，尽管本程序可能在另一块卡上工作。",
                fix="用 nvidia-smi 查看谁占用了该卡，结束或移走它。若程序用的是另一块 GPU（gpus=[1]、device='cuda:1'）：在 torch.cuda.empty_cache() 等调用之前先 torch.cuda.set_device(1)，或用 CUDA_VISIBLE_DEVICES=1 启动，使程序不碰 GPU 0。",
            ),
        ),
        "startup": (
            Text(
                title="Only {free} of {total} are free at the start: the card is in use by somebody else",
                why="vLLM checks before it loads anything, and wants {wanted} (gpu_memory_utilization x card). The rest is held by other processes, often a previous server or engine worker that still runs.",
                fix="End the other processes (nvidia-smi, sudo fuser -v /dev/nvidia*), choose another card with CUDA_VISIBLE_DEVICES, or lower --gpu-memory-utilization to what is free.",
            ),
            Text(
                title="启动时 {total} 中只有 {free} 空闲：显卡正被别人使用",
                why="vLLM 在加载之前先检查，需要 {wanted}（gpu_memory_utilization × 显存）。其余被其他进程占用，常见的是仍在运行的旧服务或 engine worker。",
                fix="结束其他进程（nvidia-smi、sudo fuser -v /dev/nvidia*），用 CUDA_VISIBLE_DEVICES 换卡，或把 --gpu-memory-utilization 降到空闲范围内。",
            ),
        ),
        "busy": (
            Text(
                title="Other processes hold memory on the card (PIDs {pids})",
                why="The message has no figures, but the process table shows large holders beside this program.",
                fix="End what is yours, choose a free card with CUDA_VISIBLE_DEVICES, or run fewer processes on one GPU; only then lower the batch.",
            ),
            Text(
                title="卡上有其他进程占用显存（PID {pids}）",
                why="报错没有数字，但进程表显示除本程序外还有占用很大的进程。",
                fix="结束属于自己的进程，用 CUDA_VISIBLE_DEVICES 换一张空闲的卡，或减少同一 GPU 上的进程数；之后再考虑减小 batch。",
            ),
        ),
    },
)
