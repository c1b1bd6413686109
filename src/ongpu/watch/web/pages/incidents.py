"""What went wrong: the list, and one incident with its whole diagnosis."""

from collections.abc import Mapping, Sequence
from typing import Any

from ongpu.watch.web.markup import Html, join, prose, tag
from ongpu.watch.web.reading import Body, covered
from ongpu.watch.web.words import clock, span, word

CLOSED = 200  # that are listed
SEVERITIES = ("error", "warning", "note")
HOURS = (1, 8, 24, 168)  # for which one may silence


def title(incident: Mapping[str, Any], lang: str) -> str:
    """What the incident is, in a line; its slug where it brought no words."""
    return part(incident, "title", lang) or str(incident.get("slug") or "?")


def part(incident: Mapping[str, Any], name: str, lang: str) -> str:
    """Some of its words: title, why, fix; in the other language where it has none in this."""
    words = incident.get("words") or {}
    told = words.get(lang) or words.get("en") or {}
    return str(told.get(name) or "")


def where(incident: Mapping[str, Any], lang: str) -> str:
    """The GPU, or the machine as a whole."""
    if incident.get("gpu") is not None:
        return f"GPU {incident['gpu']}"
    return str(incident.get("subject") or word("machine", lang))


def severity(incident: Mapping[str, Any]) -> str:
    """error, warning or note."""
    told = str(incident.get("severity"))
    return told if told in SEVERITIES else "note"


def lasted(incident: Mapping[str, Any], now: float, lang: str) -> str:
    """How long it was, or has been, open."""
    return span(float(incident.get("closed") or now) - float(incident["opened"]), lang)


def table(incidents: Sequence[Body], silences: Sequence[Body], now: float, lang: str, *, closed: bool = False) -> Html:
    """One row each, the latest first; each opens to its diagnosis."""
    names = ("fault", "where", "opened", *(("closed_at",) if closed else ()), "lasted")
    head = tag("tr", tag("th", tag("span", word("note", lang), class_="skip")), *(tag("th", word(name, lang)) for name in names))
    rows = []
    for one in incidents:
        notes = [word("flapping", lang)] if one.get("flapping") else []
        notes += [word("acknowledged", lang, when=clock(one["ack"].get("t"), now))] if one.get("ack") else []
        notes += [word("silenced", lang)] if not closed and covered(one, silences) else []
        link = tag("a", title(one, lang), href=f"/incidents/{int(one['id'])}")
        rows.append(tag(
            "tr", tag("td", tag("span", word(severity(one), lang), class_=f"chip {severity(one)}")),
            tag("td", link, tag("div", " · ".join([str(one.get("slug") or ""), *notes]), class_="small soft"), class_="wide"),
            tag("td", where(one, lang), class_="nowrap"), tag("td", clock(one["opened"], now), class_="nowrap"),
            *([tag("td", clock(one["closed"], now), class_="nowrap")] if closed else []),
            tag("td", lasted(one, now, lang), class_="nowrap"),
        ))  # fmt: skip
    if not rows:
        return tag("p", word("none_closed" if closed else "none_open", lang), class_="soft")
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="rows first-small"), class_="scroll")


def worst_first(incidents: Sequence[Body]) -> list[Body]:
    """Errors before warnings before notes; in each the latest first."""
    return sorted(incidents, key=lambda one: SEVERITIES.index(severity(one)))


