"""What the daemon knows of the GPUs: the looker's lines, each GPU's health, and who else holds a lease. The looker is a child process."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ongpu.hosts import leases
from ongpu.lazy import replace
from ongpu.queue.engines.local import cards
from ongpu.queue.engines.local.cards import Event, Health
from ongpu.queue.engines.local.desk import Device
from ongpu.queue.job import Card
from ongpu.queue.reasons import Reason

VARIABLE = "ONGPU_QUEUE_LOOKER"  # another program that tells of the GPUs, as look.py does: tests
FIRST = 60.0  # seconds in which the first look at all GPUs is waited for
SILENCE = 5.0  # seconds without a line after which nothing is known any more
RESTARTS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before a looker that ended is started anew
MOST_LINE = 8 << 20  # bytes of a line: 64 GPUs with their processes are some 100 kB
CHUNK = 1 << 18
IDLE = 10  # percent of utilisation below which strangers with little memory are a desktop
NAMELESS = "gpu:"  # what look.py calls a GPU that never told its UUID: nothing is kept of it
NEWS = 0.3  # seconds after the end of a job of ours in which a look may still show its memory
MOST_LOG = 200  # lines of the kernel's log that are kept


class Sight:
    """The GPUs as they are known now. now: seconds of a clock that does not jump; wall: since the epoch."""

    def __init__(self, known: Iterable[Card], foreign: int, wall: float) -> None:
        self.foreign = foreign  # MiB that strangers may hold
        self.gpus: dict[str, Mapping[str, Any]] = {}  # as look.py tells them
        self.cards = {card.id: card for card in known}
        self.health: dict[str, Health] = {}
        for uuid, card in self.cards.items():
            self.health[uuid] = cards.of_card(card if card.state != cards.OK else replace(card, slug=""))
        self.ours: dict[str, float] = {}  # until when jobs of ours were on it, seconds since the epoch; inf: one is
        self.holders: dict[str, str] = {}  # of leases that are not ours
        self.drained: dict[str, tuple[str, str]] = {}  # by another's queue: who, and the slug of why
        self.barred: dict[str, tuple[float, tuple[str, str]]] = {}  # those of which no lease can be had: until when, and why
        self.up, self.told, self.heard = False, False, 0.0
        self.begun: float | None = None  # when we began to look
        self.sampled = 0.0  # when the GPUs were looked at for what is known now, seconds since the epoch
        self.why: tuple[str, ...] = ()
        self.log: list[tuple[float, str]] = []  # the kernel's lines about GPUs, the last few
        self.process: subprocess.Popen[bytes] | None = None
        self.rest = b""
        self.tries, self.next = 0, 0.0
        self.trouble = ""  # what became of the looker, until another one tells something
        self.place = leases.folder()

    # --- the looker

    def fileno(self) -> int:
        """Where its lines come from; -1 while there is none."""
        return self.process.stdout.fileno() if self.process and self.process.stdout else -1

    def mind(self, now: float) -> float:
        """Starts the looker where it is time; when to look again."""
        self.begun = now if self.begun is None else self.begun
        if self.process is None and now >= self.next:
            command = shlex.split(os.environ.get(VARIABLE, "")) or [sys.executable, "-m", "ongpu.queue.engines.local.look"]
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # its errors: our log
            except OSError:
                self._later(now)
                return self.next
            assert self.process.stdout  # noqa: S101  a pipe was asked for
            os.set_blocking(self.process.stdout.fileno(), False)
            self.heard = now
        if self.process and now - self.heard > SILENCE:
            self.up = False
            if now - self.heard > 4 * SILENCE:
                self._end(now)
        return self.next if self.process is None else now + SILENCE

    def read(self, now: float, wall: float) -> bool:
        """Whether something new is known."""
        if not self.process or not self.process.stdout:
            return False
        try:
            data = os.read(self.process.stdout.fileno(), CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._end(now, over=True)
            return True
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.rest = self.rest if len(self.rest) <= MOST_LINE else b""
        changed = False
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                told = json.loads(line)
                if isinstance(told, dict):
                    self.heard, self.tries, self.trouble = now, 0, ""
                    changed |= self._take(told, wall)
        return changed

    def close(self) -> None:
        """Ends the looker."""
        self._end(0.0)

    def _end(self, now: float, over: bool = False) -> None:
        """over: it closed its output, so that its exit code is here or comes in a moment."""
        process, self.process, self.rest, self.up = self.process, None, b"", False
        if process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5 if over else 0.0)
            code = process.poll()
            self.trouble = "what looks at the GPUs " + ("does not answer" if code is None else f"ended (exit code {code})")
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang in the driver: then it is left to itself
                process.wait(1.0)
        self._later(now)

    def _later(self, now: float) -> None:
        self.next = now + RESTARTS[min(self.tries, len(RESTARTS) - 1)]
        self.tries += 1

    # --- what it says

    def _take(self, told: Mapping[str, Any], wall: float) -> bool:
        """One line; whether it changes what may be placed."""
        before = self._marks()
        listed = told.get("gpus")
        rows = [gpu for gpu in listed if isinstance(gpu, dict) and isinstance(gpu.get("uuid"), str)] if isinstance(listed, list) else []
        gpus: dict[str, Mapping[str, Any]] = {gpu["uuid"]: gpu for gpu in rows}
        why = told.get("why")
        self.up, self.told = bool(told.get("up")), True
        at = told.get("at", told.get("t"))
        self.sampled = float(at) if isinstance(at, (int, float)) else wall
        self.why = tuple(str(word) for word in why) if isinstance(why, list) else ()
        log = told.get("log")
        pairs = [one for one in log if isinstance(one, list) and len(one) == 2] if isinstance(log, list) else []
        self.log = [*self.log, *((float(at), str(text)) for at, text in pairs if isinstance(at, (int, float)))][-MOST_LOG:]
        for uuid in (self.gpus.keys() | self.health.keys()) - gpus.keys() if self.up else ():  # those of before our time too
            if uuid.startswith("GPU-"):
                self.event(uuid, cards.Looked(how="gone"), wall)
        self.gpus = gpus if self.up or gpus else self.gpus
        for uuid, gpu in gpus.items():
            if not uuid.startswith(NAMELESS):
                self.event(uuid, cards.look(gpu), wall)
        return self._marks() != before

    def _marks(self) -> list[tuple[Any, ...]]:
        each = [(uuid, self.fault(uuid), self.taken(uuid), gpu.get("partitioned")) for uuid, gpu in self.gpus.items()]
        return [*each, (self.up, self.told)]

    def event(self, uuid: str, event: Event, wall: float) -> None:
        """Something that bears on a GPU's health, or on that of a slice's GPU."""
        uuid = self.card(uuid)
        old = self.health.get(uuid)
        if old is None and isinstance(event, cards.Looked) and event.how == "gone":
            return
        self.health[uuid] = cards.step(old or Health(since=wall), event, wall)

    def card(self, uuid: str) -> str:
        """The GPU that it is, or is a slice of."""
        if not uuid.startswith("MIG-"):
            return uuid
        return next((whole for whole, gpu in self.gpus.items() if any(one["uuid"] == uuid for one in _slices(gpu))), uuid)

    def under(self, uuids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """What is known of these GPUs, and of the GPUs of these slices."""
        return {uuid: {**self.gpus[card], "uuid": uuid} for uuid in uuids if (card := self.card(uuid)) in self.gpus}

    def well(self, uuid: str) -> bool:
        """Whether nothing is held against it."""
        health = self.health.get(self.card(uuid))
        return health is not None and health.state == cards.OK and not health.died

    def lend(self, ours: Iterable[str]) -> bool:
        """Looks who else holds leases; whether that changed. ours: GPUs on which we hold one."""
        names = [name for gpu in self.gpus.values() for name in (gpu["uuid"], *(one["uuid"] for one in _slices(gpu)))]
        own = set(ours)
        found: dict[str, leases.Holder] = {}
        for name in names:
            if name not in own and name.startswith(("GPU-", "MIG-")):
                with contextlib.suppress(leases.Unusable):  # of one GPU, it may be: that of the others is looked at all the same
                    found |= leases.held(self.place, [name])
        before, self.holders, self.drained = self.holders, {}, {}
        for holder in found.values():
            self.leased(holder)
        return before.keys() != self.holders.keys()

    def leased(self, holder: leases.Holder) -> None:
        """He holds the lease of a GPU: we do not."""
        from ongpu.queue.machine import told

        self.holders[holder.gpu] = told(holder)
        if holder.drained:
            self.drained[holder.gpu] = self.holders[holder.gpu], holder.drained

    # --- what may be placed

    def fault(self, uuid: str) -> str:
        """Why nothing may be started on it; "": nothing."""
        gpu = self.gpus.get(uuid, {})
        health = self.health.get(uuid)
        if not self.up:
            return str(self.why[0]) if self.why else cards.SILENT
        if health and not health.open:
            return health.slug or health.state
        return str(gpu.get("unfit") or "")

    def bar(self, gpus: Iterable[str], words: tuple[str, str], until: float) -> None:
        """No lease of these can be had, and why: they are left alone until then."""
        self.barred.update(dict.fromkeys(gpus, (until, words)))

    def closed(self, now: float) -> Reason | None:
        """Why nothing can be placed on any GPU at present; None: no such reason."""
        self.barred = {uuid: one for uuid, one in self.barred.items() if one[0] > now}
        if self._looking(now):
            return Reason("looking")
        if not self.told or not (self.up or self.why):
            return Reason("blind")
        if self.barred and self.barred.keys() >= self.gpus.keys():
            english, chinese = next(iter(self.barred.values()))[1]
            return Reason("no-lease", {"en": english, "zh": chinese})
        return None

    def _looking(self, now: float) -> bool:
        """Whether the GPUs are still being looked at for the first time: nothing can be decided about them yet."""
        if self.begun is None or now - self.begun > FIRST:
            return self.begun is None
        if not self.told or (not self.up and self.why[:1] == ("starting",)):
            return True
        return any(gpu.get("unfit") == cards.NOT_JUDGED for gpu in self.gpus.values())

    def dead(self, uuid: str) -> bool:
        """Whether it has not answered for so long that it was drained: what runs on it may never end by itself."""
        health, gpu = self.health.get(self.card(uuid)), self.gpus.get(self.card(uuid), {"how": "gone"})
        return self.up and health is not None and health.state == cards.DRAINED and gpu.get("how") in cards.AWAY

    def taken(self, uuid: str) -> bool:
        """Whether somebody who did not come through a queue computes on it, with more memory than a desktop, or holds its lease."""
        return uuid in self.holders or uuid in self.barred or bool(self._strangers(uuid))

    def _room(self, uuid: str) -> tuple[int | None, int]:
        """MiB that a job of ours may have of it, and MiB in use by programs that are not seen from here: in another container, or a
        leak. A little (`foreign`) is the driver's own and a desktop's; while a job of ours is on it all is its own."""
        gpu = self.gpus.get(uuid, {})
        total, used = gpu.get("memory"), gpu.get("used")
        if not isinstance(total, int) or not isinstance(used, int) or self.sampled <= self.ours.get(uuid, 0.0) + NEWS:
            return total if isinstance(total, int) else None, 0
        procs = gpu.get("procs")
        rows = procs if isinstance(procs, list) else []
        seen = sum(row[1] for row in rows if isinstance(row, list) and len(row) == 4 and isinstance(row[1], int))
        return max(0, total - used) if used > self.foreign else total, max(0, used - seen)

    def unexplained(self, uuid: str) -> int:
        """MiB of it in use by nobody who can be named, where that is more than a little and not so much that it is taken; 0 also where
        a program does not tell its own."""
        procs, (_, unseen) = self.gpus.get(uuid, {}).get("procs"), self._room(uuid)
        rows = procs if isinstance(procs, list) else []
        sized = all(isinstance(row, list) and len(row) == 4 and isinstance(row[1], int) for row in rows)
        return unseen if unseen > self.foreign and sized and not self._strangers(uuid) else 0

    def _strangers(self, uuid: str) -> tuple[str, ...]:
        gpu = self.gpus.get(uuid, {})
        told = gpu.get("foreign")
        foreign = tuple(str(one) for one in told) if isinstance(told, list) else ()
        if not foreign:
            total, (_, unseen) = gpu.get("memory"), self._room(uuid)
            return (f"pid ? ({unseen} MiB)",) if isinstance(total, int) and unseen > max(self.foreign, total / 2) else ()
        procs = gpu.get("procs")
        rows = procs if isinstance(procs, list) else []
        sizes = [row[1] for row in rows if isinstance(row, list) and len(row) == 4 and row[3] is None and "C" in str(row[2])]
        known, util = [size for size in sizes if isinstance(size, int)], gpu.get("util")
        if len(known) == len(sizes) > 0 and sum(known) <= self.foreign and not (isinstance(util, int) and util >= IDLE):
            return ()
        return foreign

    def _barred(self, uuid: str) -> str:
        return self.barred[uuid][1][0] if uuid in self.barred else ""

    def devices(self, parts: Mapping[str, Iterable[tuple[int, int]]]) -> list[Device]:
        """The GPUs and MIG slices that can be given out. parts: of ours, by UUID: (slot, MiB)."""
        found = []
        for uuid, gpu in self.gpus.items():
            near = gpu.get("near")
            node = next((str(one) for one in near if str(one).startswith("numa")), "") if isinstance(near, list) else ""
            fault = self.fault(uuid)
            drained = self.up and uuid in self.health and self.health[uuid].state == cards.DRAINED
            # What is drained is left by jobs that can leave; of what is merely not known now, or unfit, nobody is sent away.
            common: dict[str, Any] = {"index": gpu.get("index") or 0, "node": node, "fault": fault if drained else ""}
            closed = bool(fault) and not drained
            common["capability"] = str(gpu.get("capability") or "")
            if not gpu.get("partitioned"):
                found.append(Device(
                    id=uuid, name=str(gpu.get("name") or ""), memory=self._room(uuid)[0], taken=closed or self.taken(uuid),
                    total=memory if isinstance(memory := gpu.get("memory"), int) else None, parts=tuple(parts.get(uuid, ())),
                    last=bool(self.unexplained(uuid)), **common,
                ))  # fmt: skip
                continue
            for one in _slices(gpu):
                found.append(Device(
                    id=one["uuid"], name=str(one.get("name") or ""), memory=one.get("memory"),
                    taken=closed or any(name in known for name in (uuid, one["uuid"]) for known in (self.holders, self.barred)),
                    parts=tuple(parts.get(one["uuid"], ())), **common,
                ))  # fmt: skip
        return found

    def shown(self) -> list[Card]:
        """The GPUs for listings, and for the book: what was drained stays so over a restart."""
        found = []
        for uuid in dict.fromkeys([*self.gpus, *self.health]):
            if uuid.startswith(NAMELESS):
                continue
            gpu, health = self.gpus.get(uuid, {}), self.health.get(uuid, Health())
            old = self.cards.get(uuid, Card(id=uuid))
            unfit = gpu.get("unfit") if health.state == cards.OK else None
            by, why = self.drained.get(uuid, ("", "")) if health.state == cards.OK else ("", "")
            card = replace(
                old, state=health.state, slug=str(unfit or health.slug or why), since=health.since or None, drained_by=by,
                foreign=self._strangers(uuid), holder="" if by else self.holders.get(uuid) or self._barred(uuid), used=gpu.get("used"),
                util=gpu.get("util"), unexplained=None if gpu.get("partitioned") else self.unexplained(uuid) or None,
            )  # fmt: skip
            if gpu:
                card = replace(card, index=gpu.get("index") or 0, name=str(gpu.get("name") or ""), memory=gpu.get("memory"),
                               capability=str(gpu.get("capability") or ""))  # fmt: skip
            self.cards[uuid] = card
            found.append(card)
        return found


def _slices(gpu: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = gpu.get("slices")
    return [one for one in told if isinstance(one, dict) and isinstance(one.get("uuid"), str)] if isinstance(told, list) else []
