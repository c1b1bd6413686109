"""What compute-sanitizer (or the old cuda-memcheck) found in the program's kernels and calls."""

import re

from ongpu.lazy import dataclass, lazy
from ongpu.model import Fact, Ref

# Kernels of libraries: a hazard in them is more often a false alarm or a bad argument than a bug of theirs.
_LIBRARY = lazy(
    r"\b(?:at::(?:native|cuda)|c10::|cub::|thrust::|cutlass|cudnn|nccl|cublas|void gemm|ampere_|volta_|turing_|sm\d{2}_|flash::)"
)
# Calls whose error the caller looks for and handles: attributes of foreign pointers, peers that are enabled twice, NCCL's
# probe of its own kernels, and what happens while a process ends.
_HANDLED = lazy(
    r"PeerAccessAlreadyEnabled|PEER_ACCESS_ALREADY_ENABLED|NotReady|NOT_READY|CudartUnloading|DEINITIALIZED|ContextIsDestroyed"
    r"|ProfilerAlreadyStarted|NotSupported|NOT_SUPPORTED|InvalidResourceHandle"
)
_PROBES = lazy(r"GetAttribute|GetLastError|PeekAtLastError|FuncGetAttributes|GetProcAddress|HostGetFlags|PrimaryCtxGetState")
_CONSEQUENCES = lazy(r"LaunchFailure|LAUNCH_FAILED|IllegalAddress|ILLEGAL_ADDRESS|MisalignedAddress|Assert|ASSERT|999|Unknown")


@dataclass(frozen=True, slots=True)
class Fault:
    """One access, hazard or barrier that the tool objects to.

    kind: access, uninitialized, race, barrier, or streams (PyTorch's own sanitizer: kernel and host are the two operators).
    what: its words ("write of size 4 bytes"). kernel: demangled, without offset;
    place: file:line of the device code, where it was compiled with -lineinfo. beyond: bytes from the nearest allocation of
    `size` bytes (negative: before it); inside: the access lies in it. host: the first frame on the host that is no library's.
    """

    kind: str
    what: str
    ref: Ref
    space: str = ""
    kernel: str | None = None
    place: str | None = None
    thread: str | None = None
    misaligned: bool = False
    beyond: int | None = None
    inside: bool = False
    size: int | None = None
    host: str | None = None
    warning: bool = False
    refs: tuple[Ref, ...] = ()

    def of_library(self) -> bool:
        """Whether the kernel is a library's."""
        return bool(self.kernel and _LIBRARY.search(self.kernel))

    def function(self) -> str | None:
        """The kernel's bare name."""
        if self.kernel is None:
            return None
        named = re.sub(r"\(anonymous namespace\)|<unnamed>", "anonymous", self.kernel.removeprefix("void "))
        bare = re.split(r"[(<\[]", named, maxsplit=1)[0].rpartition("anonymous::")[2].strip()
        return bare[-80:] or self.kernel[:80]


@dataclass(frozen=True, slots=True)
class ApiError:
    """A call of the CUDA API that returned an error."""

    code: str
    number: int | None
    words: str
    call: str
    ref: Ref
    host: str | None = None

    def handled(self) -> bool:
        """Whether programs usually expect this error and go on."""
        return bool(_HANDLED.search(self.code) or _PROBES.search(self.call) or (self.host and "ncclInitKernels" in self.host))

    def consequence(self) -> bool:
        """Whether it only tells that a kernel failed before."""
        return bool(_CONSEQUENCES.search(self.code))


@dataclass(frozen=True, kw_only=True)
class Sanitizer(Fact):
    """A report. errors: the number in its summary. leaked: bytes that were never freed, in `leaks` allocations."""

    faults: tuple[Fault, ...] = ()
    calls: tuple[ApiError, ...] = ()
    errors: int | None = None
    summary: Ref | None = None
    leaked: int | None = None
    leaks: int | None = None
    leak_ref: Ref | None = None

    def working(self) -> bool:
        """Whether the whole program was checked and nothing found."""
        return self.errors == 0 and not self.faults and not self.calls

    def of(self, *kinds: str) -> tuple[Fault, ...]:
        """The faults of these kinds."""
        return tuple(fault for fault in self.faults if fault.kind in kinds)
