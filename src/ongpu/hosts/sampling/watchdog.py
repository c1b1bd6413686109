"""Which call does not return, told when the parent asks, and the end of this process when it goes: while other threads hang, too.

There is no timer: the parent notices that nothing comes and asks; the clock's thread looks at the others. So it costs nothing.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from ongpu.hosts.sampling.lines import say


class Place:
    """Where a thread is: in which GPU's call, since when. since None: in none."""

    __slots__ = ("call", "index", "limit", "since", "told")

    def __init__(self, limit: float) -> None:
        self.index: int | None = None
        self.call = ""
        self.since: float | None = None
        self.limit = limit  # seconds that one call may take
        self.told: float | None = None  # the `since` that was told as hung

    def ask(self, index: int | None, name: str, call: Callable[..., Any], *args: Any) -> Any:
        """The answer of a call, made where the watchdog sees it."""
        self.index, self.call, self.since = index, name, time.monotonic()
        try:
            return call(*args)
        finally:
            self.since = None


class Watchdog:
    """The places of all threads. limit: seconds that one call may take, where its place says nothing else."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.places: list[Place] = []

    def place(self, limit: float | None = None) -> Place:
        """A new place for a thread. limit: seconds for one call."""
        place = Place(self.limit if limit is None else limit)
        self.places.append(place)
        return place

    def late(self, now: float) -> list[tuple[Place, float]]:
        """The places whose call is too long, told once each, and how long it has taken. now: time.monotonic()."""
        found = []
        for place in self.places:
            since = place.since
            if since is not None and since != place.told and now - since >= place.limit:
                place.told = since
                found.append((place, now - since))
        return found

    def look(self) -> bool:
        """Say which calls do not return; whether there are any."""
        found = self.late(time.monotonic())
        for place, seconds in found:
            say(k="hung", t=time.time(), i=place.index, call=place.call, **{"for": round(seconds, 1)})
        return bool(found)

    def answer(self) -> None:
        """The parent has heard nothing for long: what hangs, or that nothing does yet."""
        if not self.look():
            say(k="busy", t=time.time())


def listen(watchdog: Watchdog, ask: Callable[[int], None]) -> None:
    """Our parent's words: "ask 3", "where". When it is gone, so are we, whatever hangs."""
    for line in sys.stdin.buffer:
        words = line.split()
        if words == [b"where"]:
            watchdog.answer()
        elif len(words) == 2 and words[0] == b"ask" and words[1].isdigit():
            ask(int(words[1]))
    os._exit(0)


def thread(target: Callable[..., None], *args: Any) -> threading.Thread:
    """Start a thread that does not keep the process. Where it fails, the process ends: our parent is told, and starts another."""

    def run() -> None:
        try:
            target(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    found = threading.Thread(target=run, daemon=True)
    found.start()
    return found
