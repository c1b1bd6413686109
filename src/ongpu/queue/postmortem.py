"""What the rules say of a command that ended, by its last words and its signal: the same for `ongpu run` and for the queue's jobs."""

import contextlib
import signal
from collections.abc import Iterable

from ongpu.lazy import replace
from ongpu.model import Certainty, Evidence, Report, Verdict
from ongpu.queue.run import SHELL

ORIGINS = {"output": ("output", "输出"), "status": ("exit status", "退出状态"), "counts": ("counters", "计数")}


def words(output: str, number: int | None, kills: str, counted: bool, lang: str = "en") -> list[Evidence]:
    """What it left: the end of its output, what a shell would have said of its signal, the kernel's counters.

    number: of the signal that ended it. kills: a line about programs that the kernel ended meanwhile (hosts/oom_kills); counted: whether
    it counts them, so that "" means that there were none.
    """
    from ongpu.hosts import pasted

    origins = {name: pair[lang == "zh"] for name, pair in ORIGINS.items()}
    found: list[Evidence] = []
    if output.strip():
        with contextlib.suppress(pasted.Unreadable):
            found += pasted.read_text(output, origins["output"])
    told = number == signal.SIGKILL and counted and not kills  # somebody else sent it: no word of memory is to be made of it
    if number is not None and not told and (said := SHELL.get(number)):
        found += pasted.read_text(said, origins["status"])
        found += pasted.read_text(kills, origins["counts"]) if kills and number == signal.SIGKILL else []
    return found


def spared(report: Report) -> Report:
    """Without "the host's memory ran out" where that rests on no more than a word like "Killed", and the kernel, which counts those that it
    ends for want of memory, counted none: somebody else sent the signal."""
    left = tuple(f for f in report.findings if f.slug != "host-oom" or f.certainty is Certainty.CERTAIN or f.variant)
    verdict = Verdict.UNKNOWN if report.findings and not left else report.verdict
    return report if len(left) == len(report.findings) else replace(report, findings=left, verdict=verdict)


def judged(evidence: Iterable[Evidence], subject: str) -> Report:
    """What the rules say of it."""
    evidence = list(evidence)
    if not any(item.text for item in evidence):
        return Report(subject=subject, verdict=Verdict.UNKNOWN)  # nothing to be judged: no rule is loaded
    from ongpu.engine import diagnose

    return diagnose(evidence, subject)
