"""What the gate says of this node's GPUs, told to Kubernetes: the node's condition `GPUProblem`, and a taint that keeps jobs away.

The condition goes by server-side apply, as the field manager "ongpu": each condition is a field of its own there (a map by `type`), so
nobody else's is touched. The taints are one field as a whole (an atomic list in the API's schema): to apply ours alone would remove all
others. So they are read, and written back with ours added or removed, on the version that was read; where someone changed the node
meanwhile (409), again.
"""

import time
from collections.abc import Sequence
from typing import Any

from ongpu.lazy import dataclass
from ongpu.queue.answers import at, rows
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.api import APPLY, Api
from ongpu.queue.engines.kubernetes.nodes import PROBLEM, UNFIT
from ongpu.queue.engines.kubernetes.parts import condition, label, moment, text
from ongpu.queue.gate import Decision
from ongpu.queue.remote import Refusal, one_line

TRIES = 4
FIT = "GPUsAreFit"  # the reason of a condition that is "False", as in hooks/node-problem-detector.json
EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Wish:
    """How the node is to be: the condition's status, reason and message, and our taint's value ("": none)."""

    status: str
    reason: str
    message: str
    taint: str


def wish(decision: Decision) -> Wish:
    """Of the gate's decision."""
    if decision.place or not decision.reasons:
        return Wish("False", FIT, "ongpu gate: jobs may be placed", "")
    first = decision.reasons[0]
    others = f" (and {len(decision.reasons) - 1} more)" if len(decision.reasons) > 1 else ""
    camel = "".join(part.capitalize() for part in first.slug.split("-"))[:128]
    return Wish("True", camel or "Refused", one_line(f"{first.slug}: {first.text('en')}{others}", 1024), label(first.slug) or "unfit")


def tell(
    api: Api, node: str, wanted: Wish, effect: str = "NoSchedule", apply: bool = False, now: float | None = None
) -> list[tuple[str, str]]:
    """What was changed, or would be: lines in English and Chinese. Without `apply` the server only checks it (dryRun=All).

    effect: NoSchedule keeps new jobs away; NoExecute also ends those that run there, to be made anew elsewhere. Raises EngineError.
    """
    if effect not in EFFECTS:
        raise EngineError(f"effect {effect}: one of {', '.join(EFFECTS)}", f"effect {effect}：应为 {'、'.join(EFFECTS)} 之一")
    found = _node(api, node)
    lines: list[tuple[str, str]] = []
    for attempt in range(TRIES):  # the taint first: it is what keeps jobs away
        try:
            lines += _taint(api, node, found, wanted, effect, apply)
            break
        except Refusal as error:
            if error.status != 409 or attempt == TRIES - 1:
                raise
            found = _node(api, node)
    lines.append(_condition(api, node, found, wanted, apply, time.time() if now is None else now))
    return [_dry(line, apply) for line in lines]


def applied(node: str, found: Any, wanted: Wish, now: float) -> dict[str, Any]:
    """What is applied to the node's status: our condition, whole. Its last transition stays where its status does."""
    before = condition(found, PROBLEM)
    same = at(before, "status") == wanted.status and text(at(before, "lastTransitionTime"))
    mine = {
        "type": PROBLEM, "status": wanted.status, "reason": wanted.reason, "message": wanted.message, "lastHeartbeatTime": moment(now),
        "lastTransitionTime": text(at(before, "lastTransitionTime")) if same else moment(now),
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": {"conditions": [mine]}}


def taints(found: Any, wanted: Wish, effect: str) -> list[Any] | None:
    """The whole list, with ours as it is to be; None where it is so already. Ours alone is ever changed."""
    every = rows(at(found, "spec", "taints"))
    ours = [one for one in every if at(one, "key") == UNFIT]
    if not wanted.taint:
        return [one for one in every if at(one, "key") != UNFIT] if ours else None
    if len(ours) == 1 and at(ours[0], "effect") == effect and at(ours[0], "value") == wanted.taint:
        return None
    return [*(one for one in every if at(one, "key") != UNFIT), {"key": UNFIT, "value": wanted.taint, "effect": effect}]


def _node(api: Api, node: str) -> Any:
    found = api.get(api.nodes, node)
    if found is None:
        raise EngineError(
            f"{node}: Kubernetes has no such node; name it with --node", f"{node}：Kubernetes 没有这个节点；请用 --node 指明", 1
        )
    return found


def _condition(api: Api, node: str, found: Any, wanted: Wish, apply: bool, now: float) -> tuple[str, str]:
    api.patch(api.nodes, node, applied(node, found, wanted, now), kind=APPLY, part="/status", dry=not apply)
    told = f"{PROBLEM}={wanted.status} ({wanted.reason}): {wanted.message}"
    return f"{node}: condition {told}", f"{node}：状态 {told}"


def _taint(api: Api, node: str, found: Any, wanted: Wish, effect: str, apply: bool) -> Sequence[tuple[str, str]]:
    whole = taints(found, wanted, effect)
    if whole is None:
        return ()
    version = text(at(found, "metadata", "resourceVersion"), 80)
    api.patch(api.nodes, node, {"metadata": {"resourceVersion": version}, "spec": {"taints": whole}}, dry=not apply)
    if wanted.taint:
        return ((f"{node}: taint {UNFIT}={wanted.taint}:{effect}", f"{node}：污点 {UNFIT}={wanted.taint}:{effect}"),)
    return ((f"{node}: taint {UNFIT} removed", f"{node}：移除污点 {UNFIT}"),)


def _dry(line: tuple[str, str], apply: bool) -> tuple[str, str]:
    return line if apply else (f"would set, --apply does it: {line[0]}", f"将会设置（--apply 才执行）：{line[1]}")
