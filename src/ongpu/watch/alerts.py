"""The table of alerts: what is told, after how long, how urgent: one source for the agent and for Prometheus.

A finding of a live rule opens an incident when it has held for `hold` seconds and closes it when it has been gone for `clear`
seconds. Where the holds come from stands beside them; A to F are the tables of these pages:
  A  https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html   what an Xid asks for at once
  B  https://github.com/NVIDIA/DCGM (modules/health/DcgmHealthWatch.cpp)    what fails a health check
  C  https://github.com/utkuozdemir/nvidia_gpu_exporter                      the rules of its Helm chart
  D  https://github.com/netdata/netdata (src/health/health.d/dcgm.conf)
  E  https://cloudflare.github.io/pint/checks/alerts/absent.html            absent() must hold for two scrapes
  F  https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/                 errors of memory, and rows remapped
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ongpu.model import Severity

Label = Literal["critical", "warning", "info"]
Kind = Literal["condition", "event"]
LABELS: Mapping[Severity, Label] = {Severity.ERROR: "critical", Severity.WARNING: "warning", Severity.NOTE: "info"}

# The job's name in the example configuration of Prometheus: only the dead-man alerts need it (`up` has no other mark).
JOB = "ongpu"
EVENT_WINDOW = 300  # seconds in which an event (an Xid) counts as new


@dataclass(frozen=True, slots=True)
class Alert:
    """How one fault is told.

    slug: the rule's; of a dead-man alert its own name.
    hold, clear: seconds that it must hold before it is told, and be gone before it counts as over.
    label: how urgent: critical (somebody must act now), warning (today), info (shown, sent only where asked for).
    kind: "condition": it is so until it is not; "event": it happened, and is over when it does not happen again.
    columns: what of a sample (facts.sample.COLUMNS, "processes") tells it: where that is not told, its absence is not either.
    promql: the same on raw metrics, where these tell it as well; "": the agent's own finding is what Prometheus sees.
    en, zh: the fault in a few words, without values.
    """

    slug: str
    hold: float
    clear: float
    label: Label
    en: str
    zh: str
    kind: Kind = "condition"
    columns: tuple[str, ...] = ()
    promql: str = ""

    @property
    def expr(self) -> str:
        """The expression that Prometheus evaluates. What it gives carries the labels of the metric (gpu, uuid, instance ...)."""
        return self.promql or f'ongpu_finding{{slug="{self.slug}"}} == 1'

    @property
    def name(self) -> str:
        """The alert's name as Prometheus has them: OngpuGpuFellOffBus."""
        return "Ongpu" + "".join(part.capitalize() for part in self.slug.split("-"))


def new_xid(codes: str) -> str:
    """That an Xid was counted within EVENT_WINDOW. increase() sees nothing of a counter's first value, and an Xid is its first.

    codes: a regular expression of codes, as label matchers take it.
    """
    counter = f'ongpu_gpu_xid_total{{code=~"{codes}"}}'
    return f"({counter} unless {counter} offset {EVENT_WINDOW}s) > 0 or ({counter} - {counter} offset {EVENT_WINDOW}s) > 0"


def _state(slug: str, names: str) -> str:
    """The state of a GPU, or the finding where it still answers (Xid 79 comes first, or alone): one alert for both."""
    return f'max by (job, instance, gpu, uuid) (ongpu_gpu_state{{state=~"{names}"}} or ongpu_finding{{slug="{slug}"}}) == 1'


