"""What each GPU waits for, from its trend: one answer a GPU, in one order, with all thresholds in one place.

Rules give these answers their words. The order is by how directly a thing was seen: nobody there, held without work, a link that
is full, programs that stand in the kernel, programs whose processor is full; and then what only looks so from outside.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ongpu.facts.trend import GpuTrend, ProcessTrend, Trend, Worker, share_in
from ongpu.lazy import dataclass, field
from ongpu.model import Certainty, Ref, Words

# Utilisation, percent of the time in which some kernel ran (nvmlUtilization_t), averaged over the window.
BUSY = 80.0  # from here on nothing holds the GPU up that could be seen so: a fifth of the time is customary for epochs' ends and logging
PARTLY = 50.0  # no complaint without a cause that is seen: evaluation, checkpoints, requests that come and go
LOW = 60.0  # below it a full processor thread is the likely cause: at least 40 % of that thread's time cannot be waiting for the GPU
STILL = 1.0  # a desktop or a monitor makes as much
# Time
LEAST = 0.05  # seconds: one look alone says nothing, but that nobody is there; two (`ongpu top --once`) say what is possible
SHORT, LONG = 10.0, 20.0  # seconds: below SHORT nothing is more than possible; from LONG on a cause may be certain
FEW, MANY = 3, 6  # looks at the processes (one in 5 s): the same
HELD, HELD_LONG, HELD_SURE = 60.0, 300.0, 1800.0  # seconds without work: a pause at an epoch's end or a download; a break; nobody is there
# Memory, MiB
BARE = 600  # a CUDA context alone takes 250 to 600, by card and libraries
# Processor, in cores
FULL = 0.85  # a thread that never waits reaches 0.95 and more; sampling by clock ticks and other programs take some
BOUND = 0.9  # the same of the main thread, which alone must carry the conclusion
QUIET = 0.05  # an idle notebook kernel or server takes 0.00 to 0.02 (heartbeats, polling)
ACTIVE = 0.05  # a child below it, and neither in D nor in R, does nothing: compile workers, trackers
SLACK = 0.5  # below it nothing on the processor is the limit
CROWDED = 0.9  # of all cores
# States, share of the looks
STANDS = 0.4  # in D: a worker that is fed at all stands there in passing only; half of the time is half of its speed
HUNGRY = 0.7  # in R without getting a core
MOST = 0.7  # of the workers
# Storage and network, bytes a second
FLOW = 1e6  # less than a megabyte a second is no loading of data
STEADY = 5e6  # of read() by the main thread: some 50 pictures of 100 kB
SAME = 0.7  # of what is read comes in by the network: the file system is remote
# A kernel that spins while it waits for other ranks holds the utilisation at 100 % and takes little power: about 70 W on a server card
# (github.com/NVIDIA/nccl/issues/968), a low temperature (github.com/cupy/cupy/issues/3557); idle at full clocks: 50 to 120 W of 400 to 700.
SPINS, SPIN_POWER, SPIN_MEMORY = 97.0, 0.3, 2.0  # percent, share of the default limit, percent of the time in which memory is used
LINK = 0.75  # of what copies over the link reach in practice
FILLED, OTHERS = 0.95, 0.6  # of the card's memory: full; held by one other program

# Why nothing can be said of a GPU, by `Waiting.kind` where `Waiting.cause` is unknown.
UNKNOWN = {
    "mig": Words("MIG is on: NVML tells no utilisation then", "已启用 MIG：此时 NVML 不提供利用率"),
    "untold": Words("its utilisation is not told", "没有利用率数据"),
    "hidden": Words(
        "its programs are not visible from here (another PID namespace, or hidepid)",
        "从这里看不到使用它的程序（其他 PID 命名空间或 hidepid）",
    ),
    "pause": Words("nothing has run on it for less than a minute: a pause, or the beginning of one", "空闲不到一分钟：可能只是停顿"),
    "short": Words("it was watched for too short a time", "观察时间太短"),
    "unseen": Words(
        "it is seldom busy, and neither processor, disk nor network of its programs shows why (locks, sleeping, small kernels, requests)",
        "它很少在忙，而其程序的 CPU、磁盘、网络都看不出原因（锁、休眠、小 kernel、等请求）",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What one GPU waits for. cause: free, idle, unseen, busy, partly, requests, spin, pcie, disk, network, loading, host or unknown;
    kind: which sort of it (the rule's variant; for unknown: why); figures: for the rule's words."""

    gpu: GpuTrend
    cause: str
    kind: str = ""
    sure: Certainty = Certainty.LIKELY
    figures: Mapping[str, object] = field(default_factory=dict)
    process: ProcessTrend | None = None
    refs: tuple[Ref, ...] = ()


