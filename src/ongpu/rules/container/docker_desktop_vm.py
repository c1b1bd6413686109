"""Docker Desktop's virtual machine has no GPU."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind, seen
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FAILS = ("no-device-driver", "unknown-runtime", "toolkit-library-missing", "toolkit-cli-error", "runtime-binary-missing")


def check(
    symptoms: Symptoms | None, container: Container | None, machine: Machine | None, driver: Driver | None, gpus: Gpus | None, torch: Torch | None,
) -> Iterator[Finding]:
    active = bool(container and (container.context == "desktop-linux" or (container.docker_desktop and container.context != "default")))
    told = symptoms.cite("docker-desktop-told") if symptoms else ()
    failed = symptoms.cite(*FAILS) if symptoms else ()
    library = symptoms.cite("toolkit-library-missing") if symptoms else ()
    host = symptoms.cite("host-library-selected", most=1) if symptoms else ()
    missed = blind(symptoms, torch)
    where = machine.system if machine else None
    windows = (where == "windows" or bool(machine and machine.wsl)) and not (symptoms and symptoms.has("not-wsl"))
    refs = (*failed, *(container.about("context", "docker_desktop", "kernel_vm") if active and container else ()), *told[:3], *host)
    fixes = (Fix("use-docker-engine"),)
    named = bool(container and container.context == "desktop-linux")
    if where == "macos" and (failed or missed) and (active or told):
        yield Finding(certainty=Certainty.LIKELY, variant="macos", refs=(*refs, *missed))
    elif windows and active and failed and not library:
        yield Finding(certainty=Certainty.POSSIBLE if not (symptoms and symptoms.has("hyper-v-told")) else Certainty.LIKELY, variant="windows", refs=refs)
    elif windows:
        return
    elif active and (failed or missed):
        yield Finding(certainty=Certainty.CERTAIN if failed or named else Certainty.LIKELY, fixes=fixes, refs=(*refs, *missed))
    elif library and not (container and container.snap) and not (symptoms and symptoms.has("snap-docker", "smi-no-communication")):
        there = bool(host) or seen(gpus)
        yield Finding(certainty=Certainty.LIKELY if there else Certainty.POSSIBLE, variant="library", fixes=fixes, refs=refs)


RULE = Rule(
    slug="docker-desktop-vm",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("container-toolkit-missing", "container-runtime-unconfigured", "driver-not-installed", "container-no-gpu-flag", "driver-module-not-loaded", "cuda-lib-missing"),
    settle=("docker context ls", "docker info | grep -E 'Operating System|Context'"),
    see=(
        "https://docs.docker.com/desktop/features/gpu/",
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/83",
        "https://github.com/NVIDIA/nvidia-docker/issues/1717",
    ),
    en=Text(
        title="Docker Desktop runs containers in its own virtual machine, which has no GPU (docker context desktop-linux)",
        why="On Linux, Docker Desktop's VM sees neither the host's NVIDIA driver nor its container toolkit: --gpus cannot work there, whatever is installed on the host.",
        fix="Use Docker Engine on the host: docker context use default (docker context ls shows the active one), install docker-ce if it is not there, and nvidia-container-toolkit; sudo docker uses the Engine, too. Docker Desktop may be removed.",
    ),
    zh=Text(
        title="Docker Desktop 在自己的虚拟机里运行容器，那里没有 GPU（docker context desktop-linux）",
        why="在 Linux 上，Docker Desktop 的虚拟机看不到宿主机的 NVIDIA 驱动和容器工具包：无论宿主机装了什么，--gpus 都不会成功。",
        fix="改用宿主机的 Docker Engine：docker context use default（docker context ls 可查看当前上下文）；没有则安装 docker-ce 和 nvidia-container-toolkit。sudo docker 也会使用 Engine。Docker Desktop 可以卸载。",
    ),
    variants={
        "library": (
            Text(
                title="The toolkit's hook runs where no libnvidia-ml.so.1 is: most often in Docker Desktop's VM, not on the host",
                why="\"load library failed: libnvidia-ml.so.1\" means that the daemon's own system has no NVIDIA driver. If nvidia-smi works on the host, docker runs elsewhere: in Docker Desktop's VM (docker context ls: desktop-linux), in a snap, or rootless in another root.",
                fix="docker context ls; docker context use default to use Docker Engine instead of Docker Desktop. If docker does run on the host, install the NVIDIA driver there (nvidia-smi must work) and restart docker.",
            ),
            Text(
                title="工具包的 hook 运行的地方没有 libnvidia-ml.so.1：多半是在 Docker Desktop 的虚拟机里，而不是宿主机",
                why="load library failed: libnvidia-ml.so.1 表示守护进程所在的系统没有 NVIDIA 驱动。如果宿主机上 nvidia-smi 正常，说明 docker 运行在别处：Docker Desktop 虚拟机（docker context ls 显示 desktop-linux）、snap，或另一个根目录的 rootless 环境。",
                fix="执行 docker context ls，再用 docker context use default 切换到 Docker Engine，而不是 Docker Desktop。如果 docker 确实运行在宿主机上，就在宿主机安装 NVIDIA 驱动（nvidia-smi 能运行）并重启 docker。",
            ),
        ),
        "macos": (
            Text(
                title="Docker on a Mac runs in a virtual machine without any NVIDIA GPU: --gpus cannot work",
                why="Docker Desktop, Colima and OrbStack run Linux in a VM; macOS has no NVIDIA driver, and Apple's GPU is not passed into containers as CUDA.",
                fix="Run natively on the Mac (PyTorch device mps, or Ollama's own application), or run the container on a Linux machine with an NVIDIA GPU (docker context use REMOTE).",
            ),
            Text(
                title="Mac 上的 Docker 运行在没有 NVIDIA GPU 的虚拟机里：--gpus 不可能生效",
                why="Docker Desktop、Colima、OrbStack 都在虚拟机中运行 Linux；macOS 没有 NVIDIA 驱动，Apple GPU 也不会以 CUDA 形式传入容器。",
                fix="在 Mac 上直接运行（PyTorch 用 mps 设备，或使用 Ollama 原生程序），或在带 NVIDIA GPU 的 Linux 机器上运行容器（docker context use 远程上下文）。",
            ),
        ),
        "windows": (
            Text(
                title="Docker Desktop on Windows passes the GPU only with its WSL 2 backend",
                why="With the Hyper-V backend, or with Windows containers, the VM has no GPU. With WSL 2 the Windows driver is shared and nothing is installed inside.",
                fix="In Docker Desktop, Settings > General, switch on \"Use the WSL 2 based engine\", update WSL (wsl --update) and the Windows NVIDIA driver, then docker run --gpus all. docker context ls must show desktop-linux as active.",
            ),
            Text(
                title="Windows 上的 Docker Desktop 只有使用 WSL 2 后端才能传递 GPU",
                why="使用 Hyper-V 后端或 Windows 容器时，虚拟机没有 GPU。使用 WSL 2 时共享 Windows 的驱动，里面不需要安装。",
                fix="在 Docker Desktop 的 Settings > General 中启用 “Use the WSL 2 based engine”，更新 WSL（wsl --update）和 Windows 的 NVIDIA 驱动，再 docker run --gpus all。docker context ls 中应为 desktop-linux。",
            ),
        ),
    },
)
