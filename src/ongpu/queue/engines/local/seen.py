"""What the messages of the sampling child add up to for the queue: the lines of look.py. Pure: messages and the time in, a line out.

Smaller than the watch's State, and for another reader: it keeps what a placement needs, and calls unknown what it was not told of late.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.hosts.nvml import ORIGIN
from ongpu.lazy import dataclass, field, lazy
from ongpu.model import Evidence
from ongpu.queue.engines.local.cards import NOT_JUDGED

Message = Mapping[str, Any]
OK, LOST, GONE, HUNG, ERROR, DENIED, UNKNOWN = "ok", "lost", "gone", "hung", "error", "denied", "unknown"
CODES = {4: DENIED, 15: LOST, 16: LOST}  # nvml.h: nvmlReturn_t; all others of a whole GPU: ERROR
SLUGS = {  # what a GPU is called that does not answer, until the gate knows better
    LOST: "gpu-fell-off-bus", GONE: "gpu-fell-off-bus", HUNG: "driver-hung", ERROR: "gpu-answers-with-error",
    DENIED: "device-permission-denied", UNKNOWN: "gpu-silent",
}  # fmt: skip
SILENCE = 5.0  # seconds without a sample after which nothing is known any more
MOST_GPUS, MOST_XIDS, MOST_LINES, MOST_PROCESSES = 1024, 16, 50, 256
RECENT = 600.0  # seconds for which an Xid is told
SAME = 5.0  # seconds within which the kernel's log and NVML's events tell of one Xid
SLOW = 120.0  # seconds for which the traffic on the bus, asked seldom, is told
_XID = lazy(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]{7,16})\): (?P<code>\d{1,5})")
STARTING = ("starting", "the driver has not answered yet", "驱动尚未应答")
HANGS = ("driver-hung", "the driver does not answer", "驱动无应答")


@dataclass
class Device:
    """One GPU, for as long as the looker lives."""

    index: int
    uuid: str = ""
    name: str = ""
    bus: str = ""
    memory: int | None = None
    mig: bool = False
    how: str = UNKNOWN
    changed: float = 0.0  # when `how` did, by the clock of `take`
    row: list[int | None] | None = None
    pcie: list[int | None] = field(default_factory=list)
    pcie_at: float = 0.0
    procs: list[list[Any]] = field(default_factory=list)
    xids: deque[tuple[float, int, str]] = field(default_factory=lambda: deque(maxlen=MOST_XIDS))  # when, code, who told

    @property
    def key(self) -> str:
        """Its UUID, or its place where it never told one."""
        return self.uuid or f"gpu:{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says of one GPU. words: English, Chinese."""

    unfit: str | None = None
    words: tuple[str, str] | None = None
    capability: str | None = None
    near: tuple[str, ...] = ()
    partitioned: bool = False
    slices: tuple[Mapping[str, Any], ...] = ()
    gone: frozenset[int] = frozenset()  # processes that the driver lists and that are no more


