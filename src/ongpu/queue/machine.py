"""What this machine says of its GPUs, quickly: the report that the gate decides by, and the cards that a command may be given."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from ongpu.engine import all_sources, diagnose, rehearse
from ongpu.facts.hardware import Gpu, Slice
from ongpu.facts.system import Process, Processes
from ongpu.hosts.leases import Holder
from ongpu.hosts.live import Live, gather
from ongpu.index import names
from ongpu.model import Certainty, Finding, Report, Rule, Severity, Verdict
from ongpu.queue import gate
from ongpu.queue.choice import Card
from ongpu.queue.each import whole
from ongpu.queue.gate import Asked, Policy

NOTHING = Report(subject="", verdict=Verdict.CLEAR)  # nobody was asked
MOST_COMMAND = 60  # characters of a command that are told: the whole of a shell's program says nothing more
SPARE = 1.0  # seconds beyond each question's own limit


def ask(root: str = "/", policy: Policy = gate.DEFAULT, patience: float = 10.0) -> Report:
    """What the layers below the program say of this machine. patience: seconds for a driver that does not answer."""
    sources = gate.sources(all_sources(), patience, policy)
    rules: list[Rule] = []

    def meanwhile() -> Iterator[None]:
        rules.extend(gate.rules(policy))
        yield from rehearse(sources)

    evidence = gather(Live(root=Path(root)), sources, meanwhile(), patience=patience + SPARE)
    return whole(diagnose(evidence, "", rules, sources), rules, sources)


def unable(report: Report, python: str, limit: float = 3.0) -> tuple[Finding, ...]:
    """What keeps the packages of that interpreter off these GPUs, at least likely, as the doctor says it; nothing is imported there.

    report: what the machine said. limit: seconds.
    """
    asking = tuple(source for source in all_sources() if source.kind == "python-environment")
    told = gather(Live(python=python), asking, patience=limit)
    folders = ("ongpu.rules.framework.", "ongpu.rules.libraries.", "ongpu.rules.driver.", "ongpu.rules.hardware.")
    rules = [import_module(name).RULE for name in names("ongpu.rules") if name.startswith(folders)]
    whole = diagnose([*report.evidence, *told], "", rules)
    known = {finding.slug for finding in (*report.findings, *report.hidden)}
    bad = (f for f in whole.findings if f.weight is Severity.ERROR and f.certainty > Certainty.POSSIBLE)
    return tuple(finding for finding in bad if finding.slug not in known)


def cards_of(
    report: Report, held: Mapping[str, Holder], policy: Policy | None = gate.DEFAULT, ours: Collection[int] = (), root: str = "/",
    lang: str = "en",
) -> list[Card]:  # fmt: skip
    """The GPUs of a report as a choice is made of them. held: leases by UUID; policy None: nothing makes a GPU unfit but silence;
    ours: processes that are no strangers; lang: of the words about who holds a lease."""
    listed = report.fact(Processes)
    found = []
    places = {gate.bus(gpu.bus): gpu.uuid for gpu in gate.cards(report) if gpu.bus and gpu.uuid}
    for gpu in gate.cards(report):
        index = gpu.index or 0
        decision = gate.decide(report, Asked((str(index),), ""), policy) if policy else None
        unfit = decision.reasons[0].slug if decision and decision.reasons else "gpu-answers-with-error" if gpu.error else None
        here = [p for p in (listed.processes if listed else ()) if p.gpu == index and "C" in (p.kind or "C") and p.pid not in ours]
        uuid, all_here = gpu.uuid or "", [p for p in (listed.processes if listed else ()) if p.gpu == index]
        found.append(Card(
            uuid=uuid, index=index, name=gpu.name or "", total=gpu.memory_total, free=gpu.memory_free, util=gpu.utilization,
            unfit=unfit or (None if uuid else "gpu-answers-with-error"), holder=told(held[uuid], lang) if uuid in held else None,
            drained=(held[uuid].drained or "") if uuid in held else "",
            foreign=tuple(stranger(process) for process in here if not process.gone), partitioned=bool(gpu.mig),
            near=(*switched(gpu, places), *near(gpu.bus, root)), linked=linked(gpu, places),
            unexplained=unexplained(gpu, all_here) if listed and not gpu.mig else 0,
        ))  # fmt: skip
        found += [_slice(part, found[-1], here, held, lang) for part in (gpu.slices or ()) if gpu.mig]
    return found


def _slice(part: Slice, whole: Card, here: Sequence[Process], held: Mapping[str, Holder], lang: str) -> Card:
    """A MIG device: as fit as its card, and not free where the card as a whole is leased. NVML tells no utilisation of one. A program
    of which it does not tell the slice may be on any. As nvml.h has it: no partitioned card was at hand."""
    holder, drained = (told(held[part.uuid], lang), "") if part.uuid in held else (whole.holder, whole.drained)
    mine = tuple(stranger(process) for process in here if process.slice in (part.uuid, None) and not process.gone)
    return Card(
        uuid=part.uuid, index=whole.index, name=part.name or whole.name, total=part.memory_total, free=part.memory_free, unfit=whole.unfit,
        holder=holder, drained=drained, foreign=mine, slice=True, near=whole.near, card=whole.uuid,
    )  # fmt: skip


def unexplained(gpu: Gpu, here: Iterable[Process]) -> int:
    """MiB of its memory that are in use, and by none of these programs; 0 where that is not known."""
    sizes = [process.memory for process in here if not process.gone]
    known = [size for size in sizes if size is not None]
    if gpu.memory_used is None or len(known) < len(sizes):
        return 0
    return max(0, round(gpu.memory_used - sum(known)))


def visible(report: Report, names: Iterable[str]) -> frozenset[str]:
    """The UUIDs that such names of CUDA_VISIBLE_DEVICES allow: of whole cards, with their slices, and of slices (NVIDIA's MIG guide)."""
    here, found = gate.cards(report), set()
    for name in names:
        parts = [(card, part) for card in here for part in card.slices or ()]
        old = name.removeprefix("MIG-").split("/")  # MIG-GPU-<UUID>/<GPU instance>/<compute instance>, before driver 470
        if name.startswith("MIG-") and len(old) == 3:
            found |= {p.uuid for card, p in parts if card.uuid == old[0] and [str(p.gi), str(p.ci)] == old[1:]}
        elif name.startswith("MIG-"):
            found |= {part.uuid for _, part in parts if part.uuid.startswith(name)}
        elif (whole := gate.named(here, name)) and whole.uuid:
            found |= {whole.uuid, *(part.uuid for part in whole.slices or ())}
    return frozenset(found)


def linked(gpu: Gpu, places: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """The GPUs that its NVLink links lead to straight, as (UUID, links). places: UUIDs by bus id."""
    return tuple((places[place], count) for bus, count in gpu.peers or () if (place := gate.bus(bus)) in places)


def switched(gpu: Gpu, places: Mapping[str, str]) -> tuple[str, ...]:
    """What it shares with all others whose links lead to a switch, which joins them all alike."""
    return ("nvswitch",) if any(gate.bus(bus) not in places for bus, _ in gpu.peers or ()) else ()


def told(holder: Holder, lang: str = "en") -> str:
    """Who holds a lease, in words; of a GPU that is out of service only who took it out: nothing of his runs there."""
    if holder.drained:
        return holder.user or "?"
    if holder.ended:
        left = f"pid {holder.pid} 遗留的进程：" if lang == "zh" else f"what pid {holder.pid} left behind: "
        return left + _short(holder.command or "?")
    who = f"{holder.user}, pid {holder.pid}" if holder.user and holder.pid else f"pid {holder.pid}" if holder.pid else "?"
    return f"{who}: {_short(holder.command)}" if holder.command else who


def _short(command: str) -> str:
    return command if len(command) <= MOST_COMMAND else f"{command[: MOST_COMMAND - 1]}…"


def stranger(process: Process) -> str:
    """Who computes on a GPU, in words."""
    size = "" if process.memory is None else f", {process.memory} MiB"
    return f"pid {process.pid} ({process.name or '?'}{size})"


def near(bus: str | None, root: str = "/") -> tuple[str, ...]:
    """What a GPU shares with its neighbours, as sysfs has it: the NUMA node, then the bridges above it."""
    if not bus:
        return ()
    place = bus.lower()[-12:]
    folder = Path(root, "sys/bus/pci/devices", place)
    try:
        node = (folder / "numa_node").read_text().strip()
    except OSError:
        node = "-1"
    above = [part for part in os.path.realpath(folder).split("/") if part.startswith("pci") or part.count(":") == 2][:-1]
    return (*([] if node == "-1" else [f"numa{node}"]), *above)
