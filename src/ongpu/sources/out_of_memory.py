"""Out-of-memory messages of every framework, with their figures in GiB."""

import math
import re
from collections.abc import Iterable, Iterator

from ongpu.facts.code import Oom, OutOfMemory
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Fact, Source

MAX_ERRORS = 30
WINDOW = 1400  # characters of one message
_SIZE = r"(?P<n>\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,6})?)\s?(?P<u>[KMGT]i?B?|bytes|B)\b"
_UNIT = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4}

ANCHORS = (
    "out of memory", "tried to allocate", "resource_exhausted", "resourceexhausted",
    "ran out of memory trying to allocate",
    "oom when allocating", "cudamalloc failed", "cuda_error_out_of_memory", "outofmemoryerror", "hiperroroutofmemory",
    "erroroutofmemory", "allocaterawinternal", "out_of_memory", "memory allocation error", "available kv cache",
    "no available memory for the cache blocks", "free memory on device", "stored in kv cache", "not enough gpu memory",
    "cuda oom", "gpu oom", "oom error", "oom in ", "oom only", "oom,", "oom!", "oom with", "oom while", "with oom", "oom at ", "oom after", "oom when", "oom on ", "goes oom", "got oom", "get oom", "oom during", "and oom", "爆显存",
    # PyTorch's message as machine translation leaves it
    "cuda 内存不足", "cuda内存不足", "cuda 错误: 内存不足", "cuda 错误：内存不足", "cuda错误: 内存不足", "cuda错误：内存不足",
    "显存不足", "显存溢出", "显存不够", "out of gpu memory", "out of vram", "нехватка видеопамяти", "недостаточно видеопамяти", "gpu-speicher voll", "gpuメモリ不足",
    "cudaerrormemoryallocation", "memory exhausted", "vk_error_out_of_device_memory",
)
_HOST = (
    "killed process", "oom-kill", "oom_kill", "defaultcpualloc", "memory cgroup", "unable to allocate array",
    "java.lang",
    "out of memory: kill", "oom killer", "host memory", "exit code 137", "oomkilled", "numpy.core._exceptions",
    "cpu memory", "out of shared memory", "insufficient shared memory", "requires more system memory", "hosts' memory",
    "invoked oom", "docs/out_of_memory", "not out of memory", "no out of memory",
    "failed to allocate host", "cuda_host", "gpu_host", "cudahostalloc",
)
_ALLOCATE = (
    r"[Tt]ried to allocate", r"(?:out of memory|OOM)[^\n]{0,60}(?:trying|attempting) to allocate",
    r"trying to allocate",
    r"[Oo]ut of memory allocating", r"[Cc]annot allocate",
    r"[Ff]ailed to allocate(?: request for| memory for requested buffer of size)?",
    r"\ballocating", r"[Rr]equested memory:", r"[Uu]nable to allocate(?: CUDA\d? buffer| backend buffer)?(?: of size)?",
    r"[Aa]llocation of", r"requested buffer of size", r"could not allocate", r"[Rr]equested", r"尝试分配",
)
_FIELDS = {
    "total": (rf"{_SIZE} total capacity", rf"total capac?i?ty of {_SIZE}", rf"\b[Ll]imit:\s+{_SIZE}",
    rf"limit set to: {_SIZE}", rf"[Ff]ree memory on device[^(\n]{{0,30}}\([\d.]+/{_SIZE}\)"),
    "allocated": (rf"{_SIZE} already allocated", rf"{_SIZE} is allocated by PyTorch",
    rf"{_SIZE} memory has been allocated",
                  rf"allocated so far: {_SIZE}", rf"\bInUse:\s+{_SIZE}",
                  rf"{_SIZE} allowed and [^;\n]{{1,40}} allocated"),
    "free": (rf"{_SIZE} free", rf"of which {_SIZE} is free", rf"available memory is only {_SIZE}",
    rf"[Ff]ree memory: {_SIZE}", rf"{_SIZE} available on (?:device|GPU)"),
    "reserved": (rf"{_SIZE} reserved in total",),
    # "cached" (PyTorch 1.3 and older) is what is cached without being allocated
    "unallocated": (rf"{_SIZE} is reserved by PyTorch but unallocated", rf"{_SIZE} cached\b"),
    "in_use": (rf"this process has {_SIZE} memory in use",),
}
_OTHER = lazy(rf"Process (?P<pid>\d{{1,9}}) has {_SIZE} memory in use")
_GPU = lazy(
    r"\(GPU (\d{1,3});|GPU (\d{1,3}) has a total|on device (\d{1,3})|on GPU (\d{1,3})|/device:GPU:(\d{1,3})"
    r"|device ordinal (\d{1,3})"
    r"|CUDA(\d{1,2}) buffer|\bcuda:(\d{1,2})\b"
)
_SHAPE = lazy(r"tensor with shape ?\[(?P<shape>[\d, ]{1,80})\](?: and type (?P<type>\w{2,10}))?")
_BYTES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "bool": 1, "int8": 1}
_TF_START = lazy(rf"totalMemory: {_SIZE} freeMemory: (?P<f>\d{{1,6}}(?:\.\d{{1,4}})?)(?P<fu>[KMG]i?B)")
_FREE_LESS = lazy(
    r"Free memory on device[^(\n]{0,30}\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less"
    r" than[^(\n]{0,60}\((?P<share>[\d.]+), (?P<want>[\d.]+) GiB\)"
)
_KV = lazy(
    r"\((?P<want>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory"
    r" \((?P<free>-?[\d.]+) GiB\)"
)
_FRAMEWORKS = (
    ("mxnet", ("mxnet",)),
    ("vllm", ("kv cache", "cache blocks", "gpu_memory_utilization", "gpu memory utilization")),
    ("llama.cpp", ("ggml", "cudamalloc failed", "llama", "cuda0 buffer")),
    ("jax", ("jaxlib", "xlaruntimeerror", "xla", "jax")),
    ("tensorflow", ("tensorflow", "bfc_allocator", "oom when allocating tensor", "resourceexhaustederror",
    "stream_executor")),
    ("cupy", ("cupy",)), ("paddle", ("paddle", "memory has been allocated and available")),
    ("mxnet", ("mxnet", "storage manager", "pooled_storage", "src/storage")), ("onnxruntime", ("onnxruntime",
    "bfcarena")),
    ("xgboost", ("xgboost", "dmlc")), ("tensorrt", ("[trt]", "tensorrt")), ("darknet", ("darknet",
    "./src/cuda.c", "dark_cuda")),
    ("torch", ("pytorch", "torch", "tried to allocate", "thc")), ("caffe", ("caffe", "syncedmem")),
)


