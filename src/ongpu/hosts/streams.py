"""Where a command's output goes (terminals, pipes, files), and the end of it."""

import contextlib
import os
import select
import stat

KEPT = 64 << 10  # bytes of output


class Tail:
    """The last bytes that were written."""

    def __init__(self, most: int = KEPT) -> None:
        self.most, self.data, self.total = most, bytearray(), 0

    def add(self, data: bytes) -> None:
        """More output."""
        self.total += len(data)
        self.data += data
        if len(self.data) > 2 * self.most:
            del self.data[: -self.most]

    def bytes(self) -> bytes:
        """What is kept."""
        return bytes(self.data[-self.most :])


def write_all(file: int, data: bytes) -> None:
    """All of it, also where the file does not wait."""
    while data:
        try:
            data = data[os.write(file, data) :]
        except BlockingIOError:
            select.select([], [file], [], 1.0)


def terminal_of() -> int | None:
    """The descriptor of the terminal that output goes to, if it is also what controls us; None where output goes elsewhere."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if os.isatty(number):
                os.tcgetpgrp(number)
                return number
    return None


def pipes_of() -> dict[int, tuple[int, int]]:
    """Which of stdout and stderr are pipes or sockets, and which one: two may be one."""
    found = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):
            about = os.fstat(number)
            if stat.S_ISFIFO(about.st_mode) or stat.S_ISSOCK(about.st_mode):
                found[number] = (about.st_dev, about.st_ino)
    return found


def files_of() -> dict[int, tuple[tuple[int, int], int]]:
    """Which of stdout and stderr are plain files, which one, and how long it was."""
    found: dict[int, tuple[tuple[int, int], int]] = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):
            about = os.fstat(number)
            place = (about.st_dev, about.st_ino)
            if stat.S_ISREG(about.st_mode) and place not in [known for known, _ in found.values()]:
                found[number] = place, about.st_size
    return found


def end_of_file(number: int, place: tuple[int, int], start: int) -> bytes:
    """What was written to it since, at most KEPT bytes; b"" where it cannot be read."""
    try:
        file = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        about = os.fstat(file)
        if (about.st_dev, about.st_ino) != place:
            return b""
        begin = max(start if about.st_size >= start else 0, about.st_size - KEPT)
        return os.pread(file, KEPT, begin)
    except OSError:
        return b""
    finally:
        os.close(file)
