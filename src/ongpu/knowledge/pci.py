"""NVIDIA's PCI device ids: which chip is it, and what does the system's own pci.ids call it."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from ongpu.knowledge._tables import rows, table
from ongpu.knowledge.gpus import Architecture, architecture, chip_capability

PCI_IDS = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/pci.ids"))


def _number(device_id: str) -> int | None:
    found = re.fullmatch(r"(?:10de:)?(?:0x)?([0-9a-f]{4})(?:10de)?", device_id.strip().lower())
    return int(found[1], 16) if found else None


@cache
def _ranges() -> tuple[tuple[int, int, str], ...]:
    ranges = []
    for span, chip in rows(table("gpus")["device_ids"]["ranges"]):
        first, last = (int(end, 16) for end in span.split("-"))
        ranges.append((first, last, chip))
    return tuple(ranges)


def chip_of_device_id(device_id: str) -> str | None:
    """Chip of a PCI device id of vendor 10de: '2684', '10de:2684', '0x2684', or NVML's '0x268410DE'; None when unknown.

    The ranges are NVIDIA's blocks as they show in pci.ids; an id inside a block but not listed is taken to be that chip.
    """
    number = _number(device_id)
    return next((chip for first, last, chip in _ranges() if number is not None and first <= number <= last), None)


def architecture_of_device_id(device_id: str) -> Architecture | None:
    """Architecture of a PCI device id of vendor 10de; None when the id lies in no known block (audio, USB, newer chips)."""
    chip = chip_of_device_id(device_id)
    capability = chip_capability(chip) if chip else None
    return architecture(capability) if capability else None


@cache
def pci_names(path: Path | None = None) -> Mapping[str, str]:
    """Device id ('2684') -> text ('AD102 [GeForce RTX 4090]') of vendor 10de, from the system's pci.ids or `path`.

    Empty when there is none. Debian's file of 2023 knows no Blackwell: newest at github.com/pciutils/pciids.
    """
    file = path or next((candidate for candidate in PCI_IDS if candidate.is_file()), None)
    try:
        text = file.read_text(encoding="utf-8", errors="replace") if file else ""
    except OSError:
        text = ""
    found: dict[str, str] = {}
    start = text.find("\n10de  ")
    for line in text[start + 1 :].splitlines()[1:] if start >= 0 else ():
        if not line.startswith(("\t", "#")):
            break
        if entry := re.match(r"\t([0-9a-f]{4})  (.+)", line):
            found[entry[1]] = entry[2].strip()
    return MappingProxyType(found)
