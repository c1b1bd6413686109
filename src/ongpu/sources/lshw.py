"""The display adapters that lshw lists."""

import re
from collections.abc import Iterable

from ongpu.facts.hardware import Pci, PciDevice
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

_HEAD = lazy(r"^\s*\*-(?P<class>[\w:-]+)")
_PAIR = lazy(r"^\s+(?P<key>description|product|vendor|bus info|configuration):\s*(?P<value>[^\n]{1,200})$")
_DRIVER = lazy(r"\bdriver=(?P<driver>[\w-]+)")


def read(evidence: Evidence) -> Iterable[Fact]:
    """One device per *-display block."""
    devices: list[PciDevice] = []
    values: dict[str, str] = {}
    at: tuple[int, str] = (0, "")

    def close() -> None:
        if values.get("product") or values.get("vendor"):
            driver = _DRIVER.search(values.get("configuration", ""))
            vendor = values.get("vendor", "")
            devices.append(PciDevice(
                bus=values.get("bus info", "pci@?").partition("@")[2] or "?", kind=values.get("description", "VGA compatible controller"),
                name=f"{vendor} {values.get('product', '')}".strip(), vendor="10de" if "nvidia" in vendor.lower() else None,
                driver=driver["driver"] if driver else None, ref=evidence.ref(*at),
            ))  # fmt: skip

    inside = False
    for number, line in evidence.lines():
        if head := _HEAD.match(line):
            close()
            values, inside = {}, head["class"].startswith("display")
        elif inside and (pair := _PAIR.match(line)):
            values[pair["key"]] = pair["value"].strip()
            if pair["key"] == "product":
                at = (number, line)
    close()
    if devices:
        whole = bool(re.search(r"lshw\b.*-C(?:lass)?\s+(?:display|video)", evidence.command or ""))
        yield Pci(devices=tuple(devices), complete=whole or None, refs=tuple(d.ref for d in devices if d.ref))


SOURCES = (Source(kind="lshw", read=read, looks_like=lambda e: "*-display" in e.text, gives=(Pci,), settle="sudo lshw -C display"),)
