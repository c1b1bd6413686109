"""The Grafana dashboard of the metrics: nodes, GPUs, processes and jobs, incidents, the agent itself; English or Chinese.

Titles and expressions stand here; units and descriptions come from the table of metrics. The JSON is what Grafana 10 and newer
import (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/); nothing is fetched.
"""

import json
import re
from typing import Any, Literal

from ongpu.lazy import dataclass
from ongpu.watch.metric_table import CONDITIONS, METRICS, Metric

UNITS = {"bytes": "bytes", "celsius": "celsius", "watts": "watt", "ratio": "percentunit", "hertz": "hertz", "joules": "joule"}
BY_NAME = {metric.name: metric for metric in METRICS}
CHOSEN = 'instance=~"$instance"'
GPU = CHOSEN + ', gpu=~"$gpu"'
BOARD, CHIP = "{{instance}}", "{{instance}} GPU {{gpu}}"
HEIGHT = {"stat": 4, "timeseries": 8, "table": 8, "state-timeline": 8, "row": 1}
COLOURS = {"ok": "green", "lost": "red", "gone": "red", "hung": "dark-orange", "error": "orange", "denied": "purple", "unknown": "text"}
# One number a GPU: its state's place in CONDITIONS.
STATE = "max by (instance, gpu) (" + " or ".join(f'{n} * ongpu_gpu_state{{EACH, state="{one}"}}' for n, one in enumerate(CONDITIONS)) + ")"


@dataclass(frozen=True)
class Panel:
    """One panel. MINE in an expression stands for the labels of the chosen machines, EACH for those of the chosen GPUs too.

    expressions: (legend, expression). unit: Grafana's, where it is not that of the first metric. width: of 24 columns.
    """

    en: str
    zh: str
    kind: Literal["stat", "timeseries", "table", "state-timeline", "row"]
    expressions: tuple[tuple[str, str], ...] = ()
    width: int = 12
    unit: str = ""

    @property
    def metrics(self) -> list[Metric]:
        """Those that its expressions ask for. Raises KeyError for a name that is in no table."""
        names = re.findall(r"\bongpu_[a-z0-9_]{1,60}", " ".join(expression for _, expression in self.expressions))
        return [BY_NAME[name] for name in dict.fromkeys(names)]


def _line(en: str, zh: str, expression: str, legend: str = CHIP, unit: str = "") -> Panel:
    return Panel(en, zh, "timeseries", ((legend, expression),), unit=unit)


def _stat(en: str, zh: str, expression: str, unit: str = "") -> Panel:
    return Panel(en, zh, "stat", (("", expression),), width=4, unit=unit)


def _table(en: str, zh: str, expression: str, width: int = 12) -> Panel:
    return Panel(en, zh, "table", (("", expression),), width=width)


