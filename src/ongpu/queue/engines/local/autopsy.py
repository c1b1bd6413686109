"""What a run died of: its last output, the kernel's lines and its GPUs' errors, judged by the rules, in a child process of the daemon.

`python -m ongpu.queue.engines.local.autopsy` reads JSON objects, one a line, from its standard input:

    output      the file of its output ("": none), of which the last 128 KiB are read
    code        its exit code (128 + n for signal n); null: nobody knows
    wish        why it was asked to end, as Row.wish: "", "cancel", "preempt", "timeout", "idle", "fault"
    started, ended      seconds since the epoch; lines of the kernel from before are not its own
    kills       what hosts.oom_kills.count() said when it was started, or null
    gpus        [{"uuid", "index", "name", "memory", "how", "unfit", "xids": [[1.7e9, 79], ...]}, ...]: its GPUs, keys as in look.py
    log         [[1.7e9, "NVRM: Xid ..."], ...]: lines of the kernel that the looker told of while it ran

and prints one for each, always with all of these keys:

    ending      ok, program, signal, stopped, out-of-memory, host-memory, gpu-fault, timeout, idle, preempted, vanished
    class       of these: "" (ok), "user", "memory", "gpu", "preempted", "lost"; only the last three are worth another try
    slug        of the finding that explains it, or ""
    title_en, title_zh  one line: the finding's title, else the program's last words
    fits_en, fits_zh    of out-of-memory: what would have fitted; else ""
    gpus_at_fault       UUIDs, to be drained; [] with "gpu-fault": it is not known which
    avoid       UUIDs that another try is to keep away from: those at fault, or all of its GPUs where it is not known which
    outcome     for cards.Ended: "well", "fault", "unexplained", "explained"

In the daemon: `quick(request)` answers at once where there is nothing to look into; else `Autopsies().ask(key, request)`, and its `done()`
now and then: [] until there are answers, for each at the latest LIMIT seconds after it was begun. One is looked into after the other
(the first takes half a second, the others some 20 ms). What goes wrong is an answer too. `perform` waits for one.
"""

import contextlib
import json
import os
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ongpu.hosts.processes import end
from ongpu.lazy import dataclass, replace
from ongpu.queue.engines.local.died import WISHES, Request, answer, judged, silent

LIMIT, REST = 20.0, 30.0  # seconds: for one run; without work, after which the child ends
NEWS = 2.0  # seconds that news of the GPUs may take: they are looked at once a second
ROOM = 60_000  # bytes of a request: fewer than a pipe takes at once (pipe(7))
KEPT = 128 << 10  # bytes of output
MOST_MEMORY = 2 << 30  # bytes that the child may use, whatever the output holds
KEYS = ("ending", "class", "slug", "title_en", "title_zh", "fits_en", "fits_zh", "gpus_at_fault", "avoid", "outcome")


def quick(request: Request) -> dict[str, Any] | None:
    """The answer where nothing has to be looked into: it ended well, as it was asked to, or by itself without a word or a sign of a fault.
    None: ask `Autopsies`."""
    code = request.get("code")
    if code == 0 and request.get("wish") in (None, "", *WISHES):
        return answer(request, None, "")
    by_itself = isinstance(code, int) and 0 < code <= 128 and request.get("wish") != "fault"
    if by_itself and silent(request) and _empty(str(request.get("output") or "")):
        return answer(request, None, "")
    return None


def _empty(path: str) -> bool:
    try:
        return not path or os.stat(path).st_size == 0
    except OSError:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    key: Any
    request: Request
    ready: Callable[[], bool] | None
    fresh: Callable[[], Request] | None
    until: float


