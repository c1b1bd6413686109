"""One request over HTTP: whatever the other side does, it ends in time, and what went wrong is one word."""

import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.hosts import rest
from ongpu.hosts.rest import Door, Status, Unanswered
from ongpu.queue.engines import EngineError
from ongpu.queue.remote import Server, one_line, where


@contextmanager
def peer(act: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that takes connections and does with each what it is told; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    talk, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(talk,), daemon=True).start()

        def one(talk: socket.socket) -> None:
            with talk:
                try:
                    talk.recv(65536)
                    act(talk)
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def answer(text: bytes) -> Callable[[socket.socket], None]:
    return lambda talk: talk.sendall(text)


def drip(talk: socket.socket) -> None:
    """A byte every tenth of a second: no single wait is long."""
    talk.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        talk.sendall(b"x")
        time.sleep(0.1)


def drip_headers(talk: socket.socket) -> None:
    for sign in b"HTTP/1.1 200 OK\r\nX-A: " + b"y" * 1000:
        talk.sendall(bytes([sign]))
        time.sleep(0.1)


def kind(url: str, **more: object) -> str:
    with pytest.raises(Unanswered) as error:
        Door(url=url).ask("GET", "/x", limit=0.6, **more)  # type: ignore[arg-type]
    return error.value.kind


class TestLimits:
    @pytest.mark.parametrize("act", [lambda talk: time.sleep(5), drip, drip_headers], ids=["silent", "dripping", "dripping headers"])
    def test_none_takes_longer_than_its_limit(self, act: Callable[[socket.socket], None]) -> None:
        with peer(act) as url:
            started = time.monotonic()
            assert kind(url) == rest.LATE
            assert time.monotonic() - started < 3

    def test_a_tls_handshake_that_hangs(self) -> None:
        with peer(lambda talk: time.sleep(5)) as url:
            started = time.monotonic()
            assert kind(url.replace("http:", "https:")) == rest.LATE
            assert time.monotonic() - started < 3

    def test_an_answer_that_is_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest, "MOST", 1000)
        with peer(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001)) as url:
            assert kind(url) == rest.LARGE


class TestKinds:
    def test_each(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        assert kind(f"http://127.0.0.1:{port}") == rest.REFUSED
        assert kind("http://name.invalid") == rest.NAME
        for url in ("ftp://a", "a", "http://", "http://a:b", "http://[", "http://a:0"):
            assert kind(url) == rest.ADDRESS
        for text, word in (
            (b"", rest.CUT),
            (b"SSH-2.0-OpenSSH_9.2\r\n", rest.ODD),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", rest.CUT),
        ):
            with peer(answer(text)) as url:
                assert kind(url) == word, text
        with peer(answer(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as url:
            assert kind(url.replace("http:", "https:")) == rest.TRUST

    def test_a_header_that_cannot_be_sent_is_not_shown(self) -> None:
        with peer(answer(b"")) as url, pytest.raises(Unanswered) as error:
            Door(url=url, headers={"Authorization": "Bearer secret\r\nX: y"}).ask("GET", "/")
        assert error.value.kind == rest.ADDRESS
        assert "secret" not in str(error.value)

    @given(st.binary(max_size=200))
    def test_any_answer_ends_in_an_answer_or_a_word(self, text: bytes) -> None:
        with peer(answer(text)) as url:
            found = rest.CUT
            try:
                Door(url=url).ask("GET", "/", limit=2)
            except Unanswered as error:
                found = error.kind
        assert found in (rest.CUT, rest.ODD)


class TestWhatIsSent:
    def test_a_redirect_is_an_answer_and_the_token_goes_nowhere(self) -> None:
        reached: list[bytes] = []
        with (
            peer(lambda talk: reached.append(b"")) as other,
            peer(answer(f"HTTP/1.1 302 Found\r\nLocation: {other}/\r\n\r\n".encode())) as url,
        ):
            there = Door(url=url, headers={"Authorization": "Bearer secret"})
            assert there.ask("GET", "/").status == 302
            assert not reached
            assert "secret" not in repr(there)
            with pytest.raises(EngineError, match="sends us elsewhere"):
                Server("X", there, bytes.decode).ask("GET", "/")

    def test_through_a_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[bytes] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(self.path.encode())
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_CONNECT(self) -> None:
                seen.append(b"CONNECT " + self.path.encode())
                self.send_error(403)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.server_port}"
        try:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.delenv(name, raising=False)
            Door(url="http://cluster.invalid:1/base/", proxy=proxy).ask("GET", "/x?y")
            monkeypatch.setenv("http_proxy", proxy)
            monkeypatch.setenv("https_proxy", proxy)
            Door(url="http://cluster.invalid").ask("GET", "/z")
            with pytest.raises(Unanswered):
                Door(url="https://cluster.invalid").ask("GET", "/z")
            monkeypatch.setenv("no_proxy", "cluster.invalid")
            assert kind("http://cluster.invalid") == rest.NAME
        finally:
            server.shutdown()
            server.server_close()
        assert seen == [b"http://cluster.invalid:1/base/x?y", b"http://cluster.invalid/z", b"CONNECT cluster.invalid:443"]


class TestStream:
    def test_pieces_and_quiet_ones(self) -> None:
        def act(talk: socket.socket) -> None:
            talk.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            time.sleep(0.5)
            talk.sendall(b"3\r\ntwo\r\n0\r\n\r\n")

        with peer(act) as url:
            pieces = list(Door(url=url).stream("/", quiet=0.1))
        assert pieces[0] == b""
        assert b"".join(pieces) == b"onetwo"
        assert pieces.count(b"") >= 3

    def test_one_that_is_cut_gives_what_came(self) -> None:
        with peer(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")) as url:
            assert b"".join(Door(url=url).stream("/", quiet=0.1)) == b"half"

    def test_left_in_the_middle(self) -> None:
        def act(talk: socket.socket) -> None:
            talk.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                talk.sendall(b"x" * 65536)

        before = threading.active_count()
        with peer(act) as url:
            stream = Door(url=url).stream("/", quiet=0.1)
            next(stream)
            assert next(stream)
            stream.close()  # type: ignore[attr-defined]
            deadline = time.monotonic() + 3
            while threading.active_count() > before + 1 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert threading.active_count() <= before + 1

    def test_another_status(self) -> None:
        with peer(answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")) as url, pytest.raises(Status) as error:
            list(Door(url=url).stream("/"))
        assert error.value.answer.body == b"no"


class TestWords:
    def test_each_word_in_both_languages(self) -> None:
        server = Server("X", Door(url="http://user:secret@host:1/"), bytes.decode)
        for word in (rest.ADDRESS, rest.NAME, rest.REFUSED, rest.NO_WAY, rest.LATE, rest.TRUST, rest.CUT, rest.LARGE, rest.ODD):
            error = server.silent(Unanswered(word, "w"))
            assert error.code == 3
            assert "secret" not in error.english + error.chinese
            assert error.english != error.chinese

    def test_no_json(self) -> None:
        for body in (b"<html>", b"[" * 100_000):
            text = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            with peer(answer(text)) as url, pytest.raises(EngineError, match="is no JSON"):
                Server("X", Door(url=url), bytes.decode).ask("GET", "/")

    def test_pieces(self) -> None:
        assert one_line("a\n\tb\x1b[31m" + "c" * 500, 20) == "a b [31mccccccccccc…"
        assert where("https://user:secret@host:1/a/") == "https://host:1/a"
        assert where("http://[") == "?"
