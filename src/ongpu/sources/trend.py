"""A window of looks at GPUs and the programs on them (`watch/window.py`), as JSON: each GPU and each process on a line of its own."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.sample import COLUMNS, IDENTITY
from ongpu.facts.trend import EMPTY, GpuTrend, HostTrend, ProcessTrend, Rank, Series, Trend, Worker, short
from ongpu.knowledge.gpu_programs import kind
from ongpu.knowledge.pcie import practical
from ongpu.lazy import replace
from ongpu.model import Evidence, Fact, Source
from ongpu.sources.nvml import REASONS

START = '{"from": '
LONGEST = 32 << 20  # characters
MOST_GPUS, MOST_PROCESSES, MOST_WORKERS, MOST_VALUES = 1024, 4096, 64, 4000
HELD = 0.5  # a reason for low clocks is told where it held for half of the window: one look may catch a spike


def number(value: Any) -> float | None:
    """A number that is none of nan, infinity, true and false."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and -1e18 < value < 1e18 else None


def whole(value: Any) -> int | None:
    """A number without its fraction."""
    plain = number(value)
    return None if plain is None else int(plain)


def text(value: Any, most: int = 200) -> str | None:
    """A text that is not empty, cut."""
    return value[:most] if isinstance(value, str) and value else None


def series(value: Any) -> Series:
    """A list of numbers and nulls."""
    return Series(number(one) for one in value[-MOST_VALUES:]) if isinstance(value, list) else EMPTY


def states(value: Any) -> tuple[str | None, ...]:
    """A list of states: "R", "S", "D", "T", "Z"."""
    return tuple(text(one, 1) for one in value[-MOST_VALUES:]) if isinstance(value, list) else ()


def objects(value: Any, most: int) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [one for one in value[:most] if isinstance(one, dict)] if isinstance(value, list) else []