PANELS = (
    Panel("Machines", "机器", "row"),
    _stat("Machines that answer", "有应答的机器", "sum(ongpu_up{MINE})"),
    _stat("Machines that do not", "无应答的机器", "count(ongpu_up{MINE} == 0) or vector(0)"),
    _stat("GPUs that are well", "正常的 GPU", 'sum(ongpu_gpu_state{EACH, state="ok"})'),
    _stat("GPUs that are not", "不正常的 GPU", 'count(ongpu_gpu_state{EACH, state!="ok"} == 1) or vector(0)'),
    _stat("Open incidents", "未关闭的事件", "sum(ongpu_incidents_open{MINE})"),
    _stat("Power of all GPUs", "全部 GPU 的功耗", "sum(ongpu_gpu_power_watts{EACH})"),
    _table("What is wrong now", "当前的问题", "ongpu_finding{MINE} == 1", 24),
    _line("GPUs missing against the expected count", "与期望数量相比缺少的 GPU",
          'sum by (instance) (ongpu_gpus_expected{MINE}) - sum by (instance) (ongpu_gpu_state{MINE, state="ok"})', BOARD),
    _line("Open incidents by severity", "各严重程度的未关闭事件", "sum by (severity) (ongpu_incidents_open{MINE})", "{{severity}}"),
    Panel("GPUs", "GPU", "row"),
    Panel("State of each GPU", "各 GPU 的状态", "state-timeline", ((CHIP, STATE),), 24),
    _line("Utilisation", "利用率", "ongpu_gpu_utilization_ratio{EACH}"),
    _line("Memory used", "已用显存", "ongpu_gpu_memory_used_bytes{EACH} / ongpu_gpu_memory_total_bytes{EACH}", unit="percentunit"),
    _line("Temperature", "温度", "ongpu_gpu_temperature_celsius{EACH}"),
    _line("Degrees left to the card's own limit", "离该卡自身温度上限还有多少度",
          "ongpu_gpu_temperature_limit_celsius{EACH} - ongpu_gpu_temperature_celsius{EACH} or ongpu_gpu_temperature_margin_celsius{EACH}"),
    _line("Power", "功耗", "ongpu_gpu_power_watts{EACH}"),
    _line("Power against the limit", "功耗与上限之比",
          "ongpu_gpu_power_watts{EACH} / ongpu_gpu_power_limit_watts{EACH}", unit="percentunit"),
    _line("SM clock", "SM 时钟", "ongpu_gpu_sm_clock_hertz{EACH}"),
    _line("Share of the GPUs whose clocks are held down, by reason", "时钟被压低的 GPU 比例（按原因）",
          'avg by (reason) (ongpu_gpu_clock_reason{EACH, reason!="gpu_idle"})', "{{reason}}", "percentunit"),
    Panel("PCIe traffic", "PCIe 流量", "timeseries", (
        (CHIP + " ->", "ongpu_gpu_pcie_transmit_bytes_per_second{EACH}"), (CHIP + " <-", "ongpu_gpu_pcie_receive_bytes_per_second{EACH}"),
    ), unit="Bps"),
    _line("Energy per hour", "每小时能耗", "sum by (instance) (rate(ongpu_gpu_energy_joules_total{EACH}[$__rate_interval])) * 3600", BOARD),
    _table("Xid errors since the agent started", "代理启动以来的 Xid 错误", "ongpu_gpu_xid_total{EACH} > 0"),
    Panel("Memory errors, remapped rows and PCIe replays", "显存错误、行重映射与 PCIe 重传", "timeseries", (
        (CHIP + " ECC", "ongpu_gpu_ecc_uncorrectable_errors_total{EACH}"), (CHIP + " remap", "ongpu_gpu_row_remap_pending{EACH}"),
        (CHIP + " PCIe", "ongpu_gpu_pcie_replays_total{EACH}"),
    ), unit="short"),
    Panel("Processes and jobs", "进程与作业", "row"),
    _table("Processes by GPU memory", "按显存排列的进程", "topk(30, ongpu_process_memory_bytes{EACH})"),
    _line("Processor cores by process", "各进程使用的 CPU 核数",
          "topk(20, ongpu_process_cpu_cores{MINE})", "{{instance}} {{command}} {{pid}}"),
    _line("GPUs by job", "各作业占用的 GPU", "ongpu_job_gpus{MINE}", "{{job_id}} {{user}}"),
    _line("Utilisation by job", "各作业的 GPU 利用率", "ongpu_job_utilization_ratio{MINE}", "{{job_id}} {{user}}"),
    _line("GPU memory by user", "各用户占用的显存", "sum by (user) (ongpu_process_memory_bytes{EACH})", "{{user}}"),
    _line("Processes on each GPU", "各 GPU 上的进程数", "ongpu_gpu_processes{EACH}"),
    Panel("The agent itself", "监控代理自身", "row"),
    _line("Age of the last sample", "最近一次采样距今", "time() - ongpu_last_sample_timestamp_seconds{MINE}", BOARD, "s"),
    Panel("Samples late, restarts, errors", "迟到的采样、重启、错误", "timeseries", (
        ("{{instance}} late", "increase(ongpu_late_samples_total{MINE}[$__rate_interval])"),
        ("{{instance}} restarts", "increase(ongpu_sampler_restarts_total{MINE}[$__rate_interval])"),
        ("{{instance}} {{part}}", "increase(ongpu_part_errors_total{MINE}[$__rate_interval])"),
    ), unit="short"),
    _table("What NVML does not tell, and why", "NVML 不提供的值及原因", "ongpu_gpu_not_told{EACH}"),
    _table("Versions of driver and CUDA", "驱动与 CUDA 版本", "ongpu_driver_info{MINE}"),
)  # fmt: skip


