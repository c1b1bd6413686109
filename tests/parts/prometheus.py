"""Debian's Prometheus and Alertmanager, run by tests on free loopback ports; see tools/install_debian_parts."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")


def need() -> None:
    """Skip where they are not installed."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (tools/install_debian_parts prometheus)")


def promtool(*arguments: str, inside: Path) -> tuple[int, str]:
    """Its exit status and what it printed."""
    done = subprocess.run(["promtool", *arguments], cwd=inside, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], Any], seconds: float, every: float = 0.05) -> Any:
    """What `true` gives as soon as it is something; fails after so many seconds."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"not so after {seconds} s: {true}")
        time.sleep(every)
    return found


def get(url: str) -> Any:
    """A JSON answer; None while there is none."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


class Program:
    """One of them, running. log: where what it prints goes."""

    def __init__(self, arguments: list[str], port: int, log: Path) -> None:
        self.url, self._log = f"http://127.0.0.1:{port}", log
        with log.open("wb") as out:
            self._process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        def ready() -> bool:
            assert self._process.poll() is None, self._log.read_text()
            try:
                return bool(urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).status == 200)
            except OSError:
                return False

        until(ready, 30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Prometheus(Program):
    """It, with a configuration (YAML)."""

    def __init__(self, folder: Path, configuration: str) -> None:
        port = free_port()
        config = folder / "prometheus.yml"
        config.write_text(configuration)
        arguments = ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"]
        arguments += [f"--storage.tsdb.path={folder / 'data'}", "--storage.tsdb.retention.time=1d"]
        super().__init__(arguments, port, folder / "prometheus.log")

    def query(self, expression: str) -> list[Any]:
        """The result of an instant query."""
        answer = get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        assert answer, f"an error: {expression}"
        return list(answer["data"]["result"])


class Alertmanager(Program):
    """It, with a configuration (YAML)."""

    def __init__(self, folder: Path, configuration: str) -> None:
        self.port = free_port()
        config = folder / "alertmanager.yml"
        config.write_text(configuration)
        arguments = ["prometheus-alertmanager", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{self.port}"]
        arguments += ["--cluster.listen-address=", f"--storage.path={folder / 'alertmanager'}"]
        super().__init__(arguments, self.port, folder / "alertmanager.log")


class Hook:
    """A webhook: what came, and when (time.monotonic)."""

    def __init__(self) -> None:
        self.got: list[tuple[float, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.got += [(time.monotonic(), alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def heard(self, slug: str, status: str = "firing", **labels: str) -> tuple[float, dict[str, Any]] | None:
        """The first alert of that slug and status with these labels, and when it came."""
        wanted = {"slug": slug, **labels}.items()
        return next((one for one in self.got if wanted <= one[1]["labels"].items() and one[1]["status"] == status), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
