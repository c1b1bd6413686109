"""The questions that are asked of a GPU less often: who it is, its counters, its PCIe traffic, and who is on it."""

import contextlib
import ctypes
import io
import struct
import sys
from collections.abc import Callable, Collection
from typing import Any

from ongpu.hosts import nvml_child
from ongpu.hosts.nvml_child import FIELDS, ask
from ongpu.hosts.nvml_start import say
from ongpu.hosts.sampling.calls import NO_FUNCTION, OK, Gpu
from ongpu.hosts.sampling.watchdog import Place

PROCESS = struct.Struct("=I4xQ8x")  # nvmlProcessInfo_v2_t, v3 too: pid, bytes used; two numbers of a part of the GPU
USED = struct.Struct("=I4xQI12x")  # nvmlProcessUtilizationSample_t: pid, microseconds, percent; three more percentages
INSUFFICIENT_SIZE, TIMEOUT = 7, 10
NOT_TOLD = (1 << 64) - 1  # of usedGpuMemory: NVML_VALUE_NOT_AVAILABLE
SENT, RECEIVED = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES
MOST_PROCESSES = 4096  # on one GPU; more are not told
# name in facts.sample.IDENTITY -> name in nvml_child.FIELDS
PLAIN = {
    "power_limit": "power_limit", "power_default": "power_default", "temp_limit": "slowdown", "temp_margin": "margin",
    "sm_clock_max": "clock_sm_max", "pcie_gen": "pcie_gen", "pcie_gen_max": "pcie_gen_max", "pcie_width": "pcie_width",
    "pcie_width_max": "pcie_width_max", "compute_mode": "compute_mode", "persistence": "persistence", "recovery": "recovery",
}  # fmt: skip


def _first(answer: Any) -> Any:
    return answer[0] if isinstance(answer, (list, tuple)) and answer else None


def place_on_bus(text: str) -> str:
    """As the kernel writes it: "00000000:1A:00.0" -> "0000:1a:00.0"."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def identity(index: int, handle: Any, place: Place) -> dict[str, Any]:
    """What seldom changes of a GPU, as the "gpu" line tells it, without the index."""

    def field(name: str) -> Any:
        answer = place.ask(index, name, FIELDS[name], handle)
        return None if isinstance(answer, dict) and "error" in answer else answer

    pci, memory, remapped = field("pci"), field("memory"), field("remapped")
    bus = pci.get("busId") if isinstance(pci, dict) else None
    rows = remapped if isinstance(remapped, (list, tuple)) and len(remapped) == 4 else (None, None, None, None)
    mig, ecc = _first(field("mig")), _first(place.ask(index, "nvmlDeviceGetEccMode", ask, "nvmlDeviceGetEccMode", handle))
    found = {
        "uuid": field("uuid"), "name": field("name"),
        "bus": place_on_bus(bus.decode("ascii", "replace") if isinstance(bus, bytes) else bus) if bus else None,
        "mem_total": memory["total"] >> 20 if isinstance(memory, dict) and "total" in memory else None,
        "mig": None if mig is None else bool(mig), "ecc_mode": ecc, "remap_pending": rows[2], "remap_failed": rows[3],
    }  # fmt: skip
    return found | {name: field(of) for name, of in PLAIN.items()}


class Counters:
    """fan, ecc and replays of one GPU, and its PCIe traffic: calls made ready, as in calls.py."""

    def __init__(self, library: Any, handle: Any) -> None:
        device = ctypes.c_void_p(ctypes.cast(handle, ctypes.c_void_p).value)
        self.number, self.long, self.sent = ctypes.c_uint(), ctypes.c_ulonglong(), ctypes.c_uint()  # threads share none
        number, long, u32 = ctypes.byref(self.number), ctypes.byref(self.long), ctypes.c_uint

        def call(name: str, *args: Any) -> tuple[str, Callable[[], int]]:
            function = getattr(library, name, None)
            return name, (lambda: int(function(device, *args))) if function else (lambda: NO_FUNCTION)

        self.fan = call("nvmlDeviceGetFanSpeed", number)
        self.ecc = call("nvmlDeviceGetTotalEccErrors", u32(1), u32(0), long)  # uncorrected, volatile
        self.replays = call("nvmlDeviceGetPcieReplayCounter", number)
        self.traffic = [call("nvmlDeviceGetPcieThroughput", u32(which), ctypes.byref(self.sent)) for which in (SENT, RECEIVED)]

    def count(self, gpu: Gpu, place: Place) -> None:
        """The cheap ones, into the GPU's columns."""
        _take(gpu, place, "fan", 0, self.fan, self.number)
        _take(gpu, place, "ecc", 3, self.ecc, self.long)
        _take(gpu, place, "replays", 4, self.replays, self.number)

    def measure(self, gpu: Gpu, place: Place) -> None:
        """The traffic: 20 ms each way (nvml.h)."""
        _take(gpu, place, "pcie_tx", 1, self.traffic[0], self.sent)
        _take(gpu, place, "pcie_rx", 2, self.traffic[1], self.sent)


