"""Where a distribution gets its NVIDIA driver from."""


from ongpu.knowledge._tables import table
from ongpu.lazy import dataclass


@dataclass(frozen=True, slots=True)
class DriverSource:
    """One way. command: "" where it is not a command. memory: not checked against the distribution."""

    on: str
    command: str
    branches: tuple[str, ...] = ()
    version: str | None = None
    need: str | None = None
    need_zh: str | None = None
    memory: bool = False


def driver_source(distribution: str, version: str | None = None) -> DriverSource | None:
    """The way of a distribution ("debian", "12"), its own version first; None where the table has none."""
    rows = [DriverSource(**{**row, "branches": tuple(row["branches"])}) for row in table("driver_sources")["from"]]
    mine = [row for row in rows if row.on == distribution]
    exact = next((row for row in mine if row.version == version), None)
    return exact or next((row for row in mine if row.version is None), mine[-1] if mine else None)
