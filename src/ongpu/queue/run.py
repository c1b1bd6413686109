"""What became of a command on its GPUs: what it used, and how it ended. Pure: messages, reports and exit codes in, words out."""

import signal
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ongpu.facts.code import OutOfMemory, Traceback
from ongpu.facts.memory import worst
from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.knowledge.gpus import models_with_memory_at_least
from ongpu.knowledge.xids import xid
from ongpu.lazy import dataclass, field, lazy
from ongpu.model import Certainty, Finding, Layer, Report, Severity
from ongpu.queue.choice import LITTLE
from ongpu.queue.words import plain, ranges

MOST_POINTS = 600  # of a timeline: beyond, every second one goes
LOOKS = 5  # at a GPU, without which nothing is said of what was never seen on it
HOT_START = 30.0  # seconds after the start in which a stranger on the GPU is told at once
OK, GPU_FAULT, OUT_OF_MEMORY, HOST_MEMORY, PROGRAM, SIGNAL, STOPPED = (
    "ok", "gpu-fault", "out-of-memory", "host-memory", "program", "signal", "stopped",
)  # fmt: skip
# Slugs of the layers below the program that say that the GPU itself, or its driver, is at fault; all but those of the set-up.
FAULTS = frozenset({
    "gpu-fell-off-bus", "ecc-uncorrectable", "gpu-internal-error", "gsp-timeout", "row-remap-failure", "nvlink-error", "driver-hung",
    "power-cable-missing", "gpu-answers-with-error",
})  # fmt: skip
# What a shell prints for a program that a signal ended: lines that the rules know.
SHELL: Mapping[int, str] = {
    signal.SIGKILL: "Killed", signal.SIGSEGV: "Segmentation fault", signal.SIGBUS: "Bus error", signal.SIGABRT: "Aborted",
}  # fmt: skip
# What each way to end means for who would run it again.
SAID: Mapping[str, tuple[str, str]] = {
    OK: ("it ended well", "正常结束"),
    GPU_FAULT: ("a GPU is at fault, not the program: another GPU may do", "故障在 GPU，不在程序：换一块 GPU 可能就好"),
    OUT_OF_MEMORY: ("the GPU's memory ran out: the same again will end the same", "显存不足：原样重跑结果相同"),
    HOST_MEMORY: ("the host's memory (RAM) ran out, not the GPU's", "主机内存（RAM）用尽，而不是显存"),
    PROGRAM: ("the program's own fault: another GPU would not help", "程序自身出错：换 GPU 没有用"),
    SIGNAL: ("ended by a signal; who sent it is not known", "被信号终止；发送者未知"),
    STOPPED: ("stopped on request", "按要求停止"),
}
STOPPING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})  # that a person or a program asks with
# Signals that an exit code above 128 stands for, as shells and launchers tell how a program that they started has ended. Not SIGHUP: 129
# is bad usage to some programs.
IMPLIED = frozenset({
    signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV,
    signal.SIGPIPE, signal.SIGTERM,
})  # fmt: skip


def signal_of(code: int) -> int | None:
    """The signal that an exit code stands for, of a program that the command started; None: none."""
    return code - 128 if code - 128 in IMPLIED else None


def said(kind: str, number: int | None, slugs: Collection[str] = ()) -> tuple[str, str]:
    """The words for an ending, in English and Chinese. number: of the signal that ended it; slugs: of what explains it."""
    if kind == SIGNAL and number == signal.SIGPIPE:
        return "nobody read its output any more (SIGPIPE)", "它的输出已无人读取（SIGPIPE）"
    if kind == OUT_OF_MEMORY and "oom-other-process" in slugs:
        return "the GPU's memory ran out: others hold a part of it", "显存不足：一部分被他人占用"
    return SAID[kind]


_NUMBERED = lazy(r"GPU (\d{1,4})")


def labels(some: Sequence[str]) -> str:
    """ "GPU 0-3, 7" of "GPU 0", "GPU 1", ...; others as they are, those of one name counted."""
    numbers = [int(match[1]) for label in some if (match := _NUMBERED.fullmatch(label))]
    if len(numbers) < len(some) or len(numbers) == 1:
        return ", ".join(one if count == 1 else f"{count} x {one}" for one, count in Counter(some).items())
    return f"GPU {ranges(numbers).replace(',', ', ')}"


