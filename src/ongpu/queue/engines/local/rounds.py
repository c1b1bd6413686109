"""The daemon's rounds: what ended, what changed in the book, who may start; then it waits for the next of these."""

import contextlib
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.queue.admission import WEEK, Admission, Room
from ongpu.queue.engines.local import alive, recovery, stopping
from ongpu.queue.engines.local.active import NO_CHECKPOINT, Active
from ongpu.queue.engines.local.desk import Busy
from ongpu.queue.engines.local.ending import NOTE_AFTER, Ending
from ongpu.queue.engines.local.state import FREE, log
from ongpu.queue.job import CANCELLED, OVER

if TYPE_CHECKING:
    import socket

    from ongpu.queue.config import Config

SYNC_EVERY = 0.05  # seconds that claims and ends may be on their way to the disk: a power cut takes as much back, a kill -9 nothing
DECIDE_EVERY = 5.0  # seconds between two decisions where nothing happened: buckets and patience grow with time
LONGEST = 10.0  # that nothing is looked at: commands take a longer silence for a daemon that hangs (engine.py)
TROUBLE_EVERY = 60.0  # between two lines of the log about a looker that does not live
TELL_EVERY = 2.0  # between two tellings of why jobs wait
BOOT = "boot"  # a file: the boot in which the daemon ran last


class Outdated(Exception):
    """Another version of us was installed: its daemon is to go on."""


class Anew(Exception):
    """The book was removed or replaced by another file: what we have in mind is of no use."""


class Lost(Exception):
    """The folder was removed, or is another one now: what is in it is not ours to touch."""


