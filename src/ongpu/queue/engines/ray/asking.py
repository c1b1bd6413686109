"""A job as Ray's Jobs API is asked for it (https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html). Pure.

Seen on Ray 2.60, and worked around: a job that is stopped while it waits is started all the same when its turn comes, and stopped an
instant later. So each job pauses half a second before its command: the stop reaches it there, and the command never begins.
And in the values of variables it puts others in the place of $NAME and ${NAME}, of which nothing can keep it: so those with a "$" are set
once more by the job's own shell, from one variable that holds them in base64 (not in the entrypoint, which is written into the output).
"""

import base64
import json
import math
import re
import shlex
from collections.abc import Sequence
from typing import Any

from ongpu.queue.asked import to_json
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.ray.cluster import FIT, TYPE_LABEL, Node
from ongpu.queue.job import Spec
from ongpu.queue.words import size

HONOURS = frozenset({
    "name", "gpus", "memory", "share", "model", "capability", "limit", "cpus", "host_memory", "folder", "environ", "project", "index",
    "grace",
})  # fmt: skip
ADVISORY = {
    "gpus": (
        "Ray hides the other GPUs by CUDA_VISIBLE_DEVICES alone: a program that sets it anew sees them all",
        "Ray 只用 CUDA_VISIBLE_DEVICES 隐藏其他 GPU：程序改写该变量就能看到全部 GPU",
    ),
    "share": (
        "Ray counts the share of a GPU, but keeps no program to it",
        "Ray 只统计所占 GPU 份额，不限制程序实际使用的显存",
    ),
    "host_memory": ("Ray counts the memory, but does not limit it", "Ray 只统计内存，不作限制"),
    "cpus": ("Ray counts the CPUs, but does not limit them", "Ray 只统计 CPU，不作限制"),
    "limit": ("kept by `timeout` on the node", "由节点上的 `timeout` 命令执行"),
}
PAUSE = "sleep 0.5"
MINE = "ongpu"  # the key of the job's own metadata
AGAIN = "ONGPU_VARIABLES"
SHARE_STEP = 10_000  # Ray counts resources in steps of 0.0001


def request(spec: Spec, job: str, here: Sequence[Node], user: str, working_dir: str = "", grows: bool = False) -> dict[str, Any]:
    """The body of POST /api/jobs/. working_dir: where its folder was uploaded to; "": `cd` to it. grows: nodes may be added when they are
    asked for. Raises EngineError where nothing fits."""
    variables = {"ONGPU_JOB": job, "ONGPU_ATTEMPT": "1", "RAY_JOB_STOP_WAIT_TIME_S": str(max(1, math.ceil(spec.grace)))}
    if spec.index is not None:
        variables["ONGPU_ARRAY_INDEX"] = str(spec.index)
    if spec.gpus:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # Ray counts GPUs as NVML does
    if again := _expanded(spec):
        lines = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in again.items())
        variables[AGAIN] = base64.b64encode(lines.encode("utf-8", "surrogateescape")).decode()
    environment: dict[str, Any] = {"env_vars": {**variables, **spec.environ}}
    if working_dir:
        environment["working_dir"] = working_dir
    kept = {name: value for name, value in to_json(spec).items() if name not in ("environ", "command")}
    body: dict[str, Any] = {
        "entrypoint": entrypoint(spec, bool(working_dir)), "submission_id": job, "runtime_env": environment,
        "metadata": {MINE: json.dumps({**kept, "command": list(spec.command)}), "job_name": spec.name or job, "user": user},
    }  # fmt: skip
    if spec.cpus:
        body["entrypoint_num_cpus"] = spec.cpus
    if spec.host_memory:
        body["entrypoint_memory"] = spec.host_memory << 20
    body |= _gpus(spec, here, grows)
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise EngineError("Ray takes no command, folder or variable that is not UTF-8", "Ray 不接受非 UTF-8 的命令、目录或变量") from None
    return body


def entrypoint(spec: Spec, uploaded: bool = False) -> str:
    """What /bin/sh is given on the node."""
    steps = [PAUSE]
    if _expanded(spec):
        steps.append(f'eval "$(printf %s "${AGAIN}" | base64 -d)" && unset {AGAIN}')
    if spec.folder and not uploaded:
        steps.append(f"cd -- {shlex.quote(spec.folder)}")
    limit = ["timeout", f"--kill-after={max(1, math.ceil(spec.grace))}", str(math.ceil(spec.limit))] if spec.limit else []
    return " && ".join([*steps, f"exec {shlex.join([*limit, *spec.command])}"])


def _expanded(spec: Spec) -> dict[str, str]:
    """The variables in which Ray would put others, as far as a shell can set them."""
    return {name: value for name, value in spec.environ.items() if "$" in value and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)}


