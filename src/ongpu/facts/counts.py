"""How many GPUs a machine should have, and how many somebody sees."""


from ongpu.lazy import dataclass
from ongpu.model import Fact

CONFIGURED = "[sample] gpus"  # the origin of a count that the operator set in the agent's configuration


@dataclass(frozen=True, kw_only=True)
class GpuCount(Fact):
    """Counts told in prose or by a cluster. told: cards that are in the machine; seen: cards that are shown."""

    told: int | None = None
    seen: int | None = None
    configured: bool | None = None  # `told` is what the operator set: [sample] gpus
    clusters: bool | None = None  # `seen` is a Kubernetes node's nvidia.com/gpu
