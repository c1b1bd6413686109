"""Starts a training script on a pretend GPU, as a child process in the user's interpreter, under a time limit.

The child's own prints go to our standard error, so that the answer alone stands on standard output; it gets our standard
input, environment and folder. It may leave processes behind (loader workers, ranks): the whole group is ended after it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ongpu.hosts.processes import bounded, exit_words
from ongpu.model import Evidence

PROGRAM = Path(__file__).parent.parent / "probes" / "dryrun"
KIND, ORIGIN = "dryrun", "dry run"
OLDEST_TORCH = (2, 4)
GRACE = 20.0  # seconds beyond the soft limit, at which the child stops by itself and still answers
MAX_ANSWER, MAX_SOURCE = 64 << 20, 4 << 20  # bytes
_VERSION = """import importlib.metadata as m
try: print(m.version("torch"))
except m.PackageNotFoundError: print("-")"""


class NoTorch(Exception):
    """The interpreter cannot do the dry run. `found`: the version of PyTorch in it; None: there is none; "": it did not run."""

    def __init__(self, python: str, found: str | None) -> None:
        super().__init__(python)
        self.python, self.found = python, found


def torch_version(python: str, environ: Mapping[str, str] = os.environ) -> str:
    """The version of PyTorch in that interpreter; nothing of it is imported. NoTorch where there is none, or one before 2.4."""
    said, problem = bounded([python, "-c", _VERSION], 20.0, environ)
    words = said.split()
    if problem or not words:
        raise NoTorch(python, "")
    if words[0] == "-":
        raise NoTorch(python, None)
    numbers = [int(part) for part in words[0].split("+")[0].split(".")[:2] if part.isdigit()]
    if tuple(numbers) < OLDEST_TORCH:
        raise NoTorch(python, words[0])
    return words[0]


def run(
    python: str, command: Sequence[str], spec: Mapping[str, Any], limit: float, environ: Mapping[str, str] = os.environ
) -> list[Evidence]:
    """The answer to this script as evidence (its JSON; a traceback in it also as Python printed it), after at most `limit` seconds
    and a grace. command: SCRIPT ARGS... or -m MODULE ARGS...; spec: as `ongpu.probes.dryrun` says, without "answer"."""
    with tempfile.TemporaryDirectory(prefix="ongpu-dryrun-", ignore_cleanup_errors=True) as folder:
        answer, told = Path(folder, "answer.json"), Path(folder, "spec.json")
        scratch = Path(folder, "scratch")
        scratch.mkdir()
        told.write_text(json.dumps({**spec, "answer": str(answer), "seconds": limit, "scratch": str(scratch)}), "utf-8")
        problem = _child([python, str(PROGRAM), str(told), *command], limit + GRACE, environ)
        with suppress(OSError):
            text = answer.read_bytes()[:MAX_ANSWER].decode("utf-8", "replace")
            return evidence(text, os.getcwd())
    return [Evidence(KIND, "", ORIGIN, problem=problem or "the dry run ended without an answer")]


def evidence(answer: str, folder: str) -> list[Evidence]:
    """The child's JSON, with the folder that places are told relative to; and the traceback in it as pasted text."""
    found: dict[str, Any] = json.loads(answer)
    text = json.dumps({**found, "folder": folder}, ensure_ascii=False)
    items = [Evidence(KIND, text, ORIGIN)]
    errors = [error for one in (found, *(found.get("ranks") or ())) if isinstance(error := one.get("error"), dict)]
    # errors of the dry run itself are no evidence about the script
    told = [error for error in errors if error.get("traceback") and error.get("kind") not in ("internal", "unsupported", "arguments")]
    # Processes that mp.spawn starts are real ones: they have no pretended GPU, and what they die of here says nothing of the script.
    traces = [str(error["traceback"]) for error in told if "ProcessRaisedException" not in str(error["traceback"])]
    if traces:
        items.append(Evidence("pasted", traces[0].replace(folder + os.sep, ""), "traceback"))
    return [*items, *_met(found, folder)]


def _met(found: Mapping[str, Any], folder: str) -> Iterator[Evidence]:
    """Where two devices met: the operands as they were, and the program that made them, from the script on where it is known."""
    error = found.get("error")
    if not isinstance(error, dict) or error.get("kind") != "device":
        return
    if isinstance(error.get("operands"), str):
        yield Evidence("objects", error["operands"], "dry run")
    place = error.get("place")
    if isinstance(place, dict):
        paths = _paths(found)
        met = str(place.get("file"))
        yield from _source(paths[0] if met in paths and found.get("script") == paths[0] else met, folder)


def _paths(found: Mapping[str, Any]) -> list[str]:
    told = found.get("sources")
    return [path for path in told if isinstance(path, str)] if isinstance(told, list) else []


def _source(name: str, folder: str) -> list[Evidence]:
    """A file of the user's program; nothing where it cannot be read as one."""
    path = Path(name)
    try:
        if path.suffix != ".py" or path.stat().st_size > MAX_SOURCE:
            return []
        return [Evidence("python", path.read_text("utf-8"), str(path).removeprefix(folder + os.sep))]
    except (OSError, ValueError):
        return []


def program(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The user's files that ran, the script first; [] where the child told none."""
    try:
        found = json.loads(next((item.text for item in evidence if item.kind == KIND), ""))
    except ValueError:
        return []
    return [item for path in _paths(found)[:100] for item in _source(path, str(found.get("folder") or ""))]


def _child(argv: Sequence[str], limit: float, environ: Mapping[str, str]) -> str | None:
    """Run it; what went wrong, None where it ended well."""
    sys.stdout.flush()
    out: Any = None
    with suppress(OSError, ValueError, AttributeError):
        out = sys.stderr.fileno()
    env = {**environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(argv, stdout=out, env=env, start_new_session=True)
    try:
        return exit_words(process.wait(limit))
    except subprocess.TimeoutExpired:
        return f"timed out after {limit:g} s"
    finally:
        _end_group(process)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End the child and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5.0)
    if process.returncode is None:
        process.returncode = -9  # it sleeps in the driver: left behind
