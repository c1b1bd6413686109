"""The kernel's log as it is written (/dev/kmsg): the lines that can matter to a GPU, the ones from before too, each once."""

import errno
import os
import time
from collections.abc import Callable
from typing import Any

from ongpu.lazy import lazy

DEVICE = "/dev/kmsg"
RECORD = 8192  # bytes: the longest record (Documentation/ABI/testing/dev-kmsg)
MOST_A_SECOND = 200  # lines that are told: an error of the bus can write thousands
_OURS = lazy(
    r"NVRM|nvidia|nouveau|pcieport|\bAER\b|PCIe Bus Error|Out of memory|oom-kill|oom_reaper|Killed process|blocked for more than|"
    r"mce: |Hardware Error|soft lockup|\bXid\b|SXid|nvswitch",
)
_WORDS = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ENOENT: "not found", errno.ENXIO: "not found", errno.ENODEV: "not found"}


def record(data: bytes) -> tuple[int, float, str] | None:
    """(number, seconds since boot, text) of one record; None for what is none, or cannot matter."""
    head, found, rest = data.partition(b";")
    fields = head.split(b",")
    if not found or len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()) or max(map(len, fields[1:3])) > 20:
        return None
    text = rest.partition(b"\n")[0][:1000].decode("utf-8", "replace").strip()
    return (int(fields[1]), int(fields[2]) / 1e6, text) if _OURS.search(text) else None


def problem(error: OSError) -> str:
    """Why the log cannot be read, in a word where we have one."""
    return _WORDS.get(error.errno or 0, os.strerror(error.errno) if error.errno else str(error))


def follow(say: Callable[..., Any], after: int, path: str = DEVICE) -> None:
    """Tell of each line, for as long as there are any; never returns from a device that can be read. after: the number of the last known.

    It waits in the kernel, at no cost: it needs a thread of its own.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        say(k="log", error=problem(error))
        return
    boot = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    second, told, dropped = 0, 0, 0
    while True:
        try:
            data = os.read(file, RECORD)
        except OSError as error:
            if error.errno == errno.EPIPE:  # written over before we read it: the next one is still there
                continue
            say(k="log", error=problem(error))
            return
        if not data:
            return
        found = record(data)
        if found is None or found[0] <= after:
            continue
        now = int(time.monotonic())
        if now != second:
            if dropped:
                say(k="log", t=time.time(), text=f"ongpu: {dropped} more lines in one second are not told")
            second, told, dropped = now, 0, 0
        told += 1
        if told > MOST_A_SECOND and found[1] > time.clock_gettime(time.CLOCK_MONOTONIC) - 10:
            dropped += 1
            continue
        say(k="log", t=round(boot + found[1], 6), text=found[2], seq=found[0])
