"""What the daemon looks after beside the jobs: the GPUs' states, an operator's orders, tests, the fair share, what is forgotten."""

import contextlib
import os
import shutil

from ongpu.hosts import leases
from ongpu.lazy import replace
from ongpu.queue import notices
from ongpu.queue.config import Quotas, load
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import cards, orders, possible, scripts, trial
from ongpu.queue.engines.local.beginning import Beginning
from ongpu.queue.engines.local.state import bound, config_stamp, keep_undelivered, log, version
from ongpu.queue.job import Want

VERSION_EVERY = 10.0  # seconds between two looks whether another version of us was installed
CARDS_EVERY, SPENT_EVERY, LEND_EVERY, FORGET_EVERY, SECOND = 5.0, 60.0, 1.0, 600.0, 1.0


class Tending(Beginning):
    """What is due now and then."""

    def keep(self, now: float, wall: float) -> None:
        """What is due from time to time."""
        if self.due("second", SECOND, now):
            self.notices.step(now)
            if self.notices.problem != self.undelivered:
                self.undelivered = self.notices.problem
                if self.undelivered:
                    log(f"a message was not delivered: {self.undelivered}")
            keep_undelivered(self.place, self.notices.changed())
            self.reconfigure(wall)
            with contextlib.suppress(OSError):
                os.utime(self.mine)  # by this, commands see that we live and do not hang
            self._orders(wall)
            self._tests(wall)
            self._withhold()
            self.clear(now)
        if self.sight.told and self.due("cards", CARDS_EVERY, now):
            self.book.set_cards(self.sight.shown(), wall)
        if self.due("spent", SPENT_EVERY, now):
            self.desk.set_policy(replace(self.config.policy, spent=self.book.spent(wall, self.config.half_life)))
            self.reread(wall)
        if self.due("forget", FORGET_EVERY, now):
            bound(self.place)
            forgotten = self.book.forget(wall, self.config.keep)
            for job in forgotten:
                shutil.rmtree(self.place / "jobs" / str(job), ignore_errors=True)
            if forgotten:
                scripts.prune(self.place, self.book.scripts(), wall)

    def reread(self, wall: float) -> None:
        """What is reserved: as soon as it changes, and before any job that was submitted after that is placed."""
        reservations = [one for one in self.book.reservations() if one.end > wall]  # any costs each decision
        if reservations != self.reservations:
            self.reservations, self.dirty = reservations, True
            self.desk.set_reserved(bool(reservations), wall)

    def reconfigure(self, wall: float) -> None:
        """What the configuration says now, where its files changed. One that is wrong leaves the old one in force."""
        stamp = config_stamp()
        if stamp == self.stamp:
            return
        self.stamp = stamp
        try:
            config = load()
        except EngineError as error:
            log(f"fault: the configuration is not taken over: {error.english}")
            return
        if config == self.config:
            return
        log("the configuration changed: taken over")
        self.config = self.notices.config = config
        self.sight.foreign = config.foreign
        self.cpus, self.host_memory = possible.cpus(config), possible.host_memory(config)
        self.desk.set_quotas(config.quotas != Quotas(), wall)
        self.next["spent"], self.dirty = 0.0, True

    def outdated(self, now: float) -> bool:
        """Whether our files were replaced, and have been the same for a while since."""
        if not self.due("version", VERSION_EVERY, now):
            return False
        before, self.version_seen = self.version_seen, version()
        return self.version_seen == before != self.version

    def lend(self, now: float) -> None:
        """Who else holds leases now."""
        if self.due("lend", LEND_EVERY, now):
            before = set(self.sight.holders)
            own = {gpu for one in self.active.values() for gpu in one.gpus} | {gpu for gpu, lease in self.tested.items() if lease}
            own |= self.withheld.keys()
            if self.sight.lend(own):
                self.dirty, self.next["cards"] = True, 0.0
            for gpu in self.sight.holders.keys() - before:
                self.left_behind(gpu)

    def _orders(self, wall: float) -> None:
        """An operator's words: heeded, kept in the book, and only then taken away."""
        found = orders.waiting(self.place)
        for _, order in found:
            log(f"{order.gpu}: {order.word} ({order.by})")
            self.sight.event(order.gpu, cards.Ordered(order.word), wall)
        if found:
            self._withhold()
            self.book.set_cards(self.sight.shown(), wall)
            orders.heeded(self.place, [name for name, _ in found])
            self.dirty = True

    def _tests(self, wall: float) -> None:
        """GPUs that are to be tested: as soon as no job is on them, with their lease in our hand."""
        for uuid, result in self.trials.done(self.place):
            log(f"{uuid}: tested: {result.get('result')} {result.get('slug') or ''}")
            self.sight.event(uuid, trial.tested(result), wall)
            lease = self.tested.pop(uuid, None)
            if lease:
                lease.close()
            self.dirty, self.next["cards"] = True, 0.0
        busy = {gpu for one in self.active.values() for gpu in one.gpus}
        for uuid, health in self.sight.health.items():
            if health.state == cards.TESTING and uuid not in self.trials.under and uuid not in busy and uuid in self.sight.gpus:
                about, (kept, _) = leases.words(["ongpu queue test", uuid]), self.withheld.pop(uuid, (None, ""))
                if kept:  # of a drained one we hold it already
                    kept.say(about)
                found = self.tested.get(uuid) or kept or leases.take(self.sight.place, [uuid], about)
                if isinstance(found, leases.Lease):
                    self.tested[uuid] = found
                    self.trials.start(uuid, self.place)

    @property
    def withholds(self) -> bool:
        """Whether a GPU is drained that others would be given if we ended."""
        return any(health.state == cards.DRAINED and uuid in self.sight.gpus for uuid, health in self.sight.health.items())

    def _withhold(self) -> None:
        """Takes the lease of every drained GPU, which all users of the machine see: no `ongpu run` and no other queue is given it. Nobody's
        own is taken: of a GPU that is leased, it is when that has ended."""
        busy = {gpu for one in self.active.values() for gpu in one.gpus}
        for uuid, health in self.sight.health.items():
            lease, said = self.withheld.get(uuid, (None, ""))
            if health.state == cards.DRAINED:
                slug = health.slug or cards.DRAINED
                why = cards.words(slug) or (slug, slug)
                about = {**leases.words(["drained:", why[0]]), "drained": slug}  # the first also for an ongpu that knows no `drained`
                if lease and said != slug:
                    lease.say(about)
                elif lease is None and uuid in self.sight.gpus and uuid not in busy:
                    with contextlib.suppress(leases.Unusable):
                        found = leases.take(self.sight.place, [uuid], about)
                        lease = found if isinstance(found, leases.Lease) else None
                if lease:
                    self.withheld[uuid] = lease, slug
            elif lease and health.state != cards.TESTING:  # a test goes on with it
                self.withheld.pop(uuid)
                lease.close()

    def notify(self, jobs: dict[int, str], now: float) -> None:
        """Tells people of these, which are active still. job -> notices.STARTED, DONE, FAILED, or WARNED and a line."""
        if not jobs or not (self.config.notify or any(self.active[job].run.spec.notify for job in jobs)):
            return
        listed = self.book.listing(Want(ids=tuple(str(job) for job in jobs), most=None))
        for told in listed.jobs:
            kind, _, more = jobs[int(told.id)].partition(" ")
            self.notices.tell(told, kind, now, more)

    def tell_cancelled(self, jobs: list[int], now: float) -> None:
        """Tells people of those of these jobs that were to be told of: they may never have run."""
        wanted = bool(self.config.notify) and not {notices.CANCELLED, "all"}.isdisjoint(self.config.on)
        if jobs and (ids := jobs if wanted else self.book.to_tell(jobs)):
            for told in self.book.listing(Want(ids=tuple(map(str, ids)), most=None)).jobs:
                self.notices.tell(told, notices.CANCELLED, now)
