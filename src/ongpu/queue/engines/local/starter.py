"""What the command of a run is started with: its words, its environment, its output; and how a keeper is told all that."""

import os
from typing import TYPE_CHECKING

from ongpu.hosts.leases import LEASED
from ongpu.queue.engines.local import scripts
from ongpu.queue.job import output_of as written_to

if TYPE_CHECKING:
    from ongpu.queue.engines.local.rows import Run

RUN = "ONGPU_RUN"  # the run's folder: by this every process of a run is known, whatever becomes of its parents
OF_JOBS = (RUN, "ONGPU_JOB", "ONGPU_ATTEMPT", "ONGPU_ARRAY_INDEX", LEASED, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ")  # of ours, where the job brings none
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


def message(run: "Run", boot: str) -> bytes:
    """What keeper.py is told. boot: the id of this boot of the machine. Raises ValueError: a null byte in a word."""
    spec = run.spec
    command = scripts.arguments(run.folder.parents[2], spec)  # QUEUE/jobs/JOB/ATTEMPT
    words = [str(run.folder), boot, spec.folder or "/", output_of(run), str(len(command)), *command]
    words += [f"{name}={value}" for name, value in environ_of(run).items() if name]  # without a name none can be passed on
    text = b"\0".join(map(_encoded, words))
    if text.count(b"\0") != len(words) - 1:
        raise ValueError("a null byte")
    return text


def _encoded(word: str) -> bytes:
    try:
        return os.fsencode(word)
    except UnicodeEncodeError:  # our locale is not that of whoever submitted: his is UTF-8, then
        return word.encode("utf-8", "surrogateescape")


def output_of(run: "Run") -> str:
    """The file that it writes to: the job's, in its folder where the name is relative, or our own."""
    return written_to(run.spec) or f"{run.folder}/output"
