"""The engine `ray` against answers that Ray 2.60 gave; tests/live/test_ray.py does the same with Ray itself."""

import io
import json
import shlex
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.ray_server import TOKEN, RayServer, node

from ongpu.lazy import replace
from ongpu.queue import job as jobs
from ongpu.queue.config import Config
from ongpu.queue.config import Ray as RayConfig
from ongpu.queue.engines import EngineError, refuse
from ongpu.queue.engines.ray import asking, cluster, telling
from ongpu.queue.engines.ray.engine import Ray
from ongpu.queue.job import Spec, Want

KEYS = (
    "submission_id", "type", "status", "metadata", "ongpu", "data", "result", "summary", "node_id", "gpus", "raylet", "runtime_env",
    "env_vars", "start_time", "driver_exit_code", "entrypoint",
)  # fmt: skip
WORDS = st.sampled_from(["SUBMISSION", "FAILED", "ALIVE", "{}", '{"command": [3]}'])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)
OUT_OF_MEMORY = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    x = torch.empty(1 << 36)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 22.01 GiB \
is free. Including non-PyTorch memory, this process has 1.68 GiB memory in use. Of the allocated memory 1.20 GiB is allocated by \
PyTorch, and 26.00 MiB is reserved by PyTorch but unallocated.
"""
HELLO = Spec(command=("python", "train.py"), name="hello")


@pytest.fixture
def server() -> Iterator[RayServer]:
    with RayServer() as there:
        yield there


def engine(server: RayServer, config: Any = None, **environ: str) -> Ray:
    return Ray(Config(ray=config or RayConfig(address=server.url)), {"HOME": "/nonexistent", **environ})


class TestSubmit:
    def test_what_is_asked_reaches_ray(self, server: RayServer) -> None:
        more = {"folder": "/data/a b", "limit": 90.5, "grace": 7.2, "environ": {"LR": "0.1"}, "project": "p"}
        spec = replace(HELLO, gpus=2, cpus=4, host_memory=1024, **more)
        refuse(spec, engine(server))
        (job,) = engine(server).submit([spec])
        body = server.bodies[0]
        assert body["submission_id"] == job
        assert (body["entrypoint_num_gpus"], body["entrypoint_num_cpus"], body["entrypoint_memory"]) == (2, 4, 1 << 30)
        assert body["entrypoint"] == "sleep 0.5 && cd -- '/data/a b' && exec timeout --kill-after=8 91 python train.py"
        variables = body["runtime_env"]["env_vars"]
        assert variables["LR"] == "0.1"
        assert variables["RAY_JOB_STOP_WAIT_TIME_S"] == "8"
        assert variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert "entrypoint_resources" not in body
        (told,) = engine(server).jobs(Want(ids=(job,))).jobs
        assert told.state == jobs.WAITING
        assert replace(told.spec, environ={}) == replace(spec, environ={})
        assert told.spec.environ["LR"] == "0.1"

    def test_that_arrays_work_but_not_how_many_at_once_is_said(self, server: RayServer) -> None:
        refuse(replace(HELLO, index=0), engine(server))
        with pytest.raises(EngineError, match="cannot honour: array %N") as caught:
            refuse(replace(HELLO, index=0, at_once=2), engine(server))
        assert caught.value.chinese == "引擎 ray 不支持：array %N"

    def test_without_gpus_nothing_is_asked_of_the_nodes(self, server: RayServer) -> None:
        server.nodes = []
        engine(server).submit([replace(HELLO, gpus=0)])
        assert "entrypoint_num_gpus" not in server.bodies[0]
        assert [path for _, path in server.asked] == ["/api/jobs/"]

    @pytest.mark.parametrize(
        ("memory", "share"), [(8192, 0.1), (81920, 1.0), (1, 0.0001), (81919, 1.0), (40960, 0.5), (27307, 0.3334)]
    )  # fmt: skip
    def test_a_share_is_its_memory_of_the_cards_rounded_up(self, server: RayServer, memory: int, share: float) -> None:
        engine(server).submit([replace(HELLO, share=True, memory=memory)])
        asked = server.bodies[0]["entrypoint_num_gpus"]
        assert asked == share
        assert asked * 81920 >= memory

    def test_a_share_of_unlike_cards_is_of_the_smallest_that_fits(self, server: RayServer) -> None:
        server.nodes = [node("n1", 1), node("n2", 1, "NVIDIA A10", "A10", 24576), node("n3", 1, "Tesla T4", "T4", 4096)]
        engine(server).submit([replace(HELLO, share=True, memory=6144)])
        body = server.bodies[0]
        assert body["entrypoint_num_gpus"] == 0.25
        assert body["entrypoint_label_selector"] == {"ray.io/accelerator-type": "in(A10,A100)"}

    @pytest.mark.parametrize(
        ("wish", "resources", "selector"),
        [
            ({"model": "a100"}, {"accelerator_type:A100": 0.001}, None),
            ({"memory": 30000}, {"accelerator_type:A100": 0.001}, None),
            ({"capability": (8, 6)}, {"accelerator_type:A10": 0.001}, None),
            ({"capability": (7, 0)}, None, None),
            ({"model": "nvidia"}, None, {"ray.io/accelerator-type": "in(A10,A100)"}),
        ],
    )
    def test_a_wish_becomes_the_kind_of_gpu(self, server: RayServer, wish: Any, resources: Any, selector: Any) -> None:
        server.nodes = [node("n1", 4), node("n2", 2, "NVIDIA A10", "A10", 24576), node("n3", 1, "Tesla T4", "T4", 15360), node("n4", 0)]
        engine(server).submit([replace(HELLO, **wish)])
        body = server.bodies[0]
        assert body.get("entrypoint_resources") == resources
        assert body.get("entrypoint_label_selector") == selector

    def test_kinds_that_do_not_tell_the_nodes_apart_are_not_used(self, server: RayServer) -> None:
        server.nodes = [node("n1", 4), node("n2", 4, "NVIDIA A100-PCIE-40GB", "A100", 40960)]
        engine(server).submit([replace(HELLO, memory=50000)])
        assert server.bodies[0]["entrypoint_label_selector"] == {"ray.io/node-id": "id-n1"}

    def test_only_gpus_that_the_gate_passed_are_asked_for(self, server: RayServer) -> None:
        server.nodes = [node("n1", 4, ongpu_fit=4.0), node("n2", 4)]
        engine(server).submit([replace(HELLO, gpus=3)])
        assert server.bodies[0]["entrypoint_resources"] == {"ongpu_fit": 3}

    @pytest.mark.parametrize(
        ("wish", "words"),
        [
            ({"gpus": 5}, ["5", "at most 4", "n1: 4 x NVIDIA A100-SXM4-80GB (80 GiB)"]),
            ({"model": "H100"}, ["no GPU", "H100", "A100"]),
            ({"memory": 90000}, ["87.89 GiB", "80 GiB"]),
            ({"share": True, "memory": 81921}, ["80 GiB"]),
            ({"capability": (9, 0)}, ["9.0"]),
        ],
    )
    def test_what_can_never_run_is_refused_with_what_there_is(self, server: RayServer, wish: Any, words: list[str]) -> None:
        with pytest.raises(EngineError) as error:
            engine(server).submit([replace(HELLO, **wish)])
        assert all(word in error.value.english for word in words), error.value.english
        assert not server.bodies

    def test_a_cluster_that_grows_is_asked_all_the_same(self, server: RayServer) -> None:
        server.nodes = [node("n1", 0)]
        engine(server, RayConfig(address=server.url, grows=True)).submit([replace(HELLO, gpus=2, model="H100")])
        assert server.bodies[0]["entrypoint_resources"] == {"accelerator_type:H100": 0.001}

    def test_an_array_is_a_job_for_each_index(self, server: RayServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i) for i in (3, 5)])
        assert [one.rpartition("_")[2] for one in ids] == ["3", "5"]
        assert [body["runtime_env"]["env_vars"]["ONGPU_ARRAY_INDEX"] for body in server.bodies] == ["3", "5"]
        array = ids[0].rpartition("_")[0]
        assert {one.array for one in engine(server).jobs(Want(ids=(array,))).jobs} == {array}

    def test_all_or_none(self, server: RayServer) -> None:
        server.refuse_after = 2
        with pytest.raises(EngineError) as error:
            engine(server).submit([replace(HELLO, index=i) for i in range(4)])
        assert "No available agent" in error.value.english
        assert error.value.code == 3
        assert {job["status"] for job in server.jobs.values()} == {"STOPPED"}

    @pytest.mark.parametrize(
        "wish", [{"retries": 1}, {"after": (("ok", "1"),)}, {"begin": 5.0}, {"priority": 1}, {"idle": 5.0}, {"at_once": 2}]
    )
    def test_what_ray_cannot_is_refused(self, server: RayServer, wish: Any) -> None:
        with pytest.raises(EngineError, match="ray cannot honour"):
            refuse(replace(HELLO, **wish), engine(server))

    def test_a_folder_is_uploaded_once(self, server: RayServer, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("print(1)")
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "run.sh").write_text("#!/bin/sh\n")
        (tmp_path / "deep" / "run.sh").chmod(0o755)
        for left in (".git", "__pycache__"):
            (tmp_path / left).mkdir()
            (tmp_path / left / "x").write_text("secret")
        away = RayConfig(address=server.url, folder="upload")
        for _ in range(2):
            engine(server, away).submit([replace(HELLO, folder=str(tmp_path))])
        assert len(server.packages) == 1
        ((name, data),) = server.packages.items()
        assert sorted(zipfile.ZipFile(io.BytesIO(data)).namelist()) == ["a.py", "deep/run.sh"]
        assert {body["runtime_env"]["working_dir"] for body in server.bodies} == {f"gcs://{name}"}
        assert all("cd " not in body["entrypoint"] for body in server.bodies)
        assert len([one for one in server.asked if one[0] == "PUT"]) == 1

    def test_a_folder_that_is_too_large_is_refused(self, server: RayServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.ray.upload.MOST_BYTES", 1000)
        (tmp_path / "a").write_bytes(b"x" * 1001)
        with pytest.raises(EngineError, match="too large"):
            engine(server, RayConfig(address=server.url, folder="upload")).submit([replace(HELLO, folder=str(tmp_path))])
        assert not server.bodies

    def test_a_command_that_is_not_utf8_is_refused(self, server: RayServer) -> None:
        with pytest.raises(EngineError, match="UTF-8"):
            engine(server).submit([replace(HELLO, command=("echo", "\udcff"))])


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8), min_size=1, max_size=4))
def test_the_shell_of_the_node_runs_the_very_words(words: list[str]) -> None:
    shown = asking.entrypoint(Spec(command=("printf", "%s\\0", *words)))
    done = subprocess.run(["/bin/sh", "-c", shown.removeprefix(f"{asking.PAUSE} && ")], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


@given(st.dictionaries(st.sampled_from(["A", "LR_2", "no-name"]), st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
def test_variables_come_as_they_are(environ: dict[str, str]) -> None:
    """Ray puts the node's own variables for ${NAME} and $NAME in their values, and nothing for those that it does not know."""
    spec = Spec(command=("env", "-0"), environ={**environ, "B": "a$HOME ${NONE}'\n"}, gpus=0)
    body = asking.request(spec, "j", (), "ann")
    sent = body["runtime_env"]["env_vars"]
    assert all("$" not in value for name, value in sent.items() if name not in spec.environ)
    as_ray = {name: value.replace("$", "?") for name, value in sent.items()}
    line = body["entrypoint"].removeprefix(f"{asking.PAUSE} && ")
    done = subprocess.run(["/bin/sh", "-c", line], env={"PATH": "/usr/bin:/bin", **as_ray}, capture_output=True, check=True)
    seen = dict(row.partition("=")[::2] for row in done.stdout.decode().split("\0")[:-1])
    assert {name: seen[name] for name in spec.environ if name != "no-name"} == {k: v for k, v in spec.environ.items() if k != "no-name"}
    assert "ONGPU_VARIABLES" not in seen
    kept = telling.told({"submission_id": "j", "type": "SUBMISSION", "status": "PENDING", **body}, {})
    assert kept is not None
    assert "ONGPU_VARIABLES" not in kept.spec.environ


