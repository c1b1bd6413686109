"""A Linux driver inside WSL shadows the Windows host's."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver, SystemPackages
from ongpu.facts.environment import Commands, Machine
from ongpu.facts.libraries import Loader
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

DRIVER = lazy(r"^(?:nvidia-(?:driver|utils|dkms|kernel|compute-utils|headless)|libnvidia-|cuda-drivers|cuda$|nvidia-smi$|nvidia-open)")
INSTALL = ("wsl-driver-installed",)


def check(
    symptoms: Symptoms | None, machine: Machine | None, packages: SystemPackages | None, driver: Driver | None, loader: Loader | None, commands: Commands | None
) -> Iterator[Finding]:
    blocked = symptoms.cite("wsl-blocked") if symptoms else ()
    wsl = bool(machine and machine.wsl == 2) or bool(symptoms and symptoms.has("wsl-told", "wsl-stub", "wsl-prompt")) or bool(blocked)
    if not wsl or (symptoms and symptoms.has("driver-not-wsl")) or (machine and machine.wsl == 1) or (symptoms and symptoms.has("wsl1-kernel")):
        return
    mine = [name for name in packages.packages if DRIVER.match(name)] if packages else []
    typed = symptoms.cite("wsl-linux-driver-told", "linux-driver-package-named", *INSTALL, "module-not-found", "module-unloadable") if symptoms else ()
    run = packages.runfile if packages else ()
    outside = [item for item in (loader.loaded if loader else ()) if item.name.startswith("libcuda.so") and item.path and "/wsl/" not in item.path]
    no_device = symptoms.cite("no-cuda-device", "driver-insufficient", "smi-no-communication", "nvml-driver-not-loaded", "torch-no-driver", "driver-library-mismatch", "cuda-unknown-999",
                              "smi-segfault", "proc-version-missing", "tf-no-kernel-driver") if symptoms else ()
    works = symptoms.cite("windows-works") if symptoms else ()
    present = bool(mine or typed or run or outside)
    dxg_gone = bool(symptoms and symptoms.has("wsl-dxg-failed"))
    if driver and driver.smi_works and not present:
        return
    if present and (blocked or no_device or outside):
        certainty = Certainty.CERTAIN
    elif present:
        certainty = Certainty.LIKELY
    elif blocked:
        certainty = Certainty.POSSIBLE
    elif no_device and works and not dxg_gone:
        certainty = Certainty.LIKELY
    elif no_device and not dxg_gone and symptoms and symptoms.has("no-cuda-device", "smi-no-communication"):
        certainty = Certainty.POSSIBLE
    else:
        return
    what = mine or [ref.quote for ref in typed] or list(run) or [item.path for item in outside]
    yield Finding(
        certainty=certainty,
        variant="" if present else "maybe",
        values={"what": tuple(what)[:4]},
        fixes=(Fix("wsl-use-host-driver"),),
        refs=(*blocked, *typed, *no_device[:3], *works[:1], *(packages.refs[:4] if packages and (mine or run) else ()), *(item.ref for item in outside if item.ref), *(machine.about("wsl")[:1] if machine else ())),
    )


RULE = Rule(
    slug="wsl-linux-driver-installed",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-module-not-loaded", "driver-not-installed", "mixed-driver-installs", "driver-library-mismatch", "wsl-host-driver", "driver-too-old-for-cuda", "gpu-not-on-bus",
           "driver-module-build-failed", "device-node-missing", "no-nvidia-gpu", "suspend-uvm-broken"),
    settle=("ldconfig -p | grep libcuda", "ls -l /usr/lib/wsl/lib", "dpkg -l | grep -E 'nvidia-|cuda-drivers'"),
    see=("https://docs.nvidia.com/cuda/wsl-user-guide/", "https://learn.microsoft.com/en-us/windows/wsl/tutorials/gpu-compute"),
    en=Text(
        title="A Linux NVIDIA driver is installed inside WSL ({what}): its libcuda shadows the one that Windows provides",
        why="In WSL 2 the driver is Windows' own: /usr/lib/wsl/lib/libcuda.so talks to it through /dev/dxg. A Linux driver (also by the packages cuda, cuda-drivers, nvidia-utils) brings another libcuda that looks for a kernel module, which WSL does not have.",
        fix="Remove the Linux driver inside WSL (nvidia-driver-*, nvidia-utils-*, libnvidia-*, the metapackage cuda), and install only cuda-toolkit from NVIDIA's wsl-ubuntu repository if nvcc is needed. Check ldconfig -p | grep libcuda: only /usr/lib/wsl/lib. Use /usr/lib/wsl/lib/nvidia-smi; update the Windows driver, then wsl --update and wsl --shutdown.",
    ),
    zh=Text(
        title="WSL 里装了 Linux 版 NVIDIA 驱动（{what}）：它的 libcuda 遮住了 Windows 提供的那个",
        why="WSL 2 使用的是 Windows 的驱动：/usr/lib/wsl/lib/libcuda.so 通过 /dev/dxg 与之通信。Linux 驱动（包括 cuda、cuda-drivers、nvidia-utils 这些包带来的）会装上另一个 libcuda，它去找内核模块，而 WSL 没有。",
        fix="在 WSL 中删除 Linux 驱动（nvidia-driver-*、nvidia-utils-*、libnvidia-*、元包 cuda）；需要 nvcc 时，只从 NVIDIA 的 wsl-ubuntu 仓库安装 cuda-toolkit。检查 ldconfig -p | grep libcuda：应只有 /usr/lib/wsl/lib。使用 /usr/lib/wsl/lib/nvidia-smi；升级 Windows 驱动，然后 wsl --update、wsl --shutdown。",
    ),
    variants={
        "maybe": (
            Text(
                title="CUDA finds no device in WSL, though the card works in Windows: most often another libcuda than /usr/lib/wsl/lib's is loaded",
                why="In WSL 2 only Windows' own libcuda (/usr/lib/wsl/lib/libcuda.so.1, through /dev/dxg) works. A Linux driver package, an image or LD_LIBRARY_PATH may put another before it. Otherwise the Windows driver or WSL itself is too old.",
                fix="ldconfig -p | grep libcuda must name only /usr/lib/wsl/lib. Remove Linux driver packages inside WSL (nvidia-driver-*, nvidia-utils-*, libnvidia-*, cuda-drivers, the metapackage cuda), or put /usr/lib/wsl/lib first in LD_LIBRARY_PATH. Then update the Windows driver, wsl --update, wsl --shutdown.",
            ),
            Text(
                title="WSL 中 CUDA 找不到设备，而 Windows 中显卡正常：多半加载了 /usr/lib/wsl/lib 以外的 libcuda",
                why="WSL 2 中只有 Windows 提供的 libcuda（/usr/lib/wsl/lib/libcuda.so.1，经由 /dev/dxg）可用。Linux 驱动包、镜像或 LD_LIBRARY_PATH 可能把另一个放在它前面。否则就是 Windows 驱动或 WSL 本身太旧。",
                fix="ldconfig -p | grep libcuda 应只列出 /usr/lib/wsl/lib。删除 WSL 中的 Linux 驱动包（nvidia-driver-*、nvidia-utils-*、libnvidia-*、cuda-drivers、元包 cuda），或把 /usr/lib/wsl/lib 放在 LD_LIBRARY_PATH 最前。然后升级 Windows 驱动，wsl --update，wsl --shutdown。",
            ),
        ),
    },
)
