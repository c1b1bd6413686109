"""The table of alerts as a rule file for Prometheus (2.42 or newer, for `keep_firing_for`), and the unit tests that promtool runs.

Format: https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/ and .../unit_testing_rules/.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ongpu.lazy import lazy
from ongpu.model import Rule, Severity
from ongpu.report import rule_page
from ongpu.watch.alerts import ALERTS, DEAD_MAN, EVENT_WINDOW, JOB, NEVER, Alert, alert, changed

GROUP = "ongpu"
FILE = "ongpu.rules.yml"
# Where it is: the GPU where the series has one, the machine where it has one (absent() has neither).
PLACE = "{{ if $labels.gpu }} [GPU {{ $labels.gpu }}]{{ end }}{{ if $labels.instance }} ({{ $labels.instance }}){{ end }}"
# Why the GPUs cannot be reached stands in another series.
REASON = '{{ with query (printf "ongpu_down_info{instance=\\"%s\\"}" $labels.instance) }}: {{ . | first | label "reason" }}{{ end }}'
INSTANCE = "node7:19400"
MACHINE = {"instance": INSTANCE, "job": JOB}
CARD = {"gpu": "3", "uuid": "GPU-3", **MACHINE}
STEP = 10  # seconds between two evaluations in the tests
_STATE = lazy(r'ongpu_gpu_state\{state=~"([a-z]{1,20})')
_XID = lazy(r'ongpu_gpu_xid_total\{code=~"(\d{1,5})')


def rows(overrides: Mapping[str, Mapping[str, float]] | None = None) -> list[Alert]:
    """All alerts: those of the table, those of other live rules (notes open no incident), and the dead-man's.

    overrides: what a configuration says of them: hold and clear, in seconds, by slug.
    """
    others = [
        alert(rule.slug, rule.severity, (rule_page.plain(rule.en.title), rule_page.plain(rule.zh.title)))
        for rule in _rules().values()
        if rule.slug not in (*ALERTS, *NEVER) and rule.severity > Severity.NOTE
    ]
    return [changed(row, overrides or {}) for row in (*ALERTS.values(), *others, *DEAD_MAN.values())]


def _rules() -> dict[str, Rule]:
    from ongpu.watch.judge import live_rules  # loads the rules: only where their words are wanted

    return {rule.slug: rule for rule in live_rules()}


def rule_file(overrides: Mapping[str, Mapping[str, float]] | None = None) -> str:
    """The rule file. overrides: as for `rows`."""
    known = _rules()
    listed = [_rule(row, known.get(row.slug)) for row in rows(overrides)]
    head = f"# Written by `ongpu watch rules`; for Prometheus 2.42 or newer. Metrics of the job {JOB!r}.\n"
    return head + _yaml({"groups": [{"name": GROUP, "rules": listed}]})


def _rule(row: Alert, rule: Rule | None) -> dict[str, Any]:
    made: dict[str, Any] = {"alert": row.name, "expr": row.expr}
    if row.hold:
        made["for"] = f"{row.hold:g}s"
    if row.clear:
        made["keep_firing_for"] = f"{row.clear:g}s"
    return made | {"labels": _labels(row), "annotations": _annotations(row, rule)}


def _labels(row: Alert) -> dict[str, str]:
    return {"severity": row.label, "slug": row.slug, "kind": row.kind}


def _annotations(row: Alert, rule: Rule | None) -> dict[str, str]:
    reason = REASON if "ongpu_up" in row.expr else ""
    words = {"summary": _plain(row.en) + PLACE + reason, "summary_zh": _plain(row.zh) + PLACE + reason}
    if rule:
        words["description"] = _plain(f"{rule_page.plain(rule.en.why)} {rule_page.plain(rule.en.fix)}")
        words["description_zh"] = _plain(f"{rule_page.plain(rule.zh.why)}{rule_page.plain(rule.zh.fix)}")
    return words | {"runbook": f"docs/rules/en/{row.slug}.md" if rule else "docs/en/watch.md"}


def _plain(text: str) -> str:
    """Words that Go's templates leave as they are."""
    return re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', text)


def unit_tests(overrides: Mapping[str, Mapping[str, float]] | None = None, file: str = FILE) -> str:
    """The unit tests of the rule file: each alert once with its fault, until it holds and a while after, and once without.

    file: the rule file's path, as seen from the tests'. The holds are those of `rule_file` with the same overrides.
    """
    known = _rules()
    made = [test for row in rows(overrides) for test in _tests(row, known.get(row.slug))]
    head = f"# Written by `ongpu watch rules --tests`; run it by: promtool test rules THIS-FILE (beside {file})\n"
    return head + _yaml({"rule_files": [file], "evaluation_interval": f"{STEP}s", "tests": made})


