"""The PCI bus as sysfs shows it: the display and compute devices, and all of NVIDIA's."""

import json
import os
import re

from ongpu.hosts.live import Live

IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids")


def ask(machine: Live, limit: float) -> tuple[str, str | None]:
    """One JSON object a line; the first counts all devices: {"bus": 53}."""
    del limit  # sysfs answers at once
    folders = list(machine.names("/sys/bus/pci/devices/*"))
    lines = [json.dumps({"bus": len(folders)})]
    names: dict[str, str] | None = None
    for folder in folders:
        get: dict[str, object] = {n: machine.text(f"{folder}/{n}").strip() for n in ("vendor", "device", "class")}
        nvidia = get["vendor"] == "0x10de"
        if not nvidia and not str(get["class"]).startswith(("0x03", "0x12")):
            continue
        for name in ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width"):
            get[name] = machine.text(f"{folder}/{name}").strip()
        driver = machine.place(f"{folder}/driver")
        regions = [r.split() for r in machine.text(f"{folder}/resource").splitlines()[:6]]
        get["driver"] = os.path.basename(os.path.realpath(driver)) if driver.exists() else ""
        get["no_bar"] = bool(regions) and all(int(r[1], 16) == 0 for r in regions if len(r) == 3)
        get["dead"] = _dead(machine, folder)
        slot = os.path.basename(folder)
        if nvidia:
            if names is None:
                names = _names(machine)
            get["name"] = _model(machine, slot) or names.get(str(get["device"])[2:], "")
            get["idle"] = machine.text(f"{folder}/power/runtime_status").strip() == "suspended"
        lines.append(json.dumps({"slot": slot, **get}))
    return "\n".join(lines), None if folders else "no PCI bus is visible here"


def _dead(machine: Live, folder: str) -> bool:
    """Whether the device's configuration space reads all ones: it does not answer. One that sleeps is not woken."""
    if machine.text(f"{folder}/power/runtime_status").strip() == "suspended":
        return False
    try:
        with open(machine.place(f"{folder}/config"), "rb") as file:
            return file.read(4) == b"\xff\xff\xff\xff"
    except OSError:
        return False


def _model(machine: Live, slot: str) -> str:
    """The card's name as the driver knows it."""
    match = re.search(r"^Model:\s*(\S.*)$", machine.text(f"/proc/driver/nvidia/gpus/{slot}/information"), re.MULTILINE)
    return match[1].strip() if match and "Unknown" not in match[1] else ""


def _names(machine: Live) -> dict[str, str]:
    """NVIDIA's device names by id, of the system's pci.ids; {} where there is none."""
    for path in IDS:
        text = machine.text(path, 4 << 20)
        start = text.find("\n10de  ")
        if start >= 0:
            end = re.compile(r"\n[0-9a-f]{4}  ").search(text, start + 1)
            block = text[start : end.start() if end else len(text)]
            return {m[1]: m[2] for m in re.finditer(r"^\t([0-9a-f]{4})  (.+)$", block, re.MULTILINE)}
    return {}
