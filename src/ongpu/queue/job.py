"""A job as it is asked for (`Spec`) and as an engine tells of it (`Told`): the same words for all engines."""

import os
from collections.abc import Mapping
from typing import Any

from ongpu.lazy import dataclass, field

WAITING, HELD, STARTING, RUNNING, ENDING = "waiting", "held", "starting", "running", "ending"  # ENDING: asked to stop, or being looked into
DONE, FAILED, CANCELLED, LOST = "done", "failed", "cancelled", "lost"  # LOST: it ended, and nobody knows how
LIVE = (WAITING, HELD, STARTING, RUNNING, ENDING)
OVER = (DONE, FAILED, CANCELLED, LOST)
# How a run of it ended, besides those of queue/run.py (ok, gpu-fault, out-of-memory, host-memory, program, signal, stopped)
TIMEOUT, IDLE, PREEMPTED, VANISHED, REBOOT, NOT_STARTED = "timeout", "idle", "preempted", "vanished", "reboot", "not-started"
DEPENDENCY = "dependency"  # it never ran: what it was to follow by "ok" failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is asked for. Memory in MiB, times in seconds; None or "": not asked."""

    command: tuple[str, ...]
    name: str = ""
    gpus: int = 1
    memory: int | None = None  # that each GPU must have; with `share`, that the job may use
    share: bool = False  # others of the same queue may be on the GPU, as far as its memory goes
    model: str = ""  # a part of the GPU's name, case aside: "A100"
    capability: tuple[int, int] | None = None  # at least: (8, 0)
    limit: float | None = None
    cpus: int | None = None
    host_memory: int | None = None
    folder: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    project: str = ""
    priority: int = 0  # -10 to 10; one is worth a doubling of GPU time
    index: int | None = None  # within its array
    at_once: int | None = None  # of its array
    after: tuple[tuple[str, str], ...] = ()  # ("ok" or "any", id)
    begin: float | None = None  # seconds since the epoch
    retries: int = 0
    retry_on: str = "gpu-fault"  # or "any"
    checkpoint: str = ""  # the signal at which it saves its state and ends: "SIGUSR1"
    saved: str = ""  # a glob, relative to `folder`: what must be newer after a preemption
    grace: float = 30.0  # seconds between a signal and SIGKILL
    idle: float | None = None  # seconds without use of its GPUs after which it is warned
    idle_stop: bool = False  # and stopped, the same time later
    on_reboot: str = "requeue"  # or "fail"
    output: str = ""  # a file, %a in its name: the index in its array; "": the engine's own
    notify: str = ""  # an address that Apprise takes
    reservation: str = ""
    script: str = ""  # of our own queue: which word of the command is a script, and its copy (engines/local/scripts.py): "0:NAME"


def output_of(spec: Spec) -> str:
    """The file that it writes to, in its folder where the name is relative; "": its engine's own."""
    name = spec.output if spec.index is None else spec.output.replace("%a", str(spec.index))
    return os.path.join(spec.folder or "/", name) if name else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A job as its engine knows it. Times: seconds since the epoch. None or "": not told."""

    id: str
    spec: Spec
    state: str
    user: str = ""
    array: str = ""  # the id of the array that it belongs to
    submitted: float = 0.0
    since: float | None = None  # when it began to wait, the last time
    started: float | None = None  # of the last run
    ended: float | None = None
    gpus: tuple[str, ...] = ()  # of the last run: UUIDs, or what the engine calls them
    node: str = ""
    attempts: int = 0
    code: int | None = None  # its exit code; 128 + n for signal n
    ending: str = ""
    slug: str = ""  # of the finding that explains its end
    attained: float = 0.0  # GPU-seconds, all runs
    busy: float | None = None  # share of its time that its GPUs worked
    peak: int | None = None  # MiB
    energy: float | None = None  # joules
    said: str = ""  # a word of the engine's: Slurm's reason, a warning
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU as its engine knows it. state: ok, suspect, drained, testing. memory in MiB. jobs: ids of those on it."""

    id: str
    index: int = 0
    name: str = ""
    node: str = ""
    memory: int | None = None
    capability: str = ""  # "8.0"
    used: int | None = None
    util: int | None = None
    state: str = "ok"
    slug: str = ""
    since: float | None = None
    foreign: tuple[str, ...] = ()  # who computes on it and did not come through the queue
    holder: str = ""  # who leases it outside of the queue
    unexplained: int | None = None  # MiB of its memory in use by no program that can be seen, where that is much: given out last
    drained_by: str = ""  # whose queue took it out of service, where that is another's; `slug` says why
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Which jobs are asked for. ids: those alone. most: at most so many of these; else of the waiting, and as many that are over."""

    ids: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    user: str = ""
    project: str = ""
    name: str = ""
    most: int | None = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The jobs that were asked for, running ones first, then waiting ones in the order in which they come, then the last that ended."""

    jobs: tuple[Told, ...]
    counts: Mapping[str, int]  # state -> how many there are in all
    cards: tuple[Card, ...] = ()
    warning: tuple[str, str] | None = None  # English, Chinese: "nothing starts: ..."
