"""The queue's daemon: `python -m ongpu.queue.engines.local.daemon FOLDER`. It keeps no state: kill it at any moment, start it again.

One thread, in rounds (rounds.py). A job that has begun goes on without it (keeper.py), and is adopted by the next one (recovery.py).
"""

import contextlib
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

from ongpu.queue.config import load
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import alive
from ongpu.queue.engines.local.book import Book
from ongpu.queue.engines.local.rounds import Anew, Lost, Outdated, Rounds
from ongpu.queue.engines.local.state import bound, log

PAUSE, PAUSES = 1.0, 20.0  # seconds after the first fault (a full disk), and at most
FAULTS = 5  # of ours, one after the other, after which it gives up


def serve(place: Path) -> int:
    """Life after life, until there is nothing to do. The exit code."""
    os.makedirs(place, mode=0o700, exist_ok=True)
    for _ in range(20):  # of one that was killed a moment ago the lock is let go at once
        mine = alive.lock(place)
        if mine is not None or not alive.dying(place):
            break
        time.sleep(0.05)
    if mine is None:
        return 0
    log(f"daemon {os.getpid()} of {place}")
    pause, faults = PAUSE, 0
    while True:
        began = time.monotonic()
        try:
            seq = live(place, mine)
        except Outdated:
            log("another version was installed: started anew")
            os.execv(sys.executable, [sys.executable, "-P", "-m", "ongpu.queue.engines.local.daemon", str(place)])  # noqa: S606 - the lock is let go
        except Anew:
            log("the queue's file is another one: begun anew")
            continue
        except Lost:
            log("the queue's folder is gone: ended")
            return 0
        except Exception as error:  # what runs goes on, and is adopted by the next life
            known = isinstance(error, (EngineError, OSError))  # a full disk, a book that cannot be read now
            log(f"fault: {error}" if known else f"fault of ours:\n{traceback.format_exc()}")
            if time.monotonic() - began > 60.0:
                pause, faults = PAUSE, 0
            faults += not known
            if faults > FAULTS or not alive.ours(place, mine):
                return 3
            with contextlib.suppress(OSError):
                os.utime(mine)  # it does not hang
            time.sleep(pause)
            pause = min(PAUSES, 2 * pause)
            continue
        os.close(mine)  # from here on whoever submits starts another; what came before is ours
        with Book(place) as book:
            again = alive.lock(place) if book.changed(seq) else None
        if again is None:
            log("nothing to do: ended")
            return 0
        mine = again


def live(place: Path, mine: int) -> int:
    """One life; the number of the last change in the book that it knew of."""
    bound(place)
    with listen(place) as wake:
        rounds = Rounds(place, load(), wake, mine)
        try:
            rounds.go()
            return rounds.seq
        finally:
            rounds.close()


def listen(place: Path) -> socket.socket:
    """The socket by which commands wake us."""
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(alive.WAKE, dir_fd=root)
        found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            found.bind(f"/proc/self/fd/{root}/{alive.WAKE}")
        except BaseException:
            found.close()
            raise
        return found
    finally:
        os.close(root)


def main() -> None:
    """The program."""
    for file in map(int, os.listdir("/proc/self/fd")):  # of who started us: were that a job, its GPU would be taken as long as we live
        if file > 2:
            with contextlib.suppress(OSError):
                os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # as good an end as any
    sys.exit(serve(Path(sys.argv[1]).absolute()))


if __name__ == "__main__":
    main()
