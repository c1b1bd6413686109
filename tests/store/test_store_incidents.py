"""Incidents, events, the outbox and silences: what goes in comes out, in both orders of time."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ongpu.store import Keep, Store, StoreError

T = 1_800_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterable[Store]:
    with Store(tmp_path / "watch.db") as opened:
        yield opened


class TestIncidents:
    def test_it_opens_changes_and_closes(self, store: Store) -> None:
        number = store.open_incident(T, {"slug": "gpu-lost", "words": {"zh": {"title": "显卡掉线"}}})
        assert store.incidents(open_only=True) == [
            {"id": number, "slug": "gpu-lost", "words": {"zh": {"title": "显卡掉线"}}, "opened": T, "closed": None, "ack": None}
        ]
        assert store.update_incident(number, {"slug": "gpu-lost", "severity": 2})
        store.acknowledge(number, T + 5, {"by": "li", "note": "on it"})
        assert store.close_incident(number, T + 10)
        assert store.close_incident(number, T + 99)  # it was closed already
        assert store.incidents(open_only=True) == []
        [told] = store.incidents()
        ack = {"by": "li", "note": "on it", "t": T + 5}
        assert told == {"id": number, "slug": "gpu-lost", "severity": 2, "opened": T, "closed": T + 10, "ack": ack}

    def test_one_that_a_new_file_does_not_know_is_put_in(self, store: Store) -> None:
        number = store.open_incident(T, {"slug": "gpu-lost", "opened": T})
        assert store.renewed == 0
        for part in ("", "-wal", "-shm"):
            Path(f"{store.path}{part}").unlink()
        assert not store.still_there()
        store.renew()
        assert store.renewed == 1
        assert store.incidents() == []
        store.update_incident(number, {"slug": "gpu-lost", "opened": T, "severity": 2})
        store.update_incident(number + 7, {"slug": "unknown"})
        assert [(one["id"], one["opened"], one["severity"]) for one in store.incidents(open_only=True)] == [(number, T, 2)]
        store.close_incident(number, T + 5)
        store.update_incident(number, {"slug": "gpu-lost", "opened": T + 1})  # neither opens it again nor moves its beginning
        assert [(one["opened"], one["closed"]) for one in store.incidents()] == [(T, T + 5)]
        assert store.open_incident(T, {}) == number + 1

    def test_a_clock_set_back_gives_no_negative_duration(self, store: Store) -> None:
        number = store.open_incident(T, {})
        store.close_incident(number, T - 3600)
        assert store.incidents()[0]["closed"] == T

    def test_those_of_a_span_are_those_that_were_open_in_it(self, store: Store) -> None:
        for opened, closed in ((0, 10), (5, 20), (15, None), (30, 40)):
            number = store.open_incident(T + opened, {})
            if closed is not None:
                store.close_incident(number, T + closed)
        assert [one["id"] for one in store.incidents(start=T + 12, end=T + 29)] == [3, 2]
        assert [one["id"] for one in store.incidents(start=T + 100)] == [3]
        assert [one["id"] for one in store.incidents(end=T + 6)] == [2, 1]
        assert [one["id"] for one in store.incidents(limit=2)] == [4, 3]

    def test_ids_go_on_after_the_file_was_opened_anew(self, tmp_path: Path) -> None:
        for expected in (1, 2, 3):
            with Store(tmp_path / "watch.db") as store:
                assert store.open_incident(T, {}) == expected
                assert store.add_event(T, {}) == expected
                assert store.add_notice(T, {}) == expected

    def test_the_columns_win_over_a_body_that_names_them(self, store: Store) -> None:
        number = store.open_incident(T, {"id": 77, "opened": 5, "closed": 6})
        assert store.incidents() == [{"id": number, "opened": T, "closed": None, "ack": None}]

    def test_old_ones_go_with_the_history_and_open_ones_stay(self, tmp_path: Path) -> None:
        with Store(tmp_path / "watch.db", keep=Keep(five=86_400)) as store:
            for opened, closed in ((0, 10), (0, None), (90_000, 90_001)):
                number = store.open_incident(T + opened, {})
                store.acknowledge(number, T, {})
                if closed is not None:
                    store.close_incident(number, T + closed)
            store.add_event(T, {"old": True})
            store.add_event(T + 90_000, {})
            store.notice_sent(store.add_notice(T, {}), T)
            store.add_notice(T, {"waits": True})
            assert store.trim(T + 100_000, budget=60)
            assert [one["id"] for one in store.incidents()] == [3, 2]
            assert [one["id"] for one in store.events()] == [2]
            assert [one["waits"] for one in store.notices()] == [True]
            assert store._rows("SELECT incident FROM ack") == [(2,), (3,)]

    def test_there_are_never_too_many(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.store.incidents.MOST", 10)
        for number in range(30):
            store.add_event(T + number, {"n": number})
            incident = store.open_incident(T + number, {})
            if number:
                store.close_incident(incident, T + number)
                store.notice_sent(store.add_notice(T, {}), T)
        assert store.trim(T + 100, budget=60)
        assert [one["n"] for one in store.events()] == list(range(29, 19, -1))
        assert [one["id"] for one in store.incidents()] == [*range(30, 20, -1), 1]

    def test_those_of_the_time_without_a_file_do_not_make_the_others_too_many(self, store: Store) -> None:
        for second in range(3):
            store.add_event(T + second, {})
            store.close_incident(store.open_incident(T + second, {}), T + second)
            store.notice_sent(store.add_notice(T, {}), T)
        store._wait(StoreError("full", store.path))
        assert store.add_event(T + 3, {}) > 1_000_000
        store.close_incident(store.open_incident(T + 3, {}), T + 3)
        store.notice_sent(store.add_notice(T, {}), T)
        store.renew()
        assert store.trim(T + 4, budget=60)
        assert [len(store.incidents()), len(store.events()), *store._rows("SELECT count(*) FROM notice")] == [4, 4, (4,)]


class TestEvents:
    def test_the_latest_first(self, store: Store) -> None:
        for second in (1, 3, 2):
            store.add_event(T + second, {"xid": second})
        assert [one["xid"] for one in store.events()] == [3, 2, 1]
        assert [one["xid"] for one in store.events(start=T + 2, end=T + 2.5)] == [2]
        assert store.events(limit=1) == [{"id": 2, "t": T + 3, "xid": 3}]


class TestOutbox:
    def test_a_notice_stays_until_it_was_sent(self, store: Store) -> None:
        late, early = store.add_notice(T + 10, {"text": "late"}), store.add_notice(T, {"text": "early"})
        assert [one["text"] for one in store.notices(due=T + 5)] == ["early"]
        assert store.notice_failed(early, T + 20, "no route to host")
        assert store.notices() == [
            {"id": late, "due": T + 10, "tries": 0, "problem": None, "text": "late"},
            {"id": early, "due": T + 20, "tries": 1, "problem": "no route to host", "text": "early"},
        ]
        store.notice_sent(early, T + 21)
        store.notice_sent(late, T + 21)
        assert store.notices() == []


class TestSilences:
    def test_they_hold_until_their_end(self, store: Store) -> None:
        first, second = store.add_silence(T + 60, {"slug": "*"}), store.add_silence(T + 90, {"gpu": "GPU-a"})
        assert [one["id"] for one in store.silences(T)] == [first, second]
        assert store.silences(T + 70) == [{"id": second, "until": T + 90, "gpu": "GPU-a"}]
        store.end_silence(second, T + 71)
        store.end_silence(second, T + 500)  # an end is not moved back
        assert store.silences(T + 72) == []

    def test_they_go_with_the_history(self, tmp_path: Path) -> None:
        with Store(tmp_path / "watch.db", keep=Keep(five=86_400)) as store:
            store.add_silence(T, {})
            last = store.add_silence(T + 50_000, {})
            assert store.trim(T + 100_000, budget=60)
            assert [one["id"] for one in store.silences(0)] == [last]
            assert store.trim(T + 180_000, budget=60)
            assert store.silences(0) == []
            assert store.add_silence(T, {}) == last + 1

    def test_where_there_is_no_file_it_is_refused(self, store: Store) -> None:
        store._wait(StoreError("full", store.path))
        with pytest.raises(StoreError, match="no room left"):
            store.add_silence(T, {})
