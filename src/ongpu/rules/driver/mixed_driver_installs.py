"""Two driver installations side by side: package and .run file, or two branches or versions."""

import re
from collections.abc import Iterator

from ongpu.facts.driver import Driver, SystemPackages
from ongpu.facts.environment import Machine
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

BROKEN = ("driver-library-mismatch", "api-mismatch", "smi-no-communication", "nvml-driver-not-loaded", "dso-mismatch", "module-not-found", "module-unloadable",
          "cuda-unknown-999", "no-cuda-device", "cuda-system-driver-mismatch", "uvm-node-missing", "uvm-load-failed")
USER_SPACE = lazy(r"^(?:lib)?(?:nvidia|cuda1)-(?:(?:driver|compute|utils|headless|dkms|kernel-(?:common|source)|opencl-icd)-)?(?:\w+-)?(?P<branch>\d{3})(?:-|$)")


def check(symptoms: Symptoms | None, packages: SystemPackages | None, driver: Driver | None, machine: Machine | None) -> Iterator[Finding]:
    if machine and (machine.system in ("windows", "macos") or machine.wsl):
        return
    said = symptoms.cite("installer-conflict", "driver-packages-conflict") if symptoms else ()
    broken = bool(symptoms and symptoms.has(*BROKEN)) or bool(driver and (driver.smi_works is False or (driver.nvml and driver.nvml != "ok")))
    have = packages.packages if packages else {}
    branches = sorted({m["branch"] for name in have if (m := USER_SPACE.match(name))})
    from_packages = bool(branches) or any(re.match(r"(?:nvidia-driver|kmod-nvidia|akmod-nvidia|xorg-x11-drv-nvidia|nvidia-utils|cuda-drivers|libnvidia|nvidia-dkms|nvidia-open)", n) for n in have)
    upgraded = tuple(u for u in packages.upgrades if "nvidia" in u) if packages else ()
    run = packages.runfile if packages else ()
    two_versions = bool(packages and packages.runfile_version and packages.source_version and packages.runfile_version != packages.source_version)
    versions = _other_versions(packages, driver)
    asked = symptoms.value("version", "driver-package-asked") if symptoms else None
    nvml = symptoms.value("version", "nvml-library-version") if symptoms else None
    want = symptoms.value("want", "nvidia-lib-of-version-missing") if symptoms else None
    have_lib = next((h.groups["have"] for h in symptoms.seen("nvidia-lib-of-version-there")), None) if symptoms else None
    if want and have_lib and want != have_lib and len(want) > 3:
        said, versions = (*said, *symptoms.cite("nvidia-lib-of-version-missing", "nvidia-lib-of-version-there", most=2)) if symptoms else said, (want, have_lib)
    elif symptoms and symptoms.has("two-branches-told") and (symptoms.has(*BROKEN) or symptoms.has("version-mismatch-told")):
        said = (*said, *symptoms.cite("two-branches-told", "version-mismatch-told", most=2))
        versions = tuple(v for v in (symptoms.value("a", "two-branches-told"), symptoms.value("b", "two-branches-told")) if v)
    elif asked and nvml and asked.partition(".")[0] != nvml.partition(".")[0]:
        said, versions = (*said, *symptoms.cite("nvml-library-version", "driver-package-asked", most=2)) if symptoms else said, (nvml, asked)
    both = bool(run and (from_packages or upgraded))
    if two_versions:
        variant, certainty = "source", Certainty.CERTAIN if broken else Certainty.LIKELY
    elif said:
        variant, certainty = "", Certainty.CERTAIN if symptoms and symptoms.has("installer-conflict") else Certainty.LIKELY
    elif both:
        variant, certainty = "", Certainty.CERTAIN if broken else Certainty.LIKELY
    elif run and broken and symptoms and symptoms.has("told-both-ways"):
        variant, certainty = "", Certainty.LIKELY
    elif len(branches) > 1 and broken:
        variant, certainty = "branches", Certainty.CERTAIN
    elif packages and len(packages.library_versions) > 1:
        variant, certainty = "branches", Certainty.CERTAIN if broken else Certainty.LIKELY
    elif symptoms and symptoms.has("told-both-ways"):
        variant, certainty = "", Certainty.LIKELY if broken else Certainty.POSSIBLE
    elif len(versions) > 1 and broken:
        variant, certainty = "branches", Certainty.LIKELY
    else:
        return
    a = packages.runfile_version if two_versions and packages else None
    b = packages.source_version if two_versions and packages else None
    yield Finding(
        certainty=certainty,
        variant=variant,
        severity=None if broken or said else Severity.WARNING,
        values={"run": run or "NVIDIA-Linux-*.run", "upgrades": upgraded[:2], "versions": versions or branches, "one": a or "?", "two": b or "?",
                "packages": tuple(n for n in have if "nvidia" in n)[:6] or upgraded[:1] or "nvidia-*", "branch": branches[-1] if branches else None, "meta": next((n for n in have if re.fullmatch(r"nvidia-driver(?:-\d{3})?(?:-server)?(?:-open)?", n)), None)},
        fixes=(Fix("remove-runfile"), Fix("reinstall-packages")) if not two_versions else (Fix("compare-versions"),),
        refs=(*said, *(symptoms.cite(*BROKEN[:5], "told-both-ways", "runfile-installer-used") if symptoms else ()), *(packages.refs[:8] if packages else ()),
              *(driver.about("module", "version") if driver and driver.module else ())),
    )


