"""What the doctor's rules say of the present state: each GPU on its own, and the machine as a whole.

Each GPU is judged by itself, so that a second GPU with the same fault is a fault of its own. It is judged anew when something
that a rule looks at has changed, and all of them every `EVERY` seconds.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module

from ongpu.engine import all_sources, diagnose
from ongpu.facts.sample import PLACE
from ongpu.index import names
from ongpu.lazy import lazy
from ongpu.model import Certainty, Evidence, Finding, Layer, Report, Rule, Severity, Source, Verdict
from ongpu.report.recipes import commands
from ongpu.watch import evidence
from ongpu.watch.alerts import ALERTS
from ongpu.watch.evidence import place_of
from ongpu.watch.incidents import Answers, Diagnosis, Key, Seen
from ongpu.watch.state import HUNG, OK, GpuState, State, bus

EVERY = 30.0  # seconds after which all is judged anew
AT_ONCE = 4  # GPUs that are judged in one go though nothing of them has changed: a machine with 64 is not to pause for all of them
AGAIN = 5.0  # seconds at least between two looks at one GPU whose values waver; a change of its condition is judged at once
RECENT = 120.0  # seconds for which a line of the kernel's log, or an Xid, is news
BEFORE = 10.0  # seconds before the driver went in which a GPU's own fault may have been the cause
MOST_LINES = 200  # lines of the log that are judged at once
KINDS = ("nvml", "pci-bus", "kernel-log", "nvidia-smi", "symptoms", "driver-state", "machine-state", "services", "gpu-counts", "trend")
# Rules that are about one GPU though they are of another layer than hardware.
OF_A_GPU = ("driver-hung", "zombie-holds-memory")
COMPARING = ("nvlink-error", "gpu-not-on-bus")  # rules of a GPU that look at the others as well
NOT_THERMAL = 0x1 | 0x2 | 0x4 | 0x10 | 0x100  # clock reasons that come and go with the load: no news
_ADDRESS = lazy(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b")
MACHINE = ""


@cache
def live_rules() -> tuple[Rule, ...]:
    """The rules that a watched machine is judged by: those of the table of alerts, and those over trends. No other is loaded."""
    found: list[Rule] = []
    for name in names("ongpu.rules"):
        slug = name.rsplit(".")[-1].replace("_", "-")
        if slug in ALERTS or name.startswith("ongpu.rules.system."):
            rule = getattr(import_module(name), "RULE", None)
            if rule and (slug in ALERTS or over_trends(rule)):
                found.append(rule)
    return tuple(sorted(found, key=lambda rule: (rule.layer, rule.slug)))


def over_trends(rule: Rule) -> bool:
    """Whether the rule judges what happened over some time."""
    return any("Trend" in str(annotation) for name, annotation in rule.check.__annotations__.items() if name != "return")


@cache
def live_sources() -> tuple[Source, ...]:
    """The sources that read what the agent has."""
    return tuple(source for source in all_sources() if source.kind in KINDS)


def label_of(gpu: GpuState) -> str:
    """How a reader knows it."""
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


class Judge:
    """The rules' answers, kept up to date.

    machine: gives what was asked of the machine itself: its distribution, whether it is a container, its services.
    trend: the evidence of kind "trend" of one GPU, or None where nothing is known of it over time.
    expected: how many GPUs the machine should have; None: nobody said.
    """

    def __init__(
        self,
        machine: Callable[[], Sequence[Evidence]] = tuple,
        trend: Callable[[State, GpuState], Evidence | None] | None = None,
        every: float = EVERY,
        expected: int | None = None,
    ) -> None:
        self.machine, self.trend, self.every, self.expected = machine, trend, every, expected
        self._told: dict[str, evidence.Item] = {}
        self._lines: deque[tuple[float, str, str | None]] = deque(maxlen=1000)  # when, the line, the GPU's place or None
        self._marks: dict[str, tuple[object, ...]] = {}
        self._judged: dict[str, float] = {}  # place -> when, by the clock
        self._wavered: dict[str, float] = {}  # place -> when it was judged last because a value had changed
        self._down = float("inf")  # when the driver went away
        self._due: set[str] = set()  # places whose condition or log changed
        self._listed: set[str] = set()  # places of whose processes a list came since they last began to answer
        self._answers: dict[str, _Answer] = {}
        self.crashed: dict[str, str] = {}  # slug -> the end of the traceback

    def hear(self, changes: Iterable[str], state: State, now: float) -> None:
        """What `State.take` said has changed."""
        changes = list(changes)
        for change in changes:
            kind, _, rest = change.partition(":")
            if kind in ("up", "down"):
                self._down = now if kind == "down" else float("inf")
            if kind in ("init", "up", "down"):
                self._due |= {MACHINE, *map(place_of, state.gpus.values())}
            elif kind == "proc":
                listed = {place_of(gpu) for gpu in state.gpus.values() if gpu.condition == OK and "processes" not in gpu.why}
                self._due |= listed - self._listed
                self._listed = listed
            elif kind == "gpu" and (gpu := state.gpus.get(int(rest))):
                self._due.add(MACHINE)
                if self._marks.get(place_of(gpu), (OK, None))[:2] != (gpu.condition, gpu.code):
                    self._due.add(place_of(gpu))
            elif kind == "full":
                self._told = evidence.told_in(state.full)
            elif kind == "xid" and "log" not in changes:
                index, _, code = rest.partition(":")
                self._hear_line(f"NVML event: GPU {index}: Xid {code}", state, now, int(index) if index.isdigit() else None)
        if "log" in changes and state.log and not state.log_problem:
            self._hear_line(state.log[-1][1], state, state.log[-1][0], None)

    def _hear_line(self, text: str, state: State, time: float, index: int | None) -> None:
        found = state.gpus.get(index) if index is not None else next(iter(_named(text, state.gpus.values())), None)
        place = place_of(found) if found else None
        if not (self._lines and place and text.startswith("NVML event") and _same_xid(text, place, self._lines)):
            self._lines.append((time, text, place))
            self._due |= {place or MACHINE, MACHINE}

    def answers(self, state: State, now: float, clock: float) -> Answers | None:
        """What the rules say, where anything had to be judged anew; None where nothing had. now: of the log; clock: monotonic."""
        places = {place_of(gpu): gpu for gpu in state.gpus.values()} if state.up else {}
        due = self._news(places, clock)
        whole = MACHINE in self._due or clock - self._judged.get(MACHINE, float("-inf")) >= self.every
        gone = [place for place in self._answers if place and place not in places]
        if not (due or whole or gone):
            return None
        self._due.clear()
        for place in gone:
            del self._answers[place]  # nothing is known of it now
            self._listed.discard(place)
        for place in due:
            gpu = places[place]
            if gpu.condition != OK:
                self._listed.discard(place)
            self._marks[place], self._judged[place] = _mark(gpu), clock
            self._answers[place] = self._gpu(state, gpu, now)
        if whole:
            self._judged[MACHINE] = clock
            self._answers[MACHINE] = self._machine(state, now)
        return self._together(state)

    def _news(self, places: dict[str, GpuState], clock: float) -> set[str]:
        """The GPUs to be judged anew: something changed of their condition or of what the rules look at, or it was long ago."""
        due = self._due & set(places)
        old: list[tuple[float, str]] = []
        for place, gpu in places.items():
            ago = clock - self._judged.get(place, float("-inf"))
            if place in due:
                continue
            if self._marks.get(place) != _mark(gpu) and clock - self._wavered.get(place, float("-inf")) >= AGAIN:
                due.add(place)
                self._wavered[place] = clock
            elif ago >= self.every:
                old.append((-ago, place))
        return due | {place for _, place in sorted(old)[:AT_ONCE]}

    def _gpu(self, state: State, gpu: GpuState, now: float) -> "_Answer":
        mine = place_of(gpu)
        # of a GPU that does not answer all its lines matter, since its fault has not passed
        since = now - RECENT if gpu.condition == OK else float("-inf")
        lines = [text for time, text, place in self._lines if place == mine and time >= since][-MOST_LINES:]
        told = [*evidence.nvml(state, self._told, [gpu], self._listed), evidence.kernel(lines)]
        if self.trend and gpu.condition == OK and (trend := self.trend(state, gpu)):
            told.append(trend)
        answer = self._judge(told, _rules(True), gpu)
        if gpu.condition != OK:  # of what does not answer nothing but its silence can be judged
            answer.clear.clear()
        answer.clear -= {slug for slug in answer.clear if _untold(slug, gpu, mine in self._listed)}
        return answer

    def _machine(self, state: State, now: float) -> "_Answer":
        # What the log says of one GPU is that GPU's; but what came when the driver went may be why it went.
        since = max(now - RECENT, self._down - BEFORE)
        lines = [text for time, text, place in self._lines if time >= now - RECENT and (place is None or time >= since)][-MOST_LINES:]
        calm = [gpu for gpu in state.gpus.values() if gpu.condition != HUNG]
        told = evidence.nvml(state, self._told, calm, self._listed)
        if not state.up:  # something is wrong for certain: the cause that is merely possible is told, where there is no better
            answer = self._judge([*told, evidence.kernel(lines)], live_rules(), None)
            if state.code and not answer.found:
                bad = {slug: one for slug, one in answer.noted.items() if one.severity > Severity.NOTE}
                answer.found = dict(list(bad.items())[:1])
            if not state.code:
                answer.clear.clear()
            return answer
        answer = self._judge([*told, evidence.kernel(lines), *evidence.counted(state, self.expected)], _rules(False), None)
        if lines:  # of a GPU, they do not say of which
            answer.add(self._judge([evidence.kernel(lines)], _rules(True), None))
        return answer

    def _judge(self, told: list[Evidence], rules: tuple[Rule, ...], gpu: GpuState | None) -> "_Answer":
        report = diagnose([*told, *self.machine()], label_of(gpu) if gpu else "this machine", rules, live_sources())
        answer = _Answer()
        for finding in report.findings:
            kept = answer.found if _counts(finding) else answer.noted
            kept.setdefault(finding.slug, _seen(finding, report, gpu))
        hidden = {finding.slug for finding in report.hidden}
        answer.clear |= ({o.rule.slug for o in report.outcomes if o.verdict is Verdict.CLEAR} | answer.noted.keys()) - hidden
        answer.clear -= answer.found.keys()
        for outcome in report.outcomes:
            if outcome.verdict is Verdict.CRASHED:
                self.crashed[outcome.rule.slug] = outcome.because
        return answer

    def _together(self, state: State) -> Answers:
        """The answers of all places as one. What the whole machine's evidence says of one GPU counts where no GPU's own said it."""
        found: dict[Key, Seen] = {}
        noted: dict[Key, Seen] = {}
        clear: set[Key] = set()
        for place, answer in self._answers.items():
            clear |= {(slug, place) for slug in answer.clear}
            if place:
                found |= {(slug, place): one for slug, one in answer.found.items()}
                noted |= {(slug, place): one for slug, one in answer.noted.items()}
        told = {slug for slug, _ in found}
        if state.up:  # what is merely a consequence of a GPU's own fault
            told |= {effect for rule in live_rules() if rule.slug in told for effect in rule.hides}
        machine = self._answers.get(MACHINE, _Answer())
        for kept, ones in ((found, machine.found), (noted, machine.noted)):
            for slug, one in ones.items():
                if slug not in told:
                    gpu = _subject(one.subject, state.gpus.values())
                    kept[slug, place_of(gpu) if gpu else MACHINE] = _moved(one, gpu)
        return Answers(found, frozenset(clear - found.keys()), {key: one for key, one in noted.items() if key not in found})


class _Answer:
    """What was judged of one place: slugs."""

    def __init__(self) -> None:
        self.found: dict[str, Seen] = {}
        self.noted: dict[str, Seen] = {}
        self.clear: set[str] = set()

    def add(self, other: "_Answer") -> None:
        """What another look at the same place says besides."""
        self.found, self.noted = {**other.found, **self.found}, {**other.noted, **self.noted}
        self.clear = (self.clear | other.clear) - self.found.keys()


@cache
def _rules(of_a_gpu: bool) -> tuple[Rule, ...]:
    """The rules that judge a GPU by its own evidence; or the others, and those that compare GPUs."""
    one = {rule.slug for rule in live_rules() if rule.layer is Layer.HARDWARE or rule.slug in OF_A_GPU or over_trends(rule)}
    return tuple(rule for rule in live_rules() if (rule.slug in one) == of_a_gpu or (not of_a_gpu and rule.slug in COMPARING))


def _counts(finding: Finding) -> bool:
    """Whether it is worth an incident: at least likely; a note only of the slugs that are told as such."""
    row = ALERTS.get(finding.slug)
    bad = finding.weight > Severity.NOTE or (row is not None and row.label == "info")
    return finding.certainty >= Certainty.LIKELY and bad


def _seen(finding: Finding, report: Report, gpu: GpuState | None) -> Seen:
    @cache
    def diagnosis() -> Diagnosis:
        words = {lang: finding.text(lang) for lang in ("en", "zh")}
        return Diagnosis(
            words={lang: {"title": text.title, "why": text.why, "fix": text.fix} for lang, text in words.items()},
            commands=tuple({"run": one.run, "risk": one.risk.name.lower()} for one in commands(finding, report)),
            refs=tuple({"source": ref.source, "line": ref.line, "quote": ref.quote} for ref in finding.refs),
            see=finding.rule.see if finding.rule else (),
        )

    return Seen(
        slug=finding.slug, place=place_of(gpu) if gpu else MACHINE, subject=label_of(gpu) if gpu else finding.subject,
        gpu=gpu.index if gpu else None, severity=finding.weight, certainty=finding.certainty, variant=finding.variant, diagnosis=diagnosis,
    )  # fmt: skip


def _moved(seen: Seen, gpu: GpuState | None) -> Seen:
    """What the machine's evidence said, as of that GPU."""
    subject = label_of(gpu) if gpu else ""
    return Seen(
        seen.slug, place_of(gpu) if gpu else MACHINE, subject, gpu.index if gpu else None, seen.severity, seen.certainty, seen.variant,
        seen.diagnosis,
    )  # fmt: skip


