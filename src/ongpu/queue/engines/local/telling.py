"""What the book tells: listings, history, what changed, what runs, what was used."""

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ongpu.lazy import field_names, replace
from ongpu.queue.asked import quick
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local.file import File
from ongpu.queue.engines.local.ids import clean, written
from ongpu.queue.engines.local.refusals import BookError
from ongpu.queue.engines.local.rows import Row, Run
from ongpu.queue.engines.local.schema import ENDED, LIVE, RUNS, SPAN, WAITS
from ongpu.queue.job import Card, Listing, Spec, Told, Want

PAGE = 1000  # runs of the history that are read at once

_ROW = """SELECT job.id, job.seq, job.state, spec.gpus, spec.memory, spec.share, spec.model, spec.capability, spec.lasts, spec.cpus,
    spec.host_memory, spec.user, spec.project, spec.priority, job.submitted, job.since, job.attained, spec.checkpoint, job.begin,
    job.blocked, job.array, spec.at_once, job.avoid, job.attempt, job.wish, spec.reservation
    FROM job INDEXED BY {index} CROSS JOIN spec ON spec.id = job.spec"""
_TOLD = """SELECT job.id, job.spec, job.array, job.place, job.begin, job.state, spec.user, job.submitted, job.since, job.started, job.ended,
    job.gpus, job.attempt, job.code, job.ending, job.slug, job.attained, job.busy, job.peak, job.energy, job.said, job.wish, job.blocked,
    job.avoid FROM job {index} CROSS JOIN spec ON spec.id = job.spec"""
_RUN = """SELECT job.id, job.spec, job.array, job.place, job.begin, run.became, spec.user, job.submitted, job.since, run.started, run.ended,
    run.gpus, run.attempt, run.code, run.ending, run.slug, run.used, run.busy, run.peak, run.energy, run.said, '', 0, ''
    FROM run INDEXED BY run_ended CROSS JOIN job ON job.id = run.job CROSS JOIN spec ON spec.id = job.spec"""


