"""`ongpu watch` as a user types it: every action, its exit code, one line for each mistake, both languages."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from fronts_run import ongpu
from parts.webhook import hook

from ongpu.fronts.watch import ACTIONS
from ongpu.report.layout import width_of
from ongpu.store import Store
from ongpu.watch.incidents import Incident
from ongpu.watch.state import State


def incident(**changes: Any) -> dict[str, Any]:
    words = {
        "en": {"title": "GPU 3 is lost", "why": "Power.", "fix": "Cables."},
        "zh": {"title": "GPU 3 掉卡", "why": "供电。", "fix": "查线。"},
    }
    told = Incident(
        0, "gpu-fell-off-bus", "GPU 3", 3, "GPU-abc", "error", "certain", "critical", "condition", time.time() - 60, words=words,
        commands=({"run": "sudo dmesg", "risk": "safe"},), refs=({"source": "dmesg", "line": 1, "quote": "Xid 79"},),
    ).as_json()  # fmt: skip
    return {**told, **changes}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A store that an agent has just written: one GPU, no incidents."""
    path = tmp_path / "watch.db"
    write(path, time.time())
    return path


def write(path: Path, at: float, *incidents: dict[str, Any], up: bool = True, closed: float | None = None) -> None:
    state = State(up=up, reason="" if up else "Driver Not Loaded")
    state.gpu(3).condition = "ok"
    with Store(path) as store:
        store.see_gpu("GPU-abc", 3, "NVIDIA H200", "0000:3b:00.0", 143771)
        for one in incidents:
            number = store.open_incident(one["opened"], one)
            if closed:
                store.close_incident(number, closed)
        store.put_now(f'{{"written": {at}, "host": "node7", ' + state.as_json()[1:])


def watch(path: Path, *arguments: str, **environ: str) -> Any:
    return ongpu("watch", *arguments, "--store", str(path), **environ)


