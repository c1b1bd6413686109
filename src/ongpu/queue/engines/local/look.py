"""The looker: a child process of the daemon that tells, a line at a time, what is so on each GPU. A driver that hangs hangs nobody else.

`python -m ongpu.queue.engines.local.look [--root /] [--store FILE] [--no-kernel-log]` prints one JSON object a line: at once where the
state of a GPU changed, else once a second, whatever the driver does; no line for 5 seconds: the looker itself is gone. It ends when its
standard input does. Every line tells all:

    {"t": 1.7e9, "at": 1.7e9, "up": true, "why": null, "gpus": [GPU, ...], "log": [[1.7e9, "NVRM: Xid ..."], ...]}

t: seconds since the epoch; at: of the last sample, from which the figures are. up: NVML gives samples; else `why` says what is wrong: a
slug ("starting": not yet), and words in English and Chinese: ["driver-hung", "...", "..."]. gpus: [] with up false: no GPU was ever seen,
as on a machine without a driver. log: lines of the kernel about GPUs that are new since the last line (at most 50); left out where there
are none. GPU, always with all of these keys:

    uuid, index, name   index may move, uuid never; "gpu:3" where it has not told one
    memory, used, util  MiB, MiB, percent; null: not told (a GPU that does not answer tells nothing)
    capability          "8.0" or null
    memory_util, pcie   percent of the time in which its memory was read or written; [kB/s sent, received] (told twice a minute); or null
    energy_mj           its counter, or null
    how                 "ok", "lost", "gone" (the driver no longer counts it), "hung", "error", "denied", "unknown" (not known now)
    unfit               null, or the slug of why nothing may be started on it: of the gate's judgement, of `how`, or "not-judged" until
                        the gate has judged it once
    words               null, or [English, Chinese]: one line on `unfit`
    incident            null, or the slug of an incident of `ongpu watch` that is open on it (only errors below the program)
    foreign             who computes on it and is no job of a queue, in words: ["pid 4242 (python, 300 MiB)", ...]
    procs               [[pid, MiB or null, "C" or "G", job or null], ...]; job: its ONGPU_JOB, where it is ours to read
    xids                [[1.7e9, 79], ...]: of the last ten minutes, since the looker's start, oldest first, at most 16
    ecc                 uncorrectable errors since the driver was loaded, or null
    near                what it shares with neighbours, from the widest: ["numa0", "pci0000:17", ...]
    partitioned         MIG is on: the whole is not to be given out
    slices              its MIG slices: [{"uuid", "name", "memory"}, ...]
"""

import argparse
import contextlib
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ongpu.hosts.sampling.feed import Feed
from ongpu.queue.engines.local.seen import Seen, Verdict, marks

BEAT, SOONEST = 1.0, 0.1  # seconds between two lines where nothing changes, and where much does
LISTEN = 0.2  # seconds that one wait for a message takes at most
JUDGE_EVERY, STORE_EVERY = 60.0, 10.0  # seconds
PROCESSES_EVERY = 2.0
PATIENCE = 10.0  # seconds for the questions of the gate
ALIVE = 120.0  # seconds after which a watch that wrote nothing is no more: what it left open may be over
MOST_ENVIRON = 1 << 17  # bytes
STORES = ("/var/lib/ongpu/watch.db", "{state}/ongpu/watch.db")  # of the machine's watch, and of the user's (watch/config.py)


