"""What nodes tell of their GPUs: the device plugin's resources, and the labels of NVIDIA's GPU feature discovery
(https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md). Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ongpu.lazy import dataclass, field
from ongpu.queue.answers import at, rows
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.parts import MANAGED, MINE, condition, quantity, text
from ongpu.queue.job import Card, Spec

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"  # memory in MiB
MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"
SHARED = "-SHARED"  # what the plugin adds to the product's name where a GPU is given to several at once
UNFIT = "ongpu/gpu-unfit"  # the taint
PROBLEM = "GPUProblem"  # the condition, of ours and of the node-problem-detector plugin that `ongpu gate install kubernetes` prints
_MIG = re.compile(r"(?:mig-)?(\d{1,2}g\.\d{1,4}gb(?:\.me)?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. count: of the resource that is asked for, as it may be given out. memory: MiB of each GPU. unfit: why it gets none."""

    name: str
    count: int = 0
    product: str = ""
    memory: int | None = None
    unfit: str = ""
    slug: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def nodes(listed: Any, resource: str) -> tuple[Node, ...]:
    """Those of a NodeList that have, or could have, such GPUs."""
    found = []
    for row in rows(at(listed, "items")):
        told = at(row, "metadata", "labels")
        labels = {key: text(value) for key, value in told.items()} if isinstance(told, dict) else {}
        memory = labels.get(MEMORY, "")
        unfit, slug = _unfit(row)
        node = Node(
            name=text(at(row, "metadata", "name")), count=int(quantity(at(row, "status", "allocatable", resource)) or 0),
            product=labels.get(PRODUCT, ""), memory=int(memory) if memory.isascii() and memory.isdigit() and len(memory) < 9 else None,
            unfit=unfit, slug=slug, labels=labels,
        )  # fmt: skip
        if node.count or node.product:
            found.append(node)
    return tuple(found)


def _unfit(row: Any) -> tuple[str, str]:
    """Why no job may go there, and the slug of our own finding."""
    for taint in rows(at(row, "spec", "taints")):
        if at(taint, "key") == UNFIT:
            return "taint", text(at(taint, "value"))
    problem = condition(row, PROBLEM)
    if at(problem, "status") == "True":
        return "condition", text(at(problem, "message")).partition(":")[0][:80]
    if at(row, "spec", "unschedulable") is True:
        return "cordoned", ""
    return ("", "") if at(condition(row, "Ready"), "status") == "True" else ("not ready", "")


def cards(here: Iterable[Node], jobs: Mapping[str, Sequence[str]], others: Mapping[str, Sequence[str]]) -> tuple[Card, ...]:
    """A card for each GPU that a node gives out. The API tells how many GPUs a pod has, not which: they stand in order.

    jobs, others: by node, a name for each GPU that is taken.
    """
    found = []
    for node in here:
        mine, theirs = list(jobs.get(node.name, ())), list(others.get(node.name, ()))
        for place in range(min(node.count, 64)):
            job = (mine.pop(0),) if mine else ()
            holder = theirs.pop(0) if theirs and not job else ""
            found.append(Card(
                id=f"{node.name}/{place}", index=place, name=node.product, node=node.name, memory=node.memory,
                state="drained" if node.unfit else "ok", slug=node.slug, jobs=job, holder=holder,
            ))  # fmt: skip
    return tuple(found)


def others(pods: Iterable[Any], resource: str) -> dict[str, list[str]]:
    """By node: for each GPU, the pod that has it, where it is none of ours."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        if at(pod, "metadata", "labels", MANAGED) == MINE:
            continue
        count = sum(int(quantity(at(one, "resources", "limits", resource)) or 0) for one in rows(at(pod, "spec", "containers")))
        name = f"{text(at(pod, 'metadata', 'namespace'))}/{text(at(pod, 'metadata', 'name'))}"
        found.setdefault(text(at(pod, "spec", "nodeName")), []).extend([name] * min(max(count, 0), 64))
    return found


def resource_of(spec: Spec, plain: str) -> str:
    """The resource that is asked for: the plain one, or a MIG slice's where the model names one ("1g.10gb")."""
    slice_ = _MIG.fullmatch(spec.model)
    return f"nvidia.com/mig-{slice_[1].lower()}" if slice_ else plain


