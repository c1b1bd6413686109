"""The first page: every GPU as it is now, and what is wrong with it."""

from collections.abc import Mapping, Sequence

from ongpu.report.top import words as top
from ongpu.store import Point
from ongpu.watch.alerts import NEVER
from ongpu.watch.state import OK, GpuState
from ongpu.watch.web import figures
from ongpu.watch.web.markup import Html, prose, tag
from ongpu.watch.web.reading import View
from ongpu.watch.web.words import clock, span, word

SPARK = 600.0  # seconds that a card's little chart shows
WIDTH, HEIGHT = 240, 40
PROCESSES = 3  # that a card lists
Sparks = Mapping[str, Mapping[str, Sequence[Point]]]  # column -> UUID -> points


def banners(view: View, lang: str) -> Html:
    """What the reader has to know before all else: that nothing is known, that it is old, that NVML is down."""
    found: list[Html] = []
    if view.problem:
        found.append(_banner("error", word("no_store", lang, why=view.problem.zh if lang == "zh" else view.problem.en)))
    elif view.state is None:
        found.append(_banner("warning", word("no_now", lang)))
    elif view.silent:
        found.append(_banner("error", word("silent", lang, age=span(view.age or 0.0, lang))))
    if view.state and not view.silent:
        if not view.state.up:
            reason = top.code(view.state.code, lang) if view.state.code else view.state.reason
            found.append(_banner("error", word("nvml_down", lang, reason=reason), word("nvml_hint", lang)))
        silent = sum(gpu.condition != OK for gpu in view.gpus)
        if view.state.up and silent:
            found.append(_banner("error", word("not_answering", lang, count=silent, all=len(view.gpus))))
        for told in view.verdicts:
            if told.gpu is None and told.severity in ("error", "warning") and view.state.up:
                found.append(_banner(told.severity, told.text(lang)))
    return tag("div", *found, role="alert") if found else Html("")


def _banner(kind: str, *lines: str) -> Html:
    return tag("div", tag("b", prose(lines[0])), " " if lines[1:] else "", *map(prose, lines[1:]), class_=f"banner {kind}")


def tiles(view: View, lang: str) -> Html:
    """The sums over all GPUs; of a GPU that does not answer nothing is added, and nothing is known while the agent is silent."""
    if not view.state or not view.gpus:
        return Html("")
    gpus = [gpu for gpu in view.gpus if gpu.condition == OK] if not view.silent else []
    utils = [value for gpu in gpus if (value := gpu.value("util")) is not None]
    used = [value for gpu in gpus if (value := gpu.value("mem_used")) is not None]
    total = [value for gpu in gpus if (value := figures.whole(gpu, "mem_total")) is not None]
    watts = [value / 1000 for gpu in gpus if (value := gpu.value("power")) is not None]
    count = len(view.incidents)
    driver = word("driver", lang, version=view.state.driver) if view.state.driver else ""
    room = word("of_limit", lang, limit=f"{sum(total) / 1024:.0f} GiB") if total else ""
    missing = len(gpus) < len(view.gpus)
    return tag(
        "div",
        tile(word("gpus_ok", lang), f"{len(gpus)} / {len(view.gpus)}", driver, "alarm" if missing else ""),
        tile(word("mean_busy", lang), f"{sum(utils) / len(utils):.0f} %" if utils else "-"),
        tile(word("memory_used", lang), f"{sum(used) / 1024:.0f} GiB" if used else "-", room),
        tile(word("power_now", lang), f"{sum(watts) / 1000:.2f} kW" if watts else "-"),
        tile(word("open_incidents", lang), tag("a", str(count), href="/incidents"), "", "warn" if count else ""),
        class_="tiles",
    )


def tile(name: str, value: object, more: str = "", kind: str = "") -> Html:
    """One figure in a box."""
    inner = [tag("div", name, class_="name"), tag("div", value, class_="value")]
    return tag("div", *inner, tag("div", more, class_="more") if more else "", class_=f"tile {kind}".strip())


def cards(view: View, sparks: Sparks, lang: str) -> dict[int, Html]:
    """One card a GPU, by index."""
    return {gpu.index: card(view, gpu, sparks, lang) for gpu in view.gpus}