def _other_versions(packages: SystemPackages | None, driver: Driver | None) -> tuple[str, ...]:
    """Driver versions that packages, the .run file and the module name, where they differ."""
    found: list[str] = []
    found += packages.library_versions if packages else ()
    for name, version in packages.packages.items() if packages else ():
        if re.match(r"(?:nvidia-driver|libnvidia-compute|nvidia-utils|nvidia-dkms|nvidia-kernel-dkms|nvidia-smi|libnvidia-ml1|kmod-nvidia)", name):
            plain = re.search(r"\d{3}\.\d{2,3}(?:\.\d{2})?", version)
            found += [plain[0]] if plain else []
    if packages and packages.runfile_version:
        found.append(packages.runfile_version)
    if driver and driver.module and packages and packages.runfile_version:
        found.append(driver.module)
    return tuple(dict.fromkeys(found))


RULE = Rule(
    slug="mixed-driver-installs",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-library-mismatch", "driver-module-not-loaded", "driver-not-installed", "driver-module-build-failed", "compat-lib-conflict"),
    settle=("dpkg -l | grep -i nvidia", "ls -l /usr/bin/nvidia-uninstall", "cat /proc/driver/nvidia/version", "modinfo -F version nvidia", "dkms status"),
    see=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/", "https://us.download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/installdriver.html"),
    en=Text(
        title="The driver was installed twice: from the .run file ({run}) and from packages ({packages})",
        why="NVIDIA's .run installer and the package manager write the same files without knowing of each other. The next package update (unattended-upgrade included) replaces half of them, so module and libraries no longer match.",
        fix="Keep one source. To keep the packages: sudo nvidia-uninstall, then reinstall them with apt (sudo apt install --reinstall nvidia-driver-<branch>) and reboot. To keep the .run file: remove every nvidia and libnvidia package with apt first, then run it again. Keep unattended-upgrades off the driver.",
    ),
    zh=Text(
        title="驱动装了两份：.run 文件（{run}）和软件包（{packages}）",
        why="NVIDIA 的 .run 安装程序和包管理器互不知情，却写同样的文件。下一次包更新（包括 unattended-upgrade）会替换其中一半，模块和库就不再匹配。",
        fix="只保留一种来源。保留软件包：sudo nvidia-uninstall，再用 apt 重装（sudo apt install --reinstall nvidia-driver-<分支>）并重启。保留 .run：先用 apt 删除所有 nvidia 和 libnvidia 包，再重新运行它。并让 unattended-upgrades 不要动驱动。",
    ),
    variants={
        "branches": (
            Text(
                title="Packages or files of several driver versions are installed: {versions}",
                why="Module and libraries must come from one driver release. Here packages of different branches lie side by side, and the loader takes what it finds first.",
                fix="Keep one branch: remove the others with apt (look first: sudo apt-get purge -s 'nvidia-*-<old>' 'libnvidia-*-<old>'), reinstall the one you keep, sudo update-initramfs -u, reboot. If /usr/bin/nvidia-uninstall is there, run it too: it belongs to a .run install.",
            ),
            Text(
                title="安装了多个驱动版本的包或文件：{versions}",
                why="模块和库必须来自同一个驱动版本。这里不同分支的包并存，加载器取到哪个就用哪个。",
                fix="只保留一个分支：用 apt 删除其余的（先预览：sudo apt-get purge -s 'nvidia-*-<旧>' 'libnvidia-*-<旧>'），重装要保留的分支，sudo update-initramfs -u，重启。如果有 /usr/bin/nvidia-uninstall，也要运行它：那是 .run 安装留下的。",
            ),
        ),
        "source": (
            Text(
                title="User space is {one} (.run file), the modules were built from source {two}: the two differ",
                why="Module and libraries must be of exactly the same release, the last digits included.",
                fix="Install the user-space part of exactly the version that the modules were built from: NVIDIA-Linux-x86_64-{two}.run --no-kernel-modules; or build the modules of {one}. Then reboot.",
            ),
            Text(
                title="用户态是 {one}（.run 文件），内核模块由源码 {two} 编译：两者不同",
                why="模块和库必须是完全相同的版本，包括最后几位。",
                fix="安装与模块源码版本完全一致的用户态：NVIDIA-Linux-x86_64-{two}.run --no-kernel-modules；或编译 {one} 的模块。然后重启。",
            ),
        ),
    },
)