def terms(spec: Spec, resource: str, here: Sequence[Node] | None) -> list[dict[str, Any]]:
    """The node selector terms (one of them has to be met) for the GPUs that are asked for; [] for any.

    here: the nodes; None: they may not be listed. Raises EngineError where the wish cannot be said, or no node is so.
    """
    wishes = spec.memory is not None or bool(spec.model) or spec.capability is not None
    if not spec.gpus or not wishes:
        return []
    if resource.startswith("nvidia.com/mig-"):
        if spec.memory is not None or spec.capability is not None:
            raise EngineError("a MIG slice names its memory itself: leave --memory and --capability out", "MIG 切片已写明显存：请去掉 --memory 与 --capability")  # fmt: skip # noqa: E501
        return []
    if not resource.startswith("nvidia.com/"):
        raise EngineError(f"for {resource} there are no labels of model, memory and capability", f"{resource} 没有型号、显存与计算能力标签")
    every: list[dict[str, Any]] = []
    if spec.model:
        every.append({"key": PRODUCT, "operator": "In", "values": _products(spec.model, here)})
    if spec.memory is not None:
        every.append({"key": MEMORY, "operator": "Gt", "values": [str(spec.memory - 1)]})
    if here is not None and not any(_fits(spec, node) for node in here):
        raise _nothing_fits(spec, here)
    if spec.capability is None:
        return [{"matchExpressions": every}]
    major, minor = spec.capability
    if not minor:  # a value may not be "-1"
        return [{"matchExpressions": [*every, {"key": MAJOR, "operator": "Gt", "values": [str(max(major - 1, 0))]}]}]
    newer = [*every, {"key": MAJOR, "operator": "Gt", "values": [str(major)]}]
    same = [*every, {"key": MAJOR, "operator": "In", "values": [str(major)]}, {"key": MINOR, "operator": "Gt", "values": [str(minor - 1)]}]
    return [{"matchExpressions": newer}, {"matchExpressions": same}]


def _products(model: str, here: Sequence[Node] | None) -> list[str]:
    """The label's values that hold the words of the model. One that is whole ("NVIDIA-...") is taken as it is: an autoscaler may add it."""
    found = sorted({node.product for node in here or () if _holds(model, node.product) and not node.product.endswith(SHARED)})
    if found:
        return found
    if model.upper().startswith(("NVIDIA-", "TESLA-")):
        return [model]
    if here is None:
        raise EngineError(
            f"--model {model}: the nodes may not be listed, so their labels are not known; give the whole value of {PRODUCT}",
            f"--model {model}：没有列出节点的权限，无法得知标签；请写出 {PRODUCT} 的完整值",
        )
    raise _nothing_fits(Spec(command=(), model=model), here)


def _holds(model: str, product: str) -> bool:
    return model.lower().replace(" ", "-") in product.lower()


def _fits(spec: Spec, node: Node) -> bool:
    if spec.model and not (_holds(spec.model, node.product) or spec.model.upper().startswith(("NVIDIA-", "TESLA-"))):
        return False
    if spec.memory is not None and (node.memory is None or node.memory < spec.memory):
        return False
    have = (node.labels.get(MAJOR, ""), node.labels.get(MINOR, ""))
    return spec.capability is None or (have[0].isdigit() and have[1].isdigit() and (int(have[0]), int(have[1])) >= spec.capability)


def _nothing_fits(spec: Spec, here: Sequence[Node]) -> EngineError:
    from ongpu.queue.words import size

    kinds = sorted({f"{node.product or '?'}" + (f" ({size(node.memory)})" if node.memory else "") for node in here})
    there = ", ".join(kinds[:12]) or "-"
    wants = ", ".join([
        *([spec.model] if spec.model else []), *([f">= {size(spec.memory)}"] if spec.memory else []),
        *([f"compute capability >= {spec.capability[0]}.{spec.capability[1]}"] if spec.capability else []),
    ])  # fmt: skip
    return EngineError(
        f"no node's labels say that it has such a GPU ({wants}); there is: {there}",
        f"没有节点的标签表明有这样的 GPU（{wants}）；现有：{there}",
    )
