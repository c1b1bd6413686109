"""The driver is installed, but its kernel module is not loaded."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Kernel, Nodes, SystemPackages
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

PLAIN = ("smi-no-communication", "nvml-driver-not-loaded", "tf-no-kernel-driver", "proc-version-missing", "driver-not-running", "lsmod-empty-told")
HARD = ("module-not-found", "module-unloadable", "module-blacklisted", "module-wrong-kernel")


def check(
    symptoms: Symptoms | None, driver: Driver | None, kernel: Kernel | None, pci: Pci | None, container: Container | None,
    machine: Machine | None, nodes: Nodes | None, gpus: Gpus | None, packages: SystemPackages | None,
) -> Iterator[Finding]:
    if machine and (machine.system == "macos" or machine.wsl or machine.colab):
        return
    if (pci and pci.complete and not pci.nvidia()) or (gpus and any(g.index is not None and not g.error for g in gpus.gpus)):
        return
    plain = symptoms.cite(*PLAIN) if symptoms else ()
    hard = symptoms.cite(*HARD) if symptoms else ()
    loaded = driver.module_loaded if driver else None
    if loaded or (driver and driver.smi_works) or (nodes and nodes.has("/dev/nvidia0") and not hard):
        return
    release = (kernel.release if kernel else None) or (symptoms.value("runs", "module-wrong-kernel") if symptoms else None)
    built = kernel.modules_for if kernel else ()
    if symptoms and not built and (wrong := symptoms.value("built", "module-wrong-kernel")):
        built = (wrong,)
    other = bool(release and built and not any(one.startswith(release) or release.startswith(one) for one in built))
    barred = bool(kernel and any(name.startswith("nvidia") for name in kernel.blacklisted)) or bool(symptoms and symptoms.has("module-blacklisted"))
    prime = bool(symptoms and symptoms.has("prime-off"))
    if not (plain or hard or loaded is False or (other and driver and driver.smi_works is False)):
        return
    windows = bool(machine and machine.system == "windows")
    boxed = bool(container and (container.inside or container.gpu_requested))
    if other or barred or (prime and plain) or ((hard or loaded is False) and (plain or (pci and pci.nvidia()))):
        certainty = Certainty.CERTAIN if not boxed else Certainty.LIKELY
    elif hard or (loaded is False and not boxed) or (plain and not windows and not boxed):
        certainty = Certainty.LIKELY
    else:
        certainty = Certainty.POSSIBLE
    if driver and driver.installed is False:
        return
    refs = [*hard, *plain]
    if driver and loaded is False:
        refs += driver.about("module_loaded")[:2]
    if kernel and (other or barred):
        refs += kernel.about("release", "modules_for", "blacklisted", "booted_with")
    refs += symptoms.cite("dkms-missing", "prime-off", "kernel-upgraded-told", "module-no-such-device") if symptoms else ()
    if packages and packages.packages:
        refs += packages.about("packages")[:2]
    refs += symptoms.cite("uvm-node-missing", most=1) if symptoms else ()
    yield Finding(
        certainty=certainty,
        variant="kernel" if other else "barred" if barred else "prime" if prime else "windows" if windows else "",
        values={"release": release or "?", "built": tuple(dict.fromkeys(built)), "version": (driver.version or driver.module_on_disk if driver else None) or "?"},
        fixes=(Fix("rebuild-module"), Fix("load-nvidia-module")) if other or (hard and not barred) else (Fix("load-nvidia-module"),) if not windows else (Fix("pnp-status"),),
        refs=tuple(refs),
    )


RULE = Rule(
    slug="driver-module-not-loaded",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("device-node-missing", "uvm-module-missing", "driver-too-old-for-cuda"),
    settle=("lsmod | grep nvidia", "sudo modprobe nvidia", "dkms status", "sudo dmesg | grep -iE 'nvrm|nvidia|nouveau'"),
    see=("https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/commonproblems.html", "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"),
    en=Text(
        title="The NVIDIA kernel module is not loaded",
        why="nvidia-smi and libcuda are user-space files; they need the kernel module \"nvidia\". Without it every CUDA program finds no device, whatever it prints (PyTorch may even say that the driver is too old). Usual reasons: the kernel was updated and no module was built for it, Secure Boot refused it, nouveau holds the card, or a reboot is still due.",
        fix="Run sudo modprobe nvidia: its error names the reason. Module not found: build it for this kernel (headers and dkms: sudo apt install linux-headers-$(uname -r), sudo dkms autoinstall), or reinstall the driver package. Key rejected: Secure Boot. No such device: see dmesg. After a fresh install: reboot.",
    ),
    zh=Text(
        title="NVIDIA 内核模块没有加载",
        why="nvidia-smi 和 libcuda 只是用户态文件，需要内核模块 nvidia 才能工作。模块不在，任何 CUDA 程序都找不到设备，不管它打印什么（PyTorch 甚至会说驱动太旧）。常见原因：内核升级后没有为新内核编译模块；Secure Boot 拒绝加载；nouveau 占用显卡；或装完驱动还没重启。",
        fix="运行 sudo modprobe nvidia，报错会说明原因。找不到模块：为当前内核编译（安装头文件和 dkms：sudo apt install linux-headers-$(uname -r)，再 sudo dkms autoinstall），或重装驱动包。密钥被拒：Secure Boot。No such device：查看 dmesg。刚装完驱动：重启。",
    ),
    variants={
        "kernel": (
            Text(
                title="There is no NVIDIA module for the running kernel {release}: the installed one was built for {built}",
                why="A kernel module fits exactly one kernel. The kernel was updated, and the driver's module was not built again: without dkms nothing rebuilds it.",
                fix="Install dkms and the headers of this kernel (sudo apt install dkms linux-headers-{release}) and reinstall the driver so that dkms builds it for {release}; or boot the old kernel {built}. Better than a .run file: the driver from the distribution's packages, which follow each kernel.",
            ),
            Text(
                title="当前内核 {release} 没有对应的 NVIDIA 模块：现有模块是为 {built} 编译的",
                why="内核模块只能用于编译它的那个内核。内核升级了，而驱动模块没有重新编译：没有 dkms 就不会自动重编。",
                fix="安装 dkms 和当前内核的头文件（sudo apt install dkms linux-headers-{release}），重装驱动，让 dkms 为 {release} 编译；或从旧内核 {built} 启动。与其用 .run 文件，不如改用发行版的驱动包，它会跟随内核更新。",
            ),
        ),
        "barred": (
            Text(
                title="The NVIDIA module is blacklisted, so the kernel does not load it",
                why="A file in /etc/modprobe.d or the kernel's boot line forbids the module (left by prime-select intel, a VFIO passthrough setup or a laptop power tool).",
                fix="Find it with grep -rn nvidia /etc/modprobe.d /usr/lib/modprobe.d /proc/cmdline, remove that line, run sudo update-initramfs -u (dracut -f on Fedora), reboot.",
            ),
            Text(
                title="NVIDIA 模块被列入黑名单，内核不会加载它",
                why="/etc/modprobe.d 中的某个文件或内核启动参数禁止了该模块（prime-select intel、VFIO 直通配置或笔记本省电工具的遗留）。",
                fix="用 grep -rn nvidia /etc/modprobe.d /usr/lib/modprobe.d /proc/cmdline 找到这一行并删除，运行 sudo update-initramfs -u（Fedora 用 dracut -f），然后重启。",
            ),
        ),
        "prime": (
            Text(
                title="The laptop is switched to its integrated GPU: the NVIDIA card is off and its module not loaded",
                why="prime-select intel (or bbswitch, envycontrol, optimus-manager) switches the NVIDIA card off and blacklists its module.",
                fix="sudo prime-select nvidia (or on-demand), then log out or reboot; check with nvidia-smi.",
            ),
            Text(
                title="笔记本当前切换到集成显卡：NVIDIA 卡已关闭，模块未加载",
                why="prime-select intel（或 bbswitch、envycontrol、optimus-manager）会关闭 NVIDIA 卡并屏蔽其模块。",
                fix="运行 sudo prime-select nvidia（或 on-demand），然后注销或重启，再用 nvidia-smi 检查。",
            ),
        ),
        "windows": (
            Text(
                title="The Windows driver is installed but does not run",
                why="nvidia-smi is there, but the kernel driver nvlddmkm does not answer: the device is disabled, in an error state (device manager shows a code), or an update is half done.",
                fix="Look at the card in the device manager (Get-PnpDevice -Class Display). Reboot; if it shows an error code, reinstall the driver cleanly.",
            ),
            Text(
                title="Windows 驱动已安装，但没有运行",
                why="nvidia-smi 在，但内核驱动 nvlddmkm 没有响应：设备被停用、处于错误状态（设备管理器中有代码），或更新只完成了一半。",
                fix="在设备管理器中查看显卡（Get-PnpDevice -Class Display）。先重启；如有错误代码，用“清洁安装”重装驱动。",
            ),
        ),
    },
)