def waits(trend: Trend) -> tuple[Waiting, ...]:
    """One answer for each GPU, in their order; worked out once for all rules that ask."""
    kept: dict[str, tuple[Waiting, ...]] = vars(trend)
    if "_waits" not in kept:
        kept["_waits"] = tuple(_gpu(trend, gpu) for gpu in trend.gpus)
    return kept["_waits"]


def of(trend: Trend | None, *causes: str) -> tuple[Waiting, ...]:
    """The GPUs that wait for one of these."""
    return tuple(one for one in waits(trend) if one.cause in causes) if trend else ()


def _gpu(trend: Trend, gpu: GpuTrend) -> Waiting:
    use = gpu.mean("util")
    programs = trend.on(gpu)
    if use is None:
        return _answer(trend, gpu, None, "unknown", "mig" if gpu.identity.get("mig") else "untold")
    if gpu.seconds < LEAST and (programs or use > STILL):
        return _answer(trend, gpu, None, "unknown", "short")
    if use >= BUSY:
        first = programs[0] if programs else None
        told = gpu.power_share is not None and gpu.median("mem_util") is not None  # else it may be spinning
        sure = _looked(gpu, Certainty.CERTAIN if told else Certainty.LIKELY)
        return _spins(trend, gpu, programs) or _answer(trend, gpu, first, "busy", sure=sure)
    if not programs:
        return _nobody(trend, gpu)
    if use <= STILL:
        held = _held(trend, gpu, programs)
        if held:
            return held
    if full := _link(trend, gpu, programs[0]):
        return full
    seen = [p for p in programs if p.visible]
    if not seen:
        return _answer(trend, gpu, programs[0], "unknown", "hidden")
    found = [answer for p in seen if (answer := _program(trend, gpu, p))]
    if found:
        return max(found, key=lambda answer: answer.sure)  # the first, which has most memory, among equals
    known = all(p.cpu.median is not None and p.main.median is not None for p in seen)
    if use >= PARTLY and known:
        return _answer(trend, gpu, seen[0], "partly", sure=Certainty.POSSIBLE)
    if use > STILL and known and seen[0].sort == "server" and (seen[0].total_cpu or 0) < SLACK:
        return _answer(trend, gpu, seen[0], "requests", sure=Certainty.POSSIBLE)
    if use <= STILL and (gpu.idle or 0) >= HELD_LONG:
        cause, sort = ("idle", "elsewhere") if known else ("unseen", "unseen")
        return _answer(trend, gpu, seen[0], cause, sort, Certainty.POSSIBLE, idle=duration(gpu.idle))
    return _answer(trend, gpu, seen[0], "unknown", "unseen" if known and gpu.seconds >= SHORT else "short")


