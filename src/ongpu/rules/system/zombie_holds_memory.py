"""GPU memory is taken though its owner has gone or is not shown: a leftover process holds it."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

MUCH = 1500  # MiB: more than the driver's reserve and a display take
SHARE = 0.1
IDLE = 5  # % utilisation that a display or a monitor makes


def check(
    symptoms: Symptoms | None, processes: Processes | None, gpus: Gpus | None, container: Container | None
) -> Iterator[Finding]:
    stays = symptoms.cite("memory-stays", *(() if symptoms.has("docker-told") else ("used-without-process",))) if symptoms else ()
    short = symptoms.cite("memory-not-enough", "devices-busy", most=2) if symptoms else ()
    holders = (
        [
            p
            for p in processes.holders
            if p.name not in ("Xorg", "nvidia-persiste", "nvidia-persistenced", "systemd-logind")
        ]
        if processes
        else []
    )
    gone = [p for p in processes.processes if p.gone and (p.memory or 0) > 0] if processes else []
    listed = bool(processes and processes.listed)
    inside = bool((container and container.inside) or (symptoms and symptoms.has("container-told")))
    full = [g for g in gpus.gpus if _unexplained(g, processes)] if gpus and listed else []
    windows = any(g.driver_model in ("WDDM", "MCDM") for g in gpus.gpus) if gpus else False
    # ps does not list the program any more, and the card is still full
    hidden = bool(processes and processes.absent and gpus and any((g.memory_used or 0) >= MUCH for g in gpus.gpus))
    if full and not windows:
        gpu = max(full, key=lambda g: g.memory_used or 0)
        idle = (gpu.utilization or 0) <= IDLE
        certainty = Certainty.LIKELY if idle and not inside else Certainty.POSSIBLE
        yield Finding(
            subject=gpu.label, certainty=certainty, variant="container" if inside else "",
            severity=None if (idle and not inside) or short else Severity.NOTE,
            values={"gpu": gpu.label, "memory": gpu.memory_used, "total": gpu.memory_total or "?", "pid": _pids(processes)},
            fixes=(Fix("who-holds-gpu"),),
            refs=(*((gpu.ref,) if gpu.ref else ()), *_row(gpus), *stays, *short, *(p.ref for p in holders if p.ref)),
        )  # fmt: skip
    elif holders and (short or stays or hidden) and not (processes and any(not p.gone for p in processes.processes)):
        yield Finding(
            certainty=Certainty.LIKELY, variant="holder", values={"pid": _pids(processes), "name": holders[0].name or "?"},
            fixes=(Fix("who-holds-gpu"), Fix("end-process")),
            refs=(*(p.ref for p in holders if p.ref), *short, *stays, *(_row(gpus) if hidden else ()), *(processes.about("absent")[:1] if processes and hidden else ())),
        )  # fmt: skip
    elif gone:
        yield Finding(
            certainty=Certainty.POSSIBLE if symptoms and symptoms.has("pid-namespace") else Certainty.LIKELY, variant="gone",
            values={"pid": ", ".join(str(p.pid) for p in gone[:3]), "memory": sum(p.memory or 0 for p in gone)},
            fixes=(Fix("who-holds-gpu"),), refs=(*(p.ref for p in gone if p.ref), *stays),
        )  # fmt: skip
    elif stays:
        yield Finding(
            certainty=Certainty.LIKELY if short or (symptoms and symptoms.has("used-without-process")) or any("defunct" in ref.quote for ref in stays) else Certainty.POSSIBLE, severity=None if short else Severity.WARNING,
            variant="told", fixes=(Fix("who-holds-gpu"),), refs=(*stays, *short),
        )  # fmt: skip


def _unexplained(gpu: Gpu, processes: Processes | None) -> bool:
    """Much memory is used and the listed processes do not account for it."""
    if not processes or not gpu.memory_used or gpu.memory_used < MUCH or gpu.mig:
        return False
    mine = [p for p in processes.processes if p.gpu == gpu.index or gpu.index is None]
    if any(p.memory is None for p in mine):
        return False
    rest = gpu.memory_used - sum(p.memory or 0 for p in mine)
    return rest >= MUCH and rest >= SHARE * (gpu.memory_total or 0) and rest >= 0.5 * gpu.memory_used


def _pids(processes: Processes | None) -> str:
    return ", ".join(dict.fromkeys(str(p.pid) for p in (processes.holders if processes else ()) if p.pid))


def _row(gpus: Gpus | None):  # type: ignore[no-untyped-def]
    return tuple(ref for ref in gpus.refs if ref.about == "memory_used")[:1] if gpus else ()


_FIX_EN = (
    "Find the holder as root on the host: sudo fuser -v /dev/nvidia* (or lsof /dev/nvidia*); look for defunct, stopped (Ctrl-Z) and orphaned "
    "workers with ps aux | grep python, and for processes of other containers. End it (kill PID, then kill -9), close the notebook kernel. "
    "If nobody holds it, nvidia-smi --gpu-reset -i N with no user on the GPU, or a reboot, frees it."
)
_FIX_ZH = (
    "在宿主机上以 root 查占用者：sudo fuser -v /dev/nvidia*（或 lsof /dev/nvidia*）；用 ps aux | grep python 找僵尸（defunct）、被 Ctrl-Z 暂停的、"
    "失去父进程的 worker，以及其他容器里的进程。结束它（kill PID，不行再 kill -9），关闭 notebook 内核。若确实无人占用，在无人使用该卡时执行 "
    "nvidia-smi --gpu-reset -i N，或重启。"
)

RULE = Rule(
    slug="zombie-holds-memory",
    layer=Layer.SYSTEM,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "oom-batch-too-large",
        "oom-model-too-large",
        "oom-fragmentation",
        "oom-graph-retained",
        "oom-other-process",
        "gpu-busy-other-process",
    ),
    settle=("sudo fuser -v /dev/nvidia*", "ps aux | grep -E 'python|defunct'"),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/", "https://github.com/dmlc/gluon-nlp/issues/338"),
    en=Text(
        title="{gpu}: {memory} MiB of {total} MiB are taken, but no listed process owns them",
        why="The process table is empty (or too small) while the memory is in use. A leftover process holds the device: a killed parent's worker, a "
        "stopped job, a notebook kernel, or a process of another container that this view cannot list.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="{gpu}：{total} MiB 中已占 {memory} MiB，却没有列出的进程占用它",
        why="进程表为空（或加起来不够），显存却被占用。某个残留进程仍占着设备：父进程被杀后的 worker、被暂停的任务、notebook 内核，"
        "或本视图列不出的其他容器进程。",
        fix=_FIX_ZH,
    ),
    variants={
        "container": (
            Text(
                title="{gpu}: {memory} MiB of {total} MiB are taken; inside a container nvidia-smi cannot list the owners",
                why="An empty process table in a container is an effect of the PID namespace, not proof of a leftover.",
                fix="Look on the host: nvidia-smi, sudo fuser -v /dev/nvidia*; or start the container with --pid=host.",
            ),
            Text(
                title="{gpu}：{total} MiB 中已占 {memory} MiB；容器内的 nvidia-smi 列不出占用者",
                why="容器里的进程表为空是 PID 命名空间的效果，不能证明有残留进程。",
                fix="在宿主机上看：nvidia-smi、sudo fuser -v /dev/nvidia*；或以 --pid=host 启动容器。",
            ),
        ),
        "holder": (
            Text(
                title="{name} (pid {pid}) still holds the GPU",
                why="fuser shows who has the device nodes open; nvidia-smi need not list it (a container, a hung or leftover notebook kernel). Its memory is "
                "not free for a new program.",
                fix="See what it is (ps -fp {pid}); if it is a leftover, end it: kill {pid}, then kill -9 {pid}. Then start again.",
            ),
            Text(
                title="{name}（pid {pid}）仍占着 GPU",
                why="fuser 显示谁打开着设备节点；nvidia-smi 不一定列得出来（容器、卡死或残留的 notebook 内核）。它占的显存，新程序用不了。",
                fix="先看它是什么（ps -fp {pid}）；若是残留进程，就结束它：kill {pid}，不行再 kill -9 {pid}。然后重新运行。",
            ),
        ),
        "gone": (
            Text(
                title="{memory} MiB are held by processes that no longer exist ({pid})",
                why="The driver lists owners that have no living process: children still hold their context, or the process hangs in the kernel.",
                fix=_FIX_EN,
            ),
            Text(
                title="{memory} MiB 被已不存在的进程（{pid}）占用",
                why="驱动列出的占用者没有对应的存活进程：它的子进程仍持有上下文，或进程卡在内核里。",
                fix=_FIX_ZH,
            ),
        ),
        "told": (
            Text(
                title="GPU memory stays taken after the program ended: a leftover process holds it",
                why="The driver frees all memory when the last process that uses it ends. If it stays, a process lives on: a worker, a job stopped with Ctrl-Z, "
                "a notebook kernel.",
                fix=_FIX_EN,
            ),
            Text(
                title="程序结束后显存仍被占用：有残留进程",
                why="最后一个使用者退出时，驱动会释放全部显存。若没有释放，说明还有进程活着：worker、被 Ctrl-Z 暂停的任务、notebook 内核。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
