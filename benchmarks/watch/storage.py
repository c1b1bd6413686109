#!/usr/bin/env python3
"""Measures the history of the watch on a simulated clock: cost of a sample, file size, charts; exit 1 where a limit is missed.

usage: benchmarks/watch/storage.py [--hours 24] [--gpus 64] [--folder DIR] [--json FILE]

It feeds a day of 64 GPUs at 1 Hz, each tick committed as the agent does it, with a rollup and a trim every minute; then six days before
it at one sample in 10 s, so that a week of 10 s and 5 min rows is there; then it asks for a week's charts as the dashboard does.
CPU is this process's; wall times depend on who else uses the machine, so that the limits are on CPU. No GPU is needed, none is used.
"""

import argparse
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ongpu.facts.sample import COLUMNS
from ongpu.store import Keep, Sample, Store, Use

DAY = 86_400
BEGIN = 1_800_000_000.0
LIMITS = {
    "CPU ms a tick (samples)": 2.0,  # 64 GPUs; the whole agent has 5 ms
    "CPU ms a tick (rollups and trims)": 1.0,
    "week of one GPU, CPU ms": 300.0,
    "week of all GPUs, CPU ms": 300.0,
    "week of who used what, CPU ms": 300.0,
    "file, share of max_bytes": 1.0,
    "memory beyond the start, MiB": 30.0,
}


def rows(gpus: int, kinds: int = 61) -> list[dict[int, Sample]]:
    """Ticks as a busy node gives them, to be taken in turn: made beforehand, so that making them is not measured."""
    dice = random.Random(7)
    ticks = []
    for _ in range(kinds):
        tick = {}
        for gpu in range(1, gpus + 1):
            values = {
                "util": dice.choice((0, 0, 3, 55, 97, 99, 100)), "mem_util": dice.randrange(80), "mem_used": dice.randrange(140_000),
                "temp": dice.randrange(30, 88), "power": dice.randrange(70_000, 700_000), "sm_clock": dice.choice((345, 1755, 1980)),
                "mem_clock": 2619, "reasons": dice.choice((0, 1, 4, 32)), "energy": dice.randrange(1 << 42), "ecc": 0, "replays": 0,
                "pcie_tx": dice.randrange(1 << 24) if dice.random() < 0.02 else None,
            }  # fmt: skip
            power = values["power"]
            tick[gpu] = Sample([values.get(name) for name in COLUMNS], 1000, power, False, dice.random() < 0.8)
        ticks.append(tick)
    return ticks


def asked(calls: int, ask: Callable[[], object]) -> tuple[float, float]:
    """CPU ms and wall ms of a question, the best of some calls: others use the machine too."""
    cpus, walls = [], []
    for _ in range(calls):
        cpu, wall = time.process_time(), time.perf_counter()
        ask()
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return min(cpus) * 1000, min(walls) * 1000


