"""Complaints about tensors on different devices, of every PyTorch generation: what stands apart, and where."""

import re
from collections.abc import Callable, Iterable, Iterator

from ongpu.facts.code import Raised
from ongpu.facts.mismatch import Mismatch, Mismatches
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source
from ongpu.sources.traceback import parse

MAX_FOUND = 20
_DEV = r"(?P<{0}>cuda:\d{{1,3}}|cuda|cpu|mps:\d|mps|xpu:\d|meta|GPU|CPU|CUDA|MPS)"


def _dev(name: str) -> str:
    return _DEV.format(name)


_TWO = lazy(
    rf"at least two devices,? {_dev('other')},? (?:and )?{_dev('odd')}!?(?: \(when checking arguments? for"
    rf" argument (?P<arg>\w+) in method (?P<method>\w+)\))?",
    re.IGNORECASE,
)
_GOT = lazy(
    rf"same device, but got (?P<arg>\w+) is on {_dev('odd')}, different from other tensors on {_dev('other')}(?:"
    rf" \(when checking argument in method (?P<method>\w+)\))?"
)
_CONV = lazy(
    r"Input type \((?P<input>[\w.:]{2,40})\) and (?:weight|bias) type \((?P<weight>[\w.:]{2,40})\) should be the"
    r" same"
)
_BACKEND = lazy(
    rf"Expected object of (?:backend|device type) {_dev('other')} but got (?:backend|device type)"
    rf" {_dev('odd')} for (?:argument|sequence element) #?(?P<n>\d+)(?: '(?P<arg>\w+)')?(?: in call to"
    rf" (?P<method>\w+))?",
    re.IGNORECASE,
)
_TYPE = lazy(
    r"[Ee]xpected object of type (?:Variable\[)?torch\.(?P<other>cuda\.)?\w+Tensor\]? but found type"
    r" (?:Variable\[)?torch\.(?P<odd>cuda\.)?\w+Tensor\]? for argument #(?P<n>\d+)(?: '(?P<arg>\w+)')?"
)
_TENSOR_FOR = lazy(
    rf"Tensor for (?:argument #\d+ )?'(?P<arg>\w+)' is on {_dev('odd')},.{{0,160}}?expected (?:it|them) to be"
    rf" on {_dev('other')}(?: \(while checking arguments for (?P<method>\w+)\))?"
)
_PLAIN = lazy(rf"expected device {_dev('other')}(?: and dtype \w+)? but got device {_dev('odd')}", re.IGNORECASE)
_OLD = lazy(r"expected type torch\.(?P<other>cuda\.)?\w+Tensor but got torch\.(?P<odd>cuda\.)?\w+Tensor")
_OLDER = lazy(r"expected backend (?P<other>CUDA|CPU) and dtype \w+ but got backend (?P<odd>CUDA|CPU)")
_SAME_TYPE = lazy(  # PyTorch to 1.x: type and device in one word
    r"Expected tensor for argument #\d+ '(?P<arg>\w+)' to have the same type as tensor for argument #\d+ '\w+'; but type torch\.(?P<odd>cuda\.)?\w+Tensor"
    r" does not equal torch\.(?P<other>cuda\.)?\w+Tensor(?: \(while checking arguments for (?P<method>\w+)\))?"
)
_COMBINATION = lazy(  # PyTorch to 0.3: the operand given, and what this tensor's method takes
    r"invalid combination of arguments - got \((?P<got>[^()\n]{0,200})\), but expected[^()\n]{0,20}(?P<want>(?:[\s*]{0,8}(?:or )?\([^()\n]{0,200}\)){1,8})"
)
_RNN = lazy(
    rf"Input and (?P<arg>hidden|parameter|batch_sizes) tensors? are not at the same device, found input"
    rf" tensor at {_dev('other')} and \w+ tensor at {_dev('odd')}"
)
_WHERE = lazy(
    rf"Expected condition, x and y to be on the same device, but condition is on {_dev('odd')} and x and y are on"
    rf" {_dev('other')}"
)
_MASK = lazy(
    rf"expected self and (?P<arg>\w+) to be on the same device,? but got \w+ on {_dev('odd')} and self on"
    rf" {_dev('other')}",
    re.IGNORECASE,
)
_LENGTHS = lazy(r"'(?P<arg>lengths)' argument should be a 1D CPU int64 tensor, but got 1D (?P<odd>cuda:\d+)")
_INDEXED = lazy(
    rf"indices should be either on (?:cpu|{_dev('ignored')}) or on the same device as the indexed tensor(?:"
    rf" \({_dev('odd')}\))?"
)
_GENERATOR = lazy(
    rf"Expected a '{_dev('other')}'(?: device type for generator| generator device) but found '{_dev('odd')}'"
)
_MODULE = lazy(
    rf"module must have its parameters and buffers on device {_dev('other')}.{{0,40}}?found one of them on"
    rf" device: {_dev('odd')}"
    r"|module parameters \{device\(type='(?P<odd2>cpu)'\)"
)
_RECEIVED = lazy(
    rf"(?:All|all) input tensors must be on the same device\. Received {_dev('other')} and {_dev('odd')}"
)
_FAKE = lazy(rf"found two different devices {_dev('other')}, {_dev('odd')}")
_META = lazy(rf"Tensor on device {_dev('odd')} is not on the expected device {_dev('other')}")
_STEP = lazy(
    r"Tensors of the same index must be on the same device|must have same dtype, device, and layout|state_steps"
    r" should (?:not )?be (?:a )?CUDA tensor"
)
_CURRENT = lazy(r"Input, output and indices must be on the current device")
_GPUS = lazy(r"(?:tensors? are|arguments are|are) located on different GPUs")
_TRITON = lazy(r"Pointer argument \(at (?P<n>\d+)\) cannot be accessed from Triton")
_ATTENTION = lazy(r"Expected query, key,? and value to (?:all )?be on the same device")
_GRAPH = lazy(
    rf"Cannot (?:assign|update) (?:node|edge) feature \"?(?P<arg>[^\"\n]{{1,60}})\"? on device {_dev('odd')} to a"
    rf" graph on device {_dev('other')}"
)
_PLACEHOLDER = lazy(r"Placeholder storage has not been allocated on MPS device")
_NCCL_CPU = lazy(r"No backend type associated with device type cpu|Tensors must be CUDA and dense")
_XGB = lazy(rf"running on: {_dev('other')}, while the input data is on: {_dev('odd')}")
_SCALARS = lazy(r"[Tt]rying to pass too many CPU scalars to (?:CUDA|non-CPU) kernel")  # one 0-dim CPU tensor may meet CUDA, two may not
_JAX = lazy(r"Received incompatible devices for jitted computation")

