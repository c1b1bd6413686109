"""The device plugin marked a GPU unhealthy, so the node offers fewer than it has."""

from collections.abc import Iterator

from ongpu.facts.container import Kubernetes
from ongpu.facts.hardware import Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# Xids of programs, which say nothing about the card. https://docs.nvidia.com/deploy/xid-errors/
APPLICATION = {"13", "31", "43", "45", "68", "109"}


def check(kubernetes: Kubernetes | None, symptoms: Symptoms | None, xids: Xids | None) -> Iterator[Finding]:
    said = symptoms.cite("k8s-unhealthy") if symptoms else ()
    unable = symptoms.cite("k8s-health-unsupported") if symptoms else ()
    capacity = kubernetes.capacity if kubernetes else None
    allocatable = kubernetes.allocatable if kubernetes else None
    fewer = bool(capacity and allocatable is not None and allocatable < capacity)
    plugin = bool(symptoms and symptoms.has("k8s-unhealthy-xid", "k8s-health-unsupported")) or kubernetes is not None
    if not fewer and not (said and plugin):
        return
    xid = (symptoms.value("xid", "k8s-unhealthy-xid", "k8s-unhealthy") or symptoms.value("b", "k8s-unhealthy-xid")) if symptoms else None
    xid = xid or (str(xids.events[-1].code) if xids and xids.events else None)
    values = {"xid": xid or "?", "capacity": capacity if capacity is not None else "?", "allocatable": allocatable if allocatable is not None else "?"}
    variant = "unsupported" if unable and any("too old" in ref.quote for ref in unable) else "application" if xid in APPLICATION else "xid" if xid else ""
    refs = (*said, *unable[:1], *(kubernetes.refs[:6] if kubernetes else ()))
    sure = Certainty.CERTAIN if said and (fewer or xid or variant == "unsupported") else Certainty.LIKELY
    yield Finding(certainty=sure, variant=variant, values=values, fixes=(Fix("restart-device-plugin"),), refs=refs)


RULE = Rule(
    slug="k8s-device-marked-unhealthy",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("k8s-gpu-request-unsatisfiable", "k8s-device-plugin-missing"),
    settle=("kubectl describe node | grep nvidia.com/gpu", "kubectl logs -n kube-system -l name=nvidia-device-plugin-ds", "sudo dmesg | grep -i xid"),
    see=(
        "https://github.com/NVIDIA/k8s-device-plugin/issues/1014",
        "https://github.com/NVIDIA/k8s-device-plugin#configuration",
        "https://docs.nvidia.com/deploy/xid-errors/",
    ),
    en=Text(
        title="The device plugin holds a GPU for unhealthy: the node has {capacity}, but offers {allocatable}",
        why="The plugin takes a GPU out of Allocatable after an error event and does not put it back by itself until it is restarted, even where the card is all right again.",
        fix="Look at the card (nvidia-smi -q, dmesg for Xid). If it is healthy, delete the nvidia-device-plugin pod, so that it counts anew. If a remap is pending or the error is of the hardware, reset or drain first.",
    ),
    zh=Text(
        title="设备插件认为某块 GPU 不健康（unhealthy）：节点共有 {capacity} 块，只提供 {allocatable} 块",
        why="插件在收到错误事件后把 GPU 从 Allocatable 中去掉，即使显卡已恢复，在插件重启之前也不会加回来。",
        fix="检查显卡（nvidia-smi -q，dmesg 中的 Xid）。正常则删除 nvidia-device-plugin 的 Pod 让它重新统计；如果有待处理的 remap 或属于硬件错误，应先复位或驱逐节点。",
    ),
    variants={
        "xid": (
            Text(
                title="Xid {xid} made the device plugin mark a GPU unhealthy{capacity:: the node has *}{allocatable:, but offers *}",
                why="The plugin takes a GPU out of Allocatable after such an Xid and never clears the mark by itself, even when the event is long over.",
                fix="Check the card: nvidia-smi -q -d ECC,ROW_REMAPPER, dmesg for Xid {xid}. If a row remap is pending, reset the GPU or reboot; then restart the nvidia-device-plugin pod. If Xid {xid} comes back, have the card replaced.",
            ),
            Text(
                title="Xid {xid} 使设备插件把 GPU 标记为 unhealthy{capacity:：节点共有 * 块}{allocatable:，只提供 * 块}",
                why="发生这类 Xid 后插件会把 GPU 从 Allocatable 中去掉，即使事件早已过去也不会自行恢复。",
                fix="检查显卡：nvidia-smi -q -d ECC,ROW_REMAPPER，dmesg 中的 Xid {xid}。如有待处理的行重映射，先复位 GPU 或重启；然后重启 nvidia-device-plugin 的 Pod。如果 Xid {xid} 反复出现，应更换显卡。",
            ),
        ),
        "application": (
            Text(
                title="Xid {xid}, an error of a program, made the device plugin mark a GPU unhealthy (capacity {capacity}, allocatable {allocatable})",
                why="Xid {xid} comes from the program that used the card; the card is not at fault. Newer plugins skip such Xids.",
                fix="Restart the nvidia-device-plugin pod, update the plugin, or let it skip this Xid: DP_DISABLE_HEALTHCHECKS={xid}. Then mend the program.",
            ),
            Text(
                title="程序引起的 Xid {xid} 使设备插件把 GPU 标记为 unhealthy（容量 {capacity}，可分配 {allocatable}）",
                why="Xid {xid} 由使用显卡的程序引起，显卡本身没有问题。新版插件会忽略这类 Xid。",
                fix="重启 nvidia-device-plugin 的 Pod，升级插件，或让它忽略该 Xid：DP_DISABLE_HEALTHCHECKS={xid}。然后修复程序。",
            ),
        ),
        "unsupported": (
            Text(
                title="The GPU is too old for the plugin's health check, which marks it unhealthy",
                why="The device plugin watches NVML events; this card does not support them, and the plugin then takes it out of what the node offers, though it works.",
                fix="Switch the health check off: set DP_DISABLE_HEALTHCHECKS=all in the nvidia-device-plugin DaemonSet (old versions: xids), or use a newer GPU.",
            ),
            Text(
                title="该 GPU 太旧（too old），不支持插件的健康检查，因而被标记为 unhealthy",
                why="设备插件监听 NVML 事件；此卡不支持，插件便把它从节点可提供的资源中去掉，尽管它能工作。",
                fix="关闭健康检查：在 nvidia-device-plugin DaemonSet 中设置 DP_DISABLE_HEALTHCHECKS=all（旧版为 xids），或换用更新的 GPU。",
            ),
        ),
    },
)
