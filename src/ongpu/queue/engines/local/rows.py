"""What the daemon reads from the book and writes into it."""

from pathlib import Path
from typing import NamedTuple

from ongpu.lazy import dataclass
from ongpu.queue.job import Spec


class Row(NamedTuple):
    """What the daemon has to know of a job that lives, to place it. seq: grows with every change of any job.

    A tuple, not a dataclass: there may be a hundred thousand, read in one go.
    """

    id: int
    seq: int
    state: str
    gpus: int
    memory: int | None
    share: bool
    model: str
    capability: str  # "8.0"
    limit: float | None
    cpus: int  # 0: not asked
    host_memory: int  # MiB; 0: not asked
    user: str
    project: str
    priority: int
    submitted: float
    since: float
    attained: float
    checkpoint: str
    begin: float | None
    blocked: int  # dependencies that have not ended
    array: int | None
    at_once: int | None
    avoid: tuple[str, ...]  # GPUs that failed under it
    attempt: int  # the number of its last run; 0: none
    wish: str  # "": none; "cancel", "preempt", "timeout", "idle", "fault": why it is asked to end
    reservation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job. leases: (UUID, slot); slot 0: the whole GPU, 1 to 63: a part of its memory."""

    job: int
    attempt: int
    leases: tuple[tuple[str, int], ...]
    spec: Spec
    state: str  # starting, running, ending
    claimed: float
    started: float | None = None
    asked: float | None = None  # when it was asked to end
    folder: Path  # of its output, `start` and `exit`


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How a run ended. then: the job's state now (an OVER one, WAITING where it is to run again); code None: not known."""

    job: int
    attempt: int
    code: int | None
    ending: str
    then: str
    slug: str = ""
    said: str = ""
    used: float = 0.0  # GPU-seconds
    avoid: tuple[str, ...] = ()
    busy: float | None = None
    peak: int | None = None
    energy: float | None = None
    delay: float = 0.0  # seconds before it may start again
    started: float | None = None  # where it was over before `Book.started` was told
    ended: float | None = None  # where that is longer ago than the telling: no daemon lived
