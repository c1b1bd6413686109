"""The real child and nvidia-ml-py on the fake NVML: every code at every call, hangs, reloads, kills; State is honest and recovers."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ongpu.engine import diagnose
from ongpu.facts.hardware import Gpus
from ongpu.facts.sample import COLUMNS
from ongpu.hosts.sampling import feed as module
from ongpu.hosts.sampling.calls import DRIVER_WIDE, FAST
from ongpu.hosts.sampling.feed import Feed
from ongpu.model import Evidence
from ongpu.watch.state import GpuState, State

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="the fake is a library for Linux")]

CODES = [*range(1, 31), 999]
NAMES = {
    "util": "UtilizationRates", "mem_used": "MemoryInfo", "temp": "Temperature", "power": "PowerUsage", "sm_clock": "ClockInfo",
    "reasons": "ClocksThrottleReasons", "energy": "TotalEnergyConsumption", "ecc": "TotalEccErrors", "replays": "PcieReplayCounter",
    "processes": "ComputeRunningProcesses",
}  # fmt: skip


class Watched:
    """A node with its scenario, a feed and a state."""

    def __init__(self, folder: Path, library: Path, gpus: int = 3, **options: Any) -> None:
        self.scenario, self.gpus = folder / "scenario.txt", gpus
        self.set()
        environ = {**os.environ, "FAKE_NVML": str(self.scenario), "LD_LIBRARY_PATH": str(library)}
        own = {"interval": 0.1, "per_call": 0.6, "start_call": 1.0, "proc_every": 0.2, "full_every": 0.0, "kernel_log": None}
        self.feed = Feed(
            **{**own, **options, "environ": environ, "options": {"count_every": 0.2, "list_every": 0.1, **options.get("options", {})}}
        )
        self.state = State(interval=0.1)
        self.seen: list[dict[str, Any]] = []
        self.keep = False

    def set(self, *lines: str) -> None:
        """Another scenario, whole at once."""
        other = self.scenario.with_suffix(".new")
        other.write_text("\n".join([f"gpus = {self.gpus}", "reload = 1", "gpu.*.fan = 30", *lines]) + "\n")
        other.replace(self.scenario)

    def run(self, until: Callable[[State], bool], seconds: float = 40.0) -> bool:
        """Whether that became so in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = self.feed.next(0.1)
            if message:
                self.state.take(message, time.time())
                if self.keep:
                    self.seen.append(message)
            self.state.tick(time.time())
            assert all((gpu.row is not None) == (gpu.condition == "ok") for gpu in self.state.gpus.values())
            if until(self.state):
                return True
        return False

    def conditions(self) -> list[str]:
        return [gpu.condition for gpu in self.state.gpus.values()]

    def told(self) -> str:
        """What a failing test shows."""
        gpus = [(gpu.index, gpu.condition, gpu.code, gpu.why, gpu.hung_in) for gpu in self.state.gpus.values()]
        return f"{self.state.up} {self.state.reason!r} restarts {self.state.restarts} {gpus} {self.scenario.read_text()!r}"

    def well(self, state: State) -> bool:
        """All GPUs answer everything."""
        return state.up and len(state.gpus) == self.gpus and all(
            gpu.condition == "ok" and not gpu.why and gpu.uuid == uuid(gpu.index) for gpu in state.gpus.values()
        )  # fmt: skip


def refused(gpu: GpuState, column: str, code: int) -> bool:
    """Whether the GPU is well but for that column, which is not told, for that reason."""
    told = bool(gpu.processes) if column == "processes" else gpu.value(column) is not None
    return gpu.condition == "ok" and gpu.why.get(column) == code and not told


def uuid(index: int) -> str:
    return f"GPU-fa4e0000-0000-4000-8000-{index:012x}"


