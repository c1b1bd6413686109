"""The table of the series that `/metrics` serves: one place for the page, its documentation and the Grafana dashboard.

Names follow Prometheus (https://prometheus.io/docs/practices/naming/): base units, the unit as suffix, `_total` for counters.
"""

# ruff: noqa: E501 - the words of a metric stand beside it in one piece

from dataclasses import dataclass
from typing import Literal

MIB = 1048576  # bytes

CONDITIONS = ("ok", "lost", "hung", "error", "denied", "gone", "unknown")  # of watch.state.GpuState.condition
SEVERITIES = ("error", "warning", "note")
# Parts of the agent whose errors are counted from 0 on: increase() sees nothing of a counter that begins with its first error.
PARTS = ("config", "events", "feed", "incidents", "judge", "known", "machine", "metrics", "notify", "now", "state", "store", "window")

GPU = ("gpu", "uuid")  # index as NVML counts, and NVML's UUID ("" where it never told one): both stay when the GPU is lost
PROGRAM = ("pid", "user", "command")
PROCESS = (*GPU, *PROGRAM)
JOB = ("job_id", "user")  # not "job": that is the scraper's own label


@dataclass(frozen=True)
class Metric:
    """One family of series.

    place: where the value stands: "row" (facts.sample.COLUMNS), "identity" (facts.sample.IDENTITY), or "" where it is worked out.
    key: the column or field there. times, over: what its number is multiplied with and divided by to come to the unit.
    """

    name: str
    kind: Literal["gauge", "counter"]
    unit: str
    labels: tuple[str, ...]
    en: str
    zh: str
    place: Literal["row", "identity", ""] = ""
    key: str = ""
    times: int = 1
    over: int = 1


