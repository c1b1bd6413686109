"""What Ray tells of its jobs, as `Told`, and why one waits or ended so. Pure."""

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from ongpu.lazy import replace
from ongpu.queue import job as jobs
from ongpu.queue.answers import at, rows
from ongpu.queue.asked import from_json
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.ray.asking import AGAIN, MINE
from ongpu.queue.engines.ray.cluster import Node
from ongpu.queue.job import Spec, Told
from ongpu.queue.remote import one_line

STATES = {"PENDING": jobs.WAITING, "RUNNING": jobs.RUNNING, "STOPPED": jobs.CANCELLED, "SUCCEEDED": jobs.DONE, "FAILED": jobs.FAILED}
ERRORS = {  # Ray's error_type: what it means; the command itself ended in none of these (ray/dashboard/modules/job/common.py, 2.60)
    "RUNTIME_ENV_SETUP_FAILURE": ("its environment could not be set up on the node", "节点上无法建立其运行环境"),
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": (
        "Ray gave it up: it waited longer than RAY_JOB_START_TIMEOUT_SECONDS on the head node (900 s where nobody sets it); set it to "
        "weeks, as `ongpu gate install ray` does",
        "Ray 放弃了它：等待超过主节点上的 RAY_JOB_START_TIMEOUT_SECONDS（默认 900 秒）；请设为数周，`ongpu gate install ray` 的脚本即如此",
    ),
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": ("Ray could not start its supervisor", "Ray 无法启动其监督进程"),
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": ("no node can take it", "没有节点可以接纳它"),
    "JOB_ENTRYPOINT_COMMAND_START_ERROR": ("its command could not be started", "命令无法启动"),
    "JOB_SUPERVISOR_ACTOR_DIED": (
        "its supervisor died: the node was lost, or its memory ran out; how the command ended is not known",
        "其监督进程已死：节点失联或内存耗尽；命令如何结束不得而知",
    ),
    "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE": ("Ray lost it", "Ray 丢失了它"),
}
NEVER_BEGAN = frozenset(name for name in ERRORS if "DIED" not in name and "UNKNOWN" not in name)
START_LIMIT = 900  # seconds, where nobody sets RAY_JOB_START_TIMEOUT_SECONDS (ray/dashboard/consts.py, 2.60)


