"""The expressions that people ask Python, the shapes of the answers, and the labels that they put before a value."""

import re
from collections.abc import Callable

from ongpu.facts.framework import Jax, OnnxRuntime, Python, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.lazy import dataclass, lazy
from ongpu.model import Fact

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
    if "XLA_GPU" in text and not re.search(r"device:GPU:\d", text):
        return 0  # XLA's own device is listed even where TensorFlow could not load CUDA
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


def _session(text: str) -> OnnxRuntime | None:
    found = tuple(re.findall(r"\w+ExecutionProvider", text))
    return OnnxRuntime(session=found) if found else None


def _location(text: str) -> Torch | None:
    folder = re.split(r"[\\/]+torch[\\/]+__init__\.py", text)[0]
    return Torch(location=folder) if folder != text else None


@dataclass(frozen=True)
class Ask:
    """An expression, the shape of its answer, and the fact that the answer gives."""

    what: re.Pattern[str]
    answer: re.Pattern[str]
    fact: Callable[[str], Fact | None]
    about: str


def _ask(what: str, answer: str, fact: Callable[[str], Fact | None], about: str) -> Ask:
    return Ask(lazy(what), lazy(answer), fact, about)


_CUDA_VALUE = r"(?<![\w.+])'?(?P<v>\d{1,2}\.\d{1,2}|None)(?:\.\d{1,3})?'?(?![\w.+])"
ASKS = (
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
    _ask(r"get_available_providers\(\)|get_all_providers\(\)", r"(?P<v>\[[^\]]{0,1000}\])", _providers, "providers"),
    _ask(r"\.get_providers\(\)", r"(?P<v>\[[^\]]{0,1000}\])", _session, "session"),
    _ask(r"\btorch\.__(?:file|path)__", r"(?P<v>(?:/|~|[A-Z]:[\\/])[^\n'\"]+__init__\.py)", _location, "location"),
    _ask(
        r"(?:onnxruntime|ort|rt)\.get_device\(\)",
        r"(?P<v>\b[CG]PU\b)",
        lambda v: OnnxRuntime(providers=("CPUExecutionProvider",)) if v == "CPU" else None,
        "providers",
    ),
    _ask(r"\bsys\.executable", r"(?P<v>(?:/|[A-Z]:\\)[^\s'\"]+)", lambda v: Python(executable=v), "executable"),
    _ask(r"\bsys\.version\b", r"(?<![\w.])(?P<v>[23]\.\d{1,2}\.\d{1,2})", lambda v: Python(version=v), "version"),
)
# Labels that scripts and people put before a value. The value may stand in brackets or after an arrow.
SAID = (
    (
        lazy(
            r"(?:torch\.)?(?:cuda\.|\b)is_available(?:\(\))?[`'\"*]?[ \t]*(?:\)|[`'\"])*[ \t]*(?:is|was|returns?|returned|"
            r"gives?|says|prints?|shows?|outputs?|==?|->|=>|:|,|→|#+|返回|输出|为|是)*"
            r"[ \t]*[:=>]*[ \t]*[`'\"*]*(?P<v>True|False)\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(available=_truth(v)),
        "available",
    ),
    (
        lazy(
            r"(?:is (?:torch )?cuda available|(?:torch[ _])?cuda[ _](?:is[ _])?available|torch[ _.]cuda(?: available)?|gpu available "
            r"\(torch\)|cuda enabled|cuda support)\??(?:\(\))?[ \t]*(?:[:=>\-|?]|is)+[ \t]*[`'\"]?(?P<v>True|False|yes|"
            r"no)\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(available=_truth(v)),
        "available",
    ),
    (
        lazy(r"(?P<v>False|True)[ \t]+(?:for|from|on|at|with)[ \t]+`?torch\.cuda\.is_available", re.IGNORECASE),
        lambda v: Torch(available=_truth(v)),
        "available",
    ),
    (
        lazy(
            r"torch\.version\.cuda[`'\"]?(?:\))?[ \t]*(?:is|returns?|gives?|prints?|shows?|[:=>\-]|→|为|是|输出)+[ \t]*[`'\"]?(?P<v>\d{1,"
            r"2}\.\d{1,2}|None)\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(cuda="" if v.lower() == "none" else v),
        "cuda",
    ),
    (
        lazy(
            r"torch\.__version__[`'\"]?(?:\))?[ \t]*(?:is|returns?|[:=>\-]|→)+[ "
            r"\t]*[`'\"]?(?P<v>\d+\.\d+\.\d+[\w.+]*)",
            re.IGNORECASE,
        ),
        _torch_version,
        "version",
    ),
    (
        lazy(
            r"torch\.cuda\.device_count\(\)[`'\"]?(?:\))?[ \t]*(?:is|returns?|[:=>\-]|→)+[ \t]*(?P<v>\d{1,2})\b",
            re.IGNORECASE,
        ),
        lambda v: Torch(device_count=int(v)),
        "device_count",
    ),
    (
        lazy(
            r"torch\.cuda\.get_arch_list\(\)[`'\"]?(?:\))?[ \t]*(?:is|returns?|[:=>\-]|→)*[ "
            r"\t]*(?P<v>\[[^\]\n]{0,600}\])",
            re.IGNORECASE,
        ),
        lambda v: Torch(archs=tuple(re.findall(r"(?:sm|compute)_\d+\w?", v))),
        "archs",
    ),
    (
        lazy(r"Num(?:ber of)? GPUs? ?(?:Available|found|detected)?\s*[:=]\s*(?P<v>\d{1,2})\b", re.IGNORECASE),
        lambda v: TensorFlow(gpus=int(v)),
        "gpus",
    ),
    (
        lazy(r"\bGPU is[ \t]+(?P<v>(?:NOT )?AVAILABLE)\b"),
        lambda v: TensorFlow(gpus=0) if v.startswith("NOT") else None,
        "gpus",
    ),
    (
        lazy(
            r"list_(?:physical|logical)_devices\([^)\n]{0,40}\)[`'\"]?\)*[ \t]*(?:is|returns?|returned|gives?|"
            r"prints?|shows?|[:=>\-]|→|返回|输出)*[ \t]*(?:an empty list[ \t]*)?(?P<v>\[[^\]\n]{0,600}\])",
            re.IGNORECASE,
        ),
        lambda v: TensorFlow(gpus=_gpus(v)),
        "gpus",
    ),
    (
        lazy(
            r"(?:tf\.test\.)?is_gpu_available\([^)\n]{0,40}\)[`'\"]?[ \t]*(?:is|returns?|returned|[:=>\-]|→)*[ "
            r"\t]*(?P<v>False)\b",
            re.IGNORECASE,
        ),
        lambda v: TensorFlow(gpus=0),
        "gpus",
    ),
    (
        lazy(
            r"is_built_with_cuda(?:\(\))?[`'\"]?[ \t]*(?:is|returns?|returned|prints?|gives?|[:=>\-]|→)*[ \t]*(?P<v>False)\b", re.IGNORECASE
        ),
        lambda v: TensorFlow(cuda=""),
        "cuda",
    ),
    (
        lazy(
            r"jax\.(?:local_)?devices\(\)[`'\"]?\)*[ \t]*(?:is|returns?|shows?|prints?|gives?|only|[:=>\-]|"
            r"→)+[ \t]*(?P<v>\[[^\]\n]{0,600}\])",
            re.IGNORECASE,
        ),
        _jax,
        "backend",
    ),
    (
        lazy(r"(?<!\w)(?P<v>\[(?:CpuDevice\(id=\d+\)|TFRT_CPU_\d+|CudaDevice\(id=\d+\))[^\]\n]{0,400}\])"),
        _jax,
        "backend",
    ),
    (lazy(r"available(?: execution)?(?: providers)?(?: are| is)?[:= ]+(?P<v>\[[^\]]{0,600}\])", re.IGNORECASE), _providers, "providers"),
    (
        lazy(r"get_available_providers\(\)[`'\" ]*(?:==?|->|=>|:|is|are|returns?|gives?|prints?|shows?|→|only|just| )*(?P<v>\[[^\]]{0,600}\])"),
        _providers,
        "providers",
    ),
    (lazy(r"torch\.backends\.cuda\.is_built\(\)[`'\"]?[ \t]*(?:is|returns?|prints?|gives?|[:=>\-]|→)*[ \t]*(?P<v>False)\b"), lambda v: Torch(cuda=""), "cuda"),
    (
        lazy(r"cuda::is_available\(\)[`'\"]?[ \t]*(?:is|returns?|returned|prints?|gives?|[:=>\-]|→)*[ \t]*(?P<v>0|false)\b", re.IGNORECASE),
        lambda v: Torch(available=False),
        "available",
    ),
    (
        lazy(r"get_backend\(\)\.platform[`'\"]?[ \t]*(?:is|returns?|returned|prints?|gives?|[:=>\-]|→)*[ \t]*['\"`]?(?P<v>cpu|gpu)\b"),
        _jax,
        "backend",
    ),
    (
        lazy(r"(?:Applied providers|Active providers|session providers|(?:setting|using|onnx using) (?:execution )?providers?(?: to)?|onnx using|get_providers\(\)\)?\n?#?)[:= \->]*(?P<v>\[[^\]]{0,600}\])", re.IGNORECASE),
        _session,
        "session",
    ),
    (
        lazy(r"(?:onnxruntime|ort|rt)\.get_device\(\)[`'\"]?[ \t]*(?:is|returns?|returned|prints?|gives?|[:=>\-]|→)+[ \t]*[`'\"]?(?P<v>CPU)\b"),
        lambda v: OnnxRuntime(providers=("CPUExecutionProvider",)),
        "providers",
    ),
    (lazy(r"^(?:GPU|gpus?|GPUs?:?)[ =:]+(?P<v>\[\])[ \t]*$", re.MULTILINE), lambda v: TensorFlow(gpus=0), "gpus"),
    (
        lazy(r"(?P<v>\[PhysicalDevice\(name='/physical_device:(?:XLA_)?CPU:0'[^\]]{0,1500}\])"),
        lambda v: TensorFlow(gpus=_gpus(v)),
        "gpus",
    ),
    (lazy(r"torch\.__(?:file|path)__[`'\"]?\)?\s*(?:is|prints?|gives?|shows?|points to|returns?|[:=>\-]|→)*\s*[\['\"`]*(?P<v>(?:/|~|[A-Z]:[\\/])[^\n'\"`]+?__init__\.py)"), _location, "location"),
    (lazy(r"(?<!=)(?<!= )(?<!oviders: )(?<!oviders to )(?P<v>\[\s*'\w+ExecutionProvider'[^\]]{0,600}\])"), _providers, "providers"),
    (
        lazy(
            r"jax\.default_backend\(\)[ \t]*(?:is|returns?|[:=>\-]|→)+[ \t]*['\"`]?(?P<v>cpu|gpu)", re.IGNORECASE
        ),
        _jax,
        "backend",
    ),
)
