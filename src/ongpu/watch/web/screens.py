"""The pages on screen: what NiceGUI shows, asks for anew, and does at a click. What is shown comes from `pages`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui
from starlette.requests import Request

from ongpu.store import StoreError
from ongpu.watch.web import charts
from ongpu.watch.web.figures import SCALES as FIGURES
from ongpu.watch.web.frame import Here, frame, segments
from ongpu.watch.web.markup import Html, prose, tag
from ongpu.watch.web.pages import fleet, history, incidents, now, work
from ongpu.watch.web.reading import RANGES
from ongpu.watch.web.words import clock, word

LIVE = 1.0  # seconds between two looks of the first page
SLOW = 10.0  # of the others
MANY = 16  # cards beyond which they are drawn small
SPARKS = 5.0  # seconds for which the little charts of all readers are the same
_drawn: dict[int, tuple[float, now.Sparks]] = {}  # by reader


class Piece:
    """A part of a page that is sent again only when it is another. Its HTML is escaped by us and cleaned by the browser's DOMPurify."""

    def __init__(self, html: Html | None = None) -> None:
        self.shown = html or Html("")
        self.element = ui.html(self.shown)

    def show(self, html: Html) -> None:
        """Puts it on screen."""
        if html != self.shown:
            self.shown = html
            self.element.set_content(html)


def _dark(here: Here) -> bool:
    """Whether charts are drawn for a dark ground, as far as the server can know; who follows the system gets greys that fit both."""
    return here.theme == "dark"


def _why(error: StoreError, here: Here) -> str:
    return error.zh if here.lang == "zh" else error.en


def _refused(error: StoreError, here: Here) -> Html:
    return tag("div", prose(word("no_store", here.lang, why=_why(error, here))), class_="banner error", role="alert")


# -- now


def sparks(here: Here, at: float) -> now.Sparks:
    """Utilisation and memory of the last ten minutes, by UUID."""
    kept = _drawn.get(id(here.reader))
    if kept and 0 <= at - kept[0] < SPARKS:
        return kept[1]
    try:
        gpus = here.reader.gpus()
        told: now.Sparks = {
            column: {gpu.uuid: found[gpu.id] for gpu in gpus}
            for column in ("util", "mem_used") for found in (here.reader.series(column, at - now.SPARK, at, 120, [gpu.id for gpu in gpus]),)
        }  # fmt: skip
    except StoreError:
        told = {}
    _drawn[id(here.reader)] = (at, told)
    return told


@ui.page("/")
def now_page(request: Request) -> None:
    """Every GPU as it is."""
    with frame(request, "now") as here:
        ui.html(tag("h1", word("now", here.lang)), sanitize=False).classes("skip")
        banner, tiles = Piece(), Piece()
        grid = ui.element("div").classes("cards")
        cards: dict[int, Piece] = {}
        none = Piece()

        def show() -> None:
            view = here.reader.view()
            banner.show(now.banners(view, here.lang))
            tiles.show(now.tiles(view, here.lang))
            made = now.cards(view, sparks(here, view.at), here.lang)
            grid.classes(add="many") if len(made) > MANY else grid.classes(remove="many")
            none.show(tag("p", word("no_gpus", here.lang), class_="soft") if view.state and view.state.up and not made else Html(""))
            for gone in cards.keys() - made.keys():
                cards.pop(gone).element.delete()
            for index, html in made.items():
                if index in cards:
                    cards[index].show(html)
                else:
                    with grid:
                        cards[index] = Piece(html)

        show()
        ui.timer(LIVE, show, immediate=False)


# -- history


@ui.page("/history")
async def history_page(request: Request) -> None:
    """Charts over time."""
    choice = history.Choice.of(request.query_params)
    with frame(request, "history") as here:
        lang = here.lang
        ui.html(tag("h1", word("history", lang)))
        spans = [(word(name, lang), _with(choice, span=name).address(), name == choice.span) for name in RANGES]
        with ui.row().classes("controls"):
            ui.html(segments(word("range", lang), spans))
            _chooser(word("metrics", lang), {name: word(name, lang) for name in history.METRICS}, list(choice.metrics), "-",
                     lambda told: ui.navigate.to(_with(choice, metrics=tuple(told)).address()))  # fmt: skip
            gpus = _known(here)
            if len(gpus) > 1:
                _chooser(word("gpus", lang), gpus, [index for index in choice.gpus if index in gpus], word("all_gpus", lang),
                         lambda told: ui.navigate.to(_with(choice, gpus=tuple(told)).address()))  # fmt: skip
        problem = Piece()
        shown: dict[str, ui.echart] = {}
        with ui.element("div").classes("charts"):
            for metric in choice.metrics:
                with ui.element("section").classes("panel"):
                    ui.html(tag("h2", word(metric, lang), tag("small", " " + FIGURES[metric][0], class_="soft")))
                    shown[metric] = ui.echart({}).props(f'aria-label="{word(metric, lang)}"')
        if not choice.metrics:
            ui.html(tag("p", word("pick_metric", lang), class_="soft"))
        ui.html(tag("p", word("gaps", lang), class_="small soft"))
        figures = Piece()
        with ui.element("section").classes("panel"):
            ui.html(tag("h2", word("in_span", lang)))
            listed = Piece()

        async def show() -> None:
            try:
                drawn = await asyncio.to_thread(history.draw, here.reader, choice, time.time())
            except StoreError as error:
                problem.show(_refused(error, here))
                return
            problem.show(Html(""))
            for metric, chart in shown.items():
                chart.options.clear()
                chart.options.update(history.chart(drawn, metric, _dark(here), lang))
                chart.update()
            figures.show(history.table(drawn, lang))
            empty = tag("p", word("none_in_span", lang), class_="soft")
            listed.show(incidents.table(drawn.incidents, (), drawn.end, lang, closed=True) if drawn.incidents else empty)

        await show()
        ui.timer(SLOW if choice.span in ("1h", "6h") else 60.0, show, immediate=False)