class Judge:
    """A thread beside the clock: the gate's judgement of what NVML said last, and the open incidents of the watch."""

    def __init__(self, seen: Seen, root: str, stores: Iterable[str]) -> None:
        self.seen, self.root, self.stores = seen, root, tuple(stores)
        self.wake = threading.Event()
        self.asked: tuple[Any, float] | None = None  # the evidence that is to be judged, and when it came
        self.done: tuple[Mapping[str, Verdict], tuple[str, str, str] | None, float] | None = None
        self.incidents: Mapping[str, str] = {}
        threading.Thread(target=self._work, daemon=True).start()

    def ask(self, evidence: Any, at: float) -> None:
        """Judge that next; what was asked before and not begun is forgotten."""
        self.asked = (evidence, at)
        self.wake.set()

    def _work(self) -> None:
        next_store = time.monotonic()
        while True:
            if self.wake.wait(max(0.0, next_store - time.monotonic())):
                self.wake.clear()
            asked, self.asked = self.asked, None
            if asked:
                try:
                    self.done = (*judged(asked[0], self.root), asked[1])
                except Exception as error:  # a rule's table that is damaged, say: nothing is placed, and it is told why
                    words = f"{type(error).__name__}: {error}"[:200]
                    crash = Verdict(unfit="gate-crashed", words=(f"the gate crashed: {words}", f"检查程序崩溃：{words}"))
                    self.done = {device.key: crash for device in self.seen.devices}, None, asked[1]
            if time.monotonic() >= next_store:
                next_store = time.monotonic() + STORE_EVERY
                self.incidents = {uuid: slug for store in self.stores for uuid, slug in incidents(store, time.time()).items()}


def judged(nvml: Any, root: str) -> tuple[dict[str, Verdict], tuple[str, str, str] | None]:
    """What the gate says of each GPU, by UUID (or "gpu:3"), and of a machine that shows none. nvml: what NVML says, as evidence."""
    from ongpu.engine import all_sources, diagnose
    from ongpu.facts.system import Processes
    from ongpu.hosts.live import Live, gather
    from ongpu.hosts.nvml import ORIGIN, said_by_smi
    from ongpu.model import Evidence
    from ongpu.queue import gate, machine
    from ongpu.queue.each import whole

    sources = gate.sources(all_sources(), PATIENCE)
    others = gather(Live(root=Path(root)), [one for one in sources if one.kind != "nvml"], patience=PATIENCE + machine.SPARE)
    said = said_by_smi(nvml.text)
    smi = [Evidence("pasted", said, f"{ORIGIN} (as nvidia-smi says it)", readers=("nvidia-smi", "symptoms"))] if said else []
    rules = gate.rules()
    report = whole(diagnose([nvml, *smi, *others], "", rules, sources), rules, sources)
    listed = report.fact(Processes)
    gone = frozenset(one.pid for one in (listed.processes if listed else ()) if one.gone and one.pid)
    capability = {gpu.index: gpu.capability for gpu in gate.cards(report)}
    verdicts: dict[str, Verdict] = {}
    slices: dict[int, list[dict[str, Any]]] = {}
    cards = machine.cards_of(report, {}, root=root)
    for card in cards:
        if card.slice:
            slices.setdefault(card.index, []).append({"uuid": card.uuid, "name": card.name, "memory": card.total})
    for card in cards:
        if not card.slice:
            verdicts[card.uuid or f"gpu:{card.index}"] = Verdict(
                unfit=card.unfit, words=_words(report, card.unfit), capability=capability.get(card.index), near=card.near,
                partitioned=card.partitioned, slices=tuple(slices.get(card.index, ())), gone=gone,
            )  # fmt: skip
    reasons = () if verdicts else gate.decide(report, gate.Asked()).reasons
    return verdicts, (reasons[0].slug, reasons[0].text("en"), reasons[0].text("zh")) if reasons else None


def _words(report: Any, slug: str | None) -> tuple[str, str] | None:
    found = next((f for f in (*report.findings, *report.hidden) if f.slug == slug), None) if slug else None
    return (" ".join(found.text("en").title.split()), " ".join(found.text("zh").title.split())) if found else None


def incidents(path: str, now: float) -> dict[str, str]:
    """UUID -> slug of the incidents that forbid a GPU, as a watch that lives has them; {} where there is no such file, or not for us."""
    from ongpu.queue.engines.local.cards import faulty

    if not os.access(path, os.R_OK):
        return {}
    from ongpu.store import Store, StoreError

    try:
        with Store(path, readonly=True) as store:
            text = store.now()
            written = json.loads(text).get("written") if text else None
            if not isinstance(written, (int, float)) or not now - ALIVE <= written <= now + ALIVE:
                return {}
            found = store.incidents(open_only=True)
    except (StoreError, ValueError, AttributeError):
        return {}
    bad = (one for one in found if one.get("label") == "critical" or faulty(one.get("slug")))
    return {one["gpu_uuid"]: str(one.get("slug")) for one in bad if isinstance(one.get("gpu_uuid"), str)}


