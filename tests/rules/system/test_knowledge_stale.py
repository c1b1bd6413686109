import json
from datetime import date, timedelta

import pytest

from ongpu.engine import diagnose
from ongpu.knowledge import freshness
from ongpu.model import Evidence, Finding, Verdict
from ongpu.rules.system.knowledge_stale import RULE

OLDEST = min(day for _, day in freshness.checked())


def found(today: str | None) -> tuple[Finding, ...]:
    items = [{"name": "system", "value": "linux", "from": "sys.platform"}]
    items += [{"name": "today", "value": today, "from": "date"}] if today else []
    text = "\n".join(map(json.dumps, items))
    report = diagnose([Evidence("machine-state", text, "system:ask")], "test", rules=(RULE,))
    assert not [o for o in report.outcomes if o.verdict is Verdict.CRASHED]
    return report.findings


@pytest.mark.parametrize(("days", "told"), [(0, False), (180, False), (181, True), (2000, True)])
def test_a_table_is_old_after_half_a_year(days: int, told: bool) -> None:
    notes = found((OLDEST + timedelta(days=days)).isoformat())
    assert bool(notes) is told
    if told:
        assert OLDEST.isoformat() in notes[0].text("en").title
        assert notes[0].refs[0].source == "date"
        assert {name for name, day in freshness.checked() if day == OLDEST} <= set(notes[0].values["names"])


@pytest.mark.parametrize("today", [None, "yesterday", (date(1970, 1, 1)).isoformat()])
def test_no_date_or_a_wrong_one_says_nothing(today: str | None) -> None:
    assert not found(today)
