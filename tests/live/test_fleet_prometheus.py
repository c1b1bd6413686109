"""`ongpu fleet --prometheus` asks a real Prometheus that scrapes six machines: healthy ones, one that lost a GPU, one that died."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.prometheus import Prometheus, free_port, need, until
from parts.watched import machine

from ongpu.watch.metrics import Said
from ongpu.watch.scrape import Page, Server
from ongpu.watch.state import State

pytestmark = pytest.mark.real
NAMES = ["node1", "node2", "node3", "node4", "node5", "node6"]


def lost() -> State:
    state = machine()
    state.take({"k": "s", "t": time.time(), "n": 1, "g": [state.gpus[0].row, 15]}, time.time())
    return state


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[Prometheus, dict[str, Server]]]:
    need()
    servers: dict[str, Server] = {}
    for name in NAMES:
        page = Page(10)
        state = lost() if name == "node2" else machine()
        findings = [("gpu-fell-off-bus", 1, "GPU-1", "error")] if name == "node2" else []
        page.put(state, Said(findings, {"error": len(findings)} if findings else {}, {}, None))
        servers[name] = Server(page, "127.0.0.1", free_port(), None).start()
    configuration = "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: ongpu\n  static_configs:\n" + "".join(
        f'  - {{targets: ["127.0.0.1:{server.port}"], labels: {{instance: "{name}:19400"}}}}\n' for name, server in servers.items()
    )
    with Prometheus(tmp_path, configuration) as running:
        until(lambda: len(running.query("ongpu_up")) == len(NAMES), 30)
        yield running, servers
    for server in servers.values():
        server.close()


def asked(prometheus: Prometheus, *more: str) -> tuple[dict[str, dict[str, object]], list[str], int]:
    argv = [str(Path(sys.executable).parent / "ongpu"), "fleet", "--prometheus", prometheus.url, "--format", "json", *more]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    answer = json.loads(done.stdout)
    findings = [f"{f['slug']} {f['subject']}" for f in answer["findings"] if f["severity"] != "note"]
    return {node["name"]: node for node in answer["facts"]["Fleet"]["nodes"]}, findings, done.returncode


def test_what_prometheus_knows_is_told(prometheus: tuple[Prometheus, dict[str, Server]]) -> None:
    running, servers = prometheus
    nodes, findings, code = asked(running)
    assert sorted(nodes) == NAMES
    assert (nodes["node1"]["present"], nodes["node1"]["driver"], nodes["node1"]["model"]) == (2, "535.183.01", "NVIDIA A100")
    assert (nodes["node2"]["present"], nodes["node2"]["lost"], nodes["node2"]["expected"]) == (1, [1], 2)
    assert findings == ["node-at-fault node2", "node-at-fault node2"]
    assert code == 1
    servers["node5"].close()
    until(lambda: any(r["value"][1] == "0" for r in running.query("up")), 30)
    nodes, findings, _ = asked(running)
    assert nodes["node5"]["answered"] is False
    assert "present" not in nodes["node5"]


def test_a_server_that_does_not_answer_is_one_line_and_no_verdict() -> None:
    argv = [str(Path(sys.executable).parent / "ongpu"), "fleet", "--prometheus", f"http://127.0.0.1:{free_port()}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "refused" in done.stderr
