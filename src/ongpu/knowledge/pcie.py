"""How much a PCIe link carries."""

from ongpu.knowledge._tables import table


def practical(generation: int, lanes: int) -> float | None:
    """GB/s that copies over such a link reach in one direction, as measured; None for a generation that the table does not know."""
    told = table("pcie")
    lane = told["lane"].get(str(generation))
    return float(lane) * lanes * float(told["practical"]) if lane and lanes > 0 else None
