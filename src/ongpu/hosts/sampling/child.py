"""How the sampling child begins: whether NVML starts at all; the bindings, slow to load, only where it does.

It prints the lines of facts/sample.py, on a clock, until its input ends. Apart from the clock, each question that may be slow has a
thread of its own, and a watchdog says which call does not return: ctypes lets the other threads go on while one is in the library.
"""

import json
import os
import threading
import time
from typing import Any

from ongpu.hosts.nvml_start import refusal
from ongpu.hosts.sampling.lines import say
from ongpu.hosts.sampling.watchdog import Watchdog, listen, thread

DEFAULTS: dict[str, Any] = {
    "interval": 1.0,  # seconds between samples
    "per_call": 2.0,  # seconds that one call may take,
    "start_call": 15.0,  # and one that starts the driver or a card
    "root": "/",  # where /proc lies; another one is of a recorded tree
    "proc_every": 5.0,  # seconds between two looks at /proc
    "list_every": 1.0,  # seconds, at least, between two looks at the lists of processes
    "count_every": 3.0,  # seconds between two looks at what seldom changes (ECC counters), and at GPUs that were lost
    "full_every": 60.0,  # seconds between two of the doctor's evidences; 0: none
    "skip": [],  # GPUs that are not asked
    "only": None,  # those that are asked alone
    "log": True,  # whether the kernel's log is read
    "kmsg": "/dev/kmsg",
    "after": -1,  # the number of its last line that is known
}


def main(text: str) -> None:
    """Sample until the parent goes. text: JSON, options as in DEFAULTS."""
    options = {**DEFAULTS, **json.loads(text)}
    watchdog, skip, wake = Watchdog(float(options["per_call"])), set(options["skip"]), threading.Event()

    def ask(index: int) -> None:
        skip.discard(index)
        wake.set()

    thread(listen, watchdog, ask)
    refused = watchdog.place(float(options["start_call"])).ask(None, "nvmlInit_v2", refusal)
    if refused:
        say(k="init", t=time.time(), code=refused[1], error=refused[0])
        os._exit(0)
    from ongpu.hosts.sampling.sampler import Sampler

    sampler = Sampler(options, watchdog, skip, wake)
    if sampler.start():
        sampler.run()
    os._exit(0)
