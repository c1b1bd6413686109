"""How the daemon starts what was chosen: leases of GPUs, a claim in the book, a keeper; and what keeps a GPU that should be free."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ongpu.hosts import leases, oom_kills
from ongpu.queue.engines.local import recovery
from ongpu.queue.engines.local.active import NO_CHECKPOINT, Active
from ongpu.queue.engines.local.desk import MOST_CPU_STARTS, Choice
from ongpu.queue.engines.local.keepers import PYTHON
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Run
from ongpu.queue.engines.local.state import State, log
from ongpu.queue.job import WAITING

BARRED = 5.0  # seconds for which GPUs are left alone of which no lease can be had
COMPLAIN_EVERY = 60.0  # between two lines of the log that say so
PAUSE = 0.2  # seconds until the next decision where nothing came of this one
PAUSES = (0.001, 0.003, 0.0)  # seconds between tries: of a process that has just ended the kernel may close the files a moment later
LEFT_GRACE = 5.0  # seconds between SIGTERM and SIGKILL for what an ended job left behind


class Beginning(State):
    """The starts of one decision."""

    def begin(self, starts: Sequence[Choice], now: float, wall: float) -> None:
        """A lease is taken before the claim and handed to the keeper: no other taker comes between. Who does not start waits on."""
        self.sight.read(now, wall)  # what happened since it was chosen
        taken: dict[int, leases.Lease | None] = {}
        wanted: list[tuple[int, Sequence[tuple[str, int]]]] = []
        try:
            for choice in starts:
                lease = self._lease(choice) if choice.leases else None
                if lease or not choice.leases:
                    taken[choice.row.id] = lease
                    wanted.append((choice.row.id, choice.leases))
            runs = self.book.claim(wanted, wall, durable=False) if wanted else []
            self.unsynced |= bool(runs)
            if any(run.spec.on_reboot != "requeue" for run in runs):  # else a power cut means the same whether the claim is known or not
                self.sync()
            for run in runs:
                self._spawn(run, taken[run.job], now)
        finally:
            for lease in taken.values():
                if lease:
                    lease.close()
        for choice in starts:
            if choice.row.id not in self.active:
                row = self.rows.get(choice.row.id)
                if row and row.state == WAITING:
                    self.desk.put(self.movable(row), wall)
                self.dirty = True
        self.dirty |= len(starts) >= MOST_CPU_STARTS
        if not any(choice.row.id in self.active for choice in starts):
            self.dirty, self.next["decide"] = False, now + PAUSE

    def _lease(self, choice: Choice) -> leases.Lease | None:
        row = choice.row
        about = {"pid": os.getpid(), "user": row.user, "since": round(time.time(), 1), "memory": row.memory}
        about["command"] = f"ongpu job {row.id}"
        slots = {gpu: slot for gpu, slot in choice.leases if slot}
        beside: dict[str, set[int]] = {}
        if slots:
            for one in self.active.values():
                for gpu, slot in one.run.leases:
                    beside.setdefault(gpu, set()).add(slot)
        try:
            for pause in PAUSES:
                found = leases.take(self.sight.place, [gpu for gpu, _ in choice.leases], about, slots, beside)
                if isinstance(found, leases.Lease):
                    return found
                holder = found
                time.sleep(pause)
        except leases.Unusable as error:
            now = recovery.uptime()
            bad = [gpu for gpu, _ in choice.leases if self._unusable(gpu)] or [gpu for gpu, _ in choice.leases]
            self.sight.bar(bad, (error.english, error.chinese), now + BARRED)
            if self.due("complain", COMPLAIN_EVERY, now):
                log(f"fault: no lease of a GPU: {error.english}")
            return None
        self.sight.leased(holder)
        self.left_behind(holder.gpu)
        return None

    def _unusable(self, gpu: str) -> bool:
        """Whether it is the lease of that GPU that cannot be had."""
        try:
            leases.held(self.sight.place, [gpu])
        except leases.Unusable:
            return True
        return False

    def _spawn(self, run: Run, lease: leases.Lease | None, now: float) -> None:
        one = Active(run, now)
        one.kept = run.spec.checkpoint != "" and (one.job_folder / NO_CHECKPOINT).exists()
        one.kills = self._kills(now)
        self.active[run.job] = one
        self.sight.ours.update(dict.fromkeys(one.gpus, float("inf")))
        if any(self.sight.taken(gpu) or self.sight.fault(gpu) for gpu in one.gpus):  # since it was chosen
            self.over(one, Fate(recovery.NEVER))
            return
        try:
            keeper = self.keeper()
        except OSError as error:
            self.unkept(f"{PYTHON}: {error.strerror}", now)
            self.over(one, Fate(recovery.NEVER))  # nobody knows of it
            return
        try:
            keeper.keep(run, lease.files.values() if lease else (), self.boot)
        except (OSError, ValueError) as error:  # ValueError: a null byte
            log(f"job {run.job}: not started: {error}")
            self.dismiss(keeper)
            never = isinstance(error, ValueError)
            self.over(one, Fate(recovery.NOT_STARTED, code=126, word="cannot-run") if never else Fate(recovery.NEVER))
        else:
            self.kept(one, keeper)

    def _kills(self, now: float) -> Mapping[str, int]:
        if now - self.kills[0] > 1.0:
            self.kills = now, oom_kills.count()
        return self.kills[1]

    # --- GPUs that should be free

    def left_behind(self, gpu: str) -> None:
        """Ends what an ended job of ours left behind, where it keeps a GPU: asked first, killed a little later."""
        going = {str(one.run.folder) for one in self.active.values()}
        file = str(self.sight.place / gpu)
        for pid, run in recovery.processes(self.place / "jobs").items():
            if run not in going and pid not in self.left and file in recovery.files(pid) and not recovery.goes_on(Path(run)):
                log(f"pid {pid}: left behind by {run}, and holds {gpu}; it is ended")
                self.left[pid] = recovery.uptime() + LEFT_GRACE
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)

    def clear(self, now: float) -> None:
        """Kills what did not end when it was asked to."""
        for pid, until in list(self.left.items()):
            if not recovery.there(pid):
                del self.left[pid]
            elif now >= until:
                self.left[pid] = now + LEFT_GRACE
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
