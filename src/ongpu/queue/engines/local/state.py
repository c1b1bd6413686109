"""What the daemon has in mind in one life: all of it is read from the book, from the keepers' files and from the looker."""

import contextlib
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import ongpu
from ongpu.queue.config import Quotas, places
from ongpu.queue.engines.local import alive, keepers, possible, recovery
from ongpu.queue.engines.local.active import NO_CHECKPOINT, Active
from ongpu.queue.engines.local.autopsy import Autopsies
from ongpu.queue.engines.local.book import Book, Row
from ongpu.queue.engines.local.desk import Desk
from ongpu.queue.engines.local.keepers import Keeper
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.sight import Sight
from ongpu.queue.engines.local.trial import Trials
from ongpu.queue.notices import Notices

if TYPE_CHECKING:
    from ongpu.hosts.leases import Lease
    from ongpu.queue.admission import Reservation
    from ongpu.queue.config import Config


DUE = ("decide", "tell", "cards", "spent", "lend", "forget", "second", "version", "used", "complain", "trouble", "unkept")  # now and then
FREE = 5.0  # seconds for which a keeper is kept for the next run: it takes some 10 MB
UNKEPT_EVERY = 60.0  # seconds between two lines of the log that say that none can be had
LOG_MOST = 1 << 20  # bytes of the log; one older one is kept


class State:
    """The book, the GPUs, the jobs that wait and the runs that go on. now: `recovery.uptime()`; wall: seconds since the epoch."""

    def __init__(self, place: Path, config: "Config", wake: socket.socket, mine: int) -> None:
        self.place, self.config, self.wake, self.mine = place, config, wake, mine
        self.boot = recovery.boot_id()
        self.book = Book(place, create=True)
        os.makedirs(place / "jobs", mode=0o700, exist_ok=True)
        self.program = keepers.copy(place)
        self.rows: dict[int, Row] = {}  # of all jobs that live
        self.seq = 0
        self.desk = Desk(config.policy, config.quotas != Quotas())
        self.active: dict[int, Active] = {}
        self.woken = True  # by a command
        self.undelivered: str | None = None  # why the last message was not
        self.stamp: object = None  # of the configuration's files
        self.unsynced, self.synced = False, 0.0  # whether the book has what the disk has not; when it was written last
        self.ended: list[Active] = []  # those of which it is not yet known what they died of
        self.autopsies, self.trials, self.notices = Autopsies(), Trials(), Notices(config)
        self.tested: dict[str, Lease | None] = {}  # GPUs that are to be tested: our lease, None: not had yet
        self.withheld: dict[str, tuple[Lease, str]] = {}  # drained GPUs of which we hold the lease, and the slug that it tells
        self.sight = Sight(self.book.cards(), config.foreign, time.time())
        self.poll = select.poll()
        self.poll.register(wake, select.POLLIN)
        self.handles: dict[int, Active] = {}  # descriptor of what shows a run's end -> the run
        self.keepers: dict[int, Keeper] = {}  # all that we hold, by the same descriptors
        self.free: list[Keeper] = []  # those that keep no run now, the last at the end
        self.leaving: set[int] = set()  # pids of those that we let go of, to be waited for
        self.sources: dict[str, int] = {}  # descriptors that change: the looker's, the autopsy's
        self.dirty, self.quiet_since = True, recovery.uptime()
        self.next = dict.fromkeys(DUE, 0.0)
        self.version = self.version_seen = version()
        self.told: dict[int, str] = {}  # why jobs wait, as the book has it
        self.left: dict[int, float] = {}  # processes that ended jobs left behind on GPUs: when they are killed
        self.kills: tuple[float, Mapping[str, int]] = (-1.0, {})
        self.reservations: list[Reservation] = []
        self.cpus = possible.cpus(config)
        self.host_memory = possible.host_memory(config)

    def close(self) -> None:
        """Lets go of everything; what runs goes on."""
        self.sight.close()
        self.autopsies.close()
        self.trials.close()
        for lease in (*self.tested.values(), *(lease for lease, _ in self.withheld.values())):
            if lease:
                lease.close()
        for one in self.active.values():
            one.unwatch()
        for keeper in self.keepers.values():  # ends when its run is over
            keeper.close()
        self.notices.close()
        keep_undelivered(self.place, self.notices.changed())
        self.book.close()

    def due(self, name: str, every: float, now: float) -> bool:
        """Whether it is time for that."""
        if now < self.next[name]:
            return False
        self.next[name] = now + every
        return True

    def sync(self) -> None:
        """What the book has is on the disk now."""
        self.book.sync()
        self.unsynced, self.synced = False, recovery.uptime()

    def over(self, one: Active, fate: Fate) -> None:
        """A run has come to its end."""
        one.fate = fate
        self.ended.append(one)

    def watch(self, one: Active, pid: int) -> None:
        """Its end is that of this process."""
        self.unwatch(one)
        one.watch(pid)
        if one.handle >= 0:
            self.handles[one.handle] = one
            self.poll.register(one.handle, select.POLLIN)

    def unwatch(self, one: Active) -> None:
        """Its end is not awaited any more."""
        if one.handle >= 0:
            self.poll.unregister(one.handle)
            del self.handles[one.handle]
            one.unwatch()
        if one.keeper:
            self.handles.pop(one.keeper.handle, None)
            one.keeper = None

    # --- keepers of runs

    def keeper(self) -> Keeper:
        """One that is free. Raises OSError: no more processes."""
        if self.free:
            return self.free.pop()
        found = Keeper(self.program)
        self.keepers[found.handle] = found
        self.poll.register(found.handle, select.POLLIN)
        return found

    def kept(self, one: Active, keeper: Keeper) -> None:
        """The run is that keeper's, who will say when it is over."""
        one.pid, one.keeper = keeper.pid, keeper
        self.handles[keeper.handle] = one

    def unkept(self, why: str, now: float) -> None:
        """No keeper can be had: nothing starts, and who asks for the jobs is told why."""
        if self.due("unkept", UNKEPT_EVERY, now):
            log(f"fault: no job can be started: {why}")

    def dismiss(self, keeper: Keeper) -> None:
        """It ends, or is dead."""
        self.poll.unregister(keeper.handle)
        del self.keepers[keeper.handle]
        if keeper in self.free:
            self.free.remove(keeper)
        self.leaving.add(keeper.pid)
        keeper.close()

    def rest(self, now: float) -> None:
        """Lets go of keepers that no run needed for a while, and waits for those that have ended."""
        while self.free and now - self.free[0].since > FREE:  # the last that was free is the first to be taken
            self.dismiss(self.free[0])
        for pid in tuple(self.leaving):
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    continue
            self.leaving.discard(pid)

    def movable(self, row: Row) -> Row:
        """The row without its checkpoint, where that did not appear when it was asked for."""
        if row.checkpoint and row.attempt and (self.place / "jobs" / str(row.id) / NO_CHECKPOINT).exists():
            return row._replace(checkpoint="")
        return row


