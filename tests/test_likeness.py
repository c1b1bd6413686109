
"""The guess by likeness: it says that it guesses, keeps silent where it should, and its table is that of the cases."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from asking import explain
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu import likeness
from ongpu.engine import all_rules, diagnose
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.hosts import pasted
from ongpu.knowledge import likeness as learnt
from ongpu.model import Certainty, Finding, Outcome, Severity, Verdict
from ongpu.report import as_html, as_json, as_markdown, as_text

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
SLUG = "nccl-network-interface"
RULES = {rule.slug: rule for rule in all_rules()}
OUTCOMES = [Outcome(rule, Verdict.UNKNOWN) for rule in RULES.values()]
TEXT = "the job hangs at startup\nalpha beta gamma\ndelta epsilon zeta\nnothing here"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in which Greek letters speak for one cause."""
    weights = dict.fromkeys(("alpha", "beta", "gamma", "delta", "epsilon", "zeta"), ((0, 4.0),))
    weights |= {"healthy": ((1, 3.0),), "calm": ((1, 3.0),), "quiet": ((1, 3.0),), "fine": ((1, 3.0),), "well": ((1, 3.0),)}
    made = learnt.Table((SLUG, "healthy"), (-1.0, -1.0), (-0.2, -0.2), weights)
    monkeypatch.setattr(learnt, "table", lambda: made)


def guess(text: str, **changes: object) -> tuple[Finding, ...]:
    evidence = [replace(item, **changes) for item in pasted.read_text(text, "paste")]  # type: ignore[arg-type]
    return likeness.guess(evidence, [], [], OUTCOMES)


@pytest.mark.usefixtures("table")
class TestGuess:
    def test_says_that_it_guesses(self) -> None:
        (found,) = guess(TEXT)
        assert (found.slug, found.certainty, found.weight) == (SLUG, Certainty.POSSIBLE, Severity.WARNING)
        assert "No rule is sure" in found.text("en").why
        assert "没有规则能够确定" in found.text("zh").why
        assert [ref.line for ref in found.refs] == [2, 3]

    def test_a_benign_likeness_says_nothing(self) -> None:
        assert guess("no error: healthy calm quiet fine well") == ()

    def test_too_few_known_words_say_nothing(self) -> None:
        assert guess("error alpha beta") == ()

    def test_a_text_without_a_sign_of_trouble_says_nothing(self) -> None:
        assert guess("alpha beta gamma delta epsilon zeta") == ()

    def test_a_small_margin_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        even = replace(learnt.table(), weights=dict.fromkeys("alpha beta gamma delta epsilon zeta".split(), ((0, 2.0), (1, 2.0))))  # noqa: SIM905
        monkeypatch.setattr(learnt, "table", lambda: even)
        assert guess(TEXT) == ()

    def test_never_of_a_machine_that_was_asked(self) -> None:
        assert guess(TEXT, kind="kernel-log") == ()

    def test_never_beside_a_note_or_a_working_gpu(self) -> None:
        evidence = pasted.read_text(TEXT, "paste")
        note = Finding(severity=Severity.NOTE, rule=RULES["healthy"])
        working = Gpus(gpus=(Gpu(index=0, name="NVIDIA A100", memory_total=40960),))
        assert working.working()
        assert likeness.guess(evidence, [], [note], OUTCOMES) == ()
        assert likeness.guess(evidence, [working], [], OUTCOMES) == ()

    def test_never_a_cause_that_the_known_card_decides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        evidence = pasted.read_text(TEXT, "paste")
        made = replace(learnt.table(), slugs=("compute-capability-too-old", "healthy"))
        monkeypatch.setattr(learnt, "table", lambda: made)
        assert likeness.guess(evidence, [], [], OUTCOMES) != ()
        assert likeness.guess(evidence, [Gpus(gpus=(Gpu(index=0, name="NVIDIA A100"),))], [], OUTCOMES) == ()

    def test_never_in_a_text_that_is_longer_than_any_report(self) -> None:
        assert guess(TEXT + "".join(f"\nstep {n}" for n in range(2000))) == ()

    def test_only_rules_that_were_asked(self) -> None:
        evidence = pasted.read_text(TEXT, "paste")
        assert diagnose(evidence, "x", rules=[]).findings == ()

    def test_the_verdict_stays_unknown(self) -> None:
        report = explain(TEXT)
        assert [f.slug for f in report.findings] == [SLUG]
        assert report.verdict is Verdict.UNKNOWN
        for lang in ("en", "zh"):
            for fmt in (as_text, as_markdown, as_html, as_json):
                assert SLUG in fmt.render(report, lang)