@pytest.fixture
def watch(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Watched]]:
    monkeypatch.setattr(module, "WAITS", (0.1, 0.2))
    monkeypatch.setattr(module, "ALONE_WAITS", (0.2, 0.4))
    found: list[Watched] = []

    def make(**options: Any) -> Watched:
        found.append(Watched(tmp_path, nvml, **options))
        return found[-1]

    yield make
    for one in found:
        one.feed.close()


def test_all_is_told(watch: Callable[..., Watched]) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        node = watch(full_every=60.0)
        node.set(
            f"gpu.1.proc = {process.pid},4000,C,40", "gpu.2.proc = 4194399,77,G", "gpu.0.xid = 79", "driver = 550.54.15", "cuda = 12040"
        )
        assert node.run(
            lambda s: node.well(s) and bool(s.events) and bool(s.full) and bool(s.gpus[1].processes) and bool(s.gpus[2].processes)
        )
        assert node.run(lambda s: s.gpus[1].processes[0].cpu_share is not None)
        process.kill()
    state = node.state
    assert (state.driver, state.cuda, state.count, state.reason) == ("550.54.15", 12040, 3, "")
    gpu = state.gpus[1]
    assert (gpu.name, gpu.bus, gpu.identity["mem_total"], gpu.identity["mig"]) == ("NVIDIA A100-SXM4-80GB", "0000:1b:00.0", 81920, False)
    assert {name: gpu.value(name) for name in COLUMNS if name not in ("energy", "pcie_tx", "pcie_rx")} == {
        "util": 10, "mem_util": 5, "mem_used": 8921, "temp": 42, "power": 65000, "sm_clock": 1410, "mem_clock": 1593, "reasons": 0,
        "fan": 30, "ecc": 0, "replays": 0,
    }  # fmt: skip
    assert gpu.identity["temp_limit"] == 89
    (program,) = gpu.processes
    assert (program.pid, program.mem, program.kind, program.sm, program.host["command"]) == (process.pid, 4000, "C", 40, "sleep 60")
    assert program.cpu_share == 0.0
    (other,) = state.gpus[2].processes
    assert (other.kind, other.mem, other.host) == ("G", 77, {})
    assert state.gpus[0].xids == {79: 1}
    assert node.run(lambda s: s.gpus[0].value("pcie_tx") == 1000 and s.gpus[2].value("pcie_rx") == 2000)
    cards = diagnose([Evidence("nvml", state.full or "", "NVML")], "test").fact(Gpus)
    assert cards
    assert [card.uuid for card in cards.gpus] == [uuid(i) for i in range(3)]


@pytest.mark.parametrize("code", CODES)
def test_every_code_at_init(code: int, watch: Callable[..., Watched]) -> None:
    node = watch()
    node.set(f"error.Init = {code}")
    assert node.run(lambda s: s.code == code)
    assert (node.state.up, bool(node.state.reason)) == (False, True)
    node.set()
    assert node.run(node.well)


@pytest.mark.parametrize("code", [3, 4, 9, 15, 16, 999, pytest.param(None, marks=pytest.mark.slow)])
def test_every_code_of_one_handle(code: int | None, watch: Callable[..., Watched]) -> None:
    """From the start: no name, yet the index; when it answers, its name."""
    for one in CODES if code is None else [code]:
        node = watch()
        node.set(f"gpu.1.handle_error = {one}")
        assert node.run(lambda s, one=one: s.up and s.gpus[1].code == one), one
        assert node.state.gpus[1].condition == {4: "denied", 15: "lost", 16: "lost"}.get(one, "error")
        assert (node.state.gpus[0].condition, node.state.gpus[2].condition, node.state.count) == ("ok", "ok", 3)
        node.set()
        assert node.run(node.well), node.told()
        node.feed.close()