def told(row: Any, places: dict[str, Node]) -> Told | None:
    """One of the answer to GET /api/jobs/; None for what was not submitted (a driver that connected)."""
    job = at(row, "submission_id")
    if not isinstance(job, str) or at(row, "type") != "SUBMISSION":
        return None
    state = STATES.get(str(at(row, "status")), jobs.LOST)
    error, code = str(at(row, "error_type") or ""), at(row, "driver_exit_code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    code = code if code is None or code >= 0 else 128 - code
    submitted = (at(row, "start_time") or 0) / 1000 if isinstance(at(row, "start_time"), (int, float)) else 0.0
    ended = at(row, "end_time") / 1000 if isinstance(at(row, "end_time"), (int, float)) else None
    spec = _spec(row)
    ending = ""
    if state == jobs.FAILED and error in ERRORS:
        state = jobs.FAILED if error in NEVER_BEGAN else jobs.LOST
        ending = jobs.NOT_STARTED if error in NEVER_BEGAN else jobs.VANISHED
    elif state in jobs.OVER:
        ending = _ending(state, code, spec)
    node = at(row, "driver_node_id")
    place = places.get(node) if isinstance(node, str) else None
    head, sign, last = job.rpartition("_")
    return Told(
        id=job, spec=spec, state=state, user=str(at(row, "metadata", "user") or "")[:80], submitted=submitted, since=submitted,
        ended=ended, node=place.name if place else str(node or "")[:12], code=code, ending=ending, attempts=1 if node else 0,
        array=head if sign and last.isdigit() and spec.index is not None else "", said=ERRORS[error][0] if error in ERRORS else "",
        more={"node_id": node} if isinstance(node, str) else {},
    )  # fmt: skip


def why_waits(job: Told, row: Any, here: Sequence[Node]) -> list[tuple[str, str]]:
    """Of one that waits: what it asks for against what is free, and when Ray gives it up."""
    lines = []
    asked = at(row, "entrypoint_num_gpus")
    wanted = float(asked) if isinstance(asked, (int, float)) and asked else float(job.spec.gpus)
    with_gpus = [node for node in here if node.offered]
    if wanted and with_gpus:
        free, most = max(node.free for node in with_gpus), max(node.offered for node in with_gpus)
        if most < wanted:
            lines.append((f"it asks for {wanted:g} GPUs; no node has more than {most:g}", f"它要 {wanted:g} 块 GPU；没有节点超过 {most:g} 块"))  # fmt: skip # noqa: E501
        elif free < wanted:
            lines.append((
                f"it asks for {wanted:g} GPUs on one node; the most that are free on one are {free:g} of {most:g}",
                f"它要同一节点上的 {wanted:g} 块 GPU；目前单节点最多空闲 {free:g} / {most:g} 块",
            ))  # fmt: skip
        else:
            lines.append(("GPUs are free: Ray is setting its environment up, or it waits for CPUs or memory", "有空闲 GPU：Ray 正在建立运行环境，或它在等待 CPU、内存"))  # fmt: skip # noqa: E501
    elif wanted:
        lines.append(("no node of the cluster offers a GPU", "集群中没有节点提供 GPU"))
    lines.append((
        f"Ray gives it up {START_LIMIT // 60} min after it was submitted, unless RAY_JOB_START_TIMEOUT_SECONDS is longer on the head node",
        f"提交 {START_LIMIT // 60} 分钟后仍未开始，Ray 会放弃它，除非主节点上另设 RAY_JOB_START_TIMEOUT_SECONDS",
    ))  # fmt: skip
    return lines


def why_ended(row: Any) -> list[tuple[str, str]]:
    """Of one that is over, what Ray says of it; [] where its command ended by itself."""
    error = str(at(row, "error_type") or "")
    if error not in ERRORS:
        return []
    words = _last_words(str(at(row, "message") or ""))
    return [ERRORS[error], *([(f"Ray: {words}", f"Ray：{words}")] if words else [])]


def _spec(row: Any) -> Spec:
    """What we kept of it; else what Ray knows of a job that others submitted."""
    try:
        kept = json.loads(at(row, "metadata", MINE))
        return replace(from_json(kept), environ=_variables(row))
    except (EngineError, ValueError, TypeError, RecursionError):
        pass
    entry = at(row, "entrypoint")
    try:
        words = tuple(shlex.split(entry[:65536])) if isinstance(entry, str) else ()
    except ValueError:
        words = (entry[:65536],)
    gpus = at(row, "entrypoint_num_gpus")
    return Spec(command=words or ("?",), gpus=int(gpus) if isinstance(gpus, (int, float)) and 0 <= gpus < 1e6 else 0)


def _variables(row: Any) -> dict[str, str]:
    found = at(row, "runtime_env", "env_vars")
    ours = ("ONGPU_JOB", "ONGPU_ATTEMPT", "ONGPU_ARRAY_INDEX", "RAY_JOB_STOP_WAIT_TIME_S", AGAIN)
    return {key: str(value) for key, value in found.items() if key not in ours} if isinstance(found, dict) else {}


def _ending(state: str, code: int | None, spec: Spec) -> str:
    if state == jobs.DONE:
        return "ok"
    if state == jobs.CANCELLED:
        return "stopped"
    if code == 124 and spec.limit:
        return jobs.TIMEOUT
    return "signal" if code is not None and code > 128 else "program"


def _last_words(message: str) -> str:
    """The last line of the output that Ray's message ends with."""
    lines = [line for line in message[-20_000:].splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def listed(answer: Any, here: Iterable[Node]) -> list[tuple[Told, Any]]:
    """The jobs of the answer to GET /api/jobs/, each with its row."""
    places = {node.id: node for node in here}
    return [(one, row) for row in rows(answer) if (one := told(row, places)) is not None]
