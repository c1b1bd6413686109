"""The same values under dcgm-exporter's names, units and labels, so that dashboards and alerts made for it go on working.

Names, kinds and units: https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv and dcp-metrics-included.csv
beside it; its dashboard: https://grafana.com/grafana/dashboards/12239. Values that NVML tells only through DCGM (tensor
activity, NVLink bandwidth) are not there.
"""

from dataclasses import dataclass
from typing import Literal

from prometheus_client.metrics_core import Metric as Family

from ongpu.watch.metrics import Found, Labels, View, family, label
from ongpu.watch.state import GpuState, State


@dataclass(frozen=True)
class Name:
    """One of theirs. place, key: as in metric_table.Metric. over: what our number is divided by to come to their unit."""

    name: str
    kind: Literal["gauge", "counter"]
    place: Literal["row", "identity", ""]
    key: str
    words: str
    over: int = 1


NAMES = (
    Name("DCGM_FI_DEV_SM_CLOCK", "gauge", "row", "sm_clock", "SM clock frequency (in MHz)."),
    Name("DCGM_FI_DEV_MEM_CLOCK", "gauge", "row", "mem_clock", "Memory clock frequency (in MHz)."),
    Name("DCGM_FI_DEV_GPU_TEMP", "gauge", "row", "temp", "GPU temperature (in C)."),
    Name("DCGM_FI_DEV_POWER_USAGE", "gauge", "row", "power", "Power draw (in W).", 1000),
    Name("DCGM_FI_DEV_POWER_MGMT_LIMIT", "gauge", "identity", "power_limit", "Power limit (in W).", 1000),
    Name("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "row", "energy", "Energy since the driver was loaded (in mJ)."),
    Name("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "gauge", "row", "pcie_tx", "PCIe traffic from the GPU (in KB/s), by NVML."),
    Name("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "gauge", "row", "pcie_rx", "PCIe traffic to the GPU (in KB/s), by NVML."),
    Name("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "row", "replays", "PCIe retries."),
    Name("DCGM_FI_DEV_GPU_UTIL", "gauge", "row", "util", "GPU utilization (in %)."),
    Name("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "row", "mem_util", "Memory utilization (in %)."),
    Name("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "row", "util", "Ratio of time in which a kernel ran: NVML's utilization here.", 100),
    Name("DCGM_FI_DEV_FAN_SPEED", "gauge", "row", "fan", "Fan speed (in %)."),
    Name("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "row", "reasons", "Clock throttle reasons (bits)."),
    Name("DCGM_FI_DEV_XID_ERRORS", "gauge", "", "xid", "Value of the last Xid error since the agent started; 0: none."),
    Name("DCGM_FI_DEV_FB_TOTAL", "gauge", "identity", "mem_total", "Framebuffer memory (in MiB)."),
    Name("DCGM_FI_DEV_FB_USED", "gauge", "row", "mem_used", "Framebuffer memory used (in MiB)."),
    Name("DCGM_FI_DEV_FB_FREE", "gauge", "", "free", "Framebuffer memory not used (in MiB), with what the driver reserves."),
    Name("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "row", "ecc", "Uncorrectable ECC errors since the driver was loaded."),
    Name("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "identity", "remap_failed", "Whether remapping of rows has failed."),
    Name("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "identity", "remap_pending", "Whether rows wait for a reset to be remapped."),
)


def families(seen: View, host: str) -> list[Family]:
    """The series of one view under their names. host: this machine's name, for the label Hostname."""
    found: Found = {name.name: [] for name in NAMES}
    for gpu in seen.state.gpus.values():
        labels = _labels(seen.state, gpu, host)
        for name in NAMES:
            value = _value(name, gpu, seen.state)
            if value is not None:
                found[name.name].append((labels, value / name.over))
    # Their counters do not end in _total, and under type counter the renderer would write that of its own: so no type is told.
    kinds = {"gauge": "gauge", "counter": "unknown"}
    return [family(name.name, kinds[name.kind], "", name.words, found[name.name]) for name in NAMES if found[name.name]]


def _value(name: Name, gpu: GpuState, state: State) -> float | None:
    if name.place == "identity":
        told = gpu.identity.get(name.key)
        return float(told) if isinstance(told, (bool, int, float)) else None
    if name.place == "row":
        return gpu.value(name.key)
    if gpu.row is None:
        return None
    if name.key == "xid":
        last = next((code for _, index, code in reversed(state.events) if index == gpu.index), None)
        return last if last is not None else next(reversed(gpu.xids), 0)
    total, used = gpu.identity.get("mem_total"), gpu.value("mem_used")
    return None if total is None or used is None else float(total - used)


def _labels(state: State, gpu: GpuState, host: str) -> Labels:
    domain, _, place = (gpu.bus or "").partition(":")
    return {
        "gpu": str(gpu.index), "UUID": gpu.uuid or "", "pci_bus_id": f"{domain:0>8}:{place}".upper() if place else "",
        "device": f"nvidia{gpu.index}", "modelName": label(gpu.name or ""), "Hostname": label(host),
        "DCGM_FI_DRIVER_VERSION": label(state.driver or ""),
    }  # fmt: skip
