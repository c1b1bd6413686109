"""The loaded kernel module and the user-space libraries are of different versions."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, SystemPackages
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, driver: Driver | None, packages: SystemPackages | None, container: Container | None) -> Iterator[Finding]:
    said = symptoms.cite("driver-library-mismatch", "api-mismatch", "nvml-library-version") if symptoms else ()
    module = driver.module if driver else None
    user = driver.version if driver else None
    if symptoms:
        user = user or symptoms.value("version", "nvml-library-version") or symptoms.value("client", "api-mismatch")
        module = module or symptoms.value("module", "api-mismatch")
    differ = bool(module and user and module != user)
    if not said and not differ:
        return
    upgrades = packages.upgrades if packages else ()
    refs = (*said, *(driver.about("module", "version") if driver and (module or user) else ()), *(packages.refs if upgrades and packages else ()))
    yield Finding(
        certainty=Certainty.CERTAIN if said or differ else Certainty.LIKELY,
        variant="container" if container and container.inside else "upgrade" if upgrades else "",
        values={"module": module or "?", "user": user or "?", "upgrades": upgrades},
        fixes=(Fix("reload-nvidia-module"), Fix("reboot")),
        refs=refs,
    )


RULE = Rule(
    slug="driver-library-mismatch",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable",),
    settle=("cat /proc/driver/nvidia/version", "modinfo -F version nvidia", "dpkg -l 'libnvidia-compute*' 'nvidia-driver*'"),
    see=("https://docs.nvidia.com/deploy/nvml-api/",),
    en=Text(
        title="The loaded kernel module ({module}) and the driver's libraries ({user}) have different versions",
        why="The driver was updated on disk while the old kernel module stayed loaded, or two installs are mixed. NVML and CUDA refuse to start until both are of one version.",
        fix="Reboot, or stop everything that uses the GPU and reload the module. If it comes back after a reboot, an old module is left on disk: reinstall the driver so that both parts match.",
    ),
    zh=Text(
        title="已加载的内核模块（{module}）与驱动用户态库（{user}）版本不一致",
        why="磁盘上的驱动已更新，而旧的内核模块仍在运行；或者混装了两套驱动。两者版本一致之前，NVML 和 CUDA 都拒绝启动。",
        fix="重启；或停止所有使用 GPU 的程序后重新加载模块。如果重启后仍然出现，说明磁盘上残留旧模块：重新安装驱动，使两部分一致。",
    ),
    variants={
        "upgrade": (
            Text(
                title="The driver was upgraded ({upgrades}) while the old kernel module stayed loaded",
                why="An upgrade, often unattended-upgrade, replaced the driver's libraries; the module in memory is still the old one (module {module}, libraries {user}).",
                fix="Reboot, or unload and load the nvidia modules. To prevent it, hold the driver packages: sudo apt-mark hold.",
            ),
            Text(
                title="驱动已升级（{upgrades}），但旧的内核模块仍在运行",
                why="一次升级（通常是 unattended-upgrade）替换了驱动库，而内存中的模块还是旧版（模块 {module}，库 {user}）。",
                fix="重启，或卸载并重新加载 nvidia 模块。要避免再次发生，可锁定驱动包：sudo apt-mark hold。",
            ),
        ),
        "container": (
            Text(
                title="The container carries driver libraries ({user}) of another version than the host's kernel module ({module})",
                why="Driver libraries must come from the host. This container was created with an older driver mounted or has driver packages installed inside.",
                fix="Create the container anew (docker run --gpus all ...), so that it gets the host's present libraries; remove driver packages from the image.",
            ),
            Text(
                title="容器里的驱动库（{user}）与宿主机内核模块（{module}）版本不同",
                why="驱动库必须来自宿主机。该容器创建时挂载的是旧驱动，或镜像里自带了驱动包。",
                fix="重新创建容器（docker run --gpus all ...），让它挂载宿主机当前的驱动库；并从镜像中删除驱动包。",
            ),
        ),
    },
)
