"""What /proc says of the processes on the GPUs: pure parsers, and bounded looks that go round.

A look reads at most 256 processes, each with at most 64 threads and 32 descendants.
"""

import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ongpu.hosts.redact import Redactor
from ongpu.lazy import lazy

MOST_LOOKS, MOST_THREADS, MOST_CHILDREN, MOST_READ = 256, 64, 32, 1 << 16
LENGTH = 200  # characters of a command line that are told
EVERY, SELDOM = 4, 12  # looks between two at all threads' children (those of the first: each time), at the command line
MOST_OPEN = 64  # processes whose files are kept open
try:
    TICKS = os.sysconf("SC_CLK_TCK")
    PAGE = os.sysconf("SC_PAGE_SIZE")
except (AttributeError, ValueError, OSError):  # not a system with /proc
    TICKS, PAGE = 100, 4096
_SECRET_FLAG = lazy(r"^--?[\w-]{0,60}(?:token|secret|passw(?:or)?d|api[_-]?key|private[_-]?key|credential)s?$", re.IGNORECASE)
_ID = r"(?P<id>[0-9a-f]{64}|[0-9a-f]{32}-[0-9]{1,12})"
_CONTAINER = lazy(rf"(?:^|[/:-])(?P<kind>docker|libpod|crio|cri-containerd|containerd|nerdctl)?[/:-]?{_ID}(?:\.scope)?(?:/|$)")
_NAMED = lazy(r"/(?:lxc\.payload|lxc|machine\.slice/machine)(?:[/.-])(?P<name>[\w.-]{1,64}?)(?:\.scope)?(?:/|$)")
_POD = lazy(r"pod(?P<uid>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})")
_SLURM = lazy(r"/slurm[\w.-]{0,64}(?:/[\w.-]{1,64}){0,2}/job_(?P<id>\d{1,12})(?:/|$)")
_JOB_VARIABLES = ((b"SLURM_JOB_ID", "slurm"), (b"SLURM_JOBID", "slurm"), (b"PBS_JOBID", "pbs"), (b"LSB_JOBID", "lsf"))
_SAFE = lazy(r"[^\w.\[\],:@/-]")


class Stat(NamedTuple):
    """Of /proc/PID/stat (proc_pid_stat(5))."""

    name: str
    state: str
    parent: int
    cpu: float  # seconds, user and system, all threads
    threads: int
    start: int  # ticks since boot
    rss: int  # MiB


def stat(data: bytes) -> Stat | None:
    """None for what is no such line. The name may hold anything, blanks and brackets too."""
    head, found, tail = data.rpartition(b")")
    fields = tail.split()
    if not found or len(fields) < 22:
        return None
    try:
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        state = fields[0].decode("ascii", "replace")[:1]
        cpu = (int(fields[11]) + int(fields[12])) / TICKS
        return Stat(name, state, int(fields[1]), cpu, int(fields[17]), int(fields[19]), max(0, int(fields[21])) * PAGE >> 20)
    except ValueError:
        return None


def io(data: bytes) -> tuple[int | None, int | None]:
    """(read_bytes, rchar) of /proc/PID/io; None for what it does not tell."""
    told = dict(line.split(b": ", 1) for line in data.splitlines() if b": " in line)

    def number(name: bytes) -> int | None:
        value = told.get(name, b"")
        return int(value) if value.isdigit() and len(value) < 20 else None

    return number(b"read_bytes"), number(b"rchar")


def container(text: str) -> str | None:
    """Its id, 12 digits, or its name, of /proc/PID/cgroup (version 1 or 2): "docker:0123456789ab", "lxc:name"."""
    for line in text.splitlines():
        path = line.partition(":")[2].partition(":")[2]
        if found := _CONTAINER.search(path[-400:]):
            kind = found["kind"] or ("k8s" if "kubepods" in path else "docker" if "docker" in path else "container")
            return f"{ {'libpod': 'podman', 'cri-containerd': 'containerd'}.get(kind, kind) }:{found['id'][:12]}"
        if named := _NAMED.search(path[:400]):
            return f"{'lxc' if 'lxc' in path else 'machine'}:{named['name']}"
    return None


