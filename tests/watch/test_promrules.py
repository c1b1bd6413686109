"""The rule file and its unit tests: what stands in them; promtool's word on both is marked real."""

import re
import subprocess
import sys
from pathlib import Path

import promql_parser
import pytest
import yaml
from parts.prometheus import need, promtool

from ongpu.watch import promrules
from ongpu.watch.alerts import ALERTS, DEAD_MAN, JOB
from ongpu.watch.metric_table import METRICS
from ongpu.watch.promrules import FILE, rows, rule_file, unit_tests

LABELS = {metric.name: {*metric.labels, "job", "instance"} for metric in METRICS} | {"up": {"job", "instance"}}


def rules() -> dict[str, dict[str, object]]:
    return {rule["labels"]["slug"]: rule for rule in yaml.safe_load(rule_file())["groups"][0]["rules"]}


def test_every_alert_is_there_with_its_hold_words_in_both_languages_and_its_page() -> None:
    found = rules()
    assert set(ALERTS) | set(DEAD_MAN) <= set(found)
    assert len({rule["alert"] for rule in found.values()}) == len(found)
    for row in rows():
        rule = found[row.slug]
        assert rule.get("for", "0s") == f"{row.hold:g}s"
        assert rule.get("keep_firing_for", "0s") == f"{row.clear:g}s"
        assert rule["labels"] == {"severity": row.label, "slug": row.slug, "kind": row.kind}
        words = rule["annotations"]
        assert words["summary"].startswith(row.en[:20].replace("{{", ""))
        assert re.search(r"[\u4e00-\u9fff]", words["summary_zh"])
        assert re.search(r"[\u4e00-\u9fff]", words.get("description_zh", "中"))
        assert (Path(__file__).parents[2] / words["runbook"]).name.endswith(".md")
    described = [slug for slug, rule in found.items() if "description" in rule["annotations"]]
    assert set(described) >= {"gpu-fell-off-bus", "thermal-throttle", "driver-hung"}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.slug)
def test_every_expression_parses_and_asks_for_series_and_labels_that_exist(row: promrules.Alert) -> None:
    promql_parser.parse(row.expr)
    selectors = re.findall(r"\b(ongpu_\w{1,60}|up)\b(?:\{([^}]{0,200})\})?", re.sub(r'"[^"]{0,100}"', '""', row.expr))
    assert selectors
    for metric, matchers in selectors:
        assert metric in LABELS
        assert {part.split("=")[0].strip("!~ ") for part in matchers.split(",") if part} <= LABELS[metric]


def test_holds_of_the_configuration_reach_the_file() -> None:
    found = yaml.safe_load(rule_file({"thermal-throttle": {"hold": 2.5, "clear": 0}}))["groups"][0]["rules"]
    rule = next(rule for rule in found if rule["labels"]["slug"] == "thermal-throttle")
    assert rule["for"] == "2.5s"
    assert "keep_firing_for" not in rule


def test_braces_in_words_are_no_template() -> None:
    assert promrules._plain("docker -f {{.Name}} {x}") == 'docker -f {{ "{{" }}.Name{{ "}}" }} {x}'


def test_each_alert_has_a_test_that_fires_and_one_that_does_not() -> None:
    cases = yaml.safe_load(unit_tests())["tests"]
    fires = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case["exp_alerts"]}
    silent = {case["alertname"] for test in cases for case in test["alert_rule_test"] if not case["exp_alerts"]}
    assert fires == silent == {row.name for row in rows()}
    assert f"job='{JOB}'" not in unit_tests()


def test_rules_and_dashboard_need_no_extra() -> None:
    program = "import sys; sys.modules['prometheus_client'] = None; import ongpu.watch.grafana, ongpu.watch.promrules as p; p.rule_file()"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.real
def test_promtool_accepts_the_rules_and_they_pass_their_tests(tmp_path: Path) -> None:
    need()
    (tmp_path / FILE).write_text(rule_file())
    (tmp_path / "tests.yml").write_text(unit_tests())
    status, said = promtool("check", "rules", "--lint-fatal", FILE, inside=tmp_path)
    assert (status, f"{len(rows())} rules found" in said) == (0, True), said
    status, said = promtool("test", "rules", "tests.yml", inside=tmp_path)
    assert status == 0, said


@pytest.mark.real
@pytest.mark.parametrize(
    ("slug", "right", "wrong"),
    [
        ("gpu-fell-off-bus", 'state=~"lost|gone"', 'state=~"ok"'),  # fires on a healthy GPU
        ("thermal-throttle", "ongpu_gpu_temperature_celsius >=", "ongpu_gpu_temperature_celsius <"),
        ("agent-stale", "> 30", "> 90"),
        ("driver-hung", "for: 10s", "for: 60s"),
        ("driver-hung", "for: 10s", "for: 0s"),
        ("ecc-uncorrectable", 'slug="ecc-uncorrectable"', 'slug="ecc-corrected"'),
        ("gsp-timeout", " unless ", " and "),
        ("gpus-unreachable", "ongpu_up == 0", "ongpu_up == 1"),
        ("gpus-missing", "ongpu_gpus_expected > on", "ongpu_gpus_expected >= on"),
    ],
)
def test_the_unit_tests_fail_on_rules_that_are_wrong(slug: str, right: str, wrong: str, tmp_path: Path) -> None:
    need()
    assert right in rule_file()
    (tmp_path / FILE).write_text(rule_file().replace(right, wrong))
    cases = yaml.safe_load(unit_tests())
    cases["tests"] = [test for test in cases["tests"] if test["name"].startswith(f"{slug}:")]
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(cases))
    status, said = promtool("test", "rules", "tests.yml", inside=tmp_path)
    assert (status, "FAILED" in said) == (1, True), said
