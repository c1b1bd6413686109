"""The looker as the daemon starts it, on the fake NVML: the first line, faults while it looks, silence of the driver, and its own cost."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from parts.machines import Box

from ongpu.queue.engines.local import look
from ongpu.store import Store

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="the fake is a library for Linux")]


class Looker:
    """A recorded machine and a looker on it."""

    def __init__(self, folder: Path, library: Path | None, *nvml: str, cards: int = 8, **more: Any) -> None:
        self.box = Box(cards=cards, nvml=["reload = 1", *nvml], **more)
        self.box.write(folder / "root")
        self.folder, self.rest, self.lines = folder, b"", list[dict[str, Any]]()
        self.environ = {**os.environ, **self.box.environment(library), "PATH": os.environ["PATH"]}
        self.begun = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> "Looker":
        """Starts it."""
        words = [sys.executable, "-m", "ongpu.queue.engines.local.look", "--root", str(self.folder / "root"), "--no-kernel-log", *more]
        store = [] if "--store" in more else ["--store", str(self.folder / "none.db")]
        self.begun = time.monotonic()
        self.process = subprocess.Popen([*words, *store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environ)
        return self

    def says(self, *nvml: str) -> None:
        """The driver says this too, from now on."""
        path = self.folder / "root/.ongpu/nvml.txt"
        new = path.with_suffix(".new")
        new.write_text(path.read_text() + "\n".join(nvml) + "\n")
        new.rename(path)

    def read(self, seconds: float) -> list[dict[str, Any]]:
        """The lines that come in that time, at least one."""
        assert self.process
        assert self.process.stdout
        if select.select([self.process.stdout], [], [], seconds)[0]:
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            assert data, "the looker ended"
            *lines, self.rest = (self.rest + data).split(b"\n")
            found = [json.loads(line) for line in lines]
            self.lines += found
            return found
        return []

    def until(self, what: Callable[[dict[str, Any]], object], seconds: float = 15.0) -> dict[str, Any]:
        """The first line of which that is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.read(0.2):
                if what(line):
                    return line
        raise AssertionError(self.lines[-1:])

    def close(self) -> None:
        """Its input ends, and so does it."""
        if self.process:
            assert self.process.stdin
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
            ended = self.process.poll() is not None
            self.process.kill()
            self.process.wait()
            assert self.process.stdout
            self.process.stdout.close()
            assert ended


