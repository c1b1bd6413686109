"""Programs under a time limit: their output so far, and what went wrong."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

MAX_OUTPUT = 8 << 20  # bytes of one output or file that are kept: the last ones, where the news is


def which(program: str, path: str | None) -> str | None:
    """Where a program lies on that search path; None where it is not there. `shutil`, slow to load, only on Windows."""
    if os.name == "nt":
        import shutil

        return shutil.which(program, path=path)
    folders = [""] if "/" in program else (os.defpath if path is None else path).split(os.pathsep)
    places = (os.path.join(folder, program) for folder in folders)
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def _start(argv: Sequence[str], environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    env = {**environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, start_new_session=True
    )


def bounded(
    argv: Sequence[str], limit: float, environ: Mapping[str, str], keep: "list[subprocess.Popen[bytes]] | None" = None
) -> tuple[str, str | None]:
    """(output, problem) of a program that gets `limit` seconds; the whole process group is ended after that.

    A process that sleeps in the driver ("D" state) cannot be ended: it is left behind, and we go on.
    keep: where the process is noted, so that others can end it.
    """
    process = _start(argv, environ)
    if keep is not None:
        keep.append(process)
    try:
        text, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired as late:
        end(process)
        if process.stdout:
            process.stdout.close()
        return (late.stdout or b"").decode("utf-8", "replace")[-MAX_OUTPUT:], f"timed out after {limit:g} s"
    return text[-MAX_OUTPUT:].decode("utf-8", "replace"), exit_words(process.returncode)


def lines_of(argv: Sequence[str], silence: float, limit: float, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """(output, problem) of a program that may take `limit` seconds in all, yet must print a line every `silence` seconds."""
    process = _start(argv, environ)
    told: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        if process.stdout:
            with process.stdout:
                for line in process.stdout:
                    told.put(line)
        told.put(b"")

    threading.Thread(target=listen, daemon=True).start()
    found: list[bytes] = []
    stop = time.monotonic() + limit
    while True:
        wait = min(silence, stop - time.monotonic())
        try:
            line = told.get(timeout=max(0.0, wait))
        except queue.Empty:
            end(process)
            return b"".join(found).decode("utf-8", "replace"), f"timed out after {min(silence, limit):g} s without an answer"
        if not line:
            break
        found.append(line)
    try:
        problem = exit_words(process.wait(timeout=1.0))
    except subprocess.TimeoutExpired:  # it said all, and now hangs while it ends
        end(process)
        problem = None
    return b"".join(found).decode("utf-8", "replace"), problem


def exit_words(status: int) -> str | None:
    """What an exit status says; None for success."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}" if status else None


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started; one that cannot be ended is left behind."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, 9)
        else:
            process.kill()
    for _ in range(10):
        if process.poll() is not None:
            break
        time.sleep(0.01)
    process.returncode = process.returncode if process.returncode is not None else -9  # left behind: no warning at our end
