"""The loaded kernel module and the user-space libraries are of different versions."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Kernel, SystemPackages
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

SAID = ("driver-library-mismatch", "api-mismatch", "dso-mismatch", "nvml-library-version")
IN_CONTAINER = ("mismatch-in-container",)


def check(
    symptoms: Symptoms | None, driver: Driver | None, packages: SystemPackages | None, container: Container | None, kernel: Kernel | None
) -> Iterator[Finding]:
    said = symptoms.cite(*SAID) if symptoms else ()
    module = (driver.module if driver else None) or (symptoms.value("module", "api-mismatch", "dso-mismatch") or symptoms.value("module2", "api-mismatch") if symptoms else None)
    user = None
    if symptoms:
        user = symptoms.value("version", "nvml-library-version") or symptoms.value("client", "api-mismatch", "dso-mismatch") or symptoms.value("client2", "api-mismatch")
    user = user or (driver.version if driver else None)
    if symptoms:
        module = module or symptoms.value("module", "kernel-reported") or symptoms.value("module", "driver-file-contents") or symptoms.value("module", "proc-version-says")
        user = user or symptoms.value("user", "libcuda-reported") or symptoms.value("user", "libcuda-file-version")
    smi_version = _package_version(packages)
    combination = bool(symptoms and symptoms.has("cuda-system-driver-mismatch"))
    if (said or combination) and module and (user is None or user == module):
        user = smi_version or user
    differ = bool(module and user and not _same(module, user))
    failing = bool(symptoms and symptoms.has("no-cuda-device", "cuda-unknown-999", "cuda-init-3", "torch-no-driver"))
    if module and not user and smi_version and failing and not _same(module, smi_version) and _branch(module) == _branch(smi_version):
        user, differ = smi_version, True
    if differ and not said and symptoms:
        said = symptoms.cite("libcuda-reported", "kernel-reported", "driver-file-contents", "proc-version-says", "libcuda-file-version")
    if driver and driver.smi_works and not said:
        return  # nvidia-smi itself compares the two and would have refused
    if not said and not differ:
        return
    old = symptoms.value("version", "driver-volume") if symptoms else None
    boxed = bool((container and container.inside) or (symptoms and symptoms.has(*IN_CONTAINER)))
    upgrades = tuple(u for u in packages.upgrades if "nvidia" in u) if packages else ()
    disk = driver.module_on_disk if driver else None
    stuck = bool(disk and module and _same(disk, module) and user and not _same(user, disk)) or bool(symptoms and symptoms.has("after-reboot-too"))
    variant = "container" if boxed else "upgrade" if upgrades else "stuck" if stuck else ""
    by = "unattended-upgrade" if packages and packages.unattended else "apt/dnf/pacman"
    names = _short(upgrades)
    if variant == "container" and old and user and not _same(old, user):
        module, user = user, old  # the host's driver against the volume's
    yield Finding(
        certainty=Certainty.CERTAIN,
        variant=variant,
        values={"module": module or "?", "user": user or "?", "upgrades": names, "by": by},
        fixes=(Fix("recreate-container"),) if boxed else (Fix("finish-upgrade"), Fix("compare-versions")) if stuck else (Fix("reload-nvidia-module"), Fix("reboot"), Fix("hold-driver")),
        refs=(
            *said, *(symptoms.cite("cuda-system-driver-mismatch") if symptoms else ()), *(symptoms.cite(*IN_CONTAINER, "driver-volume", "after-reboot-too", "nix-driver-path") if symptoms else ()),
            *(driver.about("module", "version", "module_on_disk")[:4] if driver and (driver.module or driver.version or disk) else ()),
            *(packages.refs[:6] if packages and (upgrades or smi_version) else ()),
        ),
    )


def _same(one: str, other: str) -> bool:
    """"535.183" of NVML's short form is "535.183.01"."""
    a, b = ([int(part) for part in text.split(".") if part.isdigit()] for text in (one, other))
    width = min(len(a), len(b))
    return (a[:width] == b[:width] and not any(a[width:] + b[width:])) or one.startswith(other + ".") or other.startswith(one + ".")


def _branch(version: str) -> str:
    return version.partition(".")[0]


def _package_version(packages: SystemPackages | None) -> str | None:
    for name in ("nvidia-smi", "nvidia-utils", "libnvidia-ml1", "nvidia-driver", "libnvidia-compute"):
        for have, version in packages.packages.items() if packages else ():
            if have.startswith(name):
                return version.split(":")[-1].partition("-")[0]
    return None


def _short(upgrades: tuple[str, ...]) -> str:
    return "; ".join(upgrades[:2]) + (" ..." if len(upgrades) > 2 else "")


