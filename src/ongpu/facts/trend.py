"""What GPUs and the programs on them did over a window of time: one value a look, None where it was not told."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


class Series(tuple[float | None, ...]):
    """The values of one column in the order of time. All answers are None where no value is known."""

    @cached_property
    def known(self) -> tuple[float, ...]:
        """The values that were told."""
        return tuple(value for value in self if value is not None)

    @cached_property
    def median(self) -> float | None:
        """The middle value."""
        ordered = sorted(self.known)
        half = len(ordered) // 2
        return None if not ordered else ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

    @cached_property
    def mean(self) -> float | None:
        """The average; of a utilisation it is the share of the time in which something ran."""
        return sum(self.known) / len(self.known) if self.known else None

    @property
    def least(self) -> float | None:
        """The lowest value."""
        return min(self.known, default=None)

    @property
    def most(self) -> float | None:
        """The highest value."""
        return max(self.known, default=None)

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.known[-1] if self.known else None

    def share_below(self, limit: float) -> float | None:
        """The share of the values below `limit`, 0 to 1."""
        return sum(value < limit for value in self.known) / len(self.known) if self.known else None

    def share_with(self, bits: int) -> float | None:
        """The share of the values, taken as bit fields, in which any of `bits` is set."""
        return sum(bool(int(value) & bits) for value in self.known) / len(self.known) if self.known else None


EMPTY = Series()


def share_in(states: Iterable[str | None], state: str) -> float:
    """The share of the looks at which a process was in that state (R, S, D, T, Z); 0 where none was seen."""
    seen = [one for one in states if one]
    return seen.count(state) / len(seen) if seen else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTrend:
    """One GPU over the window. columns: by the names of facts/sample.py, in its units; identity: its IDENTITY.

    idle: seconds since the utilisation was last above 1 %, at least (the watch may have begun later); None: never told.
    processes: whether its list of processes could be asked; False where NVML refused it. link: GB/s that copies over its PCIe link
    (link_name: "Gen4 x16") reach in practice.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    t: tuple[float, ...] = ()
    columns: Mapping[str, Series] = field(default_factory=dict)
    idle: float | None = None
    link: float | None = None
    link_name: str | None = None
    processes: bool = True
    ref: Ref | None = None

    @property
    def label(self) -> str:
        """How a reader knows it: "GPU 0 (NVIDIA H100 80GB HBM3)", as `Gpu.label`."""
        return f"GPU {self.index} ({self.name})" if self.name else f"GPU {self.index}"

    @property
    def seconds(self) -> float:
        """The length of time that its rows cover."""
        return self.t[-1] - self.t[0] if len(self.t) > 1 else 0.0

    def series(self, column: str) -> Series:
        """The values of a column."""
        return self.columns.get(column, EMPTY)

    def median(self, column: str) -> float | None:
        """The middle value of a column."""
        return self.series(column).median

    def mean(self, column: str) -> float | None:
        """The average of a column."""
        return self.series(column).mean

    def share_below(self, column: str, limit: float) -> float | None:
        """The share of the looks at which the column was below `limit`, 0 to 1."""
        return self.series(column).share_below(limit)

    def number(self, name: str) -> float | None:
        """A number of its identity (power_limit in mW, mem_total in MiB ...)."""
        value = self.identity.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def power_share(self) -> float | None:
        """The middle of its power as a share of its default limit (else of the enforced one)."""
        limit, power = self.number("power_default") or self.number("power_limit"), self.median("power")
        return power / limit if limit and power is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A descendant of a process on a GPU: mostly a data-loading worker. cpu in cores, read in bytes a second from storage."""

    pid: int
    name: str = ""
    cpu: Series = EMPTY
    state: tuple[str | None, ...] = ()
    read: Series = EMPTY

    def waits(self, state: str) -> float:
        """The share of the looks in that state."""
        return share_in(self.state, state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Another GPU of the same job (else of the same command of the same user): its average utilisation, and its share of its power."""

    gpu: int
    util: float | None = None
    power: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTrend:
    """One process on one GPU over the window. Value k is of the time between look k-1 and look k; the first is None.

    cpu, main: cores that all its threads, and its busiest thread, kept busy. mem: MiB on this GPU; sm: percent of this GPU.
    read, rchar: bytes a second from storage, and by read() calls from anywhere. quiet: seconds, at least, without work on the
    processor. ranks: of its job's other GPUs on this machine. sort: "notebook", "server" or "debugger" by its command line: it may
    wait for somebody.
    Where `cpu` knows no value, /proc does not show it from here (another PID namespace, hidepid).
    """

    pid: int
    gpu: int
    user: str | None = None
    command: str | None = None
    job: str | None = None
    kind: str = "C"
    sort: str | None = None
    mem: Series = EMPTY
    t: tuple[float, ...] = ()
    cpu: Series = EMPTY
    main: Series = EMPTY
    state: tuple[str | None, ...] = ()
    read: Series = EMPTY
    rchar: Series = EMPTY
    sm: Series = EMPTY
    workers: tuple[Worker, ...] = ()
    ranks: tuple[Rank, ...] = ()
    quiet: float | None = None
    ref: Ref | None = None
    workers_ref: Ref | None = None

    @property
    def visible(self) -> bool:
        """Whether /proc shows it, at least once."""
        return any(self.state) or bool(self.cpu.known)

    @property
    def looks(self) -> int:
        """How many times its use of the processor is known."""
        return len(self.cpu.known)

    @property
    def name(self) -> str:
        """What a reader calls it: the command, shortened, with its number."""
        return f"{short(self.command)} (pid {self.pid})" if self.command else f"pid {self.pid}"

    @property
    def total_cpu(self) -> float | None:
        """Cores that it and its workers kept busy, in the middle."""
        return None if self.cpu.median is None else self.cpu.median + sum(worker.cpu.median or 0 for worker in self.workers)

    @property
    def total_read(self) -> float | None:
        """Bytes a second from storage, its workers' included; None where nobody may see them."""
        told = [value for value in (self.read.mean, *(worker.read.mean for worker in self.workers)) if value is not None]
        return sum(told) if told else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTrend:
    """The machine over the window. cores: that may be used; busy, iowait: cores, one value a look; net_rx: bytes a second."""

    cores: float | None = None
    load: float | None = None
    busy: Series = EMPTY
    iowait: Series = EMPTY
    net_rx: Series = EMPTY
    mem_available: float | None = None
    ref: Ref | None = None


@dataclass(frozen=True, kw_only=True)
class Trend(Fact):
    """A window of time. start, end: seconds since the epoch; interval: seconds between looks at the GPUs."""

    start: float | None = None
    end: float | None = None
    interval: float | None = None
    gpus: tuple[GpuTrend, ...] = ()
    processes: tuple[ProcessTrend, ...] = ()
    host: HostTrend | None = None

    def working(self) -> bool:
        """Whether a kernel ran on some GPU."""
        return any((gpu.series("util").most or 0) > 0 for gpu in self.gpus)

    def on(self, gpu: GpuTrend) -> tuple[ProcessTrend, ...]:
        """Who computes on that GPU, the largest first; a desktop's drawing ("G") is not computing."""
        here = (p for p in self.processes if p.gpu == gpu.index and "C" in p.kind)
        return tuple(sorted(here, key=lambda p: (-(p.mem.last or 0), p.pid)))


def short(command: str | None, most: int = 40) -> str:
    """A command line without the folders of its program and script, cut."""
    words = [word.rsplit("/", 1)[-1] if "/" in word and not word.startswith("-") else word for word in (command or "").split()[:8]]
    text = " ".join(words)
    return text if len(text) <= most else text[: most - 3] + "..."
