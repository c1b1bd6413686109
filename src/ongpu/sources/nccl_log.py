"""NCCL's log (NCCL_DEBUG=INFO or WARN) and the process group's watchdog: versions, interfaces, transports, timeouts."""

from collections.abc import Iterable

from ongpu.facts.nccl import NcclLog, NcclTimeout
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_LINES = 100_000
_LINE = lazy(
    r"^(?P<who>.{0,120}?)(?P<host>[\w.\-]{1,80}):(?P<pid>\d{1,9}):(?P<tid>\d{1,9}) \[(?P<gpu>\d{1,3})\]"
    r" (?P<rest>.*)$"
)
_VERSION = lazy(r"NCCL version:? ?(?P<v>\d{1,2}\.\d{1,2}\.\d{1,2})")
_USING = lazy(
    r"(?:Using interface |NET/Socket : Using \[\d+\]|Bootstrap : Using (?:\[\d+\])?|NET/(?:IB|Socket) ?: Using"
    r" (?:\[\d+\])?)(?P<if>[\w.\-]{1,40}):"
)
_VIA = lazy(r" via (?P<t>P2P[\w/]{0,20}|SHM[\w/]{0,20}|NET/[\w/]{1,30}|direct shared memory|P2P/IPC)")
_WATCHDOG = lazy(r"WorkNCCL\([^)\n]{0,80}OpType=(?P<op>\w{1,40})")
_RANK = lazy(r"\[Rank (?P<rank>\d{1,6})\]|\[rank(?P<rank2>\d{1,6})\]|Rank (?P<rank3>\d{1,6})\]")
_RAN = lazy(r"ran for (?P<ms>\d{1,12}) milliseconds")
_LIMIT = lazy(r"Timeout\(ms\)=(?P<ms>\d{1,12})")


def read(evidence: Evidence) -> Iterable[Fact]:
    """What NCCL told."""
    versions: dict[str, str] = {}
    interfaces: dict[str, None] = {}
    transports: dict[str, None] = {}
    timeouts: list[NcclTimeout] = []
    warnings: list[Ref] = []
    version_lines: list[Ref] = []
    interface_lines: list[Ref] = []
    lines = evidence.lines()
    for count, (number, line) in enumerate(lines):
        if count > MAX_LINES:
            break
        if "NCCL" not in line and "nccl" not in line:
            continue
        line = line[:2000]
        ref = evidence.ref(number, line)
        if match := _VERSION.search(line):
            told = _LINE.match(line)
            key = told["host"] if told else f"line {number}"
            versions.setdefault(key, match["v"])
            version_lines.append(ref)
        if match := _USING.search(line):
            interfaces[match["if"]] = None
            interface_lines.append(ref)
        if match := _VIA.search(line):
            transports[match["t"]] = None
        if "NCCL WARN" in line and len(warnings) < 20:
            warnings.append(ref)
        if match := _WATCHDOG.search(line):
            before = lines[count - 1][1][-400:] if count and "atchdog" in lines[count - 1][1] else ""  # wrapped by a terminal or a reporter
            after = lines[count + 1][1][:400] if count + 1 < len(lines) else ""
            rank, spent = _RANK.search(line) or _RANK.search(before), _RAN.search(line) or _RAN.search(after) or _LIMIT.search(line)
            who = next((g for g in rank.groups() if g), None) if rank else None
            ms = spent["ms"] if spent else None
            if len(timeouts) < 20 and "tim" in (before + line).lower():
                timeouts.append(NcclTimeout(match["op"], int(who) if who else None, int(ms) / 1000 if ms else None, ref))
    if not (versions or interfaces or timeouts or warnings or transports):
        return
    refs = tuple(dict.fromkeys([*warnings[:3], *(t.ref for t in timeouts[:2]), *interface_lines[:2],
    *version_lines[:2]]))
    yield NcclLog(
        versions=versions, interfaces=tuple(interfaces), timeouts=tuple(timeouts), warnings=tuple(warnings), transports=tuple(transports),
        version_lines=tuple(version_lines[:6]), interface_lines=tuple(interface_lines[:6]), refs=refs,
    )


SOURCES = (Source(kind="nccl_log", read=read, looks_like=lambda evidence: "nccl" in evidence.text.lower(), gives=(NcclLog,)),)