def _gpus(spec: Spec, here: Sequence[Node], grows: bool) -> dict[str, Any]:
    """The part about GPUs."""
    if not spec.gpus:
        return {}
    with_gpus = [node for node in here if node.offered or node.gpus]
    fitting = [node for node in with_gpus if _fits(spec, node)]
    enough = [node for node in fitting if node.offered >= spec.gpus]
    if not enough and grows and spec.memory is None and spec.capability is None:
        kind = {"entrypoint_resources": {f"accelerator_type:{spec.model}": 0.001}} if spec.model else {}  # in Ray's own words, then
        return {"entrypoint_num_gpus": spec.gpus, **kind}
    if not enough:
        raise _nothing_fits(spec, with_gpus, fitting)
    amount: float = spec.gpus
    if spec.share and spec.memory:
        amount = math.ceil(spec.memory / min(_least(node) or spec.memory for node in enough) * SHARE_STEP) / SHARE_STEP
    asked: dict[str, Any] = {"entrypoint_num_gpus": amount}
    resources: dict[str, float] = {}
    if any(FIT in node.total for node in enough):  # only where the gate looked when the node was started
        resources[FIT] = amount
    if len(fitting) < len(with_gpus):
        _narrow(asked, resources, fitting, [node for node in with_gpus if node not in fitting])
    if resources:
        asked["entrypoint_resources"] = resources
    return asked


def _narrow(asked: dict[str, Any], resources: dict[str, float], fitting: Sequence[Node], others: Sequence[Node]) -> None:
    """Keeps it to the nodes that fit: by the kind of their GPUs where that tells them apart, so that new nodes count too."""
    kinds = sorted({node.kind for node in fitting})
    if not kinds or "" in kinds or set(kinds) & {node.kind for node in others}:
        asked["entrypoint_label_selector"] = {"ray.io/node-id": _in([node.id for node in fitting])}
    elif len(kinds) == 1:
        resources[f"accelerator_type:{kinds[0]}"] = 0.001  # every version of Ray knows this; selectors came with 2.49
    else:
        asked["entrypoint_label_selector"] = {TYPE_LABEL: _in(kinds)}


def _in(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"in({','.join(values)})"


def _fits(spec: Spec, node: Node) -> bool:
    """Whether each of its GPUs is as it is asked for: Ray gives any of them. What Ray does not tell does not fit."""
    if spec.memory is not None and (_least(node) or 0) < spec.memory:
        return False
    names = [gpu.name for gpu in node.gpus] or [node.kind]
    if spec.model and not all(_same(spec.model, name) for name in names):
        return False
    return spec.capability is None or all(_capability(name) >= spec.capability for name in names)


def _same(asked: str, name: str) -> bool:
    def plain(text: str) -> str:
        return text.lower().replace("-", " ").replace("_", " ")

    return plain(asked) in plain(name)


def _least(node: Node) -> int | None:
    """Memory of its smallest GPU in MiB."""
    told = [gpu.memory for gpu in node.gpus]
    return min((one for one in told if one is not None), default=None) if told and None not in told else None


def _capability(name: str) -> tuple[int, int]:
    from ongpu.knowledge.gpus import compute_capability

    major, _, minor = (compute_capability(name) or "0.0").partition(".")
    return int(major), int(minor or 0)


def _nothing_fits(spec: Spec, with_gpus: Sequence[Node], fitting: Sequence[Node]) -> EngineError:
    """Why it can never start, and what there is."""
    if not with_gpus:
        return EngineError("this Ray cluster has no GPU; with --gpus 0 it runs without", "该 Ray 集群没有 GPU；用 --gpus 0 可不用 GPU 运行")
    there = "; ".join(_there(node) for node in with_gpus[:8]) + ("; ..." if len(with_gpus) > 8 else "")
    if fitting and spec.gpus > 1:
        most = max(node.offered for node in fitting)
        return EngineError(
            f"no node of this Ray cluster offers {spec.gpus} such GPUs (at most {most:g}); there is: {there}",
            f"该 Ray 集群没有哪个节点能提供 {spec.gpus} 块这样的 GPU（最多 {most:g}）；现有：{there}",
        )
    wants = ", ".join([
        *([spec.model] if spec.model else []), *([f">= {size(spec.memory)}"] if spec.memory else []),
        *([f"compute capability >= {spec.capability[0]}.{spec.capability[1]}"] if spec.capability else []),
    ])  # fmt: skip
    return EngineError(
        f"no GPU of this Ray cluster fits ({wants or 'none is offered'}); there is: {there}",
        f"该 Ray 集群没有符合要求的 GPU（{wants or '没有提供 GPU 的节点'}）；现有：{there}",
    )


def _there(node: Node) -> str:
    names = sorted({gpu.name for gpu in node.gpus} or {node.kind or "GPU"})
    least = _least(node)
    return f"{node.name}: {node.offered:g} x {'/'.join(names)}" + (f" ({size(least)})" if least else "")
