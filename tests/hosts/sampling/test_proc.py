"""/proc of the GPU processes: parsers that nothing breaks, secrets masked, bounded looks, and the right one of two processes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.facts.sample import HOST
from ongpu.hosts.sampling import proc
from ongpu.hosts.sampling.proc import Looks, command, container, io, job, stat

ID = "0123456789ab" + "cdef" * 13
POD = "8d7c2f1e-1111-2222-3333-444455556666"


def line(pid: int = 42, name: str = "python", state: str = "R", parent: int = 1, cpu: int = 250, threads: int = 3, start: int = 9) -> bytes:
    fields = [state, parent, 0, 0, 0, 0, 0, 0, 0, 0, 0, cpu - 50, 50, 0, 0, 20, 0, threads, 0, start, 1 << 30, 25600, *[0] * 30]
    return f"{pid} ({name}) {' '.join(map(str, fields))}\n".encode()


def test_stat() -> None:
    told = stat(line(name="a) R (b"))
    assert told is not None
    assert (told.name, told.state, told.parent, told.threads, told.start, told.rss) == ("a) R (b", "R", 1, 3, 9, 25600 * proc.PAGE >> 20)
    assert told.cpu == 250 / proc.TICKS
    assert stat(b"") is None
    assert stat(b"42 (x) R 1 2 3") is None
    assert stat(line().replace(b" 9 ", b" x ")) is None


@given(st.binary(max_size=300), st.text(max_size=16))
def test_nothing_breaks_the_parsers(data: bytes, name: str) -> None:
    assert stat(data) is None or isinstance(stat(data), proc.Stat)
    io(data), command(data), container(data.decode("latin-1")), job(data.decode("latin-1"), data)
    clean = name.encode("utf-8", "replace").decode().replace("\0", "")
    told = stat(line(name=clean))
    assert told
    assert (told.name, told.start) == (clean, 9)


@given(st.integers(0, 1 << 63), st.integers(0, 1 << 63))
def test_io(read: int, rchar: int) -> None:
    text = f"rchar: {rchar}\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: {read}\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
    assert io(text.encode()) == (read, rchar)
    assert io(b"") == (None, None)
    assert io(b"read_bytes: -1\nrchar: many") == (None, None)


@pytest.mark.parametrize(
    ("text", "inside", "work"),
    [
        ("0::/init.scope", None, None),
        ("0::/user.slice/user-1000.slice/session-3.scope", None, None),
        (f"0::/system.slice/docker-{ID}.scope", "docker:0123456789ab", "docker:0123456789ab"),
        (f"12:devices:/docker/{ID}\n0::/", "docker:0123456789ab", "docker:0123456789ab"),
        (f"0::/user.slice/user-1000.slice/user@1000.service/libpod-{ID}.scope/container", "podman:0123456789ab", "podman:0123456789ab"),
        (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
         "containerd:0123456789ab", f"k8s:{POD}"),
        (f"11:cpu:/kubepods/besteffort/pod{POD}/{ID}", "k8s:0123456789ab", f"k8s:{POD}"),
        (f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-{ID}.scope", "crio:0123456789ab", f"k8s:{POD}"),
        ("0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", None, "slurm:123"),
        ("9:cpuset:/slurm/uid_1000/job_4567/step_batch", None, "slurm:4567"),
        ("9:cpuset:/slurm_node01/uid_1000/job_4567/step_batch", None, "slurm:4567"),
        ("0::/lxc.payload.train/init.scope", "lxc:train", "lxc:train"),
        ("0::/lxc/train/x", "lxc:train", "lxc:train"),
        ("0::/machine.slice/machine-deb.scope", "machine:deb", "machine:deb"),
    ],
)  # fmt: skip
def test_where_it_runs(text: str, inside: str | None, work: str | None) -> None:
    assert container(text) == inside
    assert job(text) == work


def test_the_job_of_the_environment() -> None:
    assert job("0::/", b"PATH=/bin\0SLURM_JOB_ID=77\0") == "slurm:77"
    assert job("0::/", b"PBS_JOBID=12.host\0") == "pbs:12.host"
    assert job("0::/", b"LSB_JOBID=5\x1b[31m\0") == "lsf:5[31m"
    assert job("0::/system.slice/slurmstepd.scope/job_1/step_0", b"SLURM_JOB_ID=2\0") == "slurm:1"
    assert job("0::/", b"") is None


def test_a_command_line_without_secrets() -> None:
    assert command(b"python\0train.py\0--lr\x003e-4\0") == "python train.py --lr 3e-4"
    assert command(b"python\0x.py\0--hf-token\0hf_short\0--api_key\0abc\0-v\0") == "python x.py --hf-token <secret> --api_key <secret> -v"
    assert command(b"env\0WANDB_API_KEY=0123456789\0python\0") == "env WANDB_API_KEY=<secret> python"
    assert command(b"python\0/home/ada/train.py\0") == "python /home/ada/train.py"  # whose it is, the machine's own users may see
    assert "hunter" not in command(b"curl\0https://ada:hunter2@example.org/\0")
    assert command(b"a\nb\x1b[2J\0\xff\0") == "a b?[2J \ufffd"
    long = command(b"python\0" + b"x" * 10_000)
    assert len(long) == proc.LENGTH
    assert long.endswith("…")


def tree(root: Path, pid: int, parent: int = 1, children: tuple[int, ...] = (), **fields: int) -> None:
    folder = root / "proc" / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_bytes(line(pid, parent=parent, **{"threads": 1, **fields}))
    (folder / "task" / str(pid) / "stat").write_bytes(line(pid, parent=parent, **fields))
    (folder / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))
    (folder / "cmdline").write_bytes(b"python\0train.py\0")
    (folder / "cgroup").write_text(f"0::/system.slice/docker-{ID}.scope\n")
    (folder / "io").write_text("rchar: 5\nread_bytes: 6\n")


def test_a_recorded_tree(tmp_path: Path) -> None:
    tree(tmp_path, 42, children=(43, 44))
    tree(tmp_path, 43, parent=42, children=(45,), cpu=900)
    tree(tmp_path, 44, parent=42)
    tree(tmp_path, 45, parent=43, cpu=100)
    looks = Looks(str(tmp_path))
    told = looks.all([42, 4242])
    assert told["4242"] == {}
    host = told["42"]
    assert set(host) == set(HOST)
    assert (host["command"], host["container"], host["job"]) == ("python train.py", "docker:0123456789ab", "docker:0123456789ab")
    assert (host["start"], host["state"], host["read"], host["rchar"], host["threads"]) == (9, "R", 6, 5, 1)
    assert [(pid, cpu) for pid, _, cpu, _, _ in host["children"]] == [
        (43, 900 / proc.TICKS),
        (44, 250 / proc.TICKS),
        (45, 100 / proc.TICKS),
    ]
    tree(tmp_path, 42, start=10)  # the number went to another process
    assert looks.one(42)["start"] == 10


def test_the_busiest_thread_adds_up(tmp_path: Path) -> None:
    looks = Looks(str(tmp_path))
    second = proc.TICKS

    def threads(**cpu: int) -> float:
        tree(tmp_path, 42, threads=len(cpu), cpu=sum(cpu.values()) + 100)
        for name, ticks in cpu.items():
            folder = tmp_path / "proc/42/task" / name[1:]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stat").write_bytes(line(int(name[1:]), cpu=ticks + 50, threads=len(cpu)))
        return float(looks.one(42)["main"])

    begin = threads(t42=10 * second, t43=0, t44=second)
    assert begin == pytest.approx(10, abs=1)
    assert threads(t42=10 * second, t43=2 * second, t44=second) == pytest.approx(begin + 2)  # another one is busy now
    assert threads(t42=11 * second, t43=2 * second, t44=2 * second) == pytest.approx(begin + 3)


def test_ten_thousand_processes_are_looked_at_in_turn(tmp_path: Path) -> None:
    asked: list[int] = []

    class Counting(Looks):
        def one(self, pid: int) -> dict[str, object]:
            asked.append(pid)
            return {}

    looks, pids = Counting(str(tmp_path)), range(1, 10_001)
    for _ in range(40):
        assert len(looks.all(pids)) == proc.MOST_LOOKS
    assert set(asked) == set(pids)


def test_many_threads_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, 42, threads=5000)
    for thread in range(100, 1100):
        (tmp_path / f"proc/42/task/{thread}").mkdir()
    reads: list[str] = []
    real = proc.read
    monkeypatch.setattr(proc, "read", lambda path: reads.append(path) or real(path))
    looks = Looks(str(tmp_path))
    for _ in range(5):
        reads.clear()
        assert looks.one(42)["threads"] == 5000
        assert len(reads) < 3 * proc.MOST_THREADS


@pytest.fixture
def spinner() -> Iterator[subprocess.Popen[bytes]]:
    program = "import os, sys\nif os.fork() == 0:\n while True: pass\nprint('on', flush=True)\nos.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "--password", "hunter2"], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process
        finally:
            os.killpg(process.pid, 9)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_real_process(spinner: subprocess.Popen[bytes]) -> None:
    looks = Looks()
    first = looks.one(spinner.pid)
    time.sleep(0.5)
    second = looks.one(spinner.pid)
    assert (first["uid"], first["command"].endswith("--password <secret>")) == (os.getuid(), True)
    assert first["start"] == second["start"]
    ((child, _, before, _, _),) = first["children"]
    ((again, name, after, state, _),) = second["children"]
    assert (child, state) == (again, "R")
    assert name.startswith("python")
    assert 0.05 < after - before < 0.8
    assert looks.known[spinner.pid].files
    assert looks.all([]) == {}
    assert not looks.known
    other = Looks(namespace=False)  # a pid of another namespace: not this process, which has no GPU
    assert other.one(spinner.pid) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_ended_is_not_visible() -> None:
    looks = Looks()
    with subprocess.Popen(["sleep", "60"]) as process:
        for _ in range(100):
            if looks.one(process.pid)["command"] == "sleep 60":
                break
            time.sleep(0.05)
        assert looks.one(process.pid)["command"] == "sleep 60"
        process.kill()
    assert looks.one(process.pid) == {}
    assert not looks.known