def test_status_of_a_healthy_machine_is_0(history: Path) -> None:
    done = watch(history, "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"agent +well", done.stdout)
    assert re.search(r"GPUs +1 answering", done.stdout)


def test_status_with_an_open_fault_is_1(history: Path) -> None:
    write(history, time.time(), incident())
    done = watch(history, "status")
    assert done.returncode == 1
    assert "GPU 3  gpu-fell-off-bus: GPU 3 is lost" in done.stdout
    told = json.loads(watch(history, "status", "--format", "json").stdout)
    assert (told["exit"], told["silent"], told["up"], told["gpus"][0]["condition"]) == (1, False, True, "ok")
    assert told["incidents"][0]["slug"] == "gpu-fell-off-bus"


def test_a_note_is_no_fault(history: Path) -> None:
    write(history, time.time(), incident(label="info", slug="gpu-held-idle"))
    assert watch(history, "status").returncode == 0


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_status_of_a_silent_agent_is_3(history: Path, lang: str) -> None:
    write(history, time.time() - 3600)
    done = watch(history, "status", "--lang", lang)
    assert done.returncode == 3
    assert ("SILENT" if lang == "en" else "无响应") in done.stdout


def test_status_without_a_driver_is_3_and_says_why(history: Path) -> None:
    write(history, time.time(), up=False)
    done = watch(history, "status")
    assert done.returncode == 3
    assert "Driver Not Loaded" in done.stdout


@pytest.mark.parametrize("action", ["status", "incidents"])
def test_without_a_history_one_line_says_so(tmp_path: Path, action: str) -> None:
    for lang, words in (("en", "no history here yet"), ("zh", "还没有历史记录")):
        done = watch(tmp_path / "none.db", action, "--lang", lang)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert words in done.stderr


def test_incidents_open_all_and_one(history: Path) -> None:
    assert watch(history, "incidents").returncode == 0
    write(history, time.time(), incident(opened=time.time() - 600), closed=time.time())
    write(history, time.time(), incident(slug="thermal-throttle", label="warning"))
    done = watch(history, "incidents")
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["2"]
    assert len(watch(history, "incidents", "--all").stdout.splitlines()) == 2
    whole = watch(history, "incidents", "1", "--lang", "zh")
    assert "修复：查线。" in whole.stdout
    assert "$ sudo dmesg   [安全]" in whole.stdout
    assert json.loads(watch(history, "incidents", "--format", "json").stdout)[0]["slug"] == "thermal-throttle"
    assert watch(history, "incidents", "77").returncode == 2
    assert "  resolved  " in watch(history, "incidents", "1").stdout.splitlines()[0]
    assert watch(history, "incidents", "2").stdout.startswith("[warning]")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_told_of_incidents_fits_the_terminal(history: Path, lang: str) -> None:
    english = {"title": "GPU 3 is lost " * 9, "why": "Power. " * 30, "fix": "Cables."}
    long = {"en": english, "zh": {"title": "掉卡" * 50, "why": "供电。" * 60, "fix": "查线。"}}
    command = "sudo dmesg " + "--one-option " * 9
    write(history, time.time(), incident(words=long, commands=[{"run": command, "risk": "safe"}]))
    for action in (["status"], ["incidents"], ["incidents", "1"]):
        told = watch(history, *action, "--lang", lang).stdout.replace(str(history), "")
        assert [row for row in told.splitlines() if width_of(row) > 80 and "dmesg" not in row] == []
        assert ("掉卡" * 50 if lang == "zh" else "GPU3islost" * 9) in "".join(told.split())  # nothing is left out
    assert command in told


def test_silences(history: Path) -> None:
    done = watch(history, "silence", "3", "gpu-fell-off-bus", "--for", "30m", "--why", "cable on its way")
    assert done.returncode == 0
    assert "gpu-fell-off-bus GPU-abc" in done.stdout
    assert "cable on its way" in done.stdout
    with Store(history, readonly=True) as store:
        (one,) = store.silences(time.time())
        assert (one["slug"], one["gpu_uuid"]) == ("gpu-fell-off-bus", "GPU-abc")
        assert 1700 < one["until"] - time.time() <= 1800
    assert watch(history, "silence", "--end", "1").stdout == ""
    for number in ("1", "99"):
        done = watch(history, "silence", "--end", number)
        assert (done.returncode, done.stderr) == (2, f"ongpu: no silence {number} holds now\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gpu-fel-off",), "did you mean: gpu-fell-off-bus"), (("7",), "no GPU that was seen here"),
        (("3", "--for", "ever"), "--for ever: no time"),
    ],
)  # fmt: skip
def test_silences_that_are_none(history: Path, arguments: tuple[str, ...], words: str) -> None:
    done = watch(history, "silence", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


def test_the_configuration_is_shown_and_a_wrong_one_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "watch.toml"
    path.write_text('[notify]\nurls = ["slack://secret"]\n')
    done = ongpu("watch", "config", "--config", str(path))
    assert 'urls = ["slack://***"]' in done.stdout
    assert "secret" not in done.stdout
    path.write_text("[sample]\ninterval = 0\n")
    for lang in ("en", "zh"):
        done = ongpu("watch", "--config", str(path), "--lang", lang)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "sample.interval" in done.stderr
    assert ongpu("watch", "config", "--config", str(tmp_path / "none")).returncode == 2
    assert ongpu("watch", "--listen", "nowhere").returncode == 2


def test_rules_and_dashboard_are_printed(tmp_path: Path) -> None:
    import yaml

    path = tmp_path / "watch.toml"
    path.write_text("[alerts.thermal-throttle]\nhold = 7\n")
    told = yaml.safe_load(ongpu("watch", "rules", "--config", str(path)).stdout)["groups"][0]["rules"]
    assert next(one["for"] for one in told if one["labels"]["slug"] == "thermal-throttle") == "7s"
    assert yaml.safe_load(ongpu("watch", "rules", "--tests").stdout)["tests"]
    assert json.loads(ongpu("watch", "dashboard").stdout)["panels"]


def test_the_test_message_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "watch.toml"
    with hook() as server:
        path.write_text(f'[notify]\nurls = ["json://127.0.0.1:{server.port}/topsecret", "nosuch://topsecret"]\nlanguage = "zh"\n')
        done = ongpu("watch", "--test-notify", "--config", str(path))
        assert done.returncode == 1
        assert re.search(r"1  json://\*\*\*  sent\n2  nosuch://\*\*\*  not sent: ", done.stdout)
        assert "topsecret" not in done.stdout + done.stderr
        assert "测试" in server.messages[0]["title"]
    path.write_text("")
    assert ongpu("watch", "--test-notify", "--config", str(path)).returncode == 2


def test_install_writes_a_unit_and_uninstall_removes_it(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    unit = tmp_path / ".config/systemd/user/ongpu-watch.service"
    shown = ongpu("watch", "install", "--user", "--show", **home)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert not unit.exists()
    done = ongpu("watch", "install", "--user", **home)
    assert done.returncode == 0
    assert unit.read_text() == shown.stdout
    assert done.stdout.startswith(shown.stdout)
    assert "ExecStart=" in unit.read_text()
    assert "systemctl --user enable --now ongpu-watch.service" in done.stdout
    gone = ongpu("watch", "uninstall", "--user", **home)
    assert gone.returncode == 0
    assert "systemctl --user stop ongpu-watch.service" in gone.stdout
    assert ongpu("watch", "install", "--user", "--store", "/x.db", **home).returncode == 2
    assert not unit.exists()
    again = ongpu("watch", "uninstall", "--user", **home)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(("lang", "words"), [("en", "it could not start"), ("zh", "将无法启动")])
def test_install_warns_of_what_the_service_could_not_read(tmp_path: Path, lang: str, words: str) -> None:
    config = tmp_path / "ongpu.toml"
    config.write_text("")
    config.chmod(0o600)
    done = ongpu("watch", "install", "--show", "--config", str(config), "--lang", lang)
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if str(config) in line]
    assert len(told) == 1
    assert words in told[0]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_agent_refuses_a_file_that_is_no_history(tmp_path: Path, lang: str) -> None:
    path = tmp_path / "fstab"
    path.write_text("/dev/sda1 / ext4\n")
    done = watch(path, "--lang", lang, "--listen", "")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert ("was left as it is" if lang == "en" else "未做任何改动") in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["fstab"]
    assert path.read_text() == "/dev/sda1 / ext4\n"


def test_a_token_is_made_once_and_kept_for_its_owner(tmp_path: Path) -> None:
    first, second = (watch(tmp_path / "w.db", "token") for _ in range(2))
    assert first.stdout == second.stdout
    assert len(first.stdout.strip()) >= 32
    assert oct((tmp_path / "web.token").stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("action", ["", *ACTIONS])
def test_every_action_has_help_in_both_languages(action: str, lang: str) -> None:
    done = ongpu("watch", *([action] if action else []), "--help", "--lang", lang)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("usage: ongpu watch" if lang == "en" else "用法：ongpu watch") in done.stdout
    assert bool(re.search(r"[\u4e00-\u9fff]", done.stdout)) == (lang == "zh")


def test_the_names_of_dcgm_exporter_are_an_option(tmp_path: Path) -> None:
    from ongpu.watch.agent import Agent, Options

    for named in (False, True):
        agent = Agent(Options(demo=True, store=tmp_path / f"{named}.db", listen="127.0.0.1:0", dcgm_names=named, quiet=True))
        try:
            agent.endpoint.open(agent.config, agent.host, 0.0)
            page = agent.endpoint.page
            assert page is not None
            agent.endpoint.put(agent.state, agent._said())
            assert (b"DCGM_FI" in page.text()) is False  # no GPU yet
            while not any(gpu.row for gpu in agent.state.gpus.values()):
                agent.step()
            agent.endpoint.put(agent.state, agent._said())
            assert (b"DCGM_FI_DEV_GPU_UTIL" in page.text()) is named
        finally:
            agent.close()


@pytest.mark.parametrize("condition", ["lost", "denied", "unknown", None])
def test_status_is_not_well_before_the_incident_has_held(history: Path, condition: str | None) -> None:
    state = State(up=True)
    if condition:
        state.gpu(0).condition = condition
    with Store(history) as store:
        store.put_now(f'{{"written": {time.time()}, "host": "node7", ' + state.as_json()[1:])
    assert watch(history, "status").returncode == 3


def test_status_is_not_well_with_fewer_gpus_than_there_should_be(history: Path, tmp_path: Path) -> None:
    path = tmp_path / "watch.toml"
    path.write_text("[sample]\ngpus = 2\n")
    assert watch(history, "status", "--config", str(path)).returncode == 3
