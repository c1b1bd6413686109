"""How the daemon minds runs that go on, and what it makes of those that ended: limits, wishes, idleness; the post-mortem, and the book."""

import contextlib
import os
from typing import Any

from ongpu.lazy import replace
from ongpu.queue import notices
from ongpu.queue.engines.local import autopsy, cards, ends, idle, recovery, starter, stopping
from ongpu.queue.engines.local.active import NO_CHECKPOINT, Active
from ongpu.queue.engines.local.keepers import PYTHON, Keeper
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Finish
from ongpu.queue.engines.local.state import log
from ongpu.queue.engines.local.tending import Tending
from ongpu.queue.job import CANCELLED, DONE, OVER, PREEMPTED
from ongpu.queue.reasons import Reason
from ongpu.queue.run import OK

NOTE_AFTER = 0.15  # seconds after which a run is noted as begun: most of the shortest are over by then
STARTING_LIMIT = 60.0  # seconds after which a run that has not begun is given up
USED_EVERY = 30.0  # seconds after which the figures of a run are written down: another daemon goes on from there
NEWS = 0.3  # seconds that the driver and the kernel get to say of a fault
WELL = {"ending": OK, "outcome": cards.WELL}  # of autopsy.py, for what need not be asked
SURE = (0, 128 + 15, 128 + 9)  # exit codes of what ended because we asked it to


