"""The questions that are asked of each GPU at each tick: NVML's functions called straight, into one buffer that is read at once.

nvidia-ml-py loads the library and gives the constants; its wrappers cost five times as much as the calls themselves.
"""

import ctypes
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ongpu.facts.sample import PLACE
from ongpu.hosts.sampling.watchdog import Place

Call = Callable[[], int]
OK, NOT_SUPPORTED, NO_FUNCTION, LOST, NEEDS_RESET, WRONG_VERSION = 0, 3, 13, 15, 16, 25  # nvml.h: nvmlReturn_t
GONE = (LOST, NEEDS_RESET)  # said by one call, it is so of the whole GPU
# Of the driver as a whole, where all GPUs say it: uninitialised, not loaded, library not found, library and kernel module of two versions
DRIVER_WIDE = (1, 9, 12, 18)
MEMORY_V2 = 0x02000028  # nvml.h: NVML_STRUCT_VERSION(Memory, 2)
TEMPERATURE_V1 = 0x0100000C  # NVML_STRUCT_VERSION(Temperature, 1)
# Where the answers stand: two percentages; nvmlMemory_v2_t, of which `used` is the last; four numbers of 32 bits, two of 64.
UTILISATION, MEMORY, TEMPERATURE, POWER, SM_CLOCK, MEM_CLOCK, REASONS, ENERGY, SIZE = 0, 8, 48, 52, 56, 60, 64, 72, 80
ANSWERS = struct.Struct("=II32xQIIIIQQ")
V1_OFFSET = 16  # nvmlMemory_t {total, free, used}, so far into the place of the other, has its `used` where that has it
FAST = (("util", "mem_util"), ("mem_used",), ("temp",), ("power",), ("sm_clock",), ("mem_clock",), ("reasons",), ("energy",))
NONE: tuple[None, ...] = (None, None, None, None, None)  # fan, pcie_tx, pcie_rx, ecc, replays
SLOW, SENT, RECEIVED = PLACE["fan"], PLACE["pcie_tx"], PLACE["pcie_rx"]
UNABLE = (NOT_SUPPORTED, NO_FUNCTION)
WATCHED = ~0x5  # bits of the clocks' reasons that a rule looks at: all but "idle" and "software power cap"


def _function(library: Any, *names: str) -> tuple[str, Any]:
    """The first of these that the library has."""
    for name in names:
        found = getattr(library, name, None)
        if found is not None:
            return name, found
    return names[0], lambda *args: NO_FUNCTION