def read(evidence: Evidence) -> Iterable[Fact]:
    """The window; and its GPUs as one look would show them, with what held for most of it. ValueError where it is no such JSON."""
    if len(evidence.text) > LONGEST:
        raise ValueError("too long")
    try:
        told = json.loads(evidence.text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(told, dict) or not evidence.text.strip():
        raise ValueError("no object")
    places = {"i": _places(evidence, '{"i":'), "pid": _places(evidence, '{"pid":')}
    gpus = tuple(
        gpu for n, row in enumerate(objects(told.get("gpus"), MOST_GPUS)) if (gpu := _gpu(evidence, row, _at(places["i"], n))) is not None
    )
    processes = tuple(
        p for n, row in enumerate(objects(told.get("processes"), MOST_PROCESSES)) if (p := _process(evidence, row, _at(places["pid"], n))) is not None
    )
    host = _host(evidence, told["host"]) if isinstance(told.get("host"), dict) else None
    refs = tuple(gpu.ref for gpu in gpus[:8] if gpu.ref)
    yield Trend(start=number(told.get("from")), end=number(told.get("to")), interval=number(told.get("interval")), gpus=gpus, processes=processes, host=host, refs=refs)
    if gpus:
        yield Gpus(gpus=tuple(_card(gpu) for gpu in gpus), refs=refs)


def _places(evidence: Evidence, start: str) -> list[int]:
    return [place for place, line in evidence.lines() if line.startswith(start)]


def _at(places: list[int], n: int) -> int:
    return places[n] if n < len(places) else 1


def _gpu(evidence: Evidence, row: Mapping[str, Any], line: int) -> GpuTrend | None:
    index = whole(row.get("i"))
    if index is None:
        return None
    identity = row["identity"] if isinstance(row.get("identity"), dict) else {}
    identity = {name: identity[name] for name in IDENTITY if isinstance(identity.get(name), (int, float, str, bool))}
    columns = {name: series(row.get(name)) for name in COLUMNS}
    t = tuple(value for value in series(row.get("t")) if value is not None)
    # The width stays; the generation falls when the card is idle, and the identity may be of then.
    link = whole(identity.get("pcie_gen_max")) or whole(identity.get("pcie_gen")), whole(identity.get("pcie_width"))
    found = GpuTrend(
        index=index, uuid=text(row.get("uuid")), name=text(row.get("name")), identity=identity, t=tuple(sorted(t)), columns=columns,
        idle=number(row.get("idle")), processes=row.get("processes") is not False,
        link=practical(link[0], link[1]) if link[0] and link[1] else None, link_name=f"Gen{link[0]} x{link[1]}" if link[0] and link[1] else None,
    )
    return replace(found, ref=evidence.ref(line, _gpu_words(found)))


def _gpu_words(gpu: GpuTrend) -> str:
    """The figures of the window, as a reader of nvidia-smi would say them."""
    parts = [f"{gpu.label}, {gpu.seconds:.0f} s:"]
    use = gpu.series("util")
    if use.mean is not None:
        parts.append(f"utilisation {use.mean:.0f} % ({use.least:.0f} to {use.most:.0f}),")
    else:
        parts.append("utilisation not told" + (" (MIG)," if gpu.identity.get("mig") else ","))
    for name, unit, by in (("mem_util", "% memory use", 1.0), ("power", "W", 1000.0), ("sm_clock", "MHz", 1.0), ("temp", "C", 1.0)):
        value = gpu.median(name)
        if value is not None:
            parts.append(f"{value / by:.0f} {unit},")
    used, total = gpu.series("mem_used").last, gpu.number("mem_total")
    if used is not None:
        parts.append(f"{used:.0f}{'' if total is None else f' / {total:.0f}'} MiB,")
    for name, way in (("pcie_rx", "in"), ("pcie_tx", "out")):
        rate = gpu.median(name)
        if rate is not None:
            parts.append(f"PCIe {way} {rate / 1e6:.1f} GB/s,")
    if gpu.idle is not None and gpu.idle >= 10:
        parts.append(f"nothing ran for {gpu.idle:.0f} s,")
    return " ".join(parts).rstrip(",")


def _process(evidence: Evidence, row: Mapping[str, Any], line: int) -> ProcessTrend | None:
    pid, gpu = whole(row.get("pid")), whole(row.get("gpu"))
    if pid is None or gpu is None:
        return None
    command = text(row.get("command"))
    workers = tuple(
        Worker(pid=child, name=text(one.get("name"), 40) or "", cpu=series(one.get("cpu")), state=states(one.get("state")), read=series(one.get("read")))
        for one in objects(row.get("workers"), MOST_WORKERS)
        if (child := whole(one.get("pid"))) is not None
    )
    found = ProcessTrend(
        pid=pid, gpu=gpu, user=text(row.get("user"), 64), command=command, job=text(row.get("job")), kind=text(row.get("kind"), 8) or "C", sort=kind(command),
        mem=series(row.get("mem")), t=tuple(value for value in series(row.get("t")) if value is not None), cpu=series(row.get("cpu")), main=series(row.get("main")),
        state=states(row.get("state")), read=series(row.get("read")), rchar=series(row.get("rchar")), sm=series(row.get("sm")), workers=workers,
        ranks=tuple(
            Rank(gpu=place, util=number(one.get("util")), power=number(one.get("power")))
            for one in objects(row.get("ranks"), MOST_WORKERS)
            if (place := whole(one.get("gpu"))) is not None
        ),
        quiet=number(row.get("quiet")),
    )
    below = evidence.ref(line, _workers_words(found)) if workers else None
    return replace(found, ref=evidence.ref(line, _process_words(found)), workers_ref=below)


def _cores(value: float | None) -> str:
    return "?" if value is None else f"{100 * value:.0f} %"


def _process_words(p: ProcessTrend) -> str:
    parts = [f"GPU {p.gpu}: pid {p.pid}", *([p.user] if p.user else []), *([short(p.command)] if p.command else [])]
    if p.mem.last is not None:
        parts.append(f"{p.mem.last:.0f} MiB")
    if not p.visible:
        return ", ".join([*parts, "not visible in /proc from here"])
    parts.append(f"processor {_cores(p.cpu.median)} of a core, busiest thread {_cores(p.main.median)}")
    if seen := [state for state in p.state if state]:
        parts.append("state " + " ".join(f"{state} {seen.count(state)}/{len(seen)}" for state in sorted(set(seen))))
    for value, words in ((p.read.mean, "from storage"), (p.rchar.median, "by read()")):
        if value is not None:
            parts.append(f"{value / 1e6:.3g} MB/s {words}")
    shown = [f"GPU {rank.gpu} {'?' if rank.util is None else f'{rank.util:.0f} %'}" for rank in p.ranks[:8]]
    return ", ".join([*parts, *(["its job's other GPUs: " + " ".join(shown)] if shown else [])])


def _workers_words(p: ProcessTrend) -> str:
    shown = [
        f"{worker.name or '?'} {worker.pid}: {_cores(worker.cpu.median)}" + (f" D {100 * worker.waits('D'):.0f} %" if worker.waits("D") else "")
        for worker in p.workers[:6]
    ]
    return f"pid {p.pid}, {len(p.workers)} children: " + "; ".join(shown) + ("; ..." if len(p.workers) > 6 else "")


def _host(evidence: Evidence, row: Mapping[str, Any]) -> HostTrend:
    found = HostTrend(
        cores=number(row.get("cores")), load=number(row.get("load")), busy=series(row.get("busy")), iowait=series(row.get("iowait")),
        net_rx=series(row.get("net_rx")), mem_available=number(row.get("mem_available")),
    )
    parts = [f"{found.cores:.0f} cores" if found.cores else "", f"load {found.load:.1f}" if found.load is not None else ""]
    for value, words in ((found.busy.median, "cores busy"), (found.iowait.mean, "cores wait for storage")):
        parts.append("" if value is None else f"{value:.1f} {words}")
    parts.append("" if found.net_rx.median is None else f"{found.net_rx.median / 1e6:.3g} MB/s received")
    words = "machine: " + ", ".join(filter(None, parts))
    return replace(found, ref=evidence.ref(1, words))


def _card(gpu: GpuTrend) -> Gpu:
    """As one look would show it: the middle of the window, and of the reasons for low clocks those that held. Its link is left out: the
    identity may be older than the load, and an idle card lowers its link."""
    reasons = gpu.series("reasons")
    held = tuple(name for bit, name in REASONS.items() if (reasons.share_with(bit) or 0) >= HELD) if reasons.known else None
    use, memory, total = gpu.median("util"), gpu.series("mem_used").last, gpu.number("mem_total")
    power = {name: gpu.number(name) for name in ("power_limit", "power_default")}
    mig = gpu.identity.get("mig")
    return Gpu(
        index=gpu.index, name=gpu.name, uuid=gpu.uuid, memory_total=whole(total), memory_used=whole(memory),
        utilization=whole(use), temperature=whole(gpu.median("temp")), temperature_slowdown=whole(gpu.number("temp_limit")),
        power_draw=_watts(gpu.median("power")), power_limit=_watts(power["power_limit"]), power_default=_watts(power["power_default"]),
        clock_sm=whole(gpu.median("sm_clock")), clock_sm_max=whole(gpu.number("sm_clock_max")), throttle=held, fan=whole(gpu.median("fan")),
        mig=mig if isinstance(mig, bool) else None, ref=gpu.ref,
    )  # fmt: skip


def _watts(milliwatts: float | None) -> float | None:
    return None if milliwatts is None else round(milliwatts / 1000, 1)


SOURCES = (
    Source(
        kind="trend",
        read=read,
        looks_like=lambda evidence: evidence.text.startswith(START) and '"gpus": [' in evidence.text[:4000],
        gives=(Trend, Gpus),
        settle="ongpu top",
    ),
)
