"""GPU memory that a process takes beside its tensors: the context, and the workspaces of libraries."""

from functools import cache

from ongpu.knowledge._tables import rows, table
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass

LAZY_SINCE = (1, 13)  # PyTorch asks CUDA for lazy loading of kernels


@dataclass(frozen=True, slots=True)
class Context:
    """One published size. card: None where the source does not name it. mib: of the context alone, tensors taken off."""

    card: str | None
    torch: str
    cuda: str
    lazy: bool
    mib: int
    had_run: str
    source: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """What a library takes in PyTorch's allocator. capability, memory_gib, torch: from (included) to below; None: no end."""

    library: str  # cublas or cublaslt
    capability: tuple[tuple[int, ...], tuple[int, ...]]
    memory_gib: float
    torch: tuple[tuple[int, ...], tuple[int, ...] | None]
    kib: int
    held: str
    source: str


@cache
def contexts() -> tuple[Context, ...]:
    """All published sizes, as the table has them."""
    return tuple(
        Context(None if card == "-" else card, torch, cuda, loading == "lazy", int(mib), had_run, source)
        for card, torch, cuda, loading, mib, had_run, source in rows(table("gpu_memory")["context"]["rows"], "|")
    )


def context_mib(torch: str) -> int:
    """MiB to reckon with for the context of a training process, by the version of PyTorch ('2.13.0'); kernels that it uses included.

    The cards differ less than the ways of loading kernels do, and too few are published to tell them apart.
    """
    told = table("gpu_memory")["context"]
    return int(told["lazy_mib"] if numbers(torch)[:2] >= LAZY_SINCE else told["eager_mib"])


@cache
def workspaces() -> tuple[Workspace, ...]:
    """All workspaces, as the table has them."""
    found = []
    for library, low, high, memory, since, before, kib, held, source in rows(table("gpu_memory")["workspace"]["rows"], "|"):
        torch = numbers(since), None if before == "-" else numbers(before)
        found.append(Workspace(library, (numbers(low), numbers(high)), float(memory), torch, int(kib), held, source))
    return tuple(found)


def workspace_kib(library: str, capability: str, torch: str, memory_gib: float = 0.0) -> int | None:
    """KiB of a library's workspace ('cublas', 'cublaslt') on a card ('8.0', its memory in GiB) with that PyTorch; None when unknown."""
    asked, version = numbers(capability)[:2], numbers(torch)[:2]
    fit = [
        one
        for one in workspaces()
        if one.library == library
        and one.capability[0] <= asked < one.capability[1]
        and one.memory_gib <= memory_gib
        and one.torch[0] <= version
        and (one.torch[1] is None or version < one.torch[1])
    ]
    return max(fit, key=lambda one: one.memory_gib).kib if fit and asked and version else None
