"""Environment variables as shells, logs, settings files and Python code tell them."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.environment import Variables
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

# Names that are taken from prose, logs and settings files; `env`, export and prefixes may name any variable.
_OURS = (
    r"(?:CUDA|NVIDIA|NCCL|TORCH|PYTORCH|TF|XLA|JAX|LD|HIP|ROCR|HSA|ROCM|ORT|OLLAMA|VLLM|LLAMA|GGML|BNB|TRITON|"
    r"NUMBA|CUPY|OMP|MKL|GOMP|PYTHON|CONDA|SLURM|"
    r"PBS|KMP|FLASH|DS|FORCE|MAX|USE|ACCELERATE|TRANSFORMERS|HF|RAY|SGLANG|COMMANDLINE|GPU|XFORMERS|CT2|CUDNN|"
    r"CUDACXX|MXNET|FLAGS|KERAS|THEANO|DEVICE|WHISPER|JUPYTER|DGL|DGLBACKEND|TVM|WEBUI|IMMICH|MACHINE)"
    r"(?:_[A-Z0-9_]+)?|COMMANDLINE_ARGS|CC|CXX|PATH|DISPLAY|CUDA_HOME"
)
_SHELL = lazy(
    r"^[ \t]*(?:[#>$%+][ \t]+)?(?:PS [^>\n]{1,80}>[ \t]*)?(?P<how>export[ \t]+|set[ \t]+|setx[ \t]+(?:/[mM][ "
    r"\t]+)?|setenv[ \t]+|declare -x[ \t]+|\$env:|\$Env:|%env[ \t]+|os\.environ |)"
    r"(?P<name>[A-Z][A-Z0-9_]{1,60})(?P<sep>[ \t]*=[ \t]*|[ \t]+)(?P<value>\"[^\"\n]{0,2000}\"|'[^'\n]{0,2000}'|"
    r"[^\n]{0,4000})$",
    re.MULTILINE,
)
_PREFIX = lazy(
    r"(?<![\w./\-\"'])(?P<name>" + _OURS + r")=(?P<value>\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|(?:[^\s;&|\"'`,)]|,(?=[\w\-])){0,"
    r"400})(?=[ \t]+\S|[;&,.`)]|[ \t]*$)",
    re.MULTILINE,
)
_FLAG = lazy(
    r"(?:-e|--env|--setenv|-x|--export)[ =](?:ALL,)?(?P<name>[A-Z][A-Z0-9_]{2,"
    r"60})=(?P<value>\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\s\"',]{0,400})"
)
_CODE = lazy(
    r"(?:os\.)?(?:environ|putenv|setenv)(?:\[[ ]*|\.setdefault\([ ]*|\([ ]*|"
    r"\.__setitem__\([ ]*)(?P<q>['\"])(?P<name>[A-Z][A-Z0-9_]{2,60})(?P=q)[ ]*\]?[ ]*[=,][ ]*(?![=])(?:f|"
    r"str\()?(?P<value>'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|[\w.\-]+)"
)
_JSON = lazy(
    r"(?P<q>['\"])(?P<name>" + _OURS + r")(?P=q)\]?[ ]*[:=][ ]*(?P<value>\"[^\"\n]{0,400}\"|"
    r"'[^'\n]{0,400}'|\d+)"
)
_YAML = lazy(
    r"^[ \t]*(?:-[ ]+)?(?:Environment=)?\"?(?P<name>[A-Z]{2,}_[A-Z0-9_]+)(?::[ ]+|"
    r"=)(?P<value>\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\n\"]{0,400}?)\"?[ \t]*$",
    re.MULTILINE,
)
_SYSTEMD = lazy(r"Environment=\"?(?P<name>[A-Z][A-Z0-9_]{2,60})=(?P<value>[^\"\n]{0,400}?)\"?(?:\s|$)")
_PROSE = lazy(
    r"(?<![\w$\"'\[.])\$?\{?(?P<name>CUDA_VISIBLE_DEVICES|CUDA_HOME|CUDA_PATH|LD_LIBRARY_PATH|CUDA_DEVICE_ORDER|"
    r"TORCH_CUDA_ARCH_LIST|NVIDIA_VISIBLE_DEVICES|"
    r"NVIDIA_DRIVER_CAPABILITIES|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|JAX_PLATFORMS|JAX_PLATFORM_NAME|"
    r"XLA_FLAGS|CUDA_LAUNCH_BLOCKING|PYTHONPATH)\}?"
    r"[`'\"]?(?:[ ]*(?::|->|=>|=|-|→|：|为|是|设为|设置为|设成)[ ]*| (?:is|was|are)(?: set)?(?: to)?:? | (?:currently )?set to | "
    r"to )[`'\"]?(?P<value>\[[^\]\n]{0,200}\]|\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\s`'\",;)]{1,400}|(?=\n|$))",
)
_GOT = lazy(
    r"environ(?:\.get\(|\[)\s*['\"](?P<name>[A-Z][A-Z0-9_]{2,60})['\"][^\n]{0,20}\n[ "
    r"\t]*(?P<value>'[^'\n]{0,400}')"
)
_GOT_INLINE = lazy(
    r"environ(?:\.get\(|\[)\s*['\"](?P<name>[A-Z][A-Z0-9_]{2,60})['\"][\])]+[`]?[ ]*(?:is|was|returns?|prints?|gives?|shows?|->|=>|→)[ :]*"
    r"(?P<value>'[^'\n]{0,400}'|\"[^\"\n]{0,400}\"|(?:an )?empty|-?[\d,]+)",
)
_ECHOED = lazy(
    r"^[ \t]*(?:[$#>%] ?)?(?:echo \$\{?|printenv |echo %)(?P<name>[A-Z][A-Z0-9_]{2,60})[}%]?[ \t]*\n(?P<value>[^\n]{1,400})$", re.MULTILINE
)
_ON_PATH = lazy(
    r"(?P<value>(?:/[\w.\-]+){2,}(?::(?:/[\w.\-]+)+)*)[`'\"]? (?:is |was )?(?:on|in|added to|"
    r"prepended to) (?:the |my )?(?P<name>LD_LIBRARY_PATH)\b"
)
_MAP = lazy(r'\benv="?map\[(?P<pairs>[^\n]{0,8000})')  # Ollama: msg="server config" env="map[NAME:value NAME: ...]"
_MAP_PAIR = lazy(r"(?:^|[ ])(?P<name>" + _OURS + r"):(?P<value>[^\s\]]{0,400})")
_ADVICE = lazy(
    r"(?:\bor|please|try|consider|can|should|may|need to|must|\(|by|to)[ ,]+(?:set|setting|use|"
    r"export|pass|run with|define)[ ]+[`'\"]?(?:the )?(?:environment variable )?[`'\"]?$",
    re.IGNORECASE,
)
_NOT_VALUES = lazy(
    r"^(?:set|not|unset|undefined|none|environment|variable|the|a|an|empty|in|before|after|by|"
    r"correct|correctly|properly|this|your|only|ignored|to|is|be|=)$",
    re.IGNORECASE,
)
_EMPTY = lazy(r"^(?:empty|\"\"|''|\(empty\)|blank)$", re.IGNORECASE)
_ECHO = lazy(
    r"^(?:echo\s+[\"']?(?:\$\{?(?P<a>\w+)\}?|%(?P<b>\w+)%|\$env:(?P<c>\w+))[\"']?|"
    r"printenv\s+(?P<d>\w+)|\$env:(?P<e>\w+))\s*$",
    re.IGNORECASE,
)
_FROM_ENV = lazy(r"^(?:env|printenv|set|export)(?:\s*\|.*)?$")
_GREP = lazy(r"^[ \t]*[\w./-]+:\d+:")
MAX_TEXT = 400_000


def _unquote(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].strip()
    return value


def _assignments(text: str) -> Iterator[tuple[int, str, str]]:
    """(offset, name, value) of all that sets or shows a variable."""
    for told in _MAP.finditer(text):
        for match in _MAP_PAIR.finditer(told["pairs"]):
            if match["value"]:  # an empty one is not set
                yield told.start("pairs") + match.start("name"), match["name"], match["value"]
    text = _MAP.sub(lambda told: " " * len(told.group()), text)
    for match in _SHELL.finditer(text):
        how, sep, value = match["how"].strip(), match["sep"], match["value"]
        if "=" not in sep and how not in ("setenv", "setx", "%env"):
            continue
        if " " in sep and how in ("", "export", "declare -x"):
            continue
        if quoted := re.match(r"(\"[^\"]*\"|'[^']*')(?:[ \t]+[^\s#]|[ \t]*[;&|])", value):
            value = quoted[1]
        elif how in ("", "export", "set", "declare -x") and not value.startswith(("'", '"')):
            words = value.strip().split(None, 1)
            if how == "export":  # export A=1 B=2
                value = words[0] if words and not re.search(r":\s|\\ ", value) else value
            elif (
                how == ""
                and len(words) > 1
                and re.match(
                    r"[A-Z][A-Z0-9_]+=|(?:\S*/)?(?:python|torchrun|"
                    r"accelerate|bash|sh|vllm|ollama|deepspeed|uv|srun|mpirun|\./)",
                    words[1],
                )
            ):
                value = words[0]
            elif (
                how == ""
                and value[:1] in (" ", "\t")
                and re.match(
                    r"\s*(?:\S*/)?(?:python|torchrun|accelerate|"
                    r"\./|bash|sh )",
                    value,
                )
            ):
                value = ""  # CUDA_VISIBLE_DEVICES= python train.py
        if how in ("", "export", "set") and (number := re.match(r"(-?\d+(?:,\d+)*)\s+[A-Za-z(]", value)):
            value = number[1]
        if how in ("", "export", "set") and (prose := re.match(r"([\w,:/\-]*)[,;.]\s+(?:but|and|I|we|my|then|still|it|the|nvidia|Runtime|so)\b", value)):
            value = prose[1]
        value = re.split(r"\s+(?:#|&&|;)\s*|;(?:\s|$)|\s+\\$", _unquote(value) if value[:1] in "\"'" else value)[0]
        yield match.start("name"), match["name"], _unquote(value)
    for pattern in (_PREFIX, _FLAG, _CODE, _JSON, _SYSTEMD):
        for match in pattern.finditer(text):
            if pattern is _CODE and match["value"][:1] not in "\"'" and not match["value"].lstrip("-").isdigit():
                continue
            yield match.start("name"), match["name"], _unquote(match["value"])
    for match in _YAML.finditer(text):
        if re.fullmatch(_OURS, match["name"]):
            yield match.start("name"), match["name"], _unquote(match["value"])
    for pattern in (_GOT, _GOT_INLINE, _ECHOED, _ON_PATH):
        for match in pattern.finditer(text):
            value = _unquote(match["value"])
            yield match.start("name"), match["name"], "" if value.endswith("empty") else value
    for match in _PROSE.finditer(text):
        value = _unquote(match["value"].strip("`"))
        if value.startswith("["):
            value = value.strip("[] ").replace(" ", "")
        if _EMPTY.match(value):
            value = ""
        elif _NOT_VALUES.match(value):
            continue
        yield match.start("name"), match["name"], value.rstrip(".")


def _echoed(evidence: Evidence, text: str) -> tuple[int, str, str] | None:
    """The variable that `echo $NAME` printed."""
    match = _ECHO.match((evidence.command or "").strip())
    if not match:
        return None
    name = next(group for group in match.groups() if group)
    lines = text.split("\n")
    at = next((n for n, line in enumerate(lines) if evidence.command and evidence.command in line), -1) + 1
    shown = next((line.strip() for line in lines[at:] if line.strip()), "")
    offset = sum(len(line) + 1 for line in lines[:at]) if shown else 0
    return min(offset, max(0, len(text) - 1)), name, shown


_USES_CUDA = lazy(
    r"torch\.cuda\.(?:is_available|device_count|current_device|get_device_\w+|init|set_device|empty_cache|"
    r"synchronize|mem\w*|current_stream|Stream)\(|"
    r"\.cuda\(|\.to\(\s*(?:f?['\"]cuda|device\b|args\.device)|device\s*=\s*f?['\"]cuda|list_(?:physical|logical|"
    r"local)_devices\(|is_gpu_available\(|"
    r"\bjax\.(?:local_)?devices\(|\btf\.(?:Session|constant|Variable)\(|\bcupy\.\w+\(|\bcp\.(?:array|zeros|cuda)\b|"
    r"set_memory_growth\("
)
_SETS_VISIBLE = lazy(
    r"environ(?:\[\s*['\"](?:CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER)['\"]\s*\]\s*=(?!=)|"
    r"(?:\.setdefault\(|\.update\()\s*\{?\s*['\"](?:CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER)['\"])"
)


def _late(evidence: Evidence, text: str) -> tuple[Ref, ...]:
    """In Python code: the first line that uses CUDA and the later one that sets CUDA_VISIBLE_DEVICES, else ()."""
    used: tuple[int, int] | None = None  # (offset, indent)
    inside: int | None = None  # indent of the function whose body is being read
    offset = 0
    for line in text.split("\n"):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if bare and inside is not None and indent <= inside:
            inside = None
        if match := re.match(r"(?:async )?def \w+", bare):
            inside = indent if inside is None else inside
            if used and used[1] > 0 and match:
                used = None  # what another function does comes in no known order
        code = bare.partition("#")[0]
        if used and _SETS_VISIBLE.search(code):
            return evidence.ref_at(used[0]), evidence.ref_at(offset)
        if _SETS_VISIBLE.search(code):
            return ()
        if used is None and code and _USES_CUDA.search(code) and not re.match(r"(?:def|class|@|import|from)\b", code):
            used = (offset, indent if inside is not None else 0)
        offset += len(line) + 1
    return ()


_IMPORTS = lazy(r"^\s*(?:import|from)\s+(?:torch|tensorflow|jax|cupy|keras|paddle|mxnet|numba\.cuda|pycuda)\b")


def _after_import(evidence: Evidence, text: str) -> tuple[Ref, ...]:
    """The import of a framework and the later line of the same code that sets CUDA_VISIBLE_DEVICES, else ()."""
    at: int | None = None
    offset = 0
    for line in text.split("\n"):
        if _SETS_VISIBLE.search(line.partition("#")[0]):
            return () if at is None else (evidence.ref_at(at), evidence.ref_at(offset))
        if at is None and _IMPORTS.match(line):
            at = offset
        offset += len(line) + 1
    return ()


def read(evidence: Evidence) -> Iterable[Fact]:
    """The variables, the first setting of each."""
    text = evidence.text[:MAX_TEXT]
    values: dict[str, str] = {}
    lines: dict[str, Ref] = {}
    echoed = _echoed(evidence, text)
    told = [
        item
        for item in _assignments(text)
        if not _ADVICE.search(text[max(0, item[0] - 60) : item[0]].rpartition("\n")[2])
    ]
    found = sorted({(at, name): value for at, name, value in reversed(told)}.items())
    for (at, name), value in [*([((echoed[0], echoed[1]), echoed[2])] if echoed else []), *found]:
        before = values.get(name)
        if before is not None and re.search(rf"\$\{{?{name}\b", value):
            for form in (f"${{{name}}}", f"${name}"):  # X=$X:more
                value = value.replace(form, before)
            values[name] = value[:4000]
        elif before is None and not (echoed and name == echoed[1] and value.startswith("$")):
            values[name] = value[:4000]
            lines[name] = evidence.ref_at(at)
    late = _late(evidence, text) if "CUDA_VISIBLE_DEVICES" in values or "CUDA_DEVICE_ORDER" in values else ()
    if values:
        whole = bool(evidence.command and _FROM_ENV.match(evidence.command.strip()) and "|" not in evidence.command)
        yield Variables(
            values=values,
            lines=lines,
            set_late=late,
            set_after_import=_after_import(evidence, text) if _SETS_VISIBLE.search(text) else (),
            complete=True if whole and {"PATH", "HOME"} & values.keys() else None,
            refs=tuple(lines.values())[:4],
        )


SOURCES = (
    Source(
        kind="env_vars",
        read=read,
        looks_like=lambda evidence: bool(
            re.search(r"[A-Z]{2,}[A-Z0-9_]*|echo|env", evidence.text + (evidence.command or ""))
        ),
        gives=(Variables,),
        settle="env | grep -E 'CUDA|NVIDIA|LD_LIBRARY_PATH|TORCH|TF_|XLA|JAX'",
    ),
)
