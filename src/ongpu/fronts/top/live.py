"""The GPUs as they are told to `ongpu top`: messages in, view out; the engine is asked where something changed or time has passed."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from ongpu.engine import diagnose
from ongpu.facts.sample import PLACE
from ongpu.fronts.top.seen import Limits, view, whose
from ongpu.hosts import live as here
from ongpu.index import names
from ongpu.lazy import replace
from ongpu.model import Evidence, Finding, Report, Rule, Verdict
from ongpu.report.top.view import OK, View
from ongpu.report.verdicts import EXPLAINS
from ongpu.watch import evidence
from ongpu.watch.judge import live_rules, live_sources
from ongpu.watch.machine import asked
from ongpu.watch.state import HUNG, GpuState, State
from ongpu.watch.window import LENGTH, Window

JUDGE_EVERY = 5.0  # seconds between two judgements of what slowly changes
SHARE = 50  # times as long as it took we wait at least until the next: a thousand processes must not slow the view down
KEPT = 600  # looks of a GPU's history
MOST_SILENT = 16  # GPUs without an answer that are judged one by one
MOST_LINES = 200  # of the kernel's log
Point = tuple[float | None, float | None, float | None]  # util, memory, power: shares of 1


class Feeding(Protocol):
    """Where messages come from (`hosts/sampling/feed.py`)."""

    def next(self, timeout: float) -> Mapping[str, Any] | None:
        """The next message; None where none came in time."""

    def close(self) -> None:
        """End the child."""


class Live:
    """State, window and findings of a feed. clock: seconds since the epoch."""

    def __init__(self, interval: float = 1.0, *, demo: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.state, self.window, self.limits = State(interval=interval), Window(), Limits()
        self.demo, self.clock = demo, clock
        self.history: dict[int, deque[Point]] = {}
        self.report: Report | None = None
        self.remembered = 0.0
        self.judged = self.cost = 0.0  # when, by the clock; seconds that it took
        self.began: float | None = None
        self.stale = True

    def take(self, message: Mapping[str, Any]) -> list[str]:
        """A message of the child; what it changed."""
        now = self.clock()
        changes = self.state.take(dict(message), now)
        self._heed(changes)
        self.window.take(message, now)
        if message.get("k") == "s":
            self.began = self.state.time if self.began is None else self.began
            self._remember()
        elif message.get("k") == "full":
            self.limits.hear(evidence.told_in(self.state.full))
        return changes

    def tick(self) -> list[str]:
        """Time has passed."""
        now = self.clock()
        changes = self.state.tick(now)
        self._heed(changes)
        if not self.state.up and self.history and now - self.remembered >= self.state.interval:
            self._remember()  # a gap
        return changes

    def _heed(self, changes: list[str]) -> None:
        if "down" in changes:  # what was seen before says nothing of now
            self.window, self.began = Window(), None
        self.stale = self.stale or any(c.partition(":")[0] in ("init", "gpu", "xid", "hung", "down", "up") for c in changes)

    def _remember(self) -> None:
        self.remembered = self.clock()
        for index, gpu in self.state.gpus.items():
            self.limits.look(gpu)
            self.history.setdefault(index, deque(maxlen=KEPT)).append(_point(gpu))

    def seconds(self) -> float:
        """How much time the verdicts rest on."""
        return min((self.state.time or 0.0) - (self.began or self.state.time or 0.0), LENGTH)

    def view(self) -> View:
        """All GPUs now; judged anew where that is due."""
        now = self.clock()
        if self.stale or not 0 <= now - self.judged < max(JUDGE_EVERY, SHARE * self.cost):
            begin = time.perf_counter()
            self.report, self.judged, self.stale = judge(self.state, self.window, self.demo), now, False
            self.cost = time.perf_counter() - begin
        return view(self.state, self.report, self.limits, now, seconds=self.seconds(), demo=self.demo)


def _point(gpu: GpuState) -> Point:
    if gpu.row is None:
        return None, None, None
    util, used, power = (gpu.row[PLACE[name]] for name in ("util", "mem_used", "power"))
    total, limit = gpu.identity.get("mem_total"), gpu.identity.get("power_limit")
    return _share(util, 100), _share(used, total), _share(power, limit)


def _share(value: int | None, of: object) -> float | None:
    return value / of if value is not None and isinstance(of, (int, float)) and of else None


@cache
def rules() -> tuple[Rule, ...]:
    """Those of the watch, and those that explain a speed wherever they stand."""
    found = {rule.slug: rule for rule in live_rules()}
    for name in names("ongpu.rules"):
        slug = name.rpartition(".")[2].replace("_", "-")
        if slug in EXPLAINS and slug not in found:
            found[slug] = import_module(name).RULE
    return tuple(sorted(found.values(), key=lambda rule: (rule.layer, rule.slug)))


def judge(state: State, window: Window | None, demo: bool = False) -> Report:
    """What the rules of the watch say of the state and the window; a GPU that does not answer is judged by itself as well."""
    told = evidence.told_in(state.full)
    machine = () if state.up or state.gpus or demo else asked(here.Live())  # why the driver is not there, the bus and the services tell
    report = diagnose([*machine, *_evidence(state, told, None, window)], "this machine", rules(), live_sources())
    findings = list(report.findings)
    silent = [gpu for gpu in state.gpus.values() if gpu.condition != OK] if state.up else []
    for gpu in silent[:MOST_SILENT]:
        if not any(whose(finding, state) is gpu for finding in findings):
            alone = diagnose(_evidence(state, told, gpu, None), "this machine", rules(), live_sources())
            label = f"GPU {gpu.index}" + (f" ({gpu.name})" if gpu.name else "")
            findings += [replace(one, subject=label) for one in alone.findings if alone.verdict is Verdict.FOUND]
    return replace(report, findings=tuple(_once(findings)))


def _evidence(state: State, told: Mapping[str, Any], only: GpuState | None, window: Window | None) -> list[Evidence]:
    gpus = [only] if only else [gpu for gpu in state.gpus.values() if gpu.condition != HUNG]
    lines = [text for _, text in state.log if only is None or (only.bus is not None and only.bus[:-2].lower() in text.lower())]
    trend = window.evidence() if window and state.up else None
    return [*evidence.nvml(state, told, gpus), evidence.kernel(lines[-MOST_LINES:]), *([trend] if trend else [])]


def _once(findings: list[Finding]) -> list[Finding]:
    """Each cause of a GPU once, whichever evidence told it."""
    kept: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        kept.setdefault((finding.slug, finding.subject, finding.variant), finding)
    return list(kept.values())
