"""A GPU is listed, but NVML answers what is asked of it with an error that no other rule explains."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# The words of nvmlErrorString (nvml.h: nvmlReturn_t), and the variant that knows more. "GPU is lost", "Unknown Error" and
# "Insufficient Permissions" are the business of gpu-fell-off-bus and device-permission-denied.
WORDS = {
    "GPU requires restart": "reset", "GPU requires reset": "reset", "Insufficient External Power": "power", "Corrupted infoROM": "inforom",
    "Timeout": "", "Interrupt Request Issue": "", "Insufficient Memory": "", "Uninitialized": "", "Invalid Argument": "", "Not Found": "",
    "Not Supported": "", "Function Not Found": "", "The operating system has blocked the request.": "", "Insufficient Size": "",
}  # fmt: skip
FIXES = {"reset": ("reset-gpu", "diagnose-gpu"), "power": ("power-cycle",), "inforom": ("diagnose-gpu",), "": ("reset-gpu", "look-at-the-bus")}


KNOWS_MORE = (
    "power-cable", "gsp-firmware", "gsp-boot-failed", "gsp-silent", "open-module-unsupported", "open-module-required", "fell-off-bus", "cannot-attach-gpu",
    "kernel-oops-nvidia", "bar-invalid", "rm-power-code",
)  # fmt: skip


def check(gpus: Gpus | None, symptoms: Symptoms | None, xids: Xids | None) -> Iterator[Finding]:
    if symptoms and symptoms.has("rm-init-failed") and not symptoms.has(*KNOWS_MORE) and not (xids and xids.events):
        bus = symptoms.value("bus", "rm-init-failed")
        yield Finding(
            subject=bus or "", certainty=Certainty.POSSIBLE, variant="init", values={"gpu": bus or "?", "code": symptoms.value("code", "rm-init-failed") or "?"},
            fixes=(Fix("look-at-the-bus"),), refs=symptoms.cite("rm-init-failed", most=2),
        )  # fmt: skip
    for gpu in gpus.gpus if gpus else ():
        if gpu.error in WORDS:
            variant = WORDS[gpu.error]
            yield Finding(
                subject=gpu.label, certainty=Certainty.CERTAIN, variant=variant, values={"gpu": gpu.label, "error": gpu.error},
                fixes=tuple(map(Fix, FIXES[variant])), refs=gpus.cite(gpu) if gpus else (),
            )  # fmt: skip


_TITLE = "{gpu} does not answer: NVML says \"{error}\"", "{gpu} 无应答：NVML 返回 “{error}”"

RULE = Rule(
    slug="gpu-answers-with-error",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable",),
    settle=("nvidia-smi -q", "sudo dmesg | grep -iE 'nvrm|xid'"),
    see=("https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html", "https://docs.nvidia.com/deploy/nvidia-smi/"),
    en=Text(
        title=_TITLE[0],
        why="The driver knows the card and cannot ask it. Programs that want this GPU fail; the others may go on.",
        fix="Look in the kernel log for NVRM and Xid lines of this card: they name the cause. End what uses the card, reset it "
        "(nvidia-smi --gpu-reset -i N), reboot where that fails. If it comes back, test the card with dcgmi diag -r 3 and replace it.",
    ),
    zh=Text(
        title=_TITLE[1],
        why="驱动认得这块卡，但查询不了。要用这块 GPU 的程序会失败，其他卡可能正常。",
        fix="在内核日志里查这块卡的 NVRM、Xid 行，原因就在那里。结束占用它的程序，复位该卡（nvidia-smi --gpu-reset -i N），不行就重启。"
        "若再次出现，用 dcgmi diag -r 3 检测并更换。",
    ),
    variants={
        "init": (
            Text(
                title="The driver found the GPU{gpu: at *} and cannot start it: RmInitAdapter failed{code: (*)}",
                why="The module is loaded and the card is on the bus, but its start failed, so nvidia-smi says \"No devices were found\". The three numbers name the place in the driver, not the cause. "
                "Usual causes: a missing or weak power lead, a bad seat or riser, a BIOS that gives it no address space or puts it to sleep, a driver that does not fit the card (open or proprietary, too old or new), a card in a VM that sees the hypervisor or was not reset.",
                fix="Read the NVRM lines just before it. Switch off wholly and start again; check the power leads and the seat. Try the other kind of module (open or proprietary) and another driver release; update the BIOS, Above 4G Decoding on. "
                "In a VM: hide the hypervisor (kvm hidden, hypervisor.cpuid.v0=FALSE), pass the card through whole, reboot the host. Test the card in another machine.",
            ),
            Text(
                title="驱动找到了 {gpu:* 的 }GPU，但无法启动它：RmInitAdapter failed{code:（*）}",
                why="模块已加载，显卡也在总线上，但启动失败，所以 nvidia-smi 显示 “No devices were found”。括号里的三个数字只是驱动里的位置，不是原因。常见原因：供电线缺失或不足、没插紧或延长线问题、BIOS 没有分配地址空间或让它休眠、驱动与显卡不匹配（开源或闭源、太旧或太新）、虚拟机里的卡看到了虚拟化或没有复位。",
                fix="看它前面的 NVRM 行。彻底断电再开机；检查供电线和插接。换另一种模块（开源或闭源）和另一个驱动版本；升级 BIOS，打开 Above 4G Decoding。虚拟机：隐藏虚拟化（kvm hidden、hypervisor.cpuid.v0=FALSE），整卡直通，重启宿主机。把卡放到另一台机器上测试。",
            ),
        ),
        "reset": (
            Text(
                title=_TITLE[0],
                why="A fault has stopped the card; the driver admits no work until it is reset.",
                fix="End all programs on it (sudo fuser -v /dev/nvidia*), then reset it: sudo nvidia-smi --gpu-reset -i N; with NVLink "
                "all linked cards together. Reboot where that fails. An Xid in the kernel log names the fault; test with dcgmi diag -r 3.",
            ),
            Text(
                title=_TITLE[1],
                why="故障使该卡停止工作；在复位之前驱动不再接受任务。",
                fix="结束其上的所有程序（sudo fuser -v /dev/nvidia*），再复位：sudo nvidia-smi --gpu-reset -i N；有 NVLink 时须与相连的卡一起复位。"
                "不行就重启。内核日志中的 Xid 说明是什么故障；用 dcgmi diag -r 3 检测。",
            ),
        ),
        "power": (
            Text(
                title=_TITLE[0],
                why="The card's auxiliary power is missing or too weak: it is on the bus and will not work.",
                fix="Switch the machine off, plug in all power cables of the card, each on a lead of its own; check the power supply.",
            ),
            Text(
                title=_TITLE[1],
                why="该卡的辅助供电缺失或不足：能在总线上看到，但无法工作。",
                fix="关机，把该卡的所有供电线插好，每根用独立的电源线；检查电源。",
            ),
        ),
        "inforom": (
            Text(
                title=_TITLE[0],
                why="The card's own memory for its settings and error counts (infoROM) is damaged; ECC counts and limits may be wrong.",
                fix="Power-cycle the machine and look again (nvidia-smi -q: Inforom). If it stays, the card goes back to its maker.",
            ),
            Text(
                title=_TITLE[1],
                why="显卡自身保存设置与错误计数的存储（infoROM）已损坏，ECC 计数和各种限制可能不准。",
                fix="断电重启后再看（nvidia-smi -q 中的 Inforom）。若仍如此，返厂维修。",
            ),
        ),
    },
)
