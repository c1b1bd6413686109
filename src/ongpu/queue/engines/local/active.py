"""One run that goes on, as the daemon keeps it in mind: its processes, its time, what it uses of its GPUs."""

import contextlib
import glob
import json
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from ongpu.lazy import dataclass, field
from ongpu.queue.engines.local import recovery
from ongpu.queue.engines.local.idle import Idle
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Run
from ongpu.queue.engines.local.starter import output_of
from ongpu.queue.engines.local.stopping import ASK, KILL, SAVE, Stop, number
from ongpu.queue.run import Used

if TYPE_CHECKING:
    from ongpu.queue.engines.local.keepers import Keeper

NO_CHECKPOINT = "no-checkpoint"  # a file in the job's folder: it did not save its state when it was asked to; it is asked no more
MOST_SAVED = 100_000  # files that a glob of checkpoints is let to name
USED, MOST_USED = "used", 1 << 16  # a file in the run's folder, and its bytes: what its GPUs did so far
KEPT = ("index", "total", "looks", "busy_sum", "peak", "first_energy", "last_energy")  # of Used, in that file
CLOCK = 2.0  # seconds by which a file's time may be earlier than the claim that came before it: some file systems round


@dataclass
class Active:
    """A run. pid: of its keeper, or of its command where that has no keeper any more. keeper: where it is ours to talk to; else handle:
    the process's pidfd, -1: looked at now and then.

    spawned, began: seconds on the clock of the boot; noted: the book knows that it runs. fate: it is over, and looked into.
    """

    run: Run
    spawned: float
    pid: int = 0
    keeper: "Keeper | None" = None
    handle: int = -1
    began: float | None = None
    orphan: bool = False
    noted: bool = False
    stop: Stop | None = None
    fate: Fate | None = None
    kept: bool = False  # it did not save its state: not to be preempted
    idle: Idle = Idle()
    used: dict[str, Used] = field(default_factory=dict)
    kills: Mapping[str, int] | None = None
    said: str = ""

    @property
    def key(self) -> tuple[int, int]:
        """Job and attempt."""
        return self.run.job, self.run.attempt

    @property
    def gpus(self) -> tuple[str, ...]:
        """UUIDs."""
        return tuple(gpu for gpu, _ in self.run.leases)

    @property
    def may_leave(self) -> bool:
        """Whether it can be asked to give way."""
        return self.stop is None and self.fate is None and not self.kept

    @property
    def job_folder(self) -> Path:
        """What all runs of the job share."""
        return self.run.folder.parent

    def watch(self, pid: int) -> None:
        """That process is the one whose end is awaited."""
        self.unwatch()
        self.pid = pid
        with contextlib.suppress(OSError, AttributeError):  # an old kernel, or it is gone: found when it is looked at
            self.handle = os.pidfd_open(pid)

    def unwatch(self) -> None:
        """No process is awaited."""
        if self.handle >= 0:
            os.close(self.handle)
        self.handle = -1

    def began_now(self) -> bool:
        """Whether its command has begun, as its keeper says."""
        if self.began is None:
            known = recovery.begun(self.run.folder)
            if known and known.pid:
                now = recovery.uptime()
                self.began = now - recovery.age(self.run.folder, known.command if self.pid and not self.orphan else 0, now)
        return self.began is not None

    def send(self, step: str) -> None:
        """The signal of a step of stopping.py. A process that is gone is no error."""
        if self.pid <= 0:
            return
        if step == SAVE:
            for pid in self._commands() if not self.orphan else [self.pid]:
                with contextlib.suppress(OSError):
                    os.kill(pid, number(self.run.spec.checkpoint))
        elif self._never():
            if step == KILL:  # it hangs: in a folder on a server that is dead
                os.kill(self.pid, signal.SIGKILL)
        elif step == ASK and not self.orphan:
            for pid in self._commands():
                for each in (signal.SIGTERM, signal.SIGCONT):
                    with contextlib.suppress(OSError):
                        os.killpg(pid, each)
        elif step in (ASK, KILL):
            self._to_all(signal.SIGTERM if step == ASK else signal.SIGKILL)

    def _never(self) -> bool:
        """Whether it has not begun, and never will now: its keeper, a child of ours, will say so if it can."""
        with contextlib.suppress(OSError):
            return self.keeper is not None and self.began is None and recovery.void(self.run.folder)
        return False

    def _commands(self) -> list[int]:
        """The command, which leads a process group and a session of its own; none where its keeper is on another run by now."""
        return recovery.children(self.pid) if recovery.keeps(self.pid, self.run.folder) else []

    def _to_all(self, what: int) -> None:
        """To all of its processes; its keeper is to write down how the command ended."""
        for _ in range(3):  # what they started meanwhile
            session = next(iter(self._commands()), 0) if not self.orphan else 0
            found = [pid for pid in recovery.processes(self.run.folder, session) if pid != os.getpid()]
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, what)
            if what != signal.SIGKILL:
                return
            if not found:
                break
        if not self.orphan and recovery.keeps(self.pid, self.run.folder):
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)  # one that somebody stopped

    def saved(self) -> bool | None:
        """Whether a checkpoint appeared since it was asked to; None: it does not say where to look."""
        spec = self.run.spec
        if not spec.saved or not self.stop:
            return None
        pattern = os.path.join(glob.escape(spec.folder or "/"), spec.saved)
        for place, path in enumerate(glob.iglob(pattern, recursive=True)):
            if place > MOST_SAVED:
                break
            with contextlib.suppress(OSError):
                if os.stat(path).st_mtime >= self.stop.asked - 0.01:  # some file systems keep hundredths
                    return True
        return False

    def times(self, now: float, wall: float) -> tuple[float | None, float, float]:
        """When it began and ended, seconds since the epoch, as its keeper's files say, where the clock agrees with them; and for how many
        seconds it ran, until now, or until it left its exit code. Knows then when it began."""
        files, lasted = self._files(), None
        if files:
            lasted = max(0.0, files[1] - files[0])
            if self.began is None or lasted <= now - self.began + 1:  # else the clock was set
                self.began = now - lasted if self.began is None else self.began
            else:
                lasted = None
        if lasted is None:
            lasted = max(0.0, now - self.began) if self.began_now() and self.began is not None else 0.0
        begin = None if self.began is None else wall - (now - self.began)
        if files:
            start, end = files
            if end - start == lasted and self.run.claimed - CLOCK <= start <= end <= wall + CLOCK:
                return start, min(end, wall), lasted
        return begin, wall, lasted

    def _files(self) -> tuple[float, float] | None:
        """When it began and when it ended, by the times of its files. Of one whose end nobody saw (the machine went down, or it was killed
        while no daemon lived) that is when it last wrote something: how long it was gone is no time of its own."""
        folder = self.run.folder
        start, end = _changed(f"{folder}/start"), _changed(f"{folder}/exit")
        if start is None or (end is None and self.pid):
            return None
        if end is not None:
            return start, end
        signs = (_changed(f"{folder}/{USED}"), _changed(output_of(self.run)))
        return start, max([start, *(sign for sign in signs if sign is not None)])

    def remember(self) -> None:
        """What is known of its use, for the daemon that comes after us. A full disk is no error."""
        used = {uuid: {name: getattr(one, name) for name in KEPT} for uuid, one in self.used.items()}
        new = f"{self.run.folder}/{USED}.new"
        with contextlib.suppress(OSError):
            with open(new, "w", encoding="ascii") as file:
                json.dump({"used": used, "worked": self.idle.worked}, file)
            os.replace(new, f"{self.run.folder}/{USED}")

    def recall(self) -> None:
        """What the daemon before us knew of it."""
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
            told = json.loads(Path(f"{self.run.folder}/{USED}").read_bytes()[:MOST_USED])
            known = {uuid: {name: told["used"][uuid][name] for name in KEPT} for uuid in self.gpus if uuid in told["used"]}
            if all(isinstance(one[name], (int, float, NoneType)) for one in known.values() for name in KEPT):
                self.used = {uuid: Used(uuid=uuid, **one) for uuid, one in known.items()}
                self.idle = Idle(worked=bool(told["worked"]))

    def look(self, gpus: Mapping[str, Mapping[str, Any]]) -> None:
        """One look at its GPUs, as look.py tells them."""
        for uuid in self.gpus:
            gpu = gpus.get(uuid)
            if gpu is None:
                continue
            one = self.used.get(uuid)
            if one is None:
                index, memory = gpu.get("index"), gpu.get("memory")
                one = self.used[uuid] = Used(
                    index if isinstance(index, int) else 0, uuid, str(gpu.get("name") or ""), memory if isinstance(memory, int) else None
                )
            util, used, energy = gpu.get("util"), gpu.get("used"), gpu.get("energy_mj")
            if isinstance(util, int):
                one.looks, one.busy_sum = one.looks + 1, one.busy_sum + util
            if isinstance(used, int):
                one.peak = max(used, one.peak or 0)
            if isinstance(energy, int):
                one.first_energy = energy if one.first_energy is None else one.first_energy
                one.last_energy = energy

    def figures(self) -> dict[str, Any]:
        """busy, peak, energy of Finish."""
        known = list(self.used.values())
        busy = [one.busy for one in known if one.busy is not None]
        peaks = [one.peak for one in known if one.peak is not None]
        energy = [one.energy for one in known if one.energy is not None]
        return {
            "busy": sum(busy) / len(busy) if busy else None, "peak": max(peaks) if peaks else None,
            "energy": sum(energy) if energy and len(energy) == len(self.run.leases) else None,
        }  # fmt: skip

    def question(
        self, fate: Fate, gpus: Mapping[str, Mapping[str, Any]], log: Iterable[tuple[float, str]], now: float, wall: float
    ) -> dict[str, Any]:
        """What autopsy.py is asked."""
        begin = wall - (now - self.began) if self.began is not None else self.run.claimed
        return {
            "output": output_of(self.run), "code": fate.code, "wish": self.stop.why if self.stop else "", "started": begin,
            "ended": wall, "kills": dict(self.kills) if self.kills else None,
            "gpus": [dict(gpus[uuid]) for uuid in self.gpus if uuid in gpus], "log": [list(one) for one in log if one[0] >= begin - 1],
        }  # fmt: skip


def _changed(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
