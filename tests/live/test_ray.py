"""The engine `ray` with Ray itself (tools/install_ray), on GPUs of the fake NVML; started by the hook that keeps a sick one from it."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from parts.prometheus import free_port, until

from ongpu.lazy import replace
from ongpu.queue import gate
from ongpu.queue import job as jobs
from ongpu.queue.config import Config
from ongpu.queue.config import Ray as RayConfig
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.ray.engine import Ray
from ongpu.queue.job import Spec, Told, Want

pytestmark = [pytest.mark.real, pytest.mark.slow]

RAY = Path(__file__).parents[2] / ".venv-ray" / "bin" / "ray"
HOOK = Path(gate.__file__).parent / "hooks" / "ray-start.sh"
TOKEN = "of-the-tests-0123456789abcdef0123456789"
SICK = "GPU-fa4e0000-0000-4000-8000-000000000002"
SMI = "#!/bin/sh\nfor i in 0 1 2 3; do echo GPU-fa4e0000-0000-4000-8000-00000000000$i; done\n"
GATE = f'#!/bin/sh\ncase "$*" in *{SICK}*) echo "gpu-fell-off-bus: GPU 2"; exit 1 ;; esac\n'


@dataclass
class Cluster:
    """One node. folder: the jobs' own."""

    url: str
    folder: Path
    log: Path

    def engine(self, **more: Any) -> Ray:
        return Ray(Config(ray=RayConfig(address=self.url, **more)), {"RAY_AUTH_TOKEN": TOKEN})

    def one(self, job: str) -> Told:
        (told,) = self.engine().jobs(Want(ids=(job,))).jobs
        return told

    def over(self, job: str, seconds: float = 60) -> Told:
        return until(lambda: (told := self.one(job)).state in jobs.OVER and told, seconds, 0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, nvml: Path) -> Iterator[Cluster]:
    if not RAY.exists():
        pytest.skip("Ray is not there: tools/install_ray says why")
    box = tmp_path_factory.mktemp("ray")
    (box / "scenario.txt").write_text("gpus = 4\n")
    for name, text in (("nvidia-smi", SMI), ("ongpu", GATE)):
        (box / name).write_text(text)
        (box / name).chmod(0o755)
    port, log = free_port(), box / "start.log"
    state = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short: its sockets' names are bounded
    environ = {
        "PATH": f"{box}:{os.environ['PATH']}", "HOME": str(box), "RAY": str(RAY), "LD_LIBRARY_PATH": str(nvml), "LANG": "C.UTF-8",
        "FAKE_NVML": str(box / "scenario.txt"), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    options = {
        "port": free_port(), "dashboard-port": port, "dashboard-agent-listen-port": free_port(), "ray-client-server-port": free_port(),
        "min-worker-port": 0, "max-worker-port": 0, "num-cpus": 8, "object-store-memory": 100_000_000, "temp-dir": state,
        "node-ip-address": "127.0.0.1",
    }  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["sh", str(HOOK), "--head", "--block", "--disable-usage-stats", *(f"--{name}={value}" for name, value in options.items())],
            env=environ, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    there = Cluster(f"http://127.0.0.1:{port}", box, log)

    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(EngineError):
            return bool(there.engine().jobs(Want()).cards)
        return False

    try:
        until(ready, 90, 0.2)
        yield there
    finally:
        _end(process, state)
        shutil.rmtree(state, ignore_errors=True)


def _end(process: "subprocess.Popen[bytes]", state: str) -> None:
    """Those of its session, and those that left it and still name its folder."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if state.encode() in (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)


def shell(text: str, **more: Any) -> Spec:
    return Spec(command=("sh", "-c", text), **more)


def output(cluster: Cluster, job: str, **more: Any) -> bytes:
    return b"".join(cluster.engine().output(job, **more))


def gpus(cluster: Cluster, job: str) -> tuple[str, ...]:
    """Of its line "got ..." (Ray's own lines quote the command), which may come some time after Ray says that it runs."""
    (line,) = until(lambda: [line for line in output(cluster, job).decode().splitlines() if line.startswith("got ")], 30, 0.2)
    return tuple(line[4:].split(","))


def test_the_hook_offers_only_what_the_gate_passed(cluster: Cluster) -> None:
    assert f"kept from Ray: {SICK}: gpu-fell-off-bus: GPU 2" in cluster.log.read_text()
    (node,) = cluster.engine()._nodes()
    assert (node.offered, node.total["ongpu_fit"], len(node.gpus), node.kind) == (3, 3, 4, "A100")
    (kept,) = [card for card in cluster.engine().jobs(Want()).cards if card.state != "ok"]
    assert (kept.id, kept.state, kept.slug) == (SICK, "drained", "gpu-fell-off-bus")
    (job,) = cluster.engine().submit([shell('echo "got $CUDA_VISIBLE_DEVICES"', gpus=3)])
    assert cluster.over(job).code == 0
    got = gpus(cluster, job)
    assert len(got) == 3
    assert SICK not in got
    with pytest.raises(EngineError, match="at most 3"):
        cluster.engine().submit([shell("true", gpus=4)])


def test_environment_folder_and_exit_code(cluster: Cluster) -> None:
    variables = {"LR": "0.1 中", "ODD": "a$HOME ${NONE} 'b\" $$"}
    spec = shell('echo "$LR $ONGPU_JOB $PWD"; echo "$ODD"; printf "\\377"; exit 7', gpus=0, environ=variables, folder=str(cluster.folder))
    (job,) = cluster.engine().submit([spec])
    told = cluster.over(job)
    assert (told.state, told.ending, told.code) == (jobs.FAILED, "program", 7)
    assert f"0.1 中 {job} {cluster.folder}\n".encode() in output(cluster, job)
    assert f"\n{variables['ODD']}\n".encode() in output(cluster, job)
    assert output(cluster, job).endswith(b"\xff")
    assert told.spec.command == spec.command


def test_an_uploaded_folder(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('from afar', __file__)")
    (job,) = cluster.engine(folder="upload").submit([Spec(command=("python", "train.py"), gpus=0, folder=str(tmp_path))])
    assert cluster.over(job).code == 0
    assert b"from afar" in output(cluster, job)


def test_shares_are_on_one_gpu_together(cluster: Cluster) -> None:
    specs = [shell('echo "got $CUDA_VISIBLE_DEVICES"; sleep 20', share=True, memory=20 << 10) for _ in range(2)]
    ids = [cluster.engine().submit([spec])[0] for spec in specs]
    until(lambda: all(cluster.one(job).state == jobs.RUNNING for job in ids), 30, 0.2)
    (node,) = cluster.engine()._nodes()
    until(lambda: cluster.engine()._nodes()[0].free == node.offered - 0.5, 10, 0.5)
    assert len({gpus(cluster, job) for job in ids}) == 1
    cluster.engine().cancel(ids)


def test_a_job_that_waits_and_is_cancelled_never_starts(cluster: Cluster) -> None:
    mark = cluster.folder / "started"
    (first,) = cluster.engine().submit([shell("sleep 60", gpus=3)])
    until(lambda: cluster.one(first).state == jobs.RUNNING, 30, 0.2)
    (second,) = cluster.engine().submit([shell(f"touch {mark}; sleep 60", gpus=1)])
    time.sleep(2)
    waiting = cluster.one(second)
    assert waiting.state == jobs.WAITING
    assert "free on one are 0 of 3" in until(lambda: "free on one" in (line := cluster.engine().why(waiting)[0][0]) and line, 15, 0.5)
    cluster.engine().cancel([second])
    cluster.engine().cancel([first])
    assert cluster.over(first).state == jobs.CANCELLED
    assert cluster.over(second).state == jobs.CANCELLED
    assert not mark.exists()


def test_grace_and_follow(cluster: Cluster) -> None:
    spec = shell("trap 'echo saved; sleep 5; echo later; exit 0' TERM; echo ready; while :; do sleep 0.1; done", gpus=1, grace=20.0)
    (job,) = cluster.engine().submit([spec])
    got, asked = b"", False
    for piece in cluster.engine().output(job, follow=True):
        got += piece
        if b"\nready" in got and not asked:
            cluster.engine().cancel([job])
            asked = True
    assert got.endswith(b"saved\nlater\n")  # Ray's own 3 s would have cut it off
    assert cluster.one(job).state == jobs.CANCELLED


def test_a_time_limit(cluster: Cluster) -> None:
    (job,) = cluster.engine().submit([shell("sleep 60", gpus=0, limit=1.0)])
    told = cluster.over(job)
    assert (told.state, told.ending) == (jobs.FAILED, jobs.TIMEOUT)


def test_an_array(cluster: Cluster) -> None:
    ids = cluster.engine().submit([shell("exit $ONGPU_ARRAY_INDEX", gpus=0, index=place) for place in (0, 4)])
    assert [cluster.over(job).code for job in ids] == [0, 4]
    assert {told.id for told in cluster.engine().jobs(Want(ids=(ids[0].rpartition("_")[0],))).jobs} == set(ids)


def test_what_is_wrong_with_the_token_is_said(cluster: Cluster) -> None:
    config = Config(ray=RayConfig(address=cluster.url))
    for environ, words in (({"HOME": "/nonexistent"}, "RAY_AUTH_TOKEN"), ({"RAY_AUTH_TOKEN": "x"}, "does not allow")):
        with pytest.raises(EngineError, match=words):
            Ray(config, environ).jobs(Want())


def test_ray_takes_every_field_that_we_send(cluster: Cluster) -> None:
    """And one that it does not know is an error there: so the list in parts/ray_server.py is the true one."""
    from parts.ray_server import FIELDS

    names = subprocess.run(
        [str(RAY.parent / "python"), "-c",
         "import dataclasses as d, ray.dashboard.modules.job.common as c; print(*[f.name for f in d.fields(c.JobSubmitRequest)])"],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout.split()  # fmt: skip
    assert set(names) == set(FIELDS)


def test_what_ray_can_keep_is_what_it_was_asked(cluster: Cluster) -> None:
    spec = shell("true", gpus=1, memory=1024, model="A100", capability=(8, 0), cpus=1, host_memory=64, project="p", name="n")
    (job,) = cluster.engine().submit([spec])
    told = cluster.over(job)
    assert replace(told.spec, environ={}) == spec
    assert told.code == 0
