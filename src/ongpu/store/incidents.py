"""Incidents, events, what is to be told of them, and who asked for silence."""

# ruff: noqa: S608  the SQL that is put together is from this file

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from ongpu.store.file import LEAST_BYTES, File, sound

Body = dict[str, Any]

MOST = 100_000  # events, closed incidents, sent notices
EACH = 16 << 10  # and one for so many bytes that the file may have: a flood of them must leave room for the samples


class Incidents(File):
    """The part of the store that holds incidents, events, notices and silences; see `Store`.

    Bodies are JSON objects of the caller's making; what is handed back is the body with the columns (id, opened, closed, t ...) in it.
    Ids are given at once and for good, also while the disk is full.
    """

    def _opened(self) -> None:
        super()._opened()
        before: dict[str, int] = getattr(self, "_next", {})
        highest = dict(self._rows(_HIGHEST))
        self._next: dict[str, int] = {
            table: max((highest[table] or 0) + 1, before.get(table, 1), self._first_id) for table in ("incident", "event", "notice")
        }

    def _id(self, table: str) -> int:
        with self._turn:
            self._next[table] += 1
            return self._next[table] - 1

    def _forget(self, before: float) -> bool:
        """Drops events, closed incidents, sent notices and silences that are older, and of all but the last those that are too many."""
        values = {"before": before, "most": min(MOST, max(self.keep.max_bytes, LEAST_BYTES) // EACH)}
        stale = [sql for sql in _STALE if self._rows(f"SELECT 1 FROM {sql} LIMIT 1", values)]

        def drop(db: sqlite3.Connection) -> None:
            for sql in stale:
                db.execute(f"DELETE FROM {sql}", values)
            db.execute("DELETE FROM ack WHERE incident NOT IN (SELECT id FROM incident)")

        return not stale or self._write("trim", drop)

    # -- incidents

    def open_incident(self, opened: float, body: Mapping[str, Any]) -> int:
        """A new incident; on the disk when this returns, or waiting there (`problem`). Returns its id."""
        number = self._id("incident")
        self._durably("INSERT OR REPLACE INTO incident VALUES (?, ?, NULL, ?)", number, opened, _text(body))
        return number

    def update_incident(self, number: int, body: Mapping[str, Any]) -> bool:
        """Replaces what is told of an incident. One that the file does not know (see `renewed`) is put in, if the body says `opened`."""
        opened = body.get("opened")
        if not isinstance(opened, (int, float)):
            return self._durably("UPDATE incident SET body = ? WHERE id = ?", _text(body), number)
        put = "INSERT INTO incident VALUES (?, ?, NULL, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
        return self._durably(put, number, opened, _text(body))

    def close_incident(self, number: int, closed: float) -> bool:
        """Ends an incident; where the clock was set back meanwhile, at the time at which it opened. A closed one stays as it is."""
        return self._durably("UPDATE incident SET closed = max(opened, ?) WHERE id = ? AND closed IS NULL", closed, number)

    def incidents(self, open_only: bool = False, start: float | None = None, end: float | None = None, limit: int = 1000) -> list[Body]:
        """Incidents that were open at some time in [start, end], the latest first; each with id, opened, closed (None: open), ack.

        ack: None, or what `acknowledge` was given, with its time `t`.
        """
        sql = """SELECT incident.id, opened, closed, ack.t, ack.body, incident.body
            FROM incident LEFT JOIN ack ON ack.incident = incident.id
            WHERE (NOT ? OR closed IS NULL) AND (closed IS NULL OR closed >= ?) AND opened <= ?
            ORDER BY opened DESC, incident.id DESC LIMIT ?"""
        return [
            _body(body, id=number, opened=opened, closed=closed, ack=None if note is None else _body(note, t=t))
            for number, opened, closed, t, note, body in self._rows(sql, (open_only, *_span(start, end), limit))
        ]

    def acknowledge(self, number: int, t: float, body: Mapping[str, Any]) -> None:
        """Somebody has seen an incident; body: by, note. Any writer may. Raises StoreError where the disk does not take it."""
        self._at_once("INSERT OR REPLACE INTO ack VALUES (?, ?, ?)", number, t, _text(body))

    # -- events

    def add_event(self, t: float, body: Mapping[str, Any]) -> int:
        """Something that happened at a moment (an Xid line, a driver reload); durable as an incident is. Returns its id."""
        number = self._id("event")
        self._durably("INSERT OR REPLACE INTO event VALUES (?, ?, ?)", number, t, _text(body))
        return number

    def events(self, start: float | None = None, end: float | None = None, limit: int = 1000) -> list[Body]:
        """The events in [start, end], the latest first, each with id and t."""
        sql = "SELECT id, t, body FROM event WHERE t >= ? AND t <= ? ORDER BY t DESC, id DESC LIMIT ?"
        return [_body(body, id=number, t=t) for number, t, body in self._rows(sql, (*_span(start, end), limit))]

    # -- the outbox

    def add_notice(self, due: float, body: Mapping[str, Any]) -> int:
        """Something to be told at a time; it stays in the outbox until `sent`. Returns its id."""
        number = self._id("notice")
        self._durably("INSERT OR REPLACE INTO notice VALUES (?, ?, 0, NULL, NULL, ?)", number, due, _text(body))
        return number

    def notices(self, due: float | None = None, limit: int = 100) -> list[Body]:
        """What is still to be told by then (None: ever), the oldest first, each with id, due, tries, problem (of the last try)."""
        sql = "SELECT id, due, tries, problem, body FROM notice WHERE sent IS NULL AND due <= ? ORDER BY due, id LIMIT ?"
        rows = self._rows(sql, (_span(None, due)[1], limit))
        return [_body(body, id=number, due=due, tries=tries, problem=problem) for number, due, tries, problem, body in rows]

    def notice_sent(self, number: int, t: float) -> bool:
        """It was told."""
        return self._durably("UPDATE notice SET sent = ?, problem = NULL WHERE id = ?", t, number)

    def notice_failed(self, number: int, due: float, problem: str) -> bool:
        """It could not be told; it is due again at a later time."""
        # tries by its time, not by one more: a statement that waits may be run twice
        return self._durably("UPDATE notice SET tries = tries + (due < ?1), due = ?1, problem = ?2 WHERE id = ?3", due, problem, number)

    # -- silences

    def add_silence(self, until: float, body: Mapping[str, Any]) -> int:
        """Asks for silence; body: what it covers, by whom, why. Any writer may. Raises StoreError where the disk does not take it."""
        return self._at_once("INSERT INTO silence (until, body) VALUES (?, ?)", until, _text(body))

    def end_silence(self, number: int, t: float) -> None:
        """Ends a silence now."""
        self._at_once("UPDATE silence SET until = min(until, ?) WHERE id = ?", t, number)

    def silences(self, now: float) -> list[Body]:
        """The silences that hold now, each with id and until."""
        return [_body(body, id=number, until=until) for number, until, body in self._rows("SELECT * FROM silence WHERE until > ?", (now,))]

    def _at_once(self, sql: str, *values: Any) -> int:
        numbers: list[int | None] = []
        if not self._write("silence", lambda db: numbers.append(db.execute(sql, sound(values)).lastrowid), durable=True):
            raise self._problems.pop("silence", None) or self._problems["file"]  # it is told to who asked, and not tried again
        return numbers[0] or 0


_HIGHEST = """SELECT 'incident', max(id) FROM incident UNION ALL SELECT 'event', max(id) FROM event
    UNION ALL SELECT 'notice', max(id) FROM notice"""


# Counted, and not reckoned from the ids: those that were given while there was no file are far above the others.
_MANY = "id <= (SELECT id FROM {0} ORDER BY id DESC LIMIT 1 OFFSET :most)"
_STALE = (
    "event WHERE t < :before", f"event WHERE {_MANY.format('event')}",
    "incident WHERE closed < :before", f"incident WHERE closed IS NOT NULL AND {_MANY.format('incident')}",
    "notice WHERE sent < :before", f"notice WHERE sent IS NOT NULL AND {_MANY.format('notice')}",
    "silence WHERE until < :before",
)  # fmt: skip


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _body(text: str, **columns: Any) -> Body:
    return {**json.loads(text), **columns}


def _span(start: float | None, end: float | None) -> tuple[float, float]:
    return (float("-inf") if start is None else start, float("inf") if end is None else end)
