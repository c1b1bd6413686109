"""The queue: its GPUs and who is on them, what runs, what waits and why, who had how much, and how the last ones ended."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ongpu.queue import words
from ongpu.queue.job import CANCELLED, DONE, ENDING, FAILED, HELD, LOST, OVER, RUNNING, STARTING, WAITING, Card, Told
from ongpu.watch.alerts import ALERTS
from ongpu.watch.web import figures, gantt
from ongpu.watch.web.markup import Html, prose, tag
from ongpu.watch.web.pages.now import tile
from ongpu.watch.web.queue.reading import RUNS, SPANS, Seen, title
from ongpu.watch.web.queue.sums import Share
from ongpu.watch.web.reading import Body
from ongpu.watch.web.words import clock, minute, span, word

SHOWN = 100  # jobs of one table
LATEST, FEW = 30, 8  # of those that ended; on a narrow window (ongpu.css)
CARDS = 128  # GPUs that are listed
LISTED = 200  # runs of the table beside the chart
EDGES = {"ok": "green", "suspect": "amber", "testing": "amber", "drained": "red"}
CHIPS = {
    "ok": "green", "gpu-fault": "red", "out-of-memory": "amber", "host-memory": "amber", "program": "amber", "signal": "amber",
    "timeout": "amber", "vanished": "red", "not-started": "red", "idle": "amber",
}  # fmt: skip


def banners(seen: Seen, lang: str) -> Html:
    """What has to be known first: that there is no queue, or that nothing starts."""
    if seen.problem:
        told = seen.problem.chinese if lang == "zh" else seen.problem.english
        hint = tag("span", prose(word("queue_hint", lang)))
        return tag("div", tag("b", prose(word("no_queue", lang, why=told))), " ", hint, class_="banner warning", role="alert")
    if seen.listing and seen.listing.warning:
        return tag("div", tag("b", prose(seen.listing.warning[lang == "zh"])), class_="banner error", role="alert")
    if seen.listing and not seen.jobs and not seen.cards:
        return tag("p", word("empty_queue", lang), " ", prose(word("queue_hint", lang)), class_="soft")
    return Html("")


def tiles(seen: Seen, had: Sequence[Share], chosen: str, currency: str, lang: str) -> Html:
    """The sums."""
    if not seen.listing:
        return Html("")
    used = sum(bool(card.jobs) for card in seen.cards)
    drained = sum(card.state in ("drained", "testing") for card in seen.cards)
    held, failed, done = seen.count(HELD), seen.count(FAILED, LOST), seen.count(DONE)
    costs = [one.cost for one in had if one.cost is not None]
    return tag(
        "div",
        tile(word("gpus_in_use", lang), f"{used} / {len(seen.cards)}" if seen.cards else "-",
             word("drained_count", lang, count=drained) if drained else "", "alarm" if drained else ""),
        tile(word("running", lang), _many(seen.count(STARTING, RUNNING, ENDING)), word("engine", lang, which=seen.engine)),
        tile(word("waiting", lang), _many(seen.count(WAITING)), word("held_count", lang, count=held) if held else ""),
        tile(word("failed", lang), _many(failed), word("done_count", lang, count=_many(done)), "warn" if failed else ""),
        tile(word("hours_in", lang, span=word(chosen, lang)), _hours(sum(one.hours for one in had)),
             figures.money(sum(costs), currency) if costs else ""),
        class_="tiles",
    )  # fmt: skip


def _many(count: int) -> str:
    return figures.number(count, 0)


def _hours(amount: float) -> str:
    return figures.number(amount, 1 if amount >= 10 else 2)


def link(job: Told) -> Html:
    """The way to the job's own page."""
    return tag("a", title(job), href=f"/queue/{quote(job.id, safe='')}")


def _on_it(name: str, job: Told | None) -> Html:
    return tag("div", link(job), tag("span", f" · {job.user}", class_="soft")) if job else tag("div", name)


