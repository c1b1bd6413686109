"""The file: what is refused and how that is told, who may read while who writes, and a disk that is full."""

import contextlib
import os
import re
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ongpu.facts.sample import COLUMNS
from ongpu.store import Keep, Sample, Store, StoreError, Use, set_aside
from ongpu.store.schema import VERSION

T = 1_800_000_000.0
TICK = {1: Sample([5] * len(COLUMNS), 1000, 300_000, False, True)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "watch.db"


def filled(path: Path, ticks: int = 5) -> None:
    with Store(path) as store:
        store.see_gpu("GPU-a", 0, None, None, None)
        for tick in range(ticks):
            store.add_sample(T + tick, TICK)
        store.open_incident(T, {"slug": "gpu-lost"})


def refused(path: Path, **how: bool) -> StoreError:
    with pytest.raises(StoreError) as caught:
        Store(path, **how)
    error = caught.value
    assert str(path) in error.en
    assert str(path) in error.zh
    assert "\n" not in error.en + error.zh
    assert re.search(r"[\u4e00-\u9fff]", error.zh)
    assert str(error) == error.en
    return error


def change(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


class TestOpening:
    def test_a_new_file_is_not_for_everybody_and_knows_its_version(self, path: Path) -> None:
        with Store(path.parent / "new" / "folder" / path.name, own=True) as store:
            assert store.path.stat().st_mode & 0o007 == 0
            assert Path(f"{store.path}-wal").stat().st_mode & 0o007 == 0
            assert store._rows("PRAGMA user_version") == [(VERSION,)]
            assert store._rows("PRAGMA journal_mode") == [("wal",)]

    def test_a_second_agent_is_told_of_the_first(self, path: Path) -> None:
        with Store(path):
            error = refused(path)
            assert (error.kind, error.detail) == ("busy", f"pid {os.getpid()}")
        Store(path).close()

    def test_a_link_to_the_file_lets_no_second_agent_in(self, path: Path) -> None:
        link = path.with_name("link.db")
        link.symlink_to(path)
        with Store(path):
            assert refused(link).kind == "busy"

    def test_a_reader_of_nothing(self, path: Path) -> None:
        assert refused(path, readonly=True).kind == "missing"
        assert refused(path, alone=False).kind == "missing"
        assert not path.exists()
        path.touch()
        assert refused(path, readonly=True).kind == "missing"

    def test_a_newer_file_is_refused_and_left_alone(self, path: Path) -> None:
        filled(path)
        change(path, f"PRAGMA user_version={VERSION + 1}")
        before = path.read_bytes()
        for how in ({}, {"readonly": True}, {"alone": False}):
            error = refused(path, **how)
            assert (error.kind, error.detail) == ("newer", str(VERSION + 1))
        assert path.read_bytes() == before

    def test_a_database_of_another_program_is_refused_and_left_alone(self, path: Path) -> None:
        change(path, "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)")
        before = path.read_bytes()
        for how in ({}, {"readonly": True}, {"alone": False}):
            assert refused(path, **how).kind == "refused"
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        "text", [b"no database at all" * 100, b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "zeros", "header"]
    )
    def test_a_damaged_file_is_refused_and_left_alone(self, path: Path, text: bytes) -> None:
        path.write_bytes(text)
        assert refused(path).kind == "refused"
        assert refused(path, readonly=True).kind == ("refused" if any(text) else "corrupt")
        assert path.read_bytes() == text
        assert os.listdir(path.parent) == [path.name]  # not even a lock beside it

    def test_a_folder_or_a_place_without_permission(self, path: Path) -> None:
        path.mkdir()
        assert refused(path).kind == "refused"
        assert refused(Path("/proc/watch.db")).kind in ("denied", "io")

    @pytest.mark.parametrize("kind", ["corrupt", "newer", "foreign"])
    def test_the_agent_puts_its_own_aside_and_begins_anew(self, path: Path, kind: str) -> None:
        filled(path)
        whole = path.read_bytes()
        if kind == "corrupt":
            path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
        else:
            change(path, f"PRAGMA {'user_version' if kind == 'newer' else 'application_id'}=77")
        before = path.read_bytes()
        store, error, aside = Store.of_agent(path)
        with store:
            assert error is not None
            assert error.kind == kind
            assert aside is not None
            assert aside.read_bytes() == before
            assert store.add_sample(T, TICK)
        path.write_bytes(whole[:100] + b"\x5a" * 4096)
        store, error, second = Store.of_agent(path)
        store.close()
        assert second is not None
        assert second != aside
        assert aside.read_bytes() == before

    @pytest.mark.parametrize("table", ["gpu", "tick", "incident", "mark"])
    def test_damage_that_shows_only_when_it_is_read_is_put_aside_too(self, path: Path, table: str) -> None:
        filled(path)
        db = sqlite3.connect(path)
        ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        db.close()
        with path.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xa5" * 4096)
        before = path.read_bytes()
        assert refused(path).kind == "corrupt"
        store, error, aside = Store.of_agent(path)
        with store:
            assert error is not None
            assert aside is not None
            assert aside.read_bytes() == before
            assert store.problem is None
            assert store.open_incident(T, {}) == 1

    def test_set_aside_keeps_the_log_with_the_file(self, path: Path) -> None:
        for part in ("", "-wal", "-shm"):
            Path(f"{path}{part}").write_text(f"it{part}")
        aside = set_aside(path)
        assert [Path(f"{aside}{part}").read_text() for part in ("", "-wal", "-shm")] == ["it", "it-wal", "it-shm"]
        assert list(path.parent.glob("watch.db")) == []

    def test_the_agent_does_not_put_aside_what_another_agent_writes(self, path: Path) -> None:
        with Store(path), pytest.raises(StoreError, match="another"):
            Store.of_agent(path)
        assert sorted(item.name for item in path.parent.iterdir()) == ["watch.db", "watch.db.lock"]

    def test_a_file_of_before_the_first_version_is_brought_up_to_date(self, path: Path) -> None:
        path.touch()
        filled(path)
        with Store(path) as store:
            assert len(store.raw(1, T, T + 9)) == 5

    def test_a_migration_is_run_once_and_keeps_everything(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from ongpu.store import file, schema

        filled(path)
        monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "ALTER TABLE gpu ADD COLUMN extra; CREATE TABLE more (x)"))
        monkeypatch.setattr(schema, "VERSION", VERSION + 1)
        monkeypatch.setattr(file, "VERSION", VERSION + 1)
        assert refused(path, readonly=True).kind == "older"
        for _ in range(2):
            with Store.__new__(Store) as store:
                monkeypatch.setattr(Store, "_opened", lambda self: None)
                monkeypatch.setattr(Store, "_finish", lambda self: None)
                store.__init__(path)  # type: ignore[misc]
                assert store._rows("SELECT count(*) FROM raw") == [(5,)]
                assert store._rows("SELECT extra FROM gpu") == [(None,)]
                assert store._rows("PRAGMA user_version") == [(VERSION + 1,)]


