"""DKMS or the installer could not build a module for the running kernel, or has built it for another one only."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver, Kernel, SystemPackages
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

NOT_LOADED = ("smi-no-communication", "nvml-driver-not-loaded", "tf-no-kernel-driver", "proc-version-missing", "module-not-found", "driver-not-running")


def check(symptoms: Symptoms | None, driver: Driver | None, kernel: Kernel | None, packages: SystemPackages | None) -> Iterator[Finding]:
    if driver and driver.smi_works and driver.module_loaded:
        return
    said = symptoms.cite("module-build-failed") if symptoms else ()
    tree = symptoms.cite("dkms-build-dir") if symptoms else ()
    if not said and tree and symptoms:
        said = symptoms.cite("make-error")
    headers = symptoms.cite("kernel-headers-missing") if symptoms else ()
    compiler = symptoms.cite("module-compiler-mismatch") if symptoms else ()
    down = bool(symptoms and symptoms.has(*NOT_LOADED)) or bool(driver and (driver.module_loaded is False or driver.on_disk is False))
    release = kernel.release if kernel else None
    half = [name for name in packages.half_installed if "nvidia-dkms" in name or "nvidia-kernel" in name] if packages else []
    half = [name for name in half if "(rc)" not in name]
    lines = kernel.dkms if kernel else ()
    ours = [line for line in lines if line.startswith("nvidia")]
    unbuilt = [line for line in ours if line.rstrip().endswith(": added")]
    elsewhere = bool(ours and release and not any(release in line and ": installed" in line for line in ours))
    facts = bool((unbuilt or elsewhere) and (down or driver is None or not driver.module_loaded))
    bare = bool(kernel and kernel.headers is False and (down or ours))
    building = bool(symptoms and symptoms.has("nvidia-build-told"))
    if not (said or half or (headers and (down or ours or building)) or (facts and (down or unbuilt or elsewhere)) or bare):
        return
    named = symptoms.value("kernel") if symptoms else None
    values = [symptoms.value(f"kernel{n}", "module-build-failed", "kernel-headers-missing") for n in range(2, 10)] if symptoms else []
    which = named or next((v for v in values if v), None) or (symptoms.value("tree", "build-tree") if symptoms else None) or release
    version = symptoms.value("driver", "dkms-command", "module-build-failed", "dkms-build-dir") or symptoms.value("driver2", "module-build-failed") if symptoms else None
    if not version and ours:
        version = ours[0].partition(":")[0].replace("nvidia, ", "nvidia/").partition("/")[2].partition(",")[0] or None
    version = version or (driver.version or driver.module_on_disk if driver else None)
    missing = bool(headers or bare or (kernel and kernel.headers is False))
    untried = elsewhere and not (said or half or unbuilt or missing or compiler)  # nothing says that a build was tried and failed
    others = tuple(dict.fromkeys(part for line in ours if ": installed" in line for part in line.partition(":")[0].split(", ")[1:2]))
    yield Finding(
        certainty=Certainty.CERTAIN if said or half or (missing and (down or building)) or (elsewhere and down) else Certainty.LIKELY,
        variant="headers" if missing else "compiler" if compiler else "elsewhere" if untried else "",
        values={"kernel": which or "?", "version": version or "?", "release": which, "others": others},
        fixes=(Fix("install-headers", {"release": which}), Fix("rebuild-module")) if missing
        else (Fix("rebuild-module"), Fix("read-build-log")) if untried else (Fix("read-build-log"), Fix("rebuild-module")),
        refs=(*said, *tree[:2], *(symptoms.cite("build-tree", most=1) if symptoms else ()), *headers, *compiler, *(symptoms.cite("dkms-command") if symptoms else ()), *(kernel.about("dkms", "headers", "release") if kernel and (facts or bare) else ()),
              *(packages.about("half_installed") if half and packages else ())),
    )


RULE = Rule(
    slug="driver-module-build-failed",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-module-not-loaded", "device-node-missing", "uvm-module-missing", "driver-not-installed", "driver-too-old-for-cuda", "host-compiler-unsupported"),
    settle=("dkms status", "uname -r", "ls /lib/modules/$(uname -r)/build", "cat /var/lib/dkms/nvidia/*/build/make.log"),
    see=("https://github.com/M-Bab/linux-kernel-amdgpu-binaries/issues/101", "https://github.com/zen-kernel/zen-kernel/issues/305", "https://github.com/NVIDIA/nvidia-installer/issues/8"),
    en=Text(
        title="The NVIDIA module{version: (driver *)} could not be built for {kernel:kernel *|this kernel}",
        why="The driver's kernel part is compiled for each kernel, by DKMS or the installer. That build failed, so there is no module to load for this kernel: an old driver often does not know a new kernel's interfaces.",
        fix="Read the first error in make.log (/var/lib/dkms/nvidia/<version>/build/make.log). If the kernel is newer than the driver knows, install a newer driver release that supports this kernel, or boot the distribution's previous kernel. Then run sudo dkms autoinstall.",
    ),
    zh=Text(
        title="NVIDIA 模块{version:（驱动 *）}无法为{kernel:内核 * |当前内核}编译成功",
        why="驱动的内核部分要由 DKMS 或安装程序针对每个内核编译。这次编译失败，所以当前内核没有模块可加载：旧驱动往往不认识新内核的接口。",
        fix="查看 make.log（/var/lib/dkms/nvidia/<版本>/build/make.log）中的第一个错误。如果内核比驱动支持的新，就安装支持该内核的新版驱动，或从发行版之前的内核启动；然后运行 sudo dkms autoinstall。",
    ),
    variants={
        "elsewhere": (
            Text(
                title="DKMS has no NVIDIA module{version: (driver *)} for {kernel:kernel *|the running kernel}{others:, only for *|}",
                why="The driver's kernel part is compiled for each kernel. DKMS lists it for another kernel, so there is no module to load for the one that runs: it was never built for it (the kernel came without its headers, or DKMS was not run), or the build failed.",
                fix="Build it: sudo dkms autoinstall, then sudo modprobe nvidia. If DKMS says that headers are missing, install those of exactly this kernel; if the build fails, read the first error in make.log. Or boot the kernel that has the module.",
            ),
            Text(
                title="DKMS 中没有适用于{kernel:内核 * |当前内核}的 NVIDIA 模块{version:（驱动 *）}{others:，只有 * 的|}",
                why="驱动的内核部分要针对每个内核编译。DKMS 只列出了其他内核的模块，所以当前运行的内核没有模块可加载：可能从未为它编译（安装内核时没有头文件，或没有运行 DKMS），也可能编译失败。",
                fix="重新编译：sudo dkms autoinstall，然后 sudo modprobe nvidia。若 DKMS 提示缺少头文件，请安装与当前内核完全一致的头文件；若编译失败，查看 make.log 中的第一个错误。也可从已有模块的内核启动。",
            ),
        ),
        "headers": (
            Text(
                title="The NVIDIA module{version: (driver *)} cannot be built: the headers of {kernel:kernel *|the running kernel} are not installed",
                why="DKMS compiles the module against the headers of the running kernel. Without them (linux-headers, kernel-devel) it builds nothing, and after the next kernel update no module is left.",
                fix="Install the headers of exactly this kernel: sudo apt install linux-headers-$(uname -r) (Debian, Ubuntu), sudo dnf install kernel-devel-$(uname -r) (Fedora, RHEL), sudo pacman -S linux-headers (Arch). Then sudo dkms autoinstall and sudo modprobe nvidia. Keep the header metapackage installed so that updates bring them.",
            ),
            Text(
                title="NVIDIA 模块{version:（驱动 *）}无法编译：没有安装{kernel:内核 * |当前内核}的头文件",
                why="DKMS 需要当前内核的头文件来编译模块。没有头文件（linux-headers、kernel-devel），它什么也不编译；内核一升级，就没有可用的模块了。",
                fix="安装与当前内核完全一致的头文件：sudo apt install linux-headers-$(uname -r)（Debian、Ubuntu），sudo dnf install kernel-devel-$(uname -r)（Fedora、RHEL），sudo pacman -S linux-headers（Arch）。然后 sudo dkms autoinstall，再 sudo modprobe nvidia。保留头文件的元包，以后升级会自动带上。",
            ),
        ),
        "compiler": (
            Text(
                title="The NVIDIA module{version: (driver *)} could not be built for {kernel:kernel *|this kernel}: the compiler is another than the kernel's",
                why="The kernel was built by one gcc, and the module is now being built by another: older compilers do not know the flags that the kernel hands down.",
                fix="Install the gcc that built the kernel (cat /proc/version names it), for instance sudo apt install gcc-12, make it the default with update-alternatives, then sudo dkms autoinstall.",
            ),
            Text(
                title="NVIDIA 模块{version:（驱动 *）}无法为{kernel:内核 * |当前内核}编译：编译器与内核所用的不同",
                why="内核由某个版本的 gcc 编译，而现在用另一个版本编译模块：较旧的编译器不认识内核传下来的选项。",
                fix="安装编译内核所用的 gcc（见 cat /proc/version），例如 sudo apt install gcc-12，用 update-alternatives 设为默认，再 sudo dkms autoinstall。",
            ),
        ),
    },
)