class Jobs:
    """Whose process is whose: the ONGPU_JOB in the environment of each, where we may read it; each process is asked once."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, str | None]] = {}  # pid -> its start, its job

    def of(self, hosts: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
        """pid -> job."""
        self.known = {pid: told for pid, told in self.known.items() if pid in hosts and told[0] == hosts[pid].get("start")}
        for pid, about in hosts.items():
            if pid not in self.known:
                self.known[pid] = about.get("start"), job_of(pid)
        return {pid: job for pid, (_, job) in self.known.items() if job is not None}


def job_of(pid: int) -> str | None:
    """The ONGPU_JOB that a process was started with; None where it has none, or hides it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            rows = file.read(MOST_ENVIRON).split(b"\0")
    except OSError:
        return None
    return next((row[10:].decode("utf-8", "replace")[:80] for row in rows if row.startswith(b"ONGPU_JOB=")), None)


class Teller:
    """Prints lines without ever waiting for the reader: one that is slow misses what is old. Ends the process where nobody reads."""

    def __init__(self, file: int) -> None:
        self.file, self.rest = file, b""
        os.set_blocking(file, False)

    def tell(self, line: Mapping[str, Any]) -> bool:
        """Whether it was taken: not while the last one still waits."""
        if not self.flush():
            return False
        self.rest = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self.flush()
        return True

    def flush(self) -> bool:
        """Whether all of it is out."""
        try:
            while self.rest:
                self.rest = self.rest[os.write(self.file, self.rest) :]
        except BlockingIOError:
            return False
        except OSError:
            os._exit(0)
        return True


def run(feed: Feed, seen: Seen, judge: Judge, teller: Teller) -> None:
    """For ever: messages in, lines out."""
    jobs, last = Jobs(), time.monotonic()
    told: Any = marks(seen.line(0.0, {}))  # nothing is known yet: that is told after a second, not at once
    asked: tuple[Any, float] = (None, float("-inf"))
    while True:
        message, now = feed.next(LISTEN), time.monotonic()
        while message:
            seen.take(message, now)
            message = feed.next(0.0)
        seen.tick(now)
        evidence = seen.evidence()
        if evidence and ((evidence, seen.full_at) != asked[0] or now - asked[1] >= JUDGE_EVERY):
            asked = (evidence, seen.full_at), now
            judge.ask(evidence, now if seen.why else seen.full_at)
        done, judge.done = judge.done, None
        if done:
            seen.settle(*done)
        seen.incidents = judge.incidents
        line = seen.line(time.time(), jobs.of(seen.hosts))
        state = marks(line)
        if now - last >= BEAT - LISTEN / 4 or ((state != told or seen.log) and now - last >= SOONEST):
            if seen.log:
                line["log"] = [list(one) for one in seen.log]
            if teller.tell(line):
                seen.log.clear()
                told, last = state, now
        else:
            teller.flush()


def end_with_input() -> None:
    """Whoever started us is gone: so are we, and the sampling child with its own input."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os._exit(0)


def main() -> None:
    """The child's program."""
    parser = argparse.ArgumentParser(prog="look")
    parser.add_argument("--root", default="/")
    parser.add_argument("--store", action="append")
    parser.add_argument("--no-kernel-log", action="store_true")
    options = parser.parse_args()
    threading.Thread(target=end_with_input, daemon=True).start()
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    stores = options.store or [path.format(state=state) for path in STORES]
    feed = Feed(interval=BEAT, proc_every=PROCESSES_EVERY, root=options.root, kernel_log=None if options.no_kernel_log else "/dev/kmsg")
    seen = Seen(time.time())
    with feed:
        run(feed, seen, Judge(seen, options.root, stores), Teller(1))


if __name__ == "__main__":
    main()
