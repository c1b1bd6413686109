"""After a suspend nvidia_uvm holds stale state: CUDA fails with 999 until the module is reloaded."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Nodes
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FAILS = ("cuda-unknown-999", "cuda-init-3", "no-cuda-device", "cuda-os-call-304", "devices-busy-46")


def check(
    symptoms: Symptoms | None, driver: Driver | None, nodes: Nodes | None, container: Container | None, machine: Machine | None, torch: Torch | None,
    variables: Variables | None,
) -> Iterator[Finding]:
    if machine and (machine.system in ("windows", "macos") or machine.colab):
        return
    if driver and (driver.module_loaded is False or driver.smi_works is False):
        return
    unknown = symptoms.cite("cuda-unknown-999") if symptoms else ()
    fails = symptoms.cite(*FAILS) if symptoms else ()
    slept = symptoms.cite("suspend-told") if symptoms else ()
    broken = bool(fails) or bool(torch and torch.cuda != "" and torch.available is False) or bool(slept and symptoms and symptoms.has("gpu-idle-complaint"))
    if not (unknown or (slept and broken)):
        return
    if nodes and nodes.listed and not nodes.has("/dev/nvidia-uvm"):
        return
    works = bool(driver and driver.smi_works) or bool(symptoms and symptoms.has("smi-works-told"))
    other = bool(container and (container.inside or container.runtime)) or bool(variables and variables.get("CUDA_VISIBLE_DEVICES"))
    if slept or (works and not other):
        certainty = Certainty.LIKELY
    else:
        certainty = Certainty.POSSIBLE
    yield Finding(
        certainty=certainty,
        variant="" if slept else "maybe",
        fixes=(Fix("reload-uvm"), Fix("keep-memory-on-suspend")),
        refs=(*fails[:4], *slept[:3], *(symptoms.cite("smi-works-told", "uvm-reload-told", "gpu-idle-complaint", most=2) if symptoms else ())),
    )


RULE = Rule(
    slug="suspend-uvm-broken",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("jax-without-cuda", "cpu-only-build", "driver-too-old-for-cuda", "cuda-visible-devices-late"),
    settle=("ls -l /dev/nvidia-uvm", "journalctl -k | grep -E 'PM: (suspend|resume|hibernation)'", "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"),
    see=("https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/powermanagement.html", "https://github.com/pytorch/pytorch/issues/49081"),
    en=Text(
        title="CUDA fails since the machine was suspended: the module nvidia_uvm did not survive it (999, unknown error)",
        why="A suspend loses the GPU state that nvidia_uvm keeps. nvidia-smi does not use that module and still works, while each new CUDA program fails.",
        fix="Stop all CUDA programs, then sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm (no reboot needed). To prevent it: enable nvidia-suspend.service and nvidia-resume.service with NVreg_PreserveVideoMemoryAllocations=1, or keep the machine from suspending.",
    ),
    zh=Text(
        title="机器休眠之后 CUDA 失效：nvidia_uvm 模块没能恢复（999，unknown error）",
        why="休眠会丢失 nvidia_uvm 维护的 GPU 状态。nvidia-smi 不使用该模块，所以看起来正常，而每个新的 CUDA 程序都会失败。",
        fix="停止所有 CUDA 程序，然后 sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm（不必重启）。预防：启用 nvidia-suspend.service 和 nvidia-resume.service，并设置 NVreg_PreserveVideoMemoryAllocations=1；或者不让机器休眠。",
    ),
    variants={
        "maybe": (
            Text(
                title="CUDA cannot start (999, unknown error): most often the module nvidia_uvm is stale after a suspend, or not loaded",
                why="Code 999 at the first CUDA call, while nvidia-smi works, comes from the second kernel module. Other reasons: /dev/nvidia-uvm missing, or CUDA_VISIBLE_DEVICES changed after the program had started CUDA.",
                fix="Look at ls -l /dev/nvidia-uvm. If the machine slept: sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm. If the node is missing: sudo nvidia-modprobe -u -c 0. If it stays, reboot.",
            ),
            Text(
                title="CUDA 无法启动（999，unknown error）：最常见的是休眠后 nvidia_uvm 失效，或它没有加载",
                why="首次 CUDA 调用就返回 999，而 nvidia-smi 正常，问题出在第二个内核模块。其他原因：缺少 /dev/nvidia-uvm，或程序启动 CUDA 之后才修改 CUDA_VISIBLE_DEVICES。",
                fix="先看 ls -l /dev/nvidia-uvm。机器休眠过：sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm。节点不存在：sudo nvidia-modprobe -u -c 0。仍不行就重启。",
            ),
        ),
    },
)
