"""The endpoint that Prometheus scrapes: a page that is rendered at most once a sample, and a small server that hands it out.

The agent's loop only puts a view of its state down; rendering and serving happen in the threads of the server, whatever a client
does: requests are short, clients that are slow are cut off, and when too many are there the one that came first has to go.
"""

import gzip
import hmac
import socket
import socketserver
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import Any, cast

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT
from prometheus_client.exposition import generate_latest as as_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics

from ongpu.watch import dcgm_names, metrics
from ongpu.watch.metrics import NOTHING, Said, View
from ongpu.watch.state import UNKNOWN, State

PATH = "/metrics"
STANDS_STILL = "the agent stands still"  # why ongpu_up is 0 when nothing was put down for so long:
PATIENCE = 30.0  # seconds
LONGEST = 5.0  # seconds from a client's coming to its going
LOOK = 0.25  # seconds between two looks at who is late
MOST_CLIENTS = 32  # at the same time
MOST_HEADER = 16384  # bytes of a request
_TOO_LONG = b"x" * 65537  # a line that http.server refuses, by 414 or 431


class Page:
    """The text of the newest view, rendered when somebody asks, once for all who ask.

    most: processes, and jobs, with series of their own. host: this machine's name, for the series under dcgm-exporter's names;
    None: without these.
    """

    def __init__(self, most: int = 100, host: str | None = None) -> None:
        self._most, self._host = most, host
        self._lock = threading.Lock()
        self._made: dict[tuple[str, bool], bytes] = {}
        self._seen, self._at = View(State()), time.monotonic()
        self._of: View | None = None
        self._old: tuple[View, View] | None = None

    def put(self, state: State, said: Said = NOTHING) -> None:
        """The agent's loop says what is so. To be called every few seconds, if nothing changed too: silence is told as such."""
        self._seen, self._at = metrics.view(state, said), time.monotonic()

    def text(self, kind: str = TEXT, *, zipped: bool = False) -> bytes:
        """The page. kind: its content type, TEXT or OPENMETRICS."""
        with self._lock:
            seen = self._seen
            if time.monotonic() - self._at > PATIENCE:
                if self._old is None or self._old[0] is not seen:
                    self._old = seen, _stale(seen)
                seen = self._old[1]
            if seen is not self._of:
                self._made, self._of = {}, seen
            if (kind, zipped) not in self._made:
                if zipped:
                    self._made[kind, True] = gzip.compress(self._plain(kind, seen), 1)
                else:
                    self._plain(kind, seen)
            return self._made[kind, zipped]

    def _plain(self, kind: str, seen: View) -> bytes:
        if (kind, False) not in self._made:
            families = metrics.families(seen, self._most)
            if self._host is not None:
                families += dcgm_names.families(seen, self._host)
            render: Any = as_openmetrics if kind == OPENMETRICS else as_text
            self._made[kind, False] = render(metrics.Collected(families))
        return self._made[kind, False]


def _stale(seen: View) -> View:
    """What is left of a view that is too old: who the GPUs are, and that nothing is known of them."""
    old = metrics.view(seen.state, seen.said)
    old.state.up, old.state.reason, old.state.code = False, STANDS_STILL, None
    for gpu in old.state.gpus.values():
        gpu.set(UNKNOWN, None, time.time())
    return old


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Hands the page out on one address. token: what clients must send as "Authorization: Bearer TOKEN"; None: nothing.

    Raises OSError where the address cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, page: Page, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.page, self.token = page, token
        self._clients: dict[Any, float] = {}  # socket -> when it came; in order
        self._clients_lock = threading.Lock()
        super().__init__((host, port), Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(LOOK,), name="metrics", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    def start(self) -> "Server":
        """Serves in a thread of its own, until `close`."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends serving, and cuts off who is still there."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()
        for client in list(self._clients):
            _cut(client)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A client came: where too many are there, the first goes."""
        with self._clients_lock:
            self._clients[request] = time.monotonic()
            first = next(iter(self._clients)) if len(self._clients) > MOST_CLIENTS else None
            if first is not None:
                del self._clients[first]
                _cut(first)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A client goes."""
        with self._clients_lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Some times a second: who is here for too long goes, however busily it sends byte after byte."""
        before = time.monotonic() - LONGEST
        with self._clients_lock:
            late = [client for client, came in self._clients.items() if came < before]
            for client in late:
                del self._clients[client]
                _cut(client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that broke off is no news."""


def _cut(client: Any) -> None:
    with suppress(OSError):  # gone already
        client.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it, which then closes it


class _Short:
    """The bytes of one request, up to MOST_HEADER; what is longer reads as one line that is refused."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream, self._left = stream, MOST_HEADER

    def readline(self, size: int) -> bytes:
        """The next line."""
        line = self._stream.readline(min(size, self._left + 1))
        self._left -= len(line)
        return line if self._left >= 0 else _TOO_LONG

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


class Handler(BaseHTTPRequestHandler):
    """One request: GET or HEAD of the page."""

    timeout = LONGEST
    server_version, sys_version = "ongpu", ""

    def setup(self) -> None:
        """The connection, with a limit to what is read of it."""
        super().setup()
        self.rfile = cast(Any, _Short(self.rfile))

    def do_GET(self) -> None:
        """The page, zipped and in the format that the client wants."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """The same without the page."""
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        server = cast(Server, self.server)
        path = self.path.partition("?")[0]
        if path == "/":
            self._send(b"ongpu: " + PATH.encode() + b"\n", {"Content-Type": "text/plain; charset=utf-8"}, body)
        elif path != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif not self._allowed(server.token):
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self._send(b"a token is needed: Authorization: Bearer TOKEN\n", {"WWW-Authenticate": "Bearer"}, body, first=False)
        else:
            zipped = _takes(self.headers.get("Accept-Encoding", ""), "gzip")
            # Prometheus takes both, and the older text is made in half the time.
            accept = self.headers.get("Accept", "")
            kind = OPENMETRICS if _takes(accept, "application/openmetrics-text") and not _takes(accept, "text/plain") else TEXT
            headers = {"Content-Type": kind, "Vary": "Accept, Accept-Encoding", "Cache-Control": "no-store"}
            self._send(server.page.text(kind, zipped=zipped), headers | ({"Content-Encoding": "gzip"} if zipped else {}), body)

    def _allowed(self, token: str | None) -> bool:
        told = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        return token is None or hmac.compare_digest(told.encode("latin-1"), token.encode())  # as http.server decodes

    def _send(self, text: bytes, headers: dict[str, str], body: bool, first: bool = True) -> None:
        if first:
            self.send_response(HTTPStatus.OK)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if body:
            self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape a second is no news."""


def _takes(header: str, what: str) -> bool:
    """Whether a client accepts it, by an Accept or Accept-Encoding header: named, and not with q=0."""
    for item in header.lower().split(",")[:50]:
        name, *options = (part.strip() for part in item.split(";"))
        if name == what:
            return not any(option.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for option in options)
    return False