@pytest.fixture
def machine(tmp_path: Path, nvml: Path) -> Iterator[Callable[..., Looker]]:
    made: list[Looker] = []

    def make(*scenario: str, library: Path | None = nvml, **more: Any) -> Looker:
        made.append(Looker(tmp_path, library, *scenario, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def fit(line: dict[str, Any]) -> bool:
    """Whether all GPUs may be used."""
    return bool(line["gpus"]) and all(gpu["unfit"] is None for gpu in line["gpus"])


def test_the_first_line_tells_all(machine: Callable[..., Looker]) -> None:
    looker = machine().start()
    line = looker.until(fit)
    assert looker.lines[0]["up"] or looker.lines[0]["why"][0] == "starting", "on a machine that is busy"
    assert [gpu["index"] for gpu in line["gpus"]] == list(range(8))
    one = line["gpus"][3]
    assert (one["uuid"][:4], one["capability"], one["memory"], one["how"]) == ("GPU-", "8.0", 81920, "ok")


def test_a_machine_without_a_driver(machine: Callable[..., Looker]) -> None:
    looker = machine(library=None, driver=None, module=None).start()
    line = looker.until(lambda line: line["why"] and line["why"][0] not in ("starting", "nvml-init-failed"))
    assert (line["up"], line["gpus"]) == (False, [])
    assert line["why"][1] != line["why"][2]
    assert looker.until(lambda _: True)["why"] == line["why"]  # and goes on saying so


def test_a_gpu_that_is_lost_and_comes_back(machine: Callable[..., Looker]) -> None:
    looker = machine(cards=2).start()
    looker.until(fit)
    looker.says("gpu.1.error = 15")
    line = looker.until(lambda line: line["gpus"][1]["how"] == "lost", 4.0)
    assert (line["gpus"][1]["unfit"], line["gpus"][0]["unfit"]) == ("gpu-fell-off-bus", None)
    looker.says("gpu.1.error = 0")
    looker.until(fit)


@pytest.mark.slow
def test_errors_of_memory_are_judged(machine: Callable[..., Looker]) -> None:
    looker = machine(cards=2).start()
    looker.until(fit)
    looker.says("gpu.1.remap_failed = 1", "gpu.1.ecc_vol_unc = 3")
    line = looker.until(lambda line: line["gpus"][1]["unfit"], 20.0)
    assert line["gpus"][1]["unfit"] in ("row-remap-failure", "ecc-uncorrectable")
    assert all(line["gpus"][1]["words"])
    assert line["gpus"][0]["unfit"] is None


def test_an_xid(machine: Callable[..., Looker]) -> None:
    looker = machine("gpu.1.xid = 48", "gpu.1.xid_after_s = 2", cards=2).start()
    line = looker.until(lambda line: line["gpus"] and line["gpus"][-1]["xids"])
    assert [code for _, code in line["gpus"][1]["xids"]] == [48]


def test_strangers_and_jobs(machine: Callable[..., Looker]) -> None:
    mine = subprocess.Popen(["sleep", "60"], env={**os.environ, "ONGPU_JOB": "12"})
    other = subprocess.Popen(["sleep", "60"])
    try:
        looker = machine(f"gpu.0.proc = {mine.pid},300,C", f"gpu.0.proc = {other.pid},500,C", cards=1)
        root = looker.folder / "root/proc"
        for process in (mine, other):
            (root / str(process.pid)).mkdir()
            for name in ("stat", "status", "comm", "cmdline"):
                (root / str(process.pid) / name).write_bytes(Path(f"/proc/{process.pid}/{name}").read_bytes())
        line = looker.start().until(lambda line: line["gpus"] and len(line["gpus"][0]["procs"]) == 2)
        one = line["gpus"][0]
        assert sorted(one["procs"]) == sorted([[mine.pid, 300, "C", "12"], [other.pid, 500, "C", None]])
        assert [words for words in one["foreign"] if str(other.pid) in words and "500 MiB" in words]
        assert len(one["foreign"]) == 1
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["hang.Init = 1", "gpu.1.hang.Temperature = 1"])
def test_a_driver_that_hangs_is_told_and_hangs_nobody(machine: Callable[..., Looker], scenario: str) -> None:
    looker = machine(*[scenario] if "Init" in scenario else [], cards=2).start()
    if "Init" not in scenario:
        looker.until(fit)
        looker.says(scenario)
        line = looker.until(lambda line: line["gpus"][1]["unfit"] == "driver-hung")
        assert (line["gpus"][1]["how"], line["gpus"][0]["unfit"]) == ("hung", None)
    begin, count = time.monotonic(), len(looker.lines)
    while time.monotonic() < begin + 4.0:
        looker.read(1.5)
    assert len(looker.lines) - count >= 3, "no silence"
    if "Init" in scenario:
        assert looker.lines[-1]["up"] is False
        assert looker.lines[-1]["why"][0] == "starting"


def test_incidents_of_a_watch_that_lives(machine: Callable[..., Looker], tmp_path: Path) -> None:
    path, uuid = tmp_path / "watch.db", "GPU-fa4e0000-0000-4000-8000-000000000001"
    with Store(path) as store:
        store.put_now(json.dumps({"written": time.time()}))
        store.open_incident(time.time(), {"slug": "gpu-fell-off-bus", "gpu_uuid": uuid, "label": "critical"})
        store.open_incident(time.time(), {"slug": "thermal-throttle", "gpu_uuid": "GPU-other", "label": "warning"})
        assert look.incidents(str(path), time.time()) == {uuid: "gpu-fell-off-bus"}
        assert look.incidents(str(path), time.time() + 1000) == {}, "a watch that is no more"
        line = machine(cards=2).start("--store", str(path)).until(lambda line: line["gpus"] and line["gpus"][-1]["incident"])
        assert [gpu["incident"] for gpu in line["gpus"]] == [None, "gpu-fell-off-bus"]


@pytest.mark.parametrize("content", [None, b"", b"not a database", b"SQLite format 3\0" + bytes(4096)])
def test_no_store_and_what_is_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "watch.db"
    if content is not None:
        path.write_bytes(content)
    assert look.incidents(str(path), 1.0) == {}


def test_a_reader_that_is_slow_holds_up_nothing(tmp_path: Path) -> None:
    read, write = os.pipe()
    teller = look.Teller(write)
    line = {"x": "y" * 50_000}
    told = [teller.tell(line) for _ in range(5)]
    assert told[0]
    assert not told[-1]
    data = b""
    while not teller.flush() or select.select([read], [], [], 0)[0]:
        data += os.read(read, 1 << 16)
    assert {len(one) for one in data.splitlines()} == {len(json.dumps(line, separators=(",", ":")))}
    os.close(read)
    os.close(write)


@pytest.mark.slow
def test_it_costs_less_than_a_hundredth_of_a_core(machine: Callable[..., Looker]) -> None:
    looker = machine().start()
    looker.until(fit)
    assert looker.process

    def cpu() -> float:
        assert looker.process
        pids = [looker.process.pid]
        for task in os.listdir(f"/proc/{looker.process.pid}/task"):
            pids += map(int, Path(f"/proc/{looker.process.pid}/task/{task}/children").read_text().split())
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in dict.fromkeys(pids)]
        return sum(int(number) for stat in stats for number in stat[11:15]) / os.sysconf("SC_CLK_TCK")

    begin, before = time.monotonic(), cpu()
    while time.monotonic() < begin + 70.0:  # one judgement among them
        looker.read(1.0)
    assert (cpu() - before) / (time.monotonic() - begin) < 0.01
