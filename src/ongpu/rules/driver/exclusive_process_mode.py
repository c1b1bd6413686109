"""The compute mode admits one process only, or none."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

MODES = {"Prohibited": "PROHIBITED", "Exclusive_Process": "EXCLUSIVE_PROCESS", "Exclusive_Thread": "EXCLUSIVE_THREAD", "E. Process": "EXCLUSIVE_PROCESS"}


def check(symptoms: Symptoms | None, gpus: Gpus | None, processes: Processes | None, driver: Driver | None) -> Iterator[Finding]:
    busy = symptoms.cite("devices-busy-46") if symptoms else ()
    told = symptoms.cite("exclusive-told") if symptoms else ()
    cards = [g for g in gpus.gpus if (g.compute_mode or "").startswith(("Exclusive", "Prohibited", "E."))] if gpus else []
    prohibited = [g for g in cards if g.compute_mode == "Prohibited"]
    said_prohibited = symptoms.cite("compute-prohibited") if symptoms else ()
    default = bool(gpus and gpus.gpus and all(g.compute_mode == "Default" for g in gpus.gpus if g.compute_mode) and any(g.compute_mode for g in gpus.gpus))
    held = bool(processes and (processes.processes or processes.holders))
    severity = None
    foreign = symptoms.cite("streamexecutor-context") if symptoms else ()
    busy = (*busy, *foreign) if cards or told else busy
    if prohibited or said_prohibited:
        certainty, variant = Certainty.CERTAIN, "prohibited"
    elif cards and busy:
        certainty, variant = Certainty.CERTAIN, ""
    elif (busy and told and not default) or (cards and held and symptoms and symptoms.has("no-cuda-device", "cuda-unknown-999", "cuda-init-3", "exclusive-oom-told")) or (told and symptoms and symptoms.has("no-cuda-device", "cuda-unknown-999") and not default):
        certainty, variant = Certainty.LIKELY, ""
    elif (busy and not default) or busy:
        certainty, variant = Certainty.POSSIBLE, "maybe"
    elif cards:
        certainty, variant, severity = Certainty.CERTAIN, "set", Severity.NOTE
    else:
        return
    modes = tuple(dict.fromkeys({"Exclusive_Process": "E. Process", "Exclusive_Thread": "E. Thread"}.get(g.compute_mode or "", g.compute_mode or "") for g in cards))
    where = tuple(f"GPU {g.index}" if g.index is not None else (g.name or "GPU") for g in cards)
    yield Finding(
        certainty=certainty,
        variant=variant,
        severity=severity,
        values={"mode": modes or "exclusive", "gpus": where or "GPU", "index": cards[0].index if len(cards) == 1 else None},
        fixes=tuple(Fix("compute-mode-default", {"index": g.index, "former": MODES[g.compute_mode or ""]}) for g in cards if g.index is not None and g.compute_mode in MODES) or (Fix("compute-mode-default"),),
        refs=(*busy, *said_prohibited, *(gpus.cite(*cards) if gpus and cards else ()), *told[:4], *(processes.refs[:3] if processes and held else ())),
    )


RULE = Rule(
    slug="exclusive-process-mode",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    settle=("nvidia-smi --query-gpu=index,compute_mode --format=csv", "nvidia-smi -q -d PIDS", "nvidia-smi -q | grep -i license"),
    see=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compute-modes", "https://docs.nvidia.com/deploy/mps/"),
    en=Text(
        title="{gpus} is in exclusive compute mode ({mode}) and already held: \"all CUDA-capable devices are busy or unavailable\"",
        why="In EXCLUSIVE_PROCESS (E. Process; on old drivers also E. Thread) one process may have a context on the card; each further one gets error 46. Batch systems set it on purpose, so that a job that takes another card than its own fails.",
        fix="End the process that holds the card, or use the card that the batch system gave (do not set CUDA_VISIBLE_DEVICES by hand). To share it, the administrator sets sudo nvidia-smi -i <index> -c 0 (DEFAULT; nvidia-smi -c 0 for all cards), or runs MPS. A worker or a second process of the same program counts too.",
    ),
    zh=Text(
        title="{gpus} 处于独占计算模式（exclusive，{mode}），且已被占用：“all CUDA-capable devices are busy or unavailable”",
        why="在 EXCLUSIVE_PROCESS（E. Process；旧驱动还有 E. Thread）模式下，一张卡只允许一个进程持有上下文，其余的都会得到错误 46。调度系统常有意这样设置，让跑错卡的任务直接失败。",
        fix="结束占用该卡的进程，或使用调度系统分配的卡（不要自己设置 CUDA_VISIBLE_DEVICES）。要共享，由管理员执行 sudo nvidia-smi -i <序号> -c 0（DEFAULT；nvidia-smi -c 0 则对所有卡），或使用 MPS。同一程序的工作进程或第二个进程也算。",
    ),
    variants={
        "set": (
            Text(
                title="{gpus} is in exclusive compute mode ({mode}): one process at a time",
                why="In EXCLUSIVE_PROCESS (E. Process) one process may have a context on the card; a second one gets error 46 (all CUDA-capable devices are busy or unavailable). Nothing here shows such an error; batch systems set the mode on purpose.",
                fix="Nothing, if it is meant so. To share the card: sudo nvidia-smi -i <index> -c 0 (DEFAULT), or MPS.",
            ),
            Text(
                title="{gpus} 处于独占计算模式（exclusive，{mode}）：同一时刻只允许一个进程",
                why="在 EXCLUSIVE_PROCESS（E. Process）模式下，一张卡只允许一个进程持有上下文，第二个会得到错误 46（all CUDA-capable devices are busy or unavailable）。这里没有这样的错误；调度系统常有意这样设置。",
                fix="若有意如此，无需处理。要共享这张卡：sudo nvidia-smi -i <序号> -c 0（DEFAULT），或使用 MPS。",
            ),
        ),
        "prohibited": (
            Text(
                title="{gpus}: the compute mode is Prohibited, so no CUDA program may use it",
                why="Mode 2 (PROHIBITED) forbids every context on the card; nvidia-smi works all the same. It is set for display cards, or was set by mistake.",
                fix="sudo nvidia-smi -i {index:*|<index>} -c 0 (DEFAULT). It lasts until the next boot: look for a start-up script that sets it (nvidia-smi -c 2).",
            ),
            Text(
                title="{gpus}：计算模式为 Prohibited，任何 CUDA 程序都不能使用",
                why="模式 2（PROHIBITED）禁止在该卡上建立任何上下文，但 nvidia-smi 照常工作。它用于只做显示的卡，或被误设。",
                fix="sudo nvidia-smi -i {index:*|<序号>} -c 0（DEFAULT）。设置在重启前有效：检查是否有启动脚本执行了 nvidia-smi -c 2。",
            ),
        ),
        "maybe": (
            Text(
                title="Error 46 (all CUDA-capable devices are busy or unavailable): exclusive compute mode, a vGPU without licence, or a card in a bad state",
                why="The driver lists the card but gives no context. Where nvidia-smi shows \"E. Process\", another process holds it; where it shows \"Unlicensed\", the vGPU is refused; in Default mode it may be a hung process, MPS without its daemon, too little memory for a context, or a card that needs a reset.",
                fix="Look at Compute M. in nvidia-smi: if it is not Default, sudo nvidia-smi -i <index> -c 0 (nvidia-smi -c 0 for all cards), or end the process that holds the card. Look at nvidia-smi -q | grep -i license. Otherwise find processes with sudo fuser -v /dev/nvidia*, then reset the card (sudo nvidia-smi --gpu-reset -i <index>) or reboot.",
            ),
            Text(
                title="错误 46（all CUDA-capable devices are busy or unavailable）：独占（exclusive）计算模式、vGPU 无许可，或卡处于异常状态",
                why="驱动能列出卡，却不给上下文。nvidia-smi 显示 “E. Process” 说明被别的进程独占；显示 “Unlicensed” 说明 vGPU 被拒绝；Default 模式下则可能是僵死进程、MPS 守护进程不在、显存不足以建立上下文，或卡需要复位。",
                fix="看 nvidia-smi 的 Compute M. 一栏：不是 Default 就 sudo nvidia-smi -i <序号> -c 0（nvidia-smi -c 0 则对所有卡），或结束占用进程。看 nvidia-smi -q | grep -i license。否则用 sudo fuser -v /dev/nvidia* 查进程，再复位该卡（sudo nvidia-smi --gpu-reset -i <序号>）或重启。",
            ),
        ),
    },
)
