"""What opened and what closed: findings and time in, incidents out. Pure: it asks no clock and keeps nothing on disk.

A finding opens an incident when it has held for its row's `hold` seconds (see alerts.py), and closes it when it has been gone
for `clear` seconds. While it cannot be judged neither time runs: unknown is not healthy, and no proof of a fault either.
A fault that comes and goes is told once, as one incident that flaps, and stays open until it has been quiet for a while.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ongpu.model import Certainty, Severity
from ongpu.watch.alerts import LABELS, Alert, Label, alert

FLAPS = 3  # the so-manieth opening within FLAP_WINDOW is one that flaps
FLAP_WINDOW = 600.0  # seconds

Key = tuple[str, str]  # the slug, and the GPU: its UUID, "gpu:3" where it never told one, "" for the machine as a whole
URGENCY: tuple[Label, ...] = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a reader gets with an incident. words: {"en": {"title", "why", "fix"}, "zh": {...}}; commands: [{"run", "risk"}];
    refs: [{"source", "line", "quote"}]; see: links."""

    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commands: tuple[Mapping[str, str], ...] = ()
    refs: tuple[Mapping[str, Any], ...] = ()
    see: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One finding of the live rules. gpu: its index; diagnosis: worked out only where an incident opens or changes."""

    slug: str
    place: str  # the second half of the key
    subject: str  # "GPU 3 (NVIDIA A100-SXM4-80GB)"; "" for the machine
    gpu: int | None
    severity: Severity
    certainty: Certainty
    variant: str
    diagnosis: Callable[[], Diagnosis]

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.slug, self.place


@dataclass(frozen=True, slots=True)
class Answers:
    """What was judged, and how. A key that is in neither `found` nor `clear` could not be judged.

    noted: findings that are worth showing and no incident: mere notes, and what is merely possible; their keys are clear.
    """

    found: Mapping[Key, Seen]
    clear: frozenset[Key]
    noted: Mapping[Key, Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Incident:
    """One fault, from when it was told to when it was over. Times in seconds since the epoch."""

    id: int  # the store's; 0: not kept yet
    slug: str
    subject: str
    gpu: int | None
    gpu_uuid: str | None
    severity: str  # error, warning, note
    certainty: str  # certain, likely, possible
    label: Label  # how urgent it is
    kind: Literal["condition", "event"]
    opened: float
    closed: float | None = None
    flapping: int = 0  # how often it opened within FLAP_WINDOW; 0: it does not flap
    variant: str = ""
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commands: tuple[Mapping[str, str], ...] = ()
    refs: tuple[Mapping[str, Any], ...] = ()
    see: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.slug, self.gpu_uuid or ("" if self.gpu is None else f"gpu:{self.gpu}")

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Incident":
        """What `as_json` gave, from this version or another: unknown fields are left out."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        for name in ("commands", "refs", "see"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to an incident."""

    what: Literal["opened", "changed", "closed"]
    incident: Incident


@dataclass(slots=True)
class _Track:
    """One key: what was said of it last, and for how long in all. seen: the last finding."""

    said: Literal["found", "clear", "unknown"]
    seen: Seen | None
    incident: Incident | None = None
    held: float = 0.0
    gone: float = 0.0
    ended: float = 0.0  # when it was first said to be clear
    fresh: bool = False  # the finding was not looked at yet