class Ending(Tending):
    """Runs, from their start to their end."""

    def ask(self, wishes: dict[int, str], now: float, wall: float) -> None:
        """Runs are to end: written down first, so that whoever finds them ended knows why."""
        self.book.wish(wishes, wall)
        for job, why in wishes.items():
            self.wished(self.active[job], why, now, wall)

    def wished(self, one: Active, wish: str, now: float, wall: float) -> None:
        """It is asked to end, by us or by a command."""
        if wish and one.fate is None:
            one.stop = stopping.stronger(one.stop, wish, now) if one.stop else stopping.stop(wish, now, wall)
            self._stop(one, now, wall)

    def mind(self, now: float, wall: float) -> None:
        """Limits, stops, runs that begin."""
        begun: list[Active] = []
        late: dict[int, str] = {}
        for one in self.active.values():
            if one.fate is not None:
                continue
            if one.handle < 0 and not one.keeper and one.pid and not recovery.there(one.pid):
                self.gone(one)
                continue
            if not one.noted and now >= one.spawned + NOTE_AFTER and one.began_now():
                begun.append(one)
            limit = one.run.spec.limit
            if one.stop:
                self._stop(one, now, wall)
            elif one.began is None and now >= one.spawned + STARTING_LIMIT and recovery.void(one.run.folder):
                log(f"job {one.run.job}: its keeper did not begin; given up")
                one.spawned = now
                one.send(stopping.KILL)
            elif one.began is not None and limit is not None and now >= one.began + limit:
                late[one.run.job] = stopping.OUT_OF_TIME
        if begun:
            self.book.started([one.key for one in begun], wall)
            for one in begun:
                one.noted = True
            self.notify({one.run.job: notices.STARTED for one in begun}, now)
        if late:
            self.ask(late, now, wall)

    def _stop(self, one: Active, now: float, wall: float) -> None:
        assert one.stop  # noqa: S101  the caller saw it
        saved = one.saved() if one.stop.done == stopping.SAVE and now >= one.stop.next else None
        one.stop, step = stopping.step(one.stop, one.run.spec, now, saved is not False)
        if step == stopping.SAVE:
            one.stop = replace(one.stop, asked=wall)
        if step == stopping.STAY:
            log(f"job {one.run.job}: no checkpoint appeared after {one.run.spec.checkpoint}; it is left alone")
            self._keeps(one)
            one.stop = None
            self.book.stay([one.run.job], Reason("no-checkpoint", {"signal": one.run.spec.checkpoint}).json(), wall)
        elif step:
            one.send(step)

    def _keeps(self, one: Active) -> None:
        """It does not do what it declared: never asked again."""
        one.kept, self.dirty = True, True
        with contextlib.suppress(OSError), open(one.job_folder / NO_CHECKPOINT, "w"):
            pass

    def used_by_jobs(self, now: float, wall: float) -> None:
        """What the GPUs of the running jobs did, and whether they did anything."""
        stop: dict[int, str] = {}
        remember = self.due("used", USED_EVERY, now)
        for one in self.active.values():
            if not one.run.leases or one.began is None or one.fate is not None:
                continue
            one.look(self.sight.gpus)
            if remember:
                one.remember()
            if one.stop is None and any(self.sight.dead(uuid) for uuid in one.gpus):
                log(f"job {one.run.job}: a GPU under it does not answer any more")
                stop[one.run.job] = stopping.FAULT
                continue
            spec = one.run.spec
            limit, stops = (spec.idle, spec.idle_stop) if spec.idle is not None else (self.config.idle_after, self.config.idle_stop)
            gpus = [self.sight.gpus[uuid] for uuid in one.gpus if uuid in self.sight.gpus]
            if limit is None or spec.share or len(gpus) != len(one.gpus):
                continue
            one.idle, word = idle.step(one.idle, gpus, wall, limit, stops)
            if word == idle.WARN:
                self._warn(one, idle.words(idle.patience(one.idle, limit), stops), now)
            elif word == idle.STOP and one.stop is None:
                stop[one.run.job] = stopping.IDLE
        if stop:
            self.ask(stop, now, wall)

    def _warn(self, one: Active, words: tuple[str, str], now: float) -> None:
        """A line in the job's own output: who looks at it sees why it may be stopped."""
        log(f"job {one.run.job}: {words[0]}")
        with contextlib.suppress(OSError):
            file = os.open(starter.output_of(one.run), os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(file, f"ongpu: {words[0]} / {words[1]}\n".encode())
            finally:
                os.close(file)
        self.notify({one.run.job: f"{notices.WARNED} {words[self.config.language == 'zh']}"}, now)

    # --- the end

    def gone(self, one: Active) -> None:
        """The process that we waited for is no more."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(one.pid, os.WNOHANG)
        self.unwatch(one)
        self.adopt(one, recovery.fate(one.run.folder))

    def heard(self, keeper: Keeper) -> None:
        """It said that its run is over; or it is dead."""
        one, fate = self.handles.get(keeper.handle), keeper.told()
        if fate is None:
            if not keeper.proved and one and recovery.begun(one.run.folder) is None:  # else it was killed at its work
                self.unkept(f"{PYTHON} ended at once", recovery.uptime())
            self.dismiss(keeper)
            if one:
                self.gone(one)
            return
        keeper.since = recovery.uptime()
        self.free.append(keeper)
        if one:
            self.unwatch(one)
            self.over(one, fate)

    def adopt(self, one: Active, fate: Fate) -> None:
        """What became of it, now that we look."""
        if fate.what in (recovery.RUNS, recovery.ORPHAN):
            one.orphan = fate.what == recovery.ORPHAN
            self.watch(one, fate.pid)
            one.began_now()  # its limit and its figures go on
        else:
            self.over(one, fate)

    def settle(self, now: float, wall: float) -> None:
        """What became of those that ended, into the book."""
        ended, self.ended = self.ended, []
        finishes: list[Finish] = []
        for one in ended:
            assert one.fate  # noqa: S101  it has ended
            row = self.rows.get(one.run.job)
            if not one.stop and row and row.wish:  # asked by the daemon before us
                one.stop = replace(stopping.stop(row.wish, now, one.run.asked or wall), done=stopping.ASK)
            if one.fate.what == recovery.ENDED and one.fate.code == 0 and not one.stop:
                finishes.append(self._finish(one, one.fate, WELL, now, wall))
                continue
            one.began_now()
            question = one.question(one.fate, self.sight.under(one.gpus), self.sight.log, now, wall)
            answer = autopsy.quick(question)
            if answer is None and _dubious(one, one.fate):
                self._ask_later(one, one.fate, question, now, wall)
            else:
                finishes.append(self._finish(one, one.fate, answer or {}, now, wall))
        for (job, attempt), answer in self.autopsies.done():
            found = self.active.get(job)
            if found and found.fate and found.run.attempt == attempt:
                finishes.append(self._finish(found, found.fate, answer, now, wall))
        if not finishes:
            return
        self.book.finish(finishes, wall, durable=False)  # `sync` makes it so soon
        self.unsynced = True
        over = [end for end in finishes if end.then in OVER and end.then != CANCELLED]  # of those cancelled `learn` tells
        self.notify({end.job: notices.DONE if end.then == DONE else notices.FAILED for end in over}, now)
        left = [self.active.pop(end.job) for end in finishes]
        held = {gpu for one in self.active.values() for gpu in one.gpus}
        self.sight.ours.update((gpu, wall) for one in left for gpu in one.gpus if gpu not in held)
        self.dirty = True

    def _ask_later(self, one: Active, fate: Fate, question: dict[str, Any], now: float, wall: float) -> None:
        """What it died of: asked when its GPUs were looked at since."""

        def ready() -> bool:
            return not one.run.leases or not self.sight.up or self.sight.sampled > wall + NEWS

        def fresh() -> dict[str, Any]:
            return {**one.question(fate, self.sight.under(one.gpus), self.sight.log, now, wall), "ended": question["ended"]}

        self.autopsies.ask(one.key, question, ready, fresh)

    def _finish(self, one: Active, fate: Fate, answer: dict[str, Any], now: float, wall: float) -> Finish:
        saved = one.saved() if one.stop and one.stop.saves else None
        retried = self.book.retried(one.run.job) if fate.code != 0 and one.run.spec.retries else 0
        started, ended, lasted = one.times(now, wall)
        figures = {"used": lasted * len(one.run.leases), "started": started, "ended": ended}
        end = ends.end(one.run, fate, one.stop, answer, saved, retried, self.config.on_reboot, **figures, **one.figures())
        if end.ending == PREEMPTED and saved is False:
            self._keeps(one)
        kind = " ".join(one.run.spec.command)[:500]  # one buggy program shows its bug in all of its runs
        for uuid in one.gpus:
            outcome = answer.get("outcome")
            if outcome == cards.FAULT and uuid not in (answer.get("gpus_at_fault") or ()):
                outcome = cards.EXPLAINED
            if outcome and not (outcome == cards.WELL and self.sight.well(uuid)):
                self.sight.event(uuid, cards.Ended(str(outcome), kind, end.slug), wall)
                self.next["cards"] = 0.0 if outcome != cards.WELL else self.next["cards"]
        return end


def _dubious(one: Active, fate: Fate) -> bool:
    """Whether it is worth a look what it died of."""
    if fate.what not in (recovery.ENDED, recovery.GONE):
        return False
    return one.stop is None or one.stop.done in ("", stopping.STAY) or one.stop.why == stopping.FAULT or fate.code not in SURE
