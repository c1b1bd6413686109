"""`ongpu top --once` shows what a running watch knows, and only while it runs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from parts.tops import live

from ongpu.fronts import cli
from ongpu.fronts.top import kept
from ongpu.model import Certainty, Severity
from ongpu.store import Store

WORDS = {
    "en": {"title": "GPU 2 {waits} for its loader", "why": "because", "fix": "more workers"},
    "zh": {"title": "GPU 2 在等数据加载", "why": "因为", "fix": "更多进程"},
}
FINDINGS = [
    {"slug": "gpu-busy", "gpu": 0, "severity": "note", "certainty": "certain", "words": WORDS},
    {"slug": "input-pipeline-bound", "gpu": 2, "severity": "warning", "certainty": "likely", "words": WORDS},
    {"slug": "gpu-fell-off-bus", "gpu": 7, "severity": "error", "certainty": "certain", "words": WORDS},
    {"slug": "driver-library-mismatch", "gpu": None, "severity": "error", "certainty": "certain", "words": WORDS},
]


STATE = live(112).state.as_json()


def latest(written: float, **more: Any) -> str:
    """As the agent writes it."""
    return json.dumps({"written": written, "findings": FINDINGS, "demo": False, **more})[:-1] + ", " + STATE[1:]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with Store(path) as store:
        store.put_now(text)


def test_the_agents_state_and_findings(tmp_path: Path) -> None:
    write(tmp_path / "watch.db", latest(1000.0))
    view = kept.kept([tmp_path / "none.db", tmp_path / "watch.db"], 1003.0)
    assert view is not None
    assert view.kept
    assert [card.condition for card in view.cards] == ["ok"] * 7 + ["lost"]
    (finding,) = view.cards[2].findings
    assert (finding.slug, finding.weight, finding.certainty) == ("input-pipeline-bound", Severity.WARNING, Certainty.LIKELY)
    assert finding.text("en").title == "GPU 2 {waits} for its loader"
    assert finding.text("zh").title == "GPU 2 在等数据加载"
    assert view.cards[7].faulty()
    assert [f.slug for f in view.findings] == ["driver-library-mismatch"]
    assert view.cards[2].programs[0].pid == 52110


@pytest.mark.parametrize(
    "text",
    [
        latest(1000.0, demo=True),
        latest(900.0),
        latest(1100.0),
        "{}",
        "[]",
        json.dumps({"written": 1000.0}),
        latest(1000.0, findings=[{"slug": 1}]),
    ],
)
def test_what_is_old_simulated_or_broken_is_not_taken(tmp_path: Path, text: str) -> None:
    write(tmp_path / "watch.db", text)
    assert kept.kept([tmp_path / "watch.db"], 1003.0) is None


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "watch.db").write_text("nothing")
    assert kept.kept([tmp_path / "watch.db"]) is None


def test_once_asks_the_watch_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "SYSTEM", tmp_path / "none")
    write(tmp_path / "ongpu" / "watch.db", latest(time.time()))
    assert cli.run(["top", "--once", "--lang", "en"]) == 1
    text = capsys.readouterr().out
    assert "GPU 2 {waits} for its loader" in text
    assert "the history of `ongpu watch`" in text
