"""The last minute of what the sampling child told, kept bounded, as the evidence from which the verdicts are judged.

One value a look in each column; only SELDOM ones hold what was told in the last three minutes, without gaps.
"""

import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any

from ongpu.facts.sample import COLUMNS, IDENTITY, PLACE
from ongpu.knowledge.median import median
from ongpu.lazy import dataclass, field
from ongpu.model import Evidence
from ongpu.watch.processes import Seen, look, rate

LENGTH = 60.0  # seconds: long enough for a dozen looks at the processes, short enough to be about now
SPACING = 0.9  # seconds between two rows that are kept, the newest apart: a verdict wants no more, and 64 GPUs at 10 Hz would take 30 MB
MOST_ROWS = 120  # of one GPU
MOST_LOOKS = 60
SELDOM = ("pcie_tx", "pcie_rx")  # NVML measures 20 ms for each, so they are asked seldom: these reach back further
SELDOM_LENGTH, MOST_SELDOM = 180.0, 32
MOST_GPUS, MOST_PROCESSES, MOST_RANKS = 1024, 4096, 16
STILL = 1  # percent of utilisation that a desktop or a monitor makes
QUIET = 0.05  # cores: facts/waiting.py says why
ORIGIN = "watch"


@dataclass
class _Gpu:
    uuid: str | None = None
    name: str | None = None
    identity: dict[str, Any] = field(default_factory=dict)
    rows: deque[tuple[float, list[Any]]] = field(default_factory=lambda: deque(maxlen=MOST_ROWS))
    seldom: dict[str, deque[tuple[float, Any]]] = field(default_factory=lambda: {name: deque(maxlen=MOST_SELDOM) for name in SELDOM})
    processes: list[list[Any]] = field(default_factory=list)
    refused: bool = False  # its list of processes
    first: float | None = None  # when its utilisation was first told, since it last was not
    busy: float | None = None  # when it was last above STILL


@dataclass
class _Process:
    """A program, wherever it is: its looks are (time, Seen)."""

    looks: deque[tuple[float, Seen]] = field(default_factory=lambda: deque(maxlen=MOST_LOOKS))
    since: float = 0.0  # when it was last seen at work, else first seen