class Seen:
    """All GPUs of the machine. start: the looker's, seconds since the epoch: Xids and lines from before are no news."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.devices: list[Device] = []
        self.why: tuple[str, str, str] | None = STARTING
        self.driver: tuple[int, str] | None = None  # what NVML's start says, where it fails: code, words
        self.full, self.full_at = "", 0.0
        self.heard: float | None = None  # the last sample, by the clock of `take`
        self.at = start  # its own time, seconds since the epoch
        self.log: deque[tuple[float, str]] = deque(maxlen=MOST_LINES)
        self.hosts: dict[int, Mapping[str, Any]] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.judged = float("-inf")  # when the evidence behind them came
        self.machine: tuple[str, str, str] | None = None  # what the gate says of a machine whose driver is down
        self.incidents: Mapping[str, str] = {}  # UUID -> slug

    def take(self, message: Message, now: float) -> None:
        """One message. now: seconds of a clock that does not jump."""
        method = {
            "init": self._init, "gpu": self._gpu, "s": self._sample, "p": self._processes, "full": self._full, "xid": self._event,
            "log": self._line, "hung": self._hung, "bye": self._bye,
        }.get(str(message.get("k")))  # fmt: skip
        if method:
            method(message, now)

    def tick(self, now: float) -> None:
        """Nothing came: after some silence nothing is known any more."""
        if self.heard is not None and now - self.heard >= SILENCE:
            self._down(now, HANGS)

    # --- messages

    def _down(self, now: float, why: tuple[str, str, str], driver: tuple[int, str] | None = None) -> None:
        self.why, self.driver, self.heard = why, driver, None
        for device in self.devices:
            if device.how != GONE:
                _set(device, UNKNOWN, now)

    def _init(self, message: Message, now: float) -> None:
        code, error = message.get("code"), str(message.get("error") or "")
        self.driver = None
        if isinstance(code, int) and code:
            self._down(now, ("nvml-init-failed", f"NVML does not start: {error}", f"NVML 无法启动：{error}"), (code, error))

    def _gpu(self, message: Message, now: float) -> None:
        index, uuid = message.get("i"), message.get("uuid")
        if not isinstance(index, int) or not 0 <= index < MOST_GPUS:
            return
        here = self._at(index)
        if isinstance(uuid, str) and uuid and (here is None or here.uuid != uuid):
            here = self._moved(here, uuid, index, now)
        if here is None:
            here = Device(index)
            self.devices.append(here)
        here.uuid = uuid if isinstance(uuid, str) and uuid else here.uuid
        for name in ("name", "bus"):
            if isinstance(told := message.get(name), str):
                setattr(here, name, told)
        if isinstance(total := message.get("mem_total"), int):
            here.memory = total
        if isinstance(mig := message.get("mig"), bool):
            here.mig = mig
        self.devices.sort(key=lambda device: (device.index < 0, device.index))

    def _moved(self, here: Device | None, uuid: str, index: int, now: float) -> Device | None:
        """The GPU of that UUID at its new place; the one that stood there is gone, until it says where it is. None: a new one."""
        known = next((device for device in self.devices if device.uuid == uuid), None)
        if here and here.uuid:
            here.index = -1
            _set(here, GONE, now)
            here = None
        elif here and known:  # it stood there without a name
            self.devices.remove(here)
        if known:
            known.index = index
        return known or here

    def _at(self, index: int) -> Device | None:
        return next((device for device in self.devices if device.index == index), None)

    def _sample(self, message: Message, now: float) -> None:
        rows = message.get("g")
        if not isinstance(rows, list) or len(rows) > MOST_GPUS:
            return
        self.why, self.heard, self.at = None, now, _time(message, self.at)
        for index, row in enumerate(rows):
            device = self._at(index)
            if device is None:
                device = Device(index)
                self.devices.append(device)
            if isinstance(row, list) and len(row) == len(COLUMNS):
                _set(device, OK, now)
                _measured(device, row, now)
            elif isinstance(row, int):
                _set(device, CODES.get(row, ERROR), now)
            elif device.how != HUNG:  # not asked
                _set(device, UNKNOWN, now)
        for device in self.devices:
            if device.index >= len(rows):
                _set(device, GONE, now)

    def _processes(self, message: Message, now: float) -> None:
        listed, hosts = message.get("g"), message.get("h")
        if isinstance(hosts, dict):
            self.hosts = {int(pid): about for pid, about in hosts.items() if str(pid).isdecimal() and isinstance(about, dict)}
        for index, rows in listed.items() if isinstance(listed, dict) else ():
            device = self._at(int(index)) if str(index).isdecimal() else None
            if device and device.how == OK and isinstance(rows, list):
                rows = rows[:MOST_PROCESSES]
                device.procs = [row for row in rows if isinstance(row, list) and len(row) == 4 and isinstance(row[0], int)]

    def _full(self, message: Message, now: float) -> None:
        self.full, self.full_at = str(message.get("text") or ""), now

    def _event(self, message: Message, now: float) -> None:
        index, code = message.get("i"), message.get("code")
        device = self._at(index) if isinstance(index, int) else None
        if device and isinstance(code, int):
            _xid(device, _time(message, self.start), code, "e")

    def _line(self, message: Message, now: float) -> None:
        text, at = message.get("text"), _time(message, 0.0)
        if not isinstance(text, str) or at < self.start - 1.0:
            return
        self.log.append((at, text[:1000]))
        told = _XID.search(text)
        device = next((device for device in self.devices if told and device.bus and bus(device.bus) == bus(told["bus"])), None)
        if told and device:
            _xid(device, at, int(told["code"]), "l")

    def _hung(self, message: Message, now: float) -> None:
        index = message.get("i")
        if not isinstance(index, int):
            self._down(now, HANGS)
            return
        if self.heard is not None:
            self.heard = now  # the others are asked by a new child, which takes a moment
        device = self._at(index)
        if device is None and 0 <= index < MOST_GPUS:  # it hung before it said who it is
            device = Device(index)
            self.devices.append(device)
        if device:
            _set(device, HUNG, now)

    def _bye(self, message: Message, now: float) -> None:
        code, error = message.get("code"), str(message.get("error") or "")
        if isinstance(code, int):
            self._down(now, ("nvml-init-failed", f"the driver went away: {error}", f"驱动已离线：{error}"), (code, error))
        else:
            self._down(now, HANGS)

    # --- what is judged, and told

    def evidence(self) -> Evidence | None:
        """What NVML says, as the doctor reads it; None: nothing to judge yet."""
        if self.driver:
            code, words = self.driver
            return Evidence("nvml", "\n".join(map(json.dumps, ({"asking": "init"}, {"init": words, "code": code}))), ORIGIN)
        if self.why == HANGS:
            return Evidence("nvml", json.dumps({"asking": "init"}), ORIGIN, problem="timed out")
        return Evidence("nvml", self.full, ORIGIN) if self.full and self.why is None else None

    def settle(self, verdicts: Mapping[str, Verdict], machine: tuple[str, str, str] | None, at: float) -> None:
        """The gate's answer, by UUID, and what it says of the machine; at: when its evidence came, by the clock of `take`."""
        self.verdicts, self.machine, self.judged = {**self.verdicts, **verdicts}, machine, max(at, self.judged)

    def line(self, now: float, jobs: Mapping[int, str]) -> dict[str, Any]:
        """All that is known, as look.py tells it, without `log`. now: seconds since the epoch; jobs: pid -> its ONGPU_JOB."""
        why = self.machine if self.why and self.machine and self.why != STARTING else self.why
        gpus = [self._told(device, now, jobs, why) for device in self.devices]
        return {"t": round(now, 3), "at": round(self.at, 3), "up": self.why is None, "why": list(why) if why else None, "gpus": gpus}

    def _told(self, device: Device, now: float, jobs: Mapping[int, str], why: tuple[str, str, str] | None) -> dict[str, Any]:
        verdict = self.verdicts.get(device.key)
        unfit, words = self._unfit(device, verdict, why)
        verdict = verdict or Verdict()

        def value(column: str) -> int | None:
            return device.row[PLACE[column]] if device.row else None

        procs = [[pid, size, kind, jobs.get(pid)] for pid, size, kind, _ in device.procs]
        strangers = [(pid, size) for pid, size, kind, job in procs if "C" in str(kind) and job is None and pid not in verdict.gone]
        return {
            "uuid": device.key, "index": device.index, "name": device.name, "memory": device.memory, "used": value("mem_used"),
            "util": value("util"), "memory_util": value("mem_util"), "pcie": device.pcie or None, "capability": verdict.capability,
            "energy_mj": value("energy"), "how": device.how, "unfit": unfit, "words": list(words) if words else None,
            "incident": self.incidents.get(device.key), "foreign": [self._stranger(pid, size) for pid, size in strangers],
            "procs": procs, "xids": [[at, code] for at, code, _ in device.xids if now - at < RECENT], "ecc": value("ecc"),
            "near": list(verdict.near), "partitioned": verdict.partitioned or device.mig, "slices": [dict(one) for one in verdict.slices],
        }  # fmt: skip

    def _unfit(
        self, device: Device, verdict: Verdict | None, why: tuple[str, str, str] | None
    ) -> tuple[str | None, tuple[str, str] | None]:
        if why == STARTING:
            return NOT_JUDGED, None
        if why:
            return why[0], why[1:]
        if device.how != OK:
            slug = verdict.unfit if verdict and verdict.unfit and self.judged > device.changed else SLUGS[device.how]
            return slug, verdict.words if verdict and slug == verdict.unfit else None
        if verdict is None or self.judged < device.changed:
            return NOT_JUDGED, None
        return verdict.unfit, verdict.words

    def _stranger(self, pid: int, size: int | None) -> str:
        about = self.hosts.get(pid, {})
        command = str(about.get("command") or "?").split(" ")[0].rpartition("/")[2][:40]
        who = f"{about['user']}: {command}" if about.get("user") else command
        return f"pid {pid} ({who}{'' if size is None else f', {size} MiB'})"


