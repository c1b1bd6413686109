"""What the doctor's rules read of the present state: NVML's lines as `hosts/nvml_child.py` prints them, and the kernel's lines.

The doctor's own NVML evidence comes once a minute; what the samples since then say is written over it, in the same form, so that
the same rules speak of the same words. What is not told now is an error in its place, never the old value.
"""

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any

from ongpu.facts.counts import CONFIGURED
from ongpu.facts.sample import PLACE
from ongpu.hosts.nvml import ORIGIN, said_by_smi
from ongpu.model import Evidence
from ongpu.watch.state import DENIED, ERROR, GONE, HUNG, LOST, OK, SILENT, STARTING, GpuState, State

MIB = 1 << 20
# The words of nvmlErrorString (nvml.h: nvmlReturn_t), as nvidia-ml-py 13.615.71 has them.
WORDS = {
    1: "Uninitialized", 2: "Invalid Argument", 3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found", 7: "Insufficient Size",
    8: "Insufficient External Power", 9: "Driver Not Loaded", 10: "Timeout", 11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found", 13: "Function Not Found", 14: "Corrupted infoROM", 15: "GPU is lost", 16: "GPU requires restart",
    17: "The operating system has blocked the request.", 18: "RM has detected an NVML/RM version mismatch.", 20: "Insufficient Memory",
    999: "Unknown Error",
}  # fmt: skip
# A column of the samples -> its name in the doctor's lines.
FIELDS = {
    "temp": "temperature", "power": "power", "sm_clock": "clock_sm", "reasons": "reasons", "fan": "fan", "ecc": "ecc",
    "replays": "pcie_replays",
}  # fmt: skip
IDENTITY = {
    "power_limit": "power_limit", "power_default": "power_default", "temp_limit": "slowdown", "sm_clock_max": "clock_sm_max",
    "pcie_gen": "pcie_gen", "pcie_gen_max": "pcie_gen_max", "pcie_width": "pcie_width", "pcie_width_max": "pcie_width_max",
    "recovery": "recovery",
}  # fmt: skip
READERS = ("kernel-log", "driver-state", "symptoms")  # who reads lines of the kernel; as hosts/kernel.py has it
Item = dict[str, Any]


def words(code: int | None) -> str:
    """What NVML calls a return code."""
    return WORDS.get(code or 0, f"Unknown Error ({code})") if code else "Unknown Error"


def place_of(gpu: GpuState) -> str:
    """How a GPU is named among the places that are judged: its UUID, "gpu:3" where it never told one."""
    return gpu.uuid or f"gpu:{gpu.index}"


def told_in(full: str | None) -> dict[str, Item]:
    """The GPUs' lines of the doctor's NVML evidence, by UUID; by "gpu:3" where a line has none."""
    found: dict[str, Item] = {}
    for line in (full or "").splitlines():
        try:
            item = json.loads(line) if line.startswith('{"gpu"') else None
        except ValueError:
            continue
        if isinstance(item, dict):
            uuid = item.get("uuid")
            found[uuid if isinstance(uuid, str) else f"gpu:{item.get('gpu')}"] = item
    return found


def line_of(gpu: GpuState, told: Mapping[str, Item], listed: bool) -> Item:
    """The GPU as NVML tells of it now. listed: whether its processes were."""
    if gpu.condition == GONE:
        return {"gpu": gpu.index, "error": f"{words(15)}: the driver no longer counts it", "reason": 15}
    if gpu.condition in (LOST, ERROR, DENIED):
        return {"gpu": gpu.index, "error": words(gpu.code), "reason": gpu.code}
    base = told.get(place_of(gpu), {})
    item: Item = {k: v for k, v in base.items() if k not in ("error", "reason")}
    item |= {"gpu": gpu.index, "name": gpu.name, "uuid": gpu.uuid}
    if gpu.bus:
        item["pci"] = {**item.get("pci", {}), "busId": gpu.bus} if isinstance(item.get("pci", {}), dict) else {"busId": gpu.bus}
    item |= {name: gpu.identity[key] for key, name in IDENTITY.items() if key in gpu.identity}
    if isinstance(rows := item.get("remapped", [0, 0, 0, 0]), list) and len(rows) == 4 and "remap_failed" in gpu.identity:
        item["remapped"] = [*rows[:2], int(bool(gpu.identity.get("remap_pending"))), int(bool(gpu.identity["remap_failed"]))]
    if gpu.row is not None:
        _sampled(item, base, gpu, gpu.row)
    item["processes"] = _processes(gpu, base) if listed else None
    return {name: value for name, value in item.items() if value is not None}


