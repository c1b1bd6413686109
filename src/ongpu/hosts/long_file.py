"""A very long file or stream, read once by one process or two into an excerpt."""

import codecs
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ongpu.hosts.archives import MAX_UNPACKED, Readable
from ongpu.hosts.long_text import BLOCK, Excerpt, merge, scan
from ongpu.knowledge.error_lines import table

TWO_PROCESSES = 64 << 20  # bytes from which a file is read by two processes
PATIENCE = 600.0  # seconds that the other process may take longer than this one

Tick = Callable[[int, int], None]  # bytes done, bytes in all (0: nobody knows)


def _literals() -> list[str]:
    return [literal for symptom in table() for literal in symptom.literals]


def is_wide(encoding: str) -> bool:
    """Whether its characters hold zero bytes, so that lines cannot be found in the bytes."""
    return encoding.startswith(("utf-16", "utf-32"))


def of_text(text: str) -> Excerpt:
    """The excerpt of a text at hand."""
    return scan([text.encode("utf-8", "replace")], _literals())


def of_stream(stream: Readable, encoding: str, size: int, tick: Tick) -> Excerpt:
    """The excerpt of a stream; in UTF-8 where the encoding is wide."""
    wide = codecs.getincrementaldecoder(encoding)("replace") if is_wide(encoding) else None

    def blocks() -> Iterator[bytes]:
        done = 0
        while block := stream.read(BLOCK):
            done += len(block)
            tick(done, size)
            yield wide.decode(block).encode("utf-8", "replace") if wide else block
            if done > MAX_UNPACKED and not size:
                return

    return scan(blocks(), _literals(), "utf-8" if wide else encoding)


def _part(path: Path, start: int, end: int, encoding: str, tick: Tick) -> Excerpt:
    """The excerpt of one part of a file."""

    def blocks() -> Iterator[bytes]:
        with path.open("rb", buffering=0) as file:
            at = file.seek(start)
            while at < end and (block := file.read(min(BLOCK, end - at))):
                at += len(block)
                tick(at - start, end - start)
                yield block

    return scan(blocks(), _literals(), encoding)


def _child(path: Path, start: int, end: int, encoding: str, answer: Connection) -> None:
    answer.send(_part(path, start, end, encoding, lambda done, size: None))
    answer.close()


def _middle(path: Path, size: int) -> int | None:
    """Where a line begins near the middle; None where no line ends there."""
    with path.open("rb") as file:
        file.seek(size // 2)
        line = file.readline(8 << 20)
    return size // 2 + len(line) if line.endswith(b"\n") else None


def of_file(path: Path, size: int, encoding: str, tick: Tick) -> Excerpt:
    """The excerpt of a file of `size` bytes, whose encoding is not wide; a long one is read by two processes."""
    middle = _middle(path, size) if size > TWO_PROCESSES and (os.cpu_count() or 1) > 1 else None
    if middle is None:
        return _part(path, 0, size, encoding, tick)
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    mine, theirs = context.Pipe(duplex=False)
    other = context.Process(target=_child, args=(path, middle, size, encoding, theirs), daemon=True)
    other.start()
    theirs.close()
    try:
        first = _part(path, 0, middle, encoding, tick)
        second: Excerpt | None = mine.recv() if mine.poll(PATIENCE) else None
    except (EOFError, OSError):  # the other process was killed: its half is read here
        second = None
    finally:
        other.terminate()
        other.join(5)
    return merge(first, second or _part(path, middle, size, encoding, tick))
