"""Why is this GPU not busy: for each GPU the one finding that explains it, of a report whose evidence held a trend."""

from ongpu.facts.hardware import Gpus
from ongpu.facts.system import Processes
from ongpu.facts.trend import Trend
from ongpu.facts.waiting import UNKNOWN, waits
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Report, Severity, Words

# What a program on the GPU does or waits for, in the window itself.
SEEN = frozenset({
    "pcie-bound", "input-pipeline-bound", "gpu-waits-for-disk", "gpu-waits-for-network", "host-bound", "gpu-held-idle", "gpu-spins-waiting",
    "gpu-busy", "gpu-free",
})  # fmt: skip
CLOCKS = frozenset({"thermal-throttle", "power-throttle"})  # they slow a GPU that works; one that waits would wait as long without them
EXPLAINS = SEEN | CLOCKS | {"pcie-link-degraded", "zombie-holds-memory"}
_GPU, _PID = lazy(r"GPU (\d{1,4})(?!\d)"), lazy(r"pid (\d{1,10})(?!\d)")


def verdicts(report: Report) -> dict[int, Finding]:
    """By index, for each GPU of the trend that something explains. One that is missing is unknown: `unexplained` says why."""
    trend = report.fact(Trend)
    if trend is None:
        return {}
    found: dict[int, Finding] = {}
    every = (*report.findings, *report.hidden)  # hidden: perhaps by a finding about another GPU
    explains = [finding for finding in every if finding.weight is Severity.ERROR or finding.slug in EXPLAINS]
    told = [(finding, _gpus(finding, report, trend)) for finding in explains]
    for one in waits(trend):
        mine = [finding for finding, gpus in told if one.gpu.index in gpus]
        if mine:
            found[one.gpu.index] = min(mine, key=lambda finding: _rank(finding, one.cause))
    return found


def _rank(finding: Finding, cause: str) -> int:
    """Which comes first: a fault of the card; what slows it at what it does; what it does or waits for; all else."""
    if finding.slug in SEEN:
        return 2
    if finding.weight is Severity.NOTE or finding.certainty is Certainty.POSSIBLE:
        return 3
    if finding.weight is Severity.ERROR:
        return 0
    slows = (finding.slug in CLOCKS and cause in ("busy", "partly")) or (finding.slug == "pcie-link-degraded" and cause == "pcie")
    return 1 if slows else 3


def unexplained(report: Report) -> dict[int, Words]:
    """By index, for each GPU of the trend without a verdict: why nothing can be said."""
    trend = report.fact(Trend)
    explained = verdicts(report)
    if trend is None:
        return {}
    return {one.gpu.index: UNKNOWN.get(one.kind, UNKNOWN["unseen"]) for one in waits(trend) if one.gpu.index not in explained}


def _gpus(finding: Finding, report: Report, trend: Trend) -> set[int]:
    """The GPUs that a finding is about, by its subject: "GPU 3 (...)", "pid 42", a place on the PCI bus."""
    if index := _GPU.match(finding.subject):
        return {int(index[1])}
    if pid := _PID.match(finding.subject):
        listed = report.fact(Processes)
        own = {p.gpu for p in listed.processes if p.pid == int(pid[1]) and p.gpu is not None} if listed else set()
        return own | {p.gpu for p in trend.processes if p.pid == int(pid[1])}
    cards = report.fact(Gpus)
    place = _bus(finding.subject)
    return {g.index for g in cards.gpus if g.index is not None and g.bus and _bus(g.bus) == place} if cards and place else set()


def _bus(place: str) -> str:
    """ "00000000:3B:00.0", "0000:3b:00" and "3b:00.0" are one place; "" for what is none."""
    parts = place.lower().partition(".")[0].split(":")
    return ":".join(parts[-2:]) if len(parts) >= 2 and all(part.isalnum() for part in parts) else ""
