"""What NVML says: the JSON lines of `hosts/nvml_child.py`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus, Slice
from ongpu.facts.system import Process, Processes
from ongpu.model import Evidence, Fact, Get, Ref, Source

MIB = 1 << 20
MOST_ROWS = 1024  # slices of a card (seven today), processes of a slice
# Bits of nvmlClocksEventReasons (nvml.h), with the names that `nvidia-smi -q -d PERFORMANCE` gives them.
REASONS = {
    0x1: "Idle", 0x2: "Applications Clocks Setting", 0x4: "SW Power Cap", 0x8: "HW Slowdown", 0x10: "Sync Boost",
    0x20: "SW Thermal Slowdown", 0x40: "HW Thermal Slowdown", 0x80: "HW Power Brake Slowdown",
    0x100: "Display Clock Setting",
}  # fmt: skip
COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}  # nvmlGpuFabricState_t; 0: this card has none
# nvmlDeviceGpuRecoveryAction_t, as `nvidia-smi -q` prints it
RECOVERY = {0: "None", 1: "Reset", 2: "Reboot", 3: "Drain P2P", 4: "Drain and Reset", 5: "Recover IMEX Domain", 6: "Bus Reset", 7: "Reboot"}
ANSWERS = ("temperature", "power", "utilization", "memory", "clock_sm")  # what every card tells that answers at all
DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _field(value: Any, name: str) -> int | None:
    return _number(value.get(name)) if isinstance(value, dict) else None


def _scaled(value: Any, by: float) -> float | None:
    number = _number(value)
    return None if number is None else number / by


def _list(value: Any) -> list[Any]:
    return value[:MOST_ROWS] if isinstance(value, list) else []


def _flag(value: Any) -> bool | None:
    number = _number(value)
    return None if number is None else bool(number)


def _first_flag(value: Any) -> bool | None:
    return bool(value[0]) if isinstance(value, list) and value else None


def gpu(item: Mapping[str, Any]) -> Gpu:
    """One line of the child about one GPU, as a fact."""
    get = item.get
    name, uuid, capability, remapped, links = (get(key) for key in ("name", "uuid", "capability", "remapped", "nvlinks"))
    mode, model = _number(get("compute_mode")), get("driver_model")
    rows = remapped if isinstance(remapped, list) and len(remapped) == 4 else None
    total, used, free = (_field(get("memory"), key) for key in ("total", "used", "free"))
    reasons = _number(get("reasons"))
    pstate = _number(get("pstate"))
    bus = get("pci", {}).get("busId") if isinstance(get("pci"), dict) else None
    return Gpu(
        index=_number(get("gpu")),
        name=name if isinstance(name, str) else None,
        uuid=uuid if isinstance(uuid, str) else None,
        bus=bus if isinstance(bus, str) else None,
        capability=".".join(map(str, capability)) if isinstance(capability, list) else None,
        memory_total=None if total is None else total // MIB,
        memory_used=None if used is None else used // MIB,
        memory_free=None if free is None else free // MIB,
        utilization=_field(get("utilization"), "gpu"),
        temperature=_number(get("temperature")),
        temperature_slowdown=_number(get("slowdown")),
        temperature_margin=_number(get("margin")),
        fan=_number(get("fan")),
        power_draw=_scaled(get("power"), 1000),
        power_limit=_scaled(get("power_limit"), 1000),
        power_default=_scaled(get("power_default"), 1000),
        clock_sm=_number(get("clock_sm")),
        clock_sm_max=_number(get("clock_sm_max")),
        pstate=None if pstate is None else f"P{pstate}",
        throttle=None if reasons is None else tuple(name for bit, name in REASONS.items() if reasons & bit),
        ecc_uncorrected=_number(get("ecc")),
        ecc_uncorrected_total=_number(get("ecc_total")),
        remap_uncorrectable=_number(rows[1]) if rows else None,
        remap_pending=_flag(rows[2]) if rows else None,
        remap_failed=_flag(rows[3]) if rows else None,
        retired_pending=_flag(get("retired_pending")),
        pcie_gen=_number(get("pcie_gen")),
        pcie_gen_max=_number(get("pcie_gen_max")),
        pcie_width=_number(get("pcie_width")),
        pcie_width_max=_number(get("pcie_width_max")),
        pcie_replays=_number(get("pcie_replays")),
        mig=_first_flag(get("mig")),
        mig_devices=_number(get("mig_devices")),
        slices=_slices(item),
        peers=_peers(item),
        compute_mode=None if mode is None else COMPUTE_MODES.get(mode),
        persistence=_flag(get("persistence")),
        display_active=_flag(get("display")),
        driver_model=DRIVER_MODELS.get(model[0]) if isinstance(model, list) and model else None,
        nvlink_active=links[0] if isinstance(links, list) and links else None,
        nvlink_inactive=links[1] if isinstance(links, list) and len(links) >= 2 else None,
        nvlink_errors=links[2] if isinstance(links, list) and len(links) >= 3 else None,
        fabric=FABRIC_STATES.get(_field(get("fabric"), "state") or 0),
        recovery_action=RECOVERY.get(action) if (action := _number(get("recovery"))) else None,
        error=_gpu_error(item),
        ref=_ref(item),
    )


def _slices(item: Mapping[str, Any]) -> tuple[Slice, ...] | None:
    """The MIG devices of a line; None where it tells of none."""
    if not isinstance(item.get("slices"), list):
        return None
    found = []
    for row in _list(item.get("slices")):
        if not isinstance(row, dict) or not isinstance(row.get("uuid"), str) or not row["uuid"].startswith("MIG-"):
            continue
        total, used, free = (_field(row.get("memory"), key) for key in ("total", "used", "free"))
        found.append(Slice(
            uuid=row["uuid"], name=row["name"] if isinstance(row.get("name"), str) else None, gi=_number(row.get("gi")), ci=_number(row.get("ci")),
            memory_total=None if total is None else total // MIB, memory_used=None if used is None else used // MIB,
            memory_free=None if free is None else free // MIB,
        ))  # fmt: skip
    return tuple(found)


def _peers(item: Mapping[str, Any]) -> tuple[tuple[str, int], ...] | None:
    rows = item.get("nvlink_peers")
    if not isinstance(rows, dict):
        return None
    return tuple(sorted((bus, count) for bus, count in rows.items() if isinstance(count, int) and not isinstance(count, bool)))


def _on_slices(item: Mapping[str, Any]) -> tuple[dict[int, str], dict[tuple[int | None, int | None], str]]:
    """Which MIG device a process runs on: by its number, as the device lists it; by its instances, as the whole card's list has them."""
    rows = [row for row in _list(item.get("slices")) if isinstance(row, dict) and isinstance(row.get("uuid"), str)]
    pids = {pid: row["uuid"] for row in rows for pid in _list(row.get("pids")) if isinstance(pid, int)}
    return pids, {(_number(row.get("gi")), _number(row.get("ci"))): row["uuid"] for row in rows if _number(row.get("gi")) is not None}


