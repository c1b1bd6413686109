"""What the commands ask of the book: submit, cancel, hold, release, reserve."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ongpu.lazy import field_names, replace
from ongpu.queue.admission import Reservation, reserved
from ongpu.queue.asked import checked, to_json
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local.ended import close, judged
from ongpu.queue.engines.local.file import File
from ongpu.queue.engines.local.ids import TICK, clean, listed, next_id, next_seq, next_since, written
from ongpu.queue.engines.local.schema import RUNS
from ongpu.queue.job import CANCELLED, DEPENDENCY, HELD, WAITING, Spec
from ongpu.queue.reasons import Reason

LEVEL = 2  # zlib: an environment of 5 kB in 0.05 ms
DAY = 86400.0
FAR = 3660 * DAY
STRONGER = ("", "preempt", "idle", "timeout", "fault", "cancel")  # of two wishes the later in this row holds

_SPEC = """INSERT INTO spec (uses, environ, body, gpus, memory, share, model, capability, lasts, cpus, host_memory, user, project, name,
    priority, checkpoint, at_once, reservation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_JOB = """INSERT INTO job (id, seq, state, spec, array, place, rank, submitted, since, begin, blocked, ended, ending, said)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Asking(File):
    """The part of the book that commands write; see `Book`."""

    def submit(self, specs: Sequence[Spec], user: str, now: float) -> list[int]:
        """Durable when it returns. A dependency on a job that has ended is judged at once; on one that never was, refused.

        Raises EngineError where a field is not what it may be (`asked.checked`); then none of them is submitted.
        """
        groups, user = _groups(specs), clean(user)
        for members, _ in groups:
            checked(members[0])
        with self._writing() as db:
            since = next_since(db, now, len(specs))
            seq = next_seq(db)
            ids: list[int] = []
            for members, is_array in groups:
                first = next_id(db, len(members) + is_array)
                array = first if is_array else None
                spec = members[0]
                place = self._spec(db, spec, user, len(members))
                _may_reserve(db, spec, user)
                needs, doomed = _needs(db, spec)
                state, ending, said = WAITING, "", ""
                if doomed is not None:
                    state, ending, said = CANCELLED, DEPENDENCY, Reason("needs-ok", {"job": doomed}).json()
                ended, rank = (None if doomed is None else now), -spec.priority
                jobs = range(first + is_array, first + is_array + len(members))
                if array is not None:
                    alive, bad = (len(members), 0) if doomed is None else (0, len(members))
                    db.execute("INSERT INTO array VALUES (?, ?, ?, ?)", (array, len(members), alive, bad))
                db.executemany(
                    _JOB,
                    (
                        (
                            job,
                            seq,
                            state,
                            place,
                            array,
                            one.index,
                            rank,
                            now,
                            since + number * TICK,
                            one.begin,
                            len(needs),
                            ended,
                            ending,
                            said,
                        )
                        for number, (job, one) in enumerate(zip(jobs, members, strict=True), len(ids))
                    ),
                )
                if doomed is None and needs:
                    db.executemany("INSERT INTO need VALUES (?, ?, ?)", ((job, target, kind) for job in jobs for kind, target in needs))
                ids.extend(jobs)
            return ids

    def _spec(self, db: sqlite3.Connection, spec: Spec, user: str, uses: int) -> int:
        """The row for what was asked, its environment once."""
        environ = _environ(db, spec.environ) if spec.environ else None
        body = json.dumps(to_json(replace(spec, environ={}, index=None, begin=None)), separators=(",", ":"))
        capability = "" if spec.capability is None else f"{spec.capability[0]}.{spec.capability[1]}"
        values = (
            uses, environ, body, spec.gpus, spec.memory, spec.share, spec.model, capability, spec.limit, spec.cpus or 0,
            spec.host_memory or 0, user, spec.project, spec.name, spec.priority, spec.checkpoint, spec.at_once, spec.reservation,
        )  # fmt: skip
        place = db.execute(_SPEC, values).lastrowid
        assert place is not None  # noqa: S101  an INSERT has one
        return place

    def cancel(self, jobs: Sequence[int], now: float) -> None:
        """Those that wait are over at once; for those that run the wish is noted. An array's id means all of its jobs."""
        with self._writing() as db:
            ids = _expanded(db, jobs)
            running = db.execute(f"SELECT id FROM job WHERE id IN (SELECT value FROM json_each(?)) AND {RUNS}", (listed(ids),)).fetchall()  # noqa: S608
            seq = next_seq(db)
            self._wish(db, {job: "cancel" for (job,) in running}, now, seq)
            close(db, ids, "stopped", "", now, seq)

    def hold(self, jobs: Sequence[int], now: float) -> None:
        """Those that wait do so until they are released; the others go on as they are."""
        self._from_to(jobs, WAITING, HELD)

    def release(self, jobs: Sequence[int], now: float) -> None:
        """Those that are held may start; they keep their place."""
        self._from_to(jobs, HELD, WAITING)

    def _from_to(self, jobs: Sequence[int], state: str, then: str) -> None:
        with self._writing() as db:
            ids = listed(_expanded(db, jobs))
            sql = "UPDATE job SET state = ?, seq = ?, said = '' WHERE id IN (SELECT value FROM json_each(?)) AND state = ?"
            db.execute(sql, (then, next_seq(db), ids, state))

    def _wish(self, db: sqlite3.Connection, jobs: Mapping[int, str], now: float, seq: int) -> None:
        """Why these are asked to end: the stronger wish holds."""
        found = db.execute(
            f"SELECT id, attempt, wish FROM job WHERE id IN (SELECT value FROM json_each(?)) AND {RUNS}",  # noqa: S608
            (listed(jobs),),
        ).fetchall()
        for job, attempt, wish in found:
            if STRONGER.index(jobs[job]) > STRONGER.index(wish):
                db.execute("UPDATE job SET state = 'ending', wish = ?, seq = ? WHERE id = ?", (jobs[job], seq, job))
                sql = "UPDATE run SET state = 'ending', asked = coalesce(asked, ?) WHERE job = ? AND attempt = ? AND ended IS NULL"
                db.execute(sql, (now, job, attempt))

    def reserve(self, reservation: Reservation, now: float) -> None:
        """Keeps GPUs for later; one of that name is replaced. Raises EngineError where it is over already, keeps nothing, or keeps what
        others have reserved: the machine has no more GPUs at that time."""
        name = reservation.name
        if not name or len(name) > 100 or not name.isprintable():
            raise EngineError("a reservation needs a name of one line", "预留需要一个单行名称")
        if not now < reservation.end <= now + FAR or not reservation.begin < reservation.end:
            raise EngineError(f"{name}: it is to end after it began, and after now", f"{name}：结束时间须晚于开始时间和现在")
        if reservation.gpus < 1:
            raise EngineError(f"{name}: at least 1 GPU", f"{name}：至少 1 块 GPU")
        body = json.dumps({key: getattr(reservation, key) for key in field_names(reservation)})
        with self._writing() as db:
            (there,) = db.execute("SELECT count(*) FROM card").fetchone()
            others = [_reservation(text) for (text,) in db.execute("SELECT body FROM reservation WHERE name != ?", (name,)).fetchall()]
            most, names = reserved([one for one in others if one.end > now], reservation.begin, reservation.end)
            if there and most + reservation.gpus > there:
                shown = ", ".join(names[:8])
                and_others = f", and {most} {'is' if most == 1 else 'are'} reserved already then ({shown})" if most else ""
                zh = f"，该时段已预留 {most} 块（{shown}）" if most else ""
                raise EngineError(
                    f"{name}: --gpus {reservation.gpus}: this machine has {there}{and_others}",
                    f"{name}：--gpus {reservation.gpus}：本机有 {there} 块{zh}",
                )
            db.execute("INSERT OR REPLACE INTO reservation VALUES (?, ?)", (name, body))

    def unreserve(self, name: str) -> None:
        """Takes it back. Raises EngineError where there is none of that name."""
        with self._writing() as db:
            if not db.execute("DELETE FROM reservation WHERE name = ?", (clean(name),)).rowcount:
                raise EngineError(f"{name}: there is no such reservation", f"{name}：没有这个预留")

    def reservations(self) -> list[Reservation]:
        """All, also those that are over, the first first."""
        found = [_reservation(body) for (body,) in self._rows("SELECT body FROM reservation")]
        return sorted(found, key=lambda one: (one.begin, one.name))


def _reservation(body: str) -> Reservation:
    told = {name: value for name, value in json.loads(body).items() if name in field_names(Reservation)}
    return Reservation(**{**told, "users": tuple(told["users"]), "projects": tuple(told["projects"])})


def _may_reserve(db: sqlite3.Connection, spec: Spec, user: str) -> None:
    """Refuses a job that names a reservation which is not there or not for it."""
    if not spec.reservation:
        return
    row = db.execute("SELECT body FROM reservation WHERE name = ?", (spec.reservation,)).fetchone()
    if row is None:
        raise EngineError(
            f"--reservation {spec.reservation}: there is none of that name", f"--reservation {spec.reservation}：没有这个预留"
        )
    reservation = _reservation(row[0])
    if not reservation.lets(user, spec.project):
        raise EngineError(f"--reservation {spec.reservation}: it is for others", f"--reservation {spec.reservation}：该预留供他人使用")
    if spec.gpus > reservation.gpus:
        most = reservation.gpus
        raise EngineError(
            f"--reservation {spec.reservation}: it holds {most} GPU{'' if most == 1 else 's'}",
            f"--reservation {spec.reservation}：只含 {most} 块 GPU",
        )


def _groups(specs: Sequence[Spec]) -> list[tuple[list[Spec], bool]]:
    """Those with an index that stand together and differ in nothing else are one array."""
    groups: list[tuple[list[Spec], bool]] = []
    plain: Any = None
    for spec in specs:
        this = None if spec.index is None else _ALIKE(spec)
        if this is not None and this == plain and spec.index != groups[-1][0][-1].index:
            groups[-1][0].append(spec)
        else:
            groups.append(([spec], this is not None))
        plain = this
    return groups


_ALIKE = attrgetter(*(name for name in field_names(Spec) if name not in ("index", "begin")))


def _environ(db: sqlite3.Connection, environ: Mapping[str, str]) -> int:
    """The row that holds it; one that is there is used again."""
    text = json.dumps(dict(environ), sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).digest()
    row = db.execute("SELECT id FROM environ WHERE digest = ?", (digest,)).fetchone()
    if row is not None:
        db.execute("UPDATE environ SET uses = uses + 1 WHERE id = ?", row)
        return int(row[0])
    place = db.execute("INSERT INTO environ (digest, uses, body) VALUES (?, 1, ?)", (digest, zlib.compress(text, LEVEL))).lastrowid
    assert place is not None  # noqa: S101
    return place


def _needs(db: sqlite3.Connection, spec: Spec) -> tuple[list[tuple[str, int]], int | None]:
    """What it has to wait for, and the job that has failed already, after which it never starts."""
    needs: dict[tuple[str, int], None] = {}
    doomed = None
    for kind, word in spec.after:
        if word.isascii() and word.isdigit() and len(word) < 18:
            target = int(word)
        else:
            jobs = written(db, word)
            target = jobs[0] if len(jobs) == 1 else -1
        found = judged(db, target, kind)
        if found is None:
            option = "--after" if kind == "ok" else "--after-any"
            raise EngineError(f"{option} {word}: there is no such job", f"{option} {word}：没有这个作业")
        over, may = found
        if not may:
            doomed = target
        elif not over:
            needs[kind, target] = None
    return list(needs), doomed


def _expanded(db: sqlite3.Connection, jobs: Iterable[int]) -> list[int]:
    """The jobs, those of an array in its place. Raises EngineError where one never was."""
    ids = list(jobs)
    arrays = db.execute("SELECT id FROM array WHERE id IN (SELECT value FROM json_each(?))", (listed(ids),)).fetchall()
    known = db.execute("SELECT id FROM job WHERE id IN (SELECT value FROM json_each(?))", (listed(ids),)).fetchall()
    there = {one for (one,) in arrays} | {one for (one,) in known}
    for one in ids:
        if one not in there:
            raise EngineError(f"{one}: there is no such job", f"{one}：没有这个作业")
    members = db.execute(
        "SELECT id FROM job WHERE array IS NOT NULL AND array IN (SELECT value FROM json_each(?))", (listed(one for (one,) in arrays),)
    ).fetchall()
    return [one for (one,) in (*known, *members)]
