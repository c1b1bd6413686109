"""The NVIDIA Container Toolkit is there, but the container engine was not told to use it."""

from collections.abc import Iterator

from ongpu.facts.container import Container, Kubernetes
from ongpu.facts.driver import SystemPackages
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

PACKAGES = ("nvidia-container-toolkit", "nvidia-docker2", "nvidia-container-runtime")
CONTAINERD = (Fix("configure-containerd-runtime"),)
DOCKER = (Fix("configure-docker-runtime"),)


def _kind(symptoms: Symptoms, container: Container | None, kubernetes: Kubernetes | None, installed: bool) -> tuple[str, Certainty, tuple[Fix, ...], tuple[str, ...]] | None:
    """(variant, certainty, fixes, symptoms that say so)."""
    snap = bool(container and container.snap) or symptoms.has("snap-docker")
    rootless = bool(container and container.rootless)
    broken = symptoms.has("no-device-driver", "unknown-runtime", "toolkit-library-missing", "toolkit-cli-error")
    if snap and broken:
        return "snap", Certainty.CERTAIN, (Fix("replace-docker-snap"), *DOCKER), ("snap-docker", "no-device-driver", "unknown-runtime", "toolkit-library-missing")
    if symptoms.has("toolkit-cgroups"):
        return "cgroups", Certainty.LIKELY, (Fix("rootless-no-cgroups"),), ("toolkit-cgroups",)
    if container and container.no_cgroups and symptoms.has("nvml-unknown-error") and not rootless:
        return "no-cgroups", Certainty.LIKELY, (Fix("rootful-cgroups"),), ("nvml-unknown-error",)
    if any(h.groups.get("what") or "cdi" in h.ref.quote.lower() or "stat nvidia.com" in h.ref.quote for h in symptoms.seen("runtime-not-configured")):
        return "cdi", Certainty.LIKELY, (Fix("generate-cdi"),), ("runtime-not-configured",)
    if symptoms.has("runtime-not-configured"):
        return "kubernetes", Certainty.CERTAIN if symptoms.has("plugin-nvml-missing", "containerd-runc") else Certainty.LIKELY, CONTAINERD, (
            "runtime-not-configured", "plugin-nvml-missing", "containerd-runc")
    if symptoms.has("plugin-nvml-missing") and (kubernetes is not None or symptoms.has("k8s-insufficient", "k8s-plugin-crash", "k8s-plugin-log")):
        return "kubernetes", Certainty.LIKELY, CONTAINERD, ("plugin-nvml-missing", "containerd-runc")
    if symptoms.has("k8s-no-devices-found"):
        return "kubernetes", Certainty.LIKELY, CONTAINERD, ("k8s-no-devices-found", "containerd-runc")
    if symptoms.has("toolkit-ldconfig"):
        return "ldconfig", Certainty.LIKELY, (), ("toolkit-ldconfig",)
    if symptoms.has("no-device-driver") and rootless:
        return "rootless", Certainty.LIKELY, (Fix("rootless-no-cgroups"),), ("no-device-driver",)
    if symptoms.has("no-device-driver") and installed:
        return "", Certainty.LIKELY, DOCKER, ("no-device-driver", "toolkit-package-listed", "runtimes-line")
    if symptoms.has("unknown-runtime"):
        return "runtime", Certainty.CERTAIN if installed else Certainty.LIKELY, DOCKER, ("unknown-runtime", "toolkit-package-listed", "runtimes-line")
    return None


