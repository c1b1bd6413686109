"""A disk that is full: nothing is lost, nothing dies, and all goes on when there is room again."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from queues import Queue, until

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import alive, recovery
from ongpu.queue.job import Want

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """A queue on a disk of 4 MiB, where we may mount one."""
    for name in ("ONGPU_QUEUE", "ONGPU_LEASES", "ONGPU_QUEUE_CONFIG", "ONGPU_QUEUE_LOOKER"):
        monkeypatch.setenv(name, "")
    disk = tmp_path / "queue"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "small", str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk")
    try:
        queue = Queue(tmp_path, 2)
        try:
            yield queue
        finally:
            queue.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(queue: Queue) -> None:
    with open(queue.place / "filler", "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass


def test_a_full_disk(small: Queue) -> None:
    first, second = small.submit(small.shell("while [ ! -e go ]; do sleep 0.02; done; exit 3"), small.shell("sleep 0.2"))
    waiting = small.submit(small.shell("exit 0"))
    small.runs(first)
    fill(small)
    (small.work / "go").touch()
    with pytest.raises(EngineError, match="no room left"):
        small.submit(*[small.shell("true", name="x" * 2000) for _ in range(50)])
    time.sleep(2.5)
    assert "room left" in (small.engine.jobs(Want()).warning or ("",))[0], small.log()
    assert recovery.begun(small.place / "jobs" / first / "1")
    assert alive.lives(small.place), small.log()
    (small.place / "filler").unlink()
    told = small.done(first, second, *waiting)
    assert [(job.state, job.code, job.attempts) for job in told[:2]] == [("failed", 3, 1), ("done", 0, 1)]
    assert (told[2].state, told[2].code) == ("done", 0)
    until(lambda: alive.lives(small.place))
