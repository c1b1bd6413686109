"""lspci in all its forms: -n, -nn, -k, -v, -vv."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.hardware import Pci, PciDevice
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Fact, Source

_DEVICE = lazy(
    r"^(?:.{0,60}?\s|\s*)?(?P<bus>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-1][0-9a-fA-F]\.[0-7])\s+\"?"
    r"(?P<kind>[A-Za-z0-9][^:\n\[\"]{2,60}?)\"?(?:\s*\[(?P<class>[0-9a-f]{4})\])?:\s*(?P<name>[^\n]{0,300})$"
)
_NUMERIC = lazy(
    r"^\s*(?P<bus>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-1][0-9a-fA-F]\.[0-7])"
    r"\s+(?:Class )?(?P<class>[0-9a-f]{4}):\s+(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})(?P<rest>[^\n]*)$"
)
_IDS = lazy(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]")
_SPEED = lazy(r"Speed (?P<speed>\d+(?:\.\d+)?)\s?GT/s")
_WIDTH = lazy(r"Width x(?P<width>\d{1,2})")
_NVIDIA_CLASSES = {"0300": "VGA compatible controller", "0302": "3D controller", "0380": "Display controller"}
_DISPLAY = ("vga", "3d controller", "display controller", "0300", "0302", "0380", "processing accel")
_GREP = lazy(r"\|\s*(?:sudo )?(?:e|f)?grep\s+(?P<what>(?:'[^'\n]*'|\"[^\"\n]*\"|[^|\n'\"])*)", re.IGNORECASE)

_BARE_PROMPT = lazy(r"^\s*(?:\([\w.-]{1,30}\) )?(?:[\w.-]{1,40}@[\w.-]{1,60}\S{0,60})?[$#%>]\s*$|^--$")


def _new(match: re.Match[str], evidence: Evidence, number: int, line: str) -> PciDevice | None:
    name = match["name"].strip()
    ids = list(_IDS.finditer(name))
    kind = match["kind"].strip()
    if not kind or (kind.isdigit() and len(kind) != 4):
        return None
    return PciDevice(
        bus=match["bus"].lower(),
        kind=kind,
        name=name or None,
        vendor=ids[-1]["vendor"] if ids else None,
        device=ids[-1]["device"] if ids else None,
        dead="(rev ff)" in name,
        ref=evidence.ref(number, line),
    )


def _detail(device: PciDevice, line: str, evidence: Evidence, number: int) -> PciDevice:
    """What an indented line adds to its device."""
    text = line.strip()
    if text.startswith("Kernel driver in use:"):
        return replace(device, driver=text.partition(":")[2].strip())
    if text.startswith("Kernel modules:"):
        modules = tuple(word.strip() for word in text.partition(":")[2].split(",") if word.strip())
        return replace(device, modules=modules, driver=device.driver if device.driver is not None else "")
    if "Unknown header type 7f" in text:
        return replace(device, dead=True, ref=evidence.ref(number, line))
    if "<unassigned>" in text or "<ignored>" in text:
        return replace(device, no_bar=True, ref=evidence.ref(number, line)) if "emory at" in text else device
    if text.startswith(("LnkCap:", "LnkSta:")):
        speed, width = _SPEED.search(text), _WIDTH.search(text)
        have = (float(speed["speed"]) if speed else None, int(width["width"]) if width else None)
        if text.startswith("LnkCap:"):
            return replace(device, speed_max=have[0], width_max=have[1])
        degraded = "downgraded" in text or (device.width_max and have[1] and have[1] < device.width_max)
        return replace(device, speed=have[0], width=have[1], ref=evidence.ref(number, line) if degraded else device.ref)
    return device


def _devices(evidence: Evidence) -> Iterator[PciDevice]:
    current: PciDevice | None = None
    for number, line in evidence.lines():
        numeric = _NUMERIC.match(line)
        match = None if numeric else _DEVICE.match(line)
        found: PciDevice | None = None
        if numeric:
            kind = _NVIDIA_CLASSES.get(numeric["class"], numeric["class"])
            found = PciDevice(
                bus=numeric["bus"].lower(),
                kind=kind,
                vendor=numeric["vendor"],
                device=numeric["device"],
                dead="rev ff" in numeric["rest"],
                ref=evidence.ref(number, line),
            )
        elif match and _plausible(match):
            found = _new(match, evidence, number, line)
        if found:
            if current:
                yield current
            current = found
        elif current and (line.startswith((" ", "\t")) or "Lnk" in line or "Kernel" in line):
            current = _detail(current, line, evidence, number)
        elif current is None and line.strip().startswith(
            ("LnkCap:", "LnkSta:")
        ):  # cut out with grep: the device is not named
            current = _detail(
                PciDevice(bus=_asked(evidence) or "?", ref=evidence.ref(number, line)), line, evidence, number
            )
    if current:
        yield current


_KINDS = lazy(
    r"controller|bridge|controler|accelerator|device|interface|system peripheral|pic|bus|memory|encryption|"
    r"peripheral|adapter|hub|"
    r"monitoring|timer|coprocessor|unassigned class|^[0-9a-f]{4}$",
    re.IGNORECASE,
)


def _plausible(match: re.Match[str]) -> bool:
    return bool(_KINDS.search(match["kind"])) and "NVRM" not in match.string and "kernel:" not in match.string


def _asked(evidence: Evidence) -> str | None:
    """The slot that `lspci -s` was asked for."""
    match = re.search(r"-s\s*(?P<bus>[0-9a-fA-F:.]{4,16})", evidence.command or "")
    return match["bus"].lower() if match else None


def _complete(evidence: Evidence, devices: list[PciDevice]) -> bool | None:
    """Whether a card that is not shown is not there."""
    command = evidence.command or ""
    if evidence.kind == "lspci":
        return True
    if "lspci" in command:
        greps = [match["what"].lower() for match in _GREP.finditer(command)]
        if re.search(r"lspci\b[^|]*\s-[a-z]*s\b", command) or any("-v" in g.split() for g in greps):
            return None
        if not greps:
            nvidia_only = re.search(r"-d\s*10de", command)
            return True if not re.search(r"lspci\b[^|]*\s-[a-z]*d\b", command) or nvidia_only else None
        if all(
            "nvidia" in g and ("-i" in g or "-ei" in g or "-ie" in g or "NVIDIA" in command or "Nvidia" in command)
            for g in greps
        ):
            return True
        if all("vga" in g and ("3d" in g or "display" in g) for g in greps):
            return True
        return None
    kinds = " ".join((d.kind or "").lower() for d in devices)
    return (
        True
        if len(devices) >= 6 and "bridge" in kinds and ("usb" in kinds or "sata" in kinds or "ethernet" in kinds)
        else None
    )


def read(evidence: Evidence) -> Iterable[Fact]:
    """The devices on the PCI bus."""
    devices = [d for d in _devices(evidence) if d.bus]
    complete = _complete(evidence, devices)
    if devices and all(device.bus == "?" for device in devices):
        complete = None  # lines cut out of a device
    if not devices and not ((complete or "vga" in (evidence.command or "").lower()) and _answered(evidence)):
        return
    shown = [d for d in devices if d.nvidia or d.display or d.bus == "?"] or devices[:3]
    yield Pci(
        devices=tuple(devices),
        complete=complete,
        refs=tuple(d.ref for d in shown if d.ref)[:8] or (evidence.ref(evidence.first_line, evidence.command or ""),),
    )


def _answered(evidence: Evidence) -> bool:
    """Whether lspci itself ran: its error texts and a missing program are no empty bus."""
    lines = evidence.text.split("\n")
    echo = bool(evidence.command and lines[0].rstrip().endswith(evidence.command.strip()))
    rest = [line for line in lines[1 if echo else 0 :] if line.strip() and not _BARE_PROMPT.match(line)]
    if evidence.kind == "lspci":
        return not evidence.problem
    words = " ".join(rest).lower()
    return "lspci" in (evidence.command or "") and (
        not rest or ("no output" in words or "nothing" in words or "empty" in words or words.startswith("#"))
    )


def looks_like(evidence: Evidence) -> bool:
    """Whether lspci lines may stand in it."""
    text = evidence.text
    return (
        "lspci" in (evidence.command or text)
        or "controller" in text
        or "LnkSta" in text
        or bool(re.search(r"^\s*[0-9a-f:]{5,13}\.\d \w[^\n:]{3,50}: ", text, re.MULTILINE))
        or any(f" {c}: 10de:" in text for c in ("0300", "0302", "0380"))
    )


SOURCES = (
    Source(
        kind="lspci",
        read=read,
        looks_like=looks_like,
        gives=(Pci,),
        settle="lspci -nnk",
    ),
)
