"""What is known of the user's live objects: where each parameter, buffer, input and optimizer state sits, and who holds whom."""

from collections.abc import Callable, Iterable

from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref

FLOATS = ("float16", "bfloat16", "float32", "float64")
PLACERS = ("accelerate", "deepspeed", "fsdp")  # put the parts of a model where they want them, the CPU included


def on_host(device: str) -> bool:
    """Whether the device is no accelerator (a tensor on "meta" has no memory, and is none of the host's)."""
    return device.startswith("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One tensor. owner: "parameter", "buffer", "input", "optimizer", "plain" or "unregistered" (see probes/objects.py).

    bytes, gradient: of the tensor and of its gradient. shares: another one has the same memory, and counts it.
    of: of an optimizer's state, the device of its parameter. held, kind, module, within: how one escaped the model: held in
    a "list", as an "attribute"; it is a "module", "parameter" or "tensor"; the class and the place of that module. library:
    the class that holds it so is of an installed package.
    """

    owner: str
    name: str
    device: str
    dtype: str
    shape: tuple[int, ...] | None = None
    bytes: int = 0
    gradient: int = 0
    trainable: bool = False
    graph: bool = False
    shares: bool = False
    of: str | None = None
    held: str = ""
    kind: str = ""
    module: str = ""
    within: str = ""
    library: bool = False
    array: str = ""
    ref: Ref

    @property
    def scalar(self) -> bool:
        """Whether it has no dimensions: such a CPU tensor may meet any other."""
        return self.shape == ()

    @property
    def last_name(self) -> str:
        """"batch['labels']" is "labels", "encoder.mask" is "mask"."""
        return self.name.replace("]", "").replace("[", ".").rsplit(".", 1)[-1].strip("'\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the optimizers hold. missing: trainable parameters of the model that they do not. strangers: held, and none of
    the model's. twins: of the missing, those of whose shape a stranger is. also: held, and not registered in the model."""

    name: str
    held: int
    missing: tuple[str, ...]
    missing_count: int
    strangers: int
    strangers_on: tuple[str, ...]
    twins: int
    also: tuple[str, ...]
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMemory:
    """PyTorch's own count of one GPU, in bytes; None where it did not say."""

    device: str
    name: str | None = None
    total: int | None = None
    capability: tuple[int, int] | None = None
    allocated: int | None = None
    peak: int | None = None
    reserved: int | None = None


@dataclass(frozen=True, kw_only=True)
class Objects(Fact):
    """The objects that were shown. gpus: how many the process sees. unlooked: (what, framework) that cannot be looked at.

    managed: who places the parts: "accelerate", "fsdp", "deepspeed", "lightning". left_off: tensors beyond the limit.
    """

    model: str | None = None
    training: bool | None = None
    managed: tuple[str, ...] = ()
    moves_inputs: bool = False
    placed: tuple[Placed, ...] = ()
    optimizer: Held | None = None
    left_off: int = 0
    unlooked: tuple[tuple[str, str], ...] = ()
    gpus: int | None = None
    autocast: bool | None = None
    precision: str | None = None
    memory: tuple[CardMemory, ...] = ()

    def working(self) -> bool:
        """Whether the model sits on a GPU."""
        return bool(self.home and not on_host(self.home) and self.home != "meta")

    def of(self, *owners: str) -> tuple[Placed, ...]:
        """The tensors of these owners."""
        return tuple(item for item in self.placed if item.owner in owners)

    @property
    def placed_by_others(self) -> bool:
        """Whether a library decides where the parts sit: what looks astray is meant so."""
        return any(name in PLACERS for name in self.managed)

    @property
    def devices(self) -> dict[str, int]:
        """Bytes of parameters and buffers by device, the most first."""
        return dict(sorted(_sum(self.of("parameter", "buffer"), lambda item: item.device).items(), key=lambda pair: -pair[1]))

    @property
    def home(self) -> str | None:
        """The device where the most of the weights sit; an accelerator where any sits on one."""
        told = self.devices
        return next((device for device in told if not on_host(device) and device != "meta"), next(iter(told), None))

    @property
    def whole(self) -> bool:
        """Whether all parameters and buffers sit on one device."""
        return len(self.devices) == 1

    @property
    def optimizers_state(self) -> tuple[Placed, ...]:
        """The optimizer's tensors, its step counters left out."""
        return tuple(item for item in self.of("optimizer") if not item.scalar)

    @property
    def weights_dtype(self) -> str | None:
        """The floating type of the parameters, where they have but one."""
        kinds = {item.dtype for item in self.of("parameter") if item.dtype in FLOATS}
        return kinds.pop() if len(kinds) == 1 else None

    def astray(self) -> tuple[Placed, ...]:
        """Parameters and buffers on the host or without memory, while others of the model are on an accelerator."""
        if not self.working() or self.placed_by_others:
            return ()
        return tuple(p for p in self.of("parameter", "buffer") if (on_host(p.device) or p.device == "meta") and not p.scalar)

    def inputs_astray(self) -> tuple[Placed, ...]:
        """Inputs that do not sit where the whole model does, and that nothing moves for the user."""
        if not self.working() or not self.whole or self.moves_inputs or {*self.managed} & {"accelerate", "lightning"}:
            return ()
        return tuple(p for p in self.of("input") if p.device != self.home and not p.scalar and not _may_stay(p.last_name))

    def escaped(self) -> tuple[Placed, ...]:
        """Parameters that the model does not know of and that matter: trainable and in no optimizer shown, or on another device."""
        also = self.optimizer.also if self.optimizer else ()
        return tuple(
            p
            for p in self.of("unregistered")
            if (p.trainable and p.name not in also) or (self.working() and p.device != self.home and not self.placed_by_others)
        )

    def plain_astray(self) -> tuple[Placed, ...]:
        """Mere attributes on another device than the whole model. Items of lists and
        dicts are often kept on the CPU on purpose, and packages look after their own (the rotary embeddings of transformers 4)."""
        if not self.working() or not self.whole or self.placed_by_others:
            return ()
        plain = (p for p in self.of("plain") if not p.library and not p.scalar and p.last_name != "example_input_array")
        return tuple(p for p in plain if p.device != self.home)

    def table(self) -> list[tuple[str, str, str, int, int]]:
        """(owner, device, dtype, tensors, bytes), gradients as an owner of their own."""
        rows: dict[tuple[str, str, str], list[int]] = {}
        for item in self.placed:
            told = [(item.owner, 0 if item.shares else item.bytes)]
            if item.gradient:
                told.append(("gradient", item.gradient))
            for owner, size in told:
                row = rows.setdefault((owner, item.device, item.dtype), [0, 0])
                row[0] += 1
                row[1] += size
        return [(*key, count, size) for key, (count, size) in rows.items()]


def _may_stay(name: str) -> bool:
    """Whether such an input belongs on the CPU (lengths of packed sequences), or is no input of the model (ids of samples, paths)."""
    low = name.lower()
    return low in ("id", "ids", "meta", "metadata") or any(part in low for part in ("length", "lens", "sizes", "index", "indices", "idx"))


def _sum(items: Iterable[Placed], by: Callable[[Placed], str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        found[by(item)] = found.get(by(item), 0) + (0 if item.shares else item.bytes)
    return found


def names(items: Iterable[Placed], most: int = 3) -> str:
    """"fc.weight, fc.bias and 4 more": as a person would list them; in both languages the same signs."""
    told = list(dict.fromkeys(item.within or item.name for item in items))
    return ", ".join(told[:most]) + (f" (+{len(told) - most})" if len(told) > most else "")


def cite(items: Iterable[Placed], most: int = 4) -> tuple[Ref, ...]:
    """The lines that tell of these tensors."""
    return tuple(dict.fromkeys(item.ref for item in items))[:most]