def _gib(match: re.Match[str]) -> float:
    unit = match["u"].upper()
    power = 0 if unit in ("BYTES", "B") else _UNIT[unit[0]]
    return float(match["n"].replace(",", "")) * 1024.0**power / 1024.0**3


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _first(patterns: Iterable[str], text: str) -> float | None:
    for pattern in patterns:
        if match := _compiled(pattern).search(text):
            return _gib(match)
    return None


def _bare(text: str) -> float | None:
    """Bytes without a unit: "trying to allocate 12884901888 bytes." has one, BFC's "Limit: 11150726272" has none."""
    match = re.search(r"(?:buffer of size|allocate|allocating|size:?)\s(\d{6,15})\b(?! ?[KMGT])", text)
    return int(match[1]) / 1024.0**3 if match else None


def _wanted(text: str) -> float | None:
    for lead in _ALLOCATE:
        if match := _compiled(rf"{lead}\s+(?:a total of\s+)?{_SIZE}").search(text):
            return _gib(match)
    if shape := _SHAPE.search(text):
        size = math.prod(int(n) for n in shape["shape"].replace(",", " ").split()[:8])
        return size * _BYTES.get((shape["type"] or "float").lower(), 4) / 1024.0**3
    return _bare(text)


def _limit(text: str) -> tuple[float | None, float | None]:
    """(limit, in use) of TensorFlow's BFC dump, which prints bytes without a unit."""
    limit, use = re.search(r"\bLimit:\s{1,40}(\d{6,15})", text), re.search(r"\bInUse:\s{1,40}(\d{4,15})", text)
    return (int(limit[1]) / 1024.0**3 if limit else None, int(use[1]) / 1024.0**3 if use else None)


def _framework(window: str, whole: str) -> str | None:
    for low in (window.lower(), whole):
        for name, words in _FRAMEWORKS:
            if any(word in low for word in words):
                return name
    return None


