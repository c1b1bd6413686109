"""A simulated fleet of 100 nodes: what a newcomer sees without one. Thirty nodes lost a GPU to loose power cables."""

from collections.abc import Callable, Iterator
from typing import Any

from ongpu.model import Evidence
from ongpu.watch.fleet import evidence

NODES, CARDS = 100, 8
DRIVER, KERNEL, MODEL = "550.127.08", "5.15.0-113-generic", "NVIDIA H100 80GB HBM3"


def fleet(title: Callable[[str], str]) -> Evidence:
    """The nodes as evidence. title: slug -> its words. Deterministic."""
    return evidence(_nodes(title), "simulated fleet")


def _nodes(title: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    for number in range(1, NODES + 1):
        name = f"gpu{number:03}"
        node: dict[str, Any] = {"name": name, "expected": CARDS}
        if number == 58:
            yield {**node, "answered": False, "problem": "timed out after 20 s"}
            continue
        faults, present = [], CARDS
        if number % 10 in (2, 5, 9):  # 30 of them; the driver of five names the cause
            slug = "power-cable-missing" if number % 20 == 5 else "gpu-fell-off-bus"
            faults, present = [(slug, number * 7 % CARDS, "error")], CARDS - 1
        elif number in (31, 77):
            faults = [("thermal-throttle", 6, "warning")]
        yield {
            **node, "answered": True, "present": present, "driver": DRIVER, "kernel": KERNEL, "model": MODEL,
            "busy": float(38 + number * 13 % 60), "hottest": 61 + number * 5 % 14 + (16 if faults and present == CARDS else 0),
            "idle_hours": float(number * 37 % 211),
            "lost": [gpu for slug, gpu, _ in faults if slug != "thermal-throttle"],
            "faults": [{"slug": slug, "gpu": gpu, "severity": severity, "title": title(slug)} for slug, gpu, severity in faults],
        }  # fmt: skip
