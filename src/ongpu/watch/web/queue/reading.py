"""What the pages and the API ask of the queue: each question once for all who ask, in one thread, bounded in size and time."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from typing import TypeVar

from ongpu.lazy import replace
from ongpu.queue.asked import checked
from ongpu.queue.asked import retries as unsaid
from ongpu.queue.engines import Engine, EngineError, refuse
from ongpu.queue.forecast import Terms
from ongpu.queue.job import ENDING, RUNNING, STARTING, Card, Listing, Spec, Told, Want
from ongpu.queue.words import called, plain
from ongpu.watch.web.queue.foretold import expected

FRESH, PAST = 1.0, 15.0  # seconds for which one look at the jobs, and one at the past, serves all who ask
FAR = 5.0  # seconds for which a look at another scheduler does: it has others to answer
AGAIN = 5.0  # seconds between two tries to open an engine that cannot be opened
LIMIT = 10.0  # seconds that an answer may take
MOST = 200  # waiting jobs, and jobs that are over, of one look
RUNS = 50_000  # of the past that are kept
OVERLAP = 60.0  # seconds that are asked for again: clocks step back
SPANS = {"6h": 6 * 3600.0, "24h": 24 * 3600.0, "7d": 7 * 86_400.0}
TAIL, READ = 64 * 1024, 256 << 20  # bytes of an output that are shown, and that are read for it
HERE = ("local", "slurm")  # engines whose jobs find this machine's folders
PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")
Answer = TypeVar("Answer")
GONE = EngineError("no queue is served here", "这里没有作业队列", 69)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job: on these GPUs from then to then (s since the epoch; ended None: it goes on)."""

    job: str
    name: str
    user: str
    project: str
    gpus: tuple[str, ...]
    started: float
    ended: float | None
    ending: str = ""
    slug: str = ""
    energy: float | None = None  # joules
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """One look. listing None: problem says why. runs: of the longest span, those that go on too; cut: the oldest are missing."""

    at: float
    engine: str = ""
    listing: Listing | None = None
    problem: EngineError | None = None
    runs: tuple[Run, ...] = ()
    cut: bool = False
    expected: Mapping[str, float] = field(default_factory=dict)  # id -> when it may start, for the first that wait

    @property
    def jobs(self) -> tuple[Told, ...]:
        """Those that were looked at."""
        return self.listing.jobs if self.listing else ()

    @property
    def cards(self) -> tuple[Card, ...]:
        """The GPUs, as the queue sees them."""
        return self.listing.cards if self.listing else ()

    def of(self, *states: str) -> list[Told]:
        """The jobs in these states, in the engine's order."""
        return [job for job in self.jobs if job.state in states]

    def count(self, *states: str) -> int:
        """How many there are in all in these states."""
        return sum(self.listing.counts.get(state, 0) for state in states) if self.listing else 0


def nobody(queue: "Queue") -> Engine:
    """No engine at all."""
    raise GONE


