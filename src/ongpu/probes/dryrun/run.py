"""One run of a script on the pretend card, from the spec to the answer's file."""

from __future__ import annotations

import builtins
import gc
import importlib
import io
import json
import os
import re
import runpy
import signal
import sys
import threading
import time
import traceback
import types
from typing import Any, Dict, List, Optional, Tuple

from . import accounts
from .state import Stop, Unfollowed, World
from .where import OURS, Place, Where, told
from .words import FORKED

MIXED = ("to be on the same device", "not at the same device", "should be the same", "can't convert cuda", "indices should be either on")
NOT_THE_SCRIPTS = (
    "from the 'CUDA' backend", "no CUDA-capable device", "not compiled with CUDA", "accelerator device when none is available",
    "not linked with support for cuda", "module 'torch._C' has no attribute", "'torch._C' (", "'Stream' object has no attribute",
    "'Event' object has no attribute", "'types.SimpleNamespace' object has no attribute", "module 'torch.cuda' has no attribute",
    "must be a CUDA tensor", "must be CUDA tensor", "is_cuda() to be true", "expects a CUDA tensor", "NVTX functions not installed",
)  # what a CPU wheel lacks, or the pretend card does  # fmt: skip
OURS_ALONE = (AttributeError, KeyError, NameError, ZeroDivisionError, TypeError)  # never raised on purpose here, but for MIXED


def run(spec: Dict[str, Any], arguments: List[str]) -> int:
    """Runs `arguments` ([SCRIPT, ...] or ["-m", MODULE, ...]) as the spec says; writes the JSON; gives the exit code."""
    started = time.time()
    sys.dont_write_bytecode = True
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.putenv("CUDA_VISIBLE_DEVICES", "")  # a GPU that is really there is not touched; os.environ, which the script reads, is as it was
    for name, value in (spec.get("env") or {}).items():
        os.environ[name] = str(value)
    from .parts import Parts

    world = World(spec)
    world.inherited_devices = inherited
    parts = Parts(world)
    try:
        parts.install()
        world.calls["started_seconds"] = time.time() - started
        outcome, error = execute(parts, arguments)
        if parts.frozen is not None:
            found = parts.frozen
            found.update({"seconds": round(time.time() - world.started, 3)})
            if world.oom is not None and world.go_on_after_oom:
                found.update({"outcome": "error", "error": out_of_memory(world)})
        else:
            found = accounts.answer(parts.mode, parts.watch, parts.loaders, outcome, error)
        if world.spec.get("rank_of") is not None:
            found["collectives"] = [dict(call, place=told(call["place"])) for call in world.collectives]
        found["savings"] = parts.savings.rows
        found["unreached"] = parts.reached.missed()
        found["sources"] = sources(world, arguments)
        if parts.finder is not None:
            found["batch"] = parts.finder.answer()
            if parts.frozen is not None and error is not None and error["kind"] != "oom" and found["batch"]["largest"] is None:
                found["batch"]["why"] = "a resized batch did not run: %s: %s" % (error["type"], error["message"][:300])
    except Exception as problem:  # ours, not the script's: said, never taken for an answer about the script
        text = traceback.format_exc()
        found = {
            "schema": 1, "outcome": "crashed", "stopped_by": None, "script": world.where.script,
            "error": {"type": type(problem).__name__, "message": str(problem)[:2000], "traceback": text[-20000:], "place": None,
                      "kind": "internal", "exit": None},
        }  # fmt: skip
    with open(spec["answer"], "w", encoding="utf-8") as stream:
        json.dump(found, stream, default=str)
    return 0