_WEIGHTS = {"weight", "bias", "running_mean", "running_var", "parameter", "params", "mat2"}
_NORM = ("norm", "conv", "cudnn", "linear", "prelu")
_ARGUMENTS = {
    "indices": "index", "tensors": "tensors", "hx": "hidden", "hidden": "hidden", "cx": "hidden", "lengths": "lengths",
    "index": "index", "target": "target", "mask": "mask", "parameter": "weight", "batch_sizes": "lengths",
}


def _on(device: str | None) -> str | None:
    """"cuda:0", "cpu" from any of the names used."""
    if device is None:
        return None
    low = device.lower()
    return {"gpu": "cuda:0", "cuda": "cuda:0"}.get(low, low)


def _tensor_on(kind: str) -> str:
    """The device of a tensor type: "torch.cuda.FloatTensor", "CUDAFloatType", "CPUFloatType"."""
    low = kind.lower()
    return "cuda:0" if "cuda" in low else "mps" if "mps" in low else "cpu"


def name(argument: str | None, method: str | None, odd_on: str | None, other_on: str | None) -> tuple[str | None, str | None, str | None]:
    """What stands apart, and the two devices, for an argument of an operation. The weight is named where either
    the weight or the input may be told to be "odd": the one that is on the CPU is at fault."""
    arg, low = (argument or "").lower(), (method or "").lower()
    linear = any(word in low for word in ("addmm", "_mm", "addmv", "_mv", "linear", "matmul")) and "bmm" not in low
    if arg == "mat1" and linear:
        return ("input", odd_on, other_on) if odd_on == "cpu" else ("weight", other_on, odd_on)
    if arg == "mat2" and linear:
        return ("weight", odd_on, other_on) if odd_on == "cpu" else ("input", other_on, odd_on)
    if arg in ("self", "out") and linear:
        weight = "addm" in low or arg == "out"  # the first argument of addmm is the bias, of mm the input
        told, opposite = ("weight", "input") if weight else ("input", "weight")
        return (told, odd_on, other_on) if odd_on == "cpu" else (opposite, other_on, odd_on)
    if arg in ("index", "indices") and ("index_select" in low or "embedding" in low):
        return ("input", odd_on, other_on) if odd_on == "cpu" else ("weight", other_on, odd_on)
    if arg in ("weight", "pos_weight") and any(word in low for word in ("nll_loss", "cross_entropy", "binary_cross", "bce")):
        return ("class weight", odd_on, other_on)
    if arg == "target":
        return ("target", odd_on, other_on) if odd_on == "cpu" else ("output", other_on, odd_on)
    if arg in _WEIGHTS and (not low or any(word in low for word in _NORM) or linear):
        return ("weight", odd_on, other_on) if odd_on == "cpu" else ("input", other_on, odd_on)
    if arg == "self" and ("index_select" in low or "embedding" in low):
        return ("weight", odd_on, other_on) if odd_on == "cpu" else ("input", other_on, odd_on)
    if arg == "input" and any(word in low for word in (*_NORM, "rnn", "lstm", "gru", "embedding")):
        return ("input", odd_on, other_on) if odd_on == "cpu" else ("weight", other_on, odd_on)
    return (_ARGUMENTS.get(arg, arg or None), odd_on, other_on)