RULE = Rule(
    slug="driver-library-mismatch",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-module-not-loaded", "driver-not-installed", "device-node-missing", "driver-too-old-for-cuda", "cpu-only-build", "compat-lib-conflict"),
    settle=("cat /proc/driver/nvidia/version", "modinfo -F version nvidia", "dpkg -l 'libnvidia-compute*' 'nvidia-driver*'"),
    see=("https://docs.nvidia.com/deploy/nvml-api/", "https://github.com/stackhpc/ansible-slurm-appliance/issues/287"),
    en=Text(
        title="The loaded kernel module{module: (*)} and the driver's libraries{user: (*)} have different versions",
        why="The driver was updated on disk while the old kernel module stayed loaded, or two installs are mixed. NVML and CUDA refuse to start until both are of one version.",
        fix="Reboot, or stop everything that uses the GPU and reload the module. If it comes back after a reboot, an old module is left on disk (compare modinfo -F version nvidia): reinstall the driver so that both parts match. To prevent it, hold the driver packages (apt-mark hold) or exclude them from unattended-upgrades.",
    ),
    zh=Text(
        title="已加载的内核模块{module:（*）}与驱动用户态库{user:（*）}版本不一致",
        why="磁盘上的驱动已更新，而旧的内核模块仍在运行；或者混装了两套驱动。两者版本一致之前，NVML 和 CUDA 都拒绝启动。",
        fix="重启；或停止所有使用 GPU 的程序后重新加载模块。如果重启后仍然出现，说明磁盘上残留旧模块（用 modinfo -F version nvidia 对比）：重新安装驱动，使两部分一致。要避免再次发生，可用 apt-mark hold 锁定驱动包，或将其排除在 unattended-upgrades 之外。",
    ),
    variants={
        "upgrade": (
            Text(
                title="The driver was upgraded by {by} ({upgrades}) while the old kernel module stayed loaded",
                why="The new libraries are on disk, the module in memory is still the old one (module {module:*|older}, libraries {user:*|newer}). Running programs keep working; whatever starts now is refused.",
                fix="Reboot, or unload and load the nvidia modules when no job runs. To prevent it, hold the driver packages (sudo apt-mark hold) or list them under Unattended-Upgrade::Package-Blacklist.",
            ),
            Text(
                title="驱动已被 {by} 升级（{upgrades}），但旧的内核模块仍在运行",
                why="新库已在磁盘上，内存里的模块还是旧的（模块 {module:*|较旧}，库 {user:*|较新}）。正在运行的程序不受影响，新启动的会被拒绝。",
                fix="重启；或在没有任务时卸载并重新加载 nvidia 模块。要避免再次发生，用 sudo apt-mark hold 锁定驱动包，或写入 Unattended-Upgrade::Package-Blacklist。",
            ),
        ),
        "stuck": (
            Text(
                title="The module on disk is still {module}, the libraries are {user}: a reboot alone does not help",
                why="Only half of the upgrade was done: the new module was not built or not installed, so each boot loads the old one again (also from a stale initramfs).",
                fix="Finish the upgrade: sudo apt update, sudo apt install --fix-broken, sudo dkms autoinstall (dkms status shows what was built), sudo update-initramfs -u, and reboot then.",
            ),
            Text(
                title="磁盘上的模块仍是 {module}，而库是 {user}：只重启没有用",
                why="升级只完成了一半：新模块没有编译或没有安装，每次启动加载的还是旧模块（也可能来自旧的 initramfs）。",
                fix="完成升级：sudo apt update，sudo apt install --fix-broken，sudo dkms autoinstall（用 dkms status 查看编译结果），sudo update-initramfs -u，然后重启。",
            ),
        ),
        "container": (
            Text(
                title="The container carries driver libraries ({user}) of another version than the host's kernel module ({module})",
                why="Driver libraries must come from the host. This container was created while an older driver was mounted into it, or has driver packages installed inside; restarting it keeps them.",
                fix="Remove and create the container anew (docker run --gpus all ...), so that it gets the host's present libraries; drop an old driver volume; remove driver packages (libnvidia-compute-*, nvidia-utils-*) from the image. If nvidia-smi fails on the host with the same words, the host itself was updated: reboot it.",
            ),
            Text(
                title="容器里的驱动库（{user}）与宿主机内核模块（{module}）版本不同",
                why="驱动库必须来自宿主机。该容器创建时挂载的是旧驱动，或镜像里自带了驱动包；重启容器不会改变这一点。",
                fix="删除并重新创建容器（docker run --gpus all ...），让它挂载宿主机当前的驱动库；删除旧的驱动卷；从镜像中去掉驱动包（libnvidia-compute-*、nvidia-utils-*）。若宿主机上的 nvidia-smi 也报同样的错，说明是宿主机更新了驱动：重启（reboot）宿主机。",
            ),
        ),
    },
)