def _sampled(item: Item, base: Item, gpu: GpuState, row: list[int | None]) -> None:
    """What the last sample says, over what the line says."""
    for column, name in FIELDS.items():
        item[name] = _value(gpu, row, column)
    util, busy, used = (row[PLACE[name]] for name in ("util", "mem_util", "mem_used"))
    item["utilization"] = {"gpu": util, "memory": busy} if util is not None else _error(gpu, "util")
    total = gpu.identity.get("mem_total")
    if used is None:
        item["memory"] = _error(gpu, "mem_used")
    elif isinstance(total, int):
        item["memory"] = {"total": total * MIB, "used": used * MIB, "free": max(total - used, 0) * MIB}
    hot, then, margin = row[PLACE["temp"]], base.get("temperature"), base.get("margin")
    if isinstance(margin, int) and isinstance(then, int):  # the degrees left are told seldom, the temperature always
        item["margin"] = None if hot is None else margin + then - hot


def _value(gpu: GpuState, row: list[int | None], column: str) -> Any:
    value = row[PLACE[column]]
    return _error(gpu, column) if value is None else value


def _error(gpu: GpuState, column: str) -> Item | None:
    code = gpu.why.get(column)
    return None if code is None else {"error": words(code), "code": code}


def _processes(gpu: GpuState, base: Item) -> list[Item]:
    """The processes as the samples list them. Whether one is gone, and is not merely hidden, the doctor's own line knows."""
    told = base.get("processes")
    gone = {one.get("pid") for one in told if isinstance(one, dict) and one.get("gone")} if isinstance(told, list) else set()
    found = []
    for process in gpu.processes:
        item: Item = {"pid": process.pid, "kind": process.kind, "memory": None if process.mem is None else process.mem * MIB}
        if command := process.host.get("command"):
            item["name"] = str(command).split(" ")[0].rsplit("/")[-1][:64]
        elif process.pid in gone:
            item["gone"] = True
        found.append(item)
    return found


def nvml(state: State, told: Mapping[str, Item], gpus: Iterable[GpuState], listed: Container[str] = ()) -> list[Evidence]:
    """What NVML says of these GPUs, and the same in nvidia-smi's words where it is an error.

    listed: the GPUs (UUID, or "gpu:3") whose processes are known.
    """
    lines: list[Item] = [{"asking": "init"}]
    problem = None
    gpus = list(gpus)
    if not state.up:
        if state.code:
            lines.append({"init": state.reason, "code": state.code})
        elif state.reason not in (STARTING, SILENT):
            problem = f"timed out ({state.reason})"
    else:
        lines.append({"init": "ok"})
        lines.append({"driver": state.driver, "cuda": state.cuda, "count": state.count})
        answering = [gpu for gpu in gpus if gpu.condition != HUNG]
        for gpu in answering:
            if gpu.condition in (OK, LOST, ERROR, DENIED, GONE):
                lines += [{"asking": gpu.index}, line_of(gpu, told, place_of(gpu) in listed)]
        hung = [gpu for gpu in gpus if gpu.condition == HUNG]
        if hung and not answering:
            lines.append({"asking": hung[0].index})
            problem = f"timed out ({hung[0].hung_in or 'no answer'})"
        else:
            lines.append({"done": True})
    text = "\n".join(json.dumps(line) for line in lines)
    found = [Evidence("nvml", text, ORIGIN, problem=problem)]
    if said := said_by_smi(text):
        found.append(Evidence("pasted", said, f"{ORIGIN} (as nvidia-smi says it)", readers=("nvidia-smi", "symptoms")))
    return found


def counted(state: State, expected: int | None) -> list[Evidence]:
    """How many GPUs there should be, and how many the driver counts, where these are fewer."""
    if expected is None or state.count is None or state.count >= expected:
        return []
    text = f"configuration: this machine has {expected} GPUs; the driver shows only {state.count} GPUs"
    return [Evidence("pasted", text, CONFIGURED, readers=("gpu-counts",))]


def kernel(lines: list[str]) -> Evidence:
    """Lines of the kernel's log, and Xids in NVML's events; none: none came."""
    if not lines:
        return Evidence("kernel-log", "", "dmesg", "dmesg")
    return Evidence("pasted", "\n".join(lines), "dmesg", "dmesg", numbers=tuple(range(1, len(lines) + 1)), readers=READERS)
