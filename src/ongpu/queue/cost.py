"""What jobs cost: GPU hours, energy and money, by job, user or project. Pure: runs that ended and prices in, sums out.

A price is per GPU hour (by a part of the model's name), per kWh, or both: then they are added. What was not told (energy of a card that
does not count it, a model without a price) is kept as "not told", and never counts as nothing: the sums say how much they leave out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ongpu.lazy import dataclass

if TYPE_CHECKING:
    from ongpu.queue.config import Cost
    from ongpu.queue.job import Told

JOULES = 3.6e6  # of one kWh
BY = ("job", "user", "project")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A sum over runs. hours: GPU hours; wasted: those of runs that did not end well; kwh: as far as told, of `metered` of the hours;
    money: as far as priced, None where nothing has a price; unpriced: GPU hours of which a part of the price is not known."""

    jobs: int = 0
    runs: int = 0
    hours: float = 0.0
    wasted: float = 0.0
    busy: float = 0.0  # GPU hours in which the GPUs worked, as far as told
    watched: float = 0.0  # GPU hours of which that is known
    kwh: float = 0.0
    metered: float = 0.0
    money: float | None = None
    unpriced: float = 0.0

    def plus(self, other: "Bill") -> "Bill":
        """Both."""
        money = None if self.money is None and other.money is None else (self.money or 0.0) + (other.money or 0.0)
        return Bill(
            jobs=self.jobs + other.jobs, runs=self.runs + other.runs, hours=self.hours + other.hours, wasted=self.wasted + other.wasted,
            busy=self.busy + other.busy, watched=self.watched + other.watched, kwh=self.kwh + other.kwh,
            metered=self.metered + other.metered, money=money, unpriced=self.unpriced + other.unpriced,
        )  # fmt: skip


def price(model: str, prices: "Cost") -> float | None:
    """Of one GPU hour; None: not told. The longest name that is a part of the model's counts, "" is for all others."""
    low = model.lower()
    fitting = [name for name in prices.gpu_hour if name and name.lower() in low]
    name = max(fitting, key=lambda name: (len(name), name), default="")
    return prices.gpu_hour.get(name)


def charge(run: "Told", prices: "Cost", models: Mapping[str, str]) -> Bill:
    """One run. models: UUID -> name; of several unlike GPUs the hours are shared equally."""
    hours = max(run.attained, 0.0) / 3600
    each = [price(models.get(gpu, ""), prices) for gpu in run.gpus] or [prices.gpu_hour.get("")]
    known = [one for one in each if one is not None]
    rent = hours * sum(known) / len(each) if known else None
    kwh = None if run.energy is None or run.energy < 0 else run.energy / JOULES
    power = None if kwh is None or prices.kwh is None else kwh * prices.kwh
    told = [one for one in (rent, power) if one is not None]
    rentless = hours * (len(each) - len(known)) / len(each) if prices.gpu_hour else 0.0
    powerless = hours if prices.kwh is not None and kwh is None else 0.0
    left_out = max(rentless, powerless) if prices.gpu_hour or prices.kwh is not None else hours
    return Bill(
        jobs=1, runs=1, hours=hours, wasted=0.0 if run.ending in ("ok", "preempted") else hours,
        busy=hours * run.busy if run.busy is not None else 0.0, watched=hours if run.busy is not None else 0.0,
        kwh=kwh or 0.0, metered=hours if kwh is not None else 0.0, money=sum(told) if told else None, unpriced=left_out,
    )  # fmt: skip


def bills(history: Iterable["Told"], prices: "Cost", models: Mapping[str, str], by: str = "user") -> dict[str, Bill]:
    """The sums, the dearest first. history: runs that ended, as Book.history gives them. by: of BY; "" is a job without a project."""
    found: dict[str, Bill] = {}
    seen: set[str] = set()
    for run in history:
        key = {"job": run.id, "user": run.user, "project": run.spec.project}[by]
        one = charge(run, prices, models)
        if run.id in seen:  # another run of the same job
            one = Bill().plus(one).plus(Bill(jobs=-1))
        seen.add(run.id)
        found[key] = found.get(key, Bill()).plus(one)
    return dict(sorted(found.items(), key=lambda item: (-(item[1].money or 0.0), -item[1].hours, item[0])))


def total(found: Mapping[str, Bill]) -> Bill:
    """All of them."""
    whole = Bill()
    for one in found.values():
        whole = whole.plus(one)
    return whole


HEADS: Mapping[str, tuple[str, str]] = {
    "job": ("job", "作业"), "user": ("user", "用户"), "project": ("project", "项目"), "jobs": ("jobs", "作业数"),
    "hours": ("GPU h", "GPU 小时"), "busy": ("busy", "繁忙"), "wasted": ("lost", "白费"), "kwh": ("kWh", "kWh"), "all": ("all", "合计"),
}  # fmt: skip


def table(found: Mapping[str, Bill], by: str, currency: str, lang: str) -> list[tuple[str, ...]]:
    """The sums as rows of cells, a heading first and all of them last; "-" stands for what nobody told, "~" before what is not all."""
    zh = lang == "zh"
    head = tuple(HEADS[name][zh] for name in (by, "jobs", "hours", "busy", "wasted", "kwh"))
    rows = [(*head, currency)]
    rows += [(name or "-", *_cells(bill)) for name, bill in found.items()]
    return [*rows, (HEADS["all"][zh], *_cells(total(found)))] if len(found) > 1 else rows


def _cells(bill: Bill) -> Sequence[str]:
    busy = f"{bill.busy / bill.watched:.0%}" if bill.watched else "-"
    lost = f"{bill.wasted / bill.hours:.0%}" if bill.hours else "-"
    energy = f"{'~' if bill.metered < bill.hours * 0.999 else ''}{fine(bill.kwh, 2)}" if bill.metered else "-"
    money = "-" if bill.money is None else f"{'~' if bill.unpriced > bill.hours * 0.001 else ''}{fine(bill.money, 2)}"
    return str(bill.jobs), fine(bill.hours, 1), busy, lost, energy, money


def fine(amount: float, places: int) -> str:
    """The amount with so many decimal places; a small one with as many as it takes to be seen, to four."""
    if not amount or abs(amount) >= 0.95:
        return f"{amount:.{places}f}"
    return f"{amount:.{max(places, min(4, 1 - math.floor(math.log10(abs(amount)))))}f}"
