"""Somebody else's process is on the GPU: too little memory, or no access, is left."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.container import Container
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Process, Processes
from ongpu.facts.trend import Trend
from ongpu.facts.waiting import crowding
from ongpu.lazy import replace
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

BIG = 1000  # MiB: a process below this is a desktop or a bare context
FULL = 0.5  # share of the card that others must hold to be the cause


def check(
    symptoms: Symptoms | None,
    processes: Processes | None,
    gpus: Gpus | None,
    oom: OutOfMemory | None,
    container: Container | None,
    traceback: Traceback | None,
    log: TrainingLog | None,
    trend: Trend | None,
) -> Iterator[Finding]:
    yield from _live(trend)
    if symptoms and symptoms.has("pid-namespace") and processes and any(p.gone for p in processes.processes):
        gone = [p for p in processes.processes if p.gone and p.pid]
        first = max(gone, key=lambda p: p.memory or 0) if gone else None
        yield Finding(
            certainty=Certainty.LIKELY, variant="namespace", values={"pid": first.pid if first else "?", "memory": (first.memory if first else None) or "?"},
            fixes=(Fix("who-holds-gpu"),), refs=(*(p.ref for p in gone if p.ref), *symptoms.cite("pid-namespace")),
        )  # fmt: skip
        return
    failed = bool(symptoms and symptoms.has("devices-busy", "memory-not-enough", "others-hold-memory")) or bool(
        oom and oom.errors
    )
    little = symptoms.seen("little-available") if symptoms else ()
    short = [h for h in little if float(h.groups["free"]) < 0.3 * float(h.groups["total"]) or h.groups["unit"] == "M"]
    failed = failed or bool(short)
    big = (
        [p for p in processes.processes if (p.memory or 0) >= BIG and p.kind != "G" and not p.gone] if processes else []
    )
    told = symptoms.cite("others-hold-memory") if symptoms else ()
    shared = symptoms.cite("shared-machine-told", most=2) if symptoms and symptoms.has("memory-not-enough", "devices-busy") else ()
    context = symptoms.cite("context-oom", most=2) if symptoms and symptoms.has("memory-not-enough") else ()
    if not big and not told and (context or (shared and symptoms and symptoms.has("one-is-too-many", "used-by-told", "smi-told"))):
        yield Finding(
            certainty=Certainty.LIKELY if shared else Certainty.POSSIBLE, variant="told", fixes=(Fix("who-holds-gpu"),), values={"free": "?", "total": "?"},
            refs=(*context, *shared, *(symptoms.cite("memory-not-enough", "one-is-too-many", most=1) if symptoms else ())),
        )  # fmt: skip
        return
    held = _held(oom)
    if big and failed:
        busiest = max(big, key=lambda p: p.memory or 0)
        yield _finding(busiest, Certainty.LIKELY if _crowded(busiest, big, gpus) else Certainty.POSSIBLE, (
            *(p.ref for p in big[:4] if p.ref), *(symptoms.cite("devices-busy", "memory-not-enough", most=2) if symptoms else ()), *told,
            *(hit.ref for hit in short[:2]),
        ))  # fmt: skip
    elif (
        big
        and gpus
        and gpus.gpus
        and all(_crowded(p, big, gpus) for g in gpus.gpus for p in big if p.gpu == g.index)
        and len({p.gpu for p in big}) == len(gpus.gpus)
    ):
        busiest = max(
            big, key=lambda p: p.memory or 0
        )  # every card is mostly taken; whether that is wanted, nobody says
        yield replace(
            _finding(busiest, Certainty.LIKELY, tuple(p.ref for p in big[:4] if p.ref)), severity=Severity.NOTE
        )
    elif told and failed:
        yield Finding(
            certainty=Certainty.LIKELY, variant="told", fixes=(Fix("who-holds-gpu"),), refs=told,
            values={"free": (symptoms and symptoms.value("free", "others-hold-memory")) or "?",
                    "total": (symptoms and symptoms.value("total", "others-hold-memory")) or "?"},
        )  # fmt: skip
    elif held and oom and suspect(oom, traceback, log, processes, gpus)[0] != "oom-other-process":  # that rule tells these figures
        amount, error = held
        yield Finding(
            certainty=Certainty.POSSIBLE, variant="figures", fixes=(Fix("who-holds-gpu"),), refs=(error.ref,),
            values={"held": f"{amount:.1f}", "total": error.total or "?", "mine": error.in_use or error.reserved or error.allocated or "?"},
        )  # fmt: skip


def _live(trend: Trend | None) -> Iterator[Finding]:
    """A card that is full, on which another user's or job's program is as well: whatever that one asks for next will fail."""
    for gpu in trend.gpus if trend else ():
        pair = crowding(trend, gpu) if trend else None
        if pair:
            first, other = pair
            yield Finding(
                subject=gpu.label, certainty=Certainty.POSSIBLE, severity=Severity.NOTE, variant="full", refs=tuple(r for r in (gpu.ref, first.ref, other.ref) if r),
                values={"gpu": gpu.index, "name": first.name, "memory": f"{(first.mem.last or 0) / 1024:.1f}", "other": other.name,
                        "total": f"{(gpu.number('mem_total') or 0) / 1024:.1f}", "user": first.user or "?"},
                fixes=(Fix("who-holds-gpu"), Fix("look-at-process", {"pid": first.pid})),
            )  # fmt: skip


def _held(oom: OutOfMemory | None):  # type: ignore[no-untyped-def]
    for error in oom.errors if oom else ():
        others = error.held_by_others
        if others and error.total and others > max(1.0, 0.25 * error.total):
            return others, error
    return None


def _crowded(busiest: Process, big: list[Process], gpus: Gpus | None) -> bool:
    card = next((g for g in gpus.gpus if g.index == busiest.gpu), None) if gpus else None
    used = sum(p.memory or 0 for p in big if p.gpu == busiest.gpu)
    return not card or not card.memory_total or used >= FULL * card.memory_total


def _finding(process: Process, certainty: Certainty, refs) -> Finding:  # type: ignore[no-untyped-def]
    return Finding(
        subject=f"pid {process.pid}" if process.pid else process.user or "",
        certainty=certainty,
        values={
            "gpu": "?" if process.gpu is None else process.gpu, "pid": process.pid or "?", "memory": process.memory or "?",
            "name": process.name or process.user or "?",
        },
        fixes=(Fix("who-holds-gpu"), Fix("look-at-process")),
        refs=tuple(refs),
    )  # fmt: skip


_FIX_EN = (
    "Look with nvidia-smi (as root, on the host: sudo fuser -v /dev/nvidia*) whose it is: ps -o user,pid,etime,cmd -p PID. End it if it is "
    "yours, or wait; or take an idle GPU with CUDA_VISIBLE_DEVICES. Servers like Ollama, vLLM, JAX and TensorFlow keep memory while "
    "they run."
)
_FIX_ZH = (
    "用 nvidia-smi（在宿主机上以 root：sudo fuser -v /dev/nvidia*）看是谁的进程：ps -o user,pid,etime,cmd -p PID。是自己的就结束它，否则等待；"
    "或用 CUDA_VISIBLE_DEVICES 换一张空闲 GPU。Ollama、vLLM、JAX、TensorFlow 等运行期间一直占着显存。"
)

RULE = Rule(
    slug="gpu-busy-other-process",
    layer=Layer.SYSTEM,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-batch-too-large", "oom-model-too-large", "oom-fragmentation", "cublas-init-failed"),
    settle=("nvidia-smi", "sudo fuser -v /dev/nvidia*"),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/", "https://github.com/nianticlabs/monodepth2/issues/236"),
    en=Text(
        title="{gpu:GPU *|The GPU} is taken by {name} ({pid:pid *|pid unknown}{memory:, * MiB})",
        why="Another process holds memory or the device itself; what is left is too little for this program.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="GPU{gpu: * }被 {name}（{pid:pid *|pid 未知}{memory:，* MiB}）占用",
        why="另一个进程占着显存或设备本身，剩下的不够本程序使用。",
        fix=_FIX_ZH,
    ),
    variants={
        "full": (
            Text(
                title="GPU {gpu} is full: {name}{user: of *} holds {memory} of {total} GiB, and {other} is on it too",
                why="What the other program asks for next will fail for want of memory, and the two take turns on the card.",
                fix="Put them on different cards (CUDA_VISIBLE_DEVICES, or ask the scheduler for one each), or let the first take less: vLLM --gpu-memory-utilization, JAX XLA_PYTHON_CLIENT_MEM_FRACTION, TensorFlow memory growth.",
            ),
            Text(
                title="GPU {gpu} 已满：{user:* 的 }{name} 占用 {total} GiB 中的 {memory} GiB，{other} 也在上面",
                why="另一个程序再申请显存就会失败，两者还要轮流使用这块卡。",
                fix="把它们放到不同的卡上（CUDA_VISIBLE_DEVICES，或向调度器各申请一块），或让前者少占：vLLM --gpu-memory-utilization、JAX XLA_PYTHON_CLIENT_MEM_FRACTION、TensorFlow 的显存增长。",
            ),
        ),
        "namespace": (
            Text(
                title="The GPU is used by process {pid} of the host{memory: (* MiB)}, which cannot be seen from inside this container",
                why="\"No Such Process\" and kill's answer mean that the number {pid} belongs to the host's (or another container's) list of processes. "
                "Inside a container PIDs differ, so the monitor cannot name it and kill cannot find it.",
                fix="Look on the host: nvidia-smi and ps -fp {pid}; end it there. Or start the container with --pid=host, so that the monitor shows names. "
                "On bare metal use sudo fuser -v /dev/nvidia* or lsof: the holder may be a child of the one that has gone.",
            ),
            Text(
                title="GPU 被宿主机的进程 {pid}{memory:（* MiB）}占用，在这个容器里看不到它",
                why="“No Such Process” 以及 kill 的回答说明 {pid} 是宿主机（或其他容器）的进程号。容器内 PID 不同，所以监控工具显示不出名字，kill 也找不到。",
                fix="在宿主机（host）上查看：nvidia-smi 与 ps -fp {pid}，在那里结束它。或以 --pid=host 启动容器，让监控能显示进程名。裸机上用 "
                "sudo fuser -v /dev/nvidia* 或 lsof：占用者可能是已退出进程的子进程。",
            ),
        ),
        "told": (
            Text(
                title="Other processes use this GPU{free:: * }{total:of * GiB are free}",
                why="The program found less free memory than it wants to take at its start.",
                fix=_FIX_EN + " vLLM: lower --gpu-memory-utilization.",
            ),
            Text(
                title="其他进程正在使用这张 GPU{total:：* GiB }{free:中只剩 * GiB}",
                why="程序启动时发现空闲显存少于它要占用的量。",
                fix=_FIX_ZH + "vLLM 可调低 --gpu-memory-utilization。",
            ),
        ),
        "figures": (
            Text(
                title="About {held} GiB of {total} GiB are held by somebody else: this program has only {mine} GiB",
                why="The figures of the message do not add up to the card: what is neither free nor this program's belongs to another process (or to "
                "this one outside the framework).",
                fix=_FIX_EN,
            ),
            Text(
                title="{total} GiB 中约 {held} GiB 被别人占用：本程序只用了 {mine} GiB",
                why="报错里的数字加起来不到整卡：既不空闲、又不属于本程序的部分，属于另一个进程（或本进程在框架之外的部分）。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
