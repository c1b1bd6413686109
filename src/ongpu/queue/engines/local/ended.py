"""What follows when jobs are over: those that waited for them may start, or never will. Within the caller's transaction."""

import sqlite3
from collections.abc import Iterable, Sequence

from ongpu.queue.engines.local.ids import listed
from ongpu.queue.engines.local.schema import ENDED, WAITS
from ongpu.queue.job import CANCELLED, DEPENDENCY, DONE
from ongpu.queue.reasons import Reason

# ruff: noqa: S608  the SQL is put together of our own constants


def close(db: sqlite3.Connection, jobs: Iterable[int], ending: str, said: str, now: float, seq: int) -> None:
    """Cancels those that wait, and all that can never start then."""
    todo = [(list(jobs), ending, said)]
    while todo:
        ids, ending, said = todo.pop()
        found = db.execute(f"SELECT id, array FROM job WHERE id IN (SELECT value FROM json_each(?)) AND {WAITS}", (listed(ids),)).fetchall()
        if found:
            these = listed(job for job, _ in found)
            db.execute(
                """UPDATE job SET seq = ?, state = ?, ended = ?, ending = ?, said = ?, blocked = 0, wish = ''
                WHERE id IN (SELECT value FROM json_each(?))""",
                (seq, CANCELLED, now, ending, said, these),
            )
            db.execute("DELETE FROM need WHERE job IN (SELECT value FROM json_each(?))", (these,))
            todo += _judge(db, [(job, array, False) for job, array in found], seq)


def settle(db: sqlite3.Connection, over: Sequence[tuple[int, int | None, bool]], now: float, seq: int) -> None:
    """Judges what waits for these (job, its array, whether it is done well)."""
    for jobs, ending, said in _judge(db, over, seq):
        close(db, jobs, ending, said, now, seq)


def _judge(db: sqlite3.Connection, over: Sequence[tuple[int, int | None, bool]], seq: int) -> list[tuple[list[int], str, str]]:
    """Frees what waited for these and may start now; returns the jobs that never will, and why."""
    ended = [job for job, _, _ in over]
    failed = [job for job, _, well in over if not well]
    arrays: dict[int, list[int]] = {}
    for _, array, well in over:
        if array is not None:
            counts = arrays.setdefault(array, [0, 0])
            counts[0] += 1
            counts[1] += not well
    for array, (many, bad) in arrays.items():
        db.execute("UPDATE array SET alive = alive - ?, bad = bad + ? WHERE id = ?", (many, bad, array))
        alive, all_bad = db.execute("SELECT alive, bad FROM array WHERE id = ?", (array,)).fetchone()
        ended += [array] if alive <= 0 else []
        failed += [array] if all_bad else []
    victims: dict[int, list[int]] = {}
    sql = "SELECT min(target), job FROM need WHERE kind = 'ok' AND target IN (SELECT value FROM json_each(?)) GROUP BY job"
    for target, job in db.execute(sql, (listed(failed),)).fetchall() if failed else ():
        victims.setdefault(target, []).append(job)
    sql = "SELECT count(*), job FROM need WHERE target IN (SELECT value FROM json_each(?)) GROUP BY job"
    if freed := db.execute(sql, (listed(ended),)).fetchall() if ended else []:
        sql = f"UPDATE job SET blocked = max(0, blocked - ?), seq = {seq:d} WHERE id = ? AND {WAITS}"
        db.executemany(sql, freed)
        db.execute("DELETE FROM need WHERE target IN (SELECT value FROM json_each(?))", (listed(ended),))
    return [(jobs, DEPENDENCY, Reason("needs-ok", {"job": target}).json()) for target, jobs in victims.items()]


def judged(db: sqlite3.Connection, target: int, kind: str) -> tuple[bool, bool] | None:
    """Whether a job or array is over, and whether it can still be followed so; None: there never was one, or it is forgotten."""
    row = db.execute(f"SELECT {ENDED}, {ENDED} AND state <> ? FROM job WHERE id = ?", (DONE, target)).fetchone()
    if row is None:
        row = db.execute("SELECT alive <= 0, bad > 0 FROM array WHERE id = ?", (target,)).fetchone()
    return None if row is None else (bool(row[0]), kind == "any" or not row[1])
