#!/usr/bin/env python3
"""Measures jobs a second of the local engine beside task-spooler, gpusched and gq-local, on 8 fake GPUs, in one run.

usage: benchmarks/queue/peers.py [--jobs 1000] [--slow-jobs 40] [--waiting 100000] [--only NAME] [--folder DIR] [--cache DIR]
           [--json FILE]

Needs gcc, and Debian's task-spooler for that peer. Each job is `true` on one GPU. Time is from the first submission to the end of the
last job, all of submitting included, each in its own quickest way: task-spooler one `tsp -n` for each, gpusched one file of commands,
ongpu one `ongpu submit --wait --array`, gq-local (which starts a Python for each) one submission for each of --slow-jobs. (gpuqu 0.1.3
started nothing on the stand-in.) task-spooler knows nothing of GPUs: it gets eight slots, and its queue is in memory. gpusched polls every
0.2 s (its default is 5 s). The files lie in memory too (/dev/shm) unless --folder names a disk: that compares the programs. On a disk ongpu
waits for it (synchronous=FULL, at most 20 times a second), and a job makes five files where one of `tsp -n` makes none; an ext4 without a
journal takes up to a millisecond for a new one where many were removed a minute ago, as by the run before. Exit code 1 where a limit of
issue 5 is missed.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from parts import CACHE, ROOT, fake, venv

PEERS = ("gpusched==0.4.0", "gq-local==0.3.0", "nvidia-ml-py")
GPUS, PATIENCE = 8, 600.0
MEMORY = Path("/dev/shm")
SUBMIT_MS, LISTING_S, TIMES_GPUSCHED = 150.0, 0.5, 4.0
SMI = """#!/bin/sh
case "$*" in
*query-compute-apps*) ;;
*) for i in 0 1 2 3 4 5 6 7; do echo "$i, GPU-fa4e0000-0000-4000-8000-00000000000$i, 81920, 0, 0"; done ;;
esac
"""
MACHINE = """import sys, pathlib
sys.path.insert(0, sys.argv[1])
from parts.machines import Box
Box(cards=int(sys.argv[3])).write(pathlib.Path(sys.argv[2]))
"""


def run(argv: list[str], environ: dict[str, str], timeout: float = PATIENCE, check: bool = True) -> str:
    """What it printed."""
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(argv)[:200]}: exit code {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def until(done: Callable[[], bool], every: float = 0.05) -> None:
    """Waits, within limits."""
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            raise SystemExit("not done in time")
        time.sleep(every)


# --- the subjects: jobs a second


def spooler(jobs: int, folder: Path, environ: dict[str, str]) -> float:
    """task-spooler with eight slots."""
    environ = {**environ, "TS_SOCKET": str(folder / "tsp.socket"), "TS_MAXFINISHED": str(jobs + 10), "TMPDIR": str(folder)}
    run(["tsp", "-S", str(GPUS)], environ)
    try:
        begin = time.monotonic()
        for _ in range(jobs):
            subprocess.run(["tsp", "-n", "true"], env=environ, stdout=subprocess.DEVNULL, check=True)
        until(lambda: run(["tsp", "-l"], environ).count(" finished ") >= jobs)
        return jobs / (time.monotonic() - begin)
    finally:
        run(["tsp", "-K"], environ, check=False)


def gpusched(jobs: int, folder: Path, environ: dict[str, str], program: Path) -> float:
    """gpusched, one job on a GPU at a time."""
    listed = folder / "jobs.txt"
    listed.write_text("true\n" * jobs)
    begin = time.monotonic()
    run([str(program), "--exclusive", "--poll", "0.2", "--fresh", "--log-dir", str(folder / "logs"), str(listed)], environ)
    return jobs / (time.monotonic() - begin)


def gq(jobs: int, folder: Path, environ: dict[str, str], program: Path) -> float:
    """gq-local."""
    environ = {**environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}
    run([str(program), "daemon", "start"], environ)
    try:
        begin = time.monotonic()
        for number in range(jobs):
            run([str(program), "run", "-g", "1", "--name", f"n{number}", "true"], environ)
        done = [str(program), "ps", "--state", "DONE", "--limit", "100000", "--json"]
        until(lambda: len(json.loads(run(done, environ))) >= jobs, 0.3)
        return jobs / (time.monotonic() - begin)
    finally:
        run([str(program), "daemon", "stop"], environ, check=False)


@contextlib.contextmanager
def queue(folder: Path, environ: dict[str, str], program: Path) -> Iterator[dict[str, str]]:
    """A queue of ongpu's own in the folder, with its daemon; stopped at the end."""
    folder.mkdir()
    environ = {**environ, "ONGPU_QUEUE": str(folder / "queue"), "ONGPU_LEASES": str(folder / "leases"), "HOME": str(folder)}
    (folder / "leases").mkdir(mode=0o700)
    run([str(program), "submit", "--", "true"], environ)
    until(lambda: counts(environ, program).get("done", 0) == 1)
    try:
        yield environ
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((folder / "queue" / "daemon.lock").read_text().split()[0]), signal.SIGTERM)


