"""What servers that run jobs answer: JSON of any shape, and of the jobs in it those that were asked for. Pure."""

from collections.abc import Iterable
from typing import Any

from ongpu.queue import job as jobs
from ongpu.queue.job import Told, Want


def at(data: Any, *path: str) -> Any:
    """What stands there; None where nothing does, or the shape is another."""
    for key in path:
        if not isinstance(data, dict):
            return None
        data = data.get(key)
    return data


def rows(data: Any) -> list[Any]:
    """A list's tables."""
    return [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []


def chosen(every: Iterable[Told], want: Want) -> tuple[tuple[Told, ...], dict[str, int]]:
    """Those that are wanted, and how many there are of each state: running ones in the order given, then those that wait, by submission,
    then the last that ended."""
    ids = frozenset(want.ids)
    fitting = [
        one for one in every
        if (not ids or one.id in ids or one.array in ids) and want.user in ("", one.user) and want.project in ("", one.spec.project)
        and want.name in ("", one.spec.name)
    ]  # fmt: skip
    counts: dict[str, int] = {}
    for one in fitting:
        counts[one.state] = counts.get(one.state, 0) + 1
    shown = [one for one in fitting if not want.states or one.state in want.states]
    waiting = [one for one in shown if one.state in (jobs.WAITING, jobs.HELD)]
    over = sorted((one for one in shown if one.state in jobs.OVER), key=lambda one: -(one.submitted if one.ended is None else one.ended))
    running = [one for one in shown if one.state in jobs.LIVE and one.state not in (jobs.WAITING, jobs.HELD)]
    most = None if want.ids else want.most
    return (*running, *sorted(waiting, key=lambda one: one.submitted)[:most], *over[:most]), counts
