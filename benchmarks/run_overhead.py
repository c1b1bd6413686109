#!/usr/bin/env python3
"""Measures what `ongpu run` and `ongpu gate` cost, on the tests' fake NVML: until the command starts, and while it runs.

usage: benchmarks/run_overhead.py [--runs N] [--seconds N] [--gpus N] [--load N] [--source DIR] [--json FILE]

Needs gcc. "start": from the call of `ongpu run -- python ...` to the first instruction of the command, less what that Python takes to
start without us; "gate": the whole of `ongpu gate`. Both are medians, with --load N busy processes beside them (0: none; other work on
the machine adds to it, and is told as the load average). "share" and "memory": processor time of all processes of `ongpu run` but the
command, as a part of one core, and their proportional set size (/proc/PID/smaps_rollup), over --seconds of a command that sleeps.
--source: the src folder of another version, to compare. Exit code 1 where a limit of issue 5 is missed (of start and gate only without
--load). The fake answers at once: a real driver's own time comes on top.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]  # before this folder, which has a `parts` too
from parts.machines import Box, build_nvml  # type: ignore[import-not-found]  # noqa: E402

LIMITS = {"gate_s": 0.5, "start_s": 1.0, "share_percent": 1.0, "memory_mib": 60.0}
SHOW = "import time; print(time.time())"


def environment(folder: Path, gpus: int, source: str) -> tuple[dict[str, str], Path]:
    """Of a process on a machine with so many GPUs, and where its file system lies."""
    library = folder / "library"
    library.mkdir()
    box = Box(cards=gpus)
    root = box.write(folder / "root")
    mine = box.environment(build_nvml(library))
    more = {"FAKE_NVML": mine["FAKE_NVML"], "LD_LIBRARY_PATH": mine["LD_LIBRARY_PATH"], "ONGPU_LEASES": str(folder / "leases")}
    return {**os.environ, **more, "PYTHONPATH": source, "LC_ALL": "C.UTF-8"}, root


def seconds(argv: list[str], environ: dict[str, str]) -> tuple[float, str, float]:
    """(when it began, what it printed, how long it took)."""
    begin, clock = time.time(), time.perf_counter()
    done = subprocess.run(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return begin, done.stdout, time.perf_counter() - clock


def startup(ours: list[str], environ: dict[str, str], runs: int) -> tuple[list[float], list[float]]:
    """Seconds until the command starts, and of the gate."""
    start, gate = [], []
    show = [sys.executable, "-I", "-S", "-c", SHOW]
    for _ in range(runs):
        bare, told, _ = seconds(show, environ)
        alone = float(told) - bare
        begin, told, _ = seconds([*ours, "run", "--no-kernel-log", "--", *show], environ)
        start.append(float(told) - begin - alone)
        gate.append(seconds([*ours, "gate"], environ)[2])
    return start, gate


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():  # each thread has its own
        for child in (thread / "children").read_text().split():
            found += family(int(child))
    return found


def processor(pid: int) -> float:
    """Seconds of processor time."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def proportional(pid: int) -> float:
    """MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def beside(ours: list[str], environ: dict[str, str], span: float) -> tuple[float, float]:
    """(percent of a core, MiB) of `ongpu run` while a command sleeps."""
    one = subprocess.Popen([*ours, "run", "--no-kernel-log", "--", "sleep", str(span + 30)], env=environ, stderr=subprocess.DEVNULL)
    try:
        time.sleep(5)  # the start is told apart
        mine = [pid for pid in family(one.pid) if Path(f"/proc/{pid}/comm").read_text().strip() != "sleep"]
        before, begin = sum(map(processor, mine)), time.monotonic()
        time.sleep(span)
        spent = sum(map(processor, mine)) - before
        return 100 * spent / (time.monotonic() - begin), sum(map(proportional, mine))
    finally:
        one.terminate()
        one.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--source", default=str(ROOT / "src"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environ, root = environment(Path(folder), options.gpus, options.source)
        ours = [sys.executable, "-c", f"import sys; sys.argv[2:2] = ['--root', {str(root)!r}]; from ongpu.__main__ import main; main()"]
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)]
        try:
            start, gate = startup(ours, environ, options.runs)
            share, memory = beside(ours, environ, options.seconds) if options.seconds else (0.0, 0.0)
        finally:
            for one in busy:
                one.kill()
                one.wait()
    found = {"gate_s": statistics.median(gate), "start_s": statistics.median(start), "share_percent": share, "memory_mib": memory}
    worst = {"gate_s": max(gate), "start_s": max(start)}
    holds = True
    for name, value in found.items():
        told = not options.load or not name.endswith("_s")
        holds = holds and (value < LIMITS[name] or not told)
        most = f"  worst {worst[name]:.2f}" if name in worst else ""
        print(f"{name:14} {value:7.2f}{most}  limit {LIMITS[name]:g}{'' if told else ' (without load)'}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, {options.gpus} GPUs")
    if options.json:
        options.json.write_text(json.dumps({**found, "worst": worst, "load": os.getloadavg()[0]}, indent=1) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
