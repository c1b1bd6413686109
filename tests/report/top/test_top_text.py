"""`ongpu top --once`: at most 80 columns in both languages, JSON whole, nothing hidden, unknown never told as 0."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts.tops import AT, live

from ongpu.facts.sample import COLUMNS
from ongpu.fronts.top.live import Live
from ongpu.hosts.sampling.demo import messages
from ongpu.lazy import replace
from ongpu.report.layout import width_of
from ongpu.report.top import as_json, as_text, words
from ongpu.report.top.view import BY, Card, Program, View, in_order

MOMENTS = (0.0, 30.0, 60.0, 83.0, 95.0, 112.0, 130.0, 155.0, 170.0)
HERE = Path(__file__).parent
NUMBERS = st.none() | st.integers(0, 10**7)


def plain(second: float) -> View:
    """Without findings, whose words are the rules' business."""
    view = live(second, before=20).view()
    cards = tuple(replace(card, findings=(), unexplained=None) for card in view.cards)
    return replace(view, cards=cards, findings=(), report=None)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("second", [30.0, 130.0, 155.0])
def test_the_picture(second: float, lang: str) -> None:
    kept = HERE / f"top_{second:.0f}.{lang}.txt"
    assert as_text.render(plain(second), lang) + "\n" == kept.read_text("utf-8")


@pytest.mark.parametrize("second", MOMENTS)
def test_no_line_is_wider_than_80_columns(second: float) -> None:
    view = live(second).view()
    for lang in ("en", "zh"):
        for by in BY:
            assert max(map(width_of, as_text.render(view, lang, by=by).split("\n"))) <= 80


@pytest.mark.parametrize("second", MOMENTS)
def test_every_gpu_is_there_in_text_and_json(second: float) -> None:
    view = live(second).view()
    told = json.loads(as_json.render(view))
    assert [gpu["index"] for gpu in told["gpus"]] == list(range(8))
    assert all(gpu["uuid"] and gpu["name"] for gpu in told["gpus"])  # identity is kept, lost or not
    for gpu in told["gpus"]:
        if gpu["condition"] != "ok":
            assert gpu["reason"]
            assert set(gpu["values"].values()) == {None}
            assert gpu["processes"] is None
    text = as_text.render(view)
    assert all(f"\n  {index}  H100" in text for index in range(8))


def test_exit_codes() -> None:
    codes = {second: live(second).view().exit_code() for second in (0.0, 30.0, 112.0, 130.0, 155.0)}
    assert codes == {0.0: 0, 30.0: 1, 112.0: 1, 130.0: 1, 155.0: 1}  # 155: the kernel log tells of the ECC error
    assert View(up=False, reason="Driver Not Loaded", code=9).exit_code() == 3
    assert View(up=True).exit_code() == 3
    assert View(up=True, cards=(Card(index=0, condition="denied", code=4),)).exit_code() == 3


def test_a_driver_that_went_leaves_no_verdict_of_before() -> None:
    seen = live(155)
    view = seen.view()
    assert not any(finding.slug.startswith("gpu-busy") for card in view.cards for finding in card.findings)
    assert "busy" not in as_text.render(view)
    seen.clock = lambda: AT + 160
    seen.tick()
    assert seen.history[0][-1] == (None, None, None)  # a gap in the graph
    again = live(166).view()
    assert again.up
    assert again.seconds < 5
    assert not any(finding.certainty > 0 and finding.slug == "gpu-busy" for card in again.cards for finding in card.findings)


def test_no_driver_says_why() -> None:
    view = View(up=False, reason="Driver Not Loaded", code=9)
    assert as_text.render(view) == "GPUs: not known\nNVML does not answer: driver not loaded\n`ongpu` (the doctor) says what to do about it"
    told = json.loads(as_json.render(view))
    assert (told["up"], told["reason"], told["gpus"]) == (False, "Driver Not Loaded", [])


def test_what_is_not_told_is_a_dash_with_its_reason() -> None:
    why = {"util": 3, "processes": 4}
    mig = Card(index=0, name="NVIDIA A100", values={"mem_used": 5, "temp": 40}, why=why, identity={"mig": True})
    text = as_text.render(View(up=True, cards=(mig,)))
    assert "util (GPU 0): not supported (MIG is on)" in text.replace("\n", " ")
    assert "processes (GPU 0): not permitted" in text.replace("\n", " ")
    assert "no process seen on it; who uses it is not told (not permitted)" in text.replace("\n        ", " ")
    told = json.loads(as_json.render(View(up=True, cards=(mig,))))["gpus"][0]
    assert told["values"]["util"] is None
    assert told["processes"] is None
    assert told["not_told"]["util"] == {"code": 3, "reason": "not supported"}
    closed = View(up=True, log_problem="denied", cards=(replace(mig, xids=None),))
    assert "Xid (all GPUs): kernel log: denied" in as_text.render(closed).replace("\n", " ")


