"""`ongpu top --once` beside gpustat and nvitop -1, in turns on the same fake NVML: wall time and processor time, parent and children.

    python benchmarks/watch/top.py [--gpus 1 8 64] [--runs 7]        needs gcc; installs the peers into a temporary folder

On a machine that others use too, `chrt -r 1 python benchmarks/watch/top.py` (root) gives all tools the processor alike, at once.

The fake answers at once: these are the tools' own costs; a real driver's time comes on top. `ongpu top --once` looks twice, 0.1 s
apart, which is part of its time (and of what it tells: utilisation of processors, verdicts); its peers look once.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = ("gpustat==1.1.1", "nvitop==1.7.2")


def peers(folder: Path) -> Path | None:
    """The folder with the peers' programs; None where they cannot be installed."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    binaries = folder / "venv" / "bin"
    done = subprocess.run([str(binaries / "python"), "-m", "pip", "install", "-q", *PEERS], capture_output=True, text=True, check=False)
    return binaries if done.returncode == 0 else None


def library(folder: Path) -> None:
    """The fake NVML."""
    source = ROOT / "tests" / "parts" / "fake_nvml.c"
    options = ["-O2", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *options, "-o", str(folder / "libnvidia-ml.so.1"), str(source), "-lm"], check=True)


def timed(command: Sequence[str], environ: dict[str, str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds of it and its children, exit status."""
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    wall, after = time.perf_counter() - begin, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent, done.returncode


def main() -> None:
    """Print one line of JSON for each tool and number of GPUs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    ours = shutil.which("ongpu", path=str(Path(sys.executable).parent)) or "ongpu"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library(folder)
        binaries = peers(folder)
        tools = {"python -c pass": [sys.executable, "-c", "pass"], "ongpu top --once": [ours, "top", "--once", "--seconds", "0.1"]}
        if binaries:
            tools |= {"gpustat": [str(binaries / "gpustat")], "nvitop -1": [str(binaries / "nvitop"), "-1"]}
        for count in options.gpus:
            sleepers = [subprocess.Popen(["sleep", "3000"]) for _ in range(count)]
            lines = [f"gpu.{i}.proc = {sleeper.pid},4000,C,50" for i, sleeper in enumerate(sleepers)]
            (folder / "scenario").write_text(f"gpus = {count}\nutil_wave = 1\n" + "\n".join(lines) + "\n")
            environ = {**os.environ, "FAKE_NVML": str(folder / "scenario"), "LD_LIBRARY_PATH": str(folder), "TERM": "xterm"}
            environ.pop("PYTHONDONTWRITEBYTECODE", None)
            found: dict[str, list[tuple[float, float, int]]] = {tool: [] for tool in tools}
            for turn in range(options.runs + 1):  # the first fills the caches
                for tool, command in tools.items():
                    if tool == "gpustat" and count > 8 and turn > 3:
                        continue  # 7 s a run
                    result = timed(command, environ)
                    if turn:
                        found[tool].append(result)
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()
            for tool, results in found.items():
                walls, spent = [r[0] for r in results], [r[1] for r in results]
                row = {
                    "gpus": count,
                    "tool": tool,
                    "wall_ms_min": round(min(walls) * 1000),
                    "wall_ms_median": round(statistics.median(walls) * 1000),
                }
                row |= {
                    "cpu_ms_min": round(min(spent) * 1000),
                    "runs": len(results),
                    "rc": results[0][2],
                    "load": round(os.getloadavg()[0], 1),
                }
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