def card(view: View, gpu: GpuState, sparks: Sparks, lang: str) -> Html:
    """One GPU, whatever state it is in. What the agent said before it fell silent is told as unknown."""
    known = gpu.condition == OK and not view.silent
    shown = "unknown" if view.silent else gpu.condition
    verdicts = view.of(gpu) if not view.silent else []
    edge = figures.EDGES.get(shown, "amber")
    if known and verdicts and verdicts[0].severity in ("error", "warning"):
        edge = "red" if verdicts[0].severity == "error" else "amber"
    chip = top.word(shown, lang) if shown in figures.EDGES else shown
    head = tag(
        "header", tag("h2", f"GPU {gpu.index}"), tag("span", top.short(gpu.name, 40), class_="model", title=gpu.name or ""),
        tag("span", chip, class_=f"chip {figures.EDGES.get(shown, 'amber')}"),
    )  # fmt: skip
    inner = [head, _verdict(view, gpu, known, lang)]
    if known:
        inner += [_meters(gpu, lang), _spark(gpu, sparks, lang), _processes(gpu, lang)]
    inner.append(_feet(view, gpu, known, lang))
    return tag("article", *inner, class_=f"gpu {edge}-edge", aria_label=f"GPU {gpu.index}")


def _verdict(view: View, gpu: GpuState, known: bool, lang: str) -> Html:
    if view.silent:
        return Html("")
    told = [one for one in view.of(gpu) if one.slug not in NEVER]  # that somebody is on it, the list of processes says
    lines = [tag("div", one.text(lang), title=f"{one.slug}: {one.text(lang, 'why')}", class_="line") for one in told[:2]]
    if not known:
        why = figures.because(gpu, lang)
        if why:
            lines.insert(0, tag("b", why, class_="line red" if figures.EDGES.get(gpu.condition) == "red" else "line amber"))
        since = tag("span", word("since", lang, when=clock(gpu.since, view.at)), class_="soft")
        return tag("div", *lines, since, class_="verdict")
    if not lines:
        if gpu.processes or gpu.value("util"):
            lines = [tag("span", word("busy_unjudged", lang), class_="soft")]
        elif "processes" in gpu.why:
            lines = [tag("span", top.word("free_hidden", lang, because=top.code(gpu.why["processes"], lang)), class_="soft")]
        else:
            lines = [tag("span", word("free", lang), class_="soft")]
    return tag("div", *lines, class_="verdict")


def _meters(gpu: GpuState, lang: str) -> Html:
    used, total = gpu.value("mem_used"), figures.whole(gpu, "mem_total")
    watts, most = gpu.value("power"), figures.whole(gpu, "power_limit")
    temp, limit = gpu.value("temp"), figures.limit(gpu)
    util = gpu.value("util")
    clock_now, clock_max = gpu.value("sm_clock"), figures.whole(gpu, "sm_clock_max")
    hot = "hot" if limit and temp and temp >= limit else ""
    memory = f"{used / 1024:.1f}" + (f" / {total / 1024:.0f} GiB" if total else " GiB") if used is not None else None
    degrees = f"{temp} °C" if limit is None else f"{temp} / {limit} °C"
    power = f"{watts / 1000:.0f}" + (f" / {most / 1000:.0f} W" if most else " W") if watts is not None else None
    rows = [
        _meter(gpu, "util", None if util is None else f"{util} %", figures.share(util, 100), lang),
        _meter(gpu, "mem_used", memory, figures.share(used, total), lang, "mem"),
        _meter(gpu, "temp", None if temp is None else degrees, figures.share(temp, limit or 100), lang, hot),
        _meter(gpu, "power", power, figures.share(watts, most), lang),
        _meter(gpu, "sm_clock", None if clock_now is None else f"{clock_now} MHz", figures.share(clock_now, clock_max), lang),
    ]
    return tag("div", *rows, class_="meters")


def _meter(gpu: GpuState, column: str, figure: str | None, part: float | None, lang: str, kind: str = "") -> Html:
    name = tag("span", word(column, lang), class_="name")
    if figure is None:
        why = figures.untold(gpu, column, lang)
        return Html(name + tag("span", class_="bar none") + tag("span", why, class_="figure soft"))
    bar = tag("i", style=f"width:{part * 100:.0f}%") if part is not None else ""
    return Html(name + tag("span", bar, class_=f"bar {kind}".strip()) + tag("span", figure, class_="figure"))


