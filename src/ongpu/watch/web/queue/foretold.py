"""When the first that wait may start: as their engine tells it, else by a replay of our own placement, bounded in time."""

import time

from ongpu.queue.forecast import forecast, lengths
from ongpu.queue.job import WAITING, Listing
from ongpu.queue.placement import Policy
from ongpu.queue.reasons import Reason

FIRST, LIMIT = 20, 0.3  # waiting jobs whose start is foretold, and the seconds that this may take
REPLAYED = ("behind", "headroom", "reserved", "in-turn", "begin", "at-once")  # reasons that a replay of the placement knows of


def expected(listing: Listing, policy: Policy | None, now: float) -> dict[str, float]:
    """Id -> seconds since the epoch. policy None: the jobs are not placed by ours."""
    waiting = [job for job in listing.jobs if job.state == WAITING]
    found = {job.id: float(at) for job in waiting if isinstance(at := job.more.get("expected"), (int, float)) and at > now}
    if policy is None or listing.warning or not listing.cards:
        return found
    past, until = lengths(listing.jobs), time.monotonic() + LIMIT
    for job in waiting[:FIRST]:
        reason = Reason.of(job.said)
        if (reason is None and job.said) or (reason and reason.name not in REPLAYED):
            continue
        at = forecast(job.id, listing.jobs, listing.cards, policy, past, now).at
        if at is not None:
            found[job.id] = at
        if time.monotonic() > until:
            break
    return found