def _gpu_error(item: Mapping[str, Any]) -> str | None:
    """Why a GPU does not answer: its handle is refused, or all that was asked of it says that it is lost."""
    if isinstance(item.get("error"), str):
        return str(item["error"])
    errors = [str(v["error"]) for v in item.values() if isinstance(v, dict) and "error" in v]
    # One call's Unknown Error, beside others that answer, is that call's: of a card that is gone none is answered.
    signs = ("is lost", "requires reset") if any(_answered(item.get(name)) for name in ANSWERS) else ("is lost", "requires reset", "Unknown Error")
    return next((e for e in errors if any(words in e for words in signs)), None)


def _answered(value: Any) -> bool:
    return value is not None and not (isinstance(value, dict) and "error" in value)


def _ref(item: Mapping[str, Any]) -> Ref:
    """What a reader sees of the line: the figures that matter, as nvidia-smi would say them."""
    if isinstance(item.get("error"), str):
        return Ref("NVML", 1, f"GPU {item.get('gpu')}: {item['error']}")
    name = item.get("name")
    parts = [f"GPU {item.get('gpu')}: {name if isinstance(name, str) else _gpu_error(item) or 'no name'}"]
    pci, used, total = item.get("pci"), _field(item.get("memory"), "used"), _field(item.get("memory"), "total")
    if isinstance(pci, dict) and "busId" in pci:
        parts.append(str(pci["busId"]))
    if used is not None and total is not None:
        parts.append(f"{used // MIB} / {total // MIB} MiB")
    for key, unit in (("temperature", "C"), ("pcie_width", " PCIe lanes")):
        if isinstance(item.get(key), int):
            parts.append(f"{item[key]}{unit}")
    return Ref("NVML", 1, ", ".join(parts))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The cards, the driver and the processes, as NVML says them."""
    items = [json.loads(line) for line in evidence.text.splitlines() if line.startswith("{")]
    items = [item for item in items if isinstance(item, dict)]
    late = bool(evidence.problem and "timed out" in evidence.problem)
    asked = next((item["asking"] for item in reversed(items) if "asking" in item), "init")
    hung_in = {"init": "nvmlInit"}.get(str(asked), asked if isinstance(asked, str) else f"GPU {asked}")
    init: dict[str, Any] = next((item for item in items if "init" in item), {})
    system: dict[str, Any] = next((item for item in items if "driver" in item), {})
    said = init.get("init")
    number = _number(system.get("cuda"))
    refs = []
    if said:
        refs.append(Ref("NVML", 1, f"nvmlInit: {said}", "nvml"))
    if isinstance(system.get("driver"), str):
        refs.append(Ref("NVML", 1, f"driver {system['driver']}", "version"))
    if late:
        refs.append(Ref("NVML", 1, f"{hung_in}: {evidence.problem}", "hung"))
    yield Driver(
        version=system["driver"] if isinstance(system.get("driver"), str) else None,
        cuda=None if number is None else f"{number // 1000}.{number % 1000 // 10}",
        nvml=said if isinstance(said, str) else None,
        installed=True if isinstance(said, str) and "Not Found" not in said else None,
        module_loaded=True if said == "ok" else None,
        hung=late or None,
        hung_in=hung_in if late else None,
        refs=tuple(refs),
    )
    denied = next((item for item in items if item.get("open") and item.get("error")), None)
    if denied and denied["error"] == "EPERM":
        yield Container(devices_denied=True, refs=(Ref(denied["open"], 1, f"open: {denied['error']}", "devices_denied"),))
    if said == "ok":
        cards = [item for item in items if "gpu" in item]
        yield Gpus(gpus=tuple(gpu(item) for item in cards), refs=tuple(_ref(item) for item in cards[:8]))
        running = tuple(_processes(cards))
        listed = all("processes" in card for card in cards if "error" not in card)
        yield Processes(processes=running, listed=listed or None, refs=tuple(p.ref for p in running[:8] if p.ref))


def _processes(cards: Iterable[Mapping[str, Any]]) -> Iterable[Process]:
    for card in cards:
        pids, instances = _on_slices(card)
        for item in card.get("processes", ()):
            memory = item.get("memory")
            size = None if not isinstance(memory, int) or memory >= 1 << 60 else memory // MIB  # ~0: not told
            words = f"GPU {card['gpu']}: pid {item['pid']} ({item['kind']})" + ("" if size is None else f", {size} MiB")
            words += " (no such process)" if item.get("gone") else f" {item['name']}" if item.get("name") else ""
            yield Process(
                pid=item["pid"],
                gpu=card["gpu"],
                kind=item["kind"],
                memory=size,
                name=item.get("name"),
                user=None if item.get("uid") is None else str(item["uid"]),
                gone=bool(item.get("gone")),
                slice=instances.get((_number(item.get("gi")), _number(item.get("ci")))) or pids.get(item["pid"]),
                ref=Ref("NVML", 1, words),
            )


SOURCES = (
    Source(
        kind="nvml",
        read=read,
        looks_like=lambda evidence: evidence.text.startswith('{"asking": "init"}'),
        gives=(Gpus, Driver, Processes, Container),
        get=(Get(call="nvml:ask", limit=45.0),),
        settle="nvidia-smi",
    ),
)