class TestReaders:
    def test_they_see_what_is_committed_while_the_agent_writes(self, path: Path) -> None:
        with Store(path) as store:
            store.see_gpu("GPU-a", 0, None, None, None)
            with Store(path, readonly=True) as reader:
                for tick in range(20):
                    assert store.add_sample(T + tick, TICK)
                    assert len(reader.raw(1, T, T + 100)) == tick + 1
                store.rollup()
                assert len(reader.rolled("ten", 1, T, T + 100)) == 2
                assert len(reader.series(1, "util", T, T + 100)) == 20

    def test_they_cannot_change_anything(self, path: Path) -> None:
        filled(path)
        with Store(path, readonly=True) as reader:
            for change in (
                lambda: reader.add_sample(T + 100, TICK), lambda: reader.add_event(T, {}), lambda: reader.trim(T + 1e9),
                lambda: reader.add_silence(T, {}), lambda: reader.put_now("{}"), lambda: reader.rollup(),
            ):  # fmt: skip
                with pytest.raises(StoreError, match="not permitted"):
                    change()
            with pytest.raises(StoreError, match="not permitted"):
                reader._rows("DELETE FROM raw")

    def test_a_reader_does_not_stop_the_agent_and_its_look_stands_still(self, path: Path) -> None:
        with Store(path) as store:
            store.see_gpu("GPU-a", 0, None, None, None)
            store.add_sample(T, TICK)
            with Store(path, readonly=True) as reader:
                reader._rows("BEGIN")
                assert reader._rows("SELECT count(*) FROM raw") == [(1,)]
                for tick in range(1, 50):
                    assert store.add_sample(T + tick, TICK)
                assert reader._rows("SELECT count(*) FROM raw") == [(1,)]
                reader._rows("COMMIT")
                assert reader._rows("SELECT count(*) FROM raw") == [(50,)]

    def test_a_writer_beside_the_agent_may_silence(self, path: Path) -> None:
        with Store(path) as store, Store(path, alone=False) as web:
            number = web.add_silence(T + 60, {"slug": "gpu-hot", "by": "li"})
            assert [one["by"] for one in store.silences(T)] == ["li"]
            web.end_silence(number, T + 1)
            assert store.silences(T + 2) == []

    def test_many_threads_share_one_store(self, path: Path) -> None:
        wrong: list[BaseException] = []
        with Store(path) as store, Store(path, readonly=True) as reader:
            store.see_gpu("GPU-a", 0, None, None, None)

            def run(work: object) -> None:
                try:
                    for turn in range(60):
                        work(turn)  # type: ignore[operator]
                except BaseException as error:
                    wrong.append(error)

            works = [
                lambda turn: store.add_sample(T + turn, TICK),
                lambda turn: store.add_event(T + turn, {"n": turn}),
                lambda turn: store.rollup(),
                lambda turn: store.put_now(f'"{turn}"'),
                lambda turn: store.series(1, "util", T, T + 100),
                lambda turn: reader.series(1, "util", T, T + 100),
                lambda turn: reader.events(),
            ]
            threads = [threading.Thread(target=run, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert wrong == []
            assert store.flush()
            assert len(store.raw(1, T, T + 100)) == 60
            assert len(reader.events()) == 60

    def test_one_who_took_the_file_as_standing_still_learns_that_it_does_not(self, path: Path) -> None:
        filled(path)
        with Store(path, readonly=True) as reader:
            assert reader.still_there()
            reader._still = True  # as where the folder may not be written
            Path(f"{path}-wal").unlink(missing_ok=True)
            assert reader.still_there()
            with Store(path) as store:
                store.add_event(T, {})
                assert not reader.still_there()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
    @pytest.mark.parametrize("running", [True, False])
    def test_a_user_who_may_only_read_the_file_reads_it(self, tmp_path: Path, running: bool) -> None:
        import shutil
        import tempfile

        folder = Path(tempfile.mkdtemp())
        try:
            path = folder / "watch.db"
            filled(path)
            store = Store(path) if running else None
            folder.chmod(0o755)
            for part in folder.iterdir():
                part.chmod(0o644)
            reads = """
import os, sys
from ongpu.store import Store
os.setgroups([]), os.setgid(65534), os.setuid(65534)
reader = Store(sys.argv[1], readonly=True)
print(len(reader.raw(1, 0, 4e9)), len(reader.incidents()))
"""
            told = subprocess.run([sys.executable, "-c", reads, str(path)], capture_output=True, text=True, timeout=60)
            assert (told.stdout, told.stderr) == ("5 1\n", "")
            if store:
                store.close()
        finally:
            shutil.rmtree(folder)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True).returncode:
        pytest.skip("a file system can be mounted only by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


class TestFullDisk:
    def test_the_agent_goes_on_and_resumes(self, tiny: Path) -> None:
        store = Store(tiny / "watch.db")
        store.see_gpu("GPU-a", 0, None, None, None)
        first = store.open_incident(T, {"slug": "before"})
        ballast = tiny / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096) == 4096:
                    pass
            except OSError:
                pass
        now, failed = T, 0
        for _ in range(600):
            now += 1
            failed += not store.add_sample(now, TICK)
        assert failed
        assert store.problem is not None
        assert store.problem.kind in ("full", "io")
        lost = [store.open_incident(now, {"slug": f"during-{number}"}) for number in range(3)]
        event = store.add_event(now, {"xid": 79})
        notice = store.add_notice(now, {"text": "lost"})
        assert not store.close_incident(first, now)
        assert not store.update_incident(lost[0], {"slug": "during-0", "worse": True})
        assert lost == [first + 1, first + 2, first + 3]
        assert not store.rollup()
        assert not store.put_now("x" * 9_000_000)
        with Store(tiny / "watch.db", readonly=True) as reader:
            assert len(reader.incidents()) == 1  # readers still read
        ballast.unlink()
        now += 6
        assert store.add_sample(now, TICK)
        assert store.problem is not None  # of the others, which were not tried again yet
        assert store.rollup()
        assert store.put_now("{}")
        assert store.problem is None
        with Store(tiny / "watch.db", readonly=True) as reader:
            incidents = {one["id"]: one for one in reader.incidents()}
            assert [incidents[number]["slug"] for number in (first, *lost)] == ["before", "during-0", "during-1", "during-2"]
            assert incidents[first]["closed"] is not None
            assert incidents[lost[0]]["worse"]
            assert [one["id"] for one in reader.events()] == [event]
            assert [one["id"] for one in reader.notices()] == [notice]
            times = [t for t, _ in reader.raw(1, T, now)]
            assert len(times) == 601 - store.lost
            assert times == sorted(set(times))
        store.close()
        assert sqlite3.connect(tiny / "watch.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    @pytest.mark.parametrize("existing", [True, False])
    def test_an_agent_that_starts_on_a_full_disk_begins_without_a_file(self, tiny: Path, existing: bool) -> None:
        path = tiny / "watch.db"
        if existing:
            with Store(path) as store:
                assert [store.see_gpu(f"GPU-{name}", None, None, None, None) for name in "ab"] == [1, 2]
                store.open_incident(T - 100, {"slug": "before"})
        ballast = tiny / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096) == 4096:
                pass
        store, error, aside = Store.of_agent(path)
        assert error is not None
        assert error.kind in ("full", "io")
        assert aside is None
        assert store.problem is error
        assert store.waits
        assert not store.still_there()
        gpu = store.see_gpu("GPU-b", 1, "H200", None, None)
        assert not store.add_sample(T, {gpu: TICK[1]})
        number = store.open_incident(T, {"slug": "during"})
        assert not store.add_work([Use(T, gpu, 1, "li", None, None, 5, 5)])
        assert store.incidents() == store.gpus() == []
        assert store.renew() is None
        assert store.waits
        ballast.unlink()
        assert store.renew() is None
        assert not store.waits
        assert store.flush()
        assert store.add_work([Use(T, gpu, 1, "li", None, None, 5, 5)])
        assert store.problem is None
        assert [one["slug"] for one in store.incidents()] == (["during", "before"] if existing else ["during"])
        assert store.incidents()[0]["id"] == number
        same = store.see_gpu("GPU-b", 1, "H200", None, None)
        assert (same == 2) if existing else (same == gpu)
        assert len(store.raw(same, T, T)) == 1
        assert [one.name for one in store.work(T, T + 300, by="gpu")] == ["GPU-b"]
        assert store.open_incident(T, {}) == number + 1
        store.close()
        with Store(path) as store:
            assert [one.uuid for one in store.gpus() if one.id == same] == ["GPU-b"]
            assert len(store.raw(same, T, T)) == 1

    def test_what_waits_in_memory_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.store.samples.MAX_WAITING", 50)
        monkeypatch.setattr("ongpu.store.file.MAX_PENDING", 20)
        with Store(tmp_path / "watch.db") as store:
            store._rows("PRAGMA max_page_count=1")  # no page more than there are
            for second in range(3000):
                store.add_sample(T + second, TICK)
                if store.problem:
                    break
            assert store.problem is not None
            assert store.problem.kind == "full"
            for number in range(100):
                store.add_sample(T + 5000 + number, TICK)
                store.add_event(T, {"n": number, "text": "x" * 5000})
            assert (len(store._waiting), len(store._pending)) == (50, 20)
            assert store.lost >= 50 + 80
            for number in range(100):
                store.add_sample(T + 6000 + number, {})  # no GPU answers
            assert len(store._waiting) == 50
            store._rows("PRAGMA max_page_count=100000")
            assert store.add_sample(T + 9000, TICK)
            assert [event["n"] for event in store.events()] == list(range(99, 79, -1))

    def test_a_file_that_may_not_grow(self, tmp_path: Path) -> None:
        """RLIMIT_FSIZE: what a quota looks like to a process."""
        script = f"""
import resource, sys
from ongpu.store import Store, Sample
store = Store(sys.argv[1])
gpu = store.see_gpu("GPU-a", 0, None, None, None)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
tick = {{gpu: Sample([5] * {len(COLUMNS)}, 1000)}}
now = {T}
while not store.problem:
    now += 1
    store.add_sample(now, tick)
print(store.problem.kind)
number = store.open_incident(now, {{"slug": "gpu-lost"}})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(store.add_sample(now + 10, tick), store.problem, [one["id"] for one in store.incidents()] == [number])
"""
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
        told = subprocess.run([sys.executable, "-c", script, str(tmp_path / "watch.db")], capture_output=True, text=True, timeout=120)
        assert told.stderr == ""
        kind, rest = told.stdout.splitlines()
        assert kind in ("full", "io")
        assert rest == "True None True"


class TestWhileInUse:
    def test_a_file_that_was_removed_is_begun_anew(self, path: Path) -> None:
        with Store(path) as store:
            store.see_gpu("GPU-a", 7, None, None, None)
            store.see_gpu("GPU-b", 8, None, None, None)
            assert store.still_there()
            for part in ("", "-wal", "-shm"):
                Path(f"{path}{part}").unlink()
            assert not store.still_there()
            assert store.problem is not None
            assert store.problem.kind == "removed"
            lost = store.open_incident(T, {"slug": "gpu-lost"})
            assert store.incidents() == []  # it waits for a file that is one
            assert store.renew() is None
            assert store.still_there()
            assert store.add_event(T, {}) == 1
            assert [one["id"] for one in store.incidents()] == [lost]
            number = store.see_gpu("GPU-b", 8, None, None, None)
            assert store.add_sample(T, {number: TICK[1]})
            assert store.problem is None
            assert [(gpu.id, gpu.uuid) for gpu in store.gpus()] == [(1, "GPU-a"), (2, "GPU-b")]

    def test_damage_while_in_use_is_told_and_the_file_kept_beside(self, path: Path) -> None:
        with Store(path) as store:
            store.see_gpu("GPU-a", 0, None, None, None)
            for second in range(3000):
                store.add_sample(T + second, TICK)
            store._rows("PRAGMA wal_checkpoint(TRUNCATE)")
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(os.urandom(path.stat().st_size - 4096))
            store._rows("PRAGMA cache_size=0")
            first = store.open_incident(T, {"slug": "one"})
            for second in range(50):
                store.add_sample(T + 4000 + second, TICK)
            assert store.problem is not None
            assert store.problem.kind == "corrupt"
            aside = store.renew()
            assert aside is not None
            assert aside.exists()
            assert store.add_sample(T + 5000, TICK)
            assert store.problem is None
            second_one = store.open_incident(T, {"slug": "two"})
            assert second_one == first + 1
            assert [one["id"] for one in store.incidents()] == [second_one, first]

    def test_a_fault_of_ours_is_raised_and_stands_in_nobodys_way(self, path: Path) -> None:
        with Store(path) as store:
            with pytest.raises(sqlite3.Error):
                store.add_event(float("nan"), {})  # NaN is NULL to SQLite
            assert store.add_event(T, {})
            assert len(store.events()) == 1

    def test_a_fault_that_is_not_of_the_database_stands_in_nobodys_way_either(self, path: Path) -> None:
        with Store(path) as store:
            with pytest.raises(OverflowError):
                store.add_event(1 << 70, {})
            assert store.add_event(T, {})
            assert len(store.events()) == 1

    def test_the_file_is_let_go_where_what_waits_cannot_be_written(self, path: Path) -> None:
        store = Store(path)
        store.add_sample(T, TICK)
        assert not store.add_sample(T + 0.1, {1: Sample(TICK[1].values, ms=1 << 70)})
        with pytest.raises(OverflowError):
            store.close()
        Store(path).close()

    def test_names_that_are_no_utf_8_are_kept_as_far_as_they_can_be(self, path: Path) -> None:
        odd = os.fsdecode(b"caf\xe9")
        with Store(path) as store, Store(path, alone=False) as web:
            gpu = store.see_gpu("GPU-a", 0, odd, None, None)
            number = store.open_incident(T, {"command": odd})
            web.acknowledge(number, T, {"by": odd})
            web.add_silence(T + 9, {"note": odd})
            store.notice_failed(store.add_notice(T, {}), T + 9, odd)
            for _ in range(2):
                assert store.add_work([Use(T, gpu, 1, odd, odd, odd, 5, 5)])
            assert store.put_now(f'"{odd}"')
            assert store.problem is None
            [incident], [silence], [notice], [used] = store.incidents(), store.silences(T), store.notices(), store.work(T, T + 300)
            told = [incident["command"], incident["ack"]["by"], silence["note"], notice["problem"], used.name, store.now()]
            assert told == [*["caf?"] * 5, '"caf?"']
            assert used.present_seconds == 0.01
        with Store(path) as store:
            assert store.gpus()[0].name == "caf?"

    def test_a_second_agent_that_got_in_does_not_stop_the_first(self, path: Path) -> None:
        with Store(path) as store:
            store.see_gpu("GPU-a", 0, None, None, None)
            Path(f"{path}.lock").unlink()
            with Store(path) as other:
                for second in range(4):
                    assert (store, other)[second % 2].add_sample(T + second, TICK)
                assert store.rollup()
                assert len(other.raw(1, T, T + 9)) == 4

    def test_another_writer_that_holds_the_file_for_long_is_waited_for_later(self, path: Path) -> None:
        with Store(path) as store:
            store.see_gpu("GPU-a", 0, None, None, None)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            begin = time.monotonic()
            assert not store.add_sample(T, TICK)
            assert time.monotonic() - begin < 10
            assert store.problem is not None
            assert store.problem.kind == "busy"
            other.execute("ROLLBACK")
            other.close()
            assert store.add_sample(T + 6, TICK)
            assert len(store.raw(1, T, T + 9)) == 2

    def test_closing_twice_and_writing_what_waits(self, path: Path) -> None:
        store = Store(path)
        store.see_gpu("GPU-a", 0, None, None, None)
        store.add_sample(T, TICK)
        assert not store.add_sample(T + 0.1, TICK)
        store.close()
        store.close()
        with Store(path) as store:
            assert len(store.raw(1, T, T + 9)) == 2

    def test_the_size_is_told(self, path: Path) -> None:
        with Store(path, keep=Keep()) as store:
            file, used, log = store.size()
            assert file >= used > 0
            assert log > 0
