"""The rows of the GPU table: architectures, chips and models."""

from functools import cache
from typing import Literal

from ongpu.knowledge._tables import rows, table
from ongpu.knowledge._versions import capability_numbers
from ongpu.lazy import dataclass

OpenModules = Literal["required", "supported", "unsupported"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One compute capability. cuda_last None: the newest toolkit still compiles for it. Drivers are branches ('580')."""

    capability: str
    name: str
    cuda_first: str
    open_modules: OpenModules
    cuda_last: str | None = None
    first_driver: str | None = None  # a lower bound: single cards came later
    last_driver: str | None = None  # None: still supported
    system_on_chip: bool = False  # Jetson and its kin: the driver comes with the system image
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """One model, or several that share a name; then a field in which they differ is None. Memory is per GPU, in GiB."""

    name: str
    chip: str | None
    capability: str | None
    memory_gib: float | None
    power_w: int | None  # reference board power; the card's own limit is what NVML says
    bus: str | None  # 'PCIe 4.0 x16', 'MXM-B (3.0)'
    kind: str | None  # consumer, workstation, datacenter, embedded, mining
    laptop: bool | None
    year: int | None
    note: str | None = None

    @property
    def architecture(self) -> Architecture | None:
        """Its architecture, when the capability is known."""
        return architecture(self.capability) if self.capability else None

    @property
    def pcie(self) -> tuple[int, int] | None:
        """PCIe generation and lanes, for instance (4, 16)."""
        parts = (self.bus or "").split()
        if len(parts) != 3 or parts[0] != "PCIe":
            return None
        return int(parts[1].partition(".")[0]), int(parts[2].removeprefix("x"))


@cache
def architectures() -> tuple[Architecture, ...]:
    """All capabilities from Fermi (2.0) on, oldest first."""
    return tuple(Architecture(**row) for row in table("gpus")["architecture"])


def architecture(capability: str) -> Architecture | None:
    """The architecture of a compute capability ('8.6' or 'sm_86'); None when it is not in the table."""
    asked = capability_numbers(capability)
    return next((a for a in architectures() if asked and capability_numbers(a.capability) == asked), None)


@cache
def _chips() -> dict[str, str]:
    return {chip: capability for capability, chips in table("gpus")["chips"].items() for chip in chips.split()}


def chip_capability(chip: str) -> str | None:
    """Compute capability of a chip's code name ('AD102', 'GA107BM', 'TU104GLM'); None when unknown."""
    name = chip.strip().upper()
    while len(name) > 4:  # pci.ids adds letters: GL workstation, M mobile, B revision
        if name in _chips():
            return _chips()[name]
        name = name[:-1]
    return None


@cache
def models() -> tuple[Model, ...]:
    """All models of the table."""
    notes: dict[str, str] = table("gpus")["notes"]
    return tuple(
        Model(
            name=name,
            chip=chip,
            capability=_chips().get(chip),
            memory_gib=float(memory) if memory else None,
            power_w=int(power) if power else None,
            bus=bus or None,
            kind=kind.split()[0],
            laptop=kind.endswith(" laptop"),
            year=int(year) if year else None,
            note=notes.get(name),
        )
        for name, chip, memory, power, bus, kind, year in rows(table("gpus")["models"]["rows"], "|")
    )
