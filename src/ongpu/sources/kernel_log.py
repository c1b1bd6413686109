"""The kernel's log (dmesg, journalctl -k, syslog), /proc/driver/nvidia/version, and Xids told in other words."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Xid, Xids
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Source

MAX_EVENTS = 500  # of one text: a wall of the same event says nothing new
_XID = lazy(
    r"(?P<s>S)?Xid\s*(?:\((?:PCI:?\s*)?(?P<bus>[0-9A-Fa-f:.]{5,20}|[.*xX…-]{1,16}|<[^>\n]{1,20}>)\))?\s*:"
    r"\s*(?P<code>\d{1,5})\s*,\s*(?P<text>[^\n]{0,300})"
)
_CAUSED = lazy(r"caused by previous Xid (?P<code>\d{1,3})")
# What people and other programs call them: "Xid 79", "XID error 31", "Xid=48 on Device=GPU-..", "Xid Errors : 94"
_TOLD = lazy(
    r"\b(?P<s>S)?Xid(?:[ _-]?(?:Critical)?(?:error|event|code|errors)s?)?"
    r"\s*(?:[:=#(]|is|was|code)?\s*(?P<code>\d{1,5})\b",
    re.IGNORECASE,
)
_METRIC = lazy(r"XID_ERRORS\{[^}\n]{0,600}\}\s+(?P<code>\d{1,3})(?:\.0)?\b")
_NOT = lazy(
    r"(?:\bno|\bnot an?|\bwithout(?: an?y?)?|\bnever|\bnor|没有|无|不是|previous|除了)\W{0,3}$", re.IGNORECASE
)
_TIME = lazy(r"^\s*(?:<\d>)?\[\s*(?P<t>\d{1,9}\.\d{3,6})\]|kernel:\s*\[\s*(?P<k>\d{1,9}\.\d{3,6})\]")
_MODULE = lazy(
    r"NVRM(?: version)?: (?P<loading>loading )?NVIDIA UNIX (?P<open>Open )?(?:\w+ )?Kernel Module(?: for \w+)?"
    r"\s+(?P<v>\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_MODESET = lazy(
    r"Loading NVIDIA (?P<open>Open )?Kernel Mode Setting Driver for UNIX platforms"
    r"\s+(?P<v>\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_HYPERVISOR = lazy(r"Hypervisor detected: (?:Microsoft )?(?P<v>KVM|VMware|Hyper-V|Xen)")
_LOAD_FAILED = (
    "No NVIDIA GPU found",
    "No NVIDIA graphics adapter found",
    "None of the NVIDIA",
    "NVRM: No NVIDIA devices probed",
)
_KERNEL_LINE = lazy(r"^\s*(?:<\d>)?\[\s*(?:\d{1,9}\.\d{3,6}|[^\]\n]{10,40}\d{4})\] ?\S|\bkernel: ", re.MULTILINE)
_WHOLE = lazy(
    r"^(?:sudo\s+)?(?:dmesg|journalctl)\b(?!.*\|)|\|\s*(?:e|z)?grep\s.*(?:xid|nvrm|nvidia)", re.IGNORECASE
)


def _time(line: str) -> float | None:
    match = _TIME.search(line)
    return float(match["t"] or match["k"]) if match else None


def _bus(text: str | None) -> str:
    """The address, or nothing where the writer struck it out ("PCI:...", "PCI:<redacted>")."""
    return text if text and any(char in "0123456789abcdefABCDEF" for char in text) and "<" not in text else ""


def _line(evidence: Evidence, at: int) -> str:
    start = evidence.text.rfind("\n", 0, at) + 1
    end = evidence.text.find("\n", at)
    return evidence.text[start : end if end >= 0 else len(evidence.text)]


def _printed(evidence: Evidence) -> Iterator[Xid]:
    """Events in the driver's own form."""
    for match in _XID.finditer(evidence.text):
        caused = _CAUSED.search(match["text"])
        yield Xid(
            int(match["code"]),
            _bus(match["bus"]),
            match["text"].strip(),
            evidence.ref_at(match.start(), "events"),
            int(caused["code"]) if caused else None,
            bool(match["s"]),
            _time(_line(evidence, match.start())),
        )


