"""Write docs/en/metrics.md and docs/zh/metrics.md from the tables of metrics and alerts; with --check, say what is stale and exit 1."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ongpu.report import words
from ongpu.watch.alerts import DEAD_MAN, LABELS, Alert
from ongpu.watch.dcgm_names import NAMES
from ongpu.watch.metric_table import METRICS, Metric
from ongpu.watch.promrules import rows

ROOT = Path(__file__).parent.parent / "docs"
PARTS = (  # of the table of metrics: how the names begin, what the part is called
    (("ongpu_gpu_",), "Each GPU", "每块 GPU"),
    (("ongpu_process_", "ongpu_job_"), "Processes and jobs", "进程与作业"),
    (("ongpu_",), "The machine and the agent", "机器与代理"),
)
TEXT = {
    "en": """\
# Metrics and alerts

`ongpu watch` serves these series at `/metrics` (by default http://127.0.0.1:19400/metrics). A value that NVML does not tell has no
series, never 0: `ongpu_gpu_not_told` says why. A GPU that is lost keeps its identity and its series of state. Processes and jobs are
bounded in number (`metrics.processes`, 100), the biggest by device memory first; all others together are one series, `other`.

`ongpu watch rules > ongpu.rules.yml` writes the alerts below for Prometheus (2.42 or newer), `ongpu watch rules --tests` the unit tests
that `promtool test rules` runs, and `ongpu watch dashboard` a dashboard for Grafana. Configurations to begin with, with discovery by
file and by DNS: [prometheus.yml](../examples/prometheus.yml), [alertmanager.yml](../examples/alertmanager.yml).
""",
    "zh": """\
# 指标与告警

`ongpu watch` 在 `/metrics` 提供以下序列（默认 http://127.0.0.1:19400/metrics）。NVML 不提供的值没有序列，绝不写成 0：\
原因见 `ongpu_gpu_not_told`。丢失的 GPU 保留其身份和状态序列。进程与作业的数量有上限（`metrics.processes`，默认 100），\
按显存从大到小；其余合并为一个序列 `other`。

`ongpu watch rules > ongpu.rules.yml` 输出下列告警的 Prometheus 规则（需 2.42 或更新），`ongpu watch rules --tests` \
输出供 `promtool test rules` 运行的单元测试，`ongpu watch dashboard` 输出 Grafana 面板。可参考的配置（含文件发现和 DNS 发现）：\
[prometheus.yml](../examples/prometheus.yml)、[alertmanager.yml](../examples/alertmanager.yml)。
""",
}
HEADS = {
    "metrics": ("Metrics", "指标"),
    "alerts": ("Alerts", "告警"),
    "dcgm": ("Under dcgm-exporter's names", "dcgm-exporter 的指标名"),
    "dead": (
        "Only Prometheus tells of an agent's own silence, and of GPUs that are missing for whatever reason:",
        "只由 Prometheus 告警：代理自身的失联，以及无论何种原因缺少的 GPU：",
    ),
}
COLUMNS = {
    "series": (("Series", "Type", "Labels", "What it says"), ("序列", "类型", "标签", "含义")),
    "told": (("Alert", "Urgency", "Told after", "Over after", "What"), ("告警", "级别", "持续多久后告警", "消失多久后恢复", "内容")),
    "theirs": (("Series", "What it says"), ("序列", "含义")),
}
DCGM = (
    "With `metrics.dcgm_names = true` the same values come also under the names, units and labels of dcgm-exporter, so that dashboards "
    "made for it go on working. What only DCGM's profiling tells (tensor activity, NVLink bandwidth) is not there.",
    "设 `metrics.dcgm_names = true` 后，同样的值还会以 dcgm-exporter 的名称、单位和标签输出，为它制作的面板可继续使用。"
    "只有 DCGM profiling 才能提供的值（tensor 活跃度、NVLink 带宽）没有。",
)


def pages() -> dict[Path, str]:
    """Both pages, by their paths."""
    return {ROOT / lang / "metrics.md": page(lang) for lang in ("en", "zh")}


def page(lang: str) -> str:
    """The page in one language."""
    which = lang == "zh"
    lines = [TEXT[lang], f"## {HEADS['metrics'][which]}", ""]
    for begins, *titles in PARTS:
        lines += [
            f"### {titles[which]}",
            "",
            *_table(COLUMNS["series"][which], [_metric(one, which) for one in METRICS if _part(one) == begins]),
        ]
    lines += [f"### {HEADS['dcgm'][which]}", "", DCGM[which], ""]
    lines += _table(COLUMNS["theirs"][which], [(f"`{name.name}`", name.words) for name in NAMES])
    alerts = [row for row in rows() if row.slug not in DEAD_MAN]
    lines += [f"## {HEADS['alerts'][which]}", "", *_table(COLUMNS["told"][which], [_alert(row, lang) for row in alerts])]
    lines += [HEADS["dead"][which], "", *_table(COLUMNS["told"][which], [_alert(row, lang) for row in DEAD_MAN.values()])]
    return "\n".join(lines)


def _part(metric: Metric) -> tuple[str, ...]:
    return next(begins for begins, *_ in PARTS if metric.name.startswith(begins))


def _metric(metric: Metric, which: bool) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"`{metric.name}`", metric.kind, labels, metric.zh if which else metric.en


def _alert(row: Alert, lang: str) -> tuple[str, ...]:
    name = f"`{row.name}`" if row.slug in DEAD_MAN else f"[{row.slug}](../rules/{lang}/{row.slug}.md)"
    severity = next(severity for severity, label in LABELS.items() if label == row.label)
    urgency = f"{row.label} ({words.severity(severity, lang)})" if lang == "en" else f"{row.label}（{words.severity(severity, lang)}）"
    return name, urgency, f"{row.hold:g} s", f"{row.clear:g} s", row.zh if lang == "zh" else row.en


def _table(head: Sequence[str], found: Sequence[Sequence[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in found)]
    return [*("| " + " | ".join(row) + " |" for row in cells), ""]


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    check = parser.parse_args().check
    stale = {path: text for path, text in pages().items() if not path.is_file() or path.read_text("utf-8") != text}
    for path, text in stale.items():
        if check:
            print(f"stale: {path}; run: python tools/watch_tables.py")
        else:
            path.write_text(text, "utf-8")
            print(f"written: {path}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
