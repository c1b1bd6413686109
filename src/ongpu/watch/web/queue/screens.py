"""The queue's pages on screen: what NiceGUI shows, asks for anew, and does at a click. What is shown comes from `pages/queue.py`."""

import asyncio
import getpass
import os
import shlex
import time
from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui
from starlette.requests import Request

from ongpu.queue.engines import EngineError
from ongpu.queue.job import HELD, LIVE, WAITING, Spec
from ongpu.store import StoreError
from ongpu.watch.web.frame import Here, frame, segments
from ongpu.watch.web.markup import Html, tag
from ongpu.watch.web.pages import queue as page
from ongpu.watch.web.queue.reading import SPANS, Queue, Seen
from ongpu.watch.web.queue.sums import shares
from ongpu.watch.web.reading import Body
from ongpu.watch.web.screens import Piece
from ongpu.watch.web.words import word

LIVE_EVERY, DRAWN_EVERY = 3.0, 15.0  # seconds between two looks at the jobs, and at the past
BY = ("user", "project")


def _queue(request: Request) -> Queue:
    found: Queue = request.scope["ongpu.app"].state.queue
    return found


def _told(error: EngineError, here: Here) -> str:
    return error.chinese if here.lang == "zh" else error.english


@ui.page("/queue")
async def queue_page(request: Request) -> None:
    """All of it."""
    query, queue = request.query_params, _queue(request)
    chosen = query["range"] if query.get("range") in SPANS else "24h"
    by = query["by"] if query.get("by") in BY else "user"
    with frame(request, "queue") as here:
        lang = here.lang
        ui.html(tag("h1", word("queue", lang)))
        banner = Piece()
        if not here.may_write:
            ui.html(tag("p", tag("a", word("queue_token", lang), href="/login?next=/queue"), class_="small"))
        elif queue.submits:
            ui.html(tag("p", tag("a", word("submit", lang) + " ↓", href="#submit"), class_="small"))
        tiles = Piece()
        parts: dict[str, Piece] = {}

        def panel(name: str, heading: str, more: Html | str = "", *below: str) -> None:
            with ui.element("section").classes("panel"):
                ui.html(tag("div", tag("h2", word(heading, lang)), more, class_="heading"))
                for one in (name, *below):
                    parts[one] = Piece()

        spans = [(word(name, lang), f"/queue?range={name}&by={by}", name == chosen) for name in SPANS]
        ways = [(word(name, lang), f"/queue?range={chosen}&by={name}", name == by) for name in BY]
        panel("gantt", "gantt", segments(word("range", lang), spans), "table")
        panel("gpus", "gpus")
        panel("running", "running")
        panel("waiting", "waiting")
        panel("shares", "used_by", segments(word("by", lang), ways))
        panel("ended", "last_ended")
        drawn = [0.0]

        async def show() -> None:
            seen = await asyncio.to_thread(queue.seen)
            had = shares(seen, SPANS[chosen], by, queue.cost)
            banner.show(page.banners(seen, lang))
            tiles.show(page.tiles(seen, had, chosen, queue.currency, lang))
            if not seen.listing:
                return
            parts["gpus"].show(page.cards(seen, lang))
            parts["running"].show(page.running(seen, lang))
            parts["waiting"].show(page.waiting(seen, lang))
            parts["ended"].show(page.ended(seen, lang))
            if time.monotonic() - drawn[0] > DRAWN_EVERY:
                drawn[0] = time.monotonic()
                parts["shares"].show(page.shares(had, by, queue.currency, lang))
                parts["table"].show(page.table(seen, chosen, lang))
                parts["gantt"].show(page.picture(seen, chosen, await asyncio.to_thread(_incidents, here, seen, chosen), lang))

        await show()
        if here.may_write and queue.submits:
            _submit(here, queue)
        ui.timer(LIVE_EVERY, show, immediate=False)


def _incidents(here: Here, seen: Seen, chosen: str) -> list[Body]:
    try:
        return here.reader.incidents(start=seen.at - SPANS[chosen], end=seen.at, limit=500)
    except StoreError:  # the queue goes on without the watch
        return []