def _of(text: str, raised: Raised) -> Mismatch | None:  # one branch per generation of the message
    def made(odd: str | None, odd_on: str | None, other_on: str | None, method: str | None = None) -> Mismatch:
        return Mismatch(odd=odd, odd_on=odd_on, other_on=other_on, method=method, raised=raised)

    for pattern in (_TWO, _GOT, _BACKEND, _TENSOR_FOR, _META, _RNN, _MASK, _LENGTHS, _PLAIN, _WHERE, _RECEIVED, _FAKE):
        if match := pattern.search(text):
            groups = match.groupdict()
            odd_on, other_on = _on(groups.get("odd")), _on(groups.get("other"))
            if pattern is _LENGTHS:
                other_on = "cpu"
            if pattern is _WHERE:
                return made("condition", odd_on, other_on, "where")
            if pattern is _RECEIVED:
                return made("tensors", odd_on, other_on, "cat")
            argument = groups.get("arg")
            method = groups.get("method") or ("addmm" if (argument or "").startswith("mat") else None)
            odd, odd_on, other_on = name(argument, method or ("cudnn_rnn" if pattern is _RNN else None), odd_on, other_on)
            return made(odd, odd_on, other_on, method)
    if match := _CONV.search(text):
        input_on, weight_on = _tensor_on(match["input"]), _tensor_on(match["weight"])
        if input_on == weight_on:
            return None  # only the types differ
        return made("input", input_on, weight_on, "conv") if input_on == "cpu" else made("weight", weight_on,
        input_on, "conv")
    if (match := _COMBINATION.search(text)) and "Tensor" in match["want"] and "Tensor" in match["got"]:
        given, here = "torch.cuda." in match["got"], "torch.cuda." in match["want"]
        if given != here or (here and re.search(r"torch\.(?!cuda)\w+Tensor", match["got"])):
            return made(None, "cpu", "cuda:0")
    for pattern in (_SAME_TYPE, _TYPE, _OLD, _OLDER):
        if match := pattern.search(text):
            told = {side: "cuda:0" if (match[side] or "").lower().startswith("cuda") else "cpu" for side in ("odd", "other")}
            if told["odd"] == told["other"]:
                continue
            argument = match.groupdict().get("arg")
            method = "addmm" if (argument or "").startswith("mat") else "embedding" if argument == "index" else None
            odd, odd_on, other_on = name(argument, method, told["odd"], told["other"])
            return made(odd, odd_on, other_on)
    return _rest(text, made)


