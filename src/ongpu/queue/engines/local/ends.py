"""What the end of a run means for its job: over, or once more. Pure, but for the answer that it is given of what the run died of."""

from collections.abc import Mapping
from typing import Any

from ongpu.queue.engines.local import recovery, stopping
from ongpu.queue.engines.local.recovery import Fate
from ongpu.queue.engines.local.rows import Finish, Run
from ongpu.queue.engines.local.stopping import Stop
from ongpu.queue.job import CANCELLED, DONE, FAILED, LOST, NOT_STARTED, PREEMPTED, REBOOT, TIMEOUT, VANISHED, WAITING
from ongpu.queue.job import IDLE as WAS_IDLE
from ongpu.queue.reasons import Reason
from ongpu.queue.run import GPU_FAULT, OK, STOPPED

AGAIN = 2.0  # seconds before a run that never began is tried again: a disk that is full, no more processes
SLOWEST = 300.0  # between two tries of a job that fails
CLASSES = {stopping.CANCEL: (STOPPED, CANCELLED), stopping.OUT_OF_TIME: (TIMEOUT, FAILED), stopping.IDLE: (WAS_IDLE, FAILED)}


def end(
    run: Run, fate: Fate, stop: Stop | None, answer: Mapping[str, Any], saved: bool | None, retried: int, on_reboot: str, **figures: Any
) -> Finish:  # fmt: skip
    """answer: of autopsy.py, {} where it was not asked. saved: whether a checkpoint appeared since it was asked to give way, None: it does
    not say. retried: how often it was run again for its own ends' sake. figures: used, busy, peak, energy."""

    def finish(ending: str, then: str, said: str = "", **more: Any) -> Finish:
        return Finish(job=run.job, attempt=run.attempt, code=fate.code, ending=ending, then=then, said=said, **{**figures, **more})

    spec = run.spec
    asked = stop is not None and stop.done not in ("", stopping.STAY)
    if fate.what == recovery.NEVER:
        return finish("", WAITING, delay=AGAIN)
    if fate.what == recovery.NOT_STARTED:
        return finish(NOT_STARTED, FAILED, Reason(fate.word, {"command": spec.command[0][:200], "folder": spec.folder[:500]}).json())
    if fate.what == recovery.REBOOTED:
        again = spec.on_reboot == "requeue" if spec.on_reboot else on_reboot == "requeue"
        return finish(REBOOT, WAITING if again else FAILED)
    if stop and asked and stop.saves and _gave_way(fate, saved):
        said = "" if saved is not False else Reason("no-checkpoint", {"signal": spec.checkpoint}).json()
        return finish(PREEMPTED, WAITING, said)
    if stop and asked and stop.why in CLASSES:
        ending, then = CLASSES[stop.why]
        return finish(ending, then)
    if fate.code == 0 and (not stop or not asked or stop.saves):
        return finish(OK, DONE)
    ending = str(answer.get("ending") or (OK if fate.code == 0 else VANISHED if fate.code is None else "program"))
    if ending == OK:
        return finish(OK, DONE)
    avoid = tuple(str(gpu) for gpu in answer.get("avoid") or ())
    more = {"slug": str(answer.get("slug") or ""), "avoid": avoid}
    said = _said(answer)
    worth = ending == GPU_FAULT or (spec.retry_on == "any" and ending != STOPPED)
    if worth and retried < spec.retries:
        return finish(ending, WAITING, said, delay=0.0 if ending == GPU_FAULT else min(SLOWEST, 2.0**retried), **more)
    return finish(ending, LOST if fate.code is None else FAILED, said, **more)


def _gave_way(fate: Fate, saved: bool | None) -> bool:
    """Whether it ended because it was asked to: not one that had just ended well by itself, without a word of a checkpoint."""
    return fate.code != 0 or saved is not False


def _said(answer: Mapping[str, Any]) -> str:
    """The one line of the post-mortem, in both languages."""
    lines = [[str(answer.get(f"{part}_{lang}") or "") for part in ("title", "fits")] for lang in ("en", "zh")]
    english, chinese = ("; ".join(filter(None, lines[0])), "；".join(filter(None, lines[1])))
    return Reason("said", {"en": english[:500], "zh": chinese[:500]}).json() if english or chinese else ""
