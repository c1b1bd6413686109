"""What is known about how fast the same work runs on two devices or in two precisions."""


from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True)
class Timing:
    """One measured time. device: "cpu", "gpu" or ""; precision: "single", "half" or ""; seconds: of one unit of work."""

    device: str
    precision: str
    seconds: float
    ref: Ref


@dataclass(frozen=True, kw_only=True)
class Comparisons(Fact):
    """Times of the same work, side by side."""

    timings: tuple[Timing, ...] = ()

    def gpu_over_cpu(self) -> float | None:
        """How many times longer the GPU takes than the CPU (above 1: slower); None where not both were timed."""
        gpu = [t.seconds for t in self.timings if t.device == "gpu"]
        cpu = [t.seconds for t in self.timings if t.device == "cpu"]
        return min(gpu) / min(cpu) if gpu and cpu and min(cpu) > 0 else None

    def half_over_single(self) -> float | None:
        """How many times longer half precision takes than single (above 1: slower); the last pair of lines counts."""
        half = [t.seconds for t in self.timings if t.precision == "half"]
        single = [t.seconds for t in self.timings if t.precision == "single"]
        return half[-1] / single[-1] if half and single and single[-1] > 0 else None
