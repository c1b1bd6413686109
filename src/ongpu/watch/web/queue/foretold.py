"""When the first that wait may start: as their engine tells it, else by a replay of our own decisions, bounded in time."""

import time
from collections.abc import Callable

from ongpu.queue.forecast import Terms, lengths
from ongpu.queue.job import LIVE, WAITING, Listing
from ongpu.queue.replay import Replay

FIRST, LIMIT = 20, 0.3  # waiting jobs whose start is foretold, and the seconds that this may take


def expected(listing: Listing, terms: Callable[[float], Terms] | None, now: float) -> dict[str, float]:
    """Id -> seconds since the epoch. terms None: the jobs are not placed by ours."""
    waiting = [job for job in listing.jobs if job.state == WAITING]
    found = {job.id: float(at) for job in waiting if isinstance(at := job.more.get("expected"), (int, float)) and at > now}
    if terms is None or listing.warning or not listing.cards or not waiting:
        return found
    until, seen = time.monotonic() + LIMIT, sum(job.state in LIVE for job in listing.jobs)
    cut = sum(listing.counts.get(state, 0) for state in LIVE) > seen
    replay = Replay(listing.jobs, listing.cards, terms(now), lengths(listing.jobs), now, cut, lambda: time.monotonic() > until)
    for job in waiting[:FIRST]:
        if (at := replay.start(job.id).at) is not None:
            found[job.id] = at
    return found
