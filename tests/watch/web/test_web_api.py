"""What the API tells of a store."""

import csv
import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ongpu.store import Store
from ongpu.watch.web import api
from ongpu.watch.web.app import build
from ongpu.watch.web.guard import Access
from ongpu.watch.web.queue import api as queue_api
from ongpu.watch.web.reading import Reader
from ongpu.watch.web.tokens import TokenFile

Speak = Callable[..., None]


def get(client: TestClient, path: str, **params: object) -> object:
    answer = client.get(f"/api/v1/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_health_and_state(client: TestClient) -> None:
    health = get(client, "health")
    assert (health["agent"], health["up"], health["gpus"], health["not_answering"]) == ("ok", True, 8, 1)
    state = get(client, "state")
    assert state["driver"] == "550.127.08"
    lost = state["gpus"][7]
    assert (lost["index"], lost["condition"], lost["code"]) == (7, "lost", 15)
    assert lost["uuid"]
    assert set(lost["values"].values()) == {None}
    assert "79" in lost["xids"]
    busy = state["gpus"][0]
    assert busy["values"]["util"] > 50
    assert busy["processes"][0]["user"] == "alice"
    assert get(client, "gpus") == state["gpus"]


def test_a_silent_agent_is_never_told_as_well(client: TestClient, filled: Path, speaking: Speak) -> None:
    speaking(filled, ago=60.0)
    health = get(client, "health")
    assert (health["agent"], health["up"], health["not_answering"]) == ("silent", None, None)
    assert health["age"] == pytest.approx(60, abs=5)
    for gpu in get(client, "state")["gpus"]:
        assert gpu["condition"] == "unknown"
        assert set(gpu["values"].values()) == {None}
        assert (gpu["processes"], gpu["verdicts"]) == ([], [])


def test_nvml_down_is_told_with_its_reason(client: TestClient, filled: Path, speaking: Speak) -> None:
    speaking(filled, up=False, reason="Driver Not Loaded", code=9)
    assert get(client, "health")["reason"] == "Driver Not Loaded"
    assert get(client, "state")["up"] is False


def test_without_a_store_the_health_says_so_and_the_rest_is_503(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "none.db")
    with TestClient(build(reader, Access(TokenFile(tmp_path / "t")), pages=False), base_url="http://localhost") as client:
        assert client.get("/api/v1/health").json()["agent"] == "no store"
        for path in ("series?metric=util", "incidents", "work", "events", "silences", "work.csv", "incidents/3"):
            answer = client.get(f"/api/v1/{path}")
            assert answer.status_code == 503, path
            assert "none.db" in answer.json()["detail"]
        Store(tmp_path / "none.db").close()
        reader._tried = float("-inf")
        assert client.get("/api/v1/incidents").json() == {"incidents": [], "next": None}
        assert client.get("/api/v1/state").json()["gpus"] == []
    reader.close()


def test_a_store_that_is_replaced_is_found_again(client: TestClient, filled: Path) -> None:
    assert get(client, "health")["gpus"] == 8
    assert len(get(client, "events")["events"]) > 0
    for end in ("", "-wal", "-shm"):
        Path(f"{filled}{end}").unlink(missing_ok=True)
    assert client.get("/api/v1/events").status_code == 503
    Store(filled).close()
    time.sleep(2.1)
    assert get(client, "events")["events"] == []


def test_a_state_that_cannot_be_read_is_told(client: TestClient, filled: Path, speaking: Speak) -> None:
    for gpus in (5, [{"index": 0}], [{"processes": None}]):
        speaking(filled, gpus=gpus)
        time.sleep(0.6)
        assert get(client, "health")["agent"] == "no store", gpus
        assert "the state" in get(client, "state")["reason"]


def test_series_by_index_and_uuid(client: TestClient) -> None:
    every = get(client, "series", metric="util", range="1h")
    assert [one["gpu"] for one in every] == list(range(8))
    assert len(every[0]["points"]) > 30
    (one,) = get(client, "series", metric="temp", gpu="7", range="1h")
    assert get(client, "series", metric="temp", gpu=one["uuid"], range="1h")[0]["uuid"] == one["uuid"]
    assert get(client, "series", metric="util", gpu="99") == []
    few = get(client, "series", metric="util", gpu="0", range="1h", points=5)[0]["points"]
    assert 0 < len(few) <= 7


@pytest.mark.parametrize("params", [
    {"metric": "nonsense"}, {"metric": "util", "points": 1}, {"metric": "util", "points": 5000}, {"metric": "util", "start": -1},
    {"metric": "util", "start": "nan"}, {"metric": "util", "start": "inf"}, {"metric": "util", "range": "2h"}, {},
])  # fmt: skip
def test_a_question_out_of_bounds_is_refused(client: TestClient, params: dict[str, object]) -> None:
    assert client.get("/api/v1/series", params=params).status_code == 422


@pytest.mark.parametrize("path", ["series?metric=util&start=5&end=4", "work?start=5&end=5", "work?start=0&end=99999999999"])
def test_a_question_that_makes_no_sense_is_refused(client: TestClient, path: str) -> None:
    assert client.get(f"/api/v1/{path}").status_code == 400


def test_incidents_and_their_diagnosis(client: TestClient) -> None:
    told = get(client, "incidents", open=True)["incidents"]
    lost = next(one for one in told if one["slug"] == "gpu-fell-off-bus")
    assert lost["gpu"] == 7
    assert lost["words"]["zh"]["fix"]
    assert {one["risk"] for one in lost["commands"]} <= {"safe", "disruptive", "destructive"}
    assert any("Xid" in ref["quote"] for ref in lost["refs"])
    assert get(client, f"incidents/{lost['id']}") == lost
    assert client.get("/api/v1/incidents/99999").status_code == 404


def test_incidents_are_given_in_pages(client: TestClient, filled: Path) -> None:
    with Store(filled) as store:
        for number in range(5):
            store.open_incident(1000.0 + number, {"slug": "x"})
    seen, offset = [], 0
    while offset is not None:
        page = get(client, "incidents", end=2000, limit=2, offset=offset)
        seen += [one["opened"] for one in page["incidents"]]
        offset = page["next"]
    assert seen == [1004.0, 1003.0, 1002.0, 1001.0, 1000.0]


def test_acknowledging_and_silencing(client: TestClient, token: str) -> None:
    client.headers["authorization"] = f"Bearer {token}"
    (lost,) = (one for one in get(client, "incidents", open=True)["incidents"] if one["slug"] == "gpu-fell-off-bus")
    seen = client.post(f"/api/v1/incidents/{lost['id']}/acknowledge", json={"note": "ordered a riser"})
    assert seen.json()["ack"]["note"] == "ordered a riser"
    assert client.post("/api/v1/incidents/99999/acknowledge").status_code == 404
    made = client.post("/api/v1/silences", json={"slug": lost["slug"], "gpu": lost["gpu_uuid"], "seconds": 3600, "note": "known"})
    assert made.status_code == 201
    (held,) = get(client, "silences")["silences"]
    assert (held["id"], held["gpu"], held["note"]) == (made.json()["id"], lost["gpu_uuid"], "known")
    assert held["until"] == pytest.approx(time.time() + 3600, abs=30)
    assert get(client, f"incidents/{lost['id']}")["silenced"]
    assert client.delete(f"/api/v1/silences/{held['id']}").status_code == 204
    assert client.delete(f"/api/v1/silences/{held['id']}").status_code == 404
    assert get(client, "silences")["silences"] == []
    assert client.post("/api/v1/silences", json={"seconds": 60}).status_code == 400
    for wrong in ({"slug": "A B", "seconds": 60}, {"slug": "x", "seconds": 0}, {"slug": "x", "seconds": 1e12}, {"slug": "x", "more": 1}):
        assert client.post("/api/v1/silences", json=wrong).status_code == 422, wrong


def test_work_and_its_csv(client: TestClient) -> None:
    work = get(client, "work", by="user", range="24h")
    dave = next(row for row in work["rows"] if row["name"] == "dave")
    assert dave["held_idle_hours"] == pytest.approx(dave["gpu_hours"], rel=0.1)
    assert dave["held_idle_cost"] == pytest.approx(dave["held_idle_hours"] * 2.0)
    assert work["currency"] == "EUR"
    answer = client.get("/api/v1/work.csv", params={"by": "user", "range": "24h"})
    assert answer.headers["content-disposition"] == 'attachment; filename="ongpu-user.csv"'
    rows = {row["user"]: row for row in csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff")))}
    assert float(rows["dave"]["held_idle_hours"]) == pytest.approx(dave["held_idle_hours"], abs=1e-3)
    for by in ("job", "command", "gpu"):
        assert get(client, "work", by=by)["rows"]


def test_events(client: TestClient) -> None:
    events = get(client, "events", limit=3)["events"]
    assert len(events) == 3
    assert events[0]["t"] >= events[-1]["t"]


def test_what_is_not_there_is_told_as_json(client: TestClient, token: str) -> None:
    assert client.get("/api/v1/nothing").json() == {"detail": "Not Found"}
    wrong = client.put("/api/v1/silences", headers={"authorization": f"Bearer {token}"})
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "GET, POST"


def test_the_document_tells_every_path_and_fetches_nothing(client: TestClient) -> None:
    document = get(client, "openapi.json")
    assert {route.path for route in (*api.router.routes, *queue_api.router.routes)} == set(document["paths"])
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
