"""What happened at a moment: Xids with the program that they are about, the driver's coming and going, GPUs lost and found.

An Xid line is an event, whatever became of the GPU. One that is a program's own fault (13, 31, 43, 45 ...) is told of that program,
and says nothing of the GPU.
"""

from collections.abc import Iterable
from typing import Any

from ongpu.knowledge.xids import Xid, xid
from ongpu.lazy import lazy
from ongpu.watch.evidence import place_of
from ongpu.watch.state import GpuState, Proc, State

SAME = 3.0  # seconds within which the kernel's log and NVML's event tell of one Xid
MOST = 200  # that wait
MAX_TEXT = 300  # characters of a line that are kept
_LINE = lazy(r"Xid \([^)\n]{5,30}\): (?P<code>\d{1,5}),? ?(?P<rest>[^\n]{0,400})")
_PID = lazy(r"\bpid='?(?P<pid>\d{1,10})'?(?:, name=(?P<name>[^,\n]{1,64}))?")
Event = dict[str, Any]
_CONDITIONS = {
    "ok": ("GPU {i} answers", "GPU {i} 有应答"), "lost": ("GPU {i} is lost", "GPU {i} 已丢失"), "hung": ("GPU {i} hangs", "GPU {i} 卡死"),
    "error": ("GPU {i} answers with an error", "GPU {i} 返回错误"), "denied": ("GPU {i} may not be asked", "没有权限访问 GPU {i}"),
    "gone": ("the driver no longer counts GPU {i}", "驱动不再列出 GPU {i}"),
}  # fmt: skip


def application(code: int) -> bool:
    """Whether an Xid is a program's own fault, which says nothing of the GPU."""
    known = xid(code)
    return known is not None and known.category == "app"


class Events:
    """From what changed to what is to be kept."""

    def __init__(self) -> None:
        self._conditions: dict[str, str] = {}
        self._up: bool | None = None
        self._waiting: list[tuple[float, int | None, int]] = []  # NVML's events that the log may tell better: when, GPU, code
        self._told: list[tuple[float, int | None, int]] = []

    def step(self, changes: Iterable[str], state: State, now: float) -> list[Event]:
        """What happened, each with "kind", "en", "zh"."""
        changes = list(changes)
        found: list[Event] = []
        for change in changes:
            kind, _, rest = change.partition(":")
            if kind == "xid":
                index, _, code = rest.partition(":")
                gpu = int(index) if index.isdigit() else None
                if "log" in changes:
                    found.append(self._xid(state, gpu, int(code), state.log[-1][1], now))
                elif not self._known(gpu, int(code), now):
                    self._waiting = [*self._waiting, (now, gpu, int(code))][-MOST:]
            elif kind == "gpu" and (card := state.gpus.get(int(rest))):
                found += self._condition(card)
        for one in [one for one in self._waiting if not 0 <= now - one[0] < SAME]:
            self._waiting.remove(one)
            at, where, number = one
            if not self._known(where, number, at):
                found.append(self._xid(state, where, number, "", at))
        if state.up != self._up and (state.up or state.code or self._up):
            found += self._driver(state)
        return found

    def _known(self, gpu: int | None, code: int, now: float) -> bool:
        self._told = [one for one in self._told if abs(now - one[0]) <= 2 * SAME]
        return any(one[1:] == (gpu, code) and abs(now - one[0]) <= SAME for one in self._told)

    def _xid(self, state: State, index: int | None, code: int, line: str, now: float) -> Event:
        self._told.append((now, index, code))
        gpu = state.gpus.get(index) if index is not None else None
        pid, name = _program(line)
        process = next((one for one in gpu.processes if one.pid == pid), None) if gpu and pid else None
        known = xid(code)
        event: Event = {
            "kind": "xid", "code": code, "gpu": index, "gpu_uuid": gpu.uuid if gpu else None, "application": application(code),
            "text": line[:MAX_TEXT], "pid": pid, "process": name, **_owner(process),
        }  # fmt: skip
        for place, lang in enumerate(("en", "zh")):
            event[lang] = _words(index, code, known, pid, name, event.get("user"), place)
        return event

    def _condition(self, gpu: GpuState) -> list[Event]:
        if gpu.condition not in _CONDITIONS:  # unknown: not told, or not yet
            return []
        before = self._conditions.get(place_of(gpu), "ok")
        self._conditions[place_of(gpu)] = gpu.condition
        if gpu.condition == before:
            return []
        en, zh = (words.format(i=gpu.index) for words in _CONDITIONS[gpu.condition])
        code = None if gpu.code is None else {"code": gpu.code}
        return [{"kind": "gpu", "gpu": gpu.index, "gpu_uuid": gpu.uuid, "condition": gpu.condition, **(code or {}), "en": en, "zh": zh}]

    def _driver(self, state: State) -> list[Event]:
        before, self._up = self._up, state.up
        if state.up:
            told = f"driver {state.driver or '?'}, {state.count if state.count is not None else '?'} GPUs"
            return [{"kind": "driver", "up": True, "en": f"NVML answers: {told}", "zh": f"NVML 有应答：{told}"}]
        if before is None and not state.code:
            return []
        event = {"kind": "driver", "up": False, "reason": state.reason, "en": f"NVML does not answer: {state.reason}"}
        return [{**event, "zh": f"NVML 无应答：{state.reason}"}]


def _program(line: str) -> tuple[int | None, str | None]:
    """(pid, name) that an Xid line names."""
    found = _LINE.search(line)
    told = _PID.search(found["rest"]) if found else None
    return (int(told["pid"]), (told["name"] or "").strip() or None) if told else (None, None)


def _owner(process: Proc | None) -> Event:
    if process is None:
        return {}
    return {name: process.host[name] for name in ("user", "command", "job", "container") if process.host.get(name)}


def _words(index: int | None, code: int, known: Xid | None, pid: int | None, name: str | None, user: Any, chinese: int) -> str:
    """GPU 6: Xid 31: MMU fault ... (4242, python, frank); the program's own fault, not the GPU's."""
    where = f"GPU {index}" if index is not None else ("a GPU", "某块 GPU")[chinese]
    meaning = ((known.meaning_zh if chinese else known.meaning) or known.title or known.name) if known else ("unknown", "未知")[chinese]
    who = [f"pid {pid}" if pid else "", name or "", str(user or "")]
    told = ", ".join(part for part in who if part)
    text = f"{where}：Xid {code}：{meaning}" if chinese else f"{where}: Xid {code}: {meaning}"
    if told:
        text += f"（{told}）" if chinese else f" ({told})"
    if known and known.category == "app":
        text += "；程序自身的错误，GPU 无恙" if chinese else "; the program's own fault, not the GPU's"
    return text
