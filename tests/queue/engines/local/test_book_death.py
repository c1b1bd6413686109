"""Writers that are killed, and one whose power is cut: no job, claim or end that was confirmed is lost, no GPU is leased twice."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from parts.power import after_power_cut, written_down

from ongpu.queue.engines.local.book import Book
from ongpu.queue.job import CANCELLED, ENDING, OVER, RUNNING, STARTING, Want

WRITER = Path(__file__).parent / "book_writer.py"
RUNS = (STARTING, RUNNING, ENDING)


def confirmed(lines: Iterable[str]) -> list[tuple[str, ...]]:
    """What the writer said; its last line may be cut."""
    return [tuple(line.split()) for line in lines if line.endswith("\n") and line[1:2] == " "]


def sound(folder: Path, said: list[tuple[str, ...]]) -> int:
    """Checks the file, and that all that was said is in it; how many jobs it holds."""
    db = sqlite3.connect(folder / "queue.db")  # makes an empty one where there is none
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    with Book(folder, create=not said) as book:  # where nothing was confirmed yet, there may be no file
        told = {int(one.id): one for one in book.listing(Want(most=None)).jobs}
        runs = {(job, attempt): became for job, attempt, became in book._rows("SELECT job, attempt, became FROM run")}
        for kind, *rest in said:
            job = int(rest[0])
            assert job in told, (kind, rest)
            if kind == "c":
                assert (job, int(rest[1])) in runs
            elif kind == "f":
                became = runs[job, int(rest[1])]
                assert became in (rest[2], CANCELLED if rest[2] == "waiting" else "")
                assert rest[2] == "waiting" or told[job].state == rest[2]  # it was over, and nothing changes that
            elif kind == "x":
                assert told[job].state in (*OVER, ENDING)
        alive = {job: one for job, one in told.items() if one.state in RUNS}
        leases = book._rows("SELECT gpu, slot, job, attempt FROM lease")
        assert len({gpu for gpu, *_ in leases}) == len(leases)
        held: dict[int, list[str]] = {job: [] for job in alive}
        for gpu, _, job, attempt in leases:
            assert attempt == alive[job].attempts
            held[job].append(gpu)
        assert all(sorted(held[job]) == sorted(one.gpus) and len(one.gpus) == one.spec.gpus for job, one in alive.items())
        assert {run.job for run in book.runs()} == set(alive)
        for job, blocked in book._rows("SELECT id, blocked FROM job"):
            assert blocked == len(book._rows("SELECT 1 FROM need WHERE job = ?", (job,)))
        return len(told)


def copied(folder: Path, copy: Path, cut: int | None = None) -> Path:
    """The files as they are now, as a copy finds them; cut: so many bytes of the log are missing at its end."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(mode=0o700)
    for name in ("queue.db", "queue.db-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, copy / name)
    if cut:
        log = copy / "queue.db-wal"
        os.truncate(log, max(0, log.stat().st_size - cut))
    return copy


def kill_often(tmp_path: Path, kills: int, seconds: float) -> None:
    folder, dice = tmp_path / "queue", random.Random()
    said: list[tuple[str, ...]] = []
    for number in range(kills):
        files, writers = [tmp_path / f"said-{number}-{part}" for part in ("ask", "do")], []
        for part, file in zip(("ask", "do"), files, strict=True):
            file.touch()
            writers.append(subprocess.Popen([sys.executable, str(WRITER), str(folder), str(file), "0", part]))
        while not all(file.read_text() for file in files):
            assert all(writer.poll() is None for writer in writers)
            time.sleep(0.002)
        time.sleep(dice.random() ** 2 * seconds)
        if dice.random() < 0.2:  # a copy of the files in the middle of it is as good as the kill
            for writer in writers:
                writer.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)
            now = confirmed(line for file in files for line in file.read_text().splitlines(keepends=True))
            sound(copied(folder, tmp_path / "copy"), said + now)
        for writer in writers:
            writer.kill()
            assert writer.wait(30) == -signal.SIGKILL
        said += confirmed(line for file in files for line in file.read_text().splitlines(keepends=True))
        if number % 10 == 9 or number == kills - 1:
            assert sound(folder, said) >= sum(kind == "s" for kind, *_ in said)
    assert {kind for kind, *_ in said} == {"s", "c", "f", "x"}


def test_kills_lose_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, 4, 0.4)


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, 100, 0.3)


@pytest.mark.slow
@pytest.mark.real
def test_a_power_cut_at_any_write_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    run = [sys.executable, str(WRITER), str(folder), str(folder / "said"), "700", "both"]
    changes = written_down(run, folder, tmp_path / "log")  # from the making of the file on
    assert sum(op == "s" and name == "queue.db" for op, name, _, _ in changes) > 2  # checkpoints were among them
    assert sum(op == "s" and name == "queue.db-wal" for op, name, _, _ in changes) > 500
    dice = random.Random(os.environ.get("ONGPU_SEED", "power"))
    more = 0
    for _ in range(150):
        until = dice.randrange(2, dice.choice((60, len(changes))))
        said = confirmed(b"".join(data for op, name, _, data in changes[:until] if name == "said").decode().splitlines(keepends=True))
        disk = tmp_path / "after"
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir(mode=0o700)
        mine = [change for change in changes[:until] if change[1].startswith("queue.db")]
        for name, content in after_power_cut(mine, dice).items():
            if not name.endswith("-shm"):
                (disk / name).write_bytes(content)
                (disk / name).chmod(0o600)
        jobs = sound(disk, said)
        more += jobs > sum(kind == "s" for kind, *_ in said)
    assert 0 < more < 120  # the cuts did cut: some disks hold what was not confirmed yet, and most do not


@pytest.mark.slow
def test_a_log_that_is_cut_short_gives_the_state_of_some_moment(tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    subprocess.run([sys.executable, str(WRITER), str(folder), str(tmp_path / "said"), "20", "both"], check=True)
    with Book(folder) as book:  # the log lives on
        book._db.execute("PRAGMA wal_autocheckpoint=0")
        writer = subprocess.run([sys.executable, str(WRITER), str(folder), str(tmp_path / "more"), "60", "both"], check=True)
        assert writer.returncode == 0
        length = (folder / "queue.db-wal").stat().st_size
        before = confirmed((tmp_path / "said").read_text().splitlines(keepends=True))
        for cut in range(0, length, max(1, length // 60)):
            sound(copied(folder, tmp_path / "copy", cut + cut % 7), [one for one in before if one[0] == "s"])
