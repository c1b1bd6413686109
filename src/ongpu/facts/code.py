"""What is known about the failing program: its traceback, its memory error, its log."""


from ongpu.lazy import dataclass, lazy
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a Python traceback."""

    file: str
    line: int
    function: str
    code: str
    ref: Ref

    @property
    def library(self) -> bool:
        """Whether it lies in an installed package or the standard library, not in the user's own code."""
        path = self.file.replace("\\\\", "/").replace("\\", "/")
        return any(p in path for p in ("site-packages/", "dist-packages/", "/lib/python", ".../", "<frozen", "/torch/"))

    @property
    def framework(self) -> bool:
        """Whether it lies in PyTorch itself or in the standard library."""
        path = self.file.replace("\\", "/")
        return "/torch/" in path or "<frozen" in path or ("/lib/python" in path and "-packages/" not in path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """One exception of a log, with the frames that led to it (none where only its last line was given)."""

    error: str  # the type as printed: "torch.cuda.OutOfMemoryError"
    message: str  # its words; lines joined by line ends
    frames: tuple[Frame, ...] = ()
    ref: Ref

    def own(self) -> tuple[Frame, ...]:
        """The frames in the user's own code."""
        return tuple(frame for frame in self.frames if not frame.library)

    def through(self, *words: str) -> Frame | None:
        """The innermost frame whose file, function or code holds one of these words."""
        for frame in reversed(self.frames):
            told = f"{frame.file} {frame.function} {frame.code}".replace("\\", "/")
            if any(word in told for word in words):
                return frame
        return None

    def cite(self) -> tuple[Ref, ...]:
        """The line that says it, and the innermost lines of the user's own code: where there is none, of the package that called torch."""
        near = self.own()[-2:] or tuple(frame for frame in self.frames if not frame.framework)[-1:]
        return (self.ref, *(frame.ref for frame in reversed(near)))


_TORCH = lazy(
    r"each tensor to be equal size|size of tensor a|mat1 and mat2|\btorch\.|expected scalar type|CUDA out of memory\. Tried"
    r"|all tensors to be on the same|Sizes of tensors must"
)


@dataclass(frozen=True, kw_only=True)
class Traceback(Fact):
    """A Python traceback; frames from the outermost in. `error` is the exception's type, `message` its words."""

    frames: tuple[Frame, ...] = ()
    error: str | None = None
    message: str | None = None
    raised: tuple[Raised, ...] = ()  # every exception in the text, in order; the fields above are one of them

    @property
    def in_torch(self) -> bool:
        """Whether PyTorch raised what ended the run: TensorFlow, where it is there at all, only came along (for its logs, its files)."""
        last = next((raised for raised in reversed(self.raised) if raised.error), None)
        kinds = ("RuntimeError", "IndexError", "ValueError", "OutOfMemoryError")
        return last is not None and last.error.endswith(kinds) and bool(_TORCH.search(last.message) or last.through("/torch/"))

    def said(self, *words: str) -> Raised | None:
        """The first exception whose words hold one of these (lower case), one with frames preferred."""
        found = [r for r in self.raised if any(w in r.message.lower() or w in r.error.lower() for w in words)]
        return next((r for r in found if r.frames), found[0] if found else None)

    def own(self) -> tuple[Frame, ...]:
        """The frames in the user's own code."""
        return tuple(frame for frame in self.frames if not frame.library)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oom:
    """One out-of-memory message of PyTorch or another framework. Figures in GiB, None where not printed."""

    wanted: float | None = None
    gpu: int | None = None
    total: float | None = None
    free: float | None = None
    allocated: float | None = None
    reserved: float | None = None  # reserved in total (new messages: allocated + reserved but unallocated)
    unallocated: float | None = None
    in_use: float | None = None  # by this process, non-PyTorch memory included
    others: float | None = None  # by other processes, as the message says them
    text: str = ""
    ref: Ref
    framework: str | None = None  # "torch", "tensorflow", "jax", "paddle", "cupy", "llama.cpp", "vllm" ...
    kind: str | None = None  # "kv-cache", "startup" where it is not a plain allocation
    pids: tuple[int, ...] = ()  # other processes that the message names

    @property
    def holdable(self) -> float | None:
        """GiB that the allocator could give at best: what is free and what it reserves without use."""
        spare = self.unallocated
        if spare is None and self.reserved is not None and self.allocated is not None:
            spare = max(0.0, self.reserved - self.allocated)
        return None if self.free is None or spare is None else self.free + spare

    @property
    def idle_reserve(self) -> float | None:
        """GiB that PyTorch reserves without using them."""
        if self.unallocated is not None:
            return self.unallocated
        if self.reserved is None or self.allocated is None:
            return None
        return max(0.0, self.reserved - self.allocated)

    @property
    def held_by_others(self) -> float | None:
        """GiB that somebody else (or this process outside the framework) holds; None where the figures do not say."""
        if self.others:
            return self.others
        if self.total is None or self.free is None:
            return None
        mine = self.in_use if self.in_use is not None else self.reserved if self.reserved is not None else self.allocated
        return None if mine is None else max(0.0, self.total - self.free - mine)


@dataclass(frozen=True, kw_only=True)
class OutOfMemory(Fact):
    """The out-of-memory messages, in order."""

    errors: tuple[Oom, ...] = ()


@dataclass(frozen=True, slots=True)
class Speed:
    """One line of a training log: seconds per step and of these waiting for data, where printed."""

    step: float | None
    seconds: float | None
    data_seconds: float | None
    memory_gib: float | None
    ref: Ref
    epoch: float | None = None
    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingLog(Fact):
    """The course of a run, as its log lines tell it."""

    speeds: tuple[Speed, ...] = ()
    batches: int | None = None  # batches of an epoch on one device
    accumulation: int | None = None  # gradient accumulation steps
    optimizer_steps: int | None = None  # in the whole run, as the trainer announces them
    epochs: int | None = None

    def memory(self) -> tuple[Speed, ...]:
        """The lines that tell the memory in use."""
        return tuple(s for s in self.speeds if s.memory_gib is not None)

    def data_share(self) -> float | None:
        """Share of the step's time (0 to 1) that is spent waiting for data; the median of the lines that tell it."""
        shares = sorted(s.data_seconds / s.seconds for s in self.speeds if s.data_seconds is not None and s.seconds)
        return shares[len(shares) // 2] if shares else None
