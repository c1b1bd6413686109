"""What is known about collectives: NCCL's own log and the process group's."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True)
class NcclTimeout:
    """One collective that timed out."""

    operation: str | None
    rank: int | None
    seconds: float | None
    ref: Ref


@dataclass(frozen=True, kw_only=True)
class NcclLog(Fact):
    """What NCCL and the process group said. versions: host or rank -> NCCL version."""

    versions: Mapping[str, str] = field(default_factory=dict)
    interfaces: tuple[str, ...] = ()  # "lo", "eth0": those that NCCL uses
    timeouts: tuple[NcclTimeout, ...] = ()
    warnings: tuple[Ref, ...] = ()
    transports: tuple[str, ...] = ()  # "P2P/IPC", "SHM", "NET/Socket" ...
    version_lines: tuple[Ref, ...] = ()
    interface_lines: tuple[Ref, ...] = ()
