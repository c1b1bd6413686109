"""No node can give the pod the GPUs that it asks for."""

from collections.abc import Iterator

from ongpu.facts.container import Kubernetes
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(kubernetes: Kubernetes | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    short = symptoms.cite("k8s-insufficient", "k8s-nodes-available", most=2) if symptoms and symptoms.has("k8s-insufficient") else ()
    asked = kubernetes.requested if kubernetes else None
    pod = next((p for p in kubernetes.pods if p.gpus or p.amount), None) if kubernetes else None
    per_node = kubernetes.per_node if kubernetes else ()
    offered = [n for n in (*(per_node or ()), kubernetes.allocatable if kubernetes else None) if n is not None]
    most = max(offered, default=None)
    refs = (*short, *((pod.ref,) if pod and pod.ref else ()), *(kubernetes.refs[:8] if kubernetes else ()))
    values = {"asked": asked if asked is not None else "?", "most": most if most is not None else "?", "resource": pod.resource if pod else "nvidia.com/gpu"}
    look = (Fix("look-at-node"),)
    broken = [h for h in symptoms.seen("k8s-not-integer") if "overcommit" not in h.ref.quote] if symptoms else []
    if broken or (pod and pod.amount and "." in pod.amount.rstrip("0").rstrip(".")):
        yield Finding(certainty=Certainty.CERTAIN, variant="integer", values={"amount": pod.amount if pod and pod.amount else "?"}, refs=(*(h.ref for h in broken), *refs))
    elif asked and most is not None and 0 < most < asked:
        yield Finding(certainty=Certainty.CERTAIN, values=values, refs=refs)
    elif pod and kubernetes and kubernetes.resources and pod.resource not in kubernetes.resources and any(kubernetes.resources.values()):
        yield Finding(certainty=Certainty.CERTAIN, variant="name", values={"resource": pod.resource, "offered": tuple(kubernetes.resources)}, refs=refs)
    elif symptoms and any("gpu" in h.ref.quote.lower() for h in symptoms.seen("k8s-quota")):
        yield Finding(certainty=Certainty.CERTAIN, variant="quota", refs=symptoms.cite("k8s-quota"))
    elif symptoms and symptoms.has("k8s-admission"):
        values |= {"asked": symptoms.value("requested", "k8s-admission") or "?", "most": symptoms.value("available", "k8s-admission") or "?"}
        yield Finding(certainty=Certainty.LIKELY, variant="admission", values=values, fixes=look, refs=(*symptoms.cite("k8s-admission"), *refs))
    elif symptoms and not short and symptoms.has("other-cluster-resources") and all("control-plane" in (h.groups.get("taint") or "") or "master" in (h.groups.get("taint") or "") for h in symptoms.seen("k8s-taint", "k8s-affinity")):
        return  # CPU or memory is what the GPU nodes lack
    elif symptoms and (pod or short or any("gpu" in (h.groups.get("taint") or "") for h in symptoms.seen("k8s-taint"))) and symptoms.has("k8s-taint", "k8s-affinity"):
        taint = symptoms.value("taint", "k8s-taint") or "?"
        yield Finding(certainty=Certainty.LIKELY, variant="taint" if symptoms.has("k8s-taint") else "affinity", values={"taint": taint}, fixes=look,
                      refs=(*symptoms.cite("k8s-taint", "k8s-affinity"), *refs))
    elif short and most:
        yield Finding(certainty=Certainty.LIKELY, variant="busy", values={**values, "held": kubernetes.allocated if kubernetes and kubernetes.allocated is not None else "?"}, fixes=look, refs=refs)
    elif short and not (kubernetes and (kubernetes.capacity == 0 or kubernetes.plugin_absent or kubernetes.plugin_desired == 0)):
        several = symptoms is not None and int(symptoms.value("nodes", "k8s-nodes-available") or 1) > 2
        yield Finding(certainty=Certainty.LIKELY if several else Certainty.POSSIBLE, variant="unknown", values=values, fixes=look, refs=refs)


RULE = Rule(
    slug="k8s-gpu-request-unsatisfiable",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=(),
    settle=("kubectl get nodes -o custom-columns=NAME:.metadata.name,GPU:.status.allocatable.nvidia\\.com/gpu", "kubectl describe pod POD"),
    see=(
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources",
        "https://github.com/NVIDIA/k8s-device-plugin/issues/165",
    ),
    en=Text(
        title="The pod asks for {asked} of {resource}, but no node has more than {most}",
        why="A pod runs on one node and cannot take GPUs of several. Such a pod stays Pending for ever (Insufficient {resource}).",
        fix="Ask for at most {most} per pod and spread the work over several pods (one rank each), or add a node with {asked} GPUs.",
    ),
    zh=Text(
        title="Pod 申请 {asked} 个 {resource}，但没有节点超过 {most} 个",
        why="一个 Pod 只能运行在一个节点上，不能跨节点拿 GPU。这样的 Pod 会一直 Pending（Insufficient {resource}）。",
        fix="每个 Pod 最多申请 {most} 个，把任务拆到多个 Pod（每个一个 rank），或增加有 {asked} 个 GPU 的节点。",
    ),
    variants={
        "busy": (
            Text(
                title="No free {resource}: the node has {most}, and running pods hold them",
                why="GPUs are given whole to one container. The scheduler finds {resource} insufficient ({asked:asked *, }held {held} of {most}); completed pods that still exist hold none, running ones do even when idle.",
                fix="kubectl describe node shows who holds them (Allocated resources); end such pods, wait, add nodes, or share cards by time-slicing, MPS or MIG in the device plugin.",
            ),
            Text(
                title="没有空闲的 {resource}：节点共有 {most} 个，已被运行中的 Pod 占用",
                why="GPU 整卡分配给一个容器。调度器报 {resource} 不足（{asked:申请 *，}已占用 {held}/{most}）；已结束的 Pod 不占用，运行中的即使空闲也占用。",
                fix="用 kubectl describe node 查看占用者（Allocated resources）；结束这些 Pod、等待、增加节点，或在设备插件中用 time-slicing、MPS、MIG 共享。",
            ),
        ),
        "unknown": (
            Text(
                title="No node has a free nvidia.com/gpu for the pod (Insufficient {resource})",
                why="Either all GPUs are held by other pods, or the pod asks for more than one node has, or the nodes offer none because the device plugin does not run. kubectl describe node tells which: compare Capacity, Allocatable and Allocated resources.",
                fix="kubectl describe node | grep nvidia.com/gpu. 0 or missing: device plugin. Less than asked: ask for fewer per pod. All allocated: free some, wait, or add nodes.",
            ),
            Text(
                title="没有节点能为该 Pod 提供空闲的 nvidia.com/gpu（Insufficient {resource}）",
                why="要么所有 GPU 已被其他 Pod 占用，要么 Pod 申请的数量超过单个节点，要么设备插件未运行、节点没有上报 GPU。用 kubectl describe node 对比 Capacity、Allocatable 和 Allocated resources 即可判断。",
                fix="执行 kubectl describe node | grep nvidia.com/gpu。为 0 或没有：检查设备插件。少于申请数：减少每个 Pod 的申请。全部已分配：释放、等待或增加节点。",
            ),
        ),
        "integer": (
            Text(
                title="nvidia.com/gpu: {amount} is not allowed: only whole GPUs, and requests equal to limits",
                why="Extended resources are integers and cannot be overcommitted or split by asking for a part.",
                fix="Ask for 1. To share a card, configure time-slicing, MPS or MIG in the device plugin and ask for 1 of what it offers.",
            ),
            Text(
                title="不允许 nvidia.com/gpu: {amount}：只能是整数，且 requests 必须等于 limits",
                why="扩展资源只能取整数，不能超卖，也不能通过申请小数来切分。",
                fix="申请 1。要共享一块卡，请在设备插件中配置 time-slicing、MPS 或 MIG，再申请其提供的 1 份。",
            ),
        ),
        "name": (
            Text(
                title="The pod asks for {resource}, but the nodes offer {offered}",
                why="The resource's name must be the one that the device plugin registers: MIG (strategy mixed) gives nvidia.com/mig-..., time-slicing with renaming gives nvidia.com/gpu.shared.",
                fix="Ask for one of the offered names ({offered}), or change the plugin's strategy.",
            ),
            Text(
                title="Pod 申请 {resource}，而节点提供的是 {offered}",
                why="资源名必须与设备插件注册的一致：MIG（mixed 策略）为 nvidia.com/mig-...，启用重命名的 time-slicing 为 nvidia.com/gpu.shared。",
                fix="改为申请节点提供的名称（{offered}），或修改插件的策略。",
            ),
        ),
        "quota": (
            Text(
                title="The namespace's quota of nvidia.com/gpu is used up",
                why="A ResourceQuota (requests.nvidia.com/gpu) limits the namespace, though nodes may have free GPUs.",
                fix="kubectl describe quota; end other pods of the namespace, ask for fewer GPUs, or have the quota raised.",
            ),
            Text(
                title="该命名空间的 nvidia.com/gpu 配额已用完",
                why="ResourceQuota（requests.nvidia.com/gpu）限制了该命名空间，即使节点上还有空闲 GPU。",
                fix="kubectl describe quota 查看；结束该命名空间的其他 Pod、减少申请，或提高配额。",
            ),
        ),
        "admission": (
            Text(
                title="The kubelet could not allocate the GPUs{asked:: * asked}{most:, * available}",
                why="The scheduler counted on GPUs that the node's plugin no longer offers: it was restarting, a device became unhealthy, or another pod had taken it (UnexpectedAdmissionError).",
                fix="Delete the failed pod, so that its controller makes a new one; check Allocatable of the node and the log of the nvidia-device-plugin.",
            ),
            Text(
                title="kubelet 无法分配 GPU{asked:：申请 * 个}{most:，可用 * 个}",
                why="调度器以为可用的 GPU，节点上的插件已不再提供：插件正在重启、设备变为 unhealthy，或已被其他 Pod 占用（UnexpectedAdmissionError）。",
                fix="删除失败的 Pod，让控制器重建；检查节点的 Allocatable 和 nvidia-device-plugin 的日志。",
            ),
        ),
        "taint": (
            Text(
                title="The GPU nodes have a taint that the pod does not tolerate ({taint})",
                why="GPU nodes are often tainted, so that only pods with a toleration (and a GPU request) come there.",
                fix="Add tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}] to the pod, with the taint's own key; kubectl describe node shows the taints.",
            ),
            Text(
                title="GPU 节点上有该 Pod 未容忍的污点（{taint}）",
                why="GPU 节点通常带有污点，只允许带相应 toleration（并申请 GPU）的 Pod 调度上来。",
                fix="给 Pod 加上 tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]（使用实际的污点 key）；kubectl describe node 可查看污点。",
            ),
        ),
        "affinity": (
            Text(
                title="No GPU node matches the pod's node selector or affinity",
                why="The labels that the pod asks for are on no node, so no GPU node is considered.",
                fix="kubectl get nodes --show-labels; correct nodeSelector or affinity, or label the GPU node (gpu-feature-discovery sets nvidia.com/gpu.product).",
            ),
            Text(
                title="没有 GPU 节点匹配 Pod 的 nodeSelector 或 affinity",
                why="没有节点带有 Pod 要求的标签，因此不会考虑任何 GPU 节点。",
                fix="kubectl get nodes --show-labels 查看；修正 nodeSelector 或 affinity，或给 GPU 节点打标签（gpu-feature-discovery 会设置 nvidia.com/gpu.product）。",
            ),
        ),
    },
)