def _with(choice: history.Choice, **changed: Any) -> history.Choice:
    from dataclasses import replace

    return replace(choice, **changed)


def _known(here: Here) -> dict[int, str]:
    try:
        return {gpu.place: f"GPU {gpu.place}" for gpu in here.reader.gpus() if gpu.place is not None}
    except StoreError:
        return {}


def _chooser(label: str, options: dict[Any, str], value: list[Any], everything: str, chosen: Callable[[list[Any]], None]) -> None:
    """A choice of some among many, in effect when it is closed."""
    select = ui.select(options, value=value, multiple=True, label=label).classes("chooser")
    select.props("dense outlined options-dense").props["display-value"] = ", ".join(options[one] for one in value) or everything
    select.on("popup-hide", lambda: chosen(list(select.value)) if list(select.value) != value else None)


# -- incidents


@ui.page("/incidents")
def incidents_page(request: Request) -> None:
    """What is wrong, and what was."""
    with frame(request, "incidents") as here:
        lang = here.lang
        ui.html(tag("h1", word("incidents", lang)))
        parts = {}
        for name in ("open", "closed", "events"):
            with ui.element("section").classes("panel"):
                ui.html(tag("h2", word(name, lang)))
                parts[name] = Piece()
        with ui.element("section").classes("panel") as box:
            ui.html(tag("h2", word("silences", lang)))
            silences = ui.column()
        box.set_visibility(False)

        def show() -> None:
            at = time.time()
            try:
                held = here.reader.silences()
                found = here.reader.incidents(limit=incidents.CLOSED)
                opened = here.reader.incidents(open_only=True)
                events = here.reader.events(limit=100)
            except StoreError as error:
                parts["open"].show(_refused(error, here))
                return
            parts["open"].show(incidents.table(incidents.worst_first(opened), held, at, lang))
            parts["closed"].show(incidents.table([one for one in found if one["closed"] is not None], (), at, lang, closed=True))
            parts["events"].show(incidents.events(events, at, lang))
            box.set_visibility(bool(held))
            silences.clear()
            with silences:
                for one in held:
                    _silence_row(here, one, at, show)

        show()
        ui.timer(SLOW, show, immediate=False)


def _silence_row(here: Here, one: dict[str, Any], at: float, after: Callable[[], None]) -> None:
    lang = here.lang
    told = (one.get("slug"), one.get("gpu_uuid") or word("everywhere", lang), one.get("note"))
    what = " · ".join(str(part) for part in told if part)
    with ui.row().classes("actions"):
        ui.label(f"{what} · {word('until', lang, when=clock(one['until'], at))}")
        if here.may_write:
            _button(word("lift", lang), lambda: _write(here, lambda: here.reader.lift(int(one["id"])), after))


def _button(text: str, action: Callable[[], Awaitable[None]]) -> None:
    ui.button(text, on_click=action, color=None).props("flat dense no-caps").classes("plain")


async def _write(here: Here, action: Callable[[], object], after: Callable[[], None]) -> None:
    """Does what was clicked, if the reader still may."""
    if not here.may_write:
        ui.navigate.to("/login?next=/incidents")
        return
    try:
        await asyncio.to_thread(action)
    except StoreError as error:
        ui.notify(word("not_written", here.lang, why=_why(error, here)), type="negative")
        return
    ui.notify(word("done", here.lang))
    after()


