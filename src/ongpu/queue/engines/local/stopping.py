"""How a run is brought to its end: which signal is due now, to its command or to all of its processes. Pure.

Asked to end (cancelled, out of time, idle): SIGTERM to all, after its grace SIGKILL. Asked to give way: its checkpoint signal to the
command alone; when the grace is over and it still runs, the same as above where a checkpoint appeared, else it is left alone for good: to
kill it would lose its work.
"""

import signal
from typing import TYPE_CHECKING

from ongpu.lazy import dataclass, replace

if TYPE_CHECKING:
    from ongpu.queue.job import Spec

CANCEL, PREEMPT, OUT_OF_TIME, IDLE, FAULT = "cancel", "preempt", "timeout", "idle", "fault"  # Row.wish
AGAIN = 5.0  # seconds between two SIGKILLs: what hangs in the driver dies when the driver lets it
ASK, SAVE, KILL, STAY = "ask", "save", "kill", "stay"  # steps: SIGTERM to all, the checkpoint signal, SIGKILL to all, let it live
LEAST_GRACE = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A run that was asked to end. at: when it was first asked; next: when something is due (both on the clock of the boot).

    done: the last step that was taken, "" for none. asked: at in seconds since the epoch: a checkpoint must be newer.
    """

    why: str
    at: float
    asked: float
    next: float
    done: str = ""

    @property
    def saves(self) -> bool:
        """Whether it gives way: it is to save its state and to run again."""
        return self.why == PREEMPT


def stop(why: str, now: float, wall: float) -> Stop:
    """Asked to end, at once."""
    return Stop(why=why, at=now, asked=wall, next=now)


def stronger(old: Stop, why: str, now: float) -> Stop:
    """Another wish while it ends: one that gives way and is cancelled meanwhile is asked to end at once."""
    if old.saves and why not in ("", PREEMPT):
        return replace(old, why=why, next=now, done="")
    return replace(old, why=why) if why and why != PREEMPT else old


def step(state: Stop, spec: "Spec", now: float, saved: bool) -> tuple[Stop, str]:
    """What is due now: the new state, and ASK, SAVE, KILL, STAY or "". saved: whether a checkpoint appeared since, as far as it said."""
    if now < state.next:
        return state, ""
    grace = max(LEAST_GRACE, spec.grace)
    if state.done == "":
        first = SAVE if state.saves else ASK
        return replace(state, done=first, next=now + grace), first
    if state.done == SAVE:
        if not saved:
            return replace(state, done=STAY, next=float("inf")), STAY
        return replace(state, done=ASK, next=now + grace), ASK
    if state.done in (ASK, KILL):
        return replace(state, done=KILL, next=now + AGAIN), KILL
    return state, ""


def number(name: str) -> int:
    """Of "SIGUSR1", "USR1" or "10"; SIGTERM for what is no signal."""
    text = name.strip().upper()
    if text.isdecimal() and len(text) < 3 and int(text) in signal.valid_signals():
        return int(text)
    found = getattr(signal, text if text.startswith("SIG") else f"SIG{text}", None)
    return int(found) if isinstance(found, signal.Signals) else int(signal.SIGTERM)
