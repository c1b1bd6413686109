"""Secure Boot refuses the unsigned NVIDIA module."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver, Kernel
from ongpu.facts.environment import Machine
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

DOWN = ("smi-no-communication", "nvml-driver-not-loaded", "module-unloadable", "tf-no-kernel-driver", "proc-version-missing", "driver-not-running", "torch-no-driver")


def check(symptoms: Symptoms | None, driver: Driver | None, kernel: Kernel | None, machine: Machine | None) -> Iterator[Finding]:
    if driver and (driver.smi_works or driver.module_loaded):
        return
    if machine and (machine.wsl or machine.system in ("macos", "windows")):
        return
    said = symptoms.cite("secure-boot-refused") if symptoms else ()
    refused = symptoms.cite("module-not-permitted") if symptoms else ()
    on = kernel.secure_boot if kernel else None
    words = symptoms.cite("secure-boot-told") if symptoms else ()
    locked = bool(kernel and kernel.lockdown and on is not False)  # a kernel may be locked down by its configuration, without EFI
    down = symptoms.cite(*DOWN) if symptoms else ()
    unloaded = bool(driver and driver.module_loaded is False and driver.on_disk)
    if on is False and not said and not words:
        return
    if not (said or refused or (words and down) or (on and (down or unloaded)) or (locked and down and symptoms and symptoms.has("module-unloadable"))):
        return
    taint = symptoms.cite("module-taint", "mok-pending") if symptoms else ()
    yield Finding(
        certainty=Certainty.CERTAIN if said or (refused and (on or locked)) else Certainty.LIKELY,
        values={},
        fixes=(Fix("enroll-mok"),),
        refs=(*said, *words, *refused, *(kernel.about("secure_boot", "lockdown") if kernel and (on or locked) else ()), *down[:3], *taint),
    )


RULE = Rule(
    slug="secure-boot-unsigned-module",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-module-not-loaded", "device-node-missing", "uvm-module-missing", "driver-not-installed", "driver-too-old-for-cuda", "device-permission-denied"),
    settle=("mokutil --sb-state", "sudo modprobe nvidia", "modinfo -F signer nvidia"),
    see=("https://wiki.ubuntu.com/UEFI/SecureBoot", "https://wiki.debian.org/SecureBoot", "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"),
    en=Text(
        title="Secure Boot refuses the NVIDIA kernel module, because no enrolled key has signed it",
        why="With Secure Boot on, the kernel loads only modules signed by a key that the firmware or MOK list knows. A module that DKMS or the .run installer built is signed by a local key, or by none, until that key is enrolled.",
        fix="Enroll the key: sudo mokutil --import /var/lib/shim-signed/mok/MOK.der (Debian's DKMS: /var/lib/dkms/mok.pub; Fedora: sudo kmodgenca -a, then /etc/pki/akmods/certs/public_key.der), reboot and choose \"Enroll MOK\" in the blue screen. Or install a signed module (Ubuntu: linux-modules-nvidia-<branch>-generic). Or disable Secure Boot in the firmware setup. Check: mokutil --sb-state.",
    ),
    zh=Text(
        title="Secure Boot 拒绝加载 NVIDIA 内核模块：没有已登记的密钥为它签名",
        why="开启 Secure Boot 后，内核只加载由固件或 MOK 列表中密钥签名的模块。DKMS 或 .run 安装程序编译的模块由本机密钥签名，或根本没有签名；密钥登记之前都会被拒绝。",
        fix="登记密钥（MOK）：sudo mokutil --import /var/lib/shim-signed/mok/MOK.der（Debian 的 DKMS 用 /var/lib/dkms/mok.pub；Fedora 先 sudo kmodgenca -a，再用 /etc/pki/akmods/certs/public_key.der），重启并在蓝色界面选择 “Enroll MOK”。或安装已签名的模块（Ubuntu：linux-modules-nvidia-<分支>-generic）。或在固件设置里关闭 Secure Boot。用 mokutil --sb-state 检查状态。",
    ),
)
