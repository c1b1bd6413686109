"""The clock of the sampling child: NVML is started, the GPUs are opened, and at each tick one line tells of all."""

import gc
import os
import sys
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import pynvml as n

from ongpu.hosts import nvml_child
from ongpu.hosts.sampling import kmsg, threads
from ongpu.hosts.sampling.calls import DRIVER_WIDE, GONE, Gpu
from ongpu.hosts.sampling.lines import say, write
from ongpu.hosts.sampling.slow import Counters, Lists, identity
from ongpu.hosts.sampling.watchdog import Place, Watchdog, thread

SWITCH = 2e-5  # seconds for which a busy thread may go on when the clock waits: that comes back from the library hundreds of times
NUMB = 3  # ticks in which no GPU answers, all for the same reason, after which a new process is to look
STILL = 60.0  # seconds, the same, where none has ever answered
HOT = 2  # degrees below the limit from which a rule looks at it


class Sampler:
    """All that the threads share. options: those of child.py. skip: GPUs that hang. wake: something changed that is to be looked at."""

    def __init__(self, options: dict[str, Any], watchdog: Watchdog, skip: set[int], wake: threading.Event) -> None:
        self.options, self.watchdog, self.skip, self.wake = options, watchdog, skip, wake
        self.interval, self.per_call = float(self.options["interval"]), float(self.options["per_call"])
        self.start_call = float(self.options["start_call"])
        self.root = str(self.options["root"]).rstrip("/")
        self.only = None if self.options["only"] is None else set(self.options["only"])
        self.library: Any = None
        self.gpus: list[Gpu] = []
        self.counters: dict[int, Counters] = {}
        self.numb = 0

    def asked(self, index: int) -> bool:
        """Whether we ask this GPU: none that hangs, in the child that asks the others."""
        return index not in self.skip and (self.only is None or index in self.only)

    def closed(self) -> set[int]:
        """The GPUs that have not answered yet, or hang."""
        return {gpu.index for gpu in self.gpus if gpu.handle is None and gpu.code is None}

    # --- the start

    def start(self) -> bool:
        """Whether NVML started; what is there is said then."""
        place = self.watchdog.place(self.start_call)
        refused = place.ask(None, "nvmlInit_v2", nvml_child.ask, "nvmlInit")
        driver, cuda, count = (
            refused or place.ask(None, name, nvml_child.ask, name)
            for name in ("nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetCount")
        )
        if not isinstance(count, int):
            say(k="init", t=time.time(), code=count["code"], error=count["error"])
            return False
        self.library = n.nvmlLib
        plain = [None if isinstance(value, dict) else value for value in (driver, cuda)]
        say(k="init", t=time.time(), code=0, error=None, driver=plain[0], cuda=plain[1], count=count)
        self.gpus = [Gpu(index) for index in range(count)]
        self.open_all()
        return True

    def open_all(self) -> None:
        """One GPU after the other, for as long as one call may take; then each on its own, while the others are sampled already."""
        waiting = SimpleQueue[Gpu]()
        for gpu in self.gpus:
            if self.asked(gpu.index):
                waiting.put(gpu)

        def opener() -> None:
            place = self.watchdog.place()
            with suppress(Empty):
                while True:
                    self.open(waiting.get_nowait(), place)

        first = thread(opener)
        first.join(self.per_call)
        for _ in range(waiting.qsize() if first.is_alive() else 0):
            thread(opener)

    def open(self, gpu: Gpu, place: Place) -> None:
        """Ask for the GPU's handle and who it is; said where it is news."""
        limit, place.limit = place.limit, max(place.limit, self.start_call)  # a card may have to wake first
        handle = place.ask(gpu.index, "nvmlDeviceGetHandleByIndex_v2", nvml_child.ask, "nvmlDeviceGetHandleByIndex", gpu.index)
        place.limit = limit
        if isinstance(handle, dict):
            gpu.news = gpu.code != handle["code"]
            gpu.code, gpu.calls, gpu.handle = handle["code"], [], None
            if not gpu.identity:
                gpu.identity = {"uuid": None}
                say(k="gpu", i=gpu.index, uuid=None, name=None, bus=None)
            return
        ready = gpu.ready(self.library, handle, place)
        counters = Counters(self.library, handle)
        self.identify(gpu, handle, place)
        counters.count(gpu, place)
        if self.only is not None:  # it hung: only when it answers all questions the other child is to ask it again
            counters.measure(gpu, place)
            Lists(self.library).on(gpu.index, handle, place)
        self.counters[gpu.index] = counters
        gpu.calls, gpu.code = ready, None
        gpu.handle, gpu.changed = handle, True

    def identify(self, gpu: Gpu, handle: Any, place: Place) -> None:
        """Say who it is, where that is news."""
        told = identity(gpu.index, handle, place)
        if told != gpu.identity and (told["uuid"] or not gpu.identity.get("uuid")):  # a lost GPU does not say who it is
            gpu.identity = told
            gpu.limit = told["temp_limit"] - HOT if told["temp_limit"] else gpu.limit
            say(k="gpu", i=gpu.index, **told)

    # --- the clock

    def run(self) -> None:
        """A sample at each tick, for ever; a tick that is missed is left out, and its number tells."""
        place = self.watchdog.place()
        begin, number = time.monotonic(), 0
        self.sample(number, place)
        self.wake.clear()  # all is asked now anyway
        self.threads()
        next_look = begin + self.per_call
        while True:
            now = time.monotonic()
            number = max(number + 1, int((now - begin) / self.interval))
            time.sleep(max(0.0, begin + number * self.interval - now))
            self.sample(number, place)
            if now >= next_look:  # whether another thread hangs; of this one the parent asks
                next_look = now + self.per_call / 2
                self.watchdog.look()

    def sample(self, number: int, place: Place) -> None:
        """One line of all GPUs, and why what is not told is not."""
        rows = [gpu.row(place) if gpu.handle or gpu.code is not None else None for gpu in self.gpus]
        if int in map(type, rows):
            self.silent([row for row in rows if type(row) is int], rows.count(None))
        else:
            self.numb = 0
        for gpu in self.gpus:
            if gpu.changed:
                gpu.changed = False
                say(k="why", i=gpu.index, codes=gpu.why())
                gpu.news = True
            if gpu.news:
                gpu.news = False
                self.wake.set()
        plain = str(rows).replace("None", "null").replace(" ", "")  # numbers and nothing else: half the cost of `say`
        write(f'{{"k":"s","t":{time.time():.3f},"c":{time.monotonic():.3f},"n":{number},"g":{plain}}}')

    def silent(self, codes: list[int], unasked: int) -> None:
        """Some GPUs do not answer. Where none does, the driver itself went."""
        if len(codes) + unasked < len(self.gpus) or codes.count(codes[0]) < len(codes):
            self.numb = 0
            return
        self.numb += 1
        code, answered = codes[0], any(gpu.answered for gpu in self.gpus)
        patience = NUMB if answered else STILL / self.interval
        if code in DRIVER_WIDE or (self.numb >= patience and code not in (*GONE, 3, 4)):
            say(k="bye", t=time.time(), code=code, error=str(n.NVMLError(code)))  # only a new process can open what comes after it
            os._exit(0)

    def threads(self) -> None:
        """Start the slow ones; a child that asks one GPU alone has none."""
        sys.setswitchinterval(SWITCH)
        if self.only is None:
            for target in (threads.processes, threads.counts, threads.traffic, threads.events):
                thread(target, self)
            if self.options["log"] and sys.platform == "linux" and not self.root:
                thread(kmsg.follow, say, int(self.options["after"]), str(self.options["kmsg"]))
        gc.collect()
        gc.freeze()