@dataclass
class Used:
    """One GPU while the command ran. Memory in MiB, energy in joules, busy as a share of the time; None: not told.

    card: of a slice (MIG) the UUID of its whole card, whose samples do not tell of the slice: its memory is that of the command's programs.
    """

    index: int
    uuid: str
    name: str = ""
    total: int | None = None
    looks: int = 0
    busy_sum: float = 0.0
    peak: int | None = None
    first_energy: int | None = None
    last_energy: int | None = None
    line: list[tuple[float, int]] = field(default_factory=list)  # (seconds since the start, MiB in use)
    every: int = 1
    skipped: int = 0
    xids: list[int] = field(default_factory=list)
    strangers: dict[int, str] = field(default_factory=dict)
    card: str = ""
    computed: bool = False  # a program of the command was seen on it

    @property
    def whole(self) -> str:
        """The UUID of the card that is sampled, and that fails."""
        return self.card or self.uuid

    @property
    def busy(self) -> float | None:
        """The average utilisation."""
        return self.busy_sum / self.looks / 100 if self.looks else None

    @property
    def unused(self) -> bool:
        """Whether the command never used it, as far as that was seen for long enough."""
        return self.looks >= LOOKS and not self.busy_sum and not self.computed and (self.peak or 0) < LITTLE

    @property
    def energy(self) -> float | None:
        """Joules, by the card's own counter."""
        if self.first_energy is None or self.last_energy is None or self.last_energy < self.first_energy:
            return None
        return (self.last_energy - self.first_energy) / 1000

    def look(self, at: float, row: Sequence[int | None]) -> None:
        """One row of the samples."""
        if self.card:
            return
        util, used, energy = row[PLACE["util"]], row[PLACE["mem_used"]], row[PLACE["energy"]]
        if util is not None:
            self.looks, self.busy_sum = self.looks + 1, self.busy_sum + util
        if energy is not None:
            self.first_energy = energy if self.first_energy is None else self.first_energy
            self.last_energy = energy
        if used is not None:
            self.hold(at, used)

    def hold(self, at: float, used: int) -> None:
        """So much memory in use."""
        self.peak = used if self.peak is None else max(self.peak, used)
        self.skipped += 1
        if self.skipped >= self.every:
            self.skipped = 0
            self.line.append((round(at, 1), used))
        if len(self.line) > MOST_POINTS:
            self.line, self.every = self.line[::2], 2 * self.every


class Recorder:
    """Reads the sampling child's messages for the command's GPUs."""

    def __init__(self, gpus: Iterable[Used], start: float) -> None:
        self.used = {gpu.whole: gpu for gpu in gpus}  # by the card that is sampled
        self.start = start
        self.places = {gpu.index: gpu.whole for gpu in self.used.values()}  # index -> UUID; indices may move

    def take(self, message: Mapping[str, Any], now: float) -> None:
        """One message."""
        kind, index = message.get("k"), message.get("i")
        if kind == "gpu" and isinstance(index, int) and isinstance(message.get("uuid"), str):
            self.places = {i: u for i, u in self.places.items() if i != index and u != message["uuid"]}
            self.places[index] = message["uuid"]
        elif kind == "s" and isinstance(message.get("g"), list):
            for place, row in enumerate(message["g"]):
                gpu = self.used.get(self.places.get(place, ""))
                if gpu and isinstance(row, list) and len(row) == len(COLUMNS):
                    gpu.look(now - self.start, row)

    def xid(self, index: int | None, code: int) -> None:
        """An event; index None: of a GPU that is not known."""
        gpu = self.used.get(self.places.get(-1 if index is None else index, ""))
        if gpu:
            gpu.xids.append(code)


