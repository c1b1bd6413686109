"""The queue's file: whose folder it may be in, what is refused and how that is told, and a disk that is full or read-only."""

import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import file as file_module
from ongpu.queue.engines.local import place
from ongpu.queue.engines.local.book import Book, Finish
from ongpu.queue.engines.local.refusals import BookError
from ongpu.queue.engines.local.schema import VERSION
from ongpu.queue.job import DONE, Card, Spec, Want

NOW = 1_800_000_000.0
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queue"


def spec(**asked: object) -> Spec:
    return Spec(command=("x",), **asked)  # type: ignore[arg-type]


def filled(folder: Path, jobs: int = 5) -> list[int]:
    with Book(folder, create=True) as book:
        ids = book.submit([spec(environ={"A": "b" * 100}) for _ in range(jobs)], "ann", NOW)
        book.claim([(ids[0], [("GPU-a", 0)]), (ids[1], [("GPU-b", 0)])], NOW)
        book.finish([Finish(job=ids[0], attempt=1, code=0, ending="ok", then=DONE)], NOW)
    return ids


def one_line(error: EngineError) -> EngineError:
    assert "\n" not in error.english + error.chinese
    assert re.search(r"[\u4e00-\u9fff]", error.chinese)
    assert str(error) == error.english
    assert error.code == 2
    return error


def refused(folder: Path, create: bool = True) -> str:
    with pytest.raises(BookError) as caught:
        Book(folder, create)
    one_line(caught.value)
    assert str(folder) in caught.value.english
    return caught.value.kind


