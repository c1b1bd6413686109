"""The queue's file itself: opening it, and one transaction at a time."""

import contextlib
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import place
from ongpu.queue.engines.local.refusals import BookError
from ongpu.queue.engines.local.schema import APPLICATION, VERSION, missing

if sys.platform == "linux":
    import fcntl

NAME = "queue.db"
# A file that is closed drops the locks that SQLite holds on it in this process (https://www.sqlite.org/howtocorrupt.html, 2.2):
# nobody makes one while another connection begins.
_OPENING = threading.Lock()
# One whose file was removed is not closed: SQLite would remove the log of the file that has its name now.
_LOST: list[sqlite3.Connection] = []
PATIENCE = 5.0  # seconds that a method waits for another process to end its transaction


class File:
    """One connection to the file. Its methods may be called from any thread; they wait for each other."""

    def __init__(self, folder: Path, create: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self.path = self.folder / NAME
        self._turn = threading.RLock()
        self._durable = True
        try:
            place.look(self.folder, self.path, create)
            with _OPENING:
                self._db = self._connection(create)
                about = os.stat(self.path)
                self._same = about.st_dev, about.st_ino
        except OSError as error:
            raise self._refusal(error) from error
        except sqlite3.Error as error:
            raise self._why(error) from error

    def close(self) -> None:
        """Lets go of the file. May be called twice."""
        with self._turn:
            if self.ours():
                self._db.close()
            else:
                _LOST.append(self._db)

    def ours(self) -> bool:
        """Whether the file that we have open is still the one of that name."""
        try:
            about = os.stat(self.path)
        except OSError:
            return False
        return (about.st_dev, about.st_ino) == self._same

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connection(self, create: bool) -> sqlite3.Connection:
        if create and not self.path.exists():
            self._make()
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)
        # Autocommit: transactions begin where we say so.
        uri = f"{self.path.as_uri()}?mode=rw"
        db = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            self._accept(db)
        except BaseException:
            db.close()
            raise
        return db

    def _make(self) -> None:
        """An empty file, on the disk: what SQLite writes into it later is of no use where the folder has forgotten it. What is left of one
        that was removed goes first: a daemon may still share it."""
        root = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if sys.platform == "linux":
                fcntl.flock(root, fcntl.LOCK_EX)
            if not self.path.exists():  # else made by another one meanwhile
                for tail in ("-wal", "-shm", "-journal"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{self.path}{tail}")
                # 0600: it holds the jobs' environments. SQLite gives its other files the same mode.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        finally:
            os.close(root)
        for folder in (self.folder, self.folder.parent):
            with contextlib.suppress(PermissionError):
                file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)

    def _accept(self, db: sqlite3.Connection) -> None:
        """Refuses what is not ours; makes or updates the tables."""
        version, tables = self._version(db)
        if not tables:
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("PRAGMA journal_mode=WAL").fetchone()
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA journal_size_limit={16 << 20}")
        if version < VERSION:
            db.execute("BEGIN IMMEDIATE")
            try:
                version, _ = self._version(db)  # another process may have done it meanwhile
                if version < VERSION:
                    for statement in missing(version):
                        db.execute(statement)
                    if not tables:
                        db.execute("UPDATE mark SET value = ? WHERE name = 'id'", (self._last_folder(),))
                        db.execute("INSERT INTO mark VALUES ('heard', 0)")
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def _last_folder(self) -> int:
        """The highest number of a job that left a folder: of a queue whose file was removed. A new job 1 is not to find the end of the old
        job 1, nor its processes, which may go on: so numbers go on from there. Whoever makes the tables looks, before anybody has a job."""
        try:
            names = os.listdir(self.folder / "jobs")
        except OSError:
            return 0
        return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 16), default=0)

    def _version(self, db: sqlite3.Connection) -> tuple[int, int]:
        """Its version, and how many tables it has."""
        # In one statement: another process may be making the tables.
        version, application, tables = db.execute(
            "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version, pragma_application_id"
        ).fetchone()
        if tables and application != APPLICATION:
            raise BookError("foreign", self.path)
        if version > VERSION:
            raise BookError("newer", self.path, str(version))
        return version, tables

    @contextlib.contextmanager
    def _writing(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction. durable: on the disk when it is over; else only safe from the death of the process."""
        with self._turn:
            db = self._db
            try:
                if durable != self._durable:
                    db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                if isinstance(error, Exception) and (why := self._why(error)) is not error:
                    raise why from error
                raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One view of the file: what others write meanwhile is not seen."""
        with self._turn:
            try:
                self._db.execute("BEGIN")
                yield self._db
            except Exception as error:
                if (why := self._why(error)) is not error:
                    raise why from error
                raise
            finally:
                with contextlib.suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._turn:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise self._why(error) from error

    def _shrink(self, pages: int) -> None:
        """Gives free pages back to the disk, at most so many."""
        with self._turn:
            try:
                self._db.executescript(f"PRAGMA incremental_vacuum({pages:d})")  # execute() would stop after one page
            except sqlite3.Error as error:
                raise self._why(error) from error

    def _why(self, error: Exception) -> Exception:
        """The same as one line for the user; a fault of ours, in a file that is sound, stays what it is."""
        if isinstance(error, EngineError):
            return error
        from ongpu.store.refusals import KINDS  # only here: it costs 30 ms

        code = getattr(error, "sqlite_errorcode", 1) & 0xFF
        if isinstance(error, sqlite3.OperationalError) and code == 1:  # a table is not there, a text is none
            kind: str | None = "corrupt"
        elif isinstance(error, sqlite3.DatabaseError) and code in KINDS:
            kind = KINDS[code]
        else:
            kind = None if self._is_sound() else "corrupt"
        return error if kind is None else BookError(kind, self.path, str(error))

    def _is_sound(self) -> bool:
        """Whether SQLite finds nothing wrong in the file: where something is, what we read of it may be anything."""
        try:
            return bool(self._db.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)])
        except (sqlite3.Error, AttributeError):  # not even that; or it was never open
            return False

    def _refusal(self, error: OSError) -> BookError:
        from ongpu.store.refusals import refusal

        return BookError(refusal(error, self.path).kind, self.path, error.strerror or str(error))
