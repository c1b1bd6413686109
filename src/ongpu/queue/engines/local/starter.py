"""Starts the shim of a run: a small shell that outlives us, with the command's environment, its GPUs and their leases."""

import contextlib
import errno
import functools
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.hosts.leases import LEASED
from ongpu.lazy import lazy
from ongpu.queue.engines.local import scripts
from ongpu.queue.job import output_of as written_to

if TYPE_CHECKING:
    from ongpu.queue.engines.local.rows import Run

SHELL = "/bin/sh"
SHIM = str(Path(__file__).with_name("shim.sh"))
RUN = "ONGPU_RUN"  # the run's folder: by this every process of a run is known, whatever becomes of its parents
KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ")  # of ours, where the job brings none
_NAME = lazy("[A-Za-z_][A-Za-z0-9_]{0,4095}")  # what a shell passes on; it keeps no other variables
OWN = frozenset({"IFS", "OPTIND", "OPTARG", "LINENO", "PPID", "PS4", "SHLVL", "_"})  # or takes for itself
NEVER = (errno.E2BIG, errno.EINVAL)  # of `start`: no other time will do
_CAUGHT = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


_OURS = {name: os.environ[name] for name in KEPT if name in os.environ}


def environ_of(run: "Run") -> dict[str, str]:
    """The environment of the command: the job's own, and what says which GPUs it has and which job it is."""
    spec = run.spec
    found = {**_OURS, **spec.environ}
    found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    found["CUDA_VISIBLE_DEVICES"] = found[LEASED] = ",".join(gpu for gpu, _ in run.leases)
    found["ONGPU_JOB"], found["ONGPU_ATTEMPT"], found[RUN] = str(run.job), str(run.attempt), str(run.folder)
    if spec.index is not None:
        found["ONGPU_ARRAY_INDEX"] = str(spec.index)
    if spec.folder:
        found["PWD"] = spec.folder
    return found


def keep_shim(place: Path) -> str:
    """A copy of the shim in the queue's folder: ours may be replaced by another version while we run. Its path.

    Without what is said to readers: a shell that reads it takes a tenth of a short job's time.
    """
    file, new = place / "shim.sh", place / "shim.new"
    new.write_text("".join(line for line in Path(SHIM).read_text("utf-8").splitlines(True) if not line.lstrip().startswith("#")), "utf-8")
    os.replace(new, file)
    return str(file)


def start(run: "Run", leases: Iterable[int], boot: str, shim: str = SHIM) -> int:
    """The number of the shim, a child of ours. leases: descriptors that all of the run's processes inherit; they stay open here.
    boot: the id of this boot of the machine. shim: the script.

    Raises OSError: no more processes, a command that is too long, a disk that is full.
    """
    where = str(run.folder)
    for folder in (os.path.dirname(where), where):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    files = list(leases)
    for file in files:
        os.set_inheritable(file, True)
    try:
        return os.posix_spawn(
            SHELL, arguments(run, boot, shim), passed(environ_of(run)), file_actions=_NOWHERE, setsid=True, setsigmask=(), setsigdef=_CAUGHT
        )
    finally:
        for file in files:
            os.set_inheritable(file, False)


_NOWHERE = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2))


def arguments(run: "Run", boot: str, shim: str = SHIM) -> list[str]:
    """The shim's command line. A variable that a shell does not pass on reaches the command through env(1)."""
    spec = run.spec
    odd = [f"{name}={value}" for name, value in spec.environ.items() if not _passes(name)]
    head = ["/usr/bin/env", *odd] if odd else []
    command = scripts.arguments(run.folder.parents[2], spec)  # QUEUE/jobs/JOB/ATTEMPT
    return ["sh", shim, str(run.folder), boot or "-", spec.folder or "/", output_of(run), *head, *command]


def passed(environ: Mapping[str, str]) -> dict[str, str]:
    """What a shell takes over."""
    return {name: value for name, value in environ.items() if _passes(name)}


def output_of(run: "Run") -> str:
    """The file that it writes to: the job's, in its folder where the name is relative, or our own."""
    return written_to(run.spec) or f"{run.folder}/output"


@functools.lru_cache(4096)
def _passes(name: str) -> bool:
    return name not in OWN and _NAME.fullmatch(name) is not None
