"""Reports of compute-sanitizer and of cuda-memcheck before it: memcheck, initcheck, racecheck and synccheck.

Their forms: https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html (every sample of version 2026.4's), and as public issues show them
(https://github.com/pytorch/pytorch/issues/140777, https://github.com/sgl-project/sglang/issues/2599).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ongpu.facts.sanitizer import ApiError, Fault, Sanitizer
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_FAULTS = 200  # blocks that are kept
MAX_LINES = 400_000
MAX_WIDTH = 2000
KEPT = "sanitizer-line"  # the symptom by which these lines are kept of a long log

_MARK = lazy(r"^.{0,60}?={9}(?=[ \t]|$)[ \t]?(.*)$")
_ACCESS = lazy(r"^(?:Error: |ERROR: )?Invalid (__\w{1,20}__|[a-z]{2,20}) (read|write|atomic|access)(?: of size ([\d,]{1,15})(?: bytes?)?)?", re.IGNORECASE)
_WARP = lazy(r"^(?:Error: )?(Warp (?:Illegal|Out-of-range|Misaligned)[\w \-]{0,40}|(?:Out-of-range|Misaligned|Illegal)[\w\- ]{0,40}(?:Address|Access)|Invalid PC|Stack Canary\b.{0,40})")
_UNSET = lazy(r"^(?:Error: |Host API )?(Uninitialized (?:(__\w{1,20}__) )?memory (?:read|access)[^\n]{0,40}|Unused (?:__\w{1,20}__ )?memory in allocation.{0,60})")
_RACE = lazy(
    r"^(Error|Warning|ERROR|WARNING|WARN|INFO|Info)?:? ?(?:\([\w ]{1,40}\) )?(?:Race reported between (\w{1,12}) access at (.{1,600}?)(?:$| and \w{1,12} access at )"
    r"|(?:Potential )?(RAW|WAR|WAW) hazard detected at (__\w{1,20}__)?.{0,60})"
)
_CLUSTER = lazy(r"^(?:Error: )?Potential invalid (__\w{1,20}__) (read|write|atomic|access)(?: of size ([\d,]{1,15}))?", re.IGNORECASE)
_FREED = lazy(r"^(?:Error: )?(?:Malloc/Free error encountered ?: ?(.{1,60})|(Tensor Memory .{1,80}) is not allocated\b)")
_BARRIER = lazy(r"^(?:Error: )?(Deadlock detected in [\w:]{1,40} wait|Barrier error detected\. .{1,80}|Barrier is? .{0,60}|Missing (?:wait|init)[^\n]{0,40})")
_HAZARD_AT = lazy(r"^(?:Write|Read|Atomic) Thread \([\d,]{5,32}\) (at .{1,1700})$")
_DEVICE_FRAME = lazy(r"^Device Frame: ?(.{1,1600}?)(?:\+0x[0-9a-f]{1,16})? in (\S{1,300}:\d{1,7})\s*$", re.IGNORECASE)
_INSIDE_CUDA = lazy(r"^__cuda_|^\$__|^__syncwarp|^\[clone ")
_API = lazy(r"^Program hit (\w{1,60}) \(error (\d{1,6})\) due to \"([^\"\n]{1,200})\" on CUDA API call to (\w{1,80})")
_API_OLD = lazy(r"^Program hit error (\d{1,6}) on CUDA API call to (\w{1,80})")
_API_WORDS = lazy(r"^Program hit ([a-z][^\"\n]{1,200}?) \(error (\d{1,6})\) on CUDA API call to (\w{1,80})")
_LEAK = lazy(r"^Leaked ([\d,]{1,20}) bytes")
_LEAKS = lazy(r"^LEAK SUMMARY: ([\d,]{1,20}) bytes leaked in ([\d,]{1,12}) allocations?")
_SUMMARY = lazy(r"^(?:ERROR SUMMARY: ([\d,]{1,12}) errors?\s*$|RACECHECK SUMMARY: ([\d,]{1,12}) hazards? displayed)")
_AT = lazy(r"^at (.{1,1600}?)(?:\+(0x[0-9a-f]{1,16}))?(?: in (\S{1,300}:\d{1,7}))?\s*$", re.IGNORECASE)
_AT_OLD = lazy(r"^at 0x[0-9a-f]{1,16} in (?:(\S{1,300}?:\d{1,7}):)?(.{1,1600})$", re.IGNORECASE)
_IN = lazy(r"^in (\S{1,300}:\d{1,7})\s*$")
_BY = lazy(r"^by thread (\(\d{1,9},\d{1,9},\d{1,9}\)) in block (\(\d{1,9},\d{1,9},\d{1,9}\))")
_NEAR = lazy(r"and is (?:([\d,]{1,24}) bytes (after|before|inside) |inside )the nearest allocation(?: at 0x[0-9a-f]{1,16})?(?:\s+of size ([\d,]{1,24}))?", re.IGNORECASE)
_SIZE = lazy(r"^of size ([\d,]{1,24}) bytes")
_HOST = lazy(r"^Host Frame: ?(.{0,1200}?)\s*(?:\[0x[0-9a-f]{1,16}\]\s*)?(?:in (\S{1,300}))?\s*$", re.IGNORECASE)
_PLACE = lazy(r" in (\S{1,300}:\d{1,7})\b")
_FOREIGN = lazy(
    r"^(?:\[|$)|libcuda|libcudart|cudaLaunch|__cudart|cuLaunch|libc\.so|libpython|ld-linux|libtorch|libc10|site-packages|dist-packages|/bin/python"
    r"|^(?:_?Py[A-Z_]|at::|c10::|torch::|std::|pybind11::|void std::|__libc_start|_start|cfunction|method_vectorcall|vectorcall|object_vacall|slot_tp)"
)


@dataclass
class _Block:
    """One report of the tool: its head line, and what stands indented below."""

    head: str
    ref: Ref
    lines: list[tuple[str, Ref]] = field(default_factory=list)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _blocks(evidence: Evidence) -> Iterator[_Block]:
    block: _Block | None = None
    for count, (number, line) in enumerate(evidence.lines()):
        if count > MAX_LINES:
            break
        mark = _MARK.match(line[:MAX_WIDTH])
        if mark is None:
            continue
        text = mark[1]
        if not text.strip():
            if block:
                yield block
            block = None
        elif text.startswith(("  ", "\t")) and block is not None:
            if len(block.lines) < 120:
                block.lines.append((text.strip(), evidence.ref(number, line)))
        elif block is not None and text.startswith(("and is ", "in ", "of size ")):
            block.lines.append((text.strip(), evidence.ref(number, line)))
        else:
            if block:
                yield block
            block = _Block(text.strip(), evidence.ref(number, line))
    if block:
        yield block


def _host(block: _Block) -> str | None:
    """The first frame on the host that is neither CUDA's, Python's nor the framework's."""
    lines = [text for text, _ in block.lines]
    for at, text in enumerate(lines):
        match = _HOST.match(text)
        if match is None or not match[1].strip():
            continue
        library = match[2] or (lines[at + 1] if at + 1 < len(lines) and lines[at + 1].startswith("in ") else "")
        if not _FOREIGN.search(match[1]) and not _FOREIGN.search(library or "-"):
            place = _PLACE.search(text)
            return match[1].strip().partition(" in ")[0][:100] + (f" in {place[1]}" if place else "")
    return None