def test_a_process_of_another_namespace_keeps_its_memory() -> None:
    card = Card(
        index=0, name="A", values={"util": 5}, programs=(Program(pid=77, mem=9000), Program(pid=78, mem=None, visible=True, uid=1000))
    )
    text = as_text.render(View(up=True, cards=(card,)))
    assert "     ?             77    8.8G not visible from here (another PID namespace, or" in text
    assert "     1000          78       -      -     - -" in text


def test_only_one_user() -> None:
    view = live(10.0).view()
    text = as_text.render(view, user="bob")
    assert "52110" in text
    assert "41207" not in text
    assert "7 processes of others are not shown" in text
    told = json.loads(as_json.render(view, user="1002"))
    assert [p["pid"] for gpu in told["gpus"] for p in gpu["processes"]] == [52110]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_any_figures_fit(data: st.DataObject) -> None:
    words_ = st.text(st.characters(exclude_categories=("Cc", "Cs", "Mn", "Cf", "Zl", "Zp", "Me")), max_size=60)

    draw, maybe = data.draw, st.none() | words_

    def program() -> Program:
        host = {
            "user": draw(maybe),
            "command": draw(maybe),
            "job": draw(maybe),
            "cpu": draw(st.none() | st.floats(0, 512)),
            "rss": draw(NUMBERS),
        }
        return Program(pid=draw(st.integers(1, 4_194_304)), mem=draw(NUMBERS), visible=draw(st.booleans()), **host)

    def card(index: int) -> Card:
        identity = {"mem_total": draw(st.none() | st.integers(1, 300_000)), "power_limit": draw(st.none() | st.integers(1, 2_000_000))}
        values = {name: draw(st.none() | st.integers(0, 999)) for name in COLUMNS} | {"mem_used": draw(st.none() | st.integers(0, 290_000))}
        return Card(
            index=index, name=draw(maybe), condition=draw(st.sampled_from(["ok", "ok", "lost", "error", "unknown"])), values=values,
            code=draw(st.none() | st.integers(0, 1000)), identity=identity, limit=draw(st.none() | st.integers(60, 110)),
            programs=(program(),),
        )  # fmt: skip

    cards = tuple(card(index) for index in range(3))
    view = View(up=data.draw(st.booleans()), reason="x", cards=cards, seconds=0.1)
    for lang in ("en", "zh"):
        for line in as_text.render(view, lang).split("\n"):
            assert width_of(line) <= 80, line
    assert len(json.loads(as_json.render(view))["gpus"]) == 3
    assert sorted(card.index for card in in_order(view, "util")) == [0, 1, 2]


KNOWN = [*messages(seconds=360, gpus=3), *messages(seconds=170, gpus=5, seed=8)]


@given(st.lists(st.integers(0, len(KNOWN) - 1), max_size=60), st.lists(st.floats(0, 30), min_size=60, max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_course_of_messages_can_be_told(order: list[int], pauses: list[float]) -> None:
    now = [AT]
    seen = Live(clock=lambda: now[0])
    for place, pause in zip(order, pauses, strict=False):
        now[0] += pause
        seen.take(KNOWN[place])
        seen.tick()
    view = seen.view()
    assert view.exit_code() in (0, 1, 3)
    assert len(json.loads(as_json.render(view))["gpus"]) == len(view.cards) == len(seen.state.gpus)
    assert all(width_of(line) <= 80 for lang in ("en", "zh") for line in as_text.render(view, lang).split("\n"))
    if any(card.condition != "ok" for card in view.cards) or not view.up:
        assert view.exit_code() != 0


def test_sizes_and_spans() -> None:
    assert [words.size(m) for m in (None, 0, 999, 1000, 81_559, 102_400, 3 << 20)] == ["-", "0M", "999M", "1.0G", "79.6G", "100G", "3.0T"]
    assert [words.span(s, "en") for s in (0.12, 9.96, 60, 600, 36_000)] == ["0.1 s", "10 s", "60 s", "10 min", "10 h"]
    assert words.fit("显存占用", 5) == "显存…"
    assert words.fit("显", 4, right=True) == "  显"
    assert words.short("NVIDIA GeForce RTX 4090") == "RTX 4090"


def test_reasons_that_say_more_stand_first() -> None:
    assert Card(index=0, values={"reasons": 0x88}).held() == ("power-brake",)
    assert Card(index=0, values={"reasons": 0x48 | 0x4}).held() == ("heat-hw", "power-cap")
    assert Card(index=0, values={"reasons": 0x8}).held() == ("hw-slowdown",)
    assert Card(index=0, values={"reasons": None}).held() == ()
