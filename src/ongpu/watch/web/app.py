"""The application: the API, the login, the assets and the pages, behind the guard."""

import os
import warnings
from importlib.resources import files

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from starlette.routing import Match

import ongpu
from ongpu.queue.engines import EngineError
from ongpu.store import StoreError
from ongpu.watch.web import api, login
from ongpu.watch.web.guard import Access, Guard, Receive, Scope, Send
from ongpu.watch.web.queue import api as queue_api
from ongpu.watch.web.queue.reading import Queue
from ongpu.watch.web.reading import Reader

ASSETS = {"ongpu.css": "text/css; charset=utf-8", "ongpu.js": "text/javascript; charset=utf-8"}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
LONG = "public, max-age=31536000, immutable"


def build(reader: Reader, access: Access, prometheus: str | None = None, *, queue: Queue | None = None, pages: bool = True) -> Guard:
    """The ASGI application. pages False: without the dashboard, for tests of the API that need no NiceGUI.

    prometheus: the address that the page of the fleet asks. queue: whose jobs are shown; None: nobody's.
    """
    app = FastAPI(
        title="ongpu watch", version=ongpu.__version__, openapi_url="/api/v1/openapi.json", docs_url=None, redoc_url=None,
        description="What `ongpu watch` knows of this machine's GPUs. Reading on loopback needs no token; all else does (Bearer).",
    )  # fmt: skip
    app.state.reader, app.state.access, app.state.prometheus = reader, access, prometheus
    app.state.queue = queue or Queue()
    app.add_exception_handler(StoreError, api.no_store)
    app.add_exception_handler(EngineError, queue_api.refused)
    app.include_router(api.router)
    app.include_router(queue_api.router)
    app.include_router(login.router)

    @app.get("/assets/{name}", include_in_schema=False)
    def asset(name: str) -> Response:
        if name not in ASSETS:
            raise HTTPException(404)
        text = (files("ongpu.watch.web") / "assets" / name).read_bytes()
        return Response(text, media_type=ASSETS[name], headers={"cache-control": LONG})

    @app.api_route("/api/{rest:path}", methods=METHODS, include_in_schema=False)
    def nothing(request: Request, rest: str) -> Response:
        """What is not there, told as JSON; the dashboard below would answer with a page."""
        routes = [route for route in (*api.router.routes, *queue_api.router.routes) if route.matches(request.scope)[0] is Match.PARTIAL]
        allowed = {method for route in routes for method in getattr(route, "methods", ())}
        if allowed:
            return JSONResponse({"detail": "Method Not Allowed"}, 405, {"allow": ", ".join(sorted(allowed))})
        return JSONResponse({"detail": "Not Found"}, 404)

    if pages:
        _add_pages(app)

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        scope["ongpu.app"] = app
        await app(scope, receive, send)

    return Guard(served, access)


def _add_pages(app: FastAPI) -> None:
    """NiceGUI below the application, with our pages. It has one set of pages in a process, so these ask the request for the store."""
    os.environ.setdefault("NICEGUI_STORAGE_PATH", os.devnull + "/ongpu")  # it is to leave no files where we were started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what NiceGUI imports
        from nicegui import ui

        from ongpu.watch.web import screens as screens  # registers the pages
        from ongpu.watch.web.queue import screens as queue_screens  # noqa: F401

    ui.run_with(
        app, title="ongpu", tailwind=False, binding_refresh_interval=None, show_welcome_message=False, dark=None,
        reconnect_timeout=10.0, message_history_length=200, favicon="🟩",
    )  # fmt: skip
