import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.dryruns import CALL, GIB, LOSS, MIB, STEP, answer, error, full, memory

from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import size
from ongpu.model import Evidence
from ongpu.report import as_dryrun
from ongpu.report.dryrun_words import NOTES, note, reason, work
from ongpu.report.layout import width_of
from ongpu.sources.dryrun import read

BUSY = {
    "syncs": [{"place": STEP, "kind": "item", "count": 6}],
    "copies": [{"place": CALL, "direction": "to-gpu", "count": 3, "bytes": 3 * MIB, "pinned": 3, "non_blocking": 3}],
    "loaders": [{"place": CALL, "dataset": "Rows", "batch_size": 32, "workers": 0, "pin_memory": True, "batches": 4, "seconds": 0.4}],
    "accumulation": {"windows": [{"backwards": 4, "scaled": False}], "every": 4, "dropped": 2, "scaled": False},
    "indices": [{"place": LOSS, "op": "embedding", "low": 0, "high": 1000, "allowed": [0, 999]}],
    "assumptions": [{"place": STEP, "what": "item", "value": 1.0, "branched": True}],
    "unsupported": [{"op": "my::op", "why": "no fake kernel", "went_on": True, "place": CALL}],
    "notes": [{"note": "compile-skipped", "text": "torch.compile ran eagerly", "count": 1}],
    "files": [{"path": "/home/me/best.pt", "what": "save", "redirected": "/tmp/x"}],
    "batch": {"as_run": 32, "largest": 118, "verified": True, "accumulate": 1, "reserved_per_sample": 9e6, "reserved_fixed": 2e8,
              "traced": [{"batch": 64, "peak_reserved": GIB, "fits": True}]},
    "savings": [{"change": "checkpointing", "saved": 600 * MIB, "applies": True}, {"change": "adam-8bit", "saved": 0, "applies": True}],
    "ranks": [{"rank": 0, "device": "cuda:0", "steps": 3, "peak_reserved": GIB}, {"rank": 1, "device": None, "steps": 0}],
    "mismatches": [{"index": 4, "ranks": {"0": {"op": "all_reduce", "shape": [3], "place": LOSS}, "1": None}}],
}  # fmt: skip


def run(**changes: Any) -> DryRun:
    (fact,) = read(Evidence("dryrun", json.dumps({**answer(**changes), "folder": "/home/me"}), "dry run"))
    assert isinstance(fact, DryRun)
    return fact


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_line_is_wider_than_the_terminal(lang: str) -> None:
    told = as_dryrun.text(run(**BUSY), lang, everything=True, width=80)
    assert max(map(width_of, told.split("\n"))) <= 80


def test_everything_is_told_in_both_languages() -> None:
    english, chinese = (as_dryrun.text(run(**BUSY), lang) for lang in ("en", "zh"))
    for words in ("118", "all_reduce", "my::op", "0..1000", "num_workers=0", "best.pt", "train.py:20", "600 MiB"):
        assert words in english
        assert words in chinese
    assert not re.search("[\u4e00-\u9fff]", english)
    assert "torch.compile 被跳过" in chinese


def test_a_saving_that_saves_nothing_is_left_out() -> None:
    assert "8-bit" not in as_dryrun.text(run(**BUSY), "en")


def test_the_smallest_card_has_room_for_reserve_and_context() -> None:
    assert "RTX 4060" in as_dryrun.text(run(), "en")
    told = as_dryrun.text(run(memory=memory(peak_reserved=15 * GIB, peak_total=15 * GIB + 500 * MIB)), "en")
    assert re.search(r"smallest card +(Tesla V100|GeForce RTX 4080)", told)


def test_a_run_that_was_cut_tells_no_card() -> None:
    assert "smallest card" not in as_dryrun.text(run(**full("forward", activation=20 * GIB)), "en")
    assert "NO:" in as_dryrun.text(run(**full("forward", activation=20 * GIB)), "en")
    early = run(outcome="error", error=error("script", "x", "KeyError"), steps=0, backwards=0)
    assert "fits " not in as_dryrun.text(early, "en")


def test_one_is_no_plural() -> None:
    told = " ".join(as_dryrun.text(run(steps=1, batches=1), "en").split())
    assert "1 optimizer step, 1 batch of 32" in told
    assert "10.0 M parameters" in told


