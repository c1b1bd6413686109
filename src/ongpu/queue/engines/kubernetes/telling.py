"""Jobs and their pods as `Told`. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ongpu.lazy import replace
from ongpu.queue import job as jobs
from ongpu.queue.answers import at, rows
from ongpu.queue.asked import from_json
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.manifest import ARRAY, CONTAINER, HELD, INDEX, KEPT, QUEUE
from ongpu.queue.engines.kubernetes.parts import MINE, condition, is_true, number, seconds, text
from ongpu.queue.job import Spec, Told
from ongpu.queue.remote import one_line

JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")  # the second before Kubernetes 1.27
UNABLE = frozenset({
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
})  # fmt: skip
NEVER_BEGAN = frozenset({"StartError", "ContainerCannotRun"})
MOST_INDICES = 100_000


def told(job: Any, pods: Sequence[Any]) -> list[Told]:
    """One for a Job; for an indexed one, one for each of its indices. pods: its own, oldest first."""
    name, indices = text(at(job, "metadata", "name")), _indices(job)
    spec = _spec(job)
    common = {
        "user": text(at(job, "metadata", "labels", f"{MINE}/user")), "submitted": seconds(at(job, "metadata", "creationTimestamp")) or 0.0,
    }  # fmt: skip
    if indices is None:
        return [_told(job, name, spec, list(pods), _of_job(job), common)]
    by_index: dict[int, list[Any]] = {}
    for pod in pods:
        by_index.setdefault(_index(pod), []).append(pod)
    done, failed = frozenset(_listed(at(job, "status", "completedIndexes"))), frozenset(_listed(at(job, "status", "failedIndexes")))
    found = []
    for place, index in enumerate(indices):
        over = jobs.DONE if place in done else jobs.FAILED if place in failed else _of_job(job)
        over = over if over != jobs.DONE or place in done else ""  # complete as a whole, but this one?
        found.append(_told(job, f"{name}_{index}", replace(spec, index=index), by_index.get(place, []), over, common | {"array": name}))
    return found


def by_job(pods: Iterable[Any]) -> dict[str, list[Any]]:
    """The pods of each Job, oldest first."""
    found: dict[str, list[Any]] = {}
    for pod in sorted(pods, key=lambda pod: text(at(pod, "metadata", "creationTimestamp"))):
        labels = at(pod, "metadata", "labels")
        name = next((text(at(labels, label)) for label in JOB_LABELS if at(labels, label)), "")
        found.setdefault(name, []).append(pod)
    return found


# --- one


def _told(job: Any, name: str, spec: Spec, pods: Sequence[Any], over: str, common: Mapping[str, Any]) -> Told:
    last = pods[-1] if pods else None
    state = _state(job, last, over)
    code, ending, said = _end(last) if state in jobs.OVER else (None, "", _word(last))
    if state == jobs.DONE:
        code, ending = 0, "ok"
    elif state == jobs.FAILED and at(condition(job, "Failed"), "reason") == "DeadlineExceeded":
        ending = jobs.TIMEOUT
    spans = [_span(pod) for pod in pods]
    started, ended = spans[-1] if spans else (None, None)
    if state not in jobs.OVER:
        ended = None
    elif ended is None:
        ended = seconds(at(job, "status", "completionTime")) or seconds(at(condition(job, "Failed"), "lastTransitionTime"))
    attained = sum(spec.gpus * max(0.0, end - begin) for begin, end in spans if begin is not None and end is not None)
    return Told(
        id=name, spec=spec, state=state, since=common["submitted"], started=started, ended=ended, gpus=_gpus(last),
        node=text(at(last, "spec", "nodeName")), attempts=len(pods), code=code, ending=ending, attained=attained, said=said,
        more={"pods": tuple(text(at(pod, "metadata", "name")) for pod in pods), "uid": text(at(job, "metadata", "uid"))}, **common,
    )  # fmt: skip


def _of_job(job: Any) -> str:
    """DONE or FAILED where the whole Job is over."""
    return jobs.DONE if is_true(job, "Complete") else jobs.FAILED if is_true(job, "Failed") else ""


def _state(job: Any, pod: Any, over: str) -> str:
    if at(job, "metadata", "deletionTimestamp"):
        return jobs.ENDING
    if over:
        return over
    if at(job, "spec", "suspend") is True and _phase(pod) not in ("Running", "Succeeded"):
        # Kueue suspends what waits for its quota; a person's hold is marked
        return jobs.HELD if at(job, "metadata", "annotations", HELD) or not at(job, "metadata", "labels", QUEUE) else jobs.WAITING
    if at(pod, "metadata", "deletionTimestamp") and _phase(pod) == "Running":
        return jobs.ENDING
    if _phase(pod) == "Running":
        return jobs.RUNNING
    if _phase(pod) == "Pending" and at(pod, "spec", "nodeName"):
        return jobs.STARTING
    if _phase(pod) == "Succeeded":
        return jobs.DONE
    return jobs.WAITING  # no pod yet, one that no node takes, or one that failed and is tried again


def _phase(pod: Any) -> str:
    return text(at(pod, "status", "phase"))


def _container(pod: Any) -> Any:
    every = rows(at(pod, "status", "containerStatuses"))
    return next((row for row in every if at(row, "name") == CONTAINER), every[0] if every else None)


def _end(pod: Any) -> tuple[int | None, str, str]:
    """Exit code, ending and a word, of the last pod."""
    stopped = at(_container(pod), "state", "terminated")
    code, reason = number(at(stopped, "exitCode")), text(at(stopped, "reason"))
    taken = condition(pod, "DisruptionTarget")
    if at(pod, "status", "reason") == "DeadlineExceeded":
        return code, jobs.TIMEOUT, ""
    if at(taken, "status") == "True":
        preempted = "Preempt" in text(at(taken, "reason"))
        return code, jobs.PREEMPTED if preempted else jobs.VANISHED, f"{text(at(taken, 'reason'))}: {text(at(taken, 'message'), 200)}"
    if reason == "OOMKilled":
        return code, "host-memory", reason
    if reason in NEVER_BEGAN:
        return code, jobs.NOT_STARTED, text(at(stopped, "message"), 200)
    if code is None:
        if refused := refusal(pod):
            return None, jobs.NOT_STARTED, refused
        return None, jobs.VANISHED if pod is not None else "", text(at(pod, "status", "reason"), 80)
    return code, "ok" if code == 0 else "signal" if code > 128 else "program", ""


def refusal(pod: Any) -> str:
    """What the kubelet said that did not take the pod in: no container of it ever was ("UnexpectedAdmissionError: ...", where the device
    plugin could not give the GPUs out); "" where it did."""
    reason = text(at(pod, "status", "reason"), 80)
    if not reason or _phase(pod) != "Failed" or at(pod, "status", "containerStatuses") or is_true(pod, "DisruptionTarget"):
        return ""
    message = one_line(text(at(pod, "status", "message"), 2000))
    return f"{reason}: {message}" if message else reason


def _word(pod: Any) -> str:
    """Of one that has not begun: what its container waits for."""
    waiting = at(_container(pod), "state", "waiting")
    reason = text(at(waiting, "reason"), 80)
    return f"{reason}: {text(at(waiting, 'message'), 200)}" if reason in UNABLE else reason if reason != "PodInitializing" else ""


def _span(pod: Any) -> tuple[float | None, float | None]:
    """When its command began and ended."""
    state = at(_container(pod), "state")
    begin = seconds(at(state, "running", "startedAt")) or seconds(at(state, "terminated", "startedAt"))
    return begin, seconds(at(state, "terminated", "finishedAt"))


def _gpus(pod: Any) -> tuple[str, ...]:
    """The devices that it got, where the kubelet tells of their health (allocatedResourcesStatus, since 1.31)."""
    return tuple(
        text(at(one, "resourceID")) for row in rows(at(_container(pod), "allocatedResourcesStatus")) for one in rows(at(row, "resources"))
    )  # fmt: skip


# --- what is kept of it


def _kept(job: Any) -> dict[str, Any]:
    try:
        found = json.loads(text(at(job, "metadata", "annotations", KEPT), 300_000))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _spec(job: Any) -> Spec:
    """As it was asked for; else what the manifest says of one that others made."""
    kept = _kept(job)
    kept.pop(ARRAY, None)
    pod = at(job, "spec", "template", "spec")
    container = (rows(at(pod, "containers")) or [None])[0]
    try:
        if kept:
            return replace(from_json(kept), environ=_environ(container))
    except EngineError:
        pass
    words = at(container, "command")
    return Spec(command=tuple(str(word) for word in words) if isinstance(words, list) and words else ("?",), gpus=0)


def _environ(container: Any) -> dict[str, str]:
    """The variables, but ours."""
    told = {
        text(at(row, "name")): text(at(row, "value"), 1 << 17).replace("$$", "$") for row in rows(at(container, "env")) if "value" in row
    }
    ours = ("ONGPU_JOB", "NVIDIA_VISIBLE_DEVICES") if told.get("NVIDIA_VISIBLE_DEVICES") == "void" else ("ONGPU_JOB",)
    return {name: value for name, value in told.items() if name not in ours}


def _indices(job: Any) -> tuple[int, ...] | None:
    """Of an indexed Job."""
    if at(job, "spec", "completionMode") != "Indexed":
        return None
    count = number(at(job, "spec", "completions")) or 0
    found = _listed(_kept(job).get(ARRAY))
    return found if len(found) == count else tuple(range(min(max(count, 0), MOST_INDICES)))


def _index(pod: Any) -> int:
    told = text(at(pod, "metadata", "annotations", INDEX) or at(pod, "metadata", "labels", INDEX), 12)
    return int(told) if told.isascii() and told.isdigit() else -1


def _listed(told: Any) -> tuple[int, ...]:
    """The numbers of "0-3,7", in order; what is no such list gives none."""
    found: list[int] = []
    for part in text(told, 700_000).split(",") if text(told) else ():
        first, dash, last = part.partition("-")
        if not (first.isascii() and first.isdigit() and len(first) < 10) or (
            dash and not (last.isascii() and last.isdigit() and len(last) < 10)
        ):
            return ()
        if len(found) + int(last or first) - int(first) >= MOST_INDICES:
            return ()
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
