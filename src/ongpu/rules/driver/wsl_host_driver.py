"""The Windows host's driver is missing or too old for WSL, or the distribution runs under WSL 1."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver, Kernel
from ongpu.facts.environment import Commands, Machine
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FAILS = ("smi-no-communication", "no-cuda-device", "driver-insufficient", "torch-no-driver", "smi-missing", "libcuda-missing", "nvml-driver-not-loaded", "nvml-library-missing", "wsl-blocked",
         "driver-too-old-found", "driver-code-35", "wsl-dxg-failed", "tf-no-kernel-driver", "proc-version-missing", "cuda-unknown-999", "cuda-init-3", "module-not-found")


def check(symptoms: Symptoms | None, machine: Machine | None, driver: Driver | None, kernel: Kernel | None, gpus: Gpus | None, torch: Torch | None, commands: Commands | None) -> Iterator[Finding]:
    wsl = machine.wsl if machine else None
    updated = symptoms.cite("windows-updated-told", most=2) if symptoms and (wsl or symptoms.has("wsl-stub", "wsl-prompt", "wsl-told")) else ()
    one = symptoms.cite("wsl1-kernel", "wsl-version-1") if symptoms else ()
    table = symptoms.cite("wsl-table-1") if symptoms else ()
    one = (*one, *table)
    ancient = symptoms.cite("windows-too-old-for-wsl-gpu") if symptoms and wsl else ()
    one = (*one, *ancient)
    first = wsl == 1 or bool(ancient) or bool(table) or (bool(one) and bool(symptoms and symptoms.has("wsl1-kernel"))) or (bool(one) and bool(symptoms and symptoms.has("wsl-told")))
    fails = symptoms.cite(*FAILS) if symptoms else ()
    blocked = symptoms.cite("wsl-blocked") if symptoms else ()
    dxg = symptoms.cite("wsl-dxg-failed") if symptoms else ()
    if symptoms and symptoms.has("driver-not-wsl"):
        return
    if torch and torch.available and not torch.conflicts and not one:
        return  # the dxgkio messages are noise
    if not (wsl or first or blocked or dxg or (symptoms and symptoms.has("wsl-no-adapters")) or (symptoms and symptoms.has("wsl-told", "wsl-stub")) or updated):
        return
    tcc = [g for g in gpus.gpus if g.driver_model == "TCC"] if gpus else []
    adapters = symptoms.cite("wsl-no-adapters") if symptoms else ()
    version = driver.version if driver else None
    old = bool(version and version[:3].isdigit() and int(version[:3]) < 470)
    unseen = symptoms.cite("gpu-idle-complaint", most=2) if symptoms and old else ()
    if driver and driver.smi_works and not (blocked or dxg or adapters or fails or unseen) and not (symptoms and symptoms.has("driver-too-old-found", "driver-insufficient")):
        return
    listed = bool(commands and any("/usr/lib/wsl/lib" in arg for run in commands.of("ls", "dir", "find", "tree") for arg in run.argv))
    bare = symptoms.cite("wsl-lib-files", most=2) if symptoms and listed and not symptoms.has("libcuda-file") else ()
    bare = (*bare, *(symptoms.cite("wsl-lib-absent", most=2) if symptoms and wsl != 1 and not (driver and driver.smi_works) else ()))
    if first and (fails or wsl == 1):
        variant, certainty = "one", Certainty.CERTAIN
    elif bare:
        variant, certainty = "bare", Certainty.LIKELY
    elif table:
        variant, certainty = "one", Certainty.LIKELY
    elif tcc and fails:
        variant, certainty = "tcc", Certainty.CERTAIN
    elif adapters:
        variant, certainty = "", Certainty.CERTAIN
    elif (updated and symptoms and symptoms.has(*FAILS, "devices-busy-46")) or (dxg and symptoms and symptoms.has("dxg-missing")) or blocked or (unseen and not fails):
        variant, certainty = "", Certainty.LIKELY
    elif old and fails:
        variant, certainty = "", Certainty.CERTAIN
    elif fails and symptoms and symptoms.has("driver-insufficient", "driver-too-old-found", "smi-missing", "libcuda-missing", "nvml-library-missing", "wsl-dxg-failed"):
        variant, certainty = "", Certainty.LIKELY
    elif fails:
        variant, certainty = "", Certainty.POSSIBLE
    else:
        return
    yield Finding(
        certainty=certainty,
        variant=variant,
        values={"version": version or "?", "distribution": (machine.distribution if machine and machine.distribution else "Ubuntu").capitalize()},
        fixes=(Fix("wsl-to-2"),) if variant == "one" else (Fix("wsl-update"), Fix("update-driver")),
        refs=(*one, *bare, *adapters, *(g.ref for g in tcc if g.ref), *(machine.about("wsl")[:2] if machine and wsl else ()), *blocked, *updated, *dxg, *fails[:4], *unseen, *(driver.about("version")[:1] if driver and version else ()), *(kernel.about("release")[:1] if kernel and first else ())),
    )


RULE = Rule(
    slug="wsl-host-driver",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("exclusive-process-mode", "gpu-busy-other-process", "driver-module-not-loaded", "driver-not-installed", "driver-too-old-for-cuda", "device-node-missing", "no-nvidia-gpu", "gpu-not-on-bus", "suspend-uvm-broken", "cuda-lib-missing"),
    settle=("wsl.exe -l -v", "ls -l /dev/dxg /usr/lib/wsl/lib", "nvidia-smi.exe"),
    see=("https://docs.nvidia.com/cuda/wsl-user-guide/", "https://learn.microsoft.com/en-us/windows/wsl/tutorials/gpu-compute"),
    en=Text(
        title="WSL gets no working GPU from the Windows host: its driver is missing or too old, or WSL itself is{version: (Windows driver *)}",
        why="WSL 2 has no NVIDIA driver of its own. Windows mounts its driver's libcuda and nvidia-smi into /usr/lib/wsl/lib and passes the card through /dev/dxg; that takes a recent Windows driver (470 or newer, for CUDA 12: 528 or newer), Windows 10 21H2 or 11, and a current WSL kernel.",
        fix="In Windows, install the current NVIDIA driver, then wsl --update and wsl --shutdown, and start WSL anew. Check wsl -l -v (VERSION must be 2), ls /dev/dxg and /usr/lib/wsl/lib/nvidia-smi. Do not install a Linux driver inside WSL.",
    ),
    zh=Text(
        title="WSL 没有从 Windows 主机得到可用的 GPU：主机驱动缺失或太旧，或 WSL 本身太旧{version:（Windows 驱动 *）}",
        why="WSL 2 没有自己的 NVIDIA 驱动。Windows 把其驱动的 libcuda 和 nvidia-smi 挂到 /usr/lib/wsl/lib，并通过 /dev/dxg 提供显卡；这需要较新的 Windows 驱动（至少 470，CUDA 12 至少 528）、Windows 10 21H2 或 Windows 11，以及较新的 WSL 内核。",
        fix="在 Windows 中安装最新 NVIDIA 驱动，然后 wsl --update、wsl --shutdown，重新启动 WSL。检查 wsl -l -v（VERSION 应为 2）、ls /dev/dxg 和 /usr/lib/wsl/lib/nvidia-smi。不要在 WSL 里安装 Linux 驱动。",
    ),
    variants={
        "bare": (
            Text(
                title="Windows hands this distribution no libcuda (in /usr/lib/wsl/lib, where it belongs)",
                why="Under WSL 2 libcuda.so.1 and nvidia-smi come from the NVIDIA driver of Windows, which puts them into /usr/lib/wsl/lib when the virtual machine starts. It is not among them (only libdxcore and libd3d12, or nothing), so Windows has no NVIDIA driver that supports WSL, or the card was not there (an external enclosure, a disabled device) when WSL started.",
                fix="On Windows install (or reinstall) the current NVIDIA driver with the card connected and shown in the device manager, then wsl --shutdown and open the distribution again; wsl --update for a new WSL kernel. Install no NVIDIA driver inside WSL.",
            ),
            Text(
                title="Windows 没有把 libcuda 交给这个发行版（它应在 /usr/lib/wsl/lib 里）",
                why="WSL 2 里的 libcuda.so.1 和 nvidia-smi 来自 Windows 的 NVIDIA 驱动，虚拟机启动时放进 /usr/lib/wsl/lib。现在没有它（只有 libdxcore、libd3d12，或什么都没有），说明 Windows 没有支持 WSL 的 NVIDIA 驱动，或 WSL 启动时显卡不在（外接显卡盒、设备被禁用）。",
                fix="在 Windows 上接好显卡、确认设备管理器能看到它，安装（或重装）最新 NVIDIA 驱动，然后 wsl --shutdown 再打开发行版；wsl --update 更新 WSL 内核。不要在 WSL 里安装 NVIDIA 驱动。",
            ),
        ),
        "tcc": (
            Text(
                title="The card runs in TCC mode under Windows, and WSL sees no TCC card",
                why="WSL 2 reaches the GPU through Windows' display driver model (WDDM, or MCDM on servers). A card in TCC mode is outside of it: nvidia-smi.exe lists it, WSL is blocked.",
                fix="Switch the card to WDDM or MCDM in an administrator's prompt: nvidia-smi -i <index> -dm 0, reboot Windows, then wsl --shutdown. Data-centre cards need a driver that supports it.",
            ),
            Text(
                title="该卡在 Windows 下处于 TCC 模式，WSL 看不到 TCC 卡",
                why="WSL 2 通过 Windows 的显示驱动模型（WDDM，服务器上为 MCDM）访问 GPU。TCC 模式的卡不在其中：nvidia-smi.exe 能列出，WSL 却被拒绝。",
                fix="在管理员命令行中把卡切换到 WDDM 或 MCDM：nvidia-smi -i <序号> -dm 0，重启 Windows，再 wsl --shutdown。数据中心卡需要支持该模式的驱动。",
            ),
        ),
        "one": (
            Text(
                title="This distribution runs under WSL 1, which has no GPU: only WSL 2 has one",
                why="WSL 1 translates system calls and has no Linux kernel (\"4.4.0-...-Microsoft\") and no /dev/dxg. No driver that is installed inside can help.",
                fix="Move it to WSL 2: wsl --set-version {distribution} 2 (in PowerShell; wsl -l -v shows the name and version), on Windows 10 21H2 or 11 with a current NVIDIA driver for Windows. Remove Linux drivers installed inside.",
            ),
            Text(
                title="该发行版运行在 WSL 1 下，WSL 1 不支持 GPU，只有 WSL 2 支持",
                why="WSL 1 只转换系统调用，没有真正的 Linux 内核（“4.4.0-...-Microsoft”），也没有 /dev/dxg。在里面装什么驱动都没用。",
                fix="迁移到 WSL 2：在 PowerShell 中 wsl --set-version {distribution} 2（wsl -l -v 查看名称和版本），要求 Windows 10 21H2 或 Windows 11，并装有最新的 Windows 版 NVIDIA 驱动。删除里面装的 Linux 驱动。",
            ),
        ),
    },
)
