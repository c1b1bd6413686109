"""Figures as the pages show them: with their unit, and "not told" with its reason where nothing is known."""

from typing import Any

from ongpu.report.top import words as top
from ongpu.report.top.view import HELD
from ongpu.watch.state import GpuState
from ongpu.watch.web.words import word

# Of a chart: the column's unit on screen, and what its number is multiplied by to come to it.
SCALES: dict[str, tuple[str, float]] = {
    "util": ("%", 1.0), "mem_used": ("GiB", 1 / 1024), "temp": ("°C", 1.0), "power": ("W", 0.001), "sm_clock": ("MHz", 1.0),
    "mem_clock": ("MHz", 1.0), "mem_util": ("%", 1.0), "fan": ("%", 1.0), "pcie_tx": ("MB/s", 0.001), "pcie_rx": ("MB/s", 0.001),
}  # fmt: skip
EDGES = {"ok": "green", "lost": "red", "hung": "red", "error": "red", "gone": "red", "denied": "amber", "unknown": "amber"}
FOR_USERS = ("util", "mem_used", "temp", "power", "sm_clock", "energy", "ecc")  # whose absence is told on a card


def held(gpu: GpuState, lang: str) -> list[str]:
    """Why the clocks are held down, the most important first; [] where they are not, or that is not told."""
    bits = gpu.value("reasons") or 0
    names = [name for bit, name in HELD if bits & bit and name != "idle"]
    if "hw-slowdown" in names and {"power-brake", "heat-hw"} & {*names}:
        names.remove("hw-slowdown")
    return [top.word(name, lang) for name in names]


def condition(gpu: GpuState, lang: str) -> str:
    """What state it is in, in a word."""
    return top.word(gpu.condition, lang) if gpu.condition in EDGES else gpu.condition


def because(gpu: GpuState, lang: str) -> str:
    """Why it does not answer; "" where nothing more is known than that."""
    if gpu.condition == "hung":
        told = top.word("hung_why", lang)
        return word("because", lang, what=told, why=gpu.hung_in) if gpu.hung_in else told
    if gpu.condition == "gone":
        return top.word("gone_why", lang)
    return "" if gpu.code is None else top.code(gpu.code, lang)


def untold(gpu: GpuState, column: str, lang: str) -> str:
    """Why a column is not told: in NVML's words, with MIG where that is why."""
    code = gpu.why.get(column)
    if code is None:
        return word("not_told", lang)
    return top.code(code, lang) + (top.word("mig", lang) if gpu.identity.get("mig") and code == 3 else "")


def limit(gpu: GpuState) -> int | None:
    """Degrees Celsius at which the card slows down; None where it tells no such figure (some tell a margin only)."""
    told = gpu.identity.get("temp_limit")
    return told if isinstance(told, int) else None


def whole(gpu: GpuState, name: str) -> int | None:
    """A figure of the GPU's identity."""
    told: Any = gpu.identity.get(name)
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def number(value: float | None, digits: int = 1) -> str:
    """With a thin space between thousands; "-" where it is not known."""
    return "-" if value is None else f"{value:,.{digits}f}".replace(",", "\u2009")


def money(value: float | None, currency: str = "", digits: int = 2) -> str:
    """An amount; "-" where there is no price."""
    return "-" if value is None else f"{number(value, digits)} {currency}".strip()


def share(part: float | None, of: float | None) -> float | None:
    """0 to 1; None where one of both is not known, or there was nothing."""
    return None if part is None or not of else min(max(part / of, 0.0), 1.0)


def percent(value: float | None) -> str:
    """A share as percent."""
    return "-" if value is None else f"{value * 100:.0f} %"
