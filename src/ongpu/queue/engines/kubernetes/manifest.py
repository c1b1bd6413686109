"""A job as a manifest of batch/v1 (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/). Pure."""

import json
import math
from collections.abc import Sequence
from typing import Any

from ongpu.queue.asked import to_json
from ongpu.queue.config import Kubernetes as Settings
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.parts import MANAGED, MINE, label, name_of
from ongpu.queue.job import Spec
from ongpu.queue.words import ranges

HONOURS = frozenset({
    "name", "gpus", "memory", "model", "capability", "limit", "cpus", "host_memory", "folder", "environ", "project", "priority", "index",
    "at_once", "retries", "retry_on", "checkpoint", "grace", "on_reboot",
})  # fmt: skip
GPU_FAULT = 75  # EX_TEMPFAIL (sysexits.h): what a program ends with that found its GPU broken
ADVISORY = {
    "cpus": ("requested, not a limit", "按请求量调度，不设上限"),
    "retry_on": (
        f"Kubernetes cannot see why a program failed: it is tried again where it ends with {GPU_FAULT}; a pod that its node lost is made "
        "anew in any case",
        f"Kubernetes 看不到程序失败的原因：退出码为 {GPU_FAULT} 时重试；因节点丢失的 Pod 总会重建",
    ),
    "retries": (
        f"with --retry-on gpu-fault: where the program ends with {GPU_FAULT}",
        f"配合 --retry-on gpu-fault：程序以 {GPU_FAULT} 退出时重试",
    ),
}
QUEUE = "kueue.x-k8s.io/queue-name"
INDEX = "batch.kubernetes.io/job-completion-index"
KEPT, HELD = f"{MINE}/spec", f"{MINE}/held"  # annotations
CONTAINER = "main"
ARRAY = "array"  # of what is kept: the indices
MOST_ARRAY = 100_000  # with more, parallelism is bounded and maxFailedIndexes needed
MOST_LISTED = 10_000  # of those that do not count from 0: they stand in the command
MOST_ANNOTATION = 200 << 10  # bytes; the API takes 256 KiB of all together
# `index` of an array that does not count from 0: looked up by the pod's own number. What follows: "sh", the indices, "--", the command.
_LOOK_UP = 'shift "$JOB_COMPLETION_INDEX"; export ONGPU_ARRAY_INDEX="$1"; while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


