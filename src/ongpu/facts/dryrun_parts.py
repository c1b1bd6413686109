"""The parts of a dry run's answer: what one line, loader, optimizer or rank did."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import MAX_QUOTE, Ref


def size(count: float) -> str:
    """Bytes as people read them: GiB, MiB, KiB or bytes."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if abs(count) >= scale:
            return f"{count / scale:.2f} {unit}" if abs(count) < 100 * scale else f"{count / scale:.0f} {unit}"
    return f"{count / 1024:.0f} KiB" if abs(count) >= 1024 else f"{count:.0f} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """A function of the script that was never entered: lines `line` to `end`."""

    file: str = ""
    name: str = ""
    line: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The user's own innermost line."""

    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""

    def ref(self, about: str = "") -> Ref:
        """The line as evidence."""
        return Ref(self.file, self.line, self.text if len(self.text) <= MAX_QUOTE else self.text[:MAX_QUOTE] + " ...", about)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Where the script ended. kind: script, oom, device (two devices met), cuda (assert, fork, ordinal), unsupported, internal,
    arguments (the script wants some)."""

    type: str = ""
    message: str = ""
    traceback: str = ""
    place: Place | None = None
    kind: str = ""
    exit: int | None = None

    @property
    def short(self) -> str:
        """The message on one line, cut."""
        words = " ".join(self.message.split())
        return words if len(words) <= 200 else words[:200] + " ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The pretended card. Sizes in bytes; context: what a process costs before its first tensor."""

    name: str = ""
    total: int = 0
    capability: tuple[int, ...] = ()
    context: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations and matrix work (FLOP, 2 a multiply-add) of one line on one device."""

    place: Place | None = None
    device: str = ""
    ops: int = 0
    flop: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A module that was called. bytes by device, parameters by dtype."""

    class_: str = ""
    parameters: int = 0
    trainable: int = 0
    bytes: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, int] = field(default_factory=dict)
    called: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """An optimizer and where its state lies."""

    class_: str = ""
    parameters: int = 0
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    foreach: bool | None = None
    fused: bool | None = None
    set_to_none: bool | None = None
    steps: int = 0
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What ran and what lay where: bytes by device."""

    ops: Mapping[str, int] = field(default_factory=dict)
    flop: Mapping[str, float] = field(default_factory=dict)
    by_line: tuple[Work, ...] = ()
    parameters: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, int] = field(default_factory=dict)
    gradients: Mapping[str, int] = field(default_factory=dict)
    optimizer_state: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Bytes that a line (or a module, or one tensor) holds at the peak."""

    place: Place | None = None
    kind: str = ""
    bytes: int = 0
    count: int = 0
    module: str = ""
    class_: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    op: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """What filled the memory when most was in use."""

    by_kind: Mapping[str, int] = field(default_factory=dict)
    by_line: tuple[Share, ...] = ()
    by_module: tuple[Share, ...] = ()
    largest: tuple[Share, ...] = ()
    place: Place | None = None
    op: str = ""
    phase: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMemory:
    """Bytes after one optimizer step, and at most in it."""

    allocated_after: int = 0
    reserved_after: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """The moment in which the card was full. Bytes asked for, in use and reserved."""

    message: str = ""
    asked: int = 0
    place: Place | None = None
    op: str = ""
    phase: str = ""
    step: int | None = None
    allocated: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The simulated allocator's figures, in bytes, of cuda:0. capacity: what is left for it beside the context."""

    capacity: int = 0
    context: int = 0
    workspace: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    peak_requested: int = 0
    peak_total: int = 0
    at_peak: Peak = Peak()
    fragmentation: float = 0.0
    steps: tuple[StepMemory, ...] = ()
    growth: int | None = None
    growth_by_line: tuple[Share, ...] = ()
    oom: Exhausted | None = None  # where it was full the run went on as with an endless card, to learn its need
    ooms: int = 0
    retries: int = 0
    empty_cache_calls: tuple[Share, ...] = ()
    expandable_segments: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A line at which Python waits for the GPU."""

    place: Place | None = None
    kind: str = ""
    count: int = 0
    per_step: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A line that copies between host and GPU."""

    place: Place | None = None
    direction: str = ""
    count: int = 0
    bytes: int = 0
    non_blocking: int = 0
    pinned: int = 0
    per_step: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLoader:
    """A loader as it was set. seconds: spent waiting for its batches on this machine."""

    place: Place | None = None
    dataset: str = ""
    length: int | None = None
    batch_size: int | None = None
    workers: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    drop_last: bool | None = None
    shuffle: bool | None = None
    sampler: str = ""
    context: str = ""
    batches: int = 0
    seconds: float = 0.0
    per_epoch: int | None = None
    set_epoch: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Backward passes up to one optimizer step. scaled None: it cannot be told whether the loss was divided."""

    backwards: int = 0
    scaled: bool | None = None
    step_place: Place | None = None
    backward_place: Place | None = None
    zeroed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """The windows as executed. dropped: backward passes at the end of the run that no step followed; None: it was stopped before."""

    windows: tuple[Window, ...] = ()
    every: int | None = None
    dropped: int | None = None
    loader_batches: int | None = None
    scaled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """Indices or labels outside what an operation allows."""

    place: Place | None = None
    op: str = ""
    low: int | None = None
    high: int | None = None
    allowed: tuple[int, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A thing told beside: an assumption, what could not be followed, a note, CUDA in a forked process."""

    place: Place | None = None
    what: str = ""
    op: str = ""
    why: str = ""
    note: str = ""
    text: str = ""
    value: str | float | bool | None = None
    count: int = 1
    branched: bool | None = None
    went_on: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Autocast:
    """A line that switched autocast on."""

    dtype: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How often the script asked for what."""

    empty_cache: int = 0
    synchronize: int = 0
    autocast: tuple[Autocast, ...] = ()
    compile: int = 0
    checkpoint: int = 0
    grad_scaler: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedBatch:
    """One batch size that was run."""

    batch: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    fits: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The search for the largest batch. largest None: it could not be told, `why` says so; 0: not even one row fits."""

    as_run: int | None = None
    largest: int | None = None
    traced: tuple[TracedBatch, ...] = ()
    reserved_per_sample: float | None = None
    reserved_fixed: float | None = None
    verified: bool | None = None
    by: str = ""
    why: str = ""
    accumulate: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a change would save, computed. saved: bytes of reserved memory. failed: why it could not be computed."""

    change: str = ""
    failed: str | None = None
    peak_allocated: int | None = None
    peak_reserved: int | None = None
    saved: int | None = None
    how: str = ""
    applies: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A collective call."""

    op: str = ""
    place: Place | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    group: str = ""
    count: int = 1

    def __str__(self) -> str:
        shape = f" {list(self.shape)}" if self.shape else ""
        return f"{self.op}{shape}{f' ({self.place})' if self.place else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a pretended torchrun job."""

    rank: int = 0
    local_rank: int | None = None
    device: str | None = None
    outcome: str = ""
    error: Failure | None = None
    peak_reserved: int = 0
    collectives: tuple[Collective, ...] = ()
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The n-th collective of the ranks differs. A rank with None calls none."""

    index: int = 0
    ranks: Mapping[str, Collective | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that the script wrote or saved."""

    path: str = ""
    what: str = ""
    redirected: str | None = None
    refused: bool | None = None
