"""nvidia-uvm is not loaded, or its node is absent: nvidia-smi works, CUDA does not."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Nodes
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FAILS = ("cuda-unknown-999", "cuda-init-3", "cuda-os-call-304", "no-cuda-device", "go-cuda-panic")


def check(
    symptoms: Symptoms | None, nodes: Nodes | None, driver: Driver | None, container: Container | None, machine: Machine | None, torch: Torch | None
) -> Iterator[Finding]:
    if machine and (machine.wsl or machine.system in ("windows", "macos") or machine.jetson):
        return
    if driver and (driver.module_loaded is False or driver.smi_works is False):
        return
    said = symptoms.cite("uvm-node-missing", "uvm-load-failed") if symptoms else ()
    fails = symptoms.cite(*FAILS) if symptoms else ()
    broken = bool(fails) or bool(torch and torch.cuda != "" and torch.available is False) or bool(torch and torch.cuda and torch.computed is False)
    reload = symptoms.cite("uvm-reload-told") if symptoms and symptoms.has("fixes-told") and not symptoms.has("suspend-told") else ()
    broken = broken or bool(symptoms and symptoms.has("gpu-idle-complaint"))
    there = bool(nodes and nodes.has("/dev/nvidia-uvm"))
    cards = any(node.path[11:].isdigit() or node.path == "/dev/nvidiactl" for node in nodes.nodes) if nodes else False
    gone = bool(nodes and ((nodes.listed and cards and not there) or "/dev/nvidia-uvm" in nodes.absent))
    unloaded = bool(driver and driver.uvm_loaded is False)
    helpless = bool(driver and driver.modprobe is False)  # nothing would load it at the first CUDA call
    if there or not ((reload and broken) or said or (gone and broken) or (unloaded and broken) or (gone and unloaded and helpless)):
        return
    yield Finding(
        certainty=Certainty.CERTAIN if (said and (broken or gone)) or (gone and unloaded) or (gone and fails) else Certainty.LIKELY,
        variant="container" if container and container.inside else "",
        fixes=(Fix("load-uvm"),),
        refs=(*said, *reload, *fails[:3], *(nodes.about("absent", "nodes")[:4] if nodes and gone else ()), *(driver.about("uvm_loaded")[:1] if driver and unloaded else ())),
    )


RULE = Rule(
    slug="uvm-module-missing",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("device-node-missing", "suspend-uvm-broken", "uvm-hmm-init-failure", "cpu-only-build", "driver-too-old-for-cuda"),
    settle=("ls -l /dev/nvidia*", "lsmod | grep nvidia_uvm", "sudo nvidia-modprobe -u -c 0"),
    see=("https://docs.nvidia.com/cuda/cuda-installation-guide-linux/", "https://github.com/Bumblebee-Project/Bumblebee/issues/623", "https://github.com/gorgonia/cu/issues/2"),
    en=Text(
        title="The kernel module nvidia_uvm is not loaded (no /dev/nvidia-uvm), so CUDA cannot start although nvidia-smi works",
        why="CUDA needs unified memory from the second module, nvidia_uvm. Normally the setuid program nvidia-modprobe loads it and makes /dev/nvidia-uvm at the first CUDA call; where that program is missing, CUDA fails with 999 (unknown error) or 3.",
        fix="Install nvidia-modprobe and run sudo nvidia-modprobe -u -c 0 (or sudo modprobe nvidia_uvm). Make it load at each boot: put nvidia_uvm into /etc/modules-load.d/nvidia-uvm.conf.",
    ),
    zh=Text(
        title="内核模块 nvidia_uvm 没有加载（没有 /dev/nvidia-uvm），所以 nvidia-smi 正常而 CUDA 无法启动",
        why="CUDA 需要第二个模块 nvidia_uvm 提供统一内存。正常情况下 setuid 程序 nvidia-modprobe 会在首次 CUDA 调用时加载它并创建 /dev/nvidia-uvm；缺少该程序时，CUDA 会以 999（unknown error）或 3 失败。",
        fix="安装 nvidia-modprobe，运行 sudo nvidia-modprobe -u -c 0（或 sudo modprobe nvidia_uvm）。要每次开机加载：把 nvidia_uvm 写入 /etc/modules-load.d/nvidia-uvm.conf。",
    ),
    variants={
        "container": (
            Text(
                title="The container has no /dev/nvidia-uvm, so CUDA (nvidia_uvm) cannot start in it",
                why="nvidia-smi needs only /dev/nvidiactl and /dev/nvidia0; CUDA needs /dev/nvidia-uvm as well. It is missing where nvidia_uvm was not loaded on the host when the container started, or where the devices are passed one by one.",
                fix="On the host run sudo nvidia-modprobe -u -c 0 (nvidia_uvm, loaded at boot), then create the container anew with --gpus all, or pass /dev/nvidia-uvm and /dev/nvidia-uvm-tools (LXC: lxc.mount.entry and a cgroup rule for its major number).",
            ),
            Text(
                title="容器里没有 /dev/nvidia-uvm，CUDA（nvidia_uvm）无法启动",
                why="nvidia-smi 只需要 /dev/nvidiactl 和 /dev/nvidia0，而 CUDA 还需要 /dev/nvidia-uvm。容器启动时宿主机尚未加载 nvidia_uvm，或逐个传设备时漏掉了它，就会缺失。",
                fix="在宿主机上运行 sudo nvidia-modprobe -u -c 0（并设为开机加载 nvidia_uvm），然后用 --gpus all 重建容器；或显式传入 /dev/nvidia-uvm 和 /dev/nvidia-uvm-tools（LXC：加 lxc.mount.entry，并为其主设备号放行 cgroup）。",
            ),
        ),
    },
)
