"""Windows' own words about the display adapters: dxdiag, device manager, Get-PnpDevice, wmic, Get-CimInstance."""

import re
from collections.abc import Iterable
from typing import Any

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Ref, Source

_GPU = r"(?P<name>NVIDIA[^\n,;\"|]{2,60}|(?:GeForce|Quadro|Tesla|RTX|GTX)[^\n,;\"|]{2,60})"
_CARD = lazy(
    r"^\s*(?:Card name|Name|Caption|FriendlyName|Description|InstanceName|DeviceName)\s*[:=]\s*" + _GPU + r"\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_PNP = lazy(r"^\s*(?P<status>OK|Error|Degraded|Unknown)\s+(?:Display|3D)\w*\s+" + _GPU + r"$", re.MULTILINE)
# 31.0.15.3699 is 536.99: the last five digits
_VERSION = lazy(r"\b(?:\d{1,2}\.\d{1,2}\.1(?P<a>\d)\.(?P<b>\d{4})|\d{1,2}\.\d{1,2}\.\d{1,"
    r"2}(?P<c>\d)\.(?P<d>\d{4}))\b")
_VERSION_LINE = lazy(r"(?:driver\s?version|driver file version|driverver|version)[^\n]{0,30}?(?P<v>\d{1,"
    r"2}\.\d{1,2}\.\d{1,2}\.\d{4})", re.IGNORECASE)
_CODE = lazy(
    r"\(\s*Code\s+(?P<a>\d{1,2})\s*\)|(?:Problem\s*Code|ConfigManagerErrorCode|Device Problem Code|"
    r"Problem)\s*[:=]?\s*(?:CM_PROB_\w+\s*\(?|0x)?(?P<b>\d{1,2}|2B)\b(?!\.)|"
    r"(?P<c>CM_PROB_FAILED_POST_START|CM_PROB_FAILED_START|CM_PROB_DRIVER_FAILED_LOAD|CM_PROB_NORMAL_CONFLICT|"
    r"CM_PROB_FAILED_ADD)|"
    r"\b(?:error\s+)?code\s*[:=]?\s*(?P<d>43|31|28|12|10)\b(?=[^\n]{0,80}(?:device manager|windows|stopped|\)|"
    r"$))|错误代码\s*(?P<e>43|31|12|10)|代码\s*(?P<f>43|31|12|10)",
    re.IGNORECASE | re.MULTILINE,
)
_ROW = lazy(r"^[^\n]{0,80}(?:NVIDIA|GeForce|Quadro|Tesla)[^\n]{2,160}$", re.MULTILINE)
_NAMES = {
    "CM_PROB_FAILED_POST_START": 43, "CM_PROB_FAILED_START": 10, "CM_PROB_DRIVER_FAILED_LOAD": 39, "CM_PROB_NORMAL_CONFLICT": 12,
    "CM_PROB_FAILED_ADD": 31,
}  # fmt: skip
_CONTEXT = lazy(r"device manager|设备管理器|windows has stopped|pnpdevice|win32_videocontroller|configmanager|"
    r"dxdiag|problem code|cm_prob|this device|nvlddmkm|geforce|nvidia", re.IGNORECASE)


def driver_of(version: str) -> str | None:
    """NVIDIA's driver version in a Windows file version: "31.0.15.3699" -> "536.99"."""
    match = _VERSION.search(version)
    if not match:
        return None
    digits = (match["a"] or match["c"]) + (match["b"] or match["d"])
    return f"{digits[:3]}.{digits[3:]}"


def _code(evidence: Evidence) -> tuple[int, Ref] | None:
    for match in _CODE.finditer(evidence.text):
        if match["c"]:
            return _NAMES[match["c"].upper()], evidence.ref_at(match.start(), "problem_code")
        word = next(filter(None, match.group("a", "b", "d", "e", "f")), "0")
        code = int(word, 16) if word.upper() == "2B" else int(word)
        if code in (10, 12, 18, 22, 28, 31, 32, 37, 39, 43, 45, 52):
            return code, evidence.ref_at(match.start(), "problem_code")
    if "ConfigManagerErrorCode" in evidence.text and (row := _ROW.search(evidence.text)):
        told = next((int(cell) for cell in re.split(r"\s{2,}|,", row[0].strip()) if cell.isdigit() and 0 < int(cell) < 60), None)
        if told:
            return told, evidence.ref_at(row.start(), "problem_code")
    return None


def read(evidence: Evidence) -> Iterable[Fact]:
    """The cards that Windows lists, their driver, and what is wrong with them."""
    text = evidence.text[:400_000]
    if not _CONTEXT.search(text):
        return
    code = _code(evidence)
    cards: list[tuple[str, int, str | None]] = [(m["name"].strip(), m.start("name"), None) for m in _CARD.finditer(text)]
    cards += [(m["name"].strip(), m.start("name"), m["status"]) for m in _PNP.finditer(text)]
    cards = [c for c in cards if not re.search(r"audio|usb|virtual|container|broadcast", c[0], re.IGNORECASE)]
    if cards or code:
        gpus: dict[str, Gpu] = {}
        for name, at, status in cards:
            values: dict[str, Any] = {"error": f"Windows: {status}"} if status == "Error" else {}
            gpus.setdefault(name, Gpu(name=name, problem_code=code[0] if code else None, ref=evidence.ref_at(at), **values))
        if not gpus and code:
            gpus["?"] = Gpu(problem_code=code[0], ref=code[1])
        refs = tuple(g.ref for g in gpus.values() if g.ref)
        yield Gpus(gpus=tuple(gpus.values()), refs=(*refs, *((code[1],) if code else ())))
        yield Machine(system="windows", refs=(code[1] if code else refs[0],))
    line = _VERSION_LINE.search(text) if cards or "nvidia" in text.lower() else None
    if line and (version := driver_of(line["v"])) and version[0] in "34567":
        yield Driver(version=version, installed=True, refs=(evidence.ref_at(line.start("v"), "version"),))


_MARKS = (
    "card name", "device manager", "设备管理器", "pnpdevice", "configmanager", "(code ", "problem code", "cm_prob", "code 43", "code 31",
    "code 10", "code 12", "code: 43", "driverversion", "错误代码", "代码 43", "friendlyname", "win32_videocontroller",
)  # fmt: skip


def looks_like(evidence: Evidence) -> bool:
    """Whether Windows may have printed it."""
    low = evidence.text.lower()
    return any(mark in low for mark in _MARKS) or bool(re.search(r"^\s*(?:OK|Error)\s+Display", evidence.text, re.MULTILINE))


SOURCES = (
    Source(
        kind="windows", read=read, looks_like=looks_like, gives=(Gpus, Driver, Machine),
        get=(Get(argv=("powershell", "-NoProfile", "-Command",
                       "Get-PnpDevice -Class Display | Format-List FriendlyName,Status,Problem,ProblemDescription; "
                       "Get-CimInstance Win32_VideoController | Format-List Name,DriverVersion,ConfigManagerErrorCode"),
                 limit=15.0, only="windows"),),
        settle="powershell Get-PnpDevice -Class Display | Format-List FriendlyName,Status,Problem",
    ),
)
