"""The pages as functions: what they show of a state, and that no text of others becomes a part of them."""

import json
import re
import string
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.store import Gpu, Point, StoreError, Used
from ongpu.watch.state import State
from ongpu.watch.web import charts, figures, words
from ongpu.watch.web.markup import Html, prose, safe, tag
from ongpu.watch.web.pages import history, incidents, now, work
from ongpu.watch.web.reading import Reader, Told, View, covered

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>{b}${1+1}'
NOW = 1_800_000_000.0


class Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def harmless(html: str) -> str:
    """Fails where somebody's text became an element or an attribute; gives the page's text."""
    page = Elements(html)
    for name, attributes in page.found:
        assert name not in ("script", "img", "iframe", "object", "style")
        assert not [key for key in attributes if key.startswith("on")]
    return page.text


@pytest.fixture
def view(filled: Path) -> Iterator[View]:
    """What the store says now."""
    reader = Reader(filled)
    yield reader.view()
    reader.close()


def test_every_card_says_what_is_so(view: View) -> None:
    cards = now.cards(view, {}, "en")
    assert list(cards) == list(range(8))
    assert "96" in harmless(cards[0]) or "9" in harmless(cards[0])
    lost = harmless(cards[7])
    assert "lost" in lost
    assert "GPU is lost" in lost
    assert "MHz" not in lost
    assert "丢失" in harmless(now.cards(view, {}, "zh")[7])
    assert "1 of 8 GPUs do not answer" in harmless(now.banners(view, "en"))
    assert "7 / 8" in harmless(now.tiles(view, "en"))


def test_a_busy_gpu_is_told_as_busy(view: View) -> None:
    card = harmless(now.cards(view, {}, "en")[0])
    assert "GPU 0 is busy" in card
    assert "too little is known" not in card
    note = Told("gpu-busy-other-process", 0, "note", "likely", {"en": {"title": "taken by python"}})
    assert "taken by python" not in harmless(now.cards(replace(view, verdicts=(*view.verdicts, note)), {}, "en")[0])
    bare = harmless(now.cards(replace(view, verdicts=(note,)), {}, "en")[0])
    assert "too little is known" in bare
    rows = work.processes(view, "en")
    assert "GPU 0 is busy" in harmless(rows)
    assert '<div class="small amber wide">GPU 0 is busy' not in rows  # it is no warning


def test_of_a_silent_agent_nothing_is_told_as_so(view: View) -> None:
    old = replace(view, at=view.at + 60)
    assert "The agent is silent" in harmless(now.banners(old, "en"))
    for card in now.cards(old, {}, "en").values():
        assert "%" not in harmless(card)
        assert "no answer" in harmless(card)
    assert "0 / 8" in harmless(now.tiles(old, "en"))
    assert harmless(work.processes(old, "en")) == "no process"


def test_nvml_down_and_no_store_and_no_word_are_told(view: View) -> None:
    assert view.state
    view.state.up, view.state.reason, view.state.code = False, "Driver Not Loaded", 9
    assert "driver not loaded" in harmless(now.banners(view, "en"))
    assert "驱动未加载" in harmless(now.banners(view, "zh"))
    nothing = View(NOW, problem=StoreError("missing", Path("/x/watch.db")))
    assert "no history here yet" in harmless(now.banners(nothing, "en"))
    assert "has not told anything" in harmless(now.banners(View(NOW), "en"))
    assert now.cards(nothing, {}, "en") == {}


def test_what_is_not_told_has_its_reason_and_is_no_zero(view: View) -> None:
    assert view.state
    gpu = view.state.gpus[0]
    assert gpu.row
    gpu.row[0] = gpu.row[4] = None
    gpu.why.update({"util": 3, "power": 4, "processes": 4})
    gpu.identity["mig"] = True
    text = harmless(now.card(view, gpu, {}, "en"))
    assert "not supported (MIG is on)" in text
    assert "not permitted" in text
    assert "0 %" not in text
    assert "0 W" not in text


