#!/usr/bin/env python3
"""Measures the lint against torchfix: files per second on the Python files of an installed torch, one process and one core each.

usage: benchmarks/lint.py [--torch FOLDER] [--every N] [--runs N] [--cache DIR] [--json FILE]

It copies every Nth file of site-packages/torch into a folder and lets both read it, in turn: torchfix 0.7.0 (`torchfix -j 1 FOLDER`)
and ongpu (this checkout; `benchmarks/lint.py --ours FOLDER`: parse, follow, and all rules that take a Program; no report is shown).
CPU seconds of the process and its children are compared, since other work on the machine would spoil wall-clock seconds.
Without --torch it makes a virtual environment with torch 2.13.0 in the cache folder; torchfix gets its own.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from parts import venv

TORCH, PEER = "torch==2.13.0", "TorchFix==0.7.0"
AT_LEAST = 3.0  # times the peer's files per second


def sample(torch: Path, folder: Path, every: int) -> int:
    """Copies every Nth Python file, in the order of their paths; how many there are."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = sorted(torch.rglob("*.py"))[::every]
    for number, path in enumerate(paths):
        shutil.copyfile(path, folder / f"{number:05}_{path.name}")
    return len(paths)


def ours(folder: Path) -> None:
    """Lints all files in this process; prints what was seen and the peak of memory."""
    from ongpu.engine import _needs, all_rules, judge
    from ongpu.facts.program import Program
    from ongpu.model import Severity
    from ongpu.sources.python.text import NotPython
    from ongpu.sources.python_source import script

    rules = [rule for rule in all_rules() if any(kind is Program for kind, _ in _needs(rule))]
    counts = dict.fromkeys(("error", "warning", "note"), 0)
    unread = lines = 0
    for path in sorted(folder.glob("*.py")):
        try:
            text = path.read_text("utf-8", "replace")
            lines += text.count("\n")
            found = script(path.name, text)
        except NotPython:
            unread += 1
            continue
        if found is not None:
            program = Program(scripts=(found,))
            for rule in rules:
                for finding in judge(rule, {Program: program}).findings:
                    counts[Severity(finding.weight).name.lower()] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rules": len(rules), "lines": lines, "unread": unread, "findings": counts, "peak_mib": round(peak)}))


def timed(command: list[str]) -> tuple[float, float, str]:
    """CPU seconds, wall-clock seconds and the output of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start, done.stdout or done.stderr


def main() -> int:
    """Measure; 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", type=Path, help="the folder of an installed torch")
    parser.add_argument("--every", type=int, default=8, help="read each Nth file (default 8; 1: all)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "ongpu-benchmark")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours:
        ours(options.ours)
        return 0
    torch = options.torch
    if torch is None:
        python = venv(options.cache / "torch", TORCH)
        torch = Path(subprocess.check_output([str(python), "-c", "import torch; print(torch.__path__[0])"], text=True).strip())
    peer = venv(options.cache / "torchfix", PEER)
    folder = options.cache / "lint-sample"
    files = sample(torch, folder, options.every)
    rows: dict[str, list[tuple[float, float]]] = {"ongpu": [], "torchfix": []}
    told = ""
    for _ in range(options.runs):  # in turn, so that both meet the same machine
        cpu, wall, told = timed([sys.executable, str(Path(__file__).resolve()), "--ours", str(folder)])
        rows["ongpu"].append((cpu, wall))
        rows["torchfix"].append(timed([str(peer), "-m", "torchfix", "-j", "1", str(folder)])[:2])
    cpu_of = {name: statistics.median(cpu for cpu, _ in runs) for name, runs in rows.items()}
    for name, runs in rows.items():
        wall = statistics.median(wall for _, wall in runs)
        print(f"{name:10} {files} files  {cpu_of[name]:7.2f} s CPU  {wall:7.2f} s wall  {files / cpu_of[name]:7.1f} files/s of CPU")
    times = cpu_of["torchfix"] / cpu_of["ongpu"]
    print(f"ongpu reads {times:.1f} times as many files per second (aim: {AT_LEAST:g}); ongpu says {told.strip()}")
    if options.json:
        options.json.write_text(json.dumps({"files": files, "cpu_seconds": cpu_of, "times": times, "ours": json.loads(told)}, indent=1))
    return int(times < AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
