"""What stands around every page: the head with the way to all others, and what NiceGUI has to be told."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from nicegui import ui
from starlette.requests import Request

from ongpu.watch.web import preferences
from ongpu.watch.web.guard import ALLOWED, COOKIE, Access, cookie
from ongpu.watch.web.markup import Html, tag
from ongpu.watch.web.reading import Reader, View
from ongpu.watch.web.tokens import valid
from ongpu.watch.web.words import word

# Every page of the dashboard: its name among the words, and its address. A new page needs its line here.
PAGES: tuple[tuple[str, str], ...] = (
    ("now", "/"), ("queue", "/queue"), ("history", "/history"), ("incidents", "/incidents"), ("work", "/work"), ("fleet", "/fleet"),
)  # fmt: skip
LANGUAGES: dict[str, Literal["en-US", "zh-CN"]] = {"en": "en-US", "zh": "zh-CN"}
VERSION = "2"  # of the assets: browsers keep them


@dataclass(frozen=True)
class Here:
    """What a page knows of who asks."""

    request: Request
    lang: preferences.Lang
    theme: str
    reader: Reader
    access: Access

    @property
    def may_write(self) -> bool:
        """Whether this browser showed the token, and the token is still the same. Asked again at every action."""
        session = cookie(self.request.headers.get("cookie", ""), COOKIE)
        return bool(self.request.scope.get(ALLOWED)) and valid(session, self.access.tokens.token(), time.time())


@contextmanager
def frame(request: Request, name: str, title: str = "") -> Iterator[Here]:
    """The page around what is put on screen within."""
    state = request.scope["ongpu.app"].state
    wants = preferences.of(request)
    here = Here(request, wants.lang, wants.theme, state.reader, state.access)
    client = ui.context.client
    shown = f"{title or word(name, wants.lang)} · ongpu"
    client.page = ui.page(client.page.path, title=shown, dark=wants.dark, language=LANGUAGES[wants.lang], response_timeout=20.0)
    ui.add_head_html(f'<link rel="stylesheet" href="/assets/ongpu.css?{VERSION}"><script defer src="/assets/ongpu.js?{VERSION}"></script>')
    view = here.reader.view()
    ui.html(head(here, name, view), sanitize=False).classes("top")  # made of our own words only, but for the machine's escaped name
    with ui.element("main").props('id="content" tabindex="-1"').classes("page"):
        yield here


def head(here: Here, name: str, view: View) -> Html:
    """The bar at the top."""
    lang = here.lang
    back = preferences.local(here.request.url.path + (f"?{here.request.url.query}" if here.request.url.query else ""))
    links = []
    for page, address in PAGES:
        count = len(view.incidents) if page == "incidents" else 0
        badge = tag("span", count, class_="count", aria_label=word("open_count", lang, count=count)) if count else ""
        links.append(tag("a", word(page, lang), badge, href=address, aria_current="page" if page == name else None))

    def prefer(key: str, value: str) -> str:
        return "/prefer?" + urlencode({key: value, "next": back})

    next_theme = {"auto": "light", "light": "dark", "dark": "auto"}[here.theme]
    other = "en" if lang == "zh" else "zh"
    language = tag("a", word("other_language", lang), href=prefer("lang", other), lang=LANGUAGES[other])
    theme = tag("a", f"{word('theme', lang)}: {word(here.theme, lang)}", href=prefer("theme", next_theme))
    if here.may_write:
        entry = tag("form", tag("button", word("log_out", lang), type_="submit"), method="post", action="/logout")
    else:
        entry = tag("a", word("log_in", lang), href="/login?" + urlencode({"next": back}))
    machine = " · ".join(filter(None, [view.host, word("simulated", lang) if view.demo else ""]))
    return tag(
        "div", tag("a", word("skip", lang), href="#content", class_="skip"),
        tag("a", "ongpu", tag("small", machine), href="/", class_="brand"),
        tag("nav", *links, aria_label=word("pages", lang)), tag("div", language, theme, entry, class_="tools"), class_="top-in",
    )  # fmt: skip


def segments(label: str, choices: list[tuple[str, str, bool]]) -> Html:
    """A choice of one among few, as links: (text, address, whether it is chosen)."""
    links = [tag("a", text, href=address, aria_current="true" if chosen else None) for text, address, chosen in choices]
    return tag("span", tag("span", label, class_="label"), tag("span", *links, class_="seg", role="group", aria_label=label))
