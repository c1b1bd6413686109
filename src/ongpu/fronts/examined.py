"""The doctor's answer for the live machine: what `ongpu doctor` prints, and `ongpu fix` asks again after each repair."""

import gc
import os
import re
from pathlib import Path

from ongpu.engine import all_sources, diagnose, prepare
from ongpu.fronts.answer import say
from ongpu.hosts.interpreter import choose, machine
from ongpu.hosts.live import gather
from ongpu.hosts.processes import bounded
from ongpu.model import Report, Verdict


def no_python(asked: str | None) -> tuple[str, str] | None:
    """Why what --python names is no interpreter and no environment, in both languages; None where it is one, or a broken one."""
    if not asked:
        return None
    chosen = choose(os.environ, asked)
    if chosen is None:
        return f"--python {asked}: no interpreter or environment is there", f"--python {asked}：那里没有解释器或虚拟环境"
    if Path(chosen).is_dir() or re.match(r"(?:python|pypy|graalpy)", Path(chosen).name.lower()) or _answers(chosen):
        return None
    return f"--python {asked}: not a Python interpreter or environment", f"--python {asked}：不是 Python 解释器或虚拟环境"


def _answers(program: str) -> bool:
    """Whether a program of another name is Python all the same."""
    return bounded([program, "-c", "print('a'+'b')"], 2.0, os.environ)[0].strip() == "ab"


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