def _fault(block: _Block) -> Fault | None:
    """What the head line objects to; None where it is no fault of a kernel."""
    space, warning = "", False
    if match := _ACCESS.match(block.head):
        size = f" of size {match[3]} bytes" if match[3] else ""
        kind, what, space = "access", f"{match[2].lower()}{size}", match[1]
    elif match := _WARP.match(block.head):
        kind, what = "access", match[1].strip()
    elif match := _UNSET.match(block.head):
        kind, what, space = "uninitialized", match[1].strip(), match[2] or ""
        warning = what.startswith("Unused")
    elif match := _FREED.match(block.head):
        kind, what = "access", (match[1] or match[2]).strip()
    elif match := _CLUSTER.match(block.head):
        where = next((text.partition("located in ")[2] for text, _ in block.lines if "located in a block" in text), "")
        kind, what, space = "race", f"{match[2].lower()} in {where or 'another block'}", match[1]
    elif match := _BARRIER.match(block.head):
        kind, what = "barrier", match[1].removeprefix("Barrier error detected. ").strip().rstrip(".")
    elif match := _RACE.match(block.head):
        pair = re.findall(r"(\w{1,12}) access at", block.head)
        kind, what, space = "race", " / ".join(pair).lower() or match[4], "__shared__"
        warning = (match[1] or "").lower() in ("warning", "warn", "info")
    else:
        return None
    return _detailed(block, kind, what[:160], space, warning)