def _answer(
    trend: Trend, gpu: GpuTrend, process: ProcessTrend | None, cause: str, kind: str = "", sure: Certainty = Certainty.LIKELY,
    refs: tuple[Ref | None, ...] = (), **figures: object,
) -> Waiting:
    """With the figures that all words may use, and the lines of the GPU and the process as grounds."""
    use, power, limit = gpu.mean("util"), gpu.median("power"), gpu.number("power_limit")
    memory, total = gpu.series("mem_used").last, gpu.number("mem_total")
    told: dict[str, object] = {
        "gpu": gpu.index, "card": gpu.name or "?", "use": _whole(use), "seconds": _whole(gpu.seconds) if gpu.seconds >= 1 else "<1",
        "power": _whole(power and power / 1000), "limit": _whole(limit and limit / 1000),
        "memory": _gib(memory), "total": _gib(total), "program": process.name if process else "?",
        "user": (process and process.user) or "?", "pid": process.pid if process else "?", "job": (process and process.job) or "?",
        **figures,
    }  # fmt: skip
    grounds = (gpu.ref, process.ref if process else None, *refs)
    return Waiting(gpu=gpu, cause=cause, kind=kind, sure=sure, figures=told, process=process, refs=tuple(ref for ref in grounds if ref))


def _whole(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def _gib(mib: float | None) -> str:
    return "?" if mib is None else f"{mib / 1024:.1f}"


def _rate(value: float | None) -> str:
    """Megabytes a second."""
    return "?" if value is None else f"{value / 1e6:.3g}"


def duration(seconds: float | None) -> str:
    """ "40 s", "12 min", "3.5 h": the same in both languages."""
    if seconds is None:
        return "?"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _looked(gpu: GpuTrend, most: Certainty, process: ProcessTrend | None = None) -> Certainty:
    """At most so sure as the length of the window, and the number of looks at the process, allow."""
    looks = MANY if process is None else process.looks
    if gpu.seconds < SHORT or looks < FEW:
        return Certainty.POSSIBLE
    return most if gpu.seconds >= LONG and looks >= MANY else min(most, Certainty.LIKELY)


def _nobody(trend: Trend, gpu: GpuTrend) -> Waiting:
    """No program is listed on it, and it does little."""
    memory, use = gpu.series("mem_used").last, gpu.mean("util") or 0
    if memory is None or use > 5 * STILL:
        return _answer(trend, gpu, None, "unknown", "hidden")
    if memory < BARE:
        return _answer(trend, gpu, None, "free", sure=_looked(gpu, Certainty.CERTAIN if gpu.processes else Certainty.LIKELY))
    if use <= STILL and (gpu.idle or 0) >= HELD:
        return _answer(trend, gpu, None, "unseen", "unseen", Certainty.POSSIBLE, idle=duration(gpu.idle))
    return _answer(trend, gpu, None, "unknown", "hidden")


def _held(trend: Trend, gpu: GpuTrend, programs: tuple[ProcessTrend, ...]) -> Waiting | None:
    """Memory is held, no kernel runs, and no program on it works. None where one does, or it is not known."""
    first, visible = programs[0], [p for p in programs if p.visible]
    memory = sum(p.mem.last or 0 for p in programs) or None
    idle = gpu.idle or 0
    told: dict[str, Any] = {"idle": duration(idle), "memory": _gib(memory)}
    if visible and len(visible) == len(programs) and all(p.state[-1:] == ("T",) and share_in(p.state, "T") >= MOST for p in visible):
        return _answer(trend, gpu, first, "idle", "stopped", _looked(gpu, Certainty.CERTAIN, first), **told)
    if not visible:
        if idle < HELD_LONG:
            return None
        return _answer(trend, gpu, first, "unseen", "unseen", Certainty.POSSIBLE, **told)
    if len(visible) < len(programs) or any(p.total_cpu is None or p.total_cpu > QUIET or not any(p.state) for p in visible):
        return None
    if any(share_in(p.state, "D") > 0 for p in visible):
        return None
    if any(_works(worker) for p in visible for worker in p.workers):
        return None
    flow = trend.host.net_rx.median if trend.host else None
    if idle < HELD_LONG and (flow or 0) >= FLOW and any((p.rchar.median or 0) >= FLOW / 10 for p in visible):
        return None  # it may be fetching its data or weights
    if idle < HELD:
        return _answer(trend, gpu, first, "unknown", "pause", **told)
    sure = Certainty.CERTAIN if idle >= HELD_SURE else Certainty.LIKELY if idle >= HELD_LONG else Certainty.POSSIBLE
    what = first.sort or ""
    if what == "server" or first.command is None:
        sure = Certainty.POSSIBLE  # it may well wait for requests: whether that is wanted, nobody can see
    return _answer(trend, gpu, first, "idle", what, sure, **told)


def _works(worker: Worker) -> bool:
    """Whether a child does or fetches something, or would if it got a core."""
    wants = worker.waits("R") >= HUNGRY and len(worker.state) >= FEW
    return (worker.cpu.median or 0) >= ACTIVE or worker.waits("D") >= STANDS / 2 or wants


def _spins(trend: Trend, gpu: GpuTrend, programs: tuple[ProcessTrend, ...]) -> Waiting | None:
    """A kernel is running all the time, and next to no work is done by it."""
    power, memory = gpu.power_share, gpu.median("mem_util")
    steady = gpu.share_below("util", SPINS)
    if power is None or memory is None or power > SPIN_POWER or memory > SPIN_MEMORY or steady is None or steady > 0.1 or not programs:
        return None
    if (gpu.series("mem_util").most or 0) > 5 * SPIN_MEMORY:
        return None
    first = programs[0]
    idle = [rank for rank in first.ranks if rank.util is not None and rank.util <= STILL]
    alike = [rank for rank in first.ranks if (rank.util or 0) >= BUSY and rank.power is not None and rank.power <= SPIN_POWER]
    sure = _looked(gpu, Certainty.LIKELY) if idle or alike else Certainty.POSSIBLE
    late = ", ".join(str(rank.gpu) for rank in idle[:8]) or "?"
    return _answer(
        trend, gpu, first, "spin", "late" if idle else "", sure,
        late=late, ranks=len(first.ranks) + 1, mem_use=_whole(memory), share=_whole(100 * power),
    )  # fmt: skip


def _link(trend: Trend, gpu: GpuTrend, process: ProcessTrend) -> Waiting | None:
    """Copies over PCIe go as fast as the link lets them."""
    for column, way in (("pcie_rx", "in"), ("pcie_tx", "out")):
        values = gpu.series(column)
        rate = (values.median or 0) / 1e6  # kB/s -> GB/s
        if len(values.known) >= 2 and gpu.link and rate >= LINK * gpu.link:
            sure = _looked(gpu, Certainty.LIKELY) if len(values.known) >= FEW else Certainty.POSSIBLE
            return _answer(trend, gpu, process, "pcie", way, sure, rate=f"{rate:.1f}", most=f"{gpu.link:.1f}", link=gpu.link_name or "?")
    return None


def _program(trend: Trend, gpu: GpuTrend, p: ProcessTrend) -> Waiting | None:
    """What holds one program up, of what can be seen of it."""
    if not p.looks:
        return None
    workers = [worker for worker in p.workers if _works(worker)]
    return next((answer for check in _CHECKS if (answer := check(trend, gpu, p, workers))), None)


def _stands(trend: Trend, gpu: GpuTrend, p: ProcessTrend, workers: list[Worker]) -> Waiting | None:
    """Its workers, or itself, stand in the kernel and wait for storage: a disk, or a file system behind the network."""
    stands = sum(worker.waits("D") for worker in workers) / len(workers) if workers else 0.0
    cpu = sum(worker.cpu.median or 0 for worker in workers) / len(workers) if workers else 0.0
    who = "workers"
    if stands < STANDS and not any((worker.cpu.median or 0) >= FULL for worker in workers):
        stands, cpu, who = share_in(p.state, "D"), p.main.median or p.cpu.median or 0.0, "main"
    if stands < STANDS or cpu >= FULL:
        return None
    host, read = trend.host, p.total_read
    waits, flow = (host.iowait.mean, host.net_rx.median) if host else (None, None)
    figures: dict[str, Any] = {
        "share": _whole(100 * stands), "workers": len(workers) if who == "workers" else "?", "rate": _rate(read), "flow": _rate(flow),
        "iowait": "?" if waits is None else f"{waits:.1f}",
    }  # fmt: skip
    refs = (p.workers_ref if who == "workers" else None, host.ref if host else None)
    if flow is not None and flow >= FLOW and read and flow >= SAME * read:
        return _answer(trend, gpu, p, "network", "share", _looked(gpu, Certainty.LIKELY, p), refs, **figures)
    if read is not None and read < FLOW / 10 and (waits or 0) < 0.3:
        return _answer(trend, gpu, p, "disk", "stuck", Certainty.POSSIBLE, refs, **figures)
    sharp = stands >= MOST and (waits or 0) >= 0.5 and (gpu.mean("util") or 0) < LOW
    sure = _looked(gpu, Certainty.CERTAIN if sharp else Certainty.LIKELY, p)
    if read is None and waits is None:
        sure = Certainty.POSSIBLE  # D is also what waiting for the driver looks like
    return _answer(trend, gpu, p, "disk", "", sure, refs, **figures)


def _loads(trend: Trend, gpu: GpuTrend, p: ProcessTrend, workers: list[Worker]) -> Waiting | None:
    """Its data-loading workers have no processor time left."""
    full = [worker for worker in workers if (worker.cpu.median or 0) >= FULL]
    hungry = [w for w in workers if w not in full and w.waits("R") >= HUNGRY and len([s for s in w.state if s]) >= FEW]
    if not workers or len(full) + len(hungry) < MOST * len(workers):
        return None
    cores = trend.host.cores if trend.host else None
    spent = sum(worker.cpu.median or 0 for worker in workers)
    starved = len(hungry) > len(full) or bool(cores and len(workers) > cores and spent >= FULL * cores)
    sharp = not hungry and (p.main.median if p.main.median is not None else 1.0) < SLACK and (gpu.mean("util") or 0) < LOW
    sure = _looked(gpu, Certainty.CERTAIN if sharp else Certainty.LIKELY, p)
    return _answer(
        trend, gpu, p, "loading", "starved" if starved else "workers", sure, (p.workers_ref,),
        workers=len(workers), full=len(full), cpu=f"{100 * spent / len(workers):.0f}", cores=_whole(cores), spent=f"{spent:.1f}",
    )  # fmt: skip


def _crowded(trend: Trend, gpu: GpuTrend, p: ProcessTrend, workers: list[Worker]) -> Waiting | None:
    """Its thread is ready to run and gets no core: others have them all, or its quota is used up."""
    host = trend.host
    busy = host.busy.median if host else None
    mine = p.total_cpu or 0
    if share_in(p.state, "R") < HUNGRY or (p.main.median or 0) >= FULL or p.main.median is None or p.looks < FEW:
        return None
    if not host or not host.cores or busy is None or busy < CROWDED * host.cores or mine > SLACK * host.cores:
        return None
    return _answer(
        trend, gpu, p, "host", "crowded", _looked(gpu, Certainty.LIKELY, p), (host.ref,),
        cpu=_whole(100 * p.main.median), busy=f"{busy:.1f}", cores=_whole(host.cores), mine=f"{mine:.1f}",
    )  # fmt: skip


def _threads(trend: Trend, gpu: GpuTrend, p: ProcessTrend, workers: list[Worker]) -> Waiting | None:
    """All cores are taken by its own threads: tf.data, DALI, OpenMP; or it computes on the processor."""
    cores = trend.host.cores if trend.host else None
    cpu = p.cpu.median
    if cpu is None or not cores or cores < 2 or cpu < FULL * cores:
        return None
    reads = max(p.rchar.median or 0, p.read.mean or 0) >= STEADY
    cause, sort = ("host", "alone") if _unused(gpu) else ("loading" if reads else "host", "threads")
    return _answer(
        trend, gpu, p, cause, sort, _looked(gpu, Certainty.LIKELY, p), (trend.host.ref if trend.host else None,),
        cpu=_whole(100 * (p.main.median or 0)), threads=f"{cpu:.1f}", cores=_whole(cores), workers=len(p.workers), rate="?",
    )  # fmt: skip


def _thread(trend: Trend, gpu: GpuTrend, p: ProcessTrend, workers: list[Worker]) -> Waiting | None:
    """One of its threads never waits: what it does between the kernels sets the pace."""
    main, use = p.main.median, gpu.mean("util") or 0
    if main is None or main < BOUND:
        return None
    total, reads = p.cpu.median or main, p.rchar.median
    clear = use < LOW and p.sort != "server"  # some servers poll for requests without a pause
    sure = _looked(gpu, Certainty.LIKELY if clear else Certainty.POSSIBLE, p)
    figures: dict[str, Any] = {"cpu": _whole(100 * main), "threads": f"{total:.1f}", "rate": _rate(reads), "workers": len(p.workers)}
    if _unused(gpu):
        if p.sort == "server":
            return _answer(trend, gpu, p, "idle", "server", Certainty.POSSIBLE, idle=duration(gpu.idle))
        return _answer(trend, gpu, p, "host", "alone", sure, (p.workers_ref,), **figures)
    if not workers and reads is not None and reads >= STEADY:
        return _answer(trend, gpu, p, "loading", "main", sure, **figures)
    return _answer(trend, gpu, p, "host", "", sure, (p.workers_ref,), **figures)


def _unused(gpu: GpuTrend) -> bool:
    """Whether next to nothing ran on it in the whole window."""
    return (gpu.mean("util") or 0) <= STILL and (gpu.series("util").most or 0) <= 5 * STILL


def _network(trend: Trend, gpu: GpuTrend, p: ProcessTrend, workers: list[Worker]) -> Waiting | None:
    """Nothing of it is busy, little comes from storage, and data flows in by the network: it waits for a server or a remote store."""
    flow = trend.host.net_rx.median if trend.host else None
    read, use = p.total_read, gpu.mean("util") or 0
    busiest = max([p.main.median if p.main.median is not None else p.cpu.median or 0, *(worker.cpu.median or 0 for worker in workers)])
    if flow is None or flow < FLOW or busiest >= SLACK or use >= PARTLY or (read or 0) > 0.2 * flow:
        return None
    its = p.rchar.median or 0
    sure = _looked(gpu, Certainty.LIKELY if its >= 0.3 * flow and read is not None else Certainty.POSSIBLE, p)
    if p.sort == "server":
        sure = Certainty.POSSIBLE  # requests and answers flow as well
    return _answer(
        trend, gpu, p, "network", "", sure, (p.workers_ref, trend.host.ref if trend.host else None),
        flow=_rate(flow), rate=_rate(its), cpu=_whole(100 * busiest), workers=len(workers) or "?", share="?", iowait="?",
    )  # fmt: skip


_CHECKS: tuple[Callable[[Trend, GpuTrend, ProcessTrend, list[Worker]], Waiting | None], ...] = (
    _stands, _loads, _crowded, _threads, _thread, _network,
)  # fmt: skip


def crowding(trend: Trend, gpu: GpuTrend) -> tuple[ProcessTrend, ProcessTrend] | None:
    """(who holds most of a card that is full, who else is on it) where they are of different users or jobs."""
    used, total, programs = gpu.series("mem_used").last, gpu.number("mem_total"), trend.on(gpu)
    if not used or not total or used < FILLED * total or len(programs) < 2 or (programs[0].mem.last or 0) < OTHERS * total:
        return None
    first = programs[0]
    other = next((p for p in programs[1:] if (p.user, p.job) != (first.user, first.job)), None)
    return (first, other) if other else None
