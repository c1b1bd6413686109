"""What a notification says, in both languages: one fault on one or many GPUs, with its cause and its repair."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from ongpu.model import Severity
from ongpu.report.layout import width_of, wrap
from ongpu.watch.alerts import alert

What = Literal["opened", "worse", "repeat", "closed"]
MOST_LISTED, MOST_COMMANDS, MOST_REFS = 16, 6, 3
KINDS = {"critical": "failure", "warning": "warning", "info": "info"}  # as Apprise names them
_WORDS = {
    "critical": ("critical", "严重"), "warning": ("warning", "警告"), "info": ("note", "提示"),
    "closed": ("resolved", "已恢复"), "repeat": ("still", "仍未恢复"), "worse": ("worse", "加重"),
    "flaps": ("comes and goes: {n} times within 10 minutes; told again when it has been quiet", "反复出现：10 分钟内 {n} 次；平静后再通知"),
    "more": ("... and {n} more", "……另有 {n} 项"),
    "fix": ("Fix: ", "修复："), "seen": ("Seen: ", "证据："), "since": ("since {t}", "开始于 {t}"), "lasted": ("lasted {t}", "持续 {t}"),
    "test": ("ongpu watch: this is a test", "ongpu watch：这是一条测试消息"),
    "tested": ("Messages about the GPUs of {host} will come this way.", "{host} 的 GPU 通知会发到这里。"),
}  # fmt: skip
_RISKS = {"safe": ("safe", "安全"), "disruptive": ("disruptive", "会中断服务"), "destructive": ("destructive", "会删除内容")}
Body = Mapping[str, Any]


def _say(name: str, lang: str, **values: object) -> str:
    return _WORDS[name][lang == "zh"].format(**values)


def test(host: str, lang: str) -> dict[str, str]:
    """What `ongpu watch --test-notify` sends."""
    return {"title": _say("test", lang), "body": _say("tested", lang, host=host), "kind": "info"}


def message(what: What, incidents: Sequence[Body], host: str, lang: str) -> dict[str, str]:
    """{"title", "body", "kind"} of incidents of one slug to which the same happened."""
    first = incidents[0]
    row = alert(first["slug"], Severity[first["severity"].upper()])
    name = _title(first, lang) if row.en == first["slug"] else row.zh if lang == "zh" else row.en
    urgent = _say(first["label"], lang)
    state = urgent if what == "opened" else _say(what, lang) if what == "closed" else f"{_say(what, lang)}, {urgent}"
    places = [place for one in incidents if (place := _place(one))]
    subject = ", ".join(places[:MOST_LISTED]) + ("" if len(places) <= MOST_LISTED else f" +{len(places) - MOST_LISTED}")
    colon = "：" if lang == "zh" else ": "
    title = f"[{state}] {host}{colon}{subject + colon if subject else ''}{name}"
    body = _ended(incidents, lang) if what == "closed" else _told(first, incidents, lang)
    return {"title": title, "body": "\n".join(body), "kind": "success" if what == "closed" else KINDS[first["label"]]}


def line(what: str, incident: Body, lang: str) -> str:
    """One line for the terminal: when, what, where, the fault."""
    at = incident["closed"] if what == "closed" else incident["opened"]
    state = _say("closed" if what == "closed" else incident["label"], lang)
    where = f"{_place(incident)}  " if _place(incident) else ""
    pad = " " * (9 - width_of(state))
    return f"{_time(at)[:19]}  {state}{pad} {where}{incident['slug']}: {_title(incident, lang)}"


def wrapped(text: str, width: int, since: str = "") -> str:
    """The text in lines of at most `width` columns; what is indented (commands, quotes) stays whole, to be copied.

    since: the word before which nothing is broken: the columns of a list; the lines after the first are then indented.
    """
    lines: list[str] = []
    for row in text.split("\n"):
        if width_of(row) <= width or (row.startswith("  ") and not since):
            lines.append(row)
            continue
        fixed, hang = row[: max(row.find(since), 0)], "         " if since else ""
        taken = width_of(fixed)
        first, *rest = wrap("x" * taken + row[len(fixed) :], width - len(hang))
        lines += [fixed + first[taken:], *(hang + one for one in rest)]
    return "\n".join(lines)


def _place(incident: Body) -> str:
    return "" if incident.get("gpu") is None else f"GPU {incident['gpu']}"


def _words(incident: Body, lang: str) -> Body:
    words = incident.get("words") or {}
    found: Body = words.get(lang) or words.get("en") or {}
    return found


def _title(incident: Body, lang: str) -> str:
    return str(_words(incident, lang).get("title") or incident["slug"])


def _told(first: Body, incidents: Sequence[Body], lang: str) -> list[str]:
    """The fault on each GPU, then once why and what to do."""
    titles = list(dict.fromkeys(_title(one, lang) for one in incidents))
    lines = titles[:MOST_LISTED]
    if len(titles) > MOST_LISTED:
        lines.append(_say("more", lang, n=len(titles) - MOST_LISTED))
    words = _words(first, lang)
    if flaps := max(one.get("flapping") or 0 for one in incidents):
        lines.append(_say("flaps", lang, n=flaps))
    if words.get("why"):
        lines += ["", words["why"]]
    if words.get("fix"):
        lines += ["", _say("fix", lang) + words["fix"]]
    for command in list(first.get("commands") or ())[:MOST_COMMANDS]:
        risk = _RISKS.get(command.get("risk", ""), ("?", "?"))[lang == "zh"]
        lines.append(f"  $ {command.get('run')}   [{risk}]")
    refs = [f"  {ref.get('quote')}" for one in incidents for ref in list(one.get("refs") or ())[:MOST_REFS]][: 2 * MOST_REFS]
    if refs:
        lines += ["", _say("seen", lang), *dict.fromkeys(refs)]
    return [*lines, "", f"{first['slug']}, {_say('since', lang, t=_time(min(one['opened'] for one in incidents)))}"]


def _ended(incidents: Sequence[Body], lang: str) -> list[str]:
    lines = []
    for one in incidents[:MOST_LISTED]:
        lasted = max((one.get("closed") or one["opened"]) - one["opened"], 0.0)
        lines.append(f"{_title(one, lang)} ({_say('lasted', lang, t=_span(lasted))})")
    if len(incidents) > MOST_LISTED:
        lines.append(_say("more", lang, n=len(incidents) - MOST_LISTED))
    return lines


def _time(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def _span(seconds: float) -> str:
    """As people say it: 12 s, 5 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
