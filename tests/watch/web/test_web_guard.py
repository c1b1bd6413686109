"""Who may ask what, and from where."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from ongpu.watch.web import guard
from ongpu.watch.web.tokens import TRIES, create

SILENCE = {"slug": "gpu-held-idle", "seconds": 60}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("host", ["localhost", "localhost:19480", "127.0.0.1:1", "127.0.0.2", "[::1]:19480", "LOCALHOST"])
def test_loopback_answers_to_its_own_names(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "192.168.1.4", "::1:80"])
def test_loopback_answers_to_no_other_name(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/health", headers={"host": host}).status_code == 421


def test_reading_is_open_on_loopback_and_nowhere_else(client: TestClient, stranger: TestClient, token: str) -> None:
    assert client.get("/api/v1/state").status_code == 200
    for path in ("/api/v1/state", "/api/v1/openapi.json", "/assets/ongpu.css", "/prefer?lang=zh", "/api/v1/work.csv", "/nothing"):
        refused = stranger.get(path)
        assert refused.status_code == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
    assert stranger.get("/api/v1/state", headers=bearer(token)).status_code == 200


def test_a_browser_is_sent_to_the_login(stranger: TestClient) -> None:
    sent = stranger.get("/history", headers={"accept": "text/html"})
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=/history")
    assert stranger.get("/login").status_code == 200


def test_what_changes_something_needs_the_token_on_loopback_too(client: TestClient, token: str) -> None:
    assert client.post("/api/v1/silences", json=SILENCE).status_code == 401
    assert client.delete("/api/v1/silences/1").status_code == 401
    assert client.post("/api/v1/incidents/1/acknowledge").status_code == 401
    assert client.post("/api/v1/silences", json=SILENCE, headers=bearer("x" * 43)).status_code == 401
    assert client.post("/api/v1/silences", json=SILENCE, headers=bearer(token)).status_code == 201


def log_in(client: TestClient, token: str, **more: str) -> str:
    answer = client.post("/login", data={"token": token, **more})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def test_a_session_may_read_and_write_from_its_own_pages_only(stranger: TestClient, token: str) -> None:
    assert log_in(stranger, token, next="/work?by=job") == "/work?by=job"
    assert stranger.get("/api/v1/state").status_code == 200
    own = {"origin": "http://gpu7.example:19480"}
    assert stranger.post("/api/v1/silences", json=SILENCE, headers=own).status_code == 201
    assert stranger.post("/api/v1/silences", json=SILENCE).status_code == 403
    for origin in ("http://evil.example", "http://gpu7.example", "null", "http://gpu7.example:19480.evil.example", "http://[", ""):
        assert stranger.post("/api/v1/silences", json=SILENCE, headers={"origin": origin}).status_code == 403, origin
    assert stranger.post("/api/v1/silences", json=SILENCE, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert stranger.post("/logout", headers=own).status_code == 303
    assert stranger.get("/api/v1/state").status_code == 401


def test_the_cookie_is_strict(client: TestClient, token: str) -> None:
    told = client.post("/login", data={"token": token}).headers["set-cookie"].lower()
    assert "httponly" in told
    assert "samesite=strict" in told
    assert "path=/" in told
    assert token.lower() not in told


def test_another_site_cannot_log_a_reader_in(client: TestClient, token: str) -> None:
    assert client.post("/login", data={"token": token}, headers={"origin": "http://evil.example"}).status_code == 403


ELSEWHERE = ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a b", "/é", "/\n"]


@pytest.mark.parametrize("target", ELSEWHERE)
def test_the_login_sends_nobody_elsewhere(client: TestClient, token: str, target: str) -> None:
    assert log_in(client, token, next=target) == "/"
    assert client.get("/prefer", params={"next": target}).headers["location"] == "/"


def test_guessing_is_stopped_by_the_page_and_the_api_alike(client: TestClient, token: str) -> None:
    for _ in range(TRIES):
        assert client.post("/login", data={"token": "x" * 43}).status_code == 403
    stopped = client.post("/login", data={"token": token})
    assert stopped.status_code == 429
    assert 0 < int(stopped.headers["retry-after"]) <= 61
    assert client.get("/api/v1/state", headers=bearer(token)).status_code == 429
    assert client.get("/api/v1/state").status_code == 200


def test_a_new_token_ends_sessions(stranger: TestClient, token: str, tmp_path: Path) -> None:
    log_in(stranger, token)
    (tmp_path / "web.token").unlink()
    assert stranger.get("/api/v1/state").status_code == 401
    assert stranger.post("/login", data={"token": token}).status_code == 403
    create(tmp_path / "web.token")
    assert stranger.get("/api/v1/state").status_code == 401


def test_every_answer_carries_the_headers(client: TestClient, stranger: TestClient) -> None:
    answers = [client.get(path) for path in ("/api/v1/health", "/api/v1/nothing", "/login")]
    for answer in (*answers, stranger.get("/"), client.post("/api/v1/silences")):
        for name, value in guard.HEADERS:
            assert answer.headers[name] == value
        assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'self'" in guard.POLICY
    assert not re.search(r"https?:|\*", guard.POLICY)


def test_bodies_are_bounded(client: TestClient, token: str) -> None:
    assert client.post("/login", content=b"token=" + b"x" * guard.BODY).status_code == 413
    assert client.post("/api/v1/silences", content=iter([b"{}"]), headers=bearer(token)).status_code == 411
    assert client.post("/login", content=b"x", headers={"content-length": "ten"}).status_code == 400


def test_the_pages_connection_is_guarded(client: TestClient, stranger: TestClient) -> None:
    for guest, headers in ((client, {"origin": "http://evil.example"}), (client, {"host": "evil.example"}), (stranger, {})):
        with pytest.raises(WebSocketDisconnect), guest.websocket_connect("/_nicegui_ws/socket.io/?transport=websocket", headers=headers):
            pass
    polled = client.post("/_nicegui_ws/socket.io/?transport=polling", headers={"origin": "http://evil.example"})
    assert polled.status_code == 403


def test_no_secret_is_told(client: TestClient, token: str) -> None:
    for path in ("/login", "/api/v1/state", "/api/v1/health", "/api/v1/openapi.json"):
        assert token not in client.get(path).text


def test_one_person_has_many_addresses() -> None:
    one, two = ({"client": (f"2001:db8:1:2:{part}::1", 5)} for part in ("3", "4"))
    assert guard.address(one) == guard.address(two) == "2001:db8:1:2::/64"
    assert guard.address({"client": ("10.0.0.1", 5)}) == "10.0.0.1"
    assert guard.address({"client": None}) == ""
