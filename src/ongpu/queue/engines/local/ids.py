"""The numbers of jobs, arrays and changes: giving them out, and finding those that somebody wrote."""

import json
import sqlite3
from collections.abc import Iterable

TICK = 1e-6  # s between two that begin to wait
DAY = 86400.0


def clean(text: str) -> str:
    """The same as SQLite takes it: bytes that were no UTF-8 become question marks."""
    return text.encode("utf-8", "replace").decode()


def listed(ids: Iterable[int]) -> str:
    """The ids as json_each takes them: one parameter, however many."""
    return json.dumps(list(ids))


def next_seq(db: sqlite3.Connection) -> int:
    """A new number of a change. All that one transaction changes may have the same: others see all of it or nothing."""
    return _next(db, "seq", 1)


def next_id(db: sqlite3.Connection, many: int) -> int:
    """The first of so many ids that no job and no array ever had."""
    return _next(db, "id", many)


def _next(db: sqlite3.Connection, name: str, many: int) -> int:
    (last,) = db.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
    db.execute("UPDATE mark SET value = ? WHERE name = ?", (last + many, name))
    return int(last) + 1


def next_since(db: sqlite3.Connection, now: float, many: int) -> float:
    """When the first of so many jobs begins to wait, the next ones TICK later each: now, but after all others, so that it orders them.

    A clock that was set back changes nothing; one that was more than a day ahead was wrong, and is forgotten.
    """
    (last,) = db.execute("SELECT value FROM mark WHERE name = 'since'").fetchone()
    first = last + TICK if now <= last <= now + DAY else now
    db.execute("UPDATE mark SET value = ? WHERE name = 'since'", (first + (many - 1) * TICK,))
    return float(first)


def written(db: sqlite3.Connection, word: str) -> list[int]:
    """The jobs of "12", "12-15", "17[3]", "17_3" (of array 17 the job with index 3), "17[0,2-4]", and of an array's own number all.

    None: []; so too where one that it names is not there.
    """
    text = word.strip().lstrip("#")
    number, within, places = text.replace("_[", "[").replace("[", "_").removesuffix("]").partition("_")
    spans = [_span(part) for part in (places if within else number).split(",")]
    if not all(spans) or (within and not _number(number)) or (not within and len(spans) > 1):
        return []
    if within:
        sql, found = "SELECT id FROM job WHERE array IS NOT NULL AND array = ? AND place BETWEEN ? AND ? ORDER BY place", list[int]()
        for first, last in filter(None, spans):
            jobs = [one for (one,) in db.execute(sql, (int(number), first, last)).fetchall()]
            if not jobs:
                return []
            found += jobs
        return list(dict.fromkeys(found))
    ((first, last),) = filter(None, spans)
    if "-" in number:
        sql, values = "SELECT id FROM job WHERE id BETWEEN ? AND ? ORDER BY id", (first, last)
    else:
        sql = "SELECT id FROM job WHERE id = ? UNION ALL SELECT id FROM job WHERE array IS NOT NULL AND array = ? ORDER BY id"
        values = (first, first)
    return [one for (one,) in db.execute(sql, values).fetchall()]


def _span(text: str) -> tuple[int, int] | None:
    """(3, 3) of "3", (3, 5) of "3-5"."""
    first, dash, last = text.partition("-")
    if not _number(first) or (dash and not _number(last)):
        return None
    return int(first), int(last) if dash else int(first)


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 18