def cards(seen: Seen, lang: str) -> Html:
    """The GPUs as the queue sees them, and who is on each."""
    if not seen.cards:
        return tag("p", word("no_cards", lang), class_="soft")
    jobs = {job.id: job for job in seen.jobs}
    rows = []
    for card in seen.cards[:CARDS]:
        who = [_on_it(name, jobs.get(name)) for name in card.jobs]
        if card.foreign:
            strangers = ("、" if lang == "zh" else ", ").join(card.foreign[:3]) + (" …" if len(card.foreign) > 3 else "")
            who.append(tag("div", word("foreign", lang, who=strangers), class_="amber"))
        if card.holder:
            who.append(tag("div", word("leased", lang, who=card.holder), class_="amber"))
        if card.drained_by:
            who.append(tag("div", word("drained_by", lang, who=card.drained_by), class_="amber"))
        if not who:
            who.append(tag("span", word("nobody_on_it", lang) if card.state == "ok" else "-", class_="soft"))
        memory = "-" if card.used is None else f"{card.used / 1024:.1f}" + (f" / {card.memory / 1024:.0f} GiB" if card.memory else " GiB")
        state = "drained" if card.drained_by else card.state
        told = word(f"card_{state}", lang) if state in EDGES else state
        rows.append((
            tag("b", gantt.name(card), title=card.id), tag("span", card.name, class_="soft"),
            Html(tag("span", told, class_=f"chip {EDGES.get(state, 'soft')}") + _fault(card, seen.at, lang)), Html("".join(who)),
            Html(memory + _bar(figures.share(card.used, card.memory), "mem")), "-" if card.util is None else f"{card.util} %",
        ))  # fmt: skip
    more = tag("p", word("more_gpus", lang, count=len(seen.cards) - CARDS), class_="small soft") if len(seen.cards) > CARDS else ""
    return Html(_table("gpu:nowrap model:cut state on_it:wide used_memory:n util:n", rows, lang) + more)


def _bar(part: float | None, kind: str = "") -> Html:
    return tag("span", tag("i", style=f"width:{part * 100:.0f}%"), class_=f"bar {kind}".strip()) if part is not None else Html("")


def _fault(card: Card, now: float, lang: str) -> Html:
    if not card.slug and (card.state == "ok" or card.since is None):
        return Html("")
    parts = [named(card.slug, lang) if card.slug else "", word("since", lang, when=clock(card.since, now)) if card.since else ""]
    return tag("div", " · ".join(filter(None, parts)), class_="small soft")


def named(slug: str, lang: str) -> str:
    """What a slug means, in a few words; the slug where there are none."""
    told = ALERTS.get(slug)
    return slug.replace("-", " ") if told is None else told.zh if lang == "zh" else told.en


def faults(seen: Seen, incidents: Sequence[Body], lang: str) -> list[gantt.Fault]:
    """When GPUs were out of service: incidents of the watch, and what the queue drained."""
    found = []
    for one in incidents:
        if one.get("severity") == "error" and one.get("gpu_uuid"):
            texts = (one.get("words") or {}).get(lang) or {}
            what = str(texts.get("title") or named(str(one.get("slug") or ""), lang))
            closed = one.get("closed")
            found.append(gantt.Fault(str(one["gpu_uuid"]), float(one["opened"]), None if closed is None else float(closed), what))
    for card in seen.cards:
        if card.state != "ok" and card.since is not None:
            what = word("out_of_service", lang) + (f": {named(card.slug, lang)}" if card.slug else "")
            found.append(gantt.Fault(card.id, card.since, None, what, "error" if card.state == "drained" else "warning"))
    return found


