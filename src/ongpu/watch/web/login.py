"""The page that asks for the token, the page's two cookies of taste, and the way out. Plain HTML: it needs nothing that needs the token."""

import time
from importlib.resources import files
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ongpu.watch.web import preferences
from ongpu.watch.web.guard import COOKIE, LOGIN, Access, address
from ongpu.watch.web.markup import Html, prose, tag
from ongpu.watch.web.tokens import SESSION, session
from ongpu.watch.web.words import word

AUTO = Html("<script>if(matchMedia('(prefers-color-scheme: dark)').matches)document.body.classList.add('body--dark')</script>")
router = APIRouter(include_in_schema=False)


def style() -> str:
    """The look of all pages."""
    return (files("ongpu.watch.web") / "assets" / "ongpu.css").read_text()


@router.get(LOGIN)
async def ask(request: Request) -> Response:
    """The form."""
    return page(request, request.query_params.get("next"))


@router.post(LOGIN)
async def enter(request: Request) -> Response:
    """A session for who has the token."""
    access: Access = request.app.state.access
    form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    target = preferences.local(form.get("next", [""])[0])
    lang = preferences.of(request).lang
    token = access.tokens.token()
    if token is None:
        return page(request, target, word("token_none", lang), 403)
    wait = access.try_token(form.get("token", [""])[0].strip(), address(request.scope))
    if wait is not None:
        problem = word("token_wait", lang, seconds=int(wait) + 1) if wait else word("token_wrong", lang)
        answer = page(request, target, problem, 429 if wait else 403)
        if wait:
            answer.headers["retry-after"] = str(int(wait) + 1)
        return answer
    entered = RedirectResponse(target, 303)
    entered.set_cookie(
        COOKIE, session(token, time.time()), max_age=int(SESSION), httponly=True, samesite="strict", secure=access.secure, path="/"
    )
    return entered


@router.post("/logout")
async def leave(request: Request) -> Response:
    """Forgets the session."""
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


@router.get("/prefer")
async def prefer(request: Request) -> Response:
    """Remembers a language or a theme, and goes back."""
    answer = RedirectResponse(preferences.local(request.query_params.get("next")), 303)
    secure = request.app.state.access.secure
    for name, cookie, choices in (("lang", preferences.LANGUAGE, ("en", "zh")), ("theme", preferences.THEME, preferences.THEMES)):
        told = request.query_params.get(name, "")
        if told in choices:
            answer.set_cookie(cookie, told, max_age=preferences.YEAR, samesite="lax", secure=secure, httponly=True, path="/")
    return answer


def page(request: Request, target: str | None, problem: str = "", status: int = 200) -> HTMLResponse:
    """The form, with what was wrong with the last try."""
    wants = preferences.of(request)
    lang, target = wants.lang, preferences.local(target)
    question = urlencode({"lang": "en" if lang == "zh" else "zh", "next": f"{LOGIN}?{urlencode({'next': target})}"})
    other = tag("a", word("other_language", lang), href=f"/prefer?{question}")
    how = word("token_how", lang, command="ongpu watch token")
    loopback = request.app.state.access.loopback
    entry = {"id": "token", "name": "token", "type_": "password", "autocomplete": "current-password", "maxlength": 512}
    form = tag(
        "form", tag("label", word("token", lang), for_="token"), tag("input", **entry, required=True, autofocus=True),
        tag("input", type_="hidden", name="next", value=target), tag("button", word("log_in", lang), type_="submit"),
        method="post", action=LOGIN,
    )  # fmt: skip
    body = tag(
        "main", tag("h1", "ongpu"), tag("p", word("token_why", lang), class_="soft") if loopback else "",
        tag("div", tag("b", problem), class_="banner error", role="alert") if problem else "", form,
        tag("p", prose(how), class_="soft small"),
        tag("p", tag("a", word("back_to_pages", lang), href="/"), " · ", other) if loopback else tag("p", other), class_="login panel",
    )  # fmt: skip
    themed = {"dark": "body--dark", "light": "body--light"}.get(wants.theme, "")
    auto = "" if themed else AUTO
    return HTMLResponse(
        f'<!doctype html><html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{word("log_in", lang)} · ongpu</title><link rel="icon" href="data:,">'
        f'<style>{style()}</style></head><body class="{themed}">{auto}{body}</body></html>',
        status,
    )
