#!/usr/bin/env python3
"""Measures what watching costs: ongpu's sampling beside nvidia-ml-py alone, nvitop's collector and gpustat, on the tests' fake NVML.

usage: benchmarks/watch/sampling.py [--seconds N] [--gpus 1,8,64] [--hertz 1,10] [--only NAME] [--cache DIR] [--json FILE]

Needs gcc. It makes virtual environments in the cache folder: one with ongpu, one with nvitop 1.7.2 and gpustat 1.1.1 (the peers).
All run one after the other, on the same scenario: one process on each GPU. Each figure is processor time (user and system, all
threads) by the kernel's own clock of the process, without start-up, divided by the samples; ongpu's is the sum of the child that
samples and the parent that reads (Feed and State). The fake answers at once: a real driver's own time comes on top, for all alike.
"late": samples that began more than half an interval after their time. Exit code 1 where a limit of issue 4 is missed.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from parts import ROOT, fake, venv

PEERS = ("nvitop==1.7.2", "gpustat==1.1.1")
SUBJECTS = ("ongpu", "nvidia-ml-py", "nvitop collector", "gpustat")
WARM = 2.5  # seconds before measuring
LIMITS = {(8, 1): 1.0, (64, 10): 5.0}  # ms a sample


def processor(pid: int) -> float:
    """Seconds of processor time of a process so far: its own clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def resident(pid: int) -> float:
    """MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


# --- the subjects: each runs in an interpreter of its own, and prints one line


def ticks(sample, hertz: float, seconds: float, most: int = 10**9):  # type: ignore[no-untyped-def]
    """(samples, late ones, seconds of processor time, seconds of the longest) of a function called on a clock."""
    stop = time.monotonic() + min(WARM, 5 / hertz)
    while time.monotonic() < stop and most > 100:
        sample()
        time.sleep(1 / hertz)
    begin, used = time.monotonic(), time.process_time()
    late = count = number = 0
    longest = 0.0
    while time.monotonic() - begin < seconds and count < most:
        start = time.monotonic()
        late += start - begin - number / hertz > 0.5 / hertz
        sample()
        count += 1
        longest = max(longest, time.monotonic() - start)
        number = max(number + 1, int((time.monotonic() - begin) * hertz))
        time.sleep(max(0.0, begin + number / hertz - time.monotonic()))
    return count, late + (number - count), time.process_time() - used, longest


def ongpu(gpus: int, hertz: float, seconds: float) -> dict[str, float]:
    """Feed and State as `ongpu watch` uses them."""
    from ongpu.hosts.sampling.feed import Feed
    from ongpu.watch.state import State

    state, late, count = State(interval=1 / hertz), 0, 0
    with Feed(interval=1 / hertz, kernel_log=None) as feed:
        begin = used = first = 0.0
        stop = time.monotonic() + WARM
        measured = False
        while True:
            message = feed.next(max(1.2 / hertz, 0.2))
            now = time.time()
            if message:
                state.take(message, now)
            state.tick(now)
            child = feed.main
            if child is None or message is None or message["k"] != "s":
                continue
            pid, at, number = child.popen.pid, message["c"], message["n"]
            if not measured:
                if time.monotonic() >= stop:
                    measured, begin, first = True, at, number
                    used = time.process_time() + processor(pid)
                    before, stop = state.late, time.monotonic() + seconds
                continue
            count += 1
            late += at - begin - (number - first) / hertz > 0.5 / hertz
            if time.monotonic() >= stop:
                used = time.process_time() + processor(pid) - used
                memory = resident(pid) + resident(os.getpid())
                assert state.up
                assert [gpu.condition for gpu in state.gpus.values()] == ["ok"] * gpus
                assert all(len(gpu.processes) == 1 and gpu.processes[0].host for gpu in state.gpus.values())
                return {"samples": count, "late": late + state.late - before, "ms": used / count * 1e3, "mib": memory}


def bare(gpus: int, hertz: float, seconds: float) -> dict[str, float]:
    """nvidia-ml-py: eleven reads a GPU, nothing else."""
    import pynvml as n

    n.nvmlInit()
    handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(gpus)]

    def sample() -> None:
        for d in handles:
            for function, *args in (
                (n.nvmlDeviceGetUtilizationRates,), (n.nvmlDeviceGetMemoryInfo, n.nvmlMemory_v2), (n.nvmlDeviceGetTemperature, 0),
                (n.nvmlDeviceGetPowerUsage,), (n.nvmlDeviceGetEnforcedPowerLimit,), (n.nvmlDeviceGetFanSpeed,),
                (n.nvmlDeviceGetClockInfo, 1), (n.nvmlDeviceGetClockInfo, 2), (n.nvmlDeviceGetCurrentClocksThrottleReasons,),
                (n.nvmlDeviceGetTotalEccErrors, 1, 0), (n.nvmlDeviceGetComputeRunningProcesses,),
            ):  # fmt: skip
                with contextlib.suppress(n.NVMLError):
                    function(d, *args)

    return told(*ticks(sample, hertz, seconds))


def nvitop(gpus: int, hertz: float, seconds: float) -> dict[str, float]:
    """nvitop's ResourceMetricCollector, without its thread."""
    from nvitop import Device, ResourceMetricCollector

    collector = ResourceMetricCollector(devices=Device.all(), root_pids={1})
    return told(*ticks(collector.take_snapshots, hertz, seconds))


