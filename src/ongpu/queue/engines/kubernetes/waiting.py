"""Why a job waits or ended so, from the scheduler's words, Kueue's, and the events. Pure.

The words: kubernetes/pkg/scheduler/framework (FitError: "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, ..."), and
kueue/pkg/scheduler/flavorassigner ("insufficient unused quota for X in flavor F, N more needed").
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ongpu.queue.answers import at, rows
from ongpu.queue.engines.kubernetes.parts import condition, is_true, text
from ongpu.queue.engines.kubernetes.telling import refusal
from ongpu.queue.remote import one_line

Line = tuple[str, str]
_NODES = re.compile(r"0/(\d{1,6}) nodes are available: (.{1,8192})", re.DOTALL)
_PART = re.compile(r"(\d{1,6}) (.{1,400})", re.DOTALL)
_INSUFFICIENT = re.compile(r"Insufficient (\S{1,253})")
_TAINT = re.compile(r"node\(s\) had (?:untolerated )?taints? ?(?:\{([^{}]{1,400}?):? ?([^{}:]{0,253})\})?.{0,80}")
_UNUSED = re.compile(r"insufficient unused quota (?:in cohort )?for (\S{1,253}) in flavor ([^\s,]{1,253}), (\S{1,40}) more need")
_NEVER = re.compile(r"insufficient quota for (\S{1,253}) in flavor ([^\s,]{1,253})")
# What a part of the scheduler's message says, by its beginning: (English, Chinese); {n}: how many nodes.
_KNOWN: Sequence[tuple[str, Line]] = (
    ("node(s) didn't match Pod's node affinity", (
        "{n} have another GPU than was asked for, or lack the labels of NVIDIA's GPU feature discovery",
        "{n} 个节点的 GPU 不符合要求，或缺少 NVIDIA GPU feature discovery 的标签",
    )),
    ("node(s) were unschedulable", ("{n} are cordoned", "{n} 个节点已被 cordon")),
    ("node(s) didn't match PersistentVolume", ("{n} cannot reach its volume", "{n} 个节点无法访问所需的卷")),
    ("node(s) had volume node affinity conflict", ("{n} cannot reach its volume", "{n} 个节点无法访问所需的卷")),
    ("Too many pods", ("{n} run as many pods as they may", "{n} 个节点的 Pod 数已达上限")),
    ("node(s) didn't have free ports", ("{n} have no free port", "{n} 个节点没有空闲端口")),
)  # fmt: skip
_CONDITIONS = {
    "unreachable": ("have been lost", "失联"), "not-ready": ("are not ready", "未就绪"),
    "disk-pressure": ("have no disk space left", "磁盘不足"), "memory-pressure": ("have no memory left", "内存不足"),
    "unschedulable": ("are cordoned", "已被 cordon"),
}  # fmt: skip
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")


def lines(job: Any, pod: Any, workload: Any, events: Iterable[Any], kueue: bool, plain: str) -> list[Line]:
    """Of one that waits. pod: its last, None where there is none. workload: Kueue's. kueue: whether it is to come from there.
    plain: the resource of a whole GPU."""
    found: list[Line] = []
    if at(job, "metadata", "annotations", "ongpu/held"):
        found.append(("it is held: ongpu release", "已挂起：用 ongpu release 释放"))
    if kueue:
        found += quota(workload)
    scheduled = condition(pod, "PodScheduled")
    if at(scheduled, "status") == "False":
        found += unschedulable(text(at(scheduled, "message"), 8192), plain)
    gates = rows(at(pod, "spec", "schedulingGates"))
    if gates:
        names = ", ".join(text(at(one, "name"), 100) for one in gates[:4])
        found.append((f"another controller holds its pod back: {names}", f"其他控制器暂缓了它的 Pod：{names}"))
    found += container(pod)
    told = {line[0] for line in found}
    for event in reversed(list(events)):
        if at(event, "type") == "Warning" and text(at(event, "reason")) not in ("FailedScheduling", "BackOff"):
            words = f"{text(at(event, 'reason'), 80)}: {one_line(text(at(event, 'message'), 2000))}"
            if words not in told and len(found) < 6:
                told.add(words)
                found.append((words, words))
    return found


def unschedulable(message: str, plain: str) -> list[Line]:
    """The scheduler's message, in parts. What is not known is given as it is."""
    match = _NODES.match(message.strip().partition(". ")[0])  # after it: what pre-emption, or new claims, would bring
    if match is None:
        return [(one_line(message), one_line(message))] if message.strip() else []
    nodes, parts = match[1], _parts(match[2])
    english, chinese = [], []
    for count, words in parts:
        one = _part(count, words.strip(), plain)
        english.append(one[0])
        chinese.append(one[1])
    return [(
        f"no node of {nodes} can take it now: {'; '.join(english)}",
        f"{nodes} 个节点目前都无法接纳它：{'；'.join(chinese)}",
    )]  # fmt: skip


def _parts(text_: str) -> list[tuple[str, str]]:
    """ "2 Insufficient nvidia.com/gpu, 3 node(s) had ...": at commas before a number, for a taint may hold commas of its own."""
    found = []
    for piece in re.split(r", (?=\d{1,6} )", text_):
        match = _PART.match(piece.strip())
        if match:
            found.append((match[1], match[2].rstrip(".")))
    return found


