"""A row of Slurm's as the queue tells of a job: its state, how it ended, what was asked for. Pure."""

from collections.abc import Sequence

from ongpu.lazy import replace
from ongpu.queue.engines.slurm import reasons
from ongpu.queue.engines.slurm.record import Kept, Run
from ongpu.queue.engines.slurm.rows import Row
from ongpu.queue.job import (
    CANCELLED,
    DONE,
    ENDING,
    FAILED,
    HELD,
    LOST,
    NOT_STARTED,
    OVER,
    PREEMPTED,
    RUNNING,
    STARTING,
    TIMEOUT,
    VANISHED,
    WAITING,
    Spec,
    Told,
)

MARK = "ongpu:"  # of the comments of our jobs: ongpu:TOKEN PROJECT
# Slurm's base states (job_state_codes.html, 25.05) -> ours, and how the run ended
STATES = {
    "PENDING": (WAITING, ""), "REQUEUED": (WAITING, ""), "REQUEUE_FED": (WAITING, ""), "RESV_DEL_HOLD": (HELD, ""),
    "REQUEUE_HOLD": (HELD, ""),
    "SPECIAL_EXIT": (HELD, ""), "CONFIGURING": (STARTING, ""), "POWER_UP_NODE": (STARTING, ""), "RUNNING": (RUNNING, ""),
    "SUSPENDED": (RUNNING, ""),
    "STOPPED": (RUNNING, ""), "SIGNALING": (RUNNING, ""), "RESIZING": (RUNNING, ""), "STAGE_OUT": (ENDING, ""), "COMPLETING": (ENDING, ""),
    "COMPLETED": (DONE, "ok"), "FAILED": (FAILED, ""), "TIMEOUT": (FAILED, TIMEOUT), "OUT_OF_MEMORY": (FAILED, "host-memory"),
    "NODE_FAIL": (LOST, VANISHED), "BOOT_FAIL": (FAILED, NOT_STARTED), "LAUNCH_FAILED": (FAILED, NOT_STARTED), "RECONFIG_FAIL": (FAILED,
    NOT_STARTED),
    "DEADLINE": (FAILED, TIMEOUT), "CANCELLED": (CANCELLED, ""), "PREEMPTED": (FAILED, PREEMPTED), "REVOKED": (CANCELLED,
    NOT_STARTED),
    "EXPEDITING": (WAITING, ""),
}  # fmt: skip
# Exit codes that no program ended with: "0:53" where slurmd could not open the output, "0:125" (SIG_OOM, 253, in slurm_protocol_defs.h)
NO_OUTPUT = 128 + 53
MADE_UP = (NO_OUTPUT, 128 + 125)
# said beside a base state, and telling more
BEFORE = ("COMPLETING", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING", "STAGE_OUT", "RESV_DEL_HOLD")


def state(row: Row) -> tuple[str, str]:
    """Ours, and how its run ended."""
    words = [word for word in row.state.split() if word in STATES]
    word = next((word for word in BEFORE if word in words), words[0] if words else "")
    found, ended = STATES.get(word, (LOST, ""))
    name = row.reason.partition(",")[0].strip()
    if found == WAITING and (name in reasons.HELD or "held state" in name or "requeued held" in name or row.priority == 0):
        return HELD, ""
    if word == "DEADLINE" and not row.nodes:
        return CANCELLED, NOT_STARTED
    if found == FAILED and not ended:
        if name == "TimeLimit":
            return FAILED, TIMEOUT
        never = not row.nodes or name in ("BadConstraints", "InvalidAccount", "InvalidQOS") or row.code == NO_OUTPUT
        never = never or (name == "JobLaunchFailure" and not row.code)
        if never:
            ended = NOT_STARTED
        else:
            ended = "signal" if row.code and row.code > 128 else "program"
    return found, ended or ("stopped" if found == CANCELLED and row.code else "")


def told(row: Row, kept: Kept | None, runs: Sequence[Run], now: float) -> Told:
    """The whole of it. kept: what ongpu noted when it was submitted; runs: what the job's script noted."""
    here, ending = state(row)
    last = runs[-1] if runs else None
    over = here in OVER
    spec = kept.spec(row.index) if kept else spec_of(row)
    code = row.code if over and (row.nodes or runs) and row.code not in MADE_UP else None  # else it never ran
    started = row.started if here not in (WAITING, HELD) or over else None
    gpus = tuple(f"{node}:gpu{index}" for node, index in row.gres)
    if last is not None:
        gpus = gpus or tuple(f"{last.node}:gpu{index}" for index in last.gpus)
        started = started or last.start
        code = last.code if over and last.code is not None and not code else code
    if over and not runs and not row.nodes:
        started = None  # Slurm tells the moment of its end as that of its start
    waits = here in (WAITING, HELD)
    attained = sum(((run.end or (now if not over else row.ended or run.start)) - run.start) * len(run.gpus) for run in runs)
    if not runs and started:
        attained = max(0.0, (row.ended if over and row.ended else now) - started) * row.gpus
    return Told(
        id=row.id, spec=spec, state=here, user=row.user, array=row.array if row.index is not None else "", submitted=row.submitted,
        since=max(row.submitted, last.end or 0.0 if last else 0.0) if waits else row.submitted, started=started,
        ended=row.ended if over else None,
        gpus=() if waits and not runs else gpus, node=row.nodes or (last.node if last else ""), attempts=max(len(runs),
        row.restarts + bool(started)),
        code=code, ending=ending, attained=max(0.0, attained), said="" if row.reason in ("None", "NonZeroExitCode") else row.reason,
        more={
            "raw": row.raw or row.id, "partition": row.partition, "account": row.account, "priority": row.priority, "slurm": row.state,
            "output": "" if "%" in row.output else row.output, "expected": row.started if waits else None, "dependency": row.dependency,
            "ours": kept is not None,
        },
    )  # fmt: skip


def spec_of(row: Row) -> Spec:
    """What can be said of a job that others submitted."""
    words = tuple(row.command.split()) if row.command else (row.name or "?",)
    project = row.comment.partition(" ")[2] if row.comment.startswith(MARK) else row.account
    return Spec(
        command=words, name=row.name, gpus=row.gpus, model=row.type, limit=row.limit, cpus=row.cpus, host_memory=row.memory,
        folder=row.folder,
        project=project, index=row.index, at_once=row.at_once, output=row.output, reservation=row.reservation,
    )  # fmt: skip


def ours(row: Row, kept: Kept | None) -> Kept | None:
    """The record, where it is of this very job: Slurm's numbers begin again with a new cluster."""
    if kept is None:
        return None
    if row.comment:
        return kept if row.comment.startswith(MARK + kept.token) else None
    return kept if not row.submitted or abs(kept.submitted - row.submitted) < 120 else None


def remembered(job: str, kept: Kept, runs: Sequence[Run], index: int | None = None, cancelled: bool = False) -> Told:
    """A job that Slurm has forgotten, by what its own script noted. cancelled: it was asked to end."""
    last = runs[-1] if runs else None
    code = last.code if last else None
    here = LOST if code is None else DONE if code == 0 else FAILED
    ending = VANISHED if code is None else "ok" if code == 0 else "signal" if code > 128 else "program"
    if cancelled and code != 0:
        here, ending = CANCELLED, "stopped" if last else ""
    array = job.partition("_")[0] if index is not None else ""
    base = Told(id=job, spec=kept.spec(index), state=here, submitted=kept.submitted, array=array, more={"ours": True})
    if last is None:
        return replace(base, ending=ending)
    return replace(
        base, started=last.start, ended=last.end, gpus=tuple(f"{last.node}:gpu{i}" for i in last.gpus), node=last.node,
        attempts=len(runs), code=code,
        ending=ending, attained=sum(((run.end or run.start) - run.start) * len(run.gpus) for run in runs),
    )  # fmt: skip
