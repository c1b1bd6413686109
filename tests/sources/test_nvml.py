"""NVML's JSON lines as facts; errors told in nvidia-smi's words."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpus, Slice
from ongpu.facts.system import Processes
from ongpu.hosts.nvml import said_by_smi
from ongpu.model import Evidence, Fact
from ongpu.sources.nvml import SOURCES

SYSTEM = {"driver": "535.183.01", "nvml": "12.535.183.01", "cuda": 12020, "count": 1}
NOT = {"error": "Not Supported", "code": 3}
CARD = {
    "gpu": 0, "name": "NVIDIA A100 80GB PCIe", "uuid": "GPU-1", "pci": {"busId": "00000000:3B:00.0", "pciDeviceId": 1},
    "capability": [8, 0],
    "memory": {"total": 80 << 30, "used": 4 << 20, "free": (80 << 30) - (4 << 20)}, "utilization": {"gpu": 3, "memory": 0}, "fan": NOT,
    "temperature": 41, "reasons": 0x44, "remapped": [0, 1, 1, 0], "compute_mode": 3, "mig": [1, 1], "mig_devices": 0, "ecc": 2,
    "nvlinks": [11, 1, 7], "fabric": {"state": 2, "status": 0}, "recovery": 1, "power": 65123,
    "processes": [{"pid": 99, "kind": "C", "memory": 5 << 20, "gone": True},
                  {"pid": 7, "kind": "C", "memory": (1 << 64) - 1, "name": "python3", "uid": 0}],
}  # fmt: skip


def facts(*lines: object, problem: str | None = None) -> dict[type[Fact], Fact]:
    text = "\n".join(json.dumps(line) for line in lines)
    return {type(fact): fact for fact in SOURCES[0].read(Evidence("nvml", text, "NVML", problem=problem))}

SLICE = {
    "uuid": "MIG-1", "name": "NVIDIA A100 MIG 1g.10gb", "gi": 3, "ci": 0,
    "memory": {"total": 9728 << 20, "used": 12 << 20, "free": 9716 << 20},
}  # fmt: skip


def test_the_slices_of_a_card_who_is_on_them_and_where_nvlink_leads() -> None:
    running = [{"pid": pid, "kind": "C", "memory": 0} for pid in (1, 2, 3)]
    running[0] |= {"gi": 3, "ci": 0}
    unplaced = {"uuid": "MIG-2", "memory": NOT, "pids": [2]}
    peers = {"00000000:1C:00.0": 4, "00000000:C0:00.0": 2}
    card = {**CARD, "slices": [{**SLICE, "pids": None}, unplaced, {"uuid": NOT}, 7], "nvlink_peers": peers, "processes": running}
    found = facts({"asking": "init"}, {"init": "ok"}, SYSTEM, card, {"done": True})
    gpus, processes = found[Gpus], found[Processes]
    assert isinstance(gpus, Gpus)
    assert isinstance(processes, Processes)
    first = Slice(uuid="MIG-1", name="NVIDIA A100 MIG 1g.10gb", gi=3, ci=0, memory_total=9728, memory_used=12, memory_free=9716)
    assert gpus.gpus[0].slices == (first, Slice(uuid="MIG-2"))
    assert gpus.gpus[0].peers == tuple(peers.items())
    assert [process.slice for process in processes.processes] == ["MIG-1", "MIG-2", None]


NAMES = st.sampled_from(["uuid", "gi", "ci", "pids", "memory", "total", "name"])
LEAVES = st.none() | st.integers() | st.text(max_size=3) | st.just("MIG-1")


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)))
def test_odd_slices_break_nothing(told: object) -> None:
    found = facts({"asking": "init"}, {"init": "ok"}, SYSTEM, {**CARD, "slices": told, "nvlink_peers": told}, {"done": True})
    assert isinstance(found[Gpus], Gpus)


def test_a_card() -> None:
    found = facts({"asking": "init"}, {"init": "ok"}, SYSTEM, {"asking": 0}, CARD, {"done": True})
    driver, gpus, processes = found[Driver], found[Gpus], found[Processes]
    assert isinstance(driver, Driver)
    assert (driver.version, driver.cuda, driver.nvml, driver.module_loaded, driver.hung) == (
        "535.183.01",
        "12.2",
        "ok",
        True,
        None,
    )
    assert isinstance(gpus, Gpus)
    (gpu,) = gpus.gpus
    assert (gpu.capability, gpu.memory_total, gpu.memory_used, gpu.fan, gpu.power_draw) == (
        "8.0",
        81920,
        4,
        None,
        65.123,
    )
    assert gpu.throttle == ("SW Power Cap", "HW Thermal Slowdown")
    assert (gpu.remap_pending, gpu.remap_failed, gpu.compute_mode, gpu.mig, gpu.mig_devices) == (
        True,
        False,
        "Exclusive_Process",
        True,
        0,
    )
    assert (gpu.nvlink_active, gpu.nvlink_inactive, gpu.nvlink_errors) == (11, 1, 7)
    assert (gpu.fabric, gpu.recovery_action, gpu.error) == ("in progress", "Reset", None)
    assert isinstance(processes, Processes)
    gone, other = processes.processes
    assert (gone.gone, gone.memory) == (True, 5)
    assert (other.gone, other.memory, other.name) == (False, None, "python3")


def test_a_lost_card_keeps_its_index() -> None:
    found = facts({"init": "ok"}, {**SYSTEM, "count": 2}, CARD, {"gpu": 1, "error": "GPU is lost", "reason": 15})
    gpus = found[Gpus]
    assert isinstance(gpus, Gpus)
    assert [(g.index, g.error) for g in gpus.gpus] == [(0, None), (1, "GPU is lost")]
    lost = {name: {"error": "GPU is lost", "code": 15} for name in ("name", "memory", "temperature")}
    gpus = facts({"init": "ok"}, SYSTEM, {"gpu": 0, **lost})[Gpus]
    assert isinstance(gpus, Gpus)
    assert gpus.gpus[0].error == "GPU is lost"


def test_where_it_hung() -> None:
    late = "timed out after 15 s without an answer"
    driver = facts({"asking": "init"}, problem=late)[Driver]
    assert isinstance(driver, Driver)
    assert (driver.hung, driver.hung_in) == (True, "nvmlInit")
    driver = facts({"asking": "init"}, {"init": "ok"}, SYSTEM, {"asking": 3}, problem=late)[Driver]
    assert isinstance(driver, Driver)
    assert driver.hung_in == "GPU 3"


def test_a_cgroup_that_refuses() -> None:
    found = facts(
        {"asking": "/dev/nvidiactl"},
        {"open": "/dev/nvidiactl", "error": "EPERM"},
        {"init": "Unknown Error", "code": 999},
    )
    assert isinstance(found[Container], Container)
    assert Container not in facts(
        {"open": "/dev/nvidiactl", "error": "EACCES"}, {"init": "Insufficient Permissions", "code": 4}
    )


def test_errors_in_the_words_of_nvidia_smi() -> None:
    assert (
        said_by_smi('{"init": "Driver/library version mismatch", "code": 18}')
        == "Failed to initialize NVML: Driver/library version mismatch"
    )
    assert "couldn't communicate with the NVIDIA driver" in said_by_smi('{"init": "Driver Not Loaded", "code": 9}')
    assert said_by_smi('{"driver": "535.1", "count": 0}') == "No devices were found"
    assert (
        said_by_smi('{"gpu": 3, "error": "GPU is lost", "reason": 15}')
        == "Unable to determine the device handle for GPU3: GPU is lost"
    )
    assert said_by_smi('{"init": "ok"}\n' + json.dumps(CARD)) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(["error", "total", "used", "free", "gpu", "busId", "state", "pid", "kind", "memory"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(derandomize=True, max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(
            [*(name for name in CARD if name not in ("gpu", "processes")), "init", "driver", "cuda", "open", "asking"]
        ),
        JSON,
    )
)
def test_no_line_crashes_it(item: dict[str, object]) -> None:
    facts({"init": "ok"}, {"gpu": 0, **item}, item)
