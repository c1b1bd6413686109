"""The doctor's answer for the live machine: what `ongpu doctor` prints, and `ongpu fix` asks again after each repair."""

import gc

from ongpu.engine import all_sources, diagnose, prepare
from ongpu.fronts.answer import say
from ongpu.hosts.interpreter import machine
from ongpu.hosts.live import gather
from ongpu.model import Report, Verdict


def examine(root: str, python: str | None) -> Report:
    """The report on this machine, now. Slow questions (the probe) are asked only where the quick ones find nothing.

    root: another file system in place of "/". python: the interpreter to examine; None: the one in use.
    """
    subject = say("this machine", "本机")
    gc.set_threshold(500_000)  # what one examination leaves in circles is little, and each look for it takes 5 ms of its 200
    evidence = gather(
        machine(root, python),
        all_sources(),
        meanwhile=prepare(),
        enough=lambda quick: diagnose(quick, subject).verdict is Verdict.FOUND,
    )
    return diagnose(evidence, subject)
