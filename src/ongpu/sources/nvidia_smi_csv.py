"""The comma-separated answers of nvidia-smi: --query-gpu and --query-compute-apps, with or without header and units."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Process, Processes
from ongpu.knowledge.median import median
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Fact

_UNIT = lazy(r"(?<=[\w.])\s*\[[^\]]*\]\s*$")  # "memory.used [MiB]", but not "[N/A]"
_QUERY = lazy(r"--query-(?P<what>gpu|compute-apps)[= ](?P<fields>[\w.,\- ]+?)(?=\s+-|\s*$|\s*[|>&;\"'])")
_LOOP = lazy(r"\s(?:-l|--loop|-lms|--loop-ms)\b[= ]?\d")
_NUMBER = lazy(r"-?\d+(?:\.\d+)?")


def _whole(text: str) -> int | None:
    match = _NUMBER.match(text)
    return int(float(match[0])) if match else None


def _real(text: str) -> float | None:
    match = _NUMBER.match(text)
    return float(match[0]) if match else None


def _yes(text: str) -> bool | None:
    return {"enabled": True, "yes": True, "active": True, "disabled": False, "no": False, "not active": False}.get(
        text.lower()
    )


def _word(text: str) -> str | None:
    return text or None


_MEMORY = ("memory.total", "memory.used", "memory.free")
# fmt: off
_CARDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "index": ("index", _whole), "name": ("name", _word), "gpu_name": ("name", _word), "uuid": ("uuid", _word),
    "gpu_uuid": ("uuid", _word), "pci.bus_id": ("bus", _word), "gpu_bus_id": ("bus", _word),
    "compute_cap": ("capability", _word),
    "memory.total": ("memory_total", _whole), "memory.used": ("memory_used", _whole),
    "memory.free": ("memory_free", _whole),
    "utilization.gpu": ("utilization", _whole), "temperature.gpu": ("temperature", _whole),
    "fan.speed": ("fan", _whole),
    "temperature.gpu.tlimit": ("temperature_margin", _whole), "power.draw": ("power_draw", _real),
    "power.draw.instant": ("power_draw", _real), "power.draw.average": ("power_draw", _real),
    "power.limit": ("power_limit", _real),
    "enforced.power.limit": ("power_limit", _real), "power.default_limit": ("power_default", _real),
    "clocks.sm": ("clock_sm", _whole),
    "clocks.current.sm": ("clock_sm", _whole), "clocks.gr": ("clock_sm", _whole),
    "clocks.current.graphics": ("clock_sm", _whole),
    "clocks.max.sm": ("clock_sm_max", _whole), "clocks.max.graphics": ("clock_sm_max", _whole),
    "pstate": ("pstate", _word),
    "compute_mode": ("compute_mode", _word), "persistence_mode": ("persistence", _yes),
    "display_active": ("display_active", _yes),
    "mig.mode.current": ("mig", _yes), "driver_model.current": ("driver_model", _word),
    "pcie.link.gen.current": ("pcie_gen", _whole),
    "pcie.link.gen.gpucurrent": ("pcie_gen", _whole), "pcie.link.gen.max": ("pcie_gen_max", _whole),
    "pcie.link.width.current": ("pcie_width", _whole), "pcie.link.width.max": ("pcie_width_max", _whole),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", _whole),
    "retired_pages.pending": ("retired_pending", _yes),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_total", _whole), "driver_version": ("", _word),
    "remapped_rows.pending": ("remap_pending", _yes), "remapped_rows.failure": ("remap_failed", _yes),
    "remapped_rows.uncorrectable": ("remap_uncorrectable", _whole), "timestamp": ("", _word), "count": ("", _word),
    "serial": ("", _word),
    "vbios_version": ("", _word), "utilization.memory": ("", _word), "clocks.mem": ("", _word),
    "clocks.current.memory": ("", _word),
    "clocks.max.memory": ("", _word), "temperature.memory": ("", _word), "power.max_limit": ("", _word),
    "power.min_limit": ("", _word),
    "ecc.mode.current": ("", _word), "memory.reserved": ("", _word), "power.management": ("", _word),
    "clocks.video": ("", _word),
    "clocks_throttle_reasons.active": ("", _word), "clocks_event_reasons.active": ("", _word),
}
# fmt: on
# fmt: off
_REASONS = {
    "sw_power_cap": "SW Power Cap", "hw_slowdown": "HW Slowdown", "sw_thermal_slowdown": "SW Thermal Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown", "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "gpu_idle": "Idle",
    "applications_clocks_setting": "Applications Clocks Setting", "sync_boost": "Sync Boost",
}
# fmt: on
# fmt: off
_BITS = (
    (0x1, "Idle"), (0x2, "Applications Clocks Setting"), (0x4, "SW Power Cap"), (0x8, "HW Slowdown"),
    (0x10, "Sync Boost"),
    (0x20, "SW Thermal Slowdown"), (0x40, "HW Thermal Slowdown"), (0x80, "HW Power Brake Slowdown"),
)
# fmt: on
_APPS = {
    "pid",
    "process_name",
    "name",
    "used_memory",
    "used_gpu_memory",
    "gpu_uuid",
    "gpu_bus_id",
    "gpu_name",
    "gpu_serial",
    "timestamp",
}
_REASON = lazy(r"clocks_(?:throttle|event)_reasons\.(?P<name>\w+)")


def _fields(line: str) -> list[str]:
    return [_UNIT.sub("", cell).strip().strip('"') for cell in line.split(",")]


def _is_header(cells: list[str]) -> str | None:
    """ "gpu" or "apps" where every cell is a known field name."""
    if "pid" in cells and all(cell in _APPS for cell in cells):
        return "apps"
    known = all(
        cell in _CARDS or _REASON.fullmatch(cell) or cell.startswith(("ecc.", "clocks", "power.", "pcie."))
        for cell in cells
    )
    return "gpu" if known and (len(cells) > 1 or "." in cells[0] or cells[0] == "compute_cap") else None


def _card(fields: list[str], cells: list[str]) -> tuple[dict[str, Any], str | None]:
    values: dict[str, Any] = {}
    driver = None
    reasons: list[str] | None = None
    for name, cell in zip(fields, cells, strict=True):
        if cell.strip("[] ").lower() in (
            "n/a",
            "not supported",
            "unknown error",
            "gpu requires reset",
            "insufficient permissions",
        ):
            if "unknown" in cell.lower() or "reset" in cell.lower():
                values["error"] = cell.strip("[]")
            continue
        if name == "driver_version":
            driver = cell
        elif match := _REASON.fullmatch(name):
            reasons = reasons or []
            if match["name"] == "active" and cell.startswith("0x"):
                reasons += [word for bit, word in _BITS if int(cell, 16) & bit]
            elif _yes(cell) and match["name"] in _REASONS:
                reasons.append(_REASONS[match["name"]])
        elif name in _CARDS and _CARDS[name][0]:
            values.setdefault(_CARDS[name][0], _CARDS[name][1](cell))
    if reasons is not None:
        values["throttle"] = tuple(reasons)
    return values, driver


def _rows(evidence: Evidence) -> Iterator[tuple[str, list[str], list[str], int, str]]:
    """(what, fields, cells, line number, line) of each data row."""
    what, fields = None, []
    if (asked := _QUERY.search(evidence.command or "")) or (asked := _QUERY.search(evidence.text)):
        fields = [name for name in re.split(r"[,\s]+", asked["fields"].strip()) if name]
        what = "apps" if asked["what"] == "compute-apps" else "gpu"
    for number, line in evidence.lines():
        if not line.strip():
            continue
        cells = _fields(line)
        if header := _is_header(cells):
            what, fields = header, cells
        elif what and len(cells) == len(fields) and "--query" not in line and len(line) < 600:
            yield what, fields, cells, number, line


def read(evidence: Evidence) -> Iterable[Fact]:
    """Cards and processes of comma-separated answers."""
    if not looks_like(evidence):
        return
    gpus: list[Gpu] = []
    named = False  # whether the rows say which card they are of
    processes: list[Process] = []
    versions: dict[str, Any] = {}
    for what, fields, cells, number, line in _rows(evidence):
        ref = evidence.ref(number, line)
        if what == "apps":
            row = dict(zip(fields, cells, strict=True))
            if not row.get("pid", "").isdigit():
                continue
            name = row.get("process_name") or row.get("name")
            memory = _whole(row.get("used_gpu_memory") or row.get("used_memory") or "")
            processes.append(
                Process(pid=int(row["pid"]), name=name, memory=memory, gone=name == "[Not Found]", kind="C", ref=ref)
            )
            continue
        values, driver = _card(fields, cells)
        if driver and re.fullmatch(r"\d{3}\.\d{2,3}(?:\.\d{2})?", driver):
            versions.setdefault(driver, ref)
        if any(value is not None for value in values.values()) and not _nonsense(values):
            named = named or any(values.get(key) is not None for key in ("index", "uuid", "bus"))
            gpus.append(Gpu(**{"index": len(gpus) if len(gpus) else None, **values}, ref=ref))
    if len(gpus) > 1 and not named and _LOOP.search(evidence.command or ""):
        gpus = [_over_time(gpus)]
    if gpus:
        yield Gpus(gpus=tuple(gpus), refs=tuple(g.ref for g in gpus if g.ref))
    if processes:
        yield Processes(processes=tuple(processes), listed=True, refs=tuple(p.ref for p in processes if p.ref))
    for version, ref in versions.items():
        yield Driver(version=version, nvml="ok", smi_works=True, installed=True, refs=(ref,))


def _over_time(gpus: list[Gpu]) -> Gpu:
    """One card, asked again and again (-l): its last row, with the utilization that is usual over all of them."""
    used = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    throttle = tuple(dict.fromkeys(reason for gpu in gpus for reason in gpu.throttle or ()))
    last = replace(gpus[-1], index=None, ref=gpus[0].ref, utilization=int(median(used)) if used else None)
    return replace(last, throttle=throttle) if throttle else last


def _nonsense(values: dict[str, Any]) -> bool:
    """A line of prose that happens to have as many commas: figures or shapes do not fit."""
    uuid, bus, capability = values.get("uuid"), values.get("bus"), values.get("capability")
    return bool(
        (uuid and not uuid.startswith(("GPU-", "MIG-")))
        or (bus and not re.fullmatch(r"[0-9A-Fa-f:.]{7,16}", bus))
        or (capability and not re.fullmatch(r"\d{1,2}\.\d", capability))
    )


def looks_like(evidence: Evidence) -> bool:
    """Whether a query was run, or a header of one stands in it."""
    text = evidence.text
    return (
        "--query-" in (evidence.command or "")
        or "--query-" in text
        or any(
            name in text
            for name in (
                "memory.total",
                "memory.used",
                "used_gpu_memory",
                "pci.bus_id",
                "driver_version",
                "compute_cap",
                "utilization.gpu",
                "temperature.gpu",
                "pcie.link.",
                "ecc.errors",
                "_reasons.",
                "power.draw",
                "process_name",
            )
        )
    )