class Gpu:
    """One GPU: its calls, made ready, and what they last answered."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.handle: Any = None
        self.code: int | None = None  # of the whole GPU, where it does not answer; also that of a handle that was refused
        self.calls: list[tuple[str, Call]] = []
        self.codes: list[int] = []  # of the calls, in order, at the last tick
        self.slow: list[int | None] = list(NONE)  # the columns that others fill
        self.slow_codes: dict[str, int] = {}
        self.changed = False  # one of the codes, since they were told
        self.news = False  # something that a rule looks at
        self.mark = (0, False)  # why the clocks are held down, and whether it is hot
        self.identity: dict[str, Any] = {}
        self.limit = 1 << 30  # degrees at which it slows down
        self.answered = False
        self.buffer = ctypes.create_string_buffer(SIZE)

    def note(self, column: str, code: int) -> None:
        """The code of a question that others ask."""
        if code == OK:
            if self.slow_codes.pop(column, None) is not None:
                self.changed = True
        elif self.slow_codes.get(column) != code:
            self.slow_codes[column] = code
            self.changed = True

    def ready(self, library: Any, handle: Any, place: Place) -> list[tuple[str, Call]]:
        """Its calls, made ready. handle: as nvidia-ml-py gives it. Old libraries are asked in their own way."""
        device = ctypes.c_void_p(ctypes.cast(handle, ctypes.c_void_p).value)
        at = partial(ctypes.byref, self.buffer)
        u32 = ctypes.c_uint

        def call(names: tuple[str, ...], *args: Any) -> tuple[str, Call]:
            name, function = _function(library, *names)
            return name, partial(function, device, *args)

        def first(*choices: tuple[str, Call]) -> tuple[str, Call]:
            """The first that this library knows; asked once to find out."""
            for choice in choices:
                if place.ask(self.index, *choice) not in (NO_FUNCTION, WRONG_VERSION):
                    return choice
            return choices[0]

        struct.pack_into("=I", self.buffer, MEMORY, MEMORY_V2)
        return [
            call(("nvmlDeviceGetUtilizationRates",), at(UTILISATION)),
            first(
                call(("nvmlDeviceGetMemoryInfo_v2",), at(MEMORY)), call(("nvmlDeviceGetMemoryInfo",), at(MEMORY + V1_OFFSET))
            ),
            first(
                call(("nvmlDeviceGetTemperature",), u32(0), at(TEMPERATURE)),
                ("nvmlDeviceGetTemperatureV", partial(self._temperature, library, device)),
            ),
            call(("nvmlDeviceGetPowerUsage",), at(POWER)),
            call(("nvmlDeviceGetClockInfo",), u32(1), at(SM_CLOCK)),  # NVML_CLOCK_SM
            call(("nvmlDeviceGetClockInfo",), u32(2), at(MEM_CLOCK)),  # NVML_CLOCK_MEM
            first(
                call(("nvmlDeviceGetCurrentClocksThrottleReasons",), at(REASONS)),  # the name that every driver has so far
                call(("nvmlDeviceGetCurrentClocksEventReasons",), at(REASONS)),
            ),
            call(("nvmlDeviceGetTotalEnergyConsumption",), at(ENERGY)),
        ]  # fmt: skip

    def _temperature(self, library: Any, device: Any) -> int:
        """nvmlTemperature_v1_t {version, sensor, degrees}, for a library without the older function."""
        about = (ctypes.c_uint * 3)(TEMPERATURE_V1, 0, 0)
        code = int(_function(library, "nvmlDeviceGetTemperatureV")[1](device, ctypes.byref(about)))
        struct.pack_into("=I", self.buffer, TEMPERATURE, about[2])
        return code

    def row(self, place: Place) -> list[int | None] | int:
        """facts.sample.COLUMNS, or the code of a GPU that does not answer."""
        if not self.calls:
            return self.code or LOST
        clock = time.monotonic
        codes = []
        place.index = self.index
        for place.call, call in self.calls:
            place.since = clock()
            code = call()
            codes.append(code)
            if code and code in GONE:
                break
        place.since = None
        if codes != self.codes:
            self.codes, self.changed = codes, True
        if codes[-1] in GONE:
            self.code = codes[-1]
            return self.code
        if all(codes):  # nothing at all is told: no row
            self.code = next((code for code in codes if code not in UNABLE), codes[0])
            return self.code
        util, mem_util, used, temp, power, sm_clock, mem_clock, reasons, energy = ANSWERS.unpack_from(self.buffer)
        row = [util, mem_util, used >> 20, temp, power, sm_clock, mem_clock, reasons, energy, *self.slow]
        if row[SENT] is not None or row[RECEIVED] is not None:  # told once: it was measured once
            self.slow[SENT - SLOW] = self.slow[RECEIVED - SLOW] = None
        if any(codes):
            for names, code in zip(FAST, codes, strict=True):
                for name in names if code else ():
                    row[PLACE[name]] = None
        mark = (reasons & WATCHED, temp >= self.limit)
        if mark != self.mark:
            self.mark, self.news = mark, True
        self.code, self.answered = None, True
        return row

    def why(self) -> dict[str, int]:
        """The codes of all that is not told."""
        fast = {name: code for names, code in zip(FAST, self.codes, strict=False) if code for name in names}
        return {**fast, **self.slow_codes}