def _mark(gpu: GpuState) -> tuple[object, ...]:
    """What of a GPU is news when it changes. Not its load: that a rule looks at each half minute."""
    if gpu.row is None:
        return (gpu.condition, gpu.code)
    reasons, temp, ecc, fan, replays = (gpu.row[PLACE[name]] for name in ("reasons", "temp", "ecc", "fan", "replays"))
    limit = gpu.identity.get("temp_limit")
    hot = temp is not None and limit is not None and temp >= limit
    held = None if reasons is None else reasons & ~NOT_THERMAL
    rest = (gpu.identity.get(name) for name in ("remap_pending", "remap_failed", "recovery", "mig"))
    return (gpu.condition, gpu.code, hot, held, ecc, fan == 0, (replays or 0) // 100, *rest)


def _untold(slug: str, gpu: GpuState, listed: bool) -> bool:
    """Whether what would tell the fault is not told, so that its absence says nothing. listed: whether its processes are."""
    row = ALERTS.get(slug)
    return bool(row and any(column in gpu.why or (column == "processes" and not listed) for column in row.columns))


def _named(text: str, gpus: Iterable[GpuState]) -> Iterable[GpuState]:
    """The GPUs whose PCI address stands in a line of the kernel."""
    places = {bus(match[0]) if match[0].count(":") > 1 else bus("0000:" + match[0]) for match in _ADDRESS.finditer(text[:400])}
    return (gpu for gpu in gpus if gpu.bus and bus(gpu.bus) in places) if places else iter(())


def _subject(subject: str, gpus: Iterable[GpuState]) -> GpuState | None:
    """The GPU that a finding of the whole machine is about."""
    gpus = list(gpus)
    by_name = next((gpu for gpu in gpus if subject in (label_of(gpu), f"GPU {gpu.index}")), None)
    return by_name or next(iter(_named(subject, gpus)), None)


def _same_xid(text: str, place: str, lines: Iterable[tuple[float, str, str | None]]) -> bool:
    """Whether the kernel's log has told of that event already."""
    code = text.rpartition(" ")[2]
    return any(where == place and f": {code}," in line for _, line, where in list(lines)[-20:])