def execute(parts: Any, arguments: List[str]) -> Tuple[str, Optional[Dict[str, Any]]]:
    """Run the script under the mode: (outcome, error)."""
    world = parts.world
    module = arguments[0] == "-m"
    name = arguments[1] if module else arguments[0]
    world.where = Where("" if module else name)
    parts.prepare(name, module)
    if world.spec["sandbox"]:
        parts.sandbox()
    else:
        parts.spare()
    sys.argv = arguments[1:] if module else list(arguments)
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(name)))
    watchdog(world)
    error: Optional[Dict[str, Any]] = None
    try:
        with parts.mode:
            if module:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                script(parts, name)
        outcome = "finished"
    except Stop as end:
        parts.kept.append(end)  # with the frames of the script, whose models are looked at
        outcome, error = ("timeout" if end.why == "seconds" else "stopped"), None
    except SystemExit as end:
        code = end.code
        bad = code not in (None, 0)
        outcome = "error" if bad else "finished"
        error = told_error(world, end, "script") if bad else None
        if error is not None:
            error["exit"] = code if isinstance(code, int) else 1
            wanted = wants(end) if code == 2 else None
            if wanted is not None:
                error.update({"kind": "arguments", "message": wanted[:1000]})
    except BaseException as problem:
        parts.kept.append(problem)
        if parts.savings.active is not None:  # it was our change that failed, after the script's own steps were done
            parts.savings.failed(parts.savings.active, problem)
            world.stopped_by = "steps"
            outcome, error = "stopped", None
        else:
            outcome, error = judged(world, problem)
    if world.stopped_by is not None and outcome != "timeout":
        outcome, error = ("timeout" if world.stopped_by == "seconds" else "stopped"), None
    if world.oom is not None and error is None and world.go_on_after_oom:
        outcome, error = "error", out_of_memory(world)
    gc.collect()
    return outcome, error


def wants(end: BaseException) -> Optional[str]:
    """What a parser of command lines (argparse, click) says it lacks; None where it was none that ended the run."""
    trace = end.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if os.path.basename(frame.f_code.co_filename) == "argparse.py" and frame.f_code.co_name == "error":
            return str(frame.f_locals.get("message") or "")
        trace = trace.tb_next
    cause = end.__context__
    said = getattr(cause, "format_message", None) if type(cause).__module__.startswith("click") else None
    return str(said()) if said is not None else None


def script(parts: Any, name: str) -> None:
    """Run a file as __main__, as `python FILE` does. The module is kept: what it holds is looked at afterwards."""
    with io.open_code(os.path.abspath(name)) as stream:
        code = parts.reached.compile(stream.read(), name)
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=name, __builtins__=builtins, __spec__=None, __cached__=None)
    parts.kept.extend([sys.modules.get("__main__"), main])
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102 - it is what the user asked for


def sources(world: World, arguments: List[str]) -> List[str]:
    """The files of the user's own that were run or imported, the script first."""
    files = [] if arguments[0] == "-m" else [os.path.abspath(arguments[0])]
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if not isinstance(name, str) or not name.endswith(".py") or not world.where.users(name):
            continue
        path = os.path.abspath(name)
        if path not in files and not path.startswith(os.path.dirname(OURS.rstrip(os.sep)) + os.sep) and os.path.isfile(path):
            files.append(path)
    return files[:100]


def watchdog(world: World) -> None:
    """A script that waits for something (a lock, a worker, a socket) is stopped too, where there are alarm signals."""
    alarm = getattr(signal, "SIGALRM", None)
    if alarm is None or threading.current_thread() is not threading.main_thread():
        return

    def over(number: int, frame: Any) -> None:
        if os.getpid() == world.pid:
            world.stop("seconds")

    signal.signal(alarm, over)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, float(world.spec["seconds"]) - (time.time() - world.started) + 2))


