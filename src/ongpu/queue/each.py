"""A report that tells of every GPU at fault: a rule may name one of several, and what it names is left out when the rest is judged again.

For people one GPU with its story is enough; a scheduler has to know of each. A machine without a fault is judged once.
"""

import json
from collections.abc import Collection, Iterable, Sequence

from ongpu.engine import diagnose
from ongpu.facts.hardware import Gpu
from ongpu.lazy import replace
from ongpu.model import Evidence, Finding, Report, Rule, Source
from ongpu.queue import gate

# What NVML says of a GPU that may be said of one without a fault: who it is, and who is on it.
PLAIN = (
    "gpu", "name", "uuid", "pci", "capability", "memory", "utilization", "mig", "mig_devices", "slices", "processes", "driver_model",
    "display", "peers",
)  # fmt: skip
MOST = 64  # GPUs: beyond, the last are judged together


def whole(report: Report, rules: Sequence[Rule], sources: Sequence[Source]) -> Report:
    """The report, and what the same rules say of the other GPUs where those that it names are left out. rules, sources: its own."""
    here = gate.cards(report)
    findings, now, done = list(report.findings), report, set[int]()
    for _ in here[:MOST]:
        new = {index for finding in (*now.findings, *now.hidden) for index in _about(finding, now)} - done
        done |= new
        if not new or len(done) >= len(here):
            break
        now = diagnose(without(report.evidence, [gpu for gpu in here if gpu.index in done]), "", rules, sources)
        known = {(finding.slug, finding.subject) for finding in findings}
        others = (f for f in (*now.findings, *now.hidden) if _about(f, now) - done and (f.slug, f.subject) not in known)
        findings += others
    return replace(report, findings=tuple(findings)) if len(findings) > len(report.findings) else report


def _about(finding: Finding, report: Report) -> frozenset[int]:
    """The GPUs that it is about; none where it is about the machine."""
    if finding.rule is None or finding.rule.layer not in gate.LAYERS:
        return frozenset()
    return gate.gpus_of(finding, report) or frozenset()


def without(evidence: Iterable[Evidence], gpus: Collection[Gpu]) -> list[Evidence]:
    """The evidence as if these GPUs had no fault: their lines of NVML say who they are, those of the kernel are not there."""
    places = [f":{gate.bus(gpu.bus)}" for gpu in gpus if gpu.bus and gate.bus(gpu.bus)]
    names = [f"GPU{gpu.index}:" for gpu in gpus]
    indices = {gpu.index for gpu in gpus}
    found = []
    for item in evidence:
        if item.kind == "nvml":
            found.append(replace(item, text="\n".join(_plain(line, indices) for line in item.text.split("\n"))))
            continue
        lines = item.text.split("\n")
        kept = [n for n, line in enumerate(lines) if not any(p in line.lower() for p in places) and not any(name in line for name in names)]
        if len(kept) < len(lines) and item.readers:  # lines of a log; a listing of the bus stays whole
            numbers = tuple(item.numbers[n] for n in kept) if len(item.numbers) == len(lines) else ()
            item = replace(item, text="\n".join(lines[n] for n in kept), numbers=numbers)
        found.append(item)
    return found


def _plain(line: str, indices: Collection[int | None]) -> str:
    try:
        told = json.loads(line) if line.startswith('{"gpu"') else None
    except ValueError:
        return line
    if not isinstance(told, dict) or told.get("gpu") not in indices:
        return line
    return json.dumps({name: value for name, value in told.items() if name in PLAIN})
