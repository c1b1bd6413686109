"""What a run died of, as autopsy.py tells it: the rules of `ongpu run`, and the queue's own ends beside them. Pure, but for a counter."""

import json
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ongpu.model import Evidence
from ongpu.queue import job, postmortem
from ongpu.queue import run as ends
from ongpu.queue.engines.local import cards

if TYPE_CHECKING:
    from ongpu.model import Report

Request = Mapping[str, Any]
MOST_LINES = 200  # of the kernel's log
BEFORE, AFTER = 1.0, 5.0  # seconds around the run in which a line of the kernel is about it
WISHES = {"cancel": ends.STOPPED, "preempt": job.PREEMPTED, "timeout": job.TIMEOUT, "idle": job.IDLE}
CLASSES = {
    ends.OK: "", ends.OUT_OF_MEMORY: "memory", ends.HOST_MEMORY: "memory", ends.GPU_FAULT: "gpu", job.PREEMPTED: "preempted",
    job.VANISHED: "lost",
}  # fmt: skip
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)  # of a program, or of the driver's library in it


def gpus(request: Request) -> list[ends.Used]:
    """Its GPUs, with the Xids of its time."""
    found = []
    for gpu in _dicts(request.get("gpus")):
        used = ends.Used(_whole(gpu.get("index")) or 0, str(gpu.get("uuid") or ""), str(gpu.get("name") or ""), _whole(gpu.get("memory")))
        used.xids = [int(code) for at, code in _pairs(gpu.get("xids")) if isinstance(code, int) and _within(request, at)]
        found.append(used)
    return found


def silent(request: Request) -> bool:
    """Whether neither the kernel nor its GPUs have anything to say of its time."""
    well = (gpu.get("how") in ("ok", None) and not gpu.get("unfit") for gpu in _dicts(request.get("gpus")))
    return not request.get("log") and not any(used.xids for used in gpus(request)) and all(well)


def evidence(request: Request, output: str) -> list[Evidence]:
    """What the rules read: its last words, the kernel's lines of its time, GPUs that no longer answer."""
    from ongpu.hosts.kernel import READERS

    killed = _killed(request)
    words = postmortem.words(output, number_of(request.get("code")), killed or "", killed is not None)
    found = words if request.get("code") != 0 else []
    lines = [str(text)[:1000] for at, text in _pairs(request.get("log")) if _within(request, at)][-MOST_LINES:]
    for used in gpus(request):
        logged = [code for code in used.xids if any("Xid" in line and f": {code}," in line for line in lines)]
        lines += [f"NVML event: GPU {used.index}: Xid {code}" for code in used.xids if code not in logged]
    if lines:
        found.append(Evidence("pasted", "\n".join(lines), "dmesg", "dmesg", numbers=tuple(range(1, len(lines) + 1)), readers=READERS))
    return [*found, *_silent(request)]


def judged(request: Request, output: str) -> "Report":
    """What the rules say of it."""
    report = postmortem.judged(evidence(request, output), "")
    return postmortem.spared(report) if _killed(request) == "" else report


def _killed(request: Request) -> str | None:
    """What the kernel counted of programs that it ended since for want of memory; "": none, None: it does not count."""
    from ongpu.hosts import oom_kills

    kills = request.get("kills")
    before = {str(name): count for name, count in kills.items() if isinstance(count, int)} if isinstance(kills, dict) else {}
    return oom_kills.since(before) if before else None


def _silent(request: Request) -> list[Evidence]:
    """Of its GPUs that answered and do not any more: what NVML said."""
    from ongpu.hosts.nvml import ORIGIN

    lines: list[dict[str, Any]] = []
    for gpu in _dicts(request.get("gpus")):
        if gpu.get("how") in ("lost", "gone"):
            lines += [{"asking": gpu.get("index")}, {"gpu": gpu.get("index"), "error": "GPU is lost", "reason": 15}]
    if not lines:
        return []
    whole = [{"asking": "init"}, {"init": "ok"}, *lines, {"done": True}]
    return [Evidence("nvml", "\n".join(map(json.dumps, whole)), ORIGIN)]


