"""No NVIDIA driver is installed: no user-space files, no packages."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Nodes, SystemPackages
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

NO_TOOL = ("smi-missing", "nvml-library-missing", "libcuda-missing")
DRIVER_PACKAGES = ("nvidia-driver", "nvidia-kernel", "nvidia-utils", "libnvidia-compute", "kmod-nvidia", "akmod-nvidia", "xorg-x11-drv-nvidia",
                   "nvidia-open", "nvidia-dkms", "cuda-drivers", "nvidia-headless", "nvidia-compute", "nvidia-5", "nvidia-4", "nvidia-3", "nvidia-smi")


def check(
    symptoms: Symptoms | None, driver: Driver | None, pci: Pci | None, packages: SystemPackages | None, container: Container | None,
    machine: Machine | None, nodes: Nodes | None, gpus: Gpus | None,
) -> Iterator[Finding]:
    if machine and (machine.system == "macos" or machine.jetson or machine.wsl or machine.colab):
        return
    if symptoms and driver and driver.version and symptoms.has("libcuda-missing") and not (container and container.inside):
        if symptoms.has("smi-cuda-na"):
            yield Finding(certainty=Certainty.LIKELY, variant="libcuda", values={"version": driver.version}, fixes=(Fix("install-libcuda"),),
                          refs=(*symptoms.cite("libcuda-missing", "smi-cuda-na"), *driver.about("version")[:1]))
        return
    if driver and (driver.version or driver.smi_works or driver.module or driver.module_loaded or driver.nvml == "ok" or driver.on_disk):
        return
    if (container and container.inside) or (pci and pci.complete and not pci.nvidia()) or (nodes and nodes.nodes) or (gpus and any(g.index is not None for g in gpus.gpus)):
        return
    if symptoms and symptoms.has("smi-no-communication", "driver-library-mismatch", "wsl-blocked", "devices-busy-46", "module-build-failed", "nvml-driver-not-loaded"):
        return  # user space is there
    mine = any(name.startswith(DRIVER_PACKAGES) for name in packages.packages) if packages else False
    if mine:
        return
    none_listed = bool(packages and packages.listed)
    missing = symptoms.cite(*NO_TOOL) if symptoms else ()
    said = symptoms.cite("torch-no-driver") if symptoms else ()
    not_there = bool(driver and driver.installed is False)
    card = pci.nvidia()[0] if pci and pci.nvidia() else None
    if not (missing or said or (card and (not_there or none_listed))):
        return
    boxed = bool(container and (container.runtime or container.image or container.gpu_requested is not None))
    tool = bool(symptoms and symptoms.has("smi-missing"))
    if card and (not_there or (none_listed and missing)) and not boxed:
        certainty = Certainty.CERTAIN
    elif (not boxed and ((card and (missing or said)) or none_listed or (tool and (said or (symptoms and symptoms.has("no-cuda-device", "libcuda-missing")))))) or (tool and not boxed):
        certainty = Certainty.LIKELY
    else:
        certainty = Certainty.POSSIBLE
    names = (card.name or card.bus) if card else ", ".join(gpus.all_names()) if gpus else ""
    windows = bool(machine and machine.system == "windows")
    yield Finding(
        certainty=certainty,
        variant="" if certainty is not Certainty.POSSIBLE or windows else "maybe",
        values={"card": names or "NVIDIA GPU"},
        fixes=(Fix("install-driver"),),
        refs=(*missing, *said, *((card.ref,) if card and card.ref else ()), *(packages.refs[:2] if none_listed and packages else ()),
              *(driver.about("installed") if not_there and driver else ())),
    )


RULE = Rule(
    slug="driver-not-installed",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-module-not-loaded", "device-node-missing", "uvm-module-missing"),
    settle=("nvidia-smi", "dpkg -l | grep -i nvidia", "lspci -nnk -d 10de:"),
    see=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/", "https://documentation.ubuntu.com/server/how-to/graphics/install-nvidia-drivers/"),
    en=Text(
        title="No NVIDIA driver is installed for {card}",
        why="Neither nvidia-smi nor libcuda is there: both belong to the driver. The CUDA toolkit and the frameworks' wheels bring a CUDA runtime, but never the driver.",
        fix="Install the driver from the distribution's packages (Ubuntu: sudo ubuntu-drivers install; Debian: nvidia-driver; Fedora: akmod-nvidia; Arch: nvidia-open), reboot, then check with nvidia-smi. On Windows take it from NVIDIA's site.",
    ),
    zh=Text(
        title="{card} 没有安装 NVIDIA 驱动",
        why="nvidia-smi 和 libcuda 都不存在，而它们都属于驱动。CUDA 工具包和框架的 wheel 只带 CUDA 运行时，从不带驱动。",
        fix="用发行版的软件包安装驱动（Ubuntu：sudo ubuntu-drivers install；Debian：nvidia-driver；Fedora：akmod-nvidia；Arch：nvidia-open），重启后用 nvidia-smi 检查。Windows 从 NVIDIA 官网下载安装。",
    ),
    variants={
        "libcuda": (
            Text(
                title="Driver {version} is installed without its CUDA library: libcuda.so.1 is missing, nvidia-smi says CUDA Version N/A",
                why="Distributions split the driver. nvidia-smi and the module are there, but not the package with libcuda.so.1, which every CUDA program loads.",
                fix="Install the driver's CUDA library of the same version: libcuda1 or nvidia-driver-libs (Debian), libnvidia-compute-<branch> (Ubuntu), xorg-x11-drv-nvidia-cuda-libs (Fedora), nvidia-utils (Arch); then sudo ldconfig.",
            ),
            Text(
                title="驱动 {version} 已安装，但缺少它的 CUDA 库：没有 libcuda.so.1，nvidia-smi 显示 CUDA Version 为 N/A",
                why="发行版把驱动拆成多个包。nvidia-smi 和模块都在，却缺少含 libcuda.so.1 的包，而所有 CUDA 程序都要加载它。",
                fix="安装同版本驱动的 CUDA 库：Debian 为 libcuda1 或 nvidia-driver-libs，Ubuntu 为 libnvidia-compute-<分支>，Fedora 为 xorg-x11-drv-nvidia-cuda-libs，Arch 为 nvidia-utils；然后 sudo ldconfig。",
            ),
        ),
        "maybe": (
            Text(
                title="No NVIDIA driver can be reached from here: it is not installed, not loaded, or not passed into this container",
                why="The program found no usable libcuda or kernel driver. lspci and lsmod tell which: no driver files means not installed; files but no module means not loaded; inside a container it means that the GPU was not passed in; no card on the bus means that there is nothing to drive.",
                fix="Run nvidia-smi on the host. If it is not there, install the driver (sudo ubuntu-drivers install, or nvidia-driver) and reboot; in a container, start it with --gpus all.",
            ),
            Text(
                title="这里找不到可用的 NVIDIA 驱动：未安装、未加载，或未传入容器",
                why="程序找不到可用的 libcuda 或内核驱动。用 lspci 和 lsmod 区分：没有驱动文件就是未安装；有文件但没有模块就是未加载；在容器里则是没有把 GPU 传进来；总线上没有卡则根本没有可驱动的设备。",
                fix="先在宿主机上运行 nvidia-smi。如果没有该命令，就安装驱动（sudo ubuntu-drivers install 或 nvidia-driver）并重启；在容器里则用 --gpus all 启动。",
            ),
        ),
    },
)