class Autopsies:
    """One child that looks into one run after the other, started when there is something to look into, ended when there is not."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting: deque[_Asked] = deque()
        self.under: tuple[Any, Request, float] | None = None  # the key, what is looked into, until when
        self.rest, self.used = b"", 0.0

    def ask(
        self, key: Any, request: Request, ready: Callable[[], bool] | None = None, fresh: Callable[[], Request] | None = None
    ) -> None:
        """Look into that; the answer comes from `done`, with the key. ready: begin no sooner than that is so, after NEWS seconds all the
        same; fresh: what is asked then: a GPU's fault becomes known a moment after its victim died."""
        self.waiting.append(_Asked(key, request, ready, fresh, time.monotonic() + NEWS))

    def fileno(self) -> int:
        """What tells that an answer may be there; -1 where none is awaited."""
        return self.process.stdout.fileno() if self.process and self.process.stdout and self.under else -1

    def done(self) -> list[tuple[Any, dict[str, Any]]]:
        """The answers that are there now; to be asked about four times a second, and when `fileno` says so."""
        found: list[tuple[Any, dict[str, Any]]] = []
        while self.under or (asked := self._next()):
            if self.under is None and asked and not self._begin(asked):
                found.append((asked.key, answer(asked.request, None, "")))  # no child can be started now
                continue
            text = self._read()
            if self.under is None or text is None:
                break
            key, request, _ = self.under
            found.append((key, told(text) or answer(request, None, "")))
            self.under, self.used = None, time.monotonic()
        if self.process and not self.under and time.monotonic() - self.used > REST:
            self.close()
        return found

    def _next(self) -> "_Asked | None":
        """The first that may be begun; it waits no more."""
        now = time.monotonic()
        found = next((one for one in self.waiting if one.ready is None or now >= one.until or one.ready()), None)
        if found:
            self.waiting.remove(found)
            found = replace(found, request=found.fresh()) if found.fresh else found
        return found

    def _begin(self, asked: "_Asked") -> bool:
        try:
            if self.process is None or self.process.poll() is not None:
                self.close()
                self.process = _child()
            line = json.dumps(dict(asked.request)).encode()
            if len(line) > ROOM:  # what the pipe takes at once: the daemon never waits
                line = json.dumps({**asked.request, "log": []}).encode()[:ROOM]
            if self.process.stdin:
                self.process.stdin.write(line + b"\n")
        except OSError:
            self.close()
            return False
        self.under = asked.key, asked.request, time.monotonic() + LIMIT
        return True

    def _read(self) -> bytes | None:
        """The child's line; b"" where it ended or was ended; None where there is none yet."""
        data: bytes | None = b""
        with contextlib.suppress(OSError, AttributeError):
            data = self.process.stdout.read(ROOM)  # type: ignore[union-attr]
        if data:
            self.rest += data
        line, found, self.rest = self.rest.partition(b"\n")
        if found:
            return line
        self.rest = line
        if data == b"" or len(line) > ROOM or (self.under and time.monotonic() > self.under[2]):
            self.close()
            return b""
        return None

    def close(self) -> None:
        """End the child."""
        if self.process:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()
            end(self.process)
        self.process, self.rest = None, b""


def _child() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "ongpu.queue.engines.local.autopsy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True, bufsize=0,
    )  # fmt: skip
    if process.stdout:
        os.set_blocking(process.stdout.fileno(), False)
    return process


def perform(request: Request) -> dict[str, Any]:
    """The answer, waited for."""
    if found := quick(request):
        return found
    children = Autopsies()
    children.ask(None, request)
    while not (answers := children.done()):
        time.sleep(0.02)
    children.close()
    return answers[0][1]


def told(text: bytes) -> dict[str, Any] | None:
    """What the child printed; None where that is no answer."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and set(KEYS) <= found.keys() else None


def main() -> None:
    """The child: a request a line, an answer a line."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        output = last(str(request.get("output") or ""))
        sys.stdout.write(json.dumps(answer(request, judged(request, output), output)) + "\n")
        sys.stdout.flush()


def last(path: str) -> str:
    """The end of a file; "" where there is none, or it is none: a pipe would wait for ever."""
    if not path:
        return ""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        about = os.fstat(file)
        return os.pread(file, KEPT, max(0, about.st_size - KEPT)).decode("utf-8", "replace") if stat.S_ISREG(about.st_mode) else ""
    except OSError:
        return ""
    finally:
        os.close(file)


if __name__ == "__main__":
    main()
