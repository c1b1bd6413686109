"""A real web server on loopback that keeps what it is sent: where notifications arrive in tests."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """What came: (time, path, JSON or None). status: what it answers; wait: seconds before it does."""

    def __init__(self) -> None:
        self.came: list[tuple[float, str, Any]] = []
        self.status, self.wait = 200, 0.0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                hook.came.append((time.time(), self.path, json.loads(body) if body else None))
                time.sleep(hook.wait)
                self.send_response(hook.status)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.port = self.server.server_address[1]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON bodies."""
        return [body for _, _, body in self.came if body]

    def until(self, what: Callable[[], bool], seconds: float = 15.0) -> None:
        """Waits for it."""
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, self.came
            time.sleep(0.02)


@contextmanager
def hook() -> Iterator[Hook]:
    """A server that runs inside."""
    found = Hook()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()
