"""What Python answered at a prompt or to `python -c`: is_available(), versions, device lists, providers."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ongpu.facts.framework import Jax, OnnxRuntime, Python, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.model import Evidence, Fact, Ref, Source

MAX_TEXT = 300_000
_BOOL = r"\b(?P<v>True|False)\b"
_VERSION = r"(?<![\w.])(?P<v>\d+\.\d+(?:\.\d+)?(?:[.\w]*(?:\+[\w.]+)?)?)"
_LIST = r"(?P<v>\[[^\]]{0,3000}\])"


def _truth(value: str) -> bool | None:
    low = value.lower().rstrip(".")
    return True if low in ("true", "yes", "1") else False if low in ("false", "no", "0") else None


def _torch_version(value: str) -> Torch | None:
    local = value.partition("+")[2]
    cuda = None
    if match := re.match(r"cu(\d{2,3})$", local):
        cuda = f"{match[1][:-1]}.{match[1][-1]}"
    elif local.startswith("cpu"):
        cuda = ""
    return Torch(version=value, cuda=cuda, hip=local[4:] if local.startswith("rocm") else None)


def _gpus(text: str) -> int:
    named = re.findall(r"(?:physical_device|device):(?:XLA_)?GPU:(\d+)", text)
    return len(set(named)) or len(re.findall(r"device_type:? ?[='\"]+ ?'?GPU", text))


def _jax(text: str) -> Jax | None:
    low = text.lower()
    if re.search(r"cuda(?:device)?\(|cudadevice|gpudevice|gpu:\d|stream_executor|rocm(?:device)?\(", low):
        return Jax(backend="gpu")
    return Jax(backend="cpu") if "cpu" in low else None


def _providers(text: str) -> OnnxRuntime | None:
    found = tuple(re.findall(r"\w+ExecutionProvider", text))
    return OnnxRuntime(providers=found) if found else None


@dataclass(frozen=True)
class _Ask:
    """An expression, the shape of its answer, and the fact that the answer gives."""

    what: re.Pattern[str]
    answer: re.Pattern[str]
    fact: Callable[[str], Fact | None]
    about: str


def _ask(what: str, answer: str, fact: Callable[[str], Fact | None], about: str) -> _Ask:
    return _Ask(re.compile(what), re.compile(answer), fact, about)


_CUDA_VALUE = r"(?<![\w.+])'?(?P<v>\d{1,2}\.\d{1,2}|None)'?(?![\w.+])"
_ASKS = (
    _ask(r"\btorch\.__version__|torch\.version\.__version__", _VERSION, _torch_version, "version"),
    _ask(r"torch\.version\.cuda", _CUDA_VALUE, lambda v: Torch(cuda="" if v == "None" else v), "cuda"),
    _ask(
        r"torch\.version\.hip", r"(?P<v>\d+\.\d[\w.\-]*|None)", lambda v: None if v == "None" else Torch(hip=v), "hip"
    ),
    _ask(r"(?:torch\.)?cuda\.is_available\(\)", _BOOL, lambda v: Torch(available=_truth(v)), "available"),
    _ask(
        r"torch\.cuda\.device_count\(\)",
        r"(?<![\w.:])(?P<v>\d{1,2})(?![\w.:])",
        lambda v: Torch(device_count=int(v)),
        "device_count",
    ),
    _ask(
        r"torch\.cuda\.get_arch_list\(\)",
        _LIST,
        lambda v: Torch(archs=tuple(re.findall(r"(?:sm|compute)_\d+\w?", v))),
        "archs",
    ),
    _ask(
        r"torch\.backends\.cudnn\.version\(\)",
        r"(?<![\w.])(?P<v>\d{4,6}|None)",
        lambda v: Torch(cudnn="" if v == "None" else v),
        "cudnn",
    ),
    _ask(
        r"torch\.cuda\.get_device_name\(",
        r"(?P<v>(?:NVIDIA|GeForce|Tesla|Quadro|RTX|GTX|AMD|Radeon|TITAN|A\d{2,"
        r"3}|H\d{3}|L\d{1,2})[ \w()\-]*)",
        lambda v: Gpus(names=(v.strip(),)),
        "names",
    ),
    _ask(
        r"\b(?:tf|tensorflow)\.(?:__version__|version\.VERSION)", _VERSION, lambda v: TensorFlow(version=v), "version"
    ),
    _ask(
        r"(?:config|experimental)\.list_(?:physical|logical)_devices\(|device_lib\.list_local_devices\(",
        r"(?P<v>\[\s*\]|\[(?:Physical|Logical)Device\([\s\S]{0,3000}?\)\s*\]|"
        r"\[name:[\s\S]{0,6000}?\n\])",
        lambda v: TensorFlow(gpus=_gpus(v)),
        "gpus",
    ),
    _ask(r"tf\.test\.is_gpu_available\(", _BOOL, lambda v: TensorFlow(gpus=0) if v == "False" else None, "gpus"),
    _ask(
        r"tf\.test\.is_built_with_(?:cuda|gpu_support)\(\)",
        _BOOL,
        lambda v: TensorFlow(cuda="") if v == "False" else None,
        "cuda",
    ),
    _ask(
        r"tf\.test\.gpu_device_name\(\)",
        r"(?P<v>''|\"\"|/device:GPU:\d)",
        lambda v: TensorFlow(gpus=1 if "GPU" in v else 0),
        "gpus",
    ),
    _ask(r"\bjax\.__version__", _VERSION, lambda v: Jax(version=v), "version"),
    _ask(
        r"\bjax\.(?:local_)?devices\(|xla_bridge\.get_backend\(\)\.platform|jax\.default_backend\(\)|"
        r"jax\.lib\.xla_bridge",
        r"(?P<v>\[[^\]]{0,2000}\]|\b(?:cpu|gpu|cuda|rocm)\b)",
        _jax,
        "backend",
    ),
    _ask(r"(?:onnxruntime|ort|rt)\.__version__", _VERSION, lambda v: OnnxRuntime(version=v), "version"),
    _ask(r"get_available_providers\(\)|\.get_providers\(\)", r"(?P<v>\[[^\]]{0,1000}\])", _providers, "providers"),
    _ask(
        r"(?:onnxruntime|ort|rt)\.get_device\(\)",
        r"(?P<v>\b[CG]PU\b)",
        lambda v: OnnxRuntime(providers=("CPUExecutionProvider",)) if v == "CPU" else None,
        "providers",
    ),
    _ask(r"\bsys\.executable", r"(?P<v>(?:/|[A-Z]:\\)[^\s'\"]+)", lambda v: Python(executable=v), "executable"),
    _ask(r"\bsys\.version\b", r"(?<![\w.])(?P<v>[23]\.\d{1,2}\.\d{1,2})", lambda v: Python(version=v), "version"),
)
_PROMPT = re.compile(r"^[ \t]*(?:>>>|In ?\[\d*\]:|Out\[\d+\]:|\.\.\.)[ \t]?(?P<code>.*)$", re.MULTILINE)
_ONE_LINER = re.compile(
    r"(?:python[\d.]*(?:w)?(?:\.exe)?[\"']?[ \t]+(?:-\w+[ \t]+)*-c|print\(|from torch|import torch)", re.IGNORECASE
)
# Labels that scripts and people put before a value. The value may stand in brackets or after an arrow.
_SAID = (
    (
        re.compile(
            r"(?:torch\.)?cuda\.is_available(?:\(\))?[`'\"*]?[ \t]*(?:\)|[`'\"])*[ \t]*(?:is|was|returns?|returned|"
            r"gives?|says|prints?|shows?|outputs?|==?|->|=>|:|,|→|#+|返回|输出|为|是)*"
            r"[ \t]*[:=>]*[ \t]*[`'\"*]*(?P<v>True|False)\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(available=_truth(v)),
        "available",
    ),
    (
        re.compile(
            r"(?:is (?:torch )?cuda available|cuda[ _](?:is[ _])?available|torch cuda(?: available)?|gpu available "
            r"\(torch\)|cuda enabled|cuda support)\??(?:\(\))?[ \t]*(?:[:=>\-|?]|is)+[ \t]*[`'\"]?(?P<v>True|False|yes|"
            r"no)\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(available=_truth(v)),
        "available",
    ),
    (
        re.compile(r"(?P<v>False|True)[ \t]+(?:for|from|on|at|with)[ \t]+`?torch\.cuda\.is_available", re.IGNORECASE),
        lambda v: Torch(available=_truth(v)),
        "available",
    ),
    (
        re.compile(
            r"torch\.version\.cuda[`'\"]?(?:\))?[ \t]*(?:is|returns?|gives?|[:=>\-]|→)+[ \t]*[`'\"]?(?P<v>\d{1,"
            r"2}\.\d{1,2}|None)\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(cuda="" if v.lower() == "none" else v),
        "cuda",
    ),
    (
        re.compile(
            r"torch\.__version__[`'\"]?(?:\))?[ \t]*(?:is|returns?|[:=>\-]|→)+[ "
            r"\t]*[`'\"]?(?P<v>\d+\.\d+\.\d+[\w.+]*)",
            re.IGNORECASE,
        ),
        _torch_version,
        "version",
    ),
    (
        re.compile(
            r"torch\.cuda\.device_count\(\)[`'\"]?(?:\))?[ \t]*(?:is|returns?|[:=>\-]|→)+[ \t]*(?P<v>\d{1,2})\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(device_count=int(v)),
        "device_count",
    ),
    (
        re.compile(
            r"torch\.cuda\.get_arch_list\(\)[`'\"]?(?:\))?[ \t]*(?:is|returns?|[:=>\-]|→)*[ "
            r"\t]*(?P<v>\[[^\]\n]{0,600}\])",
            re.IGNORECASE,
        ),
        lambda v: Torch(archs=tuple(re.findall(r"(?:sm|compute)_\d+\w?", v))),
        "archs",
    ),
    (
        re.compile(r"Num(?:ber of)? GPUs? ?(?:Available|found|detected)?\s*[:=]\s*(?P<v>\d{1,2})\b", re.IGNORECASE),
        lambda v: TensorFlow(gpus=int(v)),
        "gpus",
    ),
    (
        re.compile(r"\bGPU is[ \t]+(?P<v>(?:NOT )?AVAILABLE)\b"),
        lambda v: TensorFlow(gpus=0) if v.startswith("NOT") else None,
        "gpus",
    ),
    (
        re.compile(
            r"list_(?:physical|logical)_devices\([^)\n]{0,40}\)[`'\"]?\)*[ \t]*(?:is|returns?|returned|gives?|"
            r"prints?|shows?|[:=>\-]|→|返回|输出)*[ \t]*(?:an empty list[ \t]*)?(?P<v>\[[^\]\n]{0,600}\])",
            re.IGNORECASE,
        ),
        lambda v: TensorFlow(gpus=_gpus(v)),
        "gpus",
    ),
    (
        re.compile(
            r"(?:tf\.test\.)?is_gpu_available\([^)\n]{0,40}\)[`'\"]?[ \t]*(?:is|returns?|returned|[:=>\-]|→)+[ "
            r"\t]*(?P<v>False)\b",
            re.IGNORECASE,
        ),
        lambda v: TensorFlow(gpus=0),
        "gpus",
    ),
    (
        re.compile(
            r"is_built_with_cuda\(\)[`'\"]?[ \t]*(?:is|returns?|returned|[:=>\-]|→)+[ \t]*(?P<v>False)\b", re.IGNORECASE
        ),
        lambda v: TensorFlow(cuda=""),
        "cuda",
    ),
    (
        re.compile(
            r"jax\.(?:local_)?devices\(\)[`'\"]?\)*[ \t]*(?:is|returns?|shows?|prints?|gives?|only|[:=>\-]|"
            r"→)+[ \t]*(?P<v>\[[^\]\n]{0,600}\])",
            re.IGNORECASE,
        ),
        _jax,
        "backend",
    ),
    (
        re.compile(r"(?<!\w)(?P<v>\[(?:CpuDevice\(id=\d+\)|TFRT_CPU_\d+|CudaDevice\(id=\d+\))[^\]\n]{0,400}\])"),
        _jax,
        "backend",
    ),
    (re.compile(r"(?<!=)(?<!= )(?P<v>\[\s*'\w+ExecutionProvider'[^\]]{0,600}\])"), _providers, "providers"),
    (
        re.compile(
            r"jax\.default_backend\(\)[ \t]*(?:is|returns?|[:=>\-]|→)+[ \t]*['\"`]?(?P<v>cpu|gpu)", re.IGNORECASE
        ),
        _jax,
        "backend",
    ),
)


_PRINTED = re.compile(
    r"^(?P<code>print\((?:[^\n]{0,200})(?:torch|tf|jax|ort|onnxruntime|sys)\.[^\n]{0,"
    r"200})\n(?P<out>(?!print|import|from)[^\n]{1,600}(?:\n(?!print|import|from|[$>#])[^\n]{1,300}){0,3})",
    re.MULTILINE,
)


def _statements(text: str) -> Iterator[tuple[int, str, int, str]]:
    """(offset, code, offset of the output, output) of each prompt of a session."""
    prompts = list(_PROMPT.finditer(text))
    code, start = "", 0
    for n, match in enumerate(prompts):
        end = prompts[n + 1].start() if n + 1 < len(prompts) else min(len(text), match.end() + 8000)
        if match.group().lstrip().startswith("Out["):
            yield start or match.start(), code, match.start("code"), text[match.start("code") : end]
            continue
        if match.group().lstrip().startswith("...") and code:
            code += "\n" + match["code"]
        else:
            code, start = match["code"], match.start()
        yield start, code, match.end(), text[match.end() : end]


def _answers(code: str, output: str) -> Iterator[tuple[_Ask, int, str]]:
    """What the code asks, in its order, each with the next answer of its shape in the output."""
    asked = sorted(
        ((match.start(), ask) for ask in _ASKS if (match := ask.what.search(code))), key=lambda item: item[0]
    )
    at = 0
    for _, ask in asked:
        match = ask.answer.search(output, at)
        if match and match["v"]:
            yield ask, match.start("v"), match["v"]
            at = match.end("v")


def _with_ref(fact: Fact, ref: Ref) -> Fact:
    return replace(fact, refs=(ref,))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The facts that the answers give."""
    text = evidence.text[:MAX_TEXT]
    seen: set[tuple[type, str]] = set()

    def give(fact: Fact | None, at: int, about: str) -> Iterator[Fact]:
        if fact is not None and (type(fact), about) not in seen:
            seen.add((type(fact), about))
            yield _with_ref(fact, evidence.ref_at(at, about))

    for _, code, offset, output in _statements(text):
        for ask, at, value in _answers(code, output):
            yield from give(ask.fact(value), offset + at, ask.about)
    command = evidence.command or ""
    if _ONE_LINER.search(command):
        begin = text.find(command)
        begin = begin + len(command) if begin >= 0 else min(len(text), len(command))
        for ask, at, value in _answers(command, text[begin:]):
            yield from give(ask.fact(value), begin + at, ask.about)
    for match in re.finditer(r"^(?P<code>.*python[\d.]* (?:-\w )*-c.*)$", text, re.MULTILINE):
        after = text[match.end() : match.end() + 4000]
        for ask, at, value in _answers(match["code"], after):
            yield from give(ask.fact(value), match.end() + at, ask.about)
    for pattern, make, about in _SAID:
        if said := pattern.search(text):
            yield from give(make(said["v"]), said.start("v"), about)
    for match in _PRINTED.finditer(text):
        for ask, at, value in _answers(match["code"], match["out"]):
            yield from give(ask.fact(value), match.start("out") + at, ask.about)
    for match in re.finditer(
        r"^[ \t]*(?:print\()?(?P<code>(?:torch|tf|tensorflow|jax|onnxruntime|"
        r"ort)\.[\w.]+(?:\([^\n)]{0,60}\))?)\)?[ \t]*\n(?P<out>[^\n]{1,2000})",
        text,
        re.MULTILINE,
    ):
        for ask, at, value in _answers(match["code"], match["out"]):
            yield from give(ask.fact(value), match.start("out") + at, ask.about)


def _looks(evidence: Evidence) -> bool:
    low = (evidence.text[:MAX_TEXT] + (evidence.command or "")).lower()
    return any(
        word in low for word in ("torch", "cuda", "tf.", "tensorflow", "jax", "provider", "devices", "gpu", ">>>")
    )


SOURCES = (
    Source(
        kind="interactive",
        read=read,
        looks_like=_looks,
        gives=(Torch, TensorFlow, Jax, OnnxRuntime, Python, Gpus),
        settle="python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), "
        "torch.cuda.get_arch_list())'",
    ),
)