@pytest.mark.parametrize("code", [2, 3, 4, 9, 10, 13, 15, 16, 25, 999, pytest.param(None, marks=pytest.mark.slow)])
def test_every_code_mid_run(code: int | None, watch: Callable[..., Watched]) -> None:
    """At each call of one GPU, and at all its calls; the others go on."""
    node = watch()
    assert node.run(node.well)
    for one in CODES if code is None else [code]:
        node.set(f"gpu.1.error = {one}")
        assert node.run(lambda s: s.gpus[1].condition != "ok"), one
        gpu = node.state.gpus[1]
        assert (gpu.condition, gpu.code) == ({4: "denied", 15: "lost", 16: "lost"}.get(one, "error"), one)
        assert (gpu.uuid, gpu.index, node.conditions()[0], node.conditions()[2]) == (uuid(1), 1, "ok", "ok")
        for column, word in NAMES.items():
            node.set(f"gpu.1.error.{word} = {one}")
            if one in (15, 16) and any(column in names for names in FAST):
                assert node.run(lambda s, one=one: s.gpus[1].condition == "lost" and s.gpus[1].code == one), (one, word)
            elif (one, column) not in ((13, "processes"), (13, "reasons"), (13, "mem_used"), (25, "mem_used"), (13, "temp")):
                assert node.run(lambda s, one=one, c=column: refused(s.gpus[1], c, one)), (one, word)
                assert node.run(lambda s: [s.gpus[i].why for i in (0, 2)] == [{}, {}]), (one, word)  # the stand-in was read half, once
            assert [node.conditions()[i] for i in (0, 2)] == ["ok", "ok"]
        node.set()
        assert node.run(node.well), node.told()
    assert node.state.restarts == 0


@pytest.mark.parametrize("code", [1, 4, 9, 15, 18, 999, pytest.param(None, marks=pytest.mark.slow)])
def test_every_code_of_all_gpus_mid_run(code: int | None, watch: Callable[..., Watched]) -> None:
    node = watch()
    assert node.run(node.well)
    for one in CODES if code is None else [code]:
        node.set(f"error.* = {one}")
        assert node.run(
            lambda s, one=one: "ok" not in node.conditions() and (s.code == one or all(g.code == one for g in s.gpus.values()))
        ), one
        if one in DRIVER_WIDE:
            assert not node.state.up
        assert [gpu.uuid for gpu in node.state.gpus.values()] == [uuid(i) for i in range(3)]
        node.set()
        assert node.run(node.well), node.told()


def test_no_permission_to_list_is_not_none(watch: Callable[..., Watched]) -> None:
    node = watch()
    node.set("gpu.1.error.RunningProcesses = 4", "gpu.1.mig = 1", "gpu.1.error.Utilization = 3")
    assert node.run(lambda s: s.up and s.gpus[1].why.get("processes") == 4 and s.gpus[1].why.get("util") == 3)
    gpu = node.state.gpus[1]
    assert (gpu.condition, gpu.processes, gpu.value("util"), gpu.identity["mig"]) == ("ok", [], None, True)


def test_an_old_driver(watch: Callable[..., Watched]) -> None:
    node = watch()
    node.set("missing.MemoryInfo_v2 = 1", "missing.Processes_v3 = 1", "missing.EventSetWait = 1", "gpu.0.proc = 4194399,77,C")
    assert node.run(lambda s: s.up and bool(s.gpus[0].processes))
    assert node.state.gpus[0].value("mem_used") == 8921 + 600  # the first version counts what the driver reserves
    assert node.state.gpus[0].why == {}


@pytest.mark.parametrize("where", ["Temperature", "RunningProcesses", "FanSpeed", "PowerUsage"])
def test_one_gpu_hangs(where: str, watch: Callable[..., Watched]) -> None:
    """The others are asked on; it is asked alone, and rejoins."""
    node = watch()
    assert node.run(node.well)
    node.set(f"gpu.1.hang.{where} = 1")
    assert node.run(lambda s: s.gpus[1].condition == "hung")
    gpu = node.state.gpus[1]
    assert where in (gpu.hung_in or "")
    assert (gpu.uuid, gpu.row) == (uuid(1), None)
    assert node.run(lambda s: node.conditions() == ["ok", "hung", "ok"] and s.up)
    before = node.state.samples
    assert node.run(lambda s: s.samples > before + 10)
    assert node.conditions() == ["ok", "hung", "ok"]
    node.set()
    assert node.run(node.well)
    assert node.feed.alone == {}