def check(
    symptoms: Symptoms | None, container: Container | None, kubernetes: Kubernetes | None, packages: SystemPackages | None, gpus: Gpus | None,
) -> Iterator[Finding]:
    absent = bool(container and container.toolkit == "") or bool(symptoms and symptoms.has("toolkit-package-missing", "runtime-binary-missing"))
    desktop = bool(container and (container.docker_desktop or container.context == "desktop-linux"))
    installed = bool(container and (container.toolkit or container.toolkit_configured)) or bool(symptoms and symptoms.has("toolkit-package-listed", "daemon-json-nvidia"))
    installed = installed or bool(packages and any(name in packages.packages for name in PACKAGES))
    refs: tuple[Ref, ...] = ()
    runc = container.default_runtime if container and container.default_runtime in ("runc", "crun") else None
    values = {"runtime": runc or "runc"}
    if symptoms and not absent:
        found = _kind(symptoms, container, kubernetes, installed)
        if found and not (desktop and found[0] in ("", "runtime")):
            variant, certainty, fixes, names = found
            refs = symptoms.cite(*names)
            if container:
                refs = (*refs, *container.about("snap", "toolkit", "toolkit_configured", "default_runtime", "no_cgroups", "rootless"))
            yield Finding(certainty=certainty, variant=variant, values=values, fixes=fixes, refs=tuple(dict.fromkeys(refs)))
            return
    empty = kubernetes is not None and kubernetes.capacity == 0 and bool(kubernetes.plugin_seen or "device-plugin" in " ".join(r.quote for r in kubernetes.refs))
    if kubernetes and empty and runc:
        refs = (*kubernetes.refs[:4], *(container.about("default_runtime") if container else ()))
        yield Finding(certainty=Certainty.LIKELY, variant="kubernetes", values=values, fixes=CONTAINERD, refs=refs)
    elif container and container.toolkit_configured is False and container.toolkit and any(r.gpu for r in container.runs):
        yield Finding(certainty=Certainty.LIKELY, values=values, fixes=DOCKER, refs=container.about("toolkit_configured", "runtimes"))


