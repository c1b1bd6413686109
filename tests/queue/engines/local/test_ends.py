"""What the end of a run means for its job."""

from pathlib import Path
from typing import Any

import pytest

from ongpu.lazy import replace
from ongpu.queue.engines.local import recovery, stopping
from ongpu.queue.engines.local.ends import end
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Finish, Run
from ongpu.queue.job import Spec
from ongpu.queue.reasons import Reason

FAULT = {"ending": "gpu-fault", "slug": "gpu-fell-off-bus", "avoid": ["GPU-1"], "title_en": "it fell", "title_zh": "掉了"}
PROGRAM = {"ending": "program", "slug": "", "avoid": [], "title_en": "ValueError: x", "title_zh": "ValueError: x"}


def ended(
    fate: Fate, why: str = "", done: str = stopping.ASK, answer: dict[str, Any] | None = None, saved: bool | None = None, retried: int = 0,
    **spec: Any,
) -> Finish:  # fmt: skip
    run = Run(
        job=1, attempt=2, leases=(("GPU-1", 0),), spec=Spec(command=("x",), **spec), state="running", claimed=0.0, folder=Path("/none")
    )
    stop = replace(stopping.stop(why, 0.0, 0.0), done=done) if why else None
    return end(run, fate, stop, answer or {}, saved, retried, "requeue", used=5.0)


def code(number: int | None) -> Fate:
    return Fate(recovery.ENDED if number is not None else recovery.GONE, code=number)


@pytest.mark.parametrize(
    ("found", "ending", "then"),
    [
        (ended(code(0)), "ok", "done"),
        (ended(code(3), answer=PROGRAM), "program", "failed"),
        (ended(code(3), answer=PROGRAM, retries=1, retry_on="any"), "program", "waiting"),
        (ended(code(3), answer=PROGRAM, retries=1, retry_on="any", retried=1), "program", "failed"),
        (ended(code(3), answer=PROGRAM, retries=9), "program", "failed"),
        (ended(code(1), answer=FAULT, retries=1), "gpu-fault", "waiting"),
        (ended(code(1), answer=FAULT), "gpu-fault", "failed"),
        (ended(code(None)), "vanished", "lost"),
        (ended(code(None), retries=1, retry_on="any"), "vanished", "waiting"),
        (ended(Fate(recovery.NEVER)), "", "waiting"),
        (ended(Fate(recovery.REBOOTED)), "reboot", "waiting"),
        (ended(Fate(recovery.REBOOTED), on_reboot="fail"), "reboot", "failed"),
        (ended(Fate(recovery.NOT_STARTED, code=127, word="not-found")), "not-started", "failed"),
        (ended(code(143), "cancel"), "stopped", "cancelled"),
        (ended(code(0), "timeout"), "timeout", "failed"),
        (ended(code(143), "idle"), "idle", "failed"),
        (ended(code(0), "timeout", done=""), "ok", "done"),  # it had ended before it was asked
        (ended(code(0), "preempt", saved=True), "preempted", "waiting"),
        (ended(code(1), "preempt", saved=None), "preempted", "waiting"),
        (ended(code(138), "preempt", saved=False), "preempted", "waiting"),
        (ended(code(0), "preempt", saved=False, answer={"ending": "preempted"}), "ok", "done"),  # it had just ended well
        (ended(code(None), "preempt", saved=True), "preempted", "waiting"),
        (ended(code(0), "preempt", done=stopping.STAY), "ok", "done"),
    ],
)
def test_ends(found: Finish, ending: str, then: str) -> None:
    assert (found.ending, found.then, found.used, found.attempt) == (ending, then, 5.0, 2)


def test_what_is_said_is_said_in_both_languages() -> None:
    for found, english, chinese in (
        (ended(code(1), answer=FAULT), "it fell", "掉了"),
        (ended(Fate(recovery.NOT_STARTED, code=127, word="not-found")), "x: no such command", "x：找不到该命令"),
        (ended(code(138), "preempt", saved=False, checkpoint="SIGUSR1"), "no new checkpoint", "SIGUSR1"),
    ):
        reason = Reason.of(found.said)
        assert reason
        assert english in reason.text("en")
        assert chinese in reason.text("zh")


def test_a_retry_avoids_the_gpu_and_one_that_keeps_failing_waits_longer() -> None:
    assert ended(code(1), answer=FAULT, retries=1).avoid == ("GPU-1",)
    delays = [ended(code(3), answer=PROGRAM, retries=99, retry_on="any", retried=many).delay for many in (0, 1, 5, 50)]
    assert delays == [1.0, 2.0, 32.0, 300.0]