def picture(seen: Seen, chosen: str, incidents: Sequence[Body], lang: str) -> Html:
    """The Gantt chart of a span."""
    start = seen.at - SPANS[chosen]
    runs = [run for run in seen.runs if run.gpus and (run.ended is None or run.ended > start)]
    if not runs and not seen.cards:
        return tag("p", word("no_runs", lang), class_="soft")
    cut = tag("p", word("cut_runs", lang, count=RUNS), class_="small soft") if seen.cut else ""
    return Html(gantt.chart(runs, seen.cards, faults(seen, incidents, lang), start, seen.at, lang) + cut)


def table(seen: Seen, chosen: str, lang: str) -> Html:
    """The same as the chart, in words: for who cannot see one, and for exact times. The latest first."""
    start = seen.at - SPANS[chosen]
    runs = [run for run in seen.runs if run.gpus and (run.ended is None or run.ended > start)]
    if not runs:
        return Html("")
    known = {card.id: gantt.name(card) for card in seen.cards}
    rows = []
    for run in sorted(runs, key=lambda run: -run.started)[:LISTED]:
        name = tag("a", run.name, href=f"/queue/{quote(run.job, safe='')}")
        how = word("still_running", lang) if run.ended is None else gantt.ending(run.ending, lang)
        ended = "-" if run.ended is None else clock(run.ended, seen.at)
        rows.append((name, run.user, _named(run.gpus, known), clock(run.started, seen.at), ended, how))
    more = tag("p", word("more", lang, count=_many(len(runs) - LISTED)), class_="small soft") if len(runs) > LISTED else ""
    body = _table("name:wide user on_gpus:nowrap begun:nowrap ended_at:nowrap ended_how", rows, lang)
    return tag("details", tag("summary", word("as_table", lang)), body, more)


def where(job: Told, seen: Seen, lang: str) -> str:
    """The GPUs of its last run, in a few words."""
    if not job.gpus:
        return job.node or (word("no_gpu_needed", lang) if not job.spec.gpus else "-")
    return _named(job.gpus, {card.id: gantt.name(card) for card in seen.cards})


def _named(gpus: Sequence[str], known: Mapping[str, str]) -> str:
    told = [known.get(gpu, gpu[:12]) for gpu in gpus]
    if all(name.startswith("GPU ") for name in told) and len(told) > 1:
        return "GPU " + ", ".join(sorted((name[4:] for name in told), key=lambda number: (len(number), number)))
    return ", ".join(told[:8]) + (" …" if len(told) > 8 else "")


def running(seen: Seen, lang: str) -> Html:
    """What runs."""
    rows = []
    for job in seen.of(RUNNING, ENDING, STARTING)[:SHOWN]:
        ran = None if job.started is None else seen.at - job.started
        limit = job.spec.limit
        left = word("no_limit", lang) if limit is None else "-" if ran is None else \
            span(limit - ran, lang) if limit >= ran else word("over_time", lang)  # fmt: skip
        busy = [figures.percent(job.busy) if job.busy is not None else "", f"{job.peak / 1024:.1f} GiB" if job.peak is not None else ""]
        notes = [words.state(job.state, lang) if job.state != RUNNING else "", words.because(job, lang)]
        rows.append((
            job.id, Html(link(job) + _said(" · ".join(filter(None, notes)))), job.user, where(job, seen, lang), clock(job.started, seen.at),
            "-" if ran is None else span(ran, lang), Html(left + _bar(figures.share(ran, limit))), " · ".join(filter(None, busy)) or "-",
        ))  # fmt: skip
    if not rows:
        return tag("p", word("none_running", lang), class_="soft")
    table = _table("id:nowrap name:wide user on_gpus:nowrap begun:nowrap ran_for:n time_left:n busy_peak:n", rows, lang)
    return Html(table + _more(seen.count(RUNNING, ENDING, STARTING), len(rows), lang))


