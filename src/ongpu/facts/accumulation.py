"""What is known about gradient accumulation: the loss for several numbers of accumulation steps."""

import math

from ongpu.lazy import dataclass
from ongpu.model import Fact


@dataclass(frozen=True, kw_only=True)
class AccumulationTable(Fact):
    """Losses beside the accumulation steps that gave them, by rising steps. All with the same total batch."""

    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()

    @property
    def proportional(self) -> bool:
        """Whether the loss grows about as the number of steps does, over a factor of two at least."""
        if len(self.steps) < 2 or self.steps[0] <= 0 or self.losses[0] <= 0 or self.steps[-1] < 2 * self.steps[0]:
            return False
        wanted, got = self.steps[-1] / self.steps[0], self.losses[-1] / self.losses[0]
        return got > 0 and 0.7 <= math.log(got) / math.log(wanted) <= 1.4
