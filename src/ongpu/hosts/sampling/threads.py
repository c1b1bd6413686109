"""The slow questions of the sampling child: each of these runs in a thread of its own, beside the clock."""

import ctypes
import time
from typing import TYPE_CHECKING, Any

import pynvml as n

from ongpu.hosts import nvml_child
from ongpu.hosts.sampling import machine
from ongpu.hosts.sampling.calls import GONE, Gpu
from ongpu.hosts.sampling.lines import say
from ongpu.hosts.sampling.proc import Looks
from ongpu.hosts.sampling.slow import Lists, full
from ongpu.hosts.sampling.watchdog import Place

if TYPE_CHECKING:
    from ongpu.hosts.sampling.sampler import Sampler

IDENTITY_EVERY, TRAFFIC_EVERY = 30.0, 30.0  # seconds
LIST_EVERY = 1.0  # seconds, at least, between two looks at the lists of processes
BUSY = 20  # times as long as a look took we wait at least until the next: a twentieth of a core
FULL_AT_MOST = 2.0  # seconds, at least, between two of the doctor's evidences
WHOLE_LIMIT = 10.0  # seconds that all the doctor's questions to one GPU may take
EVENT_WAIT = 20.0  # seconds
XID_EVENT = 8  # nvmlEventTypeXidCriticalError


def counts(sampler: "Sampler") -> None:
    """Counters each few seconds, identity seldom, GPUs that were lost or come back; the doctor's evidence when it is due."""
    place, whole = sampler.watchdog.place(), sampler.watchdog.place(max(WHOLE_LIMIT, sampler.per_call))
    every = float(sampler.options["full_every"])
    count_every = float(sampler.options["count_every"])
    next_count = next_identity = time.monotonic() + count_every
    next_full, last_full = time.monotonic() if every else float("inf"), -FULL_AT_MOST
    while True:
        now = time.monotonic()
        if now >= next_full:
            say(k="full", t=time.time(), text=full(sampler.root, whole, sampler.skip | sampler.closed()))
            last_full, next_full = time.monotonic(), time.monotonic() + every
        if now >= next_count:
            seldom, next_count = now >= next_identity, now + count_every
            next_identity = now + IDENTITY_EVERY if seldom else next_identity
            for gpu in sampler.gpus:
                if sampler.asked(gpu.index):
                    _look_after(sampler, gpu, place, seldom)
        if sampler.wake.wait(max(0.0, min(next_count, next_full) - time.monotonic())):
            sampler.wake.clear()
            next_full = min(next_full, last_full + FULL_AT_MOST) if every else next_full
            for index in sorted(sampler.closed()):  # one that hung answers again
                if sampler.asked(index):
                    sampler.open(sampler.gpus[index], place)


def _look_after(sampler: "Sampler", gpu: Gpu, place: Place, seldom: bool) -> None:
    if gpu.code is None and gpu.handle:
        sampler.counters[gpu.index].count(gpu, place)
        if seldom:
            sampler.identify(gpu, gpu.handle, place)
    elif gpu.code in GONE or (gpu.code is not None and not gpu.handle):
        sampler.open(gpu, place)  # its old handle may be no good after a reset


def traffic(sampler: "Sampler") -> None:
    """PCIe traffic, one GPU after the other: each takes 40 ms."""
    place = sampler.watchdog.place()
    while True:
        for gpu in sampler.gpus:
            if gpu.handle and gpu.code is None:
                sampler.counters[gpu.index].measure(gpu, place)
        time.sleep(TRAFFIC_EVERY)


def processes(sampler: "Sampler") -> None:
    """The lists of processes, and what /proc says of these; said when there are any, or it is news."""
    place, lists = sampler.watchdog.place(), Lists(sampler.library)
    looks = Looks(sampler.root, namespace=nvml_child.all_visible(sampler.root))
    every = max(float(sampler.options["list_every"]), float(sampler.options["proc_every"]), sampler.interval)
    rest = BUSY if every >= LIST_EVERY else 1  # of two looks that are wanted at once
    said: Any = None
    while True:
        begin = time.monotonic()
        told: dict[str, Any] = {}
        for gpu in sampler.gpus:
            if gpu.handle and gpu.code is None:
                rows, code = lists.on(gpu.index, gpu.handle, place)
                gpu.note("processes", code)
                if rows is not None:
                    told[str(gpu.index)] = rows
        hosts = looks.all(row[0] for rows in told.values() for row in rows)
        if hosts or told != said:
            said = told
            more = {"h": hosts, "m": machine.look(sampler.root)} if hosts else {}
            say(k="p", t=round(time.time(), 3), c=round(begin, 3), g=told, **more)
        took = time.monotonic() - begin
        time.sleep(max(every - took, rest * took))


def events(sampler: "Sampler") -> None:
    """Xids as NVML tells of them; nothing where it does not."""
    made = nvml_child.ask("nvmlEventSetCreate")
    wait = getattr(sampler.library, "nvmlEventSetWait_v2", None) or getattr(sampler.library, "nvmlEventSetWait", None)
    if isinstance(made, dict) or wait is None:
        return
    known: dict[int | None, int] = {}
    data = n.c_nvmlEventData_t()
    while True:
        for gpu in sampler.gpus:  # those that came back too
            key = ctypes.cast(gpu.handle, ctypes.c_void_p).value if gpu.handle else None
            if key is not None and key not in known:
                known[key] = gpu.index
                nvml_child.ask("nvmlDeviceRegisterEvents", gpu.handle, XID_EVENT, made)
        code = wait(made, ctypes.byref(data), ctypes.c_uint(int(EVENT_WAIT * 1000)))
        if code == 0 and data.eventType == XID_EVENT:
            index = known.get(ctypes.cast(data.device, ctypes.c_void_p).value)
            say(k="xid", t=time.time(), i=index, code=int(data.eventData))
        elif code not in (0, n.NVML_ERROR_TIMEOUT):  # a lost GPU makes it return at once
            time.sleep(5.0)
