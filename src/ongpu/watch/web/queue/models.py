"""What the API gives and takes of the queue, as its OpenAPI document tells it. Times: seconds since the epoch. null: not known, never 0."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Word = Annotated[str, StringConstraints(max_length=20_000, pattern=r"^[^\x00]*$")]
Line = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
State = Literal["waiting", "held", "starting", "running", "ending", "done", "failed", "cancelled", "lost"]


class Card(BaseModel):
    """A GPU as the queue sees it."""

    id: str
    index: int
    node: str
    name: str
    memory_mib: int | None
    used_mib: int | None
    util: int | None
    state: str = Field(description="ok, suspect, drained, testing")
    slug: str = Field(description="what is wrong with it")
    since: float | None
    foreign: list[str] = Field(description="who computes on it and did not come through the queue")
    holder: str = Field(description="who leases it outside of the queue")
    drained_by: str = Field(description="whose queue took it out of service, where that is another user's; `slug` says why")
    jobs: list[str]


class Job(BaseModel):
    """A job. Its command, environment and output are not told here."""

    id: str
    name: str
    user: str
    project: str
    state: State
    array: str
    index: int | None
    gpus_asked: int
    memory_mib: int | None
    limit: float | None = Field(description="seconds that it may run")
    submitted: float | None
    since: float | None = Field(description="when it began to wait, the last time")
    started: float | None
    ended: float | None
    expected: float | None = Field(description="when it may start, where that can be told")
    gpus: list[str]
    node: str
    attempts: int
    code: int | None
    ending: str
    slug: str = Field(description="of the finding that explains its end")
    gpu_hours: float
    busy_share: float | None
    memory_peak_mib: int | None
    energy_kwh: float | None
    said: dict[str, str] = Field(description="by language: why it waits, or a warning")


class Jobs(BaseModel):
    """The queue: those that run, then those that wait in their order, then the last that ended."""

    at: float
    engine: str
    problem: str = Field(description="why nothing is known; else empty")
    warning: str = Field(description="why nothing starts; else empty")
    may_submit: bool
    counts: dict[str, int] = Field(description="by state, of all jobs")
    gpus: list[Card]
    jobs: list[Job]


class OneJob(BaseModel):
    """One job, and why it waits or ended so."""

    job: Job
    why: dict[str, list[str]] = Field(description="by language, the most important first")


class Run(BaseModel):
    """One run of a job. ended null: it goes on."""

    job: str
    name: str
    user: str
    project: str
    gpus: list[str]
    started: float
    ended: float | None
    ending: str
    slug: str


class Runs(BaseModel):
    """What ran where, by its end; those that go on last. cut: the oldest are missing."""

    start: float
    end: float
    cut: bool
    runs: list[Run]


class Share(BaseModel):
    """What one user or project had."""

    name: str
    gpus_now: int
    waiting: int
    runs: int
    gpu_hours: float
    energy_kwh: float | None
    cost: float | None


class Shares(BaseModel):
    """Who had how much, the most first."""

    by: str
    start: float
    end: float
    currency: str
    rows: list[Share]


class NewJob(BaseModel):
    """A job to be run by the user of this server. What is not told is not asked."""

    model_config = ConfigDict(extra="forbid")

    command: list[Word] = Field(min_length=1, max_length=1000, description="the program and its arguments; no shell reads them")
    name: Line = ""
    gpus: int = Field(1, ge=0, le=1024)
    memory_mib: int | None = Field(None, ge=1, le=2**30, description="that each GPU must have; with share, that the job may use")
    share: bool = False
    model: Line = Field("", description="a part of the GPU's name")
    limit: float | None = Field(None, ge=1, le=3e8, allow_inf_nan=False, description="seconds")
    cpus: int | None = Field(None, ge=1, le=65_536)
    host_memory_mib: int | None = Field(None, ge=1, le=2**30)
    folder: Line = Field("", description="an absolute path; empty: the user's own folder")
    environ: dict[Line, Word] = Field({}, max_length=1000, description="empty: that of a new shell")
    project: Line = ""
    priority: int = Field(0, ge=-10, le=10)
    retries: int | None = Field(None, ge=0, le=100, description="at a fault of the GPU; left out: as `ongpu submit` has it")
    checkpoint: Line = Field("", description="the signal at which it saves its state and ends, as SIGUSR1")


class Submitted(BaseModel):
    """The job's id."""

    id: str
