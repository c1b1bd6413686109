"""What `/metrics` says: the state of the GPUs as families of series, in the text that Prometheus reads.

A value that NVML does not tell has no series, never 0: `ongpu_gpu_not_told` says why. A GPU that is lost keeps its series of
state. Processes and jobs are bounded in number, so that a machine with thousands of them does not fill a Prometheus.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from ongpu.knowledge import errors
from ongpu.watch.metric_table import CONDITIONS, METRICS, MIB, PARTS, SEVERITIES, Metric
from ongpu.watch.processes import Proc
from ongpu.watch.state import GpuState, State

OTHER = "other"  # the pid or job of all that are too many to have series of their own
LONGEST = 64  # characters of a label's value that others choose: user, command, job
MIG_HIDES = ("util", "mem_util", "processes")  # what NVML does not tell of a GPU in MIG mode
Labels = dict[str, str]
Found = dict[str, list[tuple[Labels, float]]]  # by the metric's name


@dataclass(frozen=True)
class Said:
    """What the agent knows beyond the state.

    findings: (slug, GPU's index or None, its UUID or "", severity) of what the rules find now. incidents: open ones by severity.
    part_errors: by part of the agent. expected: GPUs that the configuration expects.
    """

    findings: Sequence[tuple[str, int | None, str, str]] = ()
    incidents: Mapping[str, int] = field(default_factory=dict)
    part_errors: Mapping[str, int] = field(default_factory=dict)
    expected: int | None = None


NOTHING = Said()


@dataclass(frozen=True)
class View:
    """A state that does not change any more, with what was said of it: one thread may read it while the next sample comes."""

    state: State
    said: Said = NOTHING


def view(state: State, said: Said = NOTHING) -> View:
    """A copy that is as deep as `State.take` changes things in place: 64 GPUs take a tenth of a millisecond."""
    mine = copy(state)
    mine.gpus = {}
    for index, gpu in state.gpus.items():
        mine.gpus[index] = one = copy(gpu)
        one.xids, one.seldom = dict(gpu.xids), dict(gpu.seldom)
    mine.log, mine.events, mine.hosts = type(state.log)(), copy(state.events), {}
    return View(mine, said)


def families(seen: View, most: int = 100) -> list[Family]:
    """All series of one view, in the order of METRICS. most: processes, and jobs, that have series of their own."""
    found: Found = {metric.name: [] for metric in METRICS}
    _machine(seen, found)
    for gpu in seen.state.gpus.values():
        _gpu(gpu, found)
    _processes(seen.state, found, most)
    _jobs(seen.state, found, most)
    return [family(metric.name, metric.kind, metric.unit, metric.en, found[metric.name]) for metric in METRICS if found[metric.name]]


def family(name: str, kind: str, unit: str, words: str, series: Iterable[tuple[Labels, float]]) -> Family:
    """One family as prometheus-client renders it, in the old text format and as OpenMetrics (which strips _total and _info)."""
    if name.endswith("_info"):
        made = Family(name.removesuffix("_info"), words, "info")
    else:
        made = Family(name.removesuffix("_total") if kind == "counter" else name, words, kind, unit)
    made.samples = [Sample(name, labels, value) for labels, value in series]
    return made


def _machine(seen: View, found: Found) -> None:
    state, said = seen.state, seen.said
    found["ongpu_up"].append(({}, float(state.up)))
    if not state.up:
        code = "" if state.code is None else str(state.code)
        found["ongpu_down_info"].append(({"reason": label(state.reason), "code": code}, 1.0))
    found["ongpu_build_info"].append(({"version": version()}, 1.0))
    if state.driver:
        cuda = "" if state.cuda is None else f"{state.cuda // 1000}.{state.cuda % 1000 // 10}"
        found["ongpu_driver_info"].append(({"version": label(state.driver), "cuda": cuda}, 1.0))
    found["ongpu_gpus"].append(({}, float(len(state.gpus))))
    for name, number in (("ongpu_gpus_expected", said.expected), ("ongpu_last_sample_timestamp_seconds", state.time)):
        if number is not None:
            found[name].append(({}, float(number)))
    found["ongpu_samples_total"].append(({}, float(state.samples)))
    found["ongpu_late_samples_total"].append(({}, float(state.late)))
    found["ongpu_sampler_restarts_total"].append(({}, float(state.restarts)))
    errors_of = {**dict.fromkeys(PARTS, 0), **said.part_errors}
    found["ongpu_part_errors_total"] += [({"part": part}, float(count)) for part, count in sorted(errors_of.items())]
    found["ongpu_kernel_log_readable"].append(({}, float(state.log_problem is None)))
    findings = dict.fromkeys(said.findings)  # twice the same series would spoil the whole page
    found["ongpu_finding"] += [
        ({"slug": slug, "gpu": "" if gpu is None else str(gpu), "uuid": uuid, "severity": severity}, 1.0)
        for slug, gpu, uuid, severity in findings
    ]
    found["ongpu_incidents_open"] += [({"severity": one}, float(said.incidents.get(one, 0))) for one in SEVERITIES]


_OF_ROW = [metric for metric in METRICS if metric.place == "row"]
_OF_IDENTITY = [metric for metric in METRICS if metric.place == "identity"]


def _gpu(gpu: GpuState, found: Found) -> None:
    mine = {"gpu": str(gpu.index), "uuid": gpu.uuid or ""}
    found["ongpu_gpu_info"].append(({**mine, "name": label(gpu.name or ""), "bus": gpu.bus or ""}, 1.0))
    found["ongpu_gpu_state"] += [({**mine, "state": state}, float(state == gpu.condition)) for state in CONDITIONS]
    if gpu.code is not None:
        found["ongpu_gpu_nvml_code"].append((mine, float(gpu.code)))
    if gpu.seen is not None:
        found["ongpu_gpu_last_seen_timestamp_seconds"].append((mine, gpu.seen))
    found["ongpu_gpu_xid_total"] += [({**mine, "code": str(code)}, float(count)) for code, count in sorted(gpu.xids.items())]
    for metric in _OF_IDENTITY:
        _put(metric, mine, gpu.identity.get(metric.key), found)
    if gpu.row is None:
        return
    for metric in _OF_ROW:
        _put(metric, mine, gpu.value(metric.key), found)
    reasons = gpu.value("reasons")
    if reasons is not None:
        found["ongpu_gpu_clock_reason"] += [({**mine, "reason": name}, float(bool(reasons & bit))) for bit, name in clock_reasons()]
    mig = bool(gpu.identity.get("mig"))
    found["ongpu_gpu_not_told"] += [
        ({**mine, "field": key, "reason": reason(code, mig and key in MIG_HIDES)}, 1.0) for key, code in sorted(gpu.why.items())
    ]
    if "processes" not in gpu.why:
        found["ongpu_gpu_processes"].append((mine, float(len(on(gpu)))))


def _put(metric: Metric, labels: Labels, value: Any, found: Found) -> None:
    if isinstance(value, (bool, int, float)):
        found[metric.name].append((labels, value * metric.times / metric.over))


@cache
def version() -> str:
    """Of ongpu as it is installed; "" where it runs without having been installed."""
    try:
        return metadata.version("ongpu")
    except metadata.PackageNotFoundError:
        return ""


@cache
def clock_reasons() -> tuple[tuple[int, str], ...]:
    """Bits of NVML's clocks event reasons and their names: (0x4, "sw_power_cap")."""
    return tuple((one.bit, re.sub(r"(?<!^)(?=[A-Z])", "_", one.name).lower()) for one in errors.clock_reasons())


@cache
def reason(code: int, mig: bool = False) -> str:
    """Why a value is not told: NVML's name for the code in words ("not supported", "no permission")."""
    known = errors.code("nvml", code)
    words = known.names[0].removeprefix("NVML_ERROR_").replace("_", " ").lower() if known else f"NVML code {code}"
    return f"{words} (MIG)" if mig else words


def on(gpu: GpuState) -> list[Proc]:
    """The processes of a GPU, each once: one that computes and draws stands in two lists of NVML, with the same memory."""
    found: dict[int, Proc] = {}
    for one in gpu.processes:
        if (other := found.get(one.pid)) is None or (other.mem or 0) < (one.mem or 0):
            found[one.pid] = one
    return list(found.values())


def _processes(state: State, found: Found, most: int) -> None:
    rows = [(gpu, one) for gpu in state.gpus.values() for one in on(gpu)]
    rows.sort(key=lambda row: (-(row[1].mem or 0), row[1].pid, row[0].index))
    own: dict[int, Labels] = {}
    for gpu, one in rows[:most]:
        program = own.setdefault(one.pid, _program(one))
        labels = {"gpu": str(gpu.index), "uuid": gpu.uuid or "", **program}
        if one.mem is not None:
            found["ongpu_process_memory_bytes"].append((labels, float(one.mem * MIB)))
        if one.sm is not None:
            found["ongpu_process_utilization_ratio"].append((labels, one.sm / 100))
    rest = {"pid": OTHER, "user": "", "command": ""}
    if memory := [one.mem for _, one in rows[most:] if one.mem is not None]:
        found["ongpu_process_memory_bytes"].append(({"gpu": "", "uuid": "", **rest}, float(sum(memory) * MIB)))
    once = {one.pid: one for _, one in rows}  # what the host says of a process is said once, on however many GPUs it is
    cores: dict[int, float | None] = {pid: one.cpu_share for pid, one in once.items()}
    resident: dict[int, float | None] = {pid: one.host.get("rss") for pid, one in once.items()}
    for name, values, scale in (("ongpu_process_cpu_cores", cores, 1), ("ongpu_process_resident_memory_bytes", resident, MIB)):
        found[name] += [(labels, value * scale) for pid, labels in own.items() if (value := values[pid]) is not None]
        if others := [value for pid, value in values.items() if pid not in own and value is not None]:
            found[name].append((rest, sum(others) * scale))


def _program(one: Proc) -> Labels:
    host = one.host
    user = host.get("user") or host.get("uid")
    return {"pid": str(one.pid), "user": "" if user is None else label(str(user)), "command": command(host.get("command"))}


def _jobs(state: State, found: Found, most: int) -> None:
    memory: dict[tuple[str, str], int | None] = {}
    held_by: dict[tuple[str, str], set[int]] = {}
    for gpu in state.gpus.values():
        for one in on(gpu):
            if name := one.host.get("job"):
                job = (label(str(name)), label(str(one.host.get("user") or "")))
                held_by.setdefault(job, set()).add(gpu.index)
                was = memory.get(job)
                memory[job] = was if one.mem is None else one.mem + (was or 0)
    ordered = sorted(held_by, key=lambda job: (-(memory[job] or 0), job))
    for job in ordered[most:]:  # all in one
        more = memory.pop(job)
        memory[OTHER, ""] = None if more is None and memory.get((OTHER, "")) is None else (more or 0) + (memory.get((OTHER, "")) or 0)
        held_by.setdefault((OTHER, ""), set()).update(held_by.pop(job))
    for job in [*ordered[:most], *([(OTHER, "")] if len(ordered) > most else [])]:
        labels = {"job_id": job[0], "user": job[1]}
        found["ongpu_job_gpus"].append((labels, float(len(held_by[job]))))
        held = memory[job]
        if held is not None:
            found["ongpu_job_memory_bytes"].append((labels, float(held * MIB)))
        busy = [util for index in held_by[job] if (util := state.gpus[index].value("util")) is not None]
        if busy:
            found["ongpu_job_utilization_ratio"].append((labels, sum(busy) / len(busy) / 100))


def label(text: str) -> str:
    """A value for a label from a text that others choose: printable, at most LONGEST characters, and always valid UTF-8."""
    plain = text[: LONGEST + 1].encode("utf-8", "replace").decode("utf-8")
    shown = "".join(c if c.isprintable() else "?" for c in plain)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def command(line: str | None) -> str:
    """The program of a command line without its folder, and the script or module of a Python: "python train.py"."""
    words = (line or "").split(maxsplit=8)
    if not words:
        return ""
    name = words[0].rpartition("/")[2] or words[0]
    if name.startswith("python"):
        for word, following in zip(words[1:], [*words[2:], ""], strict=True):
            if word == "-m":
                return label(f"{name} -m {following}")
            if not word.startswith("-"):
                return label(f"{name} {word.rpartition('/')[2]}")
    return label(name)


class Collected:
    """Families as a collector, which is what prometheus-client's renderers take."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = families

    def collect(self) -> Iterator[Family]:
        """The families."""
        return iter(self.families)