def hostile(view: View) -> View:
    """The same, with a text in every place that others fill."""
    text = json.dumps(EVIL)[1:-1]
    told = json.loads(view.state.as_json()) if view.state else {}
    for gpu in told["gpus"]:
        gpu["name"] = EVIL
        gpu["hung_in"] = EVIL
        for process in gpu["processes"]:
            process["host"] = dict.fromkeys(("user", "command", "job", "container"), EVIL)
    told["driver"] = told["reason"] = EVIL
    state = State.from_json(json.dumps(told))
    words_ = dict.fromkeys(("en", "zh"), dict.fromkeys(("title", "why", "fix"), EVIL))
    assert text
    return replace(view, state=state, verdicts=tuple(Told(EVIL, index, "error", "certain", words_) for index in (None, 0, 7)), host=EVIL)


def test_no_text_of_others_becomes_a_part_of_a_page(view: View) -> None:
    evil = hostile(view)
    for lang in ("en", "zh"):
        pages = [now.banners(evil, lang), now.tiles(evil, lang), *now.cards(evil, {}, lang).values(), work.processes(evil, lang)]
        body = {
            "id": 1, "slug": EVIL, "subject": EVIL, "gpu": None, "severity": EVIL, "certainty": EVIL, "kind": EVIL, "opened": NOW,
            "closed": None,
            "words": {lang: {"title": EVIL, "why": EVIL, "fix": EVIL}}, "commands": [{"run": EVIL, "risk": EVIL}],
            "refs": [{"source": EVIL, "line": EVIL, "quote": EVIL}], "see": [EVIL, "javascript:alert(1)"], "ack": {"t": NOW, "note": EVIL},
        }  # fmt: skip
        pages += [incidents.diagnosis(body, NOW, lang), incidents.table([body], [], NOW, lang)]
        pages += [incidents.events([{"id": 1, "t": NOW, "en": EVIL}], NOW, lang)]
        row = Used(EVIL, 1, 7200.0, 7200.0, 60.0, 7000.0, 5, 1e6, 0.0, 0.0, 3.0)
        gpus = [Gpu(1, EVIL, 0, EVIL, EVIL, 80_000)]
        for by in work.BY:
            pages += [work.table([row], by, gpus, 2.0, EVIL, lang), work.tiles([row], 2.0, EVIL, lang)]
        for page in pages:
            harmless(page)
        assert EVIL in harmless(incidents.diagnosis(body, NOW, lang))
        assert "javascript:" not in incidents.diagnosis(body, NOW, lang).replace(safe(EVIL), "")