def memory() -> float:
    """MiB, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def fill(store: Store, ticks: Sequence[dict[int, Sample]], begin: float, seconds: int, step: int) -> dict[str, float]:
    """Feeds a span as the agent does; what it cost."""
    adding = keeping = 0.0
    slow_add = slow_keep = log = size = 0.0
    count = seconds // step
    for number in range(count):
        now = begin + number * step
        cpu, wall = time.process_time(), time.perf_counter()
        if not store.add_sample(now, ticks[number % len(ticks)]):
            raise SystemExit(f"not committed: {store.problem}")
        adding += time.process_time() - cpu
        slow_add = max(slow_add, time.perf_counter() - wall)
        if number * step % 60 < step:
            cpu, wall = time.process_time(), time.perf_counter()
            store.rollup()
            job = f"slurm:{int(now) // 7200}"
            store.add_work(
                Use(now, gpu, 1, f"user{gpu % 9}", job, "train.py", 60_000, 60_000, 30_000, 0, 70_000, 9_000) for gpu in ticks[0]
            )
            store.trim(now)
            keeping += time.process_time() - cpu
            slow_keep = max(slow_keep, time.perf_counter() - wall)
            file, _, waiting = store.size()
            size, log = max(size, file), max(log, waiting)
    return {
        "CPU ms a tick (samples)": adding / count * 1000, "CPU ms a tick (rollups and trims)": keeping / count * 1000,
        "slowest sample, ms": slow_add * 1000, "slowest minute's rollup and trim, ms": slow_keep * 1000,
        "largest file, MB": size / 1e6, "largest log beside it, MB": log / 1e6,
    }  # fmt: skip


def measure(folder: Path, hours: float, gpus: int) -> dict[str, float]:
    """All figures, by name."""
    ticks = rows(gpus)
    at_start = memory()
    figures: dict[str, float] = {}
    path = folder / "watch.db"
    with Store(path) as store:
        for gpu in range(gpus):
            store.see_gpu(f"GPU-{gpu:04}", gpu, "NVIDIA H200", f"0000:{gpu:02x}:00.0", 143_771)
        end = BEGIN + hours * 3600
        fill(store, ticks, end - 7 * DAY, int(7 * DAY - hours * 3600), 10)
        figures |= fill(store, ticks, BEGIN, int(hours * 3600), 1)
        figures["memory beyond the start, MiB"] = memory() - at_start
        file, used, _ = store.size()
        figures["file after that week, MB"], figures["of it in use, MB"] = file / 1e6, used / 1e6
        states = [{"row": one.values, "uuid": f"GPU-{gpu:04}"} for gpu, one in ticks[0].items()]
        text = json.dumps({"gpus": states, "log": ["x" * 80] * 100})
        cpu = time.process_time()
        for _ in range(200):
            store.put_now(text)
        figures["CPU ms to put the latest state"] = (time.process_time() - cpu) / 200 * 1000
    with Store(path, readonly=True) as reader:
        week = (end - 7 * DAY, end)
        assert sum(point.avg is not None for point in reader.series(1, "util", *week)) >= 500
        columns = ("util", "reasons", "energy")
        questions: dict[str, list[Callable[[], object]]] = {
            "week of one GPU": [partial(reader.series, gpus // 2, column, *week) for column in columns],
            "week of all GPUs": [partial(reader.all_series, column, *week) for column in columns],
            "week of who used what": [partial(reader.work, *week, by, 0.3, 2.0) for by in ("user", "job", "gpu")],
            "six hours of one GPU": [partial(reader.series, 1, "util", end - 6 * 3600, end)],
            "ten minutes of one GPU, raw": [partial(reader.series, 1, "util", end - 600, end)],
            "ten minutes of all GPUs, raw": [partial(reader.all_series, "util", end - 600, end)],
        }
        for name, asks in questions.items():
            told = [asked(5, ask) for ask in asks]
            figures[f"{name}, CPU ms"], figures[f"{name}, ms"] = max(cpu for cpu, _ in told), max(wall for _, wall in told)
    limit = 48 << 20
    with Store(folder / "small.db", keep=Keep(max_bytes=limit)) as store:
        for gpu in range(gpus):
            store.see_gpu(f"GPU-{gpu:04}", gpu, None, None, None)
        bounded = fill(store, ticks, BEGIN, DAY, 10)
        figures["file, share of max_bytes"] = bounded["largest file, MB"] * 1e6 / limit
        figures["slowest minute at the limit, ms"] = bounded["slowest minute's rollup and trim, ms"]
    return figures


def rates(folder: Path, gpus: int) -> dict[str, float]:
    """Bytes a row of each level, from files that hold little else; and from them the file at the default retention."""
    found = {}
    ticks = rows(gpus)
    keep = Keep(raw=9e9, ten=9e9, five=9e9, max_bytes=1 << 40)
    sizes = []
    for name, step, seconds in (("raw", 1, 3000), ("ten", 10, 30_000), ("five", 300, 900_000)):
        with Store(folder / f"{name}.db", keep=keep) as store:
            for gpu in range(gpus):
                store.see_gpu(f"GPU-{gpu:04}", gpu, None, None, None)
            for number in range(seconds // step):
                store.add_sample(BEGIN + number * step, ticks[number % len(ticks)])
                if number % 60 == 59:
                    store.rollup()
            store.rollup()
            sizes.append((store.size()[1], seconds, step))
    # Unknowns: bytes a row of raw, ten, five; each file holds raw rows, and rows of the others by its span.
    equations = [([seconds / step, seconds / max(step, 10), seconds / 300], used / gpus) for used, seconds, step in sizes]
    raw, ten, five = solve(equations)
    found["bytes a raw row"], found["bytes a 10 s row"], found["bytes a 5 min row"] = raw, ten, five
    default = Keep()
    for count in (8, gpus):
        whole = count * (default.raw * raw + default.ten / 10 * ten + default.five / 300 * five)
        found[f"file of {count} GPUs at the default retention (without work), MB"] = whole / 1e6
    return found


def solve(equations: list[tuple[list[float], float]]) -> list[float]:
    """Three linear equations, by elimination."""
    table = [[*left, right] for left, right in equations]
    for place in range(3):
        pivot = max(range(place, 3), key=lambda row: abs(table[row][place]))
        table[place], table[pivot] = table[pivot], table[place]
        for row in range(3):
            if row != place:
                factor = table[row][place] / table[place][place]
                table[row] = [a - factor * b for a, b in zip(table[row], table[place], strict=True)]
    return [table[place][3] / table[place][place] for place in range(3)]


def main() -> int:
    """Prints the figures; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--hours", type=float, default=24.0, help="of the part at 1 Hz")
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder, removed at the end")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="ongpu-storage-"))
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    try:
        figures = measure(folder, args.hours, args.gpus) | rates(folder, args.gpus)
    finally:
        if not args.folder:
            shutil.rmtree(folder)
    figures["the benchmark itself, s"] = time.perf_counter() - begin
    missed = [name for name, limit in LIMITS.items() if figures[name] > limit]
    for name, figure in figures.items():
        limit = f"   limit {LIMITS[name]:g}{'   MISSED' if name in missed else ''}" if name in LIMITS else ""
        print(f"{name:75} {figure:10.2f}{limit}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
