"""A writer that is killed, and one whose power is cut, lose nothing that was confirmed."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from parts.power import after_power_cut, written_down

from ongpu.store import Store

HERE = Path(__file__).parent
T = 1_800_000_000


def confirmed(lines: Iterable[str]) -> dict[str, set[int]]:
    """What the writer said; its last line may be cut."""
    found: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        kind, _, number = line.rstrip("\n").partition(" ")
        if number and line.endswith("\n"):
            found[kind].add(int(number))
    return found


def sound(path: Path, opened: set[int], closed: set[int], events: set[int]) -> int:
    """Checks the file; the last tick that it holds. opened, closed, events: ids that must be there."""
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    with Store(path) as store:
        incidents = {one["id"]: one for one in store.incidents(limit=1_000_000)}
        assert opened <= set(incidents)
        assert all(incidents[number]["closed"] is not None for number in closed)
        assert events <= {one["id"] for one in store.events(limit=1_000_000)}
        times = store._rows("SELECT n, t FROM tick ORDER BY n")
        done = store._marks().get("done", 0)
        first, last = (times[0][0], times[-1][0]) if times else (1, 0)
        assert times == [(n, (T + n) * 1000) for n in range(first, last + 1)]  # no hole, nothing twice
        assert first == 1 or first <= done  # only what was rolled up was trimmed
        for gpu in store.gpus():
            samples = store.raw(gpu.id, 0, 4e9, limit=1_000_000)
            assert len(samples) == len(times)
            assert all(one.values[0] == (t - T) % 100 for t, one in samples)
            for level in ("ten", "five"):
                rows = store.rolled(level, gpu.id, 0, 4e9)
                assert sum(row["n"] for row in rows) == done
                assert sum(row["util"] for row in rows) == sum(n % 100 for n in range(1, done + 1))
        return last


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "watch.db"
    dice = random.Random()
    all_said: dict[str, set[int]] = defaultdict(set)
    kills = 0
    for kill in range(200):
        said = tmp_path / f"said-{kill}"
        said.touch()
        writer = subprocess.Popen([sys.executable, str(HERE / "writer.py"), str(path), "0", str(said)])
        while "ready" not in said.read_text():
            assert writer.poll() is None
            time.sleep(0.002)
        time.sleep(dice.random() ** 2 * 0.3)
        if dice.random() < 0.08:  # a copy of the files in the middle of it is as good as the kill
            writer.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)
            now = confirmed(said.read_text().splitlines(keepends=True))
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            for part in ("", "-wal"):
                if Path(f"{path}{part}").exists():
                    shutil.copy(f"{path}{part}", f"{copy / path.name}{part}")
            last = sound(copy / path.name, all_said["i"] | now["i"], all_said["c"] | now["c"], all_said["e"] | now["e"])
            assert last >= max(all_said["s"] | now["s"], default=0)
        writer.kill()
        assert writer.wait(30) == -signal.SIGKILL
        kills += 1
        for kind, numbers in confirmed(said.read_text().splitlines(keepends=True)).items():
            all_said[kind] |= numbers
        if kill % 25 == 24 or kill > 197:
            assert sound(path, all_said["i"], all_said["c"], all_said["e"]) >= max(all_said["s"])
    assert kills == 200
    assert len(all_said["s"]) > 1000
    assert len(all_said["i"]) > 50


@pytest.mark.slow
@pytest.mark.real
def test_a_power_cut_at_any_write_loses_no_incident_and_leaves_no_hole(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with Store(folder / "watch.db"):
        pass  # its tables are there and on the disk
    begin = {"watch.db": bytearray((folder / "watch.db").read_bytes())}
    run = [sys.executable, str(HERE / "writer.py"), str(folder / "watch.db"), "1500", str(folder / "said")]
    changes = [("w", "watch.db", 0, bytes(begin["watch.db"])), ("s", "watch.db", 0, b""), *written_down(run, folder, tmp_path / "log")]
    assert sum(op == "s" and name == "watch.db" for op, name, _, _ in changes) > 3  # checkpoints were among them
    assert sum(op == "s" and name == "watch.db-wal" for op, name, _, _ in changes) > 100
    dice = random.Random(os.environ.get("ONGPU_SEED", "power"))
    lost = 0
    for number in range(150):
        until = dice.randrange(2, len(changes))
        said = b"".join(data for op, name, _, data in changes[:until] if name == "said").decode().splitlines(keepends=True)
        told = confirmed(said)
        disk = tmp_path / "after"
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir()
        for name, content in after_power_cut([change for change in changes[:until] if change[1].startswith("watch.db")], dice).items():
            if not name.endswith((".lock", "-shm")):
                (disk / name).write_bytes(content)
        ticks = sound(disk / "watch.db", told["i"], told["c"], told["e"])
        lost = max(lost, max(told["s"], default=0) - ticks)
        assert ticks <= len(told["s"]) + 3, number
    assert lost > 0  # the cuts did cut: samples are only as safe as NORMAL makes them