def _tests(row: Alert, rule: Rule | None) -> Iterable[dict[str, Any]]:
    ill, well, labels = _series(row)
    start = -(-row.hold // STEP) * STEP  # evaluations stand at multiples of STEP
    steps = int(start // STEP + 12)
    labels = labels | _labels(row)
    fires = {"exp_labels": labels, "exp_annotations": _expanded(_annotations(row, rule), labels, ill)}
    when = [(start + 2 * STEP + (STEP if row.kind == "event" and _XID.search(row.expr) else 0), [fires])]
    if row.hold:
        when = [(start - STEP, []), *when]
    yield _test(f"{row.slug}: told when it has held", ill, steps, row, when)
    yield _test(f"{row.slug}: not told of a healthy machine", well, steps, row, [(start + 2 * STEP, [])])
    if "ongpu_finding" in row.expr and row.promql:
        told = {_name("ongpu_finding", CARD | {"severity": "error", "slug": row.slug}): "1xN"}
        yield _test(f"{row.slug}: told of the agent's finding", told, steps, row, [(start + 2 * STEP, [fires])])
    if _XID.search(row.expr):
        old = dict.fromkeys(ill, "2x200")
        yield _test(f"{row.slug}: an old count is no news", old, 200, row, [(EVENT_WINDOW + row.clear + 10 * STEP, [])])


def _test(name: str, series: Mapping[str, str], steps: int, row: Alert, when: Iterable[tuple[float, list[Any]]]) -> dict[str, Any]:
    listed = [{"series": one, "values": values.replace("N", str(steps))} for one, values in series.items()]
    cases = [{"eval_time": f"{at:g}s", "alertname": row.name, "exp_alerts": expected} for at, expected in when]
    return {"name": name, "interval": f"{STEP}s", "input_series": listed, "alert_rule_test": cases}


def _series(row: Alert) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Series with the fault, series without it, and the labels that its alert then has; N stands for the number of steps."""
    if row.slug in _SPECIAL:
        return _SPECIAL[row.slug]
    if found := _STATE.search(row.expr):
        state = _name("ongpu_gpu_state", CARD | {"state": found[1]})
        return {state: "1xN"}, {state: "0xN", _name("ongpu_gpu_state", CARD | {"state": "ok"}): "1xN"}, CARD
    if found := _XID.search(row.expr):
        first = _name("ongpu_gpu_xid_total", CARD | {"code": found[1]})  # it appears with its first count
        return {first: "_ 1xN"}, {_name("ongpu_gpu_xid_total", CARD | {"code": "13"}): "_ 1xN"}, CARD | {"code": found[1]}
    finding = CARD | {"severity": "error", "slug": row.slug}
    other = _name("ongpu_finding", finding | {"slug": "another"})
    return {_name("ongpu_finding", finding): "1xN"}, {other: "1xN"}, CARD


def _name(metric: str, labels: Mapping[str, str]) -> str:
    listed = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{listed}}}"


def _expanded(annotations: Mapping[str, str], labels: Mapping[str, str], series: Mapping[str, str]) -> dict[str, str]:
    """The annotations as Prometheus fills them in."""
    place = f" [GPU {labels['gpu']}]" if "gpu" in labels else ""
    place += f" ({labels['instance']})" if "instance" in labels else ""
    reason = ": Driver Not Loaded" if any("ongpu_down_info" in one for one in series) else ""
    filled = {name: text.replace(PLACE, place).replace(REASON, reason) for name, text in annotations.items()}
    return {name: re.sub(r'\{\{ "(\{\{|\}\})" \}\}', r"\1", text) for name, text in filled.items()}


_TEMP, _LIMIT = (_name(f"ongpu_gpu_temperature{part}_celsius", CARD) for part in ("", "_limit"))
_UP, _SAMPLED = _name("up", MACHINE), _name("ongpu_last_sample_timestamp_seconds", MACHINE)
_REACHED = _name("ongpu_up", MACHINE)
_EXPECTED, _WELL = _name("ongpu_gpus_expected", MACHINE), _name("ongpu_gpu_state", CARD | {"state": "ok"})
_DOWN = _name("ongpu_down_info", MACHINE | {"reason": "Driver Not Loaded", "code": "9"})
# Expressions of their own kind: (series with the fault, series without, labels of the alert). Test time begins at 0.
_SPECIAL: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "thermal-throttle": ({_TEMP: "88xN", _LIMIT: "87xN"}, {_TEMP: "86xN", _LIMIT: "87xN"}, CARD),
    "agent-silent": ({_UP: "0xN"}, {_UP: "1xN"}, MACHINE),
    "agent-absent": ({}, {_UP: "1xN"}, {"job": JOB}),
    "agent-stale": ({_SAMPLED: "-60xN"}, {_SAMPLED: f"0+{STEP}xN"}, MACHINE),
    "gpus-missing": ({_EXPECTED: "8xN", _WELL: "1xN"}, {_EXPECTED: "1xN", _WELL: "1xN"}, MACHINE),
    "gpus-unreachable": ({_REACHED: "0xN", _DOWN: "1xN"}, {_REACHED: "1xN"}, MACHINE),
}


class _Lines(yaml.SafeDumper):
    """Lists are set in under their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(data: Any) -> str:
    return yaml.dump(data, Dumper=_Lines, sort_keys=False, allow_unicode=True, width=120)