def judged(world: World, problem: BaseException) -> Tuple[str, Dict[str, Any]]:
    """An exception of the script: the script's fault, or something that we could not follow?"""
    seen: Optional[BaseException] = problem
    for _ in range(20):
        if seen is None:
            break
        if isinstance(seen, Stop):
            return ("timeout" if seen.why == "seconds" else "stopped"), told_error(world, problem, "internal")
        if isinstance(seen, Unfollowed):
            return "unsupported", told_error(world, problem, "unsupported")
        seen = seen.__cause__ or seen.__context__
    text = str(problem)
    if isinstance(problem, OURS_ALONE) and _innermost(problem).startswith(OURS) and not any(words in text for words in MIXED):
        world.unsupported("dry run", "an error of the dry run itself: %s: %s" % (type(problem).__name__, text), False)
        return "unsupported", dict(told_error(world, problem, "internal"), traceback=traceback.format_exc()[-20000:])
    if any(words in text for words in NOT_THE_SCRIPTS):
        return "unsupported", told_error(world, problem, "unsupported")
    if "ongpu dry run, sandbox" in text:
        world.unsupported("sandbox", text, False)
        return "unsupported", told_error(world, problem, "unsupported")
    kind = "script"
    if "out of memory" in text:
        kind = "oom"
    elif any(words in text for words in MIXED):
        kind = "device"
    elif "CUDA" in text or "cuda" in text:
        kind = "cuda"
    return "error", told_error(world, problem, kind)


def _innermost(problem: BaseException) -> str:
    trace, name = problem.__traceback__, ""
    while trace is not None:
        name, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return os.path.abspath(name) if name else ""


def told_error(world: World, problem: BaseException, kind: str) -> Dict[str, Any]:
    """An error as the answer holds it."""
    kind_name = type(problem)
    name = kind_name.__name__ if kind_name.__module__ in ("builtins", "__main__") else "%s.%s" % (kind_name.__module__, kind_name.__name__)
    place = world.where.of_error(problem.__traceback__)
    if isinstance(problem, SyntaxError) and problem.filename and world.where.users(problem.filename):
        place = (problem.filename, problem.lineno or 0, "<module>")
    if FORKED in str(problem):
        inside = in_worker(world, str(problem))
        place = inside or place
        world.row("forked", place, place=place, what="cuda")
    return {
        "type": name, "message": str(problem)[:4000], "traceback": world.where.printed(problem),
        "place": told(place), "kind": kind, "exit": None, "operands": operands(problem) if kind == "device" else None,
    }  # fmt: skip


def operands(problem: BaseException) -> Optional[str]:
    """Where the tensors and modules of the failing lines sit, as `ongpu.probes.operands` tells it; None where that fails."""
    package = types.ModuleType("_ongpu_probes")
    package.__path__ = [os.path.dirname(OURS.rstrip(os.sep))]
    sys.modules[package.__name__] = package
    try:
        head, _, rows = importlib.import_module("_ongpu_probes.operands").describe(problem.__traceback__).partition("\n")
        frames = json.loads(head)["frames"]  # the PyTorch here, without CUDA, says nothing of the script
        if trained_by_library(problem):
            told = [row for row in map(json.loads, rows.splitlines()) if row["role"] != "module" and not row.get("registered")]
            rows = "\n".join(map(json.dumps, told))
        return "%s\n%s" % (json.dumps({"what": "failure", "frames": frames}), rows)
    except Exception:
        return None


def trained_by_library(problem: BaseException) -> bool:
    """Whether a library other than torch called the failing code: Lightning moves the model back to the CPU as it cleans up, so
    where modules are now is not where they were."""
    trace, torch = problem.__traceback__, os.sep + "torch" + os.sep
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "site-packages" in name and torch not in name:
            return True
        trace = trace.tb_next
    return False


def in_worker(world: World, text: str) -> Optional[Place]:
    """The user's line in the traceback that a worker process sent as text."""
    lines = re.findall(r'^  File "([^"\n]{1,1000})", line ([0-9]{1,9}), in (\S{1,200})$', text[-20000:], re.MULTILINE)
    mine = [(name, int(line), function) for name, line, function in lines if world.where.users(name)]
    return mine[-1] if mine else None


def out_of_memory(world: World) -> Dict[str, Any]:
    """The error for a card that was too small: the run went on to learn how much it needs."""
    oom = world.oom or {}
    return {
        "type": "torch.OutOfMemoryError", "message": oom["message"], "place": told(oom["place"]), "kind": "oom", "exit": None,
        "traceback": "%storch.OutOfMemoryError: %s\n" % (oom["stack"], oom["message"]),
    }  # fmt: skip
