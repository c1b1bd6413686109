"""What this machine has, for a configuration of Slurm: GPUs and their device files, CPUs, memory, cgroups, the installed Slurm."""

import contextlib
import os
import platform
import re
import sys
from pathlib import Path

from ongpu.hosts.processes import which
from ongpu.lazy import dataclass, lazy
from ongpu.queue.engines import EngineError

_PAIR = lazy(r"(\w{1,40})=(\S{1,100})")
_PLUGINS = (
    "/usr/lib/*/slurm-wlm",
    "/usr/lib/*/slurm",
    "/usr/lib64/slurm",
    "/usr/lib/slurm",
    "/usr/local/lib/slurm",
    "/opt/slurm/lib/slurm",
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. index: NVML's, by the place on the bus; minor: of its device file, None: not told; memory in MiB."""

    index: int
    name: str
    minor: int | None = None
    memory: int | None = None
    mig: bool = False
    uuid: str = ""

    @property
    def type(self) -> str:
        """As Slurm can name it: "rtx_4090", "a100-sxm4-80gb"; AutoDetect finds names that hold it."""
        plain = re.sub(r"^(?:nvidia|tesla|quadro)\s+(?=\S)", "", re.sub(r"\bgeforce\s+", "", self.name.strip().lower()))
        plain = re.sub(r"^(?:tesla|quadro)\s+(?=\S)", "", plain)
        word = re.sub(r"[^a-z0-9.-]+", "_", plain).strip("_.-")
        return word if word[:1].isalpha() else f"gpu_{word}" if word else "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This machine. memory in MiB; cgroup: "v1", "v2", "" (none); version: of Slurm, () where it is not installed; ctld: as
    `slurmd -C` says it; nodes: device files of GPUs that are there, by minor; told: the GPUs were asked for and answered."""

    host: str = "localhost"
    cpus: int = 1
    sockets: int = 1
    cores: int = 1
    threads: int = 1
    memory: int = 1024
    gpus: tuple[Gpu, ...] = ()
    told: bool = True
    nodes: frozenset[int] = frozenset()
    cgroup: str = "v2"
    systemd: bool = True
    version: tuple[int, ...] = ()
    plugins: frozenset[str] | None = None  # None: not known
    users: frozenset[str] = frozenset({"slurm"})
    ongpu: str = "/usr/local/bin/ongpu"
    unsafe: str = ""  # a file that root would run by it, and that others than root may change


def look(root: str = "/", patience: float = 10.0) -> Here:
    """The machine whose file system lies there, asked for some seconds at most."""
    from ongpu.queue import gate
    from ongpu.queue.machine import ask

    report = ask(root, gate.DEFAULT, patience)
    shown = gate.cards(report)
    gpus = tuple(
        Gpu(card.index or 0, card.name or "gpu", _minor(root, card.bus), card.memory_total, bool(card.mig), card.uuid or "")
        for card in shown
    )
    told = gate.complete(report)
    host = platform.node().partition(".")[0] if root == "/" else _text(root, "/etc/hostname").strip().partition(".")[0]
    topology = _slurmd(root) or _proc(root)
    devices = Path(root, "dev").glob("nvidia[0-9]*")
    nodes = frozenset(int(path.name[6:]) for path in devices if path.name[6:].isdecimal())
    users = frozenset(line.partition(":")[0] for line in _text(root, "/etc/passwd").splitlines())
    ours = _ongpu()
    systemd = Path(root, "run/systemd/system").is_dir()
    return Here(
        host=host or "localhost", gpus=gpus, told=told, nodes=nodes, cgroup=_cgroup(root), systemd=systemd,
        version=_version(root), plugins=_plugins(root), users=users, ongpu=ours, unsafe=unsafe(ours), **topology,
    )  # fmt: skip


def _text(root: str, path: str, most: int = 1 << 20) -> str:
    with contextlib.suppress(OSError), open(Path(root, path.lstrip("/")), "rb") as file:
        return file.read(most).decode("utf-8", "replace")
    return ""


def _minor(root: str, bus: str | None) -> int | None:
    """The number of its device file, as the kernel module tells it: not always its place on the bus."""
    if not bus:
        return None
    text = _text(root, f"/proc/driver/nvidia/gpus/{bus.lower()[-12:]}/information", 4096)
    match = re.search(r"Device Minor:\s{0,20}(\d{1,4})", text)
    return int(match[1]) if match else None


def _slurmd(root: str) -> dict[str, int]:
    """What slurmd itself would tell the controller."""
    if root != "/" or not which("slurmd", f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/opt/slurm/sbin"):
        return {}
    told = dict(_PAIR.findall(_run(["slurmd", "-C"])))
    try:
        sockets = int(told.get("SocketsPerBoard") or told["Sockets"]) * int(told.get("Boards", "1"))
        return {
            "cpus": int(told["CPUs"]), "sockets": sockets, "cores": int(told["CoresPerSocket"]), "threads": int(told["ThreadsPerCore"]),
            "memory": int(told["RealMemory"]),
        }  # fmt: skip
    except (KeyError, ValueError):
        return {}


def _run(argv: list[str]) -> str:
    from ongpu.queue.engines.slurm.ask import ask

    try:
        return ask(argv, limit=5.0).out
    except EngineError:
        return ""


def _proc(root: str) -> dict[str, int]:
    blocks = [dict(re.findall(r"(?m)^([a-z ]{1,30}?)\s*: (.{0,200})$", block)) for block in _text(root, "/proc/cpuinfo").split("\n\n")]
    seen = [(b.get("physical id", "0"), b.get("core id", b["processor"])) for b in blocks if "processor" in b]
    memory = re.search(r"MemTotal:\s{0,20}(\d{1,15}) kB", _text(root, "/proc/meminfo"))
    cpus = len(seen) or (os.cpu_count() or 1 if root == "/" else 1)
    sockets = len({socket for socket, _ in seen}) or 1
    cores = max(1, len(set(seen)) // sockets)
    threads = max(1, cpus // (sockets * cores))
    if sockets * cores * threads != cpus:  # cores that are switched off, or unlike ones
        sockets, cores, threads = 1, cpus, 1
    return {"cpus": cpus, "sockets": sockets, "cores": cores, "threads": threads, "memory": int(memory[1]) // 1024 if memory else 1024}


def _cgroup(root: str) -> str:
    if Path(root, "sys/fs/cgroup/cgroup.controllers").exists():
        return "v2"
    return "v1" if any(Path(root, "sys/fs/cgroup", name).is_dir() for name in ("devices", "memory", "cpuset")) else ""


def _version(root: str) -> tuple[int, ...]:
    if root != "/":
        return ()
    match = re.search(r"(\d{2})\.(\d{2})\.(\d{1,3})", _run(["slurmd", "-V"]) or _run(["sinfo", "--version"]))
    return tuple(int(part) for part in match.groups()) if match else ()


def _plugins(root: str) -> frozenset[str] | None:
    names = {path.name for pattern in _PLUGINS for path in Path(root).glob(f"{pattern.lstrip('/')}/*.so")}
    return frozenset(names) or None


def _ongpu() -> str:
    beside = Path(sys.prefix, "bin", "ongpu")
    if beside.exists():
        return str(beside)
    return which("ongpu", os.environ.get("PATH")) or "/usr/local/bin/ongpu"


def unsafe(path: str) -> str:
    """The file or folder, of that path and of what it leads to, that somebody else than root may change; "" where there is none."""
    places = [path, os.path.realpath(path)]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        with open(path, "rb") as file:
            first = file.readline(1024)
        if first.startswith(b"#!/"):  # its interpreter
            program = first[2:].split()[0].decode()
            places += [program, os.path.realpath(program)]
    for place in dict.fromkeys(places):
        here = place
        while True:
            with contextlib.suppress(OSError):
                info = os.stat(here)
                if info.st_uid != 0 or (info.st_mode & 0o022 and not info.st_mode & 0o1000):
                    return here
            if here in ("/", ""):
                break
            here = os.path.dirname(here)
    return ""