class Window:
    """Give it each message of the child (`take`), and ask for the evidence. Times are the child's own, so that replays are the same."""

    def __init__(self, length: float = LENGTH) -> None:
        self.length = length
        self.gpus: dict[int, _Gpu] = {}
        self.programs: dict[int, _Process] = {}
        self.mem: dict[tuple[int, int], deque[tuple[float, Any, Any]]] = {}  # (GPU, pid) -> time, MiB, sm
        self.machine: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=MOST_LOOKS)
        self.time: float | None = None

    def take(self, message: Mapping[str, Any], now: float) -> None:
        """What a message adds. now: seconds since the epoch, for messages without a time of their own."""
        time = message.get("t")
        at = float(time) if isinstance(time, (int, float)) else now
        kind = message.get("k")
        if self.time is not None and at < self.time - self.length:  # the clock was set back: what was kept has no place in it
            self.__init__(self.length)  # type: ignore[misc]
        if kind == "gpu":
            self._identity(message)
        elif kind == "why":
            gpu, codes = self._gpu(message.get("i")), message.get("codes")
            if gpu and isinstance(codes, dict):
                gpu.refused = "processes" in codes
        elif kind == "s":
            self._rows(message.get("g"), at)
        elif kind == "p":
            self._programs(message, at)
        elif kind == "bye":  # the driver went: what was before is of another time
            self.__init__(self.length)  # type: ignore[misc]

    def _gpu(self, index: Any) -> _Gpu | None:
        if not isinstance(index, int) or not 0 <= index < MOST_GPUS:
            return None
        return self.gpus.setdefault(index, _Gpu())

    def _identity(self, message: Mapping[str, Any]) -> None:
        gpu, uuid = self._gpu(message.get("i")), message.get("uuid")
        if gpu is None:
            return
        if uuid and gpu.uuid and uuid != gpu.uuid:  # another card has this index now
            gpu = self.gpus[message["i"]] = _Gpu()
        gpu.uuid, gpu.name = uuid or gpu.uuid, message.get("name") or gpu.name
        gpu.identity = {name: message[name] for name in IDENTITY if message.get(name) is not None} or gpu.identity

    def _rows(self, rows: Any, at: float) -> None:
        if not isinstance(rows, list):
            return
        self.time = at
        for index in [known for known in self.gpus if known >= len(rows)]:
            del self.gpus[index]
        for index, row in enumerate(rows[:MOST_GPUS]):
            gpu = self._gpu(index)
            if gpu is None:
                continue
            if not isinstance(row, list) or len(row) != len(COLUMNS):  # lost, hung, refused: what was before is of another time
                self.gpus[index] = _Gpu(gpu.uuid, gpu.name, gpu.identity, refused=gpu.refused)
                continue
            if len(gpu.rows) > 1 and at - gpu.rows[-2][0] < SPACING:
                gpu.rows.pop()
            gpu.rows.append((at, row))
            for name, values in gpu.seldom.items():
                if row[PLACE[name]] is not None:
                    values.append((at, row[PLACE[name]]))
            use = row[0]
            if not isinstance(use, (int, float)):
                gpu.first = gpu.busy = None
            else:
                gpu.first = at if gpu.first is None else gpu.first
                gpu.busy = at if use > STILL else gpu.busy

    def _programs(self, message: Mapping[str, Any], at: float) -> None:
        machine, hosts, listed = (_object(message.get(key)) for key in ("m", "h", "g"))
        if machine:
            self.machine.append((at, machine))
        here: set[int] = set()
        for key, rows in listed.items():
            gpu = self._gpu(int(key)) if str(key).isdecimal() else None
            if gpu is None:
                continue
            told = rows[:MOST_PROCESSES] if isinstance(rows, list) else []
            gpu.processes = [row for row in told if isinstance(row, list) and len(row) == 4 and isinstance(row[0], int)]
            for pid, mem, _, sm in gpu.processes:
                here.add(pid)
                self.mem.setdefault((int(key), pid), deque(maxlen=MOST_LOOKS)).append((at, mem, sm))
        for key, host in hosts.items():
            pid = int(key) if str(key).isdecimal() else -1
            if pid in here and isinstance(host, dict):
                self._look(pid, host, at)
        self.programs = {pid: program for pid, program in self.programs.items() if pid in here}
        self.mem = {place: looks for place, looks in self.mem.items() if place[1] in here}

    def _look(self, pid: int, host: Mapping[str, Any], at: float) -> None:
        program = self.programs.get(pid)
        before = program.looks[-1][1] if program and program.looks else None
        if program is None or before is None or host.get("start") != before.host.get("start"):
            program = self.programs[pid] = _Process(since=at)
            before = None
        seen = look(before, host, at)
        program.looks.append((at, seen))
        used = seen.rates.get("cpu")
        busy = (used or 0) + sum(child.cpu_share or 0 for child in seen.children)
        if used is None or busy > QUIET:
            program.since = at

    def evidence(self, only: Collection[int] | None = None) -> Evidence | None:
        """The window as JSON: each GPU and each process on a line of its own. None while no GPU has answered.

        only: the GPUs (indices) that are told of; None: all. Give it to the engine before the doctor's own NVML evidence: where both
        tell the same of a card, the first has the word, and that one is of a single look, up to a minute old.
        """
        if self.time is None:
            return None
        start = self.time - self.length
        gpus = [(index, gpu) for index, gpu in sorted(self.gpus.items()) if gpu.rows and (only is None or index in only)]
        if not gpus:
            return None
        first = min((t for _, gpu in gpus for t, _ in gpu.rows if t >= start), default=self.time)
        interval = (self.time - first) / max(1, max(len(gpu.rows) for _, gpu in gpus) - 1)
        head = json.dumps({"from": round(first, 3), "to": round(self.time, 3), "interval": round(interval, 3)})
        cards = ",\n".join(json.dumps(self._card(index, gpu, start)) for index, gpu in gpus)
        ranks = self._ranks(start)
        programs = ",\n".join(
            json.dumps(self._program(index, row, start, ranks), ensure_ascii=False) for index, gpu in gpus for row in gpu.processes
        )  # fmt: skip
        text = f'{head[:-1]}, "host": {json.dumps(self._host(start))}, "gpus": [\n{cards}\n], "processes": [\n{programs}\n]}}\n'
        return Evidence("trend", text, ORIGIN)

    def _card(self, index: int, gpu: _Gpu, start: float) -> dict[str, Any]:
        rows = [(t, row) for t, row in gpu.rows if t >= start]
        now = self.time or 0.0
        idle = None if gpu.first is None else now - (gpu.first if gpu.busy is None else gpu.busy)
        told = {"i": index, "uuid": gpu.uuid, "name": gpu.name, "identity": gpu.identity, "processes": not gpu.refused}
        columns = {name: [row[place] for _, row in rows] for place, name in enumerate(COLUMNS)}
        columns |= {name: [value for t, value in values if t >= start + self.length - SELDOM_LENGTH] for name, values in gpu.seldom.items()}
        columns = {name: values for name, values in columns.items() if any(value is not None for value in values)}
        return {**told, "idle": None if idle is None else round(idle, 1), "t": [round(t, 2) for t, _ in rows], **columns}

    def _job(self, pid: int) -> str | None:
        """What the processes of one job have in common; None where that is not known."""
        program = self.programs.get(pid)
        host = program.looks[-1][1].host if program and program.looks else {}
        job, command = host.get("job"), host.get("command")
        return job if isinstance(job, str) else f"{host.get('user')}: {command}" if isinstance(command, str) else None

    def _ranks(self, start: float) -> dict[str, dict[int, dict[str, Any]]]:
        """Of each job that is on several GPUs: these, by index."""
        jobs: dict[str, set[int]] = {}
        for index, pid in self.mem:
            if index in self.gpus and (job := self._job(pid)) is not None:
                jobs.setdefault(job, set()).add(index)
        each = {index: self._rank(index, start) for here in jobs.values() if len(here) > 1 for index in sorted(here)}
        return {job: {index: each[index] for index in sorted(here)} for job, here in jobs.items() if len(here) > 1}

    def _rank(self, index: int, start: float) -> dict[str, Any]:
        """How busy a GPU was, for another's sake: average utilisation, median power as a share of its default limit."""
        gpu = self.gpus[index]
        rows = [row for t, row in gpu.rows if t >= start]
        use, power = ([v for row in rows if isinstance(v := row[PLACE[name]], (int, float))] for name in ("util", "power"))
        limit = gpu.identity.get("power_default") or gpu.identity.get("power_limit")
        share = median(power) / limit if power and limit and isinstance(limit, (int, float)) else None
        return {"gpu": index, "util": round(sum(use) / len(use), 1) if use else None, "power": None if share is None else round(share, 3)}

    def _program(self, index: int, row: list[Any], start: float, ranks: Mapping[str, Mapping[int, Any]]) -> dict[str, Any]:
        pid, _, kind, _ = row
        looks = [(at, mem, sm) for at, mem, sm in self.mem.get((index, pid), ()) if at >= start]
        found = {"pid": pid, "gpu": index, "kind": kind, "t": [round(at, 2) for at, _, _ in looks], "mem": [mem for _, mem, _ in looks]}
        if any(sm is not None for _, _, sm in looks):
            found["sm"] = [sm for _, _, sm in looks]
        program = self.programs.get(pid)
        seen = [one for at, one in program.looks if at >= start] if program else []
        if not program or not seen:
            return found
        host = seen[-1].host
        rates = {name: [_round(one.rates.get(name)) for one in seen] for name in ("cpu", "main", "read", "rchar")}
        found |= {name: values for name, values in rates.items() if any(value is not None for value in values)}
        found |= {name: host[name] for name in ("user", "command", "job") if isinstance(host.get(name), str)}
        if others := [told for other, told in ranks.get(self._job(pid) or "", {}).items() if other != index]:
            found["ranks"] = others[:MOST_RANKS]
        quiet, own = round((self.time or 0.0) - program.since, 1), {pid for _, pid in self.mem}
        return {**found, "state": [one.host.get("state") for one in seen], "quiet": quiet, "workers": _workers(seen, own)}

    def _host(self, start: float) -> dict[str, Any]:
        looks = [(at, told) for at, told in self.machine if at >= start]
        if not looks:
            return {}
        last = looks[-1][1]
        found = {name: last[name] for name in ("cores", "load", "mem_available") if isinstance(last.get(name), (int, float))}
        pairs = list(pairwise(looks))
        for name in ("busy", "iowait", "net_rx"):
            values = [_round(rate(new.get(name), old.get(name), at - before)) for (before, old), (at, new) in pairs]
            if any(value is not None for value in values):
                found[name] = values
        return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _workers(seen: Iterable[Seen], ranks: Collection[int]) -> list[dict[str, Any]]:
    """Each child that lives now and is on no GPU itself, with one value a look; None where it was not seen."""
    looks = list(seen)
    names = {child.pid: child.name for child in looks[-1].children if child.pid not in ranks}
    found = []
    for pid, name in names.items():
        mine = [next((child for child in one.children if child.pid == pid), None) for one in looks]
        row: dict[str, Any] = {"pid": pid, "name": name, "cpu": [_round(child.cpu_share if child else None) for child in mine]}
        row["state"] = [child.state if child else None for child in mine]
        reads = [_round(child.read_rate if child else None) for child in mine]
        found.append({**row, "read": reads} if any(value is not None for value in reads) else row)
    return found


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3) if value < 1000 else float(round(value))
