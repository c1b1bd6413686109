"""The dashboard's API over the real local queue: a daemon, a keeper, a process."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ongpu.watch.web.app import build
from ongpu.watch.web.guard import Access
from ongpu.watch.web.queue.opening import of
from ongpu.watch.web.reading import Reader
from ongpu.watch.web.tokens import TokenFile, create

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Who has the token, at a server over an empty queue of its own."""
    monkeypatch.setenv("ONGPU_QUEUE", str(tmp_path / "queue"))
    monkeypatch.setenv("ONGPU_QUEUE_CONFIG", str(tmp_path / "queue.toml"))
    (tmp_path / "queue.toml").write_text("[cost]\nper_gpu_hour = 2\n")
    token = create(tmp_path / "web.token")
    reader = Reader(tmp_path / "none.db")
    queue = of(reader, True)
    app = build(reader, Access(TokenFile(tmp_path / "web.token")), queue=queue, pages=False)
    with TestClient(app, base_url="http://localhost", headers={"authorization": f"Bearer {token}"}) as client:
        yield client
    queue.close()
    lock = tmp_path / "queue" / "daemon.lock"
    if lock.exists() and (pid := lock.read_text().split()):
        os.kill(int(pid[0]), signal.SIGTERM)


def until(client: TestClient, job: str, state: str) -> dict[str, object]:
    """The job, when it is in that state."""
    for _ in range(150):
        told: dict[str, object] = client.get(f"/api/v1/queue/jobs/{job}").json()["job"]
        if told["state"] == state:
            return told
        time.sleep(0.2)
    raise AssertionError(told)


def test_a_job_runs_from_the_page_to_its_end(client: TestClient) -> None:
    assert client.get("/api/v1/queue").json()["counts"] == {}
    body = {"command": ["sh", "-c", 'echo "$HOME $ONGPU_JOB"; pwd; exit 3'], "gpus": 0, "folder": "/", "name": "three", "environ": {}}
    job = client.post("/api/v1/queue/jobs", json=body).json()["id"]
    told = until(client, job, "failed")
    assert (told["code"], told["name"], told["attempts"]) == (3, "three", 1)
    assert client.get(f"/api/v1/queue/jobs/{job}/output").text == f"{os.path.expanduser('~')} {job}\n/\n"
    time.sleep(1.1)
    (run,) = [one for one in client.get("/api/v1/queue").json()["jobs"] if one["id"] == job]
    assert run["state"] == "failed"


def test_a_job_is_cancelled_from_the_page(client: TestClient) -> None:
    job = client.post("/api/v1/queue/jobs", json={"command": ["sleep", "600"], "gpus": 0}).json()["id"]
    until(client, job, "running")
    assert client.post(f"/api/v1/queue/jobs/{job}/hold").status_code in (200, 409)  # it runs: there is nothing to hold
    assert client.post(f"/api/v1/queue/jobs/{job}/cancel").status_code == 200
    until(client, job, "cancelled")


def test_what_cannot_be_is_refused_with_what_could(client: TestClient) -> None:
    answer = client.post("/api/v1/queue/jobs", json={"command": ["true"], "gpus": 0, "cpus": 60_000})
    assert answer.status_code == 409
    assert "this machine gives out" in answer.json()["detail"]
    assert client.get("/api/v1/queue/jobs/999999").status_code == 404
