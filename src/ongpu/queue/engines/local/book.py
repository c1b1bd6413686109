"""The queue's SQLite file: jobs, their runs, the GPUs' leases. What is committed survives a kill -9 and a power cut."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from ongpu.lazy import field_names
from ongpu.queue.admission import Reservation, owners
from ongpu.queue.engines.local.asking import Asking
from ongpu.queue.engines.local.ended import settle
from ongpu.queue.engines.local.ids import clean, listed, next_seq, next_since
from ongpu.queue.engines.local.rows import Finish, Row, Run
from ongpu.queue.engines.local.schema import ENDED, SPAN, WAITS
from ongpu.queue.engines.local.telling import Telling
from ongpu.queue.job import CANCELLED, DONE, HELD, OVER, PREEMPTED, WAITING, Card
from ongpu.queue.placement import bucket

__all__ = ["Book", "Finish", "Reservation", "Row", "Run"]

KEEP = 30 * 86400.0  # s that jobs which are over are remembered
LEAST = 1000  # of them are remembered however old the clock says that they are
MOST_USED = 4096 * 3660 * 86400.0  # GPU-seconds of one run
ACCOUNTS = 400 * 86400.0  # s that GPU time is remembered
STEP = 500  # of them are forgotten at once, so that nobody waits long


class Book(Asking, Telling):
    """The file in its folder. Every method is one transaction. now: seconds since the epoch, given by the caller.

    Raises EngineError: no folder, no rights, a disk that is full, a file of a newer ongpu, a file that is damaged.
    The file holds the environment of each job, because the job needs it: it is readable by its owner alone, and no listing shows it.
    `now` is written down and never trusted for order: ids and seq are.
    """

    def claim(self, starts: Sequence[tuple[int, Sequence[tuple[str, int]]]], now: float, durable: bool = True) -> list[Run]:
        """New runs of these jobs on these (UUID, slot). durable: on the disk when it returns; else safe from kill -9 alone until `sync`.

        A job that no longer waits, a slot that is taken, or a GPU that is drained or tested is left out; a gang gets all or nothing.
        """
        with self._writing(durable) as db:
            seq = next_seq(db)
            begun = [one for job, leases in starts if (one := self._claim(db, job, leases, now, seq))]
            return self._runs(db, "run.ended IS NULL AND run.job IN (SELECT value FROM json_each(?))", (listed(begun),)) if begun else []

    def _claim(self, db: sqlite3.Connection, job: int, leases: Sequence[tuple[str, int]], now: float, seq: int) -> int | None:
        row = db.execute(
            "SELECT attempt, spec.gpus FROM job JOIN spec ON spec.id = job.spec WHERE job.id = ? AND state = 'waiting' AND blocked = 0",
            (job,),
        ).fetchone()
        if row is None or len({gpu for gpu, _ in leases}) != row[1] or len(leases) != row[1]:
            return None
        closed = db.execute(
            "SELECT 1 FROM card WHERE state IN ('drained', 'testing') AND id IN (SELECT value FROM json_each(?))",
            (json.dumps([gpu for gpu, _ in leases]),),
        ).fetchone()
        if closed:
            return None
        attempt, gpus = row[0] + 1, " ".join(gpu for gpu, _ in leases)
        db.execute("SAVEPOINT gang")
        try:
            db.executemany("INSERT INTO lease VALUES (?, ?, ?, ?)", [(gpu, slot, job, attempt) for gpu, slot in leases])
        except sqlite3.IntegrityError:
            db.execute("ROLLBACK TO gang")
            db.execute("RELEASE gang")
            return None
        db.execute("RELEASE gang")
        db.execute("INSERT INTO run (job, attempt, state, claimed, gpus) VALUES (?, ?, 'starting', ?, ?)", (job, attempt, now, gpus))
        db.execute(
            """UPDATE job SET state = 'starting', attempt = ?, seq = ?, gpus = ?, started = NULL, ended = NULL, code = NULL, ending = '',
            slug = '', said = '', busy = NULL, peak = NULL, energy = NULL, wish = '' WHERE id = ?""",
            (attempt, seq, gpus, job),
        )
        return job

    def started(self, runs: Sequence[tuple[int, int]], now: float) -> None:
        """(job, attempt): their keepers live."""
        with self._writing() as db:
            seq = next_seq(db)
            for job, attempt in runs:
                changed = db.execute(
                    """UPDATE run SET started = ?, state = CASE state WHEN 'starting' THEN 'running' ELSE state END
                    WHERE job = ? AND attempt = ? AND ended IS NULL AND started IS NULL""",
                    (now, job, attempt),
                ).rowcount
                if changed:
                    db.execute(
                        """UPDATE job SET started = ?, seq = ?, state = CASE state WHEN 'starting' THEN 'running' ELSE state END
                        WHERE id = ? AND attempt = ?""",
                        (now, seq, job, attempt),
                    )

    def wish(self, jobs: Mapping[int, str], now: float) -> None:
        """Why these are asked to end; their state is ENDING. Of several wishes the strongest holds: see STRONGER."""
        with self._writing() as db:
            self._wish(db, jobs, now, next_seq(db))

    def stay(self, jobs: Sequence[int], said: str, now: float) -> None:
        """These were asked to give way, and are let run on: nothing is wished of them any more. said: why."""
        with self._writing() as db:
            seq = next_seq(db)
            for job in jobs:
                sql = "UPDATE job SET state = 'running', wish = '', said = ?, seq = ? WHERE id = ? AND wish = 'preempt'"
                if db.execute(sql, (clean(said), seq, job)).rowcount:
                    db.execute("UPDATE run SET state = 'running', asked = NULL WHERE job = ? AND ended IS NULL", (job,))

    def sync(self) -> None:
        """What was written before and is not yet on the disk is so now."""
        with self._writing() as db:
            db.execute("UPDATE mark SET value = value WHERE name = 'seq'")

    def finish(self, ends: Sequence[Finish], now: float, durable: bool = True) -> None:
        """The runs are over, their leases gone; what waits for them is judged; jobs run again or are over. Twice is once.

        A job that somebody cancelled does not run again, whatever `then` says.
        """
        with self._writing(durable) as db:
            seq = next_seq(db)
            over = [one for end in ends if (one := self._finish(db, end, now, seq))]
            settle(db, over, now, seq)

    def _finish(self, db: sqlite3.Connection, end: Finish, now: float, seq: int) -> tuple[int, int | None, bool] | None:
        row = db.execute(
            """SELECT job.wish, job.attained, job.avoid, job.array, job.begin, spec.user, spec.project, spec.priority FROM run
            JOIN job ON job.id = run.job JOIN spec ON spec.id = job.spec WHERE run.job = ? AND run.attempt = ? AND run.ended IS NULL""",
            (end.job, end.attempt),
        ).fetchone()
        if row is None:
            return None
        if end.then not in (*OVER, WAITING, HELD):
            raise ValueError(f"a job cannot be {end.then} after a run")
        wish, attained, avoid, array, begin, user, project, priority = row
        then = CANCELLED if wish == "cancel" and end.then not in OVER else end.then
        ended = now if end.ended is None else min(now, end.ended)
        figures = (end.code, clean(end.ending), clean(end.slug), clean(end.said), end.busy, end.peak, end.energy)
        used = end.used if 0 <= end.used < MOST_USED else 0.0  # a clock that jumped
        db.execute("DELETE FROM lease WHERE job = ? AND attempt = ?", (end.job, end.attempt))
        db.execute(
            """UPDATE run SET state = 'over', ended = ?, became = ?, used = ?, code = ?, ending = ?, slug = ?, said = ?, busy = ?, peak = ?,
            energy = ?, started = coalesce(started, ?) WHERE job = ? AND attempt = ?""",
            (ended, then, used, *figures, end.started, end.job, end.attempt),
        )
        attained += used
        for name in owners(user, project):
            db.execute(
                "INSERT INTO account VALUES (?, ?, ?) ON CONFLICT (name, span) DO UPDATE SET used = used + excluded.used",
                (name, int(ended // SPAN), used),
            )
        all_avoid = " ".join(dict.fromkeys([*avoid.split(), *end.avoid]))
        db.execute(
            """UPDATE job SET seq = ?, state = ?, attained = ?, rank = ?, avoid = ?, wish = '', ended = ?, code = ?, ending = ?, slug = ?,
            said = ?, busy = ?, peak = ?, energy = ?, begin = ?, started = coalesce(started, ?) WHERE id = ?""",
            (
                seq, then, attained, bucket(attained) - priority, all_avoid, ended if then in OVER else None, *figures,
                now + end.delay if then == WAITING and end.delay else begin, end.started, end.job,
            ),
        )  # fmt: skip
        if then in OVER:
            return end.job, array, then == DONE
        if end.ending == PREEMPTED:  # else it was not its fault, and it keeps its place
            db.execute("UPDATE job SET since = ? WHERE id = ?", (next_since(db, now, 1), end.job))
        return None

    def say(self, words: Mapping[int, str], now: float) -> None:
        """Why a job waits, as the daemon saw it last: `Reason` as JSON. Not durable, not a change."""
        with self._writing(durable=False) as db:
            db.executemany(
                f"UPDATE job SET said = ? WHERE id = ? AND said <> ? AND {WAITS}",  # noqa: S608
                [(text, job, text) for job, text in ((job, clean(text)) for job, text in words.items())],
            )

    def heard(self, seq: int) -> None:
        """The daemon has told of all that were cancelled up to that change."""
        with self._writing(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO mark VALUES ('heard', ?)", (seq,))

    def unheard(self, seq: int) -> list[int]:
        """The jobs that were cancelled while no daemon lived, up to that change: told of once. None of a book that knew no such mark."""
        with self._writing(durable=False) as db:
            row = db.execute("SELECT value FROM mark WHERE name = 'heard'").fetchone()
            db.execute("INSERT OR REPLACE INTO mark VALUES ('heard', ?)", (seq,))
            sql = "SELECT id FROM job WHERE seq > ? AND seq <= ? AND state = ? ORDER BY id"
            found = db.execute(sql, (*row, seq, CANCELLED)).fetchall() if row else []
        return [job for (job,) in found]

    def set_cards(self, cards: Sequence[Card], now: float) -> None:
        """What the daemon saw. `state` and `slug` are written too: the daemon decides them.

        GPUs that are not named stay as they are: one that is drained is so when it comes back. State "gone": it is forgotten.
        """
        names = [name for name in field_names(Card) if name not in ("id", "state", "slug", "jobs")]
        before = {uuid: (state, slug) for uuid, state, slug in self._rows("SELECT id, state, slug FROM card")}
        durable = any(before.get(card.id) != (card.state, card.slug) for card in cards)
        with self._writing(durable) as db:
            for card in cards:
                if card.state == "gone":
                    db.execute("DELETE FROM card WHERE id = ?", (card.id,))
                    continue
                body = json.dumps({name: value for name in names if (value := getattr(card, name)) not in (None, "", ())})
                db.execute("INSERT OR REPLACE INTO card VALUES (?, ?, ?, ?)", (card.id, card.state, card.slug, body))

    def forget(self, now: float, keep: float = KEEP, step: int = STEP) -> list[int]:
        """Drops some of the jobs that ended longer ago than `keep` seconds; the ids of those dropped, whose folders are of no use now.

        Call it again while it returns any. The newest thousand stay whatever the clock says.
        """
        with self._writing() as db:
            (spared,) = db.execute(f"SELECT count(*) FROM (SELECT 1 FROM job WHERE {ENDED} LIMIT ?)", (LEAST + step,)).fetchone()  # noqa: S608
            rows: list[Any] = db.execute(
                f"SELECT id, spec, array FROM job WHERE {ENDED} AND ended < ? ORDER BY ended, id LIMIT ?",  # noqa: S608
                (now - keep, max(0, min(step, spared - LEAST))),
            ).fetchall()
            ids = listed(job for job, _, _ in rows)
            db.execute("DELETE FROM run WHERE job IN (SELECT value FROM json_each(?))", (ids,))
            db.execute("DELETE FROM need WHERE job IN (SELECT value FROM json_each(?))", (ids,))
            db.execute("DELETE FROM job WHERE id IN (SELECT value FROM json_each(?))", (ids,))
            for _, spec, array in rows:
                self._let_go(db, spec, array)
            db.execute("DELETE FROM account WHERE span < ?", (int((now - ACCOUNTS) // SPAN),))
        if rows:
            self._shrink(STEP)
        return [job for job, _, _ in rows]

    def _let_go(self, db: sqlite3.Connection, spec: int, array: int | None) -> None:
        """What only that job needed."""
        db.execute("UPDATE spec SET uses = uses - 1 WHERE id = ?", (spec,))
        gone = db.execute("SELECT environ FROM spec WHERE id = ? AND uses <= 0", (spec,)).fetchone()
        if gone is not None:
            db.execute("DELETE FROM spec WHERE id = ?", (spec,))
            db.execute("UPDATE environ SET uses = uses - 1 WHERE id = ?", gone)
            db.execute("DELETE FROM environ WHERE id = ? AND uses <= 0", gone)
        if array is not None:
            sql = "DELETE FROM array WHERE id = ? AND NOT EXISTS (SELECT 1 FROM job WHERE array IS NOT NULL AND array = ?)"
            db.execute(sql, (array, array))
