"""The module loads, yet this kernel and this driver do not work together."""

import re
from collections.abc import Iterator

from ongpu.facts.driver import Driver, Kernel
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FAILS = ("no-devices-found", "gpu-idle-complaint", "cuda-unknown-999", "cuda-init-3", "cuda-os-call-304", "no-cuda-device", "driver-insufficient")
# first and last kernel, from which driver on and below which it does not work, source
KNOWN = (
    ((5, 9), (5, 9), (0, 0), (455, 38), "https://github.com/pytorch/pytorch/issues/46034"),
    ((6, 0), (6, 1), (470, 0), (470, 161), "https://github.com/pop-os/nvidia-graphics-drivers/issues/167"),
    ((6, 0), (6, 1), (510, 0), (515, 76), "https://forums.developer.nvidia.com/t/linux-6-0/230126"),
    ((6, 12), (6, 14), (550, 0), (550, 135), "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/741"),
    ((6, 12), (6, 14), (555, 0), (565, 77), "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/741"),
    ((6, 12), (6, 14), (525, 0), (535, 216), "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/741"),
)


def check(
    symptoms: Symptoms | None, kernel: Kernel | None, driver: Driver | None, machine: Machine | None, torch: Torch | None, xids: Xids | None, gpus: Gpus | None
) -> Iterator[Finding]:
    if machine and (machine.system in ("windows", "macos") or machine.wsl):
        return
    release = kernel.release if kernel else None
    if symptoms:
        moved = symptoms.value("new", "kernel-from-to") or symptoms.value("new2", "kernel-from-to")
        release = moved or release or symptoms.value("bad", "this-kernel-told") or symptoms.value("told", "this-kernel-told")
    version = (driver.version or driver.module or driver.module_on_disk) if driver else None
    built = [line for line in kernel.dkms if line.startswith("nvidia")] if kernel else []
    if not version and built and (found := re.search(r"\d{3}\.[\d.]+\d", built[0])):
        version = found[0]
    if symptoms:
        version = symptoms.value("new", "driver-from-to") or version or symptoms.value("v", "nvidia-version-told")
    oops = symptoms.cite("kernel-oops-nvidia") if symptoms else ()
    told = symptoms.cite("kernel-incompatible-told") if symptoms else ()
    reboots = symptoms.cite("machine-reboots") if symptoms else ()
    fixes = symptoms.cite("kernel-downgrade-fixes") if symptoms else ()
    fails = symptoms.cite(*FAILS, most=2) if symptoms else ()
    good_other = (symptoms.value("good", "other-kernel-told") or symptoms.value("good2", "other-kernel-told")) if symptoms else None
    dark = symptoms.cite("screen-black-told", "other-kernel-told", most=2) if symptoms and good_other else ()
    hung = symptoms.cite("nvidia-task-hung", most=2) if symptoms and good_other else ()
    if (dark or hung) and version and not fixes:
        fixes = (*hung, *dark)
    unavailable = bool(torch and torch.available is False and torch.cuda)
    bad_pair = _known(release, version)
    if driver and driver.module_loaded is False:
        return
    if symptoms and symptoms.has("module-build-failed", "smi-no-communication", "module-not-found", "driver-library-mismatch"):
        return
    if bad_pair and (fails or unavailable or told or oops):
        certainty, variant = Certainty.LIKELY, ""
    elif oops:
        certainty, variant = Certainty.LIKELY, "oops"
    elif (fixes and (version or built or (symptoms and symptoms.has("nvidia-told")))) or (told and (fails or unavailable or reboots)):
        certainty, variant = Certainty.LIKELY, ""
    elif reboots and symptoms and symptoms.has("gpu-load-told") and _many(gpus, symptoms) and not (xids and xids.events):
        certainty, variant = Certainty.LIKELY, "reboots"
    else:
        return
    good = symptoms.value("good", "kernel-incompatible-told") or (good_other if hung else None) if symptoms else None
    bad = symptoms.value("bad", "kernel-incompatible-told") if symptoms else None
    yield Finding(
        certainty=certainty,
        variant=variant,
        values={"kernel": release or bad or "?", "driver": version or "?", "good": good or "?", "system": _system(machine), "cards": (gpus.all_names() if gpus else ()) or "?"},
        fixes=(Fix("try-other-kernel"),),
        refs=(*oops, *(symptoms.cite("kernel-oops-line", most=2) if symptoms and oops else ()), *fixes, *told, *reboots[:3], *fails[:2], *(symptoms.cite("gpu-load-told", most=3) if symptoms and variant == "reboots" else ()),
              *(kernel.about("release", "dkms")[:3] if kernel and kernel.release else ()), *(symptoms.cite("kernel-from-to", "driver-from-to", "other-kernel-told", "this-kernel-told", most=1) if symptoms else ()), *(driver.about("version", "module")[:1] if driver and version else ())),
    )


