"""The Windows driver spills GPU memory to the host's: very slow instead of out of memory."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FULL = 0.96  # share of the card's memory in use above which Windows has begun to spill


def check(symptoms: Symptoms | None, gpus: Gpus | None, machine: Machine | None, driver: Driver | None) -> Iterator[Finding]:
    told = symptoms.cite("sysmem-told") if symptoms else ()
    slow = symptoms.cite("sysmem-slow") if symptoms else ()
    windows = bool(machine and (machine.system == "windows" or machine.wsl)) or bool(symptoms and symptoms.has("driver-model-tcc")) or any(
        g.driver_model == "WDDM" for g in (gpus.gpus if gpus else ()))
    if (machine and machine.system in ("macos",)) or (machine and machine.system == "linux" and not machine.wsl and not windows):
        return
    full = [g for g in gpus.gpus if g.memory_total and g.memory_used is not None and g.memory_used >= FULL * g.memory_total] if gpus else []
    instead = symptoms.cite("instead-of-oom-told", most=2) if symptoms else ()
    slower = symptoms.cite("sysmem-slow", "machine-slow-told", most=2) if symptoms else ()
    spilling = symptoms.value("v", "spilling-driver-told") if symptoms else None
    slow = slow or slower
    if not told and symptoms and slower and ((instead and windows) or (spilling and symptoms.has("driver-updated-told"))):
        yield Finding(
            certainty=Certainty.LIKELY, fixes=(Fix("show-memory"),), values={"used": "GPU memory full", "driver": spilling or "?"},
            refs=(*instead, *symptoms.cite("spilling-driver-told", "driver-updated-told", "memory-full-told", most=2), *slower),
        )  # fmt: skip
        return
    if symptoms and symptoms.has("oom-printed") and not instead:
        return
    amounts = [float(v) for hit in (symptoms.seen("sysmem-told") if symptoms else ()) if (v := hit.groups.get("gb"))]
    amount = max(amounts) if amounts else None
    if amount is not None and amount < 1:
        return
    shared = any("shared" in r.quote.lower() or "共享" in r.quote or "sysmem" in r.quote.lower() for r in told)
    if told and shared and (slow or full):
        certainty = Certainty.CERTAIN if full and slow else Certainty.LIKELY
    elif (windows and full and slow) or (told and shared and windows and amount is not None):
        certainty = Certainty.LIKELY
    else:
        return
    card = full[0] if full else None
    yield Finding(
        certainty=certainty,
        values={"used": f"{card.memory_used} / {card.memory_total} MiB" if card else f"Shared GPU memory {amount:g} GB" if amount else "Shared GPU memory",
                "driver": (driver.version if driver else None) or "?"},
        fixes=(Fix("show-memory"),),
        refs=(*told[:4], *(g.ref for g in full if g.ref), *slow[:4]),
    )


RULE = Rule(
    slug="sysmem-fallback",
    layer=Layer.DRIVER,
    severity=Severity.WARNING,
    check=check,
    hides=("oom-batch-too-large", "oom-other-process", "thermal-throttle", "input-pipeline-bound", "sync-in-hot-loop", "workload-too-small", "no-mixed-precision"),
    settle=("nvidia-smi --query-gpu=memory.used,memory.total --format=csv", "Task Manager, Performance, GPU: Shared GPU memory"),
    see=("https://nvidia.custhelp.com/app/answers/detail/a_id/5490/~/system-memory-fallback-for-stable-diffusion",),
    en=Text(
        title="GPU memory is full ({used}) and Windows spills to system memory (sysmem fallback): ten times slower instead of out of memory",
        why="Since driver 536.40 the Windows driver moves allocations that do not fit into \"Shared GPU memory\", that is host RAM behind PCIe. The program does not fail, but each step that touches that part crawls, while the utilisation still shows 100 %.",
        fix="NVIDIA Control Panel, Manage 3D settings, Program settings, python.exe: \"CUDA - Sysmem Fallback Policy\" = \"Prefer No Sysmem Fallback\"; it then reports out of memory instead. Lower the memory use: smaller batch or resolution, fp16 or quantised weights, gradient checkpointing, fewer offloaded layers, other programs closed.",
    ),
    zh=Text(
        title="显存已满（{used}），Windows 把数据溢出到系统内存（sysmem fallback）：不报显存不足，而是慢十倍",
        why="从驱动 536.40 起，Windows 驱动会把放不下的分配移到“共享 GPU 内存”，也就是 PCIe 另一端的主机内存。程序不会失败，但凡是碰到这部分的步骤都极慢，而利用率仍显示 100 %。",
        fix="NVIDIA 控制面板 → 管理 3D 设置 → 程序设置 → python.exe：“CUDA - Sysmem Fallback Policy” 设为 “Prefer No Sysmem Fallback”，此后会直接报显存不足。并降低显存占用：减小 batch 或分辨率，用 fp16 或量化权重、梯度检查点，减少卸载到 GPU 的层数，关闭其他程序。",
    ),
)