def job(
    specs: Sequence[Spec], name: str, user: str, settings: Settings, resource: str, terms: Sequence[Any], keep: float
) -> dict[str, Any]:
    """The Job. specs: one, or those of an array, alike but for `index`. terms: of its nodes. keep: seconds that it is remembered.

    Raises EngineError for what cannot be said.
    """
    spec = specs[0]
    _possible(spec, settings)
    array = [one.index for one in specs if one.index is not None]
    labels = {MANAGED: MINE, f"{MINE}/user": label(user)} | ({f"{MINE}/project": label(spec.project)} if spec.project else {})
    body: dict[str, Any] = {
        "backoffLimit": spec.retries, "ttlSecondsAfterFinished": int(keep),
        "podFailurePolicy": {"rules": _failures(spec, bool(array))},
        "template": {"metadata": {"labels": labels}, "spec": _pod(spec, array, name, settings, resource, terms)},
    }  # fmt: skip
    if array:
        most = MOST_ARRAY if _counted(array) else MOST_LISTED
        if len(array) > most:
            raise EngineError(f"an array such as this has at most {most} jobs here", f"此引擎的这种数组最多 {most} 个作业")
        del body["backoffLimit"]  # each index has its own
        body |= {"completionMode": "Indexed", "completions": len(array), "backoffLimitPerIndex": spec.retries}
        body["parallelism"] = min(spec.at_once or len(array), len(array))
    more = dict(labels)
    if settings.queue:
        more[QUEUE] = settings.queue
        body["suspend"] = True  # Kueue starts it
    kept = {key: value for key, value in to_json(spec).items() if key not in ("environ", "index")}
    note = json.dumps(kept | ({ARRAY: ranges(array)} if array else {}), ensure_ascii=False)
    if len(note.encode("utf-8", "surrogateescape")) > MOST_ANNOTATION:
        raise EngineError("the command is too long for Kubernetes: put it into a file", "命令过长，Kubernetes 无法接受：请写入文件")
    manifest = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": more, "annotations": {KEPT: note}}, "spec": body,
    }  # fmt: skip
    try:
        json.dumps(manifest, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        words = ("Kubernetes takes no command, folder or variable that is not UTF-8", "Kubernetes 不接受非 UTF-8 的命令、目录或变量")
        raise EngineError(*words) from None
    return manifest


def name(spec: Spec, tail: str) -> str:
    """A name for it: its own, as far as a name may hold it, and the tail. Short enough for its pods' names."""
    return f"{name_of(spec.name) or 'job'}-{tail}"


def _possible(spec: Spec, settings: Settings) -> None:
    if not settings.image:
        raise EngineError(
            "which image? set [kubernetes] image in queue.toml, or ONGPU_IMAGE",
            "使用哪个镜像？请在 queue.toml 的 [kubernetes] 中设 image，或设环境变量 ONGPU_IMAGE",
        )
    if spec.priority and spec.priority not in settings.priorities:
        there = ", ".join(f"{value}: {key}" for value, key in sorted(settings.priorities.items())) or "-"
        raise EngineError(
            f"--priority {spec.priority}: no priority class is set for it ([kubernetes.priority_classes] in queue.toml: {there})",
            f"--priority {spec.priority}：没有对应的优先级类（queue.toml 的 [kubernetes.priority_classes]：{there}）",
        )
    if spec.checkpoint and spec.checkpoint != "SIGTERM":
        raise EngineError(
            f"--checkpoint {spec.checkpoint}: Kubernetes sends no other signal than SIGTERM",
            f"--checkpoint {spec.checkpoint}：Kubernetes 只发送 SIGTERM",
        )


def _failures(spec: Spec, array: bool) -> list[dict[str, Any]]:
    """What becomes of a pod that failed; the first rule that fits. What none fits counts against `retries`.

    A pod that was taken from the job (its node drained, lost, tainted; pre-empted) is made anew, or fails it, by `on_reboot`.
    """
    fail = "FailIndex" if array else "FailJob"
    rules: list[dict[str, Any]] = [{
        "action": "Ignore" if spec.on_reboot == "requeue" else fail,
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }]  # fmt: skip
    if spec.retries and spec.retry_on == "gpu-fault":
        codes = {"containerName": CONTAINER, "operator": "NotIn", "values": [GPU_FAULT]}
        rules.append({"action": fail, "onExitCodes": codes})
    return rules


def _pod(spec: Spec, array: Sequence[int], name: str, settings: Settings, resource: str, terms: Sequence[Any]) -> dict[str, Any]:
    volumes, mounts = _volumes(spec, settings)
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if spec.gpus:
        limits[resource] = str(spec.gpus)
    if spec.cpus:
        requests["cpu"] = str(spec.cpus)
    if spec.host_memory:
        requests["memory"] = limits["memory"] = f"{spec.host_memory}Mi"
    container: dict[str, Any] = {
        "name": CONTAINER, "image": settings.image, "command": [plain(word) for word in _command(spec, array)],
        "env": _variables(spec, array, name), "resources": {k: v for k, v in (("requests", requests), ("limits", limits)) if v},
        "volumeMounts": mounts,
    }  # fmt: skip
    if spec.folder:
        container["workingDir"] = spec.folder
    pod: dict[str, Any] = {
        "restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": math.ceil(spec.grace), "volumes": volumes,
    }  # fmt: skip
    if spec.limit:
        # of each pod, from when its node took it: the Job's own would count the time that it waits for GPUs
        pod["activeDeadlineSeconds"] = math.ceil(spec.limit)
    if spec.gpus:
        pod["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]  # as nodes with GPUs are tainted by custom
    if terms:
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    if spec.priority in settings.priorities:
        pod["priorityClassName"] = settings.priorities[spec.priority]
    if settings.service_account:
        pod["serviceAccountName"] = settings.service_account
    return pod


def _command(spec: Spec, array: Sequence[int]) -> list[str]:
    if not array or _counted(array):
        return list(spec.command)
    return ["sh", "-c", _LOOK_UP, "sh", *(str(index) for index in array), "--", *spec.command]


def _counted(array: Sequence[int]) -> bool:
    """Whether it counts from 0, as Kubernetes does."""
    return list(array) == list(range(len(array)))


def _variables(spec: Spec, array: Sequence[int], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": key, "value": plain(value)} for key, value in spec.environ.items()]
    found.append({"name": "ONGPU_JOB", "value": name})
    if array and _counted(array):
        found.append({"name": "ONGPU_ARRAY_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}})
    if not spec.gpus and "NVIDIA_VISIBLE_DEVICES" not in spec.environ:
        # CUDA's images say "all", and where NVIDIA's runtime is the default they would see every GPU of the node
        found.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
    return found


def plain(word: str) -> str:
    """So that Kubernetes leaves it as it is: it would put variables in the place of $(NAME), and takes $$ for $."""
    return word.replace("$", "$$")


def _volumes(spec: Spec, settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """/dev/shm as large as its memory allows (64 MiB where nobody says: too little for data loaders), and the claims of the settings."""
    shm: dict[str, Any] = {"medium": "Memory"}
    if spec.host_memory:
        shm["sizeLimit"] = f"{max(64, spec.host_memory // 2)}Mi"
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": shm}]
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]
    for place, told in enumerate(settings.mounts):
        claim, _, path = told.partition(":")
        if not claim or not path.startswith("/"):
            raise EngineError(f"[kubernetes] mounts: {told}: write CLAIM:/path", f"[kubernetes] mounts：{told}：请写 声明名:/路径")
        volumes.append({"name": f"claim-{place}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"claim-{place}", "mountPath": path})
    return volumes, mounts
