"""This machine: commands run, files read, libraries called. Read-only, everything under a time limit, all at once."""

import contextlib
import glob
import json
import os
import queue
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path

from ongpu.hosts.processes import MAX_OUTPUT, bounded, end, which
from ongpu.lazy import dataclass, field
from ongpu.model import Evidence, Get, Source

PATIENCE = 60.0  # seconds after which what has not answered is told as "timed out"; each question has its own, shorter limit
SYSTEM = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)
PATIENT = ("probe:ask",)  # questions that take seconds: waited for only where the quick ones did not find the cause
COMMANDS = ".ongpu/commands.json"  # in a recorded tree: {"dmesg --color=never": what it printed, ...}
Answer = tuple[str, str | None] | list[Evidence]


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
    running: "list[subprocess.Popen[bytes]]" = field(default_factory=list, repr=False, compare=False)  # by patient questions

    @property
    def commands(self) -> bool:
        """Whether programs may be asked."""
        return self.root == Path("/")

    @cached_property
    def recorded(self) -> Mapping[str, str]:
        """What commands printed on the machine whose tree this is, by command line."""
        try:
            answers = {} if self.commands else json.loads((self.root / COMMANDS).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return answers if isinstance(answers, dict) else {}

    def place(self, path: str) -> Path:
        """Where an absolute path of that machine lies."""
        return self.root / path.lstrip("/")

    def text(self, path: str, most: int = 1 << 20) -> str:
        """The start of a file; "" where it cannot be read."""
        try:
            with open(self.place(path), "rb") as file:
                return file.read(most).decode("utf-8", "replace")
        except OSError:
            return ""

    def names(self, *patterns: str) -> Iterable[str]:
        """The paths on that machine that match a glob, sorted."""
        root = str(self.root).rstrip("/")
        for pattern in patterns:
            if glob.has_magic(pattern):
                yield from (path[len(root) :] for path in sorted(glob.glob(root + pattern)))
            elif os.path.lexists(root + pattern):
                yield pattern


def gather(
    machine: Live,
    sources: Sequence[Source],
    meanwhile: Iterable[object] = (),
    enough: Callable[[list[Evidence]], bool] | None = None,
    patience: float | None = None,
) -> list[Evidence]:
    """Everything that the sources want to know of this machine, asked in parallel.

    meanwhile: work to be done in steps while a quick answer is awaited, no longer; the first step in any case.
    enough: whether the quick answers name the cause, so that the patient questions (the probe in the user's interpreter) need not be
    waited for. patience: seconds in all; None: PATIENCE.
    Each question has its own thread, a daemon: one that sleeps in the driver must not keep us from answering or ending.
    """
    wanted = [(s, get) for s in sources for get in s.get if get.only in ("", machine.system)]
    wanted.sort(key=lambda pair: not (pair[1].call or pair[1].argv))
    answers: dict[int, list[Evidence]] = {}
    done: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work(number: int, source: Source, get: Get) -> None:
        answers[number] = ask(machine, source.kind, get)
        done.put(number)

    for number, (source, get) in sorted(enumerate(wanted), key=lambda item: -item[1][1].limit):  # what may be slow starts first
        threading.Thread(target=work, args=(number, source, get), name=f"ongpu {name_of(get)}", daemon=True).start()
    patience = PATIENCE if patience is None else patience
    limit = time.monotonic() + patience
    pending = set(range(len(wanted)))
    quick = {number for number, (_, get) in enumerate(wanted) if get.call not in PATIENT}

    for _ in meanwhile:
        if len(answers) >= len(quick) and quick <= answers.keys():
            break

    def wait_for(numbers: set[int]) -> None:
        with contextlib.suppress(queue.Empty):
            while pending & numbers:
                pending.discard(done.get(timeout=max(0.0, limit - time.monotonic())))

    wait_for(quick)
    left: set[int] = set()  # not waited for: we end them, and what they say of that is no answer
    if pending and enough and enough(_once(item for number in sorted(quick - pending) for item in answers[number])):
        left = pending - quick
        pending -= left
    wait_for(pending.copy())
    for process in machine.running:
        end(process)
    found: list[Evidence] = []
    for number, (source, get) in enumerate(wanted):
        if number in pending:
            found.append(Evidence(source.kind, "", name_of(get), problem=f"timed out after {patience:g} s"))
        elif number not in left:
            found += answers.get(number, [])
    return sorted(_once(found), key=lambda item: item.kind == "pasted")  # who knows for sure speaks first


def _once(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Without what two sources asked for: a text of which "pasted" is read by all, an absence by the source that asked."""
    evidence = list(evidence)
    pasted = {item.origin for item in evidence if item.kind == "pasted" and item.text}
    asked = {item.origin for item in evidence if item.kind != "pasted" and not item.text}
    found = [
        item for item in evidence if (item.origin not in asked if item.kind == "pasted" else item.origin not in pasted) or not item.origin
    ]
    return list(dict.fromkeys(found))


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
        answer: Answer = getattr(import_module(f"ongpu.hosts.{module}"), function)(machine, get.limit)
        if isinstance(answer, list):
            return answer
        text, problem = answer
        return [Evidence(kind, text, get.call, problem=problem)] if text or problem else []
    except Exception as error:
        return [Evidence(kind, "", name_of(get), problem=f"{type(error).__name__}: {error}")]


def run(machine: Live, kind: str, get: Get) -> Evidence:
    """One command's output, standard error included. A program that is not there is evidence too."""
    command = " ".join(get.argv)
    text, problem = output(machine, get.argv, get.limit)
    return Evidence(kind, text, command, command, problem=problem)


def output(machine: Live, argv: Sequence[str], limit: float) -> tuple[str, str | None]:
    """(output, problem) of a command; under another root what was recorded of it."""
    command = " ".join(argv)
    if command in machine.recorded:
        return machine.recorded[command], None
    program = which(argv[0], _path(machine)) if machine.commands else None
    if program is None:
        return "", "not found"
    return bounded([program, *argv[1:]], limit, machine.environ)


def _path(machine: Live) -> str:
    return os.pathsep.join([machine.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def read(machine: Live, kind: str, pattern: str) -> list[Evidence]:
    """The files that match a glob. A pattern without wildcard that matches nothing is told as "not found"."""
    paths = list(machine.names(pattern)) if glob.has_magic(pattern) else [pattern]
    found = []
    for origin in paths[:256]:
        command = f"cat {origin}"
        try:
            with open(machine.place(origin), "rb") as file:
                if os.fstat(file.fileno()).st_size > MAX_OUTPUT:
                    file.seek(-MAX_OUTPUT, os.SEEK_END)
                text = file.read(MAX_OUTPUT).decode("utf-8", "replace")
            found.append(Evidence(kind, text, origin, command))
        except FileNotFoundError:
            found.append(Evidence(kind, "", origin, command, problem="not found"))
        except PermissionError:
            found.append(Evidence(kind, "", origin, command, problem="denied"))
        except OSError as error:
            found.append(Evidence(kind, "", origin, command, problem=error.strerror or str(error)))
    return found


def listing(machine: Live, kind: str, pattern: str) -> Evidence:
    """The names, modes and owners that match a glob, as `ls -l` prints them; "openable" follows where we may open it."""
    from ongpu.hosts.accounts import group_name, openable, user_name

    lines = []
    for shown in list(machine.names(pattern))[:1024]:
        path = machine.place(shown)
        try:
            info = os.stat(path)
        except OSError:  # a dangling link, or gone between the two looks
            continue
        mode = stat.filemode(info.st_mode)
        if shown.startswith("/dev/") and stat.S_ISREG(info.st_mode):  # a recorded tree holds no device nodes
            mode = "c" + mode[1:]
        device = f"{os.major(info.st_rdev)}, {os.minor(info.st_rdev)}" if hasattr(os, "major") else "0, 0"
        access = "openable" if openable(machine, path, info) else "not openable"
        owner = f"{user_name(info.st_uid)} {group_name(info.st_gid)}"
        lines.append(f"{mode} 1 {owner} {device} Jan  1 00:00 {shown}  # {access}")
    command = f"ls -l {pattern}"
    return Evidence(kind, "\n".join(lines), command, command, problem=None if lines else "not found")


def problems(evidence: Iterable[Evidence]) -> list[str]:
    """What could not be read, in words."""
    return [f"{item.origin}: {item.problem}" for item in evidence if item.problem]
