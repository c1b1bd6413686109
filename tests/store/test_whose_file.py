"""Whose the file at the path is: another's is refused and not touched, ours is put aside where it is of no use."""

import os
import sqlite3
from pathlib import Path

import pytest

from ongpu.store import Store, StoreError

# What SQLite's own checks cannot tell from a damaged history.
BROKEN = {"zeros": bytes(8192), "cut": b"SQLite for", "header": b"SQLite format 3\0" + b"\xff" * 5000}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "watch.db"


def test_folders_are_made_for_the_default_place_only(path: Path) -> None:
    there = path.parent / "no" / "such" / path.name
    with pytest.raises(StoreError, match="there is no folder") as caught:
        Store.of_agent(there)
    assert str(there.parent) in caught.value.zh
    assert os.listdir(path.parent) == []
    Store.of_agent(there, own=True)[0].close()
    assert there.exists()


@pytest.mark.parametrize("what", ["text", "database", "wal", "zeros", "cut", "header", "fifo"])
def test_the_agent_never_touches_a_file_of_another(path: Path, what: str) -> None:
    if what in ("database", "wal"):
        db = sqlite3.connect(path)
        db.execute(f"PRAGMA journal_mode={'wal' if what == 'wal' else 'delete'}")
        db.executescript("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)")
        db.close()
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes({**BROKEN, "text": b"root:x:0:0\n" * 99}[what])
    before = path.read_bytes() if what != "fifo" else b""
    with pytest.raises(StoreError, match="not a history of ongpu; it was left as it is"):
        Store.of_agent(path)
    assert os.listdir(path.parent) == [path.name]
    assert what == "fifo" or path.read_bytes() == before


@pytest.mark.parametrize("what", ["zeros", "cut", "header", "database"])
def test_at_our_own_place_what_may_have_been_ours_is_put_aside(path: Path, what: str) -> None:
    if what == "database":
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE mine (x)")
        db.close()
    else:
        path.write_bytes(BROKEN[what])
    before = path.read_bytes()
    store, error, aside = Store.of_agent(path, own=True)
    store.close()
    assert error is not None
    assert aside is not None
    assert aside.read_bytes() == before


def test_a_file_of_another_that_is_named_as_our_lock_is_not_overwritten(path: Path) -> None:
    lock = Path(f"{path}.lock")
    lock.write_text("of another\n")
    Store(path).close()
    assert lock.read_text() == "of another\n"


def test_at_our_own_place_a_text_is_refused_too(path: Path) -> None:
    path.write_text("notes\n")
    with pytest.raises(StoreError, match="not a history"):
        Store.of_agent(path, own=True)
    assert os.listdir(path.parent) == [path.name]


def test_a_young_history_that_is_all_in_its_log_is_ours(path: Path) -> None:
    with Store(path) as store:
        store.see_gpu("GPU-a", 0, None, None, None)
        copy = path.with_name("copy.db")
        for part in ("", "-wal"):
            Path(f"{copy}{part}").write_bytes(Path(f"{path}{part}").read_bytes())
    with Store(copy) as store:
        assert [gpu.uuid for gpu in store.gpus()] == ["GPU-a"]