def diagnosis(incident: Body, now: float, lang: str) -> Html:
    """All that is known of one incident."""
    level, over = severity(incident), incident.get("closed") is not None
    state = word("closed_at", lang) + " " + clock(incident["closed"], now) if over else word("still", lang)
    meta = [
        tag("span", word(level, lang), class_=f"chip {level}"), tag("code", str(incident.get("slug") or "")),
        tag("span", str(incident.get("subject") or where(incident, lang))),
        tag("span", f"{word('opened', lang)} {clock(incident['opened'], now)}"), tag("span", state),
        tag("span", f"{word('lasted', lang)} {lasted(incident, now, lang)}"),
        tag("span", _sure(incident, lang)), tag("span", word("event" if incident.get("kind") == "event" else "condition", lang)),
    ]  # fmt: skip
    if incident.get("flapping"):
        meta.append(tag("span", word("flapping", lang), class_="amber"))
    if ack := incident.get("ack"):
        note = f": {ack['note']}" if ack.get("note") else ""
        meta.append(tag("span", word("acknowledged", lang, when=clock(ack.get("t"), now)) + note, class_="green"))
    inner = [tag("h1", title(incident, lang)), tag("div", *meta, class_="meta")]
    if why := part(incident, "why", lang):
        inner += [tag("h2", word("why", lang)), tag("p", prose(why))]
    if refs := list(incident.get("refs") or ())[:200]:
        lines = [Html(tag("b", f"{ref.get('source')}:{ref.get('line')}  ") + tag("span", str(ref.get("quote")))) for ref in refs]
        inner += [tag("h2", word("grounds", lang)), tag("pre", join(lines, "\n"), class_="evidence", tabindex="0")]
    if fix := part(incident, "fix", lang):
        inner += [tag("h2", word("remedy", lang)), tag("p", prose(fix))]
    if commands := list(incident.get("commands") or ())[:50]:
        inner.append(tag("div", *(command(one, lang) for one in commands), class_="commands"))
    if see := [str(url) for url in incident.get("see") or () if str(url).startswith("https://")]:
        links = [tag("li", tag("a", url, href=url, rel="noopener noreferrer", target="_blank")) for url in see]
        inner += [tag("h2", word("sources", lang)), tag("ul", *links)]
    gpu = incident.get("gpu")
    if isinstance(gpu, int):
        ago = now - float(incident["opened"])
        wide = next((name for name, most in (("1h", 3000), ("6h", 18_000), ("24h", 72_000), ("7d", 500_000)) if ago < most), "30d")
        inner.append(tag("p", tag("a", f"{word('history_of', lang)}: GPU {gpu}", href=f"/history?range={wide}&gpu={gpu}")))
    return tag("article", *inner, class_=f"panel diagnosis {'over' if over else level}")


def _sure(incident: Mapping[str, Any], lang: str) -> str:
    from ongpu.model import Certainty
    from ongpu.report.words import certainty

    told = str(incident.get("certainty") or "").upper()
    return certainty(Certainty[told], lang) if told in Certainty.__members__ else ""


def command(one: Mapping[str, Any], lang: str) -> Html:
    """A command with its risk, and a button that copies it."""
    risk = str(one.get("risk") or "")
    kind = {"safe": "green", "disruptive": "amber", "destructive": "red"}.get(risk, "soft")
    told = word(f"risk_{risk}", lang) if risk in ("safe", "disruptive", "destructive") else risk
    text = str(one.get("run") or "")
    label = f"{word('copy', lang)}: {text}"
    copy = tag("button", word("copy", lang), type_="button", data_copy=text, data_done=word("copied", lang), aria_label=label)
    return tag("div", tag("code", text), tag("span", told, class_=f"chip {kind}"), copy, class_="command")


def events(rows: Sequence[Body], now: float, lang: str) -> Html:
    """What happened at single moments."""
    told = [tag("tr", tag("td", clock(one["t"], now), class_="nowrap"), tag("td", event_text(one, lang), class_="wide")) for one in rows]
    if not told:
        return tag("p", word("no_events", lang), class_="soft")
    return tag("div", tag("table", tag("tbody", *told), class_="rows first-small"), class_="scroll tall", tabindex="0")


def event_text(one: Mapping[str, Any], lang: str) -> str:
    """What an event says: its words in this language, its text, or all that it holds."""
    told = one.get(lang) or one.get("text") or one.get("en")
    return str(told) if told else " ".join(f"{key}={value}" for key, value in one.items() if key not in ("id", "t"))
