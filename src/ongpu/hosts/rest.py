"""A server asked over HTTP: one request at a time, limited in time and size, and never redirected, so that a token goes nowhere else."""

import contextlib
import http.client
import os
import queue
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, quote, urlsplit

from ongpu.lazy import dataclass, field

MOST = 64 << 20  # bytes of one answer
CHUNK = 1 << 16
# Why there is no answer: the address is wrong, its name is not known, nobody listens, no way there, too late, not to be trusted, cut off,
# more than we take, or not HTTP at all.
ADDRESS, NAME, REFUSED, NO_WAY, LATE = "address", "name", "refused", "no-way", "late"
TRUST, CUT, LARGE, ODD = "trust", "cut", "large", "odd"


class Unanswered(OSError):
    """No answer: `kind` says why in one of the words above, `words` in the machine's own."""

    def __init__(self, kind: str, words: str = "") -> None:
        super().__init__(f"{kind}: {words}" if words else kind)
        self.kind, self.words = kind, words


@dataclass(frozen=True, slots=True)
class Answer:
    """status: 200, 404, ...; any is an answer. body: as it came."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A server: its address, what is sent with each request, how it is trusted. Shows no header in its repr: they hold tokens."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: ssl.SSLContext | None = None  # None: the system's certificates
    server_name: str = ""  # that its certificate is made out to, where it is another than the address's
    proxy: str = ""  # "": as the environment says (https_proxy, http_proxy, no_proxy)

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", limit: float = 10.0) -> Answer:
        """The answer, within `limit` seconds in all. path: with its leading slash and query. Raises Unanswered."""
        with _Talk(self, limit) as talk:
            response = talk.send(method, path, body, kind)
            text = talk.read(response)
            return Answer(response.status, text, dict(response.headers.items()))

    def stream(self, path: str, quiet: float = 1.0, limit: float = 10.0) -> Iterator[bytes]:
        """What a GET brings, piece by piece, however long it takes; b"" where nothing came for `quiet` seconds.

        The first piece: b"" as soon as there is an answer, within `limit` seconds. Raises Unanswered, and Status for one that is not 200.
        """
        with _Talk(self, limit) as talk:
            response = talk.send("GET", path, None, "")
            if response.status != 200:
                raise Status(Answer(response.status, talk.read(response), dict(response.headers.items())))
            talk.patient()
            yield b""
            yield from _pieces(response, quiet)


class Status(Exception):
    """An answer that is not what a stream may be read from."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


def segment(text: str) -> str:
    """One part of a path, whatever it holds."""
    return quote(text, safe="")