def change(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


class TestOpening:
    def test_nobody_else_can_read_it(self, folder: Path) -> None:
        before = os.umask(0)
        try:
            with Book(folder / "deep", create=True) as book:
                book.submit([spec()], "ann", NOW)
                for path in (book.folder, *book.folder.iterdir()):
                    assert path.stat().st_mode & 0o077 == 0, path
                assert book._rows("PRAGMA user_version") == [(VERSION,)]
                assert book._rows("PRAGMA journal_mode") == [("wal",)]
                assert book._rows("PRAGMA synchronous") == [(2,)]
        finally:
            os.umask(before)

    def test_a_file_that_others_could_read_is_closed_to_them(self, folder: Path) -> None:
        filled(folder)
        (folder / "queue.db").chmod(0o644)
        Book(folder).close()
        assert (folder / "queue.db").stat().st_mode & 0o777 == 0o600

    def test_of_nothing(self, folder: Path) -> None:
        assert refused(folder, create=False) == "missing"
        assert not folder.exists()
        folder.mkdir(mode=0o700)
        assert refused(folder, create=False) == "missing"
        assert list(folder.iterdir()) == []

    def test_close_twice_and_from_another_thread(self, folder: Path) -> None:
        book = Book(folder, create=True)
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.extend(book.submit([spec()], "ann", NOW)))
        thread.start()
        thread.join()
        assert found == [1]
        book.close()
        book.close()

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
    def test_a_folder_that_others_may_write(self, folder: Path, mode: int) -> None:
        folder.mkdir()
        folder.chmod(mode)
        assert refused(folder) == "open"
        assert list(folder.iterdir()) == []

    @root
    def test_a_folder_or_a_file_of_another(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        os.chown(folder, 65534, 65534)
        assert refused(folder) == "owner"
        os.chown(folder, 0, 0)
        filled(folder)
        os.chown(folder / "queue.db", 65534, 65534)
        assert refused(folder) == "owner"

    def test_what_is_no_folder_or_no_file(self, folder: Path, tmp_path: Path) -> None:
        folder.write_text("x")
        for create in (True, False):
            assert refused(folder, create) == refused(folder / "below", create) == "folder"
        folder.unlink()
        (folder / "queue.db").mkdir(parents=True)
        folder.chmod(0o700)
        assert refused(folder) == "foreign"
        shutil.rmtree(folder)
        filled(tmp_path / "real")
        folder.mkdir(mode=0o700)
        (folder / "queue.db").symlink_to(tmp_path / "real" / "queue.db")
        assert refused(folder) == "foreign"
        (folder / "queue.db").unlink()
        (folder / "queue.db").symlink_to(tmp_path / "nowhere")
        assert refused(folder) == "foreign"
        assert not (tmp_path / "nowhere").exists()

    def test_a_new_file_finds_nothing_of_the_jobs_of_a_file_that_was_removed(self, folder: Path) -> None:
        filled(folder)
        (folder / "jobs" / "1" / "1").mkdir(parents=True)
        (folder / "jobs" / "1" / "1" / "start").write_text("old")
        Book(folder, create=True).close()  # it is opened again: all stays
        assert (folder / "jobs" / "1" / "1" / "start").exists()
        for path in folder.glob("queue.db*"):
            path.unlink()
        (folder / "jobs" / "7").mkdir()
        (folder / "jobs" / "no-job").mkdir()
        with Book(folder, create=True) as book:
            assert book.submit([Spec(command=("x",))], "ann", 1.0) == [8]
        assert (folder / "jobs" / "1" / "1" / "start").read_text() == "old"

    def test_a_newer_file_is_left_alone(self, folder: Path) -> None:
        filled(folder)
        change(folder / "queue.db", f"PRAGMA user_version={VERSION + 1}")
        before = (folder / "queue.db").read_bytes()
        assert refused(folder) == "newer"
        assert (folder / "queue.db").read_bytes() == before

    def test_a_file_of_another_program_is_left_alone(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        for sql in ("CREATE TABLE mine (x)", "PRAGMA user_version=1; CREATE TABLE job (x)"):
            change(folder / "queue.db", sql)
            (folder / "queue.db").chmod(0o600)
            before = (folder / "queue.db").read_bytes()
            assert refused(folder) == "foreign"
            assert (folder / "queue.db").read_bytes() == before
            (folder / "queue.db").unlink()

    @pytest.mark.parametrize("text", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "header"])
    def test_what_is_no_database_is_left_alone(self, folder: Path, text: bytes) -> None:
        folder.mkdir(mode=0o700)
        (folder / "queue.db").write_bytes(text)
        (folder / "queue.db").chmod(0o600)
        assert refused(folder) == "corrupt"
        assert (folder / "queue.db").read_bytes() == text

    def test_eight_begin_at_once(self, folder: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from ongpu.queue.job import Spec; from ongpu.queue.engines.local.book import Book; "
            "b = Book(Path(sys.argv[1]), create=True); [b.submit([Spec(command=('x',))], 'ann', 0.0) for _ in range(20)]"
        )
        several = [subprocess.Popen([sys.executable, "-c", code, str(folder)]) for _ in range(8)]
        assert [one.wait(60) for one in several] == [0] * 8
        with Book(folder) as book:
            assert len(book.changed(0)) == 160

    def test_many_threads_begin_at_once(self, folder: Path) -> None:
        books: list[Book] = []

        def begin() -> None:
            books.append(Book(folder, create=True))
            books[-1].submit([spec()], "ann", NOW)

        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(books[0].changed(0)) == 8
        for book in books:
            book.close()


class TestTrouble:
    def test_another_that_keeps_the_file(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_module, "PATIENCE", 0.2)
        filled(folder)
        with Book(folder) as one, Book(folder) as two:
            one._db.execute("BEGIN IMMEDIATE")
            begun = time.monotonic()
            with pytest.raises(BookError) as caught:
                two.submit([spec()], "ann", NOW)
            assert time.monotonic() - begun < 3
            assert one_line(caught.value).kind == "busy"  # type: ignore[attr-defined]
            assert len(two.listing(Want()).jobs) == 5  # who only reads does not wait
            one._db.execute("ROLLBACK")
            assert two.submit([spec()], "ann", NOW)

    def test_a_disk_that_is_full(self, folder: Path) -> None:
        ids = filled(folder)
        with Book(folder) as book:
            (pages,) = book._db.execute("PRAGMA page_count").fetchone()
            book._db.execute(f"PRAGMA max_page_count={pages + 2}").fetchone()
            caught: list[BookError] = []
            while not caught:
                try:
                    ids += book.submit([spec(folder="/" + "x" * 500)], "ann", NOW)
                except BookError as error:
                    caught.append(error)
            assert one_line(caught[0]).kind == "full"  # type: ignore[attr-defined]
            assert sorted(row.id for row in book.changed(0)) == ids[1:]  # all that was confirmed, and nothing else
            book._db.execute("PRAGMA max_page_count=100000").fetchone()
            assert len(book.submit([spec()], "ann", NOW)) == 1

    def test_a_disk_that_takes_no_more_bytes(self, folder: Path) -> None:
        """In a process of its own: RLIMIT_FSIZE stands for a full disk, at any write of the log or of the file."""
        filled(folder)
        code = (
            "import resource, signal, sys; from pathlib import Path; from ongpu.queue.job import Spec\n"
            "from ongpu.queue.engines import EngineError; from ongpu.queue.engines.local.book import Book\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); b = Book(Path(sys.argv[1]))\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))\n"
            "try:\n"
            "    while True: print(b.submit([Spec(command=('x' * 3000,))], 'ann', 0.0)[0], flush=True)\n"
            "except EngineError as error: print(error.english, file=sys.stderr)\n"
        )
        for limit in (100_000, 123_456, 400_000):
            done = subprocess.run([sys.executable, "-c", code, str(folder), str(limit)], capture_output=True, text=True, timeout=60)
            assert re.search(r"queue\.db: (no room left|the disk does not take it)", done.stderr), done.stderr
            assert done.stderr.count("\n") == 1
            with Book(folder) as book:
                assert book._rows("PRAGMA integrity_check") == [("ok",)]
                assert {int(line) for line in done.stdout.split()} <= {row.id for row in book.changed(0)}

    def test_a_disk_without_room_for_a_new_queue(self, folder: Path) -> None:
        code = (
            "import resource, signal, sys; from pathlib import Path; from ongpu.queue.engines import EngineError\n"
            "from ongpu.queue.engines.local.book import Book; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))\n"
            "try: Book(Path(sys.argv[1]), create=True)\n"
            "except EngineError as error: print(error.english, file=sys.stderr)\n"
        )
        for limit in (0, 4096, 33_000, 60_000):
            done = subprocess.run([sys.executable, "-c", code, str(folder), str(limit)], capture_output=True, text=True, timeout=60)
            assert re.search(r"queue\.db: (no room left|the disk does not take it)", done.stderr), (limit, done.stderr)
        assert len(filled(folder)) == 5  # with room again it begins as if nothing had been

    @root
    def test_a_folder_that_one_may_not_write(self, folder: Path) -> None:
        filled(folder)
        for path in (folder, *folder.iterdir()):
            os.chown(path, 65534, 65534)
        folder.chmod(0o500)
        (folder / "queue.db").chmod(0o400)
        code = (
            "import os, sys; from pathlib import Path; from ongpu.queue.engines import EngineError\n"
            "from ongpu.queue.job import Spec; import ongpu.store.refusals; from ongpu.queue.engines.local.book import Book\n"
            "import ongpu.queue.engines.local.asking\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "try:\n    with Book(Path(sys.argv[1]), create=True) as b: b.submit([Spec(command=('x',))], 'ann', 0.0)\n"
            "except EngineError as error: print(error.english, file=sys.stderr)\n"
        )
        parents = [folder.parent, *folder.parent.parents]
        modes = [(parent, parent.stat().st_mode) for parent in parents if not parent.stat().st_mode & 0o001]
        for parent, mode in modes:
            parent.chmod(mode | 0o001)
        try:
            done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60)
        finally:
            for parent, mode in modes:
                parent.chmod(mode)
        assert "not permitted to write the queue" in done.stderr
        assert done.stderr.count("\n") == 1

    def test_a_file_that_is_damaged_anywhere_is_told_in_one_line_or_works(self, folder: Path, tmp_path: Path) -> None:
        ids = filled(folder, jobs=300)
        whole = (folder / "queue.db").read_bytes()
        copy = tmp_path / "copy"
        dice = random.Random(os.environ.get("ONGPU_SEED", "damage"))
        told = 0
        for _ in range(150):
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir(mode=0o700)
            data = bytearray(whole)
            for _ in range(dice.choice((1, 3, 40))):
                place = dice.randrange(len(data))
                data[place : place + dice.choice((1, 8, 600))] = dice.randbytes(1) * dice.choice((1, 8, 600))
            data = data[: dice.choice((len(data), len(data), dice.randrange(len(data))))]
            (copy / "queue.db").write_bytes(data)
            (copy / "queue.db").chmod(0o600)
            for act in ACTS:
                try:
                    with Book(copy) as book:
                        act(book, ids)
                except EngineError as error:
                    told += 1
                    one_line(error)
        assert told > 100


