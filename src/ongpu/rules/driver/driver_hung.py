"""A call into the driver never came back."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Xids
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

GONE = (79, 119, 120)  # events that have a rule of their own, and explain it


def check(driver: Driver, xids: Xids | None) -> Iterator[Finding]:
    if not driver.hung:
        return
    explained = xids.of(*GONE) if xids else ()
    yield Finding(
        subject=driver.hung_in or "",
        certainty=Certainty.LIKELY if explained else Certainty.CERTAIN,
        variant="" if driver.hung_in in (None, "nvmlInit") else "gpu",
        values={"where": driver.hung_in or "nvmlInit"},
        fixes=(Fix("look-at-the-bus"), Fix("reboot-node")),
        refs=(*driver.about("hung"), *(event.ref for event in explained[:4])),
    )


_EN_FIX = (
    "Look in the kernel log for NVRM, Xid and \"blocked for more than 120 seconds\" lines: they name the cause. Processes that "
    "sleep in the driver (state D in ps) cannot be killed; a GPU reset (nvidia-smi --gpu-reset -i N) may free them, else reboot; "
    "power-cycle the machine where the card does not come back. Keep the output of nvidia-bug-report.sh --safe-mode for support."
)
_ZH_FIX = (
    "先看内核日志里的 NVRM、Xid 以及 “blocked for more than 120 seconds” 行，原因就在那里。卡在驱动里的进程（ps 显示状态 D）杀不掉；"
    "可试 nvidia-smi --gpu-reset -i N 复位该卡，不行就重启；重启后仍不恢复则断电再上电。报修前用 nvidia-bug-report.sh --safe-mode 留存日志。"
)

RULE = Rule(
    slug="driver-hung",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "driver-module-not-loaded"),
    settle=("sudo dmesg | grep -iE 'nvrm|xid|blocked for more'", "ps -eo pid,stat,wchan:32,cmd | awk '$2 ~ /D/'"),
    see=(
        "https://docs.nvidia.com/deploy/xid-errors/",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/446",
    ),
    en=Text(
        title="The NVIDIA driver does not answer: {where} never returned",
        why="The library waits for the kernel module, and that for the card. Everything that touches the GPU (nvidia-smi, CUDA, "
        "monitoring) will hang in the same place. Usual causes: the card's system processor stopped answering, the card fell off "
        "the bus, or another process died inside the driver while holding its lock.",
        fix=_EN_FIX,
    ),
    zh=Text(
        title="NVIDIA 驱动没有响应：{where} 调用一直不返回",
        why="用户态库在等内核模块，内核模块在等显卡。凡是要用 GPU 的程序（nvidia-smi、CUDA、监控）都会卡在同一处。常见原因：GPU 系统处理器"
        "（GSP）停止应答、显卡掉卡，或别的进程持有驱动锁时死在了驱动里。",
        fix=_ZH_FIX,
    ),
    variants={
        "gpu": (
            Text(
                title="The NVIDIA driver answers, but a query of {where} never returned",
                why="The other calls came back; this card's did not. Tools that ask all cards (nvidia-smi, CUDA start-up) hang because "
                "of this one. Usual causes: its system processor (GSP) stopped answering, or it fell off the bus.",
                fix=_EN_FIX + " Until then the other cards can be used with CUDA_VISIBLE_DEVICES set to their UUIDs.",
            ),
            Text(
                title="NVIDIA 驱动有响应，但对 {where} 的查询一直不返回",
                why="其他调用都能返回，只有这块卡不行。会遍历所有卡的工具（nvidia-smi、CUDA 初始化）都会因它而卡住。常见原因：该卡的系统处理器（GSP）"
                "停止应答，或者掉卡。",
                fix=_ZH_FIX + "在此之前，可把 CUDA_VISIBLE_DEVICES 设为其余各卡的 UUID，先用其他卡。",
            ),
        ),
    },
)