class TestStates:
    @pytest.mark.parametrize(
        ("status", "more", "state", "ending", "code"),
        [
            ("SUCCEEDED", {"driver_exit_code": 0}, jobs.DONE, "ok", 0),
            ("FAILED", {"driver_exit_code": 3, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR"}, jobs.FAILED, "program", 3),
            ("FAILED", {"driver_exit_code": -9, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR"}, jobs.FAILED, "signal", 137),
            ("FAILED", {"driver_exit_code": 124}, jobs.FAILED, jobs.TIMEOUT, 124),
            ("FAILED", {"error_type": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"}, jobs.FAILED, jobs.NOT_STARTED, None),
            ("FAILED", {"error_type": "JOB_SUPERVISOR_ACTOR_DIED"}, jobs.LOST, jobs.VANISHED, None),
            ("STOPPED", {}, jobs.CANCELLED, "stopped", None),
            ("RUNNING", {}, jobs.RUNNING, "", None),
            ("NEW IN 3.0", {}, jobs.LOST, "program", None),
        ],
    )
    def test_each(self, server: RayServer, status: str, more: Any, state: str, ending: str, code: int | None) -> None:
        (job,) = engine(server).submit([replace(HELLO, limit=60.0)])
        server.become(job, status, **more)
        (told,) = engine(server).jobs(Want()).jobs
        assert (told.state, told.ending, told.code) == (state, ending, code)
        assert told.node == "n1"

    def test_jobs_of_others_are_told_too_and_drivers_are_not(self, server: RayServer) -> None:
        plain = {"type": "SUBMISSION", "submission_id": "raysubmit_1", "status": "RUNNING", "entrypoint": "python 'a b.py'"}
        server.jobs = {"raysubmit_1": plain, "02": {"type": "DRIVER", "job_id": "02", "submission_id": None, "status": "RUNNING"}}
        (told,) = engine(server).jobs(Want()).jobs
        assert told.spec.command == ("python", "a b.py")
        assert told.user == ""

    def test_order_and_bounds(self, server: RayServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i) for i in range(9)])
        for place, status in enumerate(("SUCCEEDED", "SUCCEEDED", "FAILED", "RUNNING", "RUNNING")):
            server.become(ids[place], status, end_time=1000 * place)
        listing = engine(server).jobs(Want(most=2))
        assert [one.state for one in listing.jobs] == ["running", "running", "waiting", "waiting", "failed", "done"]
        assert listing.counts == {"running": 2, "waiting": 4, "done": 2, "failed": 1}
        assert len(listing.cards) == 4
        assert listing.cards[0].memory == 81920
        assert [one.state for one in engine(server).jobs(Want(states=("failed",))).jobs] == ["failed"]

    def test_cards_are_told_busy_kept_back_or_free(self, server: RayServer) -> None:
        sick = "ongpu_kept:GPU-n1-1:gpu-fell-off-bus"
        server.nodes = [node("n1", 4, **{"ongpu_fit": 3.0, sick: 1.0}), node("n2", 2)]
        server.nodes[0]["total"]["GPU"] = 3.0
        server.nodes[0]["used"] = 2.5
        (job,) = engine(server).submit([replace(HELLO, gpus=2)])
        server.become(job, "RUNNING")
        cards = engine(server).jobs(Want()).cards
        assert [(card.state, card.slug, card.jobs, card.holder) for card in cards] == [
            ("ok", "", (job,), ""), ("drained", "gpu-fell-off-bus", (), ""), ("ok", "", (job,), ""), ("ok", "", (), "Ray"),
            ("ok", "", (), ""), ("ok", "", (), ""),
        ]  # fmt: skip

    def test_a_cluster_without_gpus_warns(self, server: RayServer) -> None:
        server.nodes = [node("n1", 0)]
        assert engine(server).jobs(Want()).warning

    @given(ANYTHING)
    def test_any_answer_is_read_without_an_error(self, data: Any) -> None:
        here = cluster.nodes(data, data, data)
        cluster.cards(here)
        for row in (data, {"submission_id": "a_1", "type": "SUBMISSION", "metadata": data, "runtime_env": data, "start_time": data}):
            for told, one in telling.listed([row], here):
                telling.why_ended(one)
                telling.why_waits(told, one, here)


class TestOutput:
    def test_bytes_as_they_are(self, server: RayServer) -> None:
        (job,) = engine(server).submit([HELLO])
        assert b"".join(engine(server).output(job)) == b""  # it has not begun
        server.logs[job] = b"bad \xff\xfe bytes\nno newline"
        server.become(job, "SUCCEEDED")
        assert b"".join(engine(server).output(job)) == server.logs[job]
        server.logs[job] = "中文".encode()
        server.state_api = False
        assert b"".join(engine(server).output(job)) == server.logs[job]

    def test_follow_until_its_end(self, server: RayServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.ray.engine.QUIET", 0.1)
        (job,) = engine(server).submit([HELLO])
        server.logs[job] = b"one\n"
        server.become(job, "RUNNING")
        got = bytearray()
        for piece in engine(server).output(job, follow=True):
            got += piece
            if got == b"one\n" and server.jobs[job]["status"] == "RUNNING" and not piece:
                server.logs[job] += b"two"
                server.become(job, "SUCCEEDED")
        assert got == b"one\ntwo"

    def test_no_such_job(self, server: RayServer) -> None:
        with pytest.raises(EngineError) as error:
            list(engine(server).output("../../nodes"))
        assert error.value.code == 1


class TestStop:
    def test_by_job_and_by_array(self, server: RayServer) -> None:
        ids = engine(server).submit([replace(HELLO, index=i) for i in range(3)])
        server.become(ids[0], "SUCCEEDED")
        engine(server).cancel([ids[0].rpartition("_")[0]])
        assert [server.jobs[job]["status"] for job in ids] == ["SUCCEEDED", "STOPPED", "STOPPED"]
        with pytest.raises(EngineError) as error:
            engine(server).cancel(["nosuch"])
        assert error.value.code == 1

    def test_ray_holds_nothing(self, server: RayServer) -> None:
        for act in (engine(server).hold, engine(server).release):
            with pytest.raises(EngineError):
                act(["x"])


class TestWhy:
    def test_waiting(self, server: RayServer) -> None:
        engine(server).submit([replace(HELLO, gpus=3)])
        server.nodes[0]["used"] = 2.0
        (told,) = engine(server).jobs(Want()).jobs
        first, *others = engine(server).why(told)
        assert first[0] == "it asks for 3 GPUs on one node; the most that are free on one are 2 of 4"
        assert "15 min" in others[-1][0]
        server.nodes = [node("n1", 2)]
        assert "no node has more than 2" in engine(server).why(told)[0][0]

    def test_ended(self, server: RayServer) -> None:
        (job,) = engine(server).submit([HELLO])
        server.become(job, "FAILED", error_type="JOB_SUPERVISOR_ACTOR_START_TIMEOUT", message="...\nlast words")
        (told,) = engine(server).jobs(Want()).jobs
        lines = engine(server).why(told)
        assert "RAY_JOB_START_TIMEOUT_SECONDS" in lines[0][0]
        assert "RAY_JOB_START_TIMEOUT_SECONDS" in lines[0][1]
        assert lines[1][0] == "Ray: last words"

    def test_a_program_that_failed_is_looked_into(self, server: RayServer) -> None:
        (job,) = engine(server).submit([HELLO])
        server.become(job, "FAILED", driver_exit_code=1, error_type="JOB_ENTRYPOINT_COMMAND_ERROR", message="...")
        (told,) = engine(server).jobs(Want()).jobs
        server.logs[job] = b"x" * 500_000 + b"\nValueError: no such optimizer\n"
        assert engine(server).why(told) == [("its last words: ValueError: no such optimizer", "最后的输出：ValueError: no such optimizer")]
        server.logs[job] = OUT_OF_MEMORY.encode()
        first, *_ = engine(server).why(told)
        assert first[0].startswith("oom-")
        assert first[0] != first[1]


class TestToken:
    def test_from_the_environment_from_a_file_and_never_shown(self, server: RayServer, tmp_path: Path) -> None:
        server.token = TOKEN
        file = tmp_path / "token"
        file.write_text(TOKEN + "\n")
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
        for environ in ({"RAY_AUTH_TOKEN": TOKEN}, {"RAY_AUTH_TOKEN_PATH": str(file)}, {"HOME": str(tmp_path)}, {"RAY_JOB_HEADERS": json.dumps({"Authorization": f"Bearer {TOKEN}"})}):  # fmt: skip # noqa: E501
            there = engine(server, **environ)
            assert there.jobs(Want()).jobs == ()
            assert TOKEN not in repr(there._server.door)
        assert engine(server, RayConfig(address=server.url, token_file=str(file))).jobs(Want()).jobs == ()

    @pytest.mark.parametrize(
        ("environ", "status", "words"),
        [({}, "does not know who asks", "RAY_AUTH_TOKEN"), ({"RAY_AUTH_TOKEN": "wrong-one"}, "does not allow", "another cluster's"),
         ({"RAY_AUTH_TOKEN": TOKEN, "RAY_AUTH_MODE": "disabled"}, "does not know who asks", "RAY_AUTH_TOKEN")],
    )  # fmt: skip
    def test_a_wrong_one_is_one_line(self, server: RayServer, environ: dict[str, str], status: str, words: str) -> None:
        server.token = TOKEN
        with pytest.raises(EngineError) as error:
            engine(server, **environ).jobs(Want())
        assert status in error.value.english
        assert words in error.value.english
        assert "wrong-one" not in error.value.english + error.value.chinese
        assert "\n" not in error.value.english + error.value.chinese

    def test_a_file_that_is_not_there(self, server: RayServer) -> None:
        with pytest.raises(EngineError, match="cannot be read"):
            engine(server, RAY_AUTH_TOKEN_PATH="/nonexistent/token")


def test_addresses(server: RayServer) -> None:
    from ongpu.queue.engines.ray.engine import ADDRESS, address

    config = Config(ray=RayConfig(address="http://configured:8265"))
    assert address(config, {"RAY_API_SERVER_ADDRESS": "http://told:1"}) == "http://told:1"
    assert address(config, {"RAY_ADDRESS": "http://other:1"}) == "http://configured:8265"
    assert address(Config(), {"RAY_ADDRESS": "http://other:1"}) == "http://other:1"
    assert address(Config(), {"RAY_ADDRESS": "10.0.0.1:6379"}) == ADDRESS  # that is not the dashboard's


def test_submitting_is_quick(server: RayServer) -> None:
    started = time.perf_counter()
    for _ in range(20):
        engine(server).submit([HELLO])
    assert time.perf_counter() - started < 4  # four requests each


def test_the_entry_is_one_shell_line() -> None:
    assert shlex.split(asking.entrypoint(replace(HELLO, command=("a", "b\nc"))))[-1] == "b\nc"