def _spark(gpu: GpuState, sparks: Sparks, lang: str) -> Html:
    """Utilisation and memory of the last ten minutes; nothing is drawn where nothing is known."""
    total = figures.whole(gpu, "mem_total")
    lines = []
    for column, kind, most in (("util", "u", 100), ("mem_used", "m", total)):
        points = sparks.get(column, {}).get(gpu.uuid or "", ())
        lines += [tag("polyline", class_=kind, points=path) for path in polylines(points, most)] if most else []
    label = f"{word('util', lang)}, {word('mem_used', lang)}: {word('ten_minutes', lang)}"
    view = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", tag("title", label), *lines, class_="spark", viewBox=view, preserveAspectRatio="none", role="img", aria_label=label)


def polylines(points: Sequence[Point], most: float) -> list[str]:
    """The `points` of SVG polylines over the last SPARK seconds, one for each stretch without a gap. Empty where there are no points."""
    if not points:
        return []
    end = points[-1].t
    found: list[list[str]] = [[]]
    for point in points:
        if point.avg is None:
            found.append([])
            continue
        x = WIDTH * (1 - (end - point.t) / SPARK)
        y = HEIGHT - 2 - (HEIGHT - 4) * min(max(point.avg / most, 0.0), 1.0)
        found[-1].append(f"{x:.1f},{y:.1f}")
    return [" ".join(line) for line in found if len(line) > 1]


def _processes(gpu: GpuState, lang: str) -> Html:
    if "processes" in gpu.why:
        what = word("because", lang, what=word("processes", lang), why=top.code(gpu.why["processes"], lang))
        return tag("p", word("not_told_why", lang, what=what), class_="small soft")
    biggest = sorted(gpu.processes, key=lambda one: -(one.mem or 0))
    rows = []
    for one in biggest[:PROCESSES]:
        user = one.host.get("user") or one.host.get("uid")
        command = one.host.get("command") if one.host else word("invisible", lang)
        job = one.host.get("job") or one.host.get("container")
        rows.append(tag(
            "li", tag("b", str(user) if user is not None else "?"),
            tag("span", " ".join(filter(None, [job, command])) or "-", class_="what", title=command or ""),
            tag("span", top.size(one.mem), class_="nowrap"),
        ))  # fmt: skip
    if len(biggest) > PROCESSES:
        rows.append(tag("li", word("more", lang, count=len(biggest) - PROCESSES), class_="soft"))
    return tag("ul", *rows, class_="procs", aria_label=word("processes", lang)) if rows else Html("")


def _feet(view: View, gpu: GpuState, known: bool, lang: str) -> Html:
    """What else is to be known: why the clocks are held down, Xids, what is not told."""
    told: list[Html] = []
    if known:
        if why := figures.held(gpu, lang):
            told.append(tag("b", word("held_down", lang, why=("、" if lang == "zh" else ", ").join(why)), class_="amber"))
        margin = figures.whole(gpu, "temp_margin")
        if margin is not None and figures.limit(gpu) is None:
            told.append(tag("span", word("margin_left", lang, degrees=margin), class_="soft" if margin > 0 else "red"))
        if ecc := gpu.value("ecc"):
            told.append(tag("b", word("ecc_seen", lang, count=ecc), class_="red"))
        width, most = figures.whole(gpu, "pcie_width"), figures.whole(gpu, "pcie_width_max")
        gen = figures.whole(gpu, "pcie_gen")
        if width is not None and gen is not None:
            narrow = most is not None and 0 < width < most
            told.append(tag("span", word("pcie_link", lang, gen=gen, width=width), class_="amber" if narrow else "soft"))
        if untold := [column for column in ("energy", "ecc", "reasons") if column in gpu.why]:
            reasons = (word("because", lang, what=word(one, lang), why=figures.untold(gpu, one, lang)) for one in untold)
            told.append(tag("span", word("not_told_why", lang, what=("、" if lang == "zh" else ", ").join(reasons))))
    elif gpu.seen:
        told.append(tag("span", word("last_seen", lang, when=clock(gpu.seen, view.at))))
    if gpu.xids:
        codes = ", ".join(f"{code} × {count}" if count > 1 else str(code) for code, count in sorted(gpu.xids.items()))
        told.append(tag("span", word("xids", lang, codes=codes), class_="amber"))
    between = tag("span", " · ", class_="soft")
    return tag("div", *[part for one in told for part in (between, one)][1:], class_="feet")
