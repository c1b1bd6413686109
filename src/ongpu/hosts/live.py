"""This machine: commands run, files read, libraries called. Read-only, everything under a time limit, all at once."""

import glob
import grp
import os
import pwd
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from ongpu.model import Evidence, Get, Source

MAX_FILE = 8 << 20  # bytes of one file or output that are kept: the last ones, where the news is
PATIENCE = 15.0  # seconds after which what has not answered is told as "timed out"
SYSTEM = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)


@dataclass(frozen=True)
class Live:
    """A machine that can be asked. root: where its file system lies (another folder in tests and rescue systems).

    python: the interpreter to examine; None where none was found.
    commands: whether programs may be run (not under another root: they would tell about this machine).
    """

    root: Path = Path("/")
    python: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    system: str = SYSTEM

    @property
    def commands(self) -> bool:
        """Whether programs may be asked."""
        return self.root == Path("/")

    def place(self, path: str) -> Path:
        """Where an absolute path of that machine lies."""
        return self.root / path.lstrip("/")


def gather(machine: Live, sources: Sequence[Source]) -> list[Evidence]:
    """Everything that the sources want to know of this machine, asked in parallel."""
    wanted = [(s, get) for s in sources for get in s.get if get.only in ("", machine.system)]
    wanted.sort(key=lambda pair: not (pair[1].call or pair[1].argv))  # what may be slow starts first
    pool = ThreadPoolExecutor(max_workers=12, thread_name_prefix="ongpu")
    futures = [(pool.submit(ask, machine, source.kind, get), source, get) for source, get in wanted]
    wait_for([future for future, _, _ in futures], timeout=PATIENCE)
    found: list[Evidence] = []
    for future, source, get in futures:
        if future.done():
            found += future.result()
        else:
            found.append(Evidence(source.kind, "", name_of(get), problem=f"timed out after {PATIENCE:g} s"))
    pool.shutdown(wait=False, cancel_futures=True)
    return found


def name_of(get: Get) -> str:
    """What a reader calls it."""
    return " ".join(get.argv) or get.path or (f"ls -l {get.listing}" if get.listing else get.call)


def ask(machine: Live, kind: str, get: Get) -> list[Evidence]:
    """The evidence of one question. Never raises: what went wrong is the evidence's `problem`."""
    kind = get.kind or kind
    try:
        if get.argv:
            return [run(machine, kind, get)]
        if get.path:
            return read(machine, kind, get.path)
        if get.listing:
            return [listing(machine, kind, get.listing)]
        module, _, function = get.call.partition(":")
        text, problem = getattr(import_module(f"ongpu.hosts.{module}"), function)(machine, get.limit)
        return [Evidence(kind, text, get.call, problem=problem)] if text or problem else []
    except Exception as error:
        return [Evidence(kind, "", name_of(get), problem=f"{type(error).__name__}: {error}")]


def run(machine: Live, kind: str, get: Get) -> Evidence:
    """One command's output, standard error included. A program that is not there is evidence too."""
    command = " ".join(get.argv)
    program = shutil.which(get.argv[0], path=_path(machine)) if machine.commands else None
    if program is None:
        return Evidence(kind, "", command, command, problem="not found")
    text, problem = bounded([program, *get.argv[1:]], get.limit, machine.environ)
    return Evidence(kind, text, command, command, problem=problem)


def _path(machine: Live) -> str:
    return os.pathsep.join([machine.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def bounded(argv: Sequence[str], limit: float, environ: Mapping[str, str], stdin: str | None = None) -> tuple[str, str | None]:
    """(output, problem) of a program that gets `limit` seconds; the whole process group is ended after that.

    A process that sleeps in the driver ("D" state) cannot be ended: it is left behind, and we go on.
    """
    env = {**environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    with open(os.devnull, "rb") as nothing:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin is not None else nothing,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(stdin.encode() if stdin is not None else None, timeout=limit)
        except subprocess.TimeoutExpired as late:
            _end(process)
            return (late.stdout or b"").decode("utf-8", "replace")[-MAX_FILE:], f"timed out after {limit:g} s"
    text = output[-MAX_FILE:].decode("utf-8", "replace")
    return text, f"exit status {process.returncode}" if process.returncode else None


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, 9)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    for _ in range(10):
        if process.poll() is not None:
            break
        time.sleep(0.01)
    if process.stdout:
        process.stdout.close()


def read(machine: Live, kind: str, pattern: str) -> list[Evidence]:
    """The files that match a glob. A pattern without wildcard that matches nothing is told as "not found"."""
    paths = sorted(glob.glob(str(machine.place(pattern)))) if glob.has_magic(pattern) else [str(machine.place(pattern))]
    found = []
    for path in paths[:256]:
        origin = "/" + os.path.relpath(path, machine.root) if str(machine.root) != "/" else path
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size > MAX_FILE:
                    file.seek(-MAX_FILE, os.SEEK_END)
                text = file.read(MAX_FILE).decode("utf-8", "replace")
            found.append(Evidence(kind, text, origin, f"cat {origin}"))
        except FileNotFoundError:
            found.append(Evidence(kind, "", origin, problem="not found"))
        except PermissionError:
            found.append(Evidence(kind, "", origin, problem="denied"))
        except OSError as error:
            found.append(Evidence(kind, "", origin, problem=error.strerror or str(error)))
    return found


def listing(machine: Live, kind: str, pattern: str) -> Evidence:
    """The names, modes and owners that match a glob, as `ls -l` prints them; "[openable]" follows where we may open it."""
    lines = []
    for path in sorted(glob.glob(str(machine.place(pattern)), recursive=True))[:1024]:
        info = os.stat(path, follow_symlinks=True)
        shown = "/" + os.path.relpath(path, machine.root) if str(machine.root) != "/" else path
        mode = stat.filemode(info.st_mode)
        if shown.startswith("/dev/") and stat.S_ISREG(info.st_mode):  # a recorded tree holds no device nodes
            mode = "c" + mode[1:]
        device = f"{os.major(info.st_rdev)}, {os.minor(info.st_rdev)}" if hasattr(os, "major") else "0, 0"
        access = "openable" if os.access(path, os.R_OK | os.W_OK) else "not openable"
        lines.append(f"{mode} 1 {_user(info.st_uid)} {_group(info.st_gid)} {device} Jan  1 00:00 {shown}  # {access}")
    command = f"ls -l {pattern}"
    return Evidence(kind, "\n".join(lines), command, command, problem=None if lines else "not found")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def problems(evidence: Iterable[Evidence]) -> list[str]:
    """What could not be read, in words."""
    return [f"{item.origin}: {item.problem}" for item in evidence if item.problem]