def _rest(text: str, made: Callable[..., Mismatch]) -> Mismatch | None:
    if match := _GENERATOR.search(text):
        return made("generator", _on(match["odd"]), _on(match["other"]))
    if match := _MODULE.search(text):
        return made("weight", "cpu", _on(match["other"]) or "cuda:0", "data_parallel")
    if match := _GRAPH.search(text):
        return made(f"feature {match['arg']}", _on(match["odd"]), _on(match["other"]))
    if match := _XGB.search(text):
        return made("xgboost input", _on(match["odd"]), _on(match["other"]))
    if match := _INDEXED.search(text):
        return made("indexed", _on(match["odd"]) or "cpu", "cuda:0")
    simple = (
        (_STEP, "optimizer state", "cpu", "cuda:0"), (_CURRENT, "input", "cpu", "cuda:0"), (_GPUS, None,
        "cuda:1", "cuda:0"),
        (_TRITON, None, "cpu", "cuda:0"), (_ATTENTION, None, None, None), (_PLACEHOLDER, "input", "cpu", "mps"),
        (_NCCL_CPU, "collective", "cpu", "cuda:0"), (_SCALARS, None, "cpu", "cuda:0"), (_JAX, None, None, None),
    )
    for pattern, odd, odd_on, other_on in simple:
        if pattern.search(text):
            return made(odd, odd_on, other_on)
    return None


_WORDS = (
    "same device", "two devices", "two different devices", "should be the same", "expected object of",
    "expected device",
    "expected backend", "expected type torch", "expected it to be on", "expected them to be on",
    "not at the same device",
    "argument should be a 1d cpu", "should be either on", "device type for generator", "generator device but found",
    "parameters and buffers on device", "module parameters {device", "must be on the current device",
    "on different gpus",
    "cannot be accessed from triton", "to a graph on device", "placeholder storage", "no backend type associated",
    "tensors must be cuda and dense", "input data is on", "state_steps should", "dtype, device, and layout",
    "is not on the expected device", "incompatible devices for jitted", "invalid combination of arguments", "to have the same type as tensor", "too many cpu scalars",
)


def _loose(evidence: Evidence, seen: set[int]) -> Iterator[Raised]:
    """Messages that stand in no exception: prose, warnings, broken lines."""
    lines = evidence.lines()
    for index, (number, line) in enumerate(lines):
        if number in seen or not any(word in line.lower() for word in _WORDS):
            continue
        text = " ".join([line.strip(), *(more.strip() for _, more in lines[index + 1 : index + 3])])[:1500]
        ref: Ref = evidence.ref(number, line)
        yield Raised(error="", message=text, ref=ref)


def read(evidence: Evidence) -> Iterable[Fact]:
    """The complaints about devices, each with its exception."""
    found: list[Mismatch] = []
    seen: set[int] = set()
    told = [raised for raised in parse(evidence) if raised.error]
    for raised in told:
        text = " ".join(raised.message.split())[:2500]
        if mismatch := _of(text, raised):
            found.append(mismatch)
            seen.add(raised.ref.line)
    if not found:
        for raised in _loose(evidence, seen):
            if mismatch := _of(" ".join(raised.message.split()), raised):
                found.append(mismatch)
    if found:
        refs = tuple(dict.fromkeys(ref for m in found[:4] for ref in m.raised.cite()))
        yield Mismatches(found=tuple(found[:MAX_FOUND]), refs=refs)


def looks_like(evidence: Evidence) -> bool:
    """Whether one of the known words stands in it."""
    low = evidence.text.lower()
    return any(word in low for word in _WORDS)


SOURCES = (Source(kind="mismatched_devices", read=read, looks_like=looks_like, gives=(Mismatches,)),)
