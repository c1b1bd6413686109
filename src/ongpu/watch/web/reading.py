"""What the pages and the API read of the store, and the few things that they may write."""

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ongpu.store import Gpu, Point, Store, StoreError, Used
from ongpu.watch.state import GpuState, State

SILENT = 10.0  # seconds without a word of the agent: then what it said last is told as old
FRESH = 0.5  # seconds for which one look serves all who ask
AGAIN = 2.0  # seconds between two tries to open a store that cannot be opened
RANGES = {"1h": 3600.0, "6h": 21_600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
MOST_ROWS = 1000  # of a list that is read at once
Body = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """One finding of the live rules that holds now. gpu: its index; None: of the machine as a whole."""

    slug: str
    gpu: int | None
    severity: str
    certainty: str
    words: Mapping[str, Mapping[str, str]]

    def text(self, lang: str, part: str = "title") -> str:
        """Its words; its slug where it brought none."""
        return str(self.words.get(lang, {}).get(part) or self.slug)


@dataclass(frozen=True)
class View:
    """What is known at one moment. state None: nothing (problem says why, or the agent has told nothing yet).

    at: when we looked. written: when the agent said it; both in seconds since the epoch. verdicts: what the rules find now.
    """

    at: float
    state: State | None = None
    problem: StoreError | None = None
    written: float | None = None
    verdicts: tuple[Told, ...] = ()
    incidents: tuple[Body, ...] = ()  # that are open
    host: str | None = None
    demo: bool = False  # a simulated node

    @property
    def age(self) -> float | None:
        """Seconds since the agent's last word; None where it never said one."""
        return None if self.written is None else max(self.at - self.written, 0.0)

    @property
    def silent(self) -> bool:
        """Whether the agent says nothing now, so that what it said last must not be told as so."""
        return self.age is not None and self.age > SILENT

    @property
    def gpus(self) -> tuple[GpuState, ...]:
        """By index."""
        return tuple(self.state.gpus.values()) if self.state else ()

    def of(self, gpu: GpuState) -> list[Told]:
        """What the rules find of that GPU, the worst first."""
        order = ("error", "warning", "note")
        mine = [one for one in self.verdicts if one.gpu == gpu.index]
        return sorted(mine, key=lambda one: order.index(one.severity) if one.severity in order else 3)


@dataclass
class Reader:
    """The store at a path, which may not be there yet, may go, and come again. May be used by many threads.

    price_kwh, price_gpu_hour: in `currency`; None: no price.
    """

    path: Path
    price_kwh: float | None = None
    price_gpu_hour: float | None = None
    currency: str = ""
    _store: Store | None = field(default=None, repr=False)
    _old: Store | None = field(default=None, repr=False)
    _problem: StoreError | None = field(default=None, repr=False)
    _tried: float = field(default=float("-inf"), repr=False)
    _view: View | None = field(default=None, repr=False)
    _turn: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def store(self) -> Store:
        """The store, opened. Raises StoreError where it cannot be."""
        with self._turn:
            if self._store and not self._store.still_there():
                if self._old:
                    self._old.close()
                self._old, self._store = self._store, None  # another thread may still read it
                self._tried = float("-inf")
            if self._store is None:
                if self._problem and time.monotonic() - self._tried < AGAIN:
                    raise self._problem
                self._tried = time.monotonic()
                try:
                    self._store = Store(self.path, readonly=True)
                except StoreError as error:
                    self._problem = error
                    raise
            return self._store

    def close(self) -> None:
        """Lets go of the file."""
        with self._turn:
            for store in (self._old, self._store):
                if store:
                    store.close()
            self._old = self._store = None

    def view(self) -> View:
        """What is known now; all who ask within half a second get the same."""
        with self._turn:
            at = time.time()
            if self._view is None or not 0 <= at - self._view.at < FRESH:
                self._view = self._look(at)
            return self._view

    def _look(self, at: float) -> View:
        try:
            text, incidents = self.store.now(), self.store.incidents(open_only=True, limit=MOST_ROWS)
        except StoreError as error:
            return View(at, problem=error)
        if text is None:
            return View(at, incidents=tuple(incidents))
        try:
            extra, state = json.loads(text), State.from_json(text)
            verdicts = tuple(map(_told, extra.get("findings") or ()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # of an agent that is newer or older than we are
            return View(at, problem=StoreError("corrupt", self.path, f"the state: {error!r}"), incidents=tuple(incidents))
        written, host, demo = extra.get("written", state.time), extra.get("host"), bool(extra.get("demo"))
        return View(at, state, None, written, verdicts, tuple(incidents), host, demo)

    def gpus(self) -> list[Gpu]:
        """Every GPU that was ever seen."""
        return self.store.gpus()

    def series(self, column: str, start: float, end: float, points: int, gpus: Iterable[int]) -> dict[int, list[Point]]:
        """Charts by the GPU's id in the store."""
        return self.store.all_series(column, start, end, points, gpus)

    def incidents(
        self, *, open_only: bool = False, start: float | None = None, end: float | None = None, limit: int = MOST_ROWS
    ) -> list[Body]:
        """The latest first."""
        return self.store.incidents(open_only, start, end, limit)

    def incident(self, number: int) -> Body | None:
        """One of them."""
        return next((one for one in self.store.incidents(limit=100_000) if one["id"] == number), None)

    def work(self, start: float, end: float, by: str) -> list[Used]:
        """Who used what, with what it cost."""
        return self.store.work(start, end, by, self.price_kwh, self.price_gpu_hour)  # type: ignore[arg-type]

    def events(self, start: float | None = None, end: float | None = None, limit: int = MOST_ROWS) -> list[Body]:
        """What happened, the latest first."""
        return self.store.events(start, end, limit)

    def silences(self) -> list[Body]:
        """Those that hold now."""
        return self.store.silences(time.time())

    # -- what may be written; each raises StoreError where it cannot be

    def acknowledge(self, number: int, note: str = "") -> None:
        """Somebody has seen the incident."""
        with Store(self.path, alone=False) as store:
            store.acknowledge(number, time.time(), {"by": "web", "note": note})
        self._view = None

    def silence(self, seconds: float, slug: str = "", gpu: str = "", note: str = "") -> int:
        """Nobody is told of this slug ("": any) on this GPU ("": all; its UUID or index) for so long. Returns the silence's number."""
        with Store(self.path, alone=False) as store:
            return store.add_silence(time.time() + seconds, {"slug": slug or None, "gpu_uuid": gpu or None, "by": "web", "note": note})

    def lift(self, number: int) -> bool:
        """Ends a silence; False where none of that number holds."""
        if all(one["id"] != number for one in self.silences()):
            return False
        with Store(self.path, alone=False) as store:
            store.end_silence(number, time.time())
        return True


def _told(item: Mapping[str, Any]) -> Told:
    return Told(str(item.get("slug")), item.get("gpu"), str(item.get("severity")), str(item.get("certainty")), item.get("words") or {})


def covered(body: Mapping[str, Any], silences: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a silence holds for that incident."""
    gpus = {"", None, body.get("gpu_uuid"), str(body.get("gpu"))}
    return any(one.get("slug") in ("", None, body.get("slug")) and one.get("gpu_uuid") in gpus for one in silences)