_ROWS = (
    # The card is out of service: nobody should wait (A: RESTART_BM; B: always FAIL). State "gone": the count of GPUs shrank.
    Alert(
        "gpu-fell-off-bus", 0, 30, "critical", "GPU lost: fell off the bus", "GPU 掉卡：从总线上消失",
        promql=_state("gpu-fell-off-bus", "lost|gone"),
    ),
    Alert("gpu-answers-with-error", 5, 30, "critical", "a GPU answers with an error", "GPU 返回错误"),  # a reset takes seconds
    Alert("no-nvidia-gpu", 15, 60, "critical", "no NVIDIA GPU on the bus", "总线上没有 NVIDIA GPU"),
    Alert("gpu-not-on-bus", 10, 60, "critical", "a GPU is missing on the bus", "总线上少了一块 GPU"),
    Alert("power-cable-missing", 0, 60, "critical", "auxiliary power not connected", "辅助供电未接"),  # Xid 54; A: CHECK_MECHANICALS
    # Memory: any uncorrectable error since the driver was loaded (C), a failed remap (C, D, F): no hold, these do not flicker.
    Alert("ecc-uncorrectable", 0, 60, "critical", "uncorrectable memory errors", "不可纠正的显存错误", columns=("ecc",)),
    Alert("row-remap-failure", 0, 60, "critical", "memory rows not remapped", "显存行重映射失败或待处理"),
    # Events that take the GPU out of service (A: RESET_GPU; B: FAIL).
    Alert("gsp-timeout", 0, 60, "critical", "GSP timeout", "GSP 超时", "event", promql=new_xid("119|120")),
    Alert("gpu-internal-error", 0, 60, "critical", "internal fault of the GPU", "GPU 内部故障", "event"),
    # One error is a failure (B); the hold is for links that train anew at a reset.
    Alert("nvlink-error", 10, 60, "critical", "NVLink errors", "NVLink 错误"),
    # Heat: the driver itself says that it holds the clocks down, or the card is at its own limit and halves them: told before a job is
    # lost to it (C waits 5 min, D looks at 5 min). A card that toggles at its limit stays one incident for the 2 min of `clear`.
    Alert(
        "thermal-throttle", 2, 120, "warning", "slowed down by heat", "因过热降频", columns=("temp", "reasons"),
        promql="ongpu_gpu_temperature_celsius >= ongpu_gpu_temperature_limit_celsius"
        ' or on (job, instance, gpu, uuid) ongpu_finding{slug="thermal-throttle"} == 1',
    ),
    Alert("power-throttle", 300, 300, "warning", "held down by power", "因供电受限降频", columns=("power", "reasons")),  # C: brake, 5 min
    Alert("fan-failure", 60, 120, "warning", "a fan does not turn", "风扇不转", columns=("fan", "temp")),
    # The rule judges only under load; a link may train for seconds, and D and B look at a minute or more of replays.
    Alert("pcie-link-degraded", 120, 300, "warning", "PCIe link degraded", "PCIe 链路降级"),
    # The driver. A hang: beyond the time that a card without persistence mode takes to start.
    Alert("driver-hung", 10, 30, "critical", "the driver hangs", "驱动卡死", promql=_state("driver-hung", "hung")),
    # An upgrade unloads the module, and has mismatched libraries, for the seconds or minute that it takes.
    Alert("driver-module-not-loaded", 15, 15, "critical", "driver module not loaded", "驱动内核模块未加载"),
    Alert("driver-library-mismatch", 60, 15, "critical", "driver and library versions differ", "驱动与库版本不一致"),
    Alert("nvml-init-failed", 15, 15, "critical", "NVML does not start", "NVML 无法启动"),
    Alert("driver-not-installed", 60, 60, "critical", "no NVIDIA driver", "未安装 NVIDIA 驱动"),
    Alert("device-permission-denied", 30, 30, "critical", "GPU devices may not be opened", "无权打开 GPU 设备"),
    Alert("device-node-missing", 30, 30, "critical", "GPU device nodes missing", "缺少 GPU 设备节点"),
    Alert("fabric-manager-not-running", 60, 60, "critical", "fabric manager not running", "fabric manager 未运行"),
    Alert("mig-misconfigured", 60, 60, "warning", "MIG without usable instances", "MIG 未配好"),
    Alert("exclusive-process-mode", 60, 60, "info", "compute mode admits one process or none", "计算模式只允许一个进程或不允许"),
    Alert("container-cgroup-lost", 10, 30, "critical", "the container lost its GPUs", "容器失去了 GPU"),
    # Memory that nobody owns: a process that ends leaves its row for some seconds.
    Alert("zombie-holds-memory", 60, 60, "warning", "memory of a process that is gone", "显存被已消失的进程占用",
          columns=("mem_used", "processes")),
    # What a program makes of its GPU: shown, and sent only where asked for. The rules look at a minute; ten are no warm-up and no
    # evaluation between two epochs any more (gpu-watchdog 0.3 tells after 5 min below 10 %, all-smi 0.25 after 15 min below 5 %).
    Alert("input-pipeline-bound", 600, 120, "info", "waits for its data loading", "在等数据加载"),
    Alert("gpu-waits-for-disk", 600, 120, "info", "waits for storage", "在等磁盘"),
    Alert("gpu-waits-for-network", 600, 120, "info", "waits for the network", "在等网络"),
    Alert("gpu-spins-waiting", 600, 120, "info", "looks busy, and waits for other GPUs", "看似繁忙，实际在等其他 GPU"),
    Alert("host-bound", 600, 120, "info", "waits for one thread of its program", "在等程序的单个线程"),
    Alert("pcie-bound", 600, 120, "info", "waits for PCIe transfers", "在等 PCIe 传输"),
    Alert("gpu-held-idle", 1800, 120, "info", "held but idle", "占而不用"),  # half an hour is no pause for thought any more
)  # fmt: skip
ALERTS: Mapping[str, Alert] = {row.slug: row for row in _ROWS}
# Live rules that are never told: over time they give notes only (whoever uses a GPU, uses it), and a user's own job sees the fault.
NEVER = ("gpu-busy-other-process",)