def gpustat(gpus: int, hertz: float, seconds: float) -> dict[str, float]:
    """gpustat's new_query; it sleeps 0.1 s for each GPU, so that few samples must do."""
    import gpustat as peer

    return told(*ticks(peer.new_query, hertz, seconds, most=max(3, int(seconds / 0.1 / gpus))))


def told(count: int, late: int, used: float, longest: float) -> dict[str, float]:
    """What one subject prints."""
    return {"samples": count, "late": late, "ms": used / count * 1e3, "mib": resident(os.getpid()), "longest_ms": longest * 1e3}


# --- the run


def row(name: str, gpus: int, hertz: int, ours: dict[str, float], all_: dict[str, dict[str, float]]) -> tuple[str, bool]:
    """One line of the table, and whether it holds."""
    found = all_[name]
    limit = LIMITS.get((gpus, hertz)) if name == "ongpu" else None
    holds = True
    words = []
    if name == "ongpu":
        holds = found["late"] == 0 and (limit is None or found["ms"] <= limit)
        if bare_ := all_.get("nvidia-ml-py"):
            words.append(f"{found['ms'] / bare_['ms']:.2f} x nvidia-ml-py")
            holds &= (gpus, hertz) not in LIMITS or found["ms"] <= 2 * bare_["ms"]
        if collector := all_.get("nvitop collector"):
            words.append(f"{collector['ms'] / found['ms']:.1f} x less than nvitop")
            holds &= (gpus, hertz) not in LIMITS or collector["ms"] >= 5 * found["ms"]
    else:
        words.append(f"{found['ms'] / ours['ms']:.1f} x ongpu" if ours else "")
    verdict = ("yes" if holds else "NO") if name == "ongpu" else ""
    cells = (
        f"{gpus} at {hertz} Hz", name, f"{found['ms']:.2f} ms", f"{found['late']:.0f}/{found['samples']:.0f}", f"{found['mib']:.0f} MiB",
        "" if limit is None else f"<= {limit:g} ms", ", ".join(words), verdict,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |", holds


def main() -> int:
    """Measure, print; 1 where a limit does not hold."""
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--seconds", type=float, default=10.0)
    parse.add_argument("--gpus", default="1,8,64")
    parse.add_argument("--hertz", default="1,10")
    parse.add_argument("--only", default="", help="only subjects whose name contains this")
    parse.add_argument("--cache", default=os.environ.get("ONGPU_BENCH_CACHE", str(Path.home() / ".cache" / "ongpu-benchmarks")))
    parse.add_argument("--json", help="write the figures here too")
    parse.add_argument("--subject", help=argparse.SUPPRESS)
    options = parse.parse_args()
    if options.subject:  # in an interpreter of its own
        run = {"ongpu": ongpu, "nvidia-ml-py": bare, "nvitop collector": nvitop, "gpustat": gpustat}[options.subject]
        print(json.dumps(run(int(options.gpus), float(options.hertz), options.seconds)))
        return 0
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    ours, peers = venv(cache / "ongpu", "--editable", str(ROOT)), venv(cache / "watch-peers", *PEERS)
    lines = ["| GPUs | who | processor time a sample | late | memory | limit | ratio | holds |", "|---|---|---:|---:|---:|---|---|---|"]
    figures, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        library = fake(Path(folder))
        for gpus in map(int, options.gpus.split(",")):
            sleepers = [subprocess.Popen(["sleep", "100000"]) for _ in range(gpus)]
            try:
                text = f"gpus = {gpus}\ngpu.*.util = 50\n" + "".join(f"gpu.{i}.proc = {p.pid},4000,C,40\n" for i, p in enumerate(sleepers))
                scenario = Path(folder) / "scenario.txt"
                scenario.write_text(text)
                environ = {**os.environ, "FAKE_NVML": str(scenario), "LD_LIBRARY_PATH": str(library)}
                for hertz in map(int, options.hertz.split(",")):
                    found: dict[str, dict[str, float]] = {}
                    for name in SUBJECTS:
                        if options.only not in name:
                            continue
                        print(f"{name}: {gpus} GPUs, {hertz} Hz ...", file=sys.stderr)
                        python = ours if name in ("ongpu", "nvidia-ml-py") else peers
                        command = [str(python), __file__, "--subject", name, "--gpus", str(gpus), "--hertz", str(hertz)]
                        command += ["--seconds", str(options.seconds)]
                        done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
                        found[name] = json.loads(done.stdout.splitlines()[-1])
                        figures.append({"name": name, "gpus": gpus, "hertz": hertz, **found[name]})
                    for name in found:
                        line, holds = row(name, gpus, hertz, found.get("ongpu", {}), found)
                        lines.append(line)
                        good &= holds
            finally:
                for sleeper in sleepers:
                    sleeper.kill()
                    sleeper.wait()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}\n")
    print("\n".join(lines))
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
