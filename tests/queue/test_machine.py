"""Who holds a lease, in words."""

import pytest

from ongpu.hosts.leases import Holder
from ongpu.queue.machine import told


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (Holder("GPU-1"), "?"),
        (Holder("GPU-1", pid=7), "pid 7"),
        (Holder("GPU-1", pid=7, user="ann", command="python train.py"), "ann, pid 7: python train.py"),
        (Holder("GPU-1", pid=7, command="x" * 60, ended=True), f"what pid 7 left behind: {'x' * 60}"),
        (Holder("GPU-1", pid=7, command="x" * 61), f"pid 7: {'x' * 59}…"),
    ],
)
def test_a_holder_in_one_short_line(holder: Holder, words: str) -> None:
    assert told(holder) == words
