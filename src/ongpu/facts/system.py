"""What is known about processes on the machine."""


from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process on a GPU. Memory in MiB."""

    pid: int | None = None
    gpu: int | None = None
    name: str | None = None
    user: str | None = None
    memory: int | None = None
    kind: str | None = None  # "C", "G", "C+G"
    gone: bool = False  # the driver lists it, but no such process lives
    slice: str | None = None  # UUID of the MIG device that it runs on
    ref: Ref | None = None


@dataclass(frozen=True, kw_only=True)
class Processes(Fact):
    """Who is on the GPUs. `listed`: a process table was shown, so an empty one means that none is visible."""

    processes: tuple[Process, ...] = ()
    holders: tuple[Process, ...] = ()  # who has /dev/nvidia* open (fuser, lsof, /proc/*/fd)
    listed: bool | None = None
    absent: str | None = None  # what `ps | grep` was asked for and did not list: "train.py"
    mps_pipe: str | None = None  # the folder of CUDA's multi-process service, where its pipe is there
    mps_alive: bool | None = None  # whether its daemon lives
