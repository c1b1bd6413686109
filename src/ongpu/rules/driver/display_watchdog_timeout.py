"""The display's watchdog (Windows TDR, Xid 8, X server) ends long kernels."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, xids: Xids | None, machine: Machine | None, gpus: Gpus | None) -> Iterator[Finding]:
    said = symptoms.cite("launch-timeout") if symptoms else ()
    limit = symptoms.cite("runtime-limit") if symptoms else ()
    eights = xids.of(8) if xids else ()
    black, failure = (symptoms.cite("screen-black-told", most=2), symptoms.cite("launch-failure-printed", most=2)) if symptoms else ((), ())
    if not said and not eights and black and failure and symptoms and not symptoms.has("suspend-told"):
        bigger = symptoms.cite("bigger-fails-told", most=2)
        yield Finding(
            certainty=Certainty.LIKELY, variant="windows", fixes=(Fix("raise-tdr"),), refs=(*black, *failure, *bigger),
            values={"codes": "the launch failed", "card": "GPU"},
        )  # fmt: skip
        return
    if not said and not eights:
        return
    windows = bool(machine and (machine.system == "windows" or machine.wsl)) or any("tdr" in r.quote.lower() or "nvlddmkm" in r.quote.lower() for r in said)
    launch = any("launch" in r.quote.lower() for r in said)
    certainty = Certainty.CERTAIN if (launch and (limit or windows or eights)) or any("tdr" in r.quote.lower() or "stopped responding" in r.quote.lower() for r in said) else Certainty.LIKELY
    shown = [g for g in gpus.gpus if g.display_active] if gpus else []
    yield Finding(
        certainty=certainty,
        variant="windows" if windows else "" if machine and machine.system else "either",
        values={"codes": "Xid 8" if eights else "the launch timed out", "card": shown[0].label if shown else "GPU"},
        fixes=(Fix("raise-tdr"),),
        refs=(*said, *(x.ref for x in eights[:3]), *limit, *(gpus.cite(*shown)[:1] if gpus and shown else ())),
    )


RULE = Rule(
    slug="display-watchdog-timeout",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("suspend-uvm-broken", "uvm-module-missing", "illegal-memory-access", "gpu-fell-off-bus", "cublas-init-failed", "cudnn-execution-failed", "workload-too-small"),
    settle=("nvidia-smi --query-gpu=index,display_active --format=csv", "deviceQuery | grep 'Run time limit'"),
    see=("https://learn.microsoft.com/en-us/windows-hardware/drivers/display/tdr-registry-keys", "https://docs.nvidia.com/deploy/xid-errors/"),
    en=Text(
        title="A kernel ({card}) ran longer than the display's watchdog allows and was ended (the launch timed out)",
        why="A card that also drives a display has a run time limit for kernels (a few seconds), so that the screen does not freeze. A longer kernel is killed with error 702 (old number 6) or Xid 8, and the context with it. cuda-gdb and very slow cards make it more likely.",
        fix="Compute on a card without a display, or stop the X server or desktop; or set Option \"Interactive\" \"0\" for the card in xorg.conf. Else make the kernels shorter: a smaller batch, tile or chunk, fewer iterations per launch.",
    ),
    zh=Text(
        title="{card} 上的 kernel 运行时间超过显示看门狗的限制而被终止（the launch timed out）",
        why="同时接显示器的卡对单个 kernel 有运行时间上限（几秒），以免屏幕卡死。超时的 kernel 会以错误 702（旧编号 6）或 Xid 8 被杀掉，整个上下文随之失效。调试器和很慢的卡更容易触发。",
        fix="改用不接显示器的卡，或停掉 X 服务器/桌面；或在 xorg.conf 中为该卡设置 Option \"Interactive\" \"0\"。否则缩短 kernel：减小 batch、分块或每次启动的迭代数。",
    ),
    variants={
        "either": (
            Text(
                title="A kernel ({card}) ran longer than the display's watchdog allows and was ended (the launch timed out)",
                why="A card that also drives a display has a run time limit for kernels, so that the screen does not freeze: two seconds under Windows (WDDM's TDR), some seconds under an X server. A longer kernel is killed with error 702 (old number 6), and the context with it.",
                fix="Make the kernels shorter (a smaller batch, tile or chunk, fewer iterations per launch), or compute on a card without a display. Windows: raise TdrDelay and TdrDdiDelay (DWORD, seconds) in HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers and reboot. Linux: stop the desktop, or Option \"Interactive\" \"0\" for the card in xorg.conf.",
            ),
            Text(
                title="{card} 上的 kernel 运行时间超过显示看门狗的限制而被终止（the launch timed out）",
                why="同时接显示器的卡对单个 kernel 有运行时间上限，以免屏幕卡死：Windows（WDDM 的 TDR）为两秒，X 服务器下为几秒。超时的 kernel 会以错误 702（旧编号 6）被杀掉，整个上下文随之失效。",
                fix="缩短 kernel（减小 batch、分块或每次启动的迭代数），或改用不接显示器的卡。Windows：在 HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers 增大 TdrDelay 和 TdrDdiDelay（DWORD，秒）后重启。Linux：停掉桌面，或在 xorg.conf 中为该卡设置 Option \"Interactive\" \"0\"。",
            ),
        ),
        "windows": (
            Text(
                title="Windows reset the display driver because a kernel ran too long (TDR, timeout detection and recovery)",
                why="Under WDDM Windows gives a GPU task two seconds, then resets the driver nvlddmkm (event 4101, \"stopped responding and has recovered\"); the CUDA program gets \"the launch timed out\" or an unspecified launch failure.",
                fix="Raise the limit: in HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers set TdrDelay (DWORD, seconds, for instance 60) and TdrDdiDelay, then reboot. Or use shorter kernels (a smaller batch or tile), a second card without a display, or TCC mode where the card has it (nvidia-smi -dm 1).",
            ),
            Text(
                title="kernel 运行太久，Windows 重置了显示驱动（TDR，超时检测与恢复）",
                why="WDDM 下 Windows 只给一个 GPU 任务两秒，超时就重置驱动 nvlddmkm（事件 4101，“停止响应，并且已恢复”）；CUDA 程序得到 “the launch timed out” 或未指明的启动失败。",
                fix="提高上限：在 HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers 下设置 TdrDelay（DWORD，秒，例如 60）和 TdrDdiDelay，然后重启。或缩短 kernel（减小 batch 或分块）、用第二张不接显示器的卡，或在支持的卡上使用 TCC 模式（nvidia-smi -dm 1）。",
            ),
        ),
    },
)
