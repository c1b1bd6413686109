"""Who uses the GPUs, and who lives: fuser, lsof, ps, top, gpustat, nvitop, nvtop."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Process, Processes
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

# "/dev/nvidia0:        ubuntu     4411 F...m python"; further holders stand on lines of their own, without the device
_FUSER = lazy(
    r"^\s*(?:(?P<node>/dev/nvidia[\w-]*):\s*)?(?P<user>[\w.$+-]{1,40})\s+(?P<pid>\d{1,8})\s+(?P<access>[fFcermn.]{4,6})\s+(?P<name>\S.{0,80}?)\s*$"
)
_FUSER_PLAIN = lazy(r"^\s*(?P<node>/dev/nvidia[\w-]*):(?P<pids>(?:\s+\d{1,8}[a-zA-Z]{0,4})+)\s*$")
_LSOF = lazy(
    r"^\s*(?P<name>\S{1,40})\s+(?P<pid>\d{1,8})\s+(?:\d{1,8}\s+(?:\S{1,20}\s+)?)?(?P<user>[\w.+-]{1,40})\s+(?:mem|\d{1,6}[rwu-]\S*|DEL|txt)\s+.{0,120}?"
    r"(?P<node>/dev/nvidia[\w-]*)"
)
# "[0] GeForce RTX 2080 Ti | 62'C,  98 % | 10989 / 11019 MB | alice(10977M) root(10M)"
_GPUSTAT = lazy(
    r"\[(?P<index>\d{1,2})\]\s+(?P<name>[^|\n]{3,60}?)\s*\|\s*(?P<temp>\d{1,3})\s?(?:'|°)?C\s*,\s*(?P<util>\d{1,3})\s?%[^|\n]{0,60}\|\s*"
    r"(?P<used>\d+)\s*/\s*(?P<total>\d+)\s*(?:MB|MiB)?\s*\|?(?P<who>[^\n]*)"
)
_GPUSTAT_WHO = lazy(r"(?P<user>[\w.-]{1,40}):?(?P<name>[\w.\-]{0,40})(?:/(?P<pid>\d{1,8}))?\((?P<memory>\d+)M\)")
# nvitop: " GPU     PID      USER  GPU-MEM %SM ..." -> "|   0   12345 C    alice 10.2GiB  98 ..."
_NVITOP = lazy(
    r"^\W{0,4}(?P<gpu>\d{1,2})\s+(?P<pid>\d{1,8})\s+(?P<kind>C\+G|C|G|X)\s+(?P<user>\S{1,30})\s+(?P<memory>\d+(?:\.\d+)?)(?P<unit>[MGK]i?B)\s+(?P<rest>.{0,300})"
)
_GONE = lazy(r"No Such Process|\[Not Found\]", re.IGNORECASE)
_NO_SUCH = lazy(r"kill: \(?(?P<pid>\d{1,8})\)?:? ?-? ?No such process", re.IGNORECASE)
_OWN = lazy(r"\d:\d\d\s+(?:e|f)?grep\s")  # the search itself, in the list of ps
_SEARCH = lazy(r"\bps\b[^|\n]{0,60}\|\s*(?:e|f)?grep\s+(?:-\w+\s+)*['\"]?(?P<what>[\w./-]{2,60})")
_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


def _node_index(node: str | None) -> int | None:
    match = re.match(r"/dev/nvidia(\d{1,2})$", node or "")
    return int(match[1]) if match else None


def _holders(evidence: Evidence) -> Iterator[Process]:
    node: str | None = None
    fuser = "fuser" in (evidence.command or evidence.text)
    for number, line in evidence.lines():
        ref = evidence.ref(number, line)
        if match := _FUSER_PLAIN.match(line):
            for word in match["pids"].split():
                pid = re.match(r"\d+", word)
                if pid:
                    yield Process(pid=int(pid[0]), gpu=_node_index(match["node"]), ref=ref)
        elif match := _FUSER.match(line):
            node = match["node"] or node
            if match["node"] or (node and fuser):
                yield Process(
                    pid=int(match["pid"]),
                    gpu=_node_index(node),
                    user=match["user"],
                    name=match["name"].strip(),
                    ref=ref,
                )
        elif "/dev/nvidia" in line and (match := _LSOF.match(line)):
            yield Process(
                pid=int(match["pid"]), gpu=_node_index(match["node"]), user=match["user"], name=match["name"], ref=ref
            )


def _monitors(evidence: Evidence) -> Iterator[tuple[Gpu | None, list[Process]]]:
    """Rows of gpustat (a card and who is on it) and of nvitop (a process)."""
    for number, line in evidence.lines():
        ref = evidence.ref(number, line)
        if match := _GPUSTAT.search(line):
            index = int(match["index"])
            gpu = Gpu(
                index=index,
                name=match["name"].strip(),
                temperature=int(match["temp"]),
                utilization=int(match["util"]),
                memory_used=int(match["used"]),
                memory_total=int(match["total"]),
                ref=ref,
            )
            yield (
                gpu,
                [
                    Process(
                        pid=int(who["pid"]) if who["pid"] else None,
                        gpu=index,
                        user=who["user"],
                        name=who["name"] or None,
                        memory=int(who["memory"]),
                        ref=ref,
                    )
                    for who in _GPUSTAT_WHO.finditer(match["who"])
                ],
            )
        elif match := _NVITOP.match(line):
            memory = int(float(match["memory"]) * _UNITS[match["unit"][0]])
            yield (
                None,
                [
                    Process(
                        pid=int(match["pid"]),
                        gpu=int(match["gpu"]),
                        kind=match["kind"],
                        user=match["user"],
                        memory=memory,
                        name=match["rest"].split("  ")[-1].strip() or None,
                        gone=bool(_GONE.search(match["rest"])),
                        ref=ref,
                    )
                ],
            )


def read(evidence: Evidence) -> Iterable[Fact]:
    """The processes on the GPUs, those that hold the device nodes, and the cards of gpustat."""
    holders = list({(p.pid, p.gpu): p for p in _holders(evidence)}.values())
    found: list[Process] = []
    cards: list[Gpu] = []
    for gpu, processes in _monitors(evidence):
        found += processes
        if gpu:
            cards.append(gpu)
    for match in _NO_SUCH.finditer(evidence.text):
        found.append(Process(pid=int(match["pid"]), gone=True, ref=evidence.ref_at(match.start())))
    if search := _SEARCH.search(evidence.command or ""):
        rows = [line for _, line in evidence.lines() if line.strip() and (evidence.command or "") not in line]
        if rows and all(_OWN.search(line) for line in rows):
            yield Processes(absent=search["what"], refs=(evidence.ref(evidence.first_line, evidence.command or "", "absent"),))
    if cards:
        yield Gpus(gpus=tuple(cards), refs=tuple(g.ref for g in cards if g.ref))
    if found or holders:
        both = (*found, *holders)
        yield Processes(processes=tuple(found), holders=tuple(holders), refs=tuple(p.ref for p in both if p.ref))


def looks_like(evidence: Evidence) -> bool:
    """Whether the output of one of these tools may stand in it."""
    text = evidence.text
    return (
        "/dev/nvidia" in text
        or bool(_SEARCH.search(evidence.command or ""))
        or "No such process" in text
        or "No Such Process" in text
        or bool(_GPUSTAT.search(text))
        or any(_NVITOP.match(line) for line in text.split("\n", 400)[:400])
    )


SOURCES = (
    Source(
        kind="processes",
        read=read,
        looks_like=looks_like,
        gives=(Processes, Gpus),
        settle="sudo fuser -v /dev/nvidia*",
    ),
)
