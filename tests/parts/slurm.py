"""A real Slurm with pretended GPUs: munge, slurmctld and slurmd as root, without systemd, by the configuration that ongpu writes.

GPUs are device files of a number that no driver has: opening one that a job was given fails with ENXIO, one that is fenced off with EPERM.
"""

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from parts.prometheus import free_port, until

from ongpu.lazy import replace
from ongpu.queue.engines.slurm.setup.here import Gpu, Here, look
from ongpu.queue.engines.slurm.setup.write import files

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
SBIN = "/usr/sbin:/usr/local/sbin:/sbin"
MAJOR = 240  # "local/experimental use" (kernel.org devices.txt)


def need() -> None:
    """Skip where it cannot be started."""
    if sys.platform != "linux":
        pytest.skip("Slurm runs on Linux only")
    if os.geteuid() != 0:
        pytest.skip("not root: slurmd cannot be started")
    missing = [name for name in PROGRAMS if not which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (tools/install_slurm)")


def which(name: str) -> str:
    """Where a program of the system lies; "" where it is not there."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}") or ""


class RealSlurm:
    """The daemons, running. settings: more or other lines of slurm.conf. fenced: whether it can use cgroups here. whole: with the CPUs and
    the memory that there are, and all of the fences; else eight CPUs are pretended."""

    def __init__(
        self, folder: Path, gpus: int = 4, settings: Mapping[str, str] | None = None, ongpu: Path | None = None, whole: bool = False
    ) -> None:
        self.folder, self.count, self.whole = folder, gpus, whole
        self.settings, self.ongpu = dict(settings or {}), ongpu
        self.host = platform.node().partition(".")[0] or "localhost"
        self.name = f"gpus{free_port()}"  # of the node and its cgroups: several Slurms may run here
        self.devices = Path(f"/dev/ongpu-test-{self.name}")
        self.running: list[subprocess.Popen[bytes]] = []
        self.fenced = True
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def here(self) -> Here:
        """This machine, with GPUs."""
        real = look("/", patience=2.0)
        cards = tuple(Gpu(i, "NVIDIA A100-SXM4-80GB", i, 81920) for i in range(self.count))
        if self.whole:
            return replace(real, host=self.host, gpus=cards, nodes=frozenset(range(self.count)), ongpu=str(self.ongpu or "/bin/true"))
        return Here(
            host=self.host, cpus=8, sockets=1, cores=8, threads=1, memory=real.memory, gpus=cards, nodes=frozenset(range(self.count)),
            cgroup=real.cgroup, systemd=real.systemd, version=real.version, plugins=real.plugins, ongpu=str(self.ongpu or "/bin/true"),
        )  # fmt: skip

    def __enter__(self) -> "RealSlurm":
        self._make_devices()
        try:
            self._munge()
            for self.fenced in (True, False):
                self._configure()
                if self._start():
                    return self
                self._stop(keep=1)  # munge goes on
            pytest.skip(f"Slurm does not start here: {self._log('slurmctld')[-300:]} {self._log('slurmd')[-300:]}")
        except BaseException:
            self.__exit__()
            raise
        raise AssertionError("not reached")

    def __exit__(self, *error: object) -> None:
        self._stop()
        shutil.rmtree(self.devices, ignore_errors=True)
        for place in Path("/sys/fs/cgroup").glob(f"*/slurm_{self.name}"):
            for deep in sorted(place.rglob("*/"), reverse=True):
                _remove(deep)
            _remove(place)

    def _make_devices(self) -> None:
        """Device files, for slurmd takes no others; in some containers nobody may make them."""
        try:
            self.devices.mkdir()
            for index in range(self.count):
                os.mknod(self.devices / f"nvidia{index}", 0o666 | 0o020000, os.makedev(MAJOR, index))
                os.chmod(self.devices / f"nvidia{index}", 0o666)
        except OSError as error:
            shutil.rmtree(self.devices, ignore_errors=True)
            pytest.skip(f"no device files can be made here: {error}")

    def _munge(self) -> None:
        place = self.folder / "munge"
        place.mkdir()
        place.chmod(0o755)
        key = place / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        argv = [
            which("munged"),
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={place / 'socket'}",
            f"--pid-file={place / 'pid'}",
        ]
        argv += [f"--log-file={place / 'log'}", f"--seed-file={place / 'seed'}", "--num-threads=2"]
        self._run(argv, "munged")
        until(lambda: (place / "socket").exists(), 10)

    def _configure(self) -> None:
        """The files that ongpu writes, with ports, paths and device files of our own; and without fences where the box has none."""
        here, folder = self.here(), self.folder
        for name, text in files(here, str(folder)).items():
            text = text.replace("File=/dev/", f"File={self.devices}/").replace(f"NodeName={self.host} Name", f"NodeName={self.name} Name")
            if name == "slurm.conf":
                text = self._slurm_conf(text)
            elif name == "cgroup.conf" and not self.whole:  # 8 CPUs are pretended, and the box lends its memory to all
                text = text.replace("ConstrainCores=yes", "ConstrainCores=no").replace("ConstrainRAMSpace=yes", "ConstrainRAMSpace=no")
            if name == "cgroup.conf" and not self.fenced:
                text = "ConstrainDevices=no\n"
            (folder / name).write_text(text)
            (folder / name).chmod(0o755 if name.endswith(".sh") else 0o644)
        for name in ("state", "spool"):
            (folder / name).mkdir(exist_ok=True)

    def _slurm_conf(self, text: str) -> str:
        folder = self.folder
        own = {
            "SlurmUser": "root", "AuthInfo": f"socket={folder / 'munge' / 'socket'}", "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": folder / "spool", "SlurmctldPidFile": folder / "slurmctld.pid", "SlurmdPidFile": folder / "slurmd.pid",
            "SlurmctldLogFile": folder / "slurmctld.log", "SlurmdLogFile": folder / "slurmd.log", "JobCompLoc": folder / "jobcomp.log",
            "SlurmctldPort": free_port(), "SlurmdPort": free_port(), "SlurmdParameters": "config_overrides", "TaskPlugin": "task/cgroup",
            "JobAcctGatherType": "jobacct_gather/none", "KillWait": 1, "HealthCheckInterval": 1, "SlurmdUser": "root",
        }  # fmt: skip
        if self.whole:
            for name in ("SlurmdParameters", "TaskPlugin", "JobAcctGatherType"):
                del own[name]
        if not self.fenced:
            own |= {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none"}
        own |= self.settings
        text = text.replace("bf_interval=5", "bf_interval=1").replace("sched_interval=5", "sched_interval=1")
        text = text.replace(f"NodeName={self.host} ", f"NodeName={self.name} NodeHostname={self.host} ")
        text = text.replace(f"Nodes={self.host} ", f"Nodes={self.name} ")
        lines = [line for line in text.splitlines() if line.partition("=")[0] not in own]
        return "\n".join([*(f"{name}={value}" for name, value in own.items() if value != ""), *lines, ""])

    def _run(self, argv: list[str], name: str) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environ, start_new_session=True)
        self.running.append(process)
        return process

    def _start(self) -> bool:
        conf = str(self.folder / "slurm.conf")
        controller = self._run([which("slurmctld"), "-D", "-f", conf], "slurmctld")
        node = self._run([which("slurmd"), "-D", "-f", conf, "-N", self.name], "slurmd")
        end = time.monotonic() + 15
        while time.monotonic() < end and controller.poll() is None and node.poll() is None:
            if "State=IDLE" in self.ask("scontrol", "show", "node", check=False):
                return True
            time.sleep(0.1)
        return False

    def _stop(self, keep: int = 0) -> None:
        if len(self.running) > 1 and self.running[1].poll() is None:
            self.ask("scancel", "--full", f"--user={os.environ.get('USER', 'root')}", check=False)
            time.sleep(0.3)
        for process in reversed(self.running[keep:]):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        del self.running[keep:]

    def restart_controller(self) -> None:
        """slurmctld ends, which saves its state, and starts again. (Killed, it forgets the jobs of the last five seconds.)"""
        self.running[1].terminate()
        self.running[1].wait(20)
        self._run([which("slurmctld"), "-D", "-f", str(self.folder / "slurm.conf")], "slurmctld")
        self.running[1] = self.running.pop()
        until(lambda: "State=" in self.ask("scontrol", "show", "node", check=False), 15)

    def _log(self, name: str) -> str:
        found = [self.folder / f"{name}.log", self.folder / f"{name}.out"]
        return "\n".join(place.read_text("utf-8", "replace") for place in found if place.exists())

    def ask(self, *argv: str, check: bool = True) -> str:
        """What one of its programs prints."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=30)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def node(self) -> dict[str, str]:
        """State, Reason and more of the node."""
        from ongpu.queue.engines.slurm.printed import fields

        return fields(self.ask("scontrol", "show", "node", "-d"))


def _remove(place: Path) -> None:
    with contextlib.suppress(OSError):
        place.rmdir()