class Telling(File):
    """The part of the book that is read; see `Book`."""

    def listing(self, want: Want) -> Listing:
        """Under half a second with 100,000 jobs that wait."""
        filters = [(name, clean(value)) for name in ("user", "project", "name") if (value := getattr(want, name))]
        more, values = "".join(f" AND spec.{name} = ?" for name, _ in filters), [value for _, value in filters]
        if want.states:
            more += " AND job.state IN (SELECT value FROM json_each(?))"
            values.append(json.dumps(list(want.states)))
        with self._reading() as db:
            specs, most = _Specs(db, self.path), -1 if want.most is None else want.most
            if want.ids:
                ids = json.dumps(self._numbers(db, want.ids))
                sql = f"{_TOLD.format(index='')} WHERE job.id IN (SELECT value FROM json_each(?)){more} ORDER BY job.id LIMIT ?"  # noqa: S608
                rows = db.execute(sql, (ids, *values, most)).fetchall()
            else:
                rows = []
                for where, index, order, limit in (
                    (RUNS, "job_runs", "job.id", -1),
                    (WAITS, "job_waits", "job.rank, job.since, job.id", most),
                    (ENDED, "job_ended", "job.ended DESC, job.id DESC", most),
                ):
                    sql = f"{_TOLD.format(index=f'INDEXED BY {index}')} WHERE job.{where}{more} ORDER BY {order} LIMIT ?"
                    rows += db.execute(sql, (*values, limit)).fetchall()
            if filters:
                wheres = " AND ".join(f"spec.{name} = ?" for name, _ in filters)
                sql = f"SELECT state, count(*) FROM job JOIN spec ON spec.id = job.spec WHERE {wheres} GROUP BY state"  # noqa: S608
                counts = dict(db.execute(sql, values[: len(filters)]).fetchall())
            else:
                counts = dict(db.execute("SELECT state, count(*) FROM job GROUP BY state").fetchall())
            return Listing(jobs=tuple(specs.told(row) for row in rows), counts=counts, cards=tuple(self._cards(db)))

    def find(self, words: Sequence[str]) -> list[int]:
        """The numbers of "12", "12-15", "17[3]" and "17_3" (of array 17 the job with index 3). Raises EngineError where there is none."""
        with self._reading() as db:
            return self._numbers(db, words, strict=True)

    def _numbers(self, db: Any, words: Sequence[str], strict: bool = False) -> list[int]:
        found: list[int] = []
        for word in words:
            jobs = written(db, word)
            if strict and not jobs:
                raise EngineError(f"{word[:40]}: there is no such job", f"{word[:40]}：没有这个作业")
            found += jobs
        return list(dict.fromkeys(found))

    def history(self, since: float) -> Iterator[Told]:
        """The runs that ended at that time or later, the first first, for accounting, the Gantt chart and `queue simulate`.

        Of each run: its own start, end, GPUs and figures; attained is what this run used, state what became of the job then.
        """
        after: tuple[float, int, int] = (since, -1, -1)
        while True:
            with self._reading() as db:
                specs = _Specs(db, self.path)
                rows = db.execute(
                    f"""{_RUN} WHERE run.ended IS NOT NULL AND (run.ended, run.job, run.attempt) > (?, ?, ?)
                    ORDER BY run.ended, run.job, run.attempt LIMIT {PAGE}""",
                    after,
                ).fetchall()
                told = [specs.told(row) for row in rows]
            yield from told
            if len(rows) < PAGE:
                return
            after = (rows[-1][10], rows[-1][0], rows[-1][12])

    def runs_of(self, job: int) -> list[Told]:
        """The runs of one job that have ended, as `history` tells of them."""
        with self._reading() as db:
            specs = _Specs(db, self.path)
            sql = f"{_RUN.replace('INDEXED BY run_ended', '')} WHERE run.job = ? AND run.ended IS NOT NULL ORDER BY run.attempt"
            return [specs.told(row) for row in db.execute(sql, (job,)).fetchall()]

    def changed(self, seq: int) -> list[Row]:
        """The jobs that changed after that number (0: all that live); those that are over among them, once."""
        where, index = (f"job.{LIVE}", "job_state") if seq <= 0 else ("job.seq > ?", "job_seq")
        rows = self._rows(f"{_ROW.format(index=index)} WHERE {where} ORDER BY job.seq, job.id", (seq,) if seq > 0 else ())
        return [Row._make((*row[:5], bool(row[5]), *row[6:22], _split(row[22]), *row[23:])) for row in rows]

    def scripts(self) -> list[str]:
        """`Spec.script` of all jobs that are remembered, each once."""
        sql = "SELECT DISTINCT json_extract(body, '$.script') FROM spec WHERE json_extract(body, '$.script') <> ''"
        return [script for (script,) in self._rows(sql)]

    def to_tell(self, jobs: Sequence[int]) -> list[int]:
        """Those of them that named an address for messages."""
        sql = """SELECT job.id FROM job JOIN spec ON spec.id = job.spec WHERE job.id IN (SELECT value FROM json_each(?))
            AND json_extract(spec.body, '$.notify') <> '' ORDER BY job.id"""
        return [job for (job,) in self._rows(sql, (json.dumps(list(jobs)),))]

    def seq(self) -> int:
        """The number of the last change."""
        return int(self._rows("SELECT value FROM mark WHERE name = 'seq'")[0][0])

    def runs(self) -> list[Run]:
        """Those that have been claimed and have not finished."""
        with self._reading() as db:
            return self._runs(db, "run.ended IS NULL", ())

    def _runs(self, db: Any, where: str, values: Sequence[Any]) -> list[Run]:
        leases: dict[int, list[tuple[str, int]]] = {}
        for gpu, slot, job in db.execute("SELECT gpu, slot, job FROM lease ORDER BY gpu, slot").fetchall():
            leases.setdefault(job, []).append((gpu, slot))
        specs = _Specs(db, self.path)
        sql = f"""SELECT run.job, run.attempt, run.state, run.claimed, run.started, run.asked, job.spec, job.place, job.begin, run.gpus
            FROM run INDEXED BY run_open CROSS JOIN job ON job.id = run.job WHERE {where} ORDER BY run.job, run.attempt"""  # noqa: S608
        found = []
        for job, attempt, state, claimed, started, asked, spec, place, begin, gpus in db.execute(sql, values).fetchall():
            order = {gpu: number for number, gpu in enumerate(_split(gpus))}
            found.append(
                Run(
                    job=job, attempt=attempt, state=state, claimed=claimed, started=started, asked=asked,
                    leases=tuple(sorted(leases.get(job, ()), key=lambda one: (order.get(one[0], 0), one[1]))),
                    spec=specs.whole(spec, place, begin), folder=self.run_folder(job, attempt),
                )
            )  # fmt: skip
        return found

    def endings(self, job: int) -> list[str]:
        """How its runs ended so far, the first first: what counts against its retries."""
        return [ending for (ending,) in self._rows("SELECT ending FROM run WHERE job = ? AND ended IS NOT NULL ORDER BY attempt", (job,))]

    def retried(self, job: int) -> int:
        """How many of its runs ended so that it was to run again: not those that gave way, were cut off by a reboot, or never began."""
        sql = "SELECT count(*) FROM run WHERE job = ? AND became = 'waiting' AND ending NOT IN ('', 'preempted', 'reboot')"
        return int(self._rows(sql, (job,))[0][0])

    def run_folder(self, job: int, attempt: int) -> Path:
        """Where the output of a run stands, and its `start` and `exit`."""
        return Path(f"{self.folder}/jobs/{job}/{attempt}")

    def cards(self) -> list[Card]:
        """The GPUs as the daemon saw them last; jobs: whose leases are on them."""
        with self._reading() as db:
            return self._cards(db)

    def _cards(self, db: Any) -> list[Card]:
        jobs: dict[str, list[str]] = {}
        for gpu, job in db.execute("SELECT DISTINCT gpu, job FROM lease ORDER BY job").fetchall():
            jobs.setdefault(gpu, []).append(str(job))
        found = []
        for uuid, state, slug, body in db.execute("SELECT id, state, slug, body FROM card").fetchall():
            told = {name: value for name, value in json.loads(body).items() if name in field_names(Card)}
            told["foreign"] = tuple(told.get("foreign", ()))
            found.append(Card(id=uuid, state=state, slug=slug, jobs=tuple(jobs.get(uuid, ())), **told))
        return sorted(found, key=lambda card: (card.node, card.index, card.id))

    def spent(self, now: float, half_life: float) -> dict[str, float]:
        """GPU-seconds of late, halved with each half life: {"user:ann": 3600.0, "project:vision": ...} for Policy.spent.

        What runs counts too; what is older than ten half lives does not.
        """
        spent: dict[str, float] = {}
        for name, span, used in self._used(now - 10 * half_life, now):
            age = max(0.0, now - (span + 1) * SPAN)
            spent[name] = spent.get(name, 0.0) + used * 0.5 ** (age / half_life)
        return spent

    def used(self, since: float, now: float) -> dict[str, float]:
        """GPU-seconds from that time on (in steps of 6 h), named as in `spent`; what runs counts too."""
        used: dict[str, float] = {}
        for name, _, seconds in self._used(since, now):
            used[name] = used.get(name, 0.0) + seconds
        return used

    def accounts(self, since: float) -> list[tuple[str, int, float]]:
        """GPU-seconds of runs that ended from that time on: whose ("user:ann"), in which step of SPAN seconds, how many."""
        return self._rows("SELECT name, span, used FROM account WHERE span >= ?", (int(since // SPAN),))

    def _used(self, since: float, now: float) -> Iterator[tuple[str, int, float]]:
        yield from self.accounts(since)
        sql = f"""SELECT spec.user, spec.project, run.started, count(lease.gpu) FROM job INDEXED BY job_runs
            CROSS JOIN spec ON spec.id = job.spec
            JOIN run ON run.job = job.id AND run.attempt = job.attempt JOIN lease ON lease.job = job.id
            WHERE job.{RUNS} AND run.started IS NOT NULL GROUP BY job.id"""  # noqa: S608
        for user, project, started, gpus in self._rows(sql):
            seconds = max(0.0, now - max(started, since)) * gpus
            yield f"user:{user}", int(now // SPAN), seconds
            if project:
                yield f"project:{project}", int(now // SPAN), seconds


class _Specs:
    """What was asked, read once for all jobs of an array."""

    def __init__(self, db: Any, path: Path) -> None:
        self._db, self._path = db, path
        self._seen: dict[int, Spec] = {}
        self._whole: dict[int, Spec] = {}  # with their environments
        self._environ: dict[int, dict[str, str]] = {}

    def told(self, row: Sequence[Any]) -> Told:
        """A row of _TOLD or _RUN. The environment is left out: it may hold secrets."""
        (job, spec, array, place, begin, state, user, submitted, since, started, ended, gpus, attempt, code, ending, slug, attained, busy,
            peak, energy, said, wish, blocked, avoid) = row  # fmt: skip
        more = {"wish": wish, "blocked": blocked, "avoid": _split(avoid)}
        return Told(
            id=str(job), spec=self._one(spec, place, begin), state=state, user=user, array="" if array is None else str(array),
            submitted=submitted, since=since, started=started, ended=ended, gpus=_split(gpus), attempts=attempt, code=code, ending=ending,
            slug=slug, attained=attained, busy=busy, peak=peak, energy=energy, said=said,
            more={name: value for name, value in more.items() if value},
        )  # fmt: skip

    def _one(self, number: int, place: int | None, begin: float | None) -> Spec:
        return _placed(self._seen.get(number) or self._read(number), place, begin)

    def _read(self, number: int) -> Spec:
        row = self._db.execute("SELECT body FROM spec WHERE id = ?", (number,)).fetchone()
        try:
            (body,) = row
            spec = self._seen[number] = quick(json.loads(body))
        except (ValueError, TypeError) as error:
            raise BookError("corrupt", self._path, f"spec {number}: {error}") from error
        return spec

    def whole(self, number: int, place: int | None, begin: float | None) -> Spec:
        """With its environment: for the daemon, which starts it."""
        if number not in self._whole:
            spec = self._one(number, None, None)
            sql = "SELECT environ.id, environ.body FROM spec JOIN environ ON environ.id = spec.environ WHERE spec.id = ?"
            row = self._db.execute(sql, (number,)).fetchone()
            self._whole[number] = spec if row is None else replace(spec, environ=self._environment(*row))
        return _placed(self._whole[number], place, begin)

    def _environment(self, number: int, body: bytes) -> dict[str, str]:
        if number not in self._environ:
            try:
                self._environ[number] = dict(json.loads(zlib.decompress(body)))
            except (ValueError, TypeError, zlib.error) as error:
                raise BookError("corrupt", self._path, f"environ {number}: {error}") from error
        return self._environ[number]


def _placed(spec: Spec, place: int | None, begin: float | None) -> Spec:
    return spec if place is None and begin is None else replace(spec, index=place, begin=begin)


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(" ")) if text else ()
