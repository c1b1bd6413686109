"""The end of what a job wrote, without all that stands before it where that can be."""

import os
import time
from typing import TYPE_CHECKING

from ongpu.queue.engines import EngineError

if TYPE_CHECKING:
    from ongpu.queue.engines import Engine

PATIENCE = 10.0  # seconds that reading all of it may take
STEP = 1 << 16


def end_of(engine: "Engine", job: str, most: int, attempt: int | None = None) -> bytes:
    """The last bytes, at most so many. Raises EngineError where the output cannot be read, or not within PATIENCE."""
    from ongpu.hosts.streams import Tail

    if (find := getattr(engine, "output_file", None)) is not None:
        try:
            with open(find(job, attempt), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read(most)
        except OSError as error:
            raise EngineError(f"{job}: its output cannot be read: {error.strerror}", f"{job}：无法读取输出：{error.strerror}") from None
    tail, end = Tail(most), time.monotonic() + PATIENCE
    for piece in engine.output(job, attempt=attempt):
        tail.add(piece)
        if time.monotonic() > end:
            raise EngineError(f"{job}: its output is too long", f"{job}：输出太长")
    return tail.bytes()


def last_lines(engine: "Engine", job: str, lines: int, most: int, attempt: int | None = None) -> bytes:
    """The last lines, of the last bytes at most."""
    size = STEP
    while True:
        data = end_of(engine, job, size, attempt)
        if len(data) < size or data.count(b"\n") > lines or size >= most:
            return cut(data, lines)
        size = min(most, 8 * size)


def cut(data: bytes, lines: int) -> bytes:
    """The last lines of it."""
    place = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        place = data.rfind(b"\n", 0, max(place, 0))
        if place < 0:
            return data
    return data[place + 1 :] if lines else b""
