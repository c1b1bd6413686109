"""Training logs: time per step, time waiting for data, memory, loss; and what the trainer announces of its accumulation."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.code import Speed, TrainingLog
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_SPEEDS = 4000
MAX_WIDTH = 1200
_N = r"(\d{1,9}(?:\.\d{1,12})?(?:e-?\d{1,2})?)"
_TIME = lazy(
    rf"(?:\b(?:batch[_ ]?time|iter[_ ]?time|step[_ ]?time|time)\b)\"?\s*[:=]?\s*{_N}\s*(m?s)?\b(?:\s*\(\s*{_N}\s*\))?", re.IGNORECASE
)
_DATA = lazy(
    rf"(?:\b(?:data[_ ]?time|data[_ ]?load(?:ing|er)?(?:[_ ]?time)?|data[_ ]?wait|load[_ ]?time|dataloader[_ ]?time|data)\b)"
    rf"\"?\s*[:=]?\s*{_N}\s*(m?s)?\b(?:\s*\(\s*{_N}\s*\))?",
    re.IGNORECASE,
)
_SECONDS_PER = lazy(rf"\b{_N}\s?s/(?:it|step|batch|iter|iteration)\b|,\s*{_N}s/it")
_PER_SECOND = lazy(rf"\b{_N}\s?(?:it|iter|iters|step|steps|batch|batches)/s(?:ec)?\b")
_TRAILING = lazy(r"(?<![\w.])(\d{1,6}\.\d{1,9})\s?(?:s|sec|secs|seconds)\b(?!/)")
_BATCH = lazy(rf"\bbatch\b\s*[:=]\s*{_N}\s?s\b", re.IGNORECASE)
_DARKNET = lazy(r"^Loaded: (\d{1,6}\.\d{1,9}) seconds")
_GLOBAL = lazy(rf"(?:global_step/sec|train_steps_per_second'?|steps[_/]per[_/]sec(?:ond)?)\s*[:=]\s*{_N}")
_KERAS = lazy(rf"\b{_N}(us|ms|s)/(?:step|epoch|sample)\b")
_MEMORY = lazy(
    r"(?:(?:max[_ ]?)?(?:gpu[_ ]?)?mem(?:ory)?(?:[_ ](?:allocated|used|usage|in use))?|allocated"
    r"|memory_allocated(?:\([^)]{0,20}\))?|GPU RAM|reserved|used|VRAM)"
    rf"\s*(?:after [\w ]{{1,30}}|at [\w ]{{1,30}})?\s*[:=]?\s*{_N}\s?(GiB|GB|G|MiB|MB|M)\b"
    rf"|\b{_N}\s?(GiB|GB|MiB|MB)\s+(?:allocated|used|in use|of GPU memory)"
    rf"|(?:gpu\s?\d{{0,2}}|(?:epoch|step|iter\w*|batch|after)\b.{{0,80}}?)\s*[:=]?\s+{_N}\s?(GiB|GB|MiB|MB)\b",
    re.IGNORECASE,
)
_BARE = lazy(  # MB
    r"^\s*(?:gpu )?(?:memory )?(?:allocated|reserved|memory_allocated)\s*[:=]?\s*(\d{3,6}\.\d{1,9})\s*$", re.IGNORECASE
)
_STEP = lazy(
    r"\b(?:step|iter(?:ation)?|it|batch|global_step)\s*[:=#]?\s*\[?(\d{1,9})\b|\[\s?(\d{1,9})/\d{1,9}\]|\b(\d{1,9})/\d{1,9}\b",
    re.IGNORECASE,
)
_EPOCH = lazy(r"['\"]?\bepochs?\b['\"]?\s*[:=#]?\s*\[?(\d{1,6}(?:\.\d{1,6})?)", re.IGNORECASE)
_LOSS = lazy(r"['\"]?\b(?:train_?)?loss\b['\"]?\s*[:=]?\s*(-?\d{1,9}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?)", re.IGNORECASE)
_ANNOUNCED = {
    "examples": lazy(r"Num examples = ([\d,]{1,15})"),
    "epochs": lazy(r"Num Epochs = ([\d,]{1,9})"),
    "total": lazy(r"Total train batch size [^=\n]{0,90}= ([\d,]{1,9})"),
    "accumulation": lazy(r"Gradient Accumulation steps = ([\d,]{1,9})"),
    "steps": lazy(r"Total optimization steps = ([\d,]{1,12})"),
}
_TOLD = {
    "batches": lazy(
        r"len\(\w{0,40}(?:loader|dl)\w{0,10}\)\s*[=:]+\s*(\d{1,9})"
        r"|(?:loader|epoch)\w{0,10}[:=]?\s{0,3}(\d{1,9}) (?:batches|micro-?batches)"
        r"|(\d{1,9}) (?:micro-?)?batches (?:per|an|each|in (?:an|one|the)) epoch|steps?_per_epoch\s*[:=]\s*(\d{1,9})",
        re.IGNORECASE,
    ),
    "accumulation": lazy(
        r"(?:gradient_accumulation_steps|accumulat\w{0,12}(?:_steps|_size|_grad_batches)?|accum_iter|grad_accum\w{0,8})"
        r"[\"']?\s*[=:]\s*(\d{1,6})",
        re.IGNORECASE,
    ),
    "steps": lazy(
        r"(\d{1,9}) optimi[sz]er (?:steps|updates)"
        r"|optimi[sz]er\.step\(\) (?:was )?called (\d{1,9}) times|(\d{1,9}) (?:updates|optimizer steps) (?:per|an|each) epoch",
        re.IGNORECASE,
    ),
}
_SCALE = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, None: 1.0}
_WORTH = ("/s", "time", "/it", "/step", "mem", "alloc", "loss", "vram", "used", "step", "per_second", "gib", "epoch", "batch", "data")
_NOT_DATA = ("nvidia-smi", "real\t", "user\t", "timestamp")


def _gib(number: str, unit: str) -> float:
    return float(number) / (1.0 if unit.upper().startswith("G") else 1024.0)


def _float(text: str | None) -> float | None:
    return float(text) if text else None


def _speed(line: str, ref: Ref) -> Speed | None:
    """What one line tells; None where it tells no time and no memory."""
    seconds = data = None
    time, wait = _TIME.search(line), _DATA.search(line)
    if wait and (time or _BATCH.search(line) or len(_TRAILING.findall(line)) > 1):
        data = float(wait[1]) * _SCALE.get(wait[2] or "", 1.0)
    if wait and (match := _first_time(line, wait)):
        seconds = float(match[1]) * _SCALE.get(match[2] or "", 1.0)
    elif time and re.search(r"\b(?:batch|iter|step)[_ ]?time\b", line, re.IGNORECASE):
        seconds = float(time[1]) * _SCALE.get(time[2] or "", 1.0)
    if match := _SECONDS_PER.search(line):
        seconds = seconds or _float(match[1] or match[2])
    elif (match := _PER_SECOND.search(line) or _GLOBAL.search(line)) and float(match[1]) > 0:
        seconds = seconds or 1.0 / float(match[1])
    elif match := _KERAS.search(line):
        seconds = seconds or float(match[1]) * _SCALE[match[2]]
    if seconds is None and data is not None and (match := _BATCH.search(line)):
        seconds = float(match[1])
    parts = [float(m[1]) for m in _TRAILING.finditer(line)]
    if seconds is None and data is not None and len(parts) > 1:
        seconds = sum(parts)  # "data 1.92s  forward 0.11s  backward 0.15s"
    if seconds is None and data is None and (match := _TRAILING.search(line)) and _STEP.search(line):
        seconds = float(match[1])
    memory = _MEMORY.search(line)
    if memory is None and (bare := _BARE.search(line)):
        return Speed(None, seconds, data, float(bare[1]) / 1024, ref)
    gib = _gib(memory[1] or memory[3] or memory[5], memory[2] or memory[4] or memory[6]) if memory else None
    loss, epoch = _LOSS.search(line), _EPOCH.search(line)
    if seconds is None and data is None and gib is None and not (loss and (epoch or _STEP.search(line))):
        return None
    step = _STEP.search(line)
    return Speed(
        _float(next((g for g in step.groups() if g), None)) if step else None, seconds, data, gib, ref,
        _float(epoch[1]) if epoch else None, _float(loss[1]) if loss else None,
    )


def _first_time(line: str, wait: re.Match[str]) -> re.Match[str] | None:
    """The time of the whole step: not the match that is the data time itself."""
    for match in _TIME.finditer(line):
        before = line[max(0, match.start() - 5) : match.start()].lower()
        if not (wait.start() <= match.start() < wait.end()) and not before.endswith(("data_", "data ")):
            return match
    return None


def _speeds(evidence: Evidence) -> Iterator[Speed]:
    for number, line in evidence.lines():
        low = line[:MAX_WIDTH].lower()
        if not any(word in low for word in _WORTH):
            continue
        if "out of memory" in low or "tried to allocate" in low or any(word in low for word in _NOT_DATA):
            continue
        for part in re.split(r"(?<=\])\s*(?=Epoch:)", line[:MAX_WIDTH]):
            if speed := _speed(part, evidence.ref(number, line)):
                yield speed


def read(evidence: Evidence) -> Iterable[Fact]:
    """The lines that tell speed, memory or loss, and the trainer's announcement."""
    speeds: list[Speed] = []
    for speed in _speeds(evidence):
        speeds.append(speed)
        if len(speeds) >= MAX_SPEEDS:
            break
    told: dict[str, int] = {}
    refs: list[Ref] = []
    for key, pattern in _ANNOUNCED.items():
        if match := pattern.search(evidence.text[:2_000_000]):
            told[key] = int(match[1].replace(",", ""))
            refs.append(evidence.ref_at(match.start(), "announced"))
    batches = steps = None
    for key, pattern in _TOLD.items():
        if match := pattern.search(evidence.text[:500_000]):
            number = int(next(g for g in match.groups() if g))
            refs.append(evidence.ref_at(match.start(), "announced"))
            if key == "accumulation":
                told.setdefault("accumulation", number)
            elif key == "batches":
                batches = number
            else:
                steps = number
    if not speeds and not told and batches is None and steps is None:
        return
    total, accumulation = told.get("total"), told.get("accumulation")
    if "examples" in told and total and accumulation:
        per_step = max(1, total // accumulation)
        batches = -(-told["examples"] // per_step)
    yield TrainingLog(
        speeds=tuple(speeds), batches=batches, accumulation=accumulation, optimizer_steps=told.get("steps", steps),
        epochs=told.get("epochs", 1 if steps is not None else None),
        refs=tuple(dict.fromkeys([*(s.ref for s in speeds[:3]), *refs])),
    )


def looks_like(evidence: Evidence) -> bool:
    """Whether a training log may stand in it."""
    low = evidence.text.lower()
    words = ("it/s", "s/it", "data", "/step", "loss", "epoch", "num examples =", "allocated", "accum", "step", "gib")
    return any(word in low for word in words)


SOURCES = (Source(kind="training_log", read=read, looks_like=looks_like, gives=(TrainingLog,)),)
