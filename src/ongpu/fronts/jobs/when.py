"""Why the waiting jobs wait, in the engine's words, and when they are expected to start."""

import time
from typing import TYPE_CHECKING, cast

from ongpu.queue.job import DONE, HELD, LIVE, WAITING, Listing, Told, Want
from ongpu.queue.words import because

if TYPE_CHECKING:
    from ongpu.queue.engines import Engine
    from ongpu.queue.engines.local.engine import Local
    from ongpu.queue.forecast import Forecast

MOST, PAST = 500, 500  # jobs in line, and of the past, that a forecast looks at
SHOWN = 20  # forecasts in one answer
LIMIT = 2.0  # seconds that they may take together


def reasons(listing: Listing, engine: "Engine", lang: str) -> dict[str, list[str]]:
    """By id, for those of the listing that wait."""
    waiting = [job for job in listing.jobs if job.state in (WAITING, HELD)]
    found = {job.id: [pair[lang == "zh"] for pair in engine.why(job)] or list(filter(None, [because(job, lang)])) for job in waiting[:MOST]}
    if waiting and (told := Forecasts.of(engine)):
        for job in [job for job in waiting if job.state == WAITING][:SHOWN]:
            found[job.id].append(told.ask(job).text(lang, told.now))
    return found


class Forecasts:
    """The queue as it is, read once for several forecasts."""

    def __init__(self, engine: "Local", queue: Listing) -> None:
        from ongpu.queue.forecast import lengths
        from ongpu.queue.replay import Replay

        self.now, until = time.time(), time.monotonic() + LIMIT
        past = lengths(engine.jobs(Want(states=(DONE,), most=PAST)).jobs)
        cut = sum(queue.counts.get(state, 0) for state in LIVE) > len(queue.jobs)
        self.replay = Replay(queue.jobs, queue.cards, engine.terms(self.now), past, self.now, cut, lambda: time.monotonic() > until)

    @staticmethod
    def of(engine: "Engine") -> "Forecasts | None":
        """None where there is nothing to reckon with: another engine decides, no GPU is known, or nothing starts at all."""
        if engine.name != "local":
            return None
        queue = engine.jobs(Want(states=LIVE, most=MOST))
        return None if queue.warning or not queue.cards else Forecasts(cast("Local", engine), queue)

    def ask(self, job: Told) -> "Forecast":
        """When it starts."""
        return self.replay.start(job.id)