@pytest.mark.parametrize("slug", sorted(RULES))
def test_no_value_is_missing_in_the_words_of_any_rule(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = learnt.Table((slug,), (0.0,), (-0.1,), dict.fromkeys(("alpha", "beta", "gamma", "delta", "zeta"), ((0, 4.0),)))
    monkeypatch.setattr(learnt, "table", lambda: made)
    for found in guess(TEXT):
        for lang in ("en", "zh"):
            text = found.text(lang)
            words = text.title + text.why + text.fix
            assert slug in text.title
            asked = "".join((RULES[slug].zh if lang == "zh" else RULES[slug].en).title) + "".join(RULES[slug].settle)
            assert words.count("?") <= asked.count("?")
            assert "{" not in words or "{" in asked


@pytest.mark.parametrize(
    "text",
    [
        "License Status                    : Licensed (Expiry: 2025-1-1 0:0:0 GMT)",
        "pci 0000:01:00.0: BAR 1: assigned [mem 0xe0000000-0xefffffff 64bit pref]",
        "$ df -h /dev/shm\nFilesystem Size Used Avail Use% Mounted on\nshm 64M 0 64M 0% /dev/shm",
        "torch.backends.cudnn.benchmark = True",
        "Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'label'",
        "hello",
        "",
    ],
)
def test_calm_texts_are_not_accused(text: str) -> None:
    assert [f for f in explain(text).findings if f.variant == learnt.VARIANT] == []


def test_words() -> None:
    words = learnt.tokens("RuntimeError: no kernel image, torch 2.1.0+cu118 on an RTX 3090, libcudnn.so.8, /home/me/secret.py, 显卡驱动")
    assert {"card:8", "build:cu118", "lib:libcudnn", "runtime", "kernel image", "显卡", "卡驱", "驱动"} <= set(words)
    assert not any("secret" in word or "2.1" in word or "3090" in word for word in words)
    assert learnt.command_tokens("sudo /usr/bin/docker run --gpus all x") == ["$docker", "$docker run"]


def test_packed_is_what_was_packed() -> None:
    made = learnt.Table(("a", "b"), (-1.0, -2.0), (-0.1, -0.2), {"x": ((0, 0.5), (1, 3.5)), "y": ((1, 5.0),)})
    again = learnt.unpacked(json.loads(json.dumps(made.packed())))
    assert dict(again.weights) == dict(made.weights)
    assert (again.slugs, again.prior, again.base) == (made.slugs, made.prior, made.base)


def test_table_is_small_quick_and_of_today_s_rules() -> None:
    path = learnt.FOLDER / "likeness.json"
    assert path.stat().st_size < 200 << 10
    start = time.perf_counter()
    kept = json.loads(path.read_text("utf-8"))
    assert time.perf_counter() - start < 0.1
    assert set(kept["slugs"]) <= set(RULES) | learnt.BENIGN
    assert {"checked", "source", "cases"} <= set(kept)


def test_table_is_fresh() -> None:
    import learn_likeness

    told = json.loads(learn_likeness.TABLE.read_text("utf-8"))["cases"]
    stale = [n for n, folder in learn_likeness.FOLDERS.items() if folder.is_dir() and told.get(n) != learn_likeness.fingerprint(folder)]
    assert stale == [], "run: python tools/learn_likeness.py"


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    guess("error " + text)
    assert all(learnt.tokens(line) is not None for line in text.split("\n"))
