"""What the child process asks of an NVML that starts, through nvidia-ml-py: one JSON object a line, at once.

Each field of a GPU is a value, or {"error": "Not Supported"}: "not supported" and "not permitted" are told, never 0.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import pynvml as n

from ongpu.hosts.nvml_start import say


def ask(function: str, *args: Any) -> Any:
    """The answer of an NVML function; {"error": words} where it refuses or this NVML does not have it."""
    try:
        answer = getattr(n, function)(*args)
    except n.NVMLError as error:
        return {"error": str(error), "code": error.value}
    except (AttributeError, TypeError, ValueError, UnicodeDecodeError) as error:
        return {"error": f"{type(error).__name__}: {error}", "code": 13}
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def part(answer: Any, *names: str) -> Any:
    """Some fields of an NVML structure, as a dictionary."""
    if isinstance(answer, dict):
        return answer
    return {name: getattr(answer, name) for name in names if hasattr(answer, name)}


NO_INSTANCE = 0xFFFFFFFF  # nvml.h: of a program on a GPU that is not partitioned


FIELDS: dict[str, Callable[[Any], Any]] = {
    "name": lambda d: ask("nvmlDeviceGetName", d),
    "uuid": lambda d: ask("nvmlDeviceGetUUID", d),
    "pci": lambda d: part(ask("nvmlDeviceGetPciInfo", d), "busId", "pciDeviceId"),
    "capability": lambda d: ask("nvmlDeviceGetCudaComputeCapability", d),
    "memory": lambda d: part(ask("nvmlDeviceGetMemoryInfo", d), "total", "free", "used"),
    "utilization": lambda d: part(ask("nvmlDeviceGetUtilizationRates", d), "gpu", "memory"),
    "temperature": lambda d: ask("nvmlDeviceGetTemperature", d, n.NVML_TEMPERATURE_GPU),
    "slowdown": lambda d: ask("nvmlDeviceGetTemperatureThreshold", d, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
    "margin": lambda d: ask("nvmlDeviceGetMarginTemperature", d),
    "fan": lambda d: ask("nvmlDeviceGetFanSpeed", d),
    "power": lambda d: ask("nvmlDeviceGetPowerUsage", d),
    "power_limit": lambda d: ask("nvmlDeviceGetEnforcedPowerLimit", d),
    "power_default": lambda d: ask("nvmlDeviceGetPowerManagementDefaultLimit", d),
    "clock_sm": lambda d: ask("nvmlDeviceGetClockInfo", d, n.NVML_CLOCK_SM),
    "clock_sm_max": lambda d: ask("nvmlDeviceGetMaxClockInfo", d, n.NVML_CLOCK_SM),
    "pstate": lambda d: ask("nvmlDeviceGetPerformanceState", d),
    "reasons": lambda d: ask("nvmlDeviceGetCurrentClocksThrottleReasons", d),
    "ecc": lambda d: ask(
        "nvmlDeviceGetTotalEccErrors", d, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC
    ),
    "ecc_total": lambda d: ask(
        "nvmlDeviceGetTotalEccErrors", d, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_AGGREGATE_ECC
    ),
    "remapped": lambda d: ask("nvmlDeviceGetRemappedRows", d),
    "retired_pending": lambda d: ask("nvmlDeviceGetRetiredPagesPendingStatus", d),
    "pcie_gen": lambda d: ask("nvmlDeviceGetCurrPcieLinkGeneration", d),
    "pcie_gen_max": lambda d: ask("nvmlDeviceGetMaxPcieLinkGeneration", d),
    "pcie_width": lambda d: ask("nvmlDeviceGetCurrPcieLinkWidth", d),
    "pcie_width_max": lambda d: ask("nvmlDeviceGetMaxPcieLinkWidth", d),
    "pcie_replays": lambda d: ask("nvmlDeviceGetPcieReplayCounter", d),
    "mig": lambda d: ask("nvmlDeviceGetMigMode", d),
    "mig_devices": lambda d: mig_devices(d),
    "compute_mode": lambda d: ask("nvmlDeviceGetComputeMode", d),
    "persistence": lambda d: ask("nvmlDeviceGetPersistenceMode", d),
    "display": lambda d: ask("nvmlDeviceGetDisplayActive", d),
    "driver_model": lambda d: ask("nvmlDeviceGetDriverModel", d) if sys.platform == "win32" else None,
    "slices": lambda d: slices(d),
    "nvlinks": lambda d: nvlinks(d),
    "nvlink_peers": lambda d: nvlink_peers(d),
    "fabric": lambda d: fabric(d),
    "recovery": lambda d: recovery(d),
}


def fabric(device: Any) -> Any:
    """{"state", "status"} of the NVSwitch fabric: state 3 is completed; the error where the card has none."""
    if not hasattr(n, "c_nvmlGpuFabricInfo_t"):
        return None
    info = n.c_nvmlGpuFabricInfo_t()
    answer = ask("nvmlDeviceGetGpuFabricInfo", device, n.byref(info))
    return answer if isinstance(answer, dict) else part(info, "state", "status")


def recovery(device: Any) -> Any:
    """What the driver says must be done with the card: 0 nothing, 1 reset, 2 reboot, ... (nvmlDeviceGpuRecoveryAction)."""
    field = getattr(n, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    answer = ask("nvmlDeviceGetFieldValues", device, [field]) if field is not None else None
    if answer is None or isinstance(answer, dict) or answer[0].nvmlReturn != n.NVML_SUCCESS:
        return None
    return int(answer[0].value.uiVal)


def mig_devices(device: Any) -> Any:
    """How many MIG devices exist; None where MIG is off."""
    mode = ask("nvmlDeviceGetMigMode", device)
    if not isinstance(mode, (list, tuple)) or not mode[0]:
        return None
    most = ask("nvmlDeviceGetMaxMigDeviceCount", device)
    if isinstance(most, dict):
        return most
    handles = (ask("nvmlDeviceGetMigDeviceHandleByIndex", device, i) for i in range(most))
    return sum(not isinstance(handle, dict) for handle in handles)


def slices(device: Any) -> Any:
    """The MIG devices, each with what NVML tells of one: name, UUID, instances, memory, programs; None where MIG is off.

    As nvml.h has it: no partitioned card was at hand.
    """
    mode = ask("nvmlDeviceGetMigMode", device)
    if not isinstance(mode, (list, tuple)) or not mode[0]:
        return None
    most = ask("nvmlDeviceGetMaxMigDeviceCount", device)
    found = []
    for index in range(most if isinstance(most, int) else 0):
        handle = ask("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
        if isinstance(handle, dict):  # instances may lie apart
            continue
        running = ask("nvmlDeviceGetComputeRunningProcesses", handle)
        found.append({
            "uuid": ask("nvmlDeviceGetUUID", handle), "name": ask("nvmlDeviceGetName", handle),
            "gi": ask("nvmlDeviceGetGpuInstanceId", handle), "ci": ask("nvmlDeviceGetComputeInstanceId", handle),
            "memory": part(ask("nvmlDeviceGetMemoryInfo", handle), "total", "free", "used"),
            "pids": [process.pid for process in running] if isinstance(running, list) else None,
        })  # fmt: skip
    return found


def nvlinks(device: Any) -> Any:
    """[active, inactive, errors] of the NVLink links; None where the card has none."""
    states: list[bool] = []
    errors = 0
    for link in range(18):  # NVML_NVLINK_MAX_LINKS
        state = ask("nvmlDeviceGetNvLinkState", device, link)
        if isinstance(state, dict):
            break
        states.append(bool(state))
        for counter in (n.NVML_NVLINK_ERROR_DL_REPLAY, n.NVML_NVLINK_ERROR_DL_RECOVERY, n.NVML_NVLINK_ERROR_DL_CRC_FLIT):
            count = ask("nvmlDeviceGetNvLinkErrorCounter", device, link, counter)
            errors += count if isinstance(count, int) else 0
    return [sum(states), len(states) - sum(states), errors] if states else None


def nvlink_peers(device: Any) -> Any:
    """{bus id: number of active links that lead there}; None where there is one GPU alone, or no link.

    As nvml.h has it: no such cards were at hand.
    """
    if ask("nvmlDeviceGetCount") == 1:
        return None
    found: dict[str, int] = {}
    for link in range(18):
        state = ask("nvmlDeviceGetNvLinkState", device, link)
        if isinstance(state, dict):
            break
        place = part(ask("nvmlDeviceGetNvLinkRemotePciInfo", device, link), "busId") if state else {}
        bus = place.get("busId")
        if isinstance(bus, bytes):
            bus = bus.decode("ascii", "replace")
        if isinstance(bus, str):
            found[bus] = found.get(bus, 0) + 1
    return found or None


def processes(device: Any, root: str) -> list[dict[str, Any]]:
    """Who is on the device. usedGpuMemory in bytes; None where the driver does not tell (WDDM, another container)."""
    found = []
    for kind, function in (("C", "nvmlDeviceGetComputeRunningProcesses"), ("G", "nvmlDeviceGetGraphicsRunningProcesses")):
        answer = ask(function, device)
        for process in answer if isinstance(answer, list) else ():
            about = {"pid": process.pid, "kind": kind, "memory": process.usedGpuMemory}
            instance = getattr(process, "gpuInstanceId", NO_INSTANCE)
            if instance not in (NO_INSTANCE, None):
                about["gi"], about["ci"] = instance, getattr(process, "computeInstanceId", None)
            found.append({**about, **who(process.pid, root)})
    return found


def who(pid: int, root: str) -> dict[str, Any]:
    """{"name", "uid"} of a process, or {"gone": true}; {} where that cannot be seen from here."""
    folder = f"{root}/proc/{pid}"
    try:
        with open(f"{folder}/comm", encoding="utf-8", errors="replace") as file:
            return {"name": file.read().strip(), "uid": os.stat(folder).st_uid}
    except OSError:
        return {"gone": True} if all_visible(root) and not lives(pid, root) else {}


def lives(pid: int, root: str) -> bool:
    """Whether there is such a process; /proc may hide those of others (hidepid)."""
    if root or not hasattr(os, "kill") or sys.platform == "win32":
        return os.path.exists(f"{root}/proc/{pid}")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def all_visible(root: str) -> bool:
    """Whether the process ids of NVML mean ours: only in the first pid namespace, whose inode is fixed in the kernel."""
    try:
        return os.readlink(f"{root}/proc/self/ns/pid") == "pid:[4026531836]"  # PROC_PID_INIT_INO
    except OSError:
        return bool(root) and not os.path.exists(f"{root}/.dockerenv")


def device(index: int, root: str) -> None:
    """Everything about one GPU, on one line. A lost GPU keeps its index."""
    handle = ask("nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, dict):
        say(gpu=index, error=handle["error"], reason=handle["code"])
        return
    values = {name: function(handle) for name, function in FIELDS.items()}
    say(gpu=index, **{k: v for k, v in values.items() if v is not None}, processes=processes(handle, root))


def main(root: str, about: Callable[[int, str], None] = device) -> None:
    """Everything that NVML says, line by line. root: "" or the folder of a recorded tree, for what is told of processes.

    about: what tells of one GPU, given its index and the root.
    """
    init = ask("nvmlInit")
    if isinstance(init, dict):
        say(init=init["error"], code=init["code"])
        return
    say(init="ok")
    cuda = ask("nvmlSystemGetCudaDriverVersion_v2")
    count = ask("nvmlDeviceGetCount")
    say(driver=ask("nvmlSystemGetDriverVersion"), nvml=ask("nvmlSystemGetNVMLVersion"), cuda=cuda, count=count)
    for index in range(count if isinstance(count, int) else 0):
        say(asking=index)
        about(index, root)
    say(done=True)