def strangers(listed: Mapping[str, Any], places: Mapping[int, str], ours: Collection[int]) -> list[tuple[str, int, int | None]]:
    """(UUID, pid, MiB) of those that compute on the GPUs and are not ours, of a message of processes."""
    found = []
    for key, rows in listed.items():
        uuid = places.get(int(key)) if str(key).isdecimal() else None
        for row in rows if uuid and isinstance(rows, list) else ():
            if isinstance(row, list) and len(row) == 4 and "C" in str(row[2]) and row[0] not in ours:
                found.append((uuid or "", row[0], row[1]))
    return found


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended. kind: one of the constants above. findings: what explains it, the first the most. gpus: UUIDs of the whole cards at
    fault, which a retry avoids; () with a gpu-fault: which one is not known."""

    kind: str
    findings: tuple[Finding, ...] = ()
    gpus: tuple[str, ...] = ()

    @property
    def retry(self) -> bool:
        """Whether it may go well elsewhere."""
        return self.kind == GPU_FAULT


def ending(code: int, number: int | None, by_user: Collection[int], report: Report, used: Iterable[Used]) -> Ending:
    """How a command ended, by its exit code, the signal that ended it, those that a person sent, and what the rules say of its last
    words and of its GPUs."""
    used = list(used)
    if code == 0:
        return Ending(OK)
    worse = tuple(f for f in report.findings if f.weight is Severity.ERROR and f.certainty > Certainty.POSSIBLE and not _of_trends(f))
    sick = tuple(gpu.whole for gpu in used if any((known := xid(one)) and known.condemns for one in gpu.xids))
    fault = tuple(f for f in worse if f.slug in FAULTS)
    if sick or fault:
        return Ending(GPU_FAULT, (*fault, *(f for f in worse if f not in fault)), sick or _named(fault, used))
    if number in STOPPING or code - 128 in by_user:
        return Ending(STOPPED, worse)
    memory = tuple(f for f in worse if f.slug == "host-oom")
    if memory and (number == signal.SIGKILL or code == 137 or memory[0] is worse[0]):
        return Ending(HOST_MEMORY, memory)
    if report.fact(OutOfMemory) or any(f.slug.startswith("oom-") for f in worse):
        return Ending(OUT_OF_MEMORY, worse)
    if not STOPPING.isdisjoint(by_user):  # it was asked to end, and did so in its own way: after a checkpoint, say
        return Ending(STOPPED, worse)
    return Ending(SIGNAL if number else PROGRAM, worse)


def _of_trends(finding: Finding) -> bool:
    """Whether it is about how the GPU was used, not about an end."""
    rule = finding.rule
    return rule is not None and rule.layer is Layer.SYSTEM and any("Trend" in str(a) for a in rule.check.__annotations__.values())


def _named(findings: Iterable[Finding], used: Sequence[Used]) -> tuple[str, ...]:
    """The GPUs that findings name by their index, or the only one that there was."""
    told = [f.subject for f in findings]
    named = tuple(gpu.whole for gpu in used if any(t == f"GPU {gpu.index}" or t.startswith(f"GPU {gpu.index} ") for t in told))
    return named or (tuple(gpu.whole for gpu in used) if len(used) == 1 else ())


def what_fits(report: Report, used: Iterable[Used]) -> tuple[str, str] | None:
    """What would have fitted, in English and Chinese: of the message's own figures, and of what others held. None: no figures."""
    told = report.fact(OutOfMemory)
    if not told or not told.errors:
        return None
    error = worst(told)
    mine = error.in_use or error.reserved or error.allocated
    if error.wanted is None or mine is None or error.total is None:
        return None
    need, others, total = mine + error.wanted, error.held_by_others or 0.0, error.total
    head, chinese = f"it needed at least {need:.1f} GiB at that moment", f"当时至少需要 {need:.1f} GiB"
    if need <= total and others > 0.5:
        return (
            f"{head}: that fits this GPU ({total:.1f} GiB) without the {others:.1f} GiB of others",
            f"{chinese}：若没有他人占用的 {others:.1f} GiB，本 GPU（{total:.1f} GiB）放得下",
        )
    enough = models_with_memory_at_least(need * 1.05, "datacenter") or models_with_memory_at_least(need * 1.05)
    if not enough:
        return f"{head}: no single GPU has so much", f"{chinese}：没有单块 GPU 有这么大显存"
    small, ask = enough[0], f"--memory {need * 1.05:.0f}GiB"
    return (
        f"{head} (ask for it: {ask}); the smallest model that has so much: {small.name} ({small.memory_gib:g} GiB)",
        f"{chinese}（可用 {ask} 申请）；显存足够的最小型号：{small.name}（{small.memory_gib:g} GiB）",
    )


def last_words(report: Report, output: str) -> str:
    """The line in which a program said why it ended: of the traceback, else the last that is not empty; at most 200 characters."""
    trace = report.fact(Traceback)
    for raised in reversed(trace.raised) if trace else ():
        return plain(f"{raised.error}: {raised.message}".splitlines()[0][:200])
    from ongpu.hosts.transcript import lines_of

    lines = [line.strip() for _, line in lines_of(output) if line.strip()]
    return plain(lines[-1][:200]) if lines else ""


def duration(seconds: float, zh: bool) -> str:
    """ "3.2 s", "4 min 5 s", "2 h 03 min"."""
    if seconds < 60:
        return f"{seconds:.1f} " + ("秒" if zh else "s")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} 分 {rest} 秒" if zh else f"{minutes} min {rest} s"
    return f"{minutes // 60} 小时 {minutes % 60:02} 分" if zh else f"{minutes // 60} h {minutes % 60:02} min"


def used_line(gpu: Used, zh: bool) -> str:
    """What one GPU was used for. "-" stands for what was not told."""
    name = f"GPU {gpu.index}" + ((f"（{gpu.name}）" if zh else f" ({gpu.name})") if gpu.name else "")
    busy = "-" if gpu.busy is None else f"{gpu.busy:.0%}"
    peak = "-" if gpu.peak is None else f"{gpu.peak / 1024:.1f}" + (f" / {gpu.total / 1024:.1f}" if gpu.total else "") + " GiB"
    energy = "-" if gpu.energy is None else f"{gpu.energy / 3600:.1f} Wh"
    return f"{name}：繁忙 {busy}，显存峰值 {peak}，能耗 {energy}" if zh else f"{name}: busy {busy}, memory peak {peak}, energy {energy}"