def _time(message: Message, otherwise: float) -> float:
    at = message.get("t")
    return float(at) if isinstance(at, (int, float)) else otherwise


def _set(device: Device, how: str, at: float) -> None:
    if device.how != how:
        device.how, device.changed = how, at
        if how != OK:
            device.row, device.procs, device.pcie = None, [], []


def _measured(device: Device, row: list[int | None], now: float) -> None:
    device.row, rates = row, [row[PLACE["pcie_tx"]], row[PLACE["pcie_rx"]]]
    if rates != [None, None]:
        device.pcie, device.pcie_at = rates, now
    elif not 0 <= now - device.pcie_at < SLOW:
        device.pcie = []


def _xid(device: Device, at: float, code: int, by: str) -> None:
    """An Xid, once: the kernel's log ("l") and NVML's events ("e") tell of the same thing."""
    for place, (when, other, who) in enumerate(device.xids):
        if other == code and who not in (by, "") and abs(when - at) <= SAME:
            device.xids[place] = (when, code, "")
            return
    device.xids.append((at, code, by))


def bus(place: str) -> str:
    """A place on the PCI bus in one spelling: "00000000:1A:00.0", "0000:1a:00" -> "0:1a:00"."""
    head, _, rest = place.lower().partition(":")
    rest = rest[:-2] if rest[-2:-1] == "." else rest
    return f"{head.lstrip('0') or '0'}:{rest}"


def marks(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a line is a change of state, to be told at once."""
    keys = ("uuid", "index", "how", "unfit", "incident", "xids", "partitioned", "slices", "ecc")
    return line["why"], [[[gpu[key] for key in keys], [proc[0] for proc in gpu["procs"]]] for gpu in line["gpus"]]