def _message(evidence: Evidence, text: str, at: int, whole: str) -> Oom:
    """The message that starts on the line at this offset."""
    start = text.rfind("\n", 0, at) + 1
    window = re.sub(r"\s*\n\s*", " ", text[max(start, at - 300) : at + WINDOW])
    again = window.lower().find("tried to allocate", window.lower().find("tried to allocate") + 1)
    if again > 0:  # the next rank's message
        window = window[:again]
    found: dict[str, float | None] = {name: _first(patterns, window) for name, patterns in _FIELDS.items()}
    limit, in_use = _limit(text[at : at + 60_000]) if "bfc" in whole or "Limit:" in window else (None, None)
    found["total"] = found["total"] or limit
    found["allocated"] = found["allocated"] if found["allocated"] is not None else in_use
    if found["reserved"] is None and found["allocated"] is not None and found["unallocated"] is not None:
        found["reserved"] = found["allocated"] + found["unallocated"]
    wanted, kind = _wanted(window), None
    if match := _FREE_LESS.search(window):
        kind, wanted = "startup", float(match["want"])
        found["free"], found["total"] = float(match["free"]), float(match["total"])
        found["in_use"] = 0.0
    elif match := _KV.search(window):
        kind, wanted, found["free"] = "kv-cache", float(match["want"]), max(0.0, float(match["free"]))
    elif re.search(r"cache blocks|KV cache", window):
        kind = "kv-cache"
    others = [(int(m["pid"]), _gib(m)) for m in _OTHER.finditer(window)]
    total, allocated = found["total"], found["allocated"]
    mine = found["reserved"] or allocated
    used = total - (found["free"] or 0.0) if total else 0.0  # of the whole card: no two processes can hold more together
    if others and found["in_use"] is None and mine and used and mine + sum(s for _, s in others) > used * 1.02:
        own = min(others, key=lambda item: abs(item[1] - mine))  # in a container PyTorch does not know its own PID: this is the process itself
        found["in_use"] = own[1]
        others.remove(own)
    if found["in_use"] is not None and mine and kind is None and found["in_use"] < 0.9 * mine:
        found["in_use"] = None  # "this process has 0 bytes memory in use": NVML does not know the container's PID
    gpu = _GPU.search(window)
    return Oom(
        wanted=wanted, gpu=int(next(g for g in gpu.groups() if g)) if gpu else None,
        others=round(sum(size for _, size in others), 2) if others else None, pids=tuple(pid for pid, _ in others),
        text=window[:1000], ref=evidence.ref_at(at), framework=_framework(window, whole), kind=kind, **found,
    )


def _anchors(low: str) -> Iterator[int]:
    """Offsets of the messages, one a line."""
    places = []
    for anchor in ANCHORS:
        at = low.find(anchor)
        count = 0
        while at >= 0 and count < 400:
            places.append(at)
            at = low.find(anchor, at + len(anchor))
            count += 1
    last_line = -1
    for at in sorted(places):
        line = low.rfind("\n", 0, at)
        if line != last_line or last_line == -1:
            yield at
        last_line = line


def read(evidence: Evidence) -> Iterable[Fact]:
    """The out-of-memory messages of the text."""
    text = evidence.text
    low = text.lower()
    if len(low) != len(text):
        text = low
    errors: list[Oom] = []
    whole = low[:100_000]
    covered = -1
    for at in _anchors(low):
        start, end = low.rfind("\n", 0, at) + 1, low.find("\n", at)
        line = low[start : end if end >= 0 else len(low)]
        if at < covered or any(word in line for word in _HOST) or _told(line) or _code(line):
            continue
        if re.search(r"available kv cache memory: [\d.]*[1-9]", line):
            continue  # vLLM's start-up line: room is left
        error = _message(evidence, text, at, whole)
        if error.kind is None and error.wanted is None and "cache" in line and "out of memory" not in line:
            continue
        same = [e for e in errors if _figures(e) == _figures(error)]
        if not same:
            errors.append(error)
        covered = end if end >= 0 else len(low)
        if len(errors) >= MAX_ERRORS:
            break
    if errors:
        errors.sort(key=lambda e: e.ref.line)
        full = [e for e in errors if e.wanted is not None] or errors
        keep = tuple(_started(e, text) for e in full)
        yield OutOfMemory(errors=keep, refs=tuple(e.ref for e in keep[:4]))


def _started(error: Oom, text: str) -> Oom:
    """With TensorFlow 1's figures at the start, where the card was half full by then already: somebody else holds it."""
    match = _TF_START.search(text) if error.total is None else None
    if not match:
        return error
    total, free = _gib(match), float(match["f"]) * 1024.0 ** _UNIT[match["fu"][0].upper()] / 1024.0**3
    return replace(error, total=total, free=free, in_use=0.0) if free < 0.5 * total else error


def _figures(error: Oom) -> tuple[object, ...]:
    return (error.wanted, error.gpu, error.free, error.allocated, error.kind)


def _told(line: str) -> bool:
    """Whether the words are advice, a question or a switch and no message."""
    advice = (
        "if you run out of memory", "to avoid out of memory", "avoid running out of memory", "may run out of memory",
        "if you get out of memory", "in case of out of memory", "prevent out of memory", "could cause out of memory",
        "likely to run out of memory", "this is not a failure", "not an error", "except torch",
        "instead of out of memory", "without out of memory",
    )
    return any(word in line for word in advice)


def _code(line: str) -> bool:
    """Whether it is a line of a program (an except clause), not its output."""
    return line.strip().startswith(("except ", "raise ", "#", "import ", "from ", "def ", "if "))


def looks_like(evidence: Evidence) -> bool:
    """Whether one of the known words stands in it."""
    low = evidence.text.lower()
    return any(anchor in low for anchor in ANCHORS)


SOURCES = (Source(kind="out_of_memory", read=read, looks_like=looks_like, gives=(OutOfMemory,)),)
