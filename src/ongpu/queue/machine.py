"""What this machine says of its GPUs, quickly: the report that the gate decides by, and the cards that a command may be given."""

import os
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path

from ongpu.engine import all_sources, diagnose
from ongpu.facts.system import Process, Processes
from ongpu.hosts.leases import Holder
from ongpu.hosts.live import Live, gather
from ongpu.index import names
from ongpu.model import Certainty, Finding, Report, Severity, Verdict
from ongpu.queue import gate
from ongpu.queue.choice import Card
from ongpu.queue.gate import Asked, Policy

NOTHING = Report(subject="", verdict=Verdict.CLEAR)  # nobody was asked
SPARE = 1.0  # seconds beyond each question's own limit


def ask(root: str = "/", policy: Policy = gate.DEFAULT, patience: float = 10.0) -> Report:
    """What the layers below the program say of this machine. patience: seconds for a driver that does not answer."""
    sources = gate.sources(all_sources(), patience, policy)
    evidence = gather(Live(root=Path(root)), sources, patience=patience + SPARE)
    return diagnose(evidence, "", gate.rules(policy), sources)


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
    report: Report, held: Mapping[str, Holder], policy: Policy | None = gate.DEFAULT, ours: Collection[int] = (), root: str = "/"
) -> list[Card]:
    """The GPUs of a report as a choice is made of them. held: leases by UUID; policy None: nothing makes a GPU unfit but silence;
    ours: processes that are no strangers."""
    listed = report.fact(Processes)
    found = []
    for gpu in gate.cards(report):
        index = gpu.index or 0
        decision = gate.decide(report, Asked((str(index),), ""), policy) if policy else None
        unfit = decision.reasons[0].slug if decision and decision.reasons else "gpu-answers-with-error" if gpu.error else None
        here = [p for p in (listed.processes if listed else ()) if p.gpu == index and "C" in (p.kind or "C") and p.pid not in ours]
        uuid = gpu.uuid or ""
        found.append(Card(
            uuid=uuid, index=index, name=gpu.name or "", total=gpu.memory_total, free=gpu.memory_free, util=gpu.utilization,
            unfit=unfit or (None if uuid else "gpu-answers-with-error"), holder=told(held[uuid]) if uuid in held else None,
            foreign=tuple(stranger(process) for process in here if not process.gone), partitioned=bool(gpu.mig), near=near(gpu.bus, root),
        ))  # fmt: skip
    return found


def told(holder: Holder) -> str:
    """Who holds a lease, in words."""
    if holder.ended:
        return f"what pid {holder.pid} left behind: {holder.command or '?'}"
    who = f"{holder.user}, pid {holder.pid}" if holder.user and holder.pid else f"pid {holder.pid}" if holder.pid else "?"
    return f"{who}: {holder.command}" if holder.command else who


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
