"""What is so on this machine's GPUs now, from the messages of the sampling child. Pure: time is given, nothing is asked.

A GPU that was seen once is never forgotten: lost, hung or gone, it keeps its index, its UUID and its name.
No row is kept of a GPU that does not answer now, and none of any GPU after a silence: what is stale is never told as so.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from ongpu.facts.sample import COLUMNS, IDENTITY, PLACE
from ongpu.lazy import dataclass, field, field_names, lazy
from ongpu.watch.processes import Child as Child
from ongpu.watch.processes import Proc as Proc
from ongpu.watch.processes import Seen, look, on_gpu

OK, LOST, HUNG, ERROR, DENIED, GONE, UNKNOWN = "ok", "lost", "hung", "error", "denied", "gone", "unknown"
# nvml.h: nvmlReturn_t. All other codes for a whole GPU: "error".
CONDITIONS = {4: DENIED, 15: LOST, 16: LOST}
STARTING, SILENT, HANGS = "starting", "no answer", "hangs"  # reasons of ours; all others are NVML's words
MOST_GPUS, MOST_LINES, MOST_EVENTS = 1024, 1000, 200
LINES_TOLD = 100  # of the log, in JSON
PATIENCE = 3.5  # seconds, or three intervals, whichever is longer, without a sample: then nothing is known any more
RESTART = 1.0  # seconds that a new child gets to go on where one GPU hung; a hang is told 2 s after the tick, 3 s after the last sample
SELDOM = {"pcie_tx": 120.0, "pcie_rx": 120.0}  # seconds for which the last answer to a question that is asked seldom is told
_XID = lazy(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]{7,16})\): (?P<code>\d{1,5})")
_FUNCTION = lazy(r"\.[0-7]$")


@dataclass
class GpuState:
    """One GPU, for as long as the agent lives."""

    index: int  # NVML's; of one that is gone, the last it had, or the next free one where another took it
    uuid: str | None = None
    name: str | None = None
    bus: str | None = None
    condition: str = UNKNOWN  # ok, lost, hung, error, denied, gone (the driver counts fewer), unknown (no answer yet, or no more)
    code: int | None = None  # NVML's, of the condition
    why: dict[str, int] = field(default_factory=dict)  # column, or "processes" -> NVML's code, for what is not told
    identity: dict[str, Any] = field(default_factory=dict)  # facts.sample.IDENTITY
    row: list[int | None] | None = None  # facts.sample.COLUMNS; None while the condition is not ok
    since: float = 0.0  # when the condition began
    seen: float | None = None  # when it last answered
    processes: list[Proc] = field(default_factory=list)  # [] and "processes" in why: not told
    xids: dict[int, int] = field(default_factory=dict)  # code -> how often since the agent started
    seldom: dict[str, tuple[float, int]] = field(default_factory=dict)  # column -> when, value: of questions asked seldom
    hung_in: str | None = None  # the NVML function that does not return
    counted: dict[str, int] = field(default_factory=dict)  # "e79": how often NVML told of that Xid, "l79": the kernel's log

    def value(self, column: str) -> int | None:
        """What the column says now; None where that is not told."""
        if self.row is None:
            return None
        told = self.row[PLACE[column]]
        if told is None and column in self.seldom:
            at, value = self.seldom[column]
            return value if self.seen is not None and 0 <= self.seen - at < SELDOM[column] else None
        return told

    def count_xid(self, source: str, code: int) -> None:
        """The log ("l") and NVML's events ("e") tell of the same thing: what the one missed, the other has."""
        self.counted[f"{source}{code}"] = self.counted.get(f"{source}{code}", 0) + 1
        self.xids[code] = max(self.counted.get(f"{one}{code}", 0) for one in "el")

    def set(self, condition: str, code: int | None, now: float) -> bool:
        """Whether that is news. A condition other than "ok" leaves no row and no processes."""
        news = (condition, code) != (self.condition, self.code)
        if condition != self.condition:
            self.since = now
        self.condition, self.code = condition, code
        if condition != HUNG:
            self.hung_in = None
        if condition != OK:
            self.row, self.processes, self.seldom = None, [], {}
        return news


