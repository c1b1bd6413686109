"""The engine `kubernetes` against a server that follows the published API (parts/kubernetes_server.py): no cluster was at hand."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts.kubernetes_server import KubernetesServer, Refused
from parts.kubernetes_types import all_versions, expanded, problems

from ongpu.hosts.rest import Door
from ongpu.lazy import replace
from ongpu.queue import job as jobs
from ongpu.queue.config import Config
from ongpu.queue.config import Kubernetes as Settings
from ongpu.queue.engines import EngineError, refuse
from ongpu.queue.engines.kubernetes import manifest, telling
from ongpu.queue.engines.kubernetes.account import Account
from ongpu.queue.engines.kubernetes.engine import Kubernetes
from ongpu.queue.job import Spec, Told, Want

PLAIN = Settings(image="registry.example/train:1")
HELLO = Spec(command=("python", "train.py"), name="Train ResNet_50!")


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as there:
        yield there


def engine(server: KubernetesServer, given: Settings = PLAIN, token: str = "", **environ: str) -> Kubernetes:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    who = Account(door=Door(url=server.url, headers=headers), namespace="ml", name="lab")
    return Kubernetes(Config(kubernetes=given), environ, who)


def made(server: KubernetesServer) -> list[dict[str, Any]]:
    return [one for (kind, _, _), one in server.objects.items() if kind == "jobs"]


def one(server: KubernetesServer, job: str) -> Told:
    (told,) = engine(server).jobs(Want(ids=(job,))).jobs
    return told


class TestSubmit:
    def test_what_is_asked_is_in_the_manifest(self, server: KubernetesServer) -> None:
        server.node("n1")
        wishes: dict[str, Any] = {
            "cpus": 8,
            "host_memory": 4096,
            "folder": "/work",
            "limit": 3600.5,
            "grace": 45.2,
            "project": "vision lab",
        }
        spec = replace(HELLO, gpus=2, model="a100", memory=40000, environ={"LR": "$(X) $$ 0.1"}, priority=5, **wishes)
        given = replace(PLAIN, priorities={5: "high"}, service_account="runner", mounts=("data:/data",))
        refuse(spec, engine(server, given))
        (job,) = engine(server, given).submit([spec])
        (whole,) = made(server)
        assert job == whole["metadata"]["name"]
        assert job.startswith("train-resnet-50-")
        pod = whole["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["resources"] == {
            "requests": {"cpu": "8", "memory": "4096Mi"},
            "limits": {"nvidia.com/gpu": "2", "memory": "4096Mi"},
        }
        assert (pod["activeDeadlineSeconds"], pod["terminationGracePeriodSeconds"]) == (3601, 46)
        assert (container["workingDir"], pod["priorityClassName"], pod["serviceAccountName"]) == ("/work", "high", "runner")
        assert {"name": "claim-0", "mountPath": "/data"} in container["volumeMounts"]
        (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A100-SXM4-80GB"]},
            {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["39999"]},
        ]
        assert whole["metadata"]["labels"]["ongpu/project"] == "vision-lab"
        assert one(server, job).spec == spec

    def test_it_is_of_the_types_of_every_release(self, server: KubernetesServer) -> None:
        server.node("n1")
        more: dict[str, Any] = {"capability": (8, 0), "retries": 2, "checkpoint": "SIGTERM", "host_memory": 64, "environ": {"A": "b"}}
        engine(server).submit([replace(HELLO, **more)])
        engine(server, replace(PLAIN, queue="gpu")).submit([replace(HELLO, index=i, at_once=2, **more) for i in (4, 9)])
        for whole in made(server):
            clean = {**whole, "metadata": {k: v for k, v in whole["metadata"].items() if k in ("name", "labels", "annotations")}}
            for version in (v for v in all_versions() if int(v.split(".")[1]) >= 29):  # limits for each index came with 1.29
                assert not problems(clean, version), version

    @pytest.mark.parametrize(
        ("wish", "rules", "limit"),
        [
            ({}, [("Ignore", None)], 0),
            ({"on_reboot": "fail"}, [("FailJob", None)], 0),
            ({"retries": 3}, [("Ignore", None), ("FailJob", [75])], 3),
            ({"retries": 3, "retry_on": "any"}, [("Ignore", None)], 3),
        ],
    )
    def test_retries_by_exit_class(self, server: KubernetesServer, wish: Any, rules: Any, limit: int) -> None:
        engine(server).submit([replace(HELLO, **wish)])
        (whole,) = made(server)
        found = [(rule["action"], rule.get("onExitCodes", {}).get("values")) for rule in whole["spec"]["podFailurePolicy"]["rules"]]
        assert found == rules
        assert whole["spec"]["backoffLimit"] == limit

    def test_an_array_is_one_indexed_job(self, server: KubernetesServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i, at_once=4, retries=1) for i in range(10)])
        (whole,) = made(server)
        name = whole["metadata"]["name"]
        assert ids == [f"{name}_{i}" for i in range(10)]
        spec = whole["spec"]
        assert (spec["completionMode"], spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == ("Indexed", 10, 4, 1)
        assert "backoffLimit" not in spec
        assert {rule["action"] for rule in spec["podFailurePolicy"]["rules"]} == {"Ignore", "FailIndex"}
        assert spec["template"]["spec"]["containers"][0]["command"] == ["python", "train.py"]
        told = engine(server).jobs(Want(ids=(name,))).jobs
        assert [one.spec.index for one in told] == list(range(10))

    def test_specs_that_are_not_alike_are_jobs_of_their_own(self, server: KubernetesServer) -> None:
        specs = [replace(HELLO, index=0), replace(HELLO, index=1, gpus=2), HELLO, HELLO]
        assert len(engine(server).submit(specs)) == 4
        assert len(made(server)) == 4

    def test_all_or_none(self, server: KubernetesServer) -> None:
        there = engine(server)
        create, seen = there._api.create, []

        def second_fails(path: str, body: Any, dry: bool = False) -> Any:
            seen.append(body["metadata"]["name"])
            if len(seen) == 2:
                server.fail = Refused(
                    403, 'jobs.batch "x" is forbidden: exceeded quota: gpus, requested: 1, used: 8, limited: 8', "Forbidden"
                )
            return create(path, body, dry)

        there._api.create = second_fails  # type: ignore[method-assign]
        with pytest.raises(EngineError, match="exceeded quota"):
            there.submit([HELLO, HELLO, HELLO])
        (whole,) = made(server)
        assert whole["metadata"]["deletionTimestamp"]

    def test_without_gpus_none_is_seen(self, server: KubernetesServer) -> None:
        engine(server).submit([replace(HELLO, gpus=0)])
        (whole,) = made(server)
        container = whole["spec"]["template"]["spec"]["containers"][0]
        assert "limits" not in container["resources"]
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
        assert one(server, whole["metadata"]["name"]).spec == replace(HELLO, gpus=0)

    def test_a_mig_slice_is_a_resource_of_its_own(self, server: KubernetesServer) -> None:
        engine(server).submit([replace(HELLO, model="1g.10gb")])
        limits = made(server)[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits == {"nvidia.com/mig-1g.10gb": "1"}

    def test_capability_is_either_newer_or_the_same_with_a_newer_minor(self, server: KubernetesServer) -> None:
        server.node("n1", capability="8.9")
        engine(server).submit([replace(HELLO, capability=(8, 6))])
        pod = made(server)[0]["spec"]["template"]["spec"]
        terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

        def meets(major: int, minor: int) -> bool:
            have = {"nvidia.com/gpu.compute.major": major, "nvidia.com/gpu.compute.minor": minor}
            test = {"Gt": lambda a, values: a > int(values[0]), "In": lambda a, values: str(a) in values}
            return any(all(test[e["operator"]](have[e["key"]], e["values"]) for e in term["matchExpressions"]) for term in terms)

        for pair in ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 3)):
            assert meets(*pair) == (pair >= (8, 6)), pair

    @pytest.mark.parametrize(
        ("wish", "given", "words"),
        [
            ({}, Settings(), "which image?"),
            ({"priority": 3}, PLAIN, "no priority class"),
            ({"checkpoint": "SIGUSR1"}, PLAIN, "no other signal than SIGTERM"),
            ({"model": "H100"}, PLAIN, "there is: NVIDIA-A100-SXM4-80GB (80 GiB)"),
            ({"memory": 90000}, PLAIN, "87.89 GiB"),
            ({"capability": (9, 0)}, PLAIN, "9.0"),
            ({"model": "1g.10gb", "memory": 5}, PLAIN, "MIG slice"),
            ({"model": "MI300X"}, replace(PLAIN, resource="amd.com/gpu"), "amd.com/gpu"),
            ({"command": ("x" * 300_000,)}, PLAIN, "too long"),
            ({"command": ("\udcff",)}, PLAIN, "UTF-8"),
            ({}, replace(PLAIN, mounts=("data",)), "CLAIM:/path"),
        ],
    )
    def test_what_cannot_be_is_refused_before_anything_is_made(
        self, server: KubernetesServer, wish: Any, given: Settings, words: str
    ) -> None:
        server.node("n1")
        with pytest.raises(EngineError) as error:
            engine(server, given).submit([HELLO, replace(HELLO, **wish)])
        assert words in error.value.english
        assert not made(server)

    def test_nodes_that_may_not_be_listed(self, server: KubernetesServer) -> None:
        server.forbidden.add(("list", "nodes"))
        engine(server).submit([replace(HELLO, memory=1000), replace(HELLO, model="NVIDIA-H100-80GB-HBM3")])
        with pytest.raises(EngineError, match="may not be listed"):
            engine(server).submit([replace(HELLO, model="H100")])

    @pytest.mark.parametrize(
        "wish", [{"share": True, "memory": 5}, {"after": (("ok", "1"),)}, {"begin": 5.0}, {"idle": 5.0}, {"saved": "x"}]
    )
    def test_what_kubernetes_cannot_is_refused(self, server: KubernetesServer, wish: Any) -> None:
        with pytest.raises(EngineError, match="kubernetes cannot honour"):
            refuse(replace(HELLO, **wish), engine(server))

    def test_the_image_of_the_environment_comes_first(self, server: KubernetesServer) -> None:
        engine(server, PLAIN, ONGPU_IMAGE="mine:2").submit([HELLO])
        assert made(server)[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:2"


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.text("$()AB", max_size=8)


@given(st.lists(TEXT, min_size=1, max_size=3), TEXT, st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=80))
@settings(max_examples=60, deadline=None)
def test_words_reach_the_container_as_they_are(words: list[str], value: str, name: str) -> None:
    spec = Spec(command=("x", *words), environ={"A": value}, name=name)
    if any(len(word.encode()) > 1000 for word in words):
        return
    whole = manifest.job([spec], manifest.name(spec, "0a1b2c3d"), "ada@lab", PLAIN, "nvidia.com/gpu", [], 60)
    assert not problems(whole)
    container = whole["spec"]["template"]["spec"]["containers"][0]
    known = {"A": "wrong", "B": "wrong", "AB": "wrong"}
    assert [expanded(word, known) for word in container["command"]] == ["x", *words]
    assert expanded(container["env"][0]["value"], known) == value
    assert telling.told(whole, [])[0].spec.environ == {"A": value}


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=20, unique=True).map(sorted))
@settings(max_examples=20, deadline=None)
def test_each_pod_of_an_array_gets_its_own_index(indices: list[int]) -> None:
    specs = [Spec(command=("sh", "-c", 'printf "%s|%s" "$ONGPU_ARRAY_INDEX" "$1"', "--", "--"), index=i) for i in indices]
    whole = manifest.job(specs, "a-0a1b2c3d", "ada", PLAIN, "nvidia.com/gpu", [], 60)
    assert not problems(whole)
    container = whole["spec"]["template"]["spec"]["containers"][0]
    for place in {0, len(indices) - 1}:
        environ = {"JOB_COMPLETION_INDEX": str(place), "PATH": "/usr/bin:/bin"}
        if any(row["name"] == "ONGPU_ARRAY_INDEX" for row in container["env"]):
            environ["ONGPU_ARRAY_INDEX"] = str(place)  # from the pod's annotation
        words = [expanded(word, environ) for word in container["command"]]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout == f"{indices[place]}|--"


RAN = {"startedAt": "2026-11-30T10:01:00Z", "finishedAt": "2026-11-30T10:03:00Z"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "message": "preempted"}


class TestStates:
    @pytest.mark.parametrize(
        ("pod", "job", "state", "ending", "code"),
        [
            (None, {}, jobs.WAITING, "", None),
            ({"phase": "Pending", "node": ""}, {}, jobs.WAITING, "", None),
            ({"phase": "Pending", "container": {"waiting": {"reason": "ContainerCreating"}}}, {}, jobs.STARTING, "", None),
            ({"phase": "Running", "container": {"running": {"startedAt": RAN["startedAt"]}}}, {}, jobs.RUNNING, "", None),
            (
                {"phase": "Succeeded", "container": {"terminated": {"exitCode": 0, **RAN}}},
                {"type": "Complete", "status": "True"},
                jobs.DONE,
                "ok",
                0,
            ),
            (
                {"phase": "Failed", "container": {"terminated": {"exitCode": 3, **RAN}}},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                "program",
                3,
            ),
            ({"phase": "Failed", "container": {"terminated": {"exitCode": 3, **RAN}}}, {}, jobs.WAITING, "", None),  # it is tried again
            (
                {"phase": "Failed", "container": {"terminated": {"exitCode": 139, **RAN}}},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                "signal",
                139,
            ),
            (
                {"phase": "Failed", "container": {"terminated": {"exitCode": 137, "reason": "OOMKilled", **RAN}}},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                "host-memory",
                137,
            ),
            (
                {"phase": "Failed", "reason": "DeadlineExceeded", "container": {"terminated": {"exitCode": 143, **RAN}}},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                jobs.TIMEOUT,
                143,
            ),
            (
                {"phase": "Failed", "container": {"terminated": {"exitCode": 128, "reason": "StartError", **RAN}}},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                jobs.NOT_STARTED,
                128,
            ),
            (
                {"phase": "Failed", "conditions": [{**DISRUPTED, "reason": "PreemptionByScheduler"}]},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                jobs.PREEMPTED,
                None,
            ),
            (
                {"phase": "Failed", "conditions": [{**DISRUPTED, "reason": "DeletionByTaintManager"}]},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                jobs.VANISHED,
                None,
            ),
            (
                {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
                {"type": "Failed", "status": "True"},
                jobs.FAILED,
                jobs.NOT_STARTED,
                None,
            ),
            (None, {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}, jobs.FAILED, jobs.TIMEOUT, None),
        ],
    )
    def test_each(self, server: KubernetesServer, pod: Any, job: Any, state: str, ending: str, code: int | None) -> None:
        (name,) = engine(server).submit([replace(HELLO, gpus=2)])
        if pod:
            server.pod(name, **pod)
        if job:
            server.status(name, job)
        told = one(server, name)
        assert (told.state, told.ending, told.code) == (state, ending, code)
        assert engine(server).jobs(Want()).jobs == (told,)
        if state in (jobs.DONE, jobs.FAILED) and code is not None:
            assert told.attained == 2 * 120
            assert told.node == "n1"

    def test_an_array_of_mixed_fates(self, server: KubernetesServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i) for i in range(5)])
        name = ids[0].partition("_")[0]
        server.status(name, completedIndexes="0,3", failedIndexes="1")
        server.pod(name, "Running", index=2, container={"running": {"startedAt": RAN["startedAt"]}})
        server.pod(name, "Failed", index=1, container={"terminated": {"exitCode": 9, **RAN}})
        listing = engine(server).jobs(Want())
        assert {one.id: one.state for one in listing.jobs} == dict(zip(ids, ("done", "failed", "running", "done", "waiting"), strict=True))
        assert {one.array for one in listing.jobs} == {name}
        assert one(server, f"{name}_1").code == 9
        server.status(name, {"type": "Failed", "status": "True"}, completedIndexes="0,3", failedIndexes="1-2")
        assert {one.state for one in engine(server).jobs(Want()).jobs} == {"done", "failed"}

    def test_many_pages(self, server: KubernetesServer) -> None:
        server.page = 2
        engine(server).submit([HELLO] * 5)
        assert engine(server).jobs(Want()).counts == {"waiting": 5}

    def test_attempts_and_devices(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([replace(HELLO, retries=2)])
        server.pod(name, "Failed", container={"terminated": {"exitCode": 75, **RAN}})
        device = {"allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Healthy"}]}]}
        server.pod(name, "Running", container={"running": {"startedAt": RAN["startedAt"]}}, extra=device)
        told = one(server, name)
        assert (told.attempts, told.gpus, told.state) == (2, ("GPU-1",), jobs.RUNNING)
        server.logs |= {told.more["pods"][0]: b"first", told.more["pods"][1]: b"second"}
        assert b"".join(engine(server).output(name, attempt=1)) == b"first"
        assert b"".join(engine(server).output(name)) == b"second"
        with pytest.raises(EngineError, match="attempt 3"):
            list(engine(server).output(name, attempt=3))

    def test_cards(self, server: KubernetesServer) -> None:
        server.node("n1", 3)
        server.node(
            "n2", 2, "NVIDIA-H100-80GB-HBM3", taints=[{"key": "ongpu/gpu-unfit", "value": "gpu-fell-off-bus", "effect": "NoSchedule"}]
        )
        server.node("cpu", 0)
        (name,) = engine(server).submit([HELLO])
        server.pod(name, "Running", container={"running": {"startedAt": RAN["startedAt"]}})
        other = {"name": "x", "image": "y", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        for kind, phase in (("a", "Running"), ("b", "Succeeded")):
            meta = {"name": kind, "namespace": "theirs"}
            spec = {"nodeName": "n1", "containers": [other]}
            server.put("pods", "theirs", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}})
        cards = {card.id: card for card in engine(server).jobs(Want()).cards}
        assert list(cards) == ["n1/0", "n1/1", "n1/2", "n2/0", "n2/1"]
        assert [(cards[f"n1/{i}"].jobs, cards[f"n1/{i}"].holder) for i in range(3)] == [((name,), ""), ((), "theirs/a"), ((), "")]
        assert (cards["n2/0"].state, cards["n2/0"].slug) == ("drained", "gpu-fell-off-bus")

    @pytest.mark.parametrize("forbidden", ["nodes", "pods"])
    def test_without_leave_to_see_others_no_gpu_is_told_as_free(self, server: KubernetesServer, forbidden: str) -> None:
        server.node("n1", 2)
        there = engine(server)
        server.forbidden.add(("list everywhere" if forbidden == "pods" else "list", forbidden))
        assert there.jobs(Want()).cards == ()

    @given(st.data())
    @settings(max_examples=150, deadline=None)
    def test_any_object_is_read_without_an_error(self, data: st.DataObject) -> None:
        leaf = (
            st.none() | st.booleans() | st.integers() | st.sampled_from(["True", "Indexed", "0-3,7", "Running", "9-1,", "{}", "2026-13-01"])
        )
        keys = (
            "metadata",
            "labels",
            "annotations",
            "ongpu/spec",
            "spec",
            "status",
            "conditions",
            "type",
            "containerStatuses",
            "state",
            "terminated",
            "completions",
            "completionMode",
            "completedIndexes",
            "template",
            "containers",
            "env",
            "command",
            "phase",
        )
        anything = st.recursive(
            leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=6), max_leaves=20
        )
        job, pods = data.draw(anything), data.draw(st.lists(anything, max_size=2))
        telling.told(job, pods)
        telling.by_job(pods)


class TestOutput:
    def test_nothing_before_it_begins(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        assert list(engine(server).output(name)) == []
        server.pod(name, "Pending", container={"waiting": {"reason": "ContainerCreating"}})
        assert list(engine(server).output(name)) == []

    def test_follow_until_its_end(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        pod = server.pod(name, "Running", container={"running": {"startedAt": RAN["startedAt"]}})
        server.logs[pod] = b"one \xff\n"
        got = b""
        for piece in engine(server).output(name, follow=True):
            got += piece
            if got == b"one \xff\n":
                server.logs[pod] += b"two"
                server.objects["pods", "ml", pod]["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0, **RAN}}
                server.status(name, {"type": "Complete", "status": "True"})
        assert got == b"one \xff\ntwo"

    def test_follow_goes_on_with_the_next_attempt(self, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.kubernetes.engine.PAUSE", 0.02)
        (name,) = engine(server).submit([replace(HELLO, retries=1)])
        first = server.pod(name, "Failed", container={"terminated": {"exitCode": 75, **RAN}})
        server.logs[first] = b"first\n"
        got, second = b"", ""
        for piece in engine(server).output(name, follow=True):
            got += piece
            if got == b"first\n" and not second and not piece:
                second = server.pod(name, "Running", container={"running": {"startedAt": RAN["startedAt"]}})
                server.logs[second] = b"second\n"
            elif got.endswith(b"second\n"):
                server.objects["pods", "ml", second]["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0, **RAN}}
                server.objects["pods", "ml", second]["status"]["phase"] = "Succeeded"
                server.status(name, {"type": "Complete", "status": "True"})
        assert got == b"first\nsecond\n"

    def test_a_stream_that_is_cut_is_told(self, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.kubernetes.engine.PAUSE", 0.02)
        (name,) = engine(server).submit([HELLO])
        pod = server.pod(name, "Running", container={"terminated": {"exitCode": 0, **RAN}})  # the log ends, the pod does not
        server.logs[pod] = b"half"
        with pytest.raises(EngineError, match="the job goes on"):
            list(engine(server).output(name, follow=True))

    def test_a_pod_that_never_began_has_no_output(self, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.kubernetes.engine.PAUSE", 0.02)
        (name,) = engine(server).submit([HELLO])
        server.pod(name, "Failed", container={"waiting": {"reason": "ImagePullBackOff"}})
        server.status(name, {"type": "Failed", "status": "True"})
        assert b"".join(engine(server).output(name, follow=True)) == b""
        assert list(engine(server).output(name)) == []

    def test_no_such(self, server: KubernetesServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i) for i in range(2)])
        for job, code in (("nosuch", 1), (ids[0].partition("_")[0], 1), (f"{ids[0]}9", 1), ("../../secrets", 1)):
            with pytest.raises(EngineError) as error:
                list(engine(server).output(job))
            assert error.value.code == code


class TestCancelHoldRelease:
    def test_cancel_deletes_and_is_seen_to_end(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        engine(server).cancel([name])
        assert one(server, name).state == jobs.ENDING
        with pytest.raises(EngineError) as error:
            engine(server).cancel(["nosuch"])
        assert error.value.code == 1

    def test_an_array_goes_as_a_whole(self, server: KubernetesServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i) for i in range(3)])
        name = ids[0].partition("_")[0]
        server.status(name, completedIndexes="2")
        for act in (engine(server).cancel, engine(server).hold):
            with pytest.raises(EngineError, match=f"only as a whole: {name}"):
                act(ids[:1])
        engine(server).hold(ids[:2])  # all that lives
        assert {one.state for one in engine(server).jobs(Want()).jobs} == {jobs.HELD, jobs.DONE}
        engine(server).cancel([name])
        assert server.objects["jobs", "ml", name]["metadata"]["deletionTimestamp"]

    def test_hold_and_release_of_a_plain_job(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        server.pod(name, "Pending", node="")
        engine(server).hold([name])
        assert server.objects["jobs", "ml", name]["spec"]["suspend"] is True
        assert one(server, name).state == jobs.HELD
        engine(server).release([name])
        assert server.objects["jobs", "ml", name]["spec"]["suspend"] is False
        assert one(server, name).state == jobs.WAITING
        assert "ongpu/held" not in server.objects["jobs", "ml", name]["metadata"]["annotations"]

    def test_a_job_that_runs_is_not_ended_by_a_hold(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        server.pod(name, "Running", container={"running": {"startedAt": RAN["startedAt"]}})
        with pytest.raises(EngineError, match="it runs"):
            engine(server).hold([name])

    def test_a_job_that_begins_just_now_is_not_ended_by_a_hold(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])

        def begins() -> None:
            server.objects["jobs", "ml", name]["metadata"]["resourceVersion"] = "999"

        server.before_patch = begins
        with pytest.raises(EngineError, match="has been modified"):
            engine(server).hold([name])

    def test_with_kueue_its_workload_is_held(self, server: KubernetesServer) -> None:
        server.kueue = True
        queued = replace(PLAIN, queue="gpu")
        (name,) = engine(server, queued).submit([HELLO])
        job = server.objects["jobs", "ml", name]
        assert (job["spec"]["suspend"], job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]) == (True, "gpu")
        workload = server.workload(name)
        assert one(server, name).state == jobs.WAITING
        engine(server, queued).hold([name])
        assert server.objects["workloads", "ml", workload]["spec"]["active"] is False
        assert server.objects["jobs", "ml", name]["spec"]["suspend"] is True
        assert one(server, name).state == jobs.HELD
        engine(server, queued).release([name])
        assert server.objects["workloads", "ml", workload]["spec"]["active"] is True
        assert one(server, name).state == jobs.WAITING


# Kueue's words, as its flavorassigner.go makes them
UNUSED = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, 4 more needed"
TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets requests "
    "(0) + current podset request (64) > maximum capacity (8)"
)


def waits(message: str) -> dict[str, str]:
    return {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}


class TestWhy:
    MESSAGE = (
        "0/7 nodes are available: 2 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {ongpu/gpu-unfit: gpu-fell-off-bus}, "
        "1 node(s) had untolerated taint {team: a, b}, 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu. "
        "preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling."
    )

    def test_the_scheduler(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        pod = server.pod(name, "Pending", node="", message=self.MESSAGE)
        server.event(pod, "FailedScheduling", self.MESSAGE)
        server.event(pod, "FailedMount", 'persistentvolumeclaim "data" not found')
        first, second = engine(server).why(one(server, name))
        assert first[0] == (
            "no node of 7 can take it now: 2 have too few free GPUs (nvidia.com/gpu); 1 have a GPU that ongpu found unfit "
            "(gpu-fell-off-bus); 1 are set apart by the taint team=a, b; 1 have another GPU than was asked for, or lack the labels of "
            "NVIDIA's GPU feature discovery; 2 have too little free cpu"
        )
        assert "gpu-fell-off-bus" in first[1]
        assert second[0] == 'FailedMount: persistentvolumeclaim "data" not found'

    def test_an_image_that_cannot_be_had(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        server.pod(name, "Pending", container={"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}})
        assert "image cannot be had" in engine(server).why(one(server, name))[0][0]
        assert one(server, name).said.startswith("ImagePullBackOff")

    @pytest.mark.parametrize(
        ("conditions", "words"),
        [
            ([waits(UNUSED)], "the queue's quota is used: it needs 4 more of nvidia.com/gpu (a100)"),
            ([waits(TOO_MUCH)], "it asks for more than the queue's whole quota of nvidia.com/gpu (a100)"),
            ([waits("ClusterQueue gpu doesn't exist")], "Kueue: ClusterQueue gpu doesn't exist"),
            ([{"type": "Evicted", "status": "True", "reason": "Preempted", "message": "for another"}], "Kueue took it back (Preempted)"),
            ([{"type": "QuotaReserved", "status": "True"}], "admission checks"),
            ([], "waits its turn"),
        ],
    )
    def test_kueue(self, server: KubernetesServer, conditions: Any, words: str) -> None:
        server.kueue = True
        (name,) = engine(server, replace(PLAIN, queue="gpu")).submit([HELLO])
        server.workload(name, *conditions)
        lines = engine(server).why(one(server, name))
        assert words in lines[0][0]
        assert lines[0][0] != lines[0][1]

    def test_kueue_that_may_not_be_read(self, server: KubernetesServer) -> None:
        server.kueue = True
        queued = replace(PLAIN, queue="gpu")
        (name,) = engine(server, queued).submit([HELLO])
        server.forbidden.add(("list", "workloads"))
        assert 'cannot list resource "workloads"' in engine(server).why(one(server, name))[0][0]
        with pytest.raises(EngineError, match="cannot list"):
            engine(server, queued).hold([name])
        server.forbidden.clear()
        with pytest.raises(EngineError, match="no Workload of it yet"):
            engine(server, queued).hold([name])
        assert one(server, name).state == jobs.WAITING

    def test_kueue_that_is_not_there(self, server: KubernetesServer) -> None:
        (name,) = engine(server, replace(PLAIN, queue="gpu")).submit([HELLO])
        assert "has made no Workload" in engine(server).why(one(server, name))[0][0]

    def test_ended(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        server.pod(name, "Failed", container={"terminated": {"exitCode": 137, "reason": "OOMKilled", **RAN}})
        server.status(
            name,
            {
                "type": "Failed",
                "status": "True",
                "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit",
            },
        )
        lines = engine(server).why(one(server, name))
        assert "--host-memory" in lines[0][0]
        assert "BackoffLimitExceeded" in lines[1][0]

    def test_a_node_that_refused_the_pod(self, server: KubernetesServer) -> None:
        """As the kubelet does where its device plugin cannot give the GPUs out (kubernetes/kubernetes#97131)."""
        (name,) = engine(server).submit([HELLO])
        words = "Allocate failed due to rpc error: code = Unknown desc = nvml: GPU is lost, which is unexpected"
        server.pod(name, "Failed", reason="UnexpectedAdmissionError", message=f"Pod was rejected: {words}")
        server.status(name, {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"})
        assert one(server, name).said == f"UnexpectedAdmissionError: Pod was rejected: {words}"
        english, chinese = engine(server).why(one(server, name))[0]
        assert english == f"the node n1 did not take its pod: UnexpectedAdmissionError: Pod was rejected: {words}"
        assert chinese.startswith("节点 n1 拒绝了它的 Pod：UnexpectedAdmissionError")

    def test_a_program_that_failed_is_looked_into(self, server: KubernetesServer) -> None:
        (name,) = engine(server).submit([HELLO])
        pod = server.pod(name, "Failed", container={"terminated": {"exitCode": 1, **RAN}})
        server.status(name, {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"})
        server.logs[pod] = b"ValueError: no such optimizer\n"
        assert engine(server).why(one(server, name))[-1][0] == "its last words: ValueError: no such optimizer"

    @given(
        st.text(max_size=300)
        | st.lists(
            st.sampled_from(
                [
                    "0/5 nodes are available: ",
                    "3 ",
                    "Insufficient ",
                    "node(s) had ",
                    "untolerated taint {",
                    "}",
                    ": ",
                    ", ",
                    ". ",
                    "nvidia.com/gpu",
                    "preemption",
                ]
            ),
            max_size=30,
        ).map("".join)
    )
    def test_any_message_is_one_line(self, message: str) -> None:
        from ongpu.queue.engines.kubernetes.waiting import unschedulable

        for english, chinese in unschedulable(message, "nvidia.com/gpu"):
            assert english.isprintable()
            assert chinese.isprintable()


class TestErrors:
    @pytest.mark.parametrize(
        ("fail", "words", "code"),
        [
            (Refused(401, "Unauthorized"), ["does not know who asks", "'lab'", "log in again"], 2),
            (Refused(403, 'jobs.batch is forbidden: User "ada" cannot list'), ["does not allow", 'User "ada"', "RBAC"], 2),
            (Refused(404, "the server could not find the requested resource"), ["no such thing"], 2),
            (Refused(409, 'jobs.batch "x" already exists'), ["already exists"], 2),
            (Refused(422, "Job.batch is invalid:\nspec.template: x"), ["finds the request wrong", "spec.template"], 2),
            (Refused(429, "too many requests"), ["asked too often"], 2),
            (Refused(500, "etcdserver: request timed out"), ["status 500", "etcdserver"], 3),
        ],
    )
    def test_each_is_one_line_in_both_languages(self, server: KubernetesServer, fail: Refused, words: list[str], code: int) -> None:
        server.fail = fail
        with pytest.raises(EngineError) as error:
            engine(server).jobs(Want())
        assert all(word in error.value.english for word in words), error.value.english
        assert error.value.code == code
        for line in (error.value.english, error.value.chinese):
            assert "\n" not in line
        assert any("\u4e00" <= sign <= "\u9fff" for sign in error.value.chinese)

    def test_a_token_is_never_shown(self) -> None:
        with KubernetesServer(token="the-right-one") as server:
            there = engine(server, token="the-wrong-one")
            with pytest.raises(EngineError) as error:
                there.jobs(Want())
            assert "the-wrong-one" not in error.value.english + error.value.chinese + repr(there._api.account)
            assert engine(server, token="the-right-one").jobs(Want()).jobs == ()


def test_the_judge_finds_what_is_wrong() -> None:
    """A test that cannot fail proves nothing: a manifest with faults of each kind is refused."""
    good = manifest.job([HELLO], "a-1", "ada", PLAIN, "nvidia.com/gpu", [], 60)
    assert not problems(good)

    def broken(path: str, value: Any) -> list[str]:
        whole = json.loads(json.dumps(good))
        *parts, last = path.split(".")
        here = whole
        for part in parts:
            here = here[int(part)] if isinstance(here, list) else here[part]
        here[last] = value
        return problems(whole)

    pod = "spec.template.spec"
    for path, value in (
        ("spec.backofLimit", 1),
        ("spec.backoffLimit", "1"),
        ("metadata.name", "Not_A_Name"),
        ("metadata.labels", {"a": "b c"}),
        ("spec.podFailurePolicy.rules", [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]),
        ("spec.podFailurePolicy.rules", [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 1]}}]),
        (f"{pod}.restartPolicy", "Always"),
        (f"{pod}.containers.0.resources", {"limits": {"nvidia.com/gpu": "0.5"}}),
        (f"{pod}.containers.0.volumeMounts", [{"name": "none", "mountPath": "/x"}]),
        (f"{pod}.activeDeadlineSeconds", 0),
        (f"{pod}.volumes", None),
    ):
        assert broken(path, value), path