def keys(value: Any) -> Iterator[str]:
    """All keys of plain data."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


@pytest.mark.parametrize("evil", [":formatter", EVIL, "{b}{c}{@[0]}", "function(){}"])
def test_nothing_of_others_is_run_by_a_chart(evil: str) -> None:
    points = [Point(NOW, 5.0, 6.0), Point(NOW + 10, None, None), Point(NOW + 40, 7.0, 7.0)]
    both = [
        charts.time_chart({evil: points}, [(NOW, NOW + 5, evil)], NOW, NOW + 60, "%", 1.0, False),
        charts.use_chart([(evil, 1.0, 2.0, 5.0)], "en", True),
    ]
    for options in both:
        told = list(keys(options))
        assert not [key for key in told if key.startswith(":") or "formatter" in key.lower() or key in (evil, "renderItem", "rich")]
        assert options["tooltip"]["renderMode"] == "richText"
        json.dumps(options, allow_nan=False)


def test_gaps_stay_gaps() -> None:
    points = [Point(NOW, 5.0, 6.0), Point(NOW + 10, None, None), Point(NOW + 40, 7.0, 7.0), Point(NOW + 50, 8.0, 8.0)]
    line = charts.time_chart({"GPU 0": points}, [], NOW, NOW + 60, "GiB", 0.5, False)["series"][0]
    assert [value for _, value in line["data"]] == [2.5, None, 3.5, 4.0]
    assert line["connectNulls"] is False
    assert len(now.polylines([*points[:1], *points], 10.0)) == 2
    assert now.polylines([], 10.0) == []


def test_each_moment_is_painted_once_as_the_worst_that_was() -> None:
    found = dict(charts.painted([(0, 50, "warning"), (20, 30, "error"), (25, 60, "error"), (90, 200, "warning"), (5, 9, "note")], 10, 100))
    assert found[charts.RED] == [(20, 60)]
    assert found[charts.AMBER] == [(10, 20), (90, 100)]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.sampled_from(["error", "warning"])), max_size=12))
def test_what_is_painted_never_overlaps(bands: list[tuple[float, float, str]]) -> None:
    bands = [(min(a, b), max(a, b), severity) for a, b, severity in bands]
    found = sorted(span for _, spans in charts.painted(bands, 20.0, 80.0) for span in spans)
    assert all(20.0 <= begin < end <= 80.0 for begin, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    covered_ = sum(end - begin for begin, end in found)
    moments = [20 + number * 0.5 for number in range(120)]
    share = sum(any(a <= t < b for a, b, _ in bands) for t in moments) * 0.5
    assert covered_ == pytest.approx(share, abs=0.5 * len(bands) * 2 + 0.5)


@pytest.mark.parametrize(("query", "wanted"), [
    ({}, history.Choice()), ({"range": "9y", "metric": "util,nonsense,util", "gpu": "3,x,-1,0,3"}, history.Choice("1h", ("util",), (0, 3))),
    ({"range": "7d", "metric": ""}, history.Choice("7d", ())), ({"gpu": "9" * 50}, history.Choice()),
])  # fmt: skip
def test_the_address_says_what_is_drawn(query: dict[str, str], wanted: history.Choice) -> None:
    choice = history.Choice.of(query)
    assert choice == wanted
    told = dict(part.split("=") for part in choice.address().partition("?")[2].split("&"))
    assert history.Choice.of(told) == choice


def test_two_cards_that_had_one_index_are_told_apart() -> None:
    told = history.names([Gpu(1, "GPU-aaaaaaaa-1", 0, None, None, None), Gpu(2, "GPU-bbbbbbbb-2", 0, None, None, None)])
    assert told == {1: "GPU 0", 2: "GPU 0 (GPU-bbbbbbbb)"}


def test_history_draws_what_the_store_has(filled: Path) -> None:
    reader = Reader(filled)
    end = reader.view().at
    drawn = history.draw(reader, history.Choice("1h", ("util", "temp"), (0, 7)), end)
    assert list(drawn.series["util"]) == ["GPU 0", "GPU 7"]
    assert {one.get("gpu") for one in drawn.incidents} <= {None, 0, 7}
    assert "GPU 7" in harmless(history.table(drawn, "en"))
    assert history.chart(drawn, "util", True, "en")["series"][0]["data"]
    fans = history.draw(reader, history.Choice("1h", ("fan",)), end)
    assert history.chart(fans, "fan", True, "en")["title"]["text"] == "not supported"
    old = history.draw(reader, history.Choice("1h", ("util",)), end - 1e6)
    assert history.chart(old, "util", True, "en")["title"]["text"] == "nothing was recorded in this span"
    assert not history.chart(drawn, "util", True, "en")["title"]["text"]
    reader.close()


def used(name: str | None = "dave", state: int = 1, **changes: Any) -> Used:
    row = Used(name, state, 36_000.0, 36_000.0, 3_600.0, 18_000.0, 100, 3.6e6, 0.0, 0.0, 25.0)
    return row._replace(**changes)


def test_what_is_not_known_of_use_is_no_zero() -> None:
    unknown = used(held_idle_seconds=None, busy_seconds=None, energy_j=None, cost=None)
    text = harmless(work.tiles([unknown], None, "", "en"))
    assert "no price is configured" in text
    assert re.search(r"held but idle-", text)
    assert work.idle_cost(unknown, 2.0) is None
    assert ",," in work.as_csv([unknown], "user", None)
    assert "0 %" not in harmless(work.table([unknown], "user", [], None, "", "en"))


def test_idle_hours_and_what_they_cost_stand_first() -> None:
    text = harmless(work.tiles([used(), used("eve", held_idle_seconds=0.0), used(None, 0)], 2.0, "EUR", "en"))
    assert text.startswith("GPU hours held but idle5.0 h25 % of all GPU hours heldWhat the idle hours cost10.00 EUR")


def test_a_name_that_a_spreadsheet_would_run_is_tamed() -> None:
    for name in ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1"):
        row = work.as_csv([used(name)], "user", None).splitlines()[1]
        assert row.lstrip('"').startswith("'")


def test_the_least_efficient_job_comes_first() -> None:
    rows = [used("a", busy_seconds=30_000.0), used("b", busy_seconds=10.0), used("c", gpu_seconds=60.0), used(None), used("d", 0)]
    assert [row.name for row in work.least_busy(rows)] == ["b", "a"]


def test_a_silence_covers_its_slug_and_gpu() -> None:
    body = {"slug": "a", "gpu": 3, "gpu_uuid": "GPU-x"}
    assert covered(body, [{"slug": "a"}])
    assert covered(body, [{"slug": None, "gpu_uuid": "GPU-x"}])
    assert covered(body, [{"slug": "a", "gpu_uuid": "3"}])
    assert not covered(body, [{"slug": "b"}, {"slug": "a", "gpu_uuid": "GPU-y"}])


@given(st.text())
def test_text_is_escaped_whatever_it_is(text: str) -> None:
    assert not Elements(safe(text)).found
    assert not Elements(tag("b", text, title=text)).found[1:]
    assert {name for name, _ in Elements(prose(text)).found} <= {"code"}
    assert safe(Html("<b>")) == "<b>"


def test_all_words_stand_in_both_languages_with_the_same_places() -> None:
    for name, (english, chinese) in words.names().items():
        places = [sorted(field for _, field, _, _ in string.Formatter().parse(text) if field is not None) for text in (english, chinese)]
        assert places[0] == places[1], name
        assert english.strip(), name
        assert chinese.strip(), name


def test_every_word_that_is_used_is_there() -> None:
    known, root = words.names(), Path(words.__file__).parent
    for path in root.rglob("*.py"):
        for name in re.findall(r'(?<!top\.)\bword\("([a-z0-9_]+)"', path.read_text("utf-8")):
            assert name in known, (path.name, name)
    risks = ("risk_safe", "risk_disruptive", "risk_destructive")
    for name in (*history.METRICS, *work.BY, *work.SPANS, "1h", "6h", *incidents.SEVERITIES, *risks):
        assert name in known


@pytest.mark.parametrize(("seconds", "told"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "2 h"), (172_800, "2 d"), (-5, "0 s")])
def test_lengths_of_time(seconds: float, told: str) -> None:
    assert words.span(seconds, "en") == told


def test_moments() -> None:
    assert words.clock(None, NOW) == "-"
    assert words.clock(1e30, NOW) == "-"
    assert re.fullmatch(r"\d\d:\d\d:\d\d", words.clock(NOW, NOW))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", words.clock(NOW - 200_000, NOW))


def test_figures() -> None:
    assert figures.number(12_345.678) == "12\u2009345.7"
    assert figures.number(None) == figures.money(None, "EUR") == figures.percent(None) == "-"
    assert figures.share(5, 0) is None
    assert figures.share(5, None) is None
    assert figures.share(50, 10) == 1.0


@pytest.mark.parametrize(("lines", "points"), [(0, 600), (1, 600), (10, 600), (30, 200), (64, 100), (1000, 100)])
def test_many_lines_have_fewer_points_each(lines: int, points: int) -> None:
    assert history.points_of(lines) == points
