"""A running container lost its right to open the GPU devices."""

from collections.abc import Iterator

from ongpu.facts.container import Container, Kubernetes
from ongpu.facts.environment import Commands
from ongpu.facts.framework import Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, container: Container | None, kubernetes: Kubernetes | None, torch: Torch | None, commands: Commands | None,
) -> Iterator[Finding]:
    if symptoms is None or (container and container.no_cgroups):
        return
    said = symptoms.cite("nvml-unknown-error")
    denied = symptoms.cite("device-cgroup-denied")
    reload = symptoms.cite("systemd-reload")
    later = symptoms.cite("lost-after-a-while", most=2)
    typed = tuple(run.ref for run in commands.of("systemctl") if "daemon-reload" in run.argv) if commands else ()
    inside = bool(container and (container.inside or container.runs)) or kubernetes is not None or symptoms.has("container-told")
    unhealthy = symptoms.cite("k8s-unhealthy") if kubernetes is not None else ()
    driver = "systemd" if symptoms.has("cgroup-driver-systemd") or (container and container.cgroup_driver == "systemd") else ""
    name = next((r.name for r in container.runs if r.name), "") if container else ""
    values = {"cgroup": driver or "systemd"}
    fixes = (Fix("restart-container", {"container": name or "CONTAINER"}),)
    refs = (*said, *denied, *reload, *typed, *later, *(symptoms.cite("cgroup-driver-systemd", most=1) if driver else ()))
    if unhealthy and (reload or typed) and not symptoms.has("k8s-unhealthy-xid"):
        yield Finding(certainty=Certainty.LIKELY, variant="plugin", values=values, fixes=(Fix("restart-device-plugin"),), refs=(*unhealthy, *reload, *typed, *(kubernetes.refs[:4] if kubernetes else ())))
    elif said or denied:
        sure = Certainty.CERTAIN if (reload or typed) and inside else Certainty.LIKELY if inside or later or reload else Certainty.POSSIBLE
        yield Finding(certainty=sure, values=values, fixes=fixes, refs=refs)
    elif inside and (reload or typed) and (missed := blind(symptoms, torch)):
        yield Finding(certainty=Certainty.LIKELY, values=values, fixes=fixes, refs=(*missed, *refs))


RULE = Rule(
    slug="container-cgroup-lost",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("k8s-device-marked-unhealthy", "container-no-gpu-flag", "cuda-unavailable", "device-permission-denied", "driver-not-installed", "driver-module-not-loaded", "uvm-module-missing"),
    settle=("docker exec CONTAINER nvidia-smi", "journalctl --since -1d | grep -i reloading", "docker info | grep -i cgroup"),
    see=(
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
        "https://github.com/NVIDIA/nvidia-docker/issues/1678",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html#containers-losing-access-to-gpus-with-error-failed-to-initialize-nvml-unknown-error",
    ),
    en=Text(
        title="The container lost its access to the GPU while it ran (Failed to initialize NVML: Unknown Error)",
        why="With the {cgroup} cgroup driver, a systemctl daemon-reload on the host (also by apt, unattended-upgrades, or a systemd \"Reloading\" in the journal) writes the device rules of all containers anew. Those that the NVIDIA hook added behind runc's back are lost: the nodes are there, opening them is refused. On the host nvidia-smi works on.",
        fix="Restart the container; that brings the access back until the next daemon-reload. For good: request GPUs by CDI (docker --device nvidia.com/gpu=all), or pass --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm in addition to --gpus, or use the cgroupfs driver (\"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] in /etc/docker/daemon.json).",
    ),
    zh=Text(
        title="容器在运行中失去了对 GPU 的访问权（Failed to initialize NVML: Unknown Error）",
        why="使用 {cgroup} cgroup 驱动时，宿主机上的 systemctl daemon-reload（apt、unattended-upgrades 也会触发，日志中为 systemd 的 Reloading）会重写所有容器的设备规则；NVIDIA hook 绕过 runc 添加的规则因此丢失：设备节点还在，但打开被拒绝。宿主机上 nvidia-smi 仍正常。",
        fix="重启容器即可恢复，直到下一次 daemon-reload。根治：用 CDI 申请 GPU（docker --device nvidia.com/gpu=all），或在 --gpus 之外再加 --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm，或改用 cgroupfs（在 /etc/docker/daemon.json 中设置 \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"]）。",
    ),
    variants={
        "plugin": (
            Text(
                title="A daemon-reload took the device plugin's access to the GPU: it marked the device unhealthy",
                why="systemctl daemon-reload (or the kubelet's restart after it) writes the device rules of containers anew, and the plugin's container loses the NVIDIA devices. It then takes the GPU for unhealthy, and the node offers fewer or none. The card itself is all right.",
                fix="Delete the device plugin's pod, so that it starts afresh (kubectl delete pod). For good: let the plugin and the pods use CDI, and update nvidia-container-toolkit.",
            ),
            Text(
                title="daemon-reload 使设备插件失去了对 GPU 的访问权：它把设备标记为 unhealthy",
                why="systemctl daemon-reload（或随后的 kubelet 重启）会重写容器的设备规则，插件容器因此失去 NVIDIA 设备，于是认为 GPU 不健康，节点可用数减少甚至为 0。显卡本身没有问题。",
                fix="删除设备插件（device plugin）的 Pod 使其重新启动（kubectl delete pod）。根治：让插件和业务 Pod 使用 CDI，并升级 nvidia-container-toolkit。",
            ),
        ),
    },
)
