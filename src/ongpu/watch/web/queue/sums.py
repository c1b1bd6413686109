"""Who had how much of the GPUs."""

from collections.abc import Callable
from dataclasses import dataclass

from ongpu.queue.job import HELD, WAITING
from ongpu.watch.web.queue.reading import Seen


@dataclass(frozen=True, slots=True)
class Share:
    """What one user or project had. hours: GPU hours of the span; kwh None: no run told its energy."""

    name: str
    running: int = 0  # GPUs now
    waiting: int = 0  # jobs, of those that were looked at
    runs: int = 0
    hours: float = 0.0
    kwh: float | None = None
    cost: float | None = None


def shares(seen: Seen, span: float, by: str, cost: Callable[[str, float, float | None], float | None]) -> list[Share]:
    """What each user ("user") or project had in the last `span` seconds, the most first. Runs are cut at the span's begin."""
    models = {card.id: card.name for card in seen.cards}
    begin = seen.at - span
    found: dict[str, list[float | int | None]] = {}  # name -> running, waiting, runs, hours, kwh, cost

    def row(name: str) -> list[float | int | None]:
        return found.setdefault(name, [0, 0, 0, 0.0, None, None])

    def add(into: list[float | int | None], place: int, amount: float | None) -> None:
        if amount is not None:
            into[place] = (into[place] or 0) + amount

    for job in seen.jobs:
        if job.state in (WAITING, HELD):
            add(row(job.user if by == "user" else job.spec.project), 1, 1)
    for run in seen.runs:
        end = seen.at if run.ended is None else run.ended
        if end <= begin or end < run.started:
            continue
        mine = row(run.user if by == "user" else run.project)
        part = (end - max(run.started, begin)) / (end - run.started) if end > run.started else 1.0
        hours = (end - run.started) * part * len(run.gpus) / 3600
        kwh = None if run.energy is None else run.energy * part / 3.6e6
        add(mine, 2, 1)
        add(mine, 3, hours)
        add(mine, 4, kwh)
        if hours:
            add(mine, 5, cost(models.get(run.gpus[0], ""), hours, kwh))
        if run.ended is None:
            add(mine, 0, len(run.gpus))
    told = [Share(name, *values) for name, values in found.items()]  # type: ignore[arg-type]
    return sorted(told, key=lambda one: (-one.hours, one.name))