@dataclass
class State:
    """All GPUs, the driver and the kernel's log. Times: seconds since the epoch, as given by the caller."""

    interval: float = 1.0  # seconds between two samples
    up: bool = False  # samples come
    reason: str = STARTING  # why not; "" while up
    code: int | None = None  # NVML's, of the driver as a whole
    driver: str | None = None
    cuda: int | None = None
    count: int | None = None  # GPUs by the driver's count; `gpus` may know more
    gpus: dict[int, GpuState] = field(default_factory=dict)  # by index, in order
    time: float | None = None  # of the last sample, by the child's clock
    samples: int = 0
    late: int = 0  # samples that were due and did not come
    restarts: int = 0  # of the child, after its first start
    log: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    log_problem: str | None = None  # why the kernel's log is not read
    events: deque[tuple[float, int | None, int]] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))  # NVML's: when, GPU, Xid
    full: str | None = None  # the doctor's own NVML evidence
    full_time: float | None = None
    clock: float | None = None  # the caller's time at the last call
    silence: float = 0.0  # seconds without a sample, as far as we were there
    started: float | None = None
    number: int | None = None  # of the last sample
    inits: int = 0
    hosts: dict[int, Seen] = field(default_factory=dict)  # by pid

    def gpu(self, index: int) -> GpuState:
        """The GPU of that index; a new one where none was known."""
        if index not in self.gpus:
            self.gpus[index] = GpuState(index, since=self.clock or 0.0)
            self.gpus = dict(sorted(self.gpus.items()))
        return self.gpus[index]

    def take(self, message: Mapping[str, Any], now: float) -> list[str]:
        """What a message changed: "init", "gpu:3", "row", "proc", "xid:3:79", "log", "full", "hung:3", "down", "up", ..."""
        self._pass(now)
        if self.started is None:
            self.started = now
        kind = message.get("k")
        method = getattr(self, f"_take_{kind}", None) if isinstance(kind, str) and kind.isidentifier() else None
        found: list[str] = method(message, now) if method else []
        return found

    def tick(self, now: float) -> list[str]:
        """What the time that passed changed: a silence. To be called some times a second.

        Steps of the clock count as at most half of our patience: one jump is no silence, and neither is a sleep of ours.
        """
        self._pass(now)
        if self.silence < self.patience or self.reason == SILENT or (not self.up and self.reason != STARTING):
            return []
        return self._down(SILENT, None, now)

    @property
    def patience(self) -> float:
        """Seconds without a sample after which nothing is known any more."""
        return max(3 * self.interval, PATIENCE)

    def _pass(self, now: float) -> None:
        if self.clock is not None:
            self.silence += min(max(now - self.clock, 0.0), self.patience / 2)
        self.clock = now

    def _down(self, reason: str, code: int | None, now: float) -> list[str]:
        found = ["down"] if self.up or (reason, code) != (self.reason, self.code) else []
        self.up, self.reason, self.code = False, reason, code
        for gpu in self.gpus.values():
            if gpu.condition != GONE and gpu.set(UNKNOWN, code, now):
                found.append(f"gpu:{gpu.index}")
        return found

    def _take_init(self, message: Mapping[str, Any], now: float) -> list[str]:
        self.inits += 1
        self.restarts = self.inits - 1
        self.number = None
        code = message.get("code")
        if code:
            return ["init", *self._down(str(message.get("error")), code, now)]
        self.silence = 0.0
        self.driver, self.cuda = message.get("driver") or self.driver, message.get("cuda") or self.cuda
        return ["init", *self._counted(message.get("count"), now)]

    def _counted(self, count: Any, now: float) -> list[str]:
        """Fewer than we knew: the last ones are gone, until the UUIDs say which."""
        if not isinstance(count, int) or not 0 <= count <= MOST_GPUS:
            return []
        self.count = count
        for index in range(count):
            self.gpu(index)
        return [f"gpu:{gpu.index}" for gpu in self.gpus.values() if gpu.index >= count and gpu.set(GONE, None, now)]

    def _take_gpu(self, message: Mapping[str, Any], now: float) -> list[str]:
        index, uuid = message.get("i"), message.get("uuid")
        if not isinstance(index, int) or not 0 <= index < MOST_GPUS:
            return []
        here = self.gpus.get(index)
        if uuid and (here is None or here.uuid != uuid):
            here = self._moved(index, uuid, now)
        gpu = here or self.gpu(index)
        gpu.uuid, gpu.name = uuid or gpu.uuid, message.get("name") or gpu.name
        gpu.bus = message.get("bus") or gpu.bus
        told = {name: message[name] for name in IDENTITY if message.get(name) is not None}
        if uuid or told:
            gpu.identity = told
        if gpu.condition == GONE:
            gpu.set(UNKNOWN, None, now)
        return [f"gpu:{index}"]

    def _moved(self, index: int, uuid: str, now: float) -> GpuState:
        """The GPU of that UUID, brought to its present index; the one that stood there is gone, until its own line comes."""
        old = next((gpu for gpu in self.gpus.values() if gpu.uuid == uuid), None)
        if old:
            del self.gpus[old.index]
        here = self.gpus.pop(index, None)
        if here and here.uuid:
            free = max(self.count or 0, index + 1)
            while free in self.gpus:
                free += 1
            here.index = free
            here.set(GONE, None, now)
            self.gpus[free] = here
        new = old or (here if here and not here.uuid else GpuState(index, since=now))
        new.index = index
        self.gpus[index] = new
        self.gpus = dict(sorted(self.gpus.items()))
        return new

    def _settle(self, count: int) -> None:
        """All have said who they are: those that are gone follow the others."""
        gone = [gpu for gpu in self.gpus.values() if gpu.index >= count]
        for index, gpu in enumerate(gone, count):
            gpu.index = index
        self.gpus = {gpu.index: gpu for gpu in self.gpus.values()}

    def _take_s(self, message: Mapping[str, Any], now: float) -> list[str]:
        rows = message.get("g")
        if not isinstance(rows, list) or len(rows) > MOST_GPUS:
            return []
        found = ["row"]
        if self.number is None:
            self._settle(len(rows))
        if not self.up:
            self.up, self.reason, self.code = True, "", None
            found.append("up")
        self.silence = 0.0
        self.samples += 1
        number, time = message.get("n"), message.get("t")
        if isinstance(number, int):
            if self.number is not None and number > self.number:
                self.late += number - self.number - 1
            self.number = number
        self.time = time if isinstance(time, (int, float)) else now
        if len(rows) != self.count:
            found += self._counted(len(rows), now)
        for index, row in enumerate(rows):
            gpu = self.gpus.get(index) or self.gpu(index)
            if type(row) is list and len(row) == len(COLUMNS):
                if gpu.condition != OK:
                    gpu.set(OK, None, now)
                    found.append(f"gpu:{index}")
                gpu.row, gpu.seen = row, now
                for name in SELDOM:
                    value = row[PLACE[name]]
                    if value is not None:
                        gpu.seldom[name] = (now, value)
            elif type(row) is int:
                if gpu.set(CONDITIONS.get(row, ERROR), row, now):
                    found.append(f"gpu:{index}")
            elif gpu.condition != HUNG and gpu.set(UNKNOWN, None, now):  # not asked
                found.append(f"gpu:{index}")
        return found

    def _take_why(self, message: Mapping[str, Any], now: float) -> list[str]:
        index, codes = message.get("i"), message.get("codes")
        if not isinstance(index, int) or not isinstance(codes, dict) or not 0 <= index < MOST_GPUS:
            return []
        gpu = self.gpu(index)
        gpu.why = codes
        if "processes" in codes:
            gpu.processes = []
        return [f"gpu:{index}"]

    def _take_p(self, message: Mapping[str, Any], now: float) -> list[str]:
        hosts, listed = message.get("h") or {}, message.get("g") or {}
        at = float(message.get("c") or message.get("t") or now)  # c: a clock that does not jump
        for pid, host in hosts.items():
            self.hosts[int(pid)] = look(self.hosts.get(int(pid)), host, at)
        for index, rows in listed.items():
            gpu = self.gpus.get(int(index))
            if gpu and gpu.condition == OK:
                gpu.processes = on_gpu(rows or (), self.hosts)
        alive = {process.pid for gpu in self.gpus.values() for process in gpu.processes}
        if len(alive) != len(self.hosts):
            self.hosts = {pid: seen for pid, seen in self.hosts.items() if pid in alive}
        return ["proc"]

    def _take_full(self, message: Mapping[str, Any], now: float) -> list[str]:
        self.full, self.full_time = str(message.get("text")), now
        return ["full"]

    def _take_xid(self, message: Mapping[str, Any], now: float) -> list[str]:
        index, code = message.get("i"), message.get("code")
        if not isinstance(code, int):
            return []
        self.events.append((message.get("t") or now, index, code))
        if isinstance(index, int) and 0 <= index < MOST_GPUS:
            self.gpu(index).count_xid("e", code)
        return [f"xid:{index}:{code}"]

    def _take_log(self, message: Mapping[str, Any], now: float) -> list[str]:
        if "error" in message:
            self.log_problem = str(message["error"])
            return ["log"]
        text, time = str(message.get("text", "")), float(message.get("t") or now)
        self.log_problem = None
        self.log.append((time, text))
        told = _XID.search(text)
        if told and time >= (self.started or now) - 1.0:
            code, place = int(told["code"]), bus(told["bus"])
            for gpu in list(self.gpus.values()):
                if gpu.bus and bus(gpu.bus) == place:
                    gpu.count_xid("l", code)
                    return ["log", f"xid:{gpu.index}:{code}"]
        return ["log"]

    def _take_hung(self, message: Mapping[str, Any], now: float) -> list[str]:
        index, call = message.get("i"), str(message.get("call") or "")
        if not isinstance(index, int) or not 0 <= index < MOST_GPUS:
            return self._down(f"{call or 'NVML'} {HANGS}", None, now)
        gpu = self.gpu(index)
        self.silence = min(self.silence, self.patience - RESTART)
        gpu.set(HUNG, None, now)
        gpu.hung_in = call or None
        return [f"gpu:{index}", f"hung:{index}"]

    def _take_bye(self, message: Mapping[str, Any], now: float) -> list[str]:
        return self._down(str(message.get("error") or SILENT), message.get("code"), now)

    def as_json(self) -> str:
        """What others may read of it, as one JSON object: the fields, `gpus` as a list, the last lines of the log, not `full`."""
        hidden = ("hosts", "clock", "silence", "number", "inits", "full")
        plain = {name: getattr(self, name) for name in field_names(self) if name not in hidden}
        log = list(self.log)[-LINES_TOLD:]
        return json.dumps({**plain, "log": log, "events": list(self.events), "gpus": list(self.gpus.values())}, default=vars)

    @classmethod
    def from_json(cls, text: str) -> "State":
        """The state that `as_json` wrote, to be read; for a state that goes on, start a new one."""
        plain = json.loads(text)
        gpus = [_gpu(item) for item in plain.pop("gpus")]
        log = deque(((t, line) for t, line in plain.pop("log")), maxlen=MOST_LINES)
        events = deque(((t, i, code) for t, i, code in plain.pop("events")), maxlen=MOST_EVENTS)
        known = {name: value for name, value in plain.items() if name in field_names(cls)}
        return cls(**known, gpus={gpu.index: gpu for gpu in gpus}, log=log, events=events)


def _gpu(item: dict[str, Any]) -> GpuState:
    processes = [Proc(**{**one, "children": [Child(**child) for child in one["children"]]}) for one in item.pop("processes")]
    xids = {int(code): count for code, count in item.pop("xids").items()}
    seldom = {name: (at, value) for name, (at, value) in item.pop("seldom").items()}
    return GpuState(**item, processes=processes, xids=xids, seldom=seldom)


def bus(place: str) -> str:
    """A place on the PCI bus in one spelling: "00000000:1A:00.0", "0000:1a:00" -> "0:1a:00"."""
    head, _, rest = _FUNCTION.sub("", place.lower()).partition(":")
    return f"{head.lstrip('0') or '0'}:{rest}"