def test_the_handle_of_one_gpu_hangs_from_the_start(watch: Callable[..., Watched]) -> None:
    node = watch()
    node.set("gpu.1.hang = 1")
    assert node.run(lambda s: s.up and node.conditions() == ["ok", "unknown", "ok"])  # asked still, while the others are sampled
    assert node.run(lambda s: s.up and node.conditions() == ["ok", "hung", "ok"])
    node.set()
    assert node.run(node.well)


def test_the_driver_hangs(watch: Callable[..., Watched]) -> None:
    node = watch()
    node.set("hang.Init = 1")
    assert node.run(lambda s: "hangs" in s.reason)
    assert (node.state.up, node.state.reason) == (False, "nvmlInit_v2 hangs")
    node.set()
    assert node.run(node.well)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_the_child_is_stopped(sent: signal.Signals, watch: Callable[..., Watched]) -> None:
    node = watch()
    assert node.run(node.well)
    assert node.feed.main
    os.kill(node.feed.main.popen.pid, sent)
    assert node.run(lambda s: not s.up)
    assert node.conditions() == ["unknown"] * 3
    assert node.run(node.well)


def test_fewer_gpus_after_a_reload(watch: Callable[..., Watched]) -> None:
    node = watch()
    assert node.run(node.well)
    node.gpus = 2
    node.set()
    assert node.feed.main
    os.kill(node.feed.main.popen.pid, signal.SIGKILL)
    assert node.run(lambda s: node.conditions() == ["ok", "ok", "gone"])
    assert node.state.gpus[2].uuid == uuid(2)
    node.gpus = 3
    node.set()
    assert node.feed.main
    os.kill(node.feed.main.popen.pid, signal.SIGKILL)
    assert node.run(node.well)


@pytest.mark.parametrize("line", ["", "gpu.0.hang.Temperature = 1", "hang.Init = 1"])
def test_the_child_goes_when_its_parent_is_killed(line: str, tmp_path: Path, nvml: Path) -> None:
    """Whatever hangs."""
    (tmp_path / "scenario").write_text(f"gpus = 1\n{line}\n")
    program = (
        "from ongpu.hosts.sampling.feed import Feed\nimport time\nf = Feed(0.2, kernel_log=None)\nf.next(0)\n"
        "print(f.main.popen.pid, flush=True)\nwhile True: f.next(1)"
    )
    environ = {**os.environ, "FAKE_NVML": str(tmp_path / "scenario"), "LD_LIBRARY_PATH": str(nvml)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        time.sleep(0.7)
        parent.kill()
    end = time.monotonic() + 10
    while time.monotonic() < end and Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes():
        time.sleep(0.05)
    assert not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes()


def test_the_doctor_is_asked_at_once_where_something_changes(watch: Callable[..., Watched]) -> None:
    node = watch(full_every=600.0)
    assert node.run(lambda s: node.well(s) and s.full is not None)
    first = node.state.full_time
    node.set("gpu.2.reasons = 0x40", "gpu.2.temp = 89")
    assert node.run(lambda s: s.full_time != first)
    cards = diagnose([Evidence("nvml", node.state.full or "", "NVML")], "test").fact(Gpus)
    assert cards
    assert cards.gpus[2].throttle == ("HW Thermal Slowdown",)
    second = node.state.full_time
    assert not node.run(lambda s: s.full_time != second, 3.0)  # once
    node.set("gpu.1.error = 15")
    assert node.run(lambda s: s.full_time != second)


FAULTS = (
    "gpu.{i}.error = 15", "gpu.{i}.error = 999", "gpu.{i}.error = 16", "gpu.{i}.error = 4", "gpu.{i}.error.PowerUsage = 999", "error.* = 9",
    "error.* = 999", "error.* = 18", "error.Init = 9", "gpu.{i}.hang.Temperature = 1", "gpu.{i}.hang.UtilizationRates = 1", "kill", "stop",
    "gpu.{i}.error.RunningProcesses = 4", "gpu.{i}.handle_error = 15",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("ONGPU_SCHEDULES", "10"))))
