"""The endpoint that Prometheus scrapes, and how it behaves under clients that mean no good."""

import gzip
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts.watched import ROW, after, machine, many, series, told

from ongpu.hosts.sampling import demo
from ongpu.watch import metrics, scrape
from ongpu.watch.scrape import OPENMETRICS, TEXT, Page, Server
from ongpu.watch.state import State


def test_a_loop_that_stands_still_is_not_told_as_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Page()
    made.put(machine())
    assert told(series(made.text()), "ongpu_up") == 1
    later = time.monotonic() + scrape.PATIENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    found = series(made.text())
    assert made.text() is made.text()  # rendered once all the same
    assert told(found, "ongpu_up") == 0
    assert told(found, "ongpu_down_info", reason=scrape.STANDS_STILL) == 1
    assert "ongpu_gpu_temperature_celsius" not in found
    made.put(machine())
    assert told(series(made.text()), "ongpu_up") == 1


@pytest.fixture
def server() -> Iterator[Server]:
    made = Page()
    made.put(machine())
    running = Server(made).start()
    yield running
    running.close()


def ask(server: Server, method: str = "GET", path: str = "/metrics", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_it_listens_on_loopback_only_unless_told(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_formats_and_compression_are_negotiated(server: Server) -> None:
    status, headers, plain = ask(server)
    assert (status, headers["content-type"]) == (200, TEXT)
    assert told(series(plain), "ongpu_up") == 1
    _, headers, zipped = ask(server, **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped) == plain
    _, headers, body = ask(server, **{"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in headers
    assert body == plain
    _, headers, body = ask(server, Accept="application/openmetrics-text;version=1.0.0")
    assert headers["content-type"] == OPENMETRICS
    assert body.endswith(b"# EOF\n")
    both = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"  # as Prometheus asks
    assert ask(server, Accept=both)[1]["content-type"] == TEXT


def test_head_wrong_paths_and_methods(server: Server) -> None:
    status, headers, body = ask(server, "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) == len(ask(server)[2])
    assert ask(server, path="/metrics?name[]=x")[0] == 200
    assert ask(server, path="/")[0] == 200
    assert ask(server, path="/../etc/passwd")[0] == 404
    assert ask(server, path="/metrics/..")[0] == 404
    assert ask(server, "POST")[0] == 501
    assert "ongpu" in headers["server"]
    assert "Python" not in headers["server"]


def test_a_token_is_asked_for_where_one_is_set() -> None:
    made = Server(Page(), token="schön").start()
    try:
        assert ask(made)[0] == 401
        assert ask(made, Authorization="Bearer wrong")[0] == 401
        status, headers, _ = ask(made, "HEAD")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
        connection.putrequest("GET", "/metrics")
        connection.putheader("Authorization", "Bearer schön".encode())
        connection.endheaders()
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        made.close()


def test_requests_that_are_too_long_are_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(17)) + b"X: y\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 431")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(b"GET /" + b"a" * 16384)
        assert client.recv(100).startswith(b"HTTP/1.0 414")
    assert ask(server)[0] == 200


@pytest.fixture(scope="module")
def standing() -> Iterator[Server]:
    running = Server(Page()).start()
    yield running
    running.close()


@settings(deadline=None)
@given(raw=st.binary(max_size=200) | st.binary(max_size=50).map(lambda more: b"GET /metrics HTTP/1.1\r\n" + more))
def test_any_bytes_are_answered_or_dropped(standing: Server, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", standing.port), timeout=10) as client:
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert ask(standing, "HEAD")[0] == 200


def test_slow_clients_are_cut_off_and_never_keep_others_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send a byte now and then: twice as many as are let in at once."""
    monkeypatch.setattr(scrape, "LONGEST", 1.0)
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(2 * scrape.MOST_CLIENTS)]
    began, stop = time.monotonic(), threading.Event()

    def trickle() -> None:
        while not stop.wait(0.1):
            for client in slow:
                with suppress(OSError):
                    client.send(b"G")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        assert ask(server)[0] == 200
        assert time.monotonic() - began < 4.0
        for client in slow:
            with suppress(ConnectionResetError):
                while client.recv(4096):  # the end comes, else this would time out
                    pass
        assert time.monotonic() - began < 8.0
    finally:
        stop.set()
        thread.join()
        for client in slow:
            client.close()
    assert not server._clients
    assert ask(server)[0] == 200


def test_a_client_that_does_not_read_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "LONGEST", 0.5)
    server.page._most = 20_000
    server.page.put(many(1000))
    server.page.text()  # rendered now: the server's thread only sends
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of its connections too: else the kernel takes it all
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    client.connect(("127.0.0.1", server.port))
    client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    for there in (True, False):  # it comes, and is cut off; a loaded machine: it is over as soon as it happens
        end = time.monotonic() + 30
        while bool(server._clients) != there and time.monotonic() < end:
            time.sleep(0.02)
        assert bool(server._clients) == there
    client.close()


def test_all_who_ask_at_once_get_the_same_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    real = scrape.as_text
    monkeypatch.setattr(scrape, "as_text", lambda found: counted.append(1) or real(found))
    made = Page()
    made.put(machine())
    running = Server(made).start()
    try:
        threads = [threading.Thread(target=ask, args=(running,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        running.close()
    assert len(counted) == 1


def test_a_view_does_not_change_when_the_state_does() -> None:
    state = after({"k": "xid", "t": 2.0, "i": 1, "code": 79})
    seen = metrics.view(state)
    before = [str(family) for family in metrics.families(seen)]
    state.take({"k": "xid", "t": 3.0, "i": 1, "code": 79}, 3.0)
    state.take({"k": "s", "t": 3.0, "n": 5, "g": [15, list(ROW)]}, 3.0)
    state.take({"k": "bye", "t": 3.0, "code": 9, "error": "Driver Not Loaded"}, 3.0)
    assert [str(family) for family in metrics.families(seen)] == before


def test_the_loop_does_not_wait_for_a_page_that_is_being_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = scrape.as_text

    def slowly(found: metrics.Collected) -> bytes:
        begun.set()
        assert go_on.wait(10)
        return real(found)

    monkeypatch.setattr(scrape, "as_text", slowly)
    made = Page()
    made.put(machine())
    running = Server(made).start()
    client = threading.Thread(target=ask, args=(running,))
    client.start()
    try:
        assert begun.wait(10)
        made.put(after({"k": "s", "t": 2.0, "n": 1, "g": [15, 15]}))  # would wait for ever
    finally:
        go_on.set()
        client.join()
    found = series(ask(running)[2])  # what was put meanwhile is not lost
    running.close()
    assert told(found, "ongpu_gpu_state", gpu="0", state="lost") == 1


@pytest.mark.slow
def test_a_hundred_scrapes_a_second_keep_no_sample_waiting() -> None:
    """Ten seconds, 64 GPUs at a sample a second. A minute of the whole agent: benchmarks/watch/metrics.py."""
    state = State()
    messages = list(demo.messages(seconds=3, gpus=64, processes=200))
    made = Page()
    running = Server(made).start()
    scraped: list[int] = []
    stop = time.monotonic() + 10.0

    def client() -> None:
        due = time.monotonic()
        while due < stop:
            scraped.append(ask(running, **{"Accept-Encoding": "gzip"})[0])
            due += 0.04
            time.sleep(max(0.0, due - time.monotonic()))

    threads = [threading.Thread(target=client) for _ in range(4)]
    for message in messages:
        state.take(message, message.get("t", 0.0))
    sample = next(message for message in reversed(messages) if message["k"] == "s")
    for thread in threads:
        thread.start()
    late, due, number = 0, time.monotonic(), 0
    while time.monotonic() < stop:
        state.take({**sample, "n": number}, float(number))
        made.put(state)
        number += 1
        due += 1.0
        late += time.monotonic() > due
        time.sleep(max(0.0, due - time.monotonic()))
    for thread in threads:
        thread.join()
    running.close()
    assert (late, set(scraped)) == (0, {200})
    assert len(scraped) >= 500
