"""What is told of the GPUs at one moment: plain data, which text, JSON and the live view print."""

from collections.abc import Callable, Mapping
from typing import Any

from ongpu.lazy import dataclass, field
from ongpu.model import Finding, Layer, Report, Severity, Words

OK, NO_ANSWER = "ok", ("lost", "hung", "error", "denied", "gone", "unknown")
# Bits of nvmlClocksEventReasons (nvml.h), what matters most first; a general bit is not told beside the one that says more.
HELD = (
    (0x80, "power-brake"), (0x40, "heat-hw"), (0x20, "heat"), (0x8, "hw-slowdown"), (0x400, "reliability"), (0x200, "board-limit"),
    (0x4, "power-cap"), (0x2, "app-clocks"), (0x10, "sync-boost"), (0x100, "display"), (0x1, "idle"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process on a GPU. None: not told; `visible` is False where /proc shows nothing of it from here.

    mem, rss: MiB. sm: percent. cpu, main: cores (1.0 is one core), over the last interval, of all threads and of the busiest.
    start: clock ticks since boot. read: bytes a second from storage. children: (pid, name, cores or None, state).
    """

    pid: int
    mem: int | None = None
    kind: str = "C"
    sm: int | None = None
    visible: bool = False
    user: str | None = None
    uid: int | None = None
    command: str | None = None
    start: int | None = None
    cpu: float | None = None
    main: float | None = None
    state: str | None = None
    rss: int | None = None
    read: float | None = None
    container: str | None = None
    job: str | None = None
    children: tuple[tuple[int, str, float | None, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU. values: `facts.sample.COLUMNS` by name, None where not told (`why`: by which NVML code); empty while it does not answer."""

    index: int
    uuid: str | None = None
    name: str | None = None
    bus: str | None = None
    condition: str = OK
    code: int | None = None
    since: float = 0.0
    seen: float | None = None
    values: Mapping[str, int | None] = field(default_factory=dict)
    why: Mapping[str, int] = field(default_factory=dict)
    identity: Mapping[str, object] = field(default_factory=dict)
    limit: int | None = None  # degrees Celsius at which this card slows down
    xids: Mapping[int, int] | None = field(default_factory=dict)  # code -> how often since boot; None: the log may not be read
    programs: tuple[Program, ...] = ()
    findings: tuple[Finding, ...] = ()  # the verdict first
    unexplained: Words | None = None  # why there is no verdict

    def number(self, name: str) -> int | None:
        """A figure of `identity`."""
        value = self.identity.get(name)
        return value if isinstance(value, int) else None

    def value(self, column: str) -> int | None:
        """A figure of the last look; None where it is not told."""
        return self.values.get(column)

    def memory_share(self) -> float | None:
        """Of its memory that is used, 0 to 1."""
        used, total = self.value("mem_used"), self.number("mem_total")
        return used / total if used is not None and total else None

    def held(self) -> tuple[str, ...]:
        """Why the clocks are held down (names of HELD), the most important first; () where they are not or nobody told."""
        bits = self.value("reasons") or 0
        names = [name for bit, name in HELD if bits & bit]
        if len(names) > 1 and "hw-slowdown" in names and {"power-brake", "heat-hw"} & {*names}:
            names.remove("hw-slowdown")
        return tuple(names)

    def too_hot(self) -> bool:
        """Whether it is at its own limit."""
        temp = self.value("temp")
        return temp is not None and self.limit is not None and temp >= self.limit

    def narrow(self) -> bool:
        """Whether its PCIe link has fewer lanes than card and slot could have. (An idle card lowers the speed, never the lanes.)"""
        width, most = self.number("pcie_width"), self.number("pcie_width_max")
        return width is not None and most is not None and 0 < width < most

    def faulty(self) -> bool:
        """Whether the card or its driver is at fault: it does not answer, or a finding of these layers says so."""
        worse = [f for f in self.findings if f.weight > Severity.NOTE and f.rule] if self.condition != "denied" else []
        return self.condition in ("lost", "hung", "error", "gone") or any(f.rule.layer <= Layer.DRIVER for f in worse if f.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All GPUs at one moment. up is False where NVML as a whole does not answer: reason in NVML's words, code its number.

    findings: those that belong to no single GPU. report: what the findings come from (for their commands).
    seconds: how much time the verdicts rest on; kept: whether an agent's history gave it.
    """

    up: bool
    reason: str = ""
    code: int | None = None
    driver: str | None = None
    cuda: int | None = None
    time: float | None = None  # of the last look
    now: float | None = None  # when the view was made
    log_problem: str | None = None  # why the kernel's log is not read
    cards: tuple[Card, ...] = ()
    findings: tuple[Finding, ...] = ()
    report: Report | None = None
    seconds: float = 0.0
    kept: bool = False
    demo: bool = False

    def exit_code(self) -> int:
        """0: all is well, 1: a GPU is faulty, 3: cannot tell."""
        if any(card.faulty() for card in self.cards):
            return 1
        unclear = not self.up or any(card.condition != OK for card in self.cards)
        return 3 if unclear or not self.cards else 0


SORTS: dict[str, Callable[[Card], Any]] = {
    "index": lambda card: card.index,
    "util": lambda card: -(card.value("util") or 0),
    "mem": lambda card: -(card.value("mem_used") or 0),
    "temp": lambda card: -(card.value("temp") or 0),
    "power": lambda card: -(card.value("power") or 0),
}
BY = ("index", "util", "mem", "temp", "power", "cpu", "user", "pid")
_PROGRAMS: dict[str, Callable[[Program], Any]] = {
    "cpu": lambda p: -(p.cpu or 0),
    "user": lambda p: (p.user is None, p.user or ""),
    "pid": lambda p: p.pid,
    "util": lambda p: -(p.sm or 0),
}


def programs_in_order(programs: tuple[Program, ...], by: str) -> list[Program]:
    """Programs sorted by one of BY: by GPU memory where that is no order of programs."""
    return sorted(programs, key=_PROGRAMS.get(by, lambda p: -(p.mem or 0)))


def in_order(view: View, by: str) -> list[Card]:
    """The cards sorted by one of BY; those that do not answer first, but by index (what is not known is not small)."""
    key = SORTS.get(by, SORTS["index"])
    return sorted(view.cards, key=lambda card: (key is not SORTS["index"] and card.condition == OK, key(card), card.index))


def only_user(card: Card, user: str | None) -> list[Program]:
    """The card's programs, of that user if one is named (name or number)."""
    return [p for p in card.programs if user is None or p.user == user or (p.uid is not None and str(p.uid) == user)]