def _submit(here: Here, queue: Queue) -> None:
    """The form."""
    lang = here.lang
    with ui.element("section").classes("panel").props("id=submit"):
        ui.html(tag("h2", word("submit", lang)))
        with ui.row().classes("actions form"):
            command = ui.input(word("command_line", lang)).props("dense outlined maxlength=20000").classes("long")
            name = ui.input(word("name", lang)).props("dense outlined maxlength=80")
            folder = ui.input(word("folder", lang), placeholder="~").props("dense outlined maxlength=1000")
            count = ui.number(word("gpu_count", lang), value=1, min=0, max=64, precision=0).props("dense outlined").classes("short")
            memory = ui.number(word("memory_gib", lang), min=0.1, max=4096).props("dense outlined").classes("short")
            limit = ui.number(word("limit_hours", lang), min=0.01, max=87_600).props("dense outlined").classes("short")
            project = ui.input(word("project_label", lang)).props("dense outlined maxlength=80")

            async def put() -> None:
                try:
                    words = tuple(shlex.split(str(command.value or "")))
                except ValueError as error:
                    ui.notify(word("bad_command", lang, why=error), type="negative")
                    return
                if not words:
                    ui.notify(word("no_command", lang), type="negative")
                    return
                spec = Spec(
                    command=words, name=str(name.value or ""), gpus=int(count.value if count.value is not None else 1),
                    memory=round(memory.value * 1024) if memory.value else None, limit=limit.value * 3600 if limit.value else None,
                    project=str(project.value or ""), folder=os.path.expanduser(str(folder.value or "")),
                )  # fmt: skip
                found: list[str] = []
                if await _do(here, "/queue", lambda: found.extend(queue.submit([spec]))):
                    ui.notify(word("submitted_as", lang, id=", ".join(found)))
                    command.value = ""

            _button(word("put", lang), put)
        ui.html(tag("p", word("runs_as", lang, user=_user()), class_="small soft"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())


def _button(text: str, action: Callable[[], Awaitable[None] | None]) -> None:
    ui.button(text, on_click=action, color=None).props("flat dense no-caps").classes("plain")


async def _sure(question: str, lang: str) -> bool:
    """Whether who clicked meant it."""
    with ui.dialog() as dialog, ui.card():
        ui.label(question)
        with ui.row().classes("actions"):
            for name, answer in (("do_cancel", True), ("keep", False)):
                _button(word(name, lang), partial(dialog.submit, answer))
    said = await dialog
    dialog.delete()
    return bool(said)


async def _do(here: Here, back: str, action: Callable[[], object]) -> bool:
    """Does what was clicked, if the reader still may; whether it was done."""
    if not here.may_write:
        ui.navigate.to(f"/login?next={back}")
        return False
    try:
        await asyncio.to_thread(action)
    except EngineError as error:
        ui.notify(word("refused", here.lang, why=_told(error, here)), type="negative")
        return False
    return True


@ui.page("/queue/{job}")
async def job_page(request: Request, job: str) -> None:
    """One job: what it asks for, why it waits or ended so, and what it wrote."""
    queue = _queue(request)
    with frame(request, "queue", title=job[:60]) as here:
        lang = here.lang
        ui.html(tag("a", "← " + word("all_jobs", lang), href="/queue"))
        banner, shown = Piece(), Piece()
        buttons = ui.row().classes("actions")

        def look() -> tuple[Html, Html, str]:
            told = queue.told(job)
            if told is None:
                return Html(""), tag("p", word("no_job_of_id", lang)), ""
            why = queue.why(told)
            output = queue.tail(job).decode("utf-8", "replace") if here.may_write and told.started is not None else None
            output = "" if output is None and here.may_write else output
            return Html(""), page.job_page(told, queue.seen(), why, output, lang), told.state

        async def show() -> None:
            try:
                wrong, html, state = await asyncio.to_thread(look)
            except EngineError as error:
                wrong, html, state = page.banners(Seen(time.time(), problem=error), lang), shown.shown, ""
            banner.show(wrong)
            shown.show(html)
            offer(state)

        def offer(state: str) -> None:
            running[0] = state not in (WAITING, HELD)
            wanted = [] if not here.may_write or state not in LIVE else ["cancel"]
            wanted += ["hold"] if wanted and state == WAITING else ["release"] if wanted and state == HELD else []
            if wanted == offered:
                return
            offered[:] = wanted
            buttons.clear()
            with buttons:
                for what in wanted:
                    _button(word(what, lang), partial(act, what))

        async def act(what: str) -> None:
            if what == "cancel" and running[0] and not await _sure(word("sure_cancel", lang, id=job), lang):
                return
            if await _do(here, f"/queue/{job}", lambda: queue.change(what, [job])):
                ui.notify(word("done", lang))
                await show()

        offered: list[str] = []
        running = [False]
        await show()
        ui.timer(LIVE_EVERY, show, immediate=False)


