"""What kubectl says of nodes, pods, DaemonSets and events."""


import re
from collections.abc import Iterable, Iterator

from ongpu.facts.container import Kubernetes, Pod
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

_BLOCK = lazy(r"^[ \t]*(?P<name>Capacity|Allocatable|Allocated resources|Limits|Requests):[ \t]*$", re.IGNORECASE)
_RESOURCE = lazy(r"^[ \t]*(?P<name>[\w.-]+/(?:[\w.-]*gpu[\w.-]*|mig-[\w.]+|vgpu[\w-]*))[ \t]*[:=]?[ \t]+[\"']?(?P<amount>\d+)[\"']?(?:[ \t]+(?P<second>\d+))?[ \t]*$", re.IGNORECASE)
_ANY = lazy(r"^[ \t]*(?P<name>[\w.\-/]+):[ \t]+\S+[ \t]*$")
_DAEMONSET = lazy(r"^\s*(?:\S+\s+)?(?P<name>\S*(?:nvidia|nvdp|gpu)\S*)\s+(?P<desired>\d+)\s+(?P<current>\d+)\s+(?P<ready>\d+)\s+(?P<uptodate>\d+)\s+(?P<available>\d+)\b", re.IGNORECASE)
_POD_ROW = lazy(r"^\s*(?:\S+\s+)?(?P<name>\S*(?:nvidia-device-plugin|nvdp)\S*)\s+(?P<ready>\d+)/(?P<all>\d+)\s+(?P<state>\S+)", re.IGNORECASE)
_NODE_ROW = lazy(r"^\s*[\w-]+\s+(?P<name>\S*nvidia-device-plugin\S*)\s+\d+ \(\d+%\)", re.IGNORECASE)  # of `kubectl describe node`
_PLUGIN = lazy(r"nvidia[-.]device[-.]plugin|nvdp", re.IGNORECASE)
_DESIRED = lazy(r"^Desired Number of Nodes Scheduled:\s*(?P<desired>\d{1,6})", re.MULTILINE)  # of `kubectl describe daemonset`
_TYPE = lazy(r"(?:node\.kubernetes\.io/instance-type|beta\.kubernetes\.io/instance-type|instance-type|instanceType)[=:\s\"]+(?P<v>[\w.\-]+)", re.IGNORECASE)
_TABLE_HEAD = lazy(r"^\s*NAME\s.*(?:GPU|nvidia)", re.IGNORECASE)
_GREP = lazy(r"grep.*(?:nvidia|gpu)", re.IGNORECASE)
_MAP = lazy(r"\{[^{}\n]{0,600}\"pods\":\s*\"\d+\"[^{}\n]{0,200}\}")
_EMPTY = lazy(r"No resources found|Error from server \(NotFound\)", re.IGNORECASE)
_TOLD_PER_NODE = lazy(r"(?:each node|per node|every node)\D{0,30}(?P<n>\d{1,2}) ?(?:x )?GPU", re.IGNORECASE)


def _number(block: str | None, resources: dict[str, dict[str, int]], match: re.Match[str]) -> None:
    name, amount = match["name"], int(match["amount"])
    if block:
        resources.setdefault(block, {}).setdefault(name, amount)


def _blocks(evidence: Evidence) -> tuple[dict[str, dict[str, int]], set[str], list[Ref], list[tuple[str, int, Ref]]]:
    """(resources by block, blocks shown whole, lines, resource rows outside a block)."""
    resources: dict[str, dict[str, int]] = {}
    whole: set[str] = set()
    refs: list[Ref] = []
    loose: list[tuple[str, int, Ref]] = []
    block: str | None = None
    for number, line in evidence.lines()[:50_000]:
        if match := _BLOCK.match(line):
            block = match["name"].lower()
            resources.setdefault(block, {})
            refs.append(evidence.ref(number, line, block))
            continue
        if match := _RESOURCE.match(line):
            ref = evidence.ref(number, line, block or "")
            refs.append(ref)
            _number(block, resources, match)
            if not block:
                loose.append((match["name"], int(match["amount"]), ref))
        elif block and (match := _ANY.match(line)):
            if match["name"] in ("pods", "memory", "cpu", "ephemeral-storage"):
                whole.add(block)
                refs.append(evidence.ref(number, line, block)) if match["name"] == "pods" else None
        elif block and line.strip() and not line.startswith((" ", "\t")):
            block = None
    return resources, whole, refs, loose


