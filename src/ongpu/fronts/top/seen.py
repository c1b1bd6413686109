"""What the state of the GPUs and the findings say, as the view that `ongpu top` prints."""

import re
from collections.abc import Iterable, Mapping

from ongpu.facts.sample import COLUMNS
from ongpu.model import Finding, Report, Severity, Words
from ongpu.report.top.view import OK, Card, Program, View
from ongpu.report.verdicts import unexplained, verdicts
from ongpu.watch.processes import Proc
from ongpu.watch.state import GpuState, State, bus

_GPU = re.compile(r"^GPU (\d{1,4})\b")
XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]{7,16})\): (?P<code>\d{1,5})")


def program(process: Proc) -> Program:
    """A process, as it is told."""
    host = process.host
    return Program(
        pid=process.pid, mem=process.mem, kind=process.kind, sm=process.sm, visible=bool(host), user=host.get("user"), uid=host.get("uid"),
        command=host.get("command"), start=host.get("start"), cpu=process.cpu_share, main=process.main_share, state=host.get("state"),
        rss=host.get("rss"), read=process.read_rate, container=host.get("container"), job=host.get("job"),
        children=tuple((child.pid, child.name, child.cpu_share, child.state or "?") for child in process.children),
    )  # fmt: skip


def whose(finding: Finding, state: State) -> GpuState | None:
    """The GPU that the finding is about: its subject names the index, the place on the bus, or the UUID; None for the machine's own."""
    subject = finding.subject
    if found := _GPU.match(subject):
        return state.gpus.get(int(found[1]))
    if not subject:
        return None
    place = bus(subject)
    return next((g for g in state.gpus.values() if (g.bus and bus(g.bus) == place) or (g.uuid and g.uuid in subject)), None)


class Limits:
    """At how many degrees each card slows down: as it says, or its temperature and the margin that it told at the same time."""

    def __init__(self) -> None:
        self.exact: dict[str, int] = {}  # UUID -> degrees, of the doctor's own line, which has both
        self.near: dict[int, int] = {}  # GPU -> degrees, of its identity and the look that came next

    def hear(self, told: Mapping[str, Mapping[str, object]]) -> None:
        """The doctor's lines (`watch/evidence.py`, told_in)."""
        for uuid, line in told.items():
            temp, margin = line.get("temperature"), line.get("margin")
            if isinstance(temp, int) and isinstance(margin, int):
                self.exact[uuid] = temp + margin

    def look(self, gpu: GpuState) -> None:
        """After a look at the GPU: the first after its identity counts."""
        temp, margin = gpu.value("temp"), gpu.identity.get("temp_margin")
        if gpu.index not in self.near and temp is not None and isinstance(margin, int):
            self.near[gpu.index] = temp + margin

    def of(self, gpu: GpuState) -> int | None:
        """Degrees Celsius; None where the card tells neither."""
        limit = gpu.identity.get("temp_limit")
        return limit if isinstance(limit, int) else self.exact.get(gpu.uuid or "", self.near.get(gpu.index))


def view(
    state: State, report: Report | None, limits: Limits, now: float, *, seconds: float = 0.0, kept: bool = False, demo: bool = False
) -> View:
    """The view. report: what the engine found; the findings go to the GPUs that they name."""
    logged = xids(state)
    first, why = (verdicts(report), unexplained(report)) if report else ({}, {})
    of: dict[int, list[Finding]] = {}
    rest: list[Finding] = []
    for finding in report.findings if report else ():
        gpu = whose(finding, state)
        of.setdefault(gpu.index, []).append(finding) if gpu else rest.append(finding)
    return View(
        up=state.up, reason=state.reason, log_problem=state.log_problem, now=now, code=state.code, driver=state.driver, cuda=state.cuda, time=state.time,
        cards=tuple(_card(gpu, _told(of.get(index, []), first.get(index)), why.get(index), limits, logged.get(index)) for index, gpu in state.gpus.items()),
        findings=tuple(f for f in rest if f.weight > Severity.NOTE), report=report, seconds=seconds, kept=kept, demo=demo,
    )  # fmt: skip


def xids(state: State) -> dict[int, dict[int, int] | None]:
    """Of each GPU code -> how often, since boot as far as the kernel's log reaches; None where the log may not be read and NVML told none."""
    places = {bus(gpu.bus): gpu.index for gpu in state.gpus.values() if gpu.bus}
    found: dict[int, dict[int, int]] = {index: {} for index in state.gpus}
    for _, text in state.log:
        if (event := XID.search(text)) and (index := places.get(bus(event["bus"]))) is not None:
            code = int(event["code"])
            found[index][code] = found[index].get(code, 0) + 1
    for index, gpu in state.gpus.items():
        for code, count in gpu.xids.items():
            found[index][code] = max(found[index].get(code, 0), count)
    return {index: codes if codes or state.log_problem is None else None for index, codes in found.items()}


def _told(mine: list[Finding], verdict: Finding | None) -> list[Finding]:
    """The verdict; then what else is wrong with that GPU."""
    first = verdict or (mine[0] if mine else None)
    return [] if first is None else [first, *(f for f in mine if f is not first and f.weight > Severity.NOTE)]


def _card(gpu: GpuState, findings: Iterable[Finding], why: Words | None, limits: Limits, logged: Mapping[int, int] | None) -> Card:
    values = {column: gpu.value(column) for column in COLUMNS} if gpu.condition == OK else {}
    return Card(
        index=gpu.index, uuid=gpu.uuid, name=gpu.name, bus=gpu.bus, condition=gpu.condition, code=gpu.code, since=gpu.since, seen=gpu.seen,
        values=values, why=dict(gpu.why), identity=dict(gpu.identity), limit=limits.of(gpu), xids=logged,
        programs=tuple(program(process) for process in gpu.processes), findings=tuple(findings), unexplained=why,
    )  # fmt: skip
