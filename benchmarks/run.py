#!/usr/bin/env python3
"""Measures what a user waits for, with peers in the same run; prints a table. Needs nothing but Python 3.11 and ongpu's checkout.

usage: benchmarks/run.py [--only NAME] [--runs N] [--log-mib N] [--cache DIR] [--json FILE]

It makes two virtual environments in the cache folder: one with ongpu, one with torch 2.13.0 (never another version).
Each figure is the median of the runs, of a whole process; memory is the peak of the largest process among it and its children
(the 1 GiB log is read by two processes of about the same size).
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parts import ROOT, venv

TORCH = "torch==2.13.0"
LINE = "RuntimeError: CUDA error: an illegal memory access was encountered"
XID = b"[12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"


@dataclass(frozen=True)
class Figure:
    """One measured command. limit: seconds; at_most_mb: MiB; times_faster: than this name's figure."""

    name: str
    seconds: float
    spread: float
    memory_mb: float
    limit: float | None = None
    at_most_mb: float | None = None
    peer: str = ""
    at_least: float = 0.0


def log(path: Path, mib: int) -> Path:
    """A training log of that size, with one Xid line in the middle; made once. Figures differ in every line."""
    if path.exists() and path.stat().st_size >= mib << 20:
        return path
    print(f"writing {path} ...", file=sys.stderr)
    chance = random.Random(1)
    rows = []
    for i in range(60_000):
        stamp = f"2026-10-{i % 28 + 1:02d} 13:{i % 60:02d}:{i * 7 % 60:02d},{i % 1000:03d}"
        rows.append(
            f"{stamp} [INFO] trainer.py:212: epoch {i // 5000} step {i} loss {chance.random() * 5:.4f}"
            f" lr {chance.random() * 1e-4:.3e} tokens/s {chance.randint(1000, 99999)} gpu memory {chance.random() * 80:.1f} GB\n"
        )
    block = "".join(rows).encode()
    half = (mib << 20) // len(block) // 2 + 1
    with path.open("wb") as file:
        for number in range(2 * half):
            file.write(XID if number == half else b"")
            file.write(block)
    return path


def once(command: Sequence[str]) -> tuple[float, float]:
    """Seconds and MiB of one run: the peak of the largest process that it took, as a small parent reads it."""
    inner = (
        "import resource, subprocess, sys, time; t = time.perf_counter();"
        "p = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL);"
        "t = time.perf_counter() - t; m = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss;"
        "print(t, m / (1 << 20 if sys.platform == 'darwin' else 1 << 10), p.returncode)"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([sys.executable, "-c", inner, *command], capture_output=True, text=True, check=True, env=environ)
    seconds, memory, code = done.stdout.split()
    if int(code) not in (0, 1, 3):
        raise SystemExit(f"{' '.join(command)}: exit code {code}")
    return float(seconds), float(memory)


def measure(plan: Sequence[tuple[str, list[str], int, dict[str, object]]]) -> list[Figure]:
    """The median of each command's runs, after one that warms the caches. They take turns: a busy moment meets all alike."""
    results: list[list[tuple[float, float]]] = [[] for _ in plan]
    for turn in range(max((runs for _, _, runs, _ in plan), default=0) + 1):
        for (name, command, runs, _), found in zip(plan, results, strict=True):
            if turn <= runs:
                print(f"{name}: {turn or 'warming up'} ...", file=sys.stderr)
                found.append(once(command))
    figures = []
    for (name, _, _, limits), found in zip(plan, results, strict=True):
        times = [seconds for seconds, _ in found[1:]]
        memory = max(memory for _, memory in found)
        figures.append(Figure(name, statistics.median(times), max(times) - min(times), memory, **limits))  # type: ignore[arg-type]
    return figures


def table(figures: Sequence[Figure]) -> str:
    """The figures, their limits and ratios, as markdown."""
    by_name = {figure.name: figure for figure in figures}
    lines = ["| what | median | spread | peak memory | limit | ratio | holds |", "|---|---:|---:|---:|---|---|---|"]
    for f in figures:
        peer = by_name.get(f.peer)
        ratio = f"{peer.seconds / f.seconds:.1f} x faster than {f.peer}" if peer else ""
        holds = (
            (f.limit is None or f.seconds < f.limit)
            and (f.at_most_mb is None or f.memory_mb < f.at_most_mb)
            and (peer is None or peer.seconds / f.seconds >= f.at_least)
        )
        limit = ", ".join(
            ([f"< {f.limit:g} s"] if f.limit else [])
            + ([f"< {f.at_most_mb:g} MiB"] if f.at_most_mb else [])
            + ([f">= {f.at_least:g} x"] if f.at_least else [])
        )
        verdict = ("yes" if holds else "NO") if limit else ""
        lines.append(f"| {f.name} | {f.seconds:.3f} s | {f.spread:.3f} s | {f.memory_mb:.0f} MiB | {limit} | {ratio} | {verdict} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print; 1 where a limit does not hold."""
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--only", default="", help="only figures whose name contains this")
    parse.add_argument("--runs", type=int, default=9)
    parse.add_argument("--log-mib", type=int, default=1024)
    parse.add_argument("--cache", default=os.environ.get("ONGPU_BENCH_CACHE", str(Path.home() / ".cache" / "ongpu-benchmarks")))
    parse.add_argument("--json", help="write the figures here too")
    options = parse.parse_args()
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)

    python = venv(cache / "ongpu", "--editable", str(ROOT))
    subprocess.run([str(python), "-m", "compileall", "-q", str(ROOT / "src")], check=True)  # as pip does with what it installs
    ongpu = str(python.with_name("ongpu"))
    plan: list[tuple[str, list[str], int, dict[str, object]]] = [
        ("ongpu --version", [ongpu, "--version"], options.runs, {"limit": 0.12}),
        ("ongpu explain, one line", [ongpu, "explain", LINE], options.runs, {"limit": 0.35}),
        ("ongpu explain, 1 GiB log", [ongpu, "explain", "LOG"], 3, {"limit": 20.0, "at_most_mb": 200.0}),
        ("grep -c over the same log", ["grep", "-c", "-E", "Xid|NVRM", "LOG"], 3, {}),
        ("ongpu doctor", [ongpu, "doctor", "--python", "TORCH"], options.runs, {"limit": 0.6, "peer": "collect_env", "at_least": 8.0}),
        ("collect_env", ["TORCH", "-m", "torch.utils.collect_env"], options.runs, {}),
        ("import torch", ["TORCH", "-c", "import torch"], min(options.runs, 5), {}),
    ]
    wanted = []
    for name, command, runs, limits in plan:
        if options.only in name or (options.only == "doctor" and name == "collect_env"):
            if "LOG" in command:
                path = log(cache / f"train-{options.log_mib}.log", options.log_mib)
                command = [str(path) if word == "LOG" else word for word in command]
            if "TORCH" in command:
                torch = venv(cache / "torch", TORCH)
                command = [str(torch) if word == "TORCH" else word for word in command]
            wanted.append((name, command, runs, limits))
    figures = measure(wanted)
    text = table(figures)
    version = subprocess.run([ongpu, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n\n{text}")
    if options.json:
        Path(options.json).write_text(json.dumps([vars(figure) for figure in figures], indent=1))
    return int("| NO |" in text)


if __name__ == "__main__":
    sys.exit(main())
