"""What is told of when a waiting job starts (queue/replay.py finds it out), and how long jobs run as far as anybody knows; pure.

A length is the median of what earlier jobs of that name and user took, at most the declared limit; else the limit; else nobody knows it,
and such a job never ends in the replay: what comes behind it is then told as unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ongpu.knowledge.median import median
from ongpu.lazy import dataclass, field
from ongpu.queue.admission import MANY, Reservation
from ongpu.queue.job import DONE, ENDING, HELD, LIVE, WAITING, Told
from ongpu.queue.placement import Policy
from ongpu.queue.words import brief

if TYPE_CHECKING:
    from ongpu.queue.config import Quotas

Lengths = Mapping[tuple[str, str], Sequence[float]]

WORDS: Mapping[str, tuple[str, str]] = {
    "at": ("expected to start {when}, {basis}", "预计{when}开始，{basis}"),
    "unknown": ("nobody can tell when it starts: {jobs} may run for any time (no time limit, no earlier run of that name)",
                "无法预计何时开始：{jobs} 能运行多久未知（没有时限，也没有同名的历史运行）"),
    "other": ("when that changes cannot be told", "何时解除无法预计"),
    "far": ("too many jobs end and start before it for a forecast", "在它之前还有太多作业，无法预计"),
    "held": ("it does not start until it is released", "解除挂起之前不会开始"),
    "never": ("it cannot start on the GPUs that are in service now", "以现在可用的 GPU，它无法开始"),
    "others": ("programs that did not come through the queue hold GPUs that it needs", "它需要的 GPU 被队列之外的程序占用"),
    "limit": ("{count} before it run to their limit", "前面 {count} 个运行到时限"),
    "limit_1": ("1 before it runs to its limit", "前面 1 个运行到时限"),
    "earlier": ("{count} take as long as earlier ones of that name", "{count} 个与以往同名作业用时相同"),
    "earlier_1": ("1 takes as long as earlier ones of that name", "1 个与以往同名作业用时相同"),
    "if": ("if {parts}", "假定{parts}"),
    "nothing": ("if nothing else comes", "假定没有别的作业插入"),
    "now": ("at any moment", "很快"),
    "in": ("in about {length} ({clock})", "约 {length} 后（{clock}）"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """By what the queue decides, besides its jobs and GPUs. quotas None: there are none. used: what was used of late, as `Book.accounts`
    tells it, for quotas of GPU hours."""

    policy: Policy = Policy()
    cpus: int = MANY
    host_memory: int = MANY
    quotas: "Quotas | None" = None
    reservations: Sequence[Reservation] = ()
    used: Sequence[tuple[str, int, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """at: seconds since the epoch, where `kind` is "at". rests: on how many lengths of each kind ("limit", "earlier"). jobs: those whose
    length nobody knows."""

    kind: str
    at: float | None = None
    rests: Mapping[str, int] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()

    def text(self, lang: str, now: float) -> str:
        """The sentence in "en" or "zh"."""
        zh = lang == "zh"
        if self.kind == "unknown":
            shown = ("、" if zh else ", ").join(self.jobs[:3]) + ((" 等" if zh else " and others") if len(self.jobs) > 3 else "")
            return WORDS["unknown"][zh].format(jobs=shown)
        if self.kind != "at" or self.at is None:
            return WORDS[self.kind][zh]
        parts = [WORDS[f"{name}_1" if many == 1 else name][zh].format(count=many) for name, many in self.rests.items() if many]
        length, clock = brief(_up(self.at - now)), _clock(self.at, now)
        when = WORDS["now"][zh] if self.at - now < 5 else WORDS["in"][zh].format(length=length, clock=clock)
        basis = WORDS["if"][zh].format(parts=("、" if zh else " and ").join(parts)) if parts else WORDS["nothing"][zh]
        return WORDS["at"][zh].format(when=when, basis=basis)


def _up(length: float) -> float:
    """To the next full minute, from one minute on."""
    return length if length < 60 else 60.0 * -(-length // 60)


def _clock(at: float, now: float) -> str:
    """ "16:40" where it is within 20 hours, else with its date."""
    from time import localtime, strftime

    return strftime("%H:%M" if at - now < 72_000 else "%m-%d %H:%M", localtime(at))


def lengths(jobs: Iterable[Told]) -> dict[tuple[str, str], list[float]]:
    """What earlier jobs that went well took, in seconds, by user and name."""
    found: dict[tuple[str, str], list[float]] = {}
    for job in jobs:
        if job.state == DONE and job.started and job.ended and job.ended >= job.started and job.spec.name:
            found.setdefault((job.user, job.spec.name), []).append(job.ended - job.started)
    return found


def length(job: Told, past: Lengths, now: float) -> tuple[float | None, str]:
    """Seconds that it will still run once it runs, and on what that rests: "limit", "earlier", or "" where nobody knows."""
    used = max(0.0, now - job.started) if runs(job) and job.started else 0.0
    kept = job.attained / max(1, job.spec.gpus) if job.spec.checkpoint and not runs(job) else 0.0  # it goes on from there
    limit = None if job.spec.limit is None else max(0.0, job.spec.limit - used)
    longer = [one for one in past.get((job.user, job.spec.name), ()) if one > used + kept]
    left, basis = limit, "limit" if limit is not None else ""
    if longer:
        expected = float(median(longer)) - used - kept
        left, basis = (expected if limit is None else min(expected, limit)), "earlier"
    if job.state == ENDING and job.more.get("wish") != "preempt":  # it was asked to end, and is made to
        return (job.spec.grace, "") if left is None or left > job.spec.grace else (left, basis)
    return left, basis


def runs(job: Told) -> bool:
    """Whether it has its GPUs."""
    return job.state in LIVE and job.state not in (WAITING, HELD)
