"""The gate's answer as condition and taint of a node: server-side apply that touches nothing of others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from parts.kubernetes_server import KubernetesServer
from parts.kubernetes_types import all_versions, problems

from ongpu.hosts.rest import Door
from ongpu.queue import gate
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.account import Account
from ongpu.queue.engines.kubernetes.api import Api
from ongpu.queue.engines.kubernetes.report import Wish, tell, wish
from ongpu.queue.gate import Decision, Reason

SICK = wish(
    Decision(False, (Reason("gpu-fell-off-bus", ("GPU 2 has fallen off the bus", "GPU 2 已掉线")), Reason("ecc-uncorrectable", ("x", "x"))))
)
WELL = wish(Decision(True))
THEIRS = [
    {"key": "team", "value": "vision", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-30T10:00:00Z"},
]
HOOKS = Path(gate.__file__).parent / "hooks"


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as there:
        there.node("n1", taints=THEIRS)
        yield there


def api(server: KubernetesServer) -> Api:
    return Api(who=Account(door=Door(url=server.url), namespace="ml", name="lab"))


def node(server: KubernetesServer) -> dict[str, Any]:
    return server.objects["nodes", "", "n1"]


def problem(server: KubernetesServer) -> Any:
    return next((one for one in node(server)["status"]["conditions"] if one["type"] == "GPUProblem"), None)


def test_words() -> None:
    assert Wish("True", "GpuFellOffBus", "gpu-fell-off-bus: GPU 2 has fallen off the bus (and 1 more)", "gpu-fell-off-bus") == SICK
    assert (WELL.status, WELL.taint) == ("False", "")


def test_without_apply_nothing_changes(server: KubernetesServer) -> None:
    lines = tell(api(server), "n1", SICK)
    assert len(lines) == 2
    assert all(english.startswith("would set") for english, _ in lines)
    assert problem(server) is None
    assert node(server)["spec"]["taints"] == THEIRS
    assert all("dryRun=All" in path for method, path in server.asked if method == "PATCH")


def test_there_and_back(server: KubernetesServer) -> None:
    tell(api(server), "n1", SICK, apply=True, now=1e9)
    assert node(server)["spec"]["taints"] == [*THEIRS, {"key": "ongpu/gpu-unfit", "value": "gpu-fell-off-bus", "effect": "NoSchedule"}]
    assert problem(server)["status"] == "True"
    assert problem(server)["lastTransitionTime"] == "2001-09-09T01:46:40Z"
    asked = len(server.asked)
    lines = tell(api(server), "n1", SICK, apply=True, now=1e9 + 60)  # told again: only the heartbeat
    assert len(lines) == 1
    assert len(server.asked) - asked == 2
    assert (problem(server)["lastHeartbeatTime"], problem(server)["lastTransitionTime"]) == ("2001-09-09T01:47:40Z", "2001-09-09T01:46:40Z")
    tell(api(server), "n1", SICK, effect="NoExecute", apply=True)
    assert [one["effect"] for one in node(server)["spec"]["taints"]] == ["NoSchedule", "NoExecute", "NoExecute"]
    tell(api(server), "n1", WELL, apply=True)
    assert node(server)["spec"]["taints"] == THEIRS
    assert problem(server)["status"] == "False"
    assert {one["type"] for one in node(server)["status"]["conditions"]} == {"Ready", "GPUProblem"}


def test_the_last_taint_goes_too(server: KubernetesServer) -> None:
    server.node("n2")
    tell(api(server), "n2", SICK, apply=True)
    tell(api(server), "n2", WELL, apply=True)
    assert server.objects["nodes", "", "n2"]["spec"]["taints"] == []


def test_a_taint_that_comes_meanwhile_is_not_lost(server: KubernetesServer) -> None:
    other = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

    def meanwhile() -> None:
        node(server)["spec"]["taints"] = [*THEIRS, other]
        node(server)["metadata"]["resourceVersion"] = "777"

    server.before_patch = meanwhile
    tell(api(server), "n1", SICK, apply=True)
    assert other in node(server)["spec"]["taints"]
    assert node(server)["spec"]["taints"][-1]["key"] == "ongpu/gpu-unfit"


def test_a_condition_of_another_manager_is_not_taken(server: KubernetesServer) -> None:
    mine = {"type": "GPUProblem", "status": "False", "reason": "GPUsAreFit"}
    node(server)["status"]["conditions"].append(mine)
    server.owners["nodes", "n1"] = {("status", "conditions", "type=GPUProblem", key): "node-problem-detector" for key in mine}
    with pytest.raises(EngineError, match='conflict with "node-problem-detector"'):
        tell(api(server), "n1", SICK, apply=True)
    assert problem(server)["status"] == "False"
    assert node(server)["spec"]["taints"][-1]["key"] == "ongpu/gpu-unfit"  # jobs are kept away all the same


@pytest.mark.parametrize(
    ("forbidden", "words"),
    [
        (("get", "nodes"), "cannot get resource"),
        (("patch", "nodes"), "cannot patch resource"),
        (("patch", "nodes/status"), '"nodes/status"'),
    ],
)
def test_without_leave_it_says_which(server: KubernetesServer, forbidden: tuple[str, str], words: str) -> None:
    server.forbidden.add(forbidden)
    with pytest.raises(EngineError, match=words):
        tell(api(server), "n1", SICK, apply=True)


def test_no_such_node(server: KubernetesServer) -> None:
    with pytest.raises(EngineError, match="no such node"):
        tell(api(server), "n9", SICK)


def test_the_command(server: KubernetesServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        yaml.safe_dump(
            {
                "current-context": "lab",
                "contexts": [{"name": "lab", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            }
        )
    )
    words = [sys.executable, "-m", "ongpu", "gate", "tell", "kubernetes", "--apply", "--gpus", "none"]
    environ = {"PATH": "/usr/bin:/bin", "KUBECONFIG": str(config), "NODE_NAME": "n1", "LANG": "C.UTF-8"}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "n1: condition GPUProblem=False (GPUsAreFit): ongpu gate: jobs may be placed\n"
    done = subprocess.run([*words, "--node", "n9"], env={**environ, "LANG": "zh_CN.UTF-8"}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "没有这个节点" in done.stderr


@pytest.mark.parametrize("name", ["kubernetes-rbac.yaml", "kubernetes-report.yaml"])
def test_what_is_to_be_applied_is_of_the_types_of_every_release(name: str) -> None:
    found = list(yaml.safe_load_all((HOOKS / name).read_text()))
    assert found
    for whole in found:
        for version in all_versions():
            assert not problems(whole, version), (whole["kind"], version)


def test_its_namespace_lets_it_read_the_kernel_log() -> None:
    """Where a cluster enforces a Pod Security Standard by default, privileged pods are refused without the label."""
    (space,) = [one for one in yaml.safe_load_all((HOOKS / "kubernetes-rbac.yaml").read_text()) if one["kind"] == "Namespace"]
    (report,) = yaml.safe_load_all((HOOKS / "kubernetes-report.yaml").read_text())
    assert report["metadata"]["namespace"] == space["metadata"]["name"]
    assert report["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"]
    assert space["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}


def test_what_the_report_needs_is_granted() -> None:
    """Each request of `tell` is one that the role allows, and it allows no other."""
    (role,) = [
        one
        for one in yaml.safe_load_all((HOOKS / "kubernetes-rbac.yaml").read_text())
        if one["metadata"]["name"] == "ongpu-gate" and one["kind"] == "ClusterRole"
    ]
    allowed = {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {("get", "nodes"), ("patch", "nodes"), ("patch", "nodes/status")}
    with KubernetesServer() as server:
        server.node("n1")
        tell(api(server), "n1", SICK, apply=True)
        used = {("get" if method == "GET" else "patch", "nodes/status" if "/status" in path else "nodes") for method, path in server.asked}
    assert used == allowed
