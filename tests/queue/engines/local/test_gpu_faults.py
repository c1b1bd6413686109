"""From a driver's fault to a job that ends well elsewhere: the real daemon, looker, autopsy and keepers, on the fake NVML."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from parts.machines import Box
from queues import Queue, until

from ongpu.queue.engines.local.book import Book

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the fake is a library for Linux")]
FAILS_ONCE = """
n=${CUDA_VISIBLE_DEVICES##*0}
echo "attempt $ONGPU_ATTEMPT on ${n:-0}"
[ "$ONGPU_ATTEMPT" = 1 ] || exit 0
{ cat "$SCENARIO"; echo "gpu.${n:-0}.FAULT"; } >"$SCENARIO.new" && mv "$SCENARIO.new" "$SCENARIO"
sleep WAIT
echo "RuntimeError: CUDA error: unknown error"
exit 1
"""


@pytest.fixture
def machine(tmp_path: Path, make: Callable[..., Queue], nvml: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose looker is ours, on a recorded machine with two GPUs."""
    queue = make(2)
    box = Box(cards=2, nvml=["reload = 1"])
    root = box.write(tmp_path / "root")
    for name, value in box.environment(nvml).items():
        if name not in ("PATH", "HOME"):
            monkeypatch.setenv(name, value)
    more = f"--root {root} --no-kernel-log --store {tmp_path}/none"
    monkeypatch.setenv("ONGPU_QUEUE_LOOKER", f"{sys.executable} -m ongpu.queue.engines.local.look {more}")
    return queue


@pytest.mark.parametrize(("fault", "slug", "wait"), [
    ("error = 15", "gpu-fell-off-bus", 4), ("error = 15", "gpu-fell-off-bus", 0.2), ("xid = 48", "", 4),
])  # fmt: skip
def test_a_job_whose_gpu_fails_ends_well_elsewhere(machine: Queue, fault: str, slug: str, wait: float) -> None:
    environ = {"PATH": os.environ["PATH"], "SCENARIO": os.environ["FAKE_NVML"]}
    (job,) = machine.submit(machine.shell(FAILS_ONCE.replace("FAULT", fault).replace("WAIT", str(wait)), retries=1, environ=environ))
    (told,) = machine.done(job)
    assert (told.state, told.attempts) == ("done", 2), (told.ending, told.slug, told.said, told.code, machine.log())
    first, second = (b"".join(machine.engine.output(job, attempt=attempt)).decode() for attempt in (1, 2))
    assert first.split("on ")[1][0] != second.split("on ")[1][0], (first, second)

    def bad() -> list[tuple[str, str]]:
        with Book(machine.place) as book:
            return [(card.state, card.slug) for card in book.cards() if card.state != "ok"]

    until(lambda: bad() and bad()[0][0] == "drained", lambda: f"{bad()}\n{machine.log()}")
    assert len(bad()) == 1
    assert not slug or bad()[0][1] == slug


def test_a_job_that_hangs_with_its_gpu_is_ended_and_goes_elsewhere(machine: Queue) -> None:
    hangs = FAILS_ONCE.replace("FAULT", "hang.Temperature = 1").replace("WAIT", "600")
    environ = {"PATH": os.environ["PATH"], "SCENARIO": os.environ["FAKE_NVML"]}
    (job,) = machine.submit(machine.shell(hangs, retries=1, grace=1.0, environ=environ))
    (told,) = machine.done(job, limit=120)
    assert (told.state, told.attempts) == ("done", 2), (told.ending, told.slug, told.said, told.code, machine.log())
    with Book(machine.place) as book:
        assert [card.slug for card in book.cards() if card.state == "drained"] == ["driver-hung"]


def test_also_where_the_daemon_and_its_looker_are_new(machine: Queue) -> None:
    hangs = FAILS_ONCE.replace("FAULT", "hang.Temperature = 1").replace("WAIT", "600")
    environ = {"PATH": os.environ["PATH"], "SCENARIO": os.environ["FAKE_NVML"]}
    (job,) = machine.submit(machine.shell(hangs, retries=1, grace=1.0, environ=environ))
    machine.runs(job)
    until(lambda: "hang" in Path(os.environ["FAKE_NVML"]).read_text())
    machine.kill()
    machine.start()
    (told,) = machine.done(job, limit=120)
    assert (told.state, told.attempts) == ("done", 2), (told, machine.log())
    with Book(machine.place) as book:
        assert [card.id[:4] for card in book.cards() if card.state == "drained"] == ["GPU-"]
        assert len(book.cards()) == 2
