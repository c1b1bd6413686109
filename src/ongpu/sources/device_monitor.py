"""nvidia-smi dmon and pmon: a card's clocks, heat and use second by second, and the processes on it."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Process, Processes
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_ROWS = 5000
BUSY = 50  # % of SM time from which a row tells the clocks under load
_HEAD = lazy(r"^\s*#\s*(?:Date\s+Time\s+)?gpu\s+(?P<names>\w+(?:\s+[\w/]+)*)\s*$", re.IGNORECASE)
_ROW = lazy(r"^\s*(?:\d{8}\s+[\d:]{8}\s+)?(?P<gpu>\d{1,3})(?P<cells>(?:\s+\S{1,80})+)\s*$")


def _rows(evidence: Evidence) -> Iterator[tuple[int, dict[str, str], Ref]]:
    """(gpu, column -> cell, line) of each row below a head."""
    names: list[str] = []
    for number, line in evidence.lines()[:MAX_ROWS]:
        if head := _HEAD.match(line):
            names = head["names"].lower().split()
        elif names and (row := _ROW.match(line)):
            cells = row["cells"].split()
            if len(cells) >= len(names):
                yield int(row["gpu"]), dict(zip(names, cells, strict=False)), evidence.ref(number, line, "clock_sm")


def _whole(cell: str | None) -> int | None:
    return int(float(cell)) if cell and re.fullmatch(r"\d+(?:\.\d+)?", cell) else None


def read(evidence: Evidence) -> Iterable[Fact]:
    """Per card its busiest moment: the lowest SM clock while at work, beside the highest that was seen at all."""
    cards: dict[int, list[tuple[dict[str, str], Ref]]] = {}
    processes: list[Process] = []
    for index, cells, ref in _rows(evidence):
        if "pid" in cells:
            if cells["pid"].isdigit():
                processes.append(Process(pid=int(cells["pid"]), gpu=index, kind=cells.get("type"), name=cells.get("command"), ref=ref))
        else:
            cards.setdefault(index, []).append((cells, ref))
    gpus = tuple(_card(index, rows) for index, rows in cards.items())
    if gpus:
        yield Gpus(gpus=gpus, refs=tuple(gpu.ref for gpu in gpus if gpu.ref))
    if processes:
        yield Processes(processes=tuple(processes), listed=True, refs=tuple(p.ref for p in processes if p.ref))


def _card(index: int, rows: list[tuple[dict[str, str], Ref]]) -> Gpu:
    busy = [row for row in rows if (_whole(row[0].get("sm")) or 0) >= BUSY]
    cells, ref = min(busy or rows, key=lambda row: _whole(row[0].get("pclk")) or 99_999)
    return Gpu(
        index=index, utilization=_whole(cells.get("sm")), temperature=_whole(cells.get("gtemp") or cells.get("temp")),
        power_draw=float(p) if (p := _whole(cells.get("pwr"))) is not None else None, clock_sm=_whole(cells.get("pclk")),
        clock_sm_max=max((c for row, _ in rows if (c := _whole(row.get("pclk")))), default=None), ref=ref,
    )  # fmt: skip


def looks_like(evidence: Evidence) -> bool:
    """Whether the head of dmon or pmon stands in it."""
    return any(_HEAD.match(line) for _, line in evidence.lines()[:400])


SOURCES = (Source(kind="device-monitor", read=read, looks_like=looks_like, gives=(Gpus, Processes), settle="nvidia-smi dmon -s pucv -c 10"),)