class Rounds(Ending):
    """One life of the daemon, from a reading of the book to an error or the end of its work."""

    def __init__(self, place: Path, config: "Config", wake: "socket.socket", mine: int) -> None:
        super().__init__(place, config, wake, mine)
        now, wall = recovery.uptime(), time.time()
        try:
            self._recover(now)
            known = self.book.seq()
            self.learn(now, wall)  # of the jobs that live
            self.seq = known
            self.tell_cancelled(self.book.unheard(known), now)
            self.keep(now, wall)
        except BaseException:
            self.close()
            raise

    # --- what was there before us

    def _recover(self, now: float) -> None:
        """Every run that the book knows as going on: adopted, or at its end."""
        rebooted = self._rebooted()
        with contextlib.suppress(ChildProcessError):  # of a life before this one
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for run in self.book.runs():
            one = Active(run, now, noted=run.started is not None)
            one.kept = (one.job_folder / NO_CHECKPOINT).exists()
            self.active[run.job] = one
            one.recall()
            self.sight.ours.update(dict.fromkeys(one.gpus, float("inf")))
            self.adopt(one, recovery.fate(run.folder, rebooted))

    def _rebooted(self) -> bool:
        """Whether the machine was started since a daemon last claimed anything; this boot is written down before we do."""
        file = self.place / BOOT
        try:
            before = file.read_text("ascii", "replace").strip()
        except OSError:
            before = ""
        if before != self.boot:
            new = self.place / f"{BOOT}.new"
            with open(new, "w", encoding="ascii") as out:
                out.write(f"{self.boot}\n")
                out.flush()
                os.fsync(out.fileno())
            os.replace(new, file)
        return bool(before) and before != self.boot

    # --- round and round

    def go(self) -> None:
        """Until there was nothing to do for long. Raises Anew, Lost, Outdated."""
        while True:
            if not alive.ours(self.place, self.mine):
                raise Lost
            if not self.book.ours():
                raise Anew
            now, wall = recovery.uptime(), time.time()
            if self.outdated(now):
                raise Outdated
            self.look(now, wall)
            self.mind(now, wall)
            self.settle(now, wall)
            self.learn(now, wall)
            self.decide(now, wall)
            if self.unsynced and now - self.synced >= SYNC_EVERY:
                self.sync()
            self.keep(now, wall)
            self.rest(now)
            if self.active or self.desk.rows or self.tested or self.notices.busy or self.withholds:
                self.quiet_since = now
            elif now - self.quiet_since >= self.config.idle_exit:
                return
            self.wait(now, wall)

    def look(self, now: float, wall: float) -> None:
        """The looker's news."""
        self.sight.mind(now)
        heard = self.sight.heard
        if self.sight.read(now, wall):
            self.dirty, self.next["cards"] = True, 0.0
        if self.sight.trouble and self.sight.tries > 1 and self.due("trouble", TROUBLE_EVERY, now):
            log(f"fault: {self.sight.trouble}; it is started again and again")
        if self.sight.heard != heard:
            self.lend(now)
            self.used_by_jobs(now, wall)

    def learn(self, now: float, wall: float) -> None:
        """What changed: by us, and by the commands."""
        cancelled: list[int] = []
        rows = self.book.changed(self.seq)
        if self.woken or any(row.id not in self.rows for row in rows):
            self.reread(wall)
            self.reconfigure(wall)
            self.woken = False
        for row in rows:
            self.seq = max(self.seq, row.seq)
            if row.gpus == 0 and not row.cpus:
                row = row._replace(cpus=1)  # what needs no GPU needs a CPU
            self.told.pop(row.id, None)  # what changes a job may have taken away what was said of it
            if row.state in OVER:
                cancelled += [row.id] if row.state == CANCELLED else []
                self.rows.pop(row.id, None)
                self.desk.drop(row.id)
                continue
            self.rows[row.id] = row
            one = self.active.get(row.id)
            if one and one.run.attempt == row.attempt:
                self.desk.drop(row.id)
                if row.wish and not (one.stop and one.stop.why == row.wish):
                    self.wished(one, row.wish, now, wall)
            else:
                self.desk.put(self.movable(row), wall)
        self.dirty |= bool(rows)
        if cancelled:
            self.tell_cancelled(cancelled, now)
            self.book.heard(self.seq)

    def decide(self, now: float, wall: float) -> None:
        """Who starts, who gives way, and now and then why the others wait."""
        self.dirty |= self.desk.wake(wall)
        tell = self.desk.count > 0 and now >= self.next["tell"]
        if not (self.dirty or tell or now >= self.next["decide"]) or not (self.desk.count or self.reservations):
            return
        self.next["decide"], self.dirty = now + DECIDE_EVERY, False
        busy = [self._busy(one, now) for one in self.active.values() if one.run.job in self.rows]
        parts: dict[str, list[tuple[int, int]]] = {}
        for one in self.active.values():
            for gpu, slot in one.run.leases:
                if slot:
                    parts.setdefault(gpu, []).append((slot, one.run.spec.memory or 0))
        devices = self.sight.devices(parts)
        sound = sum(not device.fault and not device.taken for device in devices)
        room = Room(gpus=sound, cpus=self.cpus, host_memory=self.host_memory)
        started = {one.row.id: wall - one.since for one in busy}
        quotas = self.config.quotas
        used = self.book.used(wall - WEEK, wall) if quotas.hours else None
        admission = Admission([one.row for one in busy], room, wall, quotas, self.reservations, used, started)
        chosen = self.desk.decide(devices, busy, admission, wall, tell, self.sight.closed(now))
        leave = {job: why for job, why in chosen.leave.items() if job in self.active and self.active[job].may_leave}
        if leave:
            log(", ".join(f"job {job} gives way ({why.name})" for job, why in leave.items()))
            self.ask(dict.fromkeys(leave, stopping.PREEMPT), now, wall)
        if chosen.starts:
            self.begin(chosen.starts, now, wall)
        if tell:
            self.next["tell"] = now + TELL_EVERY
            new = {job: text for job, why in chosen.reasons.items() if self.told.get(job) != (text := why.json())}
            if new:
                self.told.update(new)
                self.book.say(new, wall)

    def _busy(self, one: Active, now: float) -> Busy:
        row = self.rows[one.run.job]
        since = max(0.0, now - one.began) if one.began is not None else 0.0
        return Busy(row=row, gpus=one.gpus, since=since, movable=bool(row.checkpoint) and not one.kept)

    # --- in between

    def wait(self, now: float, wall: float) -> None:
        """Until something is to be done."""
        until = min(now + LONGEST, self.sight.mind(now), self.quiet_since + self.config.idle_exit)
        if self.sight.told:
            until = min(until, self.next["cards"])
        for one in self.active.values():
            until = min(until, *_due(one, now))
        if self.desk.count:
            until = min(until, self.next["decide"], self.next["tell"])
        if (begin := self.desk.next) is not None:
            until = min(until, now + max(0.0, begin - wall), now + 5.0)  # the clock may be set meanwhile
        if self.tested or self.notices.busy or self.left:
            until = min(until, now + 1.0)
        if self.autopsies.under or self.autopsies.waiting:
            until = min(until, now + 0.25)
        if self.free:
            until = min(until, self.free[0].since + FREE + 0.1)
        if self.unsynced:
            until = min(until, self.synced + SYNC_EVERY)
        if self.ended or (self.dirty and self.desk.count):
            until = now
        self._sources()
        for file, _ in self.poll.poll(max(0.0, until - now) * 1000):
            if file == self.wake.fileno():
                self.next["second"], self.woken = 0.0, True
                with contextlib.suppress(BlockingIOError):
                    while self.wake.recv(64):
                        pass
            elif file in self.keepers:
                self.heard(self.keepers[file])
            elif file in self.handles:
                self.gone(self.handles[file])

    def _sources(self) -> None:
        """The looker and the autopsy come and go: when they are closed their numbers may become those of keepers, or each other's."""
        now = {"looker": self.sight.fileno(), "autopsy": self.autopsies.fileno()}
        for file in self.sources.values():
            if file not in now.values() and file not in self.keepers and file not in self.handles:
                with contextlib.suppress(KeyError):
                    self.poll.unregister(file)
        self.sources = {name: file for name, file in now.items() if file >= 0}
        for file in self.sources.values():
            self.poll.register(file, select.POLLIN)


def _due(one: Active, now: float) -> Iterable[float]:
    """When something is to be done about a run."""
    yield float("inf")
    if one.fate is not None:
        return
    if one.handle < 0 and not one.keeper:
        yield now + 0.2
    if not one.noted:
        yield max(now + 0.02, one.spawned + NOTE_AFTER) if now < one.spawned + 1 else now + 0.25
    if one.stop:
        yield one.stop.next
    elif one.began is not None and one.run.spec.limit is not None:
        yield one.began + one.run.spec.limit
