"""What profilers recorded: how busy each GPU was and what it waited for; what its memory held, and who owned it."""

from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True)
class Wait:
    """Time in which a GPU ran nothing, of one cause: loading, launch, sync, copy, allocation, compile, code, queue or unknown.

    milliseconds in all and of the longest; percent of the time that was looked at; the number of gaps.
    """

    cause: str
    milliseconds: float
    percent: float
    gaps: int
    longest: float
    ref: Ref


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of one family (tensor-core, plain-matmul, attention, collective, other), or one kernel, by name."""

    name: str
    milliseconds: float
    count: int
    ref: Ref
    example: str = ""


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """Where the host waited for the GPU: the operator, and the user's frame where stacks were recorded."""

    operator: str
    calls: int
    milliseconds: float
    ref: Ref
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as the profiler names it."""

    name: str
    index: int | None = None
    bytes: int | None = None
    capability: str | None = None


@dataclass(frozen=True, slots=True)
class GpuTime:
    """How one GPU spent the time that was looked at. Milliseconds. `alone`: nothing else ran meanwhile."""

    trace: str
    index: int
    span: float
    kernel_span: float
    busy: float
    compute: float
    copy_alone: float
    collective: float
    collective_alone: float
    kernels: int
    small: int
    ref: Ref
    rank: str | None = None  # "3/8", as the trace tells
    step: float | None = None
    steps: int | None = None
    host: bool = True
    waits: tuple[Wait, ...] = ()
    families: tuple[Kernels, ...] = ()
    longest: tuple[Kernels, ...] = ()
    copies: tuple[Kernels, ...] = ()
    syncs: tuple[SyncPoint, ...] = ()
    loading: float | None = None  # all of it, hidden or not
    loading_at_most: float | None = None  # percent by which a step could be shorter were loading free
    loading_ref: Ref | None = None
    card: Card | None = None

    def share(self, milliseconds: float) -> float:
        """Percent of the time that was looked at."""
        return 100 * milliseconds / self.span if self.span > 0 else 0.0

    def wait(self, *causes: str) -> float:
        """Percent of the time in which the GPU ran nothing for these causes."""
        return sum(wait.percent for wait in self.waits if wait.cause in causes)

    def why(self, *causes: str) -> tuple[Ref, ...]:
        """The lines that tell of these causes, after the GPU's own."""
        return (self.ref, *(wait.ref for wait in self.waits if wait.cause in causes))

    def family(self, name: str) -> Kernels | None:
        """The kernels of one family."""
        return next((one for one in self.families if one.name == name), None)

    def of_kernels(self, name: str) -> float:
        """Percent of the kernels' own time (collectives apart) that this family takes."""
        whole = sum(one.milliseconds for one in self.families if one.name != "collective")
        one = self.family(name)
        return 100 * one.milliseconds / whole if one and whole > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Profile(Fact):
    """What timelines show: one entry for each GPU of each trace. `tools`: who wrote them."""

    gpus: tuple[GpuTime, ...] = ()
    tools: tuple[str, ...] = ()
    without_gpu: tuple[Ref, ...] = ()  # traces that show no activity of a GPU

    def working(self) -> bool:
        """Whether a GPU did something."""
        return any(gpu.busy > 0 for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Owner:
    """Bytes that one place in the program holds, and in how many blocks."""

    place: str
    bytes: int
    blocks: int
    ref: Ref


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request for memory that failed, and the state of the allocator then, where the snapshot tells it. Bytes."""

    bytes: int
    ref: Ref
    device_free: int | None = None
    reserved: int | None = None
    allocated: int | None = None
    largest_idle: int | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What PyTorch's allocator held on one GPU: at the snapshot, and at the peak of what was recorded before it. Bytes.

    idle: reserved and not in use. lowest: the lowest use in each eighth of the record, where it rises from part to part.
    """

    index: int
    reserved: int
    allocated: int
    requested: int
    idle: int
    largest_idle: int
    segments: int
    ref: Ref
    expandable: bool = False
    peak: int = 0
    peak_ref: Ref | None = None
    entries: int = 0
    owners: tuple[Owner, ...] = ()
    kept: tuple[Owner, ...] = ()
    lowest: tuple[int, ...] = ()
    growth_ref: Ref | None = None
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Allocations(Fact):
    """What snapshots of PyTorch's CUDA allocator show, by GPU."""

    gpus: tuple[Held, ...] = ()

    def working(self) -> bool:
        """Whether memory of a GPU was in use."""
        return any(held.allocated or held.peak for held in self.gpus)


def gib(size: float) -> str:
    """Bytes as text: "1.53 GiB", "20.0 MiB"."""
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"