def waiting(seen: Seen, lang: str) -> Html:
    """What waits, in the order in which it comes, and why."""
    rows = []
    for place, job in enumerate(seen.of(WAITING, HELD)[:SHOWN], 1):
        since = job.since or job.submitted
        why = words.state(HELD, lang) if job.state == HELD and not job.said else words.because(job, lang) or "-"
        waits = span(seen.at - since, lang) if since else "-"
        rows.append((str(place), job.id, link(job), job.user, asks(job, lang), waits, why, _start(job, seen, lang)))
    if not rows:
        return tag("p", word("none_waiting", lang), class_="soft")
    table = _table("nr:n id:nowrap name:wide user asks_for:asks waits_for:n because_of:wide expected_at:nowrap", rows, lang)
    return Html(table + _more(seen.count(WAITING, HELD), len(rows), lang))


def asks(job: Told, lang: str) -> str:
    """What it wants, in a few words."""
    return ("，" if lang == "zh" else ", ").join(words.asked(job.spec, lang))


def _start(job: Told, seen: Seen, lang: str) -> str:
    """When it may start; "not known" where nobody can tell."""
    at = seen.expected.get(job.id)
    if at is None:
        return word("unknown_when", lang)
    return word("at_once", lang) if at - seen.at < 5 else word("starts_in", lang, length=span(at - seen.at, lang), when=minute(at, seen.at))


def ended(seen: Seen, lang: str) -> Html:
    """The last that ended: how, and of what."""
    rows = []
    for job in seen.of(*OVER)[:LATEST]:
        ran = None if job.started is None or job.ended is None or job.ended < job.started else job.ended - job.started
        rows.append((
            job.id, link(job), job.user, clock(job.ended, seen.at), "-" if ran is None else span(ran, lang), where(job, seen, lang),
            _chip(job, lang), diagnosis(job, lang),
        ))  # fmt: skip
    if not rows:
        return tag("p", word("none_ended", lang), class_="soft")
    table = _table("id:nowrap name:wide user ended_at:nowrap ran_for:n on_gpus:nowrap ended_how diagnosis:wide", rows, lang, kind="latest")
    return Html(table + _more(seen.count(*OVER), min(len(rows), FEW), lang))


def _chip(job: Told, lang: str) -> Html:
    how = job.ending if job.state in OVER and job.state != CANCELLED else ""
    text = gantt.ending(how, lang) if how else words.state(job.state, lang)
    kind = CHIPS.get(how, "soft") if how else {DONE: "green", FAILED: "red", LOST: "red"}.get(job.state, "soft")
    return tag("span", text, class_=f"chip {kind}")


def diagnosis(job: Told, lang: str) -> Html:
    """The finding that explains its end, its exit code, and what the engine says besides."""
    parts = [tag("div", named(job.slug, lang), title=job.slug)] if job.slug else []
    more = [word("exit_code", lang, code=job.code)] if job.code else []
    more += [word("attempt_of", lang, count=job.attempts)] if job.attempts > 1 else []
    more += [words.because(job, lang)] if job.said else []
    return Html("".join([*parts, _said(" · ".join(more))])) or Html("-")


def _said(text: str) -> Html:
    return tag("div", text, class_="small soft") if text else Html("")


def _more(count: int, shown: int, lang: str) -> Html:
    return tag("p", prose(word("and_more", lang, count=_many(count))), class_="small soft") if count > shown else Html("")


def shares(had: Sequence[Share], by: str, currency: str, lang: str) -> Html:
    """Who had how much."""
    if not had:
        return tag("p", word("no_use", lang), class_="soft")
    total = sum(one.hours for one in had)
    priced = any(one.cost is not None for one in had)
    rows = []
    for one in had[:SHOWN]:
        part = figures.share(one.hours, total)
        name = one.name or word("no_project" if by == "project" else "unknown_who", lang)
        rows.append((
            name, str(one.running), _many(one.waiting), _many(one.runs),
            _hours(one.hours), Html(figures.percent(part) + _bar(part)), figures.number(one.kwh, 2),
            *([figures.money(one.cost)] if priced else []),
        ))  # fmt: skip
    columns = f"{by}:cut gpus_now:n jobs_waiting:n runs:n gpu_hours:n share_of:n energy_kwh:n{' cost:n' if priced else ''}"
    return _table(columns, rows, lang, {"cost": f" {currency}"})


