"""The agent as a whole: real processes, the fake NVML, a real store, a real webhook."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.agents import Running
from parts.machines import build_nvml
from parts.webhook import Hook, hook

from ongpu.store import Store
from ongpu.watch.agent import Agent, Options


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def server() -> Iterator[Hook]:
    with hook() as found:
        yield found


def notify(server: Hook, more: str = "") -> str:
    return f'[notify]\nurls = ["json://127.0.0.1:{server.port}/"]\n{more}\n[alerts.gpu-fell-off-bus]\nclear = 1\n'


@pytest.mark.real
@pytest.mark.parametrize(
    ("fault", "slug"),
    [
        ("gpu.3.error = 15", "gpu-fell-off-bus"),
        ("gpu.3.temp = 95", "thermal-throttle"),
        ("gpu.3.ecc_vol_unc = 4", "ecc-uncorrectable"),
    ],
)
def test_from_the_fault_to_the_webhook_in_five_seconds(tmp_path: Path, library: Path, server: Hook, fault: str, slug: str) -> None:
    more = f"[alerts.{slug}]\nhold = 0\nclear = 1\n" if slug != "gpu-fell-off-bus" else ""
    with Running(tmp_path, library, notify(server) + more) as agent:
        time.sleep(1.5)
        start = time.monotonic()
        agent.scenario(fault)
        agent.until(lambda: bool(server.messages))
        took = time.monotonic() - start
        assert "GPU 3" in server.messages[0]["title"]
        assert took < 5, took
        print(f"latency {slug}: {took:.2f} s")  # noqa: T201
        agent.scenario()
        agent.until(lambda: len(server.messages) == 2)
        assert server.messages[1]["type"] == "success"
        assert [(one["slug"], one["gpu"], one["closed"] is None) for one in agent.incidents()] == [(slug, 3, False)]
        assert agent.stop() == 0
    assert slug in agent.out()


@pytest.mark.real
def test_eight_gpus_lost_at_once_are_one_message_and_eight_incidents(tmp_path: Path, library: Path, server: Hook) -> None:
    with Running(tmp_path, library, notify(server)) as agent:
        agent.scenario("gpu.*.error = 15")
        agent.until(lambda: bool(server.messages))
        agent.until(lambda: len(agent.incidents()) == 8)
        time.sleep(2)
        assert len(server.messages) == 1
        assert agent.stop() == 0


@pytest.mark.real
def test_a_driver_that_goes_and_comes_again(tmp_path: Path, library: Path, server: Hook) -> None:
    config = notify(server) + "[alerts.driver-module-not-loaded]\nhold = 1\nclear = 1\n"
    with Running(tmp_path, library, config) as agent:
        agent.scenario("error.Init = 9", "gpu.*.error = 9", "error.Count = 9", "error.Handle = 9")
        agent.until(lambda: any(one["slug"] == "driver-module-not-loaded" for one in agent.incidents()), 30)
        agent.scenario()
        agent.until(lambda: agent.incidents() != [] and agent.incidents(open_only=True) == [], 40)
        assert {one["slug"] for one in agent.incidents()} == {"driver-module-not-loaded"}
        assert agent.stop() == 0


@pytest.mark.real
@pytest.mark.slow
def test_a_gpu_that_hangs_from_the_start_is_told_and_the_others_are_sampled(tmp_path: Path, library: Path) -> None:
    agent = Running(tmp_path, library, "[alerts.driver-hung]\nhold = 1\nclear = 1\n[sample]\nper_call = 0.5\n")
    agent.scenario("gpu.5.hang = 1")
    with agent:
        assert agent.now()["gpus"][4]["condition"] == "ok"
        agent.until(lambda: [(one["slug"], one["gpu"]) for one in agent.incidents()] == [("driver-hung", 5)], 40)
        before = agent.now()["time"]
        agent.until(lambda: agent.now()["time"] > before + 2)
        assert agent.stop() == 0


@pytest.mark.real
def test_a_gpu_that_is_missing_since_the_last_run_is_lost(tmp_path: Path, library: Path) -> None:
    agent = Running(tmp_path, library, gpus=4)
    with agent:
        agent.until(lambda: len(agent.now()["gpus"]) == 4)
        agent.stop()
    agent.gpus = 3
    agent.scenario()
    with agent:
        agent.until(lambda: [(one["slug"], one["gpu_uuid"][-1]) for one in agent.incidents()] == [("gpu-fell-off-bus", "3")])
        agent.stop(signal.SIGKILL)
    with agent:  # and still is after another start
        time.sleep(2)
        assert len(agent.incidents(open_only=True)) == 1
        agent.send(signal.SIGHUP)  # what is there now is all there should be
        agent.until(lambda: agent.incidents(open_only=True) == [])
        agent.stop()


@pytest.mark.real
def test_a_gpu_that_was_replaced_is_not_lost_and_its_incident_is_over(tmp_path: Path, library: Path) -> None:
    agent = Running(tmp_path, library, gpus=4)
    with agent:
        agent.scenario("gpu.2.error = 15")
        agent.until(lambda: len(agent.incidents(open_only=True)) == 1)
        agent.stop()
    agent.scenario("gpu.2.uuid = GPU-fa4e0000-0000-4000-8000-00000000beef")
    with agent:
        agent.until(lambda: agent.incidents(open_only=True) == [])
        time.sleep(1)
        assert len(agent.incidents()) == 1
        assert [gpu["uuid"][-4:] for gpu in agent.now()["gpus"]] == ["0000", "0001", "beef", "0003"]
        agent.stop()


@pytest.mark.real
def test_killed_and_started_again_it_goes_on_where_it_was(tmp_path: Path, library: Path, server: Hook) -> None:
    agent = Running(tmp_path, library, notify(server))
    with agent:
        agent.scenario("gpu.3.error = 15")
        agent.until(lambda: bool(server.messages))
        agent.stop(signal.SIGKILL)
    with agent:
        time.sleep(2)
        assert len(agent.incidents()) == 1
        agent.scenario()
        agent.until(lambda: agent.incidents(open_only=True) == [])
        agent.until(lambda: server.messages[-1]["type"] == "success")
        assert len([told for told in server.messages if told["type"] == "failure"]) <= 2  # a kill between sending and noting it
        assert agent.stop() == 0


@pytest.mark.real
def test_a_second_agent_on_one_history_is_refused_in_one_line(tmp_path: Path, library: Path) -> None:
    with Running(tmp_path, library) as agent:
        second = subprocess.run(
            [sys.executable, "-m", "ongpu", "watch", "--store", str(agent.store)], capture_output=True, text=True, timeout=30,
            env={**os.environ, "LC_ALL": "C.UTF-8"}, check=False,
        )  # fmt: skip
        assert second.returncode == 3
        assert second.stderr.count("\n") == 1
        assert "another `ongpu watch`" in second.stderr
        assert agent.stop() == 0


@pytest.mark.real
def test_hup_reads_the_configuration_again_and_keeps_the_old_one_where_it_is_wrong(tmp_path: Path, library: Path, server: Hook) -> None:
    with Running(tmp_path, library) as agent:
        (tmp_path / "watch.toml").write_text("[notify]\nurls = 3\n")
        agent.send(signal.SIGHUP)
        agent.until(lambda: "notify.urls" in agent.err())
        assert "the old configuration stays" in agent.err()
        (tmp_path / "watch.toml").write_text(notify(server))
        agent.send(signal.SIGHUP)
        agent.until(lambda: "configuration read again" in agent.err())
        agent.scenario("gpu.0.error = 15")
        agent.until(lambda: bool(server.messages))
        assert agent.stop() == 0


def test_it_starts_without_a_driver(tmp_path: Path) -> None:
    agent = Running(tmp_path, tmp_path)
    try:
        agent.start(up=False)
        agent.until(lambda: agent.now()["reason"] != "starting")
        assert agent.now()["up"] is False
        assert agent.stop() == 0
    finally:
        agent.__exit__()


def demo(tmp_path: Path, seconds: float, start: float, speed: float = 1.0, config: str = "") -> tuple[Agent, str, str]:
    """The agent on the simulated node, from that second of its story on."""
    (tmp_path / "watch.toml").write_text(f'[metrics]\nlisten = ""\n{config}')
    out, err = io.StringIO(), io.StringIO()
    feed = {"start": start, "speed": speed}
    agent = Agent(Options(demo=True, config=tmp_path / "watch.toml", store=tmp_path / "w.db", kernel_log=None, feed=feed), out, err)
    threading.Timer(seconds, agent.stop).start()
    assert agent.run() == 0
    return agent, out.getvalue(), err.getvalue()


@pytest.mark.slow
def test_the_demonstration_shows_its_faults_and_keeps_them(tmp_path: Path) -> None:
    agent, out, err = demo(tmp_path, 7, 90)
    assert re.search(r"critical +GPU 7 +ecc-uncorrectable", out)
    assert agent.parts.errors == {}
    assert agent.judge.crashed == {}
    assert "simulated" in err
    with Store(tmp_path / "w.db", readonly=True) as store:
        assert [one["slug"] for one in store.incidents()] == ["ecc-uncorrectable"]
        events = [one for one in store.events() if one["kind"] == "xid"]
        assert {one["code"] for one in events} == {94, 63}
        assert len(events) == 2  # told by NVML and by the log
        told = json.loads(store.now() or "")
        assert told["gpus"][7]["condition"] == "ok"
        assert {one["slug"] for one in told["findings"]} >= {"ecc-uncorrectable"}
        assert store.gpus()[7].uuid == told["gpus"][7]["uuid"]


@pytest.mark.slow
def test_an_applications_xid_is_an_event_of_its_program_and_no_incident(tmp_path: Path) -> None:
    agent, out, _ = demo(tmp_path, 6, 78)
    assert out == ""
    assert agent.incidents.open == []
    with Store(tmp_path / "w.db", readonly=True) as store:
        (event,) = [one for one in store.events() if one["kind"] == "xid"]
    assert (event["code"], event["gpu"], event["application"]) == (31, 6, True)
    assert event["pid"]
    assert event["user"] == "frank"
    assert "the program's own fault" in event["en"]
    assert "程序自身的错误" in event["zh"]


@pytest.mark.slow
def test_a_slug_that_is_off_opens_nothing(tmp_path: Path) -> None:
    agent, out, _ = demo(tmp_path, 5, 90, config="[alerts.ecc-uncorrectable]\noff = true\n")
    assert out == ""
    assert agent.incidents.open == []


@pytest.mark.slow
def test_a_part_that_fails_stops_no_other_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr("ongpu.watch.window.Window.take", broken)
    agent, out, err = demo(tmp_path, 6, 90)
    assert agent.parts.errors["window"] > 3
    assert err.count("window: RuntimeError: no more") == 1
    assert "ecc-uncorrectable" in out


@pytest.mark.slow
def test_what_the_notifier_could_not_send_is_counted_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ongpu.fronts.cli import run

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    urls = f'[notify]\nurls = ["json://127.0.0.1:{port}/"]\nleast = "info"\ngroup_wait = 0\n'
    agent, _, err = demo(tmp_path, 7, 90, config=urls)
    assert agent.parts.errors["notify"] >= 1
    assert "notify.urls, number 1" in err
    run(["watch", "status", "--store", str(tmp_path / "w.db"), "--lang", "en"])
    assert "problem    notify.urls, number 1" in capsys.readouterr().out


def test_a_feed_that_fails_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ongpu.hosts.sampling.feed import Feed

    real, calls = Feed.next, []

    def sometimes(self: Feed, timeout: float = 1.0) -> object:
        calls.append(1)
        if len(calls) == 10:
            raise OSError(24, "Too many open files")
        return real(self, timeout)

    monkeypatch.setattr(Feed, "next", sometimes)
    agent, _, err = demo(tmp_path, 4, 0)
    assert agent.parts.errors == {"feed": 1}
    assert "Too many open files" in err
    assert agent.state.up


@pytest.mark.slow
def test_memory_and_time_of_the_agent(tmp_path: Path) -> None:
    """With history, judgement, metrics and notifications: the agent and its child together, as the kernel counts them."""
    with open(tmp_path / "err.txt", "w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "ongpu", "watch", "--demo", "--store", str(tmp_path / "w.db"), "--listen", "127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=err,
        )  # fmt: skip
    try:
        time.sleep(25)
        family = [process.pid, *map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]
        used = {pid: memory(pid) for pid in family}
        print({pid: f"{kib / 1024:.1f} MiB" for pid, kib in used.items()})  # noqa: T201
        assert sum(used.values()) < 60 * 1024
    finally:
        process.terminate()
        process.wait(15)


def memory(pid: int) -> int:
    """KiB that the process has for itself, and its share of what others have too (Pss)."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]
