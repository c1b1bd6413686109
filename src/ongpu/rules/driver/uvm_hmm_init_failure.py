"""UVM's heterogeneous memory management fails at CUDA's start, on kernels where it does not work."""

import re
from collections.abc import Iterator

from ongpu.facts.driver import Driver, Kernel, Nodes
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

SWITCHED = lazy(r"SXM[3456]|HGX|DGX|H100 80GB HBM3|H[128]00\b(?!.*PCIe)|B[23]00|H20\b|GB[23]00", re.IGNORECASE)


def check(
    symptoms: Symptoms | None, driver: Driver | None, kernel: Kernel | None, nodes: Nodes | None, gpus: Gpus | None, machine: Machine | None, torch: Torch | None,
    variables: Variables | None,
) -> Iterator[Finding]:
    if machine and (machine.wsl or machine.system in ("windows", "macos") or machine.jetson):
        return
    if driver and (driver.module_loaded is False or driver.smi_works is False):
        return
    if nodes and nodes.listed and not nodes.has("/dev/nvidia-uvm"):
        return
    told = symptoms.cite("uvm-hmm-told") if symptoms else ()
    three = symptoms.cite("cuda-init-3") if symptoms else ()
    not_ready = symptoms.cite("system-not-initialized-802") if symptoms else ()
    names = gpus.all_names() if gpus else ()
    switched = any(SWITCHED.search(name) for name in names) or bool(symptoms and symptoms.has("nvswitch-told") and not symptoms.has("nvswitch-absent"))
    plain = bool(names) and not switched
    is_open = bool(driver and driver.flavour == "open") or bool(symptoms and symptoms.has("open-modules-told") and not (driver and driver.flavour))
    version = (driver.version or driver.module) if driver else None
    new_enough = bool(version and int(version.partition(".")[0]) >= 530)
    release = kernel.release if kernel else None
    risky = bool(release and (re.search(r"\.el(?:9|10)", release) or ((m := re.match(r"(\d+)\.(\d+)", release)) and (int(m[1]), int(m[2])) >= (6, 1))))
    unavailable = bool(torch and torch.available is False and torch.cuda != "") and not (variables and variables.get("CUDA_VISIBLE_DEVICES") in ("", "-1"))
    has_uvm = bool(nodes and nodes.has("/dev/nvidia-uvm"))
    failed = bool(three or not_ready or unavailable or (symptoms and symptoms.has("no-cuda-device")))
    if switched and not told:
        return
    if told and failed:
        certainty = Certainty.CERTAIN if three or not_ready else Certainty.LIKELY
    elif not_ready and plain:
        certainty = Certainty.LIKELY
    elif three and (is_open or (new_enough and (risky or plain))) and not (symptoms and symptoms.has("fork-told", "suspend-told")):
        certainty = Certainty.LIKELY if is_open or risky else Certainty.POSSIBLE
    elif unavailable and has_uvm and is_open and risky:
        certainty = Certainty.LIKELY
    else:
        return
    yield Finding(
        certainty=certainty,
        values={"driver": version or "?", "kernel": release or "?", "code": "802 (system not yet initialized)" if not_ready else "3 (initialization error)" if three else "no device"},
        fixes=(Fix("disable-hmm"),),
        refs=(*told, *three, *not_ready, *(driver.about("flavour", "module", "version")[:3] if driver and version else ()), *(kernel.about("release")[:1] if kernel and release else ()),
              *(torch.about("available")[:1] if torch and unavailable else ()), *(nodes.about("nodes")[:2] if nodes and has_uvm else ())),
    )


RULE = Rule(
    slug="uvm-hmm-init-failure",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cpu-only-build", "suspend-uvm-broken"),
    settle=("cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "modinfo -F license nvidia", "sudo dmesg | grep -i uvm"),
    see=("https://github.com/NVIDIA/open-gpu-kernel-modules/issues/901", "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/797", "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/947"),
    en=Text(
        title="CUDA does not start although nvidia-smi and all device nodes are fine ({code}): HMM in nvidia_uvm fails on this kernel{kernel: (*)}{driver: (driver *)}",
        why="With the open kernel modules nvidia_uvm switches heterogeneous memory management (HMM) on. On some kernels (EL9 and EL10, some 6.x) that set-up fails, cuInit returns 3 or 802, and no log says so. Without NVSwitch it is not the fabric manager.",
        fix="Switch HMM off: put \"options nvidia_uvm uvm_disable_hmm=1\" into /etc/modprobe.d/nvidia-uvm.conf, then sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm (or reboot). A newer driver or the proprietary modules help too.",
    ),
    zh=Text(
        title="nvidia-smi 和设备节点都正常，CUDA 却无法启动（{code}）：nvidia_uvm 的 HMM 在此内核上失败{kernel:（*）}{driver:（驱动 *）}",
        why="使用开源内核模块时，nvidia_uvm 会启用异构内存管理（HMM）。在某些内核上（EL9、EL10、部分 6.x）初始化失败，cuInit 返回 3 或 802，日志里却没有任何记录。没有 NVSwitch 的机器，与 fabric manager 无关。",
        fix="关闭 HMM：在 /etc/modprobe.d/nvidia-uvm.conf 写入 “options nvidia_uvm uvm_disable_hmm=1”，然后 sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm（或重启）。升级驱动或改用专有模块也可以。",
    ),
)
