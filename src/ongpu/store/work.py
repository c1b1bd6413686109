"""Who used which GPU, how well, and what it cost."""

# ruff: noqa: S608  the names in the SQL are those of schema.py, or were checked

import sqlite3
from collections.abc import Iterable
from typing import Literal, NamedTuple

from ongpu.store.file import File, sound

BUCKET = 300  # s
By = Literal["user", "job", "gpu", "command"]


class Use(NamedTuple):
    """What one (user, job, command) used of one GPU since the last time; times in ms, energy in mJ, memory in MiB; None: not told.

    t: any time in the 5 min bucket; state 1: a process (user, job, command None: not visible from here), 0: nobody held the GPU,
    -1: it is not told whether anybody did. The rest as in schema.py (work).
    """

    t: float
    gpu: int
    state: int
    user: str | None
    job: str | None
    command: str | None
    ms: int
    share: int
    busy: int | None = None
    idle: int | None = None
    memory: int | None = None
    mj: int | None = None
    mj_estimated: int | None = None
    mj_equal: int | None = None


class Used(NamedTuple):
    """What a user, job, GPU or command used in a span. None: not told.

    name: None where it is not visible from here, or where nobody held the GPU (state as in Use; of a GPU: its UUID, state 1).
    present_seconds: was there, GPU by GPU; gpu_seconds: is charged with (two at once on one GPU: half each).
    energy_j: of which estimated_j is power x time (the card does not count) and equal_j was shared equally among those present.
    cost: energy and GPU hours at the given prices; None without prices. Energy that is not told costs nothing.
    """

    name: str | None
    state: int
    present_seconds: float
    gpu_seconds: float
    busy_seconds: float | None
    held_idle_seconds: float | None
    memory_mib: int | None
    energy_j: float | None
    estimated_j: float
    equal_j: float
    cost: float | None


class Work(File):
    """The part of the store that holds who used what; see `Store`."""

    _alias: dict[int, int]

    def add_work(self, uses: Iterable[Use]) -> bool:
        """Adds to the 5 min buckets, all in one transaction. False: the disk does not take it (`problem`); give them again."""
        given = list(uses)

        def add(db: sqlite3.Connection) -> None:
            for use in given:
                key = sound((use.state, use.user, use.job, use.command))
                found = db.execute("SELECT id FROM who WHERE state = ? AND user IS ? AND job IS ? AND command IS ?", key).fetchone()
                who = (
                    found[0]
                    if found
                    else db.execute("INSERT INTO who (state, user, job, command, last) VALUES (?, ?, ?, ?, 0)", key).lastrowid
                )
                t = int(use.t) // BUCKET * BUCKET
                db.execute(_ADD, (t, self._alias.get(use.gpu, use.gpu), who, *use[6:]))
                db.execute("UPDATE who SET last = ? WHERE id = ? AND last < ?", (t, who, t))

        return not given or self._write("work", add)

    def work(
        self, start: float, end: float, by: By = "user", price_kwh: float | None = None, price_gpu_hour: float | None = None
    ) -> list[Used]:
        """Who used what between these times (whole 5 min buckets that begin in [start, end)), the most GPU time first.

        Rows of state 0 (nobody held it) and -1 (not told) come along, so that the GPU time adds up to all of it.
        Prices are in any currency, per kWh and per hour of one GPU.
        """
        if by not in ("user", "job", "gpu", "command"):
            raise ValueError(f"by what: {by}")
        name, state = ("gpu.uuid", "1") if by == "gpu" else (f"who.{by}", "who.state")
        sql = f"""SELECT {name}, {state}, sum(ms), sum(share), sum(busy), sum(idle), max(memory), sum(mj), sum(mj_estimated), sum(mj_equal)
            FROM work JOIN who ON who.id = work.who LEFT JOIN gpu ON gpu.id = work.gpu
            WHERE t >= ? AND t < ? GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2"""
        first = int(start) // BUCKET * BUCKET
        used = []
        for who, kind, ms, share, busy, idle, memory, mj, estimated, equal in self._rows(sql, (first, end)):
            cost = None
            if price_kwh is not None or price_gpu_hour is not None:
                cost = (mj or 0) / 3.6e9 * (price_kwh or 0.0) + share / 3.6e6 * (price_gpu_hour or 0.0)
            busy, idle, joules = (None if milli is None else milli / 1000 for milli in (busy, idle, mj))
            used.append(
                Used(who, kind, ms / 1000, share / 1000, busy, idle, memory, joules, (estimated or 0) / 1000, (equal or 0) / 1000, cost)
            )
        return used


_PLUS = ("busy", "idle", "mj", "mj_estimated", "mj_equal")
_ADD = f"""INSERT INTO work (t, gpu, who, ms, share, busy, idle, memory, mj, mj_estimated, mj_equal)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (t, gpu, who) DO UPDATE SET ms = ms + excluded.ms, share = share + excluded.share,
    memory = coalesce(max(memory, excluded.memory), memory, excluded.memory),
    {", ".join(f"{name} = coalesce({name} + excluded.{name}, {name}, excluded.{name})" for name in _PLUS)}"""
