"""One job wholly: what was asked, where it ran, what it used, why it waits, or what it died of and what helps."""

import shlex
import time
from typing import TYPE_CHECKING

from ongpu.fronts.jobs.table import died_of, gpus_of
from ongpu.fronts.page import Page, cut, folded, left
from ongpu.queue import words
from ongpu.queue.job import HELD, LIVE, OVER, WAITING, Listing, Told, output_of
from ongpu.queue.words import brief, size
from ongpu.report.layout import width_of

if TYPE_CHECKING:
    from ongpu.model import Report
    from ongpu.queue.config import Config
    from ongpu.queue.engines import Engine

TAIL = 64 << 10  # bytes of its output that are judged
LABEL = 10
BY_US = ("timeout", "idle", "preempted", "stopped")  # endings of runs that the queue ended
BEFORE = 5  # earlier runs that are told of


def lines(job: Told, listing: Listing, config: "Config", engine: "Engine", page: Page) -> list[str]:
    """The page."""
    now, zh = time.time(), page.lang == "zh"
    head = f"{page.say('job', '作业')} {job.id}  {words.title(job.spec)}"
    state = words.state(job.state, page.lang)
    if job.started and job.state in LIVE and job.state not in (WAITING, HELD):
        state += page.say(f" for {brief(now - job.started)}", f" {brief(now - job.started)}")
    colour = "red" if job.state in ("failed", "lost") else "green" if job.state == "done" else "bold"
    head = cut(head, max(20, page.width - width_of(state) - 2))
    space = max(2, page.width - width_of(head) - width_of(state))
    found = [page.paint(head, "bold") + " " * space + page.paint(state, colour)]

    def put(english: str, chinese: str, text: str) -> None:
        if text:
            for number, line in enumerate(folded(text, page.width - LABEL - 2) or [""]):
                found.append("  " + page.paint(left(page.say(english, chinese) if not number else "", LABEL), "dim") + line)

    put("command", "命令", words.plain(shlex.join(job.spec.command)))
    put("", "", page.say("(its script as it was when it was submitted)", "（脚本为提交时的内容）") if job.spec.script else "")
    put("in", "目录", words.plain(job.spec.folder))
    put("asked for", "要求", ("，" if zh else ", ").join(words.asked(job.spec, page.lang)))
    for name in ("share", "cpus", "host_memory"):
        if getattr(job.spec, name) and (told := engine.advisory.get(name)):
            put("", "", page.say(f"({told[0]})", f"（{told[1]}）"))
    put("for", "归属", ("，" if zh else ", ").join(filter(None, (job.user, _project(job, zh), _array(job, zh)))))
    put("submitted", "提交", _clock(job.submitted, now, zh) if job.submitted else "")
    for text in _before(job, listing, engine, page):
        put("before", "此前", text)
    put("started", "开始", (_clock(job.started, now, zh) + _attempts(job, zh)) if job.started else "")
    put("ended", "结束", _ended(job, now, page) if job.ended else "")
    put("on", "位置", _where(job, listing, zh) if job.started and (job.gpus or job.node) else "")
    put("used", "用量", _used(job, listing, config, page))
    put("output", "输出", words.plain(output_of(job.spec)) or (f"ongpu logs {job.id}" if job.attempts or job.started else ""))
    if why := _undelivered(job, engine):
        put("notice", "通知", page.say(f"not delivered: {words.plain(why)}", f"未能送达：{words.plain(why)}"))
    if listing.warning:
        found += ["", *(page.paint(line, "yellow") for line in page.below(page.say(*listing.warning), 0, most=4))]
    if job.state in (WAITING, HELD):
        from ongpu.fronts.jobs import when

        reasons = when.reasons(Listing(jobs=(job,), counts={}), engine, page.lang).get(job.id, [])
        found += ["", *(line for text in reasons for line in page.below(text, 2, most=6))]
    elif job.state in OVER and job.code != 0:
        found += _why(job, engine, page)
    elif job.said:
        found += ["", *page.below(words.because(job, page.lang), 2, "yellow", most=4)]
    return found


def _undelivered(job: Told, engine: "Engine") -> str:
    """Why a message about it did not arrive. Only of an engine that sends them."""
    look = getattr(engine, "undelivered", None)
    return str(look(job.id)) if look is not None else ""


def _project(job: Told, zh: bool) -> str:
    return (f"项目 {words.plain(job.spec.project)}" if zh else f"project {words.plain(job.spec.project)}") if job.spec.project else ""


def _array(job: Told, zh: bool) -> str:
    return (f"数组 {job.array}" if zh else f"array {job.array}") if job.array else ""


def _attempts(job: Told, zh: bool) -> str:
    return (f"，第 {job.attempts} 次" if zh else f", attempt {job.attempts}") if job.attempts > 1 else ""


def _before(job: Told, listing: Listing, engine: "Engine", page: Page) -> list[str]:
    """Its earlier runs, the last few: where each ran, and how it ended. Only of an engine that knows of them."""
    if job.attempts < 2 or (runs := getattr(engine, "runs", None)) is None:
        return []
    zh, found = page.lang == "zh", []
    for run in [one for one in runs(job.id) if one.attempts < job.attempts or job.state in (WAITING, HELD)][-BEFORE:]:
        where = f"GPU {gpus_of(run, listing.cards)}" if run.gpus else ""
        took = brief(run.ended - run.started) if run.ended and run.started else ""
        how = words.ending(run, page.lang) + ("" if run.code is None or not run.code else f"，代码 {run.code}" if zh else f", code {run.code}")
        said = [died_of(run, page.lang)] if run.slug else []
        parts = filter(None, (f"第 {run.attempts} 次" if zh else f"attempt {run.attempts}", where, took, how, *said))
        found.append(("；" if zh else "; ").join(parts))
    return found