def _part(count: str, words: str, plain: str) -> Line:
    if short := _INSUFFICIENT.match(words):
        what = short[1]
        if what == plain or what.startswith("nvidia.com/"):
            return f"{count} have too few free GPUs ({what})", f"{count} 个节点空闲 GPU 不足（{what}）"
        return f"{count} have too little free {what}", f"{count} 个节点空闲 {what} 不足"
    if taint := _TAINT.match(words):
        key, value = taint[1] or "", taint[2] or ""
        if key == "ongpu/gpu-unfit":
            return f"{count} have a GPU that ongpu found unfit ({value})", f"{count} 个节点的 GPU 被 ongpu 判为不可用（{value}）"
        if key.startswith("node.kubernetes.io/") and (known := _CONDITIONS.get(key.rpartition("/")[2])):
            return f"{count} {known[0]}", f"{count} 个节点{known[1]}"
        shown = f"{key}{'=' if value else ''}{value}" or "?"
        return f"{count} are set apart by the taint {shown}", f"{count} 个节点带有污点 {shown}"
    for begin, (english, chinese) in _KNOWN:
        if words.startswith(begin):
            return english.format(n=count), chinese.format(n=count)
    return f"{count} {one_line(words, 160)}", f"{count} 个：{one_line(words, 160)}"


def quota(workload: Any) -> list[Line]:
    """What Kueue says of it."""
    if workload is None:
        return [(
            "Kueue has made no Workload of it: it does not run here, or the queue's name is wrong",
            "Kueue 没有为它建立 Workload：Kueue 未运行，或队列名有误",
        )]  # fmt: skip
    if at(workload, "spec", "active") is False:
        return [("Kueue holds it back: its Workload is not active", "Kueue 暂缓了它：其 Workload 未激活")]
    if is_true(workload, "Admitted"):
        return []
    reserved, evicted = condition(workload, "QuotaReserved"), condition(workload, "Evicted")
    found: list[Line] = []
    if at(evicted, "status") == "True":
        words = one_line(text(at(evicted, "message"), 2000))
        found.append(
            (
                f"Kueue took it back ({text(at(evicted, 'reason'), 60)}): {words}",
                f"Kueue 收回了它（{text(at(evicted, 'reason'), 60)}）：{words}",
            )
        )
    if at(reserved, "status") == "True":
        waiting = [text(at(one, "name"), 80) for one in rows(at(workload, "status", "admissionChecks")) if at(one, "state") != "Ready"]
        shown = ", ".join(waiting) or "?"
        return [
            *found,
            (f"its quota is reserved; Kueue's admission checks are not done: {shown}", f"配额已预留；Kueue 准入检查尚未完成：{shown}"),
        ]
    message = text(at(reserved, "message"), 8192)
    short = _UNUSED.findall(message)[:4]
    never = _NEVER.findall(message)[:4]
    if short:
        english = ", ".join(f"{more} more of {what} ({flavor})" for what, flavor, more in short)
        found.append((f"the queue's quota is used: it needs {english}", f"队列配额已用完：还需要 {english}"))
    elif never:
        english = ", ".join(f"{what} ({flavor})" for what, flavor in never)
        found.append((f"it asks for more than the queue's whole quota of {english}", f"它要的超过队列的全部配额：{english}"))
    elif message:
        found.append((f"Kueue: {one_line(message)}", f"Kueue：{one_line(message)}"))
    else:
        found.append(("it waits its turn in Kueue's queue", "正在 Kueue 队列中排队"))
    return found


def container(pod: Any) -> list[Line]:
    """What keeps a pod that has its node from starting."""
    for row in rows(at(pod, "status", "initContainerStatuses")) + rows(at(pod, "status", "containerStatuses")):
        waiting = at(row, "state", "waiting")
        reason = text(at(waiting, "reason"), 80)
        if not reason or reason in ("ContainerCreating", "PodInitializing"):
            continue
        words = one_line(text(at(waiting, "message"), 2000))
        if reason in _IMAGE:
            image = text(at(row, "image"), 200)
            return [(f"its image cannot be had: {image}: {words or reason}", f"无法获取镜像：{image}：{words or reason}")]
        return [(f"its container cannot start: {reason}: {words}", f"容器无法启动：{reason}：{words}")]
    return []


def ended(job: Any, pod: Any) -> list[Line]:
    """Of one that failed: what Kubernetes says."""
    found = container(pod)
    if refused := refusal(pod):
        node = text(at(pod, "spec", "nodeName")) or "?"
        found.append((f"the node {node} did not take its pod: {refused}", f"节点 {node} 拒绝了它的 Pod：{refused}"))
    stopped = next((at(row, "state", "terminated") for row in rows(at(pod, "status", "containerStatuses"))), None)
    if at(stopped, "reason") == "OOMKilled":
        found.append(("it used more memory (RAM) than its limit: --host-memory", "内存用量超过上限：--host-memory"))
    taken = condition(pod, "DisruptionTarget")
    if at(taken, "status") == "True":
        words = one_line(f"{text(at(taken, 'reason'), 80)}: {text(at(taken, 'message'), 1000)}")
        found.append((f"its pod was taken away: {words}", f"Pod 被移走：{words}"))
    failed = condition(job, "Failed")
    if at(failed, "status") == "True":
        words = one_line(f"{text(at(failed, 'reason'), 80)}: {text(at(failed, 'message'), 1000)}")
        found.append((words, words))
    return found