def _broken(evidence: Evidence) -> Iterator[Xid]:
    """Events whose line the terminal has broken in the middle."""
    text = evidence.text
    keep = [i for i, char in enumerate(text) if char != "\n"]
    for match in _XID.finditer("".join(text[i] for i in keep)):
        if _bus(match["bus"]):
            yield Xid(
                int(match["code"]),
                match["bus"],
                match["text"][:80].strip(),
                evidence.ref_at(keep[match.start()], "events"),
                switch=bool(match["s"]),
            )


def _told(evidence: Evidence) -> Iterator[Xid]:
    """Events in the words of people, device plugins and metrics."""
    for pattern in (_METRIC, _TOLD):
        for match in pattern.finditer(evidence.text):
            code = int(match["code"])
            if code == 0 or code > (99999 if match.groupdict().get("s") else 200):
                continue
            if _NOT.search(evidence.text[max(0, match.start() - 24) : match.start()]):
                continue
            yield Xid(code, "", "", evidence.ref_at(match.start(), "events"), switch=bool(match.groupdict().get("s")))


def _driver(evidence: Evidence) -> Iterator[Driver]:
    """The module that was loaded last, and its flavour."""
    found = list(_MODULE.finditer(evidence.text))
    if found:
        last = found[-1]
        loaded: bool | None = True
        if last["loading"] and any(words in evidence.text for words in _LOAD_FAILED):
            loaded = None
        yield Driver(
            module=last["v"],
            flavour="open" if last["open"] else "proprietary",
            module_loaded=loaded,
            refs=(evidence.ref_at(last.start(), "module"),),
        )
    elif match := _MODESET.search(evidence.text):
        yield Driver(module=match["v"], module_loaded=True, refs=(evidence.ref_at(match.start(), "module"),))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The Xid events (none known where a kernel log holds none) and the loaded module."""
    yield from _driver(evidence)
    if match := _HYPERVISOR.search(evidence.text):
        yield Machine(virtual=match["v"].lower(), refs=(evidence.ref_at(match.start(), "virtual"),))
    events = list(_printed(evidence))[:MAX_EVENTS]
    if not events and "xid" in evidence.text.lower().replace("\n", "") and "NVRM" in evidence.text:
        events = list(_broken(evidence))[:MAX_EVENTS]
    codes = {(event.code, event.switch) for event in events}
    causes = {event.caused_by for event in events}
    told = [e for e in _told(evidence) if (e.code, e.switch) not in codes and e.code not in causes]
    events += told[:MAX_EVENTS]
    if events:
        yield Xids(events=tuple(events), refs=tuple(event.ref for event in events[:8]))
    elif _whole_log(evidence):
        yield Xids(events=(), refs=())


def _whole_log(evidence: Evidence) -> bool:
    """Whether so much of a kernel log was shown that a missing Xid means that there was none."""
    if evidence.kind in ("kernel-log", "dmesg"):
        return True
    return bool(evidence.command and _WHOLE.search(evidence.command)) and len(_KERNEL_LINE.findall(evidence.text)) >= 1


def looks_like(evidence: Evidence) -> bool:
    """Whether a kernel message or an Xid may stand in it."""
    text = evidence.text
    return "NVRM" in text or "xid" in text.lower() or "Mode Setting Driver" in text or bool(_KERNEL_LINE.search(text))


SOURCES = (
    Source(
        kind="kernel-log",
        read=read,
        looks_like=looks_like,
        gives=(Xids, Driver, Machine),
        get=(
            Get(call="kernel:log", limit=5.0, only="linux"),
            Get(call="kernel:module", only="linux"),
        ),
        settle="sudo dmesg | grep -iE 'nvrm|xid|nvidia'",
    ),
)
