"""The whole engine on the fake NVML: its first look, the real looker beside the daemon, a fault under a job, somebody else's program."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from parts.machines import Box
from queues import Queue, until

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local.book import Book
from ongpu.queue.job import Want

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="the fake is a library for Linux")]
Make = Callable[..., Queue]


class Machine:
    """A recorded machine, a queue on it, and what its driver says."""

    def __init__(self, queue: Queue, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch, *nvml: str, cards: int) -> None:
        self.queue, self.root = queue, folder / "root"
        self.box = Box(cards=cards, nvml=["reload = 1", *nvml])
        self.box.write(self.root)
        for name, value in self.box.environment(library).items():
            if name not in ("PATH", "HOME"):
                monkeypatch.setenv(name, value)
        look = f"{sys.executable} -m ongpu.queue.engines.local.look --root {self.root} --no-kernel-log --store {folder / 'none.db'}"
        monkeypatch.setenv("ONGPU_QUEUE_LOOKER", look)
        with Book(queue.place) as book:
            assert book.cards() == []

    def says(self, *nvml: str) -> None:
        """The driver says this too, from now on."""
        path = self.root / ".ongpu/nvml.txt"
        new = path.with_suffix(".new")
        new.write_text(path.read_text() + "\n".join(nvml) + "\n")
        new.rename(path)


@pytest.fixture
def machine(make: Make, tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two GPUs, of which the queue knows nothing yet."""
    return Machine(make(0), tmp_path, nvml, monkeypatch, cards=2)


def test_the_first_look_refuses_and_jobs_run_where_the_looker_says(machine: Machine) -> None:
    queue = machine.queue
    with pytest.raises(EngineError, match="has 2 that fit"):
        queue.submit(queue.shell("true", gpus=3))
    begin = time.monotonic()
    with pytest.raises(EngineError, match="A100 80GB"):
        queue.submit(queue.shell("true", model="H100"))
    assert time.monotonic() - begin < 1.0, "it is looked for once"
    ids = queue.submit(*[queue.shell('echo "$CUDA_VISIBLE_DEVICES"; sleep 1.5') for _ in range(4)])
    told = queue.done(*ids)
    assert {job.state for job in told} == {"done"}
    assert {queue.output(job.id).strip() for job in told} == {card.id for card in queue.engine.jobs(Want()).cards}
    assert any(job.busy is not None and job.peak is not None for job in told), "what it used"


def test_a_gpu_that_falls_off_the_bus_under_a_job(machine: Machine) -> None:
    queue = machine.queue
    program = 'echo "$CUDA_VISIBLE_DEVICES" >>ran; [ -e second ] && exit 0; while [ ! -e second ]; do sleep 0.05; done; exit 1'
    (job,) = queue.submit(queue.shell(program, retries=1))
    sick = queue.runs(job).gpus[0]
    index = next(card.index for card in queue.engine.jobs(Want()).cards if card.id == sick)
    machine.says(f"gpu.{index}.error = 15")
    until(lambda: next(card for card in queue.engine.jobs(Want()).cards if card.id == sick).state != "ok", queue.log)
    (queue.work / "second").touch()
    (told,) = queue.done(job)
    assert (told.state, told.attempts) == ("done", 2), told
    first, second = (queue.work / "ran").read_text().split()
    assert first == sick != second


def test_somebody_elses_program_keeps_its_gpu(machine: Machine) -> None:
    queue = machine.queue
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        for name in ("stat", "cmdline", "environ", "status"):
            place = machine.root / "proc" / str(stranger.pid)
            place.mkdir(exist_ok=True)
            (place / name).write_bytes(Path(f"/proc/{stranger.pid}/{name}").read_bytes())
        machine.says(f"gpu.0.proc = {stranger.pid},20000,C")
        ids = queue.submit(*[queue.shell("sleep 0.2") for _ in range(3)])
        told = queue.done(*ids)
        until(lambda: any(card.foreign for card in queue.engine.jobs(Want()).cards), lambda: queue.engine.jobs(Want()).cards)
        free = [card.id for card in queue.engine.jobs(Want()).cards if not card.foreign]
        assert {job.gpus for job in told} == {(free[0],)}
    finally:
        stranger.kill()
        stranger.wait()


def test_before_the_first_look_nobody_overtakes(make: Make, tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Machine(make(0), tmp_path, nvml, monkeypatch, cards=4).queue
    first, *others = queue.submit(
        queue.shell("sleep 2", gpus=2, memory=40_960), *[queue.shell("sleep 2") for _ in range(3)], queue.shell("sleep 0.1", gpus=4)
    )
    said: set[str] = set()

    def begun() -> bool:
        said.add(queue.job(first).said)
        return queue.job(first).attempts > 0

    until(begun, lambda: f"{said}\n{queue.log()}")
    assert all("looking" in word for word in said - {""}), said
    assert sum(queue.job(job).attempts for job in others) == 2, "those that fit beside it, and no more"
    queue.done(first, *others)