def _gpu(found: dict[str, int]) -> int | None:
    if "nvidia.com/gpu" in found:
        return found["nvidia.com/gpu"]
    return max(found.values(), default=None)


def _nodes(evidence: Evidence) -> Iterator[Fact]:
    resources, whole, refs, loose = _blocks(evidence)
    capacity, allocatable = _gpu(resources.get("capacity", {})), _gpu(resources.get("allocatable", {}))
    listed = True if "capacity" in whole else None
    if capacity is None and "capacity" in whole:
        capacity = 0
    if allocatable is None and "allocatable" in whole:
        allocatable = 0
    describing = "describe no" in (evidence.command or "") or "describe no" in evidence.text
    if capacity is None and allocatable is None and loose and (describing or len(loose) >= 2):
        capacity = loose[0][1]
        allocatable = loose[1][1] if len(loose) > 1 else None
    requested = _gpu(resources.get("limits", {})) if "limits" in resources or "requests" in resources else None
    if capacity is not None or allocatable is not None:
        allocated = _gpu(resources.get("allocated resources", {}))
        offered = {**resources.get("allocatable", {})} or {name: amount for name, amount, _ in loose[1:2]}
        yield Kubernetes(capacity=capacity, allocatable=allocatable, listed=listed, allocated=allocated, resources=offered, refs=tuple(refs[:8]))
    elif requested is not None:
        yield Kubernetes(requested=requested, refs=tuple(refs[:4]))
    elif "limits" in resources and "requests" in resources and "Containers:" in evidence.text:
        yield Kubernetes(pods=(Pod(gpus=0, ref=refs[0] if refs else None),), pod_without_gpu=True, refs=tuple(refs[:4]))
    elif "Containers:" in evidence.text and "Image:" in evidence.text and "describe po" in (evidence.command or ""):
        at = evidence.text.find("Containers:")
        ref = evidence.ref_at(at)
        yield Kubernetes(pods=(Pod(gpus=0, ref=ref),), pod_without_gpu=True, refs=(ref,))


def _json(evidence: Evidence) -> Iterator[Fact]:
    """`-o jsonpath={.status.capacity}`: {"cpu":"24","nvidia.com/gpu":"8","pods":"110"}."""
    found: dict[str, tuple[int, Ref]] = {}
    for match in _MAP.finditer(evidence.text):
        gpus = re.search(r"\"nvidia\.com/gpu\":\s*\"(\d+)\"", match.group())
        told = (evidence.command or "").replace(" ", "")
        name = "allocatable" if "allocatable" in told and "capacity" not in told else "capacity"
        found.setdefault(name if name not in found else "allocatable", (int(gpus[1]) if gpus else 0, evidence.ref_at(match.start(), name)))
    if found:
        counts = {name: count for name, (count, _) in found.items()}
        refs = tuple(ref for _, ref in found.values())
        yield Kubernetes(capacity=counts.get("capacity"), allocatable=counts.get("allocatable"), listed=True, refs=refs)