ACTS: tuple[Callable[[Book, list[int]], object], ...] = (
    lambda book, ids: book.listing(Want(most=None)),
    lambda book, ids: (book.changed(0), book.runs(), book.cards(), list(book.history(0)), book.spent(NOW, 9e5)),
    lambda book, ids: book.submit([spec(environ={"A": "b" * 100}, after=(("any", str(ids[7])),))], "ann", NOW),
    lambda book, ids: book.claim([(ids[5], [("GPU-c", 0)])], NOW),
    lambda book, ids: book.finish([Finish(job=ids[1], attempt=1, code=0, ending="ok", then=DONE, used=5.0)], NOW),
    lambda book, ids: (book.cancel([ids[8]], NOW), book.hold([ids[9]], NOW), book.set_cards([Card(id="GPU-a")], NOW)),
    lambda book, ids: book.forget(NOW + 1e9),
)


class TestNetwork:
    @pytest.fixture
    def mounts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "mounts"
        monkeypatch.setattr(place, "MOUNTS", str(path))
        return path

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("", ""),
            ("/dev/vda / ext4 rw 0 0\n", "ext4"),
            ("/dev/vda / ext4 rw 0 0\nserver:/home {tmp} nfs4 rw 0 0\n", "nfs4"),
            ("server:/home {tmp} nfs4 rw 0 0\n/dev/vda / ext4 rw 0 0\ntmpfs {tmp} tmpfs rw 0 0\n", "tmpfs"),
            ("server:/home {tmp}/que nfs rw 0 0\n/dev/vda / ext4 rw 0 0\nbroken\n\n", "ext4"),
            ("a {tmp}/with\\040space/queue lustre rw 0 0\n", ""),
        ],
    )
    def test_the_kind_of_file_system(self, folder: Path, mounts: Path, text: str, kind: str) -> None:
        mounts.write_text(text.replace("{tmp}", str(folder.parent)))
        assert place.kind_of(folder) == kind

    def test_a_folder_on_a_network_is_of_one_machine(self, folder: Path, mounts: Path) -> None:
        mounts.write_text(f"server:/home {folder.parent} nfs4 rw 0 0\n")
        filled(folder)
        assert (folder / place.MACHINE).read_text() == os.uname().nodename
        Book(folder).close()
        (folder / place.MACHINE).write_text("other\n")
        before = (folder / "queue.db").read_bytes()
        assert refused(folder) == "elsewhere"
        assert (folder / "queue.db").read_bytes() == before
        mounts.write_text(f"/dev/vda {folder.parent} ext4 rw 0 0\n")
        Book(folder).close()

    def test_the_kind_is_told_here(self, folder: Path) -> None:
        assert place.kind_of(folder.parent)
