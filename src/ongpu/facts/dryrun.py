"""What a training script did on a pretend GPU: one object, as the dry run inside the user's interpreter told it."""

from collections.abc import Iterator

from ongpu.facts.dryrun_parts import (
    Accumulation,
    Aside,
    Calls,
    Card,
    Copy,
    DataLoader,
    Devices,
    Failure,
    Indices,
    LargestBatch,
    Memory,
    Mismatch,
    Peak,
    Rank,
    Saving,
    Sync,
    Unreached,
    WrittenFile,
)
from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref

GIB = 1 << 30
HEAVY = 1e9  # matrix work (FLOP) that is worth telling where it ran
# bytes of state beside each byte of float32 parameter, at least, once the optimizer has stepped (torch.optim's own docs)
STATES = {"Adam": 2.0, "AdamW": 2.0, "NAdam": 2.0, "RAdam": 2.0, "Adamax": 2.0, "Adagrad": 1.0, "RMSprop": 1.0, "Adadelta": 2.0}


@dataclass(frozen=True, kw_only=True)
class DryRun(Fact):
    """The whole answer; fields as in the schema of `ongpu.probes.dryrun`.

    outcome: finished, stopped (after the wanted steps), error, timeout, unsupported (it could not be followed), crashed.
    """

    outcome: str = ""
    error: Failure | None = None
    stopped_by: str | None = None
    torch: str = ""
    python: str = ""
    script: str = ""
    mode: str = ""
    seconds: float = 0.0
    card: Card = Card()
    steps: int = 0
    batches: int = 0
    backwards: int = 0
    batch_size: int | None = None
    devices: Devices = Devices()
    memory: Memory = Memory()
    syncs: tuple[Sync, ...] = ()
    copies: tuple[Copy, ...] = ()
    loaders: tuple[DataLoader, ...] = ()
    accumulation: Accumulation = Accumulation()
    indices: tuple[Indices, ...] = ()
    forked: tuple[Aside, ...] = ()
    assumptions: tuple[Aside, ...] = ()
    unsupported: tuple[Aside, ...] = ()
    notes: tuple[Aside, ...] = ()
    calls: Calls = Calls()
    batch: LargestBatch | None = None
    savings: tuple[Saving, ...] = ()
    ranks: tuple[Rank, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    unreached: tuple[Unreached, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether the script went on as long as it was wanted."""
        return self.outcome in ("finished", "stopped") or (self.outcome == "timeout" and self.steps >= 2)

    @property
    def missed(self) -> tuple[Unreached, ...]:
        """The functions of the script of which nothing is known, because it was stopped; () where it ran to its end."""
        return self.unreached if self.outcome in ("stopped", "timeout") else ()

    @property
    def own_error(self) -> Failure | None:
        """The error that ended the script, where it is its own: no device, CUDA or memory, and nothing that we caused."""
        ended = self.outcome == "error" and self.error is not None and self.error.kind == "script"
        return self.error if ended and not self._reads_back and not self._in_spawned else None

    @property
    def _in_spawned(self) -> bool:
        """Whether it came in a process that mp.spawn started: a real one, without the pretended GPU, so it says nothing of the script."""
        return self.error is not None and self.error.type.endswith(("ProcessRaisedException", "ProcessExitedException"))

    @property
    def _reads_back(self) -> bool:
        """Whether a file is missing in a folder to which the script saved what the dry run kept elsewhere."""
        folders = {file.path.rpartition("/")[0] for file in self.files if file.redirected or file.refused}
        missing = self.error is not None and "No such file" in self.error.message
        return missing and self.error is not None and any(folder and folder in self.error.message for folder in folders)

    @property
    def used_gpu(self) -> bool:
        """Whether anything was computed on the pretended GPU (in a job of several ranks: by any)."""
        return self.devices.ops.get("cuda", 0) > 0 or any(rank.peak_reserved for rank in self.ranks)

    @property
    def ran_out(self) -> bool:
        """Whether the script ended because the card was full."""
        return self.outcome == "error" and self.error is not None and self.error.kind == "oom"

    def working(self) -> bool:
        """Whether the whole run was followed, and used the GPU."""
        return self.ran and self.used_gpu and self.unseen() is None

    def unseen(self) -> str | None:
        """What keeps us from telling that all is well: what could not be followed; None where all that matters was."""
        error = self.error
        stops = next((aside for aside in self.unsupported if aside.went_on is False), None)
        if self.outcome == "crashed" or (error and error.kind == "internal"):
            return f"the dry run itself failed: {error.type}: {error.short}" if error else "the dry run itself failed"
        if self.outcome == "unsupported" or (error and error.kind == "unsupported") or stops:
            what = f"{stops.op}: {stops.why}" if stops else error.short if error else "what the script does"
            place = stops.place if stops else error.place if error else None
            return f"{what}{f' ({place})' if place else ''}"
        if error and error.kind == "arguments":
            return f"the script wants arguments: {error.short}"
        if error and self._reads_back:
            return f"the script reads back what it saved, of which the dry run kept no data: {error.short}"
        if error and (self.own_error or self._in_spawned):
            return f"it stops with {error.type}: {error.short}".strip(": ")
        if self.outcome == "timeout" and not self.ran:
            return f"{self.steps or 'no'} step ended within the time limit ({self.seconds:.0f} s)"
        if self.ran and not self.used_gpu and not self.worked_on_cpu:
            return "no model was run: nothing was computed on the GPU, and nothing heavy on the CPU"
        return None

    @property
    def worked_on_cpu(self) -> bool:
        """Whether a model was trained, or heavy matrix work done, on the CPU."""
        trained = self.steps > 0 and self.devices.ops.get("cpu", 0) > 0
        return trained or self.devices.flop.get("cpu", 0.0) >= HEAVY or self.stopped_by == "cpu-only"

    @property
    def needed(self) -> int:
        """Bytes of card that the run took at most: reserved memory and context."""
        return self.memory.peak_total or self.memory.peak_reserved + self.memory.context

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the batch: weights, buffers, gradients and states that training these weights needs."""
        kinds = self.memory.at_peak.by_kind
        weights, buffers = kinds.get("weight", 0), kinds.get("buffer", 0)
        trained = max((model.trainable / model.parameters for model in self.devices.models if model.parameters), default=1.0)
        states = max((STATES.get(optimizer.class_, 0.0) for optimizer in self.devices.optimizers), default=0.0)
        grads = max(kinds.get("gradient", 0), int(weights * trained) if self.devices.optimizers else 0)
        return weights + buffers + grads + max(kinds.get("optimizer_state", 0), int(weights * trained * states))

    @property
    def unavoidable(self) -> int:
        """The same, or what the optimizer's step takes with its temporaries where that is the peak: no batch size makes it less."""
        return max(self.fixed, self.memory.peak_allocated if self.memory.at_peak.phase == "optimizer" else 0)

    @property
    def memory_cause(self) -> str:
        """The slug that tells why the card was full; "" where it was not."""
        if not self.ran_out:
            return ""
        memory, peak = self.memory, self.memory.at_peak
        oom = memory.oom
        spare = oom.reserved - oom.allocated if oom else memory.peak_reserved - memory.peak_allocated
        fixed = _share(peak, "weight", "buffer", "optimizer_state", "gradient")
        if self.fixed > memory.capacity or peak.phase == "optimizer" or fixed > 0.85:
            return "oom-model-too-large"
        if self.grows:
            return "oom-graph-retained"
        if spare > 0.2 * memory.capacity and (spare > oom.asked if oom else memory.fragmentation > 0.3):
            return "oom-fragmentation"
        return "oom-batch-too-large"

    @property
    def grows(self) -> bool:
        """Whether memory rose with every step, by so much that it will fill the card or is no rounding."""
        growth, lines = self.memory.growth, self.memory.growth_by_line
        more = sum(share.bytes for share in lines if share.count > 0)  # more tensors, not larger ones: batches differ in length
        if lines and growth is not None and 2 * more < growth:
            return False
        return growth is not None and len(self.memory.steps) >= 2 and growth > max(1 << 20, self.memory.peak_allocated // 200)

    @property
    def turns(self) -> int:
        """How often the hot loop was gone through: backward passes, else batches."""
        return max(self.backwards, self.steps) or self.batches

    def heaviest(self, device: str = "cuda") -> tuple[Ref, ...]:
        """The lines with most matrix work on that device."""
        return tuple(line.place.ref() for line in self.devices.by_line if line.device.startswith(device) and line.place)[:3]

    def places(self) -> Iterator[Ref]:
        """The lines where something ended or peaked."""
        if self.error and self.error.place:
            yield self.error.place.ref("error")
        if self.memory.at_peak.place:
            yield self.memory.at_peak.place.ref("peak")


def _share(peak: Peak, *kinds: str) -> float:
    """Which part of the memory at the peak these kinds are."""
    return sum(peak.by_kind.get(kind, 0) for kind in kinds) / max(1, sum(peak.by_kind.values()))