def _detailed(block: _Block, kind: str, what: str, space: str, warning: bool) -> Fault:
    kernel = place = thread = None
    beyond = size = None
    inside = misaligned = False
    refs = [block.ref]
    texts = block.lines
    if kind == "barrier" and (match := re.search(r"(?<= )at \S{1,600}? in \S{1,300}:\d{1,7}\s{0,9}$", block.head)):
        texts = [(match[0], block.ref), *texts]
    if kind == "race" and (match := re.search(r" access at (.{1,600}?)(?: and \w{1,12} access at |$)", block.head)):
        texts = [(f"at {match[1]}", block.ref), *texts]
    frames: list[tuple[str, str]] = []
    for text, ref in texts:
        if hazard := _HAZARD_AT.match(text):
            text = hazard[1]
        elif frame := _DEVICE_FRAME.match(text):
            frames.append((frame[1], frame[2]))
        if kernel is None and text.startswith("at "):
            old, new = _AT_OLD.match(text), _AT.match(text)
            if old:
                place, kernel = old[1], old[2]
            elif new:
                kernel, place = new[1], new[3]
            refs.append(ref)
        elif place is None and kernel is not None and thread is None and (match := _IN.match(text)):
            place = match[1]
        elif match := _BY.match(text):
            thread = f"{match[1]} of block {match[2]}"
        elif near := _NEAR.search(text):
            inside = near[2] is None or near[2].lower() == "inside"
            beyond = None if inside or near[1] is None else _number(near[1]) * (-1 if near[2].lower() == "before" else 1)
            size = _number(near[3]) if near[3] else None
            refs.append(ref)
        elif size is None and beyond is not None and (match := _SIZE.match(text)):
            size = _number(match[1])
        elif "out of bounds" in text or "misaligned" in text:
            misaligned = "misaligned" in text
            refs.append(ref)
    if kernel and kernel.startswith("0x"):  # an address is no name
        kernel = None
    if frames and (kernel is None or _INSIDE_CUDA.match(kernel)):  # CUDA's own function: whoever called it is meant
        kernel, place = frames[-1]
    return Fault(
        kind=kind, what=what, ref=block.ref, space=space, kernel=kernel.strip()[:300] if kernel else None, place=place, thread=thread,
        misaligned=misaligned, beyond=beyond, inside=inside, size=size, host=_host(block), warning=warning, refs=tuple(dict.fromkeys(refs)),
    )


def read(evidence: Evidence) -> Iterable[Fact]:
    """The faults, failed calls and leaks of a report."""
    faults: list[Fault] = []
    calls: list[ApiError] = []
    leaks = leaked = 0
    errors: int | None = None
    summary: Ref | None = None
    leak_ref: Ref | None = None
    seen = False
    for block in _blocks(evidence):
        seen = seen or block.head.startswith(("COMPUTE-SANITIZER", "CUDA-MEMCHECK"))
        if match := _SUMMARY.match(block.head):
            errors, summary = max(errors or 0, _number(match[1] or match[2])), block.ref
        elif match := _LEAKS.match(block.head):
            leaked, leaks, leak_ref = _number(match[1]), _number(match[2]), block.ref
        elif match := _LEAK.match(block.head):
            leaked, leaks = leaked + _number(match[1]), leaks + 1
            leak_ref = leak_ref or block.ref
        elif match := _API.match(block.head):
            if len(calls) < MAX_FAULTS:
                calls.append(ApiError(match[1], int(match[2]), match[3], match[4], block.ref, _host(block)))
        elif match := _API_OLD.match(block.head):
            if len(calls) < MAX_FAULTS:
                calls.append(ApiError(f"error {match[1]}", int(match[1]), "", match[2], block.ref, _host(block)))
        elif match := _API_WORDS.match(block.head):
            if len(calls) < MAX_FAULTS:
                calls.append(ApiError(f"error {match[2]}", int(match[2]), match[1], match[3], block.ref, _host(block)))
        elif len(faults) < MAX_FAULTS and (fault := _fault(block)):
            faults.append(fault)
    if faults or calls or errors is not None or leaks or seen:
        refs = [*(fault.ref for fault in faults[:3]), *(call.ref for call in calls[:2]), *([summary] if summary else [])]
        yield Sanitizer(
            faults=tuple(faults), calls=tuple(calls), errors=errors, summary=summary, leaked=leaked or None, leaks=leaks or None,
            leak_ref=leak_ref, refs=tuple(refs),
        )


def looks_like(evidence: Evidence) -> bool:
    """Whether a report may stand in it."""
    text = evidence.text
    return "=========" in text and any(
        word in text for word in ("COMPUTE-SANITIZER", "CUDA-MEMCHECK", "Invalid __", "ERROR SUMMARY", "Program hit cu", "SUMMARY:", "Race reported", "Barrier error", "Uninitialized __")
    )  # fmt: skip


SOURCES = (
    Source(kind="compute_sanitizer", read=read, looks_like=looks_like, gives=(Sanitizer,), settle="compute-sanitizer python train.py"),
)
