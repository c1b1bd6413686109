"""What is known about cards, the PCI bus and the kernel's hardware messages."""


from ongpu.lazy import dataclass, field_names
from ongpu.model import Fact, Ref

# C: zero-fan curves of the card makers start the fan between 50 and 65; one at 0 % so far above has failed or is held.
MUST_TURN = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One MIG device: a part of a partitioned GPU that a program can be given. Memory in MiB; gi, ci: its GPU and compute instance."""

    uuid: str
    name: str | None = None
    gi: int | None = None
    ci: int | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as NVML or nvidia-smi shows it. Memory in MiB, power in W, temperature in C, utilisation in %, clocks in MHz."""

    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    bus: str | None = None
    capability: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None
    utilization: int | None = None
    temperature: int | None = None
    temperature_slowdown: int | None = None
    temperature_margin: int | None = None
    fan: int | None = None
    power_draw: float | None = None
    power_limit: float | None = None
    power_default: float | None = None
    clock_sm: int | None = None
    clock_sm_max: int | None = None
    pstate: str | None = None
    throttle: tuple[str, ...] | None = None  # active clocks event reasons, as nvidia-smi -q names them
    ecc_uncorrected: int | None = None  # volatile, since the driver was loaded
    ecc_uncorrected_total: int | None = None  # aggregate, of the card's life
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remap_uncorrectable: int | None = None
    retired_pending: bool | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    mig: bool | None = None
    mig_devices: int | None = None
    compute_mode: str | None = None  # "Default", "Exclusive_Process", "Prohibited"
    persistence: bool | None = None
    display_active: bool | None = None
    driver_model: str | None = None  # Windows: "WDDM", "TCC", "MCDM"
    license: str | None = None  # vGPU licence status, as printed
    nvlink_inactive: int | None = None
    nvlink_errors: int | None = None
    recovery_action: str | None = None
    error: str | None = None  # why the rest is not known: "GPU is lost", "Unknown Error"
    ref: Ref | None = None
    temperature_max: int | None = None  # "GPU Max Operating Temp": SW Thermal Slowdown begins here
    links: tuple[str, ...] | None = None  # its row of `nvidia-smi topo -m`: ("X", "NV12", "SYS")
    problem_code: int | None = None  # Windows device manager: 43, 10, 12, 31
    fabric: str | None = None  # NVSwitch fabric: "not started", "in progress", "completed"; None where the card has none
    nvlink_active: int | None = None
    power_max: float | None = None  # the highest limit that may be set
    slices: tuple[Slice, ...] | None = None  # MIG devices; None: not partitioned, or not told
    peers: tuple[tuple[str, int], ...] | None = None  # (bus id, NVLink links that lead there), by bus id
    fabric_error: str | None = None  # why it did not complete, as nvmlReturn_t says it

    @property
    def label(self) -> str:
        """How a reader knows it: "GPU 0 (NVIDIA A100-SXM4-80GB)"."""
        name = f" ({self.name})" if self.name else ""
        return f"GPU{name}" if self.index is None else f"GPU {self.index}{name}"


@dataclass(frozen=True, kw_only=True)
class Gpus(Fact):
    """The GPUs that the driver shows. `gpus` is () where it said that there are none."""

    gpus: tuple[Gpu, ...] = ()
    names: tuple[str, ...] = ()  # model names told in prose, where no tool listed the cards
    capabilities: tuple[tuple[str, str], ...] = ()  # (model name, compute capability) by the table of models

    def all_names(self) -> tuple[str, ...]:
        """Every model name told, each once."""
        return tuple(dict.fromkeys([*(g.name for g in self.gpus if g.name), *self.names]))

    def cards(self) -> tuple[tuple[str, str], ...]:
        """(name, compute capability) of the cards: as a tool printed it, else by the table of models."""
        printed = tuple((gpu.name or gpu.label, gpu.capability) for gpu in self.gpus if gpu.capability)
        return printed or self.capabilities

    def working(self) -> bool:
        """The driver lists cards and could ask each of them."""
        return bool(self.gpus) and all(gpu.error is None and gpu.memory_total is not None for gpu in self.gpus)

    def cite(self, *gpus: Gpu) -> tuple[Ref, ...]:
        """The lines that show these GPUs."""
        return tuple(gpu.ref for gpu in gpus if gpu.ref) or self.refs[:4]

    def join(self, other: "Gpus") -> "Gpus":
        """Two tools that list the same cards: joined card by card, by index, UUID or bus id."""
        if not self.gpus or not other.gpus:
            return super().join(other)
        merged = list(self.gpus)
        alone = _alone(self.gpus, other.gpus)
        for gpu in other.gpus:
            same = next((i for i, mine in enumerate(merged) if alone or _same(mine, gpu)), None)
            if same is None:
                merged.append(gpu)
            else:
                merged[same] = _join_gpu(merged[same], gpu)
        return Gpus(
            refs=tuple(dict.fromkeys(self.refs + other.refs)),
            conflicts=tuple(dict.fromkeys(self.conflicts + other.conflicts)),
            gpus=tuple(merged),
            names=tuple(dict.fromkeys(self.names + other.names)),
            capabilities=tuple(dict.fromkeys(self.capabilities + other.capabilities)),
        )


