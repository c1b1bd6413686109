"""The file itself: opening, refusing, writing so that a full disk or a kill harms nothing, and reading meanwhile."""

import contextlib
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ongpu.store.refusals import KINDS, UNUSABLE, StoreError, lock, may_set_aside, refusal, set_aside, standing
from ongpu.store.schema import APPLICATION, VERSION, missing

MAX_PENDING = 10_000  # statements that wait for room on the disk
PAGE = 4096  # bytes; SQLite's own default
LEAST_BYTES = 8 << 20


@dataclass(frozen=True)
class Keep:
    """For how long, s, and in how many bytes (the file; its write-ahead log of some MB comes on top)."""

    raw: float = 6 * 3600.0
    ten: float = 14 * 86400.0
    five: float = 400 * 86400.0
    max_bytes: int = 2 << 30


class File:
    """One connection to the file, used by one thread at a time."""

    def __init__(
        self, path: Path | str, readonly: bool = False, alone: bool = True, keep: Keep | None = None, wait: bool = False, own: bool = False
    ) -> None:
        self.path, self.readonly, self.alone = Path(path).absolute(), readonly, alone and not readonly
        self.own = own and self.alone  # the path is our own default place, not one that a person named
        self.keep = keep or Keep()
        self._problems: dict[str, StoreError] = {}  # what could not be written at the last try, and why
        self.renewed = 0  # times that a file was begun or found anew while in use: what is still so is to be told to it again
        self.lost = 0  # samples and statements that did not fit into memory while the disk was full
        self._pending: deque[tuple[str, tuple[Any, ...]]] = deque()
        self._turn = threading.RLock()
        self._held: int | None = None
        self._first_id = 1
        self._inode: tuple[int, int] | None = None  # of the file that is open
        try:
            self._begin()
        except StoreError as error:
            if not (wait and self.alone and error.kind in ("full", "io")):
                raise
            self._wait(error)

    @property
    def problem(self) -> StoreError | None:
        """Why something is not written at present; None once all of it is."""
        return next(iter(self._problems.values()), None)

    @property
    def waits(self) -> bool:
        """Whether there is no file at present; `renew` tries again."""
        return "file" in self._problems

    @classmethod
    def of_agent(cls, path: Path | str, keep: Keep | None = None, own: bool = False) -> tuple[Self, StoreError | None, Path | None]:
        """The agent's store, and where a file of ours stood in the way: why, and the name under which it is kept now.

        own: the path is our default place: its folder is made, and a file too damaged to tell whose it is counts as ours.
        On a full disk the store begins without a file (`waits`). Raises StoreError where no file can be made at all (denied, busy), or
        where the file is another's (refused): that one is not touched.
        """
        try:
            store = cls(path, keep=keep, wait=True, own=own)
            return store, store.problem, None
        except StoreError as error:
            whole = Path(path).absolute()
            if error.kind not in UNUSABLE or not may_set_aside(whole, own):
                raise
            aside = set_aside(whole)
            return cls(path, keep=keep, wait=True, own=own), error, aside

    def renew(self) -> Path | None:
        """Opens the file anew where it was damaged or removed while in use, or could not be made before; what waits is kept.

        A file that cannot be used is put aside. Returns its new name.
        """
        with self._turn:
            damaged, aside = any(problem.kind == "corrupt" for problem in self._problems.values()), None
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            try:
                if damaged and os.path.lexists(self.path) and (self._same() or may_set_aside(self.path, self.own)):
                    aside = set_aside(self.path)
                self._problems = {}
                try:
                    self._begin()
                except StoreError as error:
                    if error.kind not in UNUSABLE or not may_set_aside(self.path, self.own):
                        raise
                    aside = set_aside(self.path)
                    self._begin()
                self.renewed += 1
            except StoreError as error:
                self._wait(error)
            except OSError as error:
                self._wait(refusal(error, self.path))
            return aside

    def _wait(self, error: StoreError) -> None:
        """Begins without a file: all that is to be written waits, and there is nothing to read."""
        self._problems = {"file": error}
        self._first_id = int(time.time()) * 1000  # above those of a file that may be found later
        self._db = _connected("file::memory:")
        for statement in missing(0):
            self._db.execute(statement)
        self._opened()

    def close(self) -> None:
        """Writes what waits, as far as the disk takes it, and lets go of the file. May be called twice."""
        with self._turn:
            try:
                if not self.readonly:
                    with contextlib.suppress(sqlite3.ProgrammingError):
                        self._finish()
            finally:
                self._db.close()
                self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _finish(self) -> None:
        """What is to be written before the file is closed."""
        self._write("durable", lambda db: None, durable=True)

    def _opened(self) -> None:
        """What is to be read after the file was opened."""

    def _forget(self, before: float) -> bool:
        """Drops what is older and is no sample; see `Incidents`."""
        return True

    # -- opening

    def _begin(self) -> None:
        """Opens the file; holds nothing where that fails."""
        try:
            self._look()
            if self.own:
                self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            if self.alone and self._held is None:
                self._held = lock(self.path)
            self._db = self._connection()
            try:
                self._accept()
                self._opened()
            except BaseException:
                self._db.close()
                raise
        except BaseException as error:
            self._let_go()
            if isinstance(error, sqlite3.Error):
                raise self._why(error) from error
            if isinstance(error, OSError):
                raise refusal(error, self.path) from error
            raise

    def _look(self) -> None:
        """Refuses another's file before anything is made beside it and before SQLite, which may write, opens it."""
        what = standing(self.path)
        if what == "other" or (not self.own and (what == "database" or (what == "blank" and self.alone))):
            raise StoreError("refused", self.path)
        self._ours = what == "ours" or self.own

    def _connection(self) -> sqlite3.Connection:
        if not self.readonly and self.alone:
            # 0640: it names users and their commands. SQLite gives its other files the same mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o640))
        elif not self.path.exists():
            raise StoreError("missing", self.path)
        place, self._still = self.path.as_uri(), False
        if not self.readonly:
            return _connected(place + "?mode=rw")
        db = _connected(place + "?mode=ro")
        try:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            # Who may not write the folder cannot read a file of which nobody has the log open, unless he promises that it stands still.
            waiting = Path(f"{self.path}-wal")
            db.close()
            if error.sqlite_errorcode & 0xFF not in (8, 14) or (waiting.exists() and waiting.stat().st_size):
                raise
            self._still = True
            return _connected(place + "?mode=ro&immutable=1")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _accept(self) -> None:
        """Refuses what is not ours; makes or updates the tables where we are the agent."""
        db = self._db
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            raise StoreError("foreign" if self._ours else "refused", self.path)
        if version > VERSION:
            raise StoreError("newer", self.path, str(version))
        if version < VERSION and not self.alone:
            raise StoreError("older" if tables else "missing", self.path, str(version))
        status = os.stat(self.path)
        self._inode = (status.st_dev, status.st_ino)
        if self.readonly:
            db.execute("PRAGMA query_only=ON")
            return
        db.execute("PRAGMA busy_timeout=1000")
        if not tables:
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that a smaller max_bytes can give room back
        db.execute("PRAGMA journal_mode=WAL").fetchone()
        db.execute(f"PRAGMA journal_size_limit={8 << 20}")
        (page,) = db.execute("PRAGMA page_size").fetchone()
        db.execute(f"PRAGMA max_page_count={max(self.keep.max_bytes, LEAST_BYTES) // page}").fetchone()
        if version < VERSION:
            with self._transaction(durable=True):
                for statement in missing(version):
                    db.execute(statement)

    # -- writing and reading

    @contextlib.contextmanager
    def _transaction(self, durable: bool) -> Iterator[sqlite3.Connection]:
        """durable: on the disk when this returns; else only safe from the death of the process."""
        db = self._db
        db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            raise

    def _write(self, what: str, work: Callable[[sqlite3.Connection], object], durable: bool = False) -> bool:
        """Does the work in one transaction, what waits first. False, and `problem` says why, where the disk does not take it.

        what: a problem of this name lasts until the same can be written: a small change may fit where samples do not.
        """
        self._may_write()
        with self._turn:
            if self.waits:
                return False
            try:
                with self._transaction(durable or bool(self._pending)) as db:
                    for sql, values in self._pending:
                        db.execute(sql, values)
                    work(db)
            except sqlite3.Error as error:
                self._problems[what] = self._why(error)
                return False
            self._pending.clear()
            self._problems.pop("durable", None)
            self._problems.pop(what, None)
            return True

    def _may_write(self) -> None:
        if self.readonly:
            raise StoreError("denied", self.path, "readonly")

    def _durably(self, sql: str, *values: Any) -> bool:
        """One statement that must not be lost; it may be run twice. Waits in memory where the disk does not take it."""
        with self._turn:
            if len(self._pending) >= MAX_PENDING:
                self._pending.popleft()
                self.lost += 1
            self._pending.append((sql, sound(values)))
            try:
                return self._write("durable", lambda db: None, durable=True)
            except BaseException:  # a fault of ours: it must not stand in the way of what follows
                self._pending.pop()
                raise

    def _rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        with self._turn:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise self._why(error) from error

    def _why(self, error: sqlite3.Error) -> StoreError:
        kind = KINDS.get(getattr(error, "sqlite_errorcode", 1) & 0xFF)
        if kind is None:
            raise error
        return StoreError(kind, self.path, str(error))

    # -- size

    def size(self) -> tuple[int, int, int]:
        """Bytes of the file, of those in use, and of its write-ahead log."""
        (pages,), (free,), (page,) = (self._rows(f"PRAGMA {name}")[0] for name in ("page_count", "freelist_count", "page_size"))
        try:
            log = os.stat(f"{self.path}-wal").st_size
        except OSError:
            log = 0
        return pages * page, (pages - free) * page, log

    def _shrink(self, pages: int) -> bool:
        """Gives free pages back to the disk, at most so many; whether that worked."""
        with self._turn:
            try:
                self._db.executescript(f"PRAGMA incremental_vacuum({pages})")  # execute() would stop after one page
            except sqlite3.Error as error:
                raise self._why(error) from error
            return True

    def still_there(self) -> bool:
        """Whether the file that is open is the one that the path names; where not, `problem` says so (see `renew`)."""
        if self.waits:
            return False
        # A file that was opened as one that stands still is no longer such once somebody has begun to write.
        same = self._same() and not (self._still and os.path.exists(f"{self.path}-wal"))
        if not same:
            self._problems["file"] = StoreError("removed", self.path)
        return same

    def _same(self) -> bool:
        """Whether the path still names the file that was opened."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._inode


def sound(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values as SQLite takes them: what stands in a text for bytes that are no UTF-8 (half a surrogate pair) becomes a question mark."""
    return tuple(value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value for value in values)


def _connected(place: str) -> sqlite3.Connection:
    # Autocommit: transactions begin where we say so. Threads: each use of the connection is under the store's own lock.
    return sqlite3.connect(place, uri=True, timeout=1.0, isolation_level=None, check_same_thread=False, cached_statements=256)