@ui.page("/incidents/{number}")
def incident_page(request: Request, number: int) -> None:
    """One incident with its whole diagnosis."""
    with frame(request, "incidents") as here:
        lang = here.lang
        ui.html(tag("a", "← " + word("back", lang), href="/incidents"))
        shown, missing = Piece(), Piece()

        def show() -> None:
            try:
                found = here.reader.incident(number)
            except StoreError as error:
                missing.show(_refused(error, here))
                return
            missing.show(Html("") if found else tag("p", word("no_incident", lang)))
            shown.show(incidents.diagnosis(found, _still(found), lang) if found else Html(""))

        show()
        found = here.reader.incident(number) if not missing.shown else None
        if found and here.may_write:
            with ui.row().classes("actions"):
                if not found.get("ack"):
                    note = ui.input(word("note_label", lang)).props("dense outlined maxlength=500")
                    _button(word("acknowledge", lang), lambda: _write(here, lambda: here.reader.acknowledge(number, str(note.value)), show))
                slug, uuid = str(found.get("slug") or ""), str(found.get("gpu_uuid") or "")
                spans = {count: word("h", lang, count=count) for count in incidents.HOURS}
                hours = ui.select(spans, value=1, label=word("silence_for", lang, slug=slug)).props("dense outlined").classes("silence-for")

                def quiet() -> int:
                    return here.reader.silence(float(hours.value or 1) * 3600, slug, uuid)

                _button(word("silence", lang), lambda: _write(here, quiet, show))
        elif found:
            ui.html(tag("p", tag("a", word("need_token", lang), href=f"/login?next=/incidents/{number}"), class_="small"))
        ui.timer(SLOW, show, immediate=False)


def _still(incident: dict[str, Any]) -> float:
    """The time as it is told, in whole ten seconds: what has not changed is not sent again."""
    return time.time() if incident["closed"] is None else float(incident["closed"])


# -- use and cost


@ui.page("/work")
async def work_page(request: Request) -> None:
    """Who used what."""
    query = request.query_params
    by = query["by"] if query.get("by") in work.BY else "user"
    span = query["range"] if query.get("range") in work.SPANS else "7d"
    with frame(request, "work") as here:
        lang, reader = here.lang, here.reader
        ui.html(tag("h1", word("work", lang)))
        ways = [(word(name, lang), f"/work?range={span}&by={name}", name == by) for name in work.BY]
        spans = [(word(name, lang), f"/work?range={name}&by={by}", name == span) for name in work.SPANS]
        with ui.row().classes("controls"):
            ui.html(segments(word("range", lang), spans))
            ui.html(segments(word("by", lang), ways))
            ui.html(tag("a", word("csv", lang), href=f"/api/v1/work.csv?range={span}&by={by}", download=f"ongpu-{by}.csv"))
        try:
            at = time.time()
            gpus = reader.gpus()
            rows = await asyncio.to_thread(reader.work, at - RANGES[span], at, by)
            jobs = rows if by == "job" else await asyncio.to_thread(reader.work, at - RANGES[span], at, "job")
        except StoreError as error:
            ui.html(_refused(error, here))
            return
        ui.html(work.tiles(rows, reader.price_gpu_hour, reader.currency, lang))
        if bars := work.bars(rows, by, gpus, lang):
            with ui.element("section").classes("panel"):
                ui.html(tag("h2", f"{word('gpu_hours', lang)}: {word(by, lang)}"))
                ui.echart(charts.use_chart(bars, lang, _dark(here))).style(f"height: {70 + 30 * len(bars)}px")
                ui.html(tag("p", word("work_note", lang), class_="small soft"))
        with ui.element("section").classes("panel"):
            ui.html(work.table(rows, by, gpus, reader.price_gpu_hour, reader.currency, lang))
        if by != "job":
            with ui.element("section").classes("panel"):
                ui.html(tag("h2", word("efficiency", lang)))
                ui.html(work.table(work.least_busy(jobs), "job", gpus, reader.price_gpu_hour, reader.currency, lang))
        with ui.element("section").classes("panel"):
            ui.html(tag("h2", word("live", lang)))
            live = Piece(work.processes(reader.view(), lang))
        ui.timer(5.0, lambda: live.show(work.processes(reader.view(), lang)), immediate=False)


# -- the fleet


@ui.page("/fleet")
async def fleet_page(request: Request) -> None:
    """Many machines, as Prometheus knows them."""
    with frame(request, "fleet") as here:
        ui.html(tag("h1", word("fleet", here.lang)))
        address = request.scope["ongpu.app"].state.prometheus
        if not address and here.reader.view().demo:
            ui.html(await asyncio.to_thread(fleet.made_up, here.lang))
            return
        if not address:
            ui.html(tag("p", prose(word("no_fleet", here.lang)), class_="soft"))
            return
        shown = Piece(tag("p", word("asking", here.lang), class_="soft"))

        async def show() -> None:
            shown.show(await asyncio.to_thread(fleet.look, address, here.lang))

        ui.timer(60.0, show)
