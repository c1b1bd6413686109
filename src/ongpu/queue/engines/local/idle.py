"""Idle reaping: whether a job still uses its GPUs, when it is to be warned, and when stopped. Pure: figures and the time in, words out.

Only what is known to be idle counts. A look at which any GPU of the job worked, moved data, or told nothing, begins the time anew; so does
memory that grew or shrank, as while a model is loaded, and a gap in which nobody looked. A job that has not used its GPUs yet (it reads
its data) gets twice the time.
"""

from collections.abc import Mapping, Sequence

from ongpu.lazy import dataclass, replace

WARN, STOP = "warn", "stop"
QUIET = 1  # percent of utilisation up to which a GPU does nothing: a look of a monitor may leave a trace
STILL = 16  # MiB by which the memory in use may differ from when the time began
TRICKLE = 2000  # kB/s on the bus, one way, up to which nothing is loaded
GAP = 10.0  # seconds without a look after which nothing is known of what was between
LEAST = 60.0  # seconds: nothing is idle sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What is known of a job's use. since: when its present idleness began; None: it is not idle. warned: when it was told so.

    memory: MiB in use on each GPU at `since`. worked: whether its GPUs were ever seen at work.
    """

    since: float | None = None
    looked: float | None = None
    warned: float | None = None
    memory: tuple[int, ...] = ()
    worked: bool = False


def step(idle: Idle, gpus: Sequence[Mapping[str, object]], now: float, limit: float | None, stop: bool = False) -> tuple[Idle, str]:
    """After one look at the job's GPUs, as the lines of look.py tell of them: what is known, and WARN or STOP where that is due, else "".

    limit: seconds without use after which it is warned, None: never; the same time later it is told to STOP where `stop` is set. WARN is
    said once for each idleness, STOP until it is heeded. gpus: those of the job, all; a job without GPUs is never idle.
    """
    memory = _memory(gpus)
    worked = idle.worked or any(_works(gpu) for gpu in gpus)
    seen = idle.looked is not None and 0 <= now - idle.looked <= GAP
    if memory is None or not all(_quiet(gpu) for gpu in gpus):
        return Idle(looked=now, worked=worked), ""
    if idle.since is None or not seen or any(abs(a - b) > STILL for a, b in zip(memory, idle.memory, strict=False)):
        return Idle(since=now, looked=now, memory=memory, worked=worked), ""
    since, idle = idle.since, replace(idle, looked=now, worked=worked)
    if limit is None:
        return idle, ""
    wait = patience(idle, limit)
    if idle.warned is None:
        return (replace(idle, warned=now), WARN) if now - since >= wait else (idle, "")
    return idle, STOP if stop and now - idle.warned >= wait else ""


def patience(idle: Idle, limit: float) -> float:
    """Seconds without use after which it is warned, and then the same once more."""
    return max(limit, LEAST) * (1 if idle.worked else 2)


def _memory(gpus: Sequence[Mapping[str, object]]) -> tuple[int, ...] | None:
    """None: not told of all, or there are none."""
    told = tuple(used for gpu in gpus if isinstance(used := gpu.get("used"), int))
    return told if gpus and len(told) == len(gpus) else None


def _works(gpu: Mapping[str, object]) -> bool:
    util = gpu.get("util")
    return isinstance(util, int) and util > QUIET


def _quiet(gpu: Mapping[str, object]) -> bool:
    """Whether it is known to do nothing: kernels, memory, and the bus where that is told."""
    util, memory, bus = gpu.get("util"), gpu.get("memory_util"), gpu.get("pcie")
    if gpu.get("how") != "ok" or not isinstance(util, int) or util > QUIET:
        return False
    if isinstance(memory, int) and memory > QUIET:
        return False
    return not (isinstance(bus, list) and any(isinstance(rate, int) and rate > TRICKLE for rate in bus))


def words(seconds: float, stop: bool) -> tuple[str, str]:
    """The warning, in English and Chinese. seconds: for how long it has been idle."""
    minutes = max(1, round(seconds / 60))
    more = (f"; it is stopped in {minutes} min if that stays so", f"；若仍不使用，{minutes} 分钟后停止") if stop else ("", "")
    return f"its GPUs have done nothing for {minutes} min" + more[0], f"其 GPU 已闲置 {minutes} 分钟" + more[1]