def answer(request: Request, report: "Report | None", output: str) -> dict[str, Any]:
    """The answer; report None: nothing could be judged."""
    from ongpu.model import Report, Verdict

    whole = report or Report(subject="", verdict=Verdict.UNKNOWN)
    code, wish, used = _whole(request.get("code")), str(request.get("wish") or ""), gpus(request)
    by_us = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT) if wish in WISHES else ()
    ended = ends.ending(1 if code is None else code, number_of(code), by_us, whole, used)
    kind, sick = ended.kind, list(ended.gpus)
    if wish == "fault":
        kind, sick = ends.GPU_FAULT, sick or _unfit(request)
    elif kind != ends.GPU_FAULT and wish in WISHES:
        kind = WISHES[wish]
    elif code is None and kind in (ends.PROGRAM, ends.SIGNAL):
        kind = job.VANISHED
    finding = ended.findings[0] if ended.findings and kind == ended.kind else None
    titles = [" ".join(finding.text(lang).title.split()) for lang in ("en", "zh")] if finding else _words(kind, code, whole, output)
    fits = _fits(whole, used) if kind == ends.OUT_OF_MEMORY else ("", "")
    all_of_it = [one.uuid for one in used]
    return {
        "ending": kind, "class": CLASSES.get(kind, "user"), "slug": finding.slug if finding else "",
        "title_en": titles[0], "title_zh": titles[1], "fits_en": fits[0], "fits_zh": fits[1],
        "gpus_at_fault": sick if kind == ends.GPU_FAULT else [],
        "avoid": (sick or all_of_it) if kind == ends.GPU_FAULT else [], "outcome": _outcome(kind, code, bool(finding), whole, output),
    }  # fmt: skip


def number_of(code: object) -> int | None:
    """The signal that an exit code of a shell stands for."""
    return code - 128 if isinstance(code, int) and 128 < code < 128 + signal.NSIG else None


def _unfit(request: Request) -> list[str]:
    """Those of its GPUs that are known to be at fault."""
    away = (gpu for gpu in _dicts(request.get("gpus")) if gpu.get("how") in cards.AWAY or cards.faulty(gpu.get("unfit")))
    return [str(gpu.get("uuid") or "") for gpu in away]


def _words(kind: str, code: int | None, report: "Report", output: str) -> list[str]:
    """One line where no rule has words."""
    if kind in (ends.OK, ends.STOPPED, job.PREEMPTED, job.TIMEOUT, job.IDLE):
        return ["", ""]
    number = number_of(code)
    how = ("", "")
    if number:
        name = signal.Signals(number).name if number in signal.Signals.__members__.values() else str(number)
        how = (f"ended by {name}", f"被 {name} 终止")
    said = ends.last_words(report, output)
    return [f"{one}: {said}" if one and said else one or said for one in how]


def _outcome(kind: str, code: int | None, found: bool, report: "Report", output: str) -> str:
    """What it says of the GPU. Unexplained is only a death in which a GPU may have had a part: a crash, or words about CUDA."""
    if kind == ends.GPU_FAULT:
        return cards.FAULT
    if kind == ends.OK:
        return cards.WELL
    crashed = number_of(code) in CRASHES or "cuda" in ends.last_words(report, output).lower()
    return cards.UNEXPLAINED if kind in (ends.PROGRAM, ends.SIGNAL) and crashed and not found else cards.EXPLAINED


def _fits(report: "Report", used: Sequence[ends.Used]) -> tuple[str, str]:
    """What would have fitted; where the message has no figures, the next larger model."""
    from ongpu.knowledge.gpus import models_with_memory_at_least

    if fits := ends.what_fits(report, used):
        return fits
    total = max((one.total or 0 for one in used), default=0) / 1024
    larger = models_with_memory_at_least(total * 1.05, "datacenter") if total else []
    if not larger:
        return "how much it needed is not known: its words hold no figures", "需要多少显存未知：输出中没有数字"
    model = f"{larger[0].name} ({larger[0].memory_gib:g} GiB)"
    return (
        f"its words hold no figures; it needed more than is free on a GPU of {total:.1f} GiB; the next larger model: {model}",
        f"输出中没有数字；需求超过 {total:.1f} GiB 的 GPU 上的空闲显存；更大一级的型号：{model}",
    )


def _within(request: Request, at: object) -> bool:
    begin, finish = request.get("started"), request.get("ended")
    if not isinstance(at, (int, float)):
        return False
    early = isinstance(begin, (int, float)) and at < begin - BEFORE
    return not early and not (isinstance(finish, (int, float)) and at > finish + AFTER)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _pairs(value: object) -> list[tuple[Any, Any]]:
    return [(one[0], one[1]) for one in value if isinstance(one, list) and len(one) == 2] if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