def job(text: str, variables: bytes = b"") -> str | None:
    """Whose work it is: "slurm:123", "k8s:<uid of the pod>", "docker:<12 digits>"; of the cgroup, else of the environment."""
    if found := _SLURM.search(text[:MOST_READ]):
        return f"slurm:{found['id']}"
    if found := _POD.search(text[:MOST_READ]):
        return f"k8s:{found['uid'].replace('_', '-')}"
    told = dict(pair.split(b"=", 1) for pair in variables.split(b"\0") if b"=" in pair) if variables else {}
    for name, scheduler in _JOB_VARIABLES:
        if value := told.get(name):
            return f"{scheduler}:{_SAFE.sub('', value[:40].decode('ascii', 'replace'))}"
    return container(text)


def command(data: bytes) -> str:
    """The command line on one line, without secrets, cut."""
    words = [word.decode("utf-8", "replace") for word in data[: 20 * LENGTH].rstrip(b"\0").split(b"\0")]
    for place, word in enumerate(words[:-1]):
        if _SECRET_FLAG.search(word[:100]):
            words[place + 1] = "<secret>"
    text = " ".join(" ".join(words).split())
    text = Redactor().secrets("".join(c if c.isprintable() else "?" for c in text))
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"


def read(path: str) -> bytes | None:
    """The file's first 64 KiB; None where it is not there or not ours to read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, MOST_READ)
    except OSError:  # it ended meanwhile
        return None
    finally:
        os.close(file)


class _Known:
    """What is kept of a process between two looks; of a few also their files, open: that saves two thirds of a look."""

    def __init__(self, folder: str, start: int, keep: bool) -> None:
        self.folder, self.start, self.keep = folder, start, keep
        self.files: dict[str, int] = {}
        self.fixed: dict[str, Any] = {}  # what does not change
        self.main = 0.0  # seconds of the busiest thread, summed look by look
        self.threads: dict[int, float] = {}
        self.looks = 0
        self.line = b""  # the command line
        self.children: list[int] = []

    def read(self, name: str) -> bytes | None:
        """The file's first 64 KiB, as `read` gives them; None too where the process ended, whoever has its number now."""
        if not self.keep:
            return read(f"{self.folder}/{name}")
        try:
            if name not in self.files:
                self.files[name] = os.open(f"{self.folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self.files[name], MOST_READ, 0)
        except OSError:
            return None

    def close(self) -> None:
        """It is looked at no more."""
        for file in self.files.values():
            os.close(file)
        self.files = {}


class Looks:
    """/proc under a root, looked at again and again. A pid of another namespace is told as not visible."""

    def __init__(self, root: str = "", namespace: bool = True) -> None:
        self.proc = f"{root}/proc"
        self.namespace = namespace  # whether NVML's pids are ours
        self.live = not root
        self.known: dict[int, _Known] = {}
        self.users: dict[int, str] = {}
        self.turn = 0

    def all(self, pids: Iterable[int]) -> dict[str, dict[str, Any]]:
        """pid -> facts.sample.HOST for as many as one look reads; the others at the next."""
        alive = set(pids)
        for pid in self.known.keys() - alive:
            self.known.pop(pid).close()
        wanted = sorted(alive)
        if len(wanted) > MOST_LOOKS:
            self.turn %= len(wanted)
            wanted, self.turn = (wanted * 2)[self.turn : self.turn + MOST_LOOKS], self.turn + MOST_LOOKS
        return {str(pid): self.one(pid) for pid in wanted}

    def one(self, pid: int) -> dict[str, Any]:
        """facts.sample.HOST of one process; {} where it is not visible from here."""
        known = self.known.get(pid)
        told = stat((known.read("stat") if known else None) or read(f"{self.proc}/{pid}/stat") or b"")
        if known and (told is None or told.start != known.start):  # it ended
            self.known.pop(pid).close()
            known = None
        if told is None:
            return {}
        if known is None:
            known = self.known[pid] = _Known(f"{self.proc}/{pid}", told.start, self.live and len(self.known) < MOST_OPEN)
            if self.namespace or self._holds_a_gpu(pid):
                known.fixed = self._fixed(pid)
        if not known.fixed:
            return {}
        if known.looks % SELDOM == 0 or not known.line:  # empty for a moment at its start, and of one that is a zombie
            known.line = read(f"{self.proc}/{pid}/cmdline") or b""
            known.fixed["command"] = command(known.line or told.name.encode())
        reads, chars = io(known.read("io") or b"")
        threads = self._threads(pid, told, known)
        known.looks += 1
        return {
            **known.fixed, "start": told.start, "cpu": told.cpu, "main": round(known.main, 2), "state": told.state, "rss": told.rss,
            "threads": told.threads, "read": reads, "rchar": chars, "children": self._children(pid, threads, known),
        }  # fmt: skip

    def _holds_a_gpu(self, pid: int) -> bool:
        """Whether it has a device of the driver open: the number may be of another namespace, and this another process."""
        try:
            files = os.listdir(f"{self.proc}/{pid}/fd")[:1024]
            return any(os.readlink(f"{self.proc}/{pid}/fd/{file}").startswith("/dev/nvidia") for file in files)
        except OSError:
            return False

    def _fixed(self, pid: int) -> dict[str, Any]:
        try:
            uid = os.stat(f"{self.proc}/{pid}").st_uid
        except OSError:
            return {}
        groups = (read(f"{self.proc}/{pid}/cgroup") or b"").decode("utf-8", "replace")
        own = self.live and hasattr(os, "geteuid") and uid == os.geteuid()
        variables = read(f"{self.proc}/{pid}/environ") if own else None
        return {"uid": uid, "user": self._user(uid), "container": container(groups), "job": job(groups, variables or b"")}

    def _user(self, uid: int) -> str:
        if uid not in self.users:
            try:
                import pwd

                self.users[uid] = pwd.getpwuid(uid).pw_name
            except (ImportError, KeyError):
                self.users[uid] = str(uid)
        return self.users[uid]

    def _threads(self, pid: int, told: Stat, known: _Known) -> list[int]:
        """The threads that were looked at. The busiest since the last look adds its time to `main`."""
        if told.threads <= 1:
            known.main = told.cpu
            return [pid]
        try:
            threads = sorted(int(name) for name in os.listdir(f"{self.proc}/{pid}/task"))
        except (OSError, ValueError):
            return [pid]
        if len(threads) > MOST_THREADS:  # the first, those that were busiest, and some others, in turn
            turn = known.looks * (MOST_THREADS // 2) % len(threads)
            before = sorted(known.threads, key=known.threads.__getitem__, reverse=True)[: MOST_THREADS // 2 - 1]
            threads = [pid, *before, *(threads * 2)[turn : turn + MOST_THREADS // 2]]
        now: dict[int, float] = {}
        for thread in threads:
            if about := stat(read(f"{self.proc}/{pid}/task/{thread}/stat") or b""):
                now[thread] = about.cpu
        if known.looks == 0:
            known.main = max(now.values(), default=0.0)
        else:
            known.main += max((cpu - known.threads[thread] for thread, cpu in now.items() if thread in known.threads), default=0.0)
        alive = set(threads)
        known.threads = now if len(now) == told.threads else {**{t: c for t, c in known.threads.items() if t in alive}, **now}
        return list(now) or [pid]

    def _children(self, pid: int, threads: list[int], known: _Known) -> list[list[Any]]:
        """[pid, name, cpu seconds, state, read bytes or null] of its descendants, the busiest first."""
        found: dict[int, Stat] = {}
        asked = threads if known.looks % EVERY == 1 else threads[:1]
        first = _numbers(known.read(f"task/{pid}/children")) if pid in asked else []
        queue = list(dict.fromkeys([*first, *self._below(pid, (t for t in asked if t != pid)), *known.children]))
        for child in queue:  # grows while it is read
            if len(found) >= 2 * MOST_CHILDREN:
                break
            about = stat(read(f"{self.proc}/{child}/stat") or b"")
            if about is None or child in found:
                continue
            if child in known.children and about.parent != pid and about.parent not in found:
                continue  # the number went to another process
            found[child] = about
            queue.extend(grandchild for grandchild in self._below(child, [child]) if grandchild not in queue)
        busiest = sorted(found.items(), key=lambda item: (-item[1].cpu, item[0]))[:MOST_CHILDREN]
        known.children = [child for child, _ in busiest]
        return [[c, s.name[:32], s.cpu, s.state, io(read(f"{self.proc}/{c}/io") or b"")[0]] for c, s in busiest]

    def _below(self, pid: int, threads: Iterable[int]) -> list[int]:
        """The children that these threads of a process have (proc_tid_children(5))."""
        return [child for thread in threads for child in _numbers(read(f"{self.proc}/{pid}/task/{thread}/children"))]


def _numbers(data: bytes | None) -> list[int]:
    return [int(word) for word in (data or b"").split()[: 2 * MOST_CHILDREN] if word.isdigit()]
