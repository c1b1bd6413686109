"""Faults on their way from the (fake) NVML through `ongpu watch`, the real Prometheus and Alertmanager to a webhook.

The rules are those that `ongpu watch rules` prints, the scrapes and the samples come each second. The dashboard's expressions
are asked of the same Prometheus.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from parts.prometheus import Alertmanager, Hook, Prometheus, free_port, need, promtool, until

from ongpu.watch.alerts import DEAD_MAN
from ongpu.watch.grafana import PANELS, expression
from ongpu.watch.promrules import FILE

pytestmark = [pytest.mark.real, pytest.mark.slow]

FAST = 5.0  # seconds from the fault to the webhook, at most
CONFIGURATION = """\
sample.gpus = 8
sample.processes = 1
metrics.dcgm_names = true
alerts.thermal-throttle = { clear = 1 }
alerts.gpu-fell-off-bus = { hold = 0, clear = 1 }
"""
HEALTHY = ["gpus = 8", "reload = 1", "gpu.*.temp = 60", "gpu.*.util = 90", "gpu.0-5.fan = 40"]
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@dataclass
class Agent:
    """`ongpu watch`, over a scenario that changes."""

    folder: Path
    library: Path
    port: int = field(default_factory=free_port)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scenario, self.config = self.folder / "nvml.txt", self.folder / "watch.toml"
        self.config.write_text(CONFIGURATION)
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "FAKE_NVML": str(self.scenario)}
        self.environ |= {"LD_LIBRARY_PATH": str(self.library), "LANG": "C.UTF-8"}
        self.user = subprocess.Popen(["sleep", "600"], env={**os.environ, "SLURM_JOB_ID": "4711"})
        self.say(f"gpu.0.proc = {self.user.pid},2048,C,50")
        common = ["--store", str(self.folder / "watch.db"), "--listen", f"127.0.0.1:{self.port}", "--no-kernel-log"]
        with (self.folder / "agent.log").open("wb") as log:
            self.process = subprocess.Popen(self.command(*common), env=self.environ, stdout=log, stderr=subprocess.STDOUT)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ongpu", "watch", "--config", str(self.config), *arguments]

    def printed(self, *arguments: str) -> str:
        """What another `ongpu watch` prints."""
        return subprocess.run(self.command(*arguments), env=self.environ, check=True, capture_output=True, text=True).stdout

    def say(self, *faults: str) -> float:
        """From now on these are so too; when it was written."""
        self.faults += faults
        new = self.scenario.with_suffix(".new")
        new.write_text("\n".join([*HEALTHY, *self.faults]) + "\n")
        new.replace(self.scenario)
        return time.monotonic()

    def silence(self) -> float:
        """The agent dies."""
        at = time.monotonic()
        for process in (self.process, self.user):
            process.kill()
            process.wait()
        return at


@dataclass
class Chain:
    """All that runs, and how long each fault took."""

    agent: Agent
    prometheus: Prometheus
    hook: Hook
    took: dict[str, float] = field(default_factory=dict)

    def told(self, slug: str, since: float, limit: float, **labels: str) -> dict[str, Any]:
        """The alert, when the webhook has it; fails where it takes longer."""
        came, alert = until(lambda: self.hook.heard(slug, **labels), limit + 5)
        self.took[" ".join((slug, *labels.values()))] = came - since
        assert came - since < limit
        return dict(alert)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, nvml: Path) -> Iterator[Chain]:
    need()
    pytest.importorskip("prometheus_client")
    folder = tmp_path_factory.mktemp("chain")
    agent = Agent(folder, nvml)
    try:
        (folder / FILE).write_text(agent.printed("rules"))
        with Hook() as hook:
            route = {"receiver": "hook", "group_by": ["alertname", "instance", "gpu"], "group_wait": "0s", "group_interval": "1s"}
            receivers = [{"name": "hook", "webhook_configs": [{"url": f"http://127.0.0.1:{hook.port}/"}]}]
            with Alertmanager(folder, yaml.safe_dump({"route": route, "receivers": receivers})) as alertmanager:
                config = {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(folder / FILE)],
                    "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]},
                    "scrape_configs": [{"job_name": "ongpu", "static_configs": [{"targets": [f"127.0.0.1:{agent.port}"]}]}],
                }
                with Prometheus(folder, yaml.safe_dump(config)) as prometheus:
                    made = Chain(agent, prometheus, hook)
                    until(lambda: len(prometheus.query("ongpu_gpu_temperature_celsius")) == 8, 30)
                    yield made
                    for what, seconds in made.took.items():
                        sys.stdout.write(f"{what}: {seconds:.1f} s from the fault to the webhook\n")
    finally:
        agent.silence()


def test_a_healthy_machine_alerts_nobody(chain: Chain) -> None:
    time.sleep(5)
    assert chain.hook.got == []
    assert chain.prometheus.query("ALERTS") == []
    assert [row["value"][1] for row in chain.prometheus.query("ongpu_up")] == ["1"]


def test_too_hot(chain: Chain) -> None:
    alert = chain.told("thermal-throttle", chain.agent.say("gpu.1.temp = 90"), FAST, gpu="1")
    assert "[GPU 1]" in alert["annotations"]["summary"]
    assert alert["labels"]["severity"] == "warning"
    cooled = chain.agent.say("gpu.1.temp = 60")
    came, _ = until(lambda: chain.hook.heard("thermal-throttle", "resolved"), 90)  # the finding waits for the judge's next look
    chain.took["thermal-throttle resolved"] = came - cooled


def test_lost(chain: Chain) -> None:
    alert = chain.told("gpu-fell-off-bus", chain.agent.say("gpu.2.error = 15"), FAST, gpu="2")
    assert alert["labels"]["severity"] == "critical"
    assert alert["labels"]["uuid"].startswith("GPU-")
    assert "RMA" in alert["annotations"]["description"]


def test_xid_79(chain: Chain) -> None:
    chain.told("gpu-fell-off-bus", chain.agent.say("gpu.3.xid = 79"), FAST, gpu="3")


EXPRESSIONS = [(panel.en, text) for panel in PANELS for _, text in panel.expressions]


@pytest.mark.parametrize(("title", "text"), EXPRESSIONS, ids=[f"{title} {n}" for n, (title, _) in enumerate(EXPRESSIONS)])
def test_every_panel_of_the_dashboard_has_data(chain: Chain, title: str, text: str) -> None:
    """While one GPU is lost and another had its Xid."""
    full = expression(text).replace("$instance", ".*").replace("$gpu", ".*").replace("$__rate_interval", "1m")
    assert chain.prometheus.query(full) != []


# What dcgm-exporter's own dashboard (Grafana 12239) asks for; its tensor panel needs DCGM's profiling.
DCGM = (
    'max(DCGM_FI_DEV_GPU_TEMP{Hostname=~".*", gpu=~".*"}) by (Hostname, gpu, uuid)',
    'sum(max(DCGM_FI_DEV_POWER_USAGE{Hostname=~".*", gpu=~".*"}) by (gpu))',
    'max(DCGM_FI_DEV_SM_CLOCK{Hostname=~".*", gpu=~".*"} * 1000000) by (Hostname, UUID, gpu)',
    'max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{Hostname=~".*", gpu=~".*"}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)',
    'max(DCGM_FI_DEV_FB_USED{Hostname=~".*", gpu=~".*"}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)',
    "count(DCGM_FI_DEV_FB_FREE) by (Hostname, gpu)",
)


@pytest.mark.parametrize("text", DCGM)
def test_a_dashboard_made_for_dcgm_exporter_has_data(chain: Chain, text: str) -> None:
    assert chain.prometheus.query(text) != []


def test_silence_of_the_agent(chain: Chain) -> None:
    hold = DEAD_MAN["agent-silent"].hold
    alert = chain.told("agent-silent", chain.agent.silence(), hold + FAST)
    assert chain.took["agent-silent"] > hold
    assert f"127.0.0.1:{chain.agent.port}" in alert["annotations"]["summary"]
    others = {one["labels"]["slug"] for _, one in chain.hook.got}
    assert others == {"thermal-throttle", "gpu-fell-off-bus", "agent-silent"}


def test_the_example_configurations(tmp_path: Path) -> None:
    need()
    for name in ("prometheus.yml", "alertmanager.yml"):
        (tmp_path / name).write_bytes((EXAMPLES / name).read_bytes())
    (tmp_path / "gpu-nodes.yml").write_text("- targets: [node1:19400]\n")
    rules = subprocess.run([sys.executable, "-m", "ongpu", "watch", "rules"], check=True, capture_output=True, text=True).stdout
    (tmp_path / FILE).write_text(rules)
    status, said = promtool("check", "config", "prometheus.yml", inside=tmp_path)
    assert (status, "rules found" in said) == (0, True), said
    checked = subprocess.run(["amtool", "check-config", "alertmanager.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