class _Talk:
    """One connection. What takes longer than its limit is cut off by a timer, however slowly the other side drips."""

    def __init__(self, door: Door, limit: float) -> None:
        self._door, self._limit, self._late = door, limit, False
        self._connection: http.client.HTTPConnection | None = None
        self._timer = threading.Timer(limit, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> "_Talk":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        self._shut()
        if self._connection:
            self._connection.close()

    def patient(self) -> None:
        """No limit from here on."""
        self._timer.cancel()
        if self._connection and self._connection.sock:
            self._connection.sock.settimeout(None)

    def send(self, method: str, path: str, body: bytes | None, kind: str) -> http.client.HTTPResponse:
        headers = {"User-Agent": "ongpu", "Accept": "application/json, */*", **self._door.headers}
        if body is not None:
            headers["Content-Type"] = kind
        try:
            self._connection, target = _connection(self._door, path, self._limit)
            self._connection.request(method, target, body, headers)
            return self._connection.getresponse()
        except Exception as error:
            raise self._why(error) from None

    def read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            text = response.read(MOST + 1)
        except Exception as error:
            raise self._why(error) from None
        if self._late:
            raise Unanswered(LATE, f"{self._limit:g} s")
        if len(text) > MOST:
            raise Unanswered(LARGE, f"{MOST >> 20} MiB")
        if response.length:  # a read of at most so many bytes does not tell that there were fewer
            raise Unanswered(CUT, "IncompleteRead")
        return text

    def _cut(self) -> None:
        self._late = True
        self._shut()

    def _shut(self) -> None:
        sock = self._connection.sock if self._connection else None
        if sock:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _why(self, error: Exception) -> Unanswered:
        if isinstance(error, Unanswered):
            return error
        if self._late or isinstance(error, TimeoutError):
            return Unanswered(LATE, f"{self._limit:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return Unanswered(TRUST, error.verify_message)
        if isinstance(error, ssl.SSLError):
            return Unanswered(TRUST, error.reason or str(error))
        if isinstance(error, socket.gaierror):
            return Unanswered(NAME, error.strerror or "")
        if isinstance(error, ConnectionRefusedError):
            return Unanswered(REFUSED)
        if isinstance(error, (ConnectionError, http.client.IncompleteRead, http.client.RemoteDisconnected)):
            return Unanswered(CUT, type(error).__name__)
        if isinstance(error, OSError):
            return Unanswered(NO_WAY, error.strerror or str(error)[:100] or type(error).__name__)
        if isinstance(error, http.client.HTTPException):
            return Unanswered(ODD, type(error).__name__)
        if isinstance(error, (ValueError, UnicodeError)):  # a header or path that cannot be sent
            return Unanswered(ADDRESS, type(error).__name__)  # not its words: they may hold the token
        raise error


def _connection(door: Door, path: str, limit: float) -> tuple[http.client.HTTPConnection, str]:
    """A connection that is not open yet, and what to ask it for."""
    where = _split(door.url)
    target = where.path.rstrip("/") + path
    secure = where.scheme == "https"
    port = where.port or (443 if secure else 80)
    host = str(where.hostname)
    proxy = door.proxy or _proxy(where.scheme, host)
    through = _split(proxy) if proxy else None
    near, near_port = (str(through.hostname), through.port or (443 if through.scheme == "https" else 80)) if through else (host, port)
    if through and through.scheme != "http":
        raise Unanswered(ADDRESS, f"proxy {through.scheme}")
    if secure:
        context = door.trust or ssl.create_default_context()
        found: http.client.HTTPConnection = _Named(near, near_port, timeout=limit, context=context, server_name=door.server_name or host)
        if through:
            found.set_tunnel(host, port)
        return found, target
    if through:
        return http.client.HTTPConnection(near, near_port, timeout=limit), f"http://{where.netloc.rpartition('@')[2]}{target}"
    return http.client.HTTPConnection(near, near_port, timeout=limit), target


class _Named(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may be made out to another name."""

    def __init__(self, host: str, port: int, *, timeout: float, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._trust, self._server_name = context, server_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = ready = self._trust.wrap_socket(self.sock, server_hostname=self._server_name, do_handshake_on_connect=False)
        ready.do_handshake()  # once the timer can reach it


def _split(url: str) -> SplitResult:
    try:
        where = urlsplit(url)
        if where.scheme in ("http", "https") and where.hostname and (where.port is None or where.port):
            return where
    except ValueError:
        pass
    raise Unanswered(ADDRESS)


def _proxy(scheme: str, host: str) -> str:
    """What the environment says. urllib.request is loaded only where it says something: it takes longer than the whole request."""
    if not any(name.lower() in (f"{scheme}_proxy", "all_proxy") for name in os.environ) or host == "localhost" or host.startswith("127."):
        return ""
    from urllib.request import getproxies, proxy_bypass

    told = getproxies()
    return "" if proxy_bypass(host) else told.get(scheme) or told.get("all") or ""


def _pieces(response: http.client.HTTPResponse, quiet: float) -> Iterator[bytes]:
    """A thread reads, for a socket that timed out once cannot be read from again; it ends with its connection, or when nobody listens."""
    came: queue.Queue[bytes | None] = queue.Queue(maxsize=16)
    left = threading.Event()

    def give(piece: bytes | None) -> bool:
        while not left.is_set():
            with contextlib.suppress(queue.Full):
                came.put(piece, timeout=0.2)
                return True
        return False

    def reading() -> None:
        # cut off: what came before is what there is
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while (piece := response.read1(CHUNK)) and give(piece):
                pass
        give(None)

    threading.Thread(target=reading, daemon=True).start()
    try:
        while True:
            try:
                piece = came.get(timeout=quiet)
            except queue.Empty:
                piece = b""
            if piece is None:
                return
            yield piece
    finally:
        left.set()
