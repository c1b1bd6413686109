"""How many GPUs a machine should have, and how many somebody sees."""


from ongpu.lazy import dataclass
from ongpu.model import Fact


@dataclass(frozen=True, kw_only=True)
class GpuCount(Fact):
    """Counts told in prose or by a cluster. told: cards that are in the machine; seen: cards that are shown."""

    told: int | None = None
    seen: int | None = None
    clusters: bool | None = None  # `seen` is a Kubernetes node's nvidia.com/gpu
