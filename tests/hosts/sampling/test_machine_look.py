"""What /proc says of the machine as a whole."""

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.facts.sample import MACHINE
from ongpu.hosts.sampling.machine import TICKS, available, look, processor, quota, traffic

NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9999    10    0    0    0     0          0         0     9999      10    0    0    0     0       0          0
  eth0: 1000    10    0    0    0     0          0         0       50      10    0    0    0     0       0          0
  ib0:  2000    10    0    0    0     0          0         0       70      10    0    0    0     0       0          0
"""


def test_the_parsers_read_what_the_kernel_prints() -> None:
    assert processor("cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3") == {"busy": 171 / TICKS, "iowait": 500 / TICKS}
    assert traffic(NET) == {"net_rx": 3000, "net_tx": 120}
    assert available("MemTotal: 9 kB\nMemFree: 9 kB\nMemAvailable:   2097152 kB\n") == {"mem_available": 2048}
    assert quota("150000 100000\n") == 1.5
    assert quota("max 100000\n") is None
    assert quota("-1", "100000") is None
    assert quota("200000", "100000") == 2.0


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert all(isinstance(v, (int, float)) and v >= 0 for v in {**processor(text), **traffic(text), **available(text)}.values())
    assert quota(text) is None or quota(text) > 0  # type: ignore[operator]


def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    assert set(look(str(tmp_path))) == {"cores"}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_this_machine() -> None:
    one = look()
    assert set(one) <= set(MACHINE)
    assert {"cores", "load", "busy", "iowait", "mem_available"} <= set(one)
    assert one["cores"] <= (os.cpu_count() or 1)
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert look()["busy"] >= one["busy"] + 0.05
