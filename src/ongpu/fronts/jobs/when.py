"""Why the waiting jobs wait, in the engine's words, and when they are expected to start."""

import time
from typing import TYPE_CHECKING

from ongpu.queue.job import DONE, HELD, LIVE, WAITING, Listing, Told, Want
from ongpu.queue.words import because

if TYPE_CHECKING:
    from ongpu.queue.config import Config
    from ongpu.queue.engines import Engine
    from ongpu.queue.forecast import Forecast, Lengths

MOST, PAST = 500, 500  # jobs in line, and of the past, that a forecast looks at
SHOWN = 20  # forecasts in one answer


def reasons(listing: Listing, config: "Config", engine: "Engine", lang: str) -> dict[str, list[str]]:
    """By id, for those of the listing that wait."""
    waiting = [job for job in listing.jobs if job.state in (WAITING, HELD)]
    found = {job.id: [pair[lang == "zh"] for pair in engine.why(job)] or list(filter(None, [because(job, lang)])) for job in waiting[:MOST]}
    if waiting and (told := Forecasts.of(config, engine)):
        for job in [job for job in waiting if job.state == WAITING][:SHOWN]:
            found[job.id].append(told.ask(job).text(lang, told.now))
    return found


class Forecasts:
    """The queue as it is, read once for several forecasts."""

    def __init__(self, config: "Config", engine: "Engine", queue: Listing) -> None:
        from ongpu.queue.forecast import lengths

        self.now, self.queue, self.policy = time.time(), queue, config.policy
        self.past: Lengths = lengths(engine.jobs(Want(states=(DONE,), most=PAST)).jobs)

    @staticmethod
    def of(config: "Config", engine: "Engine") -> "Forecasts | None":
        """None where there is nothing to reckon with: another engine decides, no GPU is known, or nothing starts at all."""
        if engine.name != "local":
            return None
        queue = engine.jobs(Want(states=LIVE, most=MOST))
        return None if queue.warning or not queue.cards else Forecasts(config, engine, queue)

    def ask(self, job: Told) -> "Forecast":
        """When it starts."""
        from ongpu.queue.forecast import forecast

        return forecast(job.id, self.queue.jobs, self.queue.cards, self.policy, self.past, self.now)
