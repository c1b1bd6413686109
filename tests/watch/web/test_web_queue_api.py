"""The queue over HTTP: what is told to whom, and who may change what."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ongpu.queue.engines import Engine, EngineError
from ongpu.watch.web.app import build
from ongpu.watch.web.guard import Access
from ongpu.watch.web.queue.demo import opening
from ongpu.watch.web.queue.reading import Queue
from ongpu.watch.web.reading import Reader
from ongpu.watch.web.tokens import TokenFile

JOB = {"command": ["python", "train.py"], "name": "mine", "gpus": 2, "memory_mib": 20_480, "limit": 3600, "project": "llm"}


def get(client: TestClient, path: str, **params: object) -> object:
    answer = client.get(f"/api/v1/queue{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def one_in(client: TestClient, state: str) -> str:
    return next(job["id"] for job in get(client, "")["jobs"] if job["state"] == state)


def test_the_queue_is_told(client: TestClient) -> None:
    told = get(client, "")
    assert (told["engine"], told["problem"], told["may_submit"]) == ("local", "", True)
    assert told["counts"]["running"] == 5
    assert [card["state"] for card in told["gpus"]] == ["ok"] * 7 + ["drained"]
    states = [job["state"] for job in told["jobs"]]
    assert states.index("running") < states.index("waiting") < states.index("failed")
    waits = next(job for job in told["jobs"] if job["state"] == "waiting")
    assert "held by jobs" in waits["said"]["en"]
    assert "占用" in waits["said"]["zh"]
    assert waits["expected"] > told["at"]
    assert waits["started"] is None


def test_what_ran_where_and_who_had_how_much(client: TestClient) -> None:
    day, week = (get(client, "/runs", range=span) for span in ("24h", "7d"))
    assert 10 < len(day["runs"]) < len(week["runs"])
    assert sum(run["ended"] is None for run in day["runs"]) == 5
    rows = get(client, "/use", by="project", range="24h")["rows"]
    assert rows[0]["name"] == "llm"
    assert [row["gpu_hours"] for row in rows] == sorted((row["gpu_hours"] for row in rows), reverse=True)
    assert rows[0]["cost"] is None


def test_one_job_with_why(client: TestClient) -> None:
    told = get(client, f"/jobs/{one_in(client, 'waiting')}")
    assert told["why"]["en"]
    assert len(told["why"]["en"]) == len(told["why"]["zh"])
    assert client.get("/api/v1/queue/jobs/99999").status_code == 404
    assert client.get("/api/v1/queue/jobs/%20").status_code == 422


def test_outputs_are_for_who_has_the_token(client: TestClient, stranger: TestClient, token: str) -> None:
    path = f"/api/v1/queue/jobs/{one_in(client, 'running')}/output"
    for guest in (client, stranger):
        assert guest.get(path).status_code == 401
    answer = client.get(path, headers=bearer(token))
    assert "epoch 3" in answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/v1/queue/jobs/99999/output", headers=bearer(token)).status_code == 404


def test_no_command_and_no_environment_is_told(client: TestClient, token: str) -> None:
    secret = {**JOB, "command": ["train.py", "--key", "SECRET1"], "environ": {"K": "SECRET2"}, "name": ""}
    number = client.post("/api/v1/queue/jobs", json=secret, headers=bearer(token)).json()["id"]
    for path in ("/api/v1/queue", f"/api/v1/queue/jobs/{number}", "/api/v1/queue/runs", "/api/v1/queue/use"):
        assert "SECRET" not in client.get(path).text


def test_changing_needs_the_token_everywhere_and_its_own_page(client: TestClient, stranger: TestClient, token: str) -> None:
    for guest in (client, stranger):
        assert guest.post("/api/v1/queue/jobs", json=JOB).status_code == 401
        assert guest.post("/api/v1/queue/jobs", json=JOB, headers=bearer("x" * 43)).status_code == 401
        for action in ("cancel", "hold", "release"):
            assert guest.post(f"/api/v1/queue/jobs/4342/{action}").status_code == 401
    assert stranger.post("/login", data={"token": token}).status_code == 303
    own = {"origin": "http://gpu7.example:19480"}
    for path, body in (("jobs", JOB), ("jobs/4350/cancel", None)):
        address = f"/api/v1/queue/{path}"
        assert stranger.post(address, json=body).status_code == 403
        assert stranger.post(address, json=body, headers={"origin": "http://evil.example"}).status_code == 403
        assert stranger.post(address, json=body, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert stranger.post("/api/v1/queue/jobs", json=JOB, headers=own).status_code == 201


def test_a_job_is_submitted_held_released_and_cancelled(client: TestClient, token: str) -> None:
    client.headers.update(bearer(token))
    answer = client.post("/api/v1/queue/jobs", json=JOB)
    assert answer.status_code == 201
    number = answer.json()["id"]
    for action, state in (("hold", "held"), ("release", "waiting"), ("cancel", "cancelled")):
        assert client.post(f"/api/v1/queue/jobs/{number}/{action}").json()["job"]["state"] == state
    job = get(client, f"/jobs/{number}")["job"]
    assert (job["name"], job["gpus_asked"], job["memory_mib"], job["project"]) == ("mine", 2, 20_480, "llm")
    assert client.post("/api/v1/queue/jobs/99999/cancel").status_code == 404
    assert client.post(f"/api/v1/queue/jobs/{number}/restart").status_code == 422


@pytest.mark.parametrize("wrong", [
    {"command": []}, {"command": ["a\0b"]}, {"command": "ls"}, {"gpus": -1}, {"gpus": 1.5}, {"limit": 0}, {"limit": 1e300},
    {"name": "a\nb"}, {"priority": 11}, {"environ": {"A": 5}}, {"more": 1}, {"memory_mib": 0},
])  # fmt: skip
def test_a_body_out_of_bounds_is_refused(client: TestClient, token: str, wrong: dict[str, object]) -> None:
    assert client.post("/api/v1/queue/jobs", json={**JOB, **wrong}, headers=bearer(token)).status_code == 422


@pytest.mark.parametrize("wrong", [
    {"folder": "here"}, {"checkpoint": "USR 1"}, {"share": True, "memory_mib": None}, {"environ": {"A=": "b"}},
])  # fmt: skip
def test_what_the_engine_refuses_is_told(client: TestClient, token: str, wrong: dict[str, object]) -> None:
    answer = client.post("/api/v1/queue/jobs", json={**JOB, **wrong}, headers=bearer(token))
    assert answer.status_code == 409, answer.text
    assert answer.json()["detail"].startswith("--")


def test_a_server_that_does_not_allow_it_submits_nothing(tmp_path: Path, token: str) -> None:
    queue = Queue(opening())
    access = Access(TokenFile(tmp_path / "web.token"))
    with TestClient(build(Reader(tmp_path / "none.db"), access, queue=queue, pages=False), base_url="http://localhost") as client:
        answer = client.post("/api/v1/queue/jobs", json=JOB, headers=bearer(token))
        assert answer.status_code == 403
        assert "watch.toml" in answer.json()["detail"]
        assert client.get("/api/v1/queue").json()["may_submit"] is False
        assert client.post(f"/api/v1/queue/jobs/{one_in(client, 'running')}/cancel", headers=bearer(token)).status_code == 200
    queue.close()


def test_without_a_queue_the_rest_goes_on(tmp_path: Path, token: str) -> None:
    def refuse(_: Queue) -> Engine:
        raise EngineError("the disk is full", "磁盘已满", 69)

    for queue in (None, Queue(refuse)):
        access = Access(TokenFile(tmp_path / "web.token"))
        with TestClient(build(Reader(tmp_path / "none.db"), access, queue=queue, pages=False), base_url="http://localhost") as client:
            told = get(client, "")
            assert told["problem"] == ("the disk is full" if queue else "no queue is served here")
            assert (told["jobs"], told["gpus"], told["counts"]) == ([], [], {})
            assert get(client, "/runs")["runs"] == get(client, "/use")["rows"] == []
            assert client.get("/api/v1/queue/jobs/5").status_code == 503
            assert client.post("/api/v1/queue/jobs/5/cancel", headers=bearer(token)).status_code == 503
            assert client.get("/api/v1/health").status_code == 200