def _known(release: str | None, version: str | None) -> bool:
    mine = re.match(r"(\d+)\.(\d+)", release or "")
    have = re.match(r"(\d+)\.(\d+)", version or "")
    if not mine or not have:
        return False
    at, driver = (int(mine[1]), int(mine[2])), (int(have[1]), int(have[2]))
    return any(first <= at <= last and since <= driver < need for first, last, since, need, _ in KNOWN)


def _many(gpus: Gpus | None, symptoms: Symptoms) -> bool:
    return bool((gpus and len(gpus.gpus) > 1) or symptoms.has("several-gpus-told"))


def _system(machine: Machine | None) -> str:
    return f"{machine.distribution} {machine.distribution_version or ''}".strip() if machine and machine.distribution else "Linux"


RULE = Rule(
    slug="kernel-driver-incompatible",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-not-on-bus", "uvm-module-missing", "suspend-uvm-broken", "cpu-only-build", "driver-too-old-for-cuda", "uvm-hmm-init-failure"),
    settle=("uname -r", "cat /proc/driver/nvidia/version", "journalctl -k -b -1 | grep -iE 'nvidia|nvrm|oops|panic'"),
    see=("https://github.com/pytorch/pytorch/issues/46034", "https://github.com/NVIDIA/open-gpu-kernel-modules/issues"),
    en=Text(
        title="Kernel {kernel} and {driver:driver *|this driver} do not work together: the module loads, but CUDA fails",
        why="A driver knows the kernels up to its own release date. On a newer kernel it may build and load, and nvidia-smi may work, while nvidia_uvm or another part fails.",
        fix="Boot the previous kernel (GRUB, Advanced options{good:; * is told to work}), or install a driver release that supports this kernel. Hold the kernel packages until then.",
    ),
    zh=Text(
        title="内核 {kernel} 与{driver:驱动 * |该驱动}不兼容：模块能加载，但 CUDA 失败",
        why="驱动只认识其发布时已有的内核。在更新的内核上它也许能编译、能加载，nvidia-smi 也正常，但 nvidia_uvm 等部分会失败。",
        fix="从之前的内核启动（GRUB 的 Advanced options{good:；据称 * 正常}），或安装支持该内核的驱动版本。在此之前锁定内核包。",
    ),
    variants={
        "oops": (
            Text(
                title="The NVIDIA module crashes inside the kernel ({kernel}{driver:, driver *})",
                why="The kernel log shows a fault in the nvidia module. On an otherwise healthy machine that means that this driver does not fit this kernel (a changed interface, IBT's \"Missing ENDBR\", a locking change).",
                fix="Install a driver release that supports this kernel, or boot the previous kernel. For \"Missing ENDBR\" with an old driver, ibt=off on the boot line helps until the update.",
            ),
            Text(
                title="NVIDIA 模块在内核中崩溃（内核 {kernel}{driver:，驱动 *}）",
                why="内核日志显示 nvidia 模块出错。机器其他方面正常时，说明该驱动不适配该内核（接口变化、IBT 的 “Missing ENDBR”、锁机制变化）。",
                fix="安装支持该内核的驱动版本，或从之前的内核启动。旧驱动遇到 “Missing ENDBR” 时，升级前可在启动参数加 ibt=off。",
            ),
        ),
        "reboots": (
            Text(
                title="The whole machine reboots when several GPUs compute at once, without an Xid: power, or kernel and driver of {system}",
                why="Each card alone works, so the cards are sound. All at once they draw peak power together, which trips a weak supply; the same picture comes from a kernel and driver that do not fit (PCIe, IOMMU) on newer boards.",
                fix="Test power first: sudo nvidia-smi -pl with a lower limit for each card; if the reboots stop, it is the power supply. If not, try a newer kernel or distribution (for instance Rocky Linux 10 instead of 9) and the newest driver; look at the BMC's log and journalctl -k -b -1.",
            ),
            Text(
                title="多张 GPU 同时计算时整机重启，且没有 Xid：供电问题，或 {system} 的内核与驱动不兼容",
                why="单卡都正常，说明卡没坏。同时运行时峰值功耗叠加，会触发电源保护；在新平台上，内核与驱动不适配（PCIe、IOMMU）也会出现同样现象。",
                fix="先测供电（power）：用 sudo nvidia-smi -pl 给每张卡降低功耗上限，若不再重启就是电源问题。否则换更新的内核或发行版（例如用 Rocky Linux 10 代替 9）和最新驱动；查看 BMC 日志和 journalctl -k -b -1。",
            ),
        ),
    },
)