def _tables(evidence: Evidence) -> Iterator[Fact]:
    """Rows of `kubectl get`: DaemonSets, the plugin's pods, nodes with their GPU count."""
    lines = evidence.lines()[:20_000]
    header: tuple[int, str] | None = None
    counts: list[int] = []
    refs: list[Ref] = []
    for number, line in lines:
        if _TABLE_HEAD.match(line):
            header = (number, line)
            refs.append(evidence.ref(number, line))
            continue
        if header and line.strip():
            words = line.split()
            last = words[-1]
            if len(words) >= 2 and (last.isdigit() or last in ("<none>", "None")):
                counts.append(int(last) if last.isdigit() else 0)
                refs.append(evidence.ref(number, line, "per_node"))
            elif not re.match(r"^\s*[\w.-]+\s", line):
                header = None
        if (match := _DAEMONSET.match(line)) and (_PLUGIN.search(match["name"]) or "device" in match["name"]):
            head = next((evidence.ref(n, text) for n, text in lines if "DESIRED" in text), None)
            ref = evidence.ref(number, line, "plugin_desired")
            yield Kubernetes(
                plugin_desired=int(match["desired"]), plugin_ready=int(match["ready"]), plugin_seen=True,
                plugin_lines=tuple(r for r in (head, ref) if r), refs=tuple(r for r in (head, ref) if r),
            )
        elif match := _NODE_ROW.match(line):
            ref = evidence.ref(number, line, "plugin_seen")
            yield Kubernetes(plugin_seen=True, plugin_lines=(ref,), refs=(ref,))
        elif match := _POD_ROW.match(line):
            ref = evidence.ref(number, line, "plugin_seen")
            yield Kubernetes(plugin_seen=True, plugin_ready=int(match["ready"]), plugin_lines=(ref,), refs=(ref,))
    if counts:
        yield Kubernetes(per_node=tuple(counts), refs=tuple(refs[:8]))


def _searched(evidence: Evidence) -> Iterator[Fact]:
    """A search that found nothing: `kubectl get pods -A | grep nvidia-device-plugin`, and no line comes."""
    told = evidence.command or ""
    if not told.startswith(("kubectl", "k ", "sudo kubectl", "microk8s", "oc ", "sudo k3s")):
        return
    rest = [line for _, line in evidence.lines() if line.strip() and told not in line and line.strip() not in ("$", "#")]
    empty = not rest or (len(rest) <= 2 and any(_EMPTY.search(line) for line in rest))
    ref = evidence.ref(evidence.first_line, told if not rest else f"{told}  ->  {rest[0].strip()}", "plugin_absent")
    if empty and _PLUGIN.search(told) and re.search(r"\b(?:get|grep)\b", told):
        yield Kubernetes(plugin_absent=True, plugin_lines=(ref,), refs=(ref,))
    elif empty and re.search(r"nvidia\.com/|grep.*gpu", told, re.IGNORECASE) and re.search(r"describe no|get no", told):
        yield Kubernetes(capacity=0, allocatable=0, listed=True, refs=(ref,))
    elif empty and re.search(r"gpu-operator|nvidia", told) and re.search(r"get (?:pods?|po|ds|daemonsets?|all)\b", told):
        yield Kubernetes(plugin_absent=True, plugin_lines=(ref,), refs=(ref,))


def read(evidence: Evidence) -> Iterable[Fact]:
    """GPU counts of nodes and pods, and whether the device plugin runs."""
    yield from _nodes(evidence)
    yield from _json(evidence)
    yield from _tables(evidence)
    yield from _searched(evidence)
    if (match := _DESIRED.search(evidence.text)) and re.search(r"nvidia|gpu|nvdp", (evidence.command or "") + evidence.text, re.IGNORECASE):
        ref = evidence.ref_at(match.start(), "plugin_desired")
        yield Kubernetes(plugin_desired=int(match["desired"]), plugin_seen=True, plugin_lines=(ref,), refs=(ref,))
    if match := _TYPE.search(evidence.text):
        yield Kubernetes(instance_type=match["v"], refs=(evidence.ref_at(match.start(), "instance_type"),))
    if match := _TOLD_PER_NODE.search(evidence.text):
        yield Kubernetes(per_node=(int(match["n"]),), refs=(evidence.ref_at(match.start(), "per_node"),))


def looks_like(evidence: Evidence) -> bool:
    """Whether Kubernetes is spoken of."""
    low = (evidence.text + (evidence.command or "")).lower()
    return any(word in low for word in ("kubectl", "nvidia.com/", "device-plugin", "allocatable", "desired", "kubelet", "instance-type", "amd.com/gpu"))


SOURCES = (
    Source(
        kind="kubernetes", read=read, looks_like=looks_like, gives=(Kubernetes,),
        settle="kubectl describe node | grep -A8 -E 'Capacity|Allocatable'; kubectl get daemonset -A | grep nvidia; kubectl describe pod <pod>",
    ),
)
