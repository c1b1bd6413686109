"""Windows stopped the device (code 43) or could not start it (10, 12, 31)."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, gpus: Gpus | None, machine: Machine | None) -> Iterator[Finding]:
    said = symptoms.cite("windows-code-43") if symptoms else ()
    bad = [g for g in gpus.gpus if g.problem_code] if gpus else []
    if machine and machine.system == "macos":
        return
    stopped = [g for g in gpus.gpus if g.error == "Windows: Error"] if gpus else []
    if not bad and not said and not stopped:
        return
    sure = bool(bad or said)
    bad = bad or stopped
    code = bad[0].problem_code if bad else None
    if code is None and symptoms:
        found = symptoms.value("code", "windows-code-43") or symptoms.value("code2") or symptoms.value("code3") or symptoms.value("code4")
        code = 43 if found in (None, "2B") else int(found) if found and found.isdigit() else 43
    guest = bool(machine and machine.virtual) or bool(symptoms and symptoms.has("guest-told"))
    name = next((g.name for g in bad if g.name), None) or (gpus.names[0] if gpus and gpus.names else None)
    yield Finding(
        certainty=Certainty.CERTAIN if sure else Certainty.LIKELY,
        variant="guest" if guest else "",
        values={"code": code or 43, "card": name or "NVIDIA GPU"},
        fixes=(Fix("reset-windows-device"),),
        refs=(*said, *(g.ref for g in bad if g.ref), *(gpus.refs[:4] if gpus and bad else ()), *(symptoms.cite("guest-told", most=2) if symptoms else ())),
    )


RULE = Rule(
    slug="windows-code-43",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-not-installed", "driver-module-not-loaded", "cpu-only-build", "no-nvidia-gpu", "wsl-host-driver"),
    settle=("powershell Get-PnpDevice -Class Display | Format-List FriendlyName,Status,Problem",),
    see=("https://support.microsoft.com/en-us/topic/error-codes-in-device-manager-in-windows-524e9e89-4dee-8883-0afa-6bca0456324e",),
    en=Text(
        title="Windows has stopped {card} (device manager: code {code})",
        why="Code 43 means that the device was found and its driver reported a failure: a broken or half updated driver, a card or its power that failed, a laptop whose other GPU drives it, or a virtual machine. (10 and 31: the driver could not start it; 12: no free resources.) CUDA sees no device as long as it lasts.",
        fix="Shut down fully and start again (not a fast-startup restart). If it stays: remove the driver with DDU (Display Driver Uninstaller) in safe mode and install the current NVIDIA driver cleanly. If it comes back: check power connectors and the slot, update the BIOS, try the card in another machine (it may be defective).",
    ),
    zh=Text(
        title="Windows 已停止 {card}（设备管理器：代码 {code}）",
        why="代码 43 表示设备已被发现，但驱动报告了故障：驱动损坏或更新不完整、卡或供电故障、笔记本由另一块 GPU 驱动，或在虚拟机中。（10 和 31：驱动无法启动；12：资源不足。）在此期间 CUDA 看不到任何设备。",
        fix="完全关机后再开机（不要用快速启动的重启）。仍然存在：在安全模式下用 DDU（Display Driver Uninstaller）清除驱动，再全新安装最新 NVIDIA 驱动。反复出现：检查供电接口和插槽，更新 BIOS，换一台机器测试（卡可能已损坏）。",
    ),
    variants={
        "guest": (
            Text(
                title="{card} in this virtual machine stops with code {code}",
                why="GeForce drivers before 465 refuse to run when they see a hypervisor, and later ones still fail where the card was not reset or its ROM is missing.",
                fix="Update the guest's driver (465 or newer allows it), hide the hypervisor (libvirt: <kvm><hidden state='on'/></kvm> and a <vendor_id>), pass all functions of the card through, give it its ROM file, and stop the guest fully between starts.",
            ),
            Text(
                title="虚拟机中的 {card} 以代码 {code} 停止",
                why="465 之前的 GeForce 驱动检测到虚拟化就拒绝运行；之后的版本在卡未复位或缺少 ROM 时仍会失败。",
                fix="升级虚拟机内的驱动（465 起允许），隐藏虚拟化特征（libvirt：<kvm><hidden state='on'/></kvm> 和 <vendor_id>），直通该卡的全部功能，提供 ROM 文件，并在两次启动之间完全关闭虚拟机。",
            ),
        ),
    },
)