class Incidents:
    """All of them. open, recent: incidents that the store holds: still open, and opened within FLAP_WINDOW.

    row: how a slug is told, given its severity. clock: seconds that never jump (time.monotonic); wall: seconds since the epoch.
    """

    def __init__(
        self,
        clock: float,
        wall: float,
        open: Iterable[Incident] = (),
        recent: Iterable[Incident] = (),
        row: Callable[[str, Severity], Alert] = alert,
    ) -> None:
        self.row, self._clock = row, clock
        self._tracks: dict[Key, _Track] = {}
        self._opens: dict[Key, deque[float]] = {}
        told = {incident.id: incident for incident in (*recent, *open)}
        for incident in sorted(told.values(), key=lambda one: one.opened):
            if incident.closed is None:
                self._tracks[incident.key] = _Track("unknown", None, incident)
            if 0 <= wall - incident.opened < FLAP_WINDOW:
                self._opens.setdefault(incident.key, deque()).append(clock - (wall - incident.opened))

    @property
    def open(self) -> list[Incident]:
        """Those that are open, the first first."""
        return sorted((t.incident for t in self._tracks.values() if t.incident), key=lambda one: one.opened)

    def number(self, key: Key, number: int) -> None:
        """The id that the store gave to the one that has just opened."""
        if (track := self._tracks.get(key)) and track.incident:
            track.incident = replace(track.incident, id=number)

    def forget(self, place: str, wall: float) -> list[Change]:
        """Closes what is open of a GPU that is not expected any more: it was taken out, or another took its place."""
        closed = []
        for key, track in list(self._tracks.items()):
            if key[1] == place:
                del self._tracks[key]
                if track.incident:
                    closed.append(Change("closed", replace(track.incident, closed=max(track.incident.opened, wall))))
        return closed

    def step(self, clock: float, wall: float, answers: Answers | None = None) -> list[Change]:
        """What opened, changed and closed by now. answers: what was judged just now; None: only time has passed."""
        passed, self._clock = max(0.0, clock - self._clock), max(clock, self._clock)
        for track in self._tracks.values():
            if track.said == "found":
                track.held += passed
            elif track.said == "clear":
                track.gone += passed
        if answers is not None:
            self._hear(answers, wall)
        changes: list[Change] = []
        for key, track in list(self._tracks.items()):
            changes += self._turn(key, track, wall)
        return changes

    def _hear(self, answers: Answers, wall: float) -> None:
        for key, seen in answers.found.items():
            track = self._tracks.setdefault(key, _Track("found", seen))
            if track.said != "found" or track.gone:
                track.said, track.gone = "found", 0.0
            track.seen, track.fresh = seen, True
        for key, track in list(self._tracks.items()):
            if key in answers.found:
                continue
            if key not in answers.clear:
                track.said = "unknown"
            elif track.incident is None:
                del self._tracks[key]
            else:
                if track.said != "clear":
                    track.ended = wall if not track.gone else track.ended
                track.said = "clear"

    def _turn(self, key: Key, track: _Track, wall: float) -> list[Change]:
        seen, incident = track.seen, track.incident
        if incident is None:
            if track.said != "found" or seen is None or track.held < self.row(key[0], seen.severity).hold:
                return []
            track.incident = self._opened(key, seen, wall)
            return [Change("opened", track.incident)]
        if track.said == "clear":
            clear = self.row(key[0], Severity[incident.severity.upper()]).clear
            if track.gone < (max(clear, FLAP_WINDOW) if incident.flapping else clear):
                return []
            del self._tracks[key]
            return [Change("closed", replace(incident, closed=max(incident.opened, track.ended)))]
        if track.said == "found" and seen and track.fresh:
            track.fresh = False
            if _says_more(incident, seen):
                track.incident = _told(replace(incident, subject=seen.subject or incident.subject), seen, self.row(key[0], seen.severity))
                return [Change("changed", track.incident)]
        return []

    def _opened(self, key: Key, seen: Seen, wall: float) -> Incident:
        times = self._opens.setdefault(key, deque())
        times.append(self._clock)
        while self._clock - times[0] >= FLAP_WINDOW:
            times.popleft()
        row = self.row(seen.slug, seen.severity)
        bare = Incident(
            id=0, slug=seen.slug, subject=seen.subject, gpu=seen.gpu, gpu_uuid=None if not key[1] or ":" in key[1] else key[1],
            severity="", certainty="", label=row.label, kind=row.kind, opened=wall, flapping=len(times) if len(times) >= FLAPS else 0,
        )  # fmt: skip
        return _told(bare, seen, row)


def _says_more(incident: Incident, seen: Seen) -> bool:
    """Whether what is found now is worse or surer than what was told, or other and shown by no fewer lines."""
    before = (Severity[incident.severity.upper()], Certainty[incident.certainty.upper()])
    after = (seen.severity, seen.certainty)
    return after > before or (after == before and seen.variant != incident.variant and len(seen.diagnosis().refs) >= len(incident.refs))


def _told(incident: Incident, seen: Seen, row: Alert) -> Incident:
    """The incident with what the finding says of it. A finding that is milder than its slug's row is no more urgent than itself."""
    what = seen.diagnosis()
    return replace(
        incident, severity=seen.severity.name.lower(), certainty=seen.certainty.name.lower(), variant=seen.variant,
        label=min(row.label, LABELS[seen.severity], key=URGENCY.index),
        words=what.words, commands=what.commands, refs=what.refs, see=what.see,
    )  # fmt: skip