def _take(gpu: Gpu, place: Place, column: str, at: int, call: tuple[str, Callable[[], int]], answer: Any) -> None:
    code = place.ask(gpu.index, *call)
    value = answer.value if code == OK else None
    if column == "ecc" and value != gpu.slow[at]:
        gpu.news = True
    gpu.slow[at] = value
    gpu.note(column, code)


class Lists:
    """Who is on the GPUs, asked with room for most cases: one call a list."""

    KINDS = (("C", "nvmlDeviceGetComputeRunningProcesses"), ("G", "nvmlDeviceGetGraphicsRunningProcesses"))

    def __init__(self, library: Any) -> None:
        self.library = library
        self.room = 32
        self.count = ctypes.c_uint()
        self.names: dict[str, str] = {}  # kind -> the newest function that answers; v2 and v3 fill the same structure
        self.since: dict[int, int] = {}  # of the last utilisation that was told, microseconds
        self._make()

    def _make(self) -> None:
        self.rows = ctypes.create_string_buffer(PROCESS.size * self.room)
        self.used = ctypes.create_string_buffer(USED.size * self.room)

    def _ask(self, index: int, handle: Any, place: Place, name: str, *args: Any) -> int:
        function = getattr(self.library, name, None)
        return int(place.ask(index, name, function, handle, *args)) if function else NO_FUNCTION

    def _kind(self, index: int, handle: Any, place: Place, kind: str, name: str) -> int:
        """The code; the processes of that kind stand in `rows`, `count` of them."""
        code = NO_FUNCTION
        for version in (self.names[kind],) if kind in self.names else (f"{name}_v3", f"{name}_v2"):
            for _ in range(3):  # their number may grow between two calls
                self.count.value = self.room
                code = self._ask(index, handle, place, version, ctypes.byref(self.count), self.rows)
                if code != INSUFFICIENT_SIZE or self.room >= MOST_PROCESSES:
                    break
                self.room = min(max(self.count.value + 8, 2 * self.room), MOST_PROCESSES)
                self._make()
            if code != NO_FUNCTION:
                self.names[kind] = version
                break
        return code

    def on(self, index: int, handle: Any, place: Place) -> tuple[list[list[Any]] | None, int]:
        """([pid, MiB or null, kind, sm % or null] of each, OK), or (None, code) where that is not told."""
        found: list[list[Any]] = []
        for kind, name in self.KINDS:
            code = self._kind(index, handle, place, kind, name)
            if code and kind == "C":
                return None, code
            if code == OK:
                told = memoryview(self.rows)[: PROCESS.size * self.count.value]
                found += [[pid, None if used == NOT_TOLD else used >> 20, kind, None] for pid, used in PROCESS.iter_unpack(told)]
        if found:
            busy = self._busy(index, handle, place)
            for process in found:
                process[3] = busy.get(process[0])
        return found, OK

    def _busy(self, index: int, handle: Any, place: Place) -> dict[int, int]:
        """pid -> percent of the time in which its kernels ran since the last look; {} where that is not told."""
        self.count.value = self.room
        since = ctypes.c_ulonglong(self.since.get(index, 0))
        if self._ask(index, handle, place, "nvmlDeviceGetProcessUtilization", self.used, ctypes.byref(self.count), since) != OK:
            return {}
        rows = list(USED.iter_unpack(memoryview(self.used)[: USED.size * self.count.value]))
        self.since[index] = max((at for _, at, _ in rows), default=0)
        return {pid: percent for pid, _, percent in rows if percent <= 100}


def full(root: str, place: Place, skipped: Collection[int]) -> str:
    """The doctor's own NVML evidence. Of a GPU that hangs: that it did not answer in time."""
    told, before = io.StringIO(), sys.stdout

    def about(index: int, root: str) -> None:
        if index in skipped:
            say(gpu=index, error="Timeout", reason=TIMEOUT)
        else:
            place.ask(index, "all that the doctor asks", nvml_child.device, index, root)

    with contextlib.ExitStack() as stack:
        stack.callback(setattr, sys, "stdout", before)
        sys.stdout = told
        say(asking="init")
        nvml_child.main(root, about)
    return told.getvalue()