class Queue:
    """The engine that `open` gives at the first question, asked by one thread only, so that any engine will do. Many threads may use it.

    submits: whether jobs may be submitted from here (who may do so has shown the token besides). What `open` may set: cost: (GPU's model,
    GPU hours, kWh or None) -> what they cost, None where nothing is known; currency: of that; history: the runs that ended after a time
    (None: the engine tells only the last jobs); terms: by what its jobs are placed (None: not by ours).
    """

    cost: Callable[[str, float, float | None], float | None] = staticmethod(lambda model, hours, kwh: None)
    currency = ""
    history: Callable[[float], Iterable[Told]] | None = None
    terms: Callable[[float], Terms] | None = None

    def __init__(self, open: Callable[["Queue"], Engine] = nobody, submits: bool = False) -> None:
        self.open, self.submits = open, submits
        self._thread = ThreadPoolExecutor(1, "ongpu queue")
        self._engine: Engine | None = None
        self._problem: EngineError | None = None
        self._tried = self._asked = self._foreseen = float("-inf")
        self._expected: dict[str, float] = {}
        self._seen: Seen | None = None
        self._past: dict[tuple[str, int], Run] = {}
        self._since = float("-inf")  # until where the past is known
        self._cut = False
        self._look: Future[Seen] | None = None
        self._turn = threading.Lock()

    def close(self) -> None:
        """Asks nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ask(self, question: Callable[[Engine], Answer]) -> Answer:
        """What the engine answers. Raises EngineError, also where it takes longer than LIMIT."""
        return _answer(self._thread.submit(lambda: question(self._opened())))

    def seen(self) -> Seen:
        """What is known now; all who ask within a second get the same. Raises nothing."""
        with self._turn:
            if self._seen and 0 <= time.time() - self._seen.at < (FRESH if self._seen.engine in ("", "local") else FAR):
                return self._seen
            if self._look is None or self._look.done():
                self._look = self._thread.submit(self._now)
            look = self._look
        try:
            return _answer(look)
        except EngineError as error:
            return Seen(time.time(), problem=error)

    def told(self, job: str) -> Told | None:
        """One job as it is; None: there is none of that id. Raises EngineError."""
        found = self.ask(lambda engine: engine.jobs(Want(ids=(job,), most=1)))
        return next((one for one in found.jobs if one.id == job), None)

    def why(self, told: Told) -> list[tuple[str, str]]:
        """Why it waits, or ended so. Raises EngineError."""
        return self.ask(lambda engine: engine.why(told))

    def tail(self, job: str, attempt: int | None = None) -> bytes:
        """The end of what it wrote. Raises EngineError."""

        def read(engine: Engine) -> bytes:
            until, kept, size = time.monotonic() + LIMIT / 2, b"", 0
            for piece in engine.output(job, False, attempt):
                kept, size = (kept + piece)[-TAIL:], size + len(piece)
                if size > READ or time.monotonic() > until:
                    break
            return kept

        return self.ask(read)

    def change(self, what: str, jobs: Sequence[str]) -> None:
        """"cancel", "hold" or "release". Raises EngineError."""
        self.ask(lambda engine: {"cancel": engine.cancel, "hold": engine.hold, "release": engine.release}[what](jobs))
        self._seen = None

    def submit(self, specs: Sequence[Spec], retries: int | None = None) -> list[str]:
        """Their ids. retries: of all of them; None: as many as where nothing is said in the shell. Raises EngineError."""
        if not self.submits:
            raise EngineError(
                "jobs may not be submitted here: `submit` under [web] in watch.toml allows it",
                "此处不允许提交作业：可在 watch.toml 的 [web] 中用 `submit` 打开", 77,
            )  # fmt: skip

        def put(engine: Engine) -> list[str]:
            given = [replace(one, retries=unsaid(engine.name, one.gpus) if retries is None else retries) for one in specs]
            made = [checked(_at_home(spec) if engine.name in HERE else spec) for spec in given]
            for spec in made[:1]:
                refuse(spec, engine)
            return engine.submit(made)

        found = self.ask(put)
        self._seen = None
        return found

    # -- in the engine's own thread

    def _opened(self) -> Engine:
        if self._engine is None:
            if self._problem and time.monotonic() - self._tried < AGAIN:
                raise self._problem
            self._tried = time.monotonic()
            try:
                self._engine = self.open(self)
            except EngineError as error:
                self._problem = error
                raise
        return self._engine

    def _now(self) -> Seen:
        at = time.time()
        try:
            engine = self._opened()
            listing = engine.jobs(Want(most=MOST))
            self._remember(listing, at)
        except EngineError as error:
            self._seen = Seen(at, problem=error)
            return self._seen
        live = [run for job in listing.jobs if (run := _run(job)) and run.ended is None]
        if time.monotonic() - self._foreseen >= PAST:
            self._expected = expected(listing, self.terms, at)
            self._foreseen = time.monotonic()
        self._seen = Seen(at, engine.name, listing, None, (*self._past.values(), *live), self._cut, self._expected)
        return self._seen

    def _remember(self, listing: Listing, at: float) -> None:
        """What ended since the last look."""
        begin = at - SPANS["7d"]
        if self.history is None:
            self._keep(listing.jobs)
        elif time.monotonic() - self._asked >= PAST:
            self._asked = time.monotonic()
            self._keep(self.history(max(begin, self._since - OVERLAP)))
            self._since = at
        if len(self._past) > RUNS or any(run.ended is not None and run.ended < begin for run in self._past.values()):
            kept = sorted((run for run in self._past.values() if (run.ended or at) >= begin), key=lambda run: run.ended or at)
            self._cut = len(kept) > RUNS
            self._past = {(run.job, run.attempt): run for run in kept[-RUNS:]}

    def _keep(self, jobs: Iterable[Told]) -> None:
        for job in jobs:
            if (run := _run(job)) and run.ended is not None:
                self._past[run.job, run.attempt] = run


def _answer(asked: "Future[Answer]") -> Answer:
    try:
        return asked.result(LIMIT)
    except Late:
        asked.cancel()
        raise EngineError(f"the queue does not answer within {LIMIT:.0f} s", f"队列在 {LIMIT:.0f} 秒内没有应答", 69) from None
    except (OSError, RuntimeError, ValueError) as error:  # of an engine that is broken: told, not a page that is
        raise EngineError(f"the queue cannot be asked: {error}", f"无法查询队列：{error}", 69) from error


def _at_home(spec: Spec) -> Spec:
    """The same with a folder and an environment, where none was told: those of a shell that has just begun, not all of this server's."""
    environ = spec.environ or {name: value for name, value in os.environ.items() if name in PLAIN or name.startswith(("LC_", "XDG_"))}
    return replace(spec, environ=environ, folder=spec.folder or os.path.expanduser("~"))


def _run(job: Told) -> Run | None:
    """Its last run; None where it has not run."""
    if job.started is None:
        return None
    ended = job.ended if job.ended is not None and job.ended >= job.started else None
    if ended is None and job.state not in (STARTING, RUNNING, ENDING):
        return None
    spec = job.spec
    return Run(
        job.id, title(job), job.user, spec.project, job.gpus, job.started, ended, job.ending, job.slug, job.energy, job.attempts,
    )  # fmt: skip


def title(job: Told) -> str:
    """What it is called: its name, else its script or program; never its arguments, which may hold a secret; with its place in an array."""
    name = plain(job.spec.name)[:80] or plain(called(job.spec.command)) or job.id
    return f"{name} [{job.spec.index}]" if job.spec.index is not None else name