def _clock(at: float, now: float, zh: bool) -> str:
    told = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    gap = brief(abs(now - at))
    return f"{told}（{gap}{'前' if at <= now else '后'}）" if zh else f"{told} ({gap} ago)" if at <= now else f"{told} (in {gap})"


def _ended(job: Told, now: float, page: Page) -> str:
    zh = page.lang == "zh"
    code = "" if job.code is None else f"，退出码 {job.code}" if zh else f", exit code {job.code}"
    took = brief(job.ended - job.started) if job.ended and job.started else ""
    after = (f"，用时 {took}" if zh else f", after {took}") if took else ""
    return _clock(job.ended or 0.0, now, zh) + after + code


def _where(job: Told, listing: Listing, zh: bool) -> str:
    names = {card.id: card for card in listing.cards}
    if not all(name in names for name in job.gpus):
        return " ".join(filter(None, (job.node, ", ".join(job.gpus))))
    model = {card.name for name in job.gpus if (card := names[name]).name}
    of = f"（{'、'.join(sorted(model))}）" if zh else f" ({', '.join(sorted(model))})"
    return f"GPU {gpus_of(job, listing.cards)}" + (of if model else "")


def _used(job: Told, listing: Listing, config: "Config", page: Page) -> str:
    from ongpu.fronts.jobs import cost

    zh, told = page.lang == "zh", cost.figures(job, listing, config)
    job, parts = cost.sofar(job), []
    if job.attained >= 0.5:  # less would be "0s"
        parts.append(f"GPU 时间 {brief(job.attained)}" if zh else f"{brief(job.attained)} of GPU time")
    if job.busy is not None:
        parts.append(f"繁忙 {job.busy:.0%}" if zh else f"busy {job.busy:.0%}")
    if job.peak is not None:
        parts.append(f"显存峰值 {size(job.peak)}" if zh else f"memory peak {size(job.peak)}")
    if job.energy is not None:
        parts.append(f"{job.energy / 3.6e6:.3g} kWh" if job.energy >= 3.6e5 else f"{job.energy / 3600:.3g} Wh")
    if told.get("cost") is not None:
        parts.append(f"{told['cost']:.2f} {told['currency']}")
    return ("，" if zh else ", ").join(parts)


# --- what it died of


def _why(job: Told, engine: "Engine", page: Page) -> list[str]:
    """The diagnosis: of its last words, judged now by the rules as `ongpu run` does; else what the queue noted when it ended."""
    said = died_of(job, page.lang)
    told = words.ending(job, page.lang)
    found = ["", page.paint(told[0].upper() + told[1:], "red")] if job.ending not in ("", "ok") else [""]
    if job.state == "cancelled":
        return [*found, *(page.below(said, 2) if said != told else ())] if job.ending else []
    output = _tail(job, engine)
    report = _report(job, output)
    if report is not None and report.findings:
        from ongpu.report import as_text

        rendered = as_text.render(report, page.lang, width=page.width, colour=page.colour, links=False).splitlines()
        more = words.because(job, page.lang)  # what no rule knows: which GPU would have been large enough
        if more and more not in " ".join(line.strip() for line in rendered):
            found += page.below(more, 2, most=8)
        return [*found, "", *rendered]
    last = [line for line in output.splitlines() if line.strip()][-5:]
    if said and said != told and (job.slug or not last or said.strip() != last[-1].strip()[:200]):
        found += page.below(said, 2, most=8)
    found += _rule(job, page)
    if not job.slug and last:
        found += ["", "  " + page.paint(page.say("its last words:", "最后的输出："), "dim"), *("    " + cut(_indented(line), page.width - 4) for line in last)]
    return found


def _indented(line: str) -> str:
    """A line of output, harmless, as far to the right as it was."""
    line = line.expandtabs()
    return " " * min(20, len(line) - len(line.lstrip(" "))) + words.plain(line)


def _rule(job: Told, page: Page) -> list[str]:
    """What the rule says of a cause that its output alone does not show: an Xid, a lost GPU."""
    if not job.slug:
        return []
    from ongpu.engine import all_rules

    rule = next((rule for rule in all_rules() if rule.slug == job.slug), None)
    if rule is None:
        return []
    text = rule.zh if page.lang == "zh" else rule.en
    fixed = [part for part in (text.why, text.fix) if part and "{" not in part]
    more = page.say(f"ongpu rules {job.slug}", f"详见：ongpu rules {job.slug}")
    return [line for part in [*fixed, more] for line in page.below(part, 4, most=6)]


def _tail(job: Told, engine: "Engine") -> str:
    """The end of its output; "" where it is not there (any more)."""
    from ongpu.fronts.outputs import end_of
    from ongpu.queue.engines import EngineError

    try:
        return end_of(engine, job.id, TAIL).decode("utf-8", "replace")
    except EngineError:
        return ""


def _report(job: Told, output: str) -> "Report | None":
    """What the rules say of it: the finding that the queue noted, or, where it noted none, what `ongpu run` would tell."""
    if job.ending in BY_US and not job.slug:  # its signal was ours: nothing else killed it
        return None
    if not output.strip() and not (job.code and job.code > 128):
        return None
    from ongpu.lazy import replace
    from ongpu.queue import postmortem
    from ongpu.queue.run import ending

    number = job.code - 128 if job.code and 128 < job.code < 160 else None
    evidence = postmortem.words(output, number, "", False)
    report = postmortem.judged(evidence, words.title(job.spec))
    if job.slug:
        kept = tuple(one for one in report.findings if one.slug == job.slug)
    else:
        kept = ending(job.code or 1, number, (), report, ()).findings
    return replace(report, findings=kept, hidden=(), unknown=(), unread=()) if kept else None