def test_random_schedules(seed: int, watch: Callable[..., Watched]) -> None:
    """Faults upon faults; what has one is never told as well once it was asked, nobody is forgotten, and all recovers."""
    chance, node = random.Random(seed), watch()
    assert node.run(node.well)
    for _ in range(6):
        lines: list[str] = []
        for fault in chance.sample(FAULTS, chance.randint(1, 3)):
            if fault in ("kill", "stop"):
                if node.feed.main:
                    os.kill(node.feed.main.popen.pid, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
            else:
                lines.append(fault.format(i=chance.randrange(3)))
        node.set(*lines)
        changed = time.time()
        silent = {int(line[4]) for line in lines if ".error = " in line or ".hang." in line}
        everyone = any(line.startswith("error.* ") for line in lines)

        def honest(state: State, silent: set[int] = silent, everyone: bool = everyone) -> bool:
            return all(state.gpus[i].condition != "ok" for i in (range(3) if everyone else silent))

        later: list[int] = []  # the first sample after the change; the fake library looks at its scenario every 100 ms

        def lies(state: State, changed: float = changed, later: list[int] = later, honest: Callable[..., bool] = honest) -> bool:
            if not later and (state.time or 0.0) > changed:
                later.append(state.samples)
            return bool(later) and state.samples > later[0] + 2 and not honest(state)

        assert node.run(honest), node.told()
        end = time.monotonic() + chance.uniform(0.2, 1.5)
        assert not node.run(lies, end - time.monotonic()), node.told()
        assert node.run(honest), node.told()
        assert [gpu.uuid for gpu in node.state.gpus.values()] == [uuid(i) for i in range(3)]
        if chance.random() < 0.5:
            node.set()
            assert node.run(node.well, 30), node.told()
    node.set()
    assert node.run(node.well, 30), node.told()


@pytest.mark.slow
def test_ten_thousand_processes_make_no_sample_late(tmp_path: Path, nvml: Path, watch: Callable[..., Watched]) -> None:
    root = tmp_path / "root"
    stat = "{} (python) R 1 0 0 0 0 0 0 0 0 0 200 50 0 0 20 0 1 0 9 1 25600" + " 0" * 28
    for pid in range(100_000, 102_000):
        folder = root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(stat.format(pid))
        (folder / "cmdline").write_bytes(b"python\0train.py\0")
        (folder / "io").write_text("rchar: 1\nread_bytes: 1\n")
    node = watch(gpus=8, root=str(root), proc_every=1.0, options={"list_every": 1.0})
    node.keep = True
    node.set(*(f"gpu.{n % 8}.proc = {100_000 + n},10,C,1" for n in range(10_000)))
    assert node.run(lambda s: s.up and sum(len(gpu.processes) for gpu in s.gpus.values()) == 10_000, 30)
    node.seen.clear()
    node.run(lambda s: False, 8)
    samples = [message for message in node.seen if message["k"] == "s"]
    first = samples[0]
    late = [m["c"] - first["c"] - (m["n"] - first["n"]) * 0.1 for m in samples]
    assert samples[-1]["n"] - first["n"] == len(samples) - 1  # none is missing
    assert max(late) < 0.1, sorted(late)[-5:]
    assert sorted(late)[len(late) // 2] < 0.01
    assert sum(message["k"] == "p" for message in node.seen) >= 2
    assert len({pid for message in node.seen for pid in message.get("h", ())}) >= 256
