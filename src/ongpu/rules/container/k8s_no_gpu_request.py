"""The pod asks Kubernetes for no GPU."""

import re
from collections.abc import Iterator

from ongpu.facts.container import Container, Kubernetes
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_WANTS = lazy(r"nvidia|cuda|gpu|nvcr\.io|pytorch|tensorflow|ollama|vllm|text-generation|triton|jax|rapids|torch|llama|sglang|stable-diffusion|whisper", re.I)


def check(
    kubernetes: Kubernetes | None, symptoms: Symptoms | None, torch: Torch | None, tensorflow: TensorFlow | None, jax: Jax | None,
    onnx: OnnxRuntime | None, container: Container | None,
) -> Iterator[Finding]:
    missed = blind(symptoms, torch, tensorflow, jax, onnx)
    broken = symptoms.cite("nvml-driver-not-loaded", "toolkit-cli-error", most=1) if symptoms else ()
    void = symptoms.cite("visible-devices-void") if symptoms else ()
    refused = symptoms.cite("k8s-not-integer") if symptoms and any("overcommit" in h.ref.quote for h in symptoms.seen("k8s-not-integer")) else ()
    pods = kubernetes.pods if kubernetes else ()
    only = next((p for p in pods if p.gpus and not p.limits), None)
    if refused or only:
        yield Finding(certainty=Certainty.CERTAIN, variant="limits", refs=(*refused, *((only.ref,) if only and only.ref else ())))
        return
    if symptoms and symptoms.has("k8s-insufficient", "k8s-quota", "k8s-admission"):
        return
    bare = next((p for p in pods if not p.gpus and not p.amount), None)
    asked = next((p for p in pods if p.gpus), None)
    part = next((p for p in pods if p.gpus and p.without), None)
    if bare and not asked:
        wants = bool(_WANTS.search(" ".join(bare.images))) or bool(bare.selector and _WANTS.search(" ".join(bare.selector)))
        wants = wants and not (symptoms and any(hit.name.startswith("other-") for hit in symptoms.hits))
        if missed or void or wants or broken:
            sure = Certainty.CERTAIN if missed or void else Certainty.LIKELY if broken or (bare.selector and wants) else Certainty.POSSIBLE
            yield Finding(certainty=sure, values={"pod": bare.name or "?", "image": bare.images[:1]}, refs=(*((bare.ref,) if bare.ref else ()), *missed, *void, *broken))
    elif part and (missed or void):
        yield Finding(certainty=Certainty.LIKELY, variant="container", values={"containers": part.without}, refs=(*((part.ref,) if part.ref else ()), *missed, *void))
    elif void and kubernetes is not None:
        yield Finding(certainty=Certainty.LIKELY, values={"pod": "?", "image": ""}, refs=(*void, *missed))
    elif symptoms and symptoms.has("k8s-empty-resources"):
        yield Finding(certainty=Certainty.LIKELY, values={"pod": "?", "image": ""}, refs=(*symptoms.cite("k8s-empty-resources"), *missed))
    elif symptoms and symptoms.has("k8s-no-request-told") and (missed or kubernetes):
        yield Finding(certainty=Certainty.LIKELY, values={"pod": "?", "image": ""}, refs=(*symptoms.cite("k8s-no-request-told"), *missed))


RULE = Rule(
    slug="k8s-no-gpu-request",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-not-installed", "driver-module-not-loaded", "cuda-unavailable", "container-no-gpu-flag", "cuda-lib-missing", "device-node-missing", "no-nvidia-gpu", "container-toolkit-missing"),
    settle=("kubectl get pod POD -o jsonpath='{.spec.containers[*].resources}'",),
    see=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/", "https://github.com/NVIDIA/k8s-device-plugin#running-gpu-jobs"),
    en=Text(
        title="The pod asks for no GPU: no container has nvidia.com/gpu under resources.limits",
        why="A container gets the devices and the driver's libraries only when its limits name nvidia.com/gpu. A node selector or a GPU image alone puts the pod on a GPU node, but gives it no GPU.",
        fix="Add resources: {{limits: {{nvidia.com/gpu: 1}}}} to the container and create the pod anew. If the cluster has no nvidia default runtime, set runtimeClassName: nvidia, too.",
    ),
    zh=Text(
        title="Pod 没有申请 GPU：没有任何容器在 resources.limits 中写 nvidia.com/gpu",
        why="只有容器的 limits 写明 nvidia.com/gpu，才会得到设备和驱动库。仅有 nodeSelector 或 GPU 镜像，只会把 Pod 调度到 GPU 节点，并不会给它 GPU。",
        fix="在容器中加入 resources: {{limits: {{nvidia.com/gpu: 1}}}} 并重建 Pod。如果集群的默认运行时不是 nvidia，还要设置 runtimeClassName: nvidia。",
    ),
    variants={
        "limits": (
            Text(
                title="The GPU stands under requests only: Kubernetes takes nvidia.com/gpu from resources.limits",
                why="Extended resources cannot be overcommitted: limits must be given, and requests, if given, must be equal to them.",
                fix="Write resources: {{limits: {{nvidia.com/gpu: 1}}}}; requests may be left out.",
            ),
            Text(
                title="GPU 只写在 requests 中：Kubernetes 要求写在 resources.limits 的 nvidia.com/gpu",
                why="扩展资源不能超卖：必须给出 limits；如果同时写 requests，两者必须相等。",
                fix="写成 resources: {{limits: {{nvidia.com/gpu: 1}}}}，requests 可以省略。",
            ),
        ),
        "container": (
            Text(
                title="Only another container of the pod asks for nvidia.com/gpu, not {containers}",
                why="GPUs are given to containers, not to the pod: each container that computes needs its own limit.",
                fix="Move resources.limits nvidia.com/gpu: 1 to the container that uses the GPU and create the pod anew.",
            ),
            Text(
                title="申请 nvidia.com/gpu 的是 Pod 中的另一个容器，而不是 {containers}",
                why="GPU 分配给容器而不是 Pod：每个要计算的容器都需要自己的 limits。",
                fix="把 resources.limits 的 nvidia.com/gpu: 1 写到真正使用 GPU 的容器上，并重建 Pod。",
            ),
        ),
    },
)
