"""The dashboard: what stands in it; its expressions against a real Prometheus are in tests/live/test_prometheus.py."""

import json
import re

import promql_parser
import pytest

from ongpu.watch.grafana import PANELS, dashboard, expression
from ongpu.watch.metric_table import METRICS

EXPRESSIONS = [(panel.en, text) for panel in PANELS for _, text in panel.expressions]
LABELS = {metric.name: {*metric.labels, "instance"} for metric in METRICS}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_whole(lang: str) -> None:
    board = json.loads(dashboard(lang))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({target["datasource"]["uid"] for panel in panels for target in panel.get("targets", ())}) == 1
    assert "http" not in dashboard(lang)
    used = set(re.findall(r"\$\{?(\w+)", dashboard(lang))) - {"__all", "__rate_interval"}
    assert used == {variable["name"] for variable in board["templating"]["list"]}


def test_both_languages_differ_in_words_only() -> None:
    en, zh = (json.loads(dashboard(lang)) for lang in ("en", "zh"))
    assert [p.get("targets") for p in en["panels"]] == [p.get("targets") for p in zh["panels"]]
    assert all(a["title"] != b["title"] for a, b in zip(en["panels"], zh["panels"], strict=True) if a["title"] not in ("GPUs",))


@pytest.mark.parametrize(("title", "text"), EXPRESSIONS, ids=[f"{title} {n}" for n, (title, _) in enumerate(EXPRESSIONS)])
def test_every_expression_parses_and_asks_for_series_and_labels_that_exist(title: str, text: str) -> None:
    full = expression(text)
    promql_parser.parse(full.replace("$__rate_interval", "1m"))
    for metric, matchers in re.findall(r"\b(ongpu_\w{1,60})\{([^}]{0,300})\}", full):
        assert {part.split("=")[0].strip("!~ ") for part in matchers.split(",")} <= LABELS[metric]
    assert not re.search(r"\bongpu_\w+(?!\w|\{)", full), "every selector keeps to the chosen machines"


LEGENDS = [(panel.en, legend, text) for panel in PANELS for legend, text in panel.expressions]


@pytest.mark.parametrize(("title", "legend", "text"), LEGENDS, ids=[f"{one[0]} {n}" for n, one in enumerate(LEGENDS)])
def test_legends_name_labels_that_the_series_have(title: str, legend: str, text: str) -> None:
    wanted = set(re.findall(r"\{\{(\w{1,20})\}\}", legend))
    if grouped := re.search(r"by \(([^)]{1,60})\)", text):
        given = {part.strip() for part in grouped[1].split(",")}
    else:
        given = set.intersection(*(LABELS[name] for name in re.findall(r"\bongpu_\w{1,60}", text)))
    assert wanted <= given


def test_the_board_tells_of_most_metrics() -> None:
    shown = {metric.name for panel in PANELS for metric in panel.metrics}
    assert len(shown) > len(METRICS) / 2
