"""Real programs on the processor, seen through /proc, beside the figures of a GPU that does little: the right verdict."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from parts.interpreters import bare

from ongpu.engine import diagnose
from ongpu.facts.sample import COLUMNS, PLACE
from ongpu.hosts.sampling.proc import Looks
from ongpu.report.verdicts import verdicts
from ongpu.watch.window import Window

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's /proc"),
]
LOOKS, EVERY = 9, 1.0

BURNING = """
    import multiprocessing, time
    def burn():
        while True: sum(range(10_000))
    for _ in range(COUNT): multiprocessing.get_context("fork").Process(target=burn, daemon=True).start()
    while True: time.sleep(0.05)
"""
READING = """
    import mmap, multiprocessing, os, random, time
    def read(path=PATH):
        file, room = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8 << 20)
        while True: os.preadv(file, [room], random.randrange(8) * (8 << 20))
    for _ in range(6): multiprocessing.get_context("fork").Process(target=read, daemon=True).start()
    while True: time.sleep(0.05)
"""
SPINNING = """
    import threading, time
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
    while True: sum(range(10_000))
"""
LOADING = """
    while True:
        with open(PATH, "rb") as file:
            while piece := file.read(1 << 16): sum(piece)
"""
IDLE = """
    import time
    while True: time.sleep(1)
"""
WAITING = """
    import os, threading, time
    into, out = os.pipe()
    def feed():
        while True: time.sleep(0.02); os.write(out, bytes(40_000))
    threading.Thread(target=feed, daemon=True).start()
    while True: os.read(into, 1 << 20)
"""


TORCH = """
    import time
    import torch
    class Costly(torch.utils.data.Dataset):
        def __len__(self): return 1_000_000
        def __getitem__(self, place):
            begin = time.thread_time()
            while time.thread_time() - begin < 0.01: sum(range(1000))
            return torch.zeros(8)
    for batch in torch.utils.data.DataLoader(Costly(), batch_size=8, num_workers=2): time.sleep(0.002)
"""


@contextmanager
def running(script: str, python: str = sys.executable, wait: float = 0.7, **names: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The script as a process of its own group, which is ended with all that it started."""
    given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    program = subprocess.Popen([python, "-c", given + textwrap.dedent(script)], start_new_session=True)
    try:
        time.sleep(wait)
        assert program.poll() is None
        yield program
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def machine() -> dict[str, Any]:
    """MACHINE, of /proc."""
    first = [float(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    ticks = os.sysconf("SC_CLK_TCK")
    idle, iowait = first[3] / ticks, first[4] / ticks
    return {"cores": len(os.sched_getaffinity(0)), "busy": sum(first[:8]) / ticks - idle - iowait, "iowait": iowait}


def verdict(pid: int, util: list[int], received: float = 0.0, idle: float = 0.0) -> str:
    """What is said of GPU 0, on which this program is: its figures for a minute, and real looks at the program."""
    window, looks = Window(), Looks()
    row: list[Any] = [None] * len(COLUMNS)
    start = time.time()
    for second in range(-60 - int(idle), 0):
        row = [*row]
        row[PLACE["util"]], row[PLACE["power"]], row[PLACE["mem_used"]] = util[second % len(util)], 90_000, 20_000
        window.take({"k": "s", "t": start + second, "g": [row]}, start)
    for n in range(LOOKS):
        now = time.time()
        host, told = looks.all([pid]), machine()
        assert host[str(pid)], "not visible"
        window.take({"k": "s", "t": now, "g": [row]}, now)
        window.take(
            {"k": "p", "t": now, "g": {"0": [[pid, 19_000, "C", None]]}, "h": host, "m": {**told, "net_rx": received * (now - start)}}, now
        )
        if n < LOOKS - 1:
            time.sleep(EVERY)
    evidence = window.evidence()
    assert evidence
    report = diagnose([evidence], "test")
    found = verdicts(report).get(0)
    sys.stdout.write(evidence.text.splitlines()[-2][:3000] + (found.text("en").title if found else ""))
    return "unknown" if found is None else found.slug + (f"/{found.variant}" if found.variant else "")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "data"
    with path.open("wb") as out:
        for _ in range(64):
            out.write(os.urandom(1 << 20))
        out.flush()
        os.fsync(out.fileno())
    return str(path)


LOW = [0, 0, 70, 10, 0]


def test_one_worker_that_burns() -> None:
    with running(BURNING, COUNT=1) as program:
        assert verdict(program.pid, LOW) in ("input-pipeline-bound/live-workers", "input-pipeline-bound/live-starved")


def test_more_workers_than_cores() -> None:
    with running(BURNING, COUNT=6 * len(os.sched_getaffinity(0))) as program:
        assert verdict(program.pid, LOW) == "input-pipeline-bound/live-starved"


def test_readers_of_a_disk(file: str) -> None:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no O_DIRECT")
    with running(READING, PATH=file) as program:
        assert verdict(program.pid, LOW) == "gpu-waits-for-disk"


def test_a_thread_that_spins() -> None:
    with running(SPINNING) as program:
        assert verdict(program.pid, LOW) in ("host-bound", "host-bound/crowded")


def test_a_thread_that_reads_and_computes(file: str) -> None:
    with running(LOADING, PATH=file) as program:
        assert verdict(program.pid, LOW) in ("input-pipeline-bound/live-main", "host-bound/crowded")


def test_a_program_that_sleeps() -> None:
    with running(IDLE) as program:
        assert verdict(program.pid, [0], idle=540) == "gpu-held-idle"


def test_the_workers_of_a_real_dataloader() -> None:
    with running(TORCH, bare("torch"), wait=6.0) as program:
        assert verdict(program.pid, LOW) in ("input-pipeline-bound/live-workers", "input-pipeline-bound/live-starved")


def test_a_stopped_program() -> None:
    with running(IDLE) as program:
        os.kill(program.pid, signal.SIGSTOP)
        assert verdict(program.pid, [0]) == "gpu-held-idle/stopped"


def test_a_program_that_is_fed_slowly() -> None:
    with running(WAITING) as program:
        assert verdict(program.pid, LOW, received=2e6) == "gpu-waits-for-network"


def test_a_program_that_sleeps_while_its_gpu_works() -> None:
    with running(IDLE) as program:
        assert verdict(program.pid, [95]) == "gpu-busy"


def test_nothing_can_be_seen() -> None:
    with running(IDLE) as program:
        assert verdict(program.pid, [30]) == "unknown"