def _table(columns: str, rows: Sequence[Sequence[object]], lang: str, units: Mapping[str, str] | None = None, kind: str = "") -> Html:
    """columns: the words of their heads, each with the class of its cells behind a colon. On a narrow window each row is a block, and
    each cell says what it is."""
    parts = [part.partition(":") for part in columns.split()]
    heads = [(word(name, lang) + (units or {}).get(name, ""), style) for name, _, style in parts]
    head = tag("tr", *(tag("th", name, class_="n" if style == "n" else None, scope="col") for name, style in heads))
    body = []
    for row in rows:
        cells = zip(row, heads, strict=True)
        body.append(tag("tr", *(
            tag("td", tag("div", cell), class_=style or None, data_name=name[:1].upper() + name[1:]) for cell, (name, style) in cells
        )))  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), class_=f"rows folding {kind}".strip()), class_="scroll")


def job_page(job: Told, seen: Seen, why: Sequence[tuple[str, str]], output: str | None, lang: str) -> Html:
    """One job. output None: the reader may not see it, nor its command."""
    spec = job.spec
    meta = [
        _chip(job, lang), tag("span", f"{word('id', lang)} {job.id}"),
        tag("span", job.user), tag("span", spec.project), tag("span", asks(job, lang)),
        tag("span", f"{word('submitted', lang)} {clock(job.submitted, seen.at)}") if job.submitted else "",
        tag("span", f"{word('expected_at', lang)} {_start(job, seen, lang)}") if job.state == WAITING else "",
        tag("span", f"{word('begun', lang)} {clock(job.started, seen.at)}") if job.started else "",
        tag("span", f"{word('ended_at', lang)} {clock(job.ended, seen.at)}") if job.ended and job.state in OVER else "",
        tag("span", where(job, seen, lang)) if job.started else "",
        tag("span", word("exit_code", lang, code=job.code)) if job.code is not None and job.state in OVER else "",
        tag("span", word("attempt_of", lang, count=job.attempts)) if job.attempts > 1 else "",
        tag("span", f"{word('gpu_time', lang)} {figures.number(job.attained / 3600, 2)}") if job.attained else "",
        tag("span", f"{word('busy_share', lang)} {figures.percent(job.busy)}") if job.busy is not None else "",
        tag("span", f"{word('memory', lang)} {job.peak / 1024:.1f} GiB") if job.peak is not None else "",
        tag("span", f"{word('energy_used', lang)} {figures.number(job.energy / 3.6e6, 2)} kWh") if job.energy is not None else "",
    ]  # fmt: skip
    inner: list[Any] = [tag("h1", title(job)), tag("div", *filter(None, meta), class_="meta")]
    lines = [pair[lang == "zh"] for pair in why]
    if job.slug and not any(job.slug in line for line in lines):
        lines.insert(0, named(job.slug, lang))
    if lines:
        inner += [tag("h2", word("why_so", lang)), tag("ul", *(tag("li", prose(line)) for line in lines))]
    if output is None:
        inner.append(tag("p", tag("a", word("output_token", lang), href=f"/login?next=/queue/{quote(job.id, safe='')}"), class_="small"))
    else:
        inner += [tag("h2", word("command_line", lang)), tag("pre", shlex.join(spec.command), class_="evidence", tabindex="0")]
        inner += [tag("p", f"{word('folder', lang)}: ", tag("code", spec.folder), class_="small soft")] if spec.folder else []
        inner.append(tag("h2", word("output", lang)))
        shown = tag("pre", output, class_="evidence output", tabindex="0") if output else tag("p", word("no_output", lang), class_="soft")
        inner.append(shown)
    level = {FAILED: "error", LOST: "error", DONE: "over"}.get(job.state, "note")
    return tag("article", *inner, class_=f"panel diagnosis {level}")