def config_stamp() -> tuple[tuple[int, int] | None, ...]:
    """What changes when the configuration's files do."""
    found: list[tuple[int, int] | None] = []
    for path in places():
        try:
            about = os.stat(path)
            found.append((about.st_mtime_ns, about.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)


def version() -> tuple[float, ...]:
    """What changes when another version is installed."""
    found = []
    for path in (ongpu.__file__, __file__, os.path.dirname(__file__)):
        try:
            found.append(os.stat(path or "/").st_mtime)
        except OSError:
            found.append(0.0)
    return tuple(found)


def bound(place: Path) -> None:
    """Begins the log anew where it has become long."""
    with contextlib.suppress(OSError):
        path = place / alive.LOG
        if os.stat(path).st_size > LOG_MOST and os.path.samestat(os.fstat(2), os.stat(path)):
            os.replace(path, place / f"{alive.LOG}.1")
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            for number in (1, 2):
                os.dup2(file, number)
            os.close(file)


def keep_undelivered(place: Path, found: Mapping[str, str]) -> None:
    """Writes down, in the job's folder, why a message about it did not arrive; "": it has, by now. A full disk is no error."""
    for job, why in found.items():
        file = place / "jobs" / job / alive.UNDELIVERED
        with contextlib.suppress(OSError):
            if why:
                os.makedirs(file.parent, mode=0o700, exist_ok=True)
                file.write_text(why, "utf-8")
            else:
                os.unlink(file)


def log(text: str) -> None:
    """A line with its time to standard error, which is a file that grows to a bound. A full disk is no error."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        sys.stderr.flush()
