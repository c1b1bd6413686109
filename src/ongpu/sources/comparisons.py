"""Times that people put side by side: CPU against GPU, float32 against half precision."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.comparisons import Comparisons, Timing
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_TIMINGS = 60
_TIME = r"(?P<n>\d{1,7}(?:\.\d{1,20})?)\s?(?P<u>ms|milliseconds|us|µs|s|sec|secs|seconds|min|minutes|h|hours)?"
_RATE = lazy(
    r"(?P<n>\d{1,9}(?:\.\d{1,6})?)\s?(?:it|img|imgs|images?|im|samples?|fps|frames|tokens?|tok|steps?|examples?)"
    r"(?:/s(?:ec)?\b|(?: per second)\b|\b(?=/))"
)
_GPU = r"gpu|cuda(?::\d)?|device:gpu|rtx ?\d{3,4}\w*|gtx ?\d{3,4}\w*|tesla|v100|a100|t4|p100"
_CPU = r"cpu|cuda_visible_devices=(?:-1|\"\"|''|\s)"
_SINGLE = (
    r"fp32|float32|fp16['\"]?[:=]\s?false|32-true|full precision|single precision|no amp|without amp|amp=false"
    r"|highest[^|\n]{0,20}\|\s*32"
)
_HALF = (
    r"fp16(?!['\"]?[:=]\s?false)|float16|half(?: precision)?|bf16(?!['\"]?[:=]\s?false)|bfloat16|16-mixed|with amp|amp=true"
    r"|mixed precision"
)
_TOKEN = rf"(?:{_GPU}|{_CPU}|{_SINGLE}|{_HALF})"
_AFTER = lazy(
    rf"(?P<t>{_TOKEN})[\"'\]\)]*\s*(?:(?:an?|one|each|every|the) (?:epoch|step|iteration|batch|pass|run) )?(?:time|takes|took|needs|run|speed|version|mode|training|inference|only)?"
    rf"\s*(?:is|was|[:=|]|->|-|~|≈|takes|took|about|in){{0,2}}\s*\(?{_TIME}\b"
    r"(?!\s?(?:%|gb|mb|gib|mib|x\b|x \d|core|w\b|mhz))",
    re.IGNORECASE,
)
_BEFORE = lazy(rf"{_TIME}(?:\s?/\s?\w{{1,12}}| per \w{{1,12}})?\s*(?:for|on|with|in|using|\()\s*(?:the |a )?(?P<t>{_TOKEN})\b", re.IGNORECASE)
_PLAIN = lazy(
    rf"(?:took|takes|time|elapsed|duration|cost|wall)\w*\W{{0,4}}(?:is|was)?\s*{_TIME}\b"
    r"|\b(?P<n2>\d{1,7}(?:\.\d{1,9})?)\s?(?P<u2>ms|s|sec|secs|seconds|min|minutes)\b(?!/(?!run|step|iter|batch|epoch|call|pass|loop))",
    re.IGNORECASE,
)
_RATES = lazy(r"\bfps\b|(?:it|img|images|samples|tokens|steps|frames|examples)(?:/s| ?per sec)", re.IGNORECASE)
_UNIT = {"ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0}
_KINDS = {
    name: lazy(rf"(?<![\w])(?:{words})", re.IGNORECASE)
    for name, words in (("cpu", _CPU), ("gpu", _GPU), ("single", _SINGLE), ("half", _HALF))
}
_NOISE = (
    "mib", "nvidia-smi", "driver", "version", "utilization", "watt", "tensorflow/core", "tensorflow/stream", "cuda-", "cudnn",
    "torch==",
)


# A heading over the times of one device: "**CPU:**", "## On the GPU", "--- cuda ---".
_HEADING = lazy(
    r"^[\s*#=\-_>`]{0,12}(?:(?:on|with|using|running on|run on) )?(?:the |a )?(?P<device>cpu|gpu|cuda)"
    r"(?: (?:only|run|version|results?|times?|timings?|mode|log|output))?\s?:?[\s*#=\-_`:]{0,12}$",
    re.IGNORECASE,
)


def _kind(words: str) -> tuple[str, str]:
    """(device, precision) that the words name."""
    device = "cpu" if _KINDS["cpu"].search(words) else "gpu" if _KINDS["gpu"].search(words) else ""
    precision = "half" if _KINDS["half"].search(words) else "single" if _KINDS["single"].search(words) else ""
    return device, precision


def _seconds(number: str, unit: str | None) -> float:
    return float(number) * _UNIT.get((unit or "s").lower(), 1.0)


def _of(line: str, before: str, under: str, ref: Ref) -> Iterator[Timing]:
    """The timings of one line. before: the line above it, for those that begin "and took 464 ms"; under: the device of its heading."""
    found = [(m["t"], m["n"], m["u"]) for pattern in (_AFTER, _BEFORE) for m in pattern.finditer(line)]
    if len({_kind(token) for token, _, _ in found}) >= 2:
        for token, number, unit in found:
            device, precision = _kind(token)
            rate = unit is None and float(number) > 0 and _RATES.search(line)
            yield Timing(device, precision, 1.0 / float(number) if rate else _seconds(number, unit), ref)
        return
    device, precision = _kind(line)
    if not (device or precision) and re.match(r"\s*(?:and |it )?(?:took|takes|time|->)", line, re.IGNORECASE):
        device, precision = _kind(before)
    device = device or under
    if not (device or precision):
        return
    if rate := _RATE.search(line):
        if float(rate["n"]) > 0:
            yield Timing(device, precision, 1.0 / float(rate["n"]), ref)
    elif match := _PLAIN.search(line):
        yield Timing(device, precision, _seconds(match["n"] or match["n2"], match["u"] or match["u2"]), ref)
    elif found:
        yield Timing(device, precision, _seconds(found[0][1], found[0][2]), ref)


# `time python train.py --no-cuda`: what the shell's own clock says of a run on the CPU; without such a flag the GPU is meant.
_CLOCKED = lazy(r"^(?:\w+=\S* ){0,4}(?:/usr/bin/)?time ")
_ON_CPU = lazy(r"--no[-_]?(?:cuda|gpu)\b|--cpu\b|--use[-_]cpu\b|--device[= ]cpu\b|--gpus?[= ](?:-1|0)\b|CUDA_VISIBLE_DEVICES=(?:-1|\"\"|''|\s)", re.IGNORECASE)
_REAL = lazy(r"^real\s{1,8}(?:(?P<m>\d{1,5})m)?(?P<s>\d{1,5}(?:\.\d{1,3})?)s?$", re.MULTILINE)


def _clocked(evidence: Evidence) -> Timing | None:
    """The time of one run, by its command line."""
    command = evidence.command or ""
    match = _REAL.search(evidence.text[:20_000]) if _CLOCKED.match(command) else None
    if not match:
        return None
    seconds = 60.0 * float(match["m"] or 0) + float(match["s"])
    return Timing("cpu" if _ON_CPU.search(command) else "gpu", "", seconds, evidence.ref_at(match.start()))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The timings, where at least two kinds stand side by side; of a run that the shell timed, its one."""
    if (clocked := _clocked(evidence)) and clocked.seconds > 0:
        yield Comparisons(timings=(clocked,), refs=(clocked.ref,))
        return
    timings: list[Timing] = []
    before = under = ""
    for number, line in evidence.lines()[:20_000]:
        if heading := _HEADING.match(line[:80]):
            under = "cpu" if heading["device"].lower() == "cpu" else "gpu"
        low = line[:600].lower()
        if line.strip() and not any(word in low for word in _NOISE) and any(c.isdigit() for c in low):
            timings += _of(line[:600], before, under, evidence.ref(number, line))
        before = line[:600] if line.strip() else before
        if len(timings) >= MAX_TIMINGS:
            break
    timings = [t for t in timings if t.seconds > 0]
    if len({t.device for t in timings} - {""}) < 2 and len({t.precision for t in timings} - {""}) < 2:
        return
    yield Comparisons(timings=tuple(timings), refs=tuple(dict.fromkeys(t.ref for t in timings))[:6])


def looks_like(evidence: Evidence) -> bool:
    """Whether two kinds are named."""
    if evidence.command and _CLOCKED.match(evidence.command):
        return True
    text = evidence.text[:200_000]
    devices, precisions = (all(_KINDS[name].search(text) for name in pair) for pair in (("cpu", "gpu"), ("half", "single")))
    return devices or precisions


SOURCES = (Source(kind="comparisons", read=read, looks_like=looks_like, gives=(Comparisons,)),)