# What no rule can tell, since who would tell it is silent, or since it is none's alone: for Prometheus only. `ongpu watch status` and
# the heartbeat tell it without.
DEAD_MAN: Mapping[str, Alert] = {
    row.slug: row
    for row in (
        # absent() must hold for two scrapes (E); a restart of the agent takes seconds.
        Alert("agent-silent", 30, 0, "critical", "the agent does not answer", "监控代理无应答", promql=f'up{{job="{JOB}"}} == 0'),
        Alert("agent-absent", 120, 0, "critical", "no agent is scraped", "没有抓取到任何监控代理", promql=f'absent(up{{job="{JOB}"}})'),
        # It answers, and looks at nothing: samples come each second, a hung driver is noticed within three.
        Alert(
            "agent-stale", 15, 0, "critical", "the agent answers, but its samples are old", "监控代理有应答，但采样已停",
            promql="time() - ongpu_last_sample_timestamp_seconds > 30",
        ),
        # The reason stands in a label of ongpu_up: driver not loaded, mismatch, hung.
        Alert("gpus-unreachable", 15, 0, "critical", "the agent cannot reach the GPUs", "监控代理无法访问 GPU", promql="ongpu_up == 0"),
        # Whatever became of them: off the bus, lost, hung, or never handed to this container. Without `[sample] gpus` nobody said how many
        # there should be. The second term is 0 where no GPU has a series.
        Alert(
            "gpus-missing", 60, 60, "critical", "fewer GPUs are well than there should be", "正常的 GPU 少于应有数量",
            promql='ongpu_gpus_expected > on (job, instance) (sum by (job, instance) (ongpu_gpu_state{state="ok"})'
            " or on (job, instance) 0 * ongpu_gpus_expected)",
        ),
    )
}  # fmt: skip

# Seconds (hold, clear) of a slug without a row, by how bad it is. Notes are of how a program uses its GPU: no hurry.
_OTHERS: Mapping[Severity, tuple[float, float]] = {Severity.ERROR: (10, 60), Severity.WARNING: (60, 120), Severity.NOTE: (600, 120)}


def alert(slug: str, severity: Severity, title: tuple[str, str] | None = None) -> Alert:
    """How a slug is told: its row, else what befits its severity.

    title: (English, Chinese) words for a slug without a row; None: the slug itself.
    """
    if found := ALERTS.get(slug) or DEAD_MAN.get(slug):
        return found
    hold, clear = _OTHERS[severity]
    english, chinese = title or (slug, slug)
    return Alert(slug, hold, clear, LABELS[severity], english, chinese)


def changed(row: Alert, overrides: Mapping[str, Mapping[str, float]]) -> Alert:
    """The row with what a configuration says of its slug: {"thermal-throttle": {"hold": 5, "clear": 10}}."""
    mine = overrides.get(row.slug, {})
    return replace(row, hold=mine.get("hold", row.hold), clear=mine.get("clear", row.clear)) if mine else row