RULE = Rule(
    slug="container-runtime-unconfigured",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("container-toolkit-missing", "k8s-device-plugin-missing", "driver-not-installed", "driver-module-not-loaded", "container-no-gpu-flag", "cuda-lib-missing", "no-nvidia-gpu"),
    settle=("docker info | grep -i runtime", "cat /etc/docker/daemon.json", "grep -n runtime /etc/containerd/config.toml", "nvidia-ctk cdi list"),
    see=(
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html#configuration",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html",
        "https://github.com/NVIDIA/nvidia-docker/issues/1591",
        "https://github.com/NVIDIA/k8s-device-plugin/issues/107",
    ),
    en=Text(
        title="nvidia-container-toolkit is installed, but docker does not use it: the runtime was not configured, or docker was not restarted",
        why="dockerd reads its runtimes from /etc/docker/daemon.json, and looks for the hook, only when it starts. Until it is configured and restarted, --gpus answers: could not select device driver with capabilities [[gpu]].",
        fix="sudo nvidia-ctk runtime configure --runtime=docker, then sudo systemctl restart docker, then try docker run --rm --gpus all ubuntu nvidia-smi. docker info must list nvidia under Runtimes.",
    ),
    zh=Text(
        title="已安装 nvidia-container-toolkit，但 docker 没有使用它：未配置运行时，或配置后没有重启 docker",
        why="dockerd 只在启动时读取 /etc/docker/daemon.json 中的运行时并查找 hook。配置并重启之前，--gpus 会报 could not select device driver ... [[gpu]]。",
        fix="执行 sudo nvidia-ctk runtime configure --runtime=docker，再 sudo systemctl restart docker，然后用 docker run --rm --gpus all ubuntu nvidia-smi 验证。docker info 的 Runtimes 中应出现 nvidia。",
    ),
    variants={
        "runtime": (
            Text(
                title="Docker does not know a runtime named nvidia",
                why="--runtime=nvidia (or runtime: nvidia) names an entry of /etc/docker/daemon.json that does not exist, or that dockerd has not read since. nvidia-ctk writes it; the package nvidia-container-toolkit must be installed.",
                fix="Install nvidia-container-toolkit if it is not there, run sudo nvidia-ctk runtime configure --runtime=docker and sudo systemctl restart docker; or use --gpus all, which needs no named runtime.",
            ),
            Text(
                title="Docker 不认识名为 nvidia 的运行时",
                why="--runtime=nvidia（或 runtime: nvidia）指的是 /etc/docker/daemon.json 中的一项，它不存在，或 dockerd 之后没有重新读取。该项由 nvidia-ctk 写入，需要先安装 nvidia-container-toolkit。",
                fix="如未安装先装 nvidia-container-toolkit，然后 sudo nvidia-ctk runtime configure --runtime=docker 并 sudo systemctl restart docker；或改用 --gpus all，它不需要命名运行时。",
            ),
        ),
        "snap": (
            Text(
                title="Docker is the snap package: it does not see the host's nvidia-container-toolkit",
                why="The snap of docker is confined: its daemon uses its own files and finds neither the host's toolkit nor /etc/docker/daemon.json, whatever is installed there.",
                fix="Remove the docker snap (sudo snap remove docker), install Docker Engine from docker's apt repository, then nvidia-ctk runtime configure --runtime=docker and systemctl restart docker.",
            ),
            Text(
                title="docker 是 snap 版：它看不到宿主机上的 nvidia-container-toolkit",
                why="snap 版 docker 在隔离环境中运行，守护进程使用自己的文件，无论宿主机装了什么，都找不到宿主机的工具包和 /etc/docker/daemon.json。",
                fix="卸载 docker snap（sudo snap remove docker），从 docker 官方 apt 源安装 Docker Engine，再执行 nvidia-ctk runtime configure --runtime=docker 和 systemctl restart docker。",
            ),
        ),
        "kubernetes": (
            Text(
                title="The node's containers are started by plain {runtime}: the nvidia runtime is not configured in containerd (or docker, CRI-O)",
                why="Without the NVIDIA runtime the device plugin's own container has no libnvidia-ml.so.1, so it finds no GPU and the node offers 0 of nvidia.com/gpu, though the driver works on the host.",
                fix="On each GPU node: sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default, sudo systemctl restart containerd, then restart the device plugin's pod; or make a RuntimeClass nvidia and name it in the plugin (and in the pods). k3s: restart it after installing the toolkit.",
            ),
            Text(
                title="节点上的容器由普通的 {runtime} 启动：containerd（或 docker、CRI-O）没有配置 nvidia 运行时",
                why="没有 NVIDIA 运行时，设备插件自己的容器里就没有 libnvidia-ml.so.1，找不到 GPU，节点的 nvidia.com/gpu 便为 0，尽管宿主机驱动正常。",
                fix="在每个 GPU 节点上执行 sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default，sudo systemctl restart containerd，再重启设备插件 Pod；或创建名为 nvidia 的 RuntimeClass，并在插件（和业务 Pod）中引用。k3s 在装好工具包后要重启。",
            ),
        ),
        "cdi": (
            Text(
                title="The CDI device nvidia.com/gpu cannot be resolved: its specification was not generated",
                why="Podman, docker with CDI and containerd look nvidia.com/gpu=... up in /etc/cdi or /var/run/cdi. The file is missing, out of date since a driver update, or not readable for this user.",
                fix="sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, then nvidia-ctk cdi list must show nvidia.com/gpu=all. Podman must be 4.1 or newer. Generate it again after each driver update.",
            ),
            Text(
                title="无法解析 CDI 设备 nvidia.com/gpu：没有生成其规范文件",
                why="podman、启用 CDI 的 docker 以及 containerd 在 /etc/cdi 或 /var/run/cdi 中查找 nvidia.com/gpu=...。该文件不存在、驱动更新后已过期，或当前用户不可读。",
                fix="执行 sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml，之后 nvidia-ctk cdi list 应显示 nvidia.com/gpu=all。podman 需 4.1 及以上。每次更新驱动后要重新生成。",
            ),
        ),
        "cgroups": (
            Text(
                title="nvidia-container-cli may not set the device cgroup: rootless or nested containers need no-cgroups = true",
                why="The legacy hook wants to write the container's device cgroup. A rootless engine, LXC, enroot or a nested container has no right to, and an old toolkit does not know cgroup v2.",
                fix="Rootless: set no-cgroups = true in /etc/nvidia-container-runtime/config.toml (nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place), or use CDI. Otherwise update nvidia-container-toolkit (1.8 or newer knows cgroup v2).",
            ),
            Text(
                title="nvidia-container-cli 无权设置设备 cgroup：rootless 或嵌套容器需要 no-cgroups = true",
                why="传统 hook 要写容器的设备 cgroup。rootless 引擎、LXC、enroot 或嵌套容器没有这个权限；旧版工具包也不支持 cgroup v2。",
                fix="rootless：在 /etc/nvidia-container-runtime/config.toml 中设置 no-cgroups = true（nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place），或使用 CDI。否则升级 nvidia-container-toolkit（1.8 及以上支持 cgroup v2）。",
            ),
        ),
        "no-cgroups": (
            Text(
                title="no-cgroups = true in the toolkit's config.toml: a rootful docker container may not open the GPU (NVML Unknown Error)",
                why="That setting is for rootless engines. With it the hook does not allow the NVIDIA devices in the container's cgroup, so that a normal docker container sees the nodes but may not open them.",
                fix="Set no-cgroups = false in /etc/nvidia-container-runtime/config.toml and start the container anew.",
            ),
            Text(
                title="工具包 config.toml 中 no-cgroups = true：普通（非 rootless）docker 容器无权打开 GPU（NVML Unknown Error）",
                why="该设置用于 rootless 引擎。启用后 hook 不会在容器 cgroup 中放行 NVIDIA 设备，普通 docker 容器能看到节点却打不开。",
                fix="在 /etc/nvidia-container-runtime/config.toml 中设为 no-cgroups = false，然后重新启动容器。",
            ),
        ),
        "rootless": (
            Text(
                title="Docker runs rootless: its own daemon was not configured for nvidia-container-toolkit",
                why="A rootless dockerd reads ~/.config/docker/daemon.json, not /etc/docker/daemon.json, and may not change device cgroups.",
                fix="nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json, systemctl --user restart docker, and no-cgroups = true in /etc/nvidia-container-runtime/config.toml.",
            ),
            Text(
                title="docker 以 rootless 方式运行：它自己的守护进程没有配置 nvidia-container-toolkit",
                why="rootless 的 dockerd 读取 ~/.config/docker/daemon.json，而不是 /etc/docker/daemon.json，并且无权修改设备 cgroup。",
                fix="nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json，systemctl --user restart docker，并在 /etc/nvidia-container-runtime/config.toml 中设置 no-cgroups = true。",
            ),
        ),
        "ldconfig": (
            Text(
                title="The toolkit's config.toml names an ldconfig that this system does not have",
                why="nvidia-container-cli runs the host's ldconfig inside the container. ldconfig = \"@/sbin/ldconfig.real\" is right on Ubuntu and Debian only; elsewhere it is @/sbin/ldconfig.",
                fix="Correct ldconfig in /etc/nvidia-container-runtime/config.toml (nvidia-ctk config --set nvidia-container-cli.ldconfig=@/sbin/ldconfig --in-place) and start the container again.",
            ),
            Text(
                title="工具包 config.toml 指定的 ldconfig 在本系统上不存在",
                why="nvidia-container-cli 会在容器中运行宿主机的 ldconfig。ldconfig = \"@/sbin/ldconfig.real\" 只适用于 Ubuntu 和 Debian，其他系统应为 @/sbin/ldconfig。",
                fix="修正 /etc/nvidia-container-runtime/config.toml 中的 ldconfig（nvidia-ctk config --set nvidia-container-cli.ldconfig=@/sbin/ldconfig --in-place），然后重新启动容器。",
            ),
        ),
    },
)
