"""No NVIDIA device plugin runs on the node, so Kubernetes knows of no GPU."""

from collections.abc import Iterator

from ongpu.facts.container import Kubernetes
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text


def check(kubernetes: Kubernetes | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    asked = symptoms.cite("k8s-insufficient", "k8s-nodes-available", most=2) if symptoms and symptoms.has("k8s-insufficient") else ()
    told = symptoms.cite("k8s-plugin-told-missing") if symptoms else ()
    crash = symptoms.seen("k8s-plugin-crash") if symptoms else ()
    if kubernetes is None and not asked and not told and not crash:
        return
    lines: tuple[Ref, ...] = kubernetes.plugin_lines if kubernetes else ()
    refs = (*lines, *told, *(kubernetes.refs[:6] if kubernetes else ()), *asked)
    install = (Fix("install-device-plugin"),)
    capacity = kubernetes.capacity if kubernetes else None
    nothing = capacity == 0 or bool(kubernetes and kubernetes.per_node and max(kubernetes.per_node) == 0)
    offered = bool(capacity) or bool(kubernetes and kubernetes.per_node and max(kubernetes.per_node) > 0)
    if kubernetes and kubernetes.plugin_desired == 0:
        yield Finding(certainty=Certainty.CERTAIN, variant="desired", fixes=(Fix("label-gpu-node"),), refs=refs)
    elif crash and not offered:
        state = next((h.groups["state"] for h in crash if h.groups.get("state")), "?")
        yield Finding(certainty=Certainty.LIKELY, variant="crash", values={"state": state}, refs=(*(h.ref for h in crash), *refs))
    elif kubernetes and kubernetes.plugin_absent:
        yield Finding(certainty=Certainty.CERTAIN if nothing or asked else Certainty.LIKELY, fixes=install, refs=refs)
    elif (told and not offered) or (nothing and kubernetes and not kubernetes.plugin_seen):
        yield Finding(certainty=Certainty.LIKELY, fixes=install, refs=refs)
    elif nothing and kubernetes:
        yield Finding(certainty=Certainty.POSSIBLE, fixes=install, refs=refs)
    elif asked and not offered and symptoms and not symptoms.has("k8s-unhealthy", "k8s-taint", "k8s-affinity", "k8s-quota"):
        yield Finding(certainty=Certainty.POSSIBLE, fixes=(Fix("look-at-node"), *install), refs=refs)


RULE = Rule(
    slug="k8s-device-plugin-missing",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("k8s-gpu-request-unsatisfiable", "container-no-gpu-flag", "driver-not-installed"),
    settle=("kubectl get daemonset -A | grep -i nvidia", "kubectl describe node | grep nvidia.com/gpu"),
    see=(
        "https://github.com/NVIDIA/k8s-device-plugin#quick-start",
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        "https://github.com/NVIDIA/k8s-device-plugin/issues/708",
    ),
    en=Text(
        title="The node offers no nvidia.com/gpu: the nvidia-device-plugin DaemonSet does not run there",
        why="Kubernetes learns of GPUs only from the device plugin, which tells the kubelet how many there are. A working driver or a kubelet that sees the card is not enough; pods that ask for a GPU stay Pending (Insufficient nvidia.com/gpu).",
        fix="Deploy the NVIDIA device plugin (its DaemonSet by helm or manifest) or the GPU Operator, and check that its pod runs on every GPU node: kubectl get pods -A -o wide | grep nvidia-device-plugin. The node needs the driver and the nvidia container runtime first.",
    ),
    zh=Text(
        title="节点没有 nvidia.com/gpu 资源：nvidia-device-plugin DaemonSet 没有在该节点上运行",
        why="Kubernetes 只能通过设备插件得知 GPU，由它向 kubelet 上报数量。驱动正常或 kubelet 能看到显卡都不够；申请 GPU 的 Pod 会一直 Pending（Insufficient nvidia.com/gpu）。",
        fix="部署 NVIDIA 设备插件（用 helm 或 manifest 部署其 DaemonSet）或 GPU Operator，并确认每个 GPU 节点上都有它的 Pod：kubectl get pods -A -o wide | grep nvidia-device-plugin。节点须先装好驱动和 nvidia 容器运行时。",
    ),
    variants={
        "desired": (
            Text(
                title="The device plugin's DaemonSet wants 0 pods (DESIRED 0): no node matches its node affinity or selector",
                why="The Helm chart asks for labels that gpu-feature-discovery or node-feature-discovery set (feature.node.kubernetes.io/pci-10de.present=true, nvidia.com/gpu.present=true). Without the labels, or with taints that it does not tolerate, no pod is made and no GPU offered.",
                fix="Label the GPU nodes (kubectl label node NODE nvidia.com/gpu.present=true), install node-feature-discovery with the chart (--set gfd.enabled=true), or clear the chart's affinity; tolerate the nodes' taints.",
            ),
            Text(
                title="设备插件的 DaemonSet 期望 Pod 数为 0（DESIRED 0）：没有节点匹配它的 node affinity 或 nodeSelector",
                why="Helm chart 要求节点带有 gpu-feature-discovery 或 node-feature-discovery 设置的标签（feature.node.kubernetes.io/pci-10de.present=true、nvidia.com/gpu.present=true）。没有这些标签，或存在未容忍的污点，就不会创建 Pod，也就没有 GPU 资源。",
                fix="给 GPU 节点打标签（kubectl label node 节点 nvidia.com/gpu.present=true），随 chart 安装 node-feature-discovery（--set gfd.enabled=true），或清空 chart 的 affinity；并容忍节点污点。",
            ),
        ),
        "crash": (
            Text(
                title="The NVIDIA device plugin's pod does not run ({state})",
                why="While the nvidia-device-plugin DaemonSet's pod is down, the kubelet has no GPU to offer. Its log tells why: most often no driver or no nvidia runtime on the node, or an image that cannot be pulled.",
                fix="kubectl logs and kubectl describe of the nvidia-device-plugin pod; mend the driver (nvidia-smi on the node) or the container runtime (nvidia-ctk runtime configure), then delete the pod.",
            ),
            Text(
                title="NVIDIA 设备插件的 Pod 没有正常运行（{state}）",
                why="nvidia-device-plugin DaemonSet 的 Pod 不在运行时，kubelet 就没有 GPU 可提供。原因见其日志：多为节点没有驱动、没有配置 nvidia 运行时，或镜像拉取失败。",
                fix="对 nvidia-device-plugin 的 Pod 执行 kubectl logs 和 kubectl describe；修好驱动（节点上 nvidia-smi）或容器运行时（nvidia-ctk runtime configure），再删除该 Pod。",
            ),
        ),
    },
)
