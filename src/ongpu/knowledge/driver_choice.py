"""Which driver branch serves these cards and that CUDA: the choice behind `ongpu pick driver`."""

from ongpu.knowledge import cuda as cuda_table
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """A driver branch. modules: "open", "proprietary" or "either" kernel modules. end_of_life: where it is known."""

    branch: cuda_table.Branch | None
    modules: str
    oldest: str  # the floor that the cards and the CUDA set, "" where none is known
    last: str  # the newest branch that still supports the cards, "" where support goes on
    ended: bool  # its support has ended: there is no better for these cards


def pick_driver(
    capabilities: tuple[str, ...], today: str, cuda: str | None = None, windows: bool = False, offered: tuple[str, ...] = ()
) -> DriverChoice:
    """The driver branch for cards and a CUDA version: the newest that is supported ("2026-11-30" = today), of those that the
    distribution itself offers where one of them serves.

    The branch is None where no branch serves all the cards and that CUDA.
    """
    last = min((c for c in map(cuda_table.support_ended_after, capabilities) if c), key=numbers, default="")
    floors = [cuda_table.oldest_driver_for(cuda, windows) if cuda else None, *map(cuda_table.oldest_driver_for_gpu, capabilities)]
    oldest = max((floor for floor in floors if floor), key=numbers, default="")
    fitting = [
        one
        for one in cuda_table.branches()
        if (not last or numbers(one.number) <= numbers(last)) and (not oldest or numbers(one.number) >= numbers(oldest)[:1])
    ]
    alive = [one for one in fitting if one.kind in ("production", "long term") and (one.end_of_life or "9999") > today]
    own = [one for one in alive if one.number in offered]
    best = own[-1] if own else alive[-1] if alive else fitting[-1] if fitting else None
    kinds = {cuda_table.open_modules(capability) for capability in capabilities}
    modules = "open" if "required" in kinds else "proprietary" if "unsupported" in kinds else "either"
    if {"required", "unsupported"} <= kinds:
        best, modules = None, "none"  # no module serves a Blackwell and a Pascal card in one machine
    return DriverChoice(best, modules, oldest, last, not alive and best is not None)