def _one_place(a: str, b: str) -> bool:
    """Whether two bus ids are one place: "00000000:01:00.0", "0000:01:00.0" and "01:00.0" are. Virtual machines (Azure) give each card a
    domain of its own, and the same bus: "00000275:00:00.0" and "00004846:00:00.0" are two."""
    one, two = a.lower().split(":"), b.lower().split(":")
    told = len(one) > 2 and len(two) > 2
    return one[-2:] == two[-2:] and not (told and one[-3].lstrip("0") != two[-3].lstrip("0"))


def _alone(mine: tuple[Gpu, ...], theirs: tuple[Gpu, ...]) -> bool:
    """Whether each side tells of one card, and one of them does not say which."""
    nameless = [g for g in (*mine, *theirs) if g.index is None and g.uuid is None and g.bus is None]
    return len(mine) == len(theirs) == 1 and bool(nameless)


def _same(a: Gpu, b: Gpu) -> bool:
    if a.uuid and b.uuid:
        return a.uuid == b.uuid
    if a.bus and b.bus:
        return _one_place(a.bus, b.bus)
    return a.index is not None and a.index == b.index


def _join_gpu(a: Gpu, b: Gpu) -> Gpu:
    values = {}
    for name in field_names(Gpu):
        mine, theirs = getattr(a, name), getattr(b, name)
        values[name] = theirs if mine is None else mine
    return Gpu(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """One device on the PCI bus. Ids are four lower-case hex digits; link speed in GT/s."""

    bus: str
    vendor: str | None = None  # "10de" is NVIDIA
    device: str | None = None
    name: str | None = None
    kind: str | None = None  # "VGA compatible controller", "3D controller" ...
    driver: str | None = None  # kernel driver in use; "" = none
    modules: tuple[str, ...] = ()
    speed: float | None = None
    speed_max: float | None = None
    width: int | None = None
    width_max: int | None = None
    dead: bool = False  # "rev ff" or "Unknown header type 7f": on the list, but it does not answer
    no_bar: bool = False  # a memory region is unassigned or was ignored (not merely [disabled])
    ref: Ref | None = None

    @property
    def nvidia(self) -> bool:
        """Whether it is NVIDIA's."""
        return self.vendor == "10de" or "nvidia" in (self.name or "").lower()

    @property
    def display(self) -> bool:
        """Whether it is a graphics or compute card (not its audio or USB function, not a bridge)."""
        return (self.kind or "").lower().startswith(("vga", "3d", "display", "processing accel", "0300", "0302", "0380"))


@dataclass(frozen=True, kw_only=True)
class Pci(Fact):
    """What is on the PCI bus. `complete`: the whole bus (or all its display class) was listed, so absence means absence."""

    devices: tuple[PciDevice, ...] = ()
    complete: bool | None = None

    def nvidia(self) -> tuple[PciDevice, ...]:
        """NVIDIA's graphics and compute cards."""
        return tuple(d for d in self.devices if d.nvidia and (d.display or d.kind is None))


@dataclass(frozen=True, slots=True)
class Xid:
    """One NVIDIA error event of the kernel log. bus: "0000:3b:00" as printed; time: seconds since boot, if printed."""

    code: int
    bus: str
    text: str
    ref: Ref
    caused_by: int | None = None  # "caused by previous Xid N"
    switch: bool = False  # an SXid: of an NVSwitch
    time: float | None = None


@dataclass(frozen=True, kw_only=True)
class Xids(Fact):
    """The Xid and SXid events. Given as () where a kernel log was read and holds none."""

    events: tuple[Xid, ...] = ()

    def of(self, *codes: int) -> tuple[Xid, ...]:
        """The Xid (not SXid) events with these codes."""
        return tuple(x for x in self.events if x.code in codes and not x.switch)


@dataclass(frozen=True, kw_only=True)
class PeerBandwidth(Fact):
    """What p2pBandwidthLatencyTest measured between pairs of GPUs, in GB/s, without the diagonal."""

    without: tuple[float, ...] = ()  # peer access disabled: through host memory
    direct: tuple[float, ...] = ()  # peer access enabled
    rows: tuple[tuple[float, ...], ...] = ()  # the fastest matrix whole, one row per card, with its diagonal
