"""The list of jobs as text: the GPUs in one line, then who runs, who waits and why, who ended and how."""

import time
from collections.abc import Mapping, Sequence

from ongpu.fronts.page import Page, row
from ongpu.lazy import dataclass
from ongpu.queue import words
from ongpu.queue.job import DEPENDENCY, DONE, ENDING, FAILED, HELD, OVER, WAITING, Card, Listing, Told
from ongpu.queue.words import brief

INDENT, USER = 2, 10
CELLS = 39  # columns of what stands right of the name, with the blanks before each


@dataclass(frozen=True)
class Widths:
    """Columns of a table. 0: not shown."""

    id: int
    name: int
    user: int


def lines(listing: Listing, page: Page, most: int, why: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """The page. most: rows of each kind. why: more words on those that wait, by id."""
    now = time.time()
    waiting = _gathered([job for job in listing.jobs if job.state in (WAITING, HELD)])
    over = [job for job in listing.jobs if job.state in OVER]
    running = [job for job in listing.jobs if job.state not in (WAITING, HELD, *OVER)]
    found = _head(listing, page)
    if not listing.jobs:
        return [*found, page.say("no jobs", "没有作业")]
    users = {job.user for job in listing.jobs if job.user}
    number = min(20, max(4, 0, *(len(_id(group)) for group in waiting), *(len(job.id) for job in [*running, *over])))
    user = USER if len(users) > 1 else 0
    wide = Widths(number, max(8, page.width - INDENT - number - 2 - CELLS - (user + 2 if user else 0)), user)
    if running:
        found += _running(running[:most], page, wide, listing, now)
        found += _more(page, len(running) - most)
    if waiting:
        found += _waiting(waiting, page, wide, listing, now, why, most)
        shown = sum(len(group) for group in waiting[:most])
        asked = sum(len(group) for group in waiting)
        there = max(asked, sum(listing.counts.get(name, 0) for name in (WAITING, HELD))) if _whole(listing) else asked
        found += _more(page, there - shown)
    if over:
        found += _over(over[:most], page, wide, now)
    return found[1:] if found and not found[0] else found


def _whole(listing: Listing) -> bool:
    """Whether the counts are of what was asked for: a listing by id or user is told without them."""
    return sum(listing.counts.values()) >= len(listing.jobs)


def _head(listing: Listing, page: Page) -> list[str]:
    found = []
    if text := words.cards(listing.cards, page.lang):
        found += page.below(text, 0, most=3)
    if listing.warning:
        found += [page.paint(line, "yellow") for line in page.below(page.say(*listing.warning), 0, most=4)]
    return found


def _more(page: Page, count: int) -> list[str]:
    return [" " * (INDENT + 2) + page.paint(page.say(f"... and {count} more (--all)", f"……另有 {count} 个（--all）"), "dim")] if count > 0 else []


def _title(page: Page, head: str, wide: Widths, cells: Sequence[tuple[str, int]]) -> list[str]:
    user = [(page.say("user", "用户"), wide.user)] if wide.user else []
    return ["", page.paint(row([(head, INDENT + wide.id + 2 + wide.name), *user, *cells]), "bold")]


def _row(job_id: str, name: str, job: Told, wide: Widths, cells: Sequence[tuple[str, int]]) -> str:
    user = [(job.user, wide.user)] if wide.user else []
    return " " * INDENT + row([(job_id, -wide.id), (name, wide.name), *user, *cells])


# --- those that run


def gpus_of(job: Told, cards: Sequence[Card]) -> str:
    """ "0-3", or what the engine calls them; the node in front where there is one."""
    index = {card.id: card.index for card in cards}
    if job.gpus and all(name in index for name in job.gpus):
        text = words.ranges(index[name] for name in job.gpus)
    else:
        text = ",".join(job.gpus) if len(",".join(job.gpus)) <= 12 else str(len(job.gpus))
    return f"{job.node}:{text}" if job.node and text else job.node or text or ("-" if not job.spec.gpus else str(job.spec.gpus))


def _running(jobs: Sequence[Told], page: Page, wide: Widths, listing: Listing, now: float) -> list[str]:
    titles = ((page.say("GPUs", "GPU"), 12), (page.say("busy", "繁忙"), -5), (page.say("for", "已运行"), -8), (page.say("left", "剩余"), -6))
    count = max(len(jobs), sum(listing.counts.get(name, 0) for name in ("starting", "running", "ending")))
    found = _title(page, page.say(f"running ({count})", f"运行中（{count}）"), wide, titles)
    util = {card.id: card.util for card in listing.cards}
    for job in jobs:
        seen = [one for name in job.gpus if (one := util.get(name)) is not None]
        ran = now - job.started if job.started else 0.0
        rest = "" if job.spec.limit is None else brief(job.spec.limit - ran)
        busy = f"{sum(seen) / len(seen):.0f}%" if seen and job.started else ""
        time_of = brief(ran) if job.started else words.state(job.state, page.lang)
        rest = words.state(job.state, page.lang) if job.state == ENDING else rest
        cells = ((gpus_of(job, listing.cards), 12), (busy, -5), (time_of, -8), (rest, -6))
        found.append(_row(job.id, words.title(job.spec), job, wide, cells))
        if text := words.because(job, page.lang):
            found += page.below(text, INDENT + wide.id + 2, "yellow")
    return found


# --- those that wait


def _gathered(jobs: Sequence[Told]) -> list[list[Told]]:
    """Neighbours of one array that wait for the same reason are one row."""
    groups: list[list[Told]] = []
    for job in jobs:
        before = groups[-1][-1] if groups else None
        if before and job.array and job.array == before.array and (job.state, job.said) == (before.state, before.said):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def _id(group: Sequence[Told]) -> str:
    return group[0].id if len(group) == 1 else group[0].array


def _name(group: Sequence[Told], cut: bool) -> str:
    """cut: more of it wait, and are not listed."""
    spec = group[0].spec
    if len(group) == 1:
        return words.title(spec)
    return f"{words.plain(spec.name or ' '.join(spec.command))}[{words.ranges(job.spec.index or 0 for job in group)}{',...' if cut else ''}]"


def _wants(job: Told) -> str:
    spec = job.spec
    if not spec.gpus:
        return "-"
    memory = f" × {spec.memory / 1024:.3g}G" if spec.memory else ""
    return f"{spec.gpus}{memory}{' ' + words.plain(spec.model) if spec.model else ''}"


def _waiting(
    groups: Sequence[Sequence[Told]], page: Page, wide: Widths, listing: Listing, now: float, why: Mapping[str, Sequence[str]] | None, most: int
) -> list[str]:
    asked = sum(len(group) for group in groups)
    count = max(asked, sum(listing.counts.get(name, 0) for name in (WAITING, HELD)))
    titles = ((page.say("wants GPUs", "需要 GPU"), 19), (page.say("for", "已等待"), -8), ("", -6))
    found = _title(page, page.say(f"waiting ({count})", f"等待（{count}）"), wide, titles)
    before, cut = "", _whole(listing) and count > asked
    for group in groups[:most]:
        job = group[0]
        since = job.since or job.submitted
        cells = ((_wants(job), 19), (brief(now - since) if since else "", -8), (words.state(HELD, page.lang) if job.state == HELD else "", -6))
        found.append(_row(_id(group), _name(group, cut and group is groups[-1]), job, wide, cells))
        if why is not None:
            for text in why.get(job.id, ()):
                found += page.below(text, INDENT + wide.id + 2, "dim", most=4)
            continue
        text = words.because(job, page.lang) if job.state != HELD or job.said else ""
        if text and text != before:  # the same as above is not said again
            found += page.below(text, INDENT + wide.id + 2, "dim", most=3)
        before = text
    return found


# --- those that ended


def _over(jobs: Sequence[Told], page: Page, wide: Widths, now: float) -> list[str]:
    titles = (("", 17), (page.say("took", "用时"), -8), (page.say("ago", "距今"), -8))
    found = _title(page, page.say("ended, the last first", "已结束，最近的在前"), wide, titles)
    for job in jobs:
        how = words.state(job.state, page.lang)
        if job.state == FAILED and job.code:
            how += page.say(f", code {job.code}", f"，代码 {job.code}")
        took = brief(job.ended - job.started) if job.ended and job.started else ""
        cells = ((how, 17), (took, -8), (brief(now - job.ended) if job.ended else "", -8))
        text = _row(job.id, words.title(job.spec), job, wide, cells)
        found.append(page.paint(text, "red") if job.state in ("failed", "lost") else text)
        if (end := died_of(job, page.lang)) and job.state != DONE:
            found += page.below(end, INDENT + wide.id + 2, "dim", most=3)
    return found


def died_of(job: Told, lang: str) -> str:
    """The cause in one line: the finding's slug and title, else how it ended; "" where a person cancelled it, or no more is known."""
    text = words.because(job, lang)
    if job.slug:
        return f"{job.slug}{'：' if lang == 'zh' else ': '}{text}" if text else job.slug
    if job.state in ("failed", "lost") or job.ending in ("timeout", "idle", "gpu-fault", DEPENDENCY):
        return text or (words.ending(job, lang) if job.ending and job.ending not in ("ok",) else "")
    return ""
