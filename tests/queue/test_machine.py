"""Who holds a lease, in words; and memory that nobody is seen to use."""

import pytest

from ongpu.facts.hardware import Gpu
from ongpu.facts.system import Process
from ongpu.hosts.leases import Holder
from ongpu.queue.machine import told, unexplained


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (Holder("GPU-1"), "?"),
        (Holder("GPU-1", pid=7), "pid 7"),
        (Holder("GPU-1", pid=7, user="ann", command="drained: xid-79", drained="xid-79"), "ann"),
        (Holder("GPU-1", pid=7, user="ann", command="python train.py"), "ann, pid 7: python train.py"),
        (Holder("GPU-1", pid=7, command="x" * 60, ended=True), f"what pid 7 left behind: {'x' * 60}"),
        (Holder("GPU-1", pid=7, command="x" * 61), f"pid 7: {'x' * 59}…"),
    ],
)
def test_a_holder_in_one_short_line(holder: Holder, words: str) -> None:
    assert told(holder) == words


@pytest.mark.parametrize(
    ("used", "processes", "left"),
    [
        (5000, (), 5000), (None, (), 0), (5000, ((1, 4000, False), (2, 600, False)), 400), (5000, ((1, None, False),), 0),
        (5000, ((1, 4000, True),), 5000), (100, ((1, 4000, False),), 0),
    ],
)  # fmt: skip
def test_memory_that_no_program_accounts_for(used: int | None, processes: tuple[tuple[int, int | None, bool], ...], left: int) -> None:
    here = [Process(pid=pid, gpu=0, memory=size, gone=gone) for pid, size, gone in processes]
    assert unexplained(Gpu(index=0, memory_used=used), here) == left