def expression(text: str) -> str:
    """An expression of PANELS as Grafana has it, with its variables."""
    return text.replace("MINE", CHOSEN).replace("EACH", GPU)


def dashboard(lang: str = "en") -> str:
    """The dashboard's JSON."""
    made: dict[str, Any] = {
        "title": "ongpu: GPUs" if lang == "en" else "ongpu：GPU", "uid": f"ongpu-{lang}", "tags": ["gpu", "ongpu"], "editable": True,
        "schemaVersion": 39, "version": 1, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "",
        "annotations": {"list": []}, "links": [], "graphTooltip": 1,
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            _variable("instance", "label_values(ongpu_up, instance)", "machine" if lang == "en" else "机器"),
            _variable("gpu", f"label_values(ongpu_gpu_info{{{CHOSEN}}}, gpu)", "GPU"),
        ]},
        "panels": _placed(lang),
    }  # fmt: skip
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _variable(name: str, query: str, label: str) -> dict[str, Any]:
    return {
        "name": name, "label": label, "type": "query", "datasource": _SOURCE, "query": {"query": query, "refId": name}, "definition": query,
        "includeAll": True, "allValue": ".*", "multi": True, "refresh": 2, "sort": 3, "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _placed(lang: str) -> list[dict[str, Any]]:
    """The panels from left to right, from top to bottom."""
    made: list[dict[str, Any]] = []
    x = y = tallest = 0
    for number, panel in enumerate(PANELS, 1):
        width = 24 if panel.kind == "row" else panel.width
        if x + width > 24 or panel.kind == "row":
            x, y, tallest = 0, y + tallest, 0
        place = {"x": x, "y": y, "w": width, "h": HEIGHT[panel.kind]}
        made.append({"id": number, "gridPos": place, **_panel(panel, lang)})
        x, tallest = x + width, max(tallest, place["h"])
    return made


def _panel(panel: Panel, lang: str) -> dict[str, Any]:
    made: dict[str, Any] = {"title": panel.zh if lang == "zh" else panel.en, "type": panel.kind}
    if panel.kind == "row":
        return made | {"collapsed": False, "panels": []}
    words = [f"{metric.name}: {metric.zh if lang == 'zh' else metric.en}" for metric in panel.metrics]
    table = panel.kind == "table"
    targets = [
        {
            "refId": chr(65 + n), "datasource": _SOURCE, "expr": expression(text), "legendFormat": legend or "__auto",
            **({"format": "table", "instant": True} if table else {"range": True}),
        }
        for n, (legend, text) in enumerate(panel.expressions)
    ]  # fmt: skip
    defaults: dict[str, Any] = {"unit": panel.unit or _unit(panel.metrics[0])}
    if panel.metrics[0].unit != "celsius":  # degrees left to a limit may be below 0
        defaults["min"] = 0
    if panel.unit == "percentunit" or panel.metrics[0].unit == "ratio":
        defaults["max"] = 1
    made |= {"datasource": _SOURCE, "description": "\n\n".join(words), "targets": targets}
    made["fieldConfig"] = {"defaults": defaults, "overrides": []}
    if panel.kind == "state-timeline":
        shown = {str(n): {"text": one, "color": COLOURS[one], "index": n} for n, one in enumerate(CONDITIONS)}
        made["fieldConfig"] = {"defaults": {"mappings": [{"type": "value", "options": shown}]}, "overrides": []}
    if table:
        hidden = {"Time": True, "__name__": True, "job": True, "uuid": True, "Value": panel.metrics[0].name.endswith(("_info", "_told"))}
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return made


def _unit(metric: Metric) -> str:
    return UNITS.get(metric.unit, "none")
