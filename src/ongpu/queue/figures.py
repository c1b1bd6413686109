"""What a simulation is judged by: completion times, waiting, fragments, fairness."""

import math
from collections.abc import Mapping, Sequence

from ongpu.queue.simulate import Result, Task

HOUR = 3600.0


def share(values: Sequence[float], part: float) -> float:
    """The value below which that part of sorted values lies; 0 of none."""
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0.0


def figures(result: Result, tasks: Sequence[Task]) -> dict[str, float]:
    """The figures of one policy; times in hours.

    fair: Jain's index of the users' mean slowdown (time / duration, below ten minutes counted as ten): 1 is even, 1/n is one user's.
    """
    times = sorted(time / HOUR for time in result.times.values())
    count = max(1, len(times))
    slow: dict[str, list[float]] = {}
    for task in tasks:
        if task.id in result.times:
            slow.setdefault(task.user, []).append(result.times[task.id] / max(600.0, task.duration))
    means = [sum(values) / len(values) for values in slow.values()]
    squares = sum(value * value for value in means)
    return {
        "jobs": len(times),
        "mean": sum(times) / count,
        "p50": share(times, 0.5),
        "p90": share(times, 0.9),
        "p99": share(times, 0.99),
        "worst": times[-1] if times else 0.0,
        "wait": sum(result.waits.values()) / HOUR / count,
        "busy": result.busy,
        "scattered": result.scattered,
        "fair": sum(means) ** 2 / (len(means) * squares) if squares else 1.0,
        "preemptions": result.preemptions,
        "failures": result.failures,
        "idle": result.idle,
        "kept": result.kept,
        "on_fault": result.on_fault,
        "never": len(result.lost),
    }


def geometric(values: Sequence[float]) -> float:
    """The geometric mean of values above 0."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def drawing(times: Mapping[str, Sequence[float]], title: str, axis: str) -> str:
    """An SVG: for each policy the part of the jobs that ended within so many hours (logarithmic). No library: five shapes need none."""
    colours = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")  # Paul Tol's bright scheme
    width, height, left, bottom = 720, 420, 56, 48
    low, high = -2.0, max([1.0, *(math.log10(max(values)) for values in times.values() if values and max(values) > 0)])

    def x(hours: float) -> float:
        return left + (max(low, math.log10(max(hours, 1e-9))) - low) / (high - low) * (width - left - 130)

    def y(part: float) -> float:
        return 30 + (1 - part) * (height - 30 - bottom)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/><text x="{left}" y="18" font-size="14">{_safe(title)}</text>',
    ]
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = x(10.0**power)
        out.append(f'<path d="M{at:.1f} 30V{height - bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{height - bottom + 16}" text-anchor="middle">{10.0**power:g}</text>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<path d="M{left} {y(part):.1f}H{width - 130}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(part) + 4:.1f}" text-anchor="end">{part:.0%}</text>')
    out.append(f'<text x="{(left + width - 130) / 2}" y="{height - 10}" text-anchor="middle">{_safe(axis)}</text>')
    for number, (name, values) in enumerate(times.items()):
        ordered, colour = sorted(values), colours[number % len(colours)]
        points = " ".join(f"{x(share(ordered, step / 200)):.1f},{y(step / 200):.1f}" for step in range(201)) if ordered else ""
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{width - 120}" y="{44 + 18 * number}" fill="{colour}">{_safe(name)}</text>')
    return "\n".join([*out, "</svg>\n"])


def _safe(text: str) -> str:
    text = "".join(mark if mark.isprintable() else "?" for mark in text)  # a file may be called anything, and XML takes not all of it
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
