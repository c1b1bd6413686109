"""The GSP firmware files are absent or of another version than the module."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, driver: Driver | None) -> Iterator[Finding]:
    said = symptoms.cite("gsp-firmware") if symptoms else ()
    if not said or symptoms is None:
        return
    version = symptoms.value("version", "gsp-firmware") or symptoms.value("version2", "gsp-firmware") or symptoms.value("version3", "gsp-firmware") or ((driver.module or driver.version) if driver else None)
    got, expected = symptoms.value("got", "gsp-firmware-versions"), symptoms.value("expected", "gsp-firmware-versions")
    yield Finding(
        certainty=Certainty.CERTAIN,
        variant="mismatch" if got and expected else "",
        values={"version": version or expected or "?", "file": symptoms.value("file", "gsp-firmware") or symptoms.value("file3", "gsp-firmware") or "gsp_*.bin", "got": got or "?", "expected": expected or "?",
                "branch": (version or expected or "").partition(".")[0] or None},
        fixes=(Fix("install-gsp-firmware"),),
        refs=(*said, *symptoms.cite("gsp-firmware-versions", "rm-init-failed", most=2), *(driver.about("module")[:1] if driver and driver.module else ())),
    )


RULE = Rule(
    slug="gsp-firmware-missing",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-not-on-bus", "gpu-fell-off-bus", "driver-module-not-loaded", "gsp-timeout", "power-cable-missing", "device-node-missing", "open-kernel-module-required", "no-nvidia-gpu"),
    settle=("ls -l /lib/firmware/nvidia/", "cat /proc/driver/nvidia/version", "sudo dmesg | grep -iE 'firmware|gsp'"),
    see=("https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/gsp.html", "https://packages.debian.org/firmware-nvidia-gsp"),
    en=Text(
        title="The GSP firmware of driver {version} is missing (nvidia/{version}/{file})",
        why="Turing and newer cards boot a firmware of the driver's own version from /lib/firmware/nvidia/<version>/. The open modules cannot do without it. The file was not installed, or an initramfs without it loads the module early.",
        fix="Install the firmware of the same version as the module: firmware-nvidia-gsp (Debian), nvidia-firmware-<branch>-<version> (Ubuntu), nvidia-gpu-firmware or nvidia-driver's firmware package (Fedora, RHEL), nvidia-utils (Arch); then sudo update-initramfs -u (dracut -f) and reboot.",
    ),
    zh=Text(
        title="缺少驱动 {version} 的 GSP 固件（nvidia/{version}/{file}）",
        why="Turing 及更新的卡要从 /lib/firmware/nvidia/<版本>/ 启动与驱动同版本的固件，开源模块离不开它。可能是文件没有安装，或 initramfs 里没有它却提前加载了模块。",
        fix="安装与模块同版本的固件：Debian 为 firmware-nvidia-gsp，Ubuntu 为 nvidia-firmware-<分支>-<版本>，Fedora、RHEL 为 nvidia-gpu-firmware 或驱动的固件包，Arch 为 nvidia-utils；然后 sudo update-initramfs -u（dracut -f）并重启。",
    ),
    variants={
        "mismatch": (
            Text(
                title="The GSP firmware is {got}, the module wants {expected}",
                why="The firmware must be of exactly the module's version; half an upgrade, or a stale initramfs, mixes the two.",
                fix="Reinstall the driver so that module and firmware (nvidia-firmware-*, firmware-nvidia-gsp) are of one version, sudo update-initramfs -u, reboot.",
            ),
            Text(
                title="GSP 固件是 {got}，而模块需要 {expected}",
                why="固件必须与模块版本完全一致；升级只完成一半，或 initramfs 过旧，都会造成混用。",
                fix="重装驱动，使模块与固件（nvidia-firmware-*、firmware-nvidia-gsp）同版本，sudo update-initramfs -u，然后重启。",
            ),
        ),
    },
)
