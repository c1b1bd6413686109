"""Who uses the GPUs, how well, and what it costs."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from ongpu.report.top import words as top
from ongpu.store import Gpu, Used
from ongpu.watch.alerts import NEVER
from ongpu.watch.state import OK
from ongpu.watch.web import figures
from ongpu.watch.web.markup import Html, tag
from ongpu.watch.web.pages.now import tile
from ongpu.watch.web.reading import View
from ongpu.watch.web.words import word

BY = ("user", "job", "command", "gpu")
SPANS = ("24h", "7d", "30d")
ROWS = 200  # that a table shows
BARS = 12  # that a chart shows
PROCESSES = 500
CSV = (
    "state", "gpu_hours", "busy_share", "held_idle_hours", "held_idle_cost", "energy_kwh", "energy_estimated_kwh", "cost",
    "memory_peak_mib",
)  # fmt: skip


def called(row: Used, by: str, gpus: Sequence[Gpu], lang: str) -> str:
    """What a row is called; who is not known is told as such."""
    if row.state == 0:
        return word("nobody", lang)
    if row.state == -1:
        return word("unknown_who", lang)
    if by == "gpu":
        return next((f"GPU {gpu.place} ({top.short(gpu.name, 30)})" for gpu in gpus if gpu.uuid == row.name), str(row.name))
    if row.name is None:
        return word("no_job" if by == "job" else "invisible", lang)
    return row.name


def idle_cost(row: Used, price_gpu_hour: float | None) -> float | None:
    """What the hours cost in which it held a GPU and did nothing; without a price of an hour, nothing is known."""
    return None if price_gpu_hour is None or row.held_idle_seconds is None else row.held_idle_seconds / 3600 * price_gpu_hour


def held(rows: Sequence[Used]) -> list[Used]:
    """Those that held a GPU."""
    return [row for row in rows if row.state == 1]


def total(rows: Sequence[Used], name: str) -> float | None:
    """The sum of a figure; None where no row tells it."""
    told = [value for row in rows if (value := getattr(row, name)) is not None]
    return sum(told) if told else None


def tiles(rows: Sequence[Used], price_gpu_hour: float | None, currency: str, lang: str) -> Html:
    """The sums, what lies idle first."""
    mine = held(rows)
    hours, idle = total(mine, "gpu_seconds"), total(mine, "held_idle_seconds")
    busy, joules, cost = total(mine, "busy_seconds"), total(mine, "energy_j"), total(mine, "cost")
    part = figures.share(idle, hours)
    lost = None if price_gpu_hour is None or idle is None else idle / 3600 * price_gpu_hour
    more = word("of_all", lang, share=figures.percent(part)) if part is not None else ""
    kind = "alarm" if part is not None and part >= 0.2 else "warn" if part is not None and part >= 0.05 else ""
    return tag(
        "div",
        tile(word("idle_big", lang), "-" if idle is None else f"{figures.number(idle / 3600)} h", more, kind),
        tile(word("idle_what", lang), _amount(lost, currency), word("no_price", lang) if lost is None else "", kind if lost else ""),
        tile(word("gpu_hours", lang), "-" if hours is None else f"{figures.number(hours / 3600)} h"),
        tile(word("busy_share", lang), figures.percent(figures.share(busy, hours))),
        tile(word("energy", lang), "-" if joules is None else f"{figures.number(joules / 3.6e6)} kWh"),
        tile(word("cost", lang), _amount(cost, currency), word("no_price", lang) if cost is None else ""),
        class_="tiles",
    )


def _amount(value: float | None, currency: str) -> str:
    return figures.money(value, currency, 0 if (value or 0.0) >= 1000 else 2)


def bars(rows: Sequence[Used], by: str, gpus: Sequence[Gpu], lang: str) -> list[tuple[str, float | None, float | None, float]]:
    """Name, busy, idle and all hours of the biggest, as `charts.use_chart` takes them."""

    def hours(seconds: float | None) -> float | None:
        return None if seconds is None else seconds / 3600

    return [
        (called(row, by, gpus, lang)[:60], hours(row.busy_seconds), hours(row.held_idle_seconds), row.gpu_seconds / 3600)
        for row in held(rows)[:BARS]
    ]


def table(rows: Sequence[Used], by: str, gpus: Sequence[Gpu], price_gpu_hour: float | None, currency: str, lang: str) -> Html:
    """One row for each, the most GPU time first."""
    rows = [row for row in rows if row.state == 1 or row.gpu_seconds >= 60]  # nobody cares who held nothing for some seconds
    if not rows:
        return tag("p", word("no_work", lang), class_="soft")
    names = (by, "gpu_hours", "busy_share", "idle_hours", "idle_cost", "energy_kwh", "cost")
    unit = {"idle_cost": f" {currency}", "cost": f" {currency}"}
    head = tag("tr", *(tag("th", word(name, lang) + unit.get(name, ""), class_="" if name == by else "n") for name in names))
    body = [_row(row, called(row, by, gpus, lang), price_gpu_hour) for row in rows[:ROWS]]
    cut = tag("p", word("table_cut", lang, count=ROWS), class_="small soft") if len(rows) > ROWS else ""
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), class_="rows"), cut, class_="scroll")


def _row(row: Used, name: str, price_gpu_hour: float | None) -> Html:
    nobody = row.state == 0
    busy = None if nobody else figures.share(row.busy_seconds, row.gpu_seconds)
    idle = None if nobody or row.held_idle_seconds is None else row.held_idle_seconds / 3600
    kwh = None if row.energy_j is None else row.energy_j / 3.6e6
    meter = tag("span", tag("i", style=f"width:{busy * 100:.0f}%"), class_="bar") if busy is not None else ""
    idle_part = figures.share(row.held_idle_seconds, row.gpu_seconds) if not nobody else None
    return tag(
        "tr", tag("td", name, class_="cut" + (" soft" if row.state != 1 or row.name is None else ""), title=name),
        tag("td", figures.number(row.gpu_seconds / 3600), class_="n"), tag("td", figures.percent(busy), meter, class_="n"),
        tag("td", figures.number(idle), class_="n" + (" red" if idle_part is not None and idle_part >= 0.5 else "")),
        tag("td", figures.money(None if nobody else idle_cost(row, price_gpu_hour)), class_="n"),
        tag("td", figures.number(kwh, 2), class_="n"), tag("td", figures.money(None if nobody else row.cost), class_="n"),
    )  # fmt: skip


def processes(view: View, lang: str) -> Html:
    """What runs on the GPUs now, with what the rules say of the GPU."""
    rows = []
    for gpu in view.gpus:
        if gpu.condition != OK or view.silent:
            continue
        verdict = next((one for one in view.of(gpu) if one.slug not in NEVER), None)
        kind = "soft" if verdict and verdict.severity == "note" else "amber"
        said = tag("div", verdict.text(lang), class_=f"small {kind} wide") if verdict else ""
        for one in sorted(gpu.processes, key=lambda p: -(p.mem or 0)):
            host, user = one.host, one.host.get("user", one.host.get("uid"))
            job = host.get("job") or host.get("container") or ""
            command = str(host.get("command") or "-") if host else word("invisible", lang)
            rows.append(tag(
                "tr", tag("td", str(gpu.index), class_="n"), tag("td", str(one.pid), class_="n"),
                tag("td", "-" if user is None else str(user)),
                tag("td", tag("div", command, class_="cut", title=command), said), tag("td", str(job), class_="nowrap"),
                tag("td", top.size(one.mem), class_="n"),
                tag("td", "-" if one.sm is None else f"{one.sm} %", class_="n"), tag("td", figures.number(one.cpu_share), class_="n"),
                tag("td", top.size(host.get("rss")), class_="n"),
            ))  # fmt: skip
    if not rows:
        return tag("p", word("no_process", lang), class_="soft")
    names = ("gpu", "pid", "user", "command", "job", "memory", "sm", "cpu", "host_mem")
    right = ("gpu", "pid", "memory", "sm", "cpu", "host_mem")
    head = tag("tr", *(tag("th", word(name, lang), class_="n" if name in right else "") for name in names))
    more = tag("p", word("more", lang, count=len(rows) - PROCESSES), class_="small soft") if len(rows) > PROCESSES else ""
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows[:PROCESSES]), class_="rows"), more, class_="scroll")


def as_csv(rows: Sequence[Used], by: str, price_gpu_hour: float | None) -> str:
    """The rows as CSV; an empty cell is what is not known. A name that a spreadsheet would run as a formula gets a quote before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow((by, *CSV))
    for row in rows:
        cells: list[Any] = [
            _tame(row.name or ""), {1: "held", 0: "free"}.get(row.state, "unknown"), round(row.gpu_seconds / 3600, 4),
            _rounded(figures.share(row.busy_seconds, row.gpu_seconds)), _rounded(row.held_idle_seconds, 3600),
            _rounded(idle_cost(row, price_gpu_hour)),
            _rounded(row.energy_j, 3.6e6), _rounded(row.estimated_j, 3.6e6), _rounded(row.cost), row.memory_mib,
        ]  # fmt: skip
        writer.writerow("" if cell is None else cell for cell in cells)
    return out.getvalue()


def _rounded(value: float | None, by: float = 1.0) -> float | None:
    return None if value is None else round(value / by, 4)


def _tame(name: str) -> str:
    """https://owasp.org/www-community/attacks/CSV_Injection"""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name


def least_busy(rows: Sequence[Used]) -> list[Used]:
    """The jobs that held at least a GPU hour, the one that made least of it first; at most 20."""
    jobs = [row for row in rows if row.state == 1 and row.name is not None and row.gpu_seconds >= 3600 and row.busy_seconds is not None]
    return sorted(jobs, key=lambda row: (row.busy_seconds or 0.0) / row.gpu_seconds)[:20]
