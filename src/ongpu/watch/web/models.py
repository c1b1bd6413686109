"""What the API gives and takes, as its OpenAPI document tells it. Times: seconds since the epoch. null: not known, never 0."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 2**53  # whole numbers beyond it are not the same in every reader of JSON


class Health(BaseModel):
    """Whether there is something to be known at all."""

    version: str
    agent: Literal["ok", "silent", "never", "no store"] = Field(
        description="silent: its last word is older than 10 s; never: it has not said anything"
    )
    age: float | None = Field(description="seconds since the agent's last word")
    up: bool | None = Field(description="whether NVML answers; null where the agent is silent")
    reason: str = Field(description="why it does not, or why the store cannot be read")
    gpus: int
    not_answering: int | None
    open_incidents: int


class Process(BaseModel):
    """A process on a GPU."""

    pid: int
    user: str | None
    command: str | None = Field(description="null: not visible from here")
    job: str | None
    container: str | None
    kind: str = Field(description="C: compute, G: graphics")
    memory_mib: int | None
    sm_percent: int | None
    cpu_cores: float | None
    host_memory_mib: int | None


class Verdict(BaseModel):
    """What a rule finds now."""

    slug: str
    severity: str
    certainty: str
    title: dict[str, str] = Field(description="by language")


class Gpu(BaseModel):
    """One GPU as the agent told of it last."""

    index: int
    uuid: str | None
    name: str | None
    bus: str | None
    condition: str = Field(description="ok, lost, hung, error, denied, gone, unknown; unknown too while the agent is silent")
    code: int | None = Field(description="NVML's return code, where it does not answer")
    since: float
    seen: float | None
    values: dict[str, int | None] = Field(description="in the units of the agent: percent, MiB, degrees Celsius, mW, MHz, mJ, kB/s")
    not_told: dict[str, int] = Field(description="which of them NVML does not tell, with its return code")
    identity: dict[str, Any]
    held_down: list[str] = Field(description="why the clocks are held down")
    xids: dict[str, int] = Field(description="by code, since the agent started")
    processes: list[Process]
    verdicts: list[Verdict]


class State(BaseModel):
    """The machine as the agent told of it last."""

    at: float
    written: float | None
    agent: Literal["ok", "silent", "never", "no store"]
    up: bool | None
    reason: str
    driver: str | None
    cuda: int | None = Field(description="12040 is 12.4")
    samples: int
    late: int
    restarts: int
    gpus: list[Gpu]
    machine: list[Verdict] = Field(description="of no single GPU")


class Point(BaseModel):
    """A point of a series. null: nothing is known from here to the next point."""

    t: float
    mean: float | None
    max: float | None


class Series(BaseModel):
    """One metric of one GPU."""

    gpu: int | None
    uuid: str
    metric: str
    start: float
    end: float
    points: list[Point]


class Command(BaseModel):
    """A command of a repair."""

    run: str
    risk: str


class Evidence(BaseModel):
    """A line that a finding stands on."""

    source: str
    line: int | None
    quote: str


class Ack(BaseModel):
    """That somebody has seen it."""

    t: float
    by: str = ""
    note: str = ""


class Incident(BaseModel):
    """A fault, from when it was told to when it was over, with its diagnosis."""

    model_config = ConfigDict(extra="ignore")

    id: int
    slug: str
    subject: str = ""
    gpu: int | None = None
    gpu_uuid: str | None = None
    severity: str = ""
    certainty: str = ""
    label: str = ""
    kind: str = ""
    opened: float
    closed: float | None = None
    flapping: int = 0
    words: dict[str, dict[str, str]] = {}
    commands: list[Command] = []
    refs: list[Evidence] = []
    see: list[str] = []
    ack: Ack | None = None
    silenced: bool = False


class Incidents(BaseModel):
    """Some of them, the latest first."""

    incidents: list[Incident]
    next: int | None = Field(description="the offset that gives more; null: there are no more")


class Used(BaseModel):
    """What one user, job, command or GPU used."""

    name: str | None
    state: Literal["held", "free", "unknown"]
    gpu_hours: float
    busy_share: float | None
    held_idle_hours: float | None
    held_idle_cost: float | None
    energy_kwh: float | None
    energy_estimated_kwh: float
    cost: float | None
    memory_peak_mib: int | None


class Work(BaseModel):
    """Who used what, the most GPU time first."""

    by: str
    start: float
    end: float
    currency: str
    rows: list[Used]


class Event(BaseModel):
    """Something that happened at a moment."""

    model_config = ConfigDict(extra="allow")

    id: int
    t: float


class Events(BaseModel):
    """The latest first."""

    events: list[Event]


class Silence(BaseModel):
    """Of what nobody is told."""

    model_config = ConfigDict(extra="ignore")

    id: int
    until: float
    slug: str = ""
    gpu: str = ""
    note: str = ""


class Silences(BaseModel):
    """Those that hold now."""

    silences: list[Silence]


class NewSilence(BaseModel):
    """What to be silent about: a slug, a GPU, or both."""

    model_config = ConfigDict(extra="forbid")

    seconds: float = Field(gt=0, le=366 * 86400)
    slug: str = Field("", max_length=120, pattern=r"^[a-z0-9-]*$")
    gpu: str = Field("", max_length=80, pattern=r"^[A-Za-z0-9:._-]*$", description="a UUID or an index")
    note: str = Field("", max_length=500)


class NewAck(BaseModel):
    """That somebody has seen it."""

    model_config = ConfigDict(extra="forbid")

    note: str = Field("", max_length=500)


class Problem(BaseModel):
    """Why there is no other answer."""

    detail: str