def counts(environ: dict[str, str], program: Path) -> dict[str, int]:
    """state -> jobs."""
    return dict(json.loads(run([str(program), "jobs", "--format", "json"], environ))["counts"])


def ours(jobs: int, environ: dict[str, str], program: Path) -> float:
    """One array."""
    before = counts(environ, program).get("done", 0)
    begin = time.monotonic()
    run([str(program), "submit", "--wait", "--array", f"1-{jobs}", "--", "true"], environ)
    end = time.monotonic()
    if counts(environ, program).get("done", 0) != before + jobs:
        raise SystemExit("ongpu: not all of the jobs are done")
    return jobs / (end - begin)


def timed(argv: list[str], environ: dict[str, str], times: int) -> list[float]:
    """Seconds of each run."""
    found = []
    for _ in range(times):
        begin = time.monotonic()
        run(argv, environ)
        found.append(time.monotonic() - begin)
    return found


def main() -> int:
    """The table."""
    parse = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parse.add_argument("--jobs", type=int, default=1000)
    parse.add_argument("--slow-jobs", type=int, default=40)
    parse.add_argument("--waiting", type=int, default=100_000)
    parse.add_argument("--only", default="")
    parse.add_argument("--folder", type=Path, default=MEMORY if MEMORY.is_dir() else None)
    parse.add_argument("--cache", type=Path, default=CACHE)
    parse.add_argument("--json", type=Path)
    options = parse.parse_args()
    python, peers = venv(options.cache / "ongpu", "--editable", str(ROOT)), venv(options.cache / "queue-peers", *PEERS).parent
    program, missed = python.parent / "ongpu", []
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="ongpu-queue-", dir=options.folder) as name:
        folder = Path(name)
        scenario, smi = folder / "scenario", folder / "bin"
        scenario.write_text(f"gpus = {GPUS}\n")
        smi.mkdir()
        (smi / "nvidia-smi").write_text(SMI)
        (smi / "nvidia-smi").chmod(0o755)
        library = fake(folder)
        plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        if options.only in "ongpu":  # the queue's own look, at a recorded machine whose gate passes
            run([str(python), "-c", MACHINE, str(ROOT / "tests"), str(folder / "root"), str(GPUS)], dict(os.environ))
            plain["ONGPU_QUEUE_LOOKER"] = f"{python} -m ongpu.queue.engines.local.look --no-kernel-log --root {folder / 'root'}"
        environ = {**plain, "PATH": f"{smi}:{os.environ['PATH']}", "FAKE_NVML": str(scenario), "LD_LIBRARY_PATH": str(library)}

        def measure(what: str, action: Callable[[], float]) -> None:
            if options.only in what:
                figures[what] = action()
                print(f"{what:<44} {figures[what]:10.3f}", flush=True)

        for part in ("a", "b", "c"):
            (folder / part).mkdir()
        if options.only in "ongpu":
            with queue(folder / "q", environ, program) as own:
                measure("ongpu, jobs/s", lambda: ours(options.jobs, own, program))
                measure("ongpu submit, median ms", lambda: 1000 * statistics.median(timed([str(program), "submit", "--", "true"], own, 21)))
        if shutil.which("tsp"):
            measure("task-spooler, jobs/s", lambda: spooler(options.jobs, folder / "a", environ))
        measure("gpusched, jobs/s", lambda: gpusched(options.jobs, folder / "b", environ, peers / "gpusched"))
        measure("gq-local, jobs/s", lambda: gq(options.slow_jobs, folder / "c", environ, peers / "gq"))
        if options.waiting and options.only in "ongpu":
            with queue(folder / "q2", environ, program) as own:
                run([str(program), "submit", "--array", f"1-{options.waiting}", "--", "sleep", "60"], own)
                measure(f"ongpu jobs with {options.waiting} waiting, s", lambda: statistics.median(timed([str(program), "jobs"], own, 5)))
                more = [str(program), "submit", "--", "true"]
                measure(f"ongpu submit with {options.waiting} waiting, ms", lambda: 1000 * statistics.median(timed(more, own, 5)))
                run([str(program), "cancel", "--all"], own)
    for what, value in figures.items():
        if ("submit" in what and value > SUBMIT_MS) or ("ongpu jobs" in what and value > LISTING_S):
            missed.append(what)
    rate = figures.get("ongpu, jobs/s", 0.0)
    wanted = (("task-spooler", 1.0), ("gpusched", TIMES_GPUSCHED))
    missed += [f"ongpu < {times:g} x {name}" for name, times in wanted if rate < times * figures.get(f"{name}, jobs/s", 0.0)]
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    print("missed: " + "; ".join(missed) if missed else "all limits hold")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
