"""Many machines, as a Prometheus that scrapes them knows them: the patterns first, then the nodes, the worst first."""

from collections.abc import Callable

from ongpu.engine import diagnose
from ongpu.facts.fleet import Node
from ongpu.hosts.prometheus import Refused
from ongpu.model import Finding, Report, Verdict
from ongpu.report.as_fleet import fleet_of, worst_first
from ongpu.watch import fleet
from ongpu.watch.alerts import ALERTS
from ongpu.watch.web import figures
from ongpu.watch.web.markup import Html, prose, tag
from ongpu.watch.web.pages.now import tile
from ongpu.watch.web.words import word

LIMIT = 10.0  # seconds for one question
MOST = 500  # nodes that are shown


def look(address: str, lang: str) -> Html:
    """Asks Prometheus, and shows what it knows or why it does not answer. Takes seconds: not for the event loop."""

    try:
        found = fleet.from_prometheus(address, LIMIT, _titles(lang))
    except (Refused, ValueError, OSError) as error:
        return tag("div", word("fleet_failed", lang, why=error), class_="banner error", role="alert")
    return show(diagnose([found], word("fleet", lang)), lang)


def made_up(lang: str) -> Html:
    """The simulated fleet, beside a simulated node."""
    from ongpu.watch.fleet_demo import fleet as simulated

    return show(diagnose([simulated(_titles(lang))], word("fleet", lang)), lang)


def _titles(lang: str) -> Callable[[str], str]:
    def title(slug: str) -> str:
        told = ALERTS.get(slug)
        return (told.zh if lang == "zh" else told.en) if told else slug.replace("-", " ")

    return title


def show(report: Report, lang: str) -> Html:
    """The report as a page."""
    told = fleet_of(report)
    usual = told.usual
    missing = sum(max(node.missing(usual), len(node.lost)) for node in told.nodes)
    silent = sum(not node.answered for node in told.nodes)
    idle = [node.idle_hours for node in told.nodes if node.idle_hours is not None]
    tiles = tag(
        "div", tile(word("nodes", lang), f"{len(told.nodes) - silent} / {len(told.nodes)}", "", "alarm" if silent else ""),
        tile(word("gpus_ok", lang), sum(node.present or 0 for node in told.nodes)),
        tile(word("missing", lang), missing, "", "alarm" if missing else ""),
        tile(word("idle_7d", lang), f"{figures.number(sum(idle))} h" if idle else "-", "", "warn" if sum(idle) else ""), class_="tiles",
    )  # fmt: skip
    patterns = [_pattern(finding, lang) for finding in report.findings] if report.verdict is Verdict.FOUND else []
    ordered = worst_first(told)
    rows = [_row(node, usual, lang) for node in ordered[:MOST]]
    names = (("node", ""), ("gpus", "n"), ("mean_busy", "n"), ("hottest", "n"), ("idle_7d", "n"), ("fault", ""))
    head = tag("tr", *(tag("th", word(name, lang), class_=kind) for name, kind in names))
    table = tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="rows"), class_="scroll panel")
    return tag("div", tiles, *patterns, table, class_="stack")


def _pattern(finding: Finding, lang: str) -> Html:
    text, level = finding.text(lang), finding.weight.name.lower()
    fix = tag("p", tag("b", word("remedy", lang) + ": "), prose(text.fix))
    return tag("article", tag("h2", text.title), tag("p", prose(text.why)), fix, class_=f"panel diagnosis {level}")


def _row(node: Node, usual: int | None, lang: str) -> Html:
    want = node.expected if node.expected is not None else usual
    short = bool(node.missing(usual) or node.lost)
    faults = [node.problem or word("no_answer", lang)] if not node.answered else [fault.title or fault.slug for fault in node.faults]
    level = "error" if not node.answered or short else node.worst or "ok"
    told = "; ".join(dict.fromkeys(faults)) or word("healthy", lang)
    count = "-" if node.present is None else str(node.present)
    return tag(
        "tr", tag("td", node.name), tag("td", count + (f" / {want}" if want is not None else ""), class_="n" + (" red" if short else "")),
        tag("td", "-" if node.busy is None else f"{node.busy:.0f} %", class_="n"),
        tag("td", "-" if node.hottest is None else f"{node.hottest} °C", class_="n"),
        tag("td", figures.number(node.idle_hours), class_="n"),
        tag("td", tag("span", told, class_={"error": "red", "warning": "amber", "ok": "green"}.get(level, "soft")), class_="wide"),
    )  # fmt: skip
