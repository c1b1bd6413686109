"""Queues for the tests of the local engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from queues import Queue

Make = Callable[..., Queue]
FAST = (
    "test_jobs_run_on_gpus_and_leave_their_codes", "test_killed_daemon_leaves_jobs_running_and_the_next_adopts_them",
    "test_a_gpu_fault_sends_the_job_elsewhere",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real daemons and their jobs take seconds: but for three, they are run with the real parts."""
    for item in items:
        if "make" in getattr(item, "fixturenames", ()) and item.path.parent == Path(__file__).parent and item.name not in FAST:
            item.add_marker(pytest.mark.real)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a queue, with so many GPUs and that configuration; it is gone after the test. All are on one machine."""
    for name in ("ONGPU_QUEUE", "ONGPU_LEASES", "ONGPU_QUEUE_CONFIG", "ONGPU_QUEUE_LOOKER"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
    found: list[Queue] = []

    def one(gpus: int, config: str = "") -> Queue:
        place = tmp_path / f"other-{len(found)}" if found else tmp_path
        found.append(Queue(place, gpus, config, tmp_path / "leases"))
        return found[-1]

    yield one
    for queue in found:
        queue.close()


@pytest.fixture
def queue(make: Make) -> Queue:
    """Four GPUs."""
    return make(4)


@pytest.fixture
def one(make: Make) -> Queue:
    """One GPU."""
    return make(1)
