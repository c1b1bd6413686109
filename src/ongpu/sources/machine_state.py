"""What `hosts/system.py` found on the live machine: JSON lines {"name", "value", "from"}, and the PCI bus."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Kernel, SystemPackages
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.hardware import Pci, PciDevice
from ongpu.facts.libraries import Toolkit
from ongpu.facts.system import Process, Processes
from ongpu.model import Evidence, Fact, Get, Ref, Source


def _items(evidence: Evidence) -> dict[str, list[tuple[Any, Ref]]]:
    found: dict[str, list[tuple[Any, Ref]]] = defaultdict(list)
    for number, line in enumerate(evidence.text.splitlines(), evidence.first_line):
        item = json.loads(line)
        found[item["name"]].append((item["value"], Ref(str(item["from"]), number, _words(item["name"], item["value"]), item["name"])))
    return found


def _words(name: str, value: Any) -> str:
    """What a reader sees of an answer: no Python."""
    if name == "variable":
        return f"{value[0]}={value[1]}"
    if name == "shm":
        return f"Size {value[0]} B, used {value[1]} B"
    if name == "mps":
        return f"{'somebody' if value[1] else 'nobody'} listens at {value[0]}"
    if isinstance(value, bool):
        return ("on" if value else "off") if name == "secure_boot" else "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value) or "not found"


def read(evidence: Evidence) -> Iterable[Fact]:
    """The machine, its kernel, driver files, container, variables and holders of the GPU."""
    items = _items(evidence)

    def one(name: str) -> Any:
        return items[name][0][0] if items.get(name) else None

    def all_of(name: str) -> tuple[Any, ...]:
        return tuple(value for value, _ in items.get(name, ()))

    def refs(*names: str) -> tuple[Ref, ...]:
        return tuple(ref for name in names for _, ref in items.get(name, ()))

    names = (
        "system", "wsl", "distribution", "distribution_version", "architecture", "jetson", "product", "uptime_days", "virtual", "cloud",
        "colab", "today",
    )  # fmt: skip
    yield Machine(**{name: one(name) for name in names}, refs=refs(*names))
    linux = one("system") == "linux"
    versions = all_of("library")
    here = [release for release in all_of("module_file") if release == one("kernel")]
    yield Driver(
        version=versions[0] if versions else None,
        installed=bool(versions or items.get("installed")) if linux else None,
        modprobe=one("nvidia_modprobe"),
        on_disk=bool(here) if items.get("headers") else None,  # told only where the modules' folder is seen
        refs=tuple(Ref(r.source, r.line, r.source, about) for r, about in _driver_refs(refs("library"), refs("installed"))),
    )
    if items.get("kernel"):
        yield Kernel(
            release=one("kernel"),
            headers=one("headers"),
            secure_boot=one("secure_boot"),
            modules_for=tuple(dict.fromkeys(all_of("module_file"))),
            blacklisted=tuple(dict.fromkeys(all_of("blacklisted"))),
            dkms=all_of("dkms"),
            dkms_listed=one("dkms_listed"),
            refs=refs("kernel", "headers", "secure_boot", "module_file", "blacklisted", "dkms"),
        )
    if items.get("runfile"):
        yield SystemPackages(
            runfile=all_of("runfile"), runfile_version=one("runfile_version"), refs=refs("runfile", "runfile_version")
        )
    shm = one("shm")
    variables = dict(all_of("variable"))
    yield Container(
        inside=bool(items.get("container")),
        runtime=one("container"),
        devices_denied=one("devices_denied"),
        toolkit=one("toolkit"),
        toolkit_configured=one("docker_daemon"),
        capabilities=variables.get("NVIDIA_DRIVER_CAPABILITIES") if items.get("container") else None,
        shm_bytes=shm[0] if shm else None,
        shm_used=shm[1] if shm else None,
        refs=refs("container", "not_in_container", "devices_denied", "toolkit", "docker_daemon", "shm"),
    )
    yield Variables(
        values=variables,
        lines={name: ref for (name, _), ref in items.get("variable", ())},
        complete=True,
        refs=(),
    )
    if items.get("cuda_toolkit"):
        yield Toolkit(installed=all_of("cuda_toolkit"), refs=refs("cuda_toolkit"))
    if items.get("mps"):
        pipe, lives = one("mps")
        yield Processes(mps_pipe=pipe, mps_alive=lives, refs=refs("mps"))
    if items.get("holder"):
        holders = tuple(
            Process(pid=pid, name=name, gpu=_gpu(node), ref=Ref(ref.source, ref.line, f"pid {pid} ({name}) holds {node}"))
            for (pid, name, node), ref in items["holder"]
        )
        yield Processes(holders=holders, refs=tuple(h.ref for h in holders[:4] if h.ref))


def _driver_refs(libraries: tuple[Ref, ...], files: tuple[Ref, ...]) -> Iterable[tuple[Ref, str]]:
    yield from ((ref, "version") for ref in libraries[:2])
    yield from ((ref, "installed") for ref in files[:2])


def _gpu(node: str) -> int | None:
    match = re.search(r"/dev/nvidia(\d+)$", node)
    return int(match[1]) if match else None


def _speed(text: str) -> float | None:
    match = re.match(r"([\d.]+)", text)
    return float(match[1]) if match else None


def _width(text: str) -> int | None:
    return int(text) if text.isdigit() and 0 < int(text) <= 32 else None


KINDS = {
    "0x0300": "VGA compatible controller", "0x0302": "3D controller", "0x0380": "Display controller",
    "0x1200": "Processing accelerators", "0x0680": "Bridge", "0x0403": "Audio device", "0x0c03": "USB controller",
    "0x0c80": "Serial bus controller", "0x0604": "PCI bridge", "0x0302ff": "3D controller",
}  # fmt: skip


def read_pci(evidence: Evidence) -> Iterable[Fact]:
    """The display and compute devices on the bus."""
    devices, total = [], 0
    for number, line in enumerate(evidence.text.splitlines(), evidence.first_line):
        item = json.loads(line)
        if "slot" not in item:
            total = item.get("bus", 0)
            continue
        kind = KINDS.get(item["class"][:6], item["class"])
        ids = f"[{item['vendor'][2:]}:{item['device'][2:]}]"
        name = f" {item['name']}" if item.get("name") else ""
        words = f"{item['slot']} {kind}{name} {ids} driver: {item['driver'] or 'none'}" + (" (does not answer)" if item.get("dead") else "")
        devices.append(
            PciDevice(
                bus=item["slot"],
                name=item.get("name") or None,
                dead=bool(item.get("dead")),
                vendor=item["vendor"][2:],
                device=item["device"][2:],
                kind=kind,
                driver=item["driver"],
                speed=_speed(item["current_link_speed"]),
                speed_max=_speed(item["max_link_speed"]),
                width=_width(item["current_link_width"]),
                width_max=_width(item["max_link_width"]),
                no_bar=item["no_bar"],
                ref=Ref("/sys/bus/pci/devices", number, words),
            )
        )
    if total:
        none = Ref("/sys/bus/pci/devices", 1, f"{total} devices, no graphics card")
        refs = tuple(d.ref for d in devices if d.ref) or (none,)
        yield Pci(devices=tuple(devices), complete=True, refs=refs)


SOURCES = (
    Source(
        kind="machine-state",
        read=read,
        looks_like=lambda evidence: evidence.text.startswith('{"name": "system", "value": '),
        gives=(Machine, Driver, Kernel, SystemPackages, Container, Variables, Toolkit, Processes),
        get=(Get(call="system:ask", limit=3.0),),
        settle="ongpu snapshot",
    ),
    Source(
        kind="pci-bus",
        read=read_pci,
        looks_like=lambda evidence: evidence.text.startswith('{"bus": '),
        gives=(Pci,),
        get=(Get(call="bus:ask", limit=3.0, only="linux"),),
        settle="lspci -nnk -d 10de:",
    ),
)
