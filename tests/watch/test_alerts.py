"""The table of alerts: each slug is a rule, each row has words, and the Xids behave as the catalogue says."""

import re

import pytest
from promql_parser import parse

from ongpu.engine import all_rules
from ongpu.facts.sample import COLUMNS
from ongpu.knowledge.xids import xid
from ongpu.model import Severity
from ongpu.watch.alerts import ALERTS, DEAD_MAN, Alert, alert, changed
from ongpu.watch.events import application

RULES = {rule.slug: rule for rule in all_rules()}


@pytest.mark.parametrize("row", [*ALERTS.values(), *DEAD_MAN.values()], ids=lambda row: row.slug)
def test_a_row(row: Alert) -> None:
    assert (row.slug in RULES) == (row.slug in ALERTS)
    assert re.search(r"[\u4e00-\u9fff]", row.zh)
    assert re.fullmatch(r"[ -~]+", row.en)
    assert row.hold >= 0
    assert row.clear >= 0
    assert set(row.columns) <= {*COLUMNS, "processes"}
    assert re.fullmatch(r"Ongpu[A-Za-z0-9]+", row.name)
    parse(row.expr)


def test_what_needs_somebody_now_is_told_within_seconds() -> None:
    now = {slug for slug, row in ALERTS.items() if row.label == "critical" and row.hold == 0}
    assert {"gpu-fell-off-bus", "ecc-uncorrectable", "row-remap-failure"} <= now
    assert all(row.hold <= 60 for row in ALERTS.values() if row.label == "critical")


def test_how_a_program_uses_its_gpu_wakes_nobody() -> None:
    for slug in ("gpu-held-idle", "input-pipeline-bound", "host-bound", "gpu-waits-for-disk"):
        assert ALERTS[slug].label == "info"
        assert ALERTS[slug].hold >= 600


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_xids_of_programs(code: int) -> None:
    assert application(code)
    known = xid(code)
    assert known is not None
    assert not known.condemns


@pytest.mark.parametrize("code", [48, 79, 95, 119])
def test_xids_of_the_card(code: int) -> None:
    assert not application(code)


def test_a_slug_without_a_row_is_told_by_how_bad_it_is() -> None:
    rows = [alert("unheard-of", severity, ("words", "词")) for severity in (Severity.ERROR, Severity.WARNING, Severity.NOTE)]
    assert [row.label for row in rows] == ["critical", "warning", "info"]
    assert rows[0].hold < rows[1].hold < rows[2].hold
    assert rows[0].expr == 'ongpu_finding{slug="unheard-of"} == 1'


def test_a_configuration_changes_a_row() -> None:
    row = ALERTS["thermal-throttle"]
    assert changed(row, {"thermal-throttle": {"hold": 5}}).hold == 5
    assert changed(row, {"thermal-throttle": {"hold": 5}}).clear == row.clear
    assert changed(row, {"fan-failure": {"hold": 5}}) is row
