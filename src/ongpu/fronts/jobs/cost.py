"""GPU hours, energy and cost, by job, user and project; what nobody told is "-", and "~" stands before what is not all."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ongpu.fronts.page import Page, row
from ongpu.lazy import replace
from ongpu.queue import cost, words
from ongpu.queue.job import HELD, LIVE, WAITING, Listing, Told

if TYPE_CHECKING:
    from ongpu.queue.config import Config

WIDTHS = (-7, -9, -6, -6, -9, -10)  # jobs, GPU hours, busy, lost, kWh, money


def _models(listing: Listing) -> dict[str, str]:
    return {card.id: card.name for card in listing.cards}


def sofar(job: Told) -> Told:
    """With the GPU time of the run that goes on; such a run is not lost yet."""
    if job.state not in LIVE or not job.started or job.state in (WAITING, HELD):
        return job
    now = max(0.0, time.time() - job.started) * (len(job.gpus) or job.spec.gpus)
    return replace(job, attained=max(job.attained, now), ending="ok")


def figures(job: Told, listing: Listing, config: "Config") -> dict[str, Any]:
    """gpu_hours, kwh and cost (None: no price, or not told), currency."""
    bill = cost.charge(sofar(job), config.cost, _models(listing))
    kwh = round(bill.kwh, 4) if bill.metered else None
    return {"gpu_hours": round(bill.hours, 4), "kwh": kwh, "cost": bill.money, "currency": config.cost.currency}


def lines(listing: Listing, config: "Config", page: Page, most: int) -> list[str]:
    """The table of jobs, at most so many of them, then the sums of all."""
    jobs = [sofar(job) for job in listing.jobs if job.started or job.attained]
    if not jobs:
        return [page.say("no job has run yet", "还没有运行过的作业")]
    models = _models(listing)
    found = _table(jobs[:most], config, models, page)
    if len(jobs) > most:
        found.append("  " + page.say(f"... and {len(jobs) - most} more (--all)", f"……另有 {len(jobs) - most} 个（--all）"))
    for key in ("user", "project"):
        sums = cost.bills(jobs, config.cost, models, key)
        if key == "project" and set(sums) <= {""}:
            continue
        found.append("")
        rows = cost.table(sums, key, config.cost.currency, page.lang)
        found += _rows(rows if _priced(config) else [(*cells[:-1], "") for cells in rows], page)
    notes = [page.say("lost: the share that went into runs which did not end well", "白费：花在未正常结束的运行上的比例")]
    if any("~" in line for line in found):
        notes.append(page.say("~: of a part it was not told: at least so much", "~：一部分未知，至少如此"))
    if not _priced(config):
        notes.append(page.say("no prices: per_gpu_hour and per_kwh under [cost] in queue.toml", "未设置价格：见 queue.toml 中 [cost] 的 per_gpu_hour 与 per_kwh"))
    return [*found, "", *(line for note in notes for line in page.below(note, 0))]


def _priced(config: "Config") -> bool:
    return bool(config.cost.gpu_hour) or config.cost.kwh is not None


def _table(jobs: Sequence[Told], config: "Config", models: dict[str, str], page: Page) -> list[str]:
    """As the sums, but of each job alone; whose it is stands where they have the number of jobs."""
    ((what, _, *names),) = cost.table({}, "job", config.cost.currency if _priced(config) else "", page.lang)
    rows = [(what, page.say("user", "用户"), *names)]
    for job in jobs:
        _, (_, _, *cells) = cost.table({job.id: cost.charge(job, config.cost, models)}, "job", "", page.lang)
        rows.append((f"{job.id}  {words.title(job.spec)}", job.user, *(cells if _priced(config) else [*cells[:-1], ""])))
    return _rows(rows, page)


def _rows(rows: Sequence[Sequence[str]], page: Page) -> list[str]:
    wide = page.width - sum(-width + 2 for width in WIDTHS)
    found = [row(((cells[0], wide), *zip(cells[1:], WIDTHS, strict=True))) for cells in rows]
    return [page.paint(found[0], "bold"), *found[1:]]
