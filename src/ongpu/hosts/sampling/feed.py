"""The parent's end: messages of the sampling child under a time limit, whatever the driver does.

A child that hangs, fails or falls silent is ended and started anew, later each time it fails. A GPU that hangs is left out by
the next child, and asked by a child of its own until it answers; there is never a second one while the first still lives.
"""

import os
import select
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from ongpu.hosts.nvml import FOLDERS, NOT_FOUND, environment
from ongpu.hosts.sampling.process import Process, program

Message = dict[str, Any]
WAITS = (1.0, 2.0, 4.0, 8.0, 10.0)  # seconds before the first, second, ... new start of a child that failed
ALONE_WAITS = (2.0, 4.0, 8.0, 16.0, 30.0, 60.0)  # the same, of a child that asks a GPU that hung
START_LIMIT = 15.0  # seconds for a call that starts a card: without persistence mode it takes some
LONG = 60.0  # seconds of answers after which what failed before is forgotten
ANSWER = 2.0  # seconds in which a child that is asked where it is must answer
LOOK_EVERY = 0.5  # seconds between two looks at children that could not be ended


class Alone:
    """A GPU that hung, and the child that asks it."""

    def __init__(self, at: float, tries: int = 0) -> None:
        self.process: Process | None = None
        self.tries = tries
        self.next = at + ALONE_WAITS[min(tries, len(ALONE_WAITS) - 1)]
        self.heard = at

    def later(self, now: float) -> None:
        """The next try, further away."""
        self.tries += 1
        self.next = now + ALONE_WAITS[min(self.tries, len(ALONE_WAITS) - 1)]