METRICS = (
    # The machine and the agent
    Metric("ongpu_up", "gauge", "", (), "1: NVML answers; 0: it does not, and ongpu_down_info says why", "1：NVML 有应答；0：没有应答，原因见 ongpu_down_info"),
    Metric("ongpu_down_info", "gauge", "", ("reason", "code"), "Why ongpu_up is 0, in NVML's words, with its code; no series while it is 1", "ongpu_up 为 0 的原因（NVML 的原话和返回码）；为 1 时没有此序列"),
    Metric("ongpu_build_info", "gauge", "", ("version",), "Version of ongpu", "ongpu 的版本"),
    Metric("ongpu_driver_info", "gauge", "", ("version", "cuda"), "Version of the NVIDIA driver, and the newest CUDA that it can run", "NVIDIA 驱动版本，以及它能运行的最新 CUDA"),
    Metric("ongpu_gpus", "gauge", "", (), "GPUs that the agent has ever seen here, the lost ones too", "代理在本机见过的 GPU 数，包括已丢失的"),
    Metric("ongpu_gpus_expected", "gauge", "", (), "GPUs that the configuration expects; no series where it says nothing", "配置中期望的 GPU 数；未配置则没有此序列"),
    Metric("ongpu_last_sample_timestamp_seconds", "gauge", "seconds", (), "When the last sample was taken", "最近一次采样的时间"),
    Metric("ongpu_samples_total", "counter", "", (), "Samples since the agent started", "代理启动以来的采样次数"),
    Metric("ongpu_late_samples_total", "counter", "", (), "Samples that were due and did not come in time", "到期却没有按时到来的采样次数"),
    Metric("ongpu_sampler_restarts_total", "counter", "", (), "Restarts of the sampling child: the driver hung, went away, or the child died", "采样子进程的重启次数：驱动挂起、卸载，或子进程退出"),
    Metric("ongpu_part_errors_total", "counter", "", ("part",), "Errors of a part of the agent itself (store, judge, notify ...)", "代理自身各部分（store、judge、notify 等）的错误次数"),
    Metric("ongpu_kernel_log_readable", "gauge", "", (), "1: the kernel log can be read; 0: it cannot, so that Xid errors come from NVML alone", "1：能读内核日志；0：不能，Xid 只能从 NVML 得知"),
    Metric("ongpu_finding", "gauge", "", ("slug", "gpu", "uuid", "severity"), "1 for each finding of the doctor's rules that holds now; gpu and uuid are empty where it is of the machine", "规则当前发现的每个问题为 1；针对整机时 gpu 和 uuid 为空"),
    Metric("ongpu_incidents_open", "gauge", "", ("severity",), "Incidents that are open", "未关闭的事件数"),
    # Each GPU
    Metric("ongpu_gpu_info", "gauge", "", (*GPU, "name", "bus"), "Name and PCI address of the GPU", "GPU 的型号和 PCI 地址"),
    Metric("ongpu_gpu_state", "gauge", "", (*GPU, "state"), "1 for the state that the GPU is in, 0 for the others: ok, lost, hung, error, denied, gone, unknown", "GPU 所处的状态为 1，其余为 0：ok、lost、hung、error、denied、gone、unknown"),
    Metric("ongpu_gpu_nvml_code", "gauge", "", GPU, "NVML's return code for a GPU that does not answer; no series while it does", "GPU 无应答时 NVML 的返回码；有应答时没有此序列"),
    Metric("ongpu_gpu_last_seen_timestamp_seconds", "gauge", "seconds", GPU, "When the GPU last answered", "GPU 最近一次应答的时间"),
    Metric("ongpu_gpu_not_told", "gauge", "", (*GPU, "field", "reason"), "1 for each value that NVML does not tell of this GPU, with its reason: such a value has no series of its own", "NVML 不提供的每个值为 1，并附原因：这样的值没有自己的序列"),
    Metric("ongpu_gpu_utilization_ratio", "gauge", "ratio", GPU, "Share of the time in which a kernel ran (any kernel, on any part of the GPU)", "有内核在运行的时间比例（任何内核、GPU 的任何部分）", "row", "util", over=100),
    Metric("ongpu_gpu_memory_busy_ratio", "gauge", "ratio", GPU, "Share of the time in which device memory was read or written", "显存被读写的时间比例", "row", "mem_util", over=100),
    Metric("ongpu_gpu_memory_used_bytes", "gauge", "bytes", GPU, "Device memory in use, without what the driver reserves", "已用显存，不含驱动保留的部分", "row", "mem_used", times=MIB),
    Metric("ongpu_gpu_memory_total_bytes", "gauge", "bytes", GPU, "Device memory", "显存总量", "identity", "mem_total", times=MIB),
    Metric("ongpu_gpu_temperature_celsius", "gauge", "celsius", GPU, "Temperature of the GPU", "GPU 温度", "row", "temp"),
    Metric("ongpu_gpu_temperature_limit_celsius", "gauge", "celsius", GPU, "Temperature at which this card slows down; no series where it tells only a margin", "该卡开始降频的温度；只提供余量的卡没有此序列", "identity", "temp_limit"),
    Metric("ongpu_gpu_temperature_margin_celsius", "gauge", "celsius", GPU, "Degrees left to the slowdown when it was last asked (Ada, Hopper and later)", "最近一次查询时离降频还有多少度（Ada、Hopper 及更新的卡）", "identity", "temp_margin"),
    Metric("ongpu_gpu_power_watts", "gauge", "watts", GPU, "Power draw", "功耗", "row", "power", over=1000),
    Metric("ongpu_gpu_power_limit_watts", "gauge", "watts", GPU, "Power limit that is enforced", "当前生效的功耗上限", "identity", "power_limit", over=1000),
    Metric("ongpu_gpu_power_default_limit_watts", "gauge", "watts", GPU, "Power limit that the card has by default", "该卡默认的功耗上限", "identity", "power_default", over=1000),
    Metric("ongpu_gpu_energy_joules_total", "counter", "joules", GPU, "Energy since the driver was loaded (Volta and later)", "驱动加载以来的能耗（Volta 及更新的卡）", "row", "energy", over=1000),
    Metric("ongpu_gpu_sm_clock_hertz", "gauge", "hertz", GPU, "Clock of the multiprocessors", "SM 时钟频率", "row", "sm_clock", times=10**6),
    Metric("ongpu_gpu_sm_clock_max_hertz", "gauge", "hertz", GPU, "Highest clock of the multiprocessors", "SM 最高时钟频率", "identity", "sm_clock_max", times=10**6),
    Metric("ongpu_gpu_memory_clock_hertz", "gauge", "hertz", GPU, "Clock of the device memory", "显存时钟频率", "row", "mem_clock", times=10**6),
    Metric("ongpu_gpu_clock_reason", "gauge", "", (*GPU, "reason"), "1 for each reason for which NVML says that the clocks are not higher now, 0 for the others: gpu_idle, sw_power_cap, hw_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown ...", "NVML 给出的当前时钟不更高的每个原因为 1，其余为 0：gpu_idle、sw_power_cap、hw_slowdown、hw_thermal_slowdown、hw_power_brake_slowdown 等"),
    Metric("ongpu_gpu_fan_ratio", "gauge", "ratio", GPU, "Fan speed as a share of its greatest", "风扇转速占最高转速的比例", "row", "fan", over=100),
    Metric("ongpu_gpu_pcie_transmit_bytes_per_second", "gauge", "", GPU, "PCIe traffic from the GPU, over 20 ms; asked seldom", "GPU 经 PCIe 发送的流量（20 毫秒内）；查询较少", "row", "pcie_tx", times=1000),
    Metric("ongpu_gpu_pcie_receive_bytes_per_second", "gauge", "", GPU, "PCIe traffic to the GPU, over 20 ms; asked seldom", "GPU 经 PCIe 接收的流量（20 毫秒内）；查询较少", "row", "pcie_rx", times=1000),
    Metric("ongpu_gpu_pcie_link_generation", "gauge", "", GPU, "PCIe generation of the link now (idle cards lower it)", "当前 PCIe 链路代数（空闲时会降低）", "identity", "pcie_gen"),
    Metric("ongpu_gpu_pcie_link_generation_max", "gauge", "", GPU, "Newest PCIe generation that card and slot can", "卡和插槽支持的最高 PCIe 代数", "identity", "pcie_gen_max"),
    Metric("ongpu_gpu_pcie_link_lanes", "gauge", "", GPU, "PCIe lanes of the link now", "当前 PCIe 链路宽度", "identity", "pcie_width"),
    Metric("ongpu_gpu_pcie_link_lanes_max", "gauge", "", GPU, "Most PCIe lanes that card and slot can", "卡和插槽支持的最大 PCIe 宽度", "identity", "pcie_width_max"),
    Metric("ongpu_gpu_pcie_replays_total", "counter", "", GPU, "PCIe packets sent again since the driver was loaded", "驱动加载以来 PCIe 重传次数", "row", "replays"),
    Metric("ongpu_gpu_ecc_uncorrectable_errors_total", "counter", "", GPU, "Memory errors that ECC could not correct, since the driver was loaded", "驱动加载以来 ECC 无法纠正的显存错误数", "row", "ecc"),
    Metric("ongpu_gpu_ecc_enabled", "gauge", "", GPU, "1: ECC is on", "1：ECC 已开启", "identity", "ecc_mode"),
    Metric("ongpu_gpu_mig_enabled", "gauge", "", GPU, "1: MIG is on; the utilisation is not told then", "1：MIG 已开启；此时不提供利用率", "identity", "mig"),
    Metric("ongpu_gpu_row_remap_pending", "gauge", "", GPU, "1: memory rows wait for a reset to be remapped", "1：有显存行等待重置后重映射", "identity", "remap_pending"),
    Metric("ongpu_gpu_row_remap_failed", "gauge", "", GPU, "1: a memory row could not be remapped: the card needs repair", "1：有显存行重映射失败：需要送修", "identity", "remap_failed"),
    Metric("ongpu_gpu_recovery_action", "gauge", "", GPU, "What NVML says the GPU needs: 0 nothing, 1 reset, 2 reboot, 3 drain peer traffic, 4 drain and reset", "NVML 认为 GPU 需要的操作：0 无，1 重置，2 重启，3 排空对等流量，4 排空并重置", "identity", "recovery"),
    Metric("ongpu_gpu_xid_total", "counter", "", (*GPU, "code"), "Xid errors of the driver by code, since the agent started", "代理启动以来各 Xid 错误码的次数"),
    Metric("ongpu_gpu_processes", "gauge", "", GPU, "Processes that hold the GPU", "占用该 GPU 的进程数"),
    # Processes and jobs: bounded in number, the biggest by device memory first; all others together are pid="other" or job_id="other"
    Metric("ongpu_process_memory_bytes", "gauge", "bytes", PROCESS, "Device memory of a process on a GPU", "进程在 GPU 上占用的显存"),
    Metric("ongpu_process_utilization_ratio", "gauge", "ratio", PROCESS, "Share of the time in which kernels of the process ran", "进程的内核在运行的时间比例"),
    Metric("ongpu_process_cpu_cores", "gauge", "", PROGRAM, "Processor cores that the process uses", "进程使用的 CPU 核数"),
    Metric("ongpu_process_resident_memory_bytes", "gauge", "bytes", PROGRAM, "Host memory of the process", "进程占用的主机内存"),
    Metric("ongpu_job_gpus", "gauge", "", JOB, "GPUs that the processes of a job hold", "作业占用的 GPU 数"),
    Metric("ongpu_job_memory_bytes", "gauge", "bytes", JOB, "Device memory of a job's processes", "作业各进程占用的显存"),
    Metric("ongpu_job_utilization_ratio", "gauge", "ratio", JOB, "Mean utilisation of the GPUs that a job holds", "作业所占 GPU 的平均利用率"),
)  # fmt: skip
