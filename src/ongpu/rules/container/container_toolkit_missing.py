"""The NVIDIA Container Toolkit is not installed on the host."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import SystemPackages
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

PACKAGES = ("nvidia-container-toolkit", "nvidia-docker2", "nvidia-container-runtime")


def check(symptoms: Symptoms | None, container: Container | None, packages: SystemPackages | None, gpus: Gpus | None) -> Iterator[Finding]:
    refused = symptoms.cite("no-device-driver") if symptoms else ()
    runtime = symptoms.cite("unknown-runtime") if symptoms else ()
    binary = symptoms.cite("runtime-binary-missing") if symptoms else ()
    told = symptoms.cite("toolkit-package-missing") if symptoms else ()
    installed = bool(container and container.toolkit) or bool(symptoms and symptoms.has("toolkit-package-listed"))
    installed = installed or bool(packages and any(name in packages.packages for name in PACKAGES))
    elsewhere = bool(container and (container.snap or container.docker_desktop or container.rootless or container.context == "desktop-linux"))
    absent = bool(container and container.toolkit == "") or bool(told)
    if not (refused or runtime or binary or told):
        if absent and not installed and not elsewhere and gpus and gpus.gpus and not (container and container.inside):
            fixes = (Fix("install-container-toolkit"), Fix("configure-docker-runtime"))  # not a fault until a container wants a GPU
            yield Finding(severity=Severity.NOTE, certainty=Certainty.LIKELY, values={"says": '""'}, fixes=fixes, refs=container.about("toolkit") if container else ())
        return
    values = {"says": symptoms.value("driver", "no-device-driver") or '""' if symptoms else '""'}
    fixes = (Fix("install-container-toolkit"), Fix("configure-docker-runtime"))
    refs = (*binary, *refused, *runtime, *told, *(container.about("toolkit") if container and container.toolkit == "" else ()))
    if binary and not installed:
        yield Finding(certainty=Certainty.CERTAIN, variant="binary", values=values, fixes=fixes, refs=refs)
    elif told and not installed:
        yield Finding(certainty=Certainty.CERTAIN if refused or runtime else Certainty.LIKELY, values=values, fixes=fixes, refs=refs)
    elif (refused or runtime) and not installed and not (elsewhere and not absent):
        weak = bool(runtime and not refused) and not absent
        yield Finding(certainty=Certainty.POSSIBLE if weak else Certainty.CERTAIN if absent else Certainty.LIKELY, values=values, fixes=fixes, refs=refs)


RULE = Rule(
    slug="container-toolkit-missing",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("container-no-gpu-flag", "driver-not-installed"),
    settle=("nvidia-ctk --version", "dpkg -l nvidia-container-toolkit", "docker info | grep -i runtime"),
    see=(
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
        "https://github.com/docker/cli/issues/2425",
        "https://github.com/NVIDIA/nvidia-docker/issues/1034",
    ),
    en=Text(
        title="Docker finds no NVIDIA runtime: nvidia-container-toolkit is not installed on the host (or docker was not restarted since)",
        why="For --gpus, dockerd looks for nvidia-container-runtime-hook, which the package nvidia-container-toolkit brings. Without it dockerd answers: could not select device driver with capabilities [[gpu]]. The NVIDIA driver alone is not enough.",
        fix="Install nvidia-container-toolkit from NVIDIA's repository, run sudo nvidia-ctk runtime configure --runtime=docker, then sudo systemctl restart docker. If it is installed already, only the last two are missing.",
    ),
    zh=Text(
        title="Docker 找不到 NVIDIA 运行时：宿主机没有安装 nvidia-container-toolkit（或安装后没有重启 docker）",
        why="使用 --gpus 时，dockerd 会寻找 nvidia-container-runtime-hook，它由 nvidia-container-toolkit 软件包提供。没有它就会报 “could not select device driver ... capabilities: [[gpu]]”。只装 NVIDIA 驱动是不够的。",
        fix="从 NVIDIA 软件源安装 nvidia-container-toolkit，执行 sudo nvidia-ctk runtime configure --runtime=docker，再 sudo systemctl restart docker。如果已经安装，则只差后两步。",
    ),
    variants={
        "binary": (
            Text(
                title="The daemon is told to use nvidia-container-runtime, but the program is not there: nvidia-container-toolkit is missing",
                why="daemon.json (or containerd's config) names nvidia-container-runtime, which the package nvidia-container-toolkit installs into /usr/bin. It was removed or never installed, so no container with that runtime can start.",
                fix="Install nvidia-container-toolkit (apt-get install nvidia-container-toolkit) and restart docker; or take the nvidia entry out of /etc/docker/daemon.json.",
            ),
            Text(
                title="守护进程被配置为使用 nvidia-container-runtime，但该程序不存在：缺少 nvidia-container-toolkit",
                why="daemon.json（或 containerd 配置）指定了 nvidia-container-runtime，它由 nvidia-container-toolkit 软件包安装到 /usr/bin。该包被卸载或从未安装，因此使用该运行时的容器都无法启动。",
                fix="安装 nvidia-container-toolkit（apt-get install nvidia-container-toolkit）并重启 docker（restart）；或从 /etc/docker/daemon.json 中去掉 nvidia 项。",
            ),
        ),
    },
)
