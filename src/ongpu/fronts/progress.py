"""A progress bar on standard error, on a terminal only, for reading that takes long."""

import sys
import time
from types import TracebackType
from typing import Self

AFTER, EVERY = 0.7, 0.1  # seconds until it appears; between two states
WIDTH = 30


class Progress:
    """Shown after a moment, wiped at the end; nothing at all where standard error is not a terminal."""

    def __init__(self) -> None:
        self.active = sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
        self.started = self.last = time.monotonic()
        self.shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def tick(self, done: int, size: int) -> None:
        """So many bytes are read, of so many (0: nobody knows)."""
        now = time.monotonic()
        if not self.active or now - self.started < AFTER or now - self.last < EVERY:
            return
        self.last, self.shown = now, True
        if size:
            share = min(done / size, 1.0)
            filled = round(share * WIDTH)
            text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%}"
        else:
            text = f"{done >> 20} MiB"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)