class Feed:
    """The messages of facts/sample.py, one at a time. To be asked often: each call also minds the children.

    interval: seconds between samples. per_call: seconds after which a call is told as hung, start_call: one that starts a card.
    root: of a recorded tree, for what is told of processes. kernel_log: the device; None: not read.
    """

    def __init__(
        self, interval: float = 1.0, per_call: float = 2.0, demo: bool = False, root: str = "/", proc_every: float = 5.0,
        full_every: float = 60.0, environ: Mapping[str, str] | None = None, start_call: float = START_LIMIT,
        kernel_log: str | None = "/dev/kmsg", options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.interval, self.per_call, self.start_call, self.demo = interval, per_call, start_call, demo
        told = {"interval": interval, "proc_every": proc_every, "full_every": full_every}
        ours = {"per_call": per_call, "start_call": start_call, "root": root, "log": kernel_log is not None, "kmsg": kernel_log or ""}
        self.options: Message = {**told, **({"since": time.time()} if demo else ours), **(options or {})}
        self.environ = environment(os.environ if environ is None else environ)
        self.main: Process | None = None
        self.tries = 0  # starts in a row that failed
        self.next_start = time.monotonic()
        self.begun = self.heard = self.next_start  # when the child was started, and when it last said something
        self.sampled, self.ask_at = False, 0.0  # whether it gave a sample, and when we ask where it is
        self.poll = select.poll() if os.name != "nt" else None
        self._hear(self.heard, False)
        self.alone: dict[int, Alone] = {}  # GPUs that hung
        self.failed: dict[int, tuple[int, float]] = {}  # how often and when they last did
        self.left: list[Process] = []  # children that could not be ended
        self.look = 0.0
        self.after = -1  # the last line of the kernel's log that came
        self.searched = False  # whether the driver's library was looked for elsewhere
        self.queue: deque[Message] = deque()
        self.closed = False

    def next(self, timeout: float = 1.0) -> Message | None:
        """The next message; None where none comes in `timeout` seconds."""
        queue = self.queue
        now = time.monotonic()
        stop = now + timeout
        while not (queue or self.closed):
            if self.main is None or self.alone or self.left or now >= self.ask_at:
                self._mind(now)
            if queue:
                break
            self._wait(max(0.0, min(stop, self._due(now)) - now))
            now = time.monotonic()
            if now >= stop:
                break
        return queue.popleft() if queue else None

    def close(self) -> None:
        """End all children."""
        self.closed = True
        alone = [one.process for one in self.alone.values()]
        for process in (self.main, *alone, *self.left):
            if process:
                process.end()
        self.main, self.alone, self.left = None, {}, []

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what is due

    def _due(self, now: float) -> float:
        """When something is to be done besides reading."""
        if self.left or self.alone:
            return now + LOOK_EVERY
        return self.ask_at if self.main else self.next_start

    def _hear(self, now: float, sampled: bool) -> None:
        """The child said something. When it will have been silent for too long, we ask where it is, and later give it up."""
        self.heard, self.sampled = now, sampled
        self.ask_at = now + self.per_call + (self.interval if sampled else 0.0)

    def _mind(self, now: float) -> None:
        if self.main and now >= self.ask_at:
            if select.select([self.main], [], [], 0)[0]:  # it was we who did not listen
                self._read(self.main)
            elif now - self.heard >= self.per_call + max(2 * self.interval, ANSWER):
                self._failed({"k": "bye", "t": time.time(), "code": None, "error": "no answer"}, now)
            else:
                self.main.tell("where")
                self.ask_at = now + ANSWER / 2
        if self.left and now >= self.look:
            self.look = now + LOOK_EVERY
            self.left = [process for process in self.left if process.lives]
        if self.main is None and now >= self.next_start and len(self.left) <= len(self.alone) + 1:
            self._start(now)
        for index, one in list(self.alone.items()):
            self._mind_alone(index, one, now)

    def _start(self, now: float) -> None:
        more = {} if self.demo else {"skip": sorted(self.alone), "after": self.after}
        self.main = self._begin({**self.options, **more})
        self.begun = now
        self._hear(now, False)

    def _begin(self, options: Mapping[str, Any]) -> Process:
        process = Process(options, self.environ, program(self.demo))
        if self.poll:
            self.poll.register(process, select.POLLIN)
        return process

    def _mind_alone(self, index: int, one: Alone, now: float) -> None:
        if one.process and one.process.ended:  # given up: it goes when the driver lets it
            if one.process.lives:
                return
            one.process = None
            one.later(now)
        if one.process and now - one.heard > self.per_call + ANSWER + self.interval:
            self._end(one.process)
        elif one.process and now - one.heard > self.per_call + self.interval:
            one.process.tell("where")
        elif one.process is None and now >= one.next:
            options = {**self.options, "only": [index], "log": False, "full_every": 0}
            one.process, one.heard = self._begin(options), now

    # --- what comes

    def _wait(self, timeout: float) -> None:
        """Read from whichever child says something in that time."""
        if self.main and self.poll and not self.alone:
            if self.poll.poll(timeout * 1000):
                self._read(self.main)
            return
        reading = {one.process.fileno(): one.process for one in self.alone.values() if one.process and not one.process.ended}
        if self.main:
            reading[self.main.fileno()] = self.main
        if not reading:
            time.sleep(timeout)
        elif self.poll:
            for number, _ in self.poll.poll(timeout * 1000):
                self._read(reading[number])
        else:
            for number in select.select(list(reading), [], [], timeout)[0]:
                self._read(reading[number])

    def _end(self, process: Process) -> bool:
        """Whether it is gone. Nothing that it still says is read."""
        if self.poll and process.fileno() >= 0:
            self.poll.unregister(process)
        return process.end()

    def _read(self, process: Process) -> None:
        messages = process.read()
        now = time.monotonic()
        if process is not self.main:
            self._read_alone(process, messages, now)
            return
        if messages:
            self._hear(now, self.sampled)
        for message in messages:
            self._take(message, now)
            if self.main is not process:  # ended meanwhile
                return
        if process.ended:
            self._failed({"k": "bye", "t": time.time(), "code": None, "error": process.why()}, now)

    def _take(self, message: Message, now: float) -> None:
        kind = message["k"]
        if kind == "s":
            self.sampled = True
            if self.tries and now - self.begun > WAITS[-1]:
                self.tries = 0
        elif kind == "log":
            if isinstance(message.get("seq"), int):
                self.after = max(self.after, message.pop("seq"))
        elif kind == "busy":  # slow, not hung: State says for itself that no sample comes
            return
        elif kind == "hung":
            self._hung(message, now)
            return
        elif kind == "bye" or (kind == "init" and message.get("code")):
            if message.get("code") == NOT_FOUND and self._elsewhere():
                self._end_main()
                self.next_start = now
                return
            self._failed(message, now)
            return
        self.queue.append(message)

    def _elsewhere(self) -> bool:
        """Whether the driver's libraries lie where the loader does not look; looked for once."""
        extra = [] if self.searched else [folder for folder in FOLDERS if os.path.exists(f"{folder}/libnvidia-ml.so.1")]
        self.searched = True
        if extra:
            self.environ = environment(self.environ, extra)
        return bool(extra)

    def _failed(self, message: Message, now: float) -> None:
        """Tell why there are no samples, and try again later."""
        self.queue.append(message)
        self._end_main()
        self.next_start = now + WAITS[min(self.tries, len(WAITS) - 1)]
        self.tries += 1

    def _end_main(self) -> None:
        if self.main and not self._end(self.main):
            self.left.append(self.main)
        self.main = None

    def _hung(self, message: Message, now: float) -> None:
        index = message.get("i")
        if not self.demo and not isinstance(index, int):
            self._failed(message, now)
            return
        self.queue.append(message)
        if self.demo or not isinstance(index, int):
            return
        self._end_main()
        tries, at = self.failed.get(index, (0, 0.0))
        tries = tries + 1 if now - at < LONG else 0
        self.failed[index] = tries, now
        self.alone[index] = Alone(now, tries)
        self.next_start = now  # the others are asked on, at once

    def _read_alone(self, process: Process, messages: list[Message], now: float) -> None:
        index, one = next(((i, one) for i, one in self.alone.items() if one.process is process), (None, None))
        if index is None or one is None:
            return
        if messages:
            one.heard = now
        for message in messages:
            rows = message.get("g") if message["k"] == "s" else None
            if isinstance(rows, list) and (index >= len(rows) or rows[index] is not None):  # or it is gone
                self._end(process)
                del self.alone[index]
                self.failed[index] = one.tries, now
                if self.main:
                    self.main.tell(f"ask {index}")
                return
            if message["k"] in ("hung", "bye") or (message["k"] == "init" and message.get("code")):
                self._end(process)
                return
        if process.ended:
            self._end(process)
