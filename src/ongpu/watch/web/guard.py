"""Who may ask, and from where: stands before every request, the WebSocket of the pages included.

- On loopback everybody on this machine may read; the Host must be loopback too, or any web page could read by way of a name
  that it makes point here (DNS rebinding). On any other address every request needs the token.
- What changes something needs the token everywhere, and must not come from another site's page.
"""

import ipaddress
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote, urlsplit

from ongpu.watch.web.tokens import Failures, TokenFile, same, valid

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "ongpu_session"
LOGIN = "/login"
ALLOWED = "ongpu.allowed"  # in the scope: whether the token was shown
READING = ("GET", "HEAD", "OPTIONS")
BODY = 64 * 1024  # bytes of a request's body
# Vue compiles its templates in the browser, and NiceGUI starts by inline scripts: hence the two "unsafe". All else is this host's.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY), ("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"), ("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)  # fmt: skip


@dataclass
class Access:
    """How this server is reached. loopback: it listens on loopback only; secure: by TLS."""

    tokens: TokenFile
    loopback: bool = True
    secure: bool = False
    failures: Failures = field(default_factory=Failures)

    def try_token(self, given: str, address: str) -> float | None:
        """None: it is the token; 0: it is not; more: so many seconds that the address has to wait, whatever it gave."""
        now = time.monotonic()
        if wait := self.failures.wait(address, now):
            return wait
        if same(given, self.tokens.token()):
            return None
        self.failures.add(address, now)
        return 0.0


@dataclass(frozen=True)
class Refusal:
    """An answer instead of the one that was asked for."""

    status: int
    why: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Guard:
    """The middleware."""

    app: App
    access: Access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        socket = scope["type"] == "websocket"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refuse(scope, headers, socket)
        if socket:
            if refusal:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self.app(scope, receive, send)
            return
        sending = _with_headers(send, scope["path"])
        if refusal:
            await _answer(refusal, scope["path"], headers, sending)
        else:
            await self.app(scope, receive, sending)

    def _refuse(self, scope: Scope, headers: dict[str, str], socket: bool) -> Refusal | None:
        path, method = scope["path"], scope.get("method", "GET")
        host = headers.get("host", "")
        if self.access.loopback and not is_loopback(hostname(host)):
            return Refusal(421, "this server answers to localhost, 127.0.0.1 and [::1] only")
        frames = path.startswith("/_nicegui_ws/")  # the pages' own connection, by WebSocket or by polling
        changes = method not in READING and not frames
        if (socket or frames or changes) and not same_site(headers, host):
            return Refusal(403, "the request comes from another site")
        try:
            if int(headers.get("content-length", 0)) > BODY and not frames:
                return Refusal(413, f"more than {BODY} bytes")
        except ValueError:
            return Refusal(400, "content-length is no number")
        if changes and "transfer-encoding" in headers:
            return Refusal(411, "content-length is missing")
        scope[ALLOWED] = False
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            wait = self.access.try_token(given.strip(), address(scope))
            if wait:
                return Refusal(429, "too many wrong tokens", (("retry-after", str(int(wait) + 1)),))
            if wait is not None:
                return Refusal(401, "not the token", (("www-authenticate", "Bearer"),))
            scope[ALLOWED] = True
        elif valid(cookie(headers.get("cookie", ""), COOKIE), self.access.tokens.token(), time.time()):
            scope[ALLOWED] = True
            if changes and "origin" not in headers and headers.get("sec-fetch-site") != "same-origin":
                return Refusal(403, "it is not told which page the request comes from")
        if not scope[ALLOWED] and path != LOGIN and (changes or not self.access.loopback):
            return Refusal(401, "the token is needed: `ongpu watch token` prints it", (("www-authenticate", "Bearer"),))
        return None


def hostname(host: str) -> str:
    """The name in a Host header, without port and brackets, in lower case; "" where it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Whether a name or address is this machine's own: localhost, 127.0.0.1 and its net, ::1."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def same_site(headers: dict[str, str], host: str) -> bool:
    """Whether a request comes from a page of this server, or from no page at all."""
    if "origin" in headers:
        try:
            told = urlsplit(headers["origin"]).netloc.lower()
        except ValueError:
            return False
        return bool(told) and told == host.lower()
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def cookie(header: str, name: str) -> str:
    """A cookie's value; "" where it is not sent."""
    try:
        told = SimpleCookie(header[:4096])
    except CookieError:
        return ""
    return told[name].value if name in told else ""


def address(scope: Scope) -> str:
    """Who asks; of IPv6 the network of 64 bits, of which one person has all addresses."""
    name = (scope.get("client") or ("",))[0]
    try:
        told = ipaddress.ip_address(name)
    except ValueError:
        return str(name)
    return str(ipaddress.ip_network((told, 64), strict=False)) if told.version == 6 else str(told)


def _with_headers(send: Send, path: str) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            told = {name.lower() for name, _ in message.get("headers", ())}
            more = [(name.encode(), value.encode()) for name, value in HEADERS if name.encode() not in told]
            if not path.startswith("/_nicegui/") and b"cache-control" not in told:
                more.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sending


async def _answer(refusal: Refusal, path: str, headers: dict[str, str], send: Send) -> None:
    status, more, kind = refusal.status, refusal.headers, "text/plain; charset=utf-8"
    body = refusal.why
    if path.startswith("/api/"):
        body, kind = json.dumps({"detail": refusal.why}), "application/json"
    elif status == 401 and "text/html" in headers.get("accept", ""):
        status, more = 303, (("location", f"{LOGIN}?next={quote(path, safe='/')}"),)
    told = [("content-type", kind), ("content-length", str(len(body.encode()))), *more]
    await send({"type": "http.response.start", "status": status, "headers": [(k.encode(), v.encode()) for k, v in told]})
    await send({"type": "http.response.body", "body": body.encode()})