@pytest.mark.parametrize(("steps", "words"), [(4, "IT FAILS in step 1; followed further"), (0, "IT FAILS in step 1: the card is full")])
def test_the_step_at_which_the_card_was_full(steps: int, words: str) -> None:
    changes = full("forward", activation=20 * GIB)
    changes["memory"]["oom"] = {"step": 0, "asked": GIB}
    assert words in " ".join(as_dryrun.text(run(**{**changes, "steps": steps}), "en").split())


def test_windows_make_the_batch_of_the_script() -> None:
    batch = {"as_run": 512, "largest": 118, "verified": True, "accumulate": 8}
    assert "8 windows of 64 rows" in as_dryrun.text(run(batch=batch), "en")
    uneven = {"as_run": 509, "largest": 118, "verified": True, "accumulate": 5}
    assert "5 windows of 101 rows" in as_dryrun.text(run(batch=uneven), "en")


def test_a_saving_that_could_not_be_computed_says_why() -> None:
    rows = [{"change": "checkpointing", "applies": False, "failed": "no repeated blocks were found in the model"}]
    assert "not computed" in as_dryrun.text(run(savings=rows), "en")
    assert "没有找到重复的模块" in as_dryrun.text(run(savings=rows), "zh")


def test_few_bytes_are_bytes() -> None:
    assert (size(64), size(2048), size(3 << 30)) == ("64 bytes", "2 KiB", "3.00 GiB")


NO_MODEL = "no model was run: nothing was computed on the GPU, and nothing heavy on the CPU"


@pytest.mark.parametrize("why", ["it stops with SystemExit", NO_MODEL])
def test_reasons_in_chinese(why: str) -> None:
    assert reason(f"whether it runs and fits: {why}", "en") == f"whether it runs and fits: {why}"
    assert not re.search("[a-z]{3}", reason(f"whether it runs and fits: {why}", "zh").replace("SystemExit", ""))


def test_a_model_that_is_moved_once_is_not_told_per_step() -> None:
    copies = [{"place": CALL, "direction": "to-gpu", "count": 56, "bytes": MIB}]
    assert "56 in all" in as_dryrun.text(run(copies=copies), "en")


def test_markdown_has_a_table_for_each_section() -> None:
    told = as_dryrun.markdown(run(**BUSY), "en")
    assert told.count("|---|---|") == len(as_dryrun.sections(run(**BUSY), "en"))
    assert "train.py:20 \\| loss.backward()" in told


def test_words_have_the_same_placeholders() -> None:
    for name, (english, chinese) in NOTES.items():
        assert re.findall(r"\{\w+\}", english) == re.findall(r"\{\w+\}", chinese) or set(re.findall(r"\{\w+\}", english)) == set(
            re.findall(r"\{\w+\}", chinese)
        ), name


def test_a_note_nobody_translated_stays_as_it_is() -> None:
    assert note(run(notes=[{"note": "new-one", "text": "something new"}]).notes[0], "zh") == "something new"
    assert "flash" in note(run(notes=[{"note": "attention-kernel", "text": "attention runs as the flash kernel"}]).notes[0], "zh")
    assert note(run(notes=[{"note": "attention-kernel", "text": "other words"}]).notes[0], "zh") == "other words"


@pytest.mark.parametrize(("flop", "told"), [(5.0, "5 FLOP"), (2.5e9, "2.5 GFLOP"), (3e15, "3 PFLOP")])
def test_work(flop: float, told: str) -> None:
    assert work(flop) == told


FIELDS = ["place", "count", "kind", "op", "why", "went_on", "batches", "seconds", "rank", "saved"]
VALUES = st.none() | st.integers(-5, 1 << 40) | st.floats(0, 1e12) | st.text(max_size=8) | st.booleans()


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES), max_size=3),
    st.sampled_from([name for name, value in BUSY.items() if isinstance(value, list)]),
    st.sampled_from(["en", "zh"]),
)
def test_odd_answers_are_told_without_a_crash(rows: list[dict[str, Any]], name: str, lang: str) -> None:
    assert as_dryrun.text(run(**{name: rows}), lang)
    assert as_dryrun.markdown(run(**{name: rows}), lang)
